"""Gathers the input tables of a simulation (`simulation.kernel.simulation_input`) from a fleet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.fleet import FleetTables
from spark_assign.groups.facts import replica_racks, without_faulty_groups
from spark_assign.groups.kernel.tagged_rows import rows_of_tables
from spark_assign.numeric.arrays import values_by_key
from spark_assign.simulation.kernel.settings import GROUP_TIMES
from spark_assign.simulation.kernel.simulation_input import MAX_SUBSCRIPTIONS, TABLES
from spark_assign.simulation.settings import Settings
from spark_assign.spark import subscription_lists
from spark_assign.spark.dataframes import gather_tables
from spark_assign.tables.groups import GROUP_KEY, MEMBER_KEY

Rows = Sequence[Mapping[str, Any]]
Key = tuple[Any, ...]


def gather_facts(fleet: FleetTables, events: DataFrame, settings: Settings, **more: DataFrame | None) -> DataFrame:
    """Returns the input tables of all groups without a fault (`simulation.kernel.simulation_input.TABLES`).

    Args:
        fleet: the groups at the start.
        events: `tables.simulation.EVENTS`, without null in `group_id`.
        settings: times and assignors.
        more: more tables of groups.
    """
    topics, times = _topics(fleet, events), settings.partitions
    if times is not None:
        times = topics.select(*GROUP_KEY, "topic").join(times, ["cluster", "topic"])
    if fleet.racks_known and fleet.sizes.racked_members:
        topics = topics.join(replica_racks(fleet), ["cluster", "topic"], "left")
    tables = {"events": events, "owned": fleet.ownership_slices(), "topics": topics, "times": times, **more}
    tables |= {"groups": _groups(fleet, settings), "members": _members(fleet, settings)}
    return without_faulty_groups(gather_tables(tables, GROUP_KEY, TABLES), fleet)


def facts_of_rows(tables: Mapping[str, Rows], events: Rows) -> pa.Table:
    """Returns the facts of groups without faults, settings, racks, and instance IDs, from rows in the driver.

    Args:
        tables: rows of `topics`, `members`, `subscriptions`, and `owned_slices`; missing columns are null.
        events: rows of `tables.simulation.EVENTS`, each for one group.
    """
    subscribed = values_by_key((_key(row, MEMBER_KEY), row["topic"]) for row in tables["subscriptions"])
    members = [{**row, "topics": subscribed.get(_key(row, MEMBER_KEY), [])} for row in tables["members"]]
    named = [_key(row, (*GROUP_KEY, "topic")) for row in tables["subscriptions"]]
    named += [
        (*_key(row, GROUP_KEY), topic) for row in events for topic in (row.get("topic"), *(row.get("topics") or ()))
    ]
    counts = {_key(row, ("cluster", "topic")): row["partitions"] for row in tables["topics"]}
    rows: dict[str, Rows] = {
        "groups": [_row(GROUP_KEY, key) for key in dict.fromkeys(_key(row, GROUP_KEY) for row in members)],
        "members": members,
        "events": events,
        "topics": [
            _row((*GROUP_KEY, "topic", "partitions"), (cluster, group, topic, counts[cluster, topic]))
            for cluster, group, topic in dict.fromkeys(named)
            if counts.get((cluster, topic), 0) > 0
        ],
        "owned": tables["owned_slices"],
    }
    return rows_of_tables(rows, GROUP_KEY, TABLES)


def join_or_null(rows: DataFrame, table: DataFrame | None, key: Sequence[str], types: Mapping[str, str]) -> DataFrame:
    """Adds columns of a table to rows; they are null if the table is None or has no such key.

    Args:
        rows: the rows.
        table: the table, with at most one row per key.
        key: the columns of the key.
        types: the columns to add, with their types.
    """
    if table is None:
        return rows.withColumns({name: F.lit(None).cast(type_) for name, type_ in types.items()})
    return rows.join(table.select(*key, *types), [*key], "left")


def _groups(fleet: FleetTables, settings: Settings) -> DataFrame:
    """Returns the configured assignor and settings of groups. Most groups have none."""
    own = fleet.members.select(*GROUP_KEY).distinct()
    known = dict.fromkeys(("assignor", "group_type", "leader_library"), "string")
    own = join_or_null(own, fleet.groups, GROUP_KEY, known)
    own = join_or_null(own, _subscriptions(fleet), GROUP_KEY, {"subscriptions": "long"})
    own = join_or_null(own, settings.groups, GROUP_KEY, dict.fromkeys(GROUP_TIMES, "long"))
    return own.withColumn("assignors", F.when(F.col("assignor") != "", F.array("assignor")))


def _subscriptions(fleet: FleetTables) -> DataFrame | None:
    """Returns for each group the number of members of its lists times that of their topics; None if no group can have
    too many.
    """
    if fleet.subscription_lists is None or fleet.sizes.subscriptions <= MAX_SUBSCRIPTIONS:
        return None
    number = F.size("member_ids").cast("long") * F.size("topics")
    return fleet.subscription_lists.groupBy(*GROUP_KEY).agg(F.sum(number).alias("subscriptions"))


def _members(fleet: FleetTables, settings: Settings) -> DataFrame:
    """Returns the members with their topics and with the settings of single members.

    Lists of a group with too many subscriptions, which is rejected, are not expanded.
    """
    lists, counts = fleet.subscription_lists, _subscriptions(fleet)
    if lists is not None and counts is not None:
        lists = lists.join(counts.where(F.col("subscriptions") <= MAX_SUBSCRIPTIONS), GROUP_KEY, "left_semi")
    rows = subscription_lists.all_rows(fleet.subscriptions, lists)
    subscribed = rows.groupBy(*MEMBER_KEY).agg(F.collect_set("topic").alias("topics"))
    members = fleet.members.join(subscribed, MEMBER_KEY, "left")
    members = members.withColumn("rack_id", F.when(F.col("rack_id") != "", F.col("rack_id")))
    members = members.withColumn("topics", F.coalesce("topics", F.array().cast("array<string>")))
    if settings.members is not None:
        overrides = settings.members.withColumnRenamed("group_instance_id", "configured_instance_id")
        members = members.join(overrides.dropDuplicates(MEMBER_KEY), MEMBER_KEY, "left")
        instance = F.coalesce("configured_instance_id", "group_instance_id")
        members = members.withColumn("group_instance_id", instance)
    return members.withColumnRenamed("partition_assignment_strategy", "assignors")


def _topics(fleet: FleetTables, events: DataFrame) -> DataFrame:
    """Returns the topics with metadata that members subscribe to or that an event names, with partition counts."""
    of_event = F.concat(F.array("topic"), F.coalesce("topics", F.array().cast("array<string>")))
    named = events.select(*GROUP_KEY, F.explode(of_event).alias("topic"))
    counts = fleet.topics.select("cluster", "topic", "partitions", "topic_id").where(F.col("partitions") > 0)
    return fleet.subscribed_topics.unionByName(named).distinct().join(counts, ["cluster", "topic"])


def _key(row: Mapping[str, Any], names: Sequence[str]) -> Key:
    return tuple(row[name] for name in names)


def _row(names: Sequence[str], key: Key) -> dict[str, Any]:
    return dict(zip(names, key, strict=True))
