"""Groups in which everybody subscribes to the same topics: fill up who has least, then take from who has most.

Which member gets the next partition hangs on loads alone, and what is taken from a member on names and numbers. So the
order of the topics decides only which of the partitions that nobody has comes first, second, … (`sure_alike`).
"""

from __future__ import annotations

from dataclasses import dataclass

from spark_assign.groups.assignors.franz_go.balancer_input import NO_MEMBER, FranzGoGroup, LoadLevels, MemberHeap


@dataclass(frozen=True)
class HomogeneousAssignment:
    """What became of such a group.

    Attributes:
        owner: of each partition.
        unassigned: the partitions that nobody had, in the order in which they were dealt.
        new_owner: to whom each of them went.
        from_members: the members that partitions were taken from.
        stolen: the partitions that were.
    """

    owner: list[int]
    unassigned: list[int]
    new_owner: list[int]
    from_members: set[int]
    stolen: set[int]


def plan_homogeneous(group: FranzGoGroup, before: list[int], order: list[int]) -> HomogeneousAssignment:
    """Plan a group from who has what before, with its topics in some order."""
    owner, load = list(before), [0] * group.num_members
    for member in owner:
        if member != NO_MEMBER:
            load[member] += 1
    free = [partition for topic in order for partition in group.partitions_of(topic) if owner[partition] == NO_MEMBER]
    least = MemberHeap(range(group.num_members), load)
    dealt = least.take_many(len(free))
    for partition, member in zip(free, dealt, strict=True):
        owner[partition] = member
    steals = plan_steals(load)
    from_members = {from_member for from_member, _ in steals}
    taken = set()
    held = _owned_partitions(group, owner, from_members)
    for from_member, to_member in steals:
        partition = held[from_member].pop()
        owner[partition] = to_member
        taken.add(partition)
    return HomogeneousAssignment(owner, free, dealt, from_members, taken)


def _owned_partitions(group: FranzGoGroup, owner: list[int], from_members: set[int]) -> dict[int, list[int]]:
    """What these members own, the highest partition numbers last, and of these the last topics."""
    held: dict[int, list[int]] = {from_member: [] for from_member in from_members}
    if from_members:
        for partition, member in enumerate(owner):
            if member in from_members:
                held[member].append(partition)
    for partitions in held.values():
        partitions.sort(key=lambda at: (at - group.first[group.topic[at]], group.topic[at]))
    return held


def plan_steals(load: list[int]) -> list[tuple[int, int]]:
    """Who takes from whom, until no two members differ by more than one."""
    levels = LoadLevels(load)
    steals: list[tuple[int, int]] = []
    top, bottom = max(levels.of), min(levels.of)
    while top > bottom + 1:
        low, high = levels.of[bottom], levels.of[top]
        pairs = min(len(low), len(high))
        steals += zip(high[:pairs], low[:pairs], strict=True)
        levels.members_at(bottom + 1).extend(low[:pairs])
        levels.members_at(top - 1).extend(high[:pairs])
        del low[:pairs], high[:pairs]
        if not low:
            levels.drop_if_empty(bottom)
            bottom += 1
        if not high:
            levels.drop_if_empty(top)
            top -= 1
    return steals
