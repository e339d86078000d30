"""Builds the fleet as of a time in the past: its members, subscriptions, and ownership at that time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from spark_assign.groups.alerts import cluster_times
from spark_assign.history.history import History
from spark_assign.simulation.kernel.events import MAX_PARTITIONS
from spark_assign.spark.dataframes import map_arrow_batches, to_arrow_schema
from spark_assign.spark.engine import cached
from spark_assign.streams.classic_members import Application, StreamsMember, read_application
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.groups import (
    ASSIGNMENT_SLICES,
    GROUP_KEY,
    MEMBER_KEY,
    MEMBERS,
    SUBSCRIPTIONS,
    SUBTOPOLOGIES,
    TASKS,
)
from spark_assign.tables.schema_fields import MAX_ID_BYTES, MAX_TOPIC_BYTES, nullable
from spark_assign.wire import consumer_protocol
from spark_assign.wire.group_records import NAMES
from spark_assign.wire.reader import WireError

# --- Reads the classic Streams applications of a time: their processes, tasks, and topology ---------------------------
#
# The bytes of their members are on record (`tables.history.STREAMS_MEMBERS`), and are read as those of a live group
# (`streams.classic_members`). A row of the pass is a whole application.


_MEMBER_FIELDS = ("member_id", "process_id", "client_tags", "error_code")
_MAX_TOPIC_NAME = 249
"""Maximum length of a topic's name in Kafka."""
_SNAPSHOT_ENDS = "end offsets of changelogs are from the given table, not of this time"


def _rows_of(schema: StructType) -> ArrayType:
    # Without metadata of fields, which Sail doesn't parse.
    fields = [StructField(field.name, field.dataType) for field in schema if field.name not in GROUP_KEY]
    return ArrayType(StructType(fields))


PAST_APPLICATIONS = StructType(
    [
        *(MEMBERS[name] for name in GROUP_KEY),
        *nullable(
            members=_rows_of(StructType([MEMBERS[name] for name in _MEMBER_FIELDS])),
            tasks=_rows_of(TASKS),
            subtopologies=_rows_of(SUBTOPOLOGIES),
            standby_replicas=MEMBERS["position"].dataType,
            **dict.fromkeys(("leader_process_id", "problem"), StringType()),
            caveats=ArrayType(StringType()),
        ),
    ]
)
"""One row per application: rows of its tables, without the key, and columns of its row of `groups`."""


def past_applications(
    members: DataFrame,
    subscriptions: DataFrame,
    group_ids: DataFrame,
    topics: DataFrame,
    topologies: Mapping[str, str],
    *,
    lists_changelogs: bool,
    has_end_offsets: bool,
) -> DataFrame:
    """Returns PAST_APPLICATIONS, cached if the session can.

    Args:
        members: rows of STREAMS_MEMBERS at one time.
        subscriptions: cluster, group_id, topic at this time.
        group_ids: cluster, group_id of all groups.
        topics: cluster, topic, partitions.
        topologies: texts of `Topology.describe()` by group ID.
        lists_changelogs: whether `topics` has the changelogs.
        has_end_offsets: whether end offsets of another time are given.
    """
    columns = F.struct("position", "member_id", "subscription", "assignment")
    applications = members.groupBy(*GROUP_KEY).agg(F.array_sort(F.collect_list(columns)).alias("members"))
    keys = F.broadcast(members.select(*GROUP_KEY).distinct())
    others = group_ids.where(F.length("group_id") < _MAX_TOPIC_NAME)  # No topic starts with a longer ID.
    others = _with_longer_names(others, "group_id", keys).groupBy(*GROUP_KEY).agg(F.collect_set("name").alias("others"))
    sources = topics.join(subscriptions.select(*GROUP_KEY, "topic"), ["cluster", "topic"])
    sources = sources.join(keys, GROUP_KEY, "left_semi").select(*GROUP_KEY, F.col("topic").alias("name"), "partitions")
    named = sources.unionByName(_with_longer_names(topics, "topic", keys))
    sizes = named.groupBy(*GROUP_KEY).agg(F.collect_set(F.struct("name", "partitions")).alias("topics"))
    work = partial(
        _read_applications,
        topologies=dict(topologies),
        lists_changelogs=lists_changelogs,
        caveats=[_SNAPSHOT_ENDS] if has_end_offsets else [],
        schema=to_arrow_schema(PAST_APPLICATIONS),
    )
    rows = applications.join(others, GROUP_KEY, "left").join(sizes, GROUP_KEY, "left")
    return cached(rows.mapInArrow(map_arrow_batches(work), PAST_APPLICATIONS))


