"""Finds what has no known use: topics, groups, partitions that never had a record, and subscriptions to missing topics.

Joins compare the tables of a fleet, and the offsets of two snapshots, to one row of facts per topic, group, or
subscription. Rows without a known use are then judged one by one (`advice.kernel.unused`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_assign.advice.kernel import unused as kernel
from spark_assign.advice.kernel.unused import UnusedParams
from spark_assign.fleet import FleetTables
from spark_assign.replicas.coordinators import OFFSETS_TOPIC
from spark_assign.spark.dataframes import bounded_sum, dataframe_of_rows, map_arrow_batches, to_arrow_schema, union
from spark_assign.stores.result import LazyResult
from spark_assign.tables.advice import UNUSED_TABLES
from spark_assign.tables.errors import ConfigError, FleetError
from spark_assign.tables.groups import GROUP_KEY, INPUT_TABLES, OFFSETS, UNDESCRIBED
from spark_assign.tables.parameters import find_fault
from spark_assign.tables.schema_check import check_schema, split_rows, with_keys
from spark_assign.tables.schema_fields import schema, tagged_schema

Tables = Mapping[str, DataFrame]

_TOPIC = ["cluster", "topic"]
_PARTITION = [*_TOPIC, "partition"]
_SECONDS, _GAPS = schema("cluster string, seconds double?"), schema("cluster string, gap string?")


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
        undescribed: cluster, group_id, error: groups that the cluster did not describe, or not completely; None: as in
            the fleet.
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
    application that has it. What Kafka's brokers use (`__…`) is never a finding. A group with a row that lacks a
    required value is rejected, as it could read any topic. See `advice.kernel.unused`.

    Args:
        fleet: the tables of the later snapshot: of all groups, or topics seem to be unused.
        evidence: offsets, and an older snapshot; `None`: nothing is known, and all findings that need it are `unknown`.
        params: thresholds; `None`: the defaults of `UnusedParams`.

    Returns:
        The findings. Its tables are lazy.

    Raises:
        ConfigError: an invalid threshold.
        FleetError: a table lacks a column, or a fleet has faulty rows that belong to no group.

    Examples:
        >>> without_groups = fleet.filter_groups(fleet.groups.where("group_id = 'gone'"))
        >>> find_unused(without_groups).unused.select("subject", "topic", "certainty").show()
        +-------+-----+---------+
        |subject|topic|certainty|
        +-------+-----+---------+
        |  topic|    t|  unknown|
        +-------+-----+---------+
    """
    params, evidence = params or UnusedParams(), evidence or UnusedEvidence()
    if fault := find_fault(params):
        raise ConfigError(f"find_unused: {fault}")
    earlier = evidence.earlier
    for each in (fleet, *([] if earlier is None else [earlier.fleet])):
        _ = each.checked
    fleet, offsets, faulty = _without_faults(fleet, evidence.offsets)
    now, before = _tables(fleet, fleet, offsets), _tables(fleet, None, None)
    if earlier is not None:
        fleet_before, offsets_before, faulty_before = _without_faults(earlier.fleet, earlier.offsets)
        before, faulty = _tables(fleet, fleet_before, offsets_before), faulty.union(faulty_before)
    given = fleet.undescribed if evidence.undescribed is None else evidence.undescribed
    listed = _filled(fleet, "undescribed", UNDESCRIBED, given).withColumn("code", F.lit("undescribed"))
    faulty = faulty.join(listed, GROUP_KEY, "left_anti").groupBy(*GROUP_KEY).agg(F.min("detail").alias("error"))
    undescribed = union([listed, faulty.withColumn("code", F.lit("null-key"))])
    found = [
        _topic_facts(fleet, now, before),
        _group_facts(evidence, now, before).join(undescribed, GROUP_KEY, "left_anti"),
        _missing_topics(fleet),
    ]
    clusters = F.broadcast(_clusters(now["topics"], evidence, undescribed))
    facts = union(rows.join(clusters, "cluster", "left") for rows in found)
    columns = tagged_schema(UNUSED_TABLES)
    tables = {"offsets": evidence.offsets, "groups": fleet.groups}
    unknown = [kernel.NOT_GIVEN[name] for name, table in tables.items() if table is None]
    judge = partial(kernel.judge, params=params, schema=to_arrow_schema(columns), unknown=unknown)
    rejected = {"kind": F.lit(kernel.REJECTED), "detail": F.col("error")}
    rows = undescribed.select(*GROUP_KEY, "code", *(value.alias(name) for name, value in rejected.items()))
    return Unused(union([facts.mapInArrow(map_arrow_batches(judge), columns), rows]))


