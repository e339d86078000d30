"""Checks placement requests and places chunks of their partitions, as Arrow tables.

A chunk is a range of consecutive partitions of one topic. An input row of `place_all_chunks` is a cluster with its
brokers and a list of chunks; an output row has the replicas of a few partitions of one topic, so that names are
repeated less often than in a row per partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from spark_assign.groups.kernel.tagged_rows import row_schema
from spark_assign.java.random import JavaRandom, draw_pairs
from spark_assign.numeric.arrays import MAX_PARTITIONS, IntArray
from spark_assign.replicas.kernel import admin_utils
from spark_assign.replicas.kernel import striped_replica_placer as striped
from spark_assign.replicas.kernel.cluster_brokers import (
    INT_OVERFLOW,
    INVALID_PARTITIONS,
    ClusterBrokers,
    PlacementError,
    to_cluster_brokers,
)

ADMINUTILS, STRIPED = "adminutils", "striped"

_INT_MAX = 2**31 - 1

VALIDATED_REQUESTS = row_schema(
    "cluster string, topic string, first int32, partitions int32, replication_factor int32, start_index int32",
    "base int32, seed int64, brokers int32, racked int32, code string, detail string",
).remove(0)
"""One row per request. `first` is its first partition; `base` is that of `admin_utils.shift_base`. `start_index` and
`base` are null for striped; `seed` is null if nothing was drawn. `code` is not null if the request is rejected."""

CHUNK_PARTITIONS = 8192
"""Maximum number of partitions in a chunk."""

_CHUNK = "cluster string, topic string, first int32, start_index int32, base int32, brokers int32, seed int64"
PLACED_CHUNKS = (
    row_schema(_CHUNK, "replication_factor int32, count int32")
    .remove(0)
    .append(pa.field("placed", pa.list_(pa.int32())))
)
"""`placed` concatenates the replicas of the `count` partitions `first`, `first` + 1, …: a flat array is far cheaper to
transfer than an array of arrays. The other columns are those of `VALIDATED_REQUESTS`."""

_ROW_PARTITIONS = 32
"""Maximum number of partitions in a row of `PLACED_CHUNKS`. Sail copies `placed` for each of its partitions."""


def validate_requests(requests: pa.Table, algorithm: str) -> pa.Table:
    """Checks requests as Kafka does, and draws their random start positions.

    Args:
        requests: cluster, topic, partitions?, replication_factor?, start_index?, start_partition?, seed (if a number
            is drawn), brokers, racked, unfenced (the numbers of such brokers in the cluster), overlaps (whether
            another request has a partition of this one), many_racks? (the racks of the cluster in the order of its
            brokers; null if they are too few to treeify a hash bucket). A question mark means nullable.
        algorithm: `adminutils` or `striped`.

    Returns:
        A table with the schema `VALIDATED_REQUESTS`.
    """
    rows = requests.to_pylist()
    errors = [_find_error(row, algorithm) for row in rows]
    if algorithm == STRIPED:
        # Kafka's class counts the partitions of a call from 0, whatever the start partition of the call.
        rows = [row | {"first": 0, "start_index": None} for row in rows]
    else:
        _add_starts(rows, errors)
    for row, error in zip(rows, errors, strict=True):
        if error is not None:
            row |= {"code": error.code, "detail": error.message}
    return pa.Table.from_pylist(rows, VALIDATED_REQUESTS)


def _add_starts(rows: list[dict[str, Any]], errors: list[PlacementError | None]) -> None:
    """Adds the starts of adminutils to valid requests, and an error for a request whose indexes overflow, in place."""
    drawn = [index for index, row in enumerate(rows) if errors[index] is None and _has_no_start(row)]
    seeds, bounds = (np.array([rows[index][name] for index in drawn], np.int64) for name in ("seed", "brokers"))
    draws = dict(zip(drawn, np.column_stack(draw_pairs(seeds, bounds)).tolist(), strict=True))
    for index, row in enumerate(rows):
        start, shift = draws.get(index, [row["start_index"]] * 2)
        row |= {"first": max(0, row["start_partition"] or 0), "start_index": None}
        row["seed"] = row["seed"] if index in draws else None
        errors[index] = errors[index] or _find_overflow(row, start, shift)
        if errors[index] is None:
            row |= {"start_index": start, "base": admin_utils.shift_base(shift, row["first"], row["brokers"])}


def _has_no_start(row: dict[str, Any]) -> bool:
    return row["start_index"] is None or row["start_index"] < 0


def _find_error(row: dict[str, Any], algorithm: str) -> PlacementError | None:
    """Returns the reason why a request is rejected, or None."""
    partitions, replication_factor = row["partitions"], row["replication_factor"]
    if partitions is None or replication_factor is None:
        column = "partitions" if partitions is None else "replication_factor"
        return PlacementError("null-value", f"requests.{column} is null or out of range. Add the value")
    if row["overlaps"]:
        message = "Another row of requests has partitions of this row. Keep one of the rows"
        return PlacementError("duplicate-request", message)
    if partitions > MAX_PARTITIONS:
        message = f"requests.partitions is {partitions:,}, expected at most {MAX_PARTITIONS:,}. Correct the number"
        return PlacementError("too-many-partitions", message)
    if algorithm == STRIPED:
        error = striped.find_error(replication_factor, row["brokers"], row["unfenced"])
        if partitions < 0:  # the controller's message; its placer would throw IllegalArgumentException
            message = "Number of partitions was set to an invalid non-positive value."
            error = error or PlacementError(INVALID_PARTITIONS, message)
        return error or striped.find_order_error(row.get("many_racks") or [])
    return admin_utils.find_error(partitions, replication_factor, row["brokers"], row["racked"])


def _find_overflow(row: dict[str, int], start: int, shift: int) -> PlacementError | None:
    """Returns an error if an index or a shift of the request exceeds Java's int, or None."""
    last = row["first"] + row["partitions"] - 1
    rounds = last // row["brokers"] + 1
    max_candidate = (shift + rounds) * max(1, row["racked"]) + 2 * row["brokers"]
    if max(last + start, max_candidate) <= _INT_MAX:
        return None
    detail = f"Partition {last} with start index {start} overflows Kafka's arithmetic. Use a smaller start_index"
    return PlacementError(INT_OVERFLOW, detail)