def _with_longer_names(rows: DataFrame, column: str, keys: DataFrame) -> DataFrame:
    """Returns cluster, group_id, name, and partitions (if the table has them) of the rows in which the name starts with
    the ID of an application and a dash.
    """
    named = rows.select(
        "cluster", F.col(column).alias("name"), *(name for name in ("partitions",) if name in rows.columns)
    )
    return named.join(keys, ["cluster"]).where(F.col("name").startswith(F.concat("group_id", F.lit("-"))))


def _read_applications(
    rows: pa.Table, topologies: Mapping[str, str], lists_changelogs: bool, caveats: list[str], schema: pa.Schema
) -> Iterator[pa.Table]:
    """Yields a row of PAST_APPLICATIONS per application."""
    for row in rows.to_pylist():
        application = _read_application(row, topologies, lists_changelogs)
        members = [{"member_id": name, **columns} for name, columns in application.members.items()]
        tasks = [{"member_id": name, **task} for name, of in application.tasks.items() for task in of]
        stateful = any(subtopology["changelog_topics"] for subtopology in application.subtopologies)
        texts = [*application.caveats, *(caveats if stateful else [])]
        columns = {"members": members, "tasks": tasks, "subtopologies": application.subtopologies, "caveats": texts}
        key = {name: row[name] for name in GROUP_KEY}
        found = {**key, **columns, **application.columns, "problem": application.problem}
        yield pa.Table.from_pylist([found], schema=schema)


def _read_application(row: Mapping[str, Any], topologies: Mapping[str, str], lists_changelogs: bool) -> Application:
    """Returns what the bytes of the members reveal. Bytes that can't be read are the problem of the application."""
    members = []
    for member in row["members"]:
        try:
            subscription = consumer_protocol.subscription_as_sent(member["subscription"] or b"")
            assigned = consumer_protocol.assignment(member["assignment"]) if member["assignment"] else None
        except WireError as error:
            return Application(problem=f"member {member['member_id']}: {error}")
        if not subscription.user_data:
            problem = "the records have no SubscriptionInfo, which --without-hosts removes"
            return Application(problem=f"member {member['member_id']}: {problem}")
        members.append(StreamsMember(member["member_id"], subscription, assigned))
    return read_application(
        row["group_id"],
        members,
        {topic["name"]: topic["partitions"] for topic in row["topics"] or ()},
        topology=topologies.get(row["group_id"]),
        group_ids=row["others"] or (),
        lists_changelogs=lists_changelogs,
    )


# --- fleet as of ------------------------------------------------------------------------------------------------------


_CONSUMER_GROUP_TYPES = ("classic", "consumer", "share")
_GIVE_TOPICS = "If it has more, give the table topics, for example with --fleet and a snapshot"
_MICROS = (-62_135_596_800_000_000, 253_402_300_799_999_999)
"""Times that Python's `datetime` has in UTC, in microseconds since 1970."""
_APPLICATION_COLUMNS = ("standby_replicas", "leader_process_id", "problem", "caveats")
"""Columns of `groups` that only classic Streams applications have."""
_OTHER_RECORDS = [
    f"{number:04X}" for number, name in NAMES.items() if name.endswith(("OffsetCommit", "TargetAssignmentMetadata"))
]
"""Key types of records that say nothing about the members of a group, in hexadecimal digits."""


