"""The members of a KIP-848 group as the coordinator knows them, their requests, and aggregates over all members.

Kafka's classes are `ConsumerGroupHeartbeatRequest`, `ConsumerGroupHeartbeatResponse`, `ConsumerGroupMember`,
`ConsumerGroup`, and `ModernGroup`. A partition is an `assignment_request.code`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType

from spark_assign.assignors.server.coordinator_order import (
    CoordinatorTable,
    iteration_order,
    map_capacity,
    power_of_two,
)
from spark_assign.java.hash_map import java_key, string_hash
from spark_assign.simulation.kernel.target_assignment import NOTHING, TargetAssignment

JOIN, LEAVE, LEAVE_STATIC = 0, -1, -2
"""Special epochs of a heartbeat: the member joins, leaves, or leaves temporarily (static members)."""

NOT_SENT = -1
"""Value of `rebalance_timeout_ms` if the heartbeat doesn't contain it."""

UNKNOWN_MEMBER_ID = "UNKNOWN_MEMBER_ID"
FENCED_MEMBER_EPOCH = "FENCED_MEMBER_EPOCH"
UNRELEASED_INSTANCE_ID = "UNRELEASED_INSTANCE_ID"
FENCED_INSTANCE_ID = "FENCED_INSTANCE_ID"
GROUP_ID_NOT_FOUND = "GROUP_ID_NOT_FOUND"
GROUP_MAX_SIZE_REACHED = "GROUP_MAX_SIZE_REACHED"
INVALID_REGULAR_EXPRESSION = "INVALID_REGULAR_EXPRESSION"
"""Error codes, named as in Kafka's `Errors`."""


@dataclass(slots=True)
class Heartbeat:
    """The request of a member. Fields that are None are unchanged.

    Attributes:
        member_id: the ID that the member chose.
        member_epoch: the last epoch that it received, or `JOIN`, `LEAVE`, or `LEAVE_STATIC`.
        instance_id: instance ID of a static member; in every heartbeat.
        rack_id: rack of the member, which the server-side assignors ignore.
        rebalance_timeout_ms: time that the member may take to give up partitions.
        topics: subscribed names, in the order of the request.
        regex: regular expression of further subscribed topics; "" removes it.
        assignor: preferred server-side assignor (`uniform`, `range`).
        owned: partitions that the member owns. A partition counts as revoked only if this field shows it.
    """

    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = NOT_SENT
    topics: Sequence[str] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: Collection[int] | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the heartbeat contains no field that could change the member."""
        sent = (self.topics, self.regex, self.assignor, self.rack_id, self.instance_id, self.rebalance_timeout_ms)
        return sent == (None, None, None, None, None, NOT_SENT)

    @property
    def is_full(self) -> bool:
        """Whether the heartbeat contains all fields, as after a join or an error. Its response always contains the
        assignment."""
        subscribes = self.topics is not None or self.regex is not None
        return self.rebalance_timeout_ms != NOT_SENT and subscribes and self.owned is not None


@dataclass(slots=True)
class Response:
    """The response of the coordinator.

    Attributes:
        member_epoch: the epoch of the member; 0 with an error.
        assigned: all partitions of the member. None: unchanged.
        error: error code, or None. After `FENCED_MEMBER_EPOCH` and `UNKNOWN_MEMBER_ID` a member drops all and rejoins.
    """

    member_id: str
    member_epoch: int = 0
    assigned: Collection[int] | None = None
    error: str | None = None


class HeartbeatError(Exception):
    """An error response of the coordinator, which has changed nothing. The message is the error code."""


NOTHING_PENDING: Mapping[int, int] = MappingProxyType({})
"""Shared empty mapping, so that an identity check suffices."""


class MemberState(Enum):
    """`MemberState`: progress of a member toward its target.

    STABLE: it has all partitions of its target, as of its epoch.
    UNREVOKED_PARTITIONS: it must give up partitions first.
    UNRELEASED_PARTITIONS: it waits for partitions that other members haven't released.
    """

    STABLE = "STABLE"
    UNREVOKED_PARTITIONS = "UNREVOKED_PARTITIONS"
    UNRELEASED_PARTITIONS = "UNRELEASED_PARTITIONS"


@dataclass(slots=True, eq=False)
class ConsumerGroupMember:
    """A member.

    Attributes:
        member_id: the member ID.
        hash_code: `String.hashCode` of the member ID, unsigned.
        instance_id: instance ID of a static member. None: dynamic.
        rack_id: rack that it reported.
        rebalance_timeout_ms: time that it may take to give up partitions.
        names: subscribed topic names.
        regex: subscribed regular expression; "": none.
        assignor: preferred assignor. None: no preference.
        member_epoch: epoch of the target that it has reached; 0: it has just joined; -2: a static member that is away.
        previous_member_epoch: the previous epoch, which is accepted once more.
        state: progress toward the target.
        assigned: partitions that it may own, each with the epoch of its assignment.
        pending_revocation: partitions that it must give up and hasn't reported as revoked.
    """

    member_id: str
    hash_code: int = -1
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = NOT_SENT
    names: frozenset[str] = frozenset()
    regex: str = ""
    assignor: str | None = None
    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Mapping[int, int] = field(default_factory=dict)
    pending_revocation: Mapping[int, int] = field(default_factory=lambda: NOTHING_PENDING)

    def __post_init__(self) -> None:
        if self.hash_code < 0:
            self.hash_code = string_hash(self.member_id)

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether the member has reached this target."""
        return self.state is MemberState.STABLE and self.member_epoch == epoch

    def apply_heartbeat(self, request: Heartbeat) -> ConsumerGroupMember:
        """Returns the member with the fields of a heartbeat; the same object if nothing changes."""
        if request.is_plain:
            return self
        timeout_ms = request.rebalance_timeout_ms
        after = replace(
            self,
            instance_id=self.instance_id if request.instance_id is None else request.instance_id,
            rack_id=self.rack_id if request.rack_id is None else request.rack_id,
            rebalance_timeout_ms=self.rebalance_timeout_ms if timeout_ms == NOT_SENT else timeout_ms,
            names=self.names if request.topics is None else frozenset(request.topics),
            regex=self.regex if request.regex is None else request.regex,
            assignor=self.assignor if request.assignor is None else request.assignor,
        )
        return self if after._reported == self._reported else after

    @property
    def _reported(self) -> tuple[object, ...]:
        """The fields that a heartbeat can change."""
        return self.instance_id, self.rack_id, self.rebalance_timeout_ms, self.names, self.regex, self.assignor

    def with_assignment(
        self, epoch: int, state: MemberState, assigned: Mapping[int, int], pending: Mapping[int, int]
    ) -> ConsumerGroupMember:
        """Returns the member after a reconciliation step (`updateMemberEpoch`)."""
        return ConsumerGroupMember(
            self.member_id,
            self.hash_code,
            self.instance_id,
            self.rack_id,
            self.rebalance_timeout_ms,
            self.names,
            self.regex,
            self.assignor,
            epoch,
            self.member_epoch,
            state,
            assigned,
            pending,
        )

    def with_id(self, member_id: str) -> ConsumerGroupMember:
        """Returns a returning static member under its new ID, with its previous assignment."""
        return replace(self, member_id=member_id, hash_code=-1, member_epoch=0, previous_member_epoch=0)


