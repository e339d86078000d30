"""The report's sections of Connect clusters and of replicas."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from spark_assign.report.formatting import NONE, cell, count, number, ratio, seconds
from spark_assign.report.html import drawings
from spark_assign.report.html.plan_section import any_table, rejected_table
from spark_assign.report.html.report_data import ConnectRows, ReplicaRows, Row, Rows
from spark_assign.report.html.table import Length, Table


@dataclass(frozen=True)
class Picture:
    """A drawing with its heading."""

    heading: str
    picture: Markup


@dataclass(frozen=True)
class ClusterSection:
    """Tables, what is said above them, and drawings below."""

    said: Sequence[str]
    tables: Sequence[Table]
    drawings: Sequence[Picture] = ()


PROTOCOLS = ("eager", "compatible", "sessioned", "compatible-2.6")
"""The order in which protocols of Connect stand; eager, which the others are held against, first."""


def of_connect(rows: ConnectRows) -> ClusterSection:
    """Connect clusters, in one rebalance and over time; see `ConnectRows`."""
    said, tables = [], []
    if rows.metrics:
        tables.append(_rebalanced(rows))
    if rows.totals:
        said += _cheaper(rows.totals)
        tables.append(_bill(rows.totals))
    if len({row["connect_cluster"] for row in rows.costs}) > 1:
        tables.append(_losing(rows.costs))
    if rows.rejected:
        tables.append(rejected_table(rows.rejected))
    return ClusterSection(said, tables, _courses(rows))


def _rebalanced(rows: ConnectRows) -> Table:
    """One rebalance of each cluster; how many tasks a worker has, from the fewest to the most, before and after."""
    titles = ("Revoked", "Assigned", "Lost", "Waiting", "Workers", "Connectors", "Tasks")
    most = max(row[f"max_tasks_{when}"] for row in rows.metrics for when in ("before", "after")) or 1
    delayed = any(row.get("delay_ms") for row in rows.metrics)
    more = f"Shown are {len(rows.metrics):,} of {rows.total:,}. " if rows.total > len(rows.metrics) else ""
    return Table(
        "Connect clusters in their next rebalance, most revoked first",
        [
            *(("Cluster", False), ("Protocol", False), ("Tasks per worker before", True), ("after", True)),
            *((title, True) for title in titles),
            *([("All join again after", True)] if delayed else []),
        ],
        [
            [
                *(row["connect_cluster"], row["protocol"]),
                *(_from_to(row, "tasks", when, most) for when in ("before", "after")),
                *(number(row[title.lower()]) for title in titles),
                *([seconds(row["delay_ms"]) if row["delay_ms"] else NONE] if delayed else []),
            ]
            for row in rows.metrics
        ],
        f"{more}A bar begins at the worker with the fewest tasks and ends at the one with the most. Waiting: "
        "connectors and tasks of a worker that is gone, kept for it until the delay is over.",
    )


def _from_to(row: Row, what: str, when: str, most: int) -> Length:
    low, high = row[f"min_{what}_{when}"], row[f"max_{what}_{when}"]
    words = number(low) if low == high else f"{number(low)} to {number(high)}"
    kind = "was" if when == "before" else "is"
    return Length(kind, words, wide=max(100 * (high - low) / most, 1.5 if high else 0), left=100 * low / most * 0.985)


def _order(row: Row) -> tuple[int, str]:
    name = row["protocol"]
    return (PROTOCOLS.index(name) if name in PROTOCOLS else len(PROTOCOLS), name)


def _hours(ms: int) -> str:
    return f"{ms / 3_600_000:,.1f}"


def _cheaper(totals: Rows) -> list[str]:
    """What the incremental protocols save."""
    eager = next((row for row in totals if row["protocol"] == "eager"), None)
    others = [row for row in sorted(totals, key=_order) if row is not eager]
    if eager is None or not others:
        return []
    one = others[0]
    many, few = (number(row["stops"] + row["starts"]) for row in (eager, one))
    long, short = (_hours(row["task_ms_not_running"]) for row in (eager, one))
    return [
        f"The same events stop and start {many} connectors and tasks with eager, {few} with {one['protocol']}; tasks "
        f"do not run for {long} and {short} hours, all tasks together."
    ]


_BILL = ("Rebalances", "Stops", "Starts", "Gone with a worker", "Task-hours not running")


def _sums(row: Row) -> list[str]:
    return [*(number(row[name]) for name in ("rounds", "stops", "starts", "gone")), _hours(row["task_ms_not_running"])]


def _bill(rows: Rows) -> Table:
    """A line per protocol."""
    return Table(
        "What the same events cost with each protocol",
        [("Protocol", False), ("Clusters", True), *((title, True) for title in _BILL)],
        [[row["protocol"], number(row["clusters"]), *_sums(row)] for row in sorted(rows, key=_order)],
        "Stops and starts of connectors and tasks by workers.",
    )


def _losing(rows: Rows) -> Table:
    return Table(
        "Connect clusters that lose most",
        [("Cluster", False), ("Protocol", False), *((title, True) for title in _BILL)],
        [[row["connect_cluster"], row["protocol"], *_sums(row)] for row in rows],
    )


def _courses(rows: ConnectRows) -> list[Picture]:
    """Stops and starts over time, a drawing per Connect cluster with a line per protocol."""
    drawn: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows.rounds:
        drawn[row["connect_cluster"]][row["protocol"]].append(row)
    costs = {(row["connect_cluster"], row["protocol"]): row for row in rows.costs}
    names = list(dict.fromkeys(row["connect_cluster"] for row in rows.costs if row["connect_cluster"] in drawn))
    found = []
    for at, name in enumerate(names, start=1):
        lines = [
            drawings.LineSeries(
                protocol,
                [(row["at_ms"], row["so_far"]) for row in drawn[name][protocol]],
                _cost(costs.get((name, protocol)), drawn[name][protocol]),
            )
            for protocol in sorted(drawn[name], key=lambda each: _order({"protocol": each}))
        ]
        title = f"Stops and starts in {name}, added up"
        picture = drawings.courses(lines, f"connect{at}", title, "time since the first rebalance")
        found.append(Picture(f"{name}: connectors and tasks stopped and started, added up", picture))
    return found


def _cost(cost: Row | None, points: Rows) -> str:
    if cost is None:
        return f"{number(points[-1]['so_far'])} stops and starts"
    return (
        f"{count(cost['rounds'], 'rebalance')}, {number(cost['stops'])} stops and {number(cost['starts'])} starts, "
        f"{_hours(cost['task_ms_not_running'])} task-hours not running"
    )


# --- replicas ---------------------------------------------------------------------------------------------------


def of_replicas(rows: ReplicaRows) -> ClusterSection:
    """Replicas, placed, reassigned or checked; see `ReplicaRows`."""
    tables = []
    if rows.metrics:
        tables.append(_reassigned(rows.metrics))
    if rows.loads:
        tables.append(_loads(rows.loads))
    if rows.reasons:
        tables.append(any_table("Replicas that move, by reason", rows.reasons))
    if rows.clusters:
        tables.append(_checked(rows.clusters))
    if rows.brokers:
        tables.append(_brokers(rows.brokers))
    if len(rows.racks) > 1:
        tables.append(any_table("Racks", rows.racks))
    if rows.problem_counts:
        tables.append(any_table("Partitions with a problem, by code", rows.problem_counts))
    if rows.problems:
        more = f"Shown are the first {len(rows.problems):,}; the table problems has all." if rows.problem_counts else ""
        tables.append(any_table("Problems", rows.problems, more))
    if rows.rejected:
        tables.append(rejected_table(rows.rejected))
    return ClusterSection(_told(rows), tables)


def _told(rows: ReplicaRows) -> list[str]:
    """The reassignment, or the check, in a sentence."""
    if rows.metrics:
        moved, bound, replicas = (
            sum(row[name] for row in rows.metrics) for name in ("moved", "lower_bound", "replicas")
        )
        fewest = "and no plan moves fewer" if moved == bound else f"and no plan moves fewer than {number(bound)}"
        return [f"{number(moved)} of {count(replicas, 'replica')} move, {fewest}."]
    if rows.clusters:
        bad = sum(row[name] for row in rows.clusters for name, _ in _PROBLEMS)
        found = "Nothing is wrong with them" if not bad else f"{count(bad, 'finding')} on single partitions"
        return [f"{count(sum(row['replicas'] for row in rows.clusters), 'replica')} were checked. {found}."]
    return []


def _reassigned(rows: Rows) -> Table:
    titles = ("Brokers", "Replicas", "Moved", "Lower bound", "Moved bytes", "Leaders changed")
    return Table(
        "Reassignment, a line per cluster",
        [
            *(("Cluster", False), *((title, True) for title in titles)),
            *(("Replicas per broker", False), ("Leaders per broker", False), ("Outside tolerance", False)),
        ],
        [
            [
                row["cluster"],
                *(cell(row[title.lower().replace(" ", "_")]) for title in titles),
                *(f"{number(row[f'min_{what}'])} to {number(row[f'max_{what}'])}" for what in ("replicas", "leaders")),
                f"{count(row['brokers_outside'], 'broker')}, {count(row['leaders_outside'], 'leader')}",
            ]
            for row in rows
        ],
    )


def _loads(rows: Rows) -> Table:
    """A line per broker: replicas and preferred leaders, before and after."""
    sides = ("before", "after") if any(row["replicas_before"] is not None for row in rows) else ("after",)
    return Table(
        "Replicas and preferred leaders of each broker" + (", before and after" if len(sides) > 1 else ""),
        [
            ("Broker", False),
            *((f"{what} {when}", True) for what in ("Replicas", "Leaders") for when in sides),
        ],
        [
            [
                f"{row['cluster']}/{row['broker_id']}",
                *(_length(rows, row, what, when) for what in ("replicas", "leaders") for when in sides),
            ]
            for row in rows
        ],
    )


def _length(rows: Rows, row: Row, what: str, when: str) -> Length:
    most = max((each[f"{what}_{side}"] or 0 for each in rows for side in ("before", "after")), default=0) or 1
    value = row[f"{what}_{when}"]
    return Length("was" if when == "before" else "is", number(value), wide=100 * (value or 0) / most)


_PROBLEMS = (
    ("shared_rack", "Shared rack"),
    ("fenced_broker", "Fenced broker"),
    ("unknown_broker", "Unknown broker"),
    ("duplicate_replica", "Duplicate replica"),
    ("too_few_replicas", "Too few replicas"),
    ("uneven_replication_factor", "Uneven replication factor"),
)


def _checked(rows: Rows) -> Table:
    sizes = ("Brokers", "Partitions", "Replicas")
    return Table(
        "Clusters that were checked; partitions with each problem",
        [
            ("Cluster", False),
            *((title, True) for title in sizes),
            *(("Replicas over mean", False), ("Leaders over mean", False)),
            *((title, True) for _, title in _PROBLEMS),
        ],
        [
            [
                row["cluster"],
                *(number(row[title.lower()]) for title in sizes),
                *(_span(row, what) for what in ("replicas", "leaders")),
                *(number(row[name]) for name, _ in _PROBLEMS),
            ]
            for row in rows
        ],
    )


def _span(row: Row, what: str) -> str:
    return f"{ratio(row[f'min_{what}_over_mean'])} to {ratio(row[f'max_{what}_over_mean'])}"


def _brokers(rows: Rows) -> Table:
    most: dict[str, Any] = {name: max(row[name] for row in rows) or 1 for name in ("replicas", "leaders")}
    fenced = any(row["fenced"] for row in rows)
    return Table(
        "Brokers",
        [("Broker", False), ("Rack", False), ("Replicas", True), ("Leaders", True)]
        + [("Replicas over mean", True), ("Leaders over mean", True)]
        + ([("Fenced", False)] if fenced else []),
        [
            [
                f"{row['cluster']}/{row['broker_id']}",
                cell(row["rack_id"]),
                *(
                    Length("is", number(row[name]), wide=100 * row[name] / most[name])
                    for name in ("replicas", "leaders")
                ),
                *(ratio(row[f"{name}_over_mean"]) for name in ("replicas", "leaders")),
                *([cell(row["fenced"])] if fenced else []),
            ]
            for row in rows
        ],
    )
