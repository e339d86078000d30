"""What can be wrong with the values of a fleet.

A row that names its group can only spoil that group, which is then rejected with a code; any other faulty row spoils
the fleet and is raised. What Kafka has rules for (a vanished topic, a partition claimed twice, a member without
subscriptions) is no fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from spark_assign.errors import Fault, FleetError
from spark_assign.kernels.ownership import DUPLICATE
from spark_assign.ownership import Ownership
from spark_assign.schemas import GROUP_KEY, MEMBER_KEY

if TYPE_CHECKING:
    from spark_assign.fleet import Fleet

# --- faults of the tables ---------------------------------------------------------------------------------

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


def find_table_faults(fleet: Fleet, ownership: Ownership | None, *, beside: DataFrame) -> DataFrame:
    """Faulty rows that belong to no group.

    Args:
        fleet: the fleet.
        ownership: what its members own, or null if it does not say.
        beside: name, rows: what is to be added up in the same go.

    Returns:
        table, problem, rows (how many), example; a row per table and problem. Of `beside` a row per name, which stands
        in `table`, with the sum in `rows`; its problem is null.
    """
    tables = {table: getattr(fleet, table) for table in _KEYS if getattr(fleet, table) is not None}
    tables = {table: rows.withColumn("rows", F.lit(1)) for table, rows in tables.items()}
    if ownership is not None:
        tables[ownership.table] = ownership.faults
    rows = [_table_rows(table, rows) for table, rows in tables.items()]
    problem = F.when(F.col("problem").isNotNull(), F.col("problem")).when(F.col("rows") > 1, _TWICE)
    return (
        reduce(DataFrame.unionByName, rows)
        .groupBy("table", "key", "problem")
        .agg(F.sum("rows").alias("rows"))
        .withColumn("problem", problem)
        .where(F.col("problem").isNotNull())
        .unionByName(beside.withColumnRenamed("name", "table"), allowMissingColumns=True)
        .groupBy("table", "problem")
        .agg(F.sum("rows").alias("rows"), F.min("key").alias("example"))
    )


def raise_table_faults(found: Sequence[Row]) -> None:
    """Raise what `find_table_faults` has found, if anything.

    Raises:
        FleetError: listing every kind of fault with its number of rows and one of them.
    """
    if found:
        faults = [_table_fault(row["table"], row["problem"], row["rows"], row["example"]) for row in found]
        raise FleetError(sorted(faults, key=str))


def _table_rows(table: str, rows: DataFrame) -> DataFrame:
    """The rows of a table that could be at fault.

    Returns:
        table, key (as text), problem (the column at fault, or null), rows (of how many this one tells).
    """
    key = _KEYS[table]
    column = F.coalesce(*(F.when(F.col(name).isNull(), name) for name in key))
    if table == "topics":
        column = F.coalesce(column, F.when(F.col("partitions").isNull() | (F.col("partitions") < 0), "partitions"))
    if table == "replicas":
        column = F.coalesce(
            column,
            F.when(F.col("replicas").isNull(), "replicas"),
            F.when(F.col("partition") < 0, "partition"),
        )
    checked = rows.select(F.lit(table).alias("table"), _show(key).alias("key"), column.alias("problem"), "rows")
    return checked if table in _UNIQUE else checked.where(F.col("problem").isNotNull())


def _table_fault(table: str, problem: str, rows: int, example: str) -> Fault:
    where = f"{rows} row(s), e.g. {example}"
    if problem == _TWICE:
        what = " and ".join(_KEYS[table])
        return Fault(table, _KEYS[table][-1], f"the same key twice: {where}", f"Keep one row per {what}")
    if problem == "partitions":
        return Fault(table, problem, f"null, negative or beyond int: {where}", "Give the topic's number of partitions")
    if table == "replicas" and problem in ("replicas", "partition"):
        return Fault(table, problem, f"null or negative: {where}", "List the broker ids of an existing partition")
    return Fault(table, problem, f"null in a key: {where}", "Fill it in or leave the row out")


def _show(columns: list[str]) -> Column:
    """A row's columns as a person reads them: `cluster=c1, topic=orders`."""
    values = [F.coalesce(F.col(name).cast("string"), F.lit("null")) for name in columns]
    return F.concat_ws(", ", *(F.concat(F.lit(f"{name}="), value) for name, value in zip(columns, values, strict=True)))


# --- faults of one group ----------------------------------------------------------------------------------

_REMEDIES = {
    "null-key": "Fill the key in or leave the row out",
    "duplicate-member": "Keep one row per member",
    "duplicate-instance": "Kafka fences all but one member of an instance id; leave the others out",
    "duplicate-group": "Keep one row per group",
    "unknown-member": "Add the member to members, or take its rows out (Fleet.with_members_left does so)",
    "bad-partition": "Partitions count from 0, a run's step from 1",
    "duplicate-owned": "Keep one row per member and partition",
}
"""By code, the gravest first."""


