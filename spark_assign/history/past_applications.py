"""Reads the classic Streams applications of a time: their processes, tasks, and topology.

The bytes of their members are on record (`tables.history.STREAMS_MEMBERS`), and are read as those of a live group
(`streams.classic_members`). A row of the pass is a whole application.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from spark_assign.spark.arrow_batches import map_arrow_batches
from spark_assign.spark.arrow_schemas import to_arrow_schema
from spark_assign.spark.engine import cached
from spark_assign.streams.classic_members import Application, StreamsMember, read_application
from spark_assign.tables.groups import GROUP_KEY, MEMBERS, SUBTOPOLOGIES, TASKS
from spark_assign.wire import consumer_protocol
from spark_assign.wire.reader import WireError

_KEY = StructType([MEMBERS[name] for name in GROUP_KEY])
_MEMBER_FIELDS = ("member_id", "process_id", "client_tags", "error_code")
_TEXTS = ArrayType(StringType())
_SNAPSHOT_ENDS = "end offsets of changelogs are from the given table, not of this time"


def _rows_of(schema: StructType) -> ArrayType:
    # Without metadata of fields, which Sail doesn't parse.
    fields = [StructField(field.name, field.dataType) for field in schema if field.name not in GROUP_KEY]
    return ArrayType(StructType(fields))


PAST_APPLICATIONS = StructType(
    [
        *_KEY,
        StructField("members", _rows_of(StructType([MEMBERS[name] for name in _MEMBER_FIELDS]))),
        StructField("tasks", _rows_of(TASKS)),
        StructField("subtopologies", _rows_of(SUBTOPOLOGIES)),
        StructField("standby_replicas", MEMBERS["position"].dataType),
        StructField("leader_process_id", StringType()),
        StructField("problem", StringType()),
        StructField("caveats", _TEXTS),
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
    others = (
        _with_longer_names(group_ids, "group_id", keys).groupBy(*GROUP_KEY).agg(F.collect_set("name").alias("others"))
    )
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
