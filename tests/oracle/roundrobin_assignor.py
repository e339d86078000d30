"""Kafka 4.x `RoundRobinAssignor`, loop for loop.

All partitions by (topic, partition) are dealt to the members in their order; a member that does not subscribe
to the topic is passed over, and the pointer stays where the last partition left it.

    C0: [t0, t1], C1: [t0, t1], both topics with 3 partitions
    C0: [t0p0, t0p2, t1p1]
    C1: [t0p1, t1p0, t1p2]
"""

from __future__ import annotations

from tests.oracle.group import Assignment, Group


def assign(group: Group) -> Assignment:
    """Who gets what; every member is a key, even with an empty list."""
    assignment: Assignment = {member.member_id: [] for member in group.members}
    ring = sorted(group.members, key=lambda member: member.order)
    subscribed = [frozenset(member.topics) for member in ring]
    pointer = 0
    for topic in group.subscribed_topics():
        for partition in range(group.partitions[topic]):
            while topic not in subscribed[pointer]:
                pointer = (pointer + 1) % len(ring)
            assignment[ring[pointer].member_id].append((topic, partition))
            pointer = (pointer + 1) % len(ring)
    return assignment
