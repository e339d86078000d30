"""What groups commit, how fast, and the gaps between: a row per topic, which lists its partitions. By columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_assign.kernels.history.pieces import Piece
from spark_assign.kernels.history.told import COMMITS, TOLD, partitions_of, table_of
from spark_assign.kernels.segments import first_of_each


def committed(piece: Piece) -> pa.Table:
    """TOLD: a row per topic of which a group commits partitions.

    What was only deleted, and never committed on record, is not listed.
    """
    slots, whole = piece.slots, piece.slots.whole
    if not len(slots.group):
        return TOLD.empty_table()
    first, last = slots.first[:-1], slots.first[1:] - 1
    silent = whole.from_ms - np.roll(whole.until_ms, 1)
    silent[first] = 0
    since, until = whole.from_ms[first], whole.until_ms[last]
    since_offset, until_offset = whole.first_offset[first], whole.last_offset[last]
    took, went = (until - since).astype(float), until_offset.astype(float) - since_offset.astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = pa.array(went * 1000 / took, mask=took == 0)
    partitions = {
        "partition": slots.partition,
        "commits": np.add.reduceat(whole.commits, first),
        "since": since,
        "until": until,
        "first_offset": since_offset,
        "last_offset": until_offset,
        "gaps": last - first,
        "longest_gap_ms": np.maximum.reduceat(silent, first),
        "deleted": slots.deleted,
    }
    begins = np.flatnonzero(first_of_each(whole.topic[first]))
    group = pa.array(slots.group[begins])
    columns = {
        "cluster": piece.clusters.take(group),
        "group_id": piece.names.take(group),
        "kind": pa.array([COMMITS] * len(begins)),
        "topic": slots.topic.take(pa.array(begins)).cast(pa.string()),
        "committed": partitions_of(begins, partitions, rate),
    }
    return table_of(columns, len(begins))
