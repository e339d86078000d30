"""Requests for placement as an Arrow table: which are refused, and where the others start."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from spark_assign.java.random import draw_pairs
from spark_assign.replicas.kernel import admin_utils, striped
from spark_assign.replicas.kernel.broker_list import BEYOND_INT, PlacementError

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
"""A row per request. `first` is its first partition; `base` as in `admin_utils.shift_base`. `start_index` and `base`
are null for striped; `seed` is null where nothing was drawn. Where `code` is not null the request is refused."""


def admit(requests: pa.Table, algorithm: str) -> pa.Table:
    """Check requests as Kafka does and draw what is left to chance.

    Args:
        requests: cluster, topic, partitions?, replication_factor?, start_index?, start_partition?, seed (where a number
            is drawn from it), brokers, racked, unfenced (of the cluster: how many of those), overlaps (whether another
            request asks for a partition of this one), many_racks? (of the cluster, in the order of its brokers; null
            where they are so few that they cannot crowd a bucket); null only where there is a question mark.
        algorithm: `adminutils` or `striped`.

    Returns:
        a table of `ADMITTED`.
    """
    rows = requests.to_pylist()
    refusals = [_refuse(row, algorithm) for row in rows]
    first = np.array([max(0, row["start_partition"] or 0) for row in rows], np.int64)
    given = np.array([-1 if row["start_index"] is None else row["start_index"] for row in rows], np.int64)
    drawing = (given < 0) & (np.array([each is None for each in refusals], bool))
    result: dict[str, list[object]] = {
        name: requests[name].to_pylist()
        for name in ("cluster", "topic", "partitions", "replication_factor", "seed", "brokers", "racked")
    }
    result["first"] = first.tolist()
    if algorithm == ADMINUTILS:
        start, shift = given.copy(), given.copy()
        seeds = np.array([row["seed"] for row in rows], np.int64)
        bounds = np.array([row["brokers"] for row in rows], np.int64)
        start[drawing], shift[drawing] = draw_pairs(seeds[drawing], bounds[drawing])
        base = [
            None if refused else admin_utils.shift_base(*of)
            for refused, *of in zip(refusals, shift.tolist(), first.tolist(), bounds.tolist(), strict=True)
        ]
        refusals = [
            refused or _beyond_int(row, int(start[at]), int(shift[at]))
            for at, (refused, row) in enumerate(zip(refusals, rows, strict=True))
        ]
        result["start_index"] = [None if each else at for each, at in zip(refusals, start.tolist(), strict=True)]
        result["base"] = [None if each else at for each, at in zip(refusals, base, strict=True)]
        result["seed"] = [seed if drawn else None for seed, drawn in zip(result["seed"], drawing, strict=True)]
    else:
        result["start_index"] = result["base"] = [None] * len(rows)
        # The class counts the partitions of a call from 0, whatever the call's start partition is.
        result["first"] = [0] * len(rows)
    result["code"] = [None if each is None else each.code for each in refusals]
    result["detail"] = [None if each is None else each.message for each in refusals]
    return pa.table(
        {name: pa.array(result[name], kind) for name, kind in zip(ADMITTED.names, ADMITTED.types, strict=True)}
    )


def _refuse(row: dict[str, Any], algorithm: str) -> PlacementError | None:
    """Why a request is not placed; null where it is."""
    partitions, replication_factor = row["partitions"], row["replication_factor"]
    if partitions is None or replication_factor is None:
        column = "partitions" if partitions is None else "replication_factor"
        return PlacementError(NULL_VALUE, f"requests.{column} is null or beyond int. Fill it in")
    if row["overlaps"]:
        return PlacementError(
            DUPLICATE_REQUEST, "Another row of requests asks for partitions of this one. Keep one of them"
        )
    if algorithm == STRIPED:
        refused = striped.refuse(replication_factor, row["brokers"], row["unfenced"])
        return refused or striped.refuse_order(row.get("many_racks") or [])
    return admin_utils.refuse(partitions, replication_factor, row["brokers"], row["racked"])


def _beyond_int(row: dict[str, int], start: int, shift: int) -> PlacementError | None:
    """Where an index or a shift of this request would leave the range of an int."""
    last = max(0, row["start_partition"] or 0) + row["partitions"] - 1
    rounds = last // row["brokers"] + 1
    furthest = (shift + rounds) * max(1, row["racked"]) + 2 * row["brokers"]
    if max(last + start, furthest) <= _INT_MAX:
        return None
    detail = f"Partition {last} from start index {start} is more than Kafka can count. Give a smaller start_index"
    return PlacementError(BEYOND_INT, detail)
