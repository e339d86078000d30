"""Every table that spark_assign reads or writes, declared once.

A nullable field of an input table may be null or may be left out altogether; the others must be there and
hold no null. Nullability is checked by value, not by schema: Parquet reads everything back as nullable.
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
"""Metadata of a nullable column that is not added where a table lacks it."""

_GROUP = required(cluster=_STRING, group_id=_STRING)
_MEMBER = [*_GROUP, *required(member_id=_STRING)]
_RUN = required(topic=_STRING, first=_INT, step=_INT, count=_INT)

# --- the Fleet ------------------------------------------------------------------------------------------

TOPICS = StructType([*required(cluster=_STRING, topic=_STRING, partitions=_INT), *nullable(topic_id=_STRING)])
"""`topic_id` is the topic's id as Kafka prints it; only the broker's assignors look at it (`uniform`)."""

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
"""`process_id`: of a Streams application, which process the member runs in (KIP-1071)."""

SUBSCRIPTIONS = StructType([*_MEMBER, *required(topic=_STRING)])

_POSITION = StructField("position", _INT, nullable=True, metadata=ONLY_IF_GIVEN)
OWNED = StructType([*_MEMBER, *required(topic=_STRING, partition=_INT), _POSITION])
"""`position` is the place at which the member has the partition. Sticky before 3.7.1 gives up from the end of what the
member tells in its user data, by default by topic and partition; `uniform` goes over what a member had in the order of
the coordinator's maps, by default that in which a target read back has it."""

OWNED_SLICES = StructType([*_MEMBER, *_RUN, _POSITION])
"""Partitions first, first + step, … (count of them) of one topic, owned by one member. In share groups several members
may own a partition, and a count of 0 says that a member has the topic with no partition of it. `position` is that of
the run's first partition."""

REPLICAS = StructType(
    required(cluster=_STRING, topic=_STRING, partition=_INT, replicas=ArrayType(_INT, containsNull=True))
)
"""`replicas` holds broker ids, the preferred leader first."""

BROKERS = StructType([*required(cluster=_STRING, broker_id=_INT), *nullable(rack_id=_STRING)])

GROUPS = StructType(
    [
        *_GROUP,
        *nullable(
            assignor=_STRING,
            group_type=_STRING,
            state=_STRING,
            client_library=_STRING,
            client_version=_STRING,
            certainty=_STRING,
            standby_replicas=_INT,
            subscription_type=_STRING,
        ),
        StructField("capacity", _DOUBLE, nullable=True, metadata=ONLY_IF_GIVEN),
        StructField("load_bound", _DOUBLE, nullable=True, metadata=ONLY_IF_GIVEN),
    ]
)
"""What a snapshot knows of a group itself. `assignor` is the strategy that the group runs with now, by Kafka's
name; `group_type` is `classic`, `consumer` (KIP-848), `share` (KIP-932) or `streams` (KIP-1071); `standby_replicas` is
what a streams group is configured with (`streams.num.standby.replicas`, 0 where null). A classic group is assigned by
its leader: `client_library` and `client_version` (such as `2.8-3.3`, `3.4+`) are the leader's, as far as they can be
told; `certainty` is `sure`, `likely`, `guess` or `unknown` (`groups.kernel.leader_rules`). `subscription_type`
says how
the broker counts the subscriptions of a `consumer` group: `homogeneous`, or `heterogeneous`, which patterns may make of
equal ones; null: as they are. `capacity`: messages a second that one member can handle; `load_bound`: how many times
the mean load a member may have at most (`weighted-sticky`). No snapshot knows these two."""

LOADS = StructType(
    [
        *required(cluster=_STRING, topic=_STRING, partition=_INT),
        *nullable(
            group_id=_STRING,
            in_rate=_DOUBLE,
            in_rate_stddev=_DOUBLE,
            out_rate=_DOUBLE,
            lag=_LONG,
            bytes=_DOUBLE,
        ),
    ]
)
"""What goes through partitions, on average over the readings of a snapshot. `in_rate`: messages a second that are
written; `in_rate_stddev`: the standard deviation of that between readings, null for fewer than two rates; `out_rate`:
messages a second by which a group's committed offset goes on; `lag`: messages that it is behind, at the last reading;
`bytes`: bytes a second that are written, as stored. A row without `group_id` holds for all groups; one with it, for
that group, and what it says comes before what the other one says, column by column. Null: unknown."""

SUBTOPOLOGIES = StructType([*_GROUP, *required(subtopology=_STRING, partitions=_INT, stateful=BooleanType())])
"""The topology of a streams group. `partitions`: the number of its tasks; `stateful`: it has changelog topics."""

TASKS = StructType(
    [*_MEMBER, *required(subtopology=_STRING, task=_INT), *nullable(role=_STRING, changelog_offset=_LONG)]
)
"""What the members of streams groups have reached, not their target. `role`: `active`, `standby` or `warmup`; null
where a member only reports that it has state of the task on disk. `changelog_offset`: how far that state is, the
sum of the offsets of the task's changelogs, as the member reports it."""

INITIALIZED = StructType([*_GROUP, *_RUN])
"""Partitions for which the coordinator has initialised share state: no others are newly assigned in a share group. A
count of 0 says that there are none of that topic. Of groups that have no row all partitions are taken for such."""

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
    [
        *_GROUP,
        *required(topic=_STRING, partition=_INT),
        *nullable(committed_offset=_LONG, end_offset=_LONG, lag=_LONG),
    ]
)
"""Records: the group's committed offset, the partition's end offset, and their difference."""

UNDESCRIBED = StructType([*_GROUP, *required(error=_STRING)])
"""Groups that the cluster listed but would not describe, with what it said."""

