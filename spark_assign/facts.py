"""All that is known of a fleet's groups, as one table of facts (`kernels.group.facts` says what each kind has).

Tables are brought together by union and not by join: what members, subscriptions and topics say of a member becomes one
row of it, single partitions become blocks of bits, and a group's rows are shuffled once, all to one task.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from spark_assign.kernels.group import facts as kinds
from spark_assign.kernels.group.blocks import BLOCK_BITS, WORDS
from spark_assign.schemas import GROUP_KEY, MEMBER_KEY

if TYPE_CHECKING:
    from spark_assign.fleet import Fleet

ROWS_PER_TASK = 100_000
"""About so many facts are handed to the kernels at once (a group is never parted), which bounds what a worker holds."""

OWNED_PER_FACT = 16
"""Single partitions come in blocks: about so many are one fact."""

_TOPICS = ArrayType(StructType([StructField("topic", StringType()), StructField("partitions", IntegerType())]))
_COLUMNS: dict[str, DataType] = {
    **dict.fromkeys(("member_id", "topic", "assignor", "group_type", "rack_id"), StringType()),
    "instances": ArrayType(StringType()),
    "topics": _TOPICS,
    **dict.fromkeys(("nameless", "asks"), BooleanType()),
    **dict.fromkeys(("listed", "generation_id", "user_data_generation_id", "position"), IntegerType()),
    **dict.fromkeys(("partitions", "first", "step", "count", "block"), IntegerType()),
    **dict.fromkeys(("bits", "twice"), ArrayType(LongType())),
    "at": ArrayType(IntegerType()),
    "racks": ArrayType(ArrayType(StringType())),
}
_RUN = ("first", "step", "count")


def gather(fleet: Fleet, planned: DataFrame | None = None, *, user_data: bool = False) -> DataFrame:
    """Every fact of the fleet, those of a group in one task.

    Args:
        fleet: what is known; its tables have been checked.
        planned: runs that were laid out already: cluster, group_id, member_id, topic, first, step, count, assignor.
        user_data: whether an assignor wants to see what `members` has in a column of that name.

    Returns:
        cluster, group_id, kind, and those columns of a fact that some fact of this fleet uses.
    """
    known = topic_counts(fleet)
    facts = [_members(fleet, user_data)]
    if fleet.groups is not None:
        facts.append(_fact(configured(fleet), kinds.GROUP, "listed", "assignor", "group_type"))
    if fleet.owned_runs is not None:
        facts.append(_fact(_with(fleet.owned_runs, known), kinds.OWNED, "member_id", "topic", "partitions", *_RUN))
    if fleet.owned is not None:
        blocks = _with(as_blocks(fleet.owned), known)
        numbers = ("block", "bits", "twice", "count")
        facts.append(_fact(blocks, kinds.BLOCK, "member_id", "topic", "partitions", *numbers))
    if fleet.departed is not None:
        facts.append(_fact(_with(fleet.departed, known), kinds.LEFT, "member_id", "topic", "partitions", *_RUN))
    if planned is not None:
        facts.append(_fact(planned, kinds.PLANNED, "member_id", "topic", *_RUN, "assignor"))
    if fleet.racks_known and fleet.sizes.racked_members:
        facts.append(_fact(_layouts(fleet), kinds.LAYOUT, "topic", "at", "racks"))
    used = [name for name in _COLUMNS if any(name in each.columns for each in facts)]
    types = _COLUMNS | ({"user_data": facts[0].schema["user_data"].dataType} if "user_data" in facts[0].columns else {})
    used += ["user_data"] if "user_data" in types else []
    return reduce(DataFrame.unionByName, [_padded(each, {name: types[name] for name in used}) for each in facts])


def in_whole_groups(facts: DataFrame, fleet: Fleet) -> DataFrame:
    """The facts shuffled, all of a group in one task."""
    return facts.repartition(tasks(fleet), *GROUP_KEY)


def tasks(fleet: Fleet) -> int:
    """In how many tasks the kernels do their work."""
    sizes = fleet.sizes
    rows = sizes.members + sizes.subscriptions // 4 + sizes.owned_runs + sizes.owned // OWNED_PER_FACT
    return max(1, -(-rows // ROWS_PER_TASK))


def topic_counts(fleet: Fleet) -> DataFrame:
    """cluster, topic, partitions."""
    return fleet.topics.select("cluster", "topic", "partitions")


def asked(fleet: Fleet, user_data: bool = False) -> DataFrame:
    """A row per member: what `members` says of it, and what it subscribes to."""
    there = "user_data" in fleet.members.columns and user_data
    nothing = F.lit(None)
    asks = fleet.subscriptions.select(*MEMBER_KEY, "topic").join(topic_counts(fleet), ["cluster", "topic"], "left")
    about = {
        "listed": (F.lit(1), nothing.cast("int"), F.sum),
        "group_instance_id": (F.col("group_instance_id"), nothing.cast("string"), F.collect_list),
        "rack_id": (F.when(F.col("rack_id") != "", F.col("rack_id")), nothing.cast("string"), F.max),
        "generation_id": (F.col("generation_id"), nothing.cast("int"), F.max),
        "user_data_generation_id": (F.col("user_data_generation_id"), nothing.cast("int"), F.max),
        "position": (F.col("position"), nothing.cast("int"), F.max),
        "asks": (F.lit(False), F.lit(True), F.bool_or),
        "nameless": (F.lit(False), F.col("topic").isNull(), F.bool_or),
        "topics": (
            nothing.cast(_TOPICS.elementType),
            F.when(F.col("topic").isNotNull(), F.struct("topic", "partitions")),
            F.collect_set,
        ),
    }
    if there:
        kind = fleet.members.schema["user_data"].dataType
        about["user_data"] = (F.col("user_data"), nothing.cast(kind), F.max)
    listed = fleet.members.select(*MEMBER_KEY, *(each[0].alias(name) for name, each in about.items()))
    asking = asks.select(*MEMBER_KEY, *(each[1].alias(name) for name, each in about.items()))
    together = listed.unionByName(asking).groupBy(*MEMBER_KEY)
    rows = together.agg(*(each[2](name).alias(name) for name, each in about.items()))
    rows = rows.withColumnRenamed("group_instance_id", "instances").withColumn("listed", F.col("listed").cast("int"))
    return _for_all_readers(rows)


def lines(fleet: Fleet) -> DataFrame:
    """A row per subscription to a topic with metadata, with what decides the order in which members are served.

    Returns:
        cluster, group_id, topic, partitions, member_id, group_instance_id (null: a dynamic member).
    """
    each = asked(fleet).select(*MEMBER_KEY, "instances", F.explode("topics").alias("asked"))
    instance = F.when(F.size("instances") > 0, F.element_at("instances", 1)).alias("group_instance_id")
    return each.select(*MEMBER_KEY, "asked.topic", "asked.partitions", instance).where(F.col("partitions") > 0)


def configured(fleet: Fleet) -> DataFrame:
    """A row per group of the table `groups`: cluster, group_id, listed (how often), assignor, group_type."""
    assert fleet.groups is not None
    rows = fleet.groups.groupBy(*GROUP_KEY)
    own = (F.min(name).alias(name) for name in ("assignor", "group_type"))
    return _for_all_readers(rows.agg(F.count(F.lit(1)).cast("int").alias("listed"), *own))


def _for_all_readers(rows: DataFrame) -> DataFrame:
    """The same, unfolded from one struct: no reader's query leaves a column out, so that all share one shuffle."""
    return rows.select(F.inline(F.array(F.struct(*rows.columns))))


