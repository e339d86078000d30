"""Schemas of the tables of consumer groups: input tables, plan tables, and the tables around them.

A nullable column of an input table may contain nulls or be missing. Other columns must exist and must not contain
nulls. The values are checked, not the schema: columns read from Parquet are always nullable.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark_assign.tables.schema_fields import nullable, required

_STRING, _INT, _LONG, _DOUBLE = StringType(), IntegerType(), LongType(), DoubleType()


ONLY_IF_GIVEN = {"only_if_given": True}
"""Metadata of a nullable column that is not added to a table without it."""

_GROUP = required(cluster=_STRING, group_id=_STRING)
_MEMBER = [*_GROUP, *required(member_id=_STRING)]
_RUN = required(topic=_STRING, first=_INT, step=_INT, count=_INT)

# --- the Fleet ------------------------------------------------------------------------------------------

TOPICS = StructType([*required(cluster=_STRING, topic=_STRING, partitions=_INT), *nullable(topic_id=_STRING)])
"""One row per topic. `topic_id`: UUID as Kafka prints it; only `uniform` uses it."""

MEMBERS = StructType(
    [
        *_MEMBER,
        *nullable(
            group_instance_id=_STRING,
            client_id=_STRING,
            client_host=_STRING,
            rack_id=_STRING,
            generation_id=_INT,
            user_data_generation_id=_INT,
            position=_INT,
            process_id=_STRING,
        ),
    ]
)
"""One row per group member. `process_id`: process of the member, only in streams groups (KIP-1071)."""

SUBSCRIPTIONS = StructType([*_MEMBER, *required(topic=_STRING)])

_POSITION = StructField("position", _INT, nullable=True, metadata=ONLY_IF_GIVEN)
OWNED = StructType([*_MEMBER, *required(topic=_STRING, partition=_INT), _POSITION])
"""One row per owned partition. `position`: index of the partition in the order in which the member reports it; default:
sorted by topic and partition. Java's sticky assignors before 3.7.1 revoke from the end of this order. `uniform` uses
the order of the coordinator's maps; default: the order of a target assignment that the coordinator has loaded."""

OWNED_SLICES = StructType([*_MEMBER, *_RUN, _POSITION])
"""One row per slice of owned partitions: `count` partitions `first, first + step, …` of one topic. In share groups,
members can own the same partition, and `count` 0 means that the member has the topic without partitions. `position`: as
in OWNED, of the first partition of the slice."""

REPLICAS = StructType(
    required(cluster=_STRING, topic=_STRING, partition=_INT, replicas=ArrayType(_INT, containsNull=True))
)
"""`replicas`: broker IDs, preferred leader first."""

BROKERS = StructType([*required(cluster=_STRING, broker_id=_INT), *nullable(rack_id=_STRING)])

GROUPS = StructType(
    [
        *_GROUP,
        *nullable(
            assignor=_STRING,
            group_type=_STRING,
            state=_STRING,
            leader_library=_STRING,
            leader_version=_STRING,
            leader_confidence=_STRING,
            standby_replicas=_INT,
            subscription_type=_STRING,
        ),
        StructField("capacity", _DOUBLE, nullable=True, metadata=ONLY_IF_GIVEN),
        StructField("load_bound", _DOUBLE, nullable=True, metadata=ONLY_IF_GIVEN),
    ]
)
"""One row per group, with values that only the broker or the user knows:

- `assignor`: assignor that the group currently uses, by Kafka's name.
- `group_type`: `classic`, `consumer` (KIP-848), `share` (KIP-932), or `streams` (KIP-1071).
- `leader_library`, `leader_version`, `leader_confidence`: client library of the group leader, its releases (`2.8-3.3`,
  `3.4+`), and how reliable this is: `sure`, `likely`, `guess`, or `unknown` (`groups.kernel.leader_rules`). Only for
  classic groups, whose leader assigns.
- `standby_replicas`: `streams.num.standby.replicas` of a streams group (null: 0).
- `subscription_type`: `homogeneous` or `heterogeneous`, as the broker classifies a `consumer` group; patterns can make
  equal subscriptions heterogeneous. Null: derived from `subscriptions`.
- `capacity`: messages/s that one member can handle. Not in snapshots.
- `load_bound`: maximum load of a member, as a multiple of the mean load (`weighted-sticky`). Not in snapshots."""

