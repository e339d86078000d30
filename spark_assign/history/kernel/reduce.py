"""Raw records to facts, batch by batch: commits become intervals, records of groups go on as they are.

The time of a commit is that of its record and not the one in its value. It is of the same clock as the times of the
records about the group itself, with which pauses are compared; a tombstone has no other; and the one in the value was,
up to Kafka 3.9, whatever an old client (OffsetCommit request version 1) had sent. Where a record has no timestamp (logs
in the format of Kafka 0.9), that of the value counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from spark_assign.history.kernel import facts
from spark_assign.history.kernel.binary_column import BinaryColumn, codes_of, one_array
from spark_assign.history.kernel.commit_intervals import CommitIntervals, of_commits, pack_keys
from spark_assign.history.kernel.offset_commit_values import committed
from spark_assign.history.kernel.record_keys import CORRUPT, NEWER_VERSION, read_keys
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.wire.group_records import NAMES, NEWEST

RECORDS = pa.schema(
    [
        *(pa.field(name, kind) for name, kind in {"cluster": pa.string(), "partition": pa.int32()}.items()),
        *(pa.field(name, pa.int64()) for name in ("offset", "at_ms")),
        *(pa.field(name, pa.binary()) for name in ("key", "value")),
    ]
)
"""Records as they are reduced: `tables.history.RECORDS` with the timestamp in milliseconds."""

_END_OF_TIME_MS = 253_402_300_800_000
"""The year 10000: a later time in a value is none that a clock has said."""

_EVER = np.iinfo(np.int64).max


def reduced(records: pa.Table, gap_ms: int) -> pa.Table:
    """The facts that records say, in no particular order.

    Args:
        records: RECORDS, of any clusters and in any order.
        gap_ms: commits that are further apart belong to two intervals.

    Returns:
        FACTS. Each record is in one of them: commits and tombstones by count, all others as they are.
    """
    batch = _Batch(records)
    told = [batch.commits(gap_ms), batch.deleted(), batch.of_groups(), batch.unread()]
    return pa.concat_tables(told)


def as_facts(kind: str, rows: int, columns: Mapping[str, Any]) -> pa.Table:
    """Facts of a kind; a column that is not given is null."""
    given = {"kind": pa.DictionaryArray.from_arrays(np.zeros(rows, np.int8), [kind]), **columns}
    return pa.table(
        [
            pa.nulls(rows, field.type) if field.name not in given else _as(given[field.name], field.type)
            for field in facts.FACTS
        ],
        schema=facts.FACTS,
    )


class _Batch:
    """Records, what their keys say, and by row the code and detail of those that nothing can be made of."""

    def __init__(self, records: pa.Table) -> None:
        self._records = records = records.combine_chunks()
        self._keys = read_keys(records["key"])
        self._faults = dict(self._keys.faults)
        self._cluster, self._clusters = codes_of(records["cluster"])
        empty: BoolArray = records["value"].is_null().to_numpy()
        used = (self._keys.kind >= 0) & ~self._newer_versions(empty)
        of_commits = self._keys.of_commits
        self._commits = np.flatnonzero(used & of_commits & ~empty)
        self._deleted = np.flatnonzero(used & of_commits & empty)
        self._of_groups = np.flatnonzero(used & ~of_commits)

    def _newer_versions(self, empty: BoolArray) -> BoolArray:
        """Values of a version that is not known yet. They are kept, but not used: what it has anew may matter."""
        given = BinaryColumn(self._records["value"])
        version = np.where(given.end - given.begin >= 2, given.number(">i2", given.begin), 0)
        newest = np.full(max(NEWEST) + 2, _EVER)
        newest[list(NEWEST)] = list(NEWEST.values())
        newer: BoolArray = ~empty & (version > newest[self._keys.kind])
        for row in np.flatnonzero(newer).tolist():
            kind = int(self._keys.kind[row])
            detail = f"{NAMES[kind]} in version {version[row]}; the newest that is known is {NEWEST[kind]}"
            self._faults[row] = NEWER_VERSION, detail
        return newer

    def commits(self, gap_ms: int) -> pa.Table:
        """Intervals of commits; what cannot be read is a fault."""
        rows = self._commits
        read = committed(self._keys.kind[rows], _taken(self._records["value"], rows))
        self._faults |= {int(rows[row]): (CORRUPT, detail) for row, detail in read.faults.items()}
        at_ms = self._numbers("at_ms", rows)
        timeless = (at_ms < 0) & (read.commit_ms >= 0) & (read.commit_ms < _END_OF_TIME_MS)
        at_ms = np.where(timeless, read.commit_ms, at_ms)
        fine = read.fine
        rows, topic_id = rows[fine], read.topic_id[fine]
        topic = pack_keys(self._topics(rows), topic_id)
        some, row = of_commits(topic, self._keys.partition[rows], at_ms[fine], read.offset[fine], gap_ms)
        topic_ids = pa.DictionaryArray.from_arrays(topic_id[row], pa.array(read.topic_ids, pa.string()))
        return self._of_topics(facts.COMMITS, some, rows[row], topic_ids)

    def deleted(self) -> pa.Table:
        """Tombstones of commits, counted by partition."""
        rows = self._deleted
        none = np.zeros(len(rows), np.int64)
        at_ms = self._numbers("at_ms", rows)
        some, row = of_commits(self._topics(rows), self._keys.partition[rows], at_ms, none, _EVER)
        return self._of_topics(facts.DELETED, some, rows[row])

    def of_groups(self) -> pa.Table:
        """Records about groups, as they are."""
        return self._as_they_are(facts.RECORD, self._of_groups, {})

    def unread(self) -> pa.Table:
        """Records that nothing could be made of, as they are. All others have been read before."""
        rows = np.array(sorted(self._faults), np.int64)
        why = [self._faults[row] for row in rows.tolist()]
        words = {"code": [code for code, _ in why], "detail": [detail for _, detail in why]}
        return self._as_they_are(facts.UNREAD, rows, words)

    def _as_they_are(self, kind: str, rows: IntArray, more: Mapping[str, Any]) -> pa.Table:
        columns = {name: _taken(self._records[name], rows) for name in RECORDS.names}
        return as_facts(kind, len(rows), {"group_id": self._names("group", rows), **columns, **more})

    def _of_topics(
        self, kind: str, some: CommitIntervals, rows: IntArray, topic_ids: pa.Array | None = None
    ) -> pa.Table:
        """Intervals of what the keys of these rows name."""
        told = [facts.FACTS.empty_table()]
        for name, first, lists in some.listed():
            of = rows[first]
            columns = {
                "cluster": self._clusters.take(pa.array(self._cluster[of])),
                "group_id": self._names("group", of),
                "topic": self._names("topic", of),
                name: lists,
            }
            if topic_ids is not None:
                columns["topic_id"] = topic_ids.take(pa.array(first))
            told.append(as_facts(kind, len(of), columns))
        return pa.concat_tables(told)

    def _topics(self, rows: IntArray) -> IntArray:
        """Numbers for topics of groups."""
        return pack_keys(pack_keys(self._cluster[rows], self._keys.group[rows]), self._keys.topic[rows])

    def _names(self, name: str, rows: IntArray) -> pa.Array:
        names = pa.array(getattr(self._keys, f"{name}s"), pa.string())
        places = getattr(self._keys, name)[rows]
        return names.take(pa.array(places, mask=places < 0))

    def _numbers(self, name: str, rows: IntArray) -> IntArray:
        numbers: IntArray = one_array(self._records[name]).to_numpy(zero_copy_only=False)[rows]
        return numbers


def _taken(column: pa.Array | pa.ChunkedArray, rows: IntArray) -> pa.Array:
    array = one_array(column)
    return array if len(rows) == len(array) else array.take(pa.array(rows))


def _as(column: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(column, pa.Array):
        return column if column.type == kind else column.cast(kind)
    return pa.array(column, kind)
