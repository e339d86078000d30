"""Schemas of the tables of replica placement, reassignment, and checks; the rules of `spark_assign.tables.groups`
apply."""

from __future__ import annotations

from spark_assign.tables.schema_fields import schema

_TOPIC = "cluster string, topic string"
_BROKER = "cluster string, broker_id int"

# --- place ------------------------------------------------------------------------------------------------

REQUESTS = schema(_TOPIC, "partitions int, replication_factor int, start_index int?, start_partition int?, seed long?")
"""One row per call of a placer, for `partitions` partitions. `start_partition`: first partition (default: 0).
`start_index`: index of the broker of the first replica of partition 0; if null or negative, it is drawn from `seed`.
`seed`: seed of the random numbers; if null, it is drawn, too."""

BROKERS = schema(_BROKER, "rack_id string?, fenced boolean?, cordoned boolean?, offline_log_dirs int?, position int?")
"""`cordoned`: whether all online log directories of the broker are cordoned (KIP-1066), so that it gets no replicas.
`offline_log_dirs`: number of its log directories that are offline. `position`: order in which Kafka gets the brokers.
Brokers without a position come last, by id."""

PLACEMENTS = schema(_TOPIC, "partition int, replicas array<int>, leader int, start_index int?, shift int?, seed long?")
"""`replicas`: broker ids, preferred leader (`leader`) first. `start_index`: index of the broker of the first replica of
partition 0; null for striped. `shift`: Kafka's replica shift at this partition, which places the followers; null for
striped. `seed`: seed of the random numbers; null if nothing was drawn."""

REJECTED = schema(_TOPIC, "code string, detail string")

# --- reassign ---------------------------------------------------------------------------------------------

SIZES = schema(_TOPIC, "partition int, bytes long?")
"""Bytes of one replica of each partition. An unknown size counts as the mean of its cluster."""

CAPACITIES = schema(_BROKER, "disk_bytes long?, in_bytes_per_second long?, out_bytes_per_second long?")
"""Capacity of each broker: of its disks, and of what it receives and sends. Unknown capacities don't limit anything,
but a column must have a value for all brokers of a cluster, or for none."""

REMOVED = schema(_BROKER)
ADDED = schema(_BROKER, "rack_id string?")
RACKS = ADDED
FACTORS = schema(_TOPIC, "replication_factor int")
PARTITIONS = schema(_TOPIC, "partitions int")
"""The tables of a `ClusterChange`."""

PLACEMENT = schema(
    _TOPIC,
    "partition int, previous_replicas array<int>?, replicas array<int>, leader int, moved int",
    "leader_changed boolean, bytes long?, previous_log_dirs array<string>?, log_dirs array<string>?",
    "log_dir_bytes array<long>?",
)
"""`previous_replicas`: replicas before the reassignment; null for a new partition. `moved`: number of replicas on
brokers that didn't have the partition. `leader_changed`: whether the preferred leader changes. `bytes`: of one
replica. `previous_log_dirs`, `log_dirs`: log directory of each of `previous_replicas` and of `replicas`, or `any` if
it doesn't change or is left to the broker; empty: all are. `log_dir_bytes`: bytes that each of `replicas` moves between
two directories of its broker."""

MOVES = schema(
    _TOPIC,
    "partition int, from_broker_id int?, to_broker_id int, reason string, bytes long?, from_log_dir string?",
    "to_log_dir string?",
)
"""`reason`: removed-broker, fenced-broker, cordoned-broker, rack, replication-factor (with a null `from_broker_id`),
balance, or log-dirs (between two log directories of one broker). `from_log_dir`, `to_log_dir`: paths; null if unknown,
or left to the broker."""

