"""Schemas of the tables of consumer groups: input tables, plan tables, and the tables around them.

A nullable column of an input table may contain nulls or be missing. Other columns must exist and must not contain
nulls. The values are checked, not the schema: columns read from Parquet are always nullable.
"""

from __future__ import annotations

from pyspark.sql.types import StructType

from spark_assign.tables.schema_fields import schema

_GROUP = "cluster string, group_id string"
_MEMBER = f"{_GROUP}, member_id string"
_SLICE = "topic string, first int, step int, count int"

# --- the Fleet ------------------------------------------------------------------------------------------

TOPICS = schema("cluster string, topic string, partitions int, topic_id string?, cleanup_policy string??")
"""One row per topic. `topic_id`: UUID as Kafka prints it; only `uniform` uses it. `cleanup_policy`: setting
`cleanup.policy` of the topic, as `compact` or `compact,delete`; null if unknown."""

MEMBERS = schema(
    _MEMBER,
    "group_instance_id string?, client_id string?, client_host string?, rack_id string?, generation_id int?",
    "user_data_generation_id int?, position int?, process_id string?, client_tags array<string>??, error_code int??",
)
"""One row per group member. `position`: index of the member in the order in which the coordinator lists the members;
default: sorted by ID. It matters only if Java's hash order is ambiguous. `process_id`: process of the member, only in
Kafka Streams; a UUID in the classic protocol. `client_tags`: `client.tag.*` of a classic Streams application, as
`zone=a`. `error_code`: error that the member reports to its Streams leader (`AssignorError`)."""

SUBSCRIPTIONS = schema(_MEMBER, "topic string")

SUBSCRIPTION_LISTS = schema(_GROUP, "member_ids array<string>, topics array<string>")
"""The same as lists: each of `member_ids` subscribes to each of `topics`. A member can be in several lists."""

OWNED = schema(_MEMBER, "topic string, partition int, position int??")
"""One row per owned partition. `position`: index of the partition in the order in which the member reports it; default:
sorted by topic and partition. Java's sticky assignors before 3.7.1 revoke from the end of this order. `uniform` uses
the order of the coordinator's maps; default: the order of a target assignment that the coordinator has loaded."""

OWNED_SLICES = schema(_MEMBER, _SLICE, "position int??")
"""One row per slice of owned partitions: `count` partitions `first, first + step, …` of one topic. In share groups,
members can own the same partition, and `count` 0 means that the member has the topic without partitions. `position`: as
in OWNED, of the first partition of the slice."""

OWNED_LISTS = schema(
    _MEMBER, "topics array<string>, firsts array<int>, steps array<int>, counts array<int>, positions array<int>?"
)
"""The same as lists with an element per slice, usually one row per member. `positions`: as `position` in OWNED_SLICES;
null: sorted by topic and partition."""

REPLICAS = schema(
    "cluster string, topic string, partition int, replicas array<int>, leader_id int??, adding_replicas array<int>??",
    "removing_replicas array<int>??, end_offset long??, bytes long??",
)
"""`replicas`: broker IDs, preferred leader first. `leader_id`: the current leader; null if there is none, or it is
unknown: then the preferred leader counts. `adding_replicas`, `removing_replicas`: of a partition that is being
reassigned, the replicas among `replicas` that are still to be copied, and those to be removed; else null.
`end_offset`: end offset of the partition. `bytes`: size of its log at the leader. Both are null if unknown."""

BROKERS = schema("cluster string, broker_id int, rack_id string?, cordoned boolean??, offline_log_dirs int??")
"""`rack_id`: at most 255 bytes. `cordoned`: whether all online log directories of the broker are cordoned (KIP-1066);
null if unknown. `offline_log_dirs`: number of its log directories that are offline."""

