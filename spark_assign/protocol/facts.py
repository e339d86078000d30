"""All that a simulation is told of the groups of a fleet, a row per fact (`kernels.protocol.sheet`)."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, IntegerType, LongType, StringType

from spark_assign.facts import asked, replica_racks, topic_counts
from spark_assign.fleet import Fleet
from spark_assign.kernels.protocol import sheet as kinds
from spark_assign.protocol.settings import Settings
from spark_assign.rejected import sound
from spark_assign.schemas import GROUP_KEY, MEMBER_KEY

_COLUMNS: dict[str, DataType] = {
    "event": StringType(),
    "member_id": StringType(),
    "topic": StringType(),
    "group_instance_id": StringType(),
    "rack_id": StringType(),
    "new_member_id": StringType(),
    "numbers": ArrayType(LongType()),
    "names": ArrayType(StringType()),
    "more": ArrayType(StringType()),
    "at": ArrayType(IntegerType()),
    "racks": ArrayType(ArrayType(StringType())),
}


def gather_facts(fleet: Fleet, events: DataFrame, settings: Settings) -> DataFrame:
    """The facts of all groups that have no fault.

    Args:
        fleet: the groups as they are at the beginning.
        events: `protocol.schemas.EVENTS`, `group_id` not null.
        settings: what they are set to.

    Returns:
        cluster, group_id, kind and the columns of a fact.
    """
    topics = _topics(fleet, events)
    facts = [_groups(fleet, settings), _members(fleet, settings), _events(fleet, events)]
    facts.append(_topic_facts(fleet, topics))
    runs = fleet.runs()
    if runs is not None:
        run = _numbers("first", "step", "count")
        owned = sound(runs, fleet)
        facts.append(_fact(owned, kinds.OWNED, member_id=F.col("member_id"), topic=F.col("topic"), numbers=run))
    if settings.partitions is not None:
        times = topics.select(*GROUP_KEY, "topic").join(settings.partitions, ["cluster", "topic"])
        told = _numbers("partition", "revoke_ms", "restore_ms")
        facts.append(_fact(times, kinds.TIMES, topic=F.col("topic"), numbers=told))
    return reduce(DataFrame.unionByName, facts)


def _groups(fleet: Fleet, settings: Settings) -> DataFrame:
    """What groups are set to; most have nothing of their own."""
    own = sound(fleet.members, fleet).select(*GROUP_KEY).distinct()
    if fleet.groups is not None:
        own = own.join(fleet.groups.select(*GROUP_KEY, "assignor"), GROUP_KEY, "left")
    else:
        own = own.withColumn("assignor", F.lit(None).cast("string"))
    if settings.groups is not None:
        own = own.join(settings.groups.select(*GROUP_KEY, *kinds.SETTINGS), GROUP_KEY, "left")
    else:
        own = own.withColumns({name: F.lit(None).cast("long") for name in kinds.SETTINGS})
    assignor = F.when(F.col("assignor") != "", F.array("assignor"))
    return _fact(own, kinds.GROUP, names=assignor, numbers=_numbers(*kinds.SETTINGS))


def _members(fleet: Fleet, settings: Settings) -> DataFrame:
    members = sound(asked(fleet), fleet).withColumn("topics", F.col("topics.topic"))
    members = members.withColumn("group_instance_id", F.get("instances", F.lit(0)))
    instance = F.col("group_instance_id")
    if settings.members is not None:
        told = settings.members.withColumnRenamed("group_instance_id", "told_instance_id")
        members = members.join(told.dropDuplicates(MEMBER_KEY), MEMBER_KEY, "left")
        instance = F.coalesce("told_instance_id", "group_instance_id")
    else:
        members = members.withColumn("partition_assignment_strategy", F.lit(None))
    return _fact(
        members,
        kinds.MEMBER,
        member_id=F.col("member_id"),
        group_instance_id=instance,
        rack_id=F.col("rack_id"),
        names=F.col("topics"),
        more=F.col("partition_assignment_strategy"),
        numbers=_numbers("position", "generation_id"),
    )


def _events(fleet: Fleet, events: DataFrame) -> DataFrame:
    return _fact(
        sound(events, fleet),
        kinds.EVENT,
        event=F.col("event"),
        member_id=F.col("member_id"),
        topic=F.col("topic"),
        group_instance_id=F.col("group_instance_id"),
        new_member_id=F.col("new_member_id"),
        names=F.col("topics"),
        more=F.col("assignors"),
        numbers=_numbers(*kinds.EVENT_NUMBERS),
    )


def _topics(fleet: Fleet, events: DataFrame) -> DataFrame:
    """The topics with metadata that members ask for now, or that an event names, and their partition counts."""
    now = sound(fleet.subscriptions, fleet).select(*GROUP_KEY, "topic")
    named = F.concat(F.array("topic"), F.coalesce("topics", F.array().cast("array<string>")))
    later = sound(events, fleet).select(*GROUP_KEY, F.explode(named).alias("topic"))
    counts = topic_counts(fleet).where(F.col("partitions") > 0)
    return now.unionByName(later).distinct().join(counts, ["cluster", "topic"])


def _topic_facts(fleet: Fleet, topics: DataFrame) -> DataFrame:
    layout: dict[str, Column] = {}
    if fleet.racks_known and fleet.sizes.racked_members:
        topics = topics.join(replica_racks(fleet), ["cluster", "topic"], "left")
        layout = {"at": F.col("at"), "racks": F.col("racks")}
    return _fact(topics, kinds.TOPIC, topic=F.col("topic"), numbers=_numbers("partitions"), **layout)


def _fact(rows: DataFrame, kind: int, **columns: Column) -> DataFrame:
    """Rows as facts of a kind, with these columns; the others are null."""
    every = (columns.get(name, F.lit(None)).cast(type_).alias(name) for name, type_ in _COLUMNS.items())
    return rows.select(*GROUP_KEY, F.lit(kind).cast("byte").alias("kind"), *every)


def _numbers(*names: str) -> Column:
    return F.array(*(F.col(name).cast("long") for name in names))
