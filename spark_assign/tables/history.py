"""Schemas of the tables of a history and of a replay.

Columns that end in `_time` are UTC timestamps, and those that end in `_ms` are durations in milliseconds. Values in
partition-milliseconds are sums over partitions.
"""

from __future__ import annotations

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from spark_assign.tables.groups import REJECTED
from spark_assign.tables.schema_fields import nullable, required

_STRING, _INT, _LONG, _DOUBLE = StringType(), IntegerType(), LongType(), DoubleType()
_BINARY, _TIME, _BOOLEAN = BinaryType(), TimestampType(), BooleanType()
_GROUP = required(cluster=_STRING, group_id=_STRING)
_TIME_RANGE = [*required(start_time=_TIME), *nullable(end_time=_TIME)]
_PAUSE = nullable(paused_partition_ms=_LONG, longest_pause_ms=_LONG)

# --- input --------------------------------------------------------------------------------------------------------

RECORDS = StructType(
    [
        *required(cluster=_STRING, partition=_INT, offset=_LONG, timestamp=_TIME),
        *nullable(key=_BINARY, value=_BINARY),
    ]
)
"""Records of `__consumer_offsets` as the broker wrote them. `partition`, `offset`, and `timestamp` are those of the
record. A record with a null value is a tombstone: it deletes what the key names."""

TOPIC_IDS = StructType(required(cluster=_STRING, topic=_STRING, topic_id=_STRING))
"""Topic names and topic IDs, as Kafka prints the IDs."""

END_OFFSETS = StructType(required(cluster=_STRING, topic=_STRING, partition=_INT, end_offset=_LONG))
"""End offsets of partitions."""

# --- history ------------------------------------------------------------------------------------------------------

GROUPS = StructType(
    [
        *_GROUP,
        *required(group_type=_STRING),
        *nullable(protocol_type=_STRING, assignor=_STRING, state=_STRING),
        *required(start_time=_TIME, end_time=_TIME, records=_LONG, rebalances=_LONG, missing_generations=_LONG),
        *required(max_rebalances_per_day=_LONG, members=_LONG, partitions=_LONG, deploys=_LONG, crashes=_LONG),
        *_PAUSE,
        *required(flapping=_BOOLEAN),
    ]
)
"""One row per group. `start_time` and `end_time`: its first and last record. `missing_generations`: generations in
between that are no longer on record because of compaction. `max_rebalances_per_day`: largest number of rebalances
within 24 hours. `members` and `partitions`: at the end. `paused_partition_ms`: partition-milliseconds without commits
around rebalances. `longest_pause_ms`: longest pause of a single partition. Both are null if the group commits nothing.
`flapping`: the group rebalances frequently without deploys."""

REBALANCES = StructType(
    [
        *_GROUP,
        *required(generation_id=_INT, time=_TIME),
        *nullable(stable_time=_TIME),
        *required(state=_STRING),
        *nullable(assignor=_STRING, leader=_STRING),
        *required(members=_LONG, joined=_LONG, left=_LONG, crashed=_LONG, restarted=_LONG, missing_generations=_LONG),
        *required(partitions=_LONG, moved=_LONG, cause=_STRING),
        *_PAUSE,
        *required(partition=_INT, offset=_LONG),
    ]
)
"""One row per generation (classic) or group epoch (consumer, share, and streams groups). `time`: when the coordinator
wrote it. `stable_time`: when the last member had reached it (KIP-848); `time` for a classic group. `joined`, `left`
(including `crashed`), and `restarted` (a static member with a new ID, or a member that left and returned as the same
client) are relative to the previous generation on record. `missing_generations`: generations in between that are not
on record. `moved`: partitions with another owner than before; restarts don't count. `cause`: as far as the records
show it. `partition` and `offset`: position of the record."""

MEMBERSHIPS = StructType(
    [
        *_GROUP,
        *required(member_id=_STRING),
        *nullable(group_instance_id=_STRING, client_id=_STRING, client_host=_STRING, rack_id=_STRING),
        *nullable(session_timeout_ms=_INT, rebalance_timeout_ms=_INT),
        *required(first_generation_id=_INT, last_generation_id=_INT),
        *_TIME_RANGE,
        *required(join_type=_STRING, leave_type=_STRING, confidence=_STRING),
    ]
)
"""One row per membership: a member, and from when to when it was in the group. `end_time` is null for members that are
in the group at the end. `join_type`: `first-on-record`, `joined`, or `restarted`. `leave_type`: `active` (still a
member), `left`, `crashed` (nothing was committed for its partitions for the session timeout before it was removed),
`restarted`, or `unknown`. `confidence` of the leave type: `sure`, `likely`, or `guess`."""

SUBSCRIPTIONS_OVER_TIME = StructType([*_GROUP, *required(member_id=_STRING, topic=_STRING), *_TIME_RANGE])
"""One row per topic and time range in which a member was subscribed to it."""

