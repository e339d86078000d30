"""Computes where a round robin over members continues at each topic."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence


def round_robin_start(topics: Iterable[tuple[Sequence[int], int]]) -> list[int]:
    """Returns, for each topic, the index among its subscribers of the member that gets partition 0.

    Members have positions 0, 1, 2, … on a ring. Each partition goes to the next subscriber at or after the pointer;
    the pointer then moves to the position after that member. The partitions of a topic go around its subscribers, so
    the pointer after the topic follows from the pointer before it.

    Args:
        topics: in assignment order, the ascending positions of the subscribers (at least one) and the number of
            partitions of each topic.
    """
    pointer = 0
    starts = []
    for positions, num_partitions in topics:
        start = bisect_left(positions, pointer) % len(positions)
        starts.append(start)
        if num_partitions:
            pointer = positions[(start + num_partitions - 1) % len(positions)] + 1
    return starts
