"""The coordinator of a classic group (Kafka's `GroupMetadataManager`): what strings `ClassicGroup`'s calls together.

A member that joins waits. The group is then PREPARING_REBALANCE until all members wait, or the rebalance timeout is
over: dynamic members that do not wait are dropped, static ones stay. There is a leader, a new generation; everybody is
answered and sends SyncGroup, the leader's with the assignment (COMPLETING_REBALANCE); all get their share (STABLE).
An empty group waits first for others to join (`group.initial.rebalance.delay.ms`), again and again while they do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from spark_assign.simulation.kernel.assignment_request import JoinedMember
from spark_assign.simulation.kernel.classic_group import ClassicGroup
from spark_assign.simulation.kernel.classic_group_member import ClassicGroupMember, State
from spark_assign.simulation.kernel.events import EventQueue
from spark_assign.simulation.kernel.settings import Timing
from spark_assign.simulation.kernel.simulated_group import RebalanceRow

CONSUMER = "consumer"
INCONSISTENT, UNKNOWN_MEMBER = "INCONSISTENT_GROUP_PROTOCOL", "UNKNOWN_MEMBER_ID"


class Clients(Protocol):
    """Whom the coordinator tells: the members, and whoever writes the trace."""

    def says(self, message: str, detail: str) -> None:
        """The coordinator does something by itself."""

    def rebalance_in_progress(self, member_id: str, *, at_once: bool) -> None:
        """What the member's next heartbeat will be answered; `at_once`: and its SyncGroup is now."""

    def removed(self, member_id: str) -> int:
        """The coordinator has struck the member off; if it lives, its next heartbeat tells it.

        Returns:
            how many partitions it had not given up.
        """

    def joined(self, member_id: str, *, skip_assignment: bool) -> None:
        """The answer to JoinGroup."""

    def lead(self, member_id: str) -> None:
        """The leader has its answer, with all members; it is to send the assignment."""

    def synced(self, member_id: str, assigned: list[int]) -> None:
        """The answer to SyncGroup."""

    def refused(self, member_id: str) -> None:
        """JoinGroup is answered with INCONSISTENT_GROUP_PROTOCOL."""

    def last_heard(self, member_id: str) -> int | None:
        """When a member that is silent now was heard of last; null: it is not silent."""