SNAPSHOT_TABLES: dict[str, StructType] = {
    **{name: schema for name, schema in INPUT_TABLES.items() if name not in ("owned", "loads")},
    "offsets": OFFSETS,
    "undescribed": UNDESCRIBED,
}

SNAPSHOTS = StructType(
    [*required(cluster=_STRING, taken_at=TimestampType()), *nullable(kafka_cluster_id=_STRING, content=_STRING)]
)
"""In a catalog, a row per cluster: when it was read, the id of the Kafka cluster, and as JSON what `snapshot.json` says
in a folder. For Connect clusters the table is `connect_snapshots`, and its first column `connect_cluster`."""

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
            owned_topic_gone=_LONG,
            owned_beyond_count=_LONG,
            claim_conflicts=_LONG,
            order_dependent=_LONG,
        ),
        *nullable(
            rack_matched=_LONG,
            led_by=_STRING,
            load=_DOUBLE,
            max_load_per_member=_DOUBLE,
            load_max_over_mean=_DOUBLE,
            load_unknown=_LONG,
            drain_seconds=_DOUBLE,
            bound=_STRING,
        ),
    ]
)
"""A row per planned group. All counts are of partitions, but `members`, `members_without_subscription` (members)
and `unknown_topics` (subscribed topics without metadata). `withheld`, part of `unassigned`, have a next owner
that gets them a round later. `order_dependent`: partitions that Kafka may give to somebody else, as that hangs on an
order which the fleet does not say (`Plan.order_dependent`); counted for `uniform` only. `max_over_mean` is null where
nothing is assigned; `rack_matched` is null where racks are unknown. `led_by` is what is known of the group's leader, by
whose rules a group is assigned that is planned as configured: `Java 2.8-3.3 (likely)`
(`groups.kernel.leader_rules`).

`bound` is null but for `weighted-sticky`: how it went with the load that a member may have. `held`: nobody has more;
`hot-partition`: nobody but members of one partition, which is more by itself; `relaxed`: no assignment was found that
holds it, and the least one that can be held took its place; `over-capacity`: more is written than all members can
handle.

The five before it are null where `loads` says nothing of a group. `load`: messages a second that are written to what is
assigned; `max_load_per_member`, `load_max_over_mean`: the same as of partitions; `load_unknown`: assigned partitions
whose rate is not known, and counts as 0; `drain_seconds`: how long the slowest member takes until it has read what it
is behind; infinite where as much is written as it can read, null where nothing tells how fast a member reads
(`groups.kernel.group_metrics.member_capacity`)."""

ROUNDS = StructType(
    [
        *_GROUP,
        *required(round=_INT, assignor=_STRING, assigned=_LONG, revoked=_LONG, moved=_LONG, unowned=_LONG),
        *required(stable=BooleanType()),
    ]
)
"""A row per group and round of `converge`; counts are of partitions. `assigned` has an owner after the round;
`revoked` is given up by living owners for it (eager: all they own); `moved` gets another owner than it had;
`unowned` is consumed by nobody: for an eager group while the round runs, for a cooperative one from its end until
the next; `stable`: no rebalance follows. Of a group that the broker assigns (KIP-848) a round is the next heartbeat of
everybody, and `stable` says that all have come to their target."""

HEARTBEATS = StructType(
    [
        *_MEMBER,
        *required(assignor=_STRING, heartbeats=_INT, kept=_LONG, revoked=_LONG, gained=_LONG),
        *required(waits_for=_LONG, waits_for_members=_LONG),
    ]
)
"""A row per member of a group that the broker assigns; counts are of partitions, but `heartbeats` and
`waits_for_members` (members). `heartbeats`: with so many the member has come to its target, the first one included;
`kept` it has and will have, `revoked` it gives up, `gained` it gets; `waits_for`, part of `gained`, others have to give
up first: so many as `waits_for_members`."""

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
"""A row per group, assignor and change of `compare`. Counts are of partitions, but `members` and `rounds`; they hold
for the end, when everybody has what was withheld from it. `moved` and `revoked` as in METRICS, of all rounds;
`rounds`: 1 under the eager protocol, and `stable` whether no further one follows; `paused_partition_seconds`:
partition-seconds, see `simulation.kernel.pause_estimates`; `cross_rack_share`: of 1, of all `partitions`, null where
racks are unknown, as is `rack_matched`. `configured`: whether the group runs with it now, null where that is unknown.
`rejected`: why there is no plan (a code of REJECTED), null where there is one; the figures are null then, and `reason`
has the detail. `runs_with`: the assignor that the group runs with now, null where unknown. `clients`: the libraries
that its members run on, as far as their client ids tell, with the number of members (`groups.kernel.client_libraries`).
`way`: how to switch to the recommended assignor, where the group runs with another one or that is not known.
`load_max_over_mean` and `drain_seconds` as in METRICS."""

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
"""A row per group and threshold that it is beyond. `alert`: `rejected` (`detail` has code and remedy); `imbalance`: its
largest over mean has grown; of a history `rebalances`, `pause` or `unread`: too many, too long, records that nothing
could be made of."""

# --- the manifest of written tables ----------------------------------------------------------------------

MANIFEST = StructType(
    required(
        run_id=_STRING,
        attempt=_STRING,
        finished_at=TimestampType(),
        duration_s=_DOUBLE,
        content=_STRING,
    )
)
"""One row per finished attempt; the newest of a run_id is the run. `content` is JSON: inputs, counts, versions."""


# --- keys ---------------------------------------------------------------------------------------------------

GROUP_KEY = ["cluster", "group_id"]
MEMBER_KEY = [*GROUP_KEY, "member_id"]
