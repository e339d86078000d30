"""From whom a member may take a partition, be it through others that take one in turn."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

from spark_assign.groups.assignors.franz_go.balancer_input import NO_MEMBER, FranzGoGroup


@dataclass(frozen=True)
class Steal:
    """A partition goes from one member to another."""

    from_member: int
    to_member: int
    partition: int


class StealGraph:
    """Members, and what they may take: of each topic and owner one partition, whichever it is that comes first."""

    def __init__(self, group: FranzGoGroup, order: Iterable[int], owner: list[int], load: list[int]) -> None:
        self._topic, self._owner, self._load = group.topic, owner, load
        self._asks: list[list[int]] = [[] for _ in range(group.members)]
        # Of each topic its owners in the order in which they came, also those that have nothing left.
        self._owners: list[dict[int, list[int]]] = [{} for _ in group.partitions]
        for topic in order:
            for member in group.subscribers[topic]:
                self._asks[member].append(topic)
            for partition in group.of_topic(topic):
                if owner[partition] != NO_MEMBER:
                    self._add(partition, owner[partition])

    def _add(self, partition: int, member: int) -> None:
        self._owners[self._topic[partition]].setdefault(member, []).append(partition)

    def move(self, steal: Steal) -> None:
        """Someone else has the partition now."""
        left = self._owners[self._topic[steal.partition]][self._owner[steal.partition]]
        left[left.index(steal.partition)] = left[-1]
        left.pop()
        self._owner[steal.partition] = steal.to_member
        self._add(steal.partition, steal.to_member)

    def find(self, member: int) -> list[Steal]:
        """How the member gets one more from somebody who has at least two more; nothing if nobody can be reached."""
        level = self._load[member]
        reached: dict[int, Steal | None] = {member: None}
        waiting, walked = [(-level, 0, member)], set()
        while waiting:
            minus, distance, current = heapq.heappop(waiting)
            if -minus > level + 1:
                return self._way(reached, current)
            for topic in self._asks[current]:
                if topic in walked:
                    continue  # all its owners are reached
                walked.add(topic)
                for owner, partitions in self._owners[topic].items():
                    if partitions and owner not in reached:
                        reached[owner] = Steal(owner, current, partitions[0])
                        heapq.heappush(waiting, (-self._load[owner], distance + 1, owner))
        return []

    @staticmethod
    def _way(reached: dict[int, Steal | None], current: int) -> list[Steal]:
        way = []
        while (steal := reached[current]) is not None:
            way.append(steal)
            current = steal.to_member
        return way