def tables_as_of(
    history: History,
    timestamp: datetime | str,
    *,
    topics: DataFrame | None = None,
    changelogs: DataFrame | None = None,
    topologies: Mapping[str, str] | None = None,
) -> dict[str, DataFrame]:
    """Returns the tables of the fleet as of a time, by name, for `Fleet.as_of`.

    The tables are lazy: each is one pass over the records, unless `history` reads stored rows. One query over the
    groups checks at once that the records cover the moment. The embedded engine also computes at once what is used more
    than once: the topics, the undescribed groups, and the applications.
    """
    micros = _parse_timestamp(timestamp)
    clusters = _find_clusters(history.groups, micros)
    moment = F.timestamp_micros(F.lit(micros))
    is_covered = F.col("cluster").isin(clusters)
    last_rebalances = _last_rebalance(history.rebalances.where(is_covered & (F.col("time") <= moment)))
    memberships, subscriptions, ownership, streams_members = (
        getattr(history, name).where(is_covered & _is_valid_at(moment))
        for name in ("memberships", "subscriptions_over_time", "ownership", "streams_members")
    )
    owned = ownership.where("role = 'partition'")
    sizes = cached(_topics(history, is_covered, moment)) if topics is None else topics
    # Connectors and the tasks of streams groups (KIP-1071) are no partitions. A group can have been classic before.
    protocol_type = F.coalesce(F.col("protocol_type"), F.lit("consumer"))
    is_consumer_group = F.col("group_type").isin(*_CONSUMER_GROUP_TYPES) & protocol_type.eqNullSafe("consumer")
    undescribed = _damaged(history, is_covered, moment).unionByName(
        _incomplete(history.rejected, memberships, subscriptions, owned, streams_members)
    )
    for table in (memberships, subscriptions, ownership, last_rebalances):
        undescribed = undescribed.unionByName(_long_names(table))
    if topics is None:
        undescribed = undescribed.unionByName(_beyond_topics(owned, sizes))
    others = history.groups.where(~is_consumer_group | (F.col("start_time") > moment))
    others = others.join(streams_members, GROUP_KEY, "left_anti")  # which were applications at this time
    undescribed = undescribed.join(others, GROUP_KEY, "left_anti")
    undescribed = cached(undescribed.groupBy(*GROUP_KEY).agg(F.min("error").alias("error")))  # for each table
    streams_members = streams_members.join(undescribed, GROUP_KEY, "left_anti")
    applications = past_applications(
        streams_members,
        subscriptions,
        history.groups.where(is_covered),
        sizes,
        topologies or {},
        lists_changelogs=topics is not None,
        has_end_offsets=changelogs is not None,
    )
    of_groups = applications.select(*GROUP_KEY, *_APPLICATION_COLUMNS, F.lit(True).alias("is_application"))
    # There are few groups compared with their members: they are broadcast.
    group_types = history.groups.where(is_covered).join(of_groups, GROUP_KEY, "left")
    group_types = group_types.where(is_consumer_group | F.col("is_application"))
    group_types = group_types.join(undescribed, GROUP_KEY, "left_anti")
    live_groups = F.broadcast(
        group_types.select(*GROUP_KEY, "group_type", *_APPLICATION_COLUMNS).join(last_rebalances, GROUP_KEY)
    )
    member_rows = memberships.join(live_groups.select(*GROUP_KEY, "generation_id"), GROUP_KEY)
    positions = streams_members.select(*MEMBER_KEY, "position")
    member_rows = member_rows.join(positions, MEMBER_KEY, "left")
    member_rows = member_rows.join(applications.select(*GROUP_KEY, F.inline("members")), MEMBER_KEY, "left")
    return {
        "topics": sizes,
        # All members are in the generation of their group.
        "members": member_rows.select(*(name for name in MEMBERS.names if name in member_rows.columns)),
        "subscriptions": _rows_of_groups(subscriptions, live_groups).select(*SUBSCRIPTIONS.names),
        "owned_slices": _rows_of_groups(owned, live_groups).select(*ASSIGNMENT_SLICES.names),
        "groups": _groups(live_groups, memberships),
        "subtopologies": applications.select(*GROUP_KEY, F.inline("subtopologies")),
        "tasks": applications.select(*GROUP_KEY, F.inline("tasks")),
        "undescribed": undescribed,
        **({} if changelogs is None else {"changelogs": _rows_of_groups(changelogs, applications)}),
    }


def _parse_timestamp(timestamp: datetime | str) -> int:
    """Returns a time in microseconds since 1970. Raises ConfigError."""
    problem = f"timestamp {timestamp!s} isn't valid. Give a date, a time, and a time zone"
    try:
        moment = datetime.fromisoformat(timestamp) if isinstance(timestamp, str) else timestamp
    except ValueError as error:
        raise ConfigError(f"{problem}, for example 2026-11-23T08:00:00Z.") from error
    if moment.utcoffset() is None:
        raise ConfigError(f"{problem}, for example 2026-11-23T08:00:00Z, or a datetime with tzinfo=UTC.")
    micros = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    if not _MICROS[0] <= micros <= _MICROS[1]:  # in UTC, it is in the year 0 or 10000
        raise ConfigError(f"{problem} between the years 1 and 9999 in UTC.")
    return micros


