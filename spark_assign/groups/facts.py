"""Builds one table of facts about a fleet's groups (`assignors.group_facts` describes the kinds of facts).

Tables are combined by union, not by join: a row of a table is a fact, single partitions become bitmaps, and the facts
of a group are shuffled once, to one Spark task. There the windows of range and round robin add their slices, and Python
reads the rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import reduce
from typing import Literal

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import ArrayType, DataType, StructField, StructType

from spark_assign.assignors import group_facts as kinds
from spark_assign.assignors.group_facts import find_faults, index_facts, rejected_table
from spark_assign.fleet import FleetTables, Sizes
from spark_assign.groups.windows import assign_by_windows
from spark_assign.spark.dataframes import from_lists, map_arrow_batches, to_bitmaps, union, with_brokers, with_leaders
from spark_assign.spark.engine import dataframe_of, windows_shuffle_again, with_schema
from spark_assign.spark.subscription_lists import list_members, list_topics, to_lists
from spark_assign.tables.groups import GROUP_KEY, MEMBER_KEY, REJECTED

Leaders = Literal["current", "preferred"]

MANY_TOPICS = 64
"""Average number of topics per member from which rows of subscriptions are made into lists."""

MAX_COUNTED_PAIRS = 500_000
"""Number of pairs of a member and a topic up to which each counts as a row of a task, although lists have fewer rows:
the task also expands the partitions of all pairs."""

ROWS_PER_TASK = 128_000
"""Approximate number of facts per Spark task. It bounds the memory of a worker; a group is never split."""

OWNED_PER_FACT = 16
"""Approximate number of owned partitions per bitmap, that is, per fact."""

SPARSE = 4
"""Average number of owned partitions per subscription below which each is a fact of its own: bitmaps would be larger,
because a member owns few partitions of each topic."""

_COLUMNS = {name: from_arrow_type(kind) for name, kind in kinds.FACT_TYPES.items() if name != "user_data"}
"""Types of the columns of facts. A custom assignor gets `user_data` with the type that it has in `members`."""
_SLICE = ("first", "step", "count")
_ABOUT = ("group_instance_id", "rack_id", "generation_id", "user_data_generation_id", "position")


def gather_facts(
    fleet: FleetTables,
    *,
    user_data: bool = False,
    clients: bool = False,
    hosts: bool = False,
    topic_ids: bool = False,
    owned_order: bool = False,
    initialized: bool = False,
    loads: bool = False,
) -> DataFrame:
    """Returns the facts of the fleet, without the racks of replicas.

    Args:
        fleet: the fleet, whose tables are checked.
        user_data: whether a custom assignor reads the column `user_data` of `members`.
        clients: whether to include the client ids of members.
        hosts: whether to include the hosts of members.
        topic_ids: whether to include topic ids.
        owned_order: whether to include the order in which members report the partitions that they own.
        initialized: whether to include the partitions whose share state is initialized.
        loads: whether to include partition loads.

    Returns:
        cluster, group_id, kind, and the columns that the facts of this fleet use.
    """
    # If ids are needed, all facts of topics get them, so that all joins share one scan of the topics.
    topic_id = ["topic_id"] if topic_ids else []
    topics = fleet.topics.select("cluster", "topic", "partitions", *topic_id)

    def member_topics(rows: DataFrame, kind: int, *columns: str) -> DataFrame:
        """Returns facts about a topic of a member, with the topic's partition count."""
        return _fact(_with_topics(rows, topics), kind, "member_id", "topic", "partitions", *topic_id, *columns)

    is_read = {"user_data": user_data, "client_id": clients, "client_host": hosts}
    optional = [name for name in is_read if is_read[name] and name in fleet.members.columns]
    members = fleet.members.withColumn("rack_id", F.when(F.col("rack_id") != "", F.col("rack_id")))
    facts = [_fact(members, kinds.MEMBER, "member_id", *_ABOUT, *optional)]
    if fleet.subscriptions is not None and _has_rows(fleet):
        facts.append(member_topics(fleet.subscriptions, kinds.SUBSCRIPTION))
    if (lists := _subscription_lists(fleet)) is not None:
        facts.append(_fact(list_members(lists), kinds.LISTED_MEMBER, "member_id", "list"))
        listed_topics = _with_topics(list_topics(lists), topics)
        facts.append(_fact(listed_topics, kinds.LISTED_TOPIC, "topic", "partitions", "list", *topic_id))
    if fleet.groups is not None:
        load_settings = [name for name in kinds.LOAD_SETTINGS if loads and name in fleet.groups.columns]
        group_columns = ("assignor", "group_type", "subscription_type", *kinds.LEADER_COLUMNS, *load_settings)
        facts.append(_fact(fleet.groups, kinds.GROUP, *group_columns))
    if fleet.owned_slices is not None:
        facts.append(member_topics(fleet.owned_slices, kinds.OWNED_SLICE, *_SLICE))
    if fleet.owned_lists is not None:
        owned = fleet.owned_lists
        if "positions" in owned.columns:  # of another number than topics, they reject the group, as counts do
            fits = F.coalesce(F.array_size("positions") == F.array_size("topics"), F.lit(True))
            owned = owned.withColumn("counts", F.when(fits, F.col("counts")))
        facts.append(_fact(owned, kinds.OWNED_LIST, "member_id", *kinds.SLICE_LISTS))
        owned_topics = fleet.owned_lists.select(*GROUP_KEY, F.explode("topics").alias("topic")).distinct()
        facts.append(_fact(_with_topics(owned_topics, topics), kinds.OWNED_TOPIC, "topic", "partitions"))
    if fleet.owned is not None:
        if _is_sparse(fleet.sizes):
            facts.append(member_topics(fleet.owned, kinds.OWNED_PARTITION, "partition"))
        else:
            facts.append(member_topics(to_bitmaps(fleet.owned), kinds.OWNED_BITMAP, "block", "bits", "twice", "count"))
        if owned_order and "position" in fleet.owned.columns:
            facts.append(_fact(_owned_order(fleet.owned), kinds.OWNED_ORDER, "member_id", "topic", "position", "at"))
    slices = fleet.owned_slices if fleet.owned_lists is None else from_lists(fleet.owned_lists)
    if owned_order and slices is not None and "position" in slices.columns:
        ordered = slices.where(F.col("position").isNotNull() & F.col("topic").isNotNull())
        ordered = ordered.withColumn("position", F.col("position").try_cast("int"))
        facts.append(_fact(ordered, kinds.OWNED_ORDER, "member_id", "topic", "position", *_SLICE))
    if fleet.departed is not None:
        facts.append(member_topics(fleet.departed, kinds.DEPARTED_SLICE, *_SLICE))
    if initialized and fleet.initialized is not None:
        facts.append(_fact(fleet.initialized, kinds.INITIALIZED, "topic", *_SLICE))
    if loads and fleet.loads is not None:
        facts += _loads(fleet.loads, fleet.subscribed_topics)
    if fleet.subtopologies is not None:
        facts.append(_fact(fleet.subtopologies, kinds.SUBTOPOLOGY))
    if fleet.unknown_groups is not None and fleet.sizes.undescribed:
        facts.append(_fact(fleet.unknown_groups, kinds.UNDESCRIBED, "error"))
    return _union(facts)


