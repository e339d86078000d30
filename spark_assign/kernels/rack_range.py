"""The rack-aware layout of one set of topics (Kafka's `RangeAssignor`, KIP-881), as arrays.

Steps
    1. Quota: p partitions over n members give each p // n; p % n of them may have one more, whoever comes first.
    2. Near: hand out partitions to members in whose rack they have a replica (a member without a rack is near to all).
       A topic alone serves member after member; topics together serve partition after partition.
    3. Rest: what is left goes in order to the members that still have room, in order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def lay_with_racks(member_racks: Sequence[int], near: NDArray[np.bool_], *, together: bool) -> NDArray[np.int64]:
    """Who gets which partition.

    Args:
        member_racks: of each member, in order, the number of its rack; -1 for a member without one.
        near: `near[rack, partition]`, whether the partition (of every topic of the set) has a replica in the rack.
        together: whether the set holds several co-partitioned topics.

    Returns:
        for each partition the index of its member.
    """
    layout = _Layout(member_racks, near)
    if together:
        layout.serve_partitions()
    else:
        layout.serve_members()
    layout.hand_out_rest()
    return layout.owner


class _Layout:
    """Quotas and owners while a set is laid out."""

    def __init__(self, member_racks: Sequence[int], near: NDArray[np.bool_]) -> None:
        partitions = near.shape[1]
        self.racks = member_racks
        self.near = near
        self.owner = np.full(partitions, -1, dtype=np.int64)
        self.quota: int = partitions // len(member_racks)
        self.extra: int = partitions % len(member_racks)
        self.assigned = [0] * len(member_racks)

    def room(self, member: int) -> int:
        """How many more partitions the member may have now. Kafka: `TopicAssignmentState.maxAssignable`."""
        return max(0, self.quota + (self.extra > 0) - self.assigned[member])

    def give(self, member: int, partitions: NDArray[np.int64] | int, number: int) -> None:
        """Kafka: `onAssigned`. Whoever exceeds the quota uses up one of the extra partitions."""
        self.owner[partitions] = member
        self.assigned[member] += number
        if self.assigned[member] > self.quota:
            self.extra -= 1

    def serve_members(self) -> None:
        """Each member in turn takes the first free partitions near to it, as many as it has room for."""
        for member, rack in enumerate(self.racks):
            free = self.owner < 0
            if rack >= 0:
                free &= self.near[rack]
            taken = np.flatnonzero(free)[: self.room(member)]
            if len(taken):
                self.give(member, taken, len(taken))

    def serve_partitions(self) -> None:
        """Each partition in turn goes to the first member near to it that has room."""
        queues: dict[int, list[int]] = {}
        for member, rack in enumerate(self.racks):
            queues.setdefault(rack, []).append(member)
        # Room never grows again, so that whoever is out of room leaves the queue of its rack for good.
        fronts = dict.fromkeys(queues, 0)
        for partition in range(len(self.owner)):
            best = -1
            for rack, queue in queues.items():
                if rack >= 0 and not self.near[rack, partition]:
                    continue
                front = fronts[rack]
                while front < len(queue) and not self.room(queue[front]):
                    front += 1
                fronts[rack] = front
                if front < len(queue) and (best < 0 or queue[front] < best):
                    best = queue[front]
            if best >= 0:
                self.give(best, partition, 1)

    def hand_out_rest(self) -> None:
        """Each member in turn takes the first free partitions, wherever they are."""
        rest = np.flatnonzero(self.owner < 0)
        begin = 0
        for member in range(len(self.racks)):
            number = min(self.room(member), len(rest) - begin)
            if number:
                self.give(member, rest[begin : begin + number], number)
                begin += number
