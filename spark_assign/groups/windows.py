"""Range and round robin as Spark window functions, for many groups at once. `assignors.range` and `.roundrobin`
recompute the groups in which racks or different subscriptions matter. Neither result depends on Java's hash order.

# Range: each topic separately, in consecutive ranges over its subscribers

Principles (Kafka's `RangeAssignor`; racks by KIP-881), in order of priority
    1. Balance within the topic: of p partitions and n subscribers, each subscriber gets p / n, and the first p % n get
       one more.
    2. Racks: if balance permits, a partition goes to a member with a replica in its own rack.
    3. Co-partitioning: topics with the same subscribers and partition count are assigned identically, so that one
       member has partition i of all of them.

Example: C0 and C1 subscribe to t0 and t1, three partitions each.
    C0: [t0p0, t0p1, t1p0, t1p1]
    C1: [t0p2, t1p2]

Steps
    1. Rank the topic's subscribers: static members first, by instance id, then dynamic members by member id.
    2. The member of rank k starts at k * (p / n) + min(k, p % n) and gets p / n partitions, the first p % n one more.

Clients before 3.5.0 ignore racks (`range@3.4`, `assignors.release_rules`).

# Round robin: all partitions of the group's topics to its members in turn

Principles (Kafka's `RoundRobinAssignor`)
    1. Members form a ring: static members by instance id, then dynamic members by member id.
    2. Topics come by name, their partitions in ascending order. Each partition goes to the next member in the ring that
       subscribes to its topic.

Example: C0 and C1 subscribe to t0 and t1, three partitions each.
    C0: [t0p0, t0p2, t1p1]
    C1: [t0p1, t1p0, t1p2]

Steps
    1. Rank the members as range does.
    2. Number the group's partitions in that order: the row number of a topic's partition 0 is the number of partitions
       of all preceding topics.
    3. The row number modulo n is the rank of the member that gets the partition. So the member of rank k gets every
       n-th partition of a topic, starting at (k - row number of partition 0) modulo n.

If subscriptions differ, the position in the ring of all members carries over from topic to topic.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.spark.java_order import string_order


def rank_subscribers(subscriptions: DataFrame, group: Sequence[str]) -> DataFrame:
    """Step 1 of both (`AbstractPartitionAssignor.MemberInfo`): adds `rank` (from 0), `members` (subscribers of the
    topic), and `line` (row number within the topic, from 1).

    Args:
        subscriptions: one row per subscription: topic, partitions, member_id, instance (null: dynamic member), and the
            columns of `group`. Duplicates of a subscription get the same rank.
        group: the columns that identify a group.
    """
    topic = Window.partitionBy(*group, "topic")
    assignment_order = topic.orderBy(F.col("instance").isNull(), string_order("instance"), string_order("member_id"))
    ranked = subscriptions.withColumns(
        {"rank": F.dense_rank().over(assignment_order) - 1, "line": F.row_number().over(assignment_order)}
    )
    return ranked.withColumn("members", F.max("rank").over(topic) + 1)


def range_slices() -> dict[str, Column]:
    """Step 2 of range: returns first, step, and count of a ranked subscriber's slice; count 0 means no partitions."""
    quota, extra = F.expr("partitions div members"), F.col("partitions") % F.col("members")
    return {
        "first": F.col("rank") * quota + F.least(F.col("rank"), extra),
        "step": F.lit(1),
        "count": quota + (F.col("rank") < extra).cast("int"),
    }


def number_partitions(ranked: DataFrame, group: Sequence[str]) -> DataFrame:
    """Step 2 of round robin: adds `row_number` (bigint), the row number of the topic's partition 0.

    Args:
        ranked: subscriptions with topic and partitions, as `rank_subscribers` returns them.
        group: the columns that identify a group.
    """
    topic_partitions = F.when(F.col("line") == 1, F.col("partitions").cast("long"))
    topics = Window.partitionBy(*group).orderBy(string_order("topic"), "line")
    cumulative = F.sum(topic_partitions).over(topics.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    return ranked.withColumn("row_number", cumulative - F.col("partitions"))


def round_robin_slices() -> dict[str, Column]:
    """Step 3 of round robin: returns first, step, and count of a ranked subscriber's slice, as `range_slices` does."""
    first = F.pmod(F.col("rank") - F.col("row_number"), F.col("members"))
    count = F.ceil((F.col("partitions") - first) / F.col("members"))
    return {"first": first, "step": F.col("members"), "count": F.greatest(count, F.lit(0))}


WINDOW_SLICES: dict[str, Callable[[], dict[str, Column]]] = {"range": range_slices, "roundrobin": round_robin_slices}
"""The last step of each assignor that windows compute."""


def assign_by_windows(
    rows: DataFrame, assignors: Collection[str], group: Sequence[str], *, static: bool = True
) -> DataFrame:
    """Assigns every topic to its subscribers, by each of the assignors.

    Args:
        rows: facts. A subscription has member_id, topic, and partitions; a member has group_instance_id. All facts of a
            group are in one Spark partition, and the windows keep them there.
        assignors: keys of `WINDOW_SLICES`.
        group: the columns that identify a group.
        static: whether any member is static.

    Returns:
        the facts with the columns `<assignor>_first`, `_step`, and `_count`: the slice of each subscription. A count of
        0 or null means no partitions.
    """
    if not assignors:
        return rows
    columns = rows.columns
    instance = F.col("group_instance_id")
    if static:
        instance = F.max("group_instance_id").over(Window.partitionBy(*group, "member_id"))
    rows = rank_subscribers(rows.withColumn("instance", instance), [*group, "kind"])
    if "roundrobin" in assignors:
        rows = number_partitions(rows, [*group, "kind"])
    slices = {f"{name}_{field}": value for name in assignors for field, value in WINDOW_SLICES[name]().items()}
    return rows.select(*columns, *(value.cast("int").alias(name) for name, value in slices.items()))