def facts_by_group(
    fleet: FleetTables, assignors: Collection[str] = (), *, leaders: Leaders | None = None, **included: bool
) -> DataFrame:
    """Returns all facts of the fleet, with the facts of each group in one Spark task.

    Args:
        fleet: see `gather_facts`.
        assignors: window assignors (`groups.windows`) to run on every group.
        leaders: include the racks of these leaders.
        included: optional facts and columns (`gather_facts`).

    Returns:
        cluster, group_id, kind, the columns that the facts of this fleet use, and the slices of the window assignors.
    """
    num_tasks, static = num_spark_tasks(fleet), fleet.sizes.static_members > 0
    assignors = assignors if _has_rows(fleet) else ()
    rows = gather_facts(fleet, **included).repartition(num_tasks, *GROUP_KEY)
    if not _racks_matter(fleet):
        if not assignors:
            return rows
        return _together_again(assign_by_windows(rows, assignors, GROUP_KEY, static=static), num_tasks)
    rows = _keep_all_columns(rows)
    windowed = assign_by_windows(rows, assignors, GROUP_KEY, static=static)
    return _union([windowed, _replica_racks(rows, fleet, leaders=leaders)]).repartition(num_tasks, *GROUP_KEY)


def facts_by_group_and_state(
    fleets: Mapping[str, FleetTables], assignors: Collection[str] = (), **included: bool
) -> DataFrame:
    """Returns the facts of several states of a fleet, with the members' client ids.

    The column `what_if` names the state of a row. All states of a group are in one Spark task.
    """
    facts = [
        gather_facts(fleet, clients=True, **included).withColumn("what_if", F.lit(name))
        for name, fleet in fleets.items()
    ]
    num_tasks = sum(num_spark_tasks(fleet) for fleet in fleets.values())
    rows = _union(facts).repartition(num_tasks, *GROUP_KEY)
    key, static = [*GROUP_KEY, "what_if"], any(fleet.sizes.static_members for fleet in fleets.values())
    assignors = assignors if any(map(_has_rows, fleets.values())) else ()
    fleets_with_racks = {name: fleet for name, fleet in fleets.items() if _racks_matter(fleet)}
    if not fleets_with_racks:
        return _together_again(assign_by_windows(rows, assignors, key, static=static), num_tasks)
    rows = _keep_all_columns(rows)
    layouts = [
        _replica_racks(rows.where(F.col("what_if") == name), fleet).withColumn("what_if", F.lit(name))
        for name, fleet in fleets_with_racks.items()
    ]
    return _union([assign_by_windows(rows, assignors, key, static=static), *layouts]).repartition(num_tasks, *GROUP_KEY)