METRICS = schema(
    "cluster string, brokers long, partitions long, replicas long, new_partitions long, moved long",
    "required_moves long, lower_bound long, moves_above_bound long, moved_bytes long?, lower_bound_bytes long?",
    "leaders_changed long, leaders_reordered long, min_replicas long, max_replicas long",
    "brokers_out_of_tolerance long, min_leaders long, max_leaders long, leaders_out_of_tolerance long",
    "log_dir_moves long?, log_dir_moved_bytes long?, log_dir_lower_bound_bytes long?, log_dir_unknown long?",
)
"""One row per cluster. `brokers`: brokers that can have replicas. `new_partitions`: partitions that are added. `moved`:
moved replicas; `required_moves`: minimum that the hard constraints require; `lower_bound`: no plan with the same
tolerance moves fewer; `moves_above_bound`: `moved` less `lower_bound`. `leaders_changed`: partitions with another
preferred leader. `leaders_reordered`: changes of the preferred leader in partitions without moves.
`brokers_out_of_tolerance`, `leaders_out_of_tolerance`: brokers out of tolerance of their share of replicas (of bytes if
sizes are known), and of preferred leaders. `log_dir_moves`: replicas that move to another directory of their broker;
null without the goal log-dirs. `log_dir_moved_bytes`, `log_dir_lower_bound_bytes`: their bytes, and the fewest that
balance the directories. `log_dir_unknown`: replicas whose directory is unknown."""

BALANCE = schema(
    _BROKER,
    "goal string, is_hard boolean, load_before double?, load_after double?, share double, min_load double",
    "max_load double, capacity double?, log_dir string?, log_dir_state string?",
)
"""One row per broker and goal of `--balance`. `goal`: disk (bytes), in, out, leader-in (bytes/s), count (replicas),
leaders, or log-dirs (bytes; one row per log directory). `is_hard`: whether the goal must be met. `load_before`,
`load_after`: null for a log directory that is offline or unknown. `share`: even share, proportional to the capacity; 0
for a broker that can't have replicas. `min_load`, `max_load`: bounds by the tolerance and the capacity threshold.
`log_dir`: path; null for a broker whose directories are unknown. `log_dir_state`: online, offline, cordoned, or
unknown."""

CLUSTER_REJECTED = schema("cluster string, code string, detail string")

TOOL_FILES = schema("cluster string, kind string, batch int?, name string, partitions int, bytes long?, content string")
"""At most 10,000 partitions per file. `kind`: reassign, rollback, or preferred-leaders. `batch`: number of the batch,
from 1; null if preferred-leaders has one file. `name`: name of the file. `bytes`: bytes that the batch moves.
`content`: the file, as JSON."""

SCHEDULE = schema(
    "cluster string, batch int, name string, partitions int, copied_bytes long, throttle long, slowest_broker_id int?",
    "min_seconds double?, max_seconds double?, lower_bound_seconds double?, latest_start timestamp?",
    "execute string, verify string",
)
"""One row per batch of a reassignment, in order. `batch`: number of the batch, from 1. `name`: file of the batch.
`copied_bytes`: bytes that new replicas copy, and that move between log directories. `throttle`: bytes/s for each
broker, in each direction, and between its log directories.
`slowest_broker_id`: broker that ends last. `min_seconds`: time without new writes. `max_seconds`: time with new writes
at the measured rates, and with waits of followers; null if new writes use up the throttle. `lower_bound_seconds`: no
batches and no order of them take less in total. `latest_start`: when the batch must start for the last one to be
complete in time. `execute`, `verify`: commands; verify removes the throttle when all is done."""

# --- check ------------------------------------------------------------------------------------------------

BROKER_CHECK = schema(
    _BROKER,
    "rack_id string?, fenced boolean?, cordoned boolean?, offline_log_dirs int?, replicas long, leaders long",
    "replicas_over_mean double?, leaders_over_mean double?",
)
"""`leaders`: partitions whose preferred leader the broker is. The mean is that of the unfenced brokers. `fenced` is
null for a broker that only `replicas` lists. `cordoned`, `offline_log_dirs`: as in the input."""

RACK_CHECK = schema("cluster string, rack_id string?, brokers long, replicas long, leaders long")
"""One row per rack. `leaders`: partitions with their preferred leader in the rack."""

PROBLEMS = schema(_TOPIC, "partition int, code string, detail string")