GROUPS = schema(
    _GROUP,
    "assignor string?, group_type string?, state string?, leader_library string?, leader_version string?",
    "leader_confidence string?, standby_replicas int?, subscription_type string?, capacity double??",
    "load_bound double??, streams_config array<string>??, leader_process_id string??",
    "standby_task_order array<string>??",
)
"""One row per group, with values that only the broker or the user knows:

- `assignor`: assignor that the group currently uses, by Kafka's name.
- `group_type`: `classic`, `consumer` (KIP-848), `share` (KIP-932), or `streams` (KIP-1071).
- `leader_library`, `leader_version`, `leader_confidence`: client library of the group leader, its releases (`2.8-3.3`,
  `3.4+`), and how reliable this is: `sure`, `likely`, `guess`, or `unknown` (`groups.kernel.leader_rules`). Only for
  classic groups, whose leader assigns. Libraries that write the same bytes are `aiokafka or kafka-python`, `unknown`.
- `standby_replicas`: `streams.num.standby.replicas` of a streams group, or `num.standby.replicas` of a classic Streams
  application (null: unknown, and plans take 0).
- `subscription_type`: `homogeneous` or `heterogeneous`, as the broker classifies a `consumer` group; patterns can make
  equal subscriptions heterogeneous. Null: derived from `subscriptions`.
- `capacity`: messages/s that one member can handle. Not in snapshots.
- `load_bound`: maximum load of a member, as a multiple of the mean load (`weighted-sticky`). Not in snapshots.
- `streams_config`: configuration of a classic Streams application, as `max.warmup.replicas=4`; default: that of Kafka.
- `leader_process_id`: process of the leader of a classic Streams application, which asks for probing rebalances
  (null: that of the first member).
- `standby_task_order`: stateful tasks, such as `1_0`, in the order in which the public `StickyTaskAssignor` assigned
  standbys; null: unknown, because it depends on identity hash codes."""

LOADS = schema(
    "cluster string, topic string, partition int, group_id string?, in_messages_per_second double?, "
    "in_messages_per_second_stddev double?, out_messages_per_second double?, lag long?, in_bytes_per_second double?",
)
"""Mean load per partition over the readings of a snapshot; null if unknown.

- `in_messages_per_second`, `in_messages_per_second_stddev`: messages/s written, and their standard deviation between
  readings (null for fewer than two rates).
- `out_messages_per_second`: messages/s by which the committed offset of the group increases.
- `lag`: messages between the committed offset and the end offset, at the last reading.
- `in_bytes_per_second`: bytes/s written, as stored.

A row without `group_id` applies to all groups. In a row with `group_id`, every non-null value takes precedence for that
group."""

SUBTOPOLOGIES = schema(
    _GROUP,
    "subtopology string, partitions int?, stateful boolean?, source_topics array<string>??",
    "changelog_topics array<string>??",
)
"""One row per subtopology of a Streams group. `partitions`: number of its tasks, not used in classic applications.
`stateful`: has changelog topics; in a classic application, has a store, with or without logging (null: has changelog
topics). `source_topics`: topics that it reads, repartition topics included. `changelog_topics`: changelogs of its
stores; a source topic can serve as one."""

TASKS = schema(_MEMBER, "subtopology string, task int, role string?, changelog_offset long?")
"""One row per task that a member of a Streams group currently has (not its target). `role`: `active`, `standby`, or
`warmup`; null if the member only reports state on disk. `changelog_offset`: sum of the offsets of the task's
changelogs; in a classic application, -2 if the member runs the task (the default of active tasks), and -3 if it
doesn't know the offsets; a standby with null counts as caught up."""

CHANGELOGS = schema(_GROUP, "topic string, partition int, end_offset long?, bytes long?")
"""One row per partition of a changelog topic of a classic Streams application. A changelog without rows that isn't in
`topics` is new. `end_offset`: end offset, or the committed offset if a source topic serves as changelog; null if the
leader can't read it, so that it falls back to the previous owners. `bytes`: size of the partition, which a member
without state restores."""

INITIALIZED = schema(_GROUP, _SLICE)
"""Partitions for which the coordinator has initialized share state: only these are newly assigned in a share group.
`count` 0 means that no partition of the topic is initialized. In a group without rows, all partitions are."""

UNDESCRIBED = schema(_GROUP, "error string")
"""Groups that the cluster listed but did not describe, or not completely, with its error; in a fleet of the past, those
whose records can't be read. A group without members is rejected, unless its state is `Empty` or `Dead`: then only its
offsets could not be read."""

EMPTY_STATES = ("Empty", "Dead")
"""States of a group that has no members."""

