"""Range: each topic for itself, laid out in consecutive ranges over its subscribers.

Principles (Kafka's `RangeAssignor`; racks by KIP-881), in this priority
    1. Balance within the topic: p partitions over n subscribers give each p / n, and the first p % n one more.
    2. Racks: where it costs no balance, a partition goes to a member that has a replica in its own rack.
    3. Co-partitioning: topics with the same subscribers and as many partitions are laid out alike, so that one member
       has partition i of all of them.

Example: C0 and C1 subscribe to t0 and t1, three partitions each.
    C0: [t0p0, t0p1, t1p0, t1p1]
    C1: [t0p2, t1p2]

Steps
    1. Rank the topic's subscribers: static members first, by instance id, then the others by member id.
    2. The member of rank k begins at k * (p / n) + min(k, p % n) and gets p / n partitions, the first p % n one more.

Topics that racks decide are laid out anew by `groups.assignors.rack_aware_range`, over the whole group. Sets of
partitions never depend on Java's hash order.

Clients before 3.5.0 know no racks (`range@3.4`, `groups.assignors.release_rules`).
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.spark.java_order import string_order


def rank_subscribers(lines: DataFrame, group: Sequence[str]) -> DataFrame:
    """Step 1 (`AbstractPartitionAssignor.MemberInfo`): add `rank`, from 0, and `members`, how many the topic has.

    And `line`, the number of the subscription's row, from 1.

    Args:
        lines: topic, partitions, member_id, instance (null: a dynamic member) of each subscription, and the columns of
            `group`. One that is there twice has the same rank twice.
        group: the columns that tell groups apart.
    """
    topic = Window.partitionBy(*group, "topic")
    served = topic.orderBy(F.col("instance").isNull(), string_order("instance"), string_order("member_id"))
    ranked = lines.withColumns({"rank": F.dense_rank().over(served) - 1, "line": F.row_number().over(served)})
    return ranked.withColumn("members", F.max("rank").over(topic) + 1)


def range_slices() -> dict[str, Column]:
    """Step 2: first, step, count of a ranked subscriber's run; count 0: nothing."""
    quota, longer = F.expr("partitions div members"), F.col("partitions") % F.col("members")
    return {
        "first": F.col("rank") * quota + F.least(F.col("rank"), longer),
        "step": F.lit(1),
        "count": quota + (F.col("rank") < longer).cast("int"),
    }
