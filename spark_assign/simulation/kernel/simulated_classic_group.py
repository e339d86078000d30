"""A classic group on stage: its beginning, its leaders' decisions, and what happens to its members."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace

from spark_assign.simulation.kernel.assignment_request import AssignmentRequest, AssignmentResponse, JoinedMember
from spark_assign.simulation.kernel.classic_consumers import CHANGED, Consumers
from spark_assign.simulation.kernel.coordinator import UNKNOWN_MEMBER
from spark_assign.simulation.kernel.member import CLOSING, REVOKING, STABLE, ClassicMember
from spark_assign.simulation.kernel.ownership_log import DOWN
from spark_assign.simulation.kernel.simulated_group import COORDINATOR, AssignorError, RebalanceRow


class SimulatedClassicGroup(Consumers):
    """The members of a classic group, as a play has them."""

    # --- the play ---------------------------------------------------------------------------------------------

    @property
    def rounds(self) -> list[RebalanceRow]:
        """See `SimulatedGroup`."""
        return self.coordinator.rounds

    def settle(self, members: Sequence[ClassicMember], generation_id: int) -> None:
        """See `SimulatedGroup`."""
        coordinator = self.coordinator
        coordinator.restore(
            [(self._settled(each, generation_id), each.strategies, each.owned) for each in members], generation_id
        )
        used = str(coordinator.group.protocol_name)
        for member in members:
            self.ledger.give(member.owned, member, 0)
            member.remembered_generation[used] = generation_id
            if used == "sticky":
                member.remembered = member.owned
        leader = self.by_id[str(coordinator.group.leader_id)]
        leader.snapshot = self.leaders_view(leader)

    def _settled(self, member: ClassicMember, generation_id: int) -> JoinedMember:
        self.knows(member)
        member.state, member.lives, member.ids = STABLE, 1, 1
        member.generation_id = generation_id
        member.metadata = self.cluster.look(member.topics)
        return self.subscription(member)

    def serve(self) -> Generator[AssignmentRequest, AssignmentResponse, None]:
        """See `SimulatedGroup`."""
        while self.leading is not None:
            leader, self.leading = self.leading, None
            self.comes_to_rest()
            ask = self._ask(leader)
            answer = yield ask
            if answer.error is not None:
                raise AssignorError(f"{ask.assignor}: {answer.error}")
            self.decided(leader, ask, answer)

    def _ask(self, leader: ClassicMember) -> AssignmentRequest:
        """What the leader has to decide."""
        group, metadata = self.coordinator.group, self.coordinator.metadata
        members = [metadata[each.member_id] for each in group.all_members()]
        leader.snapshot = self.leaders_view(leader)
        assignor = str(group.protocol_name)
        if assignor == "sticky":
            members = [_with_user_data(each, self.user_data[each.member_id]) for each in members]
        return AssignmentRequest(assignor, members, self.topics, leader.snapshot)

    def close(self) -> None:
        """See `SimulatedGroup`."""
        self.coordinator.close()

    # --- what happens to members ------------------------------------------------------------------------------

    def comes(
        self, name: str, group_instance_id: str | None, topics: frozenset[int], strategies: tuple[str, ...]
    ) -> ClassicMember:
        """See `SimulatedGroup`."""
        return ClassicMember(name, group_instance_id, None, topics, strategies)

    def leaves(self, member: ClassicMember, owned: Sequence[int], why: str) -> None:
        """See `SimulatedGroup`."""
        member_id = str(member.member_id)
        member.silent_since = self._last_beat(member)
        revoked = self.has_given_up(member, owned)
        self.say(member_id, "LeaveGroup", COORDINATOR, why)
        self.coordinator.leave(member_id, why)
        self.coordinator.round.revoked += revoked

    def away(self, member: ClassicMember, owned: Sequence[int]) -> None:
        """See `SimulatedGroup`. It does not say LeaveGroup (KIP-345)."""
        member.silent_since = self._last_beat(member)
        if owned:
            self.tell(member, "revoked", owned)
        self.ledger.pause(owned, member, DOWN, self.clock.now)
        self.coordinator.watch(str(member.member_id))

    def falls_silent(self, member: ClassicMember, state: str) -> None:
        """See `SimulatedGroup`. The coordinator watches who waits for an answer once it has given it."""
        member.epoch += 1
        member.state = state
        member.silent_since = self._last_beat(member)
        self.coordinator.watch(str(member.member_id))

    def _last_beat(self, member: ClassicMember) -> int:
        return member.last_beat(self.clock.now, self.heartbeat_interval_ms)

    def poll_timeout(self, member: ClassicMember) -> None:
        """See `SimulatedGroup`. The heartbeat thread leaves; a static member's only falls silent
        (`maybeLeaveGroup`)."""
        member_id = str(member.member_id)
        self.clock.at(member.busy_until, self._polls_again, member, member.lives)
        if member.group_instance_id is not None:
            self.say(member_id, "poll-timeout", None, "it sends no heartbeats any more")
            self.falls_silent(member, CLOSING)
            return
        why = f"member {member_id} did not poll for {self.timing.max_poll_interval_ms} ms"
        member.epoch += 1
        member.state = REVOKING
        self.say(member_id, "LeaveGroup", COORDINATOR, why)
        self.coordinator.leave(member_id, why)

    def _polls_again(self, member: ClassicMember, lives: int) -> None:
        if member.lives != lives or member.state not in (CLOSING, REVOKING):
            return
        member.silent_since = None
        self.rejoin(member, UNKNOWN_MEMBER)  # whether it has said so or not, it takes itself to be out

    def subscribes(self, member: ClassicMember) -> None:
        """See `SimulatedGroup`. It joins again for them; if it is joining, once it has its share."""
        member.metadata = self.cluster.look(member.topics) | member.metadata
        if member.state == STABLE and member.topics != member.told:
            self.rejoin(member, CHANGED)

    def topic_changes(self, topic: int) -> None:
        """See `SimulatedGroup`. Every member looks at its topics again when its metadata is too old."""
        age = self.timing.metadata_max_age_ms
        for member in self.members.values():
            if member.running:
                since = (self.clock.now - member.metadata_from) % age
                self.clock.at(self.clock.now + age - since, self._looks, member, member.lives)

    def _looks(self, member: ClassicMember, lives: int) -> None:
        if member.running and member.lives == lives:
            self.looks_at_topics(member)


def _with_user_data(joined: JoinedMember, told: tuple[list[int] | None, int | None]) -> JoinedMember:
    """`StickyAssignor` looks at what the user data say, which its members remember even if they gave it up."""
    remembered, generation = told
    return replace(joined, owned=remembered or (), user_data_generation_id=generation)
