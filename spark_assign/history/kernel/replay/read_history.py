"""The pasts of the groups of a task, from what their records say."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from spark_assign.groups.kernel.client_libraries import STREAMS
from spark_assign.history.kernel.departures import departures
from spark_assign.history.kernel.merge_facts import of_parts
from spark_assign.history.kernel.pauses import pauses
from spark_assign.history.kernel.replay.recorded_history import MeasuredPause, RecordedHistory, Refused, read_past
from spark_assign.history.kernel.replay.replay import ReplayParams, replay
from spark_assign.history.kernel.thresholds import HistoryThresholds
from spark_assign.history.kernel.timeline import Timeline
from spark_assign.history.kernel.timelines import timelines


def replay_parts(rows: pa.Table, asked: ReplayParams) -> Iterator[pa.Table]:
    """Answer for the groups of some parts.

    Args:
        rows: PARTS (`history.kernel.merge_facts`), of each of these parts all.
        asked: what is asked.

    Yields:
        tables with the columns of `REPLAYED`.
    """
    for known in of_parts(rows, asked.asked.gap_ms):
        yield from replay(pasts(known, asked.asked), asked)


def pasts(facts: pa.Table, asked: HistoryThresholds) -> Iterator[RecordedHistory | Refused]:
    """Each group, or why there is nothing to replay; facts are of whole groups."""
    for cluster, group_id, timeline in timelines(facts, asked):
        why = _refusal(timeline)
        if why is not None:
            yield Refused(cluster, group_id, *why)
            continue
        yield read_past(cluster, group_id, timeline, departures(timeline, asked), _measured(timeline, asked))


def _refusal(timeline: Timeline) -> tuple[str, str] | None:
    """Why there is nothing to replay; null: there is."""
    kind = timeline.group_type
    if kind == "simple":
        return "no-rebalances", "Somebody commits for it, and nobody ever joined it on record"
    if kind == "classic" and timeline.protocol_type not in (None, "", "consumer"):
        return "out-of-scope", f"Its members are no consumers: its protocol is {timeline.protocol_type}"
    if kind not in ("classic", "consumer"):
        return "out-of-scope", f"A group of type {kind} has no assignor of consumers to be replayed"
    if any(each.assignor == STREAMS for each in timeline.generations):
        return (
            "out-of-scope",
            "Its members are of a Kafka Streams application, whose assignor no other can stand in for",
        )
    if sum(timeline.rebalanced) < 2:
        return "no-rebalances", "Fewer than two generations are on record: there is nothing between them to replay"
    return None


def _measured(timeline: Timeline, asked: HistoryThresholds) -> dict[int, MeasuredPause]:
    return {
        pause.place: MeasuredPause(pause.stopped_ms, pause.partitions)
        for pause in pauses(timeline, asked)
        if pause.place is not None
    }
