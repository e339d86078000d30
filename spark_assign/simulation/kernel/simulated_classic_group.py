"""The interface of the simulation for a classic group: start state, leader assignments, and member events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from spark_assign.simulation.kernel.assignment_request import AssignmentRequest, AssignmentResponse, JoinedMember
from spark_assign.simulation.kernel.classic_group import ClassicGroup
from spark_assign.simulation.kernel.classic_group_member import State
from spark_assign.simulation.kernel.coordinator import INCONSISTENT, UNKNOWN_MEMBER, Coordinator
from spark_assign.simulation.kernel.member import CLOSING, JOINING, NO_GENERATION, OFF, REVOKING, STABLE, ClassicMember
from spark_assign.simulation.kernel.ownership_log import UNOWNED
from spark_assign.simulation.kernel.settings import COOPERATIVE
from spark_assign.simulation.kernel.simulated_group import COORDINATOR, AssignorError, InitialState, SimulatedGroup
from spark_assign.tables.errors import count

# --- classic consumers ------------------------------------------------------------------------------------------------
#
# The client side of the classic protocol for all members of a group (Kafka's `ConsumerCoordinator`,
# `AbstractCoordinator`).
#
# Messages take no time. Time passes while a member waits for its next heartbeat, which informs it of a rebalance; while
# it gives up partitions; while the group waits for members that are silent or don't poll; and while partitions are
# restored.
#
# A member that learns of a rebalance
#   - eager: gives up all its partitions, then joins, and gets a complete new assignment;
#   - cooperative: joins at once and continues to consume. If its new assignment lacks partitions that it owns, it gives
#     them up and joins again at once, so that a second rebalance can assign them (KIP-429).


ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS = "ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS"
CHANGED = "its subscription changed"
OTHER_PARTITIONS = "it saw other partitions than it had assigned"

_STEPS_PER_REFRESH = 100
"""Steps that a refresh of a member's metadata counts for (`SimulatedGroup.count_work`): until it is due, it takes
memory."""


class ClassicConsumers(SimulatedGroup[ClassicMember]):
    """The members of a classic group, and their coordinator.

    For the interface of the simulation, see `simulated_classic_group`.

    Attributes:
        leader_library: the client library of the members.
        leading: the leader that must compute an assignment now.
        user_data: partitions and generation that each member's sticky assignor sent in its last JoinGroup.
    """

    member_class = ClassicMember

    def __init__(self, initial_state: InitialState, *, traced: bool, owners: bool) -> None:
        super().__init__(initial_state, traced=traced, owners=owners)
        self.coordinator = Coordinator(ClassicGroup("the group"), self.queue, initial_state.timing, self)
        self.rebalances = self.coordinator.rebalances
        self.user_data: dict[str, tuple[list[int] | None, int | None]] = {}
        self.leading: ClassicMember | None = None
        self.leader_library = initial_state.leader_library
        self._visible: dict[frozenset[int], dict[int, int]] = {}

    @property
    def number(self) -> int:
        """See `SimulatedGroup`."""
        return self.coordinator.group.generation_id

    # --- joining ----------------------------------------------------------------------------------------------

    def join(self, member: ClassicMember) -> None:
        """See `SimulatedGroup`."""
        member.metadata = self._visible_partitions(member.topics)
        self._rejoin(member, "joined")

    def _rejoin(self, member: ClassicMember, reason: str) -> None:
        """Joins without a member ID, which the coordinator then assigns (KIP-394)."""
        if member.group_instance_id is None:
            self.trace_message(member.member_id, "JoinGroup", COORDINATOR, "without a member ID")
            self.trace_message(COORDINATOR, "JoinGroup response", member.member_id, "MEMBER_ID_REQUIRED")
        self._join(member, f"member {member.member_id} {reason}")

    def _join(self, member: ClassicMember, reason: str) -> None:
        member.epoch += 1
        member.state = JOINING
        subscription = self.subscription(member)
        if self.trace is not None:
            owned = self.text(subscription.owned)
            detail = f"assignors {', '.join(member.assignors)}; generation {member.generation_id}"
            self.trace_message(
                member.member_id, "JoinGroup", COORDINATOR, detail + (f"; owned {owned}" if owned else "")
            )
        self.coordinator.join(subscription, member.assignors, reason)

    def follow_vote(self, member: ClassicMember) -> None:
        """Makes a member of franz-go use the protocol of the elected assignor (`groupConsumer.handleJoinResp`).

        Members of other libraries are eager as long as their list has an eager assignor.
        """
        if self.leader_library == "franz-go":
            member.cooperative = self.coordinator.group.protocol_name in COOPERATIVE

    def subscription(self, member: ClassicMember) -> JoinedMember:
        """Returns the subscription that the member sends in JoinGroup (`ConsumerCoordinator.metadata`)."""
        member_id, generation = str(member.member_id), member.generation_id
        remembered = member.remembered_generation
        member.joined_topics, member.subscribed_owned = member.topics, None
        self.user_data[member_id] = (member.remembered, remembered.get("sticky"))
        return JoinedMember(
            member_id,
            member.group_instance_id,
            member.rack_id,
            member.hash,
            member.topics,
            member.owned,
            generation,
            remembered.get("cooperative-sticky") if generation == NO_GENERATION else None,
        )

    # --- hearing of a rebalance -------------------------------------------------------------------------------

    def rebalance_in_progress(self, at_once: Mapping[str, bool]) -> None:
        """See `coordinator.Clients`. A leader that is computing finds out when it sends its assignment."""
        now, interval, by_id = self.queue.now, self.heartbeat_interval_ms, self.by_id
        waiting = defaultdict[int, dict[ClassicMember, int]](dict)
        for member_id, is_at_once in at_once.items():
            member = by_id[member_id]
            if member.member_id == member_id and member.state == (JOINING if is_at_once else STABLE):
                waiting[now if is_at_once else member.next_heartbeat(now, interval)][member] = member.epoch
        for at, epochs in waiting.items():
            request = "Heartbeat" if at > now else "SyncGroup"
            self.queue.schedule(at, self._receive_errors, request, iter(epochs.items()))

    def schedule_error(self, member: ClassicMember) -> None:
        """Schedules the error response to the member's next heartbeat."""
        beat = member.next_heartbeat(self.queue.now, self.heartbeat_interval_ms)
        self.queue.schedule(beat, self.run_if_current, member, member.epoch, self._receive_error, "Heartbeat")

    def _receive_errors(self, request: str, epochs: Iterator[tuple[ClassicMember, int]]) -> None:
        """Handles the error responses that members get at the same time, if their epochs are unchanged.

        If a leader must compute an assignment, that comes before the next response.
        """
        interval = self.timing.poll_interval_ms
        step = None if self.trace is not None else self._rejoins_at_poll if interval else self._rejoins_in_one_step
        for member, epoch in epochs:
            if epoch == member.epoch and not (step and step(member)):
                self._receive_error(member, request)
            if self.leading is not None:
                self.queue.schedule_next(self._receive_errors, request, epochs)
                return

    def _rejoins_at_poll(self, member: ClassicMember) -> bool:
        """Does what `_receive_error` does if a rebalance is in progress and the member polls later.

        Returns False if that isn't so.
        """
        group, now = self.coordinator.group, self.queue.now
        polls = max(member.next_poll(now, self.timing.poll_interval_ms), member.busy_until)
        if (
            polls <= now
            or group.state is not State.PREPARING_REBALANCE
            or group.generation_id != member.generation_id
            or member.member_id not in group.members
        ):
            return False
        member.epoch += 1
        member.state = REVOKING
        self.queue.schedule(polls, self._polled, member, member.epoch, polls)
        return True

    def _polled(self, member: ClassicMember, epoch: int, at: int) -> None:
        if epoch == member.epoch and not (member.busy_until <= at and self._rejoins_in_one_step(member)):
            self.run_at_poll(member, at, self.prepare_to_join, REBALANCE_IN_PROGRESS)

    def _rejoins_in_one_step(self, member: ClassicMember) -> bool:
        """Does what `prepare_to_join` leads to if a member joins with other partitions at most.

        Returns False if that isn't so.
        """
        coordinator, group, member_id = self.coordinator, self.coordinator.group, str(member.member_id)
        known = group.members.get(member_id)
        if (
            known is None
            or group.state is not State.PREPARING_REBALANCE
            or group.generation_id != member.generation_id
            or known.protocols != member.assignors
            or not member.cooperative
            or member.busy_until > self.queue.now
            or not member.owns_only_joined_topics()
        ):
            return False
        member.epoch += 1
        member.state = JOINING
        joined = coordinator.metadata[member_id]  # it sends what it has sent before, except for these
        joined.owned, joined.generation_id, joined.user_data_generation_id = member.owned, member.generation_id, None
        group.await_join(known)
        if group.num_members_awaiting_join_response == len(group.members):
            coordinator.complete_if_all_joined()
        return True

    def _receive_error(self, member: ClassicMember, request: str) -> None:
        """Handles an error response to a heartbeat or to SyncGroup."""
        group, member_id = self.coordinator.group, str(member.member_id)
        if member_id not in group.members:
            error = UNKNOWN_MEMBER
        elif group.generation_id != member.generation_id:
            error = ILLEGAL_GENERATION
        elif group.state is State.PREPARING_REBALANCE:
            error = REBALANCE_IN_PROGRESS
        else:
            return
        if request == "Heartbeat":
            self.trace_message(member_id, request, COORDINATOR)
        self.trace_message(COORDINATOR, f"{request} response", member_id, error)
        self.rejoin(member, error)

    def rejoin(self, member: ClassicMember, reason: str) -> None:
        """Schedules the preparation of a rejoin at the next poll."""
        member.epoch += 1
        member.state = REVOKING
        polls = member.next_poll(self.queue.now, self.timing.poll_interval_ms)
        self.run_at_poll(member, polls, self.prepare_to_join, reason)

    def prepare_to_join(self, member: ClassicMember, reason: str) -> None:
        """Revokes what must be revoked before a rejoin (`onJoinPrepare`)."""
        if self.trace is None and reason == REBALANCE_IN_PROGRESS and self._rejoins_in_one_step(member):
            return
        if member.member_id not in self.coordinator.group.members:
            reason = UNKNOWN_MEMBER
        given_up: Sequence[int] = ()
        if reason in (UNKNOWN_MEMBER, ILLEGAL_GENERATION):
            member.generation_id = NO_GENERATION
            self.coordinator.rebalance.lost += self.lose_all(member)
        elif member.cooperative:
            given_up = [each for each in member.owned if each >> 32 not in member.topics]
        else:
            given_up = member.owned
        self.run_unless_canceled(member, self.start_revocation(member, given_up), self._joins, given_up, reason)

    def _joins(self, member: ClassicMember, given_up: Sequence[int], reason: str) -> None:
        revoked = self.finish_revocation(member, given_up)
        if reason == UNKNOWN_MEMBER or member.member_id not in self.coordinator.group.members:
            self.assign_id(member, None)
            self._rejoin(member, "returned")
        else:
            self._join(member, f"{member.member_id} rejoined: {reason}")
        self.coordinator.rebalance.revoked += revoked

    # --- answers ----------------------------------------------------------------------------------------------

    def joined(self, member_ids: Iterable[str], *, skip_assignment: bool) -> None:
        """See `coordinator.Clients`."""
        group, now, by_id = self.coordinator.group, self.queue.now, self.by_id
        syncs = group.state is State.COMPLETING_REBALANCE
        for member_id in member_ids:
            member = by_id[member_id]
            if member.member_id != member_id or member.state != JOINING:
                continue  # the process has stopped
            leads = group.leader_id == member_id
            member.generation_id, member.heartbeats_from_ms = group.generation_id, now
            self.follow_vote(member)
            member.snapshot = self.leader_metadata(member) if skip_assignment else None
            if self.trace is not None:
                role = f"leads {count(len(group.members), 'member')}" if leads else f"leader {group.leader_id}"
                text = f"generation {group.generation_id}; {group.protocol_name}; {role}"
                skipped = "; skip assignment" if skip_assignment else ""
                self.trace_message(COORDINATOR, "JoinGroup response", member_id, text + skipped)
            if not leads or skip_assignment:
                if self.trace is not None:
                    self.trace_message(member_id, "SyncGroup", COORDINATOR)
                if syncs:
                    group.await_sync(member_id)

    def lead(self, member_id: str) -> None:
        """See `coordinator.Clients`. A leader that has stopped meanwhile computes nothing."""
        member = self.by_id[member_id]
        if member.member_id == member_id and member.state == JOINING:
            self.run_at_poll(member, self.queue.now, self._compute_assignment)

    def _compute_assignment(self, member: ClassicMember) -> None:
        group = self.coordinator.group
        if group.state is State.COMPLETING_REBALANCE and group.generation_id == member.generation_id:
            self.leading = member
        else:  # the group has started another generation
            self.trace_message(member.member_id, "SyncGroup", COORDINATOR, "with the assignment")
            self._receive_error(member, "SyncGroup")

    def send_assignment(self, leader: ClassicMember, request: AssignmentRequest, response: AssignmentResponse) -> None:
        """Sends the leader's assignment."""
        assignment = {each.member_id: given for each, given in zip(request.members, response.assigned, strict=True)}
        if self.trace is not None:
            total = sum(map(len, response.assigned))
            self.trace_message(
                leader.member_id,
                "assign",
                None,
                f"{request.assignor}: {count(total, 'partition')} to {count(len(request.members), 'member')}",
            )
            self.trace_message(leader.member_id, "SyncGroup", COORDINATOR, "with the assignment")
        self.coordinator.sync_of_leader(str(leader.member_id), assignment)

    def synced(self, assigned: Iterable[tuple[str, list[int]]]) -> None:
        """See `coordinator.Clients`."""
        now, by_id = self.queue.now, self.by_id
        for member_id, codes in assigned:
            member = by_id[member_id]
            if member.member_id != member_id or member.state != JOINING:
                continue
            if self.trace is not None:
                self.trace_message(COORDINATOR, "SyncGroup response", member_id, self.text(codes) or "nothing")
            if codes == member.owned and member.busy_until <= now and member.owns_only_joined_topics():
                self._complete_assignment(member, codes, ())  # it gives up nothing
            else:
                member.state = REVOKING
                self.run_at_poll(member, now, self._receive_assignment, codes)

    def join_rejected(self, member_id: str) -> None:
        """See `coordinator.Clients`. The consumer's poll throws; it has lost its partitions before."""
        member = self.by_id[member_id]
        self.trace_message(COORDINATOR, "JoinGroup response", member_id, INCONSISTENT)
        member.epoch += 1
        member.state = OFF

    # --- a new assignment (`onJoinComplete`) ------------------------------------------------------------------

    def _receive_assignment(self, member: ClassicMember, assigned: list[int]) -> None:
        """Applies an assignment, unless it doesn't match the subscription. A cooperative member revokes first."""
        if not member.topics.issuperset({each >> 32 for each in assigned}):
            self.rejoin(member, CHANGED)
            return
        given_up: Sequence[int] = ()
        if member.cooperative and assigned != member.owned:
            given_up = sorted(set(member.owned).difference(assigned))
        done = self.start_revocation(member, given_up)
        self.run_unless_canceled(member, done, self._complete_assignment, assigned, given_up)

    def _complete_assignment(self, member: ClassicMember, assigned: list[int], given_up: Sequence[int]) -> None:
        """Lets a member take over what it is assigned, and calls its listener."""
        member.state = STABLE
        coordinator, now = self.coordinator, self.queue.now
        group, current = coordinator.group, coordinator.rebalance
        if member.member_id not in group.members:  # it was removed in the meantime
            self.schedule_error(member)
            return
        if given_up:
            current.revoked += self.finish_revocation(member, given_up)
        returns = member.assigned_generation_id == member.generation_id  # a static member, without a rebalance
        if assigned != member.owned:
            had = set(member.owned)
            added = [each for each in assigned if each not in had]
            moved = self.ownership_log.assign(added, member, now)
            if not returns:
                current.assigned += len(added)
                current.moved += moved
            member.owned = assigned
            self.trace_callback(member, "assigned", added)
        if group.protocol_name == "sticky":
            member.remembered = assigned
        member.remembered_generation[str(group.protocol_name)] = member.generation_id
        if not returns:
            current.end_ms = now
        member.assigned_generation_id = member.generation_id
        if given_up or member.topics != member.joined_topics:
            reason = "it gave up partitions" if given_up else CHANGED
            self.queue.schedule(now, self.run_if_current, member, member.epoch, self.rejoin, reason)
        elif group.state is State.PREPARING_REBALANCE or group.generation_id != member.generation_id:
            self.schedule_error(member)  # the group started another rebalance in the meantime
        self.on_assignment(member)

    def on_assignment(self, member: ClassicMember) -> None:
        """Handles an assignment that the member has applied (`ConsumerPartitionAssignor.onAssignment`)."""

    # --- topics -----------------------------------------------------------------------------------------------

    def subscribed_topics(self) -> frozenset[int]:
        """Returns the topics that any member subscribes to. Counts different subscriptions, each of which is read, as
        steps."""
        distinct = {each.topics for each in self.coordinator.metadata.values()}
        if len(distinct) > 1:
            self.count_work(sum(map(len, distinct)))
        return frozenset[int]().union(*distinct)

    def _visible_partitions(self, topics: frozenset[int]) -> dict[int, int]:
        """Returns the partition counts that a client gets if it fetches the metadata of these topics now. Members with
        the same topics share them."""
        if topics not in self._visible:
            self.count_work(len(topics))
            self._visible[topics] = self.cluster.visible_partitions(topics)
        return self._visible[topics]

    def leader_metadata(self, member: ClassicMember) -> dict[int, int]:
        """Returns the partition counts of all subscribed topics; the leader fetches missing ones
        (`onLeaderElected`)."""
        member.metadata = self._visible_partitions(self.subscribed_topics()) | member.metadata
        return dict(member.metadata)

    def refresh_metadata(self, member: ClassicMember) -> None:
        """Refreshes a member's metadata. If the leader sees partitions that it hasn't assigned, it rejoins.

        A leader of librdkafka watches the topics that it subscribes to itself. If others see new partitions, they
        rejoin with the same subscription, which the coordinator answers without a rebalance, except that
        cooperative-sticky's subscription has a generation (tried with 2.12 and 2.16).
        """
        watches_own = self.leader_library == "librdkafka" and self.coordinator.group.protocol_name not in COOPERATIVE
        snapshot = member.snapshot
        self.count_work(1 if snapshot is None else len(self.coordinator.metadata))
        if snapshot is not None and watches_own:
            snapshot = {topic: many for topic, many in snapshot.items() if topic in member.topics}
        watched = member.topics if snapshot is None or watches_own else member.topics | self.subscribed_topics()
        member.metadata = self._visible_partitions(watched)
        if snapshot is not None and snapshot != member.metadata and member.state == STABLE:
            self.trace_message(member.member_id, "metadata", None, "partitions have changed since the assignment")
            self.rejoin(member, OTHER_PARTITIONS)

    # --- giving up --------------------------------------------------------------------------------------------

    def removed(self, member_id: str) -> int:
        """See `coordinator.Clients`."""
        member = self.by_id[member_id]
        if member.member_id != member_id:
            return 0
        if member.state in (STABLE, JOINING):
            self.schedule_error(member)
        return self.ownership_log.pause(member.owned, member, UNOWNED, self.queue.now)

    def silent_members(self, member_ids: Iterable[str]) -> list[str]:
        """See `coordinator.Clients`."""
        by_id = self.by_id
        return [
            member_id
            for member_id in member_ids
            if (member := by_id[member_id]).silent_since is not None or member.member_id != member_id
        ]

    def last_heard(self, member_id: str) -> int | None:
        """See `coordinator.Clients`."""
        member = self.by_id[member_id]
        return member.silent_since if member.member_id == member_id else self.queue.now


