"""Range: assigns each topic separately, in consecutive ranges over its subscribers.

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

`groups.assignors.range` recomputes the topics in which racks matter, over the whole group. The result never
depends on Java's hash order.

Clients before 3.5.0 ignore racks (`range@3.4`, `groups.assignors.release_rules`).
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.spark.java_order import string_order


def rank_subscribers(subscriptions: DataFrame, group: Sequence[str]) -> DataFrame:
    """Step 1 (`AbstractPartitionAssignor.MemberInfo`): adds `rank` (from 0), `members` (subscribers of the topic), and
    `line` (row number within the topic, from 1).

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
    """Step 2: returns first, step, and count of a ranked subscriber's slice; a count of 0 means no partitions."""
    quota, extra = F.expr("partitions div members"), F.col("partitions") % F.col("members")
    return {
        "first": F.col("rank") * quota + F.least(F.col("rank"), extra),
        "step": F.lit(1),
        "count": quota + (F.col("rank") < extra).cast("int"),
    }
