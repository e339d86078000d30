"""Every table of the group protocol in time, declared once; the rules of `spark_assign.tables.groups` hold.

Times are milliseconds of the simulation's own clock, which begins at 0.
"""

from __future__ import annotations

from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, StructField, StructType

from spark_assign.tables.schema_fields import required

_STRING, _INT, _LONG = StringType(), IntegerType(), LongType()


_GROUP = required(cluster=_STRING, group_id=_STRING)

# --- what comes in ------------------------------------------------------------------------------------------

EVENTS = StructType(
    [
        *required(cluster=_STRING),
        StructField("group_id", _STRING),
        *required(at_ms=_LONG, event=_STRING),
        StructField("member_id", _STRING),
        StructField("topic", _STRING),
        StructField("partitions", _INT),
        StructField("topics", ArrayType(_STRING)),
        StructField("group_instance_id", _STRING),
        StructField("assignors", ArrayType(_STRING)),
        StructField("new_member_id", _STRING),
        StructField("down_ms", _LONG),
        StructField("delay_ms", _LONG),
        StructField("parallelism", _INT),
        StructField("pause_ms", _LONG),
    ]
)
"""`group_id` is null for an event that happens to every group of the cluster; it then has no `member_id`.

| event | needs | may have |
| --- | --- | --- |
| member-starts | member_id | topics (default: all that the group asks for), group_instance_id, assignors |
| member-leaves | member_id (it says LeaveGroup, static or not) | |
| member-crashes | member_id (it says nothing) | |
| member-restarts | member_id | down_ms (5000), new_member_id, assignors, topics |
| rolling-restart | | down_ms (5000), parallelism (1), pause_ms (10000), assignors |
| slow-member | member_id, delay_ms: from at_ms on it does not poll for so long | |
| subscription-changes | member_id, topics | |
| topic-created, partitions-added | topic, partitions (the count from now on) | |
| topic-deleted | topic | |
| metadata-refresh | | member_id (null: all members) |

A rolling restart takes the members by id, so many at once; the next batch follows pause_ms after the processes of the
last one are up. A member that restarts has a new member id from then on: `new_member_id`, else its own with `~2`, `~3`,
… behind it. Events go on naming it by its first id."""

SETTINGS_OF_GROUPS = StructType(
    [
        *_GROUP,
        StructField("session_timeout_ms", _LONG),
        StructField("heartbeat_interval_ms", _LONG),
        StructField("max_poll_interval_ms", _LONG),
        StructField("rebalance_timeout_ms", _LONG),
        StructField("group_initial_rebalance_delay_ms", _LONG),
        StructField("metadata_max_age_ms", _LONG),
        StructField("poll_interval_ms", _LONG),
        StructField("revoke_ms", _LONG),
        StructField("restore_ms", _LONG),
        StructField("group_consumer_session_timeout_ms", _LONG),
        StructField("group_consumer_heartbeat_interval_ms", _LONG),
        StructField("group_consumer_assignment_interval_ms", _LONG),
    ]
)
"""Null: as in `Settings`."""

SETTINGS_OF_MEMBERS = StructType(
    [
        *_GROUP,
        *required(member_id=_STRING),
        StructField("partition_assignment_strategy", ArrayType(_STRING)),
        StructField("group_instance_id", _STRING),
    ]
)

SETTINGS_OF_PARTITIONS = StructType(
    [
        *required(cluster=_STRING, topic=_STRING, partition=_INT),
        StructField("revoke_ms", _LONG),
        StructField("restore_ms", _LONG),
    ]
)

# --- what comes out -----------------------------------------------------------------------------------------

TRACE = StructType(
    [
        *_GROUP,
        *required(seq=_INT, at_ms=_LONG, generation_id=_INT, actor=_STRING, message=_STRING),
        StructField("to", _STRING),
        *required(detail=_STRING),
    ]
)
"""A row per message and per thing that an actor does; `seq` counts from 0 in each group. `actor` is `coordinator` or a
member id; `to` is who is told, null where the actor does something by itself. `message` is the request's name in Kafka
(`FindCoordinator`, `JoinGroup`, `SyncGroup`, `Heartbeat`, `LeaveGroup`), `… response` for its answer, and else what
happens: `state`, `leader`, `protocol`, `assign`, `revoked`, `assigned`, `lost`, `session-timeout`, `rebalance-timeout`,
`event`, …"""

