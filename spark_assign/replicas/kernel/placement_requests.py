"""Checks placement requests and places tiles of their partitions, as Arrow tables.

A tile is a range of consecutive partitions of one topic. An input row of `place_tiles` is a cluster with its brokers
and a list of tiles; an output row is one tile with the replicas of its partitions, so that names aren't repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from spark_assign.java.random import JavaRandom, draw_pairs
from spark_assign.numeric.array_types import IntArray
from spark_assign.replicas.kernel import admin_utils
from spark_assign.replicas.kernel import striped_replica_placer as striped
from spark_assign.replicas.kernel.cluster_brokers import BEYOND_INT, ClusterBrokers, PlacementError, to_cluster_brokers

ADMINUTILS, STRIPED = "adminutils", "striped"

NULL_VALUE = "null-value"
DUPLICATE_REQUEST = "duplicate-request"

_INT_MAX = 2**31 - 1

ADMITTED = pa.schema(
    [
        ("cluster", pa.string()),
        ("topic", pa.string()),
        ("first", pa.int32()),
        ("partitions", pa.int32()),
        ("replication_factor", pa.int32()),
        ("start_index", pa.int32()),
        ("base", pa.int32()),
        ("seed", pa.int64()),
        ("brokers", pa.int32()),
        ("racked", pa.int32()),
        ("code", pa.string()),
        ("detail", pa.string()),
    ]
)
"""One row per request. `first` is its first partition; `base` is that of `admin_utils.shift_base`. `start_index` and
`base` are null for striped; `seed` is null if nothing was drawn. `code` is not null if the request is rejected."""

TILE = 8192
"""Maximum number of partitions in a tile."""

PLACED = pa.schema(
    [
        ("cluster", pa.string()),
        ("topic", pa.string()),
        ("first", pa.int32()),
        ("start_index", pa.int32()),
        ("base", pa.int32()),
        ("brokers", pa.int32()),
        ("seed", pa.int64()),
        ("replication_factor", pa.int32()),
        ("count", pa.int32()),
        ("placed", pa.list_(pa.int32())),
    ]
)
"""`placed` concatenates the replicas of the `count` partitions `first`, `first` + 1, …: a flat array is far cheaper to
transfer than an array of arrays. The other columns are those of `ADMITTED`."""


def admit(requests: pa.Table, algorithm: str) -> pa.Table:
    """Checks requests as Kafka does, and draws their random start positions.

    Args:
        requests: cluster, topic, partitions?, replication_factor?, start_index?, start_partition?, seed (if a number
            is drawn), brokers, racked, unfenced (the numbers of such brokers in the cluster), overlaps (whether
            another request has a partition of this one), many_racks? (the racks of the cluster in the order of its
            brokers; null if they are too few to treeify a hash bucket). A question mark means nullable.
        algorithm: `adminutils` or `striped`.

    Returns:
        A table with the schema `ADMITTED`.
    """
    rows = requests.to_pylist()
    errors = [_find_error(row, algorithm) for row in rows]
    first = np.array([max(0, row["start_partition"] or 0) for row in rows], np.int64)
    requested = np.array([-1 if row["start_index"] is None else row["start_index"] for row in rows], np.int64)
    is_drawn = (requested < 0) & (np.array([error is None for error in errors], bool))
    result: dict[str, list[object]] = {
        name: requests[name].to_pylist()
        for name in ("cluster", "topic", "partitions", "replication_factor", "seed", "brokers", "racked")
    }
    result["first"] = first.tolist()
    if algorithm == ADMINUTILS:
        start, shift = requested.copy(), requested.copy()
        seeds = np.array([row["seed"] for row in rows], np.int64)
        bounds = np.array([row["brokers"] for row in rows], np.int64)
        start[is_drawn], shift[is_drawn] = draw_pairs(seeds[is_drawn], bounds[is_drawn])
        base = [
            None if error else admin_utils.shift_base(*args)
            for error, *args in zip(errors, shift.tolist(), first.tolist(), bounds.tolist(), strict=True)
        ]
        errors = [
            error or _find_overflow(row, int(start[index]), int(shift[index]))
            for index, (error, row) in enumerate(zip(errors, rows, strict=True))
        ]
        result["start_index"] = [None if error else value for error, value in zip(errors, start.tolist(), strict=True)]
        result["base"] = [None if error else value for error, value in zip(errors, base, strict=True)]
        result["seed"] = [seed if drawn else None for seed, drawn in zip(result["seed"], is_drawn, strict=True)]
    else:
        result["start_index"] = result["base"] = [None] * len(rows)
        # Kafka's class counts the partitions of a call from 0, whatever the start partition of the call.
        result["first"] = [0] * len(rows)
    result["code"] = [None if error is None else error.code for error in errors]
    result["detail"] = [None if error is None else error.message for error in errors]
    return pa.table(
        {name: pa.array(result[name], kind) for name, kind in zip(ADMITTED.names, ADMITTED.types, strict=True)}
    )


def _find_error(row: dict[str, Any], algorithm: str) -> PlacementError | None:
    """Returns the reason why a request is rejected, or None."""
    partitions, replication_factor = row["partitions"], row["replication_factor"]
    if partitions is None or replication_factor is None:
        column = "partitions" if partitions is None else "replication_factor"
        return PlacementError(NULL_VALUE, f"requests.{column} is null or beyond int. Fill it in")
    if row["overlaps"]:
        return PlacementError(
            DUPLICATE_REQUEST, "Another row of requests asks for partitions of this one. Keep one of them"
        )
    if algorithm == STRIPED:
        error = striped.find_error(replication_factor, row["brokers"], row["unfenced"])
        return error or striped.find_order_error(row.get("many_racks") or [])
    return admin_utils.find_error(partitions, replication_factor, row["brokers"], row["racked"])


def _find_overflow(row: dict[str, int], start: int, shift: int) -> PlacementError | None:
    """Returns an error if an index or a shift of the request exceeds Java's int, or None."""
    last = max(0, row["start_partition"] or 0) + row["partitions"] - 1
    rounds = last // row["brokers"] + 1
    max_candidate = (shift + rounds) * max(1, row["racked"]) + 2 * row["brokers"]
    if max(last + start, max_candidate) <= _INT_MAX:
        return None
    detail = f"Partition {last} from start index {start} is more than Kafka can count. Give a smaller start_index"
    return PlacementError(BEYOND_INT, detail)


