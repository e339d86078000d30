"""One look over a fleet's tables before anything is planned: how large they are, and what is wrong with them.

A row that names its group can only spoil that group, which is then rejected in the plan (`groups.kernel.faults`). Any
other faulty row spoils the fleet, and no plan can be trusted: those are raised here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from spark_assign.spark.progress import progress
from spark_assign.tables.errors import Fault, FleetError
from spark_assign.tables.groups import GROUP_KEY

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
    "subtopologies": GROUP_KEY,
    "tasks": GROUP_KEY,
    "initialized": GROUP_KEY,
    "loads": ["cluster", "topic", "partition"],
}
"""What a faulty row of each table is known by; null in it cannot be pinned on a group."""

_UNIQUE = ("topics", "replicas", "brokers")
"""Tables without a group in which every key stands once."""

_FURTHER = {"topics": ["partitions"], "replicas": ["replicas", "partition"]}
"""Columns besides the key that may be at fault."""

_MARKS = ("racked", "static")
"""What is counted of members: those with a rack, with an instance id."""

_COUNTED = ("members", "subscriptions", "owned", "owned_runs", "subtopologies", "tasks")

_LOOKED: list[tuple[str, str | None]] = [
    (table, problem)
    for table, key in _KEYS.items()
    for problem in (None, *dict.fromkeys([*key, *_FURTHER.get(table, ())]))
]
"""Tables and their columns that may be at fault; null: nothing is. Numbers are cheaper to count by than names."""


@dataclass(frozen=True)
class Sizes:
    """Rows of the tables; `racked_members`, `static_members`: members that have a rack, an instance id."""

    members: int
    racked_members: int
    static_members: int
    subscriptions: int
    owned: int
    owned_runs: int
    subtopologies: int
    tasks: int


@progress("checking the fleet", 1)
def check_fleet(tables: Mapping[str, DataFrame | None]) -> Sizes:
    """Count the fleet's rows and check those that belong to no group, in one query.

    Raises:
        FleetError: the fleet is empty, or rows are faulty; lists every kind of fault with its rows and one of them.
    """
    present = {name: table for name in _KEYS if (table := tables.get(name)) is not None}
    looked = reduce(DataFrame.unionByName, [_rows(name, table) for name, table in present.items()])
    fine = [at for at, (_, problem) in enumerate(_LOOKED) if problem is None]
    twice = F.col("what").isin(fine) & F.col("key").isNotNull() & (F.col("rows") > 1)
    marked = {"rows": F.count(F.lit(1)), **{name: F.count_if(F.col(name)) for name in _MARKS}}
    found = (
        looked.groupBy("what", "key")
        .agg(*(value.alias(name) for name, value in marked.items()))
        .groupBy("what", twice.alias("twice"))
        .agg(*(F.sum(name).alias(name) for name in marked), F.min("key").alias("example"))
        .collect()  # a row or two per table and kind of fault
    )
    told = [(*_LOOKED[row["what"]], row) for row in found]
    faults = [(table, problem or _TWICE, row) for table, problem, row in told if problem or row["twice"]]
    if faults:
        _raise(faults)
    counts = {name: sum(row["rows"] for table, _, row in told if table == name) for name in _COUNTED}
    if not counts["members"]:
        problem_ = "the fleet is empty: there are no members"
        raise FleetError([Fault("members", "*", problem_, "Give at least one member of one group")])
    racked, static = (sum(row[name] for row in found) for name in _MARKS)
    return Sizes(racked_members=racked, static_members=static, **counts)


def _rows(table: str, rows: DataFrame) -> DataFrame:
    """What there is to look at in a table: rows that could be at fault with their key, the others only counted.

    Returns:
        what (a place in `_LOOKED`), key (as text; null: only counted), and of members whether they are racked, static.
    """
    wrong = {name: F.col(name).isNull() for name in _KEYS[table]} | _wrong(table)
    fault = F.coalesce(*(F.when(value, F.lit(_LOOKED.index((table, name)))) for name, value in wrong.items()))
    key = _show(_KEYS[table]) if table in _UNIQUE else F.when(fault.isNotNull(), _show(_KEYS[table]))
    nothing = [F.lit(False), F.lit(False)]
    marks = [F.col("rack_id") != "", F.col("group_instance_id").isNotNull()] if table == "members" else nothing
    return rows.select(
        F.coalesce(fault, F.lit(_LOOKED.index((table, None)))).alias("what"),
        key.alias("key"),
        *(mark.alias(name) for name, mark in zip(_MARKS, marks, strict=True)),
    )


def _wrong(table: str) -> dict[str, Column]:
    """When other columns than those of the key are at fault."""
    if table == "topics":
        return {"partitions": F.col("partitions").isNull() | (F.col("partitions") < 0)}
    if table == "replicas":
        return {
            "replicas": F.col("replicas").isNull(),
            "partition": F.col("partition").isNull() | (F.col("partition") < 0),
        }
    return {}


def _show(columns: list[str]) -> Column:
    """A row's columns as a person reads them: `cluster=c1, topic=orders`."""
    values = [F.coalesce(F.col(name).cast("string"), F.lit("null")) for name in columns]
    return F.concat_ws(", ", *(F.concat(F.lit(f"{name}="), value) for name, value in zip(columns, values, strict=True)))


def _raise(found: Sequence[tuple[str, str, Row]]) -> None:
    faults = [_fault(table, problem, row["rows"], row["example"]) for table, problem, row in found]
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