ROUNDS = StructType(
    [
        *_GROUP,
        *required(
            generation_id=_INT,
            cause=_STRING,
            begin_ms=_LONG,
            joined_ms=_LONG,
            end_ms=_LONG,
            duration_ms=_LONG,
            members=_INT,
        ),
        StructField("leader", _STRING),
        StructField("assignor", _STRING),
        *required(revoked=_INT, lost=_INT, assigned=_INT, moved=_INT),
    ]
)
"""A row per generation: from the first reason to rebalance (`begin_ms`) over the join (`joined_ms`: the generation is
there) until the last member has taken its share (`end_ms`; of a round that another one overtakes, the last that did).
`revoked`: partitions whose owner gave them up for this round (eager: before it joins; cooperative: after it is told);
`lost`: those of members that went without giving up; `assigned`: newly given to a member that did not have them just
before; `moved`: of those, the ones whose last owner was another member."""

AVAILABILITY = StructType(
    [
        *_GROUP,
        *required(begin_ms=_LONG, end_ms=_LONG, partitions=_INT, partition_ms=_LONG, partition_ms_not_consumed=_LONG),
        *required(longest_pause_ms=_LONG),
        StructField("longest_pause_topic", _STRING),
        StructField("longest_pause_partition", _INT),
        *required(rebalances=_INT, members_restarted=_INT),
    ]
)
"""`partition_ms`: how long partitions were there, added up; of topics that some member asks for, since it first did.
Not consumed: nobody owned the partition, or its owner was down, revoking it or restoring it."""

PARTITIONS = StructType(
    [
        *_GROUP,
        *required(
            topic=_STRING, partition=_INT, exists_ms=_LONG, not_consumed_ms=_LONG, pauses=_INT, longest_pause_ms=_LONG
        ),
    ]
)

OWNERSHIP = StructType(
    [
        *_GROUP,
        *required(topic=_STRING, partition=_INT, from_ms=_LONG, to_ms=_LONG, state=_STRING),
        StructField("member_id", _STRING),
    ]
)
"""Who had a partition and when; intervals of a partition touch and never overlap. `state`: `consumed`, `revoking`,
`restoring`, `down` (its owner is), `unowned` (no member_id)."""

UPGRADE = StructType(
    [
        *_GROUP,
        *required(step=_INT, bounce=_INT, member_id=_STRING),
        StructField("strategies", ArrayType(_STRING)),
        *required(eager_members=_INT),
        StructField("client", _STRING),
        StructField("refused", _STRING),
        StructField("rounds", _INT),
        StructField("generation_id", _INT),
        StructField("assignor", _STRING),
        StructField("revoked", _INT),
        StructField("moved", _INT),
    ]
)
"""A row per restart, in order: `member_id` comes back with `strategies`; `eager_members` then still follow the eager
protocol. `client`: the library it runs on, as far as its client id tells (`groups.kernel.client_libraries`). `refused`:
why this restart must not be. The rest: the rebalances that follow from it, the last generation, its assignor, and how
many partitions were revoked and moved in all of them; null where there was no rebalance."""

REJECTED = StructType([*_GROUP, *required(code=_STRING, detail=_STRING)])

STEPS = StructType([*_GROUP, *required(step=_INT, op=_STRING)])

REPLAYED = StructType([*_GROUP, *required(step=_INT, result=_STRING)])

SIMULATION_TABLES: dict[str, StructType] = {
    "trace": TRACE,
    "rounds": ROUNDS,
    "availability": AVAILABILITY,
    "partitions": PARTITIONS,
    "ownership": OWNERSHIP,
    "rejected": REJECTED,
}
