"""Every table of the history of groups, declared once. All timestamps are moments in UTC."""

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
_SPAN = [*required(since=_TIME), *nullable(until=_TIME)]

# --- what is read -----------------------------------------------------------------------------------------

RECORDS = StructType(
    [
        *required(cluster=_STRING, partition=_INT, offset=_LONG, timestamp=_TIME),
        *nullable(key=_BINARY, value=_BINARY),
    ]
)
"""Records of `__consumer_offsets` as the broker wrote them. `partition` and `offset` say where a record stands in that
topic, `timestamp` is the record's own. A null value is a tombstone: whatever the key names is gone."""

TOPIC_IDS = StructType(required(cluster=_STRING, topic=_STRING, topic_id=_STRING))
"""Names of topics, by the id as Kafka prints it."""

END_OFFSETS = StructType(required(cluster=_STRING, topic=_STRING, partition=_INT, end_offset=_LONG))
"""Where partitions end."""

# --- what is told -----------------------------------------------------------------------------------------

GROUPS = StructType(
    [
        *_GROUP,
        *required(group_type=_STRING),
        *nullable(protocol_type=_STRING, assignor=_STRING, state=_STRING),
        *required(since=_TIME, until=_TIME, records=_LONG, rebalances=_LONG, missing=_LONG),
        *required(most_in_a_day=_LONG, members=_LONG, partitions=_LONG, deploys=_LONG, crashes=_LONG),
        *nullable(stopped_ms=_LONG, longest_ms=_LONG),
        *required(flapping=_BOOLEAN),
    ]
)
"""A row per group. `since`, `until`: its first and last record; `missing`: generations between them that are no longer
on record (compaction); `most_in_a_day`: rebalances in the worst 24 hours; `members`, `partitions`: at the end;
`stopped_ms`: partition-milliseconds without commits around rebalances, `longest_ms` the longest stop of a partition;
null where nothing is committed. `flapping`: it rebalances again and again without a deploy."""

REBALANCES = StructType(
    [
        *_GROUP,
        *required(generation=_INT, at=_TIME),
        *nullable(settled=_TIME),
        *required(state=_STRING),
        *nullable(assignor=_STRING, leader=_STRING),
        *required(members=_LONG, joined=_LONG, left=_LONG, crashed=_LONG, restarted=_LONG, missing=_LONG),
        *required(partitions=_LONG, moved=_LONG, why=_STRING),
        *nullable(stopped_ms=_LONG, longest_ms=_LONG),
        *required(partition=_INT, offset=_LONG),
    ]
)
"""A row per generation (classic) or group epoch (consumer, share, streams). `at`: when the coordinator wrote it;
`settled`: when the last member had reached it (KIP-848), of a classic group `at`; `joined`, `left` (with `crashed`
among them), `restarted` (a static member's new id, or one that left and came back as the same client): against the
generation before on record; `missing`: generations in between that are not on record, null figures are of the known
ones; `moved`: partitions whose owner is another than before, by member, restarts not counted; `why`: as far as the
record says. `partition`, `offset`: the record that says so."""

MEMBERSHIPS = StructType(
    [
        *_GROUP,
        *required(member_id=_STRING),
        *nullable(group_instance_id=_STRING, client_id=_STRING, client_host=_STRING, rack_id=_STRING),
        *nullable(session_timeout_ms=_INT, rebalance_timeout_ms=_INT),
        *required(first_generation=_INT, last_generation=_INT),
        *_SPAN,
        *required(came=_STRING, went=_STRING, certainty=_STRING),
    ]
)
"""Who was a member from when to when; `until` is null of those that are there at the end. `came`: `first-on-record`,
`joined`, `restarted`; `went`: `is-there`, `left`, `crashed` (its partitions were silent for the session timeout before
it was gone), `restarted`, `unknown`. `certainty` of the last: `sure`, `likely`, `guess`."""

SUBSCRIBED = StructType([*_GROUP, *required(member_id=_STRING, topic=_STRING), *_SPAN])
"""What members subscribed to, from when to when."""

OWNERSHIP = StructType(
    [
        *_GROUP,
        *required(member_id=_STRING, topic=_STRING, role=_STRING),
        *required(first=_INT, step=_INT, count=_INT, generation=_INT),
        *_SPAN,
    ]
)
"""Who owned what from when to when, as runs of partitions. `role`: `partition`; of Connect `connector` (topic: its
name, partition 0) and `task` (topic: the connector, partition: the task's number); of streams groups `active`,
`standby`, `warmup` (topic: the subtopology, partition: the task). `generation`: that in which it became so. A topic
whose name nobody knows (KIP-848 records name topics by id) is told by its id."""