LOADS = StructType(
    [
        *required(cluster=_STRING, topic=_STRING, partition=_INT),
        *nullable(
            group_id=_STRING,
            in_messages_per_second=_DOUBLE,
            in_messages_per_second_stddev=_DOUBLE,
            out_messages_per_second=_DOUBLE,
            lag=_LONG,
            in_bytes_per_second=_DOUBLE,
        ),
    ]
)
"""Mean load per partition over the readings of a snapshot; null if unknown.

- `in_messages_per_second`, `in_messages_per_second_stddev`: messages/s written, and their standard deviation between
  readings (null for fewer than two rates).
- `out_messages_per_second`: messages/s by which the committed offset of the group increases.
- `lag`: messages between the committed offset and the end offset, at the last reading.
- `in_bytes_per_second`: bytes/s written, as stored.

A row without `group_id` applies to all groups. In a row with `group_id`, every non-null value takes precedence for that
group."""

SUBTOPOLOGIES = StructType([*_GROUP, *required(subtopology=_STRING, partitions=_INT, stateful=BooleanType())])
"""One row per subtopology of a streams group. `partitions`: number of its tasks. `stateful`: has changelog topics."""

TASKS = StructType(
    [*_MEMBER, *required(subtopology=_STRING, task=_INT), *nullable(role=_STRING, changelog_offset=_LONG)]
)
"""One row per task that a member of a streams group currently has (not its target). `role`: `active`, `standby`, or
`warmup`; null if the member only reports state on disk. `changelog_offset`: sum of the offsets of the task's
changelogs."""

INITIALIZED = StructType([*_GROUP, *_RUN])
"""Partitions for which the coordinator has initialized share state: only these are newly assigned in a share group.
`count` 0 means that no partition of the topic is initialized. In a group without rows, all partitions are."""

INPUT_TABLES: dict[str, StructType] = {
    "topics": TOPICS,
    "members": MEMBERS,
    "subscriptions": SUBSCRIPTIONS,
    "owned": OWNED,
    "owned_slices": OWNED_SLICES,
    "replicas": REPLICAS,
    "brokers": BROKERS,
    "groups": GROUPS,
    "subtopologies": SUBTOPOLOGIES,
    "tasks": TASKS,
    "initialized": INITIALIZED,
    "loads": LOADS,
}
REQUIRED_TABLES = ("topics", "members", "subscriptions")

# --- what a snapshot writes beside the Fleet ------------------------------------------------------------

OFFSETS = StructType(
    [*_GROUP, *required(topic=_STRING, partition=_INT), *nullable(committed_offset=_LONG, end_offset=_LONG, lag=_LONG)]
)
"""Offsets in records: committed offset of the group, end offset of the partition, and their difference."""

UNDESCRIBED = StructType([*_GROUP, *required(error=_STRING)])
"""Groups that the cluster listed but did not describe, with its error."""

SNAPSHOT_TABLES: dict[str, StructType] = {
    **{name: schema for name, schema in INPUT_TABLES.items() if name not in ("owned", "loads")},
    "offsets": OFFSETS,
    "undescribed": UNDESCRIBED,
}

SNAPSHOTS = StructType(
    [*required(cluster=_STRING, taken_at=TimestampType()), *nullable(kafka_cluster_id=_STRING, content=_STRING)]
)
"""In a catalog, one row per cluster: time of the snapshot, ID of the Kafka cluster, and `snapshot.json` as text. The
table of Connect clusters is `connect_snapshots`, with `connect_cluster` as the first column."""

