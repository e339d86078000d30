"""A classic group as its coordinator has it while its members restart: who is in it, who leads, what is elected.

The broker tells nobody who leads. Taken is the first member in the order of Java's `HashMap`: whom the coordinator
makes the leader whenever one has gone (`ClassicGroup.remove`).
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterable

from spark_assign.simulation.kernel.classic_group import ClassicGroup
from spark_assign.simulation.kernel.classic_group_member import ClassicGroupMember

Assignors = tuple[str, ...]
"""A member's partition.assignment.strategy, by Kafka's names, the one it likes best first."""

_UUID = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", re.IGNORECASE)


def next_id(member_id: str) -> str:
    """The id that the coordinator gives to a member which has restarted: its client's or instance's, and a UUID.

    Kafka draws the UUID at random. Here it is drawn from the old id, so that a fleet has one answer.

    Examples:
        >>> next_id("app-1-9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d")[:6], len(next_id("app-1"))
        ('app-1-', 42)
    """
    digest = hashlib.md5(member_id.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()
    return f"{_UUID.sub('', member_id)}-{uuid.UUID(bytes=digest, version=4)}"


class GroupMembership:
    """One group."""

    def __init__(
        self, members: Iterable[tuple[str, str | None]], assignors: Assignors, leader: str | None = None
    ) -> None:
        """These members (id, instance id) are there, all with this list; `leader`: its id, null where nobody knows."""
        self.group = ClassicGroup("")
        for member_id, instance in members:
            self.join(member_id, instance, assignors)
        self.group.leader_id = leader or self.group.all_members()[0].member_id
        self.group.protocol_name = assignors[0]

    def leave(self, member_id: str) -> None:
        """A dynamic member has left; if it led, another one does."""
        self.group.remove(member_id)

    def join(self, member_id: str, instance: str | None, assignors: Assignors) -> None:
        """A member joins, under an id that is new; it leads if nobody is there."""
        self.group.add(ClassicGroupMember(member_id, protocols=assignors, group_instance_id=instance))

    def come_back(self, instance: str, old: str, new: str, assignors: Assignors) -> bool:
        """A static member is back before its session is over, under a new id; it leads if it did.

        Returns:
            whether the group rebalances: only where the vote has another winner now (KIP-345, KIP-814).
        """
        member = self.group.replace_static_member(instance, old, new)
        self.group.update(member, protocols=assignors, topics=(), rebalance_timeout_ms=0)
        return self.group.select_protocol() != self.group.protocol_name

    def elect(self) -> tuple[str, str]:
        """All have joined again: who leads, and which assignor is elected."""
        self.group.protocol_name = self.group.select_protocol()
        assert self.group.leader_id is not None
        return self.group.leader_id, self.group.protocol_name
