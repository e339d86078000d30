"""The members' side of the protocol (Kafka's `ConsumerCoordinator`, `AbstractCoordinator`), for all members of a group.

Messages take no time. What does: the wait for a member's next heartbeat, by which it hears of a rebalance; giving up
partitions; waiting for members that are silent or do not poll; restoring.

A member that hears of a rebalance
    - eager: gives up all it owns, then joins; in the end it is assigned everything anew;
    - cooperative: joins at once and goes on consuming. If its new assignment lacks something, it gives that up and
      joins again at once, so that a second round can hand it over (KIP-429).
"""

from __future__ import annotations

from collections.abc import Sequence

from spark_assign.simulation.kernel.assignment_request import AssignmentRequest, AssignmentResponse, JoinedMember
from spark_assign.simulation.kernel.classic_group import ClassicGroup
from spark_assign.simulation.kernel.classic_group_member import State
from spark_assign.simulation.kernel.coordinator import INCONSISTENT, UNKNOWN_MEMBER, Coordinator
from spark_assign.simulation.kernel.member import JOINING, NO_GENERATION, OFF, REVOKING, STABLE, ClassicMember
from spark_assign.simulation.kernel.ownership_log import UNOWNED
from spark_assign.simulation.kernel.simulated_group import COORDINATOR, InitialState, SimulatedGroup

ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS = "ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS"
CHANGED = "its subscription changed"
OTHER_PARTITIONS = "it saw other partitions than it had assigned"


