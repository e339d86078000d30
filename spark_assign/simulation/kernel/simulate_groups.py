"""Many groups played side by side, and what came of it as rows.

The groups of a task are played in step: each until a leader has to find an assignment; then all assignments that are
asked for are found at once (`leader.assign`), which is what makes small groups cheap.
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
"""So many groups are played at once; it bounds what a worker holds."""

ROWS_PER_TABLE = 10_000

PLAYED, TRACE, PARTITIONS, OWNERSHIP = "played", "trace", "partitions", "ownership"

Rows = list[dict[str, Any]]
Asked = AssignmentRequest | TargetRequest | None


class InitialStateSource(Protocol):
    """What knows how a group begins, and what is to happen to it: `simulation_input.Scene`."""

    def stage(self, protocol: str, defaults: Timing) -> tuple[InitialState, list[Event]]: ...


@dataclass(slots=True)
class SimulationRun:
    """A group with one protocol. `ask`: what its leader has to find; `fault`: why it cannot be played."""

    key: Key
    protocol: str
    play: GroupSimulation | None = None
    going: Generator[Any, Any, None] | None = None
    ask: Asked = None
    fault: tuple[str, str] | None = None

    def begin(self, scene: InitialStateSource, defaults: Timing, until: int | None, writes: Collection[str]) -> None:
        """On to the first assignment."""
        with _Faults(self):
            stage, events = scene.stage(self.protocol, defaults)
            _check(stage)
            self.play = GroupSimulation(stage, events, traced=TRACE in writes, owners=OWNERSHIP in writes)
            self.going = self.play.run(until)
            self.ask = next(self.going, None)

    def go_on(self, answer: AssignmentResponse | TargetResponse) -> None:
        """On to the next assignment."""
        assert self.going is not None
        self.ask = None
        with _Faults(self):
            try:
                self.ask = self.going.send(answer)
            except StopIteration:
                self.ask = None


def play_facts(
    facts: pa.Table, protocols: Sequence[str], defaults: Timing, until: int | None, write: str, schema: pa.Schema
) -> Iterator[pa.Table]:
    """Play every group of a table of facts (`simulation_input`) with each protocol.

    Args:
        facts: of whole groups.
        protocols: of `simulation_input.PROTOCOLS`.
        defaults: what groups are set to where the facts say nothing.
        until: when to break off, in milliseconds; null: when a group is at rest.
        write: what to write of each play: `played` (rounds and availability), `trace`, `partitions` or `ownership`.
        schema: of the rows.

    Yields:
        rows. A group that cannot be played has one in `played`, with a code and a text, and none elsewhere.
    """
    rows: Rows = []
    for show in in_step(_shows(scenes(facts), protocols, defaults, until, (write,))):
        rows += _rows(show, write)
        if len(rows) >= ROWS_PER_TABLE:
            yield pa.Table.from_pylist(rows, schema=schema)
            rows = []
    if rows:
        yield pa.Table.from_pylist(rows, schema=schema)


def play_whole(facts: pa.Table, protocols: Sequence[str], defaults: Timing, writes: Collection[str]) -> dict[str, Rows]:
    """Play a few small groups once and write several things of each play: all rows are held at once.

    Args:
        facts, protocols, defaults: as `play_facts` has them.
        writes: of `played`, `trace`, `partitions` and `ownership`.

    Returns:
        the rows of each, as `play_facts` has them; columns that are left out are null.
    """
    found: dict[str, Rows] = {write: [] for write in writes}
    for show in in_step(_shows(scenes(facts), protocols, defaults, None, writes)):
        for write, rows in found.items():
            rows += _rows(show, write)
    return found


def in_step(shows: Iterator[SimulationRun]) -> Iterator[SimulationRun]:
    """Play them, so many at once; each comes out when it is over."""
    going: list[SimulationRun] = []
    while going or (going := list(islice(shows, SIDE_BY_SIDE))):
        asking = [show for show in going if show.ask is not None]
        yield from (show for show in going if show.ask is None)
        for show, answer in zip(asking, answers([show.ask for show in asking]), strict=True):
            show.go_on(answer)
        going = asking + list(islice(shows, SIDE_BY_SIDE - len(asking)))


def answers(asks: Sequence[Asked]) -> list[Any]:
    """The leaders' asks at once, and the brokers' at once."""
    of_leaders = [ask for ask in asks if isinstance(ask, AssignmentRequest)]
    of_brokers = [ask for ask in asks if isinstance(ask, TargetRequest)]
    led, aimed = iter(assign(of_leaders)), iter(assign_targets(of_brokers))
    return [next(led if isinstance(ask, AssignmentRequest) else aimed) for ask in asks]


def _shows(
    groups: Iterable[tuple[Key, SimulationInput]],
    protocols: Sequence[str],
    defaults: Timing,
    until: int | None,
    writes: Collection[str],
) -> Iterator[SimulationRun]:
    for key, scene in groups:
        for protocol in protocols:
            show = SimulationRun(key, protocol)
            show.begin(scene, defaults, until, writes)
            yield show


class _Faults:
    """Whatever is wrong with a group becomes its fault: one bad group never sinks the others."""

    def __init__(self, show: SimulationRun) -> None:
        self.show = show

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        code = next((code for fault, code in _CODES.items() if isinstance(error, fault)), None)
        if code is None:
            return False
        self.show.fault = (error.code if isinstance(error, InvalidGroupError) else code, str(error))
        self.show.ask = None
        return True


_CODES: dict[type[Exception], str] = {
    InvalidGroupError: "bad-group",
    BadEvent: "bad-event",
    AssignorError: "kafka-fails",
    DoesNotConvergeError: "endless",
    IllegalArgument: "kafka-refuses",
    IllegalState: "kafka-refuses",
}
"""What `rejected` calls it. Kafka's group refuses members that have no assignor in common, or one instance id."""


