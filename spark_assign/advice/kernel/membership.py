"""Static or dynamic, eager or cooperative, and how long a session: all groups of a task in one pass.

A row of the answer is tagged by its `kind`:

    group      what the group is advised to do, with what that saves and costs
    option     a way to run, a session timeout and a restart time, with what a rolling restart and a crash cost
    rejected   code, detail: a group that cannot be played, or that is no group of consumers

Facts are those of `protocol.specs`, and of each member a row of kind `ABOUT` with its client id and host. The plays of
all groups go side by side (`protocol.plays.in_step`): those in which nobody owns anything are founded first, then come
the plays that each group needs (`option_grid`), then the few that turn out to be needed beside them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.advice.kernel.membership_modes import GroupSimulationInput, MembershipParams, StableGroup, opened
from spark_assign.advice.kernel.membership_options import (
    MembershipChoice,
    MembershipOption,
    OptionGrid,
    SimulationKey,
    advise,
    options,
)
from spark_assign.advice.kernel.membership_text import (
    ClientFacts,
    codes_and_text,
    of_deployment,
    sentence,
    settings,
    warnings,
)
from spark_assign.groups.kernel.client_libraries import COOPERATIVE, count_clients, detect_library
from spark_assign.groups.kernel.group_properties import UNSUPPORTED_TYPES
from spark_assign.groups.kernel.tagged_rows import tagged_rows
from spark_assign.simulation.kernel.simulate_groups import SimulationRun, in_step
from spark_assign.simulation.kernel.simulated_group import InitialState
from spark_assign.simulation.kernel.simulation_input import (
    CONFIGURED,
    GROUP,
    MEMBER,
    InvalidGroupError,
    SimulationInput,
    scenes,
)
from spark_assign.simulation.kernel.simulation_input import Key as Name

OF_GROUP, OF_OPTION, REJECTED = KINDS = ("group", "option", "rejected")
ABOUT = 6
"""The kind of a fact that says of a member its client id and host; behind those of `protocol.specs`."""

_TEXT, _LONG, _INT, _DOUBLE = pa.string(), pa.int64(), pa.int32(), pa.float64()
ANSWER = pa.schema(
    {
        **dict.fromkeys(("cluster", "group_id", "kind", "recommendation", "sentence", "settings"), _TEXT),
        **dict.fromkeys(("warnings", "warning", "clients", "assignor"), _TEXT),
        **dict.fromkeys(("membership", "protocol", "to_membership", "to_protocol"), _TEXT),
        **dict.fromkeys(("session_timeout_ms", "to_session_timeout_ms", "restart_ms"), _LONG),
        **dict.fromkeys(("members", "static_members", "restarts_played", "partitions"), _LONG),
        **dict.fromkeys(("restart_pause_seconds", "to_restart_pause_seconds"), _DOUBLE),
        **dict.fromkeys(("restart_longest_seconds", "to_restart_longest_seconds"), _DOUBLE),
        **dict.fromkeys(("restart_rebalances", "to_restart_rebalances"), _INT),
        **dict.fromkeys(("crash_pause_seconds", "to_crash_pause_seconds"), _DOUBLE),
        **dict.fromkeys(("crash_longest_seconds", "to_crash_longest_seconds"), _DOUBLE),
        **dict.fromkeys(("expected_pause_seconds", "to_expected_pause_seconds"), _DOUBLE),
        **dict.fromkeys(("gain_seconds", "cost_seconds", "saved_seconds"), _DOUBLE),
        "now": pa.bool_(),
        **dict.fromkeys(("code", "detail"), _TEXT),
    }
)
"""Everything that is said, a row per group, option or refusal (`tables.advice`)."""

_GROUPS_AT_ONCE = 500
"""So many groups' rows are held before they are handed on."""


def membership(facts: pa.Table, params: MembershipParams) -> Iterator[pa.Table]:
    """Answer for all groups of these facts, in tables with the columns of `ANSWER`."""
    about = _about(facts)
    known = dict(scenes(facts))
    nothing: dict[int, list[Any]] = defaultdict(list)
    groups = [
        _Group(name, known.get(name, SimulationInput(nothing)), about[name], params) for name in sorted(known | about)
    ]
    for at in range(0, len(groups), _GROUPS_AT_ONCE):
        some = groups[at : at + _GROUPS_AT_ONCE]
        _play(some)
        yield tagged_rows(OF_GROUP, [each.row() for each in some if each.fault is None], ANSWER)
        yield tagged_rows(OF_OPTION, [row for each in some if each.fault is None for row in each.rows()], ANSWER)
        yield tagged_rows(REJECTED, [each.refusal() for each in some if each.fault is not None], ANSWER)
        for each in some:
            each.forget()