class Consumers(SimulatedGroup[ClassicMember]):
    """The members of a classic group, and their coordinator; `classic_cast` has what a play asks of them.

    Attributes:
        leading: a leader that has an assignment to find now.
        user_data: what each member's sticky assignor told when it joined: partitions and generation.
    """

    def __init__(self, stage: InitialState, *, traced: bool, owners: bool) -> None:
        super().__init__(stage, traced=traced, owners=owners)
        self.coordinator = Coordinator(ClassicGroup("the group"), self.clock, stage.timing, self)
        self.user_data: dict[str, tuple[list[int] | None, int | None]] = {}
        self.leading: ClassicMember | None = None

    @property
    def number(self) -> int:
        """See `SimulatedGroup`."""
        return self.coordinator.group.generation_id

    @property
    def heartbeat_interval_ms(self) -> int:
        """See `SimulatedGroup`."""
        return self.timing.heartbeat_interval_ms

    # --- joining ----------------------------------------------------------------------------------------------

    def start(self, member: ClassicMember, member_id: str | None) -> None:
        """A new process: it looks for the coordinator and joins."""
        member.start(self.clock.now)
        self.cluster.want(member.topics)
        member.metadata = self.cluster.look(member.topics)
        self.named(member, member_id)
        self.say(member.member_id, "FindCoordinator", COORDINATOR)
        self._rejoin(member, "joined")

    def _rejoin(self, member: ClassicMember, why: str) -> None:
        """Join without a member id, and be given one."""
        if member.group_instance_id is None:
            self.say(member.member_id, "JoinGroup", COORDINATOR, "without a member id")
            self.say(COORDINATOR, "JoinGroup response", member.member_id, "MEMBER_ID_REQUIRED")
        self._join(member, f"member {member.member_id} {why}")

    def _join(self, member: ClassicMember, why: str) -> None:
        member.epoch += 1
        member.state = JOINING
        subscription = self.subscription(member)
        if self.trace is not None:
            owned = self.text(subscription.owned)
            detail = f"strategies {', '.join(member.strategies)}; generation {member.generation_id}"
            self.say(member.member_id, "JoinGroup", COORDINATOR, detail + (f"; owned {owned}" if owned else ""))
        self.coordinator.join(subscription, member.strategies, why)

    def subscription(self, member: ClassicMember) -> JoinedMember:
        """What the member tells when it joins (`ConsumerCoordinator.metadata`)."""
        member_id, generation = str(member.member_id), member.generation_id
        told = member.remembered_generation
        member.told = member.topics
        self.user_data[member_id] = (member.remembered, told.get("sticky"))
        return JoinedMember(
            member_id,
            member.group_instance_id,
            member.rack_id,
            member.hash,
            member.topics,
            member.owned,
            generation,
            told.get("cooperative-sticky") if generation == NO_GENERATION else None,
        )

    # --- hearing of a rebalance -------------------------------------------------------------------------------

    def rebalance_in_progress(self, member_id: str, *, at_once: bool) -> None:
        """See `coordinator.Clients`. A leader that has not decided yet finds out when it sends its assignment."""
        member = self.by_id[member_id]
        if member.member_id == member_id and member.state == (JOINING if at_once else STABLE):
            self.will_hear(member, at_once=at_once)

    def will_hear(self, member: ClassicMember, *, at_once: bool = False) -> None:
        """The member's next heartbeat will tell it that something has happened; `at_once`: its SyncGroup does now."""
        now = self.clock.now
        beat = now if at_once else member.next_beat(now, self.timing.heartbeat_interval_ms)
        self.clock.at(beat, self._hears, member, member.epoch, "SyncGroup" if at_once else "Heartbeat")

    def _hears(self, member: ClassicMember, epoch: int, request: str) -> None:
        """The answer to a heartbeat or a SyncGroup that is no plain yes."""
        if epoch != member.epoch:
            return
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
            self.say(member_id, request, COORDINATOR)
        self.say(COORDINATOR, f"{request} response", member_id, error)
        self.rejoin(member, error)

    def rejoin(self, member: ClassicMember, why: str) -> None:
        """Prepare to join again as soon as the member polls."""
        member.epoch += 1
        member.state = REVOKING
        polls = member.next_poll(self.clock.now, self.timing.poll_interval_ms)
        self.when_it_polls(polls, member, self.prepare_to_join, why)

    def prepare_to_join(self, member: ClassicMember, why: str) -> None:
        """Give up what has to be given up before joining (`onJoinPrepare`)."""
        if member.member_id not in self.coordinator.group.members:
            why = UNKNOWN_MEMBER
        given_up: Sequence[int] = ()
        if why in (UNKNOWN_MEMBER, ILLEGAL_GENERATION):
            member.generation_id = NO_GENERATION
            self.coordinator.round.lost += self.loses(member)
        elif member.cooperative:
            given_up = [each for each in member.owned if each >> 32 not in member.topics]
        else:
            given_up = member.owned
        self.later(self.give_up(member, given_up), self._joins, member, member.epoch, given_up, why)

    def _joins(self, member: ClassicMember, epoch: int, given_up: Sequence[int], why: str) -> None:
        if epoch != member.epoch:
            return
        revoked = self.has_given_up(member, given_up)
        if why == UNKNOWN_MEMBER or member.member_id not in self.coordinator.group.members:
            self.named(member, None)
            self._rejoin(member, "came back")
        else:
            self._join(member, f"{member.member_id} rejoined: {why}")
        self.coordinator.round.revoked += revoked

    # --- answers ----------------------------------------------------------------------------------------------

    def joined(self, member_id: str, *, skip_assignment: bool) -> None:
        """See `coordinator.Clients`."""
        member, group = self.by_id[member_id], self.coordinator.group
        if member.member_id != member_id or member.state != JOINING:
            return  # nobody listens
        leads = group.leader_id == member_id
        member.generation_id, member.beats_from = group.generation_id, self.clock.now
        member.snapshot = self.leaders_view(member) if skip_assignment else None
        if self.trace is not None:
            role = f"leads {len(group.members)} members" if leads else f"leader {group.leader_id}"
            told = f"generation {group.generation_id}; {group.protocol_name}; {role}"
            skipped = "; skip assignment" if skip_assignment else ""
            self.say(COORDINATOR, "JoinGroup response", member_id, told + skipped)
        if not leads or skip_assignment:
            self.say(member_id, "SyncGroup", COORDINATOR)
            if group.state is State.COMPLETING_REBALANCE:
                self.coordinator.sync(member_id)

    def lead(self, member_id: str) -> None:
        """See `coordinator.Clients`. A leader that is gone by now decides nothing."""
        member = self.by_id[member_id]
        if member.member_id == member_id and member.state == JOINING:
            self.when_it_polls(self.clock.now, member, self._leads)

    def _leads(self, member: ClassicMember) -> None:
        group = self.coordinator.group
        if group.state is State.COMPLETING_REBALANCE and group.generation_id == member.generation_id:
            self.leading = member
        else:  # the group has gone on without it
            self.say(member.member_id, "SyncGroup", COORDINATOR, "with the assignment")
            self._hears(member, member.epoch, "SyncGroup")

    def decided(self, leader: ClassicMember, ask: AssignmentRequest, answer: AssignmentResponse) -> None:
        """The leader sends the assignment."""
        assignment = {each.member_id: given for each, given in zip(ask.members, answer.assigned, strict=True)}
        if self.trace is not None:
            total = sum(map(len, answer.assigned))
            self.say(
                leader.member_id, "assign", None, f"{ask.assignor}: {total} partitions to {len(ask.members)} members"
            )
            self.say(leader.member_id, "SyncGroup", COORDINATOR, "with the assignment")
        self.coordinator.sync_of_leader(str(leader.member_id), assignment)

    def synced(self, member_id: str, assigned: list[int]) -> None:
        """See `coordinator.Clients`."""
        member = self.by_id[member_id]
        if member.member_id != member_id or member.state != JOINING:
            return
        if self.trace is not None:
            told = self.text(assigned)
            self.say(COORDINATOR, "SyncGroup response", member_id, told or "nothing")
        member.state = REVOKING
        self.when_it_polls(self.clock.now, member, self._gets, assigned)

    def refused(self, member_id: str) -> None:
        """See `coordinator.Clients`. The consumer's poll throws; what it owned it has lost before."""
        member = self.by_id[member_id]
        self.say(COORDINATOR, "JoinGroup response", member_id, INCONSISTENT)
        member.epoch += 1
        member.state = OFF

    # --- a new assignment (`onJoinComplete`) ------------------------------------------------------------------

    def _gets(self, member: ClassicMember, assigned: list[int]) -> None:
        """A cooperative member first gives up what it is not assigned any more; what does not fit nobody takes."""
        if not member.topics.issuperset({each >> 32 for each in assigned}):
            self.rejoin(member, CHANGED)
            return
        given_up: Sequence[int] = ()
        if member.cooperative and assigned != member.owned:
            given_up = sorted(set(member.owned).difference(assigned))
        self.later(self.give_up(member, given_up), self._assigned, member, member.epoch, assigned, given_up)

    def _assigned(self, member: ClassicMember, epoch: int, assigned: list[int], given_up: Sequence[int]) -> None:
        if epoch != member.epoch:
            return
        member.state = STABLE
        coordinator, now = self.coordinator, self.clock.now
        group, current = coordinator.group, coordinator.round
        if member.member_id not in group.members:  # it was struck off in the meantime
            self.will_hear(member)
            return
        current.revoked += self.has_given_up(member, given_up)
        if assigned != member.owned:
            had = set(member.owned)
            added = [each for each in assigned if each not in had]
            current.assigned += len(added)
            current.moved += self.ledger.give(added, member, now)
            member.owned = assigned
            self.tell(member, "assigned", added)
        if group.protocol_name == "sticky":
            member.remembered = assigned
        member.remembered_generation[str(group.protocol_name)] = member.generation_id
        current.end_ms = max(current.end_ms, now)
        if given_up:
            self.clock.at(now, self._rejoins, member, epoch, "it gave up partitions")
        elif member.topics != member.told:
            self.clock.at(now, self._rejoins, member, epoch, CHANGED)
        elif _out_of_date(group, member):
            self.will_hear(member)

    def _rejoins(self, member: ClassicMember, epoch: int, why: str) -> None:
        if epoch == member.epoch:
            self.rejoin(member, why)

    # --- topics -----------------------------------------------------------------------------------------------

    def asked_for(self) -> frozenset[int]:
        """The topics of all members."""
        return frozenset[int]().union(*{each.topics for each in self.coordinator.metadata.values()})

    def leaders_view(self, member: ClassicMember) -> dict[int, int]:
        """A leader looks at the topics of all members; new ones it asks the brokers for (`onLeaderElected`)."""
        member.metadata = self.cluster.look(self.asked_for()) | member.metadata
        return dict(member.metadata)

    def looks_at_topics(self, member: ClassicMember) -> None:
        """A member renews its metadata; a leader that sees other partitions than it assigned wants to rebalance."""
        watched = member.topics if member.snapshot is None else member.topics | self.asked_for()
        member.metadata = self.cluster.look(watched)
        if member.snapshot is not None and member.snapshot != member.metadata and member.state == STABLE:
            self.say(member.member_id, "metadata", None, "partitions have changed since the assignment")
            self.rejoin(member, OTHER_PARTITIONS)

    # --- giving up --------------------------------------------------------------------------------------------

    def removed(self, member_id: str) -> int:
        """See `coordinator.Clients`."""
        member = self.by_id[member_id]
        if member.member_id != member_id:
            return 0
        if member.state in (STABLE, JOINING):
            self.will_hear(member)
        return self.ledger.pause(member.owned, member, UNOWNED, self.clock.now)

    def last_heard(self, member_id: str) -> int | None:
        """See `coordinator.Clients`."""
        member = self.by_id[member_id]
        return member.silent_since if member.member_id == member_id else self.clock.now


def _out_of_date(group: ClassicGroup, member: ClassicMember) -> bool:
    """Whether the group has gone on while the member was busy with its assignment."""
    return group.state is State.PREPARING_REBALANCE or group.generation_id != member.generation_id
