"""Advises on membership, assignor protocol, and session timeout of all groups of a task in one pass.

A result row is tagged by its `kind`:

    group      the recommendation for a group, with savings and cost
    option     a mode, session timeout, and restart time, with the pauses of a rolling restart and of a crash
    rejected   code, detail: a group that can't be simulated, or that isn't a consumer group

The input is that of `simulation.kernel.simulation_input`. The simulations of all groups run in lockstep
(`simulate_groups.run_in_lockstep`): first the initial rebalances of groups in which no member owns anything, then the
simulations that each group's options need (`OptionGrid.keys`), then the few that turn out to be needed in addition
(`OptionGrid.missing`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import islice
from typing import Any

import pyarrow as pa

from spark_assign.advice.kernel.membership_modes import MembershipParams, find_stable_group
from spark_assign.advice.kernel.membership_options import (
    ClientFacts,
    MembershipChoice,
    MembershipOption,
    OptionGrid,
    SimulationKey,
    advise,
    find_deployment_pod,
    options,
    settings,
    summary,
    warnings,
)
from spark_assign.assignors.group_facts import UNSUPPORTED_TYPES
from spark_assign.groups.kernel.client_libraries import (
    COOPERATIVE,
    Client,
    count_clients,
    detect_libraries,
    leader_client,
)
from spark_assign.groups.kernel.tagged_rows import tagged_rows
from spark_assign.simulation.kernel.events import Event
from spark_assign.simulation.kernel.settings import TimingConfig
from spark_assign.simulation.kernel.simulate_groups import SimulationRun, run_in_lockstep
from spark_assign.simulation.kernel.simulated_group import InitialState
from spark_assign.simulation.kernel.simulation_input import (
    CONFIGURED,
    InvalidGroupError,
    SimulationInput,
    read_simulation_inputs,
)
from spark_assign.simulation.kernel.simulation_input import Key as GroupKey
from spark_assign.tables.errors import failure_of_code
from spark_assign.tables.quoting import in_text

GROUP_ROW, OPTION_ROW, REJECTED = ("group", "option", "rejected")

_GROUPS_AT_ONCE = 500
"""Number of groups whose rows are collected before they are returned."""


def advise_membership(
    facts: pa.Table, params: MembershipParams, timing: TimingConfig, schema: pa.Schema
) -> Iterator[pa.Table]:
    """Yields the advice for all groups in the facts, as tagged rows of a table per kind (`tables.advice`).

    Args:
        facts: the input of complete groups.
        params: thresholds, session timeouts, and restart times.
        timing: settings of groups that have none of their own.
        schema: the schema of the rows.
    """
    inputs = read_simulation_inputs(facts)
    while batch := [_Group(*each, params, timing) for each in islice(inputs, _GROUPS_AT_ONCE)]:
        for kind, rows in _advise(batch):
            yield tagged_rows(kind, rows, schema)


def _advise(groups: Sequence[_Group]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Runs all simulations of these groups in lockstep, and yields their rows by kind."""
    for group, run in _run(groups, lambda group: [None] if group.is_new else []):
        group.take_over_ownership(run)
    for needed_keys in (_Group.option_keys, lambda group: group.grid.missing()):
        for group, run in _run(groups, needed_keys):
            group.record(run)
    valid = [group for group in groups if group.fault is None]
    yield GROUP_ROW, [group.row() for group in valid]
    yield OPTION_ROW, [row for group in valid for row in group.rows()]
    yield REJECTED, [group.rejection() for group in groups if group.fault is not None]


def _run(
    groups: Sequence[_Group], keys: Callable[[_Group], Iterable[SimulationKey | None]]
) -> Iterator[tuple[_Group, SimulationRun]]:
    """Yields each group without a fault, and its simulations; the key `None` is the initial rebalance."""
    group_by_name = {group.name: group for group in groups}
    requests = [(group, key) for group in groups if group.fault is None for key in keys(group)]
    runs = (group.start(SimulationRun(group.name, str(index)), key) for index, (group, key) in enumerate(requests))
    yield from ((group_by_name[run.key], run) for run in run_in_lockstep(runs))