OWNERSHIP = StructType(
    [
        *_GROUP,
        *required(member_id=_STRING, topic=_STRING, role=_STRING),
        *required(first=_INT, step=_INT, count=_INT, generation_id=_INT),
        *_TIME_RANGE,
    ]
)
"""One row per slice of partitions and time range in which a member owned it. `role`: `partition`; for Connect,
`connector` (`topic` is its name, the partition is 0) and `task` (`topic` is the connector, the partition is the task
number); for streams groups, `active`, `standby`, and `warmup` (`topic` is the subtopology, the partition is the task).
`generation_id`: the generation in which the member received the slice. `topic` is the topic ID if the name is unknown:
KIP-848 records contain only the ID."""

COMMITS = StructType(
    [
        *_GROUP,
        *required(topic=_STRING, partition=_INT, commits=_LONG, start_time=_TIME, end_time=_TIME),
        *required(first_offset=_LONG, last_offset=_LONG),
        *nullable(rate=_DOUBLE, lag=_LONG),
        *required(gaps=_LONG, longest_gap_ms=_LONG, deleted=_LONG),
    ]
)
"""One row per partition that a group committed. `start_time` and `end_time`: first and last commit. `rate`: messages
per second by which the committed offset advanced in between; null if they are the same moment. `lag`: end offset minus
last committed offset; null if the end offset is unknown. `gaps`: number of times without commits that exceed the
threshold. `longest_gap_ms`: the longest of them; 0 if there is none. `deleted`: number of tombstones (expired or
deleted offsets)."""

PAUSES = StructType(
    [
        *_GROUP,
        *nullable(generation_id=_INT),
        *required(start_time=_TIME, end_time=_TIME, partitions=_LONG, paused_partition_ms=_LONG),
    ]
)
"""One row per time range in which partitions that were committed before and after were not committed. `generation_id`:
the rebalance that it belongs to; null if there is none."""

DEPLOYS = StructType(
    [
        *_GROUP,
        *required(deploy_type=_STRING, start_time=_TIME, end_time=_TIME),
        *required(first_generation_id=_INT, last_generation_id=_INT),
        *required(rebalances=_LONG, members_before=_LONG, members_after=_LONG),
        *required(joined=_LONG, left=_LONG, crashed=_LONG, restarted=_LONG),
        *nullable(paused_partition_ms=_LONG),
        *required(detail=_STRING),
    ]
)
"""One row per burst of rebalances. `deploy_type`: `rolling-restart`, `restart` (all members at once), `scale-out`,
`scale-in`, `crash`, `flapping`, or `mixed`."""

UNREADABLE = StructType(
    [
        *required(cluster=_STRING, partition=_INT, offset=_LONG, timestamp=_TIME, code=_STRING, detail=_STRING),
        *nullable(group_id=_STRING, key=_BINARY, value=_BINARY),
    ]
)
"""One row per record that can't be decoded, unchanged. `code`: `unknown-type` (unknown version of the key),
`newer-version` (of the value), `corrupt`, or `no-key`."""

HISTORY_TABLES: dict[str, StructType] = {
    "groups": GROUPS,
    "rebalances": REBALANCES,
    "memberships": MEMBERSHIPS,
    "subscriptions_over_time": SUBSCRIPTIONS_OVER_TIME,
    "ownership": OWNERSHIP,
    "commits": COMMITS,
    "pauses": PAUSES,
    "deploys": DEPLOYS,
    "unreadable": UNREADABLE,
    "rejected": REJECTED,
}

# --- replay -------------------------------------------------------------------------------------------------------

REPLAY_SUMMARY = StructType(
    [
        *_GROUP,
        *required(assignor=_STRING, protocol=_STRING, static=_BOOLEAN, recorded=_BOOLEAN),
        *required(rebalances=_LONG, num_replayed=_LONG, moved=_LONG, paused_partition_ms=_LONG),
        *nullable(saved_ms=_LONG),
        *required(note=_STRING),
    ]
)
"""One row per group and variant (an assignor, with static or dynamic members). `recorded`: whether it is the variant
that was in use. `protocol`: `eager`, `cooperative`, or `consumer`. `rebalances`: number of rebalances after the first
generation on record; each round of a cooperative rebalance counts. `num_replayed`: for the recorded variant, the number
of rebalances that its assignor reproduces; for other variants, the number of recorded rebalances. `moved`: partitions.
`paused_partition_ms`: for the recorded variant as measured, if commits show it. `saved_ms`: difference to the recorded
variant, in partition-milliseconds; null for the recorded variant itself."""

REPLAY_REBALANCES = StructType(
    [
        *_GROUP,
        *required(generation_id=_INT, assignor=_STRING, static=_BOOLEAN, time=_TIME),
        *required(occurs=_BOOLEAN, moved=_LONG, revoked=_LONG, paused_partition_ms=_LONG),
    ]
)
"""One row per recorded rebalance and variant. `occurs`: false if the variant avoids the rebalance: static members
returned in time, or the rebalance only assigned partitions that cooperative members had released. `revoked`: partitions
that live members lose, in all rounds."""

REPLAY_TABLES: dict[str, StructType] = {
    "replay_summary": REPLAY_SUMMARY,
    "replay_rebalances": REPLAY_REBALANCES,
    "replay_rejected": REJECTED,
}
