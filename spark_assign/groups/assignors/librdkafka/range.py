"""Range: each topic by itself, in ranges; near to members where racks are known (KIP-881).

Unlike Kafka's, two topics with the same subscribers and as many partitions go the way of co-partitioned topics even if
no rack tells anything, and for one topic a member without a rack is near to everything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from spark_assign.groups.assignors.librdkafka.balancer_input import (
    Assignment,
    LibrdkafkaGroup,
    LibrdkafkaMember,
    assignment_order,
    needs_racks,
)


@dataclass
class _Topic:
    """A topic that is being dealt out.

    Attributes:
        name, members: the topic and its subscribers, in the order in which they are served.
        quota, extra: what each of them gets at least, and how many may still get one more.
        unassigned: the partitions that nobody has yet, ascending.
        assigned: by member id, what it has.
    """

    name: str
    members: list[LibrdkafkaMember]
    quota: int
    extra: int
    unassigned: list[int]
    assigned: dict[str, list[int]] = field(default_factory=dict)

    def max_assignable(self, member: LibrdkafkaMember) -> int:
        """How many more the member may get."""
        return self.quota + (self.extra > 0) - len(self.assigned[member.member_id])

    def assign(self, member: LibrdkafkaMember, partition: int) -> None:
        self.assigned[member.member_id].append(partition)
        if len(self.assigned[member.member_id]) > self.quota:
            self.extra -= 1


def assign_ranges(group: LibrdkafkaGroup) -> Assignment:
    """Who gets what."""
    topics = [_read(group, topic) for topic in group.partitions]
    together: dict[tuple[tuple[str, ...], int], list[_Topic]] = {}
    for topic in topics:
        if topic.members:
            key = tuple(member.member_id for member in topic.members), len(topic.unassigned)
            together.setdefault(key, []).append(topic)
    for alike in together.values():
        if len(alike) > 1:
            _assign_co_partitioned(group, alike)
        elif needs_racks(group, [alike[0].name], alike[0].members):
            _assign_topic(alike[0], partial(_is_rack_matched, group, alike[0].name))
    given: Assignment = {member.member_id: [] for member in group.members}
    for topic in topics:
        _assign_topic(topic, None)
        for member_id, partitions in topic.assigned.items():
            given[member_id] += [(topic.name, partition) for partition in partitions]
    return given


def _read(group: LibrdkafkaGroup, topic: str) -> _Topic:
    members = assignment_order([member for member in group.members if topic in member.topics])
    count = group.partitions[topic]
    quota, extra = divmod(count, len(members)) if members else (0, 0)
    return _Topic(topic, members, quota, extra, list(range(count)), {member.member_id: [] for member in members})


def _is_rack_matched(group: LibrdkafkaGroup, topic: str, member: LibrdkafkaMember, partition: int) -> bool:
    return not member.rack or member.rack in group.racks_of((topic, partition))


def _assign_topic(topic: _Topic, fits: Callable[[LibrdkafkaMember, int], bool] | None) -> None:
    """Give each member in turn the first partitions that fit, as many as it may have."""
    for member in topic.members:
        room = topic.max_assignable(member)
        if room <= 0:
            continue
        taken = (topic.unassigned if fits is None else [at for at in topic.unassigned if fits(member, at)])[:room]
        gone = set(taken)
        topic.unassigned = (
            [at for at in topic.unassigned if at not in gone] if fits is not None else topic.unassigned[len(taken) :]
        )
        for partition in taken:
            topic.assign(member, partition)


def _assign_co_partitioned(group: LibrdkafkaGroup, topics: list[_Topic]) -> None:
    """Give the same partition of all topics to the first member that is near to all of them and has room."""
    racked = [member for member in topics[0].members if member.rack]
    for partition in list(topics[0].unassigned) if racked else ():
        for member in racked:
            if all(
                member.rack in group.racks_of((topic.name, partition)) and topic.max_assignable(member) > 0
                for topic in topics
            ):
                for topic in topics:
                    topic.assign(member, partition)
                    topic.unassigned.remove(partition)
                break
