"""Builds the rows of every history table from the facts of complete groups.

All tables are one table of tagged rows (`history.schemas.HISTORY_ROWS`), whose `kind` is the name of the table
(`tables.history.HISTORY_TABLES`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.groups.kernel.tagged_rows import tagged
from spark_assign.history.kernel import facts as fact_kinds
from spark_assign.history.kernel.binary_column import build_lists
from spark_assign.history.kernel.build_timelines import build_chunk_timelines
from spark_assign.history.kernel.commit_intervals import LISTS, CommitColumns
from spark_assign.history.kernel.departures import find_departures
from spark_assign.history.kernel.deploys import find_deploys
from spark_assign.history.kernel.facts import merge_buckets
from spark_assign.history.kernel.generation_changes import generation_changes
from spark_assign.history.kernel.group_chunks import GroupChunk, iter_chunks
from spark_assign.history.kernel.group_rows import (
    Row,
    group_row,
    membership_rows,
    ownership_rows,
    rebalance_rows,
    streams_member_rows,
    subscription_rows,
)
from spark_assign.history.kernel.pauses import find_pauses
from spark_assign.history.kernel.timeline import HistoryThresholds, Timeline
from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.segmented_arrays import starts_new_key

_MILLIS = pa.timestamp("ms", tz="UTC")
_UNREADABLE_COLUMNS = ("cluster", "group_id", "partition", "offset", "code", "detail", "key", "value")
_COLUMN_BY_FIELD = {"start_ms": "start_time", "end_ms": "end_time", "at_ms": "timestamp"}
"""Fields of the kernels' dataclasses that are columns with another name."""

_MAX_BUFFERED_ROWS = 50_000

_REPEATED_COMMITS = pa.struct(
    {
        "partition": pa.int32(),
        **dict.fromkeys(("start_ms", "first_offset", "commits", "end_ms", "last_offset"), pa.int64()),
        "rate": pa.float64(),
        **dict.fromkeys(("gaps", "longest_gap_ms", "deleted"), pa.int64()),
    }
)
COMMIT_LISTS = {"once": LISTS["once"], "again": pa.list_(_REPEATED_COMMITS)}
"""Commits of partitions: `once` has those with a single commit and no tombstone, `again` all others. Most of a history
is commits, so they are lists, one row per topic and column, with as few values as possible."""


