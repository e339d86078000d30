"""Tables of the simulation of consumer groups: inputs and results.

Times are milliseconds of the simulated clock, which starts at 0.
"""

from __future__ import annotations

from pyspark.sql.types import ArrayType, DoubleType, IntegerType, LongType, StringType, StructType

from spark_assign.tables.schema_fields import nullable, required

_STRING, _INT, _LONG, _STRINGS = StringType(), IntegerType(), LongType(), ArrayType(StringType())
_GROUP = required(cluster=_STRING, group_id=_STRING)
_VARIANT = required(variant=_STRING)

# --- inputs -------------------------------------------------------------------------------------------------

EVENTS = StructType(
    [
        *required(cluster=_STRING),
        *nullable(group_id=_STRING),
        *required(at_ms=_LONG, event=_STRING),
        *nullable(member_id=_STRING, topic=_STRING, partitions=_INT, topics=_STRINGS, group_instance_id=_STRING),
        *nullable(assignors=_STRINGS, new_member_id=_STRING, down_ms=_LONG, delay_ms=_LONG),
        *nullable(parallelism=_INT, pause_ms=_LONG),
    ]
)
"""One row per event. If `group_id` is null, the event happens to every group of the cluster, and `member_id` is null.

| event | required | optional |
| --- | --- | --- |
| member-starts | member_id | topics (default: all topics that the group subscribes to), group_instance_id, assignors |
| member-leaves | member_id (it sends LeaveGroup, even if it is static) | |
| member-crashes | member_id (it sends nothing) | |
| member-restarts | member_id | down_ms (5000), new_member_id, assignors, topics |
| rolling-restart | | down_ms (5000), parallelism (1), pause_ms (10000), assignors |
| slow-member | member_id, delay_ms (time without a poll, from at_ms on) | |
| subscription-changes | member_id, topics | |
| topic-created, partitions-added | topic, partitions (the new partition count) | |
| topic-deleted | topic | |
| metadata-refresh | | member_id (null: all members) |

A rolling restart takes `parallelism` members at once, sorted by ID. The next batch starts pause_ms after the processes
of the previous batch are up. A restarted member gets a new member ID: `new_member_id`, or its first ID with `~2`, `~3`,
… appended. Events refer to a member by its first ID."""

GROUP_SETTINGS = StructType(
    [
        *_GROUP,
        *nullable(session_timeout_ms=_LONG, heartbeat_interval_ms=_LONG, max_poll_interval_ms=_LONG),
        *nullable(rebalance_timeout_ms=_LONG, group_initial_rebalance_delay_ms=_LONG, metadata_max_age_ms=_LONG),
        *nullable(poll_interval_ms=_LONG, revoke_ms=_LONG, restore_ms=_LONG),
        *nullable(group_consumer_session_timeout_ms=_LONG, group_consumer_heartbeat_interval_ms=_LONG),
        *nullable(group_consumer_assignment_interval_ms=_LONG),
    ]
)
"""Null: the value of `Settings`."""

MEMBER_SETTINGS = StructType(
    [
        *_GROUP,
        *required(member_id=_STRING),
        *nullable(partition_assignment_strategy=_STRINGS, group_instance_id=_STRING),
    ]
)

PARTITION_SETTINGS = StructType(
    [*required(cluster=_STRING, topic=_STRING, partition=_INT), *nullable(revoke_ms=_LONG, restore_ms=_LONG)]
)

# --- results ------------------------------------------------------------------------------------------------

TRACE = StructType(
    [
        *_GROUP,
        *required(seq=_INT, at_ms=_LONG, generation_id=_INT, actor=_STRING, message=_STRING),
        *nullable(receiver=_STRING),
        *required(detail=_STRING),
    ]
)
"""One row per message, and per action of an actor; `seq` counts from 0 in each group. `actor` is `coordinator`,
`event`, or a member ID. `receiver` is null for an action. `message` is Kafka's name of the request (`FindCoordinator`,
`JoinGroup`, `SyncGroup`, `Heartbeat`, `LeaveGroup`), `… response` for its response, or the action: `state`, `leader`,
`protocol`, `assign`, `revoked`, `assigned`, `lost`, `session-timeout`, `rebalance-timeout`, …"""

