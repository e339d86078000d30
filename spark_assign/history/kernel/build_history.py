"""Builds every history table from the facts of complete groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.history.kernel import facts as fact_kinds
from spark_assign.history.kernel import history_rows
from spark_assign.history.kernel.binary_column import build_lists
from spark_assign.history.kernel.build_timelines import build_chunk_timelines
from spark_assign.history.kernel.commit_intervals import CommitColumns
from spark_assign.history.kernel.departures import find_departures
from spark_assign.history.kernel.deploys import find_deploys
from spark_assign.history.kernel.generation_changes import generation_changes
from spark_assign.history.kernel.group_chunks import GroupChunk, iter_chunks
from spark_assign.history.kernel.group_rows import (
    membership_rows,
    ownership_rows,
    rebalance_rows,
    subscription_rows,
    summarize_group,
)
from spark_assign.history.kernel.history_rows import COMMIT_LISTS, HISTORY_ROWS, Row, RowBuffer, to_history_rows
from spark_assign.history.kernel.merge_facts import merge_buckets
from spark_assign.history.kernel.pauses import find_pauses
from spark_assign.history.kernel.timeline import HistoryThresholds, Timeline
from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.segmented_arrays import starts_new_key

_UNREADABLE_COLUMNS = ("cluster", "group_id", "kind", "partition", "offset", "code", "detail", "key", "value")

_COLUMN_BY_FIELD = {
    "since_ms": "since",
    "from_ms": "since",
    "until_ms": "until",
    "at_ms": "timestamp",
    "deploy_type": "what",
    "max_rebalances_per_day": "most_in_a_day",
    "paused_ms": "stopped_ms",
    "longest_pause_ms": "longest_ms",
}
"""Fields of the kernels' dataclasses that are columns with another name."""


def build_history(rows: pa.Table, thresholds: HistoryThresholds) -> Iterator[pa.Table]:
    """Yields HISTORY_ROWS of all groups in a task.

    Args:
        rows: BUCKETS (`history.kernel.merge_facts`); all rows of each bucket that occurs.
        thresholds: the thresholds.
    """
    for facts in merge_buckets(rows, thresholds.gap_ms):
        unreadable = facts.filter(pc.equal(facts["kind"], fact_kinds.UNREADABLE))
        if len(unreadable):
            yield unreadable_rows(unreadable)
        yield from build_tables(facts, thresholds)


def unreadable_rows(unreadable: pa.Table) -> pa.Table:
    """Returns HISTORY_ROWS of `unreadable` facts."""
    columns = {name: unreadable[name].combine_chunks() for name in (*_UNREADABLE_COLUMNS, "at_ms")}
    return to_history_rows({**columns, "timestamp": columns.pop("at_ms")}, len(unreadable))


def build_tables(facts: pa.Table, thresholds: HistoryThresholds) -> Iterator[pa.Table]:
    """Yields HISTORY_ROWS of all tables.

    Args:
        facts: FACTS of complete groups, in any order. `unreadable` facts are ignored.
        thresholds: the thresholds.
    """
    buffer = RowBuffer()
    for chunk in iter_chunks(facts, thresholds.gap_ms):
        yield commit_rows(chunk)
        for cluster, group_id, timeline in build_chunk_timelines(chunk):
            for kind, rows in _build_group_rows(timeline, thresholds):
                buffer.add(cluster, group_id, kind, rows)
            yield from buffer.pop_large()
    yield from buffer.pop_all()


def _build_group_rows(timeline: Timeline, thresholds: HistoryThresholds) -> Iterator[tuple[str, Iterable[Row]]]:
    """Yields the rows of one group by kind."""
    departures = find_departures(timeline, thresholds)
    changes = list(generation_changes(timeline, departures))
    pauses = find_pauses(timeline, thresholds)
    deploys = find_deploys(timeline, departures, pauses, thresholds) if timeline.generations else []
    missing = sum(change.missing for change in changes)
    summary = summarize_group(timeline, departures, pauses, deploys, missing, thresholds)
    yield history_rows.GROUP, _to_rows([summary])
    yield history_rows.REBALANCE, rebalance_rows(timeline, changes, pauses)
    yield history_rows.MEMBERSHIP, membership_rows(changes)
    yield history_rows.SUBSCRIBED, subscription_rows(timeline)
    yield history_rows.OWNED, ownership_rows(timeline)
    yield history_rows.PAUSE, _to_rows(pauses.pauses)
    yield history_rows.DEPLOY, _to_rows(deploys)
    yield history_rows.UNREADABLE, _to_rows(timeline.unreadable)
    yield history_rows.REJECTED, ({"code": code, "detail": detail} for code, detail in timeline.rejected)


def _to_rows(items: Iterable[object]) -> Iterator[Row]:
    """Yields the fields of dataclasses as columns. `to_history_rows` ignores fields that are no columns."""
    for item in items:
        yield {_COLUMN_BY_FIELD.get(name, name): value for name, value in vars(item).items()}


# --- commits ------------------------------------------------------------------------------------------------------


def commit_rows(chunk: GroupChunk) -> pa.Table:
    """Returns HISTORY_ROWS of commits: per topic of a group, a row of `once` and a row of `again`.

    Partitions that have only tombstones on record are left out.
    """
    commits, first = chunk.commits, chunk.commits.first[:-1]
    is_once = (np.diff(commits.first) == 1) & (commits.intervals.commits[first] == 1) & (commits.deleted == 0)
    tables = [HISTORY_ROWS.empty_table()]
    for name, rows in (("once", np.flatnonzero(is_once)), ("again", np.flatnonzero(~is_once))):
        if len(rows):
            starts = np.flatnonzero(starts_new_key(commits.intervals.topic[first[rows]]))
            fields = [
                commits.partition[rows],
                commits.intervals.from_ms[first[rows]],
                commits.intervals.first_offset[first[rows]],
            ]
            if name == "again":
                fields += _repeated_commit_fields(commits, rows)
            topic_rows = rows[starts]
            group = pa.array(commits.group[topic_rows])
            columns = {
                "cluster": chunk.clusters.take(group),
                "group_id": chunk.names.take(group),
                "kind": pa.array([history_rows.COMMITS] * len(topic_rows)),
                "topic": commits.topic.take(pa.array(topic_rows)).cast(pa.string()),
                name: build_lists(COMMIT_LISTS[name], starts, fields),
            }
            tables.append(to_history_rows(columns, len(topic_rows)))
    return pa.concat_tables(tables)


def _repeated_commit_fields(commits: CommitColumns, rows: IntArray) -> list[IntArray | pa.Array]:
    """Returns the other fields of partitions that were committed repeatedly, or deleted."""
    intervals, first, last = commits.intervals, commits.first[:-1], commits.first[1:] - 1
    num_commits = np.add.reduceat(intervals.commits, first)
    gap_ms = intervals.from_ms - np.roll(intervals.until_ms, 1)
    gap_ms[first] = 0
    until_ms, last_offset = intervals.until_ms[last], intervals.last_offset[last]
    elapsed_ms = (until_ms - intervals.from_ms[first]).astype(float)
    progress = last_offset.astype(float) - intervals.first_offset[first]
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = pa.array((progress * 1000 / elapsed_ms)[rows], mask=elapsed_ms[rows] == 0)
    num_gaps, longest_gap_ms = last - first, np.maximum.reduceat(gap_ms, first)
    return [
        num_commits[rows],
        until_ms[rows],
        last_offset[rows],
        rate,
        num_gaps[rows],
        longest_gap_ms[rows],
        commits.deleted[rows],
    ]
