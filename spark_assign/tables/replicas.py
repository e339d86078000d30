"""Every table that `spark_assign.replicas` reads or writes; what a nullable field means is told in `schemas`."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
)

from spark_assign.tables.schema_fields import nullable, required

_STRING, _INT, _LONG = StringType(), IntegerType(), LongType()
_BOOLEAN, _DOUBLE = BooleanType(), DoubleType()


_TOPIC = required(cluster=_STRING, topic=_STRING)
_IDS = ArrayType(_INT)

# --- place ------------------------------------------------------------------------------------------------

REQUESTS = StructType(
    [
        *_TOPIC,
        *required(partitions=_INT, replication_factor=_INT),
        *nullable(start_index=_INT, start_partition=_INT, seed=_LONG),
    ]
)
"""A call of a placer: so many partitions, from `start_partition` (0) on. A `start_index` of null or below 0 is drawn
from `seed`, as is all that striped leaves to chance; a null seed is drawn as well."""

BROKERS = StructType(
    [
        *required(cluster=_STRING, broker_id=_INT),
        *nullable(rack_id=_STRING, fenced=_BOOLEAN, position=_INT),
    ]
)
"""`position` is the order in which Kafka is given the brokers; those without one come last, by id."""

PLACEMENTS = StructType(
    [
        *_TOPIC,
        *required(partition=_INT, replicas=_IDS, leader=_INT),
        *nullable(start_index=_INT, shift=_INT, seed=_LONG),
    ]
)
"""`replicas` are broker ids, the preferred leader (`leader`) first. `start_index` and `shift` (the one at this
partition) are null for striped, `seed` where nothing was drawn."""

REJECTED = StructType([*_TOPIC, *required(code=_STRING, detail=_STRING)])

# --- reassign ---------------------------------------------------------------------------------------------

SIZES = StructType([*_TOPIC, *required(partition=_INT), *nullable(bytes=_LONG)])
"""Bytes of one replica of each partition; unknown ones are taken for the mean of their cluster."""

_BROKER = required(cluster=_STRING, broker_id=_INT)
REMOVED = StructType(_BROKER)
ADDED = StructType([*_BROKER, *nullable(rack_id=_STRING)])
RACKS = StructType([*_BROKER, *nullable(rack_id=_STRING)])
FACTORS = StructType([*_TOPIC, *required(replication_factor=_INT)])
PARTITIONS = StructType([*_TOPIC, *required(partitions=_INT)])
"""The tables of a `Change`."""

PLACEMENT = StructType(
    [
        *_TOPIC,
        *required(partition=_INT),
        *nullable(previous=_IDS),
        *required(replicas=_IDS, leader=_INT, moved=_INT, leader_changed=_BOOLEAN),
        *nullable(bytes=_LONG),
    ]
)
"""Replicas before (`previous`; null: the partition is new) and after. `moved`: replicas on brokers that did not have
the partition. `leader_changed`: another preferred leader than before. `bytes` is of one replica."""

MOVES = StructType(
    [
        *_TOPIC,
        *required(partition=_INT),
        *nullable(from_broker_id=_INT),
        *required(to_broker_id=_INT, reason=_STRING),
        *nullable(bytes=_LONG),
    ]
)
"""`reason`: removed-broker, fenced-broker, rack, replication-factor (then nothing is given up), balance."""

METRICS = StructType(
    [
        *required(
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
        *nullable(moved_bytes=_LONG, lower_bound_bytes=_LONG),
        *required(
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
"""`kind`: reassign, rollback or preferred-leaders (which has no batch). `bytes` are those that the batch moves."""

# --- check ------------------------------------------------------------------------------------------------

BROKER_CHECK = StructType(
    [
        *_BROKER,
        *nullable(rack_id=_STRING, fenced=_BOOLEAN),
        *required(replicas=_LONG, leaders=_LONG),
        *nullable(replicas_over_mean=_DOUBLE, leaders_over_mean=_DOUBLE),
    ]
)
"""`leaders`: partitions whose first replica it is. The mean is over the brokers that are not fenced. `fenced` is null
for a broker that only `replicas` names."""

RACK_CHECK = StructType(
    [*required(cluster=_STRING), *nullable(rack_id=_STRING), *required(brokers=_LONG, replicas=_LONG, leaders=_LONG)]
)

PROBLEMS = StructType([*_TOPIC, *required(partition=_INT, code=_STRING, detail=_STRING)])

CLUSTER_CHECK = StructType(
    [
        *required(cluster=_STRING, brokers=_LONG, partitions=_LONG, replicas=_LONG),
        *nullable(
            min_replicas_over_mean=_DOUBLE,
            max_replicas_over_mean=_DOUBLE,
            min_leaders_over_mean=_DOUBLE,
            max_leaders_over_mean=_DOUBLE,
        ),
        *required(
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
        *required(first=_INT),
        *nullable(partitions=_INT, replication_factor=_INT, start_index=_INT, base=_INT, seed=_LONG),
        *required(brokers=_INT, racked=_INT),
        *nullable(code=_STRING, detail=_STRING),
    ]
)
"""`replicas.kernel.placement_requests.ADMITTED`."""

PLACED = StructType(
    [
        *_TOPIC,
        *required(first=_INT),
        *nullable(start_index=_INT, base=_INT),
        *required(brokers=_INT),
        *nullable(seed=_LONG),
        *required(replication_factor=_INT, count=_INT, placed=_IDS),
    ]
)
"""`replicas.kernel.placement_requests.PLACED`."""

DECIDED = StructType(
    [
        *required(cluster=_STRING, kind=ByteType()),
        *nullable(
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
"""`replicas.kernel.reassign_table.DECIDED`."""
