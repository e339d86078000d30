"""What crosses a zone on one screen: what it costs, what each group should do, and replicas that would save more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.advice.kernel.cross_zone_traffic import CURRENT
from spark_assign.advice.kernel.replica_moves import REORDER
from spark_assign.advice.kernel.zones import CLIENT_SIDE
from spark_assign.groups.assignors.server import SERVER_ASSIGNORS
from spark_assign.report.formatting import NONE, count, number, rejected_lines
from spark_assign.report.text.text_table import aligned
from spark_assign.spark.progress import progress
from spark_assign.tables.groups import GROUP_KEY

Row = Mapping[str, Any]

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
_SUMS = ("bytes_per_day", "cost_at_least", "cost_at_most", "partitions", "partitions_without_bytes")


@progress("reading what crosses a zone", 1)
def summarize_zones(
    zones: DataFrame, replica_moves: DataFrame, rejected: DataFrame, top: int, *, follower_fetching: bool = False
) -> str:
    """Totals, the groups that save most, those that nothing is known of, and replica moves. Reads a screenful of rows.

    Args:
        zones, replica_moves, rejected: those of `Zones`, or read back.
        top: how many groups and replica moves to list.
        follower_fetching: whether groups have it today.
    """
    now = zones.where((F.col("assignor") == CURRENT) & (F.col("follower_fetching") == follower_fetching))
    taken = zones.where("recommended")
    before = now.select(*GROUP_KEY, F.col("cost_per_day").alias("cost_today"))
    worth = taken.where(_changes(follower_fetching)).join(before, GROUP_KEY)
    unknown = now.where((F.col("members") > 0) & F.col("cost_per_day").isNull())
    total = now.agg(*(F.sum(name).alias(name) for name in _SUMS), F.first("currency", True).alias("currency")).first()
    saved = worth.agg(F.count("*").alias("groups"), F.sum("saved_per_day").alias("saved")).first()
    assert total is not None
    assert saved is not None
    listed = [row.asDict() for row in worth.orderBy(F.desc("saved_per_day"), *GROUP_KEY).limit(top).collect()]  # `top`
    by_cost = unknown.orderBy(F.desc_nulls_last("cost_at_most"), *GROUP_KEY)
    hidden = [row.asDict() for row in by_cost.limit(top + 1).collect()]  # `top`
    found = replica_moves.where(F.col("follower_fetching") == follower_fetching)
    order = (F.desc("saved_bytes_per_day"), F.col("cluster"), F.col("topic"), F.col("partition"), F.col("kind"))
    moves = [row.asDict() for row in found.orderBy(*order).limit(top + 1).collect()]  # `top`
    refused = [row.asDict() for row in rejected.orderBy(*GROUP_KEY).limit(10).collect()]  # a screenful
    number_refused = rejected.count()
    lines = [*_total(total.asDict()), *_groups(listed, saved.asDict(), total["currency"])]
    lines += _hidden(hidden, top, total["currency"])
    lines += _moves(moves, top, follower_fetching)
    return "\n".join([*lines, *rejected_lines(refused, number_refused)])


def _changes(follower_fetching: bool) -> Column:
    return (F.col("assignor") != CURRENT) | (F.col("follower_fetching") != follower_fetching)


def _total(row: Row) -> list[str]:
    least, most = row["cost_at_least"], row["cost_at_most"]
    if row["bytes_per_day"] is None:
        return ["Nothing is known to be read: of no partition that a member has the bytes are known"]
    between = money(least, row["currency"])
    if most > least:
        between = f"between {least:,.2f} and {money(most, row['currency'])}"
    lines = [f"Read: {size(row['bytes_per_day'])} a day. What of it crosses a zone costs {between} a day"]
    if row["partitions_without_bytes"]:
        of_all = f"{row['partitions_without_bytes']:,} of {count(row['partitions'], 'partition')}"
        lines.append(f"Not in it: {of_all}, whose bytes are not known")
    return lines


def _groups(rows: Sequence[Row], saved: Row, currency: str | None) -> list[str]:
    if not rows:
        return ["No group has a way to read that is worth a change"]
    head = f"{count(saved['groups'], 'group')} can save {money(saved['saved'], currency)} a day together:"
    table = [["group", "by", "follower fetching", "moved", "crosses", "today", "then", "saved"]]
    for row in rows:
        cells = [name_of(row), row["assignor"], "on" if row["follower_fetching"] else "off", number(row["moved"])]
        cost = [amount(row[name]) for name in ("cost_today", "cost_per_day", "saved_per_day")]
        table.append([*cells, size(row["cross_zone_bytes_per_day"]), *cost])
    more = saved["groups"] - len(rows)
    rest = [f"  … and {more:,} more, in the table zones"] if more > 0 else []
    return ["", head, *aligned(table, words=(0, 1, 2)), *rest]


def _hidden(rows: Sequence[Row], top: int, currency: str | None) -> list[str]:
    if not rows:
        return []
    lines = ["", "Not known:"]
    for row in rows[:top]:
        cost = ""
        if row["cost_at_most"] is not None:
            cost = f"between {row['cost_at_least']:,.2f} and {money(row['cost_at_most'], currency)} a day. "
        lines.append(f"  {name_of(row)}: {cost}{row['reason']}")
    return [*lines, *(["  … and more, in the table zones"] if len(rows) > top else [])]


def _moves(rows: Sequence[Row], top: int, follower_fetching: bool) -> list[str]:
    if not rows:
        return []
    on = "with" if follower_fetching else "without"
    table = [["partition", "kind", "replicas", "from", "to", "saved"]]
    for row in rows[:top]:
        partition = f"{row['cluster']}/{row['topic']}-{row['partition']}"
        replicas = " → ".join(" ".join(map(str, row[name])) for name in ("previous", "replicas"))
        table.append([partition, row["kind"], replicas, row["from_rack"] or NONE, row["to_rack"]])
        table[-1].append(amount(row["saved_per_day"]))
    lines = ["", f"Replicas that would save more a day, {on} follower fetching and with the owners of today:"]
    lines += aligned(table, words=(0, 1, 2, 3, 4))
    lines += ["  … and more, in the table replica_moves"] if len(rows) > top else []
    kinds = {row["kind"] for row in rows[:top]}
    if kinds - {REORDER}:
        lines.append("  A move copies the log once: it has paid when as many bytes are saved.")
    return lines


def ways_in_words(rows: Sequence[Row]) -> str:
    """Every way in which groups may read, a table for each.

    Args:
        rows: of `Zones.zones`, all of each group.
    """
    order = {name: at for at, name in enumerate((CURRENT, *CLIENT_SIDE, *SERVER_ASSIGNORS))}
    rows = sorted(rows, key=lambda row: (order[row["assignor"]], row["follower_fetching"]))
    lines: list[str] = []
    for name in sorted({name_of(row) for row in rows}):
        mine = [row for row in rows if name_of(row) == name]
        reads = f" of {size(mine[0]['bytes_per_day'])} a day" if mine[0]["bytes_per_day"] is not None else ""
        lines += [*([""] if lines else []), f"{name}{reads}:"]
        table = [["", "by", "follower fetching", "moved", "crosses", "a day", "saved", "why"]]
        for row in mine:
            cells = ["→" if row["recommended"] else "", row["assignor"], "on" if row["follower_fetching"] else "off"]
            cells += [number(row["moved"]), _span(row, size, "cross_zone_bytes_at_{}")]
            cells += [_span(row, amount, "cost_at_{}"), amount(row["saved_per_day"]), row["reason"]]
            table.append(cells)
        lines += aligned(table, words=(0, 1, 2, 7))
    return "\n".join(lines)


def _span(row: Row, text: Any, name: str) -> str:
    least, most = (row[name.format(each)] for each in ("least", "most"))
    return str(text(least)) if least == most else f"{text(least)} to {text(most)}"


def name_of(row: Row) -> str:
    """A group with its cluster."""
    return f"{row['cluster']}/{row['group_id']}"


def size(value: int | None) -> str:
    """Bytes in decimal units; – for null."""
    if value is None:
        return NONE
    at = max(0, (len(str(value)) - 1) // 3)
    at = min(at, len(_UNITS) - 1)
    return f"{value / 1000**at:,.{2 if at else 0}f} {_UNITS[at]}"


def amount(value: float | None) -> str:
    """Money; – for null."""
    return NONE if value is None else f"{value:,.2f}"


def money(value: float | None, currency: str | None) -> str:
    """Money with its currency."""
    return f"{amount(value)} {currency}"
