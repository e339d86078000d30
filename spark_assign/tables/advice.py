"""Columns of the tables of `diff --loads`, `size_groups`, `advise_membership`, `measure_zone_traffic`, `find_unused`,
and `advise`.
"""

from __future__ import annotations

from pyspark.sql.types import StructType

from spark_assign.tables.groups import LOADS, REJECTED
from spark_assign.tables.schema_fields import schema

_GROUP = "cluster string, group_id string"

LOADS_TABLES: dict[str, StructType] = {"loads": LOADS}

# --- size_groups --------------------------------------------------------------------------------------------

SIZES = schema(
    f"{_GROUP}, assignor string, verdict string, reason string, members long",
    "partitions long, needed long?, knee long, saturation_members long, limited_by string",
    "partitions_needed long?, load double, load_at_quantile double, max_load double, max_load_needed double?",
    "capacity double?, capacity_source string?, drain_seconds double?, drain_seconds_needed double?",
    "hot_topic string, hot_partition long, hot_load double, moved long?, paused_partition_seconds double?",
    "threads_per_pod long?, threads_per_pod_source string?, pods long?, pods_needed long?, nodes_needed long?",
)
"""One row per group and assignor. All loads are in messages per second.

`verdict`: `right-sized`, `under-provisioned`, `over-provisioned`, `cannot-keep-up`, or `unknown`
(`advice.kernel.size`). `members`: current number of members. `needed`: smallest number of members that keeps up; null
if none does, or if the capacity of a member is unknown. `knee`: number of members at which the curve bends.
`saturation_members`: with more members than this, the load of the most loaded member doesn't decrease. `limited_by`:
the reason, which is `partitions`, `hot-partition`, `assignor`, or, in share groups, `record-locks`.
`partitions_needed`: number of partitions, and of members, that must share the load evenly. `load`, `load_at_quantile`:
load of the group, mean and at the quantile. `max_load`, `max_load_needed`: load of the most loaded member, with the
current and the needed number of members. `hot_load`: load of the hottest partition. `hot_topic`, `hot_partition`: the
hottest partition. `capacity`: load that a member can handle. `capacity_source`: `configured` or `measured`.
`drain_seconds`, `drain_seconds_needed`: time until the slowest member has read its lag, with the current and the needed
number of members; as in METRICS. `moved`, `paused_partition_seconds`: cost of the change to `needed` members.
`threads_per_pod`: members per pod; `threads_per_pod_source`: `configured`, or `read` from the members' hosts. `pods`,
`pods_needed`, `nodes_needed`: the current and the needed number of members in pods, and nodes for the latter. All five
are null if unknown. If members per pod are known, `needed` is the number of members in whole pods."""

CURVES = schema(
    f"{_GROUP}, assignor string, members long, is_current boolean, max_load double",
    "max_load_at_quantile double, load_max_over_mean double?, drain_seconds double?, idle long",
    "unassigned long, moved long, paused_partition_seconds double, keeps_up boolean?",
)
"""One row per group, assignor, and number of members that was evaluated.

`is_current`: the group has this number of members. `max_load`, `max_load_at_quantile`: load of the most loaded member,
mean and at the quantile. `load_max_over_mean`: load of the most loaded member, divided by the mean. `idle`: number of
members without partitions. `unassigned`: number of partitions without an owner, because the remaining members don't
subscribe to all topics. `keeps_up`: whether all partitions are assigned, and the most loaded member can handle its load
with the headroom; null if the capacity of a member is unknown. The other columns are those of SIZES."""

TOPIC_SIZES = schema(
    f"{_GROUP}, topic string, verdict string, partitions long, partitions_needed long?, reason string",
    "load double, load_at_quantile double, hot_partition long, hot_load double",
)
"""One row per group and topic that it subscribes to. Of several groups, the largest `partitions_needed` counts.

`verdict`: `enough`, `too-few`, or `unknown`. `partitions_needed`: number of partitions with which a member, or as many
members of a share group as can work on one partition at the same time, can handle the hottest partition with the
headroom, if its load remains the same multiple of the mean; null if rates or the capacity of a member are unknown.
`load`, `load_at_quantile`: load of the topic, mean and at the quantile. `hot_partition`, `hot_load`: the hottest
partition, and its load."""

SIZE_TABLES: dict[str, StructType] = {
    "sizes": SIZES,
    "curves": CURVES,
    "topic_sizes": TOPIC_SIZES,
    "rejected": REJECTED,
}

# --- advise_membership --------------------------------------------------------------------------------------