def build_history(rows: pa.Table, thresholds: HistoryThresholds, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yields the rows of all groups in a task.

    Args:
        rows: BUCKETS (`history.kernel.facts`); all rows of each bucket that occurs.
        thresholds: the thresholds.
        schema: the schema of the result, HISTORY_ROWS.
    """
    for facts in merge_buckets(rows, thresholds.commit_gap_ms):
        unreadable = facts.filter(pc.equal(facts["kind"], fact_kinds.UNREADABLE))
        if len(unreadable):
            columns = {name: unreadable[name] for name in _UNREADABLE_COLUMNS}
            columns["timestamp"] = unreadable["at_ms"].cast(_MILLIS)
            yield tagged("unreadable", columns, len(unreadable), schema)
        yield from build_tables(facts, thresholds, schema)


def build_tables(facts: pa.Table, thresholds: HistoryThresholds, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yields the rows of all tables.

    Args:
        facts: FACTS of complete groups, in any order. `unreadable` facts are ignored.
        thresholds: the thresholds.
        schema: the schema of the result, HISTORY_ROWS.
    """
    buffer = _RowBuffer(schema)
    for chunk in iter_chunks(facts, thresholds.commit_gap_ms):
        yield from commit_rows(chunk, schema)
        for cluster, group_id, timeline in build_chunk_timelines(chunk):
            for kind, rows in _build_group_rows(timeline, thresholds):
                buffer.add(cluster, group_id, kind, rows)
            yield from buffer.pop(_MAX_BUFFERED_ROWS)
    yield from buffer.pop()


def _build_group_rows(timeline: Timeline, thresholds: HistoryThresholds) -> Iterator[tuple[str, Iterable[Row]]]:
    """Yields the rows of one group by table."""
    departures = find_departures(timeline, thresholds)
    changes = list(generation_changes(timeline, departures))
    pauses = find_pauses(timeline, thresholds)
    deploys = find_deploys(timeline, departures, pauses, thresholds)
    missing = sum(change.missing for change in changes)
    yield "groups", [group_row(timeline, departures, pauses, deploys, missing, thresholds)]
    yield "rebalances", rebalance_rows(timeline, changes, pauses)
    yield "memberships", membership_rows(changes)
    yield "subscriptions_over_time", subscription_rows(timeline)
    yield "ownership", ownership_rows(timeline)
    yield "streams_members", streams_member_rows(timeline)
    yield "pauses", _to_rows(pauses.pauses)
    yield "deploys", _to_rows(deploys)
    yield "unreadable", _to_rows(timeline.unreadable)
    yield "rejected", ({"code": code, "detail": detail} for code, detail in timeline.rejected)


def _to_rows(items: Iterable[object]) -> Iterator[Row]:
    """Yields the fields of dataclasses as columns. `_RowBuffer` ignores fields that are no columns."""
    for item in items:
        yield {_COLUMN_BY_FIELD.get(name, name): value for name, value in vars(item).items()}


class _RowBuffer:
    """Rows of many groups by kind, until there are enough for a table."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._types = {field.name: _MILLIS if pa.types.is_timestamp(field.type) else field.type for field in schema}
        self._rows: dict[str, list[Row]] = {}
        self._group_counts: dict[str, list[tuple[str, str, int]]] = {}

    def add(self, cluster: str, group_id: str, kind: str, rows: Iterable[Row]) -> None:
        """Adds rows of one group. All rows of a kind have the same columns; times are in milliseconds."""
        buffered = self._rows.setdefault(kind, [])
        num_before = len(buffered)
        buffered.extend(rows)
        if len(buffered) > num_before:
            self._group_counts.setdefault(kind, []).append((cluster, group_id, len(buffered) - num_before))

    def pop(self, min_rows: int = 0) -> Iterator[pa.Table]:
        """Yields and removes the rows of the kinds that have more than `min_rows` rows."""
        yield from (self._pop_kind(kind) for kind, rows in list(self._rows.items()) if len(rows) > min_rows)

    def _pop_kind(self, kind: str) -> pa.Table:
        """Returns the collected rows of a kind as a table, and forgets them."""
        rows = self._rows.pop(kind)
        clusters, groups, counts = zip(*self._group_counts.pop(kind), strict=True)
        row_group = pa.array(np.repeat(np.arange(len(counts)), counts))
        columns = {
            "cluster": pa.array(clusters).take(row_group),
            "group_id": pa.array(groups).take(row_group),
            **{
                name: pa.array([row[name] for row in rows], dtype)
                for name, dtype in self._types.items()
                if name in rows[0]
            },
        }
        return tagged(kind, columns, len(rows), self._schema)


# --- commits ------------------------------------------------------------------------------------------------------


def commit_rows(chunk: GroupChunk, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yields the rows of commits: per topic of a group, a row of `once` and a row of `again`.

    Partitions that have only tombstones on record are left out.
    """
    commits, first = chunk.commits, chunk.commits.first[:-1]
    is_once = (np.diff(commits.first) == 1) & (commits.intervals.commits[first] == 1) & (commits.deleted == 0)
    for name, rows in (("once", np.flatnonzero(is_once)), ("again", np.flatnonzero(~is_once))):
        if not len(rows):
            continue
        starts = np.flatnonzero(starts_new_key(commits.intervals.topic[first[rows]]))
        columns = (commits.partition, commits.intervals.start_ms[first], commits.intervals.first_offset[first])
        fields = [column[rows] for column in columns]
        if name == "again":
            fields += _repeated_commit_fields(commits, rows)
        group, topic_rows = pa.array(commits.group[rows[starts]]), pa.array(rows[starts])
        lists = {
            "cluster": chunk.clusters.take(group),
            "group_id": chunk.names.take(group),
            "topic": commits.topic.take(topic_rows),
            name: build_lists(schema.field(name).type, starts, fields),
        }
        yield tagged("commits", lists, len(starts), schema)


def _repeated_commit_fields(commits: CommitColumns, rows: IntArray) -> list[IntArray | pa.Array]:
    """Returns the other fields of partitions that were committed repeatedly, or deleted."""
    intervals, first, last = commits.intervals, commits.first[:-1], commits.first[1:] - 1
    gap_ms = intervals.start_ms - np.roll(intervals.end_ms, 1)
    gap_ms[first] = 0
    end_ms, last_offset = intervals.end_ms[last], intervals.last_offset[last]
    elapsed_ms = (end_ms - intervals.start_ms[first]).astype(float)
    progress = last_offset.astype(float) - intervals.first_offset[first]
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = progress * 1000 / elapsed_ms
    num_commits, longest_gap_ms = np.add.reduceat(intervals.commits, first), np.maximum.reduceat(gap_ms, first)
    return [
        *(column[rows] for column in (num_commits, end_ms, last_offset)),
        pa.array(rate[rows], mask=elapsed_ms[rows] == 0),
        *(column[rows] for column in (last - first, longest_gap_ms, commits.deleted)),
    ]
