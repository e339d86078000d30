"""The interface of the simulation for a classic group: start state, leader assignments, and member events."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace

from spark_assign.simulation.kernel.assignment_request import AssignmentRequest, AssignmentResponse, JoinedMember
from spark_assign.simulation.kernel.classic_consumers import CHANGED, ClassicConsumers
from spark_assign.simulation.kernel.coordinator import UNKNOWN_MEMBER
from spark_assign.simulation.kernel.member import CLOSING, REVOKING, STABLE, ClassicMember
from spark_assign.simulation.kernel.simulated_group import COORDINATOR, AssignorError


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
        member.metadata = self.cluster.visible_partitions(member.topics)
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
        member.metadata = self.cluster.visible_partitions(member.topics) | member.metadata
        if member.state == STABLE and member.topics != member.joined_topics:
            self.rejoin(member, CHANGED)

    def update_topic(self, topic: int) -> None:
        """See `SimulatedGroup`. Every member sees the change when its metadata expires."""
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