@dataclass(frozen=True)
class _Of:
    """Whose play it is: the group, and which one."""

    group: _Group
    key: SimulationKey | None


def _play(groups: Iterable[_Group]) -> None:
    """All plays of these groups, side by side."""
    of_group = {each.name: each for each in groups}
    for show in in_step(_shows(_Of(each, None) for each in groups if each.is_new)):
        of_group[show.key].founded(show)
    for step in (_Group.needed, _Group.needed_beside):
        sound = [each for each in groups if each.fault is None]
        wanted = [_Of(each, key) for each in sound for key in step(each)]
        for show in in_step(_shows(wanted)):
            of_group[show.key].note(show)


def _shows(wanted: Iterable[_Of]) -> Iterator[SimulationRun]:
    for number, each in enumerate(wanted):
        show = SimulationRun(each.group.name, str(number))
        each.group.begin(show, each.key)
        yield show


class _Group:
    """One group: what is known of it, how it begins, its plays, and its rows. `fault`: why nothing can be said."""

    def __init__(
        self, name: Name, scene: SimulationInput, about: list[Mapping[str, Any]], params: MembershipParams
    ) -> None:
        self.name, self.params = name, params
        self.fault: tuple[str, str] | None = None
        self.grid: OptionGrid | None = None
        self.playing: dict[str, SimulationKey] = {}
        self.stage: InitialState | None = None
        told = scene.rows[GROUP][0] if scene.rows[GROUP] else {}
        self.assignor = (told.get("names") or [None])[0]
        kind = next((row["group_type"] for row in (told, *about) if row.get("group_type")), None)
        if kind not in (None, "classic", "consumer"):
            what = UNSUPPORTED_TYPES.get(kind, f"A group of the protocol {kind}")
            self.fault = ("out-of-scope", f"{what}. Nothing to say of its membership")
            return
        if not scene.rows[MEMBER]:
            self.fault = ("no-members", "It has no members: there is nothing to restart")
            return
        try:
            self.stage, _ = scene.initial_state(CONFIGURED, params.timing)
        except InvalidGroupError as error:
            self.fault = (error.code, str(error))
            return
        self.known = _known(name, [row for row in about if row["member_id"]], self.assignor, self.stage)

    @property
    def is_new(self) -> bool:
        """Whether nobody owns anything yet."""
        return self.stage is not None and not any(each.owned for each in self.stage.members)

    @property
    def opening(self) -> StableGroup:
        """The group at rest."""
        assert self.stage is not None
        return opened(self.stage)

    def begin(self, show: SimulationRun, key: SimulationKey | None) -> None:
        """Begin a play; null: the members start, and nothing else happens."""
        if key is None:
            now = self.opening
            take = GroupSimulationInput(now.on(now.now, now.session_ms), [])
        else:
            assert self.grid is not None
            self.playing[show.protocol] = key
            take = self.grid.take(key)
        show.begin(take, self.params.timing, None, ())

    def founded(self, show: SimulationRun) -> None:
        """The members have what they have after the first rebalance."""
        self.fault = show.fault
        if show.simulation is not None and self.stage is not None:
            for each in self.stage.members:
                each.owned = list(show.simulation.group.members[each.name].owned)
        if self.fault is None and self.is_new:
            self.fault = ("owns-nothing", "No member gets a partition: nothing pauses")

    def needed(self) -> Iterable[SimulationKey]:
        """The plays that it needs."""
        self.grid = OptionGrid(self.opening, self.params)
        return self.grid.keys()

    def needed_beside(self) -> Iterable[SimulationKey]:
        """Those that turn out to be needed as well."""
        assert self.grid is not None
        return self.grid.missing()

    def note(self, show: SimulationRun) -> None:
        """A play is over."""
        assert self.grid is not None
        if show.fault is not None:
            self.fault = min(self.fault, show.fault) if self.fault else show.fault
        elif show.simulation is not None:
            self.grid.played(self.playing[show.protocol], show.simulation)

    def forget(self) -> None:
        """Its rows are written."""
        self.grid = self.stage = None

    # --- rows -------------------------------------------------------------------------------------------------

    def _named(self) -> dict[str, Any]:
        return {"cluster": self.name[0], "group_id": self.name[1]}

    def refusal(self) -> dict[str, Any]:
        """Why nothing can be said."""
        assert self.fault is not None
        return self._named() | {"code": self.fault[0], "detail": self.fault[1]}

    def row(self) -> dict[str, Any]:
        """What it is advised to do."""
        assert self.grid is not None
        known, opening = self.known, self.grid.opening
        advice = advise(options(self.grid, self.params), self.params, opening.heartbeat_ms, known.forbidden())
        codes, text = codes_and_text(warnings(advice, self.params, known))
        now, then = _figures(advice.now), _figures(advice.then)
        return {
            **self._named(),
            "recommendation": advice.code,
            "sentence": sentence(advice, self.params, known),
            "settings": settings(advice, known),
            "warnings": codes,
            "warning": text,
            "clients": known.clients,
            "assignor": self._assignor(advice.now),
            "restart_ms": self.params.restart_ms,
            "members": known.members,
            "static_members": known.static,
            "restarts_played": len(self.grid.restarted),
            "partitions": len(self.grid.owned),
            **now,
            **{f"to_{name}": value for name, value in then.items()},
            **_balance(advice),
        }

    def rows(self) -> Iterator[dict[str, Any]]:
        """All that it could do."""
        assert self.grid is not None
        for each in options(self.grid, self.params):
            told = {"assignor": self._assignor(each), "restart_ms": each.restart_ms, "now": each.now}
            yield self._named() | told | _figures(each)

    def _assignor(self, option: MembershipOption) -> str | None:
        return self.assignor if option.way.own else COOPERATIVE