@dataclass(slots=True)
class ConsumerGroupMembers:
    """The members.

    Attributes:
        by_id: members by ID.
        static: member ID by instance ID.
        targets: target of each member; a missing one is empty.
        owner: member ID by partition, for partitions that are assigned or not yet released.
        taken: all partitions in targets.
        names: number of members with each subscription by name.
        preferred: number of members that prefer each assignor.
        one_instance: whether a member can have only one instance ID.
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
        """Returns the target of a member."""
        return self.targets.get(member_id, NOTHING)

    def hash_order(self) -> list[str]:
        """Returns the member IDs in the order of the coordinator's table."""
        return self._order.iteration_order()

    def restore_table(self, listed: Sequence[str]) -> None:
        """Gives the coordinator's table the size at which it lists all members in this order, if there is one."""
        self._order.grow_until(listed)

    def put(self, member: ConsumerGroupMember) -> None:
        """Adds or updates a member (`updateMember`)."""
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
        self._update_owners(before, member)

    def remove(self, member_id: str) -> None:
        """Removes a member and its target (`removeMember`)."""
        member = self.by_id.pop(member_id)
        self._order.remove(member_id)
        self._count(member, -1)
        self._update_owners(member, None)
        if member.instance_id is not None:
            self.static.pop(member.instance_id, None)
        self.taken -= self.target(member_id).codes
        self.targets.pop(member_id, None)

    def replace(self, old_id: str, member: ConsumerGroupMember) -> None:
        """Replaces a static member by its returning successor, which inherits everything (`replaceMember`)."""
        target = self.target(old_id)
        self.remove(old_id)
        self.put(member)
        self.targets[member.member_id] = target
        self.taken |= target.codes

    def set_targets(self, changed: Mapping[str, TargetAssignment]) -> None:
        """Replaces the targets of these members."""
        for member_id, target in changed.items():
            self.taken -= self.target(member_id).codes
            self.targets[member_id] = target
        for target in changed.values():
            self.taken |= target.codes

    def _update_owners(self, before: ConsumerGroupMember | None, after: ConsumerGroupMember | None) -> None:
        """Updates the owners after a member was added, changed, or removed."""
        if before is not None and after is not None and _holds_the_same(before, after):
            return
        had, has = _holds(before), _holds(after)
        for each in had - has:
            del self.owner[each]
        if after is not None:
            self.owner |= dict.fromkeys(has - had, after.member_id)

    def _count(self, member: ConsumerGroupMember | None, one: int) -> None:
        """Counts a member in (`one` is 1) or out (-1)."""
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
        """Returns the assignor that most members prefer; in a tie, the first in the coordinator's table."""
        return max(self._preferred_order.iteration_order(), key=self.preferred.__getitem__, default=None)

    def preferred_assignor_after(self, before: str | None, after: str | None) -> str | None:
        """Returns the preferred assignor after a member changes its preference; in a tie, the first in a hash map.

        Kafka copies its table: the map starts with the minimum capacity, and a new name is the first in its bucket.
        """
        chain, counts = list(self._preferred_order.iteration_order()), dict(self.preferred)
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
        walked = iteration_order(chain, [string_hash(name) for name in chain], capacity, java_key)
        return max(walked, key=counts.__getitem__, default=None)


def _holds_the_same(before: ConsumerGroupMember, after: ConsumerGroupMember) -> bool:
    return before.assigned is after.assigned and before.pending_revocation is after.pending_revocation


def _holds(member: ConsumerGroupMember | None) -> set[int]:
    return set() if member is None else member.assigned.keys() | member.pending_revocation.keys()
