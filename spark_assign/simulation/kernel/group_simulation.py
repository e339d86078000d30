"""One group played through time, from its stage on."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

from spark_assign.simulation.kernel.event_handlers import EventHandlers
from spark_assign.simulation.kernel.events import Event
from spark_assign.simulation.kernel.initial_state import InitialState
from spark_assign.simulation.kernel.simulated_classic_group import SimulatedClassicGroup
from spark_assign.simulation.kernel.simulated_consumer_group import SimulatedConsumerGroup
from spark_assign.simulation.kernel.simulated_group import SimulatedGroup


class GroupSimulation:
    """A group and what happens to it. `end_ms`: a heartbeat after it has come to rest, or when the play was
    broken off.

    Args:
        stage: the beginning.
        events: in order (`events.in_order`).
        traced: whether to write the trace.
        owners: whether to write down who had each partition and when.
    """

    def __init__(self, stage: InitialState, events: Iterable[Event], *, traced: bool, owners: bool) -> None:
        self.stage = stage
        of_kind: type[SimulatedGroup[Any]] = SimulatedConsumerGroup if stage.heartbeats else SimulatedClassicGroup
        self.group = of_kind(stage, traced=traced, owners=owners)
        self.event_handlers = EventHandlers(self.group, stage.strategies, all_static=stage.all_static)
        self._opening()
        listed = list(events)
        self.end_ms = 0
        self.last_event_ms = max((each.at_ms for each in listed), default=0)
        self.event_handlers.plan(listed)

    def _opening(self) -> None:
        """The members that own something are a stable group; where nobody does, all of them start now."""
        group, present = self.group, self.stage.members
        stable = any(each.owned for each in present)
        for member in present:
            group.members[member.name] = member
            group.cluster.want(member.topics)
            if not stable:
                group.clock.at(0, group.start, member, member.member_id)
        if stable:
            group.settle(present, self.stage.generation_id)

    def run(self, until: int | None) -> Generator[Any, Any, None]:
        """Let everything happen; yields what has to be assigned, and is sent the answers.

        Raises:
            BadEvent: an event cannot happen.
            KafkaFails, Endless: see `cast`.
        """
        group = self.group
        while group.clock.step(until):
            yield from group.serve()
        group.close()
        rounds = group.rounds
        at_rest = max(self.last_event_ms, group.ledger.settled(), rounds[-1].end_ms if rounds else 0)
        self.end_ms = at_rest + group.heartbeat_interval_ms if until is None else until
        group.ledger.close(self.end_ms)
