"""Tables of the simulation of consumer groups: inputs and results.

Times are milliseconds of the simulated clock, which starts at 0.
"""

from __future__ import annotations

from pyspark.sql.types import StructType

from spark_assign.tables.schema_fields import columns, schema

_GROUP = "cluster string, group_id string"

# --- inputs -------------------------------------------------------------------------------------------------

EVENTS = schema(
    "cluster string, group_id string?, at_ms long, event string, member_id string?, topic string?",
    "partitions int?, topics array<string>?, group_instance_id string?, assignors array<string>?",
    "new_member_id string?, down_ms long?, delay_ms long?, parallelism int?, pause_ms long?",
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

`parallelism`: number of members that a rolling restart takes at once, sorted by ID. The next batch starts pause_ms
after the processes of the previous batch are up. A restarted member gets a new member ID: `new_member_id`, or its first
ID with `~2`, `~3`, … appended. Events refer to a member by its first ID."""

GROUP_SETTINGS = schema(
    _GROUP,
    "session_timeout_ms long?, heartbeat_interval_ms long?, max_poll_interval_ms long?",
    "rebalance_timeout_ms long?, group_initial_rebalance_delay_ms long?, metadata_max_age_ms long?",
    "poll_interval_ms long?, revoke_ms long?, restore_ms long?, group_consumer_session_timeout_ms long?",
    "group_consumer_heartbeat_interval_ms long?, group_consumer_assignment_interval_ms long?",
)
"""Null: the value of `Settings`."""

MEMBER_SETTINGS = schema(
    _GROUP,
    "member_id string, partition_assignment_strategy array<string>?, group_instance_id string?",
)
"""One row per member. `partition_assignment_strategy`: assignors of the member, in order of preference; null: those of
the group."""

PARTITION_SETTINGS = schema("cluster string, topic string, partition int, revoke_ms long?, restore_ms long?")

# --- results ------------------------------------------------------------------------------------------------

TRACE = schema(
    _GROUP,
    "seq int, at_ms long, generation_id int, actor string, message string, receiver string?, detail string",
)
"""One row per message, and per action of an actor. `seq`: position in the group's trace, from 0. `actor`:
`coordinator`, `event`, or a member ID. `receiver`: who gets the message; null for an action. `message`: Kafka's name of
the request (`FindCoordinator`, `JoinGroup`, `SyncGroup`, `Heartbeat`, `LeaveGroup`), `… response` for its response, or
the action: `state`, `leader`, `protocol`, `assign`, `revoked`, `assigned`, `lost`, `session-timeout`,
`rebalance-timeout`, … A trace of more than 100,000,000 characters ends with `trace-ends`."""

REBALANCES = schema(
    _GROUP,
    "generation_id int, cause string, start_ms long, joined_ms long, end_ms long, duration_ms long, members int",
    "leader string?, assignor string?, revoked int, lost int, assigned int, moved int",
)
"""One row per generation. `start_ms`: first cause of the rebalance. `joined_ms`: start of the generation. `end_ms`: the
last member has its assignment (or the last one that got it before the next rebalance started). The following are
numbers of partitions. `revoked`: live owners gave them up (eager: before they join; cooperative: after they know the
assignment); `lost`: their owners left without giving them up; `assigned`: their new owners didn't own them just before;
`moved`: assigned partitions that another member owned last."""

AVAILABILITY = schema(
    _GROUP,
    "start_ms long, end_ms long, partitions int, partition_ms long, paused_partition_ms long, unowned_at_end int?",
    "longest_pause_ms long, longest_pause_topic string?, longest_pause_partition int?, rebalances int",
    "members_restarted int",
)
"""One row per group. `partition_ms`: the time for which the partitions existed, summed over partitions, from the first
subscription to their topic. `paused_partition_ms`: the part of it in which a partition had no owner, or its owner was
down, revoking it, or restoring it. `unowned_at_end`: partitions without an owner at the end, whose cost is open; null
in runs of earlier releases. `longest_pause_topic`, `longest_pause_partition`: the partition with the longest
pause; null if no partition pauses. `members_restarted`: number of members that restart."""

PARTITIONS = schema(
    _GROUP,
    "topic string, partition int, exists_ms long, paused_partition_ms long, pauses int, longest_pause_ms long",
)
"""One row per partition. `exists_ms`: milliseconds for which the partition existed. `pauses`: number of pauses."""

OWNERSHIP = schema(
    _GROUP,
    "topic string, partition int, start_ms long, end_ms long, state string, member_id string?",
    "first_member_id string?",
)
"""One row per partition and interval. The intervals of a partition are adjacent and don't overlap. `state`: `consumed`,
`revoking`, `restoring`, `down` (the owner is down), `unowned`, or `unrecorded` (the last interval of a partition of a
group that has more than 1,000,000); `member_id` is null in the last two. `first_member_id`: the ID of the member before
its restarts; null in runs of earlier releases, too."""

REJECTED = schema(_GROUP, "code string, detail string")

SIMULATION_TABLES: dict[str, StructType] = {
    "trace": TRACE,
    "rebalances": REBALANCES,
    "availability": AVAILABILITY,
    "partitions": PARTITIONS,
    "ownership": OWNERSHIP,
    "rejected": REJECTED,
}


def with_variant(table: StructType) -> StructType:
    """Returns the schema of a table of several variants: the column `variant` follows the group."""
    return StructType([*table.fields[:2], *columns("variant string"), *table.fields[2:]])


COMPARED_VARIANTS = ("eager", "cooperative", "static", "consumer")
"""Variants that `simulate_variants` simulates. The first one is the baseline."""

COST_COLUMNS = ("paused_partition_ms", "longest_pause_ms", "rebalances", "unowned_at_end")
"""Costs of a variant, from `AVAILABILITY`."""

COMPARISON = schema(
    _GROUP,
    *(f"{variant}_{cost} long?" for variant in COMPARED_VARIANTS for cost in COST_COLUMNS),
    *(f"{variant}_ratio double?" for variant in COMPARED_VARIANTS[1:]),
)
"""One row per group: the costs of each variant. `…_ratio`: paused_partition_ms divided by that of eager; null if eager
has 0, or if the cost of one of both is open (`unowned_at_end`)."""

SIMULATION_SUMMARY_TABLES = {name: SIMULATION_TABLES[name] for name in ("rebalances", "availability", "rejected")}
"""Tables that don't need another simulation."""

VARIANT_TABLES = {
    "comparison": COMPARISON,
    "rebalances": with_variant(REBALANCES),
    "availability": with_variant(AVAILABILITY),
    "rejected": REJECTED,
}
"""The same tables of all compared variants, with their comparison."""

UPGRADE = schema(
    _GROUP,
    "step int, bounce int, member_id string, assignors array<string>?, eager_members int, client_library string?",
    "rejection string?, rebalances int?, generation_id int?, assignor string?, revoked int?, moved int?",
)
"""One row per restart, in order: `member_id` restarts with `assignors`. `eager_members`: members that use the eager
protocol afterward. `client_library`: the library of the member, if its client ID shows it
(`groups.kernel.client_libraries`). `rejection`: why the restart isn't allowed, or code and detail of a group that can't
be simulated. The other columns describe the rebalances that the restart causes: their number, the last generation and
its assignor, and the revoked and moved partitions; null if there is no rebalance, or a `rejection`."""
