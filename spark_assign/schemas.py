"""Every table that spark_assign reads or writes, declared once.

A nullable field of an input table may be null or may be left out altogether; the others must be there and
hold no null. Nullability is checked by value, not by schema: Parquet reads everything back as nullable.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_STRING, _INT, _LONG, _DOUBLE = StringType(), IntegerType(), LongType(), DoubleType()


def _required(**fields: object) -> list[StructField]:
    return [StructField(name, kind, nullable=False) for name, kind in fields.items()]  # type: ignore[arg-type]


def _nullable(**fields: object) -> list[StructField]:
    return [StructField(name, kind, nullable=True) for name, kind in fields.items()]  # type: ignore[arg-type]


_GROUP = _required(cluster=_STRING, group_id=_STRING)
_MEMBER = [*_GROUP, *_required(member_id=_STRING)]
_RUN = _required(topic=_STRING, first=_INT, step=_INT, count=_INT)

# --- the Fleet ------------------------------------------------------------------------------------------

TOPICS = StructType(_required(cluster=_STRING, topic=_STRING, partitions=_INT))

MEMBERS = StructType(
    [
        *_MEMBER,
        *_nullable(
            group_instance_id=_STRING,
            client_id=_STRING,
            client_host=_STRING,
            rack_id=_STRING,
            generation_id=_INT,
            user_data_generation_id=_INT,
            position=_INT,
        ),
    ]
)

SUBSCRIPTIONS = StructType([*_MEMBER, *_required(topic=_STRING)])

OWNED = StructType([*_MEMBER, *_required(topic=_STRING, partition=_INT)])

OWNED_RUNS = StructType([*_MEMBER, *_RUN])
"""Partitions first, first + step, … (count of them) of one topic, owned by one member."""

REPLICAS = StructType(
    _required(cluster=_STRING, topic=_STRING, partition=_INT, replicas=ArrayType(_INT, containsNull=True))
)
"""`replicas` holds broker ids, the preferred leader first."""

BROKERS = StructType([*_required(cluster=_STRING, broker_id=_INT), *_nullable(rack_id=_STRING)])

GROUPS = StructType([*_GROUP, *_nullable(assignor=_STRING, group_type=_STRING, state=_STRING)])
"""What a snapshot knows of a group itself. `assignor` is the strategy that the group runs with now, by Kafka's
name; `group_type` is `classic` or `consumer` (KIP-848)."""

INPUT_TABLES: dict[str, StructType] = {
    "topics": TOPICS,
    "members": MEMBERS,
    "subscriptions": SUBSCRIPTIONS,
    "owned": OWNED,
    "owned_runs": OWNED_RUNS,
    "replicas": REPLICAS,
    "brokers": BROKERS,
    "groups": GROUPS,
}
REQUIRED_TABLES = ("topics", "members", "subscriptions")

# --- what a snapshot writes beside the Fleet ------------------------------------------------------------

OFFSETS = StructType(
    [
        *_GROUP,
        *_required(topic=_STRING, partition=_INT),
        *_nullable(committed_offset=_LONG, end_offset=_LONG, lag=_LONG),
    ]
)
"""Records: the group's committed offset, the partition's end offset, and their difference."""

UNDESCRIBED = StructType([*_GROUP, *_required(error=_STRING)])
"""Groups that the cluster listed but would not describe, with what it said."""

SNAPSHOT_TABLES: dict[str, StructType] = {
    **{name: schema for name, schema in INPUT_TABLES.items() if name != "owned"},
    "offsets": OFFSETS,
    "undescribed": UNDESCRIBED,
}

# --- the Plan -------------------------------------------------------------------------------------------

ASSIGNMENTS = StructType([*_MEMBER, *_required(topic=_STRING, partition=_INT)])

RUNS = StructType([*_MEMBER, *_RUN])

REVOCATIONS = StructType(
    [*_MEMBER, *_required(topic=_STRING, partition=_INT), *_nullable(next_member_id=_STRING)]
)

MOVES = StructType(
    [
        *_GROUP,
        *_required(topic=_STRING, partition=_INT),
        *_nullable(from_member_id=_STRING, to_member_id=_STRING),
        *_required(reason=_STRING),
    ]
)

METRICS = StructType(
    [
        *_GROUP,
        *_required(
            assignor=_STRING,
            members=_LONG,
            partitions=_LONG,
            min_per_member=_LONG,
            max_per_member=_LONG,
            mean_per_member=_DOUBLE,
            stddev_per_member=_DOUBLE,
        ),
        *_nullable(max_over_mean=_DOUBLE),
        *_required(
            moved=_LONG,
            revoked=_LONG,
            unassigned=_LONG,
            members_without_subscription=_LONG,
            unknown_topics=_LONG,
            owned_topic_gone=_LONG,
            owned_beyond_count=_LONG,
            claim_conflicts=_LONG,
        ),
        *_nullable(rack_matched=_LONG),
    ]
)
"""A row per planned group. All counts are of partitions, but `members`, `members_without_subscription` (members)
and `unknown_topics` (subscribed topics without metadata). `max_over_mean` is null where nothing is assigned;
`rack_matched` is null where racks are unknown."""

REJECTED = StructType([*_GROUP, *_required(code=_STRING, detail=_STRING)])

PLAN_TABLES: dict[str, StructType] = {
    "assignments": ASSIGNMENTS,
    "runs": RUNS,
    "revocations": REVOCATIONS,
    "moves": MOVES,
    "metrics": METRICS,
    "rejected": REJECTED,
}

MANIFEST = StructType(
    _required(
        run_id=_STRING,
        attempt=_STRING,
        finished_at=TimestampType(),
        duration_s=_DOUBLE,
        content=_STRING,
    )
)
"""One row per finished attempt; the newest of a run_id is the run. `content` is JSON: inputs, counts, versions."""