# --- chunks


def place_all_chunks(batches: Iterable[pa.RecordBatch], algorithm: str) -> Iterator[pa.RecordBatch]:
    """Places the chunks of each row.

    Args:
        batches: cluster, broker_list (a list of broker_id, rack_id, fenced in Kafka's order), chunks (a list of topic,
            first, count, replication_factor, start_index, base, seed). With striped, a chunk is a complete request.
        algorithm: `adminutils` or `striped`.
    """
    for batch in batches:
        for row in batch.to_pylist():
            brokers = to_cluster_brokers(
                [(broker["broker_id"], broker["rack_id"], broker["fenced"]) for broker in row["broker_list"]]
            )
            for chunk in row["chunks"]:
                for first, replicas in _place_chunk(brokers, chunk, algorithm):
                    yield _to_batch(row["cluster"], len(brokers.ids), chunk, first, replicas)


def _place_chunk(brokers: ClusterBrokers, chunk: dict[str, Any], algorithm: str) -> Iterator[tuple[int, IntArray]]:
    """Yields chunks of a chunk: the first partition, and the broker ids with one row per partition."""
    replication_factor, first, count = chunk["replication_factor"], chunk["first"], chunk["count"]
    if algorithm == STRIPED:
        placements = islice(striped.place(brokers, replication_factor, JavaRandom(chunk["seed"])), count)
        for start in range(first, first + count, CHUNK_PARTITIONS):
            yield start, np.array(list(islice(placements, CHUNK_PARTITIONS)), np.int64)
    else:
        start_index, base = chunk["start_index"], chunk["base"]
        yield (
            first,
            admin_utils.assign_replicas_to_brokers(brokers, replication_factor, start_index, base, first, count),
        )


def _to_batch(cluster: str, num_brokers: int, chunk: dict[str, Any], first: int, replicas: IntArray) -> pa.RecordBatch:
    bounds = np.append(np.arange(0, len(replicas), _ROW_PARTITIONS), len(replicas)).astype(np.int32)
    placed = pa.ListArray.from_arrays(bounds * replicas.shape[1], replicas.ravel().astype(np.int32))
    by_row = {"first": pa.array(first + bounds[:-1]), "count": pa.array(np.diff(bounds)), "placed": placed}
    same = chunk | {"cluster": cluster, "brokers": num_brokers}
    columns = [
        by_row.get(field.name, pa.repeat(pa.scalar(same.get(field.name), field.type), len(placed)))
        for field in PLACED_CHUNKS
    ]
    return pa.RecordBatch.from_arrays(columns, schema=PLACED_CHUNKS)
