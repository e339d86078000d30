"""One group played through time, from its stage on."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass, field, replace

from spark_assign.kernels.protocol.consumers import Consumers
from spark_assign.kernels.protocol.events import Event
from spark_assign.kernels.protocol.happenings import Happenings
from spark_assign.kernels.protocol.leader_asks import Answer, Ask, Joined, Topics
from spark_assign.kernels.protocol.member import STABLE, Member
from spark_assign.kernels.protocol.settings import Timing

MOST_ROUNDS = 1_000
"""A group that rebalances so often after something has happened to it will not come to rest."""


class KafkaFails(Exception):
    """The leader's assignor throws; the message is Kafka's."""


class Endless(Exception):
    """The group does not come to rest."""


@dataclass(slots=True)
class Stage:
    """What a play begins with.

    Attributes:
        members: those that are there at the beginning, as the coordinator lists them, with what they own.
        topics: all topics that the group may ever ask for.
        partitions: of those that there are, how many partitions.
        generation_id: of the group.
        timing: what the group is set to.
        strategies: of members that come later, unless their event tells.
        all_static: whether members that come later are static, each under its own id.
        revoke_ms, restore_ms: of partitions for which it is not as in `timing`, by code.
    """

    members: list[Member]
    topics: Topics
    partitions: dict[int, int]
    generation_id: int
    timing: Timing
    strategies: tuple[str, ...]
    all_static: bool = False
    revoke_ms: dict[int, int] = field(default_factory=dict)
    restore_ms: dict[int, int] = field(default_factory=dict)


class Play:
    """A group and what happens to it. `end_ms`: a heartbeat after it has come to rest, or when the play was
    broken off.

    Args:
        stage: the beginning.
        events: in order (`events.in_order`).
        traced: whether to write the trace.
        owners: whether to write down who had each partition and when.
    """

    def __init__(self, stage: Stage, events: Iterable[Event], *, traced: bool, owners: bool) -> None:
        self.stage = stage
        self.group = Consumers(
            stage.topics, dict(stage.partitions), stage.timing, stage.revoke_ms, stage.restore_ms, traced, owners
        )
        self.happenings = Happenings(self.group, stage.strategies, all_static=stage.all_static)
        self._opening()
        listed = list(events)
        self.end_ms = 0
        self.last_event_ms = max((each.at_ms for each in listed), default=0)
        self.happenings.plan(listed)

    def _opening(self) -> None:
        """The members that own something are a stable group; where nobody does, all of them start now."""
        group, present = self.group, self.stage.members
        stable = any(each.owned for each in present)
        for member in present:
            group.members[member.name] = member
            group.cluster.want(member.topics)
            if not stable:
                group.clock.at(0, group.start, member, member.member_id)
        if not stable:
            return
        group.coordinator.restore(
            [(self._settled(each), each.strategies, each.owned) for each in present], self.stage.generation_id
        )
        used = str(group.coordinator.group.protocol_name)
        for member in present:
            group.ledger.give(member.owned, member, 0)
            member.remembered_generation[used] = self.stage.generation_id
            if used == "sticky":
                member.remembered = member.owned
        leader = group.by_id[str(group.coordinator.group.leader_id)]
        leader.snapshot = group.leaders_view(leader)

    def _settled(self, member: Member) -> Joined:
        group = self.group
        group.knows(member)
        member.state, member.lives, member.ids = STABLE, 1, 1
        member.generation_id = self.stage.generation_id
        member.metadata = group.cluster.look(member.topics)
        return group.subscription(member)

    def run(self, until: int | None) -> Generator[Ask, Answer, None]:
        """Let everything happen; yields what leaders have to decide, and is sent the answers.

        Raises:
            BadEvent: an event cannot happen.
            KafkaFails, Endless: see there.
        """
        group, coordinator = self.group, self.group.coordinator
        while group.clock.step(until):
            while group.leading is not None:
                leader, group.leading = group.leading, None
                if coordinator.group.generation_id - self.happenings.generation_id > MOST_ROUNDS:
                    why = "does giving up partitions take longer than the rebalance timeout?"
                    raise Endless(f"the group is still rebalancing {MOST_ROUNDS} rounds after the last event; {why}")
                ask = self._ask(leader)
                answer = yield ask
                if answer.error is not None:
                    raise KafkaFails(f"{ask.assignor}: {answer.error}")
                group.decided(leader, ask, answer)
        coordinator.close()
        rounds = coordinator.rounds
        at_rest = max(self.last_event_ms, group.ledger.settled(), rounds[-1].end_ms if rounds else 0)
        self.end_ms = at_rest + self.stage.timing.heartbeat_interval_ms if until is None else until
        group.ledger.close(self.end_ms)

    def _ask(self, leader: Member) -> Ask:
        """What the leader has to decide."""
        group, coordinator = self.group, self.group.coordinator
        members = [coordinator.metadata[each.member_id] for each in coordinator.group.all_members()]
        leader.snapshot = group.leaders_view(leader)
        assignor = str(coordinator.group.protocol_name)
        if assignor == "sticky":
            members = [_with_user_data(each, group.user_data[each.member_id]) for each in members]
        return Ask(assignor, members, self.stage.topics, leader.snapshot)


def _with_user_data(joined: Joined, told: tuple[list[int] | None, int | None]) -> Joined:
    """`StickyAssignor` looks at what the user data say, which its members remember even if they gave it up."""
    remembered, generation = told
    return replace(joined, owned=remembered or (), user_data_generation_id=generation)
