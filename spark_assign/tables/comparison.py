"""Every table of a drift, of a migration to the broker's protocol, and of an upgrade of clients, declared once; the
rules of `spark_assign.tables.groups` hold."""

from __future__ import annotations

from pyspark.sql.types import (
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
)

from spark_assign.tables.groups import REJECTED
from spark_assign.tables.schema_fields import nullable, required

_STRING, _INT, _LONG, _DOUBLE = StringType(), IntegerType(), LongType(), DoubleType()


_GROUP = required(cluster=_STRING, group_id=_STRING)
_MEMBER = [*_GROUP, *required(member_id=_STRING)]

# --- what changed between two fleets or plans ------------------------------------------------------------

DRIFT_GROUPS = StructType(
    [
        *_GROUP,
        *required(change=_STRING),
        *nullable(
            assignor_before=_STRING,
            assignor_after=_STRING,
            members_before=_LONG,
            members_after=_LONG,
        ),
        *required(came=_LONG, went=_LONG, restarted=_LONG),
        *nullable(partitions_before=_LONG, partitions_after=_LONG),
        *required(moved=_LONG, newly_owned=_LONG, no_longer_owned=_LONG),
        *nullable(
            max_over_mean_before=_DOUBLE, max_over_mean_after=_DOUBLE, rejected_before=_STRING, rejected_after=_STRING
        ),
    ]
)
"""A row per group of either side. `change`: `came`, `went`, `changed` or `same`. `members_…`, `came`, `went` and
`restarted` count members, the other counts partitions: owned then, with another owner, owned by nobody before or after.
A side is null where the group is not there or is rejected (`rejected_…` has the code). `max_over_mean_…` is null where
nothing is owned."""

DRIFT_MEMBERS = StructType(
    [
        *_MEMBER,
        *required(change=_STRING),
        *nullable(previous_member_id=_STRING, group_instance_id=_STRING, client_id=_STRING, client_host=_STRING),
    ]
)
"""A row per member that `came`, `went` or `restarted`: a static member (`group_instance_id`) that has another id now,
its earlier one in `previous_member_id`."""

DRIFT_OWNERSHIP = StructType(
    [
        *_GROUP,
        *required(topic=_STRING, partition=_INT),
        *nullable(from_member_id=_STRING, to_member_id=_STRING),
        *required(change=_STRING),
    ]
)
"""A row per partition that has another owner: `moved`, `newly-owned` (nobody owned it) or `no-longer-owned`. A static
member that restarted is the same owner."""

DRIFT_TOPICS = StructType(
    [
        *required(cluster=_STRING, topic=_STRING, change=_STRING),
        *nullable(partitions_before=_INT, partitions_after=_INT),
    ]
)
"""A row per topic that was `created`, `deleted`, has `grown` or `shrunk`."""

DRIFT_TABLES: dict[str, StructType] = {
    "groups": DRIFT_GROUPS,
    "members": DRIFT_MEMBERS,
    "ownership": DRIFT_OWNERSHIP,
    "topics": DRIFT_TOPICS,
}

# --- to the broker's protocol ---------------------------------------------------------------------------

