"""Simulates many groups in lockstep, and converts the results to rows.

The groups of a Spark task run in lockstep: each runs until a leader or coordinator needs an assignment. Then all
requests are solved in one batch (`leader.assign`), which makes small groups cheap.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import pyarrow as pa

from spark_assign.simulation.kernel.classic_group_member import IllegalArgument, IllegalState
from spark_assign.simulation.kernel.events import BadEvent, Event
from spark_assign.simulation.kernel.group_simulation import GroupSimulation
from spark_assign.simulation.kernel.leader import ASSIGNORS, AssignmentRequest, AssignmentResponse, assign
from spark_assign.simulation.kernel.ownership_log import merged
from spark_assign.simulation.kernel.settings import Timing
from spark_assign.simulation.kernel.simulated_group import AssignorError, DoesNotConvergeError, InitialState
from spark_assign.simulation.kernel.simulation_input import InvalidGroupError, Key, SimulationInput, scenes
from spark_assign.simulation.kernel.target_assignment import TargetRequest, TargetResponse
from spark_assign.simulation.kernel.target_assignment_builder import assign_targets

SIDE_BY_SIDE = 200
"""Number of groups that run at once, which bounds the memory of a worker."""

ROWS_PER_TABLE = 10_000

PLAYED, TRACE, PARTITIONS, OWNERSHIP = "played", "trace", "partitions", "ownership"

Rows = list[dict[str, Any]]
AnyRequest = AssignmentRequest | TargetRequest | None


class InitialStateSource(Protocol):
    """Provides the initial state and the events of a group, as `simulation_input.SimulationInput` does."""

    def initial_state(self, protocol: str, defaults: Timing) -> tuple[InitialState, list[Event]]: ...


@dataclass(slots=True)
class SimulationRun:
    """The simulation of a group with one protocol.

    Attributes:
        simulation: the simulation. None before it starts.
        running: the generator that runs it.
        request: the assignment request that it waits for. None: it has ended.
        fault: code and text if the group cannot be simulated.
    """

    key: Key
    protocol: str
    simulation: GroupSimulation | None = None
    running: Generator[Any, Any, None] | None = None
    request: AnyRequest = None
    fault: tuple[str, str] | None = None

    def begin(self, source: InitialStateSource, defaults: Timing, until: int | None, writes: Collection[str]) -> None:
        """Starts the simulation and runs it to its first assignment request."""
        with _Faults(self):
            initial_state, events = source.initial_state(self.protocol, defaults)
            _check(initial_state)
            self.simulation = GroupSimulation(initial_state, events, traced=TRACE in writes, owners=OWNERSHIP in writes)
            self.running = self.simulation.run(until)
            self.request = next(self.running, None)

    def resume(self, answer: AssignmentResponse | TargetResponse) -> None:
        """Resumes the simulation with an assignment and runs it to its next assignment request."""
        assert self.running is not None
        self.request = None
        with _Faults(self):
            try:
                self.request = self.running.send(answer)
            except StopIteration:
                self.request = None


def play_facts(
    facts: pa.Table, protocols: Sequence[str], defaults: Timing, until: int | None, write: str, schema: pa.Schema
) -> Iterator[pa.Table]:
    """Simulates every group of a table of facts (`simulation_input`) with each protocol.

    Args:
        facts: facts of complete groups.
        protocols: names from `simulation_input.PROTOCOLS`.
        defaults: configuration of groups for which the facts contain none.
        until: time of interruption, in milliseconds. None: run until the group is stable.
        write: the table to return: `played` (rebalances and availability), `trace`, `partitions`, or `ownership`.
        schema: the schema of the rows.

    Yields:
        rows. A group that cannot be simulated has a row with code and text in `played`, and no rows elsewhere.
    """
    rows: Rows = []
    for run in in_step(_runs(scenes(facts), protocols, defaults, until, (write,))):
        rows += _rows(run, write)
        if len(rows) >= ROWS_PER_TABLE:
            yield pa.Table.from_pylist(rows, schema=schema)
            rows = []
    if rows:
        yield pa.Table.from_pylist(rows, schema=schema)


def play_whole(facts: pa.Table, protocols: Sequence[str], defaults: Timing, writes: Collection[str]) -> dict[str, Rows]:
    """Simulates a few small groups once, and returns several tables. All rows are held in memory.

    Args:
        facts, protocols, defaults: see `play_facts`.
        writes: any of `played`, `trace`, `partitions`, and `ownership`.

    Returns:
        the rows of each table, as in `play_facts`. Missing columns are null.
    """
    found: dict[str, Rows] = {write: [] for write in writes}
    for run in in_step(_runs(scenes(facts), protocols, defaults, None, writes)):
        for write, rows in found.items():
            rows += _rows(run, write)
    return found


def in_step(runs: Iterator[SimulationRun]) -> Iterator[SimulationRun]:
    """Runs simulations in lockstep, a bounded number at once. Yields each when it has ended."""
    running: list[SimulationRun] = []
    while running or (running := list(islice(runs, SIDE_BY_SIDE))):
        waiting = [run for run in running if run.request is not None]
        yield from (run for run in running if run.request is None)
        for run, answer in zip(waiting, answers([run.request for run in waiting]), strict=True):
            run.resume(answer)
        running = waiting + list(islice(runs, SIDE_BY_SIDE - len(waiting)))


def answers(requests: Sequence[AnyRequest]) -> list[Any]:
    """Solves all requests in two batches: those of leaders, and those of coordinators."""
    of_leaders = [request for request in requests if isinstance(request, AssignmentRequest)]
    of_brokers = [request for request in requests if isinstance(request, TargetRequest)]
    led, aimed = iter(assign(of_leaders)), iter(assign_targets(of_brokers))
    return [next(led if isinstance(request, AssignmentRequest) else aimed) for request in requests]


def _runs(
    groups: Iterable[tuple[Key, SimulationInput]],
    protocols: Sequence[str],
    defaults: Timing,
    until: int | None,
    writes: Collection[str],
) -> Iterator[SimulationRun]:
    for key, source in groups:
        for protocol in protocols:
            run = SimulationRun(key, protocol)
            run.begin(source, defaults, until, writes)
            yield run


class _Faults:
    """Converts errors of one group to its fault, so that the other groups continue."""

    def __init__(self, run: SimulationRun) -> None:
        self.run = run

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        code = next((code for fault, code in _CODES.items() if isinstance(error, fault)), None)
        if code is None:
            return False
        self.run.fault = (error.code if isinstance(error, InvalidGroupError) else code, str(error))
        self.run.request = None
        return True


_CODES: dict[type[Exception], str] = {
    InvalidGroupError: "bad-group",
    BadEvent: "bad-event",
    AssignorError: "kafka-fails",
    DoesNotConvergeError: "endless",
    IllegalArgument: "kafka-refuses",
    IllegalState: "kafka-refuses",
}
"""Code of each error in `rejected`. Kafka's group rejects members without a common assignor, or with one instance
ID."""


def _check(initial_state: InitialState) -> None:
    if initial_state.is_consumer_protocol:
        return
    for names in {initial_state.assignors, *(member.assignors for member in initial_state.members)}:
        if unknown := sorted(set(names) - ASSIGNORS.keys()):
            known = ", ".join(ASSIGNORS)
            raise InvalidGroupError(
                "unknown-assignor", f"no assignor that can be simulated is called {unknown[0]!r}: {known}"
            )


# --- what came of it ------------------------------------------------------------------------------------------


def _rows(run: SimulationRun, write: str) -> Rows:
    key = {"cluster": run.key[0], "group_id": run.key[1], "protocol": run.protocol}
    if run.fault is not None:
        code, detail = run.fault
        return [key | {"code": code, "detail": detail}] if write == PLAYED else []
    assert run.simulation is not None
    if write == PLAYED:
        return [key | {"rounds": _rounds(run.simulation), "availability": _availability(run.simulation)}]
    return [key | row for row in _WRITERS[write](run.simulation)]


def _rounds(simulation: GroupSimulation) -> Rows:
    return [
        {
            "generation_id": each.generation_id,
            "cause": each.cause,
            "begin_ms": each.begin_ms,
            "joined_ms": each.joined_ms,
            "end_ms": each.end_ms,
            "duration_ms": each.end_ms - each.begin_ms,
            "members": each.members,
            "leader": each.leader,
            "assignor": each.assignor,
            "revoked": each.revoked,
            "lost": each.lost,
            "assigned": each.assigned,
            "moved": each.moved,
        }
        for each in simulation.group.rebalances
    ]


def _availability(simulation: GroupSimulation) -> dict[str, Any]:
    gone = simulation.group.ownership_log.closed
    longest = max((each for each, _ in gone), key=lambda each: (each.longest_pause_ms, -each.code), default=None)
    paused = longest is not None and longest.longest_pause_ms > 0
    return {
        "begin_ms": 0,
        "end_ms": simulation.end_ms,
        "partitions": len(gone),
        "partition_ms": sum(end - each.exists_from for each, end in gone),
        "partition_ms_not_consumed": sum(each.paused_ms for each, _ in gone),
        "longest_pause_ms": longest.longest_pause_ms if longest is not None else 0,
        "longest_pause_topic": simulation.initial_state.topics.names[longest.code >> 32]
        if longest is not None and paused
        else None,
        "longest_pause_partition": longest.code & 0xFFFFFFFF if longest is not None and paused else None,
        "rebalances": len(simulation.group.rebalances),
        "members_restarted": simulation.event_handlers.restarted,
    }


def _trace(simulation: GroupSimulation) -> Rows:
    return [
        {
            "seq": seq,
            "at_ms": line.at_ms,
            "generation_id": line.generation_id,
            "actor": line.actor,
            "message": line.message,
            "to": line.to,
            "detail": line.detail,
        }
        for seq, line in enumerate(simulation.group.trace or ())
    ]


def _partitions(simulation: GroupSimulation) -> Rows:
    names = simulation.initial_state.topics.names
    return [
        {
            "topic": names[each.code >> 32],
            "partition": each.code & 0xFFFFFFFF,
            "exists_ms": end - each.exists_from,
            "not_consumed_ms": each.paused_ms,
            "pauses": each.pauses,
            "longest_pause_ms": each.longest_pause_ms,
        }
        for each, end in simulation.group.ownership_log.closed
    ]


def _ownership(simulation: GroupSimulation) -> Rows:
    names = simulation.initial_state.topics.names
    return [
        {
            "topic": names[code >> 32],
            "partition": code & 0xFFFFFFFF,
            "from_ms": begin,
            "to_ms": end,
            "state": state,
            "member_id": owner,
        }
        for code, begin, end, state, owner in merged(simulation.group.ownership_log.intervals or ())
    ]


_WRITERS = {TRACE: _trace, PARTITIONS: _partitions, OWNERSHIP: _ownership}