# --- simulated classic group ------------------------------------------------------------------------------------------


class SimulatedClassicGroup(ClassicConsumers):
    """A simulated group of the classic protocol."""

    # --- the play ---------------------------------------------------------------------------------------------

    def start_stable(self, members: Sequence[ClassicMember], generation_id: int) -> None:
        """See `SimulatedGroup`."""
        coordinator = self.coordinator
        coordinator.restore(
            [(self._stable_member(each, generation_id), each.assignors, each.owned) for each in members], generation_id
        )
        used = str(coordinator.group.protocol_name)
        for member in members:
            self.follow_vote(member)
            member.remembered_generation[used] = generation_id
            if used == "sticky":
                member.remembered = member.owned
        leader = self.by_id[str(coordinator.group.leader_id)]
        leader.snapshot = self.leader_metadata(leader)

    def _stable_member(self, member: ClassicMember, generation_id: int) -> JoinedMember:
        member.generation_id = generation_id
        member.metadata = self._visible_partitions(member.topics)
        return self.subscription(member)

    def process_due_events(self) -> Generator[AssignmentRequest, AssignmentResponse, None]:
        """See `SimulatedGroup`."""
        while self.leading is not None:
            leader, self.leading = self.leading, None
            self.check_convergence()
            request = self._build_request(leader)
            response = yield request
            if response.error is not None:
                raise AssignorError(f"{request.assignor}: {response.error}")
            self.send_assignment(leader, request, response)

    def _build_request(self, leader: ClassicMember) -> AssignmentRequest:
        """Builds the assignment request of the leader."""
        group, metadata = self.coordinator.group, self.coordinator.metadata
        members = [metadata[each.member_id] for each in group.all_members()]
        leader.snapshot = self.leader_metadata(leader)
        assignor = str(group.protocol_name)
        if assignor == "sticky":
            members = [_with_user_data(each, self.user_data[each.member_id]) for each in members]
        return AssignmentRequest(assignor, members, self.topics, leader.snapshot)

    def close(self) -> None:
        """See `SimulatedGroup`."""
        self.coordinator.close()

    # --- what happens to members ------------------------------------------------------------------------------

    def remove_member(self, member: ClassicMember, revoked: int, reason: str) -> None:
        """See `SimulatedGroup`."""
        member_id = str(member.member_id)
        self.trace_message(member_id, "LeaveGroup", COORDINATOR, reason)
        self.coordinator.leave(member_id, reason)
        self.coordinator.rebalance.revoked += revoked

    def close_static_member(self, member: ClassicMember) -> None:
        """See `SimulatedGroup`. The member sends no LeaveGroup (KIP-345)."""
        self.coordinator.watch(str(member.member_id))

    def stop_heartbeats(self, member: ClassicMember, state: str) -> None:
        """See `SimulatedGroup`. If the member waits for a response, its session starts after the response."""
        member.epoch += 1
        member.state = state
        member.silent_since = self.last_heartbeat(member)
        self.coordinator.watch(str(member.member_id))

    def poll_timeout(self, member: ClassicMember) -> None:
        """See `SimulatedGroup`. The heartbeat thread sends LeaveGroup; of a static member, it only stops
        (`maybeLeaveGroup`)."""
        member_id = str(member.member_id)
        self.queue.schedule(member.busy_until, self._polls_again, member, member.incarnations)
        if member.group_instance_id is not None:
            self.trace_message(member_id, "poll-timeout", None, "it sends no more heartbeats")
            self.stop_heartbeats(member, CLOSING)
            return
        reason = f"member {member_id} didn't poll for {self.timing.max_poll_interval_ms} ms"
        member.epoch += 1
        member.state = REVOKING
        self.trace_message(member_id, "LeaveGroup", COORDINATOR, reason)
        self.coordinator.leave(member_id, reason)

    def _polls_again(self, member: ClassicMember, incarnation: int) -> None:
        if member.incarnations != incarnation or member.state not in (CLOSING, REVOKING):
            return
        member.silent_since = None
        self.rejoin(member, UNKNOWN_MEMBER)  # whether it has said so or not, it takes itself to be out

    def change_subscription(self, member: ClassicMember) -> None:
        """See `SimulatedGroup`. The member rejoins; if it is joining, after it has its assignment."""
        member.metadata = self._visible_partitions(member.topics) | member.metadata
        if member.state == STABLE and member.topics != member.joined_topics:
            self.rejoin(member, CHANGED)

    def update_topic(self, topic: int) -> None:
        """See `SimulatedGroup`. Every member sees the change when its metadata expires."""
        self._visible.clear()
        self.count_work(_STEPS_PER_REFRESH * len(self.members))
        age = self.timing.metadata_max_age_ms
        for member in self.members.values():
            if member.running:
                since = (self.queue.now - member.metadata_from) % age
                self.queue.schedule(self.queue.now + age - since, self._metadata_expires, member, member.incarnations)

    def _metadata_expires(self, member: ClassicMember, incarnation: int) -> None:
        if member.running and member.incarnations == incarnation:
            self.refresh_metadata(member)


def _with_user_data(joined: JoinedMember, user_data: tuple[list[int] | None, int | None]) -> JoinedMember:
    """Returns the subscription with the partitions from the user data, which `StickyAssignor` uses even if they were
    revoked."""
    remembered, generation = user_data
    return replace(joined, owned=remembered or [], user_data_generation_id=generation)
