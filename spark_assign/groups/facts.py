"""All that is known of a fleet's groups, as one table of facts (`groups.kernel.facts` says what each kind has).

Tables are brought together by union and not by join: a row of a table is a fact, single partitions become blocks of
bits, and the facts of a group are shuffled once, all to one task. There the windows of range and round robin add what
they lay out, and Python reads the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
)

from spark_assign.groups.kernel import facts as kinds
from spark_assign.groups.windows import assign_by_windows
from spark_assign.spark.partition_slices import to_bitmaps
from spark_assign.tables.groups import GROUP_KEY, MEMBER_KEY

if TYPE_CHECKING:
    from spark_assign.fleet import Fleet

MANY_TOPICS = 64
"""Where a member subscribes to so many topics on average, those of a group that are alike are told of once."""

ROWS_PER_TASK = 128_000
"""About so many facts are handed to the kernels at once (a group is never parted), which bounds what a worker holds."""

OWNED_PER_FACT = 16
"""Single partitions come in blocks: about so many are one fact."""

_COLUMNS: dict[str, DataType] = {
    **dict.fromkeys(
        ("member_id", "topic", "like", "assignor", "group_type", "group_instance_id", "rack_id"), StringType()
    ),
    **dict.fromkeys(("client_id", "topic_id", "subscription_type", *kinds.LEADER_COLUMNS), StringType()),
    **dict.fromkeys(("generation_id", "user_data_generation_id", "position"), IntegerType()),
    **dict.fromkeys(("partitions", "first", "step", "count", "block"), IntegerType()),
    **dict.fromkeys(("bits", "twice"), ArrayType(LongType())),
    "at": ArrayType(IntegerType()),
    "leader_racks": ArrayType(StringType()),
    **dict.fromkeys(kinds.LOAD_COLUMNS.values(), ArrayType(DoubleType())),
    **dict.fromkeys(kinds.LOAD_SETTINGS, DoubleType()),
    "racks": ArrayType(ArrayType(StringType())),
}
_RUN = ("first", "step", "count")
_PARTITIONS = "if(count > 0, transform(sequence(0, count - 1), nth -> first + nth * step), array(-1))"
"""Those of a run; -1 for a topic of which a member has none."""
_ABOUT = ("group_instance_id", "rack_id", "generation_id", "user_data_generation_id", "position")


def gather_facts(
    fleet: Fleet,
    *,
    user_data: bool = False,
    clients: bool = False,
    topic_ids: bool = False,
    in_order: bool = False,
    initialized: bool = False,
    loads: bool = False,
) -> DataFrame:
    """The facts of the fleet, but for the racks of replicas.

    Args:
        fleet: what is known; its tables have been checked.
        user_data: whether an assignor wants to see what `members` has in a column of that name.
        clients: whether the members' client ids are asked for.
        topic_ids: whether an assignor looks at the ids of topics.
        in_order: whether it matters to one in which order members tell what they own.
        initialized: whether it is asked for which partitions the coordinator has initialised share state.
        loads: whether it is asked for what goes through the partitions.

    Returns:
        cluster, group_id, kind, and those columns of a fact that some fact of this fleet uses.
    """
    # With ids all facts of topics have them, so that all joins share one read of the topics.
    by_id = ["topic_id"] if topic_ids else []
    known = fleet.topics.select("cluster", "topic", "partitions", *by_id)
    more = [
        *(["user_data"] if user_data and "user_data" in fleet.members.columns else []),
        *(["client_id"] if clients else []),
    ]
    members = fleet.members.withColumn("rack_id", F.when(F.col("rack_id") != "", F.col("rack_id")))
    asked = fleet.subscriptions.select(*MEMBER_KEY, "topic")
    facts = [_fact(members, kinds.MEMBER, "member_id", *_ABOUT, *more)]
    if fleet.sizes.subscriptions >= MANY_TOPICS * fleet.sizes.members:
        alike = find_duplicate_topics(asked, known)
        facts.append(_fact(alike, kinds.DUPLICATE_TOPIC, "topic", "like", *by_id))
        asked = _to_those_alike(asked, alike)
    facts.append(_fact(_with(asked, known), kinds.SUBSCRIPTION, "member_id", "topic", "partitions", *by_id))
    if fleet.groups is not None:
        of_load = [name for name in kinds.LOAD_SETTINGS if loads and name in fleet.groups.columns]
        of_group = ("assignor", "group_type", "subscription_type", *kinds.LEADER_COLUMNS, *of_load)
        facts.append(_fact(fleet.groups, kinds.GROUP, *of_group))
    if fleet.owned_runs is not None:
        facts.append(
            _fact(_with(fleet.owned_runs, known), kinds.OWNED_SLICE, "member_id", "topic", "partitions", *by_id, *_RUN)
        )
    if fleet.owned is not None:
        blocks = _with(to_bitmaps(fleet.owned), known)
        numbers = ("block", "bits", "twice", "count")
        facts.append(_fact(blocks, kinds.OWNED_BITMAP, "member_id", "topic", "partitions", *by_id, *numbers))
        if in_order and "position" in fleet.owned.columns:
            facts.append(_fact(_in_order(fleet.owned), kinds.OWNED_ORDER, "member_id", "topic", "position", "at"))
    if in_order and fleet.owned_runs is not None and "position" in fleet.owned_runs.columns:
        told = fleet.owned_runs.where(F.col("position").isNotNull())
        told = told.withColumns({"at": F.expr(_PARTITIONS), "position": F.col("position").try_cast("int")})
        facts.append(_fact(told, kinds.OWNED_ORDER, "member_id", "topic", "position", "at"))
    if fleet.departed is not None:
        facts.append(
            _fact(_with(fleet.departed, known), kinds.DEPARTED_SLICE, "member_id", "topic", "partitions", *by_id, *_RUN)
        )
    if initialized and fleet.initialized is not None:
        facts.append(_fact(fleet.initialized, kinds.INITIALIZED, "topic", *_RUN))
    if loads and fleet.loads is not None:
        facts += _loads(fleet.loads, fleet.subscriptions)
    if fleet.subtopologies is not None:
        facts.append(_fact(fleet.subtopologies, kinds.SUBTOPOLOGY))
    return _union(facts)


def facts_by_group(
    fleet: Fleet,
    assignors: Collection[str] = (),
    *,
    user_data: bool = False,
    clients: bool = False,
    topic_ids: bool = False,
    in_order: bool = False,
    loads: bool = False,
    leaders: bool = False,
) -> DataFrame:
    """All facts of the fleet, those of a group in one task.

    Args:
        fleet, user_data, clients, topic_ids, in_order, loads: as for `gather_facts`.
        assignors: those of `groups.windows` that lay out every group.
        leaders: whether it is asked for in which racks the preferred leaders are.

    Returns:
        cluster, group_id, kind, those columns of a fact that some fact of this fleet uses, and what was laid out.
    """
    about = {"user_data": user_data, "clients": clients, "topic_ids": topic_ids, "in_order": in_order, "loads": loads}
    told = gather_facts(fleet, **about)
    rows = told.repartition(num_spark_tasks(fleet), *GROUP_KEY)
    static = fleet.sizes.static_members > 0
    if not _racks_matter(fleet):
        return _still_whole(assign_by_windows(rows, assignors, GROUP_KEY, static=static), num_spark_tasks(fleet))
    rows = _for_all_readers(rows)
    windowed = assign_by_windows(rows, assignors, GROUP_KEY, static=static)
    return _union([windowed, _layouts(rows, fleet, leaders=leaders)]).repartition(num_spark_tasks(fleet), *GROUP_KEY)


def facts_by_group_and_state(
    fleets: Mapping[str, Fleet],
    assignors: Collection[str] = (),
    *,
    user_data: bool = False,
    topic_ids: bool = False,
    in_order: bool = False,
    loads: bool = False,
) -> DataFrame:
    """The same of several states of a fleet, told apart by a column `change`; with the members' client ids."""
    about = {"user_data": user_data, "clients": True, "topic_ids": topic_ids, "in_order": in_order, "loads": loads}
    told = [gather_facts(each, **about).withColumn("change", F.lit(name)) for name, each in fleets.items()]
    number = sum(num_spark_tasks(each) for each in fleets.values())
    rows = _union(told).repartition(number, *GROUP_KEY)
    key, static = [*GROUP_KEY, "change"], any(each.sizes.static_members for each in fleets.values())
    racked = {name: each for name, each in fleets.items() if _racks_matter(each)}
    if not racked:
        return _still_whole(assign_by_windows(rows, assignors, key, static=static), number)
    rows = _for_all_readers(rows)
    layouts = [
        _layouts(rows.where(F.col("change") == name), each).withColumn("change", F.lit(name))
        for name, each in racked.items()
    ]
    return _union([assign_by_windows(rows, assignors, key, static=static), *layouts]).repartition(number, *GROUP_KEY)