# --- the Plan -------------------------------------------------------------------------------------------

ASSIGNMENTS = StructType([*_MEMBER, *required(topic=_STRING, partition=_INT)])

ASSIGNMENT_SLICES = StructType([*_MEMBER, *_RUN])

REVOCATIONS = StructType([*_MEMBER, *required(topic=_STRING, partition=_INT), *nullable(next_member_id=_STRING)])

MOVES = StructType(
    [
        *_GROUP,
        *required(topic=_STRING, partition=_INT),
        *nullable(from_member_id=_STRING, to_member_id=_STRING),
        *required(reason=_STRING),
    ]
)

METRICS = StructType(
    [
        *_GROUP,
        *required(
            assignor=_STRING,
            members=_LONG,
            partitions=_LONG,
            min_per_member=_LONG,
            max_per_member=_LONG,
            mean_per_member=_DOUBLE,
            stddev_per_member=_DOUBLE,
        ),
        *nullable(max_over_mean=_DOUBLE),
        *required(
            moved=_LONG,
            revoked=_LONG,
            unassigned=_LONG,
            withheld=_LONG,
            members_without_subscription=_LONG,
            unknown_topics=_LONG,
            owned_unknown_topic=_LONG,
            owned_out_of_range=_LONG,
            claim_conflicts=_LONG,
            order_dependent=_LONG,
        ),
        *nullable(
            rack_matched=_LONG,
            leader_client=_STRING,
            load=_DOUBLE,
            max_load_per_member=_DOUBLE,
            load_max_over_mean=_DOUBLE,
            load_unknown=_LONG,
            drain_seconds=_DOUBLE,
            load_bound_status=_STRING,
        ),
    ]
)
"""One row per planned group. All counts are partitions, except `members`, `members_without_subscription` (members), and
`unknown_topics` (subscribed topics without metadata).

- `max_over_mean`: largest number of partitions of a member, divided by the mean; null if nothing is assigned.
- `withheld`: partitions assigned only in the next round, after their owner has revoked them. Included in `unassigned`.
- `owned_unknown_topic`, `owned_out_of_range`: owned partitions of topics that don't exist, and partitions that exceed
  the partition count of their topic.
- `claim_conflicts`: partitions that more than one member reports as owned.
- `order_dependent`: partitions that Kafka might assign to another member, because the owner depends on an order that
  the fleet doesn't specify (`Plan.order_dependent`); computed for `uniform` and franz-go's sticky balancers.
- `rack_matched`: partitions with a replica in the rack of their member; null if racks are unknown.
- `leader_client`: group leader whose rules are followed, for a group planned as `configured`: `Java 2.8-3.3 (likely)`.
- `load`: messages/s written to the assigned partitions. `max_load_per_member`, `load_max_over_mean`: as for partitions.
  `load_unknown`: assigned partitions without a known rate, counted as 0. Null if `loads` has no row of the group.
- `drain_seconds`: time until the slowest member has read its lag; infinite if messages are written as fast as the
  member reads, null if its speed is unknown (`groups.kernel.group_metrics.member_capacity`).
- `load_bound_status`: only for `weighted-sticky`. `held`: no member exceeds the bound. `hot-partition`: only members
  with a single partition exceed it. `relaxed`: no assignment within the bound was found, so the smallest feasible bound
  applies. `over-capacity`: more is written than all members can handle."""

ROUNDS = StructType(
    [
        *_GROUP,
        *required(round=_INT, assignor=_STRING, assigned=_LONG, revoked=_LONG, moved=_LONG, unowned=_LONG),
        *required(stable=BooleanType()),
    ]
)
"""One row per group and round of `converge`; counts are partitions. `assigned`: with an owner after the round.
`revoked`: revoked by live owners (in the eager protocol all that they own). `moved`: another owner than before.
`unowned`: not consumed; in an eager group during the round, in a cooperative group from its end until the next round.
`stable`: no rebalance follows. For a group that the broker assigns (KIP-848), a round is the next heartbeat of each
member, and `stable` means that all members have reached their target."""

