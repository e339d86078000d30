"""Simulates many groups in lockstep, and converts the results to rows.

The groups of a Spark task run in lockstep: each runs until a leader or coordinator needs an assignment. Then all
requests are solved in one batch (`leader.assign`), which makes small groups cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import pyarrow as pa

from spark_assign.simulation.kernel.assignment_request import AssignmentRequest, AssignmentResponse
from spark_assign.simulation.kernel.classic_group_member import IllegalArgument, IllegalState
from spark_assign.simulation.kernel.events import Event, InvalidEventError
from spark_assign.simulation.kernel.group_simulation import GroupSimulation
from spark_assign.simulation.kernel.leader import ASSIGNORS, assign
from spark_assign.simulation.kernel.ownership_log import merged
from spark_assign.simulation.kernel.settings import TimingConfig
from spark_assign.simulation.kernel.simulated_group import (
    AssignorError,
    DoesNotConvergeError,
    InitialState,
    TooManyEventsError,
)
from spark_assign.simulation.kernel.simulation_input import InvalidGroupError, Key, read_simulation_inputs
from spark_assign.simulation.kernel.target_assignment import TargetRequest, TargetResponse
from spark_assign.simulation.kernel.target_assignment_builder import assign_targets
from spark_assign.tables.errors import failure_of_code

MAX_RUNNING = 200
"""Number of groups that run at once, which bounds the memory of a worker."""

ROWS_PER_TABLE = 10_000
MAX_LONG = 2**63 - 1

RESULTS, TRACE, PARTITIONS, OWNERSHIP = "results", "trace", "partitions", "ownership"
"""Tables. `results` has one row per group and variant: its rebalances and availability, or code and detail."""

Rows = list[dict[str, Any]]
AnyRequest = AssignmentRequest | TargetRequest | None
ReadInput = Callable[[], tuple[InitialState, Sequence[Event]]]
"""Returns the initial state and the events of a group, or raises an error of `CODES`."""


@dataclass(slots=True)
class SimulationRun:
    """The simulation of a group with one variant.

    Attributes:
        simulation: the simulation. None before it starts.
        running: the generator that runs it.
        request: the assignment request that it waits for. None: it has ended.
        fault: code and text if the group can't be simulated.
    """

    key: Key
    variant: str
    simulation: GroupSimulation | None = None
    running: Generator[Any, Any, None] | None = None
    request: AnyRequest = None
    fault: tuple[str, str] | None = None

    def start(self, read_input: ReadInput, until: int | None, tables: Collection[str]) -> None:
        """Starts the simulation and runs it to its first assignment request."""
        with self._rejecting():
            initial_state, events = read_input()
            _check_assignors(initial_state, events)
            self.simulation = GroupSimulation(initial_state, events, traced=TRACE in tables, owners=OWNERSHIP in tables)
            self.running = self.simulation.run(until)
            self.request = next(self.running, None)

    def resume(self, response: AssignmentResponse | TargetResponse | Exception) -> None:
        """Resumes the simulation with an assignment (or an error) and runs it to its next assignment request."""
        assert self.running is not None
        self.request = None
        with self._rejecting(), suppress(StopIteration):
            if isinstance(response, Exception):
                raise response
            self.request = self.running.send(response)

    @contextmanager
    def _rejecting(self) -> Iterator[None]:
        """Converts errors of this group to its fault, so that the other groups continue."""
        try:
            yield
        except tuple(CODES) as error:
            self.fault = getattr(error, "code", CODES[type(error)]), str(error)
        except Exception as error:  # one group must not affect other groups
            self.fault = "assignor-failed", failure_of_code(error)


CODES: dict[type[Exception], str] = {
    InvalidGroupError: "bad-group",
    InvalidEventError: "bad-event",
    AssignorError: "kafka-fails",
    DoesNotConvergeError: "does-not-converge",
    TooManyEventsError: "too-many-events",
    IllegalArgument: "kafka-refuses",
    IllegalState: "kafka-refuses",
}
"""Code of each error. Kafka's group rejects members without a common assignor."""


