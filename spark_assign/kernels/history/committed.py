"""What groups commit, how fast, and the gaps between: a row per topic, which lists its partitions. By columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_assign.kernels.history.pieces import Piece
from spark_assign.kernels.history.slots import Slots
from spark_assign.kernels.history.told import AGAIN, COMMITS, PARTITION, TOLD, table_of
from spark_assign.kernels.segments import first_of_each


def committed(piece: Piece) -> pa.Table:
    """TOLD: a row per topic of which a group commits partitions.

    What was only deleted, and never committed on record, is not listed.
    """
    slots, whole = piece.slots, piece.slots.whole
    if not len(slots.group):
        return TOLD.empty_table()
    first = slots.first[:-1]
    begins = np.flatnonzero(first_of_each(whole.topic[first]))
    columns = (slots.partition, whole.from_ms[first], whole.first_offset[first])
    parts = [*(pa.array(column, field.type) for column, field in zip(columns, PARTITION, strict=False)), _again(slots)]
    lists = pa.ListArray.from_arrays(
        pa.array(np.append(begins, len(first)), pa.int32()), pa.StructArray.from_arrays(parts, fields=list(PARTITION))
    )
    group = pa.array(slots.group[begins])
    told = {
        "cluster": piece.clusters.take(group),
        "group_id": piece.names.take(group),
        "kind": pa.array([COMMITS] * len(begins)),
        "topic": slots.topic.take(pa.array(begins)).cast(pa.string()),
        "committed": lists,
    }
    return table_of(told, len(begins))


def _again(slots: Slots) -> pa.StructArray:
    """What there is to say of partitions that were committed more than once, or deleted."""
    whole, first, last = slots.whole, slots.first[:-1], slots.first[1:] - 1
    commits = np.add.reduceat(whole.commits, first)
    silent = whole.from_ms - np.roll(whole.until_ms, 1)
    silent[first] = 0
    until, until_offset = whole.until_ms[last], whole.last_offset[last]
    took, went = (until - whole.from_ms[first]).astype(float), until_offset.astype(float) - whole.first_offset[first]
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = pa.array(went * 1000 / took, mask=took == 0)
    numbers = (last - first, np.maximum.reduceat(silent, first), slots.deleted)
    parts = [*map(pa.array, (commits, until, until_offset)), rate, *map(pa.array, numbers)]
    once = (commits == 1) & (slots.deleted == 0)
    return pa.StructArray.from_arrays(parts, fields=list(AGAIN), mask=pa.array(once))