INPUT_TABLES: dict[str, StructType] = {
    "topics": TOPICS,
    "members": MEMBERS,
    "subscriptions": SUBSCRIPTIONS,
    "subscription_lists": SUBSCRIPTION_LISTS,
    "owned": OWNED,
    "owned_slices": OWNED_SLICES,
    "owned_lists": OWNED_LISTS,
    "replicas": REPLICAS,
    "brokers": BROKERS,
    "groups": GROUPS,
    "subtopologies": SUBTOPOLOGIES,
    "tasks": TASKS,
    "changelogs": CHANGELOGS,
    "initialized": INITIALIZED,
    "loads": LOADS,
    "undescribed": UNDESCRIBED,
}
REQUIRED_TABLES = ("topics", "members", "subscriptions")
OWNERSHIP = ("owned", "owned_slices", "owned_lists")
"""Tables of what members own, of which a fleet has at most one."""
ALTERNATIVES = {"subscriptions": "subscription_lists"}
"""A table that can be given instead of a required one, or in addition."""

# --- what a snapshot writes beside the Fleet ------------------------------------------------------------

OFFSETS = schema(_GROUP, "topic string, partition int, committed_offset long?, end_offset long?, lag long?")
"""Offsets in records: committed offset of the group, end offset of the partition, and their difference."""

LOG_DIRS = schema(
    "cluster string, broker_id int, log_dir string, error string?, total_bytes long?, usable_bytes long?",
    "cordoned boolean?",
)
"""Log directories of brokers (`log.dirs`). `log_dir`: absolute path. `error`: null if the directory is online.
`total_bytes`, `usable_bytes`: size and free space of its volume (KIP-827); null before Kafka 3.3. Directories on one
volume have the same numbers. `cordoned`: whether the directory gets no new replicas (KIP-1066); null before 4.3."""

LOG_DIR_REPLICAS = schema(
    "cluster string, topic string, partition int, broker_id int, log_dir string, bytes long?, offset_lag long?",
    "is_future boolean",
)
"""The log of each replica on an online log directory (KIP-113). `log_dir`: path of the directory. `bytes`: size of its
segments. `offset_lag`: messages that it lacks. `is_future`: whether the log is a copy that replaces the replica's log
in another directory of the broker when it's complete."""

_NOT_IN_SNAPSHOTS = ("subscriptions", "owned", "owned_slices", "changelogs", "loads")

SNAPSHOT_TABLES: dict[str, StructType] = {
    **{name: schema for name, schema in INPUT_TABLES.items() if name not in (*_NOT_IN_SNAPSHOTS, "undescribed")},
    "offsets": OFFSETS,
    "undescribed": UNDESCRIBED,
}
OPTIONAL_SNAPSHOT_TABLES: dict[str, StructType] = {
    "loads": LOADS,
    "changelogs": CHANGELOGS,
    "log_dirs": LOG_DIRS,
    "log_dir_replicas": LOG_DIR_REPLICAS,
}
"""Tables that a snapshot writes only if it has read them."""

SNAPSHOTS = schema("cluster string, taken_at timestamp, kafka_cluster_id string?, content string?")
"""In a catalog, one row per cluster. The table of Connect clusters is `connect_snapshots`, with `connect_cluster` as
the first column. `kafka_cluster_id`: ID of the Kafka cluster. `content`: `snapshot.json` as text."""

# --- the Plan -------------------------------------------------------------------------------------------

ASSIGNMENTS = schema(_MEMBER, "topic string, partition int")

ASSIGNMENT_SLICES = schema(_MEMBER, _SLICE)

REVOCATIONS = schema(_MEMBER, "topic string, partition int, next_member_id string?")

MOVES = schema(_GROUP, "topic string, partition int, from_member_id string?, to_member_id string?, reason string")

METRICS = schema(
    _GROUP,
    "assignor string, members long, partitions long, min_per_member long, max_per_member long, mean_per_member "
    "double, stddev_per_member double, max_over_mean double?, moved long, revoked long, unassigned long, withheld "
    "long, members_without_subscription long, unknown_topics long, owned_unknown_topic long, owned_out_of_range "
    "long, claim_conflicts long, order_dependent long, rack_matched long?, leader_client string?, load double?, "
    "max_load_per_member double?, load_max_over_mean double?, load_unknown long?, drain_seconds double?, "
    "load_bound_status string?, final_min_per_member long?, final_max_per_member long?, final_max_over_mean double?, "
    "topic_max_over_mean double?, members_without_partitions long?, note string?",
)
"""One row per planned group. All counts are partitions, except those of members (`members`,
`members_without_subscription`, `members_without_partitions`) and `unknown_topics` (subscribed topics without metadata).

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
  `load_unknown`: assigned partitions without a known rate, counted as 0. Null if `loads` has no row of the group, or
  one that can't be used (`bad-load`, `duplicate-load`).
- `drain_seconds`: time until the slowest member has read its lag; infinite if messages are written as fast as the
  member reads, null if its speed is unknown (`groups.kernel.member_loads.member_capacity`).
- `load_bound_status`: only for `weighted-sticky`. `held`: no member exceeds the bound. `hot-partition`: only members
  with a single partition exceed it. `relaxed`: no assignment within the bound was found, so the smallest feasible bound
  applies. `over-capacity`: more is written than all members can handle.
- `final_…`: as without `final_`, after the last round, when withheld partitions are assigned. The following columns are
  of that state, too.
- `topic_max_over_mean`: as `max_over_mean`, of the topic that is divided least evenly among its subscribers. A mean
  below 1 counts as 1.
- `members_without_partitions`: members that subscribe to topics, and get no partition.
- `note`: why members have no partitions, or more than an even share; null if there is nothing to note."""

