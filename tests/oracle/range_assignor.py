"""Kafka 4.x `RangeAssignor` with rack awareness (KIP-881), loop for loop.

Every topic by itself: its members in order, each a contiguous range, the first ones one partition more.

    C0: [t0, t1], C1: [t0, t1], both topics with 3 partitions
    C0: [t0p0, t0p1, t1p0, t1p1]
    C1: [t0p2, t1p2]

Where racks matter (some topic needs them), a phase comes before that hands out only what is in the member's
own rack: co-partitioned topics together, partition by partition; a topic alone member by member. A member
without rack matches every partition there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from tests.oracle.group import Assignment, Group, Member


def assign(group: Group, prefer_rack_aware: bool = False) -> Assignment:
    """Who gets what; every member is a key, even with an empty list. `prefer_rack_aware` is the switch that
    only Kafka's own tests have: racks count even where every partition has a replica in every rack."""
    assignment: Assignment = {member.member_id: [] for member in group.members}
    members_of: dict[str, list[Member]] = defaultdict(list)
    for member in group.members:
        for topic in member.topics:
            members_of[topic].append(member)
    states = [_Topic(topic, members_of[topic], group, prefer_rack_aware) for topic in group.subscribed_topics()]
    if any(state.needs_racks for state in states):
        _assign_in_rack(states, assignment)
    for state in states:
        _assign_ranges(state, lambda member_id, partition: True, assignment)
    return assignment


class _Topic:
    """`TopicAssignmentState`: one topic, its members in order, and what is left of it."""

    def __init__(self, name: str, members: Iterable[Member], group: Group, prefer_rack_aware: bool) -> None:
        self.name = name
        count = group.partitions[name]
        self.rack_of = {member.member_id: member.rack_id for member in sorted(members, key=lambda member: member.order)}
        self.unassigned: dict[int, None] = dict.fromkeys(range(count))
        self.assigned = dict.fromkeys(self.rack_of, 0)
        self.quota, self.one_more = divmod(count, len(self.rack_of))

        member_racks = {rack for rack in self.rack_of.values() if rack is not None}
        self.partition_racks: list[frozenset[str]] = []
        if member_racks:
            known = group.replica_racks.get(name) or [[]] * count
            self.partition_racks = [frozenset(rack for rack in racks if rack is not None) for racks in known[:count]]
        all_racks = frozenset().union(*self.partition_racks)
        self.needs_racks = not member_racks.isdisjoint(all_racks) and (
            prefer_rack_aware or any(racks != all_racks for racks in self.partition_racks)
        )

    def racks_match(self, member_id: str, partition: int) -> bool:
        rack = self.rack_of[member_id]
        return rack is None or (partition < len(self.partition_racks) and rack in self.partition_racks[partition])

    def room(self, member_id: str) -> int:
        return max(0, self.quota + (self.one_more > 0) - self.assigned[member_id])

    def give(self, member_id: str, partitions: Sequence[int], assignment: Assignment) -> None:
        assignment[member_id].extend((self.name, partition) for partition in partitions)
        self.assigned[member_id] += len(partitions)
        if self.assigned[member_id] > self.quota:
            self.one_more -= 1
        for partition in partitions:
            self.unassigned.pop(partition, None)


def _assign_ranges(topic: _Topic, may_assign: Callable[[str, int], bool], assignment: Assignment) -> None:
    for member_id in topic.rack_of:
        if not topic.unassigned:
            break
        room = topic.room(member_id)
        candidates = (partition for partition in topic.unassigned if may_assign(member_id, partition))
        partitions = list(islice(candidates, room))
        if partitions:
            topic.give(member_id, partitions, assignment)


def _assign_in_rack(topics: Iterable[_Topic], assignment: Assignment) -> None:
    """`assignWithRackMatching`: topics with the same members (and racks) and the same count go together."""
    together: dict[tuple[frozenset[tuple[str, str | None]], int], list[_Topic]] = defaultdict(list)
    for topic in topics:
        together[frozenset(topic.rack_of.items()), len(topic.partition_racks)].append(topic)
    for (_, count), co_partitioned in together.items():
        if len(co_partitioned) > 1:
            _assign_co_partitioned(count, co_partitioned, assignment)
        elif co_partitioned[0].needs_racks:
            _assign_ranges(co_partitioned[0], co_partitioned[0].racks_match, assignment)


def _assign_co_partitioned(count: int, topics: list[_Topic], assignment: Assignment) -> None:
    """Partition p of all the topics goes to the first member that is in a rack of each and has room."""
    remaining = list(topics[0].rack_of)
    for partition in range(count):
        chosen = next(
            (m for m in remaining if all(topic.racks_match(m, partition) and topic.room(m) for topic in topics)),
            None,
        )
        if chosen is None:
            continue
        for topic in topics:
            topic.give(chosen, [partition], assignment)
        if not any(topic.room(chosen) for topic in topics):
            remaining.remove(chosen)
            if not remaining:
                break
