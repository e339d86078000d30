"""One look over a fleet's tables before anything is planned: how large they are, and what is wrong with them.

A row that names its group can only spoil that group, which is then rejected in the plan (`kernels.group.faults`). Any
other faulty row spoils the fleet, and no plan can be trusted: those are raised here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from spark_assign.errors import Fault, FleetError
from spark_assign.schemas import GROUP_KEY

if TYPE_CHECKING:
    from spark_assign.fleet import Fleet

_TWICE = "twice"
_KEYS = {
    "topics": ["cluster", "topic"],
    "members": GROUP_KEY,
    "subscriptions": GROUP_KEY,
    "owned": GROUP_KEY,
    "owned_runs": GROUP_KEY,
    "replicas": ["cluster", "topic", "partition"],
    "brokers": ["cluster", "broker_id"],
    "groups": GROUP_KEY,
}
"""What a faulty row of each table is known by; null in it cannot be pinned on a group."""

_UNIQUE = ("topics", "replicas", "brokers")
"""Tables without a group in which every key stands once."""

_COUNTED = ("members", "subscriptions", "owned", "owned_runs")


@dataclass(frozen=True)
class Sizes:
    """Rows of the tables; `racked_members`, `static_members`: members that have a rack, an instance id."""

    members: int
    racked_members: int
    static_members: int
    subscriptions: int
    owned: int
    owned_runs: int


def check(fleet: Fleet) -> Sizes:
    """Count the fleet's rows and check those that belong to no group, in one query.

    Raises:
        FleetError: the fleet is empty, or rows are faulty; lists every kind of fault with its rows and one of them.
    """
    present = {name: getattr(fleet, name) for name in _KEYS if getattr(fleet, name) is not None}
    looked = reduce(DataFrame.unionByName, [_rows(name, table) for name, table in present.items()])
    problem = F.when(F.col("problem").isNotNull(), F.col("problem")).when(F.col("rows") > 1, _TWICE)
    found = (
        looked.groupBy("table", "key", "problem")
        .agg(*(F.sum(name).alias(name) for name in ("rows", "racked", "static")))
        .withColumn("problem", F.when(F.col("key").isNotNull(), problem))
        .groupBy("table", "problem")
        .agg(*(F.sum(name).alias(name) for name in ("rows", "racked", "static")), F.min("key").alias("example"))
        .collect()  # a row per table and kind of fault
    )
    faults = [row for row in found if row["problem"] is not None]
    if faults:
        _raise(faults)
    counts = Counter({row["table"]: row["rows"] for row in found})
    if not counts["members"]:
        problem_ = "the fleet is empty: there are no members"
        raise FleetError([Fault("members", "*", problem_, "Give at least one member of one group")])
    racked, static = (sum(row[name] or 0 for row in found) for name in ("racked", "static"))
    return Sizes(racked_members=racked, static_members=static, **{name: counts[name] for name in _COUNTED})


def _rows(table: str, rows: DataFrame) -> DataFrame:
    """What there is to look at in a table: rows that could be at fault with their key, the others only counted.

    Returns:
        table, key (as text; null: only counted), problem (the column at fault, or null), rows, racked, static.
    """
    names = _KEYS[table]
    column = F.coalesce(*(F.when(F.col(name).isNull(), name) for name in names))
    if table == "topics":
        column = F.coalesce(column, F.when(F.col("partitions").isNull() | (F.col("partitions") < 0), "partitions"))
    if table == "replicas":
        column = F.coalesce(
            column, F.when(F.col("replicas").isNull(), "replicas"), F.when(F.col("partition") < 0, "partition")
        )
    key = _show(names) if table in _UNIQUE else F.when(column.isNotNull(), _show(names))
    of_member = {"racked": F.col("rack_id") != "", "static": F.col("group_instance_id").isNotNull()}
    marks = of_member if table == "members" else dict.fromkeys(of_member, F.lit(None))
    return rows.select(
        F.lit(table).alias("table"),
        key.alias("key"),
        column.alias("problem"),
        F.lit(1).cast("long").alias("rows"),
        *(mark.cast("long").alias(name) for name, mark in marks.items()),
    )


def _show(columns: list[str]) -> Column:
    """A row's columns as a person reads them: `cluster=c1, topic=orders`."""
    values = [F.coalesce(F.col(name).cast("string"), F.lit("null")) for name in columns]
    return F.concat_ws(", ", *(F.concat(F.lit(f"{name}="), value) for name, value in zip(columns, values, strict=True)))


def _raise(found: Sequence[Row]) -> None:
    faults = [_fault(row["table"], row["problem"], row["rows"], row["example"]) for row in found]
    raise FleetError(sorted(faults, key=str))


def _fault(table: str, problem: str, rows: int, example: str) -> Fault:
    where = f"{rows} row(s), e.g. {example}"
    if problem == _TWICE:
        what = " and ".join(_KEYS[table])
        return Fault(table, _KEYS[table][-1], f"the same key twice: {where}", f"Keep one row per {what}")
    if problem == "partitions":
        return Fault(table, problem, f"null, negative or beyond int: {where}", "Give the topic's number of partitions")
    if table == "replicas" and problem in ("replicas", "partition"):
        return Fault(table, problem, f"null or negative: {where}", "List the broker ids of an existing partition")
    return Fault(table, problem, f"null in a key: {where}", "Fill it in or leave the row out")
