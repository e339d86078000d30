"""The members' side of KIP-848's protocol, for all members of a group (Kafka's `ConsumerMembershipManager` and
`ConsumerHeartbeatRequestManager`).

There is one message, `ConsumerGroupHeartbeat`, and nobody waits for anybody. A member sends it
    - when it joins, with epoch 0 and all that it has to say; when it leaves, with -1 (a static one that means to come
      back: -2);
    - as soon as it has come to an assignment, with the partitions that it has now;
    - else one `heartbeatIntervalMs` after its last one. The broker tells how long that is.
A new subscription goes with the next regular heartbeat.

Of its assignment a member hears in the answer to a heartbeat. It comes to it when it polls: first it gives up what it
has not any more (`onPartitionsRevoked`), then it takes what is new (`onPartitionsAssigned`), both in that poll. What it
is told in the meantime waits until then. A member that is fenced goes on as it was until its next heartbeat; then it
loses all it has when it polls (`onPartitionsLost`) and joins again under its id.

Messages take no time. Consumers look for topics that they subscribe to until there are such, so they know the topics
that they are assigned. Heartbeats that say and change nothing are passed over; those that do no more than raise the
member's epoch are played only where somebody reads the trace.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace

from spark_assign.simulation.kernel.assignment_request import CODE_BITS
from spark_assign.simulation.kernel.consumer_group import ConsumerGroup
from spark_assign.simulation.kernel.consumer_group_members import (
    FENCED_MEMBER_EPOCH,
    UNKNOWN_MEMBER_ID,
    ConsumerGroupMember,
    Heartbeat,
    MemberState,
    Response,
)
from spark_assign.simulation.kernel.member import (
    ACKNOWLEDGING,
    FENCED,
    JOINING,
    NONE,
    OFF,
    RECONCILING,
    STABLE,
    AsyncMember,
    LocalAssignment,
)
from spark_assign.simulation.kernel.ownership_log import UNOWNED
from spark_assign.simulation.kernel.simulated_group import (
    COORDINATOR,
    AssignorError,
    InitialState,
    RebalanceRow,
    SimulatedGroup,
)
from spark_assign.simulation.kernel.target_assignment import TargetRequest, TargetResponse, Topic, TopicsImage, fresh


class StableConsumerGroup(ConsumerGroup):
    """A group, and how it begins."""

    def restore(self, members: Iterable[tuple[Heartbeat, Sequence[int]]], epoch: int, now: int) -> None:
        """A stable group, as if these members had come to this epoch long ago.

        Args:
            members: what each has said when it joined, and what it has, ascending; nobody has what another one has.
            epoch: of the group, of its target and of everybody.
            now: when they were heard of last.
        """
        by_number = {topic.number: topic for topic in self.metadata.by_name.values()}
        targets = {}
        for request, owned in members:
            there = [each for each in owned if each >> CODE_BITS in by_number]
            member = ConsumerGroupMember(request.member_id).told(request)
            member = replace(member, member_epoch=epoch, previous_member_epoch=epoch)
            self.members.put(replace(member, assigned=dict.fromkeys(there, epoch)))
            targets[request.member_id] = fresh(there, sorted({each >> CODE_BITS for each in there}), by_number)
            self.heard(request.member_id, now)
        self.members.aim(targets)
        self.exists, self.homogeneous = True, self._are_homogeneous()
        self._look_at_topics(now, bump=False)
        self.group_epoch = self.assignment_epoch = epoch


REQUEST = "ConsumerGroupHeartbeat"
TOPICS = "topics have changed"


class AsyncConsumers(SimulatedGroup[AsyncMember]):
    """The members of a KIP-848 group, and their coordinator; `consumer_cast` has what a play asks of them.

    Attributes:
        requests: heartbeats that the coordinator has not answered yet, with what they mean for the group.
        round: the rebalance that goes on, or the last one.
        topics_changed: since any heartbeat.
    """

    def __init__(self, stage: InitialState, *, traced: bool, owners: bool) -> None:
        super().__init__(stage, traced=traced, owners=owners)
        self.topic_ids = stage.topic_ids or [(number, number) for number in range(len(stage.topics.names))]
        self.metadata = TopicsImage()
        self.metadata.put(map(self.topic, stage.partitions))
        self.config = stage.timing.group_config()
        self.coordinator = StableConsumerGroup(self.metadata, self.config)
        self.requests: deque[tuple[AsyncMember, Heartbeat, str]] = deque()
        self.round = RebalanceRow()
        self.over: list[RebalanceRow] = []
        self.topics_changed = False

    @property
    def number(self) -> int:
        """See `SimulatedGroup`."""
        return self.coordinator.group_epoch

    @property
    def heartbeat_interval_ms(self) -> int:
        """See `SimulatedGroup`."""
        return self.config.heartbeat_interval_ms

    def topic(self, number: int) -> Topic:
        """A topic as the broker knows it now."""
        partitions = self.cluster.partitions[number]
        return Topic(number, self.topics.names[number], partitions, *self.topic_ids[number])

    # --- heartbeats -------------------------------------------------------------------------------------------

    def beat(self, member: AsyncMember) -> None:
        """The member sends a heartbeat now (`buildRequestData`); what it has said before it does not say again."""
        member.beats_from, member.beat_at = self.clock.now, None
        joins, member_id = member.state == JOINING, str(member.member_id)
        request, why = Heartbeat(member_id, member.member_epoch, member.group_instance_id), TOPICS
        if joins:
            request.rack_id, request.rebalance_timeout_ms = member.rack_id, self.timing.rebalance_timeout_ms
            request.assignor = next(iter(member.strategies), None)
            why = f"member {member_id} {'came back' if member.joined == member.lives else 'joined'}"
            member.joined = member.lives
        if joins or member.sent_topics != member.topics:
            request.topics = [self.topics.names[each] for each in sorted(member.topics)]
            why = why if joins else f"{member_id} subscribes to other topics"
            member.sent_topics = member.topics
        if joins or member.sent != member.current:
            request.owned = member.current.partitions
            member.sent = member.current
        if self.trace is not None:
            self.say(member_id, REQUEST, COORDINATOR, self._said(request))
        self.requests.append((member, request, why))
        if member.state == ACKNOWLEDGING:
            member.state = STABLE if member.current == member.target else RECONCILING
            self._reconcile(member)

    def _said(self, request: Heartbeat) -> str:
        """A heartbeat for people."""
        said = [f"epoch {request.member_epoch}"]
        if request.topics is not None:
            said.append(f"topics {' '.join(request.topics) or 'none'}")
        if request.assignor is not None:
            said.append(f"assignor {request.assignor}")
        if request.owned is not None:
            said.append(f"owned {self.text(request.owned) or 'nothing'}")
        return "; ".join(said)

    def serve(self) -> Generator[TargetRequest, TargetResponse, None]:
        """See `SimulatedGroup`. The coordinator answers the heartbeats, one after the other."""
        while self.requests:
            member, request, why = self.requests.popleft()
            self.topics_changed = False
            before = self.number
            found = self.coordinator.heartbeat(request, self.clock.now)
            if isinstance(found, TargetRequest):
                ask, answer = found, (yield found)
                if answer.error is not None:
                    raise AssignorError(f"{ask.assignor}: {answer.error}")
                found = self.coordinator.decided(answer)
                self.bumped(before, why)
                self._new_target(ask, answer)
            else:
                self.bumped(before, why)
            self._answered(member, request, found)

    def _answered(self, member: AsyncMember, request: Heartbeat, response: Response) -> None:
        """What the member makes of the answer (`onHeartbeatSuccess`, `onErrorResponse`)."""
        if not member.beating or member.member_id != request.member_id:
            return
        if self.trace is not None:
            told = response.error or f"epoch {response.member_epoch}"
            if response.assigned is not None:
                told += f"; {self.text(response.assigned) or 'nothing'}"
            self.say(COORDINATOR, f"{REQUEST} response", member.member_id, told)
        if response.error in (FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID):
            self._fenced(member)
        elif response.error is not None:
            self._refused(member)
        else:
            member.member_epoch = response.member_epoch
            if response.assigned is not None:
                self._received(member, frozenset(response.assigned))
        self._watch_revocation(request.member_id)
        self.expects(member)
        self.someone_beats()

    # --- when the next heartbeat is ---------------------------------------------------------------------------

    def expects(self, member: AsyncMember) -> None:
        """If the member's next regular heartbeat says or changes something, it is sent."""
        if member.beating and self._has_news(member):
            self._beats_next(member)

    def _has_news(self, member: AsyncMember) -> bool:
        if member.topics != member.sent_topics:
            return True
        known = self.coordinator.members.by_id.get(str(member.member_id))
        if known is None or known.state is MemberState.UNRELEASED_PARTITIONS:
            return True
        if known.state is MemberState.UNREVOKED_PARTITIONS:
            return False  # only what it reports as given up matters
        if known.assigned.keys() != self.coordinator.members.target(known.member_id).codes:
            return True
        return self.trace is not None and known.member_epoch != self.coordinator.assignment_epoch

    def someone_beats(self) -> None:
        """A new target is found with the next heartbeat of anybody."""
        if not self.topics_changed and self.number <= self.coordinator.assignment_epoch:
            return
        now, interval = self.clock.now, self.heartbeat_interval_ms
        beating = [each for each in self.members.values() if each.beating]
        if beating:
            self._beats_next(min(beating, key=lambda each: each.next_beat(now, interval)))

    def _beats_next(self, member: AsyncMember) -> None:
        at = member.next_beat(self.clock.now, self.heartbeat_interval_ms)
        if member.beat_at != at:
            member.beat_at = at
            self.clock.at(at, self._beats, member, at)

    def _beats(self, member: AsyncMember, at: int) -> None:
        if member.beat_at == at and member.beating:
            self.beat(member)
        else:  # others may have relied on it
            self.someone_beats()

    # --- coming to an assignment ------------------------------------------------------------------------------

    def _received(self, member: AsyncMember, partitions: frozenset[int]) -> None:
        """The member is told another assignment (`processAssignmentReceived`)."""
        member.target = member.target.followed_by(partitions)
        if member.current != member.target:
            member.state = RECONCILING
            self._reconcile(member)
        elif member.state in (RECONCILING, JOINING):
            member.state = STABLE

    def _reconcile(self, member: AsyncMember) -> None:
        """Come to the target at the next poll; at once, if it is what the member has (`maybeReconcile`)."""
        if member.state != RECONCILING or member.reconciling:
            return
        if member.current != NONE and member.current.partitions == member.target.partitions:
            self._acknowledges(member, member.target)
        elif not member.polls_for_it:
            member.polls_for_it = True
            polls = member.next_poll(self.clock.now, self.timing.poll_interval_ms)
            self.when_it_polls(polls, member, self._gives_up)

    def _gives_up(self, member: AsyncMember) -> None:
        """It polls: first it gives up (`onPartitionsRevoked`)."""
        member.polls_for_it = False
        if member.state != RECONCILING:
            return
        wanted = member.target
        given_up = [each for each in member.owned if each not in wanted.partitions]
        member.reconciling = True
        member.busy_until = max(member.busy_until, self.give_up(member, given_up))
        self.later(member.busy_until, self._takes, member, member.epoch, wanted, given_up)

    def _takes(self, member: AsyncMember, epoch: int, wanted: LocalAssignment, given_up: Sequence[int]) -> None:
        """Then it takes what is new (`onPartitionsAssigned`), and says so."""
        if epoch != member.epoch:
            return
        now, current = self.clock.now, self.round
        current.revoked += self.has_given_up(member, given_up)
        had = set(member.owned)
        added = sorted(wanted.partitions - had)
        if added:
            current.assigned += len(added)
            current.moved += self.ledger.give(added, member, now)
            self.tell(member, "assigned", added)
        if added or given_up:
            current.end_ms = max(current.end_ms, now)
        member.owned = sorted(wanted.partitions)
        member.reconciling = False
        self._acknowledges(member, wanted)

    def _acknowledges(self, member: AsyncMember, assignment: LocalAssignment) -> None:
        member.current, member.state = assignment, ACKNOWLEDGING
        self.beat(member)

    # --- being out --------------------------------------------------------------------------------------------

    def _fenced(self, member: AsyncMember) -> None:
        """The coordinator does not know it any more (`transitionToFenced`)."""
        member.epoch += 1
        member.state, member.beat_at = FENCED, None
        polls = member.next_poll(self.clock.now, self.timing.poll_interval_ms) if member.owned else self.clock.now
        self.when_it_polls(polls, member, self.rejoins)

    def rejoins(self, member: AsyncMember) -> None:
        """It loses what it had, and joins with epoch 0."""
        self.round.lost += self.loses(member)
        member.rejoin()
        self.beat(member)

    def _refused(self, member: AsyncMember) -> None:
        """Its poll throws; what it had it loses (`transitionToFatal`)."""
        member.epoch += 1
        member.state = OFF
        self.round.lost += self.loses(member)

    def _watch_revocation(self, member_id: str) -> None:
        """Who has to give up something has the rebalance timeout for it."""
        known = self.coordinator.members.by_id.get(member_id)
        if known is not None and known.state is MemberState.UNREVOKED_PARTITIONS:
            at = self.clock.now + known.rebalance_timeout_ms
            self.clock.at(at, self._revocation_timeout, member_id, known.member_epoch)

    def _revocation_timeout(self, member_id: str, epoch: int) -> None:
        known = self.coordinator.members.by_id.get(member_id)
        late = known is not None and known.state is MemberState.UNREVOKED_PARTITIONS and known.member_epoch == epoch
        if late:
            self.expire()

    def expire(self) -> None:
        """The coordinator fences members that are silent, or late in giving up."""
        now, before = self.clock.now, self.number
        for member in self.members.values():
            if member.beating and member.member_id in self.coordinator.members.by_id:
                self.coordinator.heard(str(member.member_id), member.last_beat(now, self.heartbeat_interval_ms))
        late = {member_id for member_id, (at, _) in self.coordinator.rebalances.items() if at <= now}
        for member_id in self.coordinator.expire(now):
            why = "has not given up its partitions in time" if member_id in late else "was not heard of"
            self.says("fenced", f"{member_id} {why}")
            self.bumped(before, f"{member_id} {why}")
            member = self.by_id[member_id]
            if member.member_id == member_id:
                self.round.lost += self.ledger.pause(member.owned, member, UNOWNED, now)
                self.expects(member)
        self.someone_beats()

    # --- rounds -----------------------------------------------------------------------------------------------

    def bumped(self, before: int, why: str) -> None:
        """If the group's epoch has gone up, there is a rebalance: the next one, or the one that nobody has begun."""
        if self.number <= before:
            return
        if self.round.generation_id:
            self.over.append(self.round)
            self.round = RebalanceRow()
        if not self.round.causes:
            self.round.begin_ms = self.clock.now
        if why not in self.round.causes:
            self.round.causes.append(why)
        self.says("state", f"group epoch {self.number}: {why}")
        self.comes_to_rest()

    def _new_target(self, ask: TargetRequest, answer: TargetResponse) -> None:
        """The coordinator has found out who is to have what; members are told with their next heartbeats."""
        now, current, coordinator = self.clock.now, self.round, self.coordinator
        current.generation_id, current.joined_ms, current.end_ms = coordinator.assignment_epoch, now, now
        current.members, current.assignor = len(coordinator.members.by_id), ask.assignor
        if self.trace is not None:
            changed = f"{len(answer.changed)} of {current.members} members are to have others than before"
            self.says("target", f"{ask.assignor}: epoch {current.generation_id}; {changed}")
        for member_id in coordinator.members.by_id if self.trace is not None else answer.changed:
            member = self.by_id[member_id]
            if member.member_id == member_id:
                self.expects(member)
