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

Topics that racks decide are laid out anew by `kernels.rack_range`, over the whole group. Sets of partitions never
depend on Java's hash order.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.java_order import string_order
from spark_assign.schemas import GROUP_KEY


def rank_subscribers(lines: DataFrame) -> DataFrame:
    """Step 1 (`AbstractPartitionAssignor.MemberInfo`): add `rank`, from 0, and `members`, how many the topic has.

    Args:
        lines: cluster, group_id, topic, partitions, member_id, group_instance_id; a row per subscription.
    """
    topic = Window.partitionBy(*GROUP_KEY, "topic")
    instance = F.col("group_instance_id")
    served = topic.orderBy(instance.isNull(), string_order(instance), string_order("member_id"))
    return lines.withColumn("rank", F.row_number().over(served) - 1).withColumn("members", F.count("*").over(topic))


def consecutive() -> list[Column]:
    """Step 2: first, step, count of a ranked subscriber's run; count 0: nothing."""
    quota, longer = F.expr("partitions div members"), F.col("partitions") % F.col("members")
    first = F.col("rank") * quota + F.least(F.col("rank"), longer)
    count = quota + (F.col("rank") < longer).cast("int")
    return [first.cast("int").alias("first"), F.lit(1).alias("step"), count.cast("int").alias("count")]
