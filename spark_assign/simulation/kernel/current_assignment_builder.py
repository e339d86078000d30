"""Reconciles a member with its target (`org.apache.kafka.coordinator.group.modern.consumer.CurrentAssignmentBuilder`).

Principles, in this priority
    1. A partition has one owner: a member gets it only after its previous owner has given it up.
    2. Revocation precedes assignment: a member that must give up partitions gets no others before.
    3. No member waits for the group: each one advances at its own heartbeats.

Example: C0 owns t0p0 and t0p1. C1 joins; the target of epoch 2 gives it t0p1.
    C1 joins               C1: epoch 2, []          UNRELEASED_PARTITIONS: C0 still owns t0p1
    C0's next heartbeat    C0: epoch 1, [t0p0]      UNREVOKED_PARTITIONS: it must give up t0p1
    C0 reports [t0p0]      C0: epoch 2, [t0p0]      STABLE
    C1's next heartbeat    C1: epoch 2, [t0p1]      STABLE

Steps, by the state of the member
    STABLE                   at another epoch: compute next; else, if the subscription has changed: trim.
    UNREVOKED_PARTITIONS     not reported as given up: stay (and trim). Else compute next, to the latest target.
    UNRELEASED_PARTITIONS    compute next at every heartbeat.

These are the rules of Kafka 4.2 to 4.4. Up to 4.1, nothing is trimmed, the target isn't limited to subscribed topics,
and a member that has given up partitions and must give up more is at the next epoch. In 4.1.0 and 4.1.1, a partition
that the member itself was to give up isn't free for it until it has (before KAFKA-19449).
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable
from dataclasses import dataclass

from spark_assign.simulation.kernel.assignment_request import CODE_BITS
from spark_assign.simulation.kernel.consumer_group_members import NOTHING_PENDING, ConsumerGroupMember, MemberState
from spark_assign.simulation.kernel.target_assignment import TargetAssignment


@dataclass(slots=True)
class ReconcileInput:
    """The target of a member, and what limits its reconciliation.

    Attributes:
        epoch: epoch of the target.
        target: partitions of the member in the target.
        subscribed: existing subscribed topics. The target contains no partitions of other topics.
        has_no_subscription: whether the member subscribes to nothing.
        subscription_changed: whether this heartbeat changed the subscription.
        owned: partitions that the member reports. None: not reported.
        unreleased: all partitions that any member owns or hasn't released.
        trims, returns_revoked: rules of the release (`GroupConfig`).
    """

    epoch: int
    target: TargetAssignment
    subscribed: frozenset[int]
    has_no_subscription: bool
    subscription_changed: bool
    owned: Collection[int] | None
    unreleased: Container[int]
    trims: bool = True
    returns_revoked: bool = True

    def target_partitions(self) -> frozenset[int]:
        """Returns the target; from 4.2 on, without topics that the member doesn't subscribe to."""
        if not self.trims or self.target.topics <= self.subscribed:
            return self.target.codes
        return frozenset(self.target.within(self.subscribed))

    def owns_any(self, partitions: Iterable[int]) -> bool:
        """Whether the member may still own any of these partitions: it reports one, or reports nothing."""
        return self.owned is None or not set(self.owned).isdisjoint(partitions)


def reconcile(member: ConsumerGroupMember, reconcile_input: ReconcileInput) -> ConsumerGroupMember:
    """Returns the member after its heartbeat; the same object if nothing changes."""
    is_unrevoked = member.state is MemberState.UNREVOKED_PARTITIONS
    if member.is_reconciled_to(reconcile_input.epoch) or (
        is_unrevoked and reconcile_input.owns_any(member.pending_revocation)
    ):
        is_trimmed = reconcile_input.trims and reconcile_input.subscription_changed
        return trim(member, reconcile_input) if is_trimmed else member
    return compute_next(member, reconcile_input)


def compute_next(member: ConsumerGroupMember, reconcile_input: ReconcileInput) -> ConsumerGroupMember:
    """Revokes first; then moves the member to the epoch of the target, with all partitions that are released."""
    target_partitions, assigned = reconcile_input.target_partitions(), member.assigned
    if assigned.keys() == target_partitions:
        return member.with_assignment(reconcile_input.epoch, MemberState.STABLE, assigned, NOTHING_PENDING)
    kept = {each: epoch for each, epoch in assigned.items() if each in target_partitions}
    revoked = {each: epoch for each, epoch in assigned.items() if each not in target_partitions}
    if revoked and reconcile_input.owns_any(revoked):
        epoch = member.member_epoch
        if not reconcile_input.trims and member.state is MemberState.UNREVOKED_PARTITIONS:
            epoch += 1
        return member.with_assignment(epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoked)
    lacking = target_partitions - kept.keys()
    # What the member itself was to give up is its own again.
    own = member.pending_revocation if reconcile_input.returns_revoked else ()
    free = [each for each in lacking if each not in reconcile_input.unreleased or each in own]
    state = MemberState.STABLE if len(free) == len(lacking) else MemberState.UNRELEASED_PARTITIONS
    return member.with_assignment(
        reconcile_input.epoch, state, kept | dict.fromkeys(free, reconcile_input.epoch), NOTHING_PENDING
    )


def trim(member: ConsumerGroupMember, reconcile_input: ReconcileInput) -> ConsumerGroupMember:
    """Removes partitions that the member no longer subscribes to. Its epoch doesn't change."""
    kept = {each: epoch for each, epoch in member.assigned.items() if each >> CODE_BITS in reconcile_input.subscribed}
    everything = reconcile_input.has_no_subscription and not member.pending_revocation
    if len(kept) == len(member.assigned) and not everything:
        return member
    pending = {**member.pending_revocation}
    pending |= {each: epoch for each, epoch in member.assigned.items() if each not in kept}
    if pending and reconcile_input.owns_any(pending):
        return member.with_assignment(member.member_epoch, MemberState.UNREVOKED_PARTITIONS, kept, pending)
    return member.with_assignment(member.member_epoch, member.state, kept, member.pending_revocation)