def simulate_facts(
    facts: pa.Table, variants: Sequence[str], defaults: TimingConfig, until: int | None, table: str, schema: pa.Schema
) -> Iterator[pa.Table]:
    """Simulates every group of a table of input tables (`simulation_input`) with each variant.

    Args:
        facts: facts of complete groups.
        variants: names from `simulation_input.VARIANTS`.
        defaults: configuration of groups for which the facts contain none.
        until: time at which the simulation stops, in milliseconds. None: when the group is stable.
        table: the table to return: `results`, `trace`, `partitions`, or `ownership`.
        schema: the schema of the rows.

    Yields:
        rows. A group that can't be simulated has a row with code and text in `results`, and no rows elsewhere.
    """
    rows: Rows = []
    for run in run_in_lockstep(_start_runs(facts, variants, defaults, until, (table,))):
        rows += _rows(run, table)
        if len(rows) >= ROWS_PER_TABLE:
            yield pa.Table.from_pylist(rows, schema=schema)
            rows = []
    if rows:
        yield pa.Table.from_pylist(rows, schema=schema)


def simulate_in_memory(
    facts: pa.Table, variants: Sequence[str], defaults: TimingConfig, tables: Collection[str]
) -> dict[str, Rows]:
    """Simulates a few small groups, and returns the rows of several tables; see `simulate_facts`. Missing columns are
    null.
    """
    rows: dict[str, Rows] = {table: [] for table in tables}
    for run in run_in_lockstep(_start_runs(facts, variants, defaults, None, tables)):
        for table, table_rows in rows.items():
            table_rows += _rows(run, table)
    return rows


def run_in_lockstep(runs: Iterator[SimulationRun]) -> Iterator[SimulationRun]:
    """Runs simulations in lockstep, a bounded number at once. Yields each when it has ended."""
    running: list[SimulationRun] = []
    while running or (running := list(islice(runs, MAX_RUNNING))):
        waiting = [run for run in running if run.request is not None]
        yield from (run for run in running if run.request is None)
        for run, response in zip(waiting, solve_requests([run.request for run in waiting]), strict=True):
            run.resume(response)
        running = waiting + list(islice(runs, MAX_RUNNING - len(waiting)))


def solve_requests(requests: Sequence[AnyRequest]) -> list[Any]:
    """Solves all requests in two batches: those of leaders, and those of coordinators.

    Returns:
        the responses, in order. If a batch fails, its requests are solved one by one: the response to one that fails
        is its error.
    """
    leader_responses = iter(_solve(assign, [each for each in requests if isinstance(each, AssignmentRequest)]))
    target_responses = iter(_solve(assign_targets, [each for each in requests if isinstance(each, TargetRequest)]))
    return [next(leader_responses if isinstance(each, AssignmentRequest) else target_responses) for each in requests]


def _solve(solve: Callable[[Sequence[Any]], Sequence[Any]], requests: Sequence[Any]) -> Sequence[Any]:
    try:
        return solve(requests)
    except Exception as error:  # one group must not affect other groups
        return [error] if len(requests) == 1 else [_solve(solve, [each])[0] for each in requests]


def _start_runs(
    facts: pa.Table, variants: Iterable[str], defaults: TimingConfig, until: int | None, tables: Collection[str]
) -> Iterator[SimulationRun]:
    for key, source in read_simulation_inputs(facts):
        for variant in variants:
            run = SimulationRun(key, variant)
            run.start(partial(source.initial_state, variant, defaults), until, tables)
            yield run


def _check_assignors(initial_state: InitialState, events: Sequence[Event]) -> None:
    """Raises `InvalidGroupError` if an assignor of a classic group, or of one of its events, can't be simulated."""
    if initial_state.is_consumer_protocol:
        return
    of_events = {each.assignors or () for each in events}
    for names in {initial_state.assignors, *(member.assignors for member in initial_state.members)} | of_events:
        if unknown := sorted(set(names) - ASSIGNORS.keys()):
            detail = f"assignor {unknown[0]!r} can't be simulated. Assignors: {', '.join(ASSIGNORS)}"
            raise InvalidGroupError("unknown-assignor", detail)


