"""All that is told of groups, from the facts of whole groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from spark_assign.history.kernel import history_rows
from spark_assign.history.kernel.commit_rows import committed
from spark_assign.history.kernel.departures import departures
from spark_assign.history.kernel.deploys import deploys
from spark_assign.history.kernel.generation_changes import changes
from spark_assign.history.kernel.group_chunks import pieces
from spark_assign.history.kernel.group_rows import of_group
from spark_assign.history.kernel.memberships import memberships, subscribed
from spark_assign.history.kernel.ownership_rows import owned
from spark_assign.history.kernel.pauses import stops
from spark_assign.history.kernel.rebalances import rebalances
from spark_assign.history.kernel.row_buffer import Row, Rows
from spark_assign.history.kernel.thresholds import HistoryThresholds
from spark_assign.history.kernel.timeline import Timeline
from spark_assign.history.kernel.timelines import timelines_of


def tell(facts: pa.Table, asked: HistoryThresholds) -> Iterator[pa.Table]:
    """The rows of all tables.

    Args:
        facts: FACTS of whole groups, in any order; those that are `unread` already are left out.
        asked: the thresholds.

    Yields:
        TOLD.
    """
    rows = Rows()
    for piece in pieces(facts, asked.gap_ms):
        yield committed(piece)
        for cluster, group_id, timeline in timelines_of(piece):
            for kind, some in _of_group(timeline, asked):
                rows.add(cluster, group_id, kind, some)
            yield from rows.enough()
    yield from rows.rest()


_TIMES = {"since_ms": "since", "from_ms": "since", "until_ms": "until", "at_ms": "timestamp"}
"""Attributes of the kernels' rows that are columns under another name."""


def _of_group(timeline: Timeline, asked: HistoryThresholds) -> Iterator[tuple[str, Iterable[Row]]]:
    gone = departures(timeline, asked)
    said = list(changes(timeline, gone))
    stopped = stops(timeline, asked)
    deployed = deploys(timeline, gone, stopped, asked) if timeline.generations else []
    missing = sum(change.missing for change in said)
    yield history_rows.GROUP, _rows([of_group(timeline, gone, stopped, deployed, missing, asked)])
    yield history_rows.REBALANCE, rebalances(timeline, said, stopped)
    yield history_rows.MEMBERSHIP, memberships(said)
    yield history_rows.SUBSCRIBED, subscribed(timeline)
    yield history_rows.OWNED, owned(timeline)
    yield history_rows.PAUSE, _rows(stopped.pauses)
    yield history_rows.DEPLOY, _rows(deployed)
    yield history_rows.UNREAD, _rows(timeline.unread)
    yield history_rows.REJECTED, ({"code": code, "detail": detail} for code, detail in timeline.rejected)


def _rows(some: Iterable[object]) -> Iterator[Row]:
    """Their attributes; what no column is named after is left out by the table."""
    for each in some:
        yield {_TIMES.get(name, name): value for name, value in vars(each).items()}
