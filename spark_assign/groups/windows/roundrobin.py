"""Round robin: all partitions of the group's topics, dealt to its members in turn.

Principles (Kafka's `RoundRobinAssignor`)
    1. Members stand in a ring: static ones by instance id, then the others by member id.
    2. Topics come by name, their partitions ascending; each partition goes to the next member in the ring that
       subscribes to its topic.

Example: C0 and C1 subscribe to t0 and t1, three partitions each.
    C0: [t0p0, t0p2, t1p1]
    C1: [t0p1, t1p0, t1p2]

Steps
    1. Number the group's partitions in that order: a topic's partition 0 has as its row number the partitions of all
       topics before it.
    2. Row number modulo n is the rank of the member that gets it. So the member of rank k gets every n-th partition of
       a topic, from (k - row number of partition 0) modulo n on.

Where subscriptions differ, the pointer goes on from one topic to the next round the ring of all members; such groups
are dealt anew by `numeric.round_robin_offset`. Sets of partitions never depend on Java's hash order.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.spark.java_order import string_order


def number_partitions(ranked: DataFrame, group: Sequence[str]) -> DataFrame:
    """Step 1: add `row_number` (bigint), that of the topic's partition 0.

    Args:
        ranked: what `range.rank_subscribers` makes of subscriptions, with topic and partitions.
        group: the columns that tell groups apart.
    """
    once = F.when(F.col("line") == 1, F.col("partitions").cast("long"))
    topics = Window.partitionBy(*group).orderBy(string_order("topic"))
    upto = F.sum(once).over(topics.rangeBetween(Window.unboundedPreceding, Window.currentRow))
    return ranked.withColumn("row_number", upto - F.col("partitions"))


def round_robin_slices() -> dict[str, Column]:
    """Step 2: first, step, count of a ranked subscriber's run; count 0: nothing."""
    first = F.pmod(F.col("rank") - F.col("row_number"), F.col("members"))
    turns = F.ceil((F.col("partitions") - first) / F.col("members"))
    return {"first": first, "step": F.col("members"), "count": F.greatest(turns, F.lit(0))}