def as_blocks(owned: DataFrame) -> DataFrame:
    """Rows of single partitions as blocks of bits: cluster, group_id, member_id, topic, block, bits, twice, count.

    An aggregation that needs neither a sort nor Python and leaves little to shuffle; see `kernels.group.blocks`.
    """
    word = F.shiftright("partition", 6).bitwiseAND(WORDS - 1)
    bit = F.expr("shiftleft(1L, partition & 63)")
    each = [F.when(word == number, bit).otherwise(F.lit(0).cast("long")) for number in range(WORDS)]
    bits = [F.bit_or(value).alias(f"or_{number}") for number, value in enumerate(each)]
    twice = [F.bit_xor(value).alias(f"xor_{number}") for number, value in enumerate(each)]
    blocks = owned.groupBy(*MEMBER_KEY, "topic", F.shiftright("partition", BLOCK_BITS).alias("block")).agg(
        *bits, *twice, F.count(F.lit(1)).cast("int").alias("count")
    )
    together = {
        "bits": F.array(*(F.col(f"or_{number}") for number in range(WORDS))),
        "twice": F.array(*(F.col(f"xor_{number}") for number in range(WORDS))),
    }
    return blocks.withColumns(together).select(*MEMBER_KEY, "topic", "block", "bits", "twice", "count")


