"""A KIP-848 group as its coordinator keeps it (`ConsumerGroup` and its part of `GroupMetadataManager`, Kafka 4.4).

Principle: the broker decides who is to have what (the *target*), and each member comes there at its own heartbeats
(`current_assignment_builder`). Three epochs say how far everything is:

    group epoch         counts what makes a new target necessary: members that come, go, or subscribe to something
                        else; topics that change
    assignment epoch    the group epoch for which the target was computed
    member epoch        the assignment epoch that a member has come to

A heartbeat does three things, in this order
    1. It creates or changes the member; what matters to others raises the group epoch, once.
    2. If the group epoch is ahead of the assignment epoch, it computes a new target, for everybody; but not within the
       assignment interval of the last one (4.3).
    3. It takes the member one step towards the target.

Example: C0 joins a group for t0 (2 partitions), which was never there: group epoch 2, target and member epoch 2, all of
t0. C1 joins within a second: group epoch 3, but the target is still that of epoch 2, in which C1 has nothing: member
epoch 2. Then anybody's next heartbeat computes the target of epoch 3.

A step is taken at once, but for the target: `heartbeat` may return an ask for one (`target_assignment`), so that those
of many groups can be found together. Nothing else may happen to the group until it is answered.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum

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
from spark_assign.simulation.kernel.target_assignment import TargetRequest, TargetResponse, Topic, TopicsImage
from spark_assign.simulation.kernel.target_assignment_builder import TargetAssignmentBuilder

_NEVER = 2**31 - 1
"""So long after its last look the coordinator looks at a group's topics unasked (`METADATA_REFRESH_INTERVAL_MS`)."""


