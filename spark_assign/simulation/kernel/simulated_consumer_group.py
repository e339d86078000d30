"""The interface of the simulation for a KIP-848 group: start state and member events."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence

from spark_assign.simulation.kernel.assignment_request import CODE_BITS, PARTITION_MASK
from spark_assign.simulation.kernel.consumer_group import ConsumerGroup
from spark_assign.simulation.kernel.consumer_group_members import (
    FENCED_MEMBER_EPOCH,
    LEAVE,
    LEAVE_STATIC,
    UNKNOWN_MEMBER_ID,
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
    STALE,
    AsyncMember,
    LocalAssignment,
)
from spark_assign.simulation.kernel.ownership_log import DOWN, UNOWNED
from spark_assign.simulation.kernel.simulated_group import COORDINATOR, InitialState, RebalanceRow, SimulatedGroup
from spark_assign.simulation.kernel.target_assignment import TargetRequest, TargetResponse, Topic, TopicsImage

# --- async consumers --------------------------------------------------------------------------------------------------
#
# The client side of KIP-848 for all members of a group (Kafka's `ConsumerMembershipManager` and
# `ConsumerHeartbeatRequestManager`).
#
# The only request is `ConsumerGroupHeartbeat`, and no member waits for another one. A member sends it
#   - when it joins, with epoch 0 and all fields; when it leaves, with epoch -1 (a static member that will return: -2);
#   - as soon as it has applied an assignment, with the partitions that it owns now;
#   - otherwise one `heartbeatIntervalMs`, which the broker sets, after its last heartbeat.
# The next regular heartbeat contains a changed subscription.
#
# The response to a heartbeat contains the assignment. The member applies it at its next poll: first it gives up
# partitions (`onPartitionsRevoked`), then it takes new ones (`onPartitionsAssigned`), both in that poll. An assignment
# that arrives meanwhile waits until then. A fenced member continues until its next heartbeat; then it loses all its
# partitions at its next poll (`onPartitionsLost`) and joins again under its ID.
#
# Messages take no time. Consumers search for subscribed topics until these exist, so they know the topics that are
# assigned to them. Heartbeats without any effect are skipped. Those that only raise the member epoch are simulated only
# if the trace is recorded.


REQUEST = "ConsumerGroupHeartbeat"
TOPICS = "topics have changed"
_STEPS_PER_FENCE = 100
"""Steps that a fenced member counts for (`SimulatedGroup.count_work`): it joins again, which takes about 0.1 ms."""

_SUBSCRIPTIONS_PER_STEP = 4
"""Number of subscriptions that count as one step if members subscribe to different topics. Each takes about 0.2 µs per
rebalance."""


class AsyncConsumers(SimulatedGroup[AsyncMember]):
    """The members of a KIP-848 group, and their coordinator. For the simulation's interface, see
    `simulated_consumer_group`.

    Attributes:
        _next_to_beat: the member with the next heartbeat when a new target was needed last, or None.
        requests: heartbeats that await a response, each with its cause of a rebalance.
        rebalance: the rebalance in progress, or the last one.
        topics_changed: whether topics have changed since the last heartbeat.
    """

    member_class = AsyncMember

    def __init__(self, initial_state: InitialState, *, traced: bool, owners: bool) -> None:
        super().__init__(initial_state, traced=traced, owners=owners)
        self.topic_ids = initial_state.topic_ids or [
            (number, number) for number in range(len(initial_state.topics.names))
        ]
        self.metadata = TopicsImage()
        self.metadata.put(map(self.topic, initial_state.partitions))
        self.config = initial_state.timing.group_config()
        self.heartbeat_interval_ms = self.config.heartbeat_interval_ms
        self.coordinator = ConsumerGroup(self.metadata, self.config)
        self.requests: deque[tuple[AsyncMember, Heartbeat, str]] = deque()
        self.rebalance = RebalanceRow()
        self.topics_changed = False
        self._next_to_beat: AsyncMember | None = None

    @property
    def number(self) -> int:
        """See `SimulatedGroup`."""
        return self.coordinator.group_epoch

    def topic(self, index: int) -> Topic:
        """Returns a topic as the broker knows it now. The ID of one that was created again is unknown."""
        number = self.cluster.number(index)
        id_hash, id_rank = self.topic_ids[index] if number == index else (number, len(self.topics.names) + number)
        return Topic(number, self.topics.names[index], self.cluster.partitions[index], id_hash, id_rank)

    # --- heartbeats -------------------------------------------------------------------------------------------

    def send_heartbeat(self, member: AsyncMember) -> None:
        """Sends a heartbeat (`buildRequestData`), which contains only fields that have changed."""
        first, due = self._next_to_beat, self.queue.now + self.heartbeat_interval_ms
        if member is first or (member.joined and first is not None and first.heartbeat_at_ms == due):
            self._next_to_beat = None  # of members that are due together, the one that started first is next
        member.heartbeats_from_ms, member.heartbeat_at_ms = self.queue.now, None
        joins, member_id = member.state == JOINING, str(member.member_id)
        request, reason = Heartbeat(member_id, member.member_epoch, member.group_instance_id), TOPICS
        if joins:
            request.rack_id, request.rebalance_timeout_ms = member.rack_id, self.timing.rebalance_timeout_ms
            request.assignor = next(iter(member.assignors), None)
            reason = f"member {member_id} {'returned' if member.joined == member.incarnations else 'joined'}"
            member.joined = member.incarnations
        if joins or member.sent_topics != member.topics:
            request.topics = [self.topics.names[each] for each in sorted(member.topics)]
            reason = reason if joins else f"{member_id} changed its subscription"
            member.sent_topics = member.topics
        if joins or member.sent_assignment != member.current:
            request.owned = member.current.partitions
            member.sent_assignment = member.current
        if self.trace is not None:
            self.trace_message(member_id, REQUEST, COORDINATOR, self._describe(request))
        self.requests.append((member, request, reason))
        if member.state == ACKNOWLEDGING:
            member.state = STABLE if member.current == member.target else RECONCILING
            self._reconcile(member)

    def _describe(self, request: Heartbeat) -> str:
        """Returns the text of a heartbeat for the trace."""
        said = [f"epoch {request.member_epoch}"]
        if request.topics is not None:
            said.append(f"topics {' '.join(request.topics) or 'none'}")
        if request.assignor is not None:
            said.append(f"assignor {request.assignor}")
        if request.owned is not None:
            said.append(f"owned {self.text(request.owned) or 'nothing'}")
        return "; ".join(said)

    def process_due_events(self) -> Generator[TargetRequest, TargetResponse, None]:
        """See `SimulatedGroup`. The coordinator processes the heartbeats one after the other."""
        while self.requests:
            member, request, reason = self.requests.popleft()
            self.topics_changed = False
            before = self.number
            found = self.coordinator.heartbeat(request, self.queue.now)
            self.bumped(before, reason)
            if isinstance(found, TargetRequest):
                target_request, target = found, (yield found)
                found = self.coordinator.apply_target(target)
                self._new_target(target_request, target)
            self._receive_response(member, request, found)

    def _receive_response(self, member: AsyncMember, request: Heartbeat, response: Response) -> None:
        """Handles a response (`onHeartbeatSuccess`, `onErrorResponse`)."""
        if not member.sends_heartbeats or member.member_id != request.member_id:
            return
        if self.trace is not None:
            text = response.error or f"epoch {response.member_epoch}"
            if response.assigned is not None:
                text += f"; {self.text(response.assigned) or 'nothing'}"
            self.trace_message(COORDINATOR, f"{REQUEST} response", member.member_id, text)
        if response.error in (FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID):
            self._fenced(member)
        elif response.error is not None:
            self._fail(member)
        else:
            member.member_epoch = response.member_epoch
            if response.assigned is not None:
                self._receive_assignment(member, frozenset(response.assigned))
        self._watch_revocation(request.member_id)
        self.schedule_news(member)
        self.schedule_next_heartbeat()

    # --- scheduling heartbeats --------------------------------------------------------------------------------

    def schedule_news(self, member: AsyncMember) -> None:
        """Schedules the member's next regular heartbeat if it has any effect."""
        if member.sends_heartbeats and self._has_news(member):
            self._schedule_heartbeat(member)

    def _has_news(self, member: AsyncMember) -> bool:
        if member.topics != member.sent_topics:
            return True
        known = self.coordinator.members.by_id.get(str(member.member_id))
        if known is None or known.state is MemberState.UNRELEASED_PARTITIONS:
            return True
        if known.state is MemberState.UNREVOKED_PARTITIONS:
            return False  # only what it reports as given up matters
        if known.is_reconciled_to(self.coordinator.assignment_epoch):
            return False  # also if the target has topics that the member doesn't subscribe to
        if known.assigned.keys() != self.coordinator.members.target(known.member_id).codes:
            return True
        return self.trace is not None and known.member_epoch != self.coordinator.assignment_epoch

    def schedule_next_heartbeat(self) -> None:
        """Schedules the next heartbeat of any member if it triggers a new target."""
        if not self.topics_changed and self.number <= self.coordinator.assignment_epoch:
            return
        now, interval, first = self.queue.now, self.heartbeat_interval_ms, self._next_to_beat
        if first is not None and first.sends_heartbeats and (first.heartbeat_at_ms or 0) > now:
            return
        beating = [each for each in self.members.values() if each.sends_heartbeats]
        if beating:
            self._next_to_beat = first = min(beating, key=lambda each: each.next_heartbeat(now, interval))
            self._schedule_heartbeat(first)

    def _schedule_heartbeat(self, member: AsyncMember) -> None:
        at = member.next_heartbeat(self.queue.now, self.heartbeat_interval_ms)
        if member.heartbeat_at_ms != at:
            member.heartbeat_at_ms = at
            self.queue.schedule(at, self._heartbeat_due, member, at)

    def _heartbeat_due(self, member: AsyncMember, at: int) -> None:
        if member.heartbeat_at_ms == at and member.sends_heartbeats:
            self.send_heartbeat(member)
        else:  # others may have relied on it
            self.schedule_next_heartbeat()

    # --- reconciliation ---------------------------------------------------------------------------------------

    def _receive_assignment(self, member: AsyncMember, partitions: frozenset[int]) -> None:
        """Handles a new assignment (`processAssignmentReceived`)."""
        member.target = member.target.followed_by(partitions)
        if member.current != member.target:
            member.state = RECONCILING
            self._reconcile(member)
        elif member.state in (RECONCILING, JOINING):
            member.state = STABLE

    def _reconcile(self, member: AsyncMember) -> None:
        """Schedules the reconciliation at the next poll. If the partitions are equal, acknowledges at once
        (`maybeReconcile`)."""
        if member.state != RECONCILING or member.reconciling:
            return
        if member.current != NONE and member.current.partitions == member.target.partitions:
            self._acknowledge(member, member.target)
        elif not member.is_poll_scheduled:
            member.is_poll_scheduled = True
            polls = member.next_poll(self.queue.now, self.timing.poll_interval_ms)
            self.run_at_poll(member, polls, self._revoke)

    def _revoke(self, member: AsyncMember) -> None:
        """Gives up partitions at a poll (`onPartitionsRevoked`)."""
        member.is_poll_scheduled = False
        if member.state != RECONCILING:
            return
        wanted = member.target
        given_up = [each for each in member.owned if each not in wanted.partitions]
        member.reconciling = True
        member.busy_until = max(member.busy_until, self.start_revocation(member, given_up))
        self.run_unless_canceled(member, member.busy_until, self._complete_reconciliation, wanted, given_up)

    def _complete_reconciliation(self, member: AsyncMember, wanted: LocalAssignment, given_up: Sequence[int]) -> None:
        """Takes the new partitions (`onPartitionsAssigned`) and acknowledges them."""
        now, current = self.queue.now, self.rebalance
        current.revoked += self.finish_revocation(member, given_up)
        had = set(member.owned)
        added = sorted(wanted.partitions - had)
        if added:
            current.assigned += len(added)
            current.moved += self.ownership_log.assign(added, member, now)
            self.trace_callback(member, "assigned", added)
        if added or given_up:
            current.end_ms = max(current.end_ms, now)
        member.owned = sorted(wanted.partitions)
        member.reconciling = False
        self._acknowledge(member, wanted)

    def _acknowledge(self, member: AsyncMember, assignment: LocalAssignment) -> None:
        member.current, member.state = assignment, ACKNOWLEDGING
        self.send_heartbeat(member)

    # --- fenced members ---------------------------------------------------------------------------------------

    def _fenced(self, member: AsyncMember) -> None:
        """Handles a member that the coordinator has removed (`transitionToFenced`)."""
        self.count_work(_STEPS_PER_FENCE)
        member.epoch += 1
        member.state, member.heartbeat_at_ms = FENCED, None
        polls = member.next_poll(self.queue.now, self.timing.poll_interval_ms) if member.owned else self.queue.now
        self.run_at_poll(member, polls, self.rejoin_group)

    def rejoin_group(self, member: AsyncMember) -> None:
        """Loses all partitions, and joins with epoch 0."""
        self.rebalance.lost += self.lose_all(member)
        member.rejoin()
        self.send_heartbeat(member)

    def _fail(self, member: AsyncMember) -> None:
        """Handles a fatal error: the poll throws, and the member loses its partitions (`transitionToFatal`)."""
        member.epoch += 1
        member.state = OFF
        self.rebalance.lost += self.lose_all(member)

    def _watch_revocation(self, member_id: str) -> None:
        """Schedules the rebalance timeout of a member that must give up partitions."""
        known = self.coordinator.members.by_id.get(member_id)
        if known is not None and known.state is MemberState.UNREVOKED_PARTITIONS:
            at = self.queue.now + known.rebalance_timeout_ms
            self.queue.schedule(at, self._revocation_timeout, member_id, known.member_epoch)

    def _revocation_timeout(self, member_id: str, epoch: int) -> None:
        known = self.coordinator.members.by_id.get(member_id)
        if known is not None and known.state is MemberState.UNREVOKED_PARTITIONS and known.member_epoch == epoch:
            self.expire()

    def expire(self) -> None:
        """Fences members whose session or rebalance timeout has expired."""
        now, before = self.queue.now, self.number
        self.count_work(len(self.members))
        for member in self.members.values():
            if member.sends_heartbeats and member.member_id in self.coordinator.members.by_id:
                self.coordinator.record_heartbeat(str(member.member_id), self.last_heartbeat(member))
        late = {member_id for member_id, (at, _) in self.coordinator.rebalance_deadlines.items() if at <= now}
        for member_id in self.coordinator.expire(now):
            reason = "didn't give up its partitions in time" if member_id in late else "sent no heartbeat in time"
            self.trace_coordinator("fenced", f"{member_id} {reason}")
            self.bumped(before, f"{member_id} {reason}")
            member = self.by_id[member_id]
            if member.member_id == member_id:
                self.rebalance.lost += self.ownership_log.pause(member.owned, member, UNOWNED, now)
                self.schedule_news(member)
        self.schedule_next_heartbeat()

    # --- rebalances -------------------------------------------------------------------------------------------

    def bumped(self, before: int, reason: str) -> None:
        """If the group epoch has increased, starts the next rebalance, or adds a cause to one without a target yet."""
        if self.number <= before:
            return
        if self.rebalance.generation_id:
            self.rebalances.append(self.rebalance)
            self.rebalance = RebalanceRow()
        if not self.rebalance.causes:
            self.rebalance.start_ms = self.queue.now
        self.rebalance.causes[reason] = None
        self.trace_coordinator("state", f"group epoch {self.number}: {reason}")
        self.count_work(len(self.cluster.partitions))  # a new epoch reads the subscribed topics
        if not self.coordinator.homogeneous:
            self.count_work(sum(map(len, self.coordinator.members.names)) // _SUBSCRIPTIONS_PER_STEP)

    def _new_target(self, request: TargetRequest, answer: TargetResponse) -> None:
        """Records a new target, of which the members learn with their next heartbeats."""
        self.check_convergence()
        if not request.homogeneous:
            self.count_work(sum(len(each.subscribed) for each in request.members) // _SUBSCRIPTIONS_PER_STEP)
        now, current, coordinator = self.queue.now, self.rebalance, self.coordinator
        current.generation_id, current.joined_ms, current.end_ms = coordinator.assignment_epoch, now, now
        current.members, current.assignor = len(coordinator.members.by_id), request.assignor
        if self.trace is not None:
            changed = f"{len(answer)} of {current.members} members have a new target"
            self.trace_coordinator("target", f"{request.assignor}: epoch {current.generation_id}; {changed}")
        for member_id in coordinator.members.by_id if self.trace is not None else answer:
            member = self.by_id[member_id]
            if member.member_id == member_id:
                self.schedule_news(member)


# --- simulated consumer group -----------------------------------------------------------------------------------------


class SimulatedConsumerGroup(AsyncConsumers):
    """A simulated group of the consumer protocol (KIP-848)."""

    # --- the play ---------------------------------------------------------------------------------------------

    def start_stable(self, members: Sequence[AsyncMember], generation_id: int) -> None:
        """See `SimulatedGroup`. The phase of the heartbeats depends on the member IDs.

        Claims to partitions that don't exist are ignored, as in a plan: the coordinator assigns no such partition.
        """
        rest, partitions = [], self.cluster.partitions
        for member in members:
            member.owned = [
                each for each in member.owned if each & PARTITION_MASK < partitions.get(each >> CODE_BITS, 0)
            ]
            member.joined, member.member_epoch = member.incarnations, generation_id
            member.target = member.current = member.sent_assignment = LocalAssignment(0, frozenset(member.owned))
            member.sent_topics = member.topics
            member.heartbeats_from_ms = member.phase(self.heartbeat_interval_ms)
            heartbeat = Heartbeat(str(member.member_id), generation_id, member.group_instance_id, member.rack_id)
            heartbeat.rebalance_timeout_ms = self.timing.rebalance_timeout_ms
            heartbeat.topics = [self.topics.names[each] for each in sorted(member.topics)]
            heartbeat.assignor = next(iter(member.assignors), None)
            rest.append((heartbeat, member.owned))
        self.coordinator.restore(rest, generation_id)

    def close(self) -> None:
        """See `SimulatedGroup`."""
        if self.rebalance.generation_id:
            self.rebalances.append(self.rebalance)

    # --- what happens to members ------------------------------------------------------------------------------

    def join(self, member: AsyncMember) -> None:
        """See `SimulatedGroup`."""
        self.send_heartbeat(member)

    def remove_member(self, member: AsyncMember, revoked: int, reason: str) -> None:
        """See `SimulatedGroup`. The callback precedes the request (`runRebalanceCallbacksOnClose`)."""
        self._send_last_heartbeat(member, LEAVE, reason)
        self.rebalance.revoked += revoked

    def close_static_member(self, member: AsyncMember) -> None:
        """See `SimulatedGroup`. The session continues from the last heartbeat."""
        self._schedule_expiry(member)
        self._send_last_heartbeat(member, LEAVE_STATIC, "it is down")

    def _send_last_heartbeat(self, member: AsyncMember, epoch: int, reason: str) -> None:
        """Sends the last heartbeat, whose response is ignored."""
        member_id, before = str(member.member_id), self.number
        self.trace_message(member_id, REQUEST, COORDINATOR, f"epoch {epoch}: {reason}")
        self.coordinator.record_heartbeat(member_id, self.last_heartbeat(member))
        self.coordinator.heartbeat(Heartbeat(member_id, epoch, member.group_instance_id), self.queue.now)
        self.bumped(before, reason)
        self.schedule_next_heartbeat()

    def stop_heartbeats(self, member: AsyncMember, state: str) -> None:
        """See `SimulatedGroup`."""
        member.epoch += 1
        member.state = state
        self._schedule_expiry(member)
        self.coordinator.record_heartbeat(str(member.member_id), self.last_heartbeat(member))

    def _schedule_expiry(self, member: AsyncMember) -> None:
        """Schedules the session timeout, one timeout after the last heartbeat."""
        member.silent_since = self.last_heartbeat(member)
        self.queue.schedule(member.silent_since + self.config.session_timeout_ms, self.expire)

    def poll_timeout(self, member: AsyncMember) -> None:
        """See `SimulatedGroup`. The member leaves, a static one temporarily (`transitionToSendingLeaveGroup`)."""
        member_id, static = str(member.member_id), member.group_instance_id is not None
        self.queue.schedule(member.busy_until, self._polls_again, member, member.incarnations)
        member.epoch += 1
        member.state = STALE
        lost = self.ownership_log.pause(member.owned, member, DOWN if static else UNOWNED, self.queue.now)
        if static:
            self._schedule_expiry(member)
        reason = f"member {member_id} didn't poll for {self.timing.max_poll_interval_ms} ms"
        self._send_last_heartbeat(member, LEAVE_STATIC if static else LEAVE, reason)
        self.rebalance.lost += 0 if static else lost

    def _polls_again(self, member: AsyncMember, incarnation: int) -> None:
        if member.incarnations == incarnation and member.state == STALE:
            member.silent_since = None
            self.rejoin_group(member)

    def change_subscription(self, member: AsyncMember) -> None:
        """See `SimulatedGroup`. The next regular heartbeat contains the subscription."""
        self.schedule_news(member)

    def update_topic(self, topic: int) -> None:
        """See `SimulatedGroup`. The broker knows the change immediately, and reacts at the next heartbeat of any
        member."""
        name = self.topics.names[topic]
        if topic in self.cluster.partitions:
            self.metadata.put([self.topic(topic)])
        else:
            self.metadata.remove([name])
        self.count_work(len(self.members))
        self.coordinator.topics_changed({name})
        self.topics_changed = True
        self.schedule_next_heartbeat()

    def refresh_metadata(self, member: AsyncMember) -> None:
        """See `SimulatedGroup`. The broker resolves topics, so this does nothing."""