MEMBERSHIP_ADVICE = schema(
    f"{_GROUP}, recommendation string, summary string, settings string?",
    "warning_codes string?, warning_text string?, client_libraries string?, assignor string?, members long",
    "static_members long, simulated_restarts long, partitions long, restart_time_ms long, membership string",
    "protocol string, session_timeout_ms long, recommended_membership string, recommended_protocol string",
    "recommended_session_timeout_ms long, restart_paused_partition_seconds double",
    "recommended_restart_paused_partition_seconds double, restart_longest_pause_seconds double",
    "recommended_restart_longest_pause_seconds double, restart_rebalances int",
    "recommended_restart_rebalances int, crash_paused_partition_seconds double?",
    "recommended_crash_paused_partition_seconds double?, crash_longest_pause_seconds double?",
    "recommended_crash_longest_pause_seconds double?, expected_paused_partition_seconds double",
    "recommended_expected_paused_partition_seconds double, gain_seconds double, cost_seconds double",
    "saved_seconds double",
)
"""One row per consumer group. Columns with the prefix `recommended_` are of the recommended option, those without it
are of the current one.

`recommendation`: `keep`, or what changes: `static`, `dynamic`, `cooperative`, two of these (`static-cooperative`), or
`session` alone. `summary`: the recommendation with its figures, in a sentence. `settings`: lines to paste, in the
syntax of the group's client library; null if nothing changes. `warning_codes`, `warning_text`: risks, as codes and as
sentences; null if there are none. `membership`: `dynamic`, `static`, or `mixed`. `protocol`: `eager`, `cooperative`, or
`consumer` (KIP-848). `restart_…`: of a rolling restart of all members, each of which is away for `restart_time_ms`.
`simulated_restarts`: number of restarts that were simulated; the pause is scaled to all members. `crash_…`: of a crash
of one member that doesn't return; null if it is the only member. `expected_…`: of one restart, and of the crashes per
restart. `…_longest_pause_seconds`: longest pause of a single partition. `gain_seconds`: partition-seconds that the
restart saves. `cost_seconds`: additional partition-seconds of crashes. `saved_seconds`: the difference."""

OPTIONS = schema(
    f"{_GROUP}, membership string, protocol string, assignor string?",
    "session_timeout_ms long, restart_time_ms long, is_current boolean",
    "restart_paused_partition_seconds double, restart_longest_pause_seconds double, restart_rebalances int",
    "crash_paused_partition_seconds double?, crash_longest_pause_seconds double?",
    "expected_paused_partition_seconds double",
)
"""One row per group, mode (`membership`, `protocol`, `assignor`), session timeout, and restart time, with the figures
of MEMBERSHIP_ADVICE. `membership`: `dynamic`, `static`, or `mixed`. `is_current`: the group runs this way. Includes
options that are never recommended, such as a session timeout that is too short."""

MEMBERSHIP_TABLES: dict[str, StructType] = {
    "membership_advice": MEMBERSHIP_ADVICE,
    "options": OPTIONS,
    "rejected": REJECTED,
}

# --- measure_zone_traffic -----------------------------------------------------------------------------------

ZONES = schema(
    f"{_GROUP}, assignor string, follower_fetching boolean, members long",
    "members_without_rack long, partitions long?, partitions_without_bytes long?",
    "partitions_without_rack long?, moved long?, bytes_per_day long?, cross_zone_bytes_per_day long?",
    "cross_zone_bytes_at_least long?, cross_zone_bytes_at_most long?, cross_zone_share double?",
    "cost_per_day double?, cost_at_least double?, cost_at_most double?, saved_per_day double?, currency string",
    "recommended boolean, reason string",
)
"""One row per group and read option: an assignor, with or without follower fetching. Bytes are per day, of partitions
whose traffic is known. At most one option per group is `recommended`.

`assignor`: `current` (the current owners), or a rack-aware assignor. `follower_fetching`: whether members read from a
replica in their rack. `members_without_rack`: members with an unknown rack. `partitions`: number of partitions with an
owner; `moved`: those with another owner than now; `partitions_without_bytes`: those with unknown traffic;
`partitions_without_rack`: those for which an unknown rack decides whether they are read across zones. `cross_zone_…`:
bytes read across zones. `cost_…`: their cost in `currency`. If a rack is unknown, the values are null and lie between
`…_at_least` and `…_at_most`. `saved_per_day`: savings compared with the current option; negative if the option costs
more. Without members or traffic, and if Kafka's assignor fails (`reason`), figures are null."""

