"""librdkafka's range as loops: each topic in consecutive ranges, by rack if racks are known (KIP-881).

Example: C0 and C1 subscribe to t0 and t1, three partitions each.

    C0: [t0p0, t0p1, t1p0, t1p1]    C1: [t0p2, t1p2]

Steps
    1. Co-partitioned topics (same subscribers, same number of partitions): the same partition of all topics goes to the
       first member in whose rack all have a replica, if it has room.
    2. Other topics with racks: each member in turn takes the first partitions that match its rack, up to its quota.
    3. Each member in turn takes the first unassigned partitions, up to its quota.

Unlike in Kafka, step 1 doesn't require that racks differ between partitions, and in step 2 a member without a rack
matches all partitions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from spark_assign.assignors.librdkafka.balance import (
    Assignment,
    LibrdkafkaGroup,
    LibrdkafkaMember,
    merge_sort,
)


def needs_racks(group: LibrdkafkaGroup, topics: list[str], members: list[LibrdkafkaMember]) -> bool:
    """Checks whether racks affect the assignment of these topics (KIP-881).

    This is the case if some member's rack has a replica, and some partition has no replica in one of the racks in use.
    """
    per_partition = [group.racks_of((topic, p)) for topic in topics for p in range(group.partitions[topic])]
    all_racks = frozenset().union(*per_partition)
    if not any(member.rack and member.rack in all_racks for member in members):
        return False
    return any(len(racks) != len(all_racks) for racks in per_partition)


@dataclass
class _Topic:
    """A topic while it is assigned.

    Attributes:
        name, members: the topic and its subscribers, in assignment order.
        quota, extra: minimum number of partitions of each member, and number of members that can still get one more.
        unassigned: unassigned partitions, ascending.
        assigned: member id to its partitions.
    """

    name: str
    members: list[LibrdkafkaMember]
    quota: int
    extra: int
    unassigned: list[int]
    assigned: dict[str, list[int]] = field(default_factory=dict)

    def max_assignable(self, member: LibrdkafkaMember) -> int:
        """Returns the number of partitions that the member can still get."""
        return self.quota + (self.extra > 0) - len(self.assigned[member.member_id])

    def assign(self, member: LibrdkafkaMember, partition: int) -> None:
        """Assigns a partition."""
        self.assigned[member.member_id].append(partition)
        if len(self.assigned[member.member_id]) > self.quota:
            self.extra -= 1


def assign_ranges(group: LibrdkafkaGroup) -> Assignment:
    """Returns the partitions of each member."""
    topics = [_read(group, topic) for topic in group.partitions]
    by_key: dict[tuple[tuple[str, ...], int], list[_Topic]] = {}
    for topic in topics:
        if topic.members:
            key = tuple(member.member_id for member in topic.members), len(topic.unassigned)
            by_key.setdefault(key, []).append(topic)
    for topics_of_key in by_key.values():
        if len(topics_of_key) > 1:
            _assign_co_partitioned(group, topics_of_key)
        elif needs_racks(group, [topics_of_key[0].name], topics_of_key[0].members):
            _assign_topic(topics_of_key[0], partial(_is_rack_matched, group, topics_of_key[0].name))
    assignment: Assignment = {member.member_id: [] for member in group.members}
    for topic in topics:
        _assign_topic(topic, None)
        for member_id, partitions in topic.assigned.items():
            assignment[member_id] += [(topic.name, partition) for partition in partitions]
    return assignment


def _read(group: LibrdkafkaGroup, topic: str) -> _Topic:
    """Returns a topic before its assignment."""
    members = merge_sort([member for member in group.members if topic in member.topics])
    count = group.partitions[topic]
    quota, extra = divmod(count, len(members)) if members else (0, 0)
    return _Topic(topic, members, quota, extra, list(range(count)), {member.member_id: [] for member in members})


def _is_rack_matched(group: LibrdkafkaGroup, topic: str, member: LibrdkafkaMember, partition: int) -> bool:
    """Checks whether the member has no rack, or a replica is in its rack."""
    return not member.rack or member.rack in group.racks_of((topic, partition))


def _assign_topic(topic: _Topic, fits: Callable[[LibrdkafkaMember, int], bool] | None) -> None:
    """Assigns the first partitions that fit to each member in turn, up to its quota (steps 2 and 3)."""
    for member in topic.members:
        num_free = topic.max_assignable(member)
        if num_free <= 0:
            continue
        fitting = (topic.unassigned if fits is None else [p for p in topic.unassigned if fits(member, p)])[:num_free]
        assigned = set(fitting)
        topic.unassigned = (
            [p for p in topic.unassigned if p not in assigned] if fits is not None else topic.unassigned[len(fitting) :]
        )
        for partition in fitting:
            topic.assign(member, partition)


def _assign_co_partitioned(group: LibrdkafkaGroup, topics: list[_Topic]) -> None:
    """Assigns the same partition of all topics to the first member with room in whose rack all have a replica (step
    1)."""
    members = [member for member in topics[0].members if member.rack]
    for partition in list(topics[0].unassigned) if members else ():
        for member in members:
            if all(member.rack in group.racks_of((t.name, partition)) and t.max_assignable(member) > 0 for t in topics):
                for topic in topics:
                    topic.assign(member, partition)
                    topic.unassigned.remove(partition)
                break