HEARTBEATS = StructType(
    [
        *_MEMBER,
        *required(assignor=_STRING, heartbeats=_INT, kept=_LONG, revoked=_LONG, newly_assigned=_LONG),
        *required(unreleased_partitions=_LONG, unreleased_owners=_LONG),
    ]
)
"""One row per member of a group that the broker assigns; counts are partitions, except as noted. `heartbeats`: number
of heartbeats until the member has reached its target, including the first. `kept`: owned before and after.
`newly_assigned`: partitions that the member gets. `unreleased_partitions`: those of them that other members must revoke
first. `unreleased_owners`: number of these members."""

REJECTED = StructType([*_GROUP, *required(code=_STRING, detail=_STRING)])

COMPARISON = StructType(
    [
        *_GROUP,
        *required(assignor=_STRING, change=_STRING),
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
            configured=BooleanType(),
            rejected=_STRING,
        ),
        *required(recommended=BooleanType(), reason=_STRING),
        *nullable(runs_with=_STRING, clients=_STRING, way=_STRING),
        *nullable(load_max_over_mean=_DOUBLE, drain_seconds=_DOUBLE),
    ]
)
"""One row per group, assignor, and change of `compare`. Counts are partitions, except `members` and `rounds`. They
apply after the last round, when no partition is withheld.

- `moved`, `revoked`: as in METRICS, of all rounds. `rounds`: 1 in the eager protocol. `stable`: no further round
  follows.
- `paused_partition_seconds`: partition-seconds (`simulation.kernel.pause_estimates`).
- `cross_rack_share`: share of `partitions`, from 0 to 1; null if racks are unknown, as is `rack_matched`.
- `configured`: whether the group currently uses the assignor; null if unknown.
- `rejected`: code of REJECTED if the group can't be planned, else null. All metrics are then null, and `reason` has the
  detail.
- `runs_with`: assignor that the group currently uses; null if unknown.
- `clients`: client libraries of the members according to their client IDs, with the number of members
  (`groups.kernel.client_libraries`).
- `way`: how to switch to the recommended assignor, if the current one is another or unknown.
- `load_max_over_mean`, `drain_seconds`: as in METRICS."""

COMPARE_REJECTED = StructType([*_GROUP, *required(assignor=_STRING, change=_STRING, code=_STRING, detail=_STRING)])

COMPARE_TABLES: dict[str, StructType] = {"comparison": COMPARISON, "rejected": COMPARE_REJECTED}

PLAN_TABLES: dict[str, StructType] = {
    "assignments": ASSIGNMENTS,
    "assignment_slices": ASSIGNMENT_SLICES,
    "revocations": REVOCATIONS,
    "moves": MOVES,
    "metrics": METRICS,
    "rejected": REJECTED,
}

# --- alerts ------------------------------------------------------------------------------------------------

ALERTS = StructType(
    [
        *_GROUP,
        *required(alert=_STRING),
        *nullable(max_over_mean_before=_DOUBLE, max_over_mean_after=_DOUBLE),
        *required(detail=_STRING),
    ]
)
"""One row per group and exceeded threshold. `alert`: `rejected` (code and remedy in `detail`) or `imbalance` (its
`max_over_mean` has grown); of a history `rebalances` (too many), `pause` (too long), or `unreadable` (records that
can't be decoded)."""

# --- the manifest of written tables ----------------------------------------------------------------------

MANIFEST = StructType(
    required(run_id=_STRING, attempt=_STRING, finished_at=TimestampType(), duration_s=_DOUBLE, content=_STRING)
)
"""One row per finished attempt; the newest attempt of a `run_id` is the run. `content`: inputs, counts, and versions as
JSON."""


# --- keys ---------------------------------------------------------------------------------------------------

GROUP_KEY = ["cluster", "group_id"]
MEMBER_KEY = [*GROUP_KEY, "member_id"]