COMMITS = StructType(
    [
        *_GROUP,
        *required(topic=_STRING, partition=_INT, commits=_LONG, since=_TIME, until=_TIME),
        *required(first_offset=_LONG, last_offset=_LONG),
        *nullable(rate=_DOUBLE, lag=_LONG),
        *required(gaps=_LONG, longest_gap_ms=_LONG, deleted=_LONG),
    ]
)
"""A row per partition that a group committed. `since`, `until`: first and last commit; `rate`: messages a second by
which the committed offset went on between them, null for one moment; `lag`: end offset less the last committed one,
where end offsets are given; `gaps`: how often nothing was committed for longer than the threshold, `longest_gap_ms`
the longest such, 0 for none; `deleted`: tombstones (expired, or deleted by somebody)."""

PAUSES = StructType(
    [
        *_GROUP,
        *nullable(generation=_INT),
        *required(since=_TIME, until=_TIME, partitions=_LONG, stopped_ms=_LONG),
    ]
)
"""Stretches in which partitions of a group that were committed before and after were not: what users felt. With
`generation`: around that rebalance; null: without one. `stopped_ms`: partition-milliseconds."""

DEPLOYS = StructType(
    [
        *_GROUP,
        *required(what=_STRING, since=_TIME, until=_TIME, first_generation=_INT, last_generation=_INT),
        *required(rebalances=_LONG, members_before=_LONG, members_after=_LONG),
        *required(joined=_LONG, left=_LONG, crashed=_LONG, restarted=_LONG),
        *nullable(stopped_ms=_LONG),
        *required(detail=_STRING),
    ]
)
"""Bursts of rebalances told as one: `what` is `rolling-restart`, `restart` (all at once), `scale-out`, `scale-in`,
`crash`, `flapping` or `mixed`."""

UNREADABLE = StructType(
    [
        *required(cluster=_STRING, partition=_INT, offset=_LONG, timestamp=_TIME, code=_STRING, detail=_STRING),
        *nullable(group_id=_STRING, key=_BINARY, value=_BINARY),
    ]
)
"""Records that nothing could be made of, as they are. `code`: `unknown-type` (the key's version is none that is known),
`newer-version` (of the value), `corrupt`, `no-key`."""

HISTORY_TABLES: dict[str, StructType] = {
    "groups": GROUPS,
    "rebalances": REBALANCES,
    "memberships": MEMBERSHIPS,
    "subscribed": SUBSCRIBED,
    "ownership": OWNERSHIP,
    "commits": COMMITS,
    "pauses": PAUSES,
    "deploys": DEPLOYS,
    "unreadable": UNREADABLE,
    "rejected": REJECTED,
}

# --- what it would have been otherwise --------------------------------------------------------------------

REPLAYED = StructType(
    [
        *_GROUP,
        *required(assignor=_STRING, protocol=_STRING, static=_BOOLEAN, recorded=_BOOLEAN),
        *required(rebalances=_LONG, replayed=_LONG, moved=_LONG, stopped_ms=_LONG),
        *nullable(saved_ms=_LONG),
        *required(note=_STRING),
    ]
)
"""A row per group and way: `recorded` marks the one that was in use. `protocol`: `eager`, `cooperative`, `consumer`.
`rebalances` that would have been since the first generation on record, each round of a cooperative one for itself;
`replayed`: of the recorded way those that its assignor, asked again, shares out as it is recorded, of others all that
are on record; `moved`: partitions; `stopped_ms`: partition-milliseconds, of the recorded way as measured, where commits
show it; `saved_ms`: against the recorded way, of which it is null. `note`: what there is to say of it."""

REPLAYS = StructType(
    [
        *_GROUP,
        *required(generation=_INT, assignor=_STRING, static=_BOOLEAN, at=_TIME),
        *required(happens=_BOOLEAN, moved=_LONG, revoked=_LONG, stopped_ms=_LONG),
    ]
)
"""A row per past rebalance and way. `happens`: false where it would have been spared: static members were back in time,
or it only handed over what cooperative members had given up. `revoked`: what living members lose, in all rounds."""

REPLAY_TABLES: dict[str, StructType] = {"replayed": REPLAYED, "replays": REPLAYS, "rejected": REJECTED}

REPLAYED_TABLES: dict[str, StructType] = {"replayed": REPLAYED, "replays": REPLAYS, "unreplayed": REJECTED}
"""The same beside the tables of a history: what is rejected there is something else."""
