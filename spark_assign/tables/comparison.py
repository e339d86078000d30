"""The tables of comparisons, of drifts, of migrations to the consumer protocol, and of client upgrades.

Null keys and nullability: see `spark_assign.tables.groups`.
"""

from __future__ import annotations

from pyspark.sql.types import BooleanType, DoubleType, IntegerType, LongType, StringType, StructType

from spark_assign.tables.groups import REJECTED
from spark_assign.tables.schema_fields import nullable, required, tagged_rows

_STRING, _INT, _LONG, _DOUBLE = StringType(), IntegerType(), LongType(), DoubleType()


_GROUP = required(cluster=_STRING, group_id=_STRING)
_MEMBER = [*_GROUP, *required(member_id=_STRING)]

# --- comparison of assignors -----------------------------------------------------------------------------

COMPARISON = StructType(
    [
        *_GROUP,
        *required(assignor=_STRING, what_if=_STRING),
        *nullable(
            members=_LONG,
            partitions=_LONG,
            max_over_mean=_DOUBLE,
            stddev_per_member=_DOUBLE,
            moved=_LONG,
            revoked=_LONG,
            unassigned=_LONG,
            rounds=_INT,
            stable=BooleanType(),
            paused_partition_seconds=_DOUBLE,
            rack_matched=_LONG,
            cross_rack_share=_DOUBLE,
            is_current=BooleanType(),
            rejected=_STRING,
        ),
        *required(recommended=BooleanType(), reason=_STRING),
        *nullable(current_assignor=_STRING, client_libraries=_STRING, switch_steps=_STRING),
        *nullable(load_max_over_mean=_DOUBLE, drain_seconds=_DOUBLE),
    ]
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
- `switch_steps`: how to switch to the recommended assignor; null if the group uses it already.
- `load_max_over_mean`, `drain_seconds`: as in METRICS.
"""

COMPARE_REJECTED = StructType([*_GROUP, *required(assignor=_STRING, what_if=_STRING, code=_STRING, detail=_STRING)])

COMPARE_TABLES: dict[str, StructType] = {"comparison": COMPARISON, "rejected": COMPARE_REJECTED}

# --- drift -----------------------------------------------------------------------------------------------

DRIFT_GROUPS = StructType(
    [
        *_GROUP,
        *required(change=_STRING),
        *nullable(assignor_before=_STRING, assignor_after=_STRING, members_before=_LONG, members_after=_LONG),
        *required(joined=_LONG, left=_LONG, restarted=_LONG),
        *nullable(partitions_before=_LONG, partitions_after=_LONG),
        *required(moved=_LONG, newly_owned=_LONG, no_longer_owned=_LONG),
        *nullable(
            max_over_mean_before=_DOUBLE, max_over_mean_after=_DOUBLE, rejected_before=_STRING, rejected_after=_STRING
        ),
    ]
)
"""One row per group of either state.

- `change`: `added`, `removed`, `changed`, or `unchanged`.
- `members_…`, `joined`, `left`, `restarted`: numbers of members. `restarted` counts static members with a new id.
- `partitions_…`, `moved`, `newly_owned`, `no_longer_owned`: numbers of partitions.
- `max_over_mean_…`: null if the group owns no partition.
- `rejected_…`: code of the rejection. The other columns of that state are null, as they are if it lacks the group.
"""

DRIFT_MEMBERS = StructType(
    [
        *_MEMBER,
        *required(change=_STRING),
        *nullable(previous_member_id=_STRING, group_instance_id=_STRING, client_id=_STRING, client_host=_STRING),
    ]
)
"""One row per member that changed. `change`: `joined`, `left`, or `restarted` (a static member with a new id;
`previous_member_id` is its former id)."""

DRIFT_OWNERSHIP = StructType(
    [
        *_GROUP,
        *required(topic=_STRING, partition=_INT),
        *nullable(from_member_id=_STRING, to_member_id=_STRING),
        *required(change=_STRING),
    ]
)
"""One row per partition with another owner. `change`: `moved`, `newly-owned`, or `no-longer-owned`. A static member
that restarted is the same owner."""

DRIFT_TOPICS = StructType(
    [
        *required(cluster=_STRING, topic=_STRING, change=_STRING),
        *nullable(partitions_before=_INT, partitions_after=_INT),
    ]
)
"""One row per topic that changed. `change`: `created`, `deleted`, `grown`, or `shrunk`."""

DRIFT_TABLES: dict[str, StructType] = {
    "groups": DRIFT_GROUPS,
    "members": DRIFT_MEMBERS,
    "ownership": DRIFT_OWNERSHIP,
    "topics": DRIFT_TOPICS,
}

DRIFT_ROWS = tagged_rows(
    DRIFT_GROUPS,
    DRIFT_MEMBERS,
    StructType([field for field in DRIFT_OWNERSHIP if field.name != "partition"]),
    StructType(required(first=_INT, step=_INT, count=_INT)),
)
"""The rows of the tables `groups` and `members`, and slices of the rows of `ownership`, by `kind`."""

# --- migration to the consumer protocol (KIP-848) ---------------------------------------------------------

MIGRATIONS = StructType(
    [
        *_GROUP,
        *nullable(rank=_INT),
        *required(verdict=_STRING),
        *nullable(
            online=BooleanType(),
            assignor=_STRING,
            server_assignor=_STRING,
            client_libraries=_STRING,
            members=_LONG,
            static_members=_LONG,
            partitions=_LONG,
            moved=_LONG,
            moved_during_migration=_LONG,
            paused_during_migration=_LONG,
            moved_on_rollback=_LONG,
            max_over_mean_before=_DOUBLE,
            max_over_mean_after=_DOUBLE,
            paused_partition_seconds=_DOUBLE,
            cross_rack_before=_LONG,
            cross_rack_after=_LONG,
            hypothetical_assignor=_STRING,
            cross_rack_hypothetical=_LONG,
        ),
        *required(codes=_STRING, reasons=_STRING),
        *nullable(rollback=_STRING),
    ]
)
"""One row per consumer group.

- `verdict`: `ready`, `ready-with-warnings`, `blocked`, or `done` (the group uses the consumer protocol already).
- `rank`: position in the recommended order of migration, from 1; null for groups that are done.
- `online`: whether the broker converts the group while it runs.
- `assignor`, `server_assignor`: assignor of the group now, and of the broker after the migration.
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

MIGRATION_STEPS = StructType(
    [
        *_GROUP,
        *required(step=_INT, step_type=_STRING, description=_STRING),
        *nullable(restarts=_LONG, simulated_restarts=_LONG, moved=_LONG, revoked=_LONG, paused_partitions=_LONG),
    ]
)
"""One row per step of a group, in order.

- `step_type`: `prepare`, `first-member`, `other-members`, `last-member`, `next-rebalance`, or `stop-all` and
  `start-all`; the last one is `rollback`.
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

MIGRATION_ROWS = tagged_rows(MIGRATIONS, MIGRATION_STEPS, REJECTED)

# --- client upgrades --------------------------------------------------------------------------------------

UPGRADES = StructType(
    [
        *_GROUP,
        *required(verdict=_STRING),
        *nullable(
            assignor=_STRING,
            to_assignor=_STRING,
            from_release=_STRING,
            to_release=_STRING,
            from_rules=_STRING,
            to_rules=_STRING,
            client_libraries=_STRING,
            members=_LONG,
            static_members=_LONG,
            partitions=_LONG,
            restarts=_LONG,
            simulated_restarts=_LONG,
            leader_changes=_LONG,
            moved=_LONG,
            moved_by_rules=_LONG,
            moved_by_old_rules=_LONG,
            moved_by_new_rules=_LONG,
            revoked=_LONG,
            paused_partitions=_LONG,
        ),
        *required(note=_STRING),
    ]
)
"""One row per consumer group.

- `verdict`: `ready`, `ready-with-warnings`, `blocked`, `done`, or `unknown` (`migration.kernel.upgrade_verdict`);
  `note` has the reason.
- `from_rules`, `to_rules`: line of releases that assign alike (`groups.assignors.release_rules`).
- `restarts`, `simulated_restarts`: number of restarts, and of simulated ones.
- `leader_changes`: number of times that another member becomes the leader.
- `moved`, `revoked`, `paused_partitions`: as in the steps of a migration, summed over all restarts; null if not all
  restarts were simulated.
- `moved_by_rules`: moves that the rules of the previous release would avoid.
- `moved_by_old_rules`, `moved_by_new_rules`: moves of the same restarts if all members follow the rules of one release.
"""

UPGRADE_STEPS = StructType(
    [
        *_GROUP,
        *required(step=_INT, step_type=_STRING, description=_STRING),
        *nullable(
            bounce=_INT,
            member_id=_STRING,
            new_member_id=_STRING,
            leader=_STRING,
            leader_release=_STRING,
            leader_changed=BooleanType(),
            assignor=_STRING,
            rules=_STRING,
            moved=_LONG,
            revoked=_LONG,
            paused_partitions=_LONG,
            moved_by_rules=_LONG,
        ),
    ]
)
"""One row per step of a group, in order.

- `step_type`: `restart` (of `member_id`, in the first or second `bounce`), `next-rebalance` (of a group with static
  members, after all restarts), or `stop-all` and `start-all`.
- `leader`, `assignor`, `rules`: the leader after the step, the elected assignor, and the line of releases whose rules
  the leader follows.
"""

UPGRADE_TABLES: dict[str, StructType] = {
    "upgrades": UPGRADES,
    "steps": UPGRADE_STEPS,
    "rejected": REJECTED,
}

UPGRADE_ROWS = tagged_rows(UPGRADES, UPGRADE_STEPS, REJECTED)
