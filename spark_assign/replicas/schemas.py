"""Every table that `spark_assign.replicas` reads or writes; what a nullable field means is told in `schemas`."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

_STRING, _INT, _LONG = StringType(), IntegerType(), LongType()
_BOOLEAN, _DOUBLE = BooleanType(), DoubleType()


def _required(**fields: DataType) -> list[StructField]:
    return [StructField(name, kind, nullable=False) for name, kind in fields.items()]


def _nullable(**fields: DataType) -> list[StructField]:
    return [StructField(name, kind, nullable=True) for name, kind in fields.items()]


_TOPIC = _required(cluster=_STRING, topic=_STRING)
_IDS = ArrayType(_INT)

# --- place ------------------------------------------------------------------------------------------------

REQUESTS = StructType(
    [
        *_TOPIC,
        *_required(partitions=_INT, replication_factor=_INT),
        *_nullable(start_index=_INT, start_partition=_INT, seed=_LONG),
    ]
)
"""A call of a placer: so many partitions, from `start_partition` (0) on. A `start_index` of null or below 0 is drawn
from `seed`, as is all that striped leaves to chance; a null seed is drawn as well."""

BROKERS = StructType(
    [
        *_required(cluster=_STRING, broker_id=_INT),
        *_nullable(rack_id=_STRING, fenced=_BOOLEAN, position=_INT),
    ]
)
"""`position` is the order in which Kafka is given the brokers; those without one come last, by id."""

PLACEMENTS = StructType(
    [
        *_TOPIC,
        *_required(partition=_INT, replicas=_IDS, leader=_INT),
        *_nullable(start_index=_INT, shift=_INT, seed=_LONG),
    ]
)
"""`replicas` are broker ids, the preferred leader (`leader`) first. `start_index` and `shift` (the one at this
partition) are null for striped, `seed` where nothing was drawn."""

REJECTED = StructType([*_TOPIC, *_required(code=_STRING, detail=_STRING)])

# --- reassign ---------------------------------------------------------------------------------------------

SIZES = StructType([*_TOPIC, *_required(partition=_INT), *_nullable(bytes=_LONG)])
"""Bytes of one replica of each partition; unknown ones are taken for the mean of their cluster."""

_BROKER = _required(cluster=_STRING, broker_id=_INT)
REMOVED = StructType(_BROKER)
ADDED = StructType([*_BROKER, *_nullable(rack_id=_STRING)])
RACKS = StructType([*_BROKER, *_nullable(rack_id=_STRING)])
FACTORS = StructType([*_TOPIC, *_required(replication_factor=_INT)])
PARTITIONS = StructType([*_TOPIC, *_required(partitions=_INT)])
"""The tables of a `Change`."""

PLACEMENT = StructType(
    [
        *_TOPIC,
        *_required(partition=_INT),
        *_nullable(previous=_IDS),
        *_required(replicas=_IDS, leader=_INT, moved=_INT, leader_changed=_BOOLEAN),
        *_nullable(bytes=_LONG),
    ]
)
"""Replicas before (`previous`; null: the partition is new) and after. `moved`: replicas on brokers that did not have
the partition. `leader_changed`: another preferred leader than before. `bytes` is of one replica."""

MOVES = StructType(
    [
        *_TOPIC,
        *_required(partition=_INT),
        *_nullable(from_broker_id=_INT),
        *_required(to_broker_id=_INT, reason=_STRING),
        *_nullable(bytes=_LONG),
    ]
)
"""`reason`: removed-broker, fenced-broker, rack, replication-factor (then nothing is given up), balance."""

METRICS = StructType(
    [
        *_required(
            cluster=_STRING,
            brokers=_LONG,
            partitions=_LONG,
            replicas=_LONG,
            new_partitions=_LONG,
            moved=_LONG,
            forced=_LONG,
            lower_bound=_LONG,
            distance=_LONG,
        ),
        *_nullable(moved_bytes=_LONG, lower_bound_bytes=_LONG),
        *_required(
            leaders_changed=_LONG,
            leaders_reordered=_LONG,
            min_replicas=_LONG,
            max_replicas=_LONG,
            brokers_outside=_LONG,
            min_leaders=_LONG,
            max_leaders=_LONG,
            leaders_outside=_LONG,
        ),
    ]
)
"""A row per cluster. `brokers` may have replicas. `moved` replicas, of which `forced` by the hard constraints; no plan
of the same tolerance moves fewer than `lower_bound`; `distance` is what `moved` is above it. `leaders_reordered` are
changes of leader in partitions of which nothing moves. `brokers_outside`: brokers not within the tolerance of their
share of replicas (of bytes where sizes are known), `leaders_outside` of preferred leaders."""

CLUSTER_REJECTED = StructType(_required(cluster=_STRING, code=_STRING, detail=_STRING))

TOOL_FILES = StructType(
    [
        *_required(cluster=_STRING, kind=_STRING),
        *_nullable(batch=_INT),
        *_required(name=_STRING, partitions=_INT),
        *_nullable(bytes=_LONG),
        *_required(content=_STRING),
    ]
)
"""`kind`: reassign, rollback or preferred-leaders (which has no batch). `bytes` are those that the batch moves."""

# --- check ------------------------------------------------------------------------------------------------

BROKER_CHECK = StructType(
    [
        *_BROKER,
        *_nullable(rack_id=_STRING, fenced=_BOOLEAN),
        *_required(replicas=_LONG, leaders=_LONG),
        *_nullable(replicas_over_mean=_DOUBLE, leaders_over_mean=_DOUBLE),
    ]
)
"""`leaders`: partitions whose first replica it is. The mean is over the brokers that are not fenced. `fenced` is null
for a broker that only `replicas` names."""

RACK_CHECK = StructType(
    [*_required(cluster=_STRING), *_nullable(rack_id=_STRING), *_required(brokers=_LONG, replicas=_LONG, leaders=_LONG)]
)

PROBLEMS = StructType([*_TOPIC, *_required(partition=_INT, code=_STRING, detail=_STRING)])

CLUSTER_CHECK = StructType(
    [
        *_required(cluster=_STRING, brokers=_LONG, partitions=_LONG, replicas=_LONG),
        *_nullable(
            min_replicas_over_mean=_DOUBLE,
            max_replicas_over_mean=_DOUBLE,
            min_leaders_over_mean=_DOUBLE,
            max_leaders_over_mean=_DOUBLE,
        ),
        *_required(
            shared_rack=_LONG,
            fenced_broker=_LONG,
            unknown_broker=_LONG,
            duplicate_replica=_LONG,
            too_few_replicas=_LONG,
            uneven_replication_factor=_LONG,
        ),
    ]
)
"""`brokers` are those that are not fenced; the last six are partitions with that problem."""

# --- inside ------------------------------------------------------------------------------------------------

ADMITTED = StructType(
    [
        *_TOPIC,
        *_required(first=_INT),
        *_nullable(partitions=_INT, replication_factor=_INT, start_index=_INT, base=_INT, seed=_LONG),
        *_required(brokers=_INT, racked=_INT),
        *_nullable(code=_STRING, detail=_STRING),
    ]
)
"""`kernels.replicas.requests.ADMITTED`."""

PLACED = StructType(
    [
        *_TOPIC,
        *_required(first=_INT),
        *_nullable(start_index=_INT, base=_INT),
        *_required(brokers=_INT),
        *_nullable(seed=_LONG),
        *_required(replication_factor=_INT, count=_INT, placed=_IDS),
    ]
)
"""`kernels.replicas.tiles.PLACED`."""

DECIDED = StructType(
    [
        *_required(cluster=_STRING, kind=ByteType()),
        *_nullable(
            topic=_STRING,
            partition=_INT,
            previous=_IDS,
            replicas=_IDS,
            moved_from=_IDS,
            moved_to=_IDS,
            reasons=ArrayType(_STRING),
            bytes=_LONG,
            figures=ArrayType(_LONG),
            code=_STRING,
            detail=_STRING,
        ),
    ]
)
"""`kernels.replicas.reassign_table.DECIDED`."""