ROUNDS = schema(
    _GROUP,
    "round int, assignor string, assigned long, revoked long, moved long, unowned long, stable boolean",
)
"""One row per group and round of `converge`; counts are partitions. `assigned`: with an owner after the round.
`revoked`: revoked by live owners (in the eager protocol all that they own). `moved`: another owner than before.
`unowned`: not consumed; in an eager group during the round, in a cooperative group from its end until the next round.
`stable`: no rebalance follows. For a group that the broker assigns (KIP-848), a round is the next heartbeat of each
member, and `stable` means that all members have reached their target."""

HEARTBEATS = schema(
    _MEMBER,
    "assignor string, heartbeats int, kept long, revoked long, newly_assigned long, unreleased_partitions long, "
    "unreleased_owners long",
)
"""One row per member of a group that the broker assigns; counts are partitions, except as noted. `heartbeats`: number
of heartbeats until the member has reached its target, including the first. `kept`: owned before and after.
`newly_assigned`: partitions that the member gets. `unreleased_partitions`: those of them that other members must revoke
first. `unreleased_owners`: number of these members."""

REJECTED = schema(_GROUP, "code string, detail string")

PLAN_TABLES: dict[str, StructType] = {
    "assignments": ASSIGNMENTS,
    "assignment_slices": ASSIGNMENT_SLICES,
    "revocations": REVOCATIONS,
    "moves": MOVES,
    "metrics": METRICS,
    "rejected": REJECTED,
}

# --- alerts ------------------------------------------------------------------------------------------------

ALERTS = schema(_GROUP, "alert string, max_over_mean_before double?, max_over_mean_after double?, detail string")
"""One row per group and exceeded threshold. `alert`: `rejected` (code and remedy in `detail`) or `imbalance` (its
`max_over_mean` has grown); of Streams groups `without-state` (too many tasks move without their state) or `restore`
(takes too long); of a history `rebalances` (too many), `pause` (too long), or `unreadable` (records that can't be
decoded)."""

# --- the manifest of written tables ----------------------------------------------------------------------

MANIFEST = schema("run_id string, attempt string, finished_at timestamp, duration_s double, content string")
"""One row per finished attempt; the newest attempt of a `run_id` is the run. `content`: inputs, counts, and versions as
JSON."""

SCHEMA_VERSION = 1
"""Version of the stored tables, in the manifest of a run and in `snapshot.json`. It is raised by a release that removes
a column or table, or changes the meaning of one; new nullable columns and tables don't raise it."""


# --- keys ---------------------------------------------------------------------------------------------------

GROUP_KEY = ["cluster", "group_id"]
MEMBER_KEY = [*GROUP_KEY, "member_id"]


# --- groups of Spark's Kafka source, which no table of a fleet or history has ---------------------------------
#
# `history --reader spark` reads with that source. For each query, it creates a group with a random ID, without members
# once the query has ended (`SubscribeStrategy` and `KafkaSourceProvider` in Spark). Such a group never gets an
# assignment from a leader: Spark distributes the partitions itself.


OWN_GROUP_PREFIXES = ("spark-kafka-relation-", "spark-kafka-source-")
"""Prefixes of the group IDs of Spark's Kafka source in batch and in streaming mode, if `groupIdPrefix` isn't set."""


def is_own_group(group_id: str) -> bool:
    """Checks whether Spark's Kafka source created a group."""
    return group_id.startswith(OWN_GROUP_PREFIXES)
