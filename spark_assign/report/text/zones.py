"""Text of the cross-zone traffic analysis: a summary, and all options of selected groups."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.advice.kernel.cross_zone_traffic import CURRENT
from spark_assign.advice.kernel.replica_moves import REORDER
from spark_assign.advice.kernel.zones import CLIENT_SIDE
from spark_assign.groups.assignors.server import SERVER_ASSIGNORS
from spark_assign.report.formatting import DASH, Row, Rows, aligned, count, group_name, number
from spark_assign.report.listed_groups import read_rejected_lines
from spark_assign.spark.progress import progress
from spark_assign.tables.groups import GROUP_KEY

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
_SUMS = ("bytes_per_day", "cost_at_least", "cost_at_most", "partitions", "partitions_without_bytes")


@progress("measuring cross-zone traffic", 1)
def summarize_zones(
    zones: DataFrame, replica_moves: DataFrame, rejected: DataFrame, limit: int, *, follower_fetching: bool = False
) -> str:
    """Returns the totals, the groups that save most, the groups with unknown traffic, and replica moves.

    Reads a screenful of rows.

    Args:
        zones: `ZoneTraffic.zones`, computed or read back.
        replica_moves: `ZoneTraffic.replica_moves`, computed or read back.
        rejected: `ZoneTraffic.rejected`, computed or read back.
        limit: Maximum number of groups, and of replica moves, listed.
        follower_fetching: Whether groups fetch from followers now (KIP-392).
    """
    current = zones.where((F.col("assignor") == CURRENT) & (F.col("follower_fetching") == follower_fetching))
    recommended = zones.where("recommended")
    current_cost = current.select(*GROUP_KEY, F.col("cost_per_day").alias("current_cost"))
    improvements = recommended.where(_is_change(follower_fetching)).join(current_cost, GROUP_KEY)
    unknown = current.where((F.col("members") > 0) & F.col("cost_per_day").isNull())
    total = current.agg(
        *(F.sum(name).alias(name) for name in _SUMS), F.first("currency", True).alias("currency")
    ).first()
    saved = improvements.agg(F.count("*").alias("groups"), F.sum("saved_per_day").alias("saved")).first()
    assert total is not None
    assert saved is not None
    improvement_rows = [
        row.asDict() for row in improvements.orderBy(F.desc("saved_per_day"), *GROUP_KEY).limit(limit).collect()
    ]  # `limit`
    by_cost = unknown.orderBy(F.desc_nulls_last("cost_at_most"), *GROUP_KEY)
    unknown_rows = [row.asDict() for row in by_cost.limit(limit + 1).collect()]  # `limit`
    candidate_moves = replica_moves.where(F.col("follower_fetching") == follower_fetching)
    order = (F.desc("saved_bytes_per_day"), F.col("cluster"), F.col("topic"), F.col("partition"), F.col("kind"))
    moves = [row.asDict() for row in candidate_moves.orderBy(*order).limit(limit + 1).collect()]  # `limit`
    lines = [*_total_lines(total.asDict()), *_improvement_lines(improvement_rows, saved.asDict(), total["currency"])]
    lines += _unknown_lines(unknown_rows, limit, total["currency"])
    lines += _move_lines(moves, limit, follower_fetching)
    return "\n".join([*lines, *read_rejected_lines(rejected)])


def _is_change(follower_fetching: bool) -> Column:
    """Returns the condition that an option isn't the current one."""
    return (F.col("assignor") != CURRENT) | (F.col("follower_fetching") != follower_fetching)


def _total_lines(row: Row) -> list[str]:
    lower, upper = row["cost_at_least"], row["cost_at_most"]
    if row["bytes_per_day"] is None:
        return ["Traffic is unknown: no partition with an owner has known bytes"]
    cost = format_money(lower, row["currency"])
    if upper > lower:
        cost = f"between {lower:,.2f} and {format_money(upper, row['currency'])}"
    lines = [f"Read: {format_bytes(row['bytes_per_day'])} a day. The cross-zone traffic costs {cost} a day"]
    if row["partitions_without_bytes"]:
        ratio = f"{row['partitions_without_bytes']:,} of {count(row['partitions'], 'partition')}"
        lines.append(f"Not included: {ratio}, whose traffic is unknown")
    return lines


