"""Finds what has no known use: topics, groups, partitions that never had a record, and subscriptions to missing topics.

Joins compare the tables of a fleet, and the offsets of two snapshots, to one row of facts per topic, group, or
subscription. Rows without a known use are then judged one by one (`advice.kernel.unused`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from spark_assign.advice.kernel import unused as kernel
from spark_assign.advice.kernel.unused import UnusedParams
from spark_assign.fleet import FleetTables
from spark_assign.replicas.coordinators import OFFSETS_TOPIC
from spark_assign.spark.arrow_batches import map_arrow_batches
from spark_assign.spark.tagged_pass import union
from spark_assign.stores.result import LazyResult
from spark_assign.tables.advice import UNUSED_TABLES
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.groups import GROUP_KEY

_TOPIC = ["cluster", "topic"]
_PARTITION = [*_TOPIC, "partition"]
_LARGEST = 2**63 - 1
_NOT_RECORDED = "all groups: it isn't known whether the tables are of a complete snapshot (snapshot.json)"


@dataclass(frozen=True)
class Unused(LazyResult):
    """What has no known use, as lazy DataFrames (columns: `tables.advice.UNUSED_TABLES`).

    Attributes:
        rows: the tagged rows, computed or read back.
    """

    schemas: ClassVar = UNUSED_TABLES

    @cached_property
    def unused(self) -> DataFrame:
        """One row per topic, group, or subscription without a known use, with its certainty and the reason."""
        return self._rows(kernel.UNUSED_ROW, UNUSED_TABLES["unused"])


@dataclass(frozen=True)
class EarlierSnapshot:
    """An older snapshot.

    Attributes:
        fleet: its tables.
        offsets: its table `offsets` (`tables.groups.OFFSETS`).
        seconds: cluster, seconds: time between the two snapshots.
    """

    fleet: FleetTables
    offsets: DataFrame
    seconds: DataFrame


@dataclass(frozen=True)
class UnusedEvidence:
    """What snapshots say beside the tables of a fleet. What is None is unknown.

    Attributes:
        offsets: the table `offsets` of the snapshot (`tables.groups.OFFSETS`).
        undescribed: cluster, group_id, error: groups that the cluster listed but did not describe.
        gaps: cluster, gap: why the snapshot doesn't have all groups of the cluster; null: it has all.
        earlier: an older snapshot.
    """

    offsets: DataFrame | None = None
    undescribed: DataFrame | None = None
    gaps: DataFrame | None = None
    earlier: EarlierSnapshot | None = None


def find_unused(
    fleet: FleetTables, evidence: UnusedEvidence | None = None, params: UnusedParams | None = None
) -> Unused:
    """Finds topics without readers and growth, groups without members or commits, partitions that never had a record,
    and subscriptions to topics that don't exist; with what they cost, and how to remove them safely.

    A reader of a topic is a group with a member that subscribes to it or owns partitions of it, or a Streams
    application that has it. What Kafka's brokers use (`__…`) is never a finding. See `advice.kernel.unused`.

    Args:
        fleet: the tables of the later snapshot: of all groups, or topics seem to be unused.
        evidence: offsets, and an older snapshot; `None`: nothing is known, and all findings that need it are `unknown`.
        params: thresholds; `None`: the defaults of `UnusedParams`.

    Returns:
        The findings. Its tables are lazy.

    Raises:
        ConfigError: an invalid threshold.

    Examples:
        >>> unused = find_unused(fleet).unused.orderBy("subject", "topic")
        >>> unused.select("subject", "topic", "group_id", "certainty").show()
        +-------+-----+--------+---------+
        |subject|topic|group_id|certainty|
        +-------+-----+--------+---------+
        +-------+-----+--------+---------+
    """
    params, evidence = params or UnusedParams(), evidence or UnusedEvidence()
    if fault := params.fault():
        raise ConfigError(f"find_unused: {fault}")
    clusters = F.broadcast(_clusters(fleet, evidence))
    found = [_topic_facts(fleet, evidence), _group_facts(fleet, evidence), _missing_topics(fleet)]
    facts = union(rows.join(clusters, "cluster", "left") for rows in found)
    typed = from_arrow_schema(kernel.FACTS)
    columns = [
        (F.col(each.name) if each.name in facts.columns else F.lit(None)).cast(each.dataType).alias(each.name)
        for each in typed
    ]
    judge = partial(
        kernel.judge, params=params, has_offsets=evidence.offsets is not None, has_groups=fleet.groups is not None
    )
    rows = (
        facts.select(*columns)
        .repartition("cluster")
        .mapInArrow(map_arrow_batches(judge), from_arrow_schema(kernel.UNUSED_ROWS))
    )
    if evidence.undescribed is None:
        return Unused(rows)
    values = {"kind": F.lit(kernel.REJECTED), "code": F.lit("undescribed"), "detail": F.col("error")}
    rejected = evidence.undescribed.select(*GROUP_KEY, *(value.alias(name) for name, value in values.items()))
    return Unused(union([rows, rejected]))


def _clusters(fleet: FleetTables, evidence: UnusedEvidence) -> DataFrame:
    """Returns the facts of each cluster (columns of `advice.kernel.unused.FACTS`)."""
    is_synced = F.col("topic").startswith("mm2-offset-syncs.").alias("copied")
    offsets = F.max(F.when(F.col("topic") == OFFSETS_TOPIC, F.col("partitions"))).alias("offsets_partitions")
    rows = fleet.topics.select("cluster", "topic", "partitions", is_synced).groupBy("cluster")
    found = rows.agg(F.bool_or("copied").alias("copied"), offsets)
    if evidence.earlier is not None:
        found = found.join(evidence.earlier.seconds, "cluster", "left")
    if evidence.undescribed is not None:
        undescribed = evidence.undescribed.groupBy("cluster").agg(F.count_distinct("group_id").alias("undescribed"))
        found = found.join(undescribed, "cluster", "left")
    if evidence.gaps is None:
        return found.withColumn("gap", F.lit(_NOT_RECORDED))
    gaps = evidence.gaps.select("cluster", "gap", F.lit(True).alias("recorded"))
    gap = F.when(F.col("recorded"), F.col("gap")).otherwise(_NOT_RECORDED)
    return found.join(gaps, "cluster", "left").withColumn("gap", gap).drop("recorded")


# --- topics ---------------------------------------------------------------------------------------------------


def _topic_facts(fleet: FleetTables, evidence: UnusedEvidence) -> DataFrame:
    """Returns topics without a member that reads them, and topics with partitions that never had a record."""
    topics = fleet.topics.where(~F.col("topic").startswith("__"))
    found = topics.join(_growth(fleet, evidence), _TOPIC, "left").join(_readers(fleet, evidence), _TOPIC, "left")
    found = found.join(_mirrored(fleet.topics), _TOPIC, "left")
    if fleet.replicas is not None:
        found = found.join(_logs(fleet.replicas), _TOPIC, "left")
    if fleet.loads is not None:
        being_written = F.max(F.col("in_messages_per_second") > 0).alias("being_written")
        found = found.join(fleet.loads.groupBy(*_TOPIC).agg(being_written), _TOPIC, "left")
    is_read = F.coalesce("is_read", F.lit(False))
    kind = F.when(is_read, kernel.PARTITIONS).otherwise(kernel.TOPIC)
    return found.where(~is_read | (F.col("never_written") > 0)).withColumn("kind", kind)


def _ends(fleet: FleetTables, offsets: DataFrame | None, name: str) -> DataFrame:
    """Returns the known end offset of each partition, in a column of this name."""
    none = F.lit(None).cast("long").alias("end_offset")
    tables = [fleet.topics.select(*_TOPIC, F.lit(None).cast("int").alias("partition"), none).limit(0)]
    if offsets is not None:
        tables.append(offsets.select(*_PARTITION, "end_offset"))
    if fleet.replicas is not None and "end_offset" in fleet.replicas.columns:
        tables.append(fleet.replicas.select(*_PARTITION, "end_offset"))
    known = union(tables).where(F.col("end_offset").isNotNull())
    return known.groupBy(*_PARTITION).agg(F.max("end_offset").alias(name))


def _with_earlier_ends(ends: DataFrame, evidence: UnusedEvidence) -> DataFrame:
    """Returns partitions with the end offset of the older snapshot as `end_before`."""
    if evidence.earlier is None:
        return ends.withColumn("end_before", F.lit(None).cast("long"))
    return ends.join(_ends(evidence.earlier.fleet, evidence.earlier.offsets, "end_before"), _PARTITION, "left")


def _growth(fleet: FleetTables, evidence: UnusedEvidence) -> DataFrame:
    """Returns, for each topic, the numbers of partitions with a known, changed, and zero end offset."""
    topics = fleet.topics.select(*_TOPIC, "partitions", F.col("topic_id").alias("id"))
    if evidence.earlier is not None:
        earlier = evidence.earlier.fleet.topics.select(*_TOPIC, F.col("topic_id").alias("id_before"))
        topics = topics.join(earlier, _TOPIC, "left")
    else:
        topics = topics.withColumn("id_before", F.lit(None).cast("string"))
    ends = _with_earlier_ends(_ends(fleet, evidence.offsets, "end"), evidence)
    rows = topics.join(ends, _TOPIC).where(F.col("partition") < F.col("partitions"))
    return rows.groupBy(*_TOPIC).agg(
        F.count("end").alias("known_ends"),
        F.count_if(F.col("end") == 0).alias("never_written"),
        F.count("end_before").alias("compared"),
        F.count_if(F.col("end") != F.col("end_before")).alias("changed"),
        F.max(F.col("id") != F.col("id_before")).alias("recreated"),
    )


def _readers(fleet: FleetTables, evidence: UnusedEvidence) -> DataFrame:
    """Returns, for each topic, whether a member or an application has it, and the groups that committed offsets."""
    of_members = [fleet.subscribed_topics]
    tables = (fleet.owned, fleet.owned_slices, fleet.changelogs)
    of_members += [table.select(*GROUP_KEY, "topic") for table in tables if table is not None]
    if fleet.owned_lists is not None:
        of_members.append(fleet.owned_lists.select(*GROUP_KEY, F.explode("topics").alias("topic")))
    if fleet.subtopologies is not None:
        lists = [name for name in ("source_topics", "changelog_topics") if name in fleet.subtopologies.columns]
        of_members += [fleet.subtopologies.select(*GROUP_KEY, F.explode(name).alias("topic")) for name in lists]
    committed = [table.select(*GROUP_KEY, "topic") for table in _committed(fleet, evidence)]
    rows = [table.withColumn("is_read", F.lit(True)) for table in of_members]
    rows += [table.withColumn("is_read", F.lit(False)) for table in committed]
    return (
        union(rows)
        .groupBy(*_TOPIC)
        .agg(
            F.max("is_read").alias("is_read"),
            F.count_distinct("group_id").alias("commit_groups"),
            F.min("group_id").alias("commit_group"),
        )
    )


def _committed(fleet: FleetTables, evidence: UnusedEvidence) -> Iterable[DataFrame]:
    if evidence.offsets is not None:
        yield evidence.offsets.where(F.col("committed_offset").isNotNull())
    if fleet.initialized is not None:
        yield fleet.initialized
    if fleet.loads is not None:
        yield fleet.loads.where(F.col("group_id").isNotNull())


def _mirrored(topics: DataFrame) -> DataFrame:
    """Returns topics whose name starts with the alias of a cluster that MirrorMaker 2 copies (`alias.topic`).

    An alias is known by MirrorMaker's own topics, `alias.heartbeats` and `alias.checkpoints.internal`.
    """
    own = F.regexp_extract("topic", r"^(.+)\.(heartbeats|checkpoints\.internal)$", 1)
    aliases = topics.select("cluster", own.alias("alias")).where("alias <> ''").distinct()
    parts = F.split("topic", r"\.")
    prefixes = F.transform(F.sequence(F.lit(1), F.size(parts)), lambda end: F.array_join(F.slice(parts, 1, end), "."))
    named = topics.select(*_TOPIC, F.explode(prefixes).alias("alias")).where("alias <> topic")
    copies = named.join(aliases, ["cluster", "alias"], "left_semi")
    return copies.select(*_TOPIC).distinct().withColumn("mirrored", F.lit(True))


def _logs(replicas: DataFrame) -> DataFrame:
    """Returns the number of replicas of each topic, and the bytes of their logs (null if not all are known)."""
    number = F.size("replicas")
    logs = F.col("bytes") if "bytes" in replicas.columns else F.lit(None).cast("long")
    total = F.sum(logs.cast("decimal(20,0)") * number)
    all_known = F.count(logs) == F.count(F.lit(1))
    disk_bytes = F.when(all_known, _bounded(total))
    return replicas.groupBy(*_TOPIC).agg(F.sum(number).alias("replicas"), disk_bytes.alias("disk_bytes"))


def _bounded(total: Column) -> Column:
    """Returns a sum of decimals as a long, at most the largest long."""
    return F.least(total, F.lit(_LARGEST).cast("decimal(38,0)")).cast("long")


# --- groups ---------------------------------------------------------------------------------------------------


def _group_facts(fleet: FleetTables, evidence: UnusedEvidence) -> DataFrame:
    """Returns groups without members, or with members that commit nothing."""
    unknown = (F.lit(None).cast("string").alias(name) for name in ("group_type", "state"))
    known = [fleet.members.select(*GROUP_KEY, *unknown)]
    known += [fleet.groups.select(*GROUP_KEY, "group_type", "state")] if fleet.groups is not None else []
    known += [evidence.offsets.select(*GROUP_KEY)] if evidence.offsets is not None else []
    groups = (
        union(known).groupBy(*GROUP_KEY).agg(F.max("group_type").alias("group_type"), F.max("state").alias("state"))
    )
    if evidence.undescribed is not None:
        groups = groups.join(evidence.undescribed.select(*GROUP_KEY), GROUP_KEY, "left_anti")
    found = groups.join(_members(fleet, "members"), GROUP_KEY, "left").fillna(0, ["members"])
    found = found.join(_commits(fleet, evidence), GROUP_KEY, "left").fillna(0, ["committed_partitions", "moved"])
    if evidence.earlier is not None:
        found = found.join(_members(evidence.earlier.fleet, "members_before"), GROUP_KEY, "left")
        found = found.join(_known_groups(evidence.earlier), GROUP_KEY, "left")
    is_empty = (F.col("members") == 0) & (F.col("state").isNull() | F.col("state").isin("Empty", "Dead"))
    committed = F.col("committed_partitions") > 0
    is_still = committed & (F.col("moved") == 0) & (F.col("behind") > 0) & (F.col("members") > 0)
    has_none = ~committed & (F.col("members") > 0) & F.lit(evidence.offsets is not None)
    if evidence.earlier is not None:
        is_empty &= F.col("moved") == 0
    return found.where(is_empty | is_still | has_none).withColumn("kind", F.lit(kernel.GROUP))


def _members(fleet: FleetTables, name: str) -> DataFrame:
    return fleet.members.groupBy(*GROUP_KEY).agg(F.count(F.lit(1)).alias(name))


def _known_groups(earlier: EarlierSnapshot) -> DataFrame:
    """Returns the groups of the older snapshot."""
    tables = [earlier.fleet.groups, earlier.fleet.members, earlier.offsets]
    rows = union(table.select(*GROUP_KEY) for table in tables if table is not None).distinct()
    return rows.withColumn("was_known", F.lit(True))


def _commits(fleet: FleetTables, evidence: UnusedEvidence) -> DataFrame:
    """Returns the committed partitions of each group, those that it committed since the older snapshot, and the records
    that were written to them since.
    """
    key = [*GROUP_KEY, "topic", "partition"]
    if evidence.offsets is None:
        return (
            fleet.members.select(*GROUP_KEY)
            .limit(0)
            .withColumns({name: F.lit(0) for name in ("committed_partitions", "moved", "behind")})
        )
    rows = evidence.offsets.where(F.col("committed_offset").isNotNull()).select(*key, "committed_offset", "end_offset")
    if evidence.earlier is None:
        rows = rows.withColumn("before", F.lit(None).cast("long"))
    else:
        before = evidence.earlier.offsets.select(*key, F.col("committed_offset").alias("before"))
        rows = rows.join(before, key, "left")
    rows = _with_earlier_ends(rows, evidence)
    written = F.try_subtract("end_offset", "end_before")
    behind = F.sum(F.when(written > 0, written).cast("decimal(20,0)"))
    return rows.groupBy(*GROUP_KEY).agg(
        F.count(F.lit(1)).alias("committed_partitions"),
        F.count_if(~F.col("committed_offset").eqNullSafe(F.col("before"))).alias("moved"),
        _bounded(behind).alias("behind"),
    )


# --- subscriptions --------------------------------------------------------------------------------------------


def _missing_topics(fleet: FleetTables) -> DataFrame:
    """Returns the subscribed topics of each group that the fleet doesn't have."""
    missing = fleet.subscribed_topics.join(fleet.topics.select(*_TOPIC), _TOPIC, "left_anti")
    return missing.select(*GROUP_KEY, "topic").withColumn("kind", F.lit(kernel.SUBSCRIPTION))