@dataclass(slots=True)
class Coordinator:
    """One group's coordinator.

    Attributes:
        metadata: what each member has told in its last JoinGroup.
        assignment: what each member was given in its last SyncGroup.
        round: the rebalance that goes on, or the last one.
        rounds: those before.
    """

    group: ClassicGroup
    clock: EventQueue
    timing: Timing
    clients: Clients
    metadata: dict[str, JoinedMember] = field(default_factory=dict)
    assignment: dict[str, list[int]] = field(default_factory=dict)
    round: RebalanceRow = field(default_factory=RebalanceRow)
    rounds: list[RebalanceRow] = field(default_factory=list)
    expires: dict[str, int] = field(default_factory=dict)
    timer: int = 0

    # --- JoinGroup --------------------------------------------------------------------------------------------

    def join(self, joined: JoinedMember, strategies: tuple[str, ...], why: str) -> None:
        """A member joins, for the first time or again."""
        group, member_id, instance = self.group, joined.member_id, joined.group_instance_id
        if not group.supports_protocols(CONSUMER, strategies):
            self.clients.refused(member_id)
        elif member_id in group.members:
            self._rejoin(joined, strategies, why)
        elif instance is not None and instance in group.static_members:
            self._replace(group.static_members[instance], joined, strategies, why)
        else:
            self._add(joined, strategies, awaiting_join=True)
            if group.state is State.PREPARING_REBALANCE and group.previous_state is State.EMPTY:
                group.new_member_added = True
            self._prepare_or_complete(why)

    def restore(self, members: Iterable[tuple[JoinedMember, tuple[str, ...], list[int]]], generation_id: int) -> None:
        """A stable group, as if these members had joined and synced in this generation.

        Args:
            members: what each has told, its strategies, and what it was assigned.

        Raises:
            IllegalArgument: the members have no strategy in common.
        """
        group = self.group
        for joined, strategies, assigned in members:
            self._add(joined, strategies, awaiting_join=False)
            self.assignment[joined.member_id] = assigned
        group.transition_to(State.PREPARING_REBALANCE)
        group.generation_id = generation_id - 1
        group.init_next_generation()
        group.transition_to(State.STABLE)

    def _add(self, joined: JoinedMember, strategies: tuple[str, ...], *, awaiting_join: bool) -> None:
        member = ClassicGroupMember(
            joined.member_id,
            protocols=strategies,
            group_instance_id=joined.group_instance_id,
            rebalance_timeout_ms=self.timing.rebalance_timeout_ms,
            session_timeout_ms=self.timing.session_timeout_ms,
            hash_code=joined.hash,
        )
        self.group.add(member, awaiting_join=awaiting_join)
        self.metadata[joined.member_id] = joined

    def _rejoin(self, joined: JoinedMember, strategies: tuple[str, ...], why: str) -> None:
        group, member_id = self.group, joined.member_id
        leads = group.state is State.STABLE and group.leader_id == member_id
        same = self.metadata[member_id] == joined and group.members[member_id].protocols == strategies
        if group.state is State.PREPARING_REBALANCE:
            self._update(joined, strategies)
            self._complete_if_all_joined()
        elif leads or not same:
            self._update(joined, strategies)
            self.prepare(why)
        else:  # it has missed the answer, and has nothing new to tell
            self.clients.joined(member_id, skip_assignment=False)
            self.sync(member_id)

    def _replace(self, old_id: str, joined: JoinedMember, strategies: tuple[str, ...], why: str) -> None:
        """A static member is back under a new id (KIP-345; what a leader is told: KIP-814)."""
        group, member_id = self.group, joined.member_id
        group.replace_static_member(str(joined.group_instance_id), old_id, member_id)
        self.assignment[member_id] = self.assignment.pop(old_id, [])
        self.metadata.pop(old_id, None)
        self.expires.pop(old_id, None)
        self._update(joined, strategies)
        if group.state is State.STABLE and group.protocol_name == group.select_protocol():
            group.complete_join(group.members[member_id])
            self.clients.joined(member_id, skip_assignment=group.leader_id == member_id)
            self.sync(member_id)
        else:
            self._prepare_or_complete(why)

    def _update(self, joined: JoinedMember, strategies: tuple[str, ...]) -> None:
        self.metadata[joined.member_id] = joined
        self.group.update(
            self.group.members[joined.member_id],
            protocols=strategies,
            topics=(),
            rebalance_timeout_ms=self.timing.rebalance_timeout_ms,
            session_timeout_ms=self.timing.session_timeout_ms,
            awaiting_join=True,
        )

    # --- rebalances -------------------------------------------------------------------------------------------

    def _prepare_or_complete(self, why: str) -> None:
        if self.group.can_rebalance():
            self.prepare(why)
        else:
            self._also(why)
            self._complete_if_all_joined()

    def _also(self, why: str) -> None:
        """One more reason for the rebalance that has begun."""
        if why not in self.round.causes:
            self.round.causes.append(why)

    def prepare(self, why: str) -> None:
        """Begin a rebalance."""
        group, now = self.group, self.clock.now
        first = group.state is State.EMPTY
        self._next_round(why)
        group.transition_to(State.PREPARING_REBALANCE)
        self.clients.says("state", f"PreparingRebalance: {why}")
        for member in group.not_yet_rejoined_members():
            self.clients.rebalance_in_progress(member.member_id, at_once=self._answers_sync(member))
        timeout = group.rebalance_timeout_ms()
        if first:
            delay = self.timing.group_initial_rebalance_delay_ms  # even if no member would wait so long
            self._wait_for_more(delay, max(timeout - delay, 0))
        elif not self._complete_if_all_joined():
            self._wait_for_members(now + timeout)

    def _next_round(self, why: str) -> None:
        """The last round is closed; what its members lost or gave up since it ended counts for the next."""
        now = self.clock.now
        if self.round.generation_id:
            self.rounds.append(self.round)
            self.round = RebalanceRow()
        self.round.begin_ms, self.round.causes = now, [why]

    def _wait_for_more(self, delay: int, remaining: int) -> None:
        self.clock.at(self.clock.now + delay, self._initial_delay_over, delay, remaining)

    def _initial_delay_over(self, delay: int, remaining: int) -> None:
        if self.group.new_member_added and remaining:
            self.group.new_member_added = False
            again = min(self.timing.group_initial_rebalance_delay_ms, remaining)
            self._wait_for_more(again, max(remaining - delay, 0))
        else:
            self._complete()

    def _wait_for_members(self, until: int) -> None:
        self.timer += 1
        self.clock.at(until, self._rebalance_timeout, self.timer)

    def _rebalance_timeout(self, timer: int) -> None:
        if timer == self.timer:
            self.clients.says("rebalance-timeout", "not all members have joined")
            self._complete()

    def _complete_if_all_joined(self) -> bool:
        group = self.group
        preparing = group.state is State.PREPARING_REBALANCE and group.previous_state is not State.EMPTY
        if preparing and group.has_all_members_joined():
            self._complete()
            return True
        return False

    def _complete(self) -> None:
        """The new generation (`completeClassicGroupJoin`)."""
        group, now, current = self.group, self.clock.now, self.round
        self.timer += 1
        for member in group.not_yet_rejoined_dynamic_members():
            current.lost += self._remove(member.member_id, "it has not joined in time")
        if group.members and not group.maybe_elect_new_joined_leader():
            self._wait_for_members(now + group.rebalance_timeout_ms())
            return
        group.init_next_generation()
        current.generation_id, current.joined_ms, current.end_ms = group.generation_id, now, now
        current.members, current.leader, current.assignor = len(group.members), group.leader_id, group.protocol_name
        if group.state is State.EMPTY:
            self.clients.says("state", f"Empty, generation {group.generation_id}")
            return
        self.clients.says(
            "state",
            f"CompletingRebalance, generation {group.generation_id}: {len(group.members)} members, "
            f"leader {group.leader_id}, {group.protocol_name}",
        )
        for member in list(group.members.values()):
            group.add_pending_sync_member(member.member_id)
            if group.complete_join(member):
                self.clients.joined(member.member_id, skip_assignment=False)
            self.watch(member.member_id, answered=now)
        self.clients.lead(str(group.leader_id))
        self.clock.at(now + group.rebalance_timeout_ms(), self._sync_timeout, group.generation_id)

    def close(self) -> None:
        """The play is over."""
        if self.round.generation_id:
            self.rounds.append(self.round)

    # --- SyncGroup --------------------------------------------------------------------------------------------

    def sync(self, member_id: str) -> None:
        """A member asks for its share; it waits until the leader has sent it."""
        self.group.remove_pending_sync_member(member_id)
        if self.group.state is State.STABLE:
            self.clients.synced(member_id, self.assignment[member_id])
        else:
            self.group.members[member_id].awaiting_sync = True

    def sync_of_leader(self, member_id: str, assignment: Mapping[str, list[int]]) -> None:
        """The leader has decided: everybody who has asked gets its share."""
        group = self.group
        self.sync(member_id)
        self.assignment = dict(assignment)
        group.transition_to(State.STABLE)
        self.clients.says("state", f"Stable, generation {group.generation_id}")
        for member in list(group.members.values()):
            if self._answers_sync(member):
                self.clients.synced(member.member_id, self.assignment[member.member_id])

    def _answers_sync(self, member: ClassicGroupMember) -> bool:
        """Who has waited for its share is to be heard again from now on; false: it has not asked."""
        if not self.group.complete_sync(member):
            return False
        self.watch(member.member_id, answered=self.clock.now)
        return True

    def _sync_timeout(self, generation: int) -> None:
        group = self.group
        if generation != group.generation_id or group.has_received_sync_from_all_members():
            return
        if group.state in (State.COMPLETING_REBALANCE, State.STABLE):
            why = "members did not ask for their assignment in time"
            lost = sum(self._remove(member_id, why) for member_id in sorted(group.pending_sync_members))
            self.prepare(why)
            self.round.lost += lost

    # --- heartbeats, and who goes -----------------------------------------------------------------------------

    def watch(self, member_id: str, answered: int = 0) -> None:
        """If the member is silent, it is out one session timeout after it was heard of or answered last."""
        heard = self.clients.last_heard(member_id)
        if heard is not None:
            at = max(heard, answered) + self.timing.session_timeout_ms
            self.expires[member_id] = at
            self.clock.at(at, self._session_timeout, member_id, at)

    def _session_timeout(self, member_id: str, at: int) -> None:
        member = self.group.members.get(member_id)
        if member is None or self.expires.get(member_id) != at:
            return
        del self.expires[member_id]
        if not (member.awaiting_join or member.awaiting_sync):  # who waits for an answer need not be heard
            heard = at - self.timing.session_timeout_ms
            self.clients.says("session-timeout", f"{member_id} was not heard of since {heard} ms")
            self.leave(member_id, f"session of {member_id} timed out")

    def leave(self, member_id: str, why: str) -> None:
        """A member is out, by LeaveGroup or without; the others rebalance (`removeMemberAndUpdateClassicGroup`)."""
        if member_id not in self.group.members:
            return
        lost = self._remove(member_id, why)
        if self.group.state in (State.STABLE, State.COMPLETING_REBALANCE):
            self.prepare(why)
        elif self.group.state is State.PREPARING_REBALANCE:
            self._also(why)
            self._complete_if_all_joined()
        self.round.lost += lost

    def _remove(self, member_id: str, why: str) -> int:
        self.group.remove(member_id)
        self.expires.pop(member_id, None)
        self.assignment.pop(member_id, None)
        self.metadata.pop(member_id, None)
        self.clients.says("removed", f"{member_id}: {why}")
        return self.clients.removed(member_id)