def _improvement_lines(rows: Rows, saved: Row, currency: str | None) -> list[str]:
    if not rows:
        return ["No change of how a group reads is worth its cost"]
    heading = f"{count(saved['groups'], 'group')} can save {format_money(saved['saved'], currency)} a day in total:"
    table = [["group", "assignor", "follower fetching", "moved", "cross-zone", "current", "new", "saved"]]
    for row in rows:
        cells = [group_name(row), row["assignor"], "on" if row["follower_fetching"] else "off", number(row["moved"])]
        costs = [format_amount(row[name]) for name in ("current_cost", "cost_per_day", "saved_per_day")]
        table.append([*cells, format_bytes(row["cross_zone_bytes_per_day"]), *costs])
    more = saved["groups"] - len(rows)
    more_lines = [f"  … and {more:,} more, in the table zones"] if more > 0 else []
    return ["", heading, *aligned(table, words=(0, 1, 2)), *more_lines]


def _unknown_lines(rows: Rows, limit: int, currency: str | None) -> list[str]:
    if not rows:
        return []
    lines = ["", "Unknown:"]
    for row in rows[:limit]:
        cost = ""
        if row["cost_at_most"] is not None:
            cost = f"between {row['cost_at_least']:,.2f} and {format_money(row['cost_at_most'], currency)} a day. "
        lines.append(f"  {group_name(row)}: {cost}{row['reason']}")
    return [*lines, *(["  … and more, in the table zones"] if len(rows) > limit else [])]


def _move_lines(rows: Rows, limit: int, follower_fetching: bool) -> list[str]:
    if not rows:
        return []
    mode = "with" if follower_fetching else "without"
    table = [["partition", "kind", "replicas", "from", "to", "saved"]]
    for row in rows[:limit]:
        partition = f"{row['cluster']}/{row['topic']}-{row['partition']}"
        replicas = " → ".join(" ".join(map(str, row[name])) for name in ("previous_replicas", "replicas"))
        table.append([partition, row["kind"], replicas, row["from_rack"] or DASH, row["to_rack"]])
        table[-1].append(format_amount(row["saved_per_day"]))
    lines = ["", f"Replica changes that save the most a day, {mode} follower fetching and with the current owners:"]
    lines += aligned(table, words=(0, 1, 2, 3, 4))
    lines += ["  … and more, in the table replica_moves"] if len(rows) > limit else []
    kinds = {row["kind"] for row in rows[:limit]}
    if kinds - {REORDER}:
        lines.append("  A move copies the log once; it pays for itself when the saved bytes reach the size of the log.")
    return lines


def format_zone_options(rows: Rows) -> str:
    """Returns one table per group with all its options: assignor, and fetching from followers or not.

    Args:
        rows: Rows of `ZoneTraffic.zones`, all options of each group.
    """
    order = {name: index for index, name in enumerate((CURRENT, *CLIENT_SIDE, *SERVER_ASSIGNORS))}
    rows = sorted(rows, key=lambda row: (order[row["assignor"]], row["follower_fetching"]))
    lines: list[str] = []
    for name in sorted({group_name(row) for row in rows}):
        group_rows = [row for row in rows if group_name(row) == name]
        reads = (
            f" of {format_bytes(group_rows[0]['bytes_per_day'])} a day"
            if group_rows[0]["bytes_per_day"] is not None
            else ""
        )
        lines += [*([""] if lines else []), f"{name}{reads}:"]
        table = [["", "assignor", "follower fetching", "moved", "cross-zone", "a day", "saved", "reason"]]
        for row in group_rows:
            cells = ["→" if row["recommended"] else "", row["assignor"], "on" if row["follower_fetching"] else "off"]
            cells += [number(row["moved"]), _range_text(row, format_bytes, "cross_zone_bytes_at_{}")]
            cells += [_range_text(row, format_amount, "cost_at_{}"), format_amount(row["saved_per_day"]), row["reason"]]
            table.append(cells)
        lines += aligned(table, words=(0, 1, 2, 7))
    return "\n".join(lines)


def _range_text(row: Row, text: Any, name: str) -> str:
    lower, upper = row[name.format("least")], row[name.format("most")]
    return str(text(lower)) if lower == upper else f"{text(lower)} to {text(upper)}"


def format_bytes(value: int | None) -> str:
    """Returns a number of bytes in decimal units, or a dash for None."""
    if value is None:
        return DASH
    power = min(max(0, (len(str(value)) - 1) // 3), len(_UNITS) - 1)
    return f"{value / 1000**power:,.{2 if power else 0}f} {_UNITS[power]}"


def format_amount(value: float | None) -> str:
    """Returns an amount of money, or a dash for None."""
    return DASH if value is None else f"{value:,.2f}"


def format_money(value: float | None, currency: str | None) -> str:
    """Returns an amount of money with its currency."""
    return f"{format_amount(value)} {currency}"
