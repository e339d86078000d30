"""Cooperative-sticky of librdkafka.

Principles: members keep what they own, the rest goes to the member with the fewest partitions, then the group is
balanced (`balance`). In a cooperative rebalance, a partition that moves is withheld until its owner has revoked it.

Example: topic t has four partitions. C0 owns all of them, and C1 joins.

    target      C0: [t0, t1]    C1: [t2, t3]
    assigned    C0: [t0, t1]    C1: []          (t2 and t3 are withheld)

Steps
    1. Resolve conflicts between owners.
    2. Keep what members own of topics that they subscribe to and, if racks are used, in their rack.
    3. Assign the other partitions, and balance.
    4. Withhold partitions that another member still owns.

It follows the sticky assignor of Kafka's clients before 2.5.1, plus racks, with these differences:

- If two members own a partition in the same generation, it is revoked from both, even if a third owns it in a newer
one.
- Otherwise the newest generation counts, but the last owner in the member list counts as the owner while balancing.
- An assignment never counts as initial. Unowned partitions come last topic first, last partition first, unless nothing
  is owned.
- In a group with racks, a member without a rack matches none: it gives up all that it owns, and gets what is left.

In step 4, the last owner in the member list counts, even against a newer generation. An owned partition without a new
owner (its topic was deleted) is returned to this member.
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
)
from spark_assign.groups.assignors.range import racks_matter


@dataclass
class OwnedPartitions:
    """Partitions that members own.

    Attributes:
        owned: member id to its partitions; the newest generation wins.
        owner: member that counts as the owner of each partition.
        previous_owner: member of the second newest generation, for partitions owned in several generations.
    """

    owned: Assignment
    owner: dict[TopicPartition, str] = field(default_factory=dict)
    previous_owner: dict[TopicPartition, str] = field(default_factory=dict)


def resolve_owned(group: LibrdkafkaGroup) -> OwnedPartitions:
    """Resolves conflicts between owners (step 1)."""
    resolved = OwnedPartitions({member.member_id: [] for member in group.members})
    owners: dict[TopicPartition, list[LibrdkafkaMember]] = {}
    for member in group.members:
        for partition in member.owned:
            owners.setdefault(partition, []).append(member)
            resolved.owner[partition] = member.member_id
    for partition, members in owners.items():
        members.sort(key=lambda member: member.generation)
        if len({member.generation for member in members}) < len(members):
            del resolved.owner[partition]
            continue
        resolved.owned[members[-1].member_id].append(partition)
        if len(members) > 1:
            resolved.previous_owner[partition] = members[-2].member_id
    return resolved


def assign_sticky(group: LibrdkafkaGroup) -> Assignment:
    """Returns the target assignment, before anything is withheld."""
    resolved = resolve_owned(group)
    subscribers = {
        topic: members
        for topic, count in group.partitions.items()
        if count > 0 and (members := [member.member_id for member in group.members if topic in member.topics])
    }
    ordered = _sort_partitions(group, resolved, subscribers)
    racks = find_member_racks(group)
    kept: set[TopicPartition] = set()
    has_revoked = False
    topics = {member.member_id: member.topics for member in group.members}
    for member_id, owned in resolved.owned.items():
        still_owned = []
        for partition in owned:
            if not _exists(group, subscribers, partition):
                resolved.owner.pop(partition, None)
            elif partition[0] not in topics[member_id] or not is_rack_matched(group, racks, member_id, partition):
                has_revoked = True
            else:
                still_owned.append(partition)
        kept.update(still_owned)
        resolved.owned[member_id] = still_owned
    balancer = LibrdkafkaBalancer(
        resolved.owned, resolved.owner, resolved.previous_owner, subscribers, group.partitions
    )
    unowned = [partition for partition in ordered if partition not in kept]
    unassigned = unowned
    if racks is not None:
        unassigned = [
            partition
            for partition in unowned
            if not balancer.assign(
                partition, lambda member_id, candidate: is_rack_matched(group, racks, member_id, candidate)
            )
        ]
    for partition in unassigned:
        balancer.assign(partition)
    return balancer.run(ordered, unowned, is_initial=not kept, has_revoked=has_revoked)


def find_member_racks(group: LibrdkafkaGroup) -> dict[str, str] | None:
    """Returns the rack of each member; None if racks aren't used."""
    racks = {member.member_id: member.rack for member in group.members}
    partitions = [group.racks_of((topic, index)) for topic, count in group.partitions.items() for index in range(count)]
    return racks if racks_matter(partitions, set(racks.values()) - {""}) else None


def is_rack_matched(
    group: LibrdkafkaGroup, racks: dict[str, str] | None, member_id: str, partition: TopicPartition
) -> bool:
    """Checks whether racks aren't used, or a replica is in the member's rack."""
    return racks is None or racks[member_id] in group.racks_of(partition)


def _exists(group: LibrdkafkaGroup, subscribers: dict[str, list[str]], partition: TopicPartition) -> bool:
    """Checks whether a partition exists and its topic has subscribers."""
    return partition[0] in subscribers and 0 <= partition[1] < group.partitions[partition[0]]


def _sort_partitions(
    group: LibrdkafkaGroup, resolved: OwnedPartitions, subscribers: dict[str, list[str]]
) -> list[TopicPartition]:
    """Returns all partitions in the order in which they are balanced."""
    descending = [
        (topic, index) for topic in reversed(subscribers) for index in reversed(range(group.partitions[topic]))
    ]
    subscriptions = {member.topics.intersection(subscribers) for member in group.members}
    if len(subscriptions) > 1:
        return sorted(descending, key=lambda partition: (len(subscribers[partition[0]]), partition))
    ordered = _sort_owned(group, resolved, subscribers)
    if not ordered:
        return sorted(descending)
    included = set(ordered)
    return ordered + [partition for partition in descending if partition not in included]


def _sort_owned(
    group: LibrdkafkaGroup, resolved: OwnedPartitions, subscribers: dict[str, list[str]]
) -> list[TopicPartition]:
    """Returns the owned partitions, each time one of the member with the most left; those with a previous owner
    first."""
    remaining: dict[str, list[TopicPartition]] = {}
    for member_id, owned in resolved.owned.items():
        existing = [partition for partition in owned if _exists(group, subscribers, partition)]
        if existing:
            existing.sort(key=lambda partition: (partition not in resolved.previous_owner, partition), reverse=True)
            remaining[member_id] = existing
    fullest = sorted((len(owned), member_id) for member_id, owned in remaining.items())
    ordered = []
    while fullest:
        count, member_id = fullest.pop()
        ordered.append(remaining[member_id].pop())
        if count > 1:
            insort(fullest, (count - 1, member_id), bisect_left(fullest, (count - 1, "")))
    return ordered


def withhold(group: LibrdkafkaGroup, assigned: Assignment) -> tuple[Assignment, Assignment]:
    """Returns what members get in this round, and what is withheld (step 4)."""
    owner = {partition: member.member_id for member in group.members for partition in member.owned}
    to_member: dict[TopicPartition, str] = {}
    for member in group.members:
        to_member.update(dict.fromkeys(assigned[member.member_id], member.member_id))
    assigned_now: Assignment = {member.member_id: [] for member in group.members}
    withheld: Assignment = {member.member_id: [] for member in group.members}
    for partition, member_id in to_member.items():
        (assigned_now if owner.get(partition, member_id) == member_id else withheld)[member_id].append(partition)
    for partition, member_id in owner.items():
        if partition not in to_member:
            assigned_now[member_id].append(partition)
    return assigned_now, withheld
