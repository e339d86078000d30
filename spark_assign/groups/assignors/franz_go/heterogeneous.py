"""From whom a member may take a partition, be it through others that take one in turn.

Groups whose members subscribe to different topics, in a given order of the topics and of what two members claim."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from spark_assign.groups.assignors.franz_go.balancer_input import (
    NO_MEMBER,
    FranzGoGroup,
    LoadLevels,
    MemberHeap,
    swap_remove,
)
from spark_assign.groups.assignors.franz_go.restore_owners import restore_owners


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
        self._asks: list[list[int]] = [[] for _ in range(group.num_members)]
        # Of each topic its owners in the order in which they came, also those that have nothing left.
        self._owners: list[dict[int, list[int]]] = [{} for _ in group.partitions]
        for topic in order:
            for member in group.subscribers[topic]:
                self._asks[member].append(topic)
            for partition in group.partitions_of(topic):
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


@dataclass(frozen=True)
class HeterogeneousAssignment:
    """What became of such a group.

    Attributes:
        owner: of each partition.
        only_assigned: whether all that was done was to hand out what nobody had.
    """

    owner: list[int]
    only_assigned: bool


def plan_heterogeneous(group: FranzGoGroup, order: Sequence[int], stale: Sequence[int]) -> HeterogeneousAssignment:
    """Plan a group.

    Args:
        group: the group.
        order: of its topics.
        stale: of those partitions of `group.stale` that may be given back.
    """
    held: list[list[int]] = [[] for _ in range(group.num_members)]
    for topic in order:
        for partition in group.partitions_of(topic):
            if group.owner[partition] != NO_MEMBER:
                held[group.owner[partition]].append(partition)
    came = list(group.owner)
    for partition in stale:
        _return_to_stale_owner(partition, group.stale[partition], held, came)
    load = [len(each) for each in held]
    owner = list(came)
    _assign_unassigned(group, order, held, owner, load)
    stolen = _balance(group, order, held, owner, load)
    repaired = restore_owners(group, order, held, came)
    for member, partitions in enumerate(held):
        for partition in partitions:
            owner[partition] = member
    return HeterogeneousAssignment(owner, not stolen and not repaired)


def _return_to_stale_owner(partition: int, member: int, held: list[list[int]], came: list[int]) -> None:
    """Who claims it in an older generation gets it if nobody has it, or somebody who has at least two more."""
    owner = came[partition]
    if owner != NO_MEMBER:
        if len(held[member]) + 1 >= len(held[owner]):
            return
        swap_remove(held[owner], partition)
    held[member].append(partition)
    came[partition] = member


def _assign_unassigned(
    group: FranzGoGroup, order: Sequence[int], held: list[list[int]], owner: list[int], load: list[int]
) -> None:
    """What nobody has goes to the subscriber that has least."""
    for topic in order:
        free = [partition for partition in group.partitions_of(topic) if owner[partition] == NO_MEMBER]
        if not free or not group.subscribers[topic]:
            continue
        least = MemberHeap(group.subscribers[topic], load)
        for partition, member in zip(free, least.take_many(len(free)), strict=True):
            owner[partition] = member
            held[member].append(partition)


def _balance(
    group: FranzGoGroup, order: Sequence[int], held: list[list[int]], owner: list[int], load: list[int]
) -> bool:
    """Who has least takes from who has most, directly or through others, as long as that is possible."""
    graph = StealGraph(group, order, owner, load)
    levels, stolen = LoadLevels(load), False
    while len(levels.of) > 1:
        bottom = min(levels.of)
        low, high = levels.of[bottom], levels.of[max(levels.of)]
        if max(levels.of) <= bottom + 1:
            break
        while low:
            member = low[0]
            way = graph.find(member)
            if not way:
                # Nobody can be taken from: it will not grow any more.
                levels.leave(bottom, member)
                continue
            stolen = True
            for steal in way:
                _move(steal, held, levels, load)
                graph.move(steal)
            if not high:
                break
    return stolen


def _move(steal: Steal, held: list[list[int]], levels: LoadLevels, load: list[int]) -> None:
    before = load[steal.from_member], load[steal.to_member]
    swap_remove(held[steal.from_member], steal.partition)
    held[steal.to_member].append(steal.partition)
    for member, level, change in ((steal.from_member, before[0], -1), (steal.to_member, before[1], 1)):
        load[member] = level + change
        levels.leave(level, member)
        levels.members_at(level + change).append(member)
