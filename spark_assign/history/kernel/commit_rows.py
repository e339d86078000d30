"""What groups commit, how fast, and the gaps between: rows per topic, which list its partitions. By columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_assign.history.kernel.binary_column import lists_of
from spark_assign.history.kernel.commit_columns import CommitColumns
from spark_assign.history.kernel.group_chunks import GroupChunk
from spark_assign.history.kernel.history_rows import COMMITS, COMMITTED, TOLD, table_of
from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.segmented_arrays import starts_new_key


def committed(piece: GroupChunk) -> pa.Table:
    """TOLD: of each topic that a group commits a row of what it committed once, and one of all else.

    What was only deleted, and never committed on record, is not listed.
    """
    slots, first = piece.slots, piece.slots.first[:-1]
    once = (np.diff(slots.first) == 1) & (slots.whole.commits[first] == 1) & (slots.deleted == 0)
    told = [TOLD.empty_table()]
    for name, rows in (("once", np.flatnonzero(once)), ("again", np.flatnonzero(~once))):
        if len(rows):
            begins = np.flatnonzero(starts_new_key(slots.whole.topic[first[rows]]))
            columns = [slots.partition[rows], slots.whole.from_ms[first[rows]], slots.whole.first_offset[first[rows]]]
            more = _again(slots, rows) if name == "again" else []
            topics = rows[begins]
            group = pa.array(slots.group[topics])
            of_topics = {
                "cluster": piece.clusters.take(group),
                "group_id": piece.names.take(group),
                "kind": pa.array([COMMITS] * len(topics)),
                "topic": slots.topic.take(pa.array(topics)).cast(pa.string()),
                name: lists_of(COMMITTED[name], begins, [*columns, *more]),
            }
            told.append(table_of(of_topics, len(topics)))
    return pa.concat_tables(told)


def _again(slots: CommitColumns, rows: IntArray) -> list[IntArray | pa.Array]:
    """What there is to say of some partitions that were committed more than once, or deleted."""
    whole, first, last = slots.whole, slots.first[:-1], slots.first[1:] - 1
    commits = np.add.reduceat(whole.commits, first)
    silent = whole.from_ms - np.roll(whole.until_ms, 1)
    silent[first] = 0
    until, until_offset = whole.until_ms[last], whole.last_offset[last]
    took, went = (until - whole.from_ms[first]).astype(float), until_offset.astype(float) - whole.first_offset[first]
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = pa.array((went * 1000 / took)[rows], mask=took[rows] == 0)
    gaps, longest = last - first, np.maximum.reduceat(silent, first)
    return [commits[rows], until[rows], until_offset[rows], rate, gaps[rows], longest[rows], slots.deleted[rows]]
