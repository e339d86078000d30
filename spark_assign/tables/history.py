"""Schemas of the tables of a history and of a replay.

Columns that end in `_time` are UTC timestamps, and those that end in `_ms` are durations in milliseconds. Values in
partition-milliseconds are sums over partitions.
"""

from __future__ import annotations

from pyspark.sql.types import StructType

from spark_assign.tables.groups import REJECTED
from spark_assign.tables.schema_fields import schema

_GROUP = "cluster string, group_id string"
_TIME_RANGE = "start_time timestamp, end_time timestamp?"
_PAUSE = "paused_partition_ms long?, longest_pause_ms long?"

# --- input --------------------------------------------------------------------------------------------------------

RECORDS = schema(
    "cluster string, partition int, offset long, timestamp timestamp, key binary?, value binary?",
)
"""Records of `__consumer_offsets` as the broker wrote them. `partition`, `offset`, and `timestamp` are those of the
record. A record with a null value is a tombstone: it deletes what the key names."""

TOPIC_IDS = schema("cluster string, topic string, topic_id string")
"""Topic names and topic IDs, as Kafka prints the IDs."""

END_OFFSETS = schema("cluster string, topic string, partition int, end_offset long")
"""End offsets of partitions."""

# --- history ------------------------------------------------------------------------------------------------------

GROUPS = schema(
    _GROUP,
    "group_type string, protocol_type string?, assignor string?, state string?",
    "start_time timestamp, end_time timestamp, records long, rebalances long, idle_epochs long",
    "missing_generations long, max_rebalances_per_day long, members long, partitions long, deploys long, crashes long",
    _PAUSE,
    "flapping boolean",
)
"""One row per group. `protocol_type`: Kafka's protocol type, such as `consumer` or `connect`. `start_time` and
`end_time`: its first and last record. `idle_epochs`: group epochs in which every member keeps its partitions, so that
nothing stops; they aren't in `rebalances`. `missing_generations`: generations in between that are no longer on record
because of compaction. `max_rebalances_per_day`: largest number of rebalances within 24 hours. `members` and
`partitions`: at the end. `paused_partition_ms`: partition-milliseconds without commits around rebalances.
`longest_pause_ms`: longest pause of a single partition. Both are null if the group commits nothing. `flapping`: the
group rebalances frequently without deploys."""

REBALANCES = schema(
    _GROUP,
    "generation_id int, time timestamp, stable_time timestamp?, idle boolean, follow_up string?, state string",
    "assignor string?, leader string?",
    "members long, joined long, left long, crashed long, restarted long, missing_generations long",
    "partitions long, moved long, moved_without_state long?, cause string",
    _PAUSE,
    "partition int, offset long",
)
"""One row per generation (classic) or group epoch (consumer, share, and streams groups). `time`: when the coordinator
wrote it. `stable_time`: when the last member had reached it (KIP-848); `time` for a classic group. `idle`: whether it
is an epoch in which every member keeps its partitions, so that nothing stops. `joined`, `left` (including `crashed`),
and `restarted` (a static member with a new ID, or a member that left and returned as the same client) are relative
to the previous generation on record. `missing_generations`: generations in between that are not on record. `moved`:
partitions with another owner than before; restarts don't count. Two columns are only set for classic Streams
applications. `follow_up`: the generation before requested this one: `probing`, after warmups had time to restore their
state, or `at-once`, to assign tasks that were revoked. `moved_without_state`: active tasks that moved to a process that
reported no state of them, if their subtopology is known to have any. `cause`: as far as the records show it.
`partition` and `offset`: position of the record."""

MEMBERSHIPS = schema(
    _GROUP,
    "member_id string, group_instance_id string?, client_id string?, client_host string?, rack_id string?",
    "session_timeout_ms int?, rebalance_timeout_ms int?, first_generation_id int, last_generation_id int",
    _TIME_RANGE,
    "join_type string, leave_type string, confidence string",
)
"""One row per membership: a member, and from when to when it was in the group. `end_time` is null for members that are
in the group at the end. `join_type`: `first-on-record`, `joined`, or `restarted`. `leave_type`: `active` (still a
member), `left`, `crashed` (nothing was committed for its partitions for the session timeout before it was removed),
`restarted`, or `unknown`. `confidence`: how reliable the leave type is: `sure`, `likely`, or `guess`."""

SUBSCRIPTIONS_OVER_TIME = schema(_GROUP, "member_id string, topic string", _TIME_RANGE)
"""One row per topic and time range in which a member was subscribed to it."""

OWNERSHIP = schema(
    _GROUP,
    "member_id string, topic string, role string, first int, step int, count int, generation_id int",
    _TIME_RANGE,
)
"""One row per slice of partitions and time range in which a member owned it. `role`: `partition`; for Connect,
`connector` (`topic` is its name, the partition is 0) and `task` (`topic` is the connector, the partition is the task
number); for streams groups, `active`, `standby`, and `warmup` (`topic` is the subtopology, the partition is the task).
Classic Streams applications have `partition`, `active`, and `standby`, which includes warmups.
`generation_id`: the generation in which the member received the slice. `topic` is the topic ID if the name is unknown:
KIP-848 records contain only the ID."""