def _without_faults(fleet: FleetTables, offsets: DataFrame | None) -> tuple[FleetTables, DataFrame | None, DataFrame]:
    """Returns a fleet and offsets without the rows of groups that lack a required value, and the keys of these groups,
    each once or more often, with the `detail`. Raises FleetError."""
    schemas = {
        name: columns for name, columns in INPUT_TABLES.items() if name != "loads" and "group_id" in columns.names
    }
    tables = {name: table for name in schemas if (table := getattr(fleet, name)) is not None}
    if offsets is not None:
        tables["offsets"], faults = check_schema("offsets", offsets, OFFSETS)
        if faults:
            raise FleetError(faults)
    schemas |= {"offsets": OFFSETS}
    split = {name: split_rows(name, table, schemas[name], GROUP_KEY) for name, table in tables.items()}
    kept = {name: rows for name, (rows, _) in split.items()}
    offsets = kept.pop("offsets", None)
    return replace(fleet, **kept), offsets, union(faulty for _, faulty in split.values())


def _filled(fleet: FleetTables, name: str, columns: StructType, table: DataFrame | None) -> DataFrame:
    """Returns a table with all columns of its schema; without rows if it is unknown. Raises FleetError."""
    empty = dataframe_of_rows(fleet.topics.sparkSession, [], columns)
    return empty if table is None else with_keys(name, table, columns)


def _tables(session: FleetTables, fleet: FleetTables | None, offsets: DataFrame | None) -> Tables:
    """Returns the tables of one snapshot; those that are unknown have no rows."""
    tables = {name: getattr(fleet, name, None) for name in INPUT_TABLES} | {"offsets": offsets}
    schemas = INPUT_TABLES | {"offsets": OFFSETS}
    return {name: _filled(session, name, schemas[name], table) for name, table in tables.items()}


def _clusters(topics: DataFrame, evidence: UnusedEvidence, undescribed: DataFrame) -> DataFrame:
    """Returns what is known of each cluster (`advice.kernel.unused`)."""
    found = topics.groupBy("cluster").agg(
        F.bool_or(F.col("topic").rlike(kernel.MIRROR_TOPIC)).alias("has_mirrors"),
        F.max(F.when(F.col("topic") == OFFSETS_TOPIC, F.col("partitions"))).alias("offsets_partitions"),
    )
    number = undescribed.groupBy("cluster").agg(F.count_distinct("group_id").alias("undescribed"))
    found = found.join(number, "cluster", "left")
    spark, earlier = topics.sparkSession, evidence.earlier
    seconds = dataframe_of_rows(spark, [], _SECONDS) if earlier is None else earlier.seconds
    gaps = dataframe_of_rows(spark, [], _GAPS) if evidence.gaps is None else evidence.gaps
    gap = F.coalesce("gap", F.lit("")).alias("gap")
    return found.join(seconds, "cluster", "left").join(gaps.select("cluster", gap), "cluster", "left")


# --- topics ---------------------------------------------------------------------------------------------------


def _topic_facts(fleet: FleetTables, now: Tables, before: Tables) -> DataFrame:
    """Returns topics without a member that reads them, and topics with partitions that never had a record."""
    found = now["topics"].where(~F.col("topic").startswith("__")).select(*_TOPIC, "partitions", "cleanup_policy")
    being_written = F.max(F.col("in_messages_per_second") > 0).alias("being_written")
    for facts in (
        *(_growth(now, before), _readers(fleet, now), _logs(now["replicas"])),
        now["loads"].groupBy(*_TOPIC).agg(being_written),
    ):
        found = found.join(facts, _TOPIC, "left")
    kind = F.when(F.col("is_read"), kernel.PARTITIONS).otherwise(kernel.TOPIC)
    is_found = ~F.coalesce("is_read", F.lit(False)) | (F.col("never_written") > 0)
    return found.where(is_found).withColumn("kind", kind)


def _ends(tables: Tables, name: str) -> DataFrame:
    """Returns the end offset of each partition, null if it is unknown, in a column of this name."""
    rows = union(tables[table].select(*_PARTITION, "end_offset") for table in ("offsets", "replicas"))
    return rows.groupBy(*_PARTITION).agg(F.max("end_offset").alias(name))


def _growth(now: Tables, before: Tables) -> DataFrame:
    """Returns, for each topic, the numbers of partitions with a known, changed, and zero end offset."""
    topics = now["topics"].select(*_TOPIC, "partitions", F.col("topic_id").alias("id"))
    topics = topics.join(before["topics"].select(*_TOPIC, F.col("topic_id").alias("id_before")), _TOPIC, "left")
    rows = topics.join(_ends(now, "end"), _TOPIC).where(F.col("partition") < F.col("partitions"))
    rows = rows.join(_ends(before, "end_before"), _PARTITION, "left")
    return rows.groupBy(*_TOPIC).agg(
        F.count("end").alias("known_ends"),
        F.count_if(F.col("end") == 0).alias("never_written"),
        F.count("end_before").alias("compared"),
        F.count_if(F.col("end") != F.col("end_before")).alias("changed"),
        F.max(F.col("id") != F.col("id_before")).alias("recreated"),
    )


