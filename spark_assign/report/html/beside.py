"""The report's sections beside the plan: assignors compared, rebalances in time, Connect, replicas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from spark_assign.report.html import svg
from spark_assign.report.html.rows import CompareRows, ConnectRows, DriftRows, ReplicaRows, Row, Rows, SimulationRows
from spark_assign.report.html.sections import Table, any_table, by_group, rejected_table
from spark_assign.report.words import NONE, cell, count, number, ratio, seconds

PROTOCOLS = ("eager", "cooperative", "static", "configured")
"""The order in which protocols stand below each other; others follow."""


@dataclass(frozen=True)
class Drawing:
    """A picture with its heading."""

    heading: str
    picture: Markup


@dataclass(frozen=True)
class SimulationSection:
    """Rebalances in time."""

    tables: Sequence[Table]
    drawings: Sequence[Drawing]
    legend: Markup
    drawn_without_ownership: bool


def of_simulation(rows: SimulationRows) -> SimulationSection:
    """Costs per protocol, the groups that lose most, and pictures of some; see `SimulationRows`."""
    tables = [_costs(rows.totals)] if rows.totals else []
    if rows.groups:
        tables.append(_losers(rows.groups))
    if rows.comparison:
        tables.append(_compared(rows.comparison))
    if rows.rejected:
        tables.append(rejected_table(rows.rejected))
    rounds, pauses = by_group(rows.rounds), by_group(rows.pauses)
    sizes = {(row["cluster"], row["group_id"]): row for row in rows.groups}
    drawn = [key for key in dict.fromkeys([*pauses, *rounds]) if key in sizes]
    return SimulationSection(
        tables,
        [
            _drawing(at, key, sizes[key], rounds[key], pauses[key], by_group(rows.groups)[key])
            for at, key in enumerate(drawn, start=1)
        ],
        svg.legend({"paused": "partitions not consumed", "round": "a rebalance, from its first cause to its end"}),
        bool(rows.rounds) and not rows.pauses,
    )


def _drawing(at: int, key: tuple[str, str], size: Row, rounds: Rows, pauses: Rows, costs: Rows) -> Drawing:
    cost = {row["protocol"]: row for row in costs}
    panels = [
        svg.Panel(
            name=protocol,
            stretches=[
                (row["from_ms"], row["to_ms"], row["not_consumed"]) for row in pauses if row["protocol"] == protocol
            ],
            rounds=[(row["begin_ms"], row["end_ms"]) for row in rounds if row["protocol"] == protocol],
            said=_cost(cost[protocol]),
        )
        for protocol in sorted(cost, key=_order)
    ]
    name = "/".join(key)
    heading = f"{name}, {count(size['partitions'], 'partition')}"
    return Drawing(heading, svg.over_time(panels, f"time{at}", f"Rebalances of {name} in time", size["partitions"]))


def _order(protocol: str) -> tuple[int, str]:
    return (PROTOCOLS.index(protocol) if protocol in PROTOCOLS else len(PROTOCOLS), protocol)


def _cost(row: Row) -> str:
    return (
        f"{count(row['rebalances'], 'rebalance')}, {_partition_seconds(row['partition_ms_not_consumed'])} "
        f"partition-seconds not consumed, longest pause {seconds(row['longest_pause_ms'])}"
    )


def _partition_seconds(ms: int | None) -> str:
    return NONE if ms is None else f"{ms / 1000:,.1f}"


def _costs(rows: Rows) -> Table:
    """A line per protocol."""
    titles = ("Groups", "Rebalances", "Restarts", "Partition-seconds not consumed", "Longest pause")
    return Table(
        "What each protocol costs, all groups",
        [("Protocol", False), *((title, True) for title in titles)],
        [
            [
                row["protocol"],
                *(number(row[name]) for name in ("groups", "rebalances", "members_restarted")),
                _partition_seconds(row["partition_ms_not_consumed"]),
                seconds(row["longest_pause_ms"]),
            ]
            for row in sorted(rows, key=lambda row: _order(row["protocol"]))
        ],
    )


def _losers(rows: Rows) -> Table:
    titles = ("Partitions", "Rebalances", "Partition-seconds not consumed", "Longest pause")
    return Table(
        "Groups that lose most",
        [("Group", False), ("Protocol", False), *((title, True) for title in titles), ("Of", False)],
        [
            [
                f"{row['cluster']}/{row['group_id']}",
                row["protocol"],
                number(row["partitions"]),
                number(row["rebalances"]),
                _partition_seconds(row["partition_ms_not_consumed"]),
                seconds(row["longest_pause_ms"]),
                NONE
                if row["longest_pause_topic"] is None
                else f"{row['longest_pause_topic']}-{row['longest_pause_partition']}",
            ]
            for row in rows
        ],
    )


def _compared(rows: Rows) -> Table:
    """Rows of `protocol.compare_protocols`."""
    names = ("eager", "cooperative", "static")
    return Table(
        "Groups that gain most by cooperating: partition-seconds not consumed",
        [("Group", False), *((name, True) for name in names), ("Cooperative/eager", True), ("Static/eager", True)],
        [
            [
                f"{row['cluster']}/{row['group_id']}",
                *(_partition_seconds(row[f"{name}_partition_ms_not_consumed"]) for name in names),
                ratio(row["cooperative_ratio"]),
                ratio(row["static_ratio"]),
            ]
            for row in rows
        ],
    )


def of_comparison(rows: CompareRows) -> list[Table]:
    """Assignors side by side, and what is recommended for the groups that gain most; see `CompareRows`."""
    titles = ("Groups", "Rejected", "Moved", "Revoked", "Partition-seconds paused", "Recommended")
    totals = Table(
        "Each assignor for all groups; partitions moved and revoked, groups for which it is recommended",
        [("Change", False), ("Assignor", False), *((title, True) for title in titles)],
        [[row["change"], row["assignor"], *(cell(row[_column(title)]) for title in titles)] for row in rows.totals],
    )
    figures = ("Moved", "Rounds", "Max over mean", "Partition-seconds paused", "Spared")
    recommended = Table(
        "Recommended assignors; spared: partitions that would move besides with the assignor that moves most",
        [
            *(("Group", False), ("Change", False), ("Recommended", False), *((title, True) for title in figures)),
            ("Reason", False),
        ],
        [
            [
                f"{row['cluster']}/{row['group_id']}",
                *(row["change"], row["assignor"], *(cell(row[_column(title)]) for title in figures), row["reason"]),
            ]
            for row in rows.recommended
        ],
    )
    return [each for each in (totals, recommended) if each.rows]


def of_drift(rows: DriftRows) -> list[Table]:
    """What changed between two runs; see `DriftRows`."""
    tables = {
        "Groups by what happened to them": rows.changes,
        "Groups that changed, most changes first": rows.groups,
        "Members that came, went or restarted": rows.members,
        "Topics that changed": rows.topics,
    }
    return [any_table(name, each) for name, each in tables.items() if each]


def _column(title: str) -> str:
    return title.lower().replace(" ", "_").replace("-", "_")


def of_connect(rows: ConnectRows) -> list[Table]:
    """Connect clusters; see `ConnectRows`."""
    titles = ("Workers", "Connectors", "Tasks", "Assigned", "Revoked", "Lost", "Waiting")
    tables = []
    if rows.metrics:
        more = f"Shown are {len(rows.metrics):,} of {rows.total:,}." if rows.total > len(rows.metrics) else ""
        tables.append(
            Table(
                "Connect clusters, most revoked first",
                [
                    *(("Cluster", False), ("Protocol", False), *((title, True) for title in titles)),
                    *(("Tasks per worker before", False), ("after", False)),
                ],
                [
                    [
                        *(row["connect_cluster"], row["protocol"], *(number(row[title.lower()]) for title in titles)),
                        *(
                            f"{number(row[f'min_tasks_{when}'])} to {number(row[f'max_tasks_{when}'])}"
                            for when in ("before", "after")
                        ),
                    ]
                    for row in rows.metrics
                ],
                more,
            )
        )
    if rows.rejected:
        tables.append(rejected_table(rows.rejected))
    return tables


def of_replicas(rows: ReplicaRows) -> list[Table]:
    """Replicas, reassigned or checked; see `ReplicaRows`."""
    tables = []
    if rows.metrics:
        tables.append(_reassigned(rows.metrics))
    if rows.reasons:
        tables.append(any_table("Replicas that move, by reason", rows.reasons))
    if rows.clusters:
        tables.append(any_table("Clusters", rows.clusters))
    if rows.brokers:
        tables.append(any_table("Brokers", rows.brokers))
    if rows.problems:
        tables.append(any_table("Problems", rows.problems))
    if rows.rejected:
        tables.append(rejected_table(rows.rejected))
    return tables


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
                *(cell(row[_column(title)]) for title in titles),
                *(f"{number(row[f'min_{what}'])} to {number(row[f'max_{what}'])}" for what in ("replicas", "leaders")),
                f"{count(row['brokers_outside'], 'broker')}, {count(row['leaders_outside'], 'leader')}",
            ]
            for row in rows
        ],
    )
