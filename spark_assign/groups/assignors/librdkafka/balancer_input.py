"""A group as librdkafka's leader has it before it, and the order in which its members are served."""

from __future__ import annotations

from dataclasses import dataclass

TopicPartition = tuple[str, int]
Given = dict[str, list[TopicPartition]]
"""By member id, what it gets."""


@dataclass(frozen=True)
class LibrdkafkaMember:
    """A member that subscribes to something; the leader leaves out all others.

    Attributes:
        member_id, instance: its id and its group.instance.id, null for none.
        rack: its client.rack. A librdkafka client without one writes an empty rack, which is none to range, and a rack
            without any replica to cooperative-sticky.
        generation: of its subscription, -1 for none.
        topics: that it subscribes to.
        owned: what it says it owns, in that order.
    """

    member_id: str
    instance: str | None
    rack: str
    generation: int
    topics: frozenset[str]
    owned: tuple[TopicPartition, ...]


@dataclass(frozen=True)
class LibrdkafkaGroup:
    """Members as the coordinator lists them, and their topics as the broker answers for them.

    Attributes:
        members: those that subscribe to something.
        partitions: of each topic with metadata its count, in the order of the broker's answer.
        racks: of topics with known racks, of each partition those that have a replica.
    """

    members: tuple[LibrdkafkaMember, ...]
    partitions: dict[str, int]
    racks: dict[str, list[frozenset[str]]]

    def racks_of(self, partition: TopicPartition) -> frozenset[str]:
        """The racks that have a replica."""
        known = self.racks.get(partition[0], ())
        return known[partition[1]] if partition[1] < len(known) else frozenset()


def served(members: list[LibrdkafkaMember]) -> list[LibrdkafkaMember]:
    """In which order range and roundrobin serve members.

    Two static members go by instance id, any other two by member id. Where a group has both kinds that is no order:
    what comes out hangs on the order that goes in, and on how the C library sorts. This is glibc's merge sort; musl's
    and those of macOS and Windows may end otherwise.
    """
    if len(members) < 2:
        return members
    half = len(members) // 2
    one, other = served(members[:half]), served(members[half:])
    merged, at, to = [], 0, 0
    while at < len(one) and to < len(other):
        if _later(one[at], other[to]):
            merged.append(other[to])
            to += 1
        else:
            merged.append(one[at])
            at += 1
    return merged + one[at:] + other[to:]


def _later(one: LibrdkafkaMember, other: LibrdkafkaMember) -> bool:
    if one.instance is not None and other.instance is not None:
        return one.instance > other.instance
    return one.member_id > other.member_id


def needs_racks(group: LibrdkafkaGroup, topics: list[str], members: list[LibrdkafkaMember]) -> bool:
    """Whether racks matter to these topics and their subscribers (KIP-881).

    Some member's rack has a replica, and some partition has none in one of the racks that have any.
    """
    per_partition = [
        group.racks_of((topic, partition)) for topic in topics for partition in range(group.partitions[topic])
    ]
    all_racks = frozenset().union(*per_partition)
    if not any(member.rack and member.rack in all_racks for member in members):
        return False
    return any(len(racks) != len(all_racks) for racks in per_partition)