CLUSTER_CHECK = schema(
    "cluster string, brokers long, partitions long, replicas long, min_replicas_over_mean double?",
    "max_replicas_over_mean double?, min_leaders_over_mean double?, max_leaders_over_mean double?",
    "shared_rack long, fenced_broker long, unknown_broker long, duplicate_replica long, too_few_replicas long",
    "uneven_replication_factor long, being_reassigned long, plan_outdated long, cordoned_brokers long",
    "offline_log_dirs long",
)
"""One row per cluster. `brokers`: unfenced brokers. Columns of problems count partitions. `shared_rack`: replicas
share a rack although more racks have unfenced brokers. `fenced_broker`: a replica is on a fenced broker.
`unknown_broker`: a replica is on a broker that isn't in `brokers`. `duplicate_replica`: a broker is listed twice.
`too_few_replicas`: fewer replicas than the minimum. `uneven_replication_factor`: fewer replicas than another partition
of the topic. `being_reassigned`, `plan_outdated`: with a plan, partitions that have their previous and new replicas,
and partitions that have neither. `cordoned_brokers`: brokers that are cordoned. `offline_log_dirs`: log directories
that are offline."""

# --- operate ----------------------------------------------------------------------------------------------

_EVENT = "step int, event string, broker_id int?"
_RANGES = "min_rebalances long, max_rebalances long, min_epochs long, max_epochs long"
_PAUSED = "min_paused_partition_seconds double?, max_paused_partition_seconds double?"

GROUP_EVENT_ROWS = schema(
    "cluster string, group_id string",
    _EVENT,
    "hosted long, offline long, grown long, min_leaders long, max_leaders long, min_hash long, max_hash long",
    "min_racks long, max_racks long, min_coordinator long, max_coordinator long, group_type string?, assignor string?",
    "leader_library string?, leader_version string?, members long, racked_members long, partitions long",
)
"""What an event does to the topics of a group; input of `replicas.kernel.group_effects`. `hosted`: partitions with a
replica on the broker; `offline`: those without another replica; `grown`: topics with new partitions. `*_leaders`: moves
of leaders; `*_hash`: changes of the racks of replicas, duplicates counted; `*_racks`: changes of the set of racks of a
partition; `*_coordinator`: moves of the coordinator. `partitions`: of all subscribed topics."""

STEPS = schema(
    "cluster string",
    _EVENT,
    "partitions long, leaders_moved long, groups long, coordinators_moved long",
    _RANGES,
    _PAUSED,
)
"""One row per step of an operation, in order. `event`: restart, down, reassign, or grow. `partitions`: partitions with
a replica on the broker, or that change. `groups`: groups that might rebalance. `coordinators_moved`: moves of groups to
another coordinator. `leaders_moved`: moves of leaders. `…_rebalances`: rebalances in which members rejoin, summed over
groups. `…_epochs`: new group epochs, summed over groups. `…_seconds`: partition-seconds without consumption; null if
unknown."""

EFFECTS = schema(
    "cluster string, group_id string",
    _EVENT,
    "cause string",
    _RANGES,
    "min_moves long, max_moves long, paused_partitions long",
    _PAUSED,
    "detail string, source string, since string, evidence string",
)
"""One row per group, step, and cause. `cause`: coordinator-moved, leaders-moved, partition-offline, rack-hash,
leader-racks, broker-bounce, or topic-grown. `…_rebalances`: rebalances in which members rejoin. `…_epochs`: new group
epochs, without a rebalance. `…_seconds`: partition-seconds without consumption; null if unknown. `…_moves`: moves of
the coordinator or of leaders. `paused_partitions`: partitions that stop. `source`: the rule in Kafka; `since`: releases
for which it holds; `evidence`: `live` (seen on Kafka 4.4.0), `source` (read in its source), or `inferred`."""

OPERATED_GROUPS = schema(
    "cluster string, group_id string, group_type string?, assignor string?, members long, coordinator_partition int?",
    "coordinator int?, causes array<string>",
    _RANGES,
    "coordinator_moves long, leaders_moved long, paused_partitions long",
    _PAUSED,
    "moved_partitions long?, advice string?",
)
"""One row per group with members. `coordinator_partition`: its partition of `__consumer_offsets`; `coordinator`: the
leader of that partition, after a change. `causes`: causes of its effects. `…_rebalances`: rebalances in which members
rejoin. `…_epochs`: new group epochs, without a rebalance. `…_seconds`: partition-seconds without consumption; null if
unknown. `coordinator_moves`: maximum number of moves to another coordinator. `leaders_moved`: maximum number of moves
of leaders of its partitions. `paused_partitions`: most partitions that stop at once. `moved_partitions`: partitions
that get another owner if the assignor runs after the operation; null if it doesn't run, or is unknown. `advice`: what
to change in the clients before, and what it saves."""