def _members(fleet: Fleet, user_data: bool) -> DataFrame:
    rows = asked(fleet, user_data)
    return rows.select(*GROUP_KEY, _kind(kinds.MEMBER), *(name for name in rows.columns if name not in GROUP_KEY))


def _with(owned: DataFrame, known: DataFrame) -> DataFrame:
    """Ownership with the number of partitions of each topic; null: no such topic."""
    return owned.join(known, ["cluster", "topic"], "left")


def _layouts(fleet: Fleet) -> DataFrame:
    """In groups with racks, of each topic the racks of its partitions' replicas: at and racks, side by side."""
    rows = asked(fleet).groupBy(*GROUP_KEY)
    topics = F.array_distinct(F.flatten(F.collect_list("topics.topic")))
    racked = rows.agg(F.max("rack_id").alias("rack_id"), topics.alias("topics")).where(F.col("rack_id").isNotNull())
    of_group = racked.select(*GROUP_KEY, F.explode("topics").alias("topic"))
    return of_group.join(replica_racks(fleet), ["cluster", "topic"])


def replica_racks(fleet: Fleet) -> DataFrame:
    """Per cluster and topic the racks of its partitions' replicas: `at` (partitions) and `racks`, side by side."""
    assert fleet.replicas is not None
    assert fleet.brokers is not None
    racked = fleet.brokers.where(F.col("rack_id") != "")
    broker = F.map_from_entries(F.collect_list(F.struct("broker_id", "rack_id"))).alias("rack_of")
    of_cluster = racked.groupBy("cluster").agg(broker)
    rack: Column = F.expr(
        "filter(transform(replicas, each -> try_element_at(rack_of, each)), rack -> rack is not null)"
    )
    layout = F.collect_list(F.struct("partition", rack.alias("racks")))
    return (
        fleet.replicas.select("cluster", "topic", "partition", "replicas")
        .join(of_cluster, "cluster")
        .groupBy("cluster", "topic")
        .agg(layout.alias("layout"))
        .select("cluster", "topic", F.col("layout.partition").alias("at"), F.col("layout.racks").alias("racks"))
    )


def _kind(kind: int) -> Column:
    return F.lit(kind).cast(ByteType()).alias("kind")


def _fact(rows: DataFrame, kind: int, *columns: str) -> DataFrame:
    return rows.select(*GROUP_KEY, _kind(kind), *columns)


def _padded(facts: DataFrame, types: Mapping[str, DataType]) -> DataFrame:
    """The same with all these columns; where this kind has none, null or an empty list."""
    present = (
        (F.col(name) if name in facts.columns else _nothing(kind)).cast(kind).alias(name)
        for name, kind in types.items()
    )
    return facts.select(*GROUP_KEY, "kind", *present)


def _nothing(kind: DataType) -> Column:
    """On its way into Arrow a list that is null makes Spark go over all null lists before it again; no empty one does."""
    return F.array() if isinstance(kind, ArrayType) else F.lit(None)