def _figures(option: MembershipOption) -> dict[str, Any]:
    crash = option.crash
    return {
        "membership": option.way.membership,
        "protocol": option.way.protocol,
        "session_timeout_ms": option.session_ms,
        "restart_pause_seconds": option.restart.partition_ms / 1000,
        "restart_longest_seconds": option.restart.longest_ms / 1000,
        "restart_rebalances": option.restart.rebalances,
        "crash_pause_seconds": crash.partition_ms / 1000 if crash else None,
        "crash_longest_seconds": crash.longest_ms / 1000 if crash else None,
        "expected_pause_seconds": _seconds(option.expected_ms),
    }


def _balance(advice: MembershipChoice) -> dict[str, float]:
    """What a deploy gains in its restart, and what its share of a crash costs."""
    now, then = advice.now, advice.then
    gain = now.restart.partition_ms - then.restart.partition_ms
    saved = now.expected_ms - then.expected_ms
    told = {"gain_seconds": gain, "cost_seconds": gain - saved, "saved_seconds": saved}
    return {name: _seconds(value) for name, value in told.items()}


def _seconds(ms: float) -> float:
    """To the millisecond."""
    return round(ms) / 1000


def _about(facts: pa.Table) -> dict[Name, list[Mapping[str, Any]]]:
    """Of each group what its members are called, and what kind of group it is."""
    found: dict[Name, list[Mapping[str, Any]]] = defaultdict(list)
    rows = facts.filter(pc.equal(facts["kind"], ABOUT))
    wanted = ["cluster", "group_id", "group_type", "member_id", "client_id", "client_host"]
    for row in rows.select(wanted).to_pylist():
        found[row["cluster"], row["group_id"]].append(row)
    return found


def _known(name: Name, about: list[Mapping[str, Any]], assignor: str | None, stage: InitialState) -> ClientFacts:
    clients = [detect_library(name[1], row["client_id"], row["member_id"], assignor) for row in about]
    instances = [each.group_instance_id for each in stage.members]
    names = [row[column] for row in about for column in ("client_id", "client_host", "member_id")]
    return ClientFacts(
        name[1],
        count_clients(clients),
        of_deployment([*names, *instances]),
        len(stage.members),
        sum(each is not None for each in instances),
    )