def _find_clusters(groups: DataFrame, micros: int) -> list[str]:
    """Returns the clusters whose records cover a time. Raises ConfigError if there is none."""
    bounds = (F.unix_micros(name).alias(name) for name in ("start", "end"))
    rows = cluster_times(groups).select("cluster", *bounds).orderBy("cluster").collect()  # a row per cluster
    clusters = [row.cluster for row in rows if row.start <= micros <= row.end]
    if not clusters:
        ranges = [f"{row.cluster} from {_format_timestamp(row.start)} to {_format_timestamp(row.end)}" for row in rows]
        more = f", and {len(rows) - 5} more clusters" if len(rows) > 5 else ""
        covered = f"The records cover {', '.join(ranges[:5])}{more}." if rows else "No group is on record."
        raise ConfigError(f"timestamp {_format_timestamp(micros)} isn't covered by the records. {covered}")
    return clusters


def _format_timestamp(micros: int) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    return moment.isoformat().replace("+00:00", "Z")


def _is_valid_at(moment: Column, start: str = "start_time") -> Column:
    """Returns whether the time range from `start` up to, but without, `end_time` contains a time."""
    return (F.col(start) <= moment) & (F.col("end_time").isNull() | (F.col("end_time") > moment))


def _damaged(history: History, is_covered: Column, moment: Column) -> DataFrame:
    """Returns UNDESCRIBED: groups with an unreadable record that none had replaced, and those that are too large."""
    kind = F.substring(F.hex("key"), 1, 4)
    is_last = _is_valid_at(moment, "timestamp")
    records = history.unreadable.where(is_covered & is_last & F.col("group_id").isNotNull())
    records = records.where(kind.isNotNull() & ~kind.isin(*_OTHER_RECORDS))
    place = "the record in partition %d of __consumer_offsets, offset %d, can't be read: %s"
    error = F.format_string(place, "partition", "offset", "detail").alias("error")
    too_large = history.rejected.where(is_covered & F.col("code").startswith("too-many-"))
    return records.select(*GROUP_KEY, error).unionByName(too_large.select(*GROUP_KEY, _rejection()))


def _incomplete(
    rejected: DataFrame, memberships: DataFrame, subscriptions: DataFrame, owned: DataFrame, streams_members: DataFrame
) -> DataFrame:
    """Returns UNDESCRIBED: groups with a member whose subscription or assignment can't be read.

    Of these, the history has no row at that time. Classic Streams applications have `groups.problem` instead.
    """
    classic = memberships.where("session_timeout_ms IS NOT NULL").join(streams_members, GROUP_KEY, "left_anti")
    without = {"unreadable-subscription": subscriptions, "unreadable-assignment": owned}
    members = [
        classic.join(rows, MEMBER_KEY, "left_anti").select(*GROUP_KEY, F.lit(code).alias("code")).distinct()
        for code, rows in without.items()
    ]
    found = rejected.join(members[0].unionByName(members[1]), [*GROUP_KEY, "code"], "left_semi")
    return found.select(*GROUP_KEY, _rejection())


def _long_names(rows: DataFrame) -> DataFrame:
    """Returns UNDESCRIBED: groups with a text that is too long for a snapshot, too."""
    names = [field.name for field in rows.schema if field.name != "cluster" and field.dataType == StringType()]
    most = dict.fromkeys(names, MAX_ID_BYTES) | ({"topic": MAX_TOPIC_BYTES} if "step" in rows.columns else {})
    too_long = ((F.octet_length(name) > most[name], f"{name} has more than {most[name]:,} bytes") for name in names)
    error = F.coalesce(*(F.when(condition, F.lit(text)) for condition, text in too_long))
    return rows.select(*GROUP_KEY, error.alias("error")).where(F.col("error").isNotNull())


def _rejection() -> Column:
    return F.concat_ws(": ", "code", "detail").alias("error")


