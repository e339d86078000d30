"""What can be wrong with the values of a fleet.

A row that names its group can only spoil that group, which is then rejected with a code; any other faulty row spoils
the fleet and is raised. What Kafka has rules for (a vanished topic, a partition claimed twice, a member without
subscriptions) is no fault.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.errors import Fault, FleetError
from spark_assign.runs import expand
from spark_assign.schemas import GROUP_KEY, MEMBER_KEY

if TYPE_CHECKING:
    from spark_assign.fleet import Fleet

_OWNERSHIP = ("owned", "owned_runs")


# --- faults of the tables ---------------------------------------------------------------------------------


class _Check(NamedTuple):
    column: str
    problem: str
    faulty: Column
    remedy: str


def raise_table_faults(fleet: Fleet) -> None:
    """Look for faulty rows that belong to no group.

    Raises:
        FleetError: listing every kind of fault with its number of rows and one of them.
    """
    reports = [_check_topics(fleet.topics)]
    if fleet.replicas is not None:
        reports.append(_check_replicas(fleet.replicas))
    if fleet.brokers is not None:
        reports.append(_check_brokers(fleet.brokers))
    for table in ("members", "subscriptions", *_OWNERSHIP, "groups"):
        rows = getattr(fleet, table)
        if rows is not None:
            reports.append(_report(table, rows.withColumn("rows", F.lit(1)), GROUP_KEY, _null_keys(GROUP_KEY)))
    found = reduce(DataFrame.unionByName, reports).where(F.col("faulty") > 0).collect()  # one row per check
    faults = [
        Fault(row["table"], row["column"], f"{row['problem']}: {row['faulty']} row(s), e.g. {row['example']}", row["remedy"])
        for row in found
    ]
    if faults:
        raise FleetError(sorted(faults, key=str))


def _check_topics(topics: DataFrame) -> DataFrame:
    key = ["cluster", "topic"]
    count = F.col("partitions")
    rows = _by_key(topics, key, bad=count.isNull() | (count < 0))
    return _report(
        "topics",
        rows,
        key,
        [
            *_null_keys(key),
            _Check("partitions", "negative, null or beyond int", F.col("bad"), "Give the topic's number of partitions"),
            _Check("topic", "the same topic twice in a cluster", F.col("rows") > 1, "Keep one row per cluster and topic"),
        ],
    )


def _check_replicas(replicas: DataFrame) -> DataFrame:
    key = ["cluster", "topic", "partition"]
    rows = _by_key(replicas, key, bad=F.col("replicas").isNull() | (F.col("partition") < 0))
    return _report(
        "replicas",
        rows,
        key,
        [
            *_null_keys(key),
            _Check("replicas", "null, or of a negative partition", F.col("bad"), "List the partition's broker ids"),
            _Check("partition", "the same partition twice", F.col("rows") > 1, "Keep one row per partition"),
        ],
    )


def _check_brokers(brokers: DataFrame) -> DataFrame:
    key = ["cluster", "broker_id"]
    rows = _by_key(brokers, key, bad=F.lit(False))
    twice = _Check("broker_id", "the same broker twice", F.col("rows") > 1, "Keep one row per cluster and broker")
    return _report("brokers", rows, key, [*_null_keys(key), twice])


def _null_keys(columns: list[str]) -> list[_Check]:
    return [_Check(name, "null in a key", F.col(name).isNull(), "Fill it in or leave the row out") for name in columns]


def _by_key(table: DataFrame, key: list[str], bad: Column) -> DataFrame:
    return table.groupBy(*key).agg(F.count(F.lit(1)).alias("rows"), F.bool_or(bad).alias("bad"))


def _report(table: str, rows: DataFrame, key: list[str], checks: list[_Check]) -> DataFrame:
    """One row per check: table, column, problem, faulty (rows), example (the least faulty row), remedy."""
    counted = rows.agg(
        *(
            F.struct(
                F.lit(table).alias("table"),
                F.lit(check.column).alias("column"),
                F.lit(check.problem).alias("problem"),
                F.sum(F.when(check.faulty, F.col("rows"))).alias("faulty"),
                F.min(F.when(check.faulty, _show(key))).alias("example"),
                F.lit(check.remedy).alias("remedy"),
            ).alias(f"check{number}")
            for number, check in enumerate(checks)
        )
    )
    return counted.select(F.inline(F.array(*counted.columns)))


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


def find_group_faults(fleet: Fleet, topics: DataFrame, partial: DataFrame | None) -> DataFrame:
    """The groups that cannot be planned, and why.

    Args:
        fleet: the fleet.
        topics: its `subscribed_topics`.
        partial: its `partial_subscribers`, or null if it has none. A class of all members cannot have an unknown one.

    Returns:
        cluster, group_id, code (the first of `_REMEDIES` that fits), detail; one row per faulty group.
    """
    found = [
        *_member_faults(fleet.members),
        *_subscription_faults(fleet.members, topics, partial),
        *(fault for table in _OWNERSHIP for fault in _ownership_faults(fleet.members, table, getattr(fleet, table))),
    ]
    if fleet.groups is not None:
        repeated = fleet.groups.groupBy(*GROUP_KEY).count().where(F.col("count") > 1)
        found.append(_fault(repeated, "duplicate-group", "groups", GROUP_KEY))
    remedies = F.create_map(*(F.lit(text) for pair in _REMEDIES.items() for text in pair))
    codes = F.array(*(F.lit(code) for code in _REMEDIES))
    more = F.when(F.col("rows") > 1, F.concat(F.lit(" and "), F.col("rows") - 1, F.lit(" more"))).otherwise("")
    per_code = (
        reduce(DataFrame.unionByName, found)
        .where(F.col("cluster").isNotNull() & F.col("group_id").isNotNull())
        .groupBy(*GROUP_KEY, "code")
        .agg(F.count(F.lit(1)).alias("rows"), F.min("row").alias("row"))
        .select(
            *GROUP_KEY,
            F.struct(
                F.array_position(codes, F.col("code")).alias("order"),
                "code",
                F.concat("row", more, F.lit(". "), remedies[F.col("code")]).alias("detail"),
            ).alias("fault"),
        )
    )
    faults = F.array_sort(F.collect_list("fault"))
    return (
        per_code.groupBy(*GROUP_KEY)
        .agg(faults.alias("faults"))
        .select(
            *GROUP_KEY,
            F.col("faults")[0]["code"].alias("code"),
            F.concat_ws("; ", F.transform("faults", lambda fault: fault["detail"])).alias("detail"),
        )
    )


def _fault(rows: DataFrame, code: str, table: str, show: list[str]) -> DataFrame:
    """Faulty rows as cluster, group_id, code, row (the row as text)."""
    columns = [name for name in show if name not in GROUP_KEY] or GROUP_KEY
    row = F.concat(F.lit(f"{table}: "), _show(columns))
    return rows.select(*GROUP_KEY, F.lit(code).alias("code"), row.alias("row"))


def _member_faults(members: DataFrame) -> list[DataFrame]:
    repeated = members.groupBy(*MEMBER_KEY).count().where(F.col("count") > 1)
    instances = (
        members.where(F.col("group_instance_id").isNotNull())
        .groupBy(*GROUP_KEY, "group_instance_id")
        .agg(F.count_distinct("member_id").alias("count"))
        .where(F.col("count") > 1)
    )
    return [
        _fault(members.where(F.col("member_id").isNull()), "null-key", "members", MEMBER_KEY),
        _fault(repeated, "duplicate-member", "members", MEMBER_KEY),
        _fault(instances, "duplicate-instance", "members", [*GROUP_KEY, "group_instance_id"]),
    ]


def _subscription_faults(members: DataFrame, topics: DataFrame, partial: DataFrame | None) -> list[DataFrame]:
    faults = [_fault(topics.where(F.col("topic").isNull()), "null-key", "subscriptions", ["topic"])]
    if partial is not None:
        named = partial.where(F.col("member_id").isNotNull())
        unknown = named.join(members.select(*MEMBER_KEY), MEMBER_KEY, "left_anti")
        nameless = partial.where(F.col("member_id").isNull())
        faults.append(_fault(nameless, "null-key", "subscriptions", MEMBER_KEY))
        faults.append(_fault(unknown, "unknown-member", "subscriptions", MEMBER_KEY))
    return faults


def _ownership_faults(members: DataFrame, table: str, rows: DataFrame | None) -> list[DataFrame]:
    if rows is None:
        return []
    by_run = table == "owned_runs"
    numbers = ["first", "step", "count"] if by_run else ["partition"]
    show = [*MEMBER_KEY, "topic", *numbers]
    null = reduce(Column.__or__, (F.col(name).isNull() for name in ("member_id", "topic", *numbers)))
    if by_run:
        bad = (F.col("first") < 0) | (F.col("step") < 1) | (F.col("count") < 0)
    else:
        bad = F.col("partition") < 0
    owners = rows.where(F.col("member_id").isNotNull()).select(*MEMBER_KEY).distinct()
    unknown = owners.join(members.select(*MEMBER_KEY), MEMBER_KEY, "left_anti")
    sound = rows.where(~null & ~bad).select(*show)
    twice = (
        (expand(_overlapping(sound)) if by_run else sound)
        .groupBy(*MEMBER_KEY, "topic", "partition")
        .count()
        .where(F.col("count") > 1)
    )
    return [
        _fault(rows.where(null), "null-key", table, show),
        _fault(rows.where(bad), "bad-partition", table, show),
        _fault(unknown, "unknown-member", table, MEMBER_KEY),
        _fault(twice, "duplicate-owned", table, [*MEMBER_KEY, "topic", "partition"]),
    ]


def _overlapping(runs: DataFrame) -> DataFrame:
    """The runs of those members' topics in which one run begins before another has ended."""
    key = [*MEMBER_KEY, "topic"]
    last = F.col("first") + F.col("step") * (F.col("count") - 1)
    earlier = Window.partitionBy(*key).orderBy("first", "count").rowsBetween(Window.unboundedPreceding, -1)
    crossed = F.bool_or(F.col("crosses")).over(Window.partitionBy(*key))
    return (
        runs.where(F.col("count") > 0)
        .withColumn("crosses", F.coalesce(F.max(last).over(earlier) >= F.col("first"), F.lit(False)))
        .withColumn("crossed", crossed)
        .where("crossed")
        .drop("crosses", "crossed")
    )