def _together_again(rows: DataFrame, num_tasks: int) -> DataFrame:
    """Returns rows that windows have read, with the rows of each group in one task. Windows usually keep them there."""
    return rows.repartition(num_tasks, *GROUP_KEY) if windows_shuffle_again(rows.sparkSession) else rows


def _keep_all_columns(rows: DataFrame) -> DataFrame:
    """Unfolds the rows from one struct, so that no query prunes a column and all queries share one shuffle."""
    columns = (name for name in rows.columns if name not in GROUP_KEY)
    return rows.select(*GROUP_KEY, F.inline(F.array(F.struct(*columns))))


def num_spark_tasks(fleet: FleetTables) -> int:
    """Returns the number of Spark tasks for the kernels."""
    sizes = fleet.sizes
    rows = sizes.members + sizes.owned_slices
    rows += max(sizes.subscription_facts, min(sizes.subscriptions, MAX_COUNTED_PAIRS))
    rows += sizes.owned if _is_sparse(sizes) else sizes.owned // OWNED_PER_FACT
    return max(1, -(-rows // ROWS_PER_TASK))


def _has_rows(fleet: FleetTables) -> bool:
    """Returns whether there are subscriptions as rows that aren't made into lists."""
    return fleet.subscriptions is not None and fleet.sizes.subscriptions < MANY_TOPICS * fleet.sizes.members


def _subscription_lists(fleet: FleetTables) -> DataFrame | None:
    """Returns the subscriptions that are lists, or that are made into lists."""
    if fleet.subscriptions is None or _has_rows(fleet):
        return fleet.subscription_lists
    lists = to_lists(fleet.subscriptions)
    return lists if fleet.subscription_lists is None else union([lists, fleet.subscription_lists])


def _is_sparse(sizes: Sizes) -> bool:
    return sizes.owned < SPARSE * sizes.subscriptions


def topic_counts(fleet: FleetTables) -> DataFrame:
    """Returns cluster, topic, and partitions of all topics."""
    return fleet.topics.select("cluster", "topic", "partitions")


def _owned_order(owned: DataFrame) -> DataFrame:
    """Returns, per member and topic, the partitions in the order that the member reports, and the first position."""
    ordered = owned.where(F.col("position").isNotNull())
    positions = F.sort_array(F.collect_list(F.struct("position", "partition"))).alias("listed")
    rows = ordered.groupBy(*MEMBER_KEY, "topic").agg(positions, F.min("position").alias("position"))
    return rows.withColumn("at", F.col("listed.partition"))


def _loads(loads: DataFrame, readers: DataFrame) -> list[DataFrame]:
    """Returns the loads of topics that groups subscribe to (all groups), and the loads that are specific to one
    group."""
    load = F.struct("partition", *(F.col(name).cast("double").alias(name) for name in kinds.LOAD_COLUMNS))
    lists = [F.col("each.partition").alias("at")]
    lists += [F.col(f"each.{name}").alias(list_of) for name, list_of in kinds.LOAD_COLUMNS.items()]
    by_topic = (
        loads.where(F.col("group_id").isNull()).groupBy("cluster", "topic").agg(F.collect_list(load).alias("each"))
    )
    by_group = loads.where(F.col("group_id").isNotNull()).groupBy(*GROUP_KEY, "topic")
    return [
        _fact(readers.join(by_topic, ["cluster", "topic"]), kinds.LOAD, "topic", *lists),
        _fact(by_group.agg(F.collect_list(load).alias("each")), kinds.GROUP_LOAD, "topic", *lists),
    ]


def _with_topics(rows: DataFrame, topics: DataFrame) -> DataFrame:
    """Adds the number of partitions of each topic (null: unknown topic), and its id if ids are known."""
    return rows.join(topics, ["cluster", "topic"], "left")


def _racks_matter(fleet: FleetTables) -> bool:
    return fleet.racks_known and fleet.sizes.racked_members > 0


def _replica_racks(facts: DataFrame, fleet: FleetTables, *, leaders: Leaders | None = None) -> DataFrame:
    """Returns the racks of the replicas of each topic, in groups with racks: the parallel lists `at` and `racks`.

    Args:
        facts: facts by group, so that aggregating the members of a group needs no shuffle.
        fleet: the fleet with replicas and brokers.
        leaders: add `group_specs` of these leaders.
    """
    rack = F.when(F.col("kind") == kinds.MEMBER, F.col("rack_id"))
    topic = F.when(F.col("kind").isin(kinds.SUBSCRIPTION, kinds.LISTED_TOPIC), F.col("topic"))
    groups = facts.groupBy(*GROUP_KEY).agg(F.max(rack).alias("rack_id"), F.collect_set(topic).alias("topics"))
    topics_with_racks = groups.where(F.col("rack_id").isNotNull()).select(
        *GROUP_KEY, F.explode("topics").alias("topic")
    )
    # A left join, because an inner join filters its input and so prevents a shared shuffle.
    layouts = topics_with_racks.join(replica_racks(fleet, leaders or "preferred"), ["cluster", "topic"], "left")
    names = ("at", "racks", *(["leader_racks"] if leaders else []))
    lists = (F.coalesce(name, F.array().cast(_COLUMNS[name])).alias(name) for name in names)
    return _fact(layouts, kinds.REPLICA_RACKS, "topic", *lists)


def replica_racks(fleet: FleetTables, leaders: Leaders = "preferred") -> DataFrame:
    """Returns parallel lists per cluster and topic: `at` (partitions), `racks` (of their replicas), and `group_specs`
    (of their current or preferred leaders; null if unknown).
    """
    assert fleet.replicas is not None
    assert fleet.brokers is not None
    brokers = racks_of_brokers(fleet.brokers)
    leaders_racks = brokers.withColumnsRenamed({"broker_id": "leader_id", "rack_id": "leader_racks"})
    replicas = (
        with_leaders(fleet.replicas if leaders == "current" else fleet.replicas.drop("leader_id"))
        .select("cluster", "topic", "partition", "replicas", "leader_id")
        .join(brokers.select("cluster").distinct(), "cluster", "left_semi")
        .join(F.broadcast(leaders_racks), ["cluster", "leader_id"], "left")
    )
    racks = F.array_compact(F.transform("brokers", lambda broker: broker["rack_id"])).alias("racks")
    layout = F.collect_list(F.struct("partition", racks, "leader_racks"))
    return (
        with_brokers(replicas, "brokers", "replicas", brokers)
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
    """Returns cluster, broker_id, and rack_id, of the brokers that have a rack."""
    return brokers.where(F.col("rack_id") != "").select("cluster", "broker_id", "rack_id")


def _fact(rows: DataFrame, kind: int, *columns: str | Column) -> DataFrame:
    return rows.select(*GROUP_KEY, F.lit(kind).cast(_COLUMNS["kind"]).alias("kind"), *columns)


def _union(facts: Sequence[DataFrame]) -> DataFrame:
    """Returns the union of facts, each with all columns; missing columns are null or an empty list.

    Empty lists are used because Spark rescans all preceding null lists when it converts a null list to Arrow.
    """
    types: dict[str, DataType] = {}
    for each in facts:
        types |= {name: _COLUMNS.get(name, each.schema[name].dataType) for name in each.columns}
    schema = StructType([StructField(name, kind) for name, kind in types.items()])
    padded = [
        with_schema(
            each.select(*(_column(each, name, kind).cast(kind).alias(name) for name, kind in types.items())), schema
        )
        for each in facts
    ]
    return reduce(DataFrame.unionByName, padded)


def _column(facts: DataFrame, name: str, kind: DataType) -> Column:
    if name in facts.columns:
        return F.col(name)
    return F.array() if isinstance(kind, ArrayType) else F.lit(None)


# --- finds the groups of a fleet that have faults, before a simulation starts ---------------------------------


LOCAL_ROWS = 10_000
"""Maximum number of rejected groups that are kept on the driver, where later queries get them for free."""


def faulty_groups(fleet: FleetTables) -> DataFrame:
    """Returns cluster, group_id, code, and detail of the groups that can't be planned; one query per fleet.

    Raises:
        FleetError: rows that don't belong to a group are faulty.
    """
    if "rejected" not in fleet.found:
        rejected = facts_by_group(fleet).mapInArrow(map_arrow_batches(_faults), REJECTED)
        rows = rejected.limit(LOCAL_ROWS + 1).collect()
        if len(rows) <= LOCAL_ROWS:
            table = pa.Table.from_pylist([row.asDict() for row in rows], schema=_ARROW)
            rejected = dataframe_of(rejected.sparkSession, table, REJECTED)
        fleet.found["rejected"] = rejected
    return fleet.found["rejected"]


_ARROW = pa.schema([(name, pa.string()) for name in REJECTED.names])


def _faults(table: pa.Table) -> Iterator[pa.Table]:
    facts = index_facts(table)
    yield rejected_table(facts, find_faults(facts))


def without_faulty_groups(rows: DataFrame, fleet: FleetTables) -> DataFrame:
    """Returns the rows (with cluster, group_id) of groups without faults."""
    return rows.join(faulty_groups(fleet).select(*GROUP_KEY), GROUP_KEY, "left_anti")
