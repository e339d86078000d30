"""Checks a fleet's tables before planning: their sizes and their faults.

A faulty row that names its group only affects that group, which the plan then rejects (`groups.kernel.faults`). Any
other faulty row invalidates the fleet and raises `FleetError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.spark.progress import progress
from spark_assign.tables.errors import Fault, FleetError
from spark_assign.tables.groups import GROUP_KEY

_TWICE = "twice"
_KEYS = {
    "topics": ["cluster", "topic"],
    "members": GROUP_KEY,
    "subscriptions": GROUP_KEY,
    "subscription_lists": GROUP_KEY,
    "owned": GROUP_KEY,
    "owned_slices": GROUP_KEY,
    "owned_lists": GROUP_KEY,
    "replicas": ["cluster", "topic", "partition"],
    "brokers": ["cluster", "broker_id"],
    "groups": GROUP_KEY,
    "subtopologies": GROUP_KEY,
    "tasks": GROUP_KEY,
    "changelogs": GROUP_KEY,
    "initialized": GROUP_KEY,
    "loads": ["cluster", "topic", "partition"],
}
"""Key columns that identify a faulty row of each table; null in a key means that no group can be blamed."""

_UNIQUE = ("topics", "replicas", "brokers")
"""Tables without a group whose keys must be unique."""

_FURTHER = {
    "topics": {"partitions": "partitions is null or partitions < 0"},
    "replicas": {"replicas": "replicas is null", "partition": "partition is null or partition < 0"},
}
"""Faults of columns other than null in a key, as SQL conditions."""

_MEASURES = {
    "racked_members": ("members", "if(rack_id <> '', 1, 0)"),
    "racked_brokers": ("brokers", "if(rack_id <> '', 1, 0)"),
    "typed_groups": ("groups", "if(group_type is null, 0, 1)"),
    **{
        f"loads_{name}": ("loads", f"if({name} is null, 0, 1)")
        for name in ("group_id", "in_messages_per_second", "out_messages_per_second", "lag")
    },
    "static_members": ("members", "if(group_instance_id is null, 0, 1)"),
    "share_groups": ("groups", "if(group_type = 'share', 1, 0)"),
    "streams_groups": ("groups", "if(group_type = 'streams', 1, 0)"),
    "franz_go_groups": ("groups", "if(leader_library = 'franz-go', 1, 0)"),
    "pairs": ("subscription_lists", "bigint(array_size(member_ids)) * array_size(topics)"),
    "names": ("subscription_lists", "array_size(member_ids) + array_size(topics)"),
    "listed_slices": ("owned_lists", "array_size(topics)"),
}
"""Sums over the rows of a table, as SQL expressions."""

_COUNTED = ("members", "groups", "subscriptions", "owned", "owned_slices", "subtopologies", "tasks")

_LOOKED: list[tuple[str, str | None]] = [
    (table, problem)
    for table, key in _KEYS.items()
    for problem in (None, *dict.fromkeys([*key, *_FURTHER.get(table, ())]))
]
"""Tables and their columns that can be faulty; None: no fault. Grouping by an index is cheaper than by names."""


@dataclass(frozen=True)
class Sizes:
    """Number of rows per table.

    Attributes:
        racked_members, static_members: members with a rack, and with an instance ID.
        racked_brokers: brokers with a rack.
        loads_group_id, …: rows of `loads` in which the column isn't null.
        groups, typed_groups: rows of `groups`, and those with a type.
        share_groups, streams_groups: rows of `groups` with this type.
        franz_go_groups: rows of `groups` with a leader that is franz-go.
        subscriptions: subscriptions as rows of a member and a topic, although they may be given as lists.
        subscription_facts: rows of `subscriptions`, and names in `subscription_lists`.
        owned_slices: slices, although they may be given as lists.
    """

    members: int
    groups: int
    racked_members: int
    racked_brokers: int
    typed_groups: int
    loads_group_id: int
    loads_in_messages_per_second: int
    loads_out_messages_per_second: int
    loads_lag: int
    static_members: int
    share_groups: int
    streams_groups: int
    franz_go_groups: int
    subscriptions: int
    subscription_facts: int
    owned: int
    owned_slices: int
    subtopologies: int
    tasks: int


@progress("checking the fleet", 1)
def check_fleet(tables: Mapping[str, DataFrame | None]) -> Sizes:
    """Counts the fleet's rows and checks those that belong to no group, in one query.

    Raises:
        FleetError: the fleet is empty, or rows are faulty; lists every kind of fault with its count and an example.
    """
    present = {name: table for name in _KEYS if (table := tables.get(name)) is not None}
    looked = reduce(DataFrame.unionByName, [_rows(name, table) for name, table in present.items()])
    valid_indexes = [index for index, (_, problem) in enumerate(_LOOKED) if problem is None]
    is_duplicate = F.col("what").isin(valid_indexes) & F.col("key").isNotNull() & (F.col("rows") > 1)
    aggregates = {"rows": F.count(F.lit(1)), **{name: F.sum(name) for name in _MEASURES}}
    summary = (
        looked.groupBy("what", "key")
        .agg(*(value.alias(name) for name, value in aggregates.items()))
        .groupBy("what", is_duplicate.alias("twice"))
        .agg(*(F.sum(name).alias(name) for name in aggregates), F.min("key").alias("example"))
        .collect()  # a row or two per table and kind of fault
    )
    results = [(*_LOOKED[row["what"]], row) for row in summary]
    faulty = [(table, problem or _TWICE, row) for table, problem, row in results if problem or row["twice"]]
    if faulty:
        faults = [_fault(table, problem, row["rows"], row["example"]) for table, problem, row in faulty]
        raise FleetError(sorted(faults, key=str))
    counts = {name: sum(row["rows"] for table, _, row in results if table == name) for name in _COUNTED}
    if not counts["members"]:
        problem_ = "the fleet is empty: there are no members"
        raise FleetError([Fault("members", "*", problem_, "Give at least one member of one group")])
    counts |= {name: sum(row[name] or 0 for row in summary) for name in _MEASURES}
    counts["subscription_facts"] = counts["subscriptions"] + counts.pop("names")
    counts["subscriptions"] += counts.pop("pairs")
    counts["owned_slices"] += counts.pop("listed_slices")
    return Sizes(**counts)


def _rows(table: str, rows: DataFrame) -> DataFrame:
    """Returns the rows to check: faulty candidates with their key, other rows only to be counted.

    Returns:
        what (index into `_LOOKED`), key (text; null: only counted), and the measures.
    """
    conditions = {name: F.col(name).isNull() for name in _KEYS[table]}
    conditions |= {name: F.expr(condition) for name, condition in _FURTHER.get(table, {}).items()}
    fault = F.coalesce(*(F.when(value, F.lit(_LOOKED.index((table, name)))) for name, value in conditions.items()))
    key = _show(_KEYS[table]) if table in _UNIQUE else F.when(fault.isNotNull(), _show(_KEYS[table]))
    measures = {name: F.expr(value if table == of else "0L") for name, (of, value) in _MEASURES.items()}
    return rows.select(
        # Not coalesce, of which Sail and the DataFrame's schema disagree whether it can be null.
        F.when(fault.isNull(), F.lit(_LOOKED.index((table, None)))).otherwise(fault).alias("what"),
        key.alias("key"),
        *(value.cast("long").alias(name) for name, value in measures.items()),
    )


def _show(columns: list[str]) -> Column:
    """Formats the columns of a row for a message: `cluster=c1, topic=orders`."""
    values = [F.coalesce(F.col(name).cast("string"), F.lit("null")) for name in columns]
    return F.concat_ws(", ", *(F.concat(F.lit(f"{name}="), value) for name, value in zip(columns, values, strict=True)))


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
