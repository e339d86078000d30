"""Schemas of the tables of replica placement, reassignment, and checks; the rules of `spark_assign.tables.groups`
apply."""

from __future__ import annotations

from pyspark.sql.types import ArrayType, BooleanType, DoubleType, IntegerType, LongType, StringType, StructType

from spark_assign.tables.schema_fields import nullable, required

_STRING, _INT, _LONG = StringType(), IntegerType(), LongType()
_BOOLEAN, _DOUBLE = BooleanType(), DoubleType()
_TOPIC = required(cluster=_STRING, topic=_STRING)
_BROKER = required(cluster=_STRING, broker_id=_INT)
_IDS = ArrayType(_INT)

# --- place ------------------------------------------------------------------------------------------------

REQUESTS = StructType(
    [
        *_TOPIC,
        *required(partitions=_INT, replication_factor=_INT),
        *nullable(start_index=_INT, start_partition=_INT, seed=_LONG),
    ]
)
"""One row per call of a placer, for `partitions` partitions from `start_partition` (default: 0). A `start_index` that
is null or below 0 is drawn from `seed`, as are all random numbers of striped. A null `seed` is drawn, too."""

BROKERS = StructType([*_BROKER, *nullable(rack_id=_STRING, fenced=_BOOLEAN, position=_INT)])
"""`position`: order in which Kafka gets the brokers. Brokers without a position come last, by id."""

PLACEMENTS = StructType(
    [
        *_TOPIC,
        *required(partition=_INT, replicas=_IDS, leader=_INT),
        *nullable(start_index=_INT, shift=_INT, seed=_LONG),
    ]
)
"""`replicas`: broker ids, preferred leader (`leader`) first. `start_index` and `shift` (at this partition) are null for
striped; `seed` is null if nothing was drawn."""

REJECTED = StructType([*_TOPIC, *required(code=_STRING, detail=_STRING)])

# --- reassign ---------------------------------------------------------------------------------------------

SIZES = StructType([*_TOPIC, *required(partition=_INT), *nullable(bytes=_LONG)])
"""Bytes of one replica of each partition. An unknown size counts as the mean of its cluster."""

REMOVED = StructType(_BROKER)
ADDED = StructType([*_BROKER, *nullable(rack_id=_STRING)])
RACKS = ADDED
FACTORS = StructType([*_TOPIC, *required(replication_factor=_INT)])
PARTITIONS = StructType([*_TOPIC, *required(partitions=_INT)])
"""The tables of a `ClusterChange`."""

PLACEMENT = StructType(
    [
        *_TOPIC,
        *required(partition=_INT),
        *nullable(previous_replicas=_IDS),
        *required(replicas=_IDS, leader=_INT, moved=_INT, leader_changed=_BOOLEAN),
        *nullable(bytes=_LONG),
    ]
)
"""`previous_replicas`: replicas before the reassignment; null for a new partition. `moved`: number of replicas on
brokers that didn't have the partition. `leader_changed`: whether the preferred leader changes. `bytes`: of one
replica."""

MOVES = StructType(
    [
        *_TOPIC,
        *required(partition=_INT),
        *nullable(from_broker_id=_INT),
        *required(to_broker_id=_INT, reason=_STRING),
        *nullable(bytes=_LONG),
    ]
)
"""`reason`: removed-broker, fenced-broker, rack, replication-factor (with a null `from_broker_id`), or balance."""

METRICS = StructType(
    [
        *required(cluster=_STRING, brokers=_LONG, partitions=_LONG, replicas=_LONG, new_partitions=_LONG),
        *required(moved=_LONG, required_moves=_LONG, lower_bound=_LONG, moves_above_bound=_LONG),
        *nullable(moved_bytes=_LONG, lower_bound_bytes=_LONG),
        *required(leaders_changed=_LONG, leaders_reordered=_LONG),
        *required(min_replicas=_LONG, max_replicas=_LONG, brokers_out_of_tolerance=_LONG),
        *required(min_leaders=_LONG, max_leaders=_LONG, leaders_out_of_tolerance=_LONG),
    ]
)
"""One row per cluster. `brokers`: brokers that can have replicas. `moved`: moved replicas; `required_moves`: minimum
that the hard constraints require; `lower_bound`: no plan with the same tolerance moves fewer; `moves_above_bound`:
`moved` less `lower_bound`. `leaders_reordered`: changes of the preferred leader in partitions without moves.
`brokers_out_of_tolerance`, `leaders_out_of_tolerance`: brokers out of tolerance of their share of replicas (of bytes if
sizes are known), and of preferred leaders."""

CLUSTER_REJECTED = StructType(required(cluster=_STRING, code=_STRING, detail=_STRING))

TOOL_FILES = StructType(
    [
        *required(cluster=_STRING, kind=_STRING),
        *nullable(batch=_INT),
        *required(name=_STRING, partitions=_INT),
        *nullable(bytes=_LONG),
        *required(content=_STRING),
    ]
)
"""`kind`: reassign, rollback, or preferred-leaders (without a batch). `bytes`: bytes that the batch moves."""

# --- check ------------------------------------------------------------------------------------------------

BROKER_CHECK = StructType(
    [
        *_BROKER,
        *nullable(rack_id=_STRING, fenced=_BOOLEAN),
        *required(replicas=_LONG, leaders=_LONG),
        *nullable(replicas_over_mean=_DOUBLE, leaders_over_mean=_DOUBLE),
    ]
)
"""`leaders`: partitions whose preferred leader the broker is. The mean is that of the unfenced brokers. `fenced` is
null for a broker that only `replicas` lists."""

RACK_CHECK = StructType(
    [*required(cluster=_STRING), *nullable(rack_id=_STRING), *required(brokers=_LONG, replicas=_LONG, leaders=_LONG)]
)

PROBLEMS = StructType([*_TOPIC, *required(partition=_INT, code=_STRING, detail=_STRING)])

CLUSTER_CHECK = StructType(
    [
        *required(cluster=_STRING, brokers=_LONG, partitions=_LONG, replicas=_LONG),
        *nullable(min_replicas_over_mean=_DOUBLE, max_replicas_over_mean=_DOUBLE),
        *nullable(min_leaders_over_mean=_DOUBLE, max_leaders_over_mean=_DOUBLE),
        *required(shared_rack=_LONG, fenced_broker=_LONG, unknown_broker=_LONG, duplicate_replica=_LONG),
        *required(too_few_replicas=_LONG, uneven_replication_factor=_LONG),
    ]
)
"""`brokers`: unfenced brokers. The last six columns: partitions with each problem."""