STREAMS_MEMBERS = schema(
    _GROUP, "member_id string, position int, generation_id int, subscription binary?, assignment binary?", _TIME_RANGE
)
"""One row per member and generation of a classic Streams application, from which its tasks and topology at a time are
derived. `position`: index of the member in the record. `generation_id`: the generation. `subscription` and
`assignment`: bytes of the member and of its leader (ConsumerProtocol), with the Streams user data."""

COMMITS = schema(
    _GROUP,
    "topic string, partition int, commits long, start_time timestamp, end_time timestamp",
    "first_offset long, last_offset long, rate double?, lag long?, gaps long, longest_gap_ms long, deleted long",
)
"""One row per partition that a group committed. `start_time` and `end_time`: first and last commit. `rate`: messages
per second by which the committed offset advanced in between; null if they are the same moment. `lag`: end offset minus
last committed offset; null if the end offset is unknown. `gaps`: number of times without commits that exceed the
threshold. `longest_gap_ms`: the longest of them; 0 if there is none. `deleted`: number of tombstones (expired or
deleted offsets)."""

PAUSES = schema(
    _GROUP,
    "generation_id int?, start_time timestamp, end_time timestamp, partitions long, paused_partition_ms long",
    "idle boolean?, topics array<string>?",
)
"""One row per time range in which partitions that were committed before and after were not committed. `generation_id`:
the rebalance that it belongs to; null if there is none. `idle`: whether there is none, and no evidence that anything
stopped. `topics`: topics of the partitions."""

DEPLOYS = schema(
    _GROUP,
    "deploy_type string, start_time timestamp, end_time timestamp, first_generation_id int, last_generation_id int",
    "rebalances long, members_before long, members_after long",
    "joined long, left long, crashed long, restarted long, paused_partition_ms long?, detail string",
)
"""One row per burst of rebalances. `deploy_type`: `rolling-restart`, `restart` (all members at once), `scale-out`,
`scale-in`, `crash`, `flapping`, or `mixed`."""

UNREADABLE = schema(
    "cluster string, partition int, offset long, timestamp timestamp, code string, detail string",
    "group_id string?, key binary?, value binary?, end_time timestamp?",
)
"""One row per record that can't be decoded, unchanged. `code`: `unknown-type` (unknown version of the key),
`newer-version` (of the value), `corrupt`, or `no-key`. `end_time`: for a record about the group itself, not a commit,
time of the record that replaced it, which has the same key or ends the group; null if there is none."""

HISTORY_TABLES: dict[str, StructType] = {
    "groups": GROUPS,
    "rebalances": REBALANCES,
    "memberships": MEMBERSHIPS,
    "subscriptions_over_time": SUBSCRIPTIONS_OVER_TIME,
    "ownership": OWNERSHIP,
    "streams_members": STREAMS_MEMBERS,
    "commits": COMMITS,
    "pauses": PAUSES,
    "deploys": DEPLOYS,
    "unreadable": UNREADABLE,
    "rejected": REJECTED,
}

# --- replay -------------------------------------------------------------------------------------------------------

REPLAY_SUMMARY = schema(
    _GROUP,
    "assignor string, protocol string, static boolean, recorded boolean",
    "rebalances long, num_replayed long, moved long, paused_partition_ms long, saved_ms long?, note string",
    "client_libraries string?, refusal string?",
)
"""One row per group and variant (an assignor, with static or dynamic members). `recorded`: whether it is the variant
that was in use. `protocol`: `eager`, `cooperative`, or `consumer`. `rebalances`: number of rebalances after the first
generation on record; each round of a cooperative rebalance counts. `num_replayed`: for the recorded variant, the number
of rebalances that its assignor reproduces; for other variants, the number of recorded rebalances. `moved`: partitions.
`paused_partition_ms`: for the recorded variant as measured, if commits show it. `saved_ms`: difference to the recorded
variant, in partition-milliseconds; null for the recorded variant itself. `client_libraries`: the libraries of the
members of the last generation (`groups.kernel.client_libraries`). `refusal`: why these members can't run the variant,
which is then no recommendation; null if they can, as far as known."""

REPLAY_REBALANCES = schema(
    _GROUP,
    "generation_id int, assignor string, static boolean, time timestamp",
    "occurs boolean, moved long, revoked long, paused_partition_ms long",
)
"""One row per recorded rebalance and variant. `occurs`: false if the variant avoids the rebalance: static members
returned in time, or the rebalance only assigned partitions that cooperative members had released. `revoked`: partitions
that live members lose, in all rounds."""

REPLAY_TABLES: dict[str, StructType] = {
    "replay_summary": REPLAY_SUMMARY,
    "replay_rebalances": REPLAY_REBALANCES,
    "replay_rejected": REJECTED,
}
