"""Stretches of partitions placed by the kernels, many at a time, as Arrow rows.

A row that comes in is some work on one cluster: its brokers, and a list of tiles (stretches of one topic's partitions).
A row that goes out is a tile with the replicas of its partitions in order, so that names are not repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from spark_assign.java.random import JavaRandom
from spark_assign.numeric.array_types import IntArray
from spark_assign.replicas.kernel import admin_utils, striped
from spark_assign.replicas.kernel.broker_list import BrokerList, layout
from spark_assign.replicas.kernel.placement_requests import STRIPED

TILE = 8192
"""Partitions in a tile at most."""

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
"""`placed` holds the replicas of partition `first`, then those of `first` + 1, … (`count` of them), without a seam:
a flat array is far cheaper to hand over than one of arrays. The other columns are as in `requests.ADMITTED`."""


def place_tiles(batches: Iterable[pa.RecordBatch], algorithm: str) -> Iterator[pa.RecordBatch]:
    """Place what some rows ask for.

    Args:
        batches: cluster, line (a list of broker_id, rack_id, fenced in Kafka's order), tiles (a list of topic, first,
            count, replication_factor, start_index, base, seed). With striped a tile is a whole request.
        algorithm: `adminutils` or `striped`.
    """
    for batch in batches:
        for row in batch.to_pylist():
            brokers = layout([(each["broker_id"], each["rack_id"], each["fenced"]) for each in row["line"]])
            for tile in row["tiles"]:
                for first, placed in _placed(brokers, tile, algorithm):
                    yield _as_row(row["cluster"], len(brokers.ids), tile, first, placed)


def _placed(brokers: BrokerList, tile: dict[str, Any], algorithm: str) -> Iterator[tuple[int, IntArray]]:
    """Parts of a tile: the first partition, and a row per partition."""
    replication_factor, first, count = tile["replication_factor"], tile["first"], tile["count"]
    if algorithm == STRIPED:
        random = JavaRandom(tile["seed"])
        for number, part in enumerate(striped.place_many(brokers, replication_factor, random, TILE, count)):
            yield first + number * TILE, part
    else:
        yield first, admin_utils.place(brokers, replication_factor, tile["start_index"], tile["base"], first, count)


def _as_row(cluster: str, brokers: int, tile: dict[str, Any], first: int, placed: IntArray) -> pa.RecordBatch:
    partitions, replication_factor = placed.shape
    flat = pa.array(placed.ravel().astype(np.int32))
    whole = pa.ListArray.from_arrays(pa.array([0, len(flat)], pa.int32()), flat)
    values = [cluster, tile["topic"], first, tile["start_index"], tile["base"], brokers, tile["seed"]]
    values += [replication_factor, partitions]
    columns = [pa.array([value], kind) for value, kind in zip(values, PLACED.types[:-1], strict=True)]
    return pa.RecordBatch.from_arrays([*columns, whole], schema=PLACED)