MIGRATIONS = StructType(
    [
        *_GROUP,
        *nullable(rank=_INT),
        *required(verdict=_STRING),
        *nullable(
            online=BooleanType(),
            assignor=_STRING,
            server_assignor=_STRING,
            clients=_STRING,
            members=_LONG,
            static_members=_LONG,
            partitions=_LONG,
            moved=_LONG,
            moved_on_the_way=_LONG,
            stopped_on_the_way=_LONG,
            moved_back=_LONG,
            max_over_mean_before=_DOUBLE,
            max_over_mean_after=_DOUBLE,
            paused_partition_seconds=_DOUBLE,
            cross_rack_before=_LONG,
            cross_rack_after=_LONG,
            what_if=_STRING,
            cross_rack_what_if=_LONG,
        ),
        *required(codes=_STRING, reasons=_STRING),
        *nullable(way_back=_STRING),
    ]
)
"""A row per group of consumers. `verdict`: `go`, `go-with-warning`, `stay`, or `there` (it runs by the broker's
protocol); `rank`: 1 for the group to begin with, null for those that are there. `online`: whether the broker converts
the group while it runs. `assignor` is what it runs with now, `server_assignor` what it goes over to. Counts are of
partitions, but `members` and `static_members`: `moved` has another owner because the assignor changes;
`moved_on_the_way` and `stopped_on_the_way` are added up over all restarts, once for each time, and null where not all
were played; `moved_back` moves when the group goes back. `paused_partition_seconds`: what the move to the broker's
target is expected to cost (`simulation.kernel.pause_estimates`). `…_before` is what the group has now, `…_after` what
it has when all members have restarted. `cross_rack_…`: partitions whose owner has no replica in its rack; null without
racks; `cross_rack_what_if` if `what_if`, an assignor that Kafka does not have, took over then. `codes` and `reasons`
are those of `migration.kernel.migration_verdict`."""

MIGRATION_STEPS = StructType(
    [
        *_GROUP,
        *required(step=_INT, what=_STRING, action=_STRING),
        *nullable(restarts=_LONG, played=_LONG, moved=_LONG, revoked=_LONG, stopped=_LONG),
    ]
)
"""A row per step of a group, in order. `what`: `prepare`, `first-member`, `other-members`, `last-member`, `settle`, or
`stop-all` and `start-all`, then `way-back`; `action` says it in words. `restarts`: how many members restart, `played`:
how many of these were played, whose figures these are. Counts of partitions, once for each time: `moved` gets another
owner, `revoked` is taken from a living member, `stopped` is read by nobody for a moment. Null: nothing to say."""

MIGRATION_TABLES: dict[str, StructType] = {
    "migrations": MIGRATIONS,
    "steps": MIGRATION_STEPS,
    "rejected": REJECTED,
}

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
            clients=_STRING,
            members=_LONG,
            static_members=_LONG,
            partitions=_LONG,
            restarts=_LONG,
            played=_LONG,
            leader_changes=_LONG,
            moved=_LONG,
            moved_by_rules=_LONG,
            moved_by_old_rules=_LONG,
            moved_by_new_rules=_LONG,
            revoked=_LONG,
            stopped=_LONG,
        ),
        *required(note=_STRING),
    ]
)
"""A row per group of consumers. `verdict`: `go`, `go-with-warning`, `stay`, `there`, or `unknown`
(`migration.kernel.upgrade_verdict` says which is which, `note` why). `…_rules`: the line of releases that
decide alike (`groups.assignors.release_rules`). Counts are of partitions, once for each time, added up over all
restarts, and null where not
all were played: `moved` gets another owner; `moved_by_rules` of these would not, had the rules stayed;
`moved_by_old_rules` and `moved_by_new_rules`: what one rolling restart moves if all members are on the one release, or
all on the other. `restarts` and `played` count members that restart, and those that were played; `leader_changes`: how
often another one leads."""

UPGRADE_STEPS = StructType(
    [
        *_GROUP,
        *required(step=_INT, what=_STRING, action=_STRING),
        *nullable(
            bounce=_INT,
            member_id=_STRING,
            came_back_as=_STRING,
            leader=_STRING,
            leader_release=_STRING,
            leader_changed=BooleanType(),
            assignor=_STRING,
            rules=_STRING,
            moved=_LONG,
            revoked=_LONG,
            stopped=_LONG,
            moved_by_rules=_LONG,
        ),
    ]
)
"""A row per step of a group, in order. `what`: `restart` (of `member_id`, in the first or second `bounce`), `settle`
(the next rebalance of a group with static members), or `stop-all` and `start-all`. `leader`, `assignor` and `rules`:
who leads when the step is over, what the members have elected, and the line of releases by which it decides."""

UPGRADE_TABLES: dict[str, StructType] = {
    "upgrades": UPGRADES,
    "steps": UPGRADE_STEPS,
    "rejected": REJECTED,
}