REPLICA_MOVES = schema(
    "cluster string, topic string, partition int, follower_fetching boolean, kind string",
    "from_rack string?, to_rack string, previous_replicas array<int>, replicas array<int>",
    "groups long, bytes_per_day long, cross_zone_bytes_per_day long, saved_bytes_per_day long",
    "saved_per_day double, currency string",
)
"""One row per partition and change of its replicas that saves something with the current owners, with and without
follower fetching.

`follower_fetching`: whether members read from a replica in their rack. `kind`: `reorder` (another replica becomes the
leader; copies nothing) or `move` (a replica moves to another rack; copies the log once). Use only one of the two.
`previous_replicas`, `replicas`: broker ids, the preferred leader first; if a `reorder` has the same list twice, its
preferred leader is elected. `bytes_per_day`: bytes read by all groups; `cross_zone_bytes_per_day`: those that
certainly cross a zone; `saved_bytes_per_day`: those that certainly wouldn't anymore, whatever the unknown racks are."""

ZONES_TABLES: dict[str, StructType] = {"zones": ZONES, "replica_moves": REPLICA_MOVES, "rejected": REJECTED}

# --- find_unused --------------------------------------------------------------------------------------------

UNUSED = schema(
    "cluster string, subject string, topic string?, group_id string?, certainty string, reason string, missing string?",
    "days double?, partitions long?, replicas long?, disk_bytes long?, committed_partitions long?",
    "coordinator_partition long?, commands string?",
)
"""One row per topic, group, or subscription without a known use.

`subject`: `topic` (no known reader), `group` (no members, or no commits), `partitions` (those of a topic that never had
a record), or `subscription` (of a group to a topic that the fleet doesn't have). `certainty`: `certain` (Kafka's
own figures say it), `likely` (nothing in the snapshots speaks for a use), `possible` (`reason` names a use that Kafka
doesn't record), or `unknown` (`missing` names the missing data). `days`: time between the two snapshots; null without
an older one. `partitions`: of the topic, or those that never had a record. `replicas`: of the topic. `disk_bytes`: log
of all replicas of the topic; null if unknown. `committed_partitions`: offsets of the group that its coordinator keeps.
`coordinator_partition`: its partition of `__consumer_offsets`. `commands`: lines for a POSIX shell that remove it
safely, in order; null unless `certainty` is `likely`."""

UNUSED_TABLES: dict[str, StructType] = {"unused": UNUSED, "rejected": REJECTED}

# --- advise -------------------------------------------------------------------------------------------------

ADVICE = schema(
    "rank int, category string, cluster string, group_id string?, action string, description string",
    "gain double?, gain_unit string?, cost double?, cost_unit string?, payback_months double?, risk string",
    "command string, settings string?, note string?",
)
"""One row per recommendation; `rank` 1 is the most pressing.

`category`: `behind` (a group falls behind), `money`, `pause`, `balance`, or `unknown` (missing data). `group_id`: null
for a recommendation for the whole cluster. `action`: `scale-up`, `scale-down`, `more-partitions`, `assignor`,
`rebalance`, a recommendation of `advise_membership` (`static`, `dynamic`, `cooperative`, `session`, …),
`follower-fetching`, `replicas-reorder`, `replicas-move`, `standbys`, `fewer-standbys`, `recovery-lag`, `readings`,
`capacity`, or `racks`. `description`: the action with its figures. `gain`, `cost`: in their units; null if unknown.
`payback_months`: months until the gain has paid the cost; null if their units differ. `command`: job with flags that
shows details or writes files. `settings`: lines to paste. `note`: what is
conspicuous about the current assignment of the group, as in METRICS."""

NOT_RECOMMENDED = schema(
    "cluster string, group_id string?, adviser string, action string?, code string, detail string",
    "gain double?, gain_unit string?, cost double?, cost_unit string?, note string?",
)
"""One row per change that was considered and isn't recommended. `adviser`: `streams`, `size`, `assignor`,
`membership`, `zones`, or `replicas`. `action`: as in ADVICE; null if the adviser has no recommendation. `code`:
`below-cost`, `superseded` (by a recommendation that `detail` names), `included` (in another recommendation),
`falls-behind`, `costs-more`, `not-possible`, `not-known`, `nothing-to-do`, or the rejection code of the adviser. The
other columns are those of ADVICE."""

ADVISE_TABLES: dict[str, StructType] = {"advice": ADVICE, "not_recommended": NOT_RECOMMENDED, "rejected": REJECTED}