REBALANCES = StructType(
    [
        *_GROUP,
        *required(generation_id=_INT, cause=_STRING, start_ms=_LONG, joined_ms=_LONG, end_ms=_LONG),
        *required(duration_ms=_LONG, members=_INT),
        *nullable(leader=_STRING, assignor=_STRING),
        *required(revoked=_INT, lost=_INT, assigned=_INT, moved=_INT),
    ]
)
"""One row per generation. `start_ms`: first cause of the rebalance. `joined_ms`: start of the generation. `end_ms`: the
last member has its assignment (or the last one that got it before the next rebalance started). Numbers of partitions:
`revoked`: live owners gave them up (eager: before they join; cooperative: after they know the assignment); `lost`:
their owners left without giving them up; `assigned`: their new owners didn't own them just before; `moved`: assigned
partitions that another member owned last."""

AVAILABILITY = StructType(
    [
        *_GROUP,
        *required(start_ms=_LONG, end_ms=_LONG, partitions=_INT, partition_ms=_LONG, paused_partition_ms=_LONG),
        *required(longest_pause_ms=_LONG),
        *nullable(longest_pause_topic=_STRING, longest_pause_partition=_INT),
        *required(rebalances=_INT, members_restarted=_INT),
    ]
)
"""One row per group. `partition_ms`: the time for which the partitions existed, summed over partitions, from the first
subscription to their topic. `paused_partition_ms`: the part of it in which a partition had no owner, or its owner was
down, revoking it, or restoring it."""

PARTITIONS = StructType(
    [
        *_GROUP,
        *required(topic=_STRING, partition=_INT, exists_ms=_LONG, paused_partition_ms=_LONG, pauses=_INT),
        *required(longest_pause_ms=_LONG),
    ]
)

OWNERSHIP = StructType(
    [
        *_GROUP,
        *required(topic=_STRING, partition=_INT, start_ms=_LONG, end_ms=_LONG, state=_STRING),
        *nullable(member_id=_STRING),
    ]
)
"""One row per partition and interval. The intervals of a partition are adjacent and don't overlap. `state`: `consumed`,
`revoking`, `restoring`, `down` (the owner is down), or `unowned` (`member_id` is null)."""

REJECTED = StructType([*_GROUP, *required(code=_STRING, detail=_STRING)])

SIMULATION_TABLES: dict[str, StructType] = {
    "trace": TRACE,
    "rebalances": REBALANCES,
    "availability": AVAILABILITY,
    "partitions": PARTITIONS,
    "ownership": OWNERSHIP,
    "rejected": REJECTED,
}


def with_variant(schema: StructType) -> StructType:
    """Returns the schema of a table of several variants: the column `variant` follows the group."""
    return StructType([*schema.fields[:2], *_VARIANT, *schema.fields[2:]])


COMPARED_VARIANTS = ("eager", "cooperative", "static", "consumer")
"""Variants that `compare_variants` simulates. The first one is the baseline."""

COST_COLUMNS = ("paused_partition_ms", "longest_pause_ms", "rebalances")
"""Costs of a variant, from `AVAILABILITY`."""

COMPARISON = StructType(
    [
        *_GROUP,
        *nullable(**{f"{variant}_{cost}": _LONG for variant in COMPARED_VARIANTS for cost in COST_COLUMNS}),
        *nullable(**{f"{variant}_ratio": DoubleType() for variant in COMPARED_VARIANTS[1:]}),
    ]
)
"""One row per group: the costs of each variant. `…_ratio`: paused_partition_ms divided by that of eager; null if eager
has 0."""

UPGRADE = StructType(
    [
        *_GROUP,
        *required(step=_INT, bounce=_INT, member_id=_STRING),
        *nullable(assignors=_STRINGS),
        *required(eager_members=_INT),
        *nullable(client_library=_STRING, rejection=_STRING, rebalances=_INT, generation_id=_INT, assignor=_STRING),
        *nullable(revoked=_INT, moved=_INT),
    ]
)
"""One row per restart, in order: `member_id` restarts with `assignors`. `eager_members`: members that use the eager
protocol afterward. `client_library`: the library of the member, if its client ID shows it
(`groups.kernel.client_libraries`). `rejection`: why the restart isn't allowed. The other columns describe the
rebalances that the restart causes: their number, the last generation and its assignor, and the revoked and moved
partitions; null if there is no rebalance."""

CLASSIC_GROUP_CALLS = StructType([*_GROUP, *required(step=_INT, op=_STRING)])

CLASSIC_GROUP_RESULTS = StructType([*_GROUP, *required(step=_INT, result=_STRING)])