def _readers(fleet: FleetTables, now: Tables) -> DataFrame:
    """Returns, for each topic, whether a member or an application has it, and the groups that committed offsets."""
    lists = (("owned_lists", "topics"), ("subtopologies", "source_topics"), ("subtopologies", "changelog_topics"))
    of_members = [
        fleet.subscribed_topics,
        *(now[name] for name in ("owned", "owned_slices", "changelogs")),
        *(now[name].select(*GROUP_KEY, F.explode(topics).alias("topic")) for name, topics in lists),
    ]
    committed = [
        *(now["offsets"].where("committed_offset IS NOT NULL"), now["initialized"]),
        now["loads"].where("group_id IS NOT NULL"),
    ]
    rows = union(
        table.select(*GROUP_KEY, "topic", F.lit(is_read).alias("is_read"))
        for is_read, tables in ((True, of_members), (False, committed))
        for table in tables
    )
    return rows.groupBy(*_TOPIC).agg(
        F.max("is_read").alias("is_read"),
        F.count_distinct("group_id").alias("commit_groups"),
        F.min("group_id").alias("commit_group"),
    )


def _logs(replicas: DataFrame) -> DataFrame:
    """Returns the number of replicas of each topic, and the bytes of their logs (null if not all are known, or one of
    them is negative)."""
    number, are_known = F.size("replicas"), F.count_if(F.col("bytes") >= 0) == F.count(F.lit(1))
    disk_bytes = F.when(are_known, bounded_sum(F.col("bytes").cast("decimal(20,0)") * number))
    return replicas.groupBy(*_TOPIC).agg(F.sum(number).alias("replicas"), disk_bytes.alias("disk_bytes"))


# --- groups ---------------------------------------------------------------------------------------------------


def _group_facts(evidence: UnusedEvidence, now: Tables, before: Tables) -> DataFrame:
    """Returns groups without members, or with members that commit nothing."""
    known = union([now["groups"].select(*GROUP_KEY, "group_type", "state"), _keys(now)]).groupBy(*GROUP_KEY)
    found = known.agg(*(F.max(name).alias(name) for name in ("group_type", "state")))
    found = found.join(_members(now, "members"), GROUP_KEY, "left").join(_commits(now, before), GROUP_KEY, "left")
    found = found.fillna(0, ["members", "committed_partitions", "moved"])
    found = found.join(_members(before, "members_before"), GROUP_KEY, "left")
    found = found.join(_keys(before).distinct().withColumn("was_known", F.lit(True)), GROUP_KEY, "left")
    is_still = (F.col("moved") == 0) if evidence.earlier is not None else F.lit(True)
    is_empty = (F.col("members") == 0) & (F.col("state").isNull() | F.col("state").isin("Empty", "Dead"))
    is_behind = (F.col("committed_partitions") > 0) & (F.col("behind") > 0) & (F.col("members") > 0)
    has_none = (F.col("committed_partitions") == 0) & (F.col("members") > 0)
    is_found = (is_still & (is_empty | is_behind)) | (has_none & F.lit(evidence.offsets is not None))
    return found.where(is_found).withColumn("kind", F.lit(kernel.GROUP))


def _keys(tables: Tables) -> DataFrame:
    """Returns the key of each group, once or more often."""
    return union(tables[name].select(*GROUP_KEY) for name in ("groups", "members", "offsets"))


def _members(tables: Tables, name: str) -> DataFrame:
    return tables["members"].groupBy(*GROUP_KEY).agg(F.count(F.lit(1)).alias(name))


def _commits(now: Tables, before: Tables) -> DataFrame:
    """Returns the committed partitions of each group, those that it committed since the older snapshot, and the records
    that were written to them since.
    """
    key = [*GROUP_KEY, "topic", "partition"]
    rows = now["offsets"].where("committed_offset IS NOT NULL").select(*key, "committed_offset", "end_offset")
    rows = rows.join(before["offsets"].select(*key, F.col("committed_offset").alias("before")), key, "left")
    rows = rows.join(_ends(before, "end_before"), _PARTITION, "left")
    written = F.try_subtract("end_offset", "end_before")
    return rows.groupBy(*GROUP_KEY).agg(
        F.count(F.lit(1)).alias("committed_partitions"),
        F.count_if(~F.col("committed_offset").eqNullSafe(F.col("before"))).alias("moved"),
        bounded_sum(F.when(written > 0, written)).alias("behind"),
    )


# --- subscriptions --------------------------------------------------------------------------------------------


def _missing_topics(fleet: FleetTables) -> DataFrame:
    """Returns the subscribed topics of each group that the fleet doesn't have."""
    missing = fleet.subscribed_topics.join(fleet.topics.select(*_TOPIC), _TOPIC, "left_anti")
    return missing.select(*GROUP_KEY, "topic").withColumn("kind", F.lit(kernel.SUBSCRIPTION))
