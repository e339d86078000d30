"""Every table that `spark_assign.replicas` reads or writes; what a nullable field means is told in `schemas`."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

_STRING, _INT, _LONG, _BOOLEAN = StringType(), IntegerType(), LongType(), BooleanType()


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
        *_required(placed=ArrayType(_IDS)),
    ]
)
"""`kernels.replicas.tiles.PLACED`."""
