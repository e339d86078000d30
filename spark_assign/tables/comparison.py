"""The tables of comparisons, of drifts, of migrations to the consumer protocol, and of client upgrades.

Null keys and nullability: see `spark_assign.tables.groups`.
"""

from __future__ import annotations

from pyspark.sql.types import StructType

from spark_assign.tables.groups import REJECTED
from spark_assign.tables.schema_fields import schema, tagged_schema

_GROUP = "cluster string, group_id string"

# --- comparison of assignors -----------------------------------------------------------------------------

COMPARISON = schema(
    _GROUP,
    "assignor string, what_if string, members long?, partitions long?, max_over_mean double?",
    "stddev_per_member double?, moved long?, revoked long?, unassigned long?, rounds int?, stable boolean?",
    "paused_partition_seconds double?, rack_matched long?, cross_rack_share double?, is_current boolean?",
    "rejected string?, recommended boolean, reason string, current_assignor string?, client_libraries string?",
    "switch_steps string?, settings string?, load_max_over_mean double?, drain_seconds double?",
    "topic_max_over_mean double?, members_without_partitions long?, note string?",
)
"""One row per group, assignor, and what-if change. The metrics describe the final state, when withheld partitions are
assigned; they are null if the group is rejected.

- `members`, `rounds`: numbers of members and of rebalance rounds (1 with the eager protocol). The other counts are
  partitions; `moved` and `revoked` are summed over all rounds.
- `stable`: whether no further round follows.
- `paused_partition_seconds`: expected cost of the rebalance (`simulation.kernel.pause_estimates`).
- `rack_matched`, `cross_rack_share`: partitions whose owner has a replica in its rack, and the share of the others (0
  to 1); null without racks.
- `is_current`: whether the group uses the assignor now; null if the current one is unknown.
- `rejected`: code of the rejection; `reason` has the detail.
- `recommended`, `reason`: whether the assignor is recommended for the group and change, and why or why not.
- `current_assignor`, `client_libraries`: the assignor that the group uses now; the libraries of its members by client
  id, with the number of members (`groups.kernel.client_libraries`).
- `switch_steps`, `settings`: how to switch to the recommended assignor, as text and as lines to paste; null if the
  group uses it already.
- `load_max_over_mean`, `drain_seconds`, `topic_max_over_mean`, `members_without_partitions`, `note`: as in METRICS.
"""

COMPARE_REJECTED = schema(_GROUP, "assignor string, what_if string, code string, detail string")

COMPARE_TABLES: dict[str, StructType] = {"comparison": COMPARISON, "rejected": COMPARE_REJECTED}

# --- drift -----------------------------------------------------------------------------------------------

DRIFT_GROUPS = schema(
    _GROUP,
    "change string, assignor_before string?, assignor_after string?, members_before long?, members_after long?",
    "joined long, left long, restarted long, partitions_before long?, partitions_after long?, moved long",
    "newly_owned long, no_longer_owned long, max_over_mean_before double?, max_over_mean_after double?",
    "rejected_before string?, rejected_after string?",
)
"""One row per group of either state.

- `change`: `added`, `removed`, `changed`, or `unchanged`.
- `members_…`, `joined`, `left`, `restarted`: numbers of members. `restarted` counts static members with a new id.
- `partitions_…`, `moved`, `newly_owned`, `no_longer_owned`: numbers of partitions.
- `max_over_mean_…`: null if the group owns no partition.
- `rejected_…`: code of the rejection. The other columns of that state are null, as they are if it lacks the group.
"""

DRIFT_MEMBERS = schema(
    _GROUP,
    "member_id string, change string, previous_member_id string?, group_instance_id string?, client_id string?",
    "client_host string?",
)
"""One row per member that changed. `change`: `joined`, `left`, or `restarted` (a static member with a new id;
`previous_member_id` is its former id)."""

DRIFT_OWNERSHIP = schema(
    _GROUP,
    "topic string, partition int, from_member_id string?, to_member_id string?, change string",
)
"""One row per partition with another owner. `change`: `moved`, `newly-owned`, or `no-longer-owned`. A static member
that restarted is the same owner."""

DRIFT_TOPICS = schema("cluster string, topic string, change string, partitions_before int?, partitions_after int?")
"""One row per topic that changed. `change`: `created`, `deleted`, `grown`, or `shrunk`."""

DRIFT_TABLES: dict[str, StructType] = {
    "groups": DRIFT_GROUPS,
    "members": DRIFT_MEMBERS,
    "ownership": DRIFT_OWNERSHIP,
    "topics": DRIFT_TOPICS,
}

DRIFT_ROWS = tagged_schema(
    {
        "groups": DRIFT_GROUPS,
        "members": DRIFT_MEMBERS,
        "ownership": schema("topic string, first int, step int, count int, from_member_id string, to_member_id string"),
    }
)
"""The rows of the tables `groups` and `members`, and slices of the rows of `ownership`, by `kind`."""

# --- migration to the consumer protocol (KIP-848) ---------------------------------------------------------

