"""The interface of the simulation for a KIP-848 group: start state and member events."""

from __future__ import annotations

from collections.abc import Sequence

from spark_assign.simulation.kernel.async_consumers import REQUEST, AsyncConsumers
from spark_assign.simulation.kernel.consumer_group_members import LEAVE, LEAVE_STATIC, Heartbeat
from spark_assign.simulation.kernel.member import STALE, AsyncMember, LocalAssignment
from spark_assign.simulation.kernel.ownership_log import DOWN, UNOWNED
from spark_assign.simulation.kernel.simulated_group import COORDINATOR


class SimulatedConsumerGroup(AsyncConsumers):
    """A simulated group of the consumer protocol (KIP-848)."""

    # --- the play ---------------------------------------------------------------------------------------------

    def start_stable(self, members: Sequence[AsyncMember], generation_id: int) -> None:
        """See `SimulatedGroup`. The phase of the heartbeats depends on the member IDs."""
        rest = []
        for member in members:
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
        self.coordinator.topics_changed({name})
        self.topics_changed = True
        self.schedule_next_heartbeat()

    def refresh_metadata(self, member: AsyncMember) -> None:
        """See `SimulatedGroup`. The broker resolves topics, so this does nothing."""
