"""Round robin: all partitions of the group's topics, dealt to its members in turn.

Principles (Kafka's `RoundRobinAssignor`)
    1. Members stand in a ring: static ones by instance id, then the others by member id.
    2. Topics come by name, their partitions ascending; each partition goes to the next member in the ring that
       subscribes to its topic.

Example: C0 and C1 subscribe to t0 and t1, three partitions each.
    C0: [t0p0, t0p2, t1p1]
    C1: [t0p1, t1p0, t1p2]

A topic's partitions thus go round its n subscribers: the one who is k-th in line gets k, k + n, k + 2n, … So all
there is to find is who is first in line for each topic. Where all topics have the same subscribers, that is a row
number modulo: the partitions of all topics before it, modulo n. Where subscriptions differ, the pointer goes on from
one topic to the next round the ring of all members (`kernels.ring`), still one step per topic and not per partition.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType

from spark_assign.assignors.deal import lay_out
from spark_assign.assignors.groups import Groups, Outcome
from spark_assign.java_order import string_order
from spark_assign.kernels.ring import first_in_line
from spark_assign.schemas import GROUP_KEY
from spark_assign.subscribers import CLASS_KEY


class RoundRobinAssignor:
    """Kafka's `roundrobin`. Sets of partitions never depend on Java's hash order."""

    name = "roundrobin"

    def assign(self, groups: Groups) -> Outcome:
        """Plan the groups; see the module's page for the rules. Every group can be planned."""
        topics = groups.topics
        if not groups.census.partial_classes:
            started = start_by_row_number(topics)
        else:
            kinds = mark_mixed_groups(topics)
            alike = kinds.where(~F.col("mixed")).drop("mixed")
            mixed = kinds.where(F.col("mixed")).drop("mixed")
            walked = groups.census.keep(start_by_ring(mixed, groups.members))
            started = start_by_row_number(alike).unionByName(walked)
        return Outcome(deal_in_turn(lay_out(started, groups)), complete=True)


def mark_mixed_groups(topics: DataFrame) -> DataFrame:
    """Add `mixed`: whether the group's topics have differing subscribers."""
    group = Window.partitionBy(*GROUP_KEY)
    return topics.withColumn("mixed", F.min("subscribers").over(group) != F.max("subscribers").over(group))


def start_by_row_number(topics: DataFrame) -> DataFrame:
    """Add `start` (bigint), where all topics of a group have the same subscribers: the row number of partition 0."""
    before = Window.partitionBy(*GROUP_KEY).orderBy(string_order("topic")).rowsBetween(Window.unboundedPreceding, -1)
    row_number = F.sum(F.col("partitions").cast("long")).over(before)
    return topics.withColumn("start", F.coalesce(row_number, F.lit(0).cast("long")))


def start_by_ring(topics: DataFrame, members: DataFrame) -> DataFrame:
    """Add `start` (bigint), where subscribers differ: the rank, among the topic's own, of who gets partition 0."""
    ordered = Window.partitionBy(*GROUP_KEY).orderBy(string_order("topic"))
    no_rank, no_number = F.lit(None).cast(IntegerType()), F.lit(None).cast(LongType())
    lines = topics.withColumn("number", F.row_number().over(ordered).cast("long")).withColumn("ring", no_rank)
    needed = members.join(topics.select(*CLASS_KEY).distinct(), CLASS_KEY, "left_semi")
    rings = needed.select(
        *CLASS_KEY,
        F.lit(None).cast("string").alias("topic"),
        F.lit(None).cast(IntegerType()).alias("partitions"),
        no_number.alias("number"),
        "ring",
    )
    schema = topics.withColumn("start", no_number).schema
    return lines.unionByName(rings).groupBy(*GROUP_KEY).applyInArrow(_walk_group, schema)


def _walk_group(group: pa.Table) -> pa.Table:
    """One group: topic rows (with `number`) and class rows (with `ring`) to topic rows with `start`."""
    frame = group.to_pandas()
    frame["class"] = frame["subscribers"].map(lambda s: (s["number"], s["low"], s["high"], s["other"]))
    rings = frame[frame["ring"].notna()].sort_values("ring")
    lines = {key: rows.astype(int).tolist() for key, rows in rings.groupby("class")["ring"]}
    topics = frame[frame["number"].notna()].sort_values("number")
    visits = [(lines[key], int(count)) for key, count in zip(topics["class"], topics["partitions"], strict=True)]
    order = pa.array(topics.index)
    starts = pa.array(first_in_line(visits), pa.int64())
    columns = [name for name in group.column_names if name not in ("number", "ring")]
    return group.select(columns).take(order).append_column("start", starts)


def deal_in_turn(line: DataFrame) -> DataFrame:
    """Topics laid against subscribers, with `start`, to runs: everyone gets each `members`-th partition."""
    first = F.pmod(F.col("rank") - F.col("start"), F.col("members"))
    rounds = F.ceil((F.col("partitions") - F.col("first")) / F.col("members"))
    return (
        line.withColumn("first", first.cast("int"))
        .where(F.col("first") < F.col("partitions"))
        .select(
            *GROUP_KEY,
            "member_id",
            "topic",
            "first",
            F.col("members").cast("int").alias("step"),
            rounds.cast("int").alias("count"),
        )
    )