MIGRATIONS = schema(
    _GROUP,
    "rank int?, verdict string, online boolean?, assignor string?, server_assignor string?, client_libraries string?",
    "members long?, static_members long?, partitions long?, moved long?, moved_during_migration long?",
    "paused_during_migration long?, moved_on_rollback long?, max_over_mean_before double?, max_over_mean_after double?",
    "paused_partition_seconds double?, cross_rack_before long?, cross_rack_after long?, hypothetical_assignor string?",
    "cross_rack_hypothetical long?, codes string, reasons string, rollback string?",
)
"""One row per consumer group.

- `verdict`: `ready`, `ready-with-warnings`, `blocked`, or `done` (the group uses the consumer protocol already).
- `rank`: position in the recommended order of migration, from 1; null for groups that are done.
- `online`: whether the broker converts the group while it runs.
- `assignor`, `server_assignor`: assignor of the group now, and of the broker after the migration. A Kafka Streams
  application (`stream`) moves to the streams protocol; the columns that need a simulation are null.
- `moved`: partitions that change owners because the assignor changes.
- `moved_during_migration`, `paused_during_migration`: changes of owner, and pauses of partitions, summed over all
  restarts; null if not all restarts were simulated.
- `moved_on_rollback`: partitions that change owners if the group returns to the classic protocol.
- `max_over_mean_…`, `cross_rack_…`: now, and when all members have restarted. `cross_rack_…` counts partitions whose
  owner has no replica in its rack; null without racks.
- `paused_partition_seconds`: expected cost of the move to the broker's target (`simulation.kernel.pause_estimates`).
- `hypothetical_assignor`, `cross_rack_hypothetical`: the best assignor that the broker doesn't have, and its cross-rack
  partitions.
- `codes`, `reasons`: the findings (`migration.kernel.migration_verdict`), as codes and as text.
- `rollback`: how the group returns to the classic protocol.
"""

MIGRATION_STEPS = schema(
    _GROUP,
    "step int, step_type string, description string, restarts long?, simulated_restarts long?, moved long?",
    "revoked long?, paused_partitions long?",
)
"""One row per step of a group, in order.

- `step_type`: `prepare`, `first-member`, `other-members`, `last-member`, `next-rebalance`, or `stop-all` and
  `start-all`; the last one is `rollback`.
- `description`: what to do in this step, and what happens then, in sentences.
- `restarts`, `simulated_restarts`: number of members that restart, and of simulated restarts. The counts of partitions
  include only simulated restarts.
- `moved`, `revoked`, `paused_partitions`: changes of owner, partitions revoked from live members, and pauses of
  partitions; null if unknown.
"""

MIGRATION_TABLES: dict[str, StructType] = {
    "migrations": MIGRATIONS,
    "steps": MIGRATION_STEPS,
    "rejected": REJECTED,
}

MIGRATION_ROWS = tagged_schema(MIGRATION_TABLES)

# --- client upgrades --------------------------------------------------------------------------------------

UPGRADES = schema(
    _GROUP,
    "verdict string, assignor string?, to_assignor string?, from_release string?, to_release string?",
    "from_rules string?, to_rules string?, client_libraries string?, members long?, static_members long?",
    "partitions long?, restarts long?, simulated_restarts long?, leader_changes long?, moved long?",
    "moved_by_rules long?, moved_by_old_rules long?, moved_by_new_rules long?, revoked long?",
    "paused_partitions long?, note string",
)
"""One row per consumer group.

- `verdict`: `ready`, `ready-with-warnings`, `blocked`, `done`, or `unknown` (`migration.kernel.upgrade_verdict`);
  `note` has the reason.
- `to_assignor`: assignor after the upgrade; null if it is unknown.
- `from_release`, `to_release`: release of the leader before and after the upgrade; null if it is unknown.
- `from_rules`, `to_rules`: line of releases that assign alike (`assignors.release_rules`).
- `restarts`, `simulated_restarts`: number of restarts, and of simulated ones.
- `leader_changes`: number of times that another member becomes the leader.
- `moved`, `revoked`, `paused_partitions`: as in the steps of a migration, summed over all restarts; null if not all
  restarts were simulated.
- `moved_by_rules`: moves that the rules of the previous release would avoid.
- `moved_by_old_rules`, `moved_by_new_rules`: moves of the same restarts if all members follow the rules of one release.
"""

UPGRADE_STEPS = schema(
    _GROUP,
    "step int, step_type string, description string, bounce int?, member_id string?, new_member_id string?",
    "leader string?, leader_release string?, leader_changed boolean?, assignor string?, rules string?, moved long?",
    "revoked long?, paused_partitions long?, moved_by_rules long?",
)
"""One row per step of a group, in order.

- `step_type`: `restart` (of `member_id`, in the first or second `bounce`), `next-rebalance` (of a group with static
  members, after all restarts), or `stop-all` and `start-all`.
- `description`: what happens in this step, in a sentence.
- `leader`, `assignor`, `rules`: the leader after the step, the elected assignor, and the line of releases whose rules
  the leader follows.
- `leader_release`: release of the leader; null if it is unknown.
- `leader_changed`: whether another member leads than before the step.
- `paused_partitions`: pauses of partitions; null if the step isn't simulated.
- `moved_by_rules`: moves that the rules of the previous release would avoid.
"""

UPGRADE_TABLES: dict[str, StructType] = {
    "upgrades": UPGRADES,
    "steps": UPGRADE_STEPS,
    "rejected": REJECTED,
}

UPGRADE_ROWS = tagged_schema(UPGRADE_TABLES)