# --- rows -----------------------------------------------------------------------------------------------------


def _rows(run: SimulationRun, table: str) -> Rows:
    """Returns the rows of a run in one table."""
    key = {"cluster": run.key[0], "group_id": run.key[1], "variant": run.variant}
    if run.simulation is not None and run.simulation.end_ms * len(run.simulation.group.ownership_log.closed) > MAX_LONG:
        run.fault = (
            "bad-event",
            f"events: the last one ends after {run.simulation.end_ms:,} ms, so sums overflow",
        )
    if run.fault is not None:
        return [key | dict(zip(("code", "detail"), run.fault, strict=True))] if table == RESULTS else []
    assert run.simulation is not None
    return [key | row for row in _WRITERS[table](run.simulation)]


def _results(simulation: GroupSimulation) -> Rows:
    rebalances = [values_of(each, REBALANCE_COLUMNS) for each in simulation.group.rebalances]
    return [{"rebalances": rebalances, "availability": _availability(simulation)}]


def _availability(simulation: GroupSimulation) -> dict[str, Any]:
    """Returns the row of the table `availability`, without its key."""
    closed = simulation.group.ownership_log.closed
    longest = max((each for each, _ in closed), key=lambda each: (each.longest_pause_ms, -each.code), default=None)
    longest_ms = 0 if longest is None else longest.longest_pause_ms
    location = _partition(simulation, longest.code) if longest is not None and longest_ms else {}
    return {
        "start_ms": 0,
        "end_ms": simulation.end_ms,
        "partitions": len(closed),
        "partition_ms": sum(end - each.exists_from for each, end in closed),
        "paused_partition_ms": sum(each.paused_ms for each, _ in closed),
        "unowned_at_end": simulation.group.ownership_log.unowned_at_end,
        "longest_pause_ms": longest_ms,
        "longest_pause_topic": location.get("topic"),
        "longest_pause_partition": location.get("partition"),
        "rebalances": len(simulation.group.rebalances),
        "members_restarted": simulation.event_handlers.restarted,
    }


def _trace(simulation: GroupSimulation) -> Rows:
    rows = enumerate(simulation.group.trace or ())
    return [{"seq": seq, **values_of(row, _TRACE_COLUMNS)} for seq, row in rows]


def _partitions(simulation: GroupSimulation) -> Rows:
    return [
        {
            **_partition(simulation, each.code),
            "exists_ms": end - each.exists_from,
            "paused_partition_ms": each.paused_ms,
            "pauses": each.pauses,
            "longest_pause_ms": each.longest_pause_ms,
        }
        for each, end in simulation.group.ownership_log.closed
    ]


def _ownership(simulation: GroupSimulation) -> Rows:
    first_ids = {member_id: member.name for member_id, member in simulation.group.by_id.items()}
    return [
        {
            **_partition(simulation, code),
            "start_ms": start,
            "end_ms": end,
            "state": state,
            "member_id": owner,
            "first_member_id": owner and first_ids[owner],
        }
        for code, start, end, state, owner in merged(simulation.group.ownership_log.intervals or ())
    ]


def _partition(simulation: GroupSimulation, code: int) -> dict[str, Any]:
    return {"topic": simulation.group.cluster.names[code >> 32], "partition": code & 0xFFFFFFFF}


def values_of(row: object, names: Iterable[str]) -> dict[str, Any]:
    """Returns attributes of an object by name."""
    return {name: getattr(row, name) for name in names}


_TRACE_COLUMNS = ("at_ms", "generation_id", "actor", "message", "receiver", "detail")
REBALANCE_COLUMNS = (
    *("generation_id", "cause", "start_ms", "joined_ms", "end_ms", "duration_ms", "members", "leader", "assignor"),
    *("revoked", "lost", "assigned", "moved"),
)
_WRITERS = {RESULTS: _results, TRACE: _trace, PARTITIONS: _partitions, OWNERSHIP: _ownership}