class _Group:
    """One group: its facts, initial state, simulations, and result rows. `fault`: why it is rejected."""

    state: InitialState
    grid: OptionGrid

    def __init__(
        self,
        name: GroupKey,
        inputs: SimulationInput,
        params: MembershipParams,
        timing: TimingConfig,
    ) -> None:
        self.name, self.params = name, params
        self.fault: tuple[str, str] | None = None
        self.keys_by_run: dict[str, SimulationKey] = {}
        rows = inputs.rows
        self.assignor = next((row["assignors"][0] for row in rows["groups"] if row["assignors"]), None)
        kind = next((row["group_type"] for row in (*rows["groups"], *rows["leaders"]) if row["group_type"]), None)
        if kind not in (None, "classic", "consumer"):
            group_type = UNSUPPORTED_TYPES.get(kind, f"A group of the protocol {in_text(kind)}")
            self.fault = ("out-of-scope", f"{group_type}, which this adviser doesn't support")
            return
        if not rows["members"]:
            self.fault = ("no-members", "The group has no members to restart")
            return
        try:
            self.state, _ = inputs.initial_state(CONFIGURED, timing)
        except InvalidGroupError as error:
            self.fault = (error.code, str(error))
            return
        except Exception as error:  # one group must not affect other groups
            self.fault = "assignor-failed", failure_of_code(error)
            return
        leaders = (leader_client(row["leader_library"], row["leader_confidence"]) for row in rows["leaders"])
        leader = next((each for each in leaders if each.library), Client(None))
        self.clients = _client_facts(name, rows["clients"], self.assignor, leader, self.state)

    @property
    def is_new(self) -> bool:
        """Whether no member owns a partition yet."""
        return not any(member.owned for member in self.state.members)

    def start(self, run: SimulationRun, key: SimulationKey | None) -> SimulationRun:
        """Starts a simulation, and returns it; `None`: the members start, and nothing else happens."""
        if key is None:
            group = find_stable_group(self.state)
            run.start(lambda: (group.with_mode(group.mode, group.session_ms), list[Event]()), None, ())
        else:
            self.keys_by_run[run.variant] = key
            run.start(partial(self.grid.simulation_input, key), None, ())
        return run

    def take_over_ownership(self, run: SimulationRun) -> None:
        """Takes over the ownership after the initial rebalance."""
        self.fault = run.fault
        if run.simulation is not None:
            for member in self.state.members:
                member.owned = list(run.simulation.group.members[member.name].owned)
        if self.fault is None and self.is_new:
            self.fault = ("owns-nothing", "No member gets a partition, so nothing pauses")

    def option_keys(self) -> Iterable[SimulationKey]:
        """Returns the keys of the simulations that the options need."""
        self.grid = OptionGrid(find_stable_group(self.state), self.params)
        return self.grid.keys()

    def record(self, run: SimulationRun) -> None:
        """Records a completed simulation."""
        if run.fault is not None:
            self.fault = min(self.fault, run.fault) if self.fault else run.fault
        elif run.simulation is not None:
            self.grid.record(self.keys_by_run[run.variant], run.simulation)

    # --- rows -------------------------------------------------------------------------------------------------

    @cached_property
    def options(self) -> list[MembershipOption]:
        """All options of the group, once its simulations are recorded."""
        return options(self.grid, self.params)

    def _key(self) -> dict[str, Any]:
        return {"cluster": self.name[0], "group_id": self.name[1]}

    def rejection(self) -> dict[str, Any]:
        """Returns the rejection row."""
        assert self.fault is not None
        return self._key() | {"code": self.fault[0], "detail": self.fault[1]}

    def row(self) -> dict[str, Any]:
        """Returns the recommendation row."""
        clients, group = self.clients, self.grid.group
        choice = advise(self.options, self.params, group.heartbeat_ms, clients.forbidden())
        risks = list(warnings(choice, self.params, clients))
        recommended = _figures(choice.recommended)
        return {
            **self._key(),
            "recommendation": choice.code,
            "summary": summary(choice, self.params, clients),
            "settings": settings(choice, clients, self.assignor),
            "warning_codes": ", ".join(code for code, _ in risks) or None,
            "warning_text": " ".join(text for _, text in risks) or None,
            "client_libraries": clients.clients,
            "assignor": self._assignor(choice.current),
            "restart_time_ms": self.params.restart_time_ms,
            "members": clients.members,
            "static_members": clients.static,
            "simulated_restarts": len(self.grid.restarted),
            "partitions": len(self.grid.owned),
            **_figures(choice.current),
            **{f"recommended_{name}": value for name, value in recommended.items()},
            **_balance(choice),
        }

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yields a row per option."""
        for option in self.options:
            row = {
                "assignor": self._assignor(option),
                "restart_time_ms": option.restart_time_ms,
                "is_current": option.is_current,
            }
            yield self._key() | row | _figures(option)

    def _assignor(self, option: MembershipOption) -> str | None:
        return self.assignor if option.mode.own else COOPERATIVE


def _figures(option: MembershipOption) -> dict[str, Any]:
    """Returns the columns of an option: what it is, and what restarts and crashes cost with it."""
    crash = option.crash
    return {
        "membership": option.mode.membership,
        "protocol": option.mode.protocol,
        "session_timeout_ms": option.session_ms,
        "restart_paused_partition_seconds": option.restart.partition_ms / 1000,
        "restart_longest_pause_seconds": option.restart.longest_ms / 1000,
        "restart_rebalances": option.restart.rebalances,
        "crash_paused_partition_seconds": crash.partition_ms / 1000 if crash else None,
        "crash_longest_pause_seconds": crash.longest_ms / 1000 if crash else None,
        "expected_paused_partition_seconds": _seconds(option.expected_ms),
    }


def _balance(choice: MembershipChoice) -> dict[str, float]:
    """Returns what a deploy gains by its restart, what its share of a crash costs, and the sum."""
    current, recommended = choice.current, choice.recommended
    gain = current.restart.partition_ms - recommended.restart.partition_ms
    saved = current.expected_ms - recommended.expected_ms
    values = {"gain_seconds": gain, "cost_seconds": gain - saved, "saved_seconds": saved}
    return {name: _seconds(value) for name, value in values.items()}


def _seconds(ms: float) -> float:
    """Converts milliseconds to seconds, rounded to a millisecond."""
    return round(ms) / 1000


def _client_facts(
    name: GroupKey, members: Sequence[Mapping[str, Any]], assignor: str | None, leader: Client, state: InitialState
) -> ClientFacts:
    """Returns what is known of the clients of a group."""
    ids = [(row["client_id"], row["member_id"]) for row in members]
    clients = detect_libraries(name[1], ids, assignor, leader)
    instances = [member.group_instance_id for member in state.members]
    names = [row[column] for row in members for column in ("client_id", "client_host", "member_id")]
    return ClientFacts(
        name[1],
        count_clients(clients),
        find_deployment_pod([*names, *instances]),
        len(state.members),
        sum(instance is not None for instance in instances),
    )
