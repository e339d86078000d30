"""The ways in which a group may run: dynamic or static, by its own assignor or by cooperative-sticky."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spark_assign.advice.kernel.membership.params import heartbeat_of, session_of
from spark_assign.groups.kernel.client_libraries import COOPERATIVE
from spark_assign.simulation.kernel.events import Event
from spark_assign.simulation.kernel.member import AsyncMember, ClassicMember, SimulatedMember
from spark_assign.simulation.kernel.settings import Timing, is_cooperative
from spark_assign.simulation.kernel.simulated_group import InitialState

DYNAMIC, STATIC, MIXED = "dynamic", "static", "mixed"
EAGER, COOPERATES, SERVED = "eager", "cooperative", "consumer"

_ONE = (COOPERATIVE,)


@dataclass(frozen=True)
class MembershipMode:
    """`membership`: dynamic, static or mixed (some members have an instance id). `protocol`: eager, cooperative, or
    consumer (KIP-848). `own`: by the assignors that the members have now."""

    membership: str
    protocol: str
    own: bool = True


@dataclass(frozen=True)
class StableGroup:
    """A group at rest, from which all of its plays begin.

    Attributes:
        stage: as the fleet has it; its members are copied for each play.
        now: the way in which it runs.
    """

    stage: InitialState
    now: MembershipMode

    @property
    def served(self) -> bool:
        """Whether the broker assigns it (KIP-848)."""
        return self.stage.is_consumer_protocol

    @property
    def timing(self) -> Timing:
        """What it is set to."""
        return self.stage.timing

    @property
    def heartbeat_ms(self) -> int:
        """From one heartbeat of a member to its next."""
        return heartbeat_of(self.timing, served=self.served)

    @property
    def session_ms(self) -> int:
        """Its session timeout now."""
        return session_of(self.timing, served=self.served)

    def ways(self) -> list[MembershipMode]:
        """All ways to run it, today's first."""
        found = [self.now]
        for own in (True, False):
            protocol = self.now.protocol if own else COOPERATES
            if own or self.now.protocol == EAGER:
                found += [MembershipMode(membership, protocol, own) for membership in (DYNAMIC, STATIC)]
        return list(dict.fromkeys(found))

    def members(self) -> list[SimulatedMember]:
        """By id, as a rolling restart takes them."""
        return sorted(self.stage.members, key=lambda each: each.name)

    def on(self, way: MembershipMode, session_ms: int) -> InitialState:
        """The group as it begins a play: another way, another session timeout."""
        timing = replace(self.timing, session_timeout_ms=session_ms)
        if self.served:
            timing = replace(self.timing, group_consumer_session_timeout_ms=session_ms)
        stage = replace(self.stage, timing=timing)
        stage.members = [_copy(each, way) for each in self.stage.members]
        if not way.own:
            stage.assignors = _ONE
        return stage


@dataclass(frozen=True)
class GroupSimulationInput:
    """One play of a group: `plays.Show` asks it for its stage."""

    opened: InitialState
    events: Sequence[Event]

    def initial_state(self, protocol: str, defaults: Timing) -> tuple[InitialState, list[Event]]:
        """What is played."""
        return self.opened, list(self.events)


def opened(stage: InitialState) -> StableGroup:
    """A group at rest."""
    static = sum(each.group_instance_id is not None for each in stage.members)
    membership = DYNAMIC if not static else STATIC if static == len(stage.members) else MIXED
    cooperates = all(is_cooperative(each.assignors) for each in stage.members)
    return StableGroup(
        stage, MembershipMode(membership, SERVED if stage.is_consumer_protocol else COOPERATES if cooperates else EAGER)
    )


def _copy(member: SimulatedMember, way: MembershipMode) -> SimulatedMember:
    """The member before the play; a static one without an instance id gets its own name for it."""
    of_kind = AsyncMember if isinstance(member, AsyncMember) else ClassicMember
    instance = member.group_instance_id
    if way.membership != MIXED:
        instance = (instance or member.name) if way.membership == STATIC else None
    likes = member.assignors if way.own else _ONE
    made = of_kind(member.name, instance, member.rack_id, member.topics, likes, member.name)
    made.owned = list(member.owned)
    return made
