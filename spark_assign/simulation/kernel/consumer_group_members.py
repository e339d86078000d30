"""The members of a KIP-848 group, and what the coordinator counts over them (`ConsumerGroup`, `ModernGroup`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType

from spark_assign.groups.assignors.server.coordinator_hash_order import (
    CoordinatorTable,
    iteration_order,
    map_capacity,
    power_of_two,
)
from spark_assign.java.hash_map import java_key, string_hash
from spark_assign.simulation.kernel.target_assignment import NOTHING, TargetAssignment

JOIN, LEAVE, LEAVE_STATIC = 0, -1, -2
"""Epochs of a heartbeat that say something else: I join; I leave; I leave, and will be back (static members)."""

NOT_SENT = -1
"""`rebalance_timeout_ms` of a heartbeat that does not say it."""

UNKNOWN_MEMBER_ID = "UNKNOWN_MEMBER_ID"
FENCED_MEMBER_EPOCH = "FENCED_MEMBER_EPOCH"
UNRELEASED_INSTANCE_ID = "UNRELEASED_INSTANCE_ID"
FENCED_INSTANCE_ID = "FENCED_INSTANCE_ID"
GROUP_ID_NOT_FOUND = "GROUP_ID_NOT_FOUND"
GROUP_MAX_SIZE_REACHED = "GROUP_MAX_SIZE_REACHED"
INVALID_REGULAR_EXPRESSION = "INVALID_REGULAR_EXPRESSION"
"""Error codes, as Kafka's `Errors` has them."""


@dataclass(slots=True)
class Heartbeat:
    """What a member sends. What it does not send is null: it is as it was.

    Attributes:
        member_id: chosen by the member.
        member_epoch: the last one that it was told; `JOIN`, `LEAVE` or `LEAVE_STATIC`.
        instance_id: of a static member; in every heartbeat.
        rack_id: where it is; the broker's assignors do not look at it.
        rebalance_timeout_ms: how long it may take to give up partitions.
        topics: the names that it subscribes to, in the order of the request.
        regex: a regular expression for more of them; "": none any more.
        assignor: the one it prefers, by its name in the broker (`uniform`, `range`).
        owned: the partitions that it has. Only what it reports as given up counts as given up.
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
        """It says nothing about the member that could be new."""
        return (
            self.topics is None
            and self.regex is None
            and self.assignor is None
            and self.rebalance_timeout_ms == NOT_SENT
            and self.rack_id is None
            and self.instance_id is None
        )

    @property
    def is_full(self) -> bool:
        """It says everything, as after a joining or an error; such a one is always told its assignment."""
        asks = self.topics is not None or self.regex is not None
        return self.rebalance_timeout_ms != NOT_SENT and asks and self.owned is not None


@dataclass(slots=True)
class Response:
    """What the coordinator answers.

    Attributes:
        member_epoch: how far the member has come; 0 with an error.
        assigned: all that the member has now; null: as before.
        error: null: none. After `FENCED_MEMBER_EPOCH` and `UNKNOWN_MEMBER_ID` a member drops all and joins anew.
    """

    member_id: str
    member_epoch: int = 0
    assigned: Collection[int] | None = None
    error: str | None = None


class HeartbeatError(Exception):
    """The coordinator answers with an error, and has changed nothing."""

    def __init__(self, error: str) -> None:
        super().__init__(error)
        self.error = error


NOTHING_PENDING: Mapping[int, int] = MappingProxyType({})
"""Shared, so that who has nothing to give up can be told at a glance."""


class MemberState(Enum):
    """`MemberState`: how far a member is on its way to its target.

    STABLE: it has all that its target says, as of its epoch.
    UNREVOKED_PARTITIONS: it has to give up something first.
    UNRELEASED_PARTITIONS: it lacks what others have not given up yet.
    """

    STABLE = "STABLE"
    UNREVOKED_PARTITIONS = "UNREVOKED_PARTITIONS"
    UNRELEASED_PARTITIONS = "UNRELEASED_PARTITIONS"


@dataclass(slots=True, eq=False)
class ConsumerGroupMember:
    """A member.

    Attributes:
        member_id: its id.
        hash_code: `String.hashCode` of it, unsigned.
        instance_id: of a static member; null: it is dynamic.
        rack_id: as it has told.
        rebalance_timeout_ms: how long it may take to give up what it is to give up.
        names: of the topics that it subscribes to.
        regex: what it subscribes to besides; "": nothing.
        assignor: the one it prefers; null: it does not mind.
        member_epoch: the epoch of the target that it has come to; 0: it has just joined; -2: it is away.
        previous_member_epoch: the one before, which is accepted once more.
        state: how far it is.
        assigned: what it has or may have from now on, with the epoch in which it got each.
        pending_revocation: what it is to give up and has not reported as given up.
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
        """Nothing is left to do for this target."""
        return self.state is MemberState.STABLE and self.member_epoch == epoch

    def told(self, request: Heartbeat) -> ConsumerGroupMember:
        """The member with what it says of itself; the same object if that is nothing new."""
        if request.is_plain:
            return self
        said = request.rebalance_timeout_ms
        after = replace(
            self,
            instance_id=self.instance_id if request.instance_id is None else request.instance_id,
            rack_id=self.rack_id if request.rack_id is None else request.rack_id,
            rebalance_timeout_ms=self.rebalance_timeout_ms if said == NOT_SENT else said,
            names=self.names if request.topics is None else frozenset(request.topics),
            regex=self.regex if request.regex is None else request.regex,
            assignor=self.assignor if request.assignor is None else request.assignor,
        )
        return self if after._said == self._said else after

    @property
    def _said(self) -> tuple[object, ...]:
        """What a heartbeat may change."""
        return self.instance_id, self.rack_id, self.rebalance_timeout_ms, self.names, self.regex, self.assignor

    def at(
        self, epoch: int, state: MemberState, assigned: Mapping[int, int], pending: Mapping[int, int]
    ) -> ConsumerGroupMember:
        """The member one step further (`updateMemberEpoch`)."""
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

    def under(self, member_id: str) -> ConsumerGroupMember:
        """The static member that is back, with another id and all that it had."""
        return replace(self, member_id=member_id, hash_code=-1, member_epoch=0, previous_member_epoch=0)


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
        return self._order.iteration_order()

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
        return max(self._preferred_order.iteration_order(), key=self.preferred.__getitem__, default=None)

    def preferred_assignor_after(self, before: str | None, after: str | None) -> str | None:
        """The same, once a member that preferred one prefers another; among equals the first of a hash map.

        Kafka copies its table for it: the map begins as small as can be, and a name that is new comes first in its
        bucket.
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
