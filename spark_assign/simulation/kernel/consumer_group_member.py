"""A member of a KIP-848 group as the coordinator knows it (Kafka's `ConsumerGroupMember`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType

from spark_assign.java.hash_map import string_hash
from spark_assign.simulation.kernel.consumer_group_requests import NOT_SENT, Heartbeat

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
