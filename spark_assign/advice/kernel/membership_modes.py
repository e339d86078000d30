"""What is asked of membership: the grid, and what a recommendation has to be worth.

The ways in which a group may run: dynamic or static, by its own assignor or by cooperative-sticky.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spark_assign.groups.kernel.client_libraries import COOPERATIVE
from spark_assign.simulation.kernel.events import Event
from spark_assign.simulation.kernel.member import AsyncMember, ClassicMember, SimulatedMember
from spark_assign.simulation.kernel.settings import Timing, is_cooperative
from spark_assign.simulation.kernel.simulated_group import InitialState

PAUSE_MS = 10_000
"""So long after one member is up the next one closes, as in `protocol.events`."""

MOST_RESTARTS = 16
"""Of a larger group so many restarts are played, and the pause is scaled to all of its members."""


@dataclass(frozen=True)
class MembershipParams:
    """What is asked, in milliseconds.

    Attributes:
        timing: what groups are set to where nothing else is said.
        restart_ms: how long a member is away when it is restarted.
        sessions_ms: session timeouts of the table `options`; what a group has now is always among them.
        restarts_ms: restart times of that table; `restart_ms` is always among them.
        crashes_per_deploy: how many members crash for each rolling restart.
        least_gain: partition-seconds per deploy that a change has to save at least.
        least_share: the part of today's pause that it has to save at least.
        least_session_ms: no session below this is recommended, unless the group has it already.
        margin: a static member's session is so many times the restart time at least.
        session_bounds_ms: `group.min.session.timeout.ms` and `group.max.session.timeout.ms` of the broker.
        consumer_session_bounds_ms: the same of KIP-848's groups (`group.consumer.min.session.timeout.ms`, …max…).
    """

    timing: Timing
    restart_ms: int = 30_000
    sessions_ms: tuple[int, ...] = (10_000, 45_000, 90_000, 180_000, 600_000)
    restarts_ms: tuple[int, ...] = (5_000, 30_000, 120_000)
    crashes_per_deploy: float = 0.1
    least_gain: float = 30.0
    least_share: float = 0.1
    least_session_ms: int = 45_000
    margin: float = 1.5
    session_bounds_ms: tuple[int, ...] = (6_000, 1_800_000)
    consumer_session_bounds_ms: tuple[int, ...] = (45_000, 60_000)

    def fault(self) -> str | None:
        """What is wrong with it, if anything."""
        for name in ("sessions_ms", "restarts_ms"):
            values = getattr(self, name)
            if not values or min(values) < 1:
                return f"{name} is {list(values)}, expected one or more times of 1 millisecond or more"
        if self.restart_ms < 1:
            return f"restart_ms is {self.restart_ms}, expected 1 millisecond or more"
        for name in ("crashes_per_deploy", "least_gain", "least_share"):
            if not 0 <= getattr(self, name) < float("inf"):
                return f"{name} is {getattr(self, name)}, expected 0 or more"
        if not 1 <= self.margin < float("inf"):
            return f"margin is {self.margin}, expected 1 or more, or a session is over before its member is back"
        for name in ("session_bounds_ms", "consumer_session_bounds_ms"):
            bounds = getattr(self, name)
            if len(bounds) != 2 or not 0 < bounds[0] <= bounds[1]:
                return f"{name} is {list(bounds)}, expected the least and the most session timeout"
        return self.timing.fault()

    @property
    def all_restarts_ms(self) -> list[int]:
        """In order."""
        return sorted({*self.restarts_ms, self.restart_ms})

    def sessions_of(self, timing: Timing, *, served: bool) -> list[int]:
        """The session timeouts of a group's options: those that the broker and the heartbeats allow, and today's."""
        least, most = self.consumer_session_bounds_ms if served else self.session_bounds_ms
        beats = heartbeat_of(timing, served=served)
        allowed = {each for each in self.sessions_ms if least <= each <= most and each > beats}
        return sorted(allowed | {session_of(timing, served=served)})


def session_of(timing: Timing, *, served: bool) -> int:
    """The session timeout that a group has; `served`: the broker assigns it (KIP-848)."""
    return timing.group_consumer_session_timeout_ms if served else timing.session_timeout_ms


def heartbeat_of(timing: Timing, *, served: bool) -> int:
    """Its heartbeat interval."""
    return timing.group_consumer_heartbeat_interval_ms if served else timing.heartbeat_interval_ms


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