class GroupState(Enum):
    """`ConsumerGroupState`; the value is what Kafka calls it in its answers."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


@dataclass(slots=True)
class _Step:
    """A heartbeat on its way through the group. `replaced`: whom the member replaces; null: nobody."""

    request: Heartbeat
    now: int
    before: ConsumerGroupMember
    replaced: str | None
    subscription_changed: bool = False


@dataclass(slots=True)
class ConsumerGroup:
    """A group.

    Attributes:
        metadata: the cluster's topics.
        config: what the broker is set to.
        exists: it has had a member.
        group_epoch, assignment_epoch: see above.
        assigned_at: when the target was computed; null: never, or not known.
        members: the members, with their targets, and who has which partition.
        regexes: the regular expressions that members subscribe to.
        sessions: when a member is fenced if it is not heard of.
        rebalances: when a member is fenced if it has not given up what it is to give up, and its epoch then.
        homogeneous: everybody subscribes to the same (`SubscriptionType`).
    """

    metadata: TopicsImage
    config: GroupConfig = field(default_factory=GroupConfig)
    exists: bool = False
    group_epoch: int = 0
    assignment_epoch: int = 0
    assigned_at: int | None = None
    members: ConsumerGroupMembers = field(default_factory=ConsumerGroupMembers)
    regexes: Regexes = field(default_factory=Regexes)
    sessions: dict[str, int] = field(default_factory=dict)
    rebalances: dict[str, tuple[int, int]] = field(default_factory=dict)
    homogeneous: bool = True
    _hash: frozenset[Topic] = frozenset()
    _refresh_at: int = 0
    _step: _Step | None = None

    def __post_init__(self) -> None:
        self.group_epoch = self.assignment_epoch = self.config.first_epoch
        self.members.one_instance = not self.config.before_4_4

    @property
    def state(self) -> GroupState:
        """Where the group is."""
        members = self.members.by_id.values()
        if not members:
            return GroupState.EMPTY
        if self.group_epoch > self.assignment_epoch:
            return GroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in members):
            return GroupState.STABLE
        return GroupState.RECONCILING

    # --- heartbeats -----------------------------------------------------------------------------------------------

    def heartbeat(self, request: Heartbeat, now: int) -> Response | TargetRequest:
        """A member's heartbeat (`ConsumerGroupHeartbeat`).

        Returns:
            the answer; or what has to be found out before, for `decided`.
        """
        assert self._step is None, "the target that was asked for is still missing"
        try:
            if request.member_epoch in (LEAVE, LEAVE_STATIC):
                return self._leave(request)
            before, replaced = self._member(request)
            if request.regex:
                self.regexes.check(request.regex)
        except HeartbeatError as why:
            return Response(request.member_id, error=why.error)
        return self._first(_Step(request, now, before, replaced))

    def decided(self, answer: TargetResponse) -> Response:
        """The target that was asked for is there; the heartbeat goes on."""
        step = self._step
        assert step is not None, "no target was asked for"
        self._step = None
        self.members.aim(answer.changed)
        self.assignment_epoch, self.assigned_at = self.group_epoch, step.now
        return self._last(step)

    def _first(self, step: _Step) -> Response | TargetRequest:
        """Steps 1 and 2: the member, the group epoch, and whether a target is due."""
        before, now = step.before, step.now
        member = before.told(step.request)
        listed, homogeneous = self.members.walk(), self.homogeneous
        looked = self.regexes.look(before.regex, member.regex, self.metadata, now, self.config)
        preferred = self.members.preferred_assignor()
        prefers = self.members.preferred_assignor_after(before.assignor, member.assignor)
        if step.replaced is not None:
            self.members.replace(step.replaced, before)
        if member is not before or member.member_id not in self.members.by_id:
            self.members.put(member)
            self._look_at_subscriptions(self.regexes.changed(before.regex, member.regex))
        self.exists = True
        bump = member.names != before.names or looked.resolved or self.group_epoch == 0
        first = self.config.assignors[0]
        bump |= not self.config.before_4_4 and (preferred or first) != (prefers or first)
        step.subscription_changed = member.names != before.names or looked.changed
        if bump or now >= self._refresh_at:
            homogeneous = self._are_homogeneous()
            self._look_at_topics(now, bump=bump)
        if not self._is_due(now):
            return self._last(step)
        self._step = step
        asking = TargetAssignmentBuilder(self.members, self.metadata, self.regexes, self.config)
        return asking.ask(prefers or first, listed, before.member_id, step.replaced, step.request.topics, homogeneous)

    def _last(self, step: _Step) -> Response:
        """Step 3: the member goes on, and is told."""
        request, member = step.request, self.members.by_id[step.before.member_id]
        if step.subscription_changed or not member.is_reconciled_to(self.assignment_epoch):
            asks = self.regexes.united(member.names, member.regex)
            aim = ReconcileInput(
                self.assignment_epoch,
                self.members.target(member.member_id),
                self.metadata.numbers(asks),
                not asks,
                step.subscription_changed,
                request.owned,
                self.members.owner,
            )
            after = reconcile(member, aim)
            if after is not member:
                self._went_on(after, step.now)
                member = after
        self.sessions[member.member_id] = step.now + self.config.session_timeout_ms
        told = request.member_epoch == JOIN or request.is_full or member.assigned.keys() != step.before.assigned.keys()
        return Response(member.member_id, member.member_epoch, member.assigned.keys() if told else None)

    def _went_on(self, after: ConsumerGroupMember, now: int) -> None:
        self.members.put(after)
        self._look_at_subscriptions()
        if after.state is MemberState.UNREVOKED_PARTITIONS:
            self.rebalances[after.member_id] = (now + after.rebalance_timeout_ms, after.member_epoch)
        else:
            self.rebalances.pop(after.member_id, None)

    def _member(self, request: Heartbeat) -> tuple[ConsumerGroupMember, str | None]:
        """Whose heartbeat it is: a member's, a new one's, or that of a static one that is back; then whom it replaces.

        Raises:
            Refused: the coordinator answers with an error.
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
            return away.under(request.member_id), away.member_id
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

    # --- who goes -------------------------------------------------------------------------------------------------

    def _leave(self, request: Heartbeat) -> Response:
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
        """The member is out, whether it has left or was not heard of; the others get a new target."""
        regex = self.members.by_id[member_id].regex
        self.members.remove(member_id)
        self._look_at_subscriptions(self.regexes.changed(regex, ""))
        self.group_epoch += 1
        self._hash = self._subscribed_topics()
        if not self.members.by_id and not self.config.before_4_4:
            self.assignment_epoch, self.assigned_at = self.group_epoch, None
        self.sessions.pop(member_id, None)
        self.rebalances.pop(member_id, None)

    def next_deadline(self) -> int | None:
        """When somebody is fenced next, if nothing happens before."""
        return min([*self.sessions.values(), *(at for at, _ in self.rebalances.values())], default=None)

    def expire(self, now: int) -> list[str]:
        """Fence those who were silent, or held on to partitions, for too long.

        Returns:
            their ids, in the order of their times.
        """
        due: list[tuple[int, str, int | None]] = [(at, each, None) for each, at in self.sessions.items() if at <= now]
        due += [(at, each, epoch) for each, (at, epoch) in self.rebalances.items() if at <= now]
        fenced = []
        for _, member_id, epoch in sorted(due, key=lambda each: each[0]):
            member = self.members.by_id.get(member_id)
            (self.sessions if epoch is None else self.rebalances).pop(member_id, None)
            if member is not None and epoch in (None, member.member_epoch):
                self.fence(member_id)
                fenced.append(member_id)
        return fenced

    # --- what makes no difference ---------------------------------------------------------------------------------

    def heard(self, member_id: str, now: int) -> None:
        """A heartbeat that changes nothing (`quiet`): only the session timeout begins anew."""
        self.sessions[member_id] = now + self.config.session_timeout_ms

    def quiet(self, member_id: str, now: int) -> bool:
        """Whether a heartbeat of the member that says nothing new would change nothing and be told nothing now."""
        waits = self.regexes.is_used or now >= self._refresh_at or self._is_due(now)
        return not waits and self.members.by_id[member_id].is_reconciled_to(self.assignment_epoch)

    # --- topics ---------------------------------------------------------------------------------------------------

    def topics_changed(self, names: Iterable[str]) -> None:
        """Topics have come, gone, or grown: the next heartbeat of anybody looks at them, if it concerns the group."""
        if any(name in some for name in names for some in (*self.members.names, *self.regexes.topics)):
            self._refresh_at = 0

    def resolve(self, now: int) -> None:
        """Find out which topics the regular expressions mean that wait for it; the broker does it in the background."""
        if not self.regexes.waiting:
            return
        changed = self.regexes.resolve(self.metadata, now)
        if changed or self._subscribed_topics() != self._hash:
            self._look_at_topics(now, bump=True)

    def _look_at_topics(self, now: int, *, bump: bool) -> None:
        """Raise the group epoch if something has changed (`updateSubscriptionMetadata`)."""
        topics = self._subscribed_topics()
        if bump or topics != self._hash:
            self.group_epoch += 1
            self._hash = topics
        self._refresh_at = now + _NEVER

    def _subscribed_topics(self) -> frozenset[Topic]:
        """The topics that anybody subscribes to, as they are: what Kafka takes a hash of."""
        return self.metadata.topics(frozenset().union(*self.members.names, *self.regexes.topics))

    def _look_at_subscriptions(self, forgotten: frozenset[str] = frozenset()) -> None:
        """A member was written or removed: only then the broker looks anew (`maybeUpdateGroupSubscriptionType`)."""
        self.homogeneous = self._are_homogeneous(forgotten)

    def _are_homogeneous(self, forgotten: frozenset[str] = frozenset()) -> bool:
        """Everybody subscribes to the same: to the same names, or to one regular expression and to no names.

        Args:
            forgotten: the topics of an expression that nobody subscribes to any more. The broker takes them out only
                after it has looked, and until then it misses them in the names of every member.
        """
        names = self.members.names
        if not self.regexes.is_used:
            return len(names) <= 1 and all(forgotten <= some for some in names)
        if any(names) or not self.regexes.used_by(len(self.members.by_id)):
            return False
        return forgotten.isdisjoint(frozenset().union(*self.regexes.topics))

    # --- targets --------------------------------------------------------------------------------------------------

    def _is_due(self, now: int) -> bool:
        """A new target is needed, and the last one is old enough."""
        if self.assignment_epoch >= self.group_epoch:
            return False
        interval = self.config.assignment_interval_ms
        return self.assigned_at is None or not interval or now >= self.assigned_at + interval


def _check_epoch(member: ConsumerGroupMember, request: Heartbeat) -> None:
    """The current epoch, or the last one with nothing but what the member has: the answer may have been lost.

    Raises:
        Refused: another epoch.
    """
    if request.member_epoch == member.member_epoch:
        return
    repeats = request.member_epoch < member.member_epoch and request.member_epoch == member.previous_member_epoch
    if not repeats or request.owned is None or any(each not in member.assigned for each in request.owned):
        raise HeartbeatError(FENCED_MEMBER_EPOCH)


def _away(member: ConsumerGroupMember) -> ConsumerGroupMember:
    """A static member that will be back: it keeps what it has, and what it was to give up is free."""
    return replace(
        member,
        member_epoch=LEAVE_STATIC,
        assigned=dict.fromkeys(member.assigned, 0),
        pending_revocation=NOTHING_PENDING,
    )