# --- tiles


def place_tiles(batches: Iterable[pa.RecordBatch], algorithm: str) -> Iterator[pa.RecordBatch]:
    """Places the tiles of each row.

    Args:
        batches: cluster, line (a list of broker_id, rack_id, fenced in Kafka's order), tiles (a list of topic, first,
            count, replication_factor, start_index, base, seed). With striped, a tile is a complete request.
        algorithm: `adminutils` or `striped`.
    """
    for batch in batches:
        for row in batch.to_pylist():
            brokers = to_cluster_brokers(
                [(broker["broker_id"], broker["rack_id"], broker["fenced"]) for broker in row["line"]]
            )
            for tile in row["tiles"]:
                for first, replicas in _place_tile(brokers, tile, algorithm):
                    yield _to_batch(row["cluster"], len(brokers.ids), tile, first, replicas)


def _place_tile(brokers: ClusterBrokers, tile: dict[str, Any], algorithm: str) -> Iterator[tuple[int, IntArray]]:
    """Yields chunks of a tile: the first partition, and the broker ids with one row per partition."""
    replication_factor, first, count = tile["replication_factor"], tile["first"], tile["count"]
    if algorithm == STRIPED:
        random = JavaRandom(tile["seed"])
        for index, replicas in enumerate(striped.place_chunks(brokers, replication_factor, random, TILE, count)):
            yield first + index * TILE, replicas
    else:
        yield (
            first,
            admin_utils.assign_replicas_to_brokers(
                brokers, replication_factor, tile["start_index"], tile["base"], first, count
            ),
        )


def _to_batch(cluster: str, num_brokers: int, tile: dict[str, Any], first: int, replicas: IntArray) -> pa.RecordBatch:
    partitions, replication_factor = replicas.shape
    flat = pa.array(replicas.ravel().astype(np.int32))
    placed = pa.ListArray.from_arrays(pa.array([0, len(flat)], pa.int32()), flat)
    values = [cluster, tile["topic"], first, tile["start_index"], tile["base"], num_brokers, tile["seed"]]
    values += [replication_factor, partitions]
    columns = [pa.array([value], kind) for value, kind in zip(values, PLACED.types[:-1], strict=True)]
    return pa.RecordBatch.from_arrays([*columns, placed], schema=PLACED)
