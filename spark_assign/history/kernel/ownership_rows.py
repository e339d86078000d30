"""Rows of OWNERSHIP: what members had as runs of partitions, and from when to when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spark_assign.history.kernel.row_buffer import Row
from spark_assign.history.kernel.timeline import Timeline

_MOST = 0x7FFFFFFF
"""The largest number of a partition."""


def owned(timeline: Timeline) -> Iterator[Row]:
    """A row for each run of partitions that a member got and lost together."""
    for own in timeline.owned:
        for first, step, count in runs_of(own.partitions):
            yield {
                "member_id": own.member_id,
                "topic": own.topic,
                "role": own.role,
                "first": first,
                "step": step,
                "count": count,
                "generation": own.generation,
                "since": own.since_ms,
                "until": own.until_ms,
            }


def runs_of(partitions: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """First, step and count of runs; partitions ascend. A single one has step 1; a pair counts as a run."""
    at = 0
    while at < len(partitions):
        end = at + 1
        step = partitions[end] - partitions[at] if end < len(partitions) else 1
        if step > _MOST:  # Of numbers that are no partitions: the bytes were damaged.
            step = 1
        while end < len(partitions) and partitions[end] - partitions[end - 1] == step:
            end += 1
        yield partitions[at], step, end - at
        at = end
