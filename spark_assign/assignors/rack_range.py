"""Range where racks decide (KIP-881): which topics it concerns, and their way through the kernel.

Rules (Kafka's `RangeAssignor.assignWithRackMatching`)
    - A topic needs racks if some subscriber's rack holds a replica of it, and not every partition has replicas in the
      same full set of racks (`AbstractPartitionAssignor.useRackAwareAssignment`).
    - If any topic of a group does, the group's topics are taken in sets of the same subscribers and the same number of
      partitions. A set of two or more whose subscribers have a rack at all is laid out together, needed or not; a
      topic on its own only if it needs racks itself. All other topics are plain ranges.

A set is the unit of work: whatever the group's size, its sets are independent of each other.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, IntegerType, StringType, StructField, StructType

from spark_assign.assignors.groups import Groups
from spark_assign.assignors.replica_racks import replica_racks
from spark_assign.kernels.rack_range import lay_with_racks
from spark_assign.kernels.runs import compress_owners
from spark_assign.schemas import GROUP_KEY
from spark_assign.subscribers import CLASS_KEY

_SET_KEY = [*CLASS_KEY, "set_topic"]


def split_by_rack(groups: Groups) -> tuple[DataFrame, DataFrame | None]:
    """Part the groups' topics into plain ones and ones that racks decide.

    Returns:
        two tables with the columns of `Groups.topics`; the second also has `set_topic`, the least topic of its set, and
        is null where racks decide nothing.
    """
    racks_of_class = (
        groups.members.where(F.col("rack_id").isNotNull())
        .groupBy(*CLASS_KEY)
        .agg(F.collect_set("rack_id").alias("member_racks"))
    )
    alike = Window.partitionBy(*CLASS_KEY, "partitions")
    needs = F.coalesce(F.arrays_overlap("member_racks", "racks") & ~F.col("uniform"), F.lit(False))
    joint = F.col("member_racks").isNotNull() & (F.col("together") > 1)
    marked = groups.census.keep(
        groups.topics.join(racks_of_class, CLASS_KEY, "left")
        .join(_topic_racks(groups), ["cluster", "topic"], "left")
        .withColumn("needs", needs)
        .withColumn("group_needs", F.bool_or("needs").over(Window.partitionBy(*GROUP_KEY)))
        .withColumn("together", F.count(F.lit(1)).over(alike))
        .withColumn("by_rack", F.col("group_needs") & (F.col("needs") | joint))
        .select(*groups.topics.columns, "by_rack", F.min("topic").over(alike).alias("set_topic"))
    )
    sets = marked.where("by_rack").drop("by_rack")
    if sets.isEmpty():
        return groups.topics, None
    return marked.where(~F.col("by_rack")).drop("by_rack", "set_topic"), sets


def runs_by_rack(sets: DataFrame, groups: Groups) -> DataFrame:
    """Lay out the topics that racks decide.

    Args:
        sets: the second table of `split_by_rack`.
        groups: the groups being planned.

    Returns:
        cluster, group_id, member_id, topic, first, step, count.
    """
    key = [F.col(name) for name in _SET_KEY]
    layouts = sets.join(replica_racks(groups), ["cluster", "topic"], "left").select(
        *key,
        "partitions",
        "at",
        "racks",
        F.lit(None).cast(StringType()).alias("member_id"),
        F.lit(None).cast(StringType()).alias("rack_id"),
        F.lit(None).cast(IntegerType()).alias("rank"),
    )
    subscribers = (
        sets.select(*key)
        .distinct()
        .join(groups.members, CLASS_KEY)
        .select(
            *key,
            F.lit(None).cast(IntegerType()).alias("partitions"),
            F.lit(None).cast(ArrayType(IntegerType())).alias("at"),
            F.lit(None).cast(ArrayType(ArrayType(StringType()))).alias("racks"),
            "member_id",
            "rack_id",
            "rank",
        )
    )
    schema = StructType(
        [
            *(sets.schema[name] for name in _SET_KEY),
            StructField("member_id", StringType()),
            *(StructField(name, IntegerType()) for name in ("first", "step", "count")),
        ]
    )
    laid = layouts.unionByName(subscribers).groupBy(*_SET_KEY).applyInArrow(_lay_set, schema)
    topics = sets.select(*_SET_KEY, "topic")
    return (
        groups.census.keep(laid)
        .join(topics, _SET_KEY)
        .select(*GROUP_KEY, "member_id", "topic", "first", "step", "count")
    )


def _topic_racks(groups: Groups) -> DataFrame:
    """Per cluster and topic: `racks`, all racks that hold a replica; `uniform`, whether every partition is in all."""
    layouts = replica_racks(groups).join(
        groups.fleet.topics.select("cluster", "topic", "partitions"), ["cluster", "topic"]
    )
    everywhere = F.array_distinct(F.flatten("racks"))
    fewest = F.array_min(F.transform("racks", F.size))
    uniform = (fewest == F.size(everywhere)) & (F.size("at") == F.col("partitions"))
    return layouts.select("cluster", "topic", everywhere.alias("racks"), uniform.alias("uniform"))


def _lay_set(rows: pa.Table) -> pa.Table:
    """One set of topics: layout rows and subscriber rows to the runs that all its topics share."""
    is_topic = pc.is_valid(rows["partitions"])
    topics = rows.filter(is_topic)
    members = rows.filter(pc.invert(is_topic)).sort_by("rank")
    partitions = topics["partitions"][0].as_py()
    member_racks = members["rack_id"].to_pylist()
    racks = sorted({rack for rack in member_racks if rack is not None})
    near = np.ones((len(racks), partitions), dtype=bool)
    for at, layout in zip(topics["at"], topics["racks"], strict=True):
        near &= _racks_of_partitions(racks, partitions, at, layout)
    index = {rack: number for number, rack in enumerate(racks)}
    rack_numbers = [-1 if rack is None else index[rack] for rack in member_racks]
    owner = lay_with_racks(rack_numbers, near, together=topics.num_rows > 1)
    member, first, step, count = compress_owners(owner)
    key = rows.select(_SET_KEY).take(pa.array(np.zeros(len(member), dtype=np.int64)))
    for name, values in (
        ("member_id", members["member_id"].take(pa.array(member))),
        ("first", pa.array(first, pa.int32())),
        ("step", pa.array(step, pa.int32())),
        ("count", pa.array(count, pa.int32())),
    ):
        key = key.append_column(name, values)
    return key


def _racks_of_partitions(racks: list[str], partitions: int, at: pa.ListScalar, layout: pa.ListScalar) -> np.ndarray:
    """Which of `racks` (rows) hold a replica of which partition (columns) of one topic."""
    near = np.zeros((len(racks), partitions), dtype=bool)
    if at.is_valid:
        lists = layout.values
        partition = np.repeat(at.values.to_numpy(), pc.list_value_length(lists).to_numpy())
        rack = pc.index_in(lists.flatten(), value_set=pa.array(racks, pa.string()))
        known = pc.is_valid(rack).to_numpy(zero_copy_only=False)
        near[rack.fill_null(0).to_numpy()[known], partition[known]] = True
    return near
