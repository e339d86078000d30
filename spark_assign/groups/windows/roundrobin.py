"""Round robin: assigns all partitions of the group's topics to its members in turn.

Principles (Kafka's `RoundRobinAssignor`)
    1. Members form a ring: static members by instance id, then dynamic members by member id.
    2. Topics come by name, their partitions in ascending order. Each partition goes to the next member in the ring that
       subscribes to its topic.

Example: C0 and C1 subscribe to t0 and t1, three partitions each.
    C0: [t0p0, t0p2, t1p1]
    C1: [t0p1, t1p0, t1p2]

Steps
    1. Number the group's partitions in that order: the row number of a topic's partition 0 is the number of partitions
       of all preceding topics.
    2. The row number modulo n is the rank of the member that gets the partition. So the member of rank k gets every
       n-th partition of a topic, starting at (k - row number of partition 0) modulo n.

If subscriptions differ, the position in the ring of all members carries over from topic to topic;
`groups.assignors.roundrobin` recomputes such groups. The result never depends on Java's hash order.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.spark.java_order import string_order


def number_partitions(ranked: DataFrame, group: Sequence[str]) -> DataFrame:
    """Step 1: adds `row_number` (bigint), the row number of the topic's partition 0.

    Args:
        ranked: subscriptions with topic and partitions, as `range.rank_subscribers` returns them.
        group: the columns that identify a group.
    """
    topic_partitions = F.when(F.col("line") == 1, F.col("partitions").cast("long"))
    topics = Window.partitionBy(*group).orderBy(string_order("topic"))
    cumulative = F.sum(topic_partitions).over(topics.rangeBetween(Window.unboundedPreceding, Window.currentRow))
    return ranked.withColumn("row_number", cumulative - F.col("partitions"))


def round_robin_slices() -> dict[str, Column]:
    """Step 2: returns first, step, and count of a ranked subscriber's slice; a count of 0 means no partitions."""
    first = F.pmod(F.col("rank") - F.col("row_number"), F.col("members"))
    count = F.ceil((F.col("partitions") - first) / F.col("members"))
    return {"first": first, "step": F.col("members"), "count": F.greatest(count, F.lit(0))}