def _check(stage: InitialState) -> None:
    if stage.heartbeats:
        return
    for names in {stage.strategies, *(member.strategies for member in stage.members)}:
        if unknown := sorted(set(names) - ASSIGNORS.keys()):
            known = ", ".join(ASSIGNORS)
            raise InvalidGroupError(
                "unknown-assignor", f"no assignor that can be simulated is called {unknown[0]!r}: {known}"
            )


# --- what came of it ------------------------------------------------------------------------------------------


def _rows(show: SimulationRun, write: str) -> Rows:
    key = {"cluster": show.key[0], "group_id": show.key[1], "protocol": show.protocol}
    if show.fault is not None:
        code, detail = show.fault
        return [key | {"code": code, "detail": detail}] if write == PLAYED else []
    assert show.play is not None
    if write == PLAYED:
        return [key | {"rounds": _rounds(show.play), "availability": _availability(show.play)}]
    return [key | row for row in _WRITERS[write](show.play)]


def _rounds(play: GroupSimulation) -> Rows:
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
        for each in play.group.rounds
    ]


def _availability(play: GroupSimulation) -> dict[str, Any]:
    gone = play.group.ledger.gone
    longest = max((each for each, _ in gone), key=lambda each: (each.longest, -each.code), default=None)
    paused = longest is not None and longest.longest > 0
    return {
        "begin_ms": 0,
        "end_ms": play.end_ms,
        "partitions": len(gone),
        "partition_ms": sum(end - each.exists_from for each, end in gone),
        "partition_ms_not_consumed": sum(each.not_consumed for each, _ in gone),
        "longest_pause_ms": longest.longest if longest is not None else 0,
        "longest_pause_topic": play.stage.topics.names[longest.code >> 32] if longest is not None and paused else None,
        "longest_pause_partition": longest.code & 0xFFFFFFFF if longest is not None and paused else None,
        "rebalances": len(play.group.rounds),
        "members_restarted": play.event_handlers.restarted,
    }


def _trace(play: GroupSimulation) -> Rows:
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
        for seq, line in enumerate(play.group.trace or ())
    ]


def _partitions(play: GroupSimulation) -> Rows:
    names = play.stage.topics.names
    return [
        {
            "topic": names[each.code >> 32],
            "partition": each.code & 0xFFFFFFFF,
            "exists_ms": end - each.exists_from,
            "not_consumed_ms": each.not_consumed,
            "pauses": each.pauses,
            "longest_pause_ms": each.longest,
        }
        for each, end in play.group.ledger.gone
    ]


def _ownership(play: GroupSimulation) -> Rows:
    names = play.stage.topics.names
    return [
        {
            "topic": names[code >> 32],
            "partition": code & 0xFFFFFFFF,
            "from_ms": begin,
            "to_ms": end,
            "state": state,
            "member_id": owner,
        }
        for code, begin, end, state, owner in merged(play.group.ledger.intervals or ())
    ]


_WRITERS = {TRACE: _trace, PARTITIONS: _partitions, OWNERSHIP: _ownership}
