"""A KIP-848 group in its coordinator (`ConsumerGroup` and its part of `GroupMetadataManager`, Kafka 4.4).

Principle: the broker computes the assignment (the *target*), and each member reaches it at its own heartbeats
(`current_assignment_builder`). There are three epochs:

    group epoch         counts the causes of a new target: members that join, leave, or change their subscription, and
                        topics that change
    assignment epoch    the group epoch for which the target was computed
    member epoch        the assignment epoch that a member has reached

A heartbeat has three steps
    1. It creates or updates the member. A change that matters to other members increments the group epoch, once.
    2. If the group epoch is ahead of the assignment epoch, the coordinator computes a new target for all members, but
       not within the assignment interval after the last target (4.3).
    3. It moves the member one step toward the target.

Example: C0 joins a new group for t0 (2 partitions): group epoch 2, target and member epoch 2, all of t0. C1 joins
within
a second: group epoch 3, but the target is still that of epoch 2, in which C1 has nothing: member epoch 2. The next
heartbeat of any member computes the target of epoch 3.

A step is immediate, except for the target: `heartbeat` might return a request for one (`target_assignment`), so that
the requests of many groups can be solved together. No other call of the group is allowed until the response.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from spark_assign.simulation.kernel.assignment_request import CODE_BITS
from spark_assign.simulation.kernel.consumer_group_members import (
    FENCED_INSTANCE_ID,
    FENCED_MEMBER_EPOCH,
    GROUP_ID_NOT_FOUND,
    GROUP_MAX_SIZE_REACHED,
    JOIN,
    LEAVE,
    LEAVE_STATIC,
    NOTHING_PENDING,
    UNKNOWN_MEMBER_ID,
    UNRELEASED_INSTANCE_ID,
    ConsumerGroupMember,
    ConsumerGroupMembers,
    Heartbeat,
    HeartbeatError,
    MemberState,
    Response,
)
from spark_assign.simulation.kernel.consumer_group_regexes import Regexes
from spark_assign.simulation.kernel.current_assignment_builder import ReconcileInput, reconcile
from spark_assign.simulation.kernel.settings import GroupConfig
from spark_assign.simulation.kernel.target_assignment import TargetRequest, TargetResponse, Topic, TopicsImage, fresh
from spark_assign.simulation.kernel.target_assignment_builder import TargetAssignmentBuilder

_NEVER = 2**31 - 1
"""Interval at which the coordinator checks the topics of a group, in ms (`METADATA_REFRESH_INTERVAL_MS`)."""


@dataclass(slots=True)
class _Step:
    """A heartbeat in progress. `replaced`: member ID of the static member that is replaced, or None."""

    request: Heartbeat
    now: int
    before: ConsumerGroupMember
    replaced: str | None
    subscription_changed: bool = False


@dataclass(slots=True)
class ConsumerGroup:
    """A consumer group (KIP-848).

    Attributes:
        metadata: topics of the cluster.
        config: configuration of the broker.
        exists: whether the group has ever had a member.
        group_epoch, assignment_epoch: see the module's docstring.
        assigned_at_ms: time of the last target. None: never, or unknown.
        members: the members, their targets, and the owner of each partition.
        regexes: regular expressions that members subscribe to.
        session_deadlines: time at which each member is fenced unless it sends a heartbeat.
        rebalance_deadlines: time at which a member is fenced unless it revokes its partitions, and its epoch then.
        homogeneous: whether all members have the same subscription (`SubscriptionType`).
    """

    metadata: TopicsImage
    config: GroupConfig = field(default_factory=GroupConfig)
    exists: bool = False
    group_epoch: int = 0
    assignment_epoch: int = 0
    assigned_at_ms: int | None = None
    members: ConsumerGroupMembers = field(default_factory=ConsumerGroupMembers)
    regexes: Regexes = field(default_factory=Regexes)
    session_deadlines: dict[str, int] = field(default_factory=dict)
    rebalance_deadlines: dict[str, tuple[int, int]] = field(default_factory=dict)
    homogeneous: bool = True
    _hash: frozenset[Topic] = frozenset()
    _refresh_at: int = 0
    _step: _Step | None = None

    def __post_init__(self) -> None:
        self.group_epoch = self.assignment_epoch = self.config.first_epoch
        self.members.one_instance = not self.config.before_4_4

    def restore(self, members: Sequence[tuple[Heartbeat, Sequence[int]]], epoch: int) -> None:
        """Restores a stable group. Its members reached this epoch long ago and sent their last heartbeats at time 0.

        Args:
            members: the first heartbeat of each member, and its partitions, ascending. They exist, and no two members
                share one. In the order in which the coordinator lists them, which is that of its table.
            epoch: epoch of the group, its target, and its members.
        """
        by_number = {topic.number: topic for topic in self.metadata.by_name.values()}
        targets = {}
        for request, owned in reversed(members):  # of two members in a slot, the last that joined is listed first
            member = ConsumerGroupMember(request.member_id, member_epoch=epoch, previous_member_epoch=epoch)
            self.members.put(replace(member.apply_heartbeat(request), assigned=dict.fromkeys(owned, epoch)))
            targets[request.member_id] = fresh(owned, sorted({each >> CODE_BITS for each in owned}), by_number)
            self.record_heartbeat(request.member_id, 0)
        self.members.restore_table([request.member_id for request, _ in members])
        self.members.set_targets(targets)
        self.exists, self.homogeneous = True, self._are_homogeneous()
        self._update_topics(0, bump=False)
        self.group_epoch = self.assignment_epoch = epoch

    # --- heartbeats -----------------------------------------------------------------------------------------------

    def heartbeat(self, request: Heartbeat, now: int) -> Response | TargetRequest:
        """Handles a heartbeat (`ConsumerGroupHeartbeat`).

        Returns:
            the response, or the request for a target, whose response must be passed to `apply_target`.
        """
        assert self._step is None, "the requested target is still missing"
        try:
            if request.member_epoch in (LEAVE, LEAVE_STATIC):
                return self._leave(request)
            before, replaced = self._member(request)
            if request.regex:
                self.regexes.check(request.regex)
        except HeartbeatError as reason:
            return Response(request.member_id, error=str(reason))
        return self._update_member(_Step(request, now, before, replaced))

    def apply_target(self, answer: TargetResponse) -> Response:
        """Applies the requested target, and completes the heartbeat."""
        step = self._step
        assert step is not None, "no target was requested"
        self._step = None
        self.members.set_targets(answer)
        self.assignment_epoch, self.assigned_at_ms = self.group_epoch, step.now
        return self._reconcile_member(step)

    def _update_member(self, step: _Step) -> Response | TargetRequest:
        """Performs steps 1 and 2: updates the member and the group epoch, and requests a target if one is due."""
        before, now = step.before, step.now
        member = before.apply_heartbeat(step.request)
        listed = self.members.hash_order() if self._interval_has_passed(now) else []
        homogeneous = self.homogeneous
        regex_is_resolved = self.regexes.update(before.regex, member.regex, self.metadata, now, self.config)
        preferred = self.members.preferred_assignor()
        prefers = self.members.preferred_assignor_after(before.assignor, member.assignor)
        if step.replaced is not None:
            self.members.replace(step.replaced, before)
        if member is not before or member.member_id not in self.members.by_id:
            self.members.put(member)
            self.homogeneous = self._are_homogeneous(self.regexes.changed(before.regex, member.regex))
        self.exists = True
        bump = member.names != before.names or regex_is_resolved or self.group_epoch == 0
        first = self.config.assignors[0]
        bump |= not self.config.before_4_4 and (preferred or first) != (prefers or first)
        step.subscription_changed = member.names != before.names or member.regex != before.regex
        if bump or now >= self._refresh_at:
            homogeneous = self._are_homogeneous()
            self._update_topics(now, bump=bump)
        if not self._needs_target(now):
            return self._reconcile_member(step)
        self._step = step
        builder = TargetAssignmentBuilder(self.members, self.metadata, self.regexes, self.config)
        return builder.build_request(
            prefers or first, listed, before.member_id, step.replaced, step.request.topics, homogeneous
        )

    def _reconcile_member(self, step: _Step) -> Response:
        """Performs step 3: reconciles the member with its target, and builds the response."""
        request, member = step.request, self.members.by_id[step.before.member_id]
        if step.subscription_changed or not member.is_reconciled_to(self.assignment_epoch):
            subscribed = self.regexes.subscription(member.names, member.regex)
            aim = ReconcileInput(
                self.assignment_epoch,
                self.members.target(member.member_id),
                self.metadata.numbers(subscribed),
                not subscribed,
                step.subscription_changed,
                request.owned,
                self.members.owner,
                self.config.trims,
                self.config.returns_revoked,
            )
            after = reconcile(member, aim)
            if after is not member:
                self._store_reconciled(after, step.now)
                member = after
        self.session_deadlines[member.member_id] = step.now + self.config.session_timeout_ms
        full = request.member_epoch == JOIN or request.is_full or member.assigned.keys() != step.before.assigned.keys()
        return Response(member.member_id, member.member_epoch, member.assigned.keys() if full else None)

    def _store_reconciled(self, after: ConsumerGroupMember, now: int) -> None:
        self.members.put(after)
        self.homogeneous = self._are_homogeneous()
        if after.state is MemberState.UNREVOKED_PARTITIONS:
            self.rebalance_deadlines[after.member_id] = (now + after.rebalance_timeout_ms, after.member_epoch)
        else:
            self.rebalance_deadlines.pop(after.member_id, None)

    def _member(self, request: Heartbeat) -> tuple[ConsumerGroupMember, str | None]:
        """Returns the member that sent the heartbeat (existing, new, or a returning static one), and the ID that it
        replaces.

        Raises:
            HeartbeatError: the coordinator responds with an error.
        """
        members, joins, instance = self.members, request.member_epoch == JOIN, request.instance_id
        if not self.exists and not joins:
            raise HeartbeatError(GROUP_ID_NOT_FOUND)
        known = members.by_id.get(request.member_id)
        back = not self.config.before_4_4 and instance in members.static
        if len(members.by_id) >= self.config.max_size and known is None and not back:
            raise HeartbeatError(GROUP_MAX_SIZE_REACHED)
        if instance is not None and not joins:
            known = self._static(request)
        elif instance is not None and instance in members.static:
            away = members.by_id[members.static[instance]]
            if away.member_epoch != LEAVE_STATIC:
                raise HeartbeatError(UNRELEASED_INSTANCE_ID)
            return away.with_id(request.member_id), away.member_id
        if joins:
            return known or ConsumerGroupMember(request.member_id), None
        if known is None:
            raise HeartbeatError(UNKNOWN_MEMBER_ID)
        _check_epoch(known, request)
        return known, None

    def _static(self, request: Heartbeat) -> ConsumerGroupMember:
        known = self.members.static.get(str(request.instance_id))
        if known is None:
            raise HeartbeatError(UNKNOWN_MEMBER_ID)
        if known != request.member_id:
            raise HeartbeatError(FENCED_INSTANCE_ID)
        return self.members.by_id[known]

    # --- members that leave ---------------------------------------------------------------------------------------

    def _leave(self, request: Heartbeat) -> Response:
        """Handles the heartbeat of a member that leaves; a static member can keep its partitions."""
        if not self.exists:
            raise HeartbeatError(GROUP_ID_NOT_FOUND)
        if request.instance_id is not None:
            member = self._static(request)
            if request.member_epoch == LEAVE_STATIC:
                self.members.put(_away(member))
                return Response(request.member_id, LEAVE_STATIC)
        elif request.member_id not in self.members.by_id:
            raise HeartbeatError(UNKNOWN_MEMBER_ID)
        self.fence(request.member_id)
        return Response(request.member_id, request.member_epoch)

    def fence(self, member_id: str) -> None:
        """Removes a member that has left or timed out. The other members get a new target."""
        regex = self.members.by_id[member_id].regex
        self.members.remove(member_id)
        self.homogeneous = self._are_homogeneous(self.regexes.changed(regex, ""))
        self.group_epoch += 1
        self._hash = self._subscribed_topics()
        if not self.members.by_id and not self.config.before_4_4:
            self.assignment_epoch, self.assigned_at_ms = self.group_epoch, None
        self.session_deadlines.pop(member_id, None)
        self.rebalance_deadlines.pop(member_id, None)

    def expire(self, now: int) -> list[str]:
        """Fences members whose session or rebalance timeout has expired.

        Returns:
            their IDs, in the order of their deadlines.
        """
        due: list[tuple[int, str, int | None]] = [
            (at, each, None) for each, at in self.session_deadlines.items() if at <= now
        ]
        due += [(at, each, epoch) for each, (at, epoch) in self.rebalance_deadlines.items() if at <= now]
        fenced = []
        for _, member_id, epoch in sorted(due, key=lambda each: each[0]):
            member = self.members.by_id.get(member_id)
            (self.session_deadlines if epoch is None else self.rebalance_deadlines).pop(member_id, None)
            if member is not None and epoch in (None, member.member_epoch):
                self.fence(member_id)
                fenced.append(member_id)
        return fenced

    # --- heartbeats without effect --------------------------------------------------------------------------------

    def record_heartbeat(self, member_id: str, now: int) -> None:
        """Handles a heartbeat without effect: it only restarts the session timeout."""
        self.session_deadlines[member_id] = now + self.config.session_timeout_ms

    # --- topics ---------------------------------------------------------------------------------------------------

    def topics_changed(self, names: Iterable[str]) -> None:
        """Handles topics that were created, deleted, or got more partitions: the next heartbeat checks them if they are
        subscribed."""
        if any(name in some for name in names for some in (*self.members.names, *self.regexes.topics)):
            self._refresh_at = 0

    def resolve(self, now: int) -> None:
        """Resolves pending regular expressions, which the broker does in the background."""
        if not self.regexes.pending:
            return
        changed = self.regexes.resolve(self.metadata, now)
        if changed or self._subscribed_topics() != self._hash:
            self._update_topics(now, bump=True)

    def _update_topics(self, now: int, *, bump: bool) -> None:
        """Increments the group epoch if topics have changed, or if `bump` is set (`updateSubscriptionMetadata`)."""
        topics = self._subscribed_topics()
        if bump or topics != self._hash:
            self.group_epoch += 1
            self._hash = topics
        self._refresh_at = now + _NEVER

    def _subscribed_topics(self) -> frozenset[Topic]:
        """Returns the existing topics that any member subscribes to, of which Kafka computes a hash."""
        return self.metadata.topics(frozenset().union(*self.members.names, *self.regexes.topics))

    def _are_homogeneous(self, forgotten: frozenset[str] = frozenset()) -> bool:
        """Whether all members subscribe to the same names, or to one regular expression and no names
        (`maybeUpdateGroupSubscriptionType`).

        Args:
            forgotten: topics of an expression without remaining subscribers. The broker removes them only after this
                check, and until then it misses them in the names of every member.
        """
        names = self.members.names
        if not self.regexes.members:
            return len(names) <= 1 and all(forgotten <= some for some in names)
        if any(names) or list(self.regexes.members.values()) != [len(self.members.by_id)]:
            return False
        return forgotten.isdisjoint(frozenset().union(*self.regexes.topics))

    # --- targets --------------------------------------------------------------------------------------------------

    def _needs_target(self, now: int) -> bool:
        """Whether a new target is needed, and the assignment interval since the last one has passed."""
        return self.assignment_epoch < self.group_epoch and self._interval_has_passed(now)

    def _interval_has_passed(self, now: int) -> bool:
        interval = self.config.assignment_interval_ms
        return self.assigned_at_ms is None or not interval or now >= self.assigned_at_ms + interval


def _check_epoch(member: ConsumerGroupMember, request: Heartbeat) -> None:
    """Checks the epoch of a heartbeat: the current one, or the previous one if the member reports only partitions that
    it has (the response may have been lost).

    Raises:
        HeartbeatError: another epoch.
    """
    if request.member_epoch == member.member_epoch:
        return
    repeats = request.member_epoch < member.member_epoch and request.member_epoch == member.previous_member_epoch
    if not repeats or request.owned is None or any(each not in member.assigned for each in request.owned):
        raise HeartbeatError(FENCED_MEMBER_EPOCH)


def _away(member: ConsumerGroupMember) -> ConsumerGroupMember:
    """Returns a static member that will return: it keeps its partitions, and those pending revocation are released."""
    return replace(
        member,
        member_epoch=LEAVE_STATIC,
        assigned=dict.fromkeys(member.assigned, 0),
        pending_revocation=NOTHING_PENDING,
    )
