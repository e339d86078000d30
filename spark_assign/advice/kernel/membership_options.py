"""Compares the options of a group (mode, session timeout, restart time) from as few simulations as possible, and
selects one.

Every option has a rolling restart and a crash. Many of them share a simulation:

    rolling restart, dynamic   Members leave the group when they close, so no session timeout applies. One simulation
                               per restart time.
    rolling restart, static    A member that is back before its session expires gets its partitions back, and no other
                               member notices: its partitions wait as long as it is away. One simulation covers all
                               restart times and sessions (KIP-848: one per class, as for a crash); the pause of each
                               partition grows with the restart time. A member that is away longer is removed: one
                               simulation for each session and restart time.
    crash                      The partitions of the member wait until its session expires, counted from its last
                               heartbeat, and then for the heartbeats and polls of the others. Two sessions that differ
                               by a multiple of both intervals are in the same phase: one simulation per class of such
                               sessions; the pause of each waiting partition grows by the difference. The restart time
                               doesn't matter.

A session surely doesn't expire if it is longer than the restart time, plus the time to close, plus one heartbeat
interval (the last heartbeat can precede closing by that much). A shorter session is simulated as it is. If a partition
that waits for the crashed member pauses twice, the longest pause doesn't simply grow, and every session is simulated.

The crashed member is the one whose number of partitions is nearest to the mean. It crashes half a heartbeat interval
after the start.

The measure of an option is the expected pause of a deploy: that of one rolling restart, plus that of a crash times the
number of crashes per deploy. The smallest wins among the allowed options:

    allowed      Static membership requires a library that supports it, stable names, and a session of at least
                 `session_margin` restart times. Cooperative requires a library with such an assignor. A session below
                 `min_session_timeout_ms` is allowed only if the group has it today.
    threshold    A change must save `min_pause_savings` partition-seconds per deploy, and `min_pause_reduction` of the
                 current pause.
    simplicity   Of all options within that threshold of the best one, the one with the fewest changes is selected.

Example: a rolling restart pauses 900 partition-seconds today, 200 if static with a session of 90 s, and 195 if static
and cooperative with 90 s. A crash pauses 450, and 900 with 90 s, at 0.1 crashes per deploy: 945 against 290 and 285.
Static alone saves 655 and is selected; adding cooperative isn't worth it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import lcm

from spark_assign.advice.kernel.membership_modes import (
    CONSUMER,
    DYNAMIC,
    EAGER,
    MAX_RESTARTS,
    MIXED,
    PAUSE_MS,
    STATIC,
    MembershipMode,
    MembershipParams,
    StableGroup,
)
from spark_assign.groups.kernel.client_libraries import COOPERATIVE, UNKNOWN, candidates, read_clients
from spark_assign.groups.kernel.client_settings import (
    MemberChange,
    find_refusal,
    member_settings,
    plan_switch,
    without_static_members,
)
from spark_assign.simulation.kernel.events import Event
from spark_assign.simulation.kernel.group_simulation import GroupSimulation
from spark_assign.simulation.kernel.ownership_log import Partition
from spark_assign.simulation.kernel.simulated_group import InitialState
from spark_assign.tables.errors import count
from spark_assign.tables.quoting import in_text

RESTART, CRASH = "restart", "crash"


@dataclass(frozen=True)
class SimulationKey:
    """Key of one simulation.

    Attributes:
        event: `RESTART` or `CRASH`.
        mode: the mode of the group.
        session_ms: the session timeout.
        restart_time_ms: the time that a restarted member is away.
    """

    event: str
    mode: MembershipMode
    session_ms: int
    restart_time_ms: int = 0


@dataclass(frozen=True)
class Pause:
    """The pause of a simulation.

    Attributes:
        partition_ms: partition-milliseconds without consumption.
        longest_ms: the longest pause of a partition.
        rebalances: number of rebalances.
        waiting_once: for a crash, whether none of the partitions that waited for the session paused a second time.
        longest_of_waiting_ms, others_ms: for a crash, the longest pause of those partitions and of all others.
    """

    partition_ms: int
    longest_ms: int
    rebalances: int
    waiting_once: bool = True
    longest_of_waiting_ms: int = 0
    others_ms: int = 0

    def longer(self, by_ms: int, partitions: int) -> Pause:
        """Returns the pause if `partitions` partitions wait `by_ms` longer, in one pause each."""
        longest = max(self.others_ms, self.longest_of_waiting_ms + by_ms) if partitions else self.longest_ms
        return replace(self, partition_ms=self.partition_ms + by_ms * partitions, longest_ms=longest)


class OptionGrid:
    """The options of one group, and the simulations that they need.

    Args:
        group: the stable group.
        params: session timeouts and restart times to compare.
    """

    def __init__(self, group: StableGroup, params: MembershipParams) -> None:
        self.group = group
        self.sessions = group.sessions(params)
        self.restarts = sorted({*params.restart_times_ms, params.restart_time_ms})
        self.modes = group.modes()
        members = group.members()
        self.restarted = members[:MAX_RESTARTS]
        self.scale = len(members) / len(self.restarted)
        self.owned = {code for member in members for code in member.owned}
        mean = len(self.owned) / len(members)
        self.crashed = min(members, key=lambda member: (abs(len(member.owned) - mean), -len(member.owned)))
        self.has_others = len(members) > 1
        self.away = sum(len(member.owned) for member in self.restarted)
        state = group.state
        self.closing = [
            sum(state.revoke_ms.get(code, state.timing.revoke_ms) for code in member.owned) for member in self.restarted
        ]
        self.period = lcm(group.heartbeat_ms, state.timing.poll_interval_ms or 1)
        self.pauses: dict[SimulationKey, Pause] = {}

    # --- simulations to run -----------------------------------------------------------------------------------

    def keys(self) -> list[SimulationKey]:
        """Returns the keys of the simulations that all options need."""
        options = [self.restart_key(mode, s, r) for mode in self.modes for s in self.sessions for r in self.restarts]
        if self.has_others:
            options += [self.crash_key(mode, session) for mode in self.modes for session in self.sessions]
        return list(dict.fromkeys(options))

    def missing(self) -> Iterator[SimulationKey]:
        """Yields the keys of further simulations: crashes with each session, if a waiting partition paused twice."""
        for key, pause in list(self.pauses.items()):
            if key.event == CRASH and not pause.waiting_once:
                same = [session for session in self.sessions if self.crash_key(key.mode, session) == key]
                yield from (SimulationKey(CRASH, key.mode, session) for session in same if session != key.session_ms)

    def restart_key(self, mode: MembershipMode, session_ms: int, restart_time_ms: int) -> SimulationKey:
        """Returns the key of the simulation of a rolling restart."""
        if mode.membership == DYNAMIC:
            return SimulationKey(RESTART, mode, self.group.session_ms, restart_time_ms)
        if session_ms > self._safe_session(restart_time_ms):
            same = self._representative_restart(restart_time_ms) if mode.membership == STATIC else restart_time_ms
            return SimulationKey(RESTART, mode, self._safe_session(same) + 1, same)
        return SimulationKey(RESTART, mode, session_ms, restart_time_ms)

    def _representative_restart(self, restart_time_ms: int) -> int:
        """Returns the restart time to simulate for this one. KIP-848 members get their partitions back at their next
        poll."""
        if not self.group.by_broker:
            return self.restarts[0]
        return min(each for each in self.restarts if each % self.period == restart_time_ms % self.period)

    def crash_key(self, mode: MembershipMode, session_ms: int) -> SimulationKey:
        """Returns the key of the simulation of a crash."""
        same = (each for each in self.sessions if each % self.period == session_ms % self.period)
        return SimulationKey(CRASH, mode, min(same))

    def _safe_session(self, restart_time_ms: int) -> int:
        """Returns the session timeout above which a member that is away for `restart_time_ms` surely isn't removed."""
        return restart_time_ms + max(self.closing) + self.group.heartbeat_ms

    def simulation_input(self, key: SimulationKey) -> tuple[InitialState, list[Event]]:
        """Returns the initial state and the events of a simulation."""
        state = self.group.with_mode(key.mode, key.session_ms)
        if key.event == RESTART:
            return state, self.rolling_restart(key.restart_time_ms)
        return state, [Event(self.group.heartbeat_ms // 2, "member-crashes", self.crashed.name)]

    def rolling_restart(self, restart_time_ms: int) -> list[Event]:
        """Returns the events of a rolling restart: each member closes `PAUSE_MS` after the previous one is up."""
        at, events = 0, []
        for member, closing in zip(self.restarted, self.closing, strict=True):
            events.append(Event(at, "member-restarts", member.name, down_ms=restart_time_ms))
            at += closing + restart_time_ms + PAUSE_MS
        return events

    # --- pauses -----------------------------------------------------------------------------------------------

    def record(self, key: SimulationKey, simulation: GroupSimulation) -> None:
        """Records the pause of a completed simulation."""
        closed = simulation.group.ownership_log.closed
        partitions = [partition for partition, _ in closed if partition.code in self.owned]
        codes = set(self.crashed.owned) if key.event == CRASH else set[int]()
        waiting = [partition for partition in partitions if partition.code in codes]
        self.pauses[key] = Pause(
            sum(partition.paused_ms for partition in partitions),
            _longest(partitions),
            len(simulation.group.rebalances),
            all(partition.pauses == 1 for partition in waiting),
            _longest(waiting),
            _longest([partition for partition in partitions if partition.code not in codes]),
        )

    def restart(self, mode: MembershipMode, session_ms: int, restart_time_ms: int) -> Pause:
        """Returns the pause of a rolling restart; for a large group, scaled to all members."""
        key = self.restart_key(mode, session_ms, restart_time_ms)
        by_ms = restart_time_ms - key.restart_time_ms if self.away else 0
        pause = self.pauses[key]
        partition_ms = round((pause.partition_ms + by_ms * self.away) * self.scale)
        rebalances, longest_ms = round(pause.rebalances * self.scale), pause.longest_ms + by_ms
        return replace(pause, partition_ms=partition_ms, longest_ms=longest_ms, rebalances=rebalances)

    def crash(self, mode: MembershipMode, session_ms: int) -> Pause | None:
        """Returns the pause of a crash; `None` for a group of one member, because no other member takes over."""
        if not self.has_others:
            return None
        exact = self.pauses.get(SimulationKey(CRASH, mode, session_ms))
        if exact is not None:
            return exact
        key = self.crash_key(mode, session_ms)
        return self.pauses[key].longer(session_ms - key.session_ms, len(self.crashed.owned))


def _longest(partitions: list[Partition]) -> int:
    return max((partition.longest_pause_ms for partition in partitions), default=0)


KEEP, SESSION = "keep", "session"


@dataclass(frozen=True)
class MembershipOption:
    """One mode with one session timeout, and the pauses of a rolling restart and of a crash.

    Attributes:
        is_current: whether the group runs this way.
        crash: `None` if no other member can take over.
        expected_ms: expected partition-milliseconds per deploy.
    """

    mode: MembershipMode
    session_ms: int
    restart_time_ms: int
    is_current: bool
    restart: Pause
    crash: Pause | None
    expected_ms: float


@dataclass(frozen=True)
class MembershipChoice:
    """The recommendation for a group.

    Attributes:
        code: `KEEP`, `SESSION`, or the changes.
        current, recommended: the options.
        unrestricted: the option that would be recommended if nothing were forbidden; `None`: the same.
    """

    code: str
    current: MembershipOption
    recommended: MembershipOption
    unrestricted: MembershipOption | None = None


def options(grid: OptionGrid, params: MembershipParams) -> list[MembershipOption]:
    """Returns all options of a group."""
    group, options = grid.group, []
    for mode in grid.modes:
        for session in grid.sessions:
            crash = grid.crash(mode, session)
            waits = params.crashes_per_deploy * crash.partition_ms if crash else 0.0
            current = mode == group.mode and session == group.session_ms
            for restart_time_ms in grid.restarts:
                restart = grid.restart(mode, session, restart_time_ms)
                expected = restart.partition_ms + waits
                options.append(MembershipOption(mode, session, restart_time_ms, current, restart, crash, expected))
    return options


def advise(
    options: Sequence[MembershipOption], params: MembershipParams, heartbeat_ms: int, forbidden: Collection[str]
) -> MembershipChoice:
    """Returns the recommendation for a group.

    Args:
        options: its options.
        params: thresholds of a change.
        heartbeat_ms: its heartbeat interval.
        forbidden: `static`, `cooperative`, or both.
    """
    candidates = [option for option in options if option.restart_time_ms == params.restart_time_ms]
    current = next(option for option in candidates if option.is_current)
    valid = [option for option in candidates if option.is_current or _is_valid(option, current, params, heartbeat_ms)]
    allowed = [option for option in valid if option.is_current or not _is_forbidden(option, forbidden)]
    best, unrestricted = _best(allowed, current, params), _best(valid, current, params)
    code = KEEP if best.is_current else "-".join(changed_modes(current, best)) or SESSION
    return MembershipChoice(code, current, best, None if unrestricted == best else unrestricted)


def _is_valid(option: MembershipOption, current: MembershipOption, params: MembershipParams, heartbeat_ms: int) -> bool:
    """Checks whether the session timeout of an option is long enough; a mixed group must not stay mixed with other
    settings."""
    if option.mode.membership == current.mode.membership not in (STATIC, DYNAMIC):
        return False  # of a group that is mixed only what it is today
    if option.session_ms < min(current.session_ms, params.min_session_timeout_ms):
        return False
    long_enough = max(params.session_margin * option.restart_time_ms, option.restart_time_ms + heartbeat_ms)
    return option.mode.membership == DYNAMIC or option.session_ms >= long_enough


def _is_forbidden(option: MembershipOption, forbidden: Collection[str]) -> bool:
    """Checks whether an option is forbidden. What the group has already isn't, except for static members with unstable
    names."""
    static = option.mode.membership == STATIC and "static" in forbidden
    return static or (not option.mode.own and "cooperative" in forbidden)


def _best(allowed: Sequence[MembershipOption], current: MembershipOption, params: MembershipParams) -> MembershipOption:
    """Returns the option with the smallest expected pause, or a similar one with fewer changes."""
    threshold = max(params.min_pause_savings * 1000, params.min_pause_reduction * current.expected_ms)
    changes = [option for option in allowed if not option.is_current]
    worthwhile = [option for option in changes if current.expected_ms - option.expected_ms >= threshold] or [current]
    least = min(option.expected_ms for option in worthwhile)
    near = [option for option in worthwhile if option.expected_ms == least or option.expected_ms < least + threshold]

    def preference(option: MembershipOption) -> tuple[int, float, int]:
        num_changes = len(changed_modes(current, option)) + (option.session_ms != current.session_ms)
        return num_changes, option.expected_ms, option.session_ms

    return min(near, key=preference)


def changed_modes(current: MembershipOption, option: MembershipOption) -> list[str]:
    """Returns the membership and the protocol of an option, without those that stay the same."""
    changed = [option.mode.membership] if option.mode.membership != current.mode.membership else []
    return changed if option.mode.own else [*changed, option.mode.protocol]


# --- membership advice as text: figures, settings to paste, warnings ------------------------------------------
#
# be static.
#
# A static member (KIP-345, Kafka 2.3) must keep its `group.instance.id` across restarts, and no other member may have
# it. For the libraries that can set it, see `groups.kernel.client_libraries`.
#
# The form of a Kubernetes pod name shows whether it survives a restart. Pods of a StatefulSet are named `name-0`,
# `name-1`, …, and keep their names. The name of a Deployment's pod is that of its ReplicaSet plus five random
# characters; a rollout also changes the ReplicaSet's hash. Both use 27 letters and digits without vowels
# (`k8s.io/apimachinery/pkg/util/rand`), so that they don't form words. A client that uses its host name as
# `group.instance.id` is then a new static member after each restart, and the group waits for the old one until its
# session expires.


_RANDOM = "[bcdfghjklmnpqrstvwxz2456789]"
_DEPLOYMENT_POD = re.compile(
    rf"(?<![a-z0-9-])-*+([a-z0-9][a-z0-9-]*-{_RANDOM}{{6,10}}-{_RANDOM}{{5}})(?![a-z0-9])"  # starts once per name
)


def find_deployment_pod(names: Iterable[str | None]) -> str | None:
    """Returns the first name, in order, that looks like a pod of a Deployment; `None` if there is none."""
    matches = (_DEPLOYMENT_POD.search(name) for name in sorted({name for name in names if name}))
    return next((match[1] for match in matches if match), None)


_PROTOCOLS = {EAGER: "eager", "cooperative": "cooperative", CONSUMER: "assigned by the broker"}


@dataclass(frozen=True)
class ClientFacts:
    """Facts about the members of a group.

    Attributes:
        group_id: the group.
        clients: client libraries, in the format of `client_libraries.count_clients`.
        pod: a name that looks like a pod of a Deployment; `None` if there is none.
        members: number of members.
        static: number of members with an instance id.
    """

    group_id: str
    clients: str
    pod: str | None
    members: int
    static: int

    @property
    def libraries(self) -> list[str]:
        """The libraries that are known."""
        return [name for name in read_clients(self.clients) if name != UNKNOWN]

    @property
    def not_static(self) -> list[str]:
        """The libraries without static membership."""
        return without_static_members(self.clients)

    def forbidden(self) -> list[str]:
        """Returns what must not be recommended: `static`, `cooperative`."""
        lacking = any(find_refusal(name, (COOPERATIVE,)) for name in self.libraries)
        return (["static"] if self.pod or self.not_static else []) + (["cooperative"] if lacking else [])


def summary(choice: MembershipChoice, params: MembershipParams, clients: ClientFacts) -> str:
    """Returns the recommendation with its cost and savings, as sentences."""
    current, new = choice.current, choice.recommended
    restart = f"A rolling restart of {count(clients.members, 'member')}, each away for {time(params.restart_time_ms)},"
    rebalances = f"in {count(new.restart.rebalances, 'rebalance')}"
    if choice.code == KEEP:
        crash = "" if current.crash is None else f", and a crash {_seconds(current.crash.partition_ms)}"
        return (
            f"Keep the group {_option_text(current)}: no change saves enough. {restart} pauses "
            f"{_seconds(new.restart.partition_ms)} {rebalances} (at most {time(new.restart.longest_ms)} per partition)"
            f"{crash}."
        )
    return (
        f"Change to {_change_text(current, new)}. {restart} then pauses {_seconds(new.restart.partition_ms)} "
        f"{rebalances} instead of {_seconds(current.restart.partition_ms)} (at most {time(new.restart.longest_ms)} per "
        f"partition instead of {time(current.restart.longest_ms)}){_crash_text(current, new)}. The change saves "
        f"{_seconds(current.expected_ms - new.expected_ms)} per deploy."
    )


def _change_text(current: MembershipOption, new: MembershipOption) -> str:
    """Returns what changes, as text."""
    text = " and ".join(changed_modes(current, new)) or new.mode.membership
    if new.session_ms == current.session_ms:
        return text
    return f"{text} with a session timeout of {time(new.session_ms)} instead of {time(current.session_ms)}"


def _crash_text(current: MembershipOption, new: MembershipOption) -> str:
    if new.crash is None or current.crash is None:
        return ""
    before, after = _seconds(current.crash.partition_ms), _seconds(new.crash.partition_ms)
    return f", and a crash {after}" + (" as before" if before == after else f" instead of {before}")


def settings(choice: MembershipChoice, clients: ClientFacts, assignor: str | None) -> str | None:
    """Returns the steps of the recommended change as lines to paste (`member_settings`); `None` if nothing changes.

    Args:
        choice: the recommendation.
        clients: facts about the members.
        assignor: the current assignor; `None`: unknown.
    """
    current, new = choice.current, choice.recommended
    change = MemberChange(
        clients.group_id,
        clients.clients,
        None if new.mode.own else plan_switch(assignor, COOPERATIVE, clients.clients),
        None if new.mode.membership == current.mode.membership else new.mode.membership == STATIC,
        None if new.session_ms == current.session_ms else new.session_ms,
        new.mode.protocol == CONSUMER,
    )
    return "\n".join(member_settings(change)) or None


def warnings(choice: MembershipChoice, params: MembershipParams, clients: ClientFacts) -> Iterator[tuple[str, str]]:
    """Yields code and text of each risk."""
    if clients.pod is not None:
        text = f"{in_text(clients.pod)} looks like a pod of a Deployment, whose name changes with each restart."
        if clients.static:
            text += " If the instance id contains it, each restart adds a member, and the old one expires late."
        else:
            text += " Static membership needs fixed names, as in a StatefulSet (name-0, name-1, …)."
        yield "unstable-names", text
    if choice.current.mode.membership == MIXED:
        text = f"{clients.static} of {count(clients.members, 'member')} are static, and the other members are dynamic."
        yield "mixed", text
    new = choice.recommended
    if new.mode.membership != DYNAMIC and new.session_ms <= params.restart_time_ms:
        session = f"The session timeout, {time(new.session_ms)}, is shorter than a restart"
        yield "short-session", f"{session}, so each restart removes the member."
    yield from _risks_of_libraries(choice, clients)


def _risks_of_libraries(choice: MembershipChoice, clients: ClientFacts) -> Iterator[tuple[str, str]]:
    """Yields the risks that come from the client libraries, as codes and texts."""
    if clients.not_static:
        issues = ", ".join(str(each.no_static) for name in clients.not_static for each in candidates(name))
        yield "cannot-be-static", f"{' and '.join(clients.not_static)} doesn't support static membership ({issues})."
    elif (
        choice.recommended.mode.membership == STATIC != choice.current.mode.membership and "unknown" in clients.clients
    ):
        text = "Some client ids don't reveal the library. Check that each library supports group.instance.id."
        yield "library-unknown", text
    if choice.unrestricted is not None:
        saved = _seconds(choice.current.expected_ms - choice.unrestricted.expected_ms)
        text = f"{_option_text(choice.unrestricted).capitalize()} would save {saved} per deploy, but isn't possible."
        yield "forgone", text


def _option_text(option: MembershipOption) -> str:
    mode = f"{option.mode.membership}, {_PROTOCOLS[option.mode.protocol]}"
    return f"{mode}, with a session timeout of {time(option.session_ms)}"


def _seconds(partition_ms: float) -> str:
    return f"{_number(partition_ms / 1000)} partition-seconds"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == round(value) else f"{value:,.1f}"


def time(ms: int) -> str:
    """Returns a duration as text in a suitable unit."""
    if ms % 60_000 == 0 and ms >= 120_000:
        return f"{ms // 60_000} min"
    return f"{ms} ms" if ms < 1000 else f"{_number(ms / 1000)} s"