def _last_rebalance(rebalances: DataFrame) -> DataFrame:
    """Returns generation, assignor, and state of each group's last rebalance, without groups that were deleted."""
    columns = F.struct("time", "partition", "offset", "generation_id", "assignor", "state")
    last = rebalances.groupBy(*GROUP_KEY).agg(F.max(columns).alias("last")).where("last.state <> 'Dead'")
    return last.select(*GROUP_KEY, "last.generation_id", "last.assignor", "last.state")


def _rows_of_groups(rows: DataFrame, groups: DataFrame) -> DataFrame:
    return rows.join(groups.select(*GROUP_KEY), GROUP_KEY, "left_semi")


def _groups(live_groups: DataFrame, memberships: DataFrame) -> DataFrame:
    """Returns the groups with the columns of a fleet.

    The type of a group at a moment isn't on record, but follows from its members: a member of the consumer protocol has
    no session timeout of its own, and a group is a KIP-848 group from the first such member to the last.
    """
    has_consumer = F.bool_or(F.col("session_timeout_ms").isNull()).alias("has_consumer_protocol")
    protocols = memberships.groupBy(*GROUP_KEY).agg(has_consumer)
    current_type = F.when(F.col("has_consumer_protocol"), "consumer").otherwise("classic")
    can_change = (F.col("group_type") != "share") & F.col("has_consumer_protocol").isNotNull()
    rows = live_groups.join(protocols, GROUP_KEY, "left")
    group_type = F.when(can_change, current_type).otherwise(F.col("group_type")).alias("group_type")
    return rows.select(*GROUP_KEY, "assignor", group_type, "state", *_APPLICATION_COLUMNS)


def _last_partition() -> Column:
    """Returns the last partition of a slice. Two numbers that a leader makes up can be further apart than an int."""
    return F.col("first") + F.col("step") * (F.col("count").cast("long") - 1)


def _topics(history: History, is_covered: Column, moment: Column) -> DataFrame:
    """Returns topics with as many partitions as members had owned or committed up to the moment.

    A leader can write any partition number into an assignment, but a broker takes commits only of partitions that
    exist. So the largest partition that a group owned counts only if the group owned at least half of the partitions up
    to it: an assignment has all partitions of a topic, up to those that change hands. If a topic has no such group and
    no commits, the group that comes closest counts. A partition that no topic has doesn't count.
    """
    has_started = is_covered & (F.col("start_time") <= moment)
    owned = history.ownership.where(has_started & (F.col("role") == "partition") & (F.col("count") > 0))
    slices = owned.select(*GROUP_KEY, "topic", _last_partition().alias("last"), "first", "count")
    slices = slices.where((F.col("first") >= 0) & (F.col("last") < MAX_PARTITIONS)).distinct()
    last = (F.max("last") + 1).alias("partitions")
    claims = slices.groupBy(*GROUP_KEY, "topic").agg(last, F.sum("count").alias("owned"))
    committed = history.commits.where(has_started & F.col("partition").between(0, MAX_PARTITIONS - 1))
    committed = committed.groupBy("cluster", "topic").agg((F.max("partition") + 1).cast("long").alias("partitions"))
    sizes = claims.select("cluster", "topic", "partitions", "owned").unionByName(
        committed.withColumn("owned", F.col("partitions"))
    )
    share = F.struct((F.col("owned") / F.col("partitions")).alias("share"), "partitions")
    known = F.max(F.when(2 * F.col("owned") >= F.col("partitions"), F.col("partitions")))
    partitions = F.coalesce(known, F.max(share)["partitions"]).cast("int").alias("partitions")
    return sizes.groupBy("cluster", "topic").agg(partitions)


def _beyond_topics(owned: DataFrame, sizes: DataFrame) -> DataFrame:
    """Returns UNDESCRIBED: groups with a partition that `_topics` doesn't take for one of the topic."""
    beyond = owned.join(sizes, ["cluster", "topic"]).where(_last_partition() >= F.col("partitions"))
    place = "it owns partition %d of topic %s, which has %d partitions according to commits and other groups"
    topic = F.substring("topic", 1, _MAX_TOPIC_NAME)
    error = F.format_string(f"{place}. {_GIVE_TOPICS}", _last_partition(), topic, "partitions").alias("error")
    return beyond.select(*GROUP_KEY, error)
