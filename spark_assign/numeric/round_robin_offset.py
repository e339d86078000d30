"""The pointer of a round robin, as it goes on from topic to topic."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence


def round_robin_start(topics: Iterable[tuple[Sequence[int], int]]) -> list[int]:
    """Who gets partition 0 of each topic, when partitions are dealt round a ring of members.

    Members stand on places 0, 1, 2, … of a ring. Each partition goes to the next subscriber at or after the pointer,
    which then moves to the place behind that one. The partitions of a topic go round its own subscribers, so that the
    pointer after it follows from the pointer before it.

    Args:
        topics: in the order in which they are dealt, each the ascending places of its subscribers (at least one) and
            its number of partitions.

    Returns:
        for each topic the index, among its own subscribers, of the one who gets partition 0.
    """
    pointer = 0
    starts = []
    for places, partitions in topics:
        start = bisect_left(places, pointer) % len(places)
        starts.append(start)
        if partitions:
            pointer = places[(start + partitions - 1) % len(places)] + 1
    return starts