ORDERS = schema(
    "cluster string, order string, leaders_return boolean, brokers array<int>, coordinators_moved long",
    "leaders_moved long",
)
"""`order`: `given`, or `fewest-moves`. `leaders_return`: whether leaders move back to their preferred brokers after
each restart. `brokers`: in the order of their restarts. `coordinators_moved`: moves of groups to other coordinators.
`leaders_moved`: moves of leaders."""

COORDINATORS = schema(
    "cluster string, topic string, broker_id int, partitions long, groups long, members long, keys long",
    "commits_per_second double?, rebalances_per_second double?, hottest_partition int, hottest_load double",
)
"""One row per broker and internal topic (`__consumer_offsets`, `__share_group_state`), before the operation.
`partitions`: partitions of the topic that the broker leads. `groups`, `members`: those that it
coordinates. `keys`: groups, or share partitions. `…_per_second`: null without a history. `hottest_partition`: partition
with the highest load. `hottest_load`: its commits per second, or its keys without a history."""

LEADER_MOVES = schema(
    *(_TOPIC, "partition int, from_broker_id int, to_broker_id int"),
    "previous_replicas array<int>, replicas array<int>, load double",
)
"""Moves of leaders of the internal topics that spread the load of coordinators, without copying data.
`previous_replicas`, `replicas`: order of the replicas before and after; the same if the
preferred leader leads again. `load`: as `hottest_load`. Of a topic with many thousands of partitions, the moves can be
the first ones only."""

ASSIGNOR_TIMES = schema(
    "cluster string, group_id string, group_type string?, assignor string?, leader_library string?, members long",
    "partitions long, heterogeneous boolean, rebalances_per_second double?, max_assignor_ms double?, timeout string?",
    "timeout_ms long?, timeout_share double?, assignment_interval_ms long?, finding string?",
)
"""One row per group with members, of the clusters that change. `heterogeneous`: whether members subscribe to different
topics. `rebalances_per_second`: null without a history. `max_assignor_ms`: estimated upper bound of the time that the
assignor takes; null if it wasn't measured. `timeout`: client setting that limits it in a classic group. `timeout_ms`:
its lowest value among the members on record, else its default. `timeout_share`: `max_assignor_ms` divided by it.
`assignment_interval_ms`: recommended `consumer.assignment.interval.ms` of a consumer group; null before Kafka 4.3.
`finding`: what to change, if the time is above half of the timeout, or the interval above its default."""

OPERATED_ZONES = schema(
    "cluster string, group_id string, cross_zone_bytes_before long?, cross_zone_bytes_after long?",
    "cost_before double?, cost_after double?, currency string",
)
"""One row per group of the clusters that change: bytes per day that its members read across zones with their current
partitions, before and after, and their cost per day in `currency`; null if a rack or the traffic is unknown."""

PLACE_TABLES = {"placements": PLACEMENTS, "rejected": REJECTED}
REASSIGN_TABLES = {
    "placement": PLACEMENT,
    "moves": MOVES,
    "metrics": METRICS,
    "balance": BALANCE,
    "rejected": CLUSTER_REJECTED,
}
CHECK_TABLES = {"brokers": BROKER_CHECK, "racks": RACK_CHECK, "problems": PROBLEMS, "clusters": CLUSTER_CHECK}
OPERATION_TABLES = {
    "steps": STEPS,
    "groups": OPERATED_GROUPS,
    "effects": EFFECTS,
    "orders": ORDERS,
    "coordinators": COORDINATORS,
    "leader_moves": LEADER_MOVES,
    "assignor_times": ASSIGNOR_TIMES,
    "rejected": CLUSTER_REJECTED,
}
