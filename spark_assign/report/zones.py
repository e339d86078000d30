"""Text of the cross-zone traffic analysis: a summary, and all options of selected groups."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.advice.kernel.replica_moves import REORDER
from spark_assign.advice.kernel.zones import CLIENT_SIDE, CURRENT
from spark_assign.assignors.server import SERVER_ASSIGNORS
from spark_assign.report.formatting import (
    DASH,
    Row,
    Rows,
    aligned,
    by_group,
    count,
    format_bytes,
    group_name,
    more_lines,
    number,
    partition_name,
)
from spark_assign.report.listed_groups import collected, num_rows, read_rejected_lines, sum_of
from spark_assign.spark.progress import progress
from spark_assign.tables.errors import in_one_line
from spark_assign.tables.groups import GROUP_KEY

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
    current_cost = current.select(*GROUP_KEY, F.col("cost_per_day").alias("current_cost"))
    is_change = (F.col("assignor") != CURRENT) | (F.col("follower_fetching") != follower_fetching)
    improvements = zones.where("recommended").where(is_change).join(current_cost, GROUP_KEY)
    unknown = current.where((F.col("members") > 0) & F.col("cost_per_day").isNull())
    (total,) = collected(current.agg(*map(sum_of, _SUMS), F.first("currency", True).alias("currency")))
    (saved,) = collected(improvements.agg(num_rows("groups"), F.sum("saved_per_day").alias("saved")))
    improvement_rows = collected(improvements.orderBy(F.desc("saved_per_day"), *GROUP_KEY).limit(limit), "zones")
    by_cost = unknown.orderBy(F.desc_nulls_last("cost_at_most"), *GROUP_KEY)
    unknown_rows = collected(by_cost.limit(limit + 1), "zones", limit)  # `limit`
    candidate_moves = replica_moves.where(F.col("follower_fetching") == follower_fetching)
    order = (F.desc("saved_bytes_per_day"), F.col("cluster"), F.col("topic"), F.col("partition"), F.col("kind"))
    moves = collected(candidate_moves.orderBy(*order).limit(limit + 1), "replica_moves", limit)  # `limit`
    lines = [*_total_lines(total), *_improvement_lines(improvement_rows, saved, total["currency"])]
    lines += _unknown_lines(unknown_rows, limit, total["currency"])
    lines += _move_lines(moves, limit, follower_fetching)
    return "\n".join([*lines, *read_rejected_lines(rejected)])


def _total_lines(row: Row) -> list[str]:
    """Returns the lines about the traffic of all groups."""
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
    return ["", heading, *aligned(table, words=(0, 1, 2)), *more_lines(saved["groups"] - len(rows), "zones")]


def _unknown_lines(rows: Rows, limit: int, currency: str | None) -> list[str]:
    if not rows:
        return []
    lines = ["", "Unknown:"]
    for row in rows[:limit]:
        cost = ""
        if row["cost_at_most"] is not None:
            cost = f"between {row['cost_at_least']:,.2f} and {format_money(row['cost_at_most'], currency)} a day. "
        lines.append(in_one_line(f"  {group_name(row)}: {cost}{row['reason']}"))
    return [*lines, *(["  … and more, in the table zones"] if len(rows) > limit else [])]


def _move_lines(rows: Rows, limit: int, follower_fetching: bool) -> list[str]:
    """Returns the lines about the replica changes that save most; an empty list if there are none."""
    if not rows:
        return []
    mode = "with" if follower_fetching else "without"
    table = [["partition", "kind", "replicas", "from", "to", "saved"]]
    for row in rows[:limit]:
        replicas = " → ".join(" ".join(map(str, row[name])) for name in ("previous_replicas", "replicas"))
        racks = [row["from_rack"] or DASH, row["to_rack"]]
        table.append([partition_name(row), row["kind"], replicas, *racks, format_amount(row["saved_per_day"])])
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
    for group_rows in sorted(by_group(rows).values(), key=lambda each: group_name(each[0])):
        name = group_name(group_rows[0])
        bytes_per_day = group_rows[0]["bytes_per_day"]
        reads = "" if bytes_per_day is None else f" of {format_bytes(bytes_per_day)} a day"
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


def format_amount(value: float | None) -> str:
    """Returns an amount of money, or a dash for None."""
    return DASH if value is None else f"{value:,.2f}"


def format_money(value: float | None, currency: str | None) -> str:
    """Returns an amount of money with its currency."""
    return f"{format_amount(value)} {currency}"
