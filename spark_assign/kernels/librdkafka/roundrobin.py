"""Round robin: partitions by topic and number, members in turn."""

from __future__ import annotations

from spark_assign.kernels.librdkafka.group import Given, Group, served


def deal_in_turn(group: Group) -> Given:
    """Who gets what."""
    members = served(list(group.members))
    given: Given = {member.member_id: [] for member in members}
    at = -1
    for topic in sorted(group.partitions):
        if not any(topic in member.topics for member in members):
            continue
        for partition in range(group.partitions[topic]):
            at = (at + 1) % len(members)
            while topic not in members[at].topics:
                at = (at + 1) % len(members)
            given[members[at].member_id].append((topic, partition))
    return given
