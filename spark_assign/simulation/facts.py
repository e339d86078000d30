"""Builds the input facts of a simulation from a fleet, one row per fact (`simulation.kernel.simulation_input`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, ByteType, DataType, IntegerType, LongType, StringType, StructType

from spark_assign.fleet import FleetTables
from spark_assign.groups.facts import replica_racks, without_faulty_groups
from spark_assign.simulation.kernel import simulation_input as kinds
from spark_assign.simulation.kernel.settings import GROUP_TIMES
from spark_assign.simulation.settings import Settings
from spark_assign.spark.arrow_schemas import to_arrow_schema
from spark_assign.tables.groups import GROUP_KEY, MEMBER_KEY
from spark_assign.tables.schema_fields import nullable

Rows = Sequence[Mapping[str, Any]]
Key = tuple[Any, ...]

_TEXTS = (
    "event",
    "group_type",
    "leader_library",
    "member_id",
    "topic",
    "topic_id",
    "group_instance_id",
    "rack_id",
    "new_member_id",
)
_COLUMNS: dict[str, DataType] = {
    **dict.fromkeys(_TEXTS, StringType()),
    **dict.fromkeys(("topics", "assignors"), ArrayType(StringType())),
    "numbers": ArrayType(LongType()),
    "at": ArrayType(IntegerType()),
    "racks": ArrayType(ArrayType(StringType())),
}

_FIELDS: dict[int, tuple[tuple[str, ...], tuple[str, ...]]] = {
    kinds.GROUP: (("group_type", "assignors", "leader_library"), GROUP_TIMES),
    kinds.MEMBER: (
        ("member_id", "group_instance_id", "rack_id", "topics", "assignors"),
        ("position", "generation_id"),
    ),
    kinds.OWNED: (("member_id", "topic"), ("first", "step", "count")),
    kinds.TOPIC: (("topic", "topic_id", "at", "racks"), ("partitions",)),
    kinds.TIMES: (("topic",), ("partition", "revoke_ms", "restore_ms")),
    kinds.EVENT: ((*kinds.EVENT_TEXTS, *kinds.EVENT_LISTS), kinds.EVENT_NUMBERS),
}
"""Kind of fact to its columns, and the columns in `numbers`. All other columns are null."""


def gather_facts(fleet: FleetTables, events: DataFrame, settings: Settings) -> DataFrame:
    """Returns the facts of all groups without a fault: cluster, group_id, kind, and the columns of a fact.

    Args:
        fleet: the groups at the start.
        events: `tables.simulation.EVENTS`, without null in `group_id`.
        settings: times and assignors.
    """
    topics = _topics(fleet, events)
    facts = [
        _groups(fleet, settings),
        _members(fleet, settings),
        _fact(without_faulty_groups(events, fleet), kinds.EVENT),
        _topic_facts(fleet, topics),
    ]
    runs = fleet.ownership_slices()
    if runs is not None:
        facts.append(_fact(without_faulty_groups(runs, fleet), kinds.OWNED))
    if settings.partitions is not None:
        times = topics.select(*GROUP_KEY, "topic").join(settings.partitions, ["cluster", "topic"])
        facts.append(_fact(times, kinds.TIMES))
    return reduce(DataFrame.unionByName, facts)


def facts_of_rows(tables: Mapping[str, Rows], events: Rows) -> pa.Table:
    """Returns the facts of groups without faults, settings, racks, and instance IDs, from rows in the driver.

    Args:
        tables: rows of `topics`, `members`, `subscriptions`, and `owned_slices`; missing columns are null.
        events: rows of `tables.simulation.EVENTS`, each for one group.
    """
    subscribed: dict[Key, list[str]] = defaultdict(list)
    for row in tables["subscriptions"]:
        subscribed[_key(row, MEMBER_KEY)].append(row["topic"])
    members = [{**row, "topics": subscribed[_key(row, MEMBER_KEY)]} for row in tables["members"]]
    named = [_key(row, (*GROUP_KEY, "topic")) for row in tables["subscriptions"]]
    named += [
        (*_key(row, GROUP_KEY), topic) for row in events for topic in (row.get("topic"), *(row.get("topics") or ()))
    ]
    counts = {_key(row, ("cluster", "topic")): row["partitions"] for row in tables["topics"]}
    rows: dict[int, Rows] = {
        kinds.GROUP: [_row(GROUP_KEY, key) for key in dict.fromkeys(_key(row, GROUP_KEY) for row in members)],
        kinds.MEMBER: members,
        kinds.EVENT: events,
        kinds.TOPIC: [
            _row((*GROUP_KEY, "topic", "partitions"), (cluster, group, topic, counts[cluster, topic]))
            for cluster, group, topic in dict.fromkeys(named)
            if counts.get((cluster, topic), 0) > 0
        ],
        kinds.OWNED: tables["owned_slices"],
    }
    facts = [_fact_of_row(row, kind) for kind, of_kind in rows.items() for row in of_kind]
    return pa.Table.from_pylist(facts, _SCHEMA)


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
    own = without_faulty_groups(fleet.members, fleet).select(*GROUP_KEY).distinct()
    known = dict.fromkeys(("assignor", "group_type", "leader_library"), "string")
    own = join_or_null(own, fleet.groups, GROUP_KEY, known)
    own = join_or_null(own, settings.groups, GROUP_KEY, dict.fromkeys(GROUP_TIMES, "long"))
    own = own.withColumn("assignors", F.when(F.col("assignor") != "", F.array("assignor")))
    return _fact(own, kinds.GROUP)


def _members(fleet: FleetTables, settings: Settings) -> DataFrame:
    """Returns the members as facts, with their topics and with the settings of single members."""
    subscribed = fleet.subscription_rows.groupBy(*MEMBER_KEY).agg(F.collect_set("topic").alias("topics"))
    members = without_faulty_groups(fleet.members, fleet).join(subscribed, MEMBER_KEY, "left")
    members = members.withColumn("rack_id", F.when(F.col("rack_id") != "", F.col("rack_id")))
    members = members.withColumn("topics", F.coalesce("topics", F.array().cast("array<string>")))
    if settings.members is not None:
        overrides = settings.members.withColumnRenamed("group_instance_id", "configured_instance_id")
        members = members.join(overrides.dropDuplicates(MEMBER_KEY), MEMBER_KEY, "left")
        instance = F.coalesce("configured_instance_id", "group_instance_id")
        members = members.withColumn("group_instance_id", instance)
    else:
        members = members.withColumn("partition_assignment_strategy", F.lit(None))
    members = members.withColumnRenamed("partition_assignment_strategy", "assignors")
    return _fact(members, kinds.MEMBER)


def _topics(fleet: FleetTables, events: DataFrame) -> DataFrame:
    """Returns the topics with metadata that members subscribe to or that an event names, with partition counts."""
    subscribed = without_faulty_groups(fleet.subscribed_topics, fleet)
    of_event = F.concat(F.array("topic"), F.coalesce("topics", F.array().cast("array<string>")))
    named = without_faulty_groups(events, fleet).select(*GROUP_KEY, F.explode(of_event).alias("topic"))
    counts = fleet.topics.select("cluster", "topic", "partitions", "topic_id").where(F.col("partitions") > 0)
    return subscribed.unionByName(named).distinct().join(counts, ["cluster", "topic"])


def _topic_facts(fleet: FleetTables, topics: DataFrame) -> DataFrame:
    if fleet.racks_known and fleet.sizes.racked_members:
        topics = topics.join(replica_racks(fleet), ["cluster", "topic"], "left")
    else:
        topics = topics.withColumns({"at": F.lit(None), "racks": F.lit(None)})
    return _fact(topics, kinds.TOPIC)


def _fact(rows: DataFrame, kind: int) -> DataFrame:
    """Converts rows to facts of a kind."""
    columns, numbers = _FIELDS[kind]
    values = {name: F.col(name) for name in columns} | {
        "numbers": F.array(*(F.col(name).cast("long") for name in numbers))
    }
    cast = (values.get(name, F.lit(None)).cast(type_).alias(name) for name, type_ in _COLUMNS.items())
    return rows.select(*GROUP_KEY, F.lit(kind).cast("byte").alias("kind"), *cast)


def _fact_of_row(row: Mapping[str, Any], kind: int) -> dict[str, Any]:
    """Converts a row to a fact of a kind."""
    columns, numbers = _FIELDS[kind]
    values = {name: row.get(name) for name in columns} | {"numbers": [row.get(name) for name in numbers]}
    return {**_row(GROUP_KEY, _key(row, GROUP_KEY)), "kind": kind, **values}


def _key(row: Mapping[str, Any], names: Sequence[str]) -> Key:
    return tuple(row[name] for name in names)


def _row(names: Sequence[str], key: Key) -> dict[str, Any]:
    return dict(zip(names, key, strict=True))


_SCHEMA: pa.Schema = to_arrow_schema(
    StructType(nullable(**dict.fromkeys(GROUP_KEY, StringType()), kind=ByteType(), **_COLUMNS))
)
