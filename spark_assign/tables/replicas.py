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

BROKERS = schema(_BROKER, "rack_id string?, fenced boolean?, position int?")
"""`position`: order in which Kafka gets the brokers. Brokers without a position come last, by id."""

PLACEMENTS = schema(_TOPIC, "partition int, replicas array<int>, leader int, start_index int?, shift int?, seed long?")
"""`replicas`: broker ids, preferred leader (`leader`) first. `start_index`: index of the broker of the first replica of
partition 0; null for striped. `shift`: Kafka's replica shift at this partition, which places the followers; null for
striped. `seed`: seed of the random numbers; null if nothing was drawn."""

REJECTED = schema(_TOPIC, "code string, detail string")

# --- reassign ---------------------------------------------------------------------------------------------

SIZES = schema(_TOPIC, "partition int, bytes long?")
"""Bytes of one replica of each partition. An unknown size counts as the mean of its cluster."""

REMOVED = schema(_BROKER)
ADDED = schema(_BROKER, "rack_id string?")
RACKS = ADDED
FACTORS = schema(_TOPIC, "replication_factor int")
PARTITIONS = schema(_TOPIC, "partitions int")
"""The tables of a `ClusterChange`."""

PLACEMENT = schema(
    _TOPIC,
    "partition int, previous_replicas array<int>?, replicas array<int>, leader int, moved int",
    "leader_changed boolean, bytes long?",
)
"""`previous_replicas`: replicas before the reassignment; null for a new partition. `moved`: number of replicas on
brokers that didn't have the partition. `leader_changed`: whether the preferred leader changes. `bytes`: of one
replica."""

MOVES = schema(_TOPIC, "partition int, from_broker_id int?, to_broker_id int, reason string, bytes long?")
"""`reason`: removed-broker, fenced-broker, rack, replication-factor (with a null `from_broker_id`), or balance."""

METRICS = schema(
    "cluster string, brokers long, partitions long, replicas long, new_partitions long, moved long",
    "required_moves long, lower_bound long, moves_above_bound long, moved_bytes long?, lower_bound_bytes long?",
    "leaders_changed long, leaders_reordered long, min_replicas long, max_replicas long",
    "brokers_out_of_tolerance long, min_leaders long, max_leaders long, leaders_out_of_tolerance long",
)
"""One row per cluster. `brokers`: brokers that can have replicas. `new_partitions`: partitions that are added. `moved`:
moved replicas; `required_moves`: minimum that the hard constraints require; `lower_bound`: no plan with the same
tolerance moves fewer; `moves_above_bound`: `moved` less `lower_bound`. `leaders_changed`: partitions with another
preferred leader. `leaders_reordered`: changes of the preferred leader in partitions without moves.
`brokers_out_of_tolerance`, `leaders_out_of_tolerance`: brokers out of tolerance of their share of replicas (of bytes if
sizes are known), and of preferred leaders."""

CLUSTER_REJECTED = schema("cluster string, code string, detail string")

TOOL_FILES = schema("cluster string, kind string, batch int?, name string, partitions int, bytes long?, content string")
"""`kind`: reassign, rollback, or preferred-leaders (without a batch). `batch`: number of the batch, from 1; null
without batches. `name`: name of the file. `bytes`: bytes that the batch moves. `content`: the file, as JSON."""

# --- check ------------------------------------------------------------------------------------------------

BROKER_CHECK = schema(
    _BROKER,
    "rack_id string?, fenced boolean?, replicas long, leaders long, replicas_over_mean double?",
    "leaders_over_mean double?",
)
"""`leaders`: partitions whose preferred leader the broker is. The mean is that of the unfenced brokers. `fenced` is
null for a broker that only `replicas` lists."""

RACK_CHECK = schema("cluster string, rack_id string?, brokers long, replicas long, leaders long")
"""One row per rack. `leaders`: partitions with their preferred leader in the rack."""

PROBLEMS = schema(_TOPIC, "partition int, code string, detail string")

CLUSTER_CHECK = schema(
    "cluster string, brokers long, partitions long, replicas long, min_replicas_over_mean double?",
    "max_replicas_over_mean double?, min_leaders_over_mean double?, max_leaders_over_mean double?",
    "shared_rack long, fenced_broker long, unknown_broker long, duplicate_replica long, too_few_replicas long",
    "uneven_replication_factor long",
)
"""One row per cluster. `brokers`: unfenced brokers. The last six columns count partitions. `shared_rack`: replicas
share a rack although more racks have unfenced brokers. `fenced_broker`: a replica is on a fenced broker.
`unknown_broker`: a replica is on a broker that isn't in `brokers`. `duplicate_replica`: a broker is listed twice.
`too_few_replicas`: fewer replicas than the minimum. `uneven_replication_factor`: fewer replicas than another partition
of the topic."""

PLACE_TABLES = {"placements": PLACEMENTS, "rejected": REJECTED}
REASSIGN_TABLES = {"placement": PLACEMENT, "moves": MOVES, "metrics": METRICS, "rejected": CLUSTER_REJECTED}
CHECK_TABLES = {"brokers": BROKER_CHECK, "racks": RACK_CHECK, "problems": PROBLEMS, "clusters": CLUSTER_CHECK}