def find_group_faults(
    fleet: Fleet, topics: DataFrame, partial: DataFrame | None, ownership: Ownership | None
) -> DataFrame:
    """The groups that cannot be planned, and why.

    Args:
        fleet: the fleet.
        topics: its `subscribed_topics`.
        partial: its `partial_subscribers`, or null if it has none. A class of all members cannot have an unknown one.
        ownership: what its members own, or null if it does not say.

    Returns:
        cluster, group_id, code (the gravest), detail (all of them); one row per faulty group.
    """
    found = [_fault(topics.where(F.col("topic").isNull()), "null-key", "subscriptions", ["topic"])]
    if ownership is not None:
        found.append(_ownership_faults(ownership))
    found += [_member_faults(fleet, partial, ownership), _repetitions(fleet)]
    remedies = F.create_map(*(F.lit(text) for pair in _REMEDIES.items() for text in pair))
    codes = F.array(*(F.lit(code) for code in _REMEDIES))
    more = F.when(F.col("rows") > 1, F.concat(F.lit(" and "), F.col("rows") - 1, F.lit(" more"))).otherwise("")
    fault = F.struct(
        F.array_position(codes, F.col("code")).alias("order"),
        "code",
        F.concat("row", more, F.lit(". "), remedies[F.col("code")]).alias("detail"),
    )
    return (
        reduce(DataFrame.unionByName, found)
        .where(F.col("cluster").isNotNull() & F.col("group_id").isNotNull())
        .groupBy(*GROUP_KEY, "code")
        .agg(F.sum("rows").alias("rows"), F.min("row").alias("row"))
        .groupBy(*GROUP_KEY)
        .agg(F.array_sort(F.collect_list(fault)).alias("faults"))
        .select(
            *GROUP_KEY,
            F.col("faults")[0]["code"].alias("code"),
            F.concat_ws("; ", F.transform("faults", lambda each: each["detail"])).alias("detail"),
        )
    )


def _fault(rows: DataFrame, code: str | Column, table: str | Column, show: list[str]) -> DataFrame:
    """Faulty rows as cluster, group_id, code, row (the row as text), rows (1 each)."""
    code, table = (F.lit(each) if isinstance(each, str) else each for each in (code, table))
    row = F.concat(table, F.lit(": "), _show(show))
    return rows.select(*GROUP_KEY, code.alias("code"), row.alias("row"), F.lit(1).alias("rows"))


def _member_faults(fleet: Fleet, partial: DataFrame | None, ownership: Ownership | None) -> DataFrame:
    """Members listed twice, and members that other tables name but `members` does not."""
    named = [fleet.members.select(*MEMBER_KEY, F.lit("members").alias("table"))]
    if partial is not None:
        named.append(partial.select(*MEMBER_KEY, F.lit("subscriptions").alias("table")))
    if ownership is not None:
        named.append(ownership.named.select(*MEMBER_KEY, F.lit(ownership.table).alias("table")))
    listed = F.count(F.when(F.col("table") == "members", 1))
    code = (
        F.when(F.col("member_id").isNull(), "null-key")
        .when(F.col("listed") == 0, "unknown-member")
        .when(F.col("listed") > 1, "duplicate-member")
    )
    counted = (
        reduce(DataFrame.unionByName, named)
        .groupBy(*MEMBER_KEY)
        .agg(listed.alias("listed"), F.min("table").alias("table"))
        .withColumn("code", code)
    )
    return _fault(counted.where(F.col("code").isNotNull()), F.col("code"), F.col("table"), ["member_id"])


def _repetitions(fleet: Fleet) -> DataFrame:
    """Instance ids and groups that stand twice."""
    static = fleet.members.where(F.col("group_instance_id").isNotNull())
    rows = [_fault(static, "duplicate-instance", "members", ["group_instance_id"])]
    if fleet.groups is not None:
        rows.append(_fault(fleet.groups, "duplicate-group", "groups", ["group_id"]))
    every = reduce(DataFrame.unionByName, rows)
    return every.groupBy(*every.columns).count().where(F.col("count") > 1).drop("count")


def _ownership_faults(ownership: Ownership) -> DataFrame:
    """Rows of ownership that say nothing, and partitions that a member owns twice."""
    faults = ownership.faults.withColumn("partition", F.col("first"))
    partition, run = _show(["member_id", "topic", "partition"]), _show(["member_id", "topic", "first", "step", "count"])
    as_run = (F.col("code") != DUPLICATE) & F.lit(ownership.table == "owned_runs")
    row = F.concat(F.lit(f"{ownership.table}: "), F.when(as_run, run).otherwise(partition))
    return faults.select(*GROUP_KEY, "code", row.alias("row"), "rows")
