"""What of cooperative-sticky's answer is given at once: what changes hands waits until its owner has given it up.

Whoever is listed last of those who claim a partition counts as its owner here, even against a newer generation. What
is owned but assigned to nobody (its topic is gone) is given back to that one.
"""

from __future__ import annotations

from spark_assign.groups.assignors.librdkafka.balancer_input import Given, LibrdkafkaGroup, TopicPartition


def withhold(group: LibrdkafkaGroup, assigned: Given) -> tuple[Given, Given]:
    """What members get in this round, and what they are to get after it."""
    owner = {partition: member.member_id for member in group.members for partition in member.owned}
    to_member: dict[TopicPartition, str] = {}
    for member in group.members:
        to_member.update(dict.fromkeys(assigned[member.member_id], member.member_id))
    now: Given = {member.member_id: [] for member in group.members}
    later: Given = {member.member_id: [] for member in group.members}
    for partition, member_id in to_member.items():
        (now if owner.get(partition, member_id) == member_id else later)[member_id].append(partition)
    for partition, member_id in owner.items():
        if partition not in to_member:
            now[member_id].append(partition)
    return now, later
