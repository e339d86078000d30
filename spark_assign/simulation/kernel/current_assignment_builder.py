"""How one member comes to its target (`org.apache.kafka.coordinator.group.modern.consumer.CurrentAssignmentBuilder`).

Principles, in this priority
    1. A partition has one owner: nobody gets what somebody else has not given up.
    2. Revocation comes before assignment: who has to give up something gets nothing before it has.
    3. Nobody waits for the group: each member goes on at its own heartbeats.

Example: C0 has t0p0 and t0p1. C1 joins; the target of epoch 2 gives it t0p1.
    C1 joins               C1: epoch 2, []          UNRELEASED_PARTITIONS: t0p1 is still C0's
    C0's next heartbeat    C0: epoch 1, [t0p0]      UNREVOKED_PARTITIONS: it is told to give up t0p1
    C0 reports [t0p0]      C0: epoch 2, [t0p0]      STABLE
    C1's next heartbeat    C1: epoch 2, [t0p1]      STABLE

Steps
    STABLE                   at another epoch: compute next; else, if the subscription has changed: trim.
    UNREVOKED_PARTITIONS     not reported as given up: stay (and trim). Else compute next, to the latest target.
    UNRELEASED_PARTITIONS    compute next at every heartbeat.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable
from dataclasses import dataclass

from spark_assign.simulation.kernel.assignment_request import CODE_BITS
from spark_assign.simulation.kernel.consumer_group_members import NOTHING_PENDING, ConsumerGroupMember, MemberState
from spark_assign.simulation.kernel.target_assignment import TargetAssignment


@dataclass(slots=True)
class ReconcileInput:
    """Where a member is to come to.

    Attributes:
        epoch: of the target.
        target: the member's partitions in it.
        subscribed: the topics that the member subscribes to, as far as there are such. Of others its target is empty.
        asks_nothing: it subscribes to nothing at all.
        subscription_changed: in this heartbeat.
        owned: the partitions that the member reports; null: it does not.
        held: all partitions that somebody has, or has not given up.
    """

    epoch: int
    target: TargetAssignment
    subscribed: frozenset[int]
    asks_nothing: bool
    subscription_changed: bool
    owned: Collection[int] | None
    held: Container[int]

    def wanted(self) -> frozenset[int]:
        """The target without topics that the member does not subscribe to."""
        if self.target.topics <= self.subscribed:
            return self.target.codes
        return frozenset(self.target.within(self.subscribed))

    def owns_any(self, partitions: Iterable[int]) -> bool:
        """Whether the member may still have one of these: it says so, or says nothing."""
        return self.owned is None or not set(self.owned).isdisjoint(partitions)


def reconcile(member: ConsumerGroupMember, aim: ReconcileInput) -> ConsumerGroupMember:
    """The member after its heartbeat; the same object if nothing changes."""
    if member.state is MemberState.STABLE and member.member_epoch == aim.epoch:
        return trim(member, aim) if aim.subscription_changed else member
    if member.state is MemberState.UNREVOKED_PARTITIONS and aim.owns_any(member.pending_revocation):
        return trim(member, aim) if aim.subscription_changed else member
    return compute_next(member, aim)


def compute_next(member: ConsumerGroupMember, aim: ReconcileInput) -> ConsumerGroupMember:
    """Give up first; then on to the epoch of the target, with all of it that is free."""
    wanted, assigned = aim.wanted(), member.assigned
    if assigned.keys() == wanted:
        return member.at(aim.epoch, MemberState.STABLE, assigned, NOTHING_PENDING)
    kept = {each: epoch for each, epoch in assigned.items() if each in wanted}
    revoked = {each: epoch for each, epoch in assigned.items() if each not in wanted}
    if revoked and aim.owns_any(revoked):
        return member.at(member.member_epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoked)
    lacking = wanted - kept.keys()
    # What the member itself was to give up is its own again.
    free = [each for each in lacking if each not in aim.held or each in member.pending_revocation]
    state = MemberState.STABLE if len(free) == len(lacking) else MemberState.UNRELEASED_PARTITIONS
    return member.at(aim.epoch, state, kept | dict.fromkeys(free, aim.epoch), NOTHING_PENDING)


def trim(member: ConsumerGroupMember, aim: ReconcileInput) -> ConsumerGroupMember:
    """Take away what the member does not subscribe to any more; its epoch stays."""
    kept = {each: epoch for each, epoch in member.assigned.items() if each >> CODE_BITS in aim.subscribed}
    everything = aim.asks_nothing and not member.pending_revocation
    if len(kept) == len(member.assigned) and not everything:
        return member
    pending = {**member.pending_revocation}
    pending |= {each: epoch for each, epoch in member.assigned.items() if each not in kept}
    if pending and aim.owns_any(pending):
        return member.at(member.member_epoch, MemberState.UNREVOKED_PARTITIONS, kept, pending)
    return member.at(member.member_epoch, member.state, kept, member.pending_revocation)
