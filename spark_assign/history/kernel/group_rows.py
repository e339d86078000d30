"""The row of GROUPS: what is told of a group as a whole."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from spark_assign.history.kernel.departures import CRASHED, Departure
from spark_assign.history.kernel.deploys import Deploy, is_flapping, most_in_a_day, rebalanced
from spark_assign.history.kernel.pauses import PauseSummary
from spark_assign.history.kernel.thresholds import HistoryThresholds
from spark_assign.history.kernel.timeline import Timeline


@dataclass(frozen=True)
class GroupSummary:
    """A row of GROUPS; times in milliseconds. Its columns are described there.

    Attributes:
        assignor: of the last generation that had one.
        state: of the last generation; null of groups that only commit.
        members, partitions: at the end; of partitions those that somebody owns (of Connect and streams groups
            connectors and tasks, standby and warmup tasks left out), each once.
    """

    group_type: str
    protocol_type: str | None
    assignor: str | None
    state: str | None
    since_ms: int
    until_ms: int
    records: int
    rebalances: int
    missing: int
    most_in_a_day: int
    members: int
    partitions: int
    deploys: int
    crashes: int
    stopped_ms: int | None
    longest_ms: int | None
    flapping: bool


def of_group(
    timeline: Timeline,
    gone: Sequence[Departure],
    stopped: PauseSummary,
    told: Sequence[Deploy],
    missing: int,
    asked: HistoryThresholds,
) -> GroupSummary:
    """The row of a group.

    Args:
        gone: its `departures.departures`.
        stopped: its `silences.stops`.
        told: its `deploys.deploys`.
        missing: generations that are not on record.
    """
    moments = rebalanced(timeline)
    last = timeline.generations[-1] if timeline.generations else None
    owned: dict[tuple[str, str], set[int]] = defaultdict(set)
    for each in timeline.owned:
        if each.until_ms is None and each.role not in ("standby", "warmup"):
            owned[each.role, each.topic].update(each.partitions)
    return GroupSummary(
        group_type=timeline.group_type,
        protocol_type=timeline.protocol_type,
        assignor=next((each.assignor for each in reversed(timeline.generations) if each.assignor), None),
        state=last.state if last else None,
        since_ms=timeline.first_ms,
        until_ms=timeline.last_ms,
        records=timeline.records,
        rebalances=len(moments),
        missing=missing,
        most_in_a_day=most_in_a_day(moments),
        members=len(last.members) if last else 0,
        partitions=sum(map(len, owned.values())),
        deploys=len(told),
        crashes=sum(each.went == CRASHED for each in gone),
        stopped_ms=stopped.stopped_ms,
        longest_ms=stopped.longest_ms,
        flapping=is_flapping(timeline, told, asked),
    )
