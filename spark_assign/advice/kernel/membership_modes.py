"""Parameters of membership advice, and the modes in which a group can run: dynamic or static, own assignor or
cooperative."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from spark_assign.groups.kernel.client_libraries import COOPERATIVE
from spark_assign.simulation.kernel.member import AsyncMember, ClassicMember, SimulatedMember
from spark_assign.simulation.kernel.settings import BROKER_LIMITS, is_cooperative
from spark_assign.simulation.kernel.simulated_group import InitialState
from spark_assign.tables.parameters import Param, find_fault

PAUSE_MS = 10_000
"""Time between the moment when a restarted member is up and the moment when the next one closes, as in
`simulation.kernel.events`.
"""

MAX_RESTARTS = 16
"""Maximum number of restarts to simulate; for a larger group, the pause is scaled to all members."""


@dataclass(frozen=True)
class MembershipParams:
    """Parameters of membership advice; times in milliseconds.

    Attributes:
        restart_time_ms: time that a restarted member is away, which the recommendation is valid for.
        session_timeouts_ms: session timeouts of the table `options`, except those that the broker doesn't allow; a
            group's current one is always included.
        restart_times_ms: restart times of the table `options`; the one that the advice is for is always included.
        crashes_per_deploy: number of members that crash for good, per rolling restart.
        min_pause_savings: minimum savings of a change, in partition-seconds per deploy.
        min_pause_reduction: minimum savings of a change, as a share of the current pause.
        min_session_timeout_ms: shortest session timeout to recommend, unless the group already has a shorter one.
        session_margin: minimum session timeout of a static member, as a multiple of the restart time.
        session_bounds_ms: minimum and maximum session timeout that the broker accepts
            (`group.min.session.timeout.ms`, `group.max.session.timeout.ms`).
        consumer_session_bounds_ms: minimum and maximum session timeout of KIP-848 groups
            (`group.consumer.min.session.timeout.ms`, `group.consumer.max.session.timeout.ms`).

    Examples:
        >>> MembershipParams(restart_time_ms=60_000).session_margin
        1.5
    """

    restart_time_ms: Annotated[int, Param(least=1)] = 30_000
    session_timeouts_ms: Annotated[Sequence[int], Param(least=1)] = (10_000, 45_000, 90_000, 180_000, 600_000)
    restart_times_ms: Annotated[Sequence[int], Param(least=1)] = (5_000, 30_000, 120_000)
    crashes_per_deploy: Annotated[float, Param(least=0)] = 0.1
    min_pause_savings: Annotated[float, Param(least=0)] = 30.0
    min_pause_reduction: Annotated[float, Param(least=0)] = 0.1
    min_session_timeout_ms: Annotated[int, Param(least=0)] = 45_000
    session_margin: Annotated[float, Param(least=1)] = 1.5
    session_bounds_ms: Annotated[Sequence[int], Param(least=1)] = BROKER_LIMITS["session_timeout_ms"][2:]
    consumer_session_bounds_ms: Annotated[Sequence[int], Param(least=1)] = BROKER_LIMITS[
        "group_consumer_session_timeout_ms"
    ][2:]

    def fault(self) -> str | None:
        """Returns what is invalid; `None` if nothing is."""
        for name in ("session_timeouts_ms", "restart_times_ms"):
            if not getattr(self, name):
                return f"{name} is []; expected one or more times"
        for name in ("session_bounds_ms", "consumer_session_bounds_ms"):
            bounds = getattr(self, name)
            if len(bounds) != 2 or bounds[0] > bounds[1]:
                return f"{name} is {list(bounds)}; expected the minimum and the maximum session timeout"
        return find_fault(self)


DYNAMIC, STATIC, MIXED = "dynamic", "static", "mixed"
EAGER, COOPERATES, CONSUMER = "eager", "cooperative", "consumer"

_COOPERATIVE_ONLY = (COOPERATIVE,)


@dataclass(frozen=True)
class MembershipMode:
    """A mode in which a group can run.

    Attributes:
        membership: dynamic, static, or mixed (some members have an instance id).
        protocol: eager, cooperative, or consumer (KIP-848).
        own: whether the members keep their current assignors.
    """

    membership: str
    protocol: str
    own: bool = True


@dataclass(frozen=True)
class StableGroup:
    """A stable group, from which all of its simulations start.

    Attributes:
        state: the group in the fleet; its members are copied for each simulation.
        mode: its current mode.
    """

    state: InitialState
    mode: MembershipMode

    @property
    def by_broker(self) -> bool:
        """Whether the broker assigns the group (KIP-848)."""
        return self.state.is_consumer_protocol

    @property
    def heartbeat_ms(self) -> int:
        """The heartbeat interval."""
        timing = self.state.timing
        return timing.group_consumer_heartbeat_interval_ms if self.by_broker else timing.heartbeat_interval_ms

    @property
    def session_ms(self) -> int:
        """The current session timeout."""
        timing = self.state.timing
        return timing.group_consumer_session_timeout_ms if self.by_broker else timing.session_timeout_ms

    def sessions(self, params: MembershipParams) -> list[int]:
        """Returns the session timeouts to compare: those that the broker and the heartbeat interval allow, and the
        current one."""
        lower, upper = params.consumer_session_bounds_ms if self.by_broker else params.session_bounds_ms
        lower = max(lower, self.heartbeat_ms + 1)
        return sorted({self.session_ms, *(ms for ms in params.session_timeouts_ms if lower <= ms <= upper)})

    def modes(self) -> list[MembershipMode]:
        """Returns all modes, the current one first."""
        modes = [self.mode, *(MembershipMode(membership, self.mode.protocol) for membership in (DYNAMIC, STATIC))]
        if self.mode.protocol == EAGER:
            modes += [MembershipMode(membership, COOPERATES, own=False) for membership in (DYNAMIC, STATIC)]
        return list(dict.fromkeys(modes))

    def members(self) -> list[SimulatedMember]:
        """Returns the members by id, the order of a rolling restart."""
        return sorted(self.state.members, key=lambda member: member.name)

    def with_mode(self, mode: MembershipMode, session_ms: int) -> InitialState:
        """Returns the initial state of a simulation with another mode and session timeout."""
        if self.by_broker:
            timing = replace(self.state.timing, group_consumer_session_timeout_ms=session_ms)
        else:
            timing = replace(self.state.timing, session_timeout_ms=session_ms)
        state = replace(self.state, timing=timing)
        state.members = [_copy(member, mode) for member in self.state.members]
        if not mode.own:
            state.assignors = _COOPERATIVE_ONLY
        return state


def find_stable_group(state: InitialState) -> StableGroup:
    """Returns the stable group with its current mode."""
    static = sum(member.group_instance_id is not None for member in state.members)
    membership = DYNAMIC if not static else STATIC if static == len(state.members) else MIXED
    cooperates = all(is_cooperative(member.assignors) for member in state.members)
    protocol = CONSUMER if state.is_consumer_protocol else COOPERATES if cooperates else EAGER
    return StableGroup(state, MembershipMode(membership, protocol))


def _copy(member: SimulatedMember, mode: MembershipMode) -> SimulatedMember:
    """Returns a copy of a member for a simulation; a static member without an instance id uses its name as one."""
    member_class = AsyncMember if isinstance(member, AsyncMember) else ClassicMember
    instance = member.group_instance_id
    if mode.membership != MIXED:
        instance = (instance or member.name) if mode.membership == STATIC else None
    assignors = member.assignors if mode.own else _COOPERATIVE_ONLY
    copy = member_class(member.name, instance, member.rack_id, member.topics, assignors, member.name)
    copy.owned = list(member.owned)
    return copy
