"""Cooperative-sticky: what members own stays where it may, the rest goes to whoever has least, then it is balanced.

It follows the sticky assignor of Kafka's clients before 2.5.1, with racks, and differs from it in places:

- A partition that two members claim in one generation is taken from both, even if a third claims it in a newer one.
- Otherwise the newest claim counts, but the one who is listed last goes on as its owner in the balancing.
- No assignment counts as fresh. What nobody owns comes last topic first, last partition first, unless nobody owns
  anything.
- A group with racks has a member without one near to nothing: it gives up all it owns, to get what is left.


What of cooperative-sticky's answer is given at once: what changes hands waits until its owner has given it up.

Whoever is listed last of those who claim a partition counts as its owner here, even against a newer generation. What
is owned but assigned to nobody (its topic is gone) is given back to that one.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field

from spark_assign.groups.assignors.librdkafka.balance import LibrdkafkaBalancer
from spark_assign.groups.assignors.librdkafka.balancer_input import (
    Assignment,
    LibrdkafkaGroup,
    LibrdkafkaMember,
    TopicPartition,
    needs_racks,
)


@dataclass
class OwnedPartitions:
    """What members own, and what is known of it.

    Attributes:
        owned: by member id, of it what is the member's; a claim in a newer generation wins.
        owner: of each partition that is claimed the member that it counts as owned by.
        previous_owner: of each partition that was claimed in several generations, the member of the last but one.
    """

    owned: Assignment
    owner: dict[TopicPartition, str] = field(default_factory=dict)
    previous_owner: dict[TopicPartition, str] = field(default_factory=dict)


def resolve_owned(group: LibrdkafkaGroup) -> OwnedPartitions:
    """What members own."""
    claims = OwnedPartitions({member.member_id: [] for member in group.members})
    claimed: dict[TopicPartition, list[LibrdkafkaMember]] = {}
    for member in group.members:
        for partition in member.owned:
            claimed.setdefault(partition, []).append(member)
            claims.owner[partition] = member.member_id
    for partition, members in claimed.items():
        members.sort(key=lambda member: member.generation)
        if len({member.generation for member in members}) < len(members):
            del claims.owner[partition]
            continue
        claims.owned[members[-1].member_id].append(partition)
        if len(members) > 1:
            claims.previous_owner[partition] = members[-2].member_id
    return claims


def assign_sticky(group: LibrdkafkaGroup) -> Assignment:
    """Who gets what in the end, before anything is withheld."""
    claims = resolve_owned(group)
    subscribers = {
        topic: [member.member_id for member in group.members if topic in member.topics]
        for topic, count in group.partitions.items()
        if count > 0
    }
    subscribers = {topic: members for topic, members in subscribers.items() if members}
    ordered = _sort_partitions(group, claims, subscribers)
    racks = find_member_racks(group)
    kept: set[TopicPartition] = set()
    given_up = False
    topics = {member.member_id: member.topics for member in group.members}
    for member_id, owned in claims.owned.items():
        stays = []
        for partition in owned:
            if not _exists(group, subscribers, partition):
                claims.owner.pop(partition, None)
            elif partition[0] not in topics[member_id] or not is_rack_matched(group, racks, member_id, partition):
                given_up = True
            else:
                stays.append(partition)
        kept.update(stays)
        claims.owned[member_id] = stays
    balance = LibrdkafkaBalancer(claims.owned, claims.owner, claims.previous_owner, subscribers, group.partitions)
    left = [partition for partition in ordered if partition not in kept]
    unassigned = left
    if racks is not None:
        unassigned = [
            partition
            for partition in left
            if not balance.assign(partition, lambda who, what: is_rack_matched(group, racks, who, what))
        ]
    for partition in unassigned:
        balance.assign(partition)
    return balance.run(ordered, left, fresh=not kept, given_up=given_up)


def find_member_racks(group: LibrdkafkaGroup) -> dict[str, str] | None:
    """Of each member its rack; null where racks decide nothing."""
    members = list(group.members)
    if not needs_racks(group, list(group.partitions), members):
        return None
    return {member.member_id: member.rack for member in members}


def is_rack_matched(
    group: LibrdkafkaGroup, racks: dict[str, str] | None, member_id: str, partition: TopicPartition
) -> bool:
    """Whether racks do not forbid the member this partition."""
    return racks is None or racks[member_id] in group.racks_of(partition)


def _exists(group: LibrdkafkaGroup, subscribers: dict[str, list[str]], partition: TopicPartition) -> bool:
    return partition[0] in subscribers and 0 <= partition[1] < group.partitions[partition[0]]


def _sort_partitions(
    group: LibrdkafkaGroup, claims: OwnedPartitions, subscribers: dict[str, list[str]]
) -> list[TopicPartition]:
    """All partitions in the order in which they are looked at."""
    backwards = [(topic, at) for topic in reversed(subscribers) for at in reversed(range(group.partitions[topic]))]
    wanted = {member.topics.intersection(subscribers) for member in group.members}
    if len(wanted) > 1:
        return sorted(backwards, key=lambda partition: (len(subscribers[partition[0]]), partition))
    ordered = _sort_owned(group, claims, subscribers)
    if not ordered:
        return sorted(backwards)
    there = set(ordered)
    return ordered + [partition for partition in backwards if partition not in there]


def _sort_owned(
    group: LibrdkafkaGroup, claims: OwnedPartitions, subscribers: dict[str, list[str]]
) -> list[TopicPartition]:
    """What is owned, each time one of the member that has most left; first what another member has had before."""
    left: dict[str, list[TopicPartition]] = {}
    for member_id, owned in claims.owned.items():
        here = sorted(partition for partition in owned if _exists(group, subscribers, partition))
        if here:
            moved = [partition for partition in here if partition in claims.previous_owner]
            left[member_id] = (moved + [partition for partition in here if partition not in claims.previous_owner])[
                ::-1
            ]
    fullest = sorted((len(owned), member_id) for member_id, owned in left.items())
    ordered = []
    while fullest:
        count, member_id = fullest.pop()
        ordered.append(left[member_id].pop())
        if count > 1:
            insort(fullest, (count - 1, member_id), bisect_left(fullest, (count - 1, "")))
    return ordered


def withhold(group: LibrdkafkaGroup, assigned: Assignment) -> tuple[Assignment, Assignment]:
    """What members get in this round, and what they are to get after it."""
    owner = {partition: member.member_id for member in group.members for partition in member.owned}
    to_member: dict[TopicPartition, str] = {}
    for member in group.members:
        to_member.update(dict.fromkeys(assigned[member.member_id], member.member_id))
    now: Assignment = {member.member_id: [] for member in group.members}
    later: Assignment = {member.member_id: [] for member in group.members}
    for partition, member_id in to_member.items():
        (now if owner.get(partition, member_id) == member_id else later)[member_id].append(partition)
    for partition, member_id in owner.items():
        if partition not in to_member:
            now[member_id].append(partition)
    return now, later
