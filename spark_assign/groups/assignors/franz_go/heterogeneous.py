"""Groups whose members subscribe to different topics, in a given order of the topics and of what two members claim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spark_assign.groups.assignors.franz_go.balancer_input import NO_MEMBER, FranzGoGroup
from spark_assign.groups.assignors.franz_go.graph import Steal, StealGraph
from spark_assign.groups.assignors.franz_go.member_heaps import LeastLoaded, Levels, swap_out
from spark_assign.groups.assignors.franz_go.restore_owners import repair


@dataclass(frozen=True)
class HeterogeneousAssignment:
    """What became of such a group.

    Attributes:
        owner: of each partition.
        filled: whether all that was done was to hand out what nobody had.
    """

    owner: list[int]
    filled: bool


def plan_heterogeneous(group: FranzGoGroup, order: Sequence[int], stale: Sequence[int]) -> HeterogeneousAssignment:
    """Plan a group.

    Args:
        group: the group.
        order: of its topics.
        stale: of those partitions of `group.stale` that may be given back.
    """
    held: list[list[int]] = [[] for _ in range(group.members)]
    for topic in order:
        for partition in group.of_topic(topic):
            if group.owner[partition] != NO_MEMBER:
                held[group.owner[partition]].append(partition)
    came = list(group.owner)
    for partition in stale:
        _give_back(partition, group.stale[partition], held, came)
    load = [len(each) for each in held]
    owner = list(came)
    _fill(group, order, held, owner, load)
    stolen = _balance(group, order, held, owner, load)
    repaired = repair(group, order, held, came)
    for member, partitions in enumerate(held):
        for partition in partitions:
            owner[partition] = member
    return HeterogeneousAssignment(owner, not stolen and not repaired)


def _give_back(partition: int, member: int, held: list[list[int]], came: list[int]) -> None:
    """Who claims it in an older generation gets it if nobody has it, or somebody who has at least two more."""
    owner = came[partition]
    if owner != NO_MEMBER:
        if len(held[member]) + 1 >= len(held[owner]):
            return
        swap_out(held[owner], partition)
    held[member].append(partition)
    came[partition] = member


def _fill(group: FranzGoGroup, order: Sequence[int], held: list[list[int]], owner: list[int], load: list[int]) -> None:
    """What nobody has goes to the subscriber that has least."""
    for topic in order:
        free = [partition for partition in group.of_topic(topic) if owner[partition] == NO_MEMBER]
        if not free or not group.subscribers[topic]:
            continue
        least = LeastLoaded(group.subscribers[topic], load)
        for partition, member in zip(free, least.takes(len(free)), strict=True):
            owner[partition] = member
            held[member].append(partition)


def _balance(
    group: FranzGoGroup, order: Sequence[int], held: list[list[int]], owner: list[int], load: list[int]
) -> bool:
    """Who has least takes from who has most, directly or through others, as long as that is possible."""
    graph = StealGraph(group, order, owner, load)
    levels, stolen = Levels(load), False
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


def _move(steal: Steal, held: list[list[int]], levels: Levels, load: list[int]) -> None:
    before = load[steal.from_member], load[steal.to_member]
    swap_out(held[steal.from_member], steal.partition)
    held[steal.to_member].append(steal.partition)
    for member, level, change in ((steal.from_member, before[0], -1), (steal.to_member, before[1], 1)):
        load[member] = level + change
        levels.leave(level, member)
        levels.at(level + change).append(member)
