"""All that is told of groups, from the facts of whole groups."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from spark_assign.kernels.history import told
from spark_assign.kernels.history.asked import Asked
from spark_assign.kernels.history.changes import changes
from spark_assign.kernels.history.departures import departures
from spark_assign.kernels.history.memberships import memberships, subscribed
from spark_assign.kernels.history.owned import owned
from spark_assign.kernels.history.rebalances import rebalances
from spark_assign.kernels.history.rows import Row, Rows
from spark_assign.kernels.history.silences import Pause, committed, stops
from spark_assign.kernels.history.timeline import Timeline
from spark_assign.kernels.history.timelines import timelines


def tell(facts: pa.Table, asked: Asked) -> Iterator[pa.Table]:
    """The rows of all tables.

    Args:
        facts: FACTS of whole groups, in any order; those that are `unread` already are left out.
        asked: the thresholds.

    Yields:
        TOLD.
    """
    rows = Rows()
    for cluster, group_id, timeline in timelines(facts, asked):
        for kind, some in _of_group(timeline, asked):
            rows.add(cluster, group_id, kind, some)
        yield from rows.enough()
    yield from rows.rest()


def _of_group(timeline: Timeline, asked: Asked) -> Iterator[tuple[str, Iterator[Row]]]:
    said = list(changes(timeline, departures(timeline, asked)))
    stopped = stops(timeline, asked)
    yield told.REBALANCE, rebalances(timeline, said, stopped)
    yield told.MEMBERSHIP, memberships(said)
    yield told.SUBSCRIBED, subscribed(timeline)
    yield told.OWNED, owned(timeline)
    yield told.COMMITS, _commits(timeline)
    yield told.PAUSE, (_pause(pause) for pause in stopped.pauses)
    yield told.UNREAD, _unread(timeline)
    yield told.REJECTED, ({"code": code, "detail": detail} for code, detail in timeline.rejected)


def _commits(timeline: Timeline) -> Iterator[Row]:
    for each in committed(timeline):
        row = dict(vars(each))
        yield {**row, "since": row.pop("since_ms"), "until": row.pop("until_ms")}


def _pause(pause: Pause) -> Row:
    return {
        "generation": pause.generation,
        "since": pause.from_ms,
        "until": pause.until_ms,
        "partitions": pause.partitions,
        "stopped_ms": pause.stopped_ms,
    }


def _unread(timeline: Timeline) -> Iterator[Row]:
    for each in timeline.unread:
        row = dict(vars(each))
        yield {**row, "timestamp": row.pop("at_ms")}
