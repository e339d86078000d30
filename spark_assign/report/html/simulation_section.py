"""The report's section of rebalances in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from spark_assign.report.formatting import NONE, count, number, ratio, seconds
from spark_assign.report.html import drawings
from spark_assign.report.html.plan_section import by_group, rejected_table
from spark_assign.report.html.report_data import Row, Rows, SimulationRows
from spark_assign.report.html.table import Table
from spark_assign.simulation.simulation import COMPARED

PROTOCOLS = ("eager", "cooperative", "static", "consumer", "configured")
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
        drawings.legend({"paused": "partitions not consumed", "round": "a rebalance, from its first cause to its end"}),
        bool(rows.rounds) and not rows.pauses,
    )


def _drawing(at: int, key: tuple[str, str], size: Row, rounds: Rows, pauses: Rows, costs: Rows) -> Drawing:
    cost = {row["protocol"]: row for row in costs}
    panels = [
        drawings.TimePanel(
            name=protocol,
            periods=[
                (row["from_ms"], row["to_ms"], row["not_consumed"]) for row in pauses if row["protocol"] == protocol
            ],
            rounds=[(row["begin_ms"], row["end_ms"]) for row in rounds if row["protocol"] == protocol],
            said=_cost(cost[protocol]),
        )
        for protocol in sorted(cost, key=_order)
    ]
    name = "/".join(key)
    heading = f"{name}, {count(size['partitions'], 'partition')}"
    return Drawing(
        heading, drawings.over_time(panels, f"time{at}", f"Rebalances of {name} in time", size["partitions"])
    )


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
    """Rows of `protocol.compare_protocols`; one of an older release lacks protocols."""
    names = [name for name in COMPARED if all(row.get(f"{name}_rebalances") is not None for row in rows)]
    return Table(
        "Groups that gain most by cooperating: partition-seconds not consumed",
        [
            ("Group", False),
            *((name, True) for name in names),
            *((f"{name.capitalize()}/eager", True) for name in names[1:]),
        ],
        [
            [
                f"{row['cluster']}/{row['group_id']}",
                *(_partition_seconds(row[f"{name}_partition_ms_not_consumed"]) for name in names),
                *(ratio(row[f"{name}_ratio"]) for name in names[1:]),
            ]
            for row in rows
        ],
    )