def _still_whole(rows: DataFrame, number: int) -> DataFrame:
    """Windows leave groups whole, as rows are shuffled by group already; unless Spark is told to be stricter."""
    try:
        strict = rows.sparkSession.conf.get("spark.sql.requireAllClusterKeysForDistribution", "false")
    except PySparkException:  # a session that keeps its settings to itself
        return rows
    return rows.repartition(number, *GROUP_KEY) if strict == "true" else rows


def _for_all_readers(rows: DataFrame) -> DataFrame:
    """The same, unfolded from one struct: no reader's query leaves a column out, so that all share one shuffle."""
    others = (name for name in rows.columns if name not in GROUP_KEY)
    return rows.select(*GROUP_KEY, F.inline(F.array(F.struct(*others))))


def num_spark_tasks(fleet: Fleet) -> int:
    """In how many tasks the kernels do their work."""
    sizes = fleet.sizes
    rows = sizes.members + sizes.subscriptions + sizes.owned_runs + sizes.owned // OWNED_PER_FACT
    return max(1, -(-rows // ROWS_PER_TASK))


def topic_counts(fleet: Fleet) -> DataFrame:
    """cluster, topic, partitions."""
    return fleet.topics.select("cluster", "topic", "partitions")


def find_duplicate_topics(subscriptions: DataFrame, known: DataFrame) -> DataFrame:
    """Of each topic of a group the first one with the same subscribers and as many partitions.

    Sets of subscribers are told apart by four sums of 32 bits of two hashes, and their number.

    Args:
        subscriptions: cluster, group_id, member_id, topic.
        known: cluster, topic, partitions, and topic_id where ids are known.

    Returns:
        cluster, group_id, topic, like, and topic_id where ids are known.
    """
    hashes = [F.xxhash64("member_id"), F.xxhash64(F.lit("again"), "member_id")]
    halves = [half for each in hashes for half in (F.shiftrightunsigned(each, 32), each.bitwiseAND(0xFFFFFFFF))]
    sums = [F.sum(half).alias(f"sum_{number}") for number, half in enumerate(halves)]
    topics = _with(subscriptions.groupBy(*GROUP_KEY, "topic").agg(F.count(F.lit(1)).alias("number"), *sums), known)
    told_apart_by = ["partitions", "number", *(f"sum_{at}" for at in range(len(sums)))]
    same = Window.partitionBy(*GROUP_KEY, F.col("topic").isNull(), *told_apart_by)
    by_id = [name for name in topics.columns if name == "topic_id"]
    return topics.select(*GROUP_KEY, "topic", F.min("topic").over(same).alias("like"), *by_id)


def _to_those_alike(subscriptions: DataFrame, alike: DataFrame) -> DataFrame:
    """The subscriptions to topics that others are like; a topic without a name is like itself."""
    named = [F.col(name).alias(f"of_{name}") for name in (*GROUP_KEY, "topic")]
    wanted = alike.where("topic <=> like").select(*named)
    same = F.expr("cluster = of_cluster AND group_id = of_group_id AND topic <=> of_topic")
    return subscriptions.join(wanted, same, "left_semi")


def _in_order(owned: DataFrame) -> DataFrame:
    """Of each member and topic the partitions as the member tells them, and the position of the first."""
    told = owned.where(F.col("position").isNotNull())
    listed = F.sort_array(F.collect_list(F.struct("position", "partition"))).alias("listed")
    rows = told.groupBy(*MEMBER_KEY, "topic").agg(listed, F.min("position").alias("position"))
    return rows.withColumn("at", F.col("listed.partition"))


def _loads(loads: DataFrame, subscriptions: DataFrame) -> list[DataFrame]:
    """What goes through the partitions of the topics that groups subscribe to; and of those a group has rows for."""
    each = F.struct("partition", *(F.col(name).cast("double").alias(name) for name in kinds.LOAD_COLUMNS))
    listed = [F.col("each.partition").alias("at")]
    listed += [F.col(f"each.{name}").alias(list_of) for name, list_of in kinds.LOAD_COLUMNS.items()]
    of_all = loads.where(F.col("group_id").isNull()).groupBy("cluster", "topic").agg(F.collect_list(each).alias("each"))
    readers = subscriptions.select(*GROUP_KEY, "topic").distinct()
    of_one = loads.where(F.col("group_id").isNotNull()).groupBy(*GROUP_KEY, "topic")
    return [
        _fact(readers.join(of_all, ["cluster", "topic"]), kinds.LOAD, "topic", *listed),
        _fact(of_one.agg(F.collect_list(each).alias("each")), kinds.GROUP_LOAD, "topic", *listed),
    ]


def _with(owned: DataFrame, known: DataFrame) -> DataFrame:
    """Ownership with the number of partitions of each topic (null: no such topic), and its id where ids are known."""
    return owned.join(known, ["cluster", "topic"], "left")


def _racks_matter(fleet: Fleet) -> bool:
    return fleet.racks_known and fleet.sizes.racked_members > 0


def _layouts(facts: DataFrame, fleet: Fleet, *, leaders: bool = False) -> DataFrame:
    """In groups with racks, of each topic the racks of its partitions' replicas: at and racks, side by side.

    Args:
        facts: of whole groups, so that bringing their members together costs no shuffle.
        fleet: where the replicas are.
        leaders: whether `leader_racks` is asked for, too.
    """
    rack = F.when(F.col("kind") == kinds.MEMBER, F.col("rack_id"))
    topic = F.when(F.col("kind").isin(kinds.SUBSCRIPTION, kinds.DUPLICATE_TOPIC), F.col("topic"))
    groups = facts.groupBy(*GROUP_KEY).agg(F.max(rack).alias("rack_id"), F.collect_set(topic).alias("topics"))
    racked = groups.where(F.col("rack_id").isNotNull()).select(*GROUP_KEY, F.explode("topics").alias("topic"))
    # A left join, as an inner one would filter what it reads, and share no shuffle; a topic without replicas has none.
    layouts = racked.join(replica_racks(fleet), ["cluster", "topic"], "left")
    names = ("at", "racks", *(["leader_racks"] if leaders else []))
    lists = (F.coalesce(name, F.array().cast(_COLUMNS[name])).alias(name) for name in names)
    return _fact(layouts, kinds.REPLICA_RACKS, "topic", *lists)


def replica_racks(fleet: Fleet) -> DataFrame:
    """Per cluster and topic, side by side: `at` (partitions), `racks` (of their replicas) and `leader_racks` (those of
    their preferred leaders; null: not known)."""
    assert fleet.replicas is not None
    assert fleet.brokers is not None
    of_cluster = racks_of_brokers(fleet.brokers)
    rack: Column = F.expr(
        "filter(transform(replicas, each -> try_element_at(rack_of, each)), rack -> rack is not null)"
    )
    leader = F.expr("try_element_at(rack_of, try_element_at(replicas, 1))").alias("leader_racks")
    layout = F.collect_list(F.struct("partition", rack.alias("racks"), leader))
    return (
        fleet.replicas.select("cluster", "topic", "partition", "replicas")
        .join(of_cluster, "cluster")
        .groupBy("cluster", "topic")
        .agg(layout.alias("layout"))
        .select(
            "cluster",
            "topic",
            F.col("layout.partition").alias("at"),
            *(F.col(f"layout.{name}").alias(name) for name in ("racks", "leader_racks")),
        )
    )


def racks_of_brokers(brokers: DataFrame) -> DataFrame:
    """cluster, rack_of: a map from brokers to their racks, of those that have one."""
    racked = brokers.where(F.col("rack_id") != "")
    rack_of = F.map_from_entries(F.collect_list(F.struct("broker_id", "rack_id"))).alias("rack_of")
    return racked.groupBy("cluster").agg(rack_of)


def _kind(kind: int) -> Column:
    return F.lit(kind).cast(ByteType()).alias("kind")


def _fact(rows: DataFrame, kind: int, *columns: str | Column) -> DataFrame:
    return rows.select(*GROUP_KEY, _kind(kind), *columns)


def _union(facts: Sequence[DataFrame]) -> DataFrame:
    """Facts side by side, each with the columns of all; where a kind has none, null or an empty list.

    On its way into Arrow a list that is null makes Spark go over all null lists before it again; no empty one does.
    """
    types: dict[str, DataType] = {}
    for each in facts:
        types |= {name: _COLUMNS.get(name, each.schema[name].dataType) for name in each.columns}
    padded = [
        each.select(*(_column(each, name, kind).cast(kind).alias(name) for name, kind in types.items()))
        for each in facts
    ]
    return reduce(DataFrame.unionByName, padded)


def _column(facts: DataFrame, name: str, kind: DataType) -> Column:
    if name in facts.columns:
        return F.col(name)
    return F.array() if isinstance(kind, ArrayType) else F.lit(None)
