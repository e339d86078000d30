"""The coordinator of a classic group (the classic part of Kafka's `GroupMetadataManager`), which drives `ClassicGroup`.

A member that joins waits for its response. The group stays in PREPARING_REBALANCE until all members wait, or until the
rebalance timeout expires: dynamic members that don't wait are removed, static ones stay. Then the group has a leader
and a new generation. All members get their response and send SyncGroup, the leader with the assignment
(COMPLETING_REBALANCE); then each member gets its partitions (STABLE). An empty group first waits for more members
(`group.initial.rebalance.delay.ms`), and extends the delay while members join.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from spark_assign.simulation.kernel.assignment_request import JoinedMember
from spark_assign.simulation.kernel.classic_group import CONSUMER, ClassicGroup
from spark_assign.simulation.kernel.classic_group_member import ClassicGroupMember, State
from spark_assign.simulation.kernel.events import EventQueue
from spark_assign.simulation.kernel.settings import TimingConfig
from spark_assign.simulation.kernel.simulated_group import RebalanceRow
from spark_assign.tables.errors import count

INCONSISTENT, UNKNOWN_MEMBER = "INCONSISTENT_GROUP_PROTOCOL", "UNKNOWN_MEMBER_ID"


class Clients(Protocol):
    """Receives the responses of the coordinator: the members, and the trace."""

    def trace_coordinator(self, message: str, detail: str) -> None:
        """Traces an action of the coordinator."""

    def rebalance_in_progress(self, at_once: Mapping[str, bool]) -> None:
        """Sends REBALANCE_IN_PROGRESS with the next heartbeat of each member; if `at_once`, as the response to its
        SyncGroup now."""

    def removed(self, member_id: str) -> int:
        """Handles the removal of a member. If the member is alive, its next heartbeat gets an error.

        Returns:
            the number of partitions that the member still owned.
        """

    def joined(self, member_ids: Iterable[str], *, skip_assignment: bool) -> None:
        """Sends the responses to JoinGroup."""

    def lead(self, member_id: str) -> None:
        """Sends the JoinGroup response of the leader, with all members; the leader must send the assignment."""

    def synced(self, assigned: Iterable[tuple[str, list[int]]]) -> None:
        """Sends the responses to SyncGroup, one after the other: one may interrupt the next ones."""

    def join_rejected(self, member_id: str) -> None:
        """Sends INCONSISTENT_GROUP_PROTOCOL as the response to JoinGroup."""

    def last_heard(self, member_id: str) -> int | None:
        """Returns the time of the last heartbeat of a member that sends no more. None: it sends heartbeats."""

    def silent_members(self, member_ids: Iterable[str]) -> list[str]:
        """Returns the members that send no heartbeats."""


@dataclass(slots=True)
class Coordinator:
    """The coordinator of one group.

    Attributes:
        metadata: subscription of each member, from its last JoinGroup.
        assignment: partitions of each member, from the last SyncGroup.
        rebalance: the rebalance in progress, or the last one.
        rebalances: the rebalances before it.
        expires: time at which the session of a silent member expires.
        timer: incremented to invalidate a scheduled rebalance timeout.
    """

    group: ClassicGroup
    queue: EventQueue
    timing: TimingConfig
    clients: Clients
    metadata: dict[str, JoinedMember] = field(default_factory=dict)
    assignment: dict[str, list[int]] = field(default_factory=dict)
    rebalance: RebalanceRow = field(default_factory=RebalanceRow)
    rebalances: list[RebalanceRow] = field(default_factory=list)
    expires: dict[str, int] = field(default_factory=dict)
    timer: int = 0

    # --- JoinGroup --------------------------------------------------------------------------------------------

    def join(self, joined: JoinedMember, assignors: tuple[str, ...], reason: str) -> None:
        """Handles JoinGroup of a new or known member."""
        group, member_id, instance = self.group, joined.member_id, joined.group_instance_id
        if not group.supports_protocols(CONSUMER, assignors):
            self.clients.join_rejected(member_id)
        elif member_id in group.members:
            self._rejoin(joined, assignors, reason)
        elif instance is not None and instance in group.static_members:
            self._replace_static(group.static_members[instance], joined, assignors, reason)
        else:
            self._add(joined, assignors, awaiting_join=True)
            if group.state is State.PREPARING_REBALANCE and group.previous_state is State.EMPTY:
                group.new_member_added = True
            self._prepare_or_complete(reason)

    def restore(self, members: Iterable[tuple[JoinedMember, tuple[str, ...], list[int]]], generation_id: int) -> None:
        """Restores a stable group, as if the members had joined and synced in this generation.

        Args:
            members: the subscription, the assignors, and the assigned partitions of each member.
            generation_id: the generation.

        Raises:
            IllegalArgument: the members have no assignor in common.
        """
        group = self.group
        for joined, assignors, assigned in members:
            self._add(joined, assignors, awaiting_join=False)
            self.assignment[joined.member_id] = assigned
        group.transition_to(State.PREPARING_REBALANCE)
        group.generation_id = generation_id - 1
        group.init_next_generation()
        group.transition_to(State.STABLE)

    def _add(self, joined: JoinedMember, assignors: tuple[str, ...], *, awaiting_join: bool) -> None:
        member = ClassicGroupMember(
            joined.member_id,
            protocols=assignors,
            group_instance_id=joined.group_instance_id,
            rebalance_timeout_ms=self.timing.rebalance_timeout_ms,
            hash_code=joined.hash,
        )
        self.group.add(member, awaiting_join=awaiting_join)
        self.metadata[joined.member_id] = joined

    def _rejoin(self, joined: JoinedMember, assignors: tuple[str, ...], reason: str) -> None:
        """Handles the JoinGroup request of a member that the group knows."""
        group, member_id = self.group, joined.member_id
        leads = group.state is State.STABLE and group.leader_id == member_id
        same = self.metadata[member_id] == joined and group.members[member_id].protocols == assignors
        if group.state is State.PREPARING_REBALANCE:
            self._update(joined, assignors)
            self.complete_if_all_joined()
        elif leads or not same:
            self._update(joined, assignors)
            self.prepare(reason)
        else:  # it has missed the response, and its subscription is unchanged
            self.clients.joined([member_id], skip_assignment=False)
            self.sync(member_id)

    def _replace_static(self, old_id: str, joined: JoinedMember, assignors: tuple[str, ...], reason: str) -> None:
        """Handles a static member that returns with a new member ID (KIP-345; for a returning leader, KIP-814)."""
        group, member_id = self.group, joined.member_id
        group.replace_static_member(str(joined.group_instance_id), old_id, member_id)
        self.assignment[member_id] = self.assignment.pop(old_id, [])
        self.metadata.pop(old_id, None)
        self.expires.pop(old_id, None)
        self._update(joined, assignors)
        if group.state is State.STABLE and group.protocol_name == group.select_protocol():
            group.complete_join(group.members[member_id])
            self.clients.joined([member_id], skip_assignment=group.leader_id == member_id)
            self.sync(member_id)
        else:
            self._prepare_or_complete(reason)

    def _update(self, joined: JoinedMember, assignors: tuple[str, ...]) -> None:
        self.metadata[joined.member_id] = joined
        self.group.update(
            self.group.members[joined.member_id],
            protocols=assignors,
            topics=(),
            rebalance_timeout_ms=self.timing.rebalance_timeout_ms,
            awaiting_join=True,
        )

    # --- rebalances -------------------------------------------------------------------------------------------

    def _prepare_or_complete(self, reason: str) -> None:
        if self.group.can_rebalance():
            self.prepare(reason)
        else:
            self._add_cause(reason)
            self.complete_if_all_joined()

    def _add_cause(self, reason: str) -> None:
        """Adds a cause to the rebalance in progress."""
        self.rebalance.causes[reason] = None

    def prepare(self, reason: str) -> None:
        """Starts a rebalance (`prepareRebalance`)."""
        group, now = self.group, self.queue.now
        first = group.state is State.EMPTY
        self._next_round(reason)
        group.transition_to(State.PREPARING_REBALANCE)
        self.clients.trace_coordinator("state", f"PreparingRebalance: {reason}")
        awaited = group.not_yet_rejoined_members()
        silent = self.clients.silent_members(each.member_id for each in awaited if each.awaiting_sync)
        self.clients.rebalance_in_progress({each.member_id: self._answers_sync(each, silent) for each in awaited})
        timeout = group.rebalance_timeout_ms()
        if first:
            delay = self.timing.group_initial_rebalance_delay_ms  # even if it exceeds the rebalance timeout
            self._extend_initial_delay(delay, max(timeout - delay, 0))
        elif not self.complete_if_all_joined():
            self._wait_for_members(now + timeout)

    def _next_round(self, reason: str) -> None:
        """Closes the last rebalance. Losses and revocations after its end count for the next one."""
        now = self.queue.now
        if self.rebalance.generation_id:
            self.rebalances.append(self.rebalance)
            self.rebalance = RebalanceRow()
        self.rebalance.start_ms, self.rebalance.causes = now, {reason: None}

    def _extend_initial_delay(self, delay: int, remaining: int) -> None:
        self.queue.schedule(self.queue.now + delay, self._initial_delay_over, delay, remaining)

    def _initial_delay_over(self, delay: int, remaining: int) -> None:
        if self.group.new_member_added and remaining:
            self.group.new_member_added = False
            again = min(self.timing.group_initial_rebalance_delay_ms, remaining)
            self._extend_initial_delay(again, max(remaining - delay, 0))
        else:
            self._complete()

    def _wait_for_members(self, until: int) -> None:
        self.timer += 1
        self.queue.schedule(until, self._rebalance_timeout, self.timer)

    def _rebalance_timeout(self, timer: int) -> None:
        if timer == self.timer:
            self.clients.trace_coordinator("rebalance-timeout", "not all members have joined")
            self._complete()

    def complete_if_all_joined(self) -> bool:
        """Starts the new generation if all members have joined. Returns False if not."""
        group = self.group
        preparing = group.state is State.PREPARING_REBALANCE and group.previous_state is not State.EMPTY
        if preparing and group.has_all_members_joined():
            self._complete()
            return True
        return False

    def _complete(self) -> None:
        """Starts the new generation (`completeClassicGroupJoin`)."""
        group, now, current = self.group, self.queue.now, self.rebalance
        self.timer += 1
        for member in group.not_yet_rejoined_dynamic_members():
            current.lost += self._remove(member.member_id, "it didn't join in time")
        if group.members and not group.maybe_elect_new_joined_leader():
            self._wait_for_members(now + group.rebalance_timeout_ms())
            return
        group.init_next_generation()
        current.generation_id, current.joined_ms, current.end_ms = group.generation_id, now, now
        current.members, current.leader, current.assignor = len(group.members), group.leader_id, group.protocol_name
        if group.state is State.EMPTY:
            self.clients.trace_coordinator("state", f"Empty, generation {group.generation_id}")
            return
        self.clients.trace_coordinator(
            "state",
            f"CompletingRebalance, generation {group.generation_id}: {count(len(group.members), 'member')}, "
            f"leader {group.leader_id}, {group.protocol_name}",
        )
        group.pending_sync_members.update(group.members)
        joined = [member_id for member_id, member in group.members.items() if group.complete_join(member)]
        self.clients.joined(joined, skip_assignment=False)
        for member_id in self.clients.silent_members(group.members):
            self.watch(member_id, answered=now)
        self.clients.lead(str(group.leader_id))
        self.queue.schedule(now + group.rebalance_timeout_ms(), self._sync_timeout, group.generation_id)

    def close(self) -> None:
        """Ends the simulation."""
        if self.rebalance.generation_id:
            self.rebalances.append(self.rebalance)

    # --- SyncGroup --------------------------------------------------------------------------------------------

    def sync(self, member_id: str) -> None:
        """Handles SyncGroup of a member, which waits until the leader has sent the assignment."""
        self.group.remove_pending_sync_member(member_id)
        if self.group.state is State.STABLE:
            self.clients.synced([(member_id, self.assignment[member_id])])
        else:
            self.group.members[member_id].awaiting_sync = True

    def sync_of_leader(self, member_id: str, assignment: dict[str, list[int]]) -> None:
        """Handles SyncGroup of the leader: every member that waits gets its partitions."""
        group = self.group
        self.sync(member_id)
        self.assignment = assignment
        group.transition_to(State.STABLE)
        self.clients.trace_coordinator("state", f"Stable, generation {group.generation_id}")
        members, silent = list(group.members.values()), set(self.clients.silent_members(group.members))
        awaited = (each.member_id for each in members if each.awaiting_sync and self._answers_sync(each, silent))
        self.clients.synced((member_id, assignment[member_id]) for member_id in awaited)

    def _answers_sync(self, member: ClassicGroupMember, silent: Container[str]) -> bool:
        """Completes the SyncGroup of a member and restarts its session. Returns False if the member waits for none."""
        waited = self.group.complete_sync(member)
        if waited and member.member_id in silent:
            self.watch(member.member_id, answered=self.queue.now)
        return waited

    def _sync_timeout(self, generation: int) -> None:
        group = self.group
        if generation != group.generation_id or group.has_received_sync_from_all_members():
            return
        if group.state in (State.COMPLETING_REBALANCE, State.STABLE):
            reason = "members didn't send SyncGroup in time"
            lost = sum(self._remove(member_id, reason) for member_id in sorted(group.pending_sync_members))
            self.prepare(reason)
            self.rebalance.lost += lost

    # --- heartbeats, and members that leave -------------------------------------------------------------------

    def watch(self, member_id: str, answered: int = 0) -> None:
        """Schedules the session timeout of a silent member, one timeout after its last heartbeat or response."""
        heard = self.clients.last_heard(member_id)
        if heard is not None:
            at = max(heard, answered) + self.timing.session_timeout_ms
            self.expires[member_id] = at
            self.queue.schedule(at, self._session_timeout, member_id, at)

    def _session_timeout(self, member_id: str, at: int) -> None:
        member = self.group.members.get(member_id)
        if member is None or self.expires.get(member_id) != at:
            return
        del self.expires[member_id]
        if not (member.awaiting_join or member.awaiting_sync):  # a member that waits for a response sends no heartbeat
            heard = at - self.timing.session_timeout_ms
            self.clients.trace_coordinator("session-timeout", f"{member_id} has sent no heartbeat since {heard} ms")
            self.leave(member_id, f"session of {member_id} timed out")

    def leave(self, member_id: str, reason: str) -> None:
        """Removes a member, after LeaveGroup or a timeout; the other members rebalance
        (`removeMemberAndUpdateClassicGroup`)."""
        if member_id not in self.group.members:
            return
        lost = self._remove(member_id, reason)
        if self.group.state in (State.STABLE, State.COMPLETING_REBALANCE):
            self.prepare(reason)
        elif self.group.state is State.PREPARING_REBALANCE:
            self._add_cause(reason)
            self.complete_if_all_joined()
        self.rebalance.lost += lost

    def _remove(self, member_id: str, reason: str) -> int:
        self.group.remove(member_id)
        self.expires.pop(member_id, None)
        self.assignment.pop(member_id, None)
        self.metadata.pop(member_id, None)
        self.clients.trace_coordinator("removed", f"{member_id}: {reason}")
        return self.clients.removed(member_id)
