"""A KIP-848 group on stage: its beginning, and what happens to its members."""

from __future__ import annotations

from collections.abc import Sequence

from spark_assign.simulation.kernel.async_consumers import REQUEST, AsyncConsumers
from spark_assign.simulation.kernel.consumer_group_members import LEAVE, LEAVE_STATIC, Heartbeat
from spark_assign.simulation.kernel.member import STABLE, STALE, AsyncMember, LocalAssignment
from spark_assign.simulation.kernel.ownership_log import DOWN, UNOWNED
from spark_assign.simulation.kernel.simulated_group import COORDINATOR, RebalanceRow


class SimulatedConsumerGroup(AsyncConsumers):
    """The members of a KIP-848 group, as a play has them."""

    # --- the play ---------------------------------------------------------------------------------------------

    @property
    def rounds(self) -> list[RebalanceRow]:
        """See `Cast`."""
        return self.over

    def settle(self, members: Sequence[AsyncMember], generation_id: int) -> None:
        """See `Cast`. Their heartbeats are at moments of their own, which hang on their ids."""
        rest = []
        for member in members:
            self.knows(member)
            member.state, member.lives, member.ids, member.joined = STABLE, 1, 1, 1
            member.member_epoch = generation_id
            member.target = member.current = member.sent = LocalAssignment(0, frozenset(member.owned))
            member.sent_topics = member.topics
            member.beats_from = member.phase(self.heartbeat_interval_ms)
            self.ledger.give(member.owned, member, 0)
            told = Heartbeat(str(member.member_id), generation_id, member.group_instance_id, member.rack_id)
            told.rebalance_timeout_ms = self.timing.rebalance_timeout_ms
            told.topics = [self.topics.names[each] for each in sorted(member.topics)]
            told.assignor = next(iter(member.strategies), None)
            rest.append((told, member.owned))
        self.coordinator.restore(rest, generation_id, 0)

    def close(self) -> None:
        """See `Cast`."""
        if self.round.generation_id:
            self.over.append(self.round)

    # --- what happens to members ------------------------------------------------------------------------------

    def comes(
        self, name: str, group_instance_id: str | None, topics: frozenset[int], strategies: tuple[str, ...]
    ) -> AsyncMember:
        """See `Cast`."""
        return AsyncMember(name, group_instance_id, None, topics, strategies)

    def start(self, member: AsyncMember, member_id: str | None) -> None:
        """See `Cast`."""
        member.start(self.clock.now)
        self.cluster.want(member.topics)
        self.named(member, member_id)
        self.say(member.member_id, "FindCoordinator", COORDINATOR)
        self.beat(member)

    def leaves(self, member: AsyncMember, owned: Sequence[int], why: str) -> None:
        """See `Cast`. The callback comes before the request (`runRebalanceCallbacksOnClose`)."""
        member.silent_since = self._last_beat(member)
        revoked = self.has_given_up(member, owned)
        self._goes(member, LEAVE, why)
        self.round.revoked += revoked

    def away(self, member: AsyncMember, owned: Sequence[int]) -> None:
        """See `Cast`. Its session goes on from its last heartbeat."""
        if owned:
            self.tell(member, "revoked", owned)
        self.ledger.pause(owned, member, DOWN, self.clock.now)
        self._is_missed(member)
        self._goes(member, LEAVE_STATIC, "it is away")

    def _goes(self, member: AsyncMember, epoch: int, why: str) -> None:
        """The last heartbeat: nobody waits for the answer."""
        member_id, before = str(member.member_id), self.number
        self.say(member_id, REQUEST, COORDINATOR, f"epoch {epoch}: {why}")
        self.coordinator.heard(member_id, self._last_beat(member))
        self.coordinator.heartbeat(Heartbeat(member_id, epoch, member.group_instance_id), self.clock.now)
        self.bumped(before, why)
        self.someone_beats()

    def falls_silent(self, member: AsyncMember, state: str) -> None:
        """See `Cast`."""
        member.epoch += 1
        member.state = state
        self._is_missed(member)
        self.coordinator.heard(str(member.member_id), self._last_beat(member))

    def _is_missed(self, member: AsyncMember) -> None:
        """One session timeout after it was heard of last."""
        member.silent_since = self._last_beat(member)
        self.clock.at(member.silent_since + self.config.session_timeout_ms, self.expire)

    def _last_beat(self, member: AsyncMember) -> int:
        return member.last_beat(self.clock.now, self.heartbeat_interval_ms)

    def poll_timeout(self, member: AsyncMember) -> None:
        """See `Cast`. It leaves, a static one for a while (`transitionToSendingLeaveGroup`)."""
        member_id, static = str(member.member_id), member.group_instance_id is not None
        self.clock.at(member.busy_until, self._polls_again, member, member.lives)
        member.epoch += 1
        member.state = STALE
        lost = self.ledger.pause(member.owned, member, DOWN if static else UNOWNED, self.clock.now)
        if static:
            self._is_missed(member)
        why = f"member {member_id} did not poll for {self.timing.max_poll_interval_ms} ms"
        self._goes(member, LEAVE_STATIC if static else LEAVE, why)
        self.round.lost += 0 if static else lost

    def _polls_again(self, member: AsyncMember, lives: int) -> None:
        if member.lives == lives and member.state == STALE:
            member.silent_since = None
            self.rejoins(member)

    def subscribes(self, member: AsyncMember) -> None:
        """See `Cast`. It says so with its next regular heartbeat."""
        self.expects(member)

    def topic_changes(self, topic: int) -> None:
        """See `Cast`. The broker knows at once; what follows from it is found with the next heartbeat of anybody."""
        name = self.topics.names[topic]
        if topic in self.cluster.partitions:
            self.metadata.put([self.topic(topic)])
        else:
            self.metadata.remove([name])
        self.coordinator.topics_changed({name})
        self.topics_changed = True
        self.someone_beats()

    def looks_at_topics(self, member: AsyncMember) -> None:
        """See `Cast`. That is the broker's business."""
