"""The members of a KIP-848 group, and what the coordinator counts over them (`ConsumerGroup`, `ModernGroup`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_assign.groups.assignors.server.hash_iteration import CoordinatorTable, map_capacity, power_of_two, walk
from spark_assign.java.hash_map import java_key, string_hash
from spark_assign.simulation.kernel.consumer_group_member import ConsumerGroupMember
from spark_assign.simulation.kernel.target_assignment import NOTHING, TargetAssignment


@dataclass(slots=True)
class ConsumerGroupMembers:
    """The members.

    Attributes:
        by_id: each.
        static: member id by instance id.
        targets: of each member; one that is not there has nothing.
        owner: of each partition that somebody has or has not given up yet, who.
        taken: the partitions in targets.
        names: of each subscription by name how many members have it.
        preferred: of each assignor how many members prefer it.
        one_instance: a member can have one instance id only.
    """

    one_instance: bool = True
    by_id: dict[str, ConsumerGroupMember] = field(default_factory=dict)
    static: dict[str, str] = field(default_factory=dict)
    targets: dict[str, TargetAssignment] = field(default_factory=dict)
    owner: dict[int, str] = field(default_factory=dict)
    taken: set[int] = field(default_factory=set)
    names: Counter[frozenset[str]] = field(default_factory=Counter)
    preferred: dict[str, int] = field(default_factory=dict)
    _order: CoordinatorTable = field(default_factory=CoordinatorTable)
    _preferred_order: CoordinatorTable = field(default_factory=CoordinatorTable)

    def target(self, member_id: str) -> TargetAssignment:
        """What a member is to have."""
        return self.targets.get(member_id, NOTHING)

    def walk(self) -> list[str]:
        """The members' ids in the order of the coordinator's table."""
        return self._order.walk()

    def put(self, member: ConsumerGroupMember) -> None:
        """A member as it is now (`updateMember`)."""
        before = self.by_id.get(member.member_id)
        self.by_id[member.member_id] = member
        self._order.put(member.member_id, member.hash_code)
        if before is None or before.names is not member.names or before.assignor != member.assignor:
            self._count(before, -1)
            self._count(member, 1)
        if before is None or before.instance_id != member.instance_id:
            if before is not None and before.instance_id is not None and self.one_instance:
                self.static.pop(before.instance_id, None)
            if member.instance_id is not None:
                self.static[member.instance_id] = member.member_id
        self._hold(before, member)

    def remove(self, member_id: str) -> None:
        """A member is gone, with its target (`removeMember`)."""
        member = self.by_id.pop(member_id)
        self._order.remove(member_id)
        self._count(member, -1)
        self._hold(member, None)
        if member.instance_id is not None:
            self.static.pop(member.instance_id, None)
        self.taken -= self.target(member_id).codes
        self.targets.pop(member_id, None)

    def replace(self, old_id: str, member: ConsumerGroupMember) -> None:
        """A static member is back: the new one has all that the old one had (`replaceMember`)."""
        target = self.target(old_id)
        self.remove(old_id)
        self.put(member)
        self.targets[member.member_id] = target
        self.taken |= target.codes

    def aim(self, changed: Mapping[str, TargetAssignment]) -> None:
        """The targets of these members are others now."""
        for member_id, target in changed.items():
            self.taken -= self.target(member_id).codes
            self.targets[member_id] = target
        for target in changed.values():
            self.taken |= target.codes

    def _hold(self, before: ConsumerGroupMember | None, after: ConsumerGroupMember | None) -> None:
        """Who has what, after a member has changed, come, or gone."""
        if before is not None and after is not None and _holds_the_same(before, after):
            return
        had, has = _holds(before), _holds(after)
        for each in had - has:
            del self.owner[each]
        if after is not None:
            self.owner |= dict.fromkeys(has - had, after.member_id)

    def _count(self, member: ConsumerGroupMember | None, one: int) -> None:
        if member is None:
            return
        self.names[member.names] += one
        if not self.names[member.names]:
            del self.names[member.names]
        assignor = member.assignor
        if assignor is None:
            return
        self.preferred[assignor] = self.preferred.get(assignor, 0) + one
        if self.preferred[assignor]:
            self._preferred_order.put(assignor, string_hash(assignor))
        else:
            del self.preferred[assignor]
            self._preferred_order.remove(assignor)

    # --- the assignor that most prefer ----------------------------------------------------------------------------

    def preferred_assignor(self) -> str | None:
        """The one that most members prefer; among equals the first of the coordinator's table."""
        return max(self._preferred_order.walk(), key=self.preferred.__getitem__, default=None)

    def preferred_assignor_after(self, before: str | None, after: str | None) -> str | None:
        """The same, once a member that preferred one prefers another; among equals the first of a hash map.

        Kafka copies its table for it: the map begins as small as can be, and a name that is new comes first in its
        bucket.
        """
        chain, counts = list(self._preferred_order.walk()), dict(self.preferred)
        capacity = power_of_two(len(chain) * 4 // 3 + 1) if chain else 16
        if before is not None:
            counts[before] -= 1
            if not counts[before]:
                chain.remove(before)
        if after is not None:
            counts[after] = counts.get(after, 0) + 1
            if after not in chain:
                capacity = max(capacity, map_capacity(len(chain), capacity))
                chain.insert(0, after)
        walked = walk(chain, [string_hash(name) for name in chain], capacity, java_key)
        return max(walked, key=counts.__getitem__, default=None)


def _holds_the_same(before: ConsumerGroupMember, after: ConsumerGroupMember) -> bool:
    return before.assigned is after.assigned and before.pending_revocation is after.pending_revocation


def _holds(member: ConsumerGroupMember | None) -> set[int]:
    return set() if member is None else member.assigned.keys() | member.pending_revocation.keys()
