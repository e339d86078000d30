"""Simulates events in the classic Streams applications of facts (`streams_group_input`): facts to tagged rows.

The `kind` of a row is `step`, `rebalance`, or `rejected`; its columns are those of the tables `steps`, `rebalances`,
and `rejected` (`tables.streams.SIMULATION_TABLES`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from spark_assign.java.hash_map import java_key
from spark_assign.simulation.kernel.assignment_request import Topics, code
from spark_assign.simulation.kernel.classic_group_member import IllegalArgument, IllegalState
from spark_assign.simulation.kernel.events import Event, InvalidEventError, in_order
from spark_assign.simulation.kernel.group_simulation import GroupSimulation
from spark_assign.simulation.kernel.settings import TimingConfig
from spark_assign.simulation.kernel.simulated_group import (
    DoesNotConvergeError,
    InitialState,
    RebalanceRow,
    TooManyEventsError,
)
from spark_assign.streams.kernel.classic_application import UnknownOwnedPartitionsError
from spark_assign.streams.kernel.classic_group_input import ClassicGroupInput, find_classic_fault
from spark_assign.streams.kernel.member_tasks import MemberTasks
from spark_assign.streams.kernel.simulated_application import STREAM, SimulatedApplication, StreamsThread
from spark_assign.streams.kernel.state_restores import StateRestores
from spark_assign.streams.kernel.streams_group_input import StreamsFacts, read_streams_facts

STEP, REBALANCE, REJECTED = "step", "rebalance", "rejected"
"""Kinds of result rows."""

_EVENTS = (
    *("member-starts", "member-leaves", "member-crashes", "member-restarts", "rolling-restart", "slow-member"),
    "metadata-refresh",
)
"""Events of applications; topics and subscriptions are those of the topology."""
_REBALANCE_COLUMNS = (
    *("generation_id", "cause", "start_ms", "joined_ms", "end_ms", "duration_ms", "members", "leader", "assignor"),
    *("revoked", "lost", "assigned", "moved"),
)
_Rows = Iterator[dict[str, Any]]


@dataclass(frozen=True)
class ApplicationSimulationParams:
    """Parameters of a simulation.

    Attributes:
        restore_bytes_per_second: What a process restores.
        timing: Times of applications without exceptions.
        is_static: Whether every member is static; otherwise, those with an instance ID are.
        leaves_on_close: Whether instances leave the group when they close; None: as configured.
    """

    restore_bytes_per_second: float
    timing: TimingConfig
    is_static: bool = False
    leaves_on_close: bool | None = None


def simulate_applications(
    fact_table: pa.Table, schema: pa.Schema, params: ApplicationSimulationParams
) -> Iterator[pa.Table]:
    """Yields the results of all Streams groups of the facts, as tagged rows."""
    for facts in read_streams_facts(fact_table):
        key = {"cluster": facts.cluster, "group_id": facts.group_id}
        yield pa.Table.from_pylist([key | row for row in _simulate(facts, params)], schema)


def _simulate(facts: StreamsFacts, params: ApplicationSimulationParams) -> list[dict[str, Any]]:
    """Returns the rows of a group, or why it is rejected."""
    fault: tuple[str, str] | None
    if facts.is_classic:
        fault = find_classic_fault(facts)
    else:
        text = (
            "The broker assigns the tasks. Only applications on the classic protocol are simulated (group_type classic)"
        )
        fault = "streams-group", text
    if fault is None:
        try:
            simulation = read_simulation(facts, params)
            for _ in simulation.run(None):
                pass
            return [*_step_rows(simulation), *map(_rebalance_row, simulation.group.rebalances)]
        except tuple(_CODES) as error:
            fault = _CODES[type(error)], str(error)
        except Exception as error:  # one application must not affect other groups
            fault = "assignor-failed", f"{type(error).__name__}: {error}"
    return [{"kind": REJECTED, "code": fault[0], "detail": fault[1]}]


class InvalidApplicationError(Exception):
    """Raised for an application that can be planned, but not simulated."""


_CODES: dict[type[Exception], str] = {
    InvalidApplicationError: "bad-settings",
    InvalidEventError: "bad-event",
    DoesNotConvergeError: "does-not-converge",
    TooManyEventsError: "too-many-events",
    IllegalArgument: "kafka-refuses",
    IllegalState: "kafka-refuses",
    UnknownOwnedPartitionsError: "unknown-owned",
}


def read_simulation(facts: StreamsFacts, params: ApplicationSimulationParams) -> GroupSimulation:
    """Returns the simulation of an application without faults, before its first event.

    Raises:
        InvalidApplicationError, InvalidEventError: a setting or an event is invalid.
    """
    classic = ClassicGroupInput(facts, None)
    application, sizes = classic.application, classic.changelogs.sizes
    if sizes is None:
        raise InvalidApplicationError("changelogs: bytes is null. A simulation needs the sizes of changelogs")
    timing = params.timing.with_exceptions((facts.rows["group_times"] or [{}])[-1])
    if fault := timing.fault():
        raise InvalidApplicationError(f"settings: {fault}")
    topics = Topics.of(topic for of in application.subtopologies for topic in of.sources)
    index = {name: at for at, name in enumerate(topics.names)}
    members = {member.member_id: member for member in application.members}
    threads = []
    instances = {row["member_id"]: row["group_instance_id"] for row in facts.rows["member_settings"]}
    for row in sorted(facts.rows["members"], key=_list_order):
        name, member = row["member_id"], members[row["member_id"]]
        own = instances.get(name) or row["group_instance_id"]
        thread = StreamsThread(
            name,
            own or (name if params.is_static else None),
            member.rack,
            frozenset(index.values()),
            STREAM,
            name,
            owned=sorted(code(index[topic], number) for topic, number in member.owned if topic in index),
            process_id=member.process_id,
            tags=member.tags,
        )
        threads.append(thread)
    initial_state = InitialState(
        members=threads,
        topics=topics,
        partitions={index[topic]: count for topic, count in application.num_partitions.items()},
        generation_id=1,
        timing=timing,
        assignors=STREAM,
        new_members_static=params.is_static,
    )
    leaves = classic.leaves_on_close if params.leaves_on_close is None else params.leaves_on_close
    state = StateRestores(application, sizes, params.restore_bytes_per_second, classic.changelogs.growth or {})
    group = SimulatedApplication(initial_state, application, state, _read_tasks(classic), leaves=leaves)
    events = in_order(map(_read_event, facts.rows["events"]))
    return GroupSimulation(initial_state, events, traced=False, owners=False, group=group)


def _list_order(row: Mapping[str, Any]) -> tuple[bool, int, bytes]:
    return row["position"] is None, row["position"] or 0, java_key(row["member_id"])


def _read_tasks(classic: ClassicGroupInput) -> dict[str, MemberTasks]:
    """Returns the tasks that each member has at the start."""
    tasks = {member.member_id: MemberTasks() for member in classic.application.members}
    existing, current = set(classic.application.tasks), classic.group_input().current
    for task in existing:
        for name in current["active"].get(task, ())[-1:]:
            tasks[name].active.add(task)
        for role in ("standby", "warmup"):
            for name in current[role].get(task, ()):
                tasks[name].standby.add(task)
    return tasks


def _read_event(row: dict[str, Any]) -> Event:
    if row["at_ms"] is None or row["event"] is None:
        known = {name: value for name, value in row.items() if value is not None}
        raise InvalidEventError(f"events: {known}: expected at_ms and event to be set")
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}
    event = Event(**values)
    if event.event not in _EVENTS:
        raise event.invalid(f"the event can't happen to a Streams application. Use one of {', '.join(_EVENTS)}")
    return event


# --- rows -----------------------------------------------------------------------------------------------------------


def _step_rows(simulation: GroupSimulation) -> _Rows:
    group = simulation.group
    assert isinstance(group, SimulatedApplication)
    ends = [*(step.before for step in group.steps[1:]), group.finish(simulation.end_ms)]
    for number, (step, after) in enumerate(zip(group.steps, ends, strict=True), 1):
        difference = {name: getattr(after, name) - getattr(step.before, name) for name in after._fields}
        difference["restored_bytes"] = round(difference["restored_bytes"])
        never = group.state.num_behind if number == len(group.steps) else 0
        columns = {"step": number, "at_ms": step.at_ms, "event": step.event, "member_ids": step.member_ids}
        yield {"kind": STEP, **columns, **difference, "never_caught_up": never}


def _rebalance_row(row: RebalanceRow) -> dict[str, Any]:
    return {"kind": REBALANCE, **{name: getattr(row, name) for name in _REBALANCE_COLUMNS}}
