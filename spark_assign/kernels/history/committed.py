"""Rows of COMMITS: what groups commit, how fast, and the gaps between. By columns, as these rows are the most."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_assign.kernels.arrays import Ints
from spark_assign.kernels.history.pieces import Piece
from spark_assign.kernels.history.slots import Slots
from spark_assign.kernels.history.told import COMMITS, TOLD, table_of


def committed(piece: Piece) -> pa.Table:
    """TOLD: a row per partition that a group commits, but for the lag.

    Who was only deleted, and never committed on record, has none.
    """
    slots = piece.slots
    if slots is None:
        return TOLD.empty_table()
    whole = slots.whole
    first, last = slots.first[:-1], slots.first[1:] - 1
    silent = whole.from_ms - np.roll(whole.until_ms, 1)
    silent[first] = 0
    since, until = whole.from_ms[first], whole.until_ms[last]
    since_offset, until_offset = whole.first_offset[first], whole.last_offset[last]
    took, went = (until - since).astype(float), until_offset.astype(float) - since_offset.astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = pa.array(went * 1000 / took, mask=took == 0)
    group = pa.array(slots.group)
    columns = {
        "cluster": piece.clusters.take(group),
        "group_id": piece.names.take(group),
        "kind": pa.array([COMMITS]).take(pa.array(np.zeros(len(group), np.int64))),
        "topic": slots.topic.cast(pa.string()),
        "partition": pa.array(slots.partition),
        "commits": pa.array(np.add.reduceat(whole.commits, first)),
        "since": pa.array(since),
        "until": pa.array(until),
        "first_offset": pa.array(since_offset),
        "last_offset": pa.array(until_offset),
        "rate": rate,
        "gaps": pa.array(last - first),
        "longest_gap_ms": pa.array(np.maximum.reduceat(silent, first)),
        "deleted": pa.array(_deleted(piece, slots)),
    }
    return table_of(columns, len(group))


def _deleted(piece: Piece, slots: Slots) -> Ints:
    """Tombstones of each slot."""
    found = np.zeros(len(slots.group), np.int64)
    gone = piece.deleted()
    if gone:
        names = slots.topic.to_pylist()
        for place, (group, slot) in enumerate(
            zip(slots.group.tolist(), zip(names, slots.partition.tolist(), strict=True), strict=True)
        ):
            found[place] = gone[group].get(slot, 0) if group in gone else 0
    return found
