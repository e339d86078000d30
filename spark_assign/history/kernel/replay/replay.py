"""Every past rebalance of the groups of a task, by other assignors and protocols, static or not.

A row of the answer is tagged by its `kind`:

    replayed   a group in one way: how many rebalances there would have been, and what they would have cost
    replay     one past rebalance in one way
    rejected   code, detail: a group that nothing can be said of, or a way in which its assignor throws
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any

import pyarrow as pa

from spark_assign.groups.kernel.tagged_rows import tagged, tagged_rows
from spark_assign.history.kernel.replay.baseline import as_it_was
from spark_assign.history.kernel.replay.pause_cost import clock_of
from spark_assign.history.kernel.replay.recorded_history import RESTARTED, RecordedHistory, Refused
from spark_assign.history.kernel.replay.replay_group import ReplayError, Row, play
from spark_assign.history.kernel.replay.replay_steps import course_of
from spark_assign.history.kernel.replay.replay_variants import ASSIGNORS, ReplayVariant, protocol_of
from spark_assign.history.kernel.replay.reproduce_recorded import ReproductionResult, find_again
from spark_assign.history.kernel.thresholds import HistoryThresholds
from spark_assign.simulation.kernel.settings import Timing
from spark_assign.simulation.kernel.simulate_groups import answers

OF_GROUP, OF_REBALANCE, REJECTED = KINDS = ("replayed", "replay", "rejected")

_TEXT, _LONG, _INT, _BOOL = pa.string(), pa.int64(), pa.int32(), pa.bool_()
REPLAYED = pa.schema(
    {
        **dict.fromkeys(("cluster", "group_id", "kind", "assignor", "protocol"), _TEXT),
        **dict.fromkeys(("static", "recorded", "happens"), _BOOL),
        **dict.fromkeys(("rebalances", "replayed", "moved", "revoked", "stopped_ms", "saved_ms"), _LONG),
        "generation": _INT,
        "at": pa.timestamp("us", tz="UTC"),
        **dict.fromkeys(("note", "code", "detail"), _TEXT),
    }
)
"""Everything that is said (`tables.history`)."""

GROUPS_AT_ONCE = 50
"""So many groups are replayed side by side; it bounds what a worker holds."""


@dataclass(frozen=True)
class ReplayParams:
    """What is asked.

    Attributes:
        assignors: by their names here.
        static: whether all members are static: yes, no, or both.
        timing: what groups are set to where the record does not say it.
        asked: when a partition is silent.
    """

    assignors: tuple[str, ...] = ASSIGNORS
    static: tuple[bool, ...] = (False, True)
    timing: Timing = field(default_factory=Timing)
    asked: HistoryThresholds = field(default_factory=HistoryThresholds)

    @property
    def ways(self) -> list[ReplayVariant]:
        """All ways."""
        return [ReplayVariant(assignor, static) for assignor in self.assignors for static in self.static]


def replay(told: Iterable[RecordedHistory | Refused], asked: ReplayParams) -> Iterator[pa.Table]:
    """Answer for these groups, in tables with the columns of `REPLAYED`."""
    going = iter(told)
    while some := list(islice(going, GROUPS_AT_ONCE)):
        groups = [_Group(each, asked) for each in some if isinstance(each, RecordedHistory)]
        refused = [asdict(each) for each in some if isinstance(each, Refused)]
        _play([show for each in groups for show in each.shows.values()])
        for each, found in zip(groups, find_again([each.past for each in groups]), strict=True):
            each.found = found
        yield tagged_rows(OF_GROUP, [row for each in groups for row in each.rows()], REPLAYED)
        yield _replays(groups)
        yield tagged_rows(REJECTED, [*refused, *(row for each in groups for row in each.faults())], REPLAYED)


def _replays(groups: Iterable[_Group]) -> pa.Table:
    columns: dict[str, list[Any]] = {name: [] for name in _OF_REBALANCE}
    for each in groups:
        each.replays(columns)
    arrays = {name: pa.array(values, REPLAYED.field(name).type) for name, values in columns.items()}
    return tagged(OF_REBALANCE, arrays, len(columns["at"]), REPLAYED)


_OF_REBALANCE = (
    *("cluster", "group_id", "generation", "assignor", "static", "at"),
    *("happens", "moved", "revoked", "stopped_ms"),
)


# --- playing ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Show:
    """A group in one way. `ask`: what has to be assigned; `rows`: what came of it; `fault`: why nothing did."""

    going: Generator[Any, Any, list[Row]]
    ask: Any = None
    rows: list[Row] | None = None
    fault: str | None = None

    def go_on(self, answer: Any) -> None:
        """On to the next assignment."""
        try:
            self.ask = self.going.send(answer)
        except StopIteration as end:
            self.ask, self.rows = None, end.value
        except ReplayError as error:
            self.ask, self.fault = None, str(error)


def _play(shows: Sequence[_Show]) -> None:
    """Play them side by side: what all of them ask is answered at once."""
    for show in shows:
        show.go_on(None)
    while going := [show for show in shows if show.ask is not None]:
        for show, answer in zip(going, answers([show.ask for show in going]), strict=True):
            show.go_on(answer)


class _Group:
    """One group: its past, its ways, and its rows."""

    def __init__(self, past: RecordedHistory, asked: ReplayParams) -> None:
        self.past = past
        self.clock = clock_of(past, asked.timing)
        self.was = ReplayVariant(past.assignor, past.static)
        self.recorded = as_it_was(past, self.clock, asked.timing)
        self.found: Mapping[int, ReproductionResult] = {}
        courses = {
            static: course_of(past, static=static, session_ms=asked.timing.session_timeout_ms)
            for static in asked.static
        }
        self.shows = {
            way: _Show(play(past, way, courses[way.static], self.clock)) for way in asked.ways if way != self.was
        }

    def _named(self) -> dict[str, Any]:
        return {"cluster": self.past.cluster, "group_id": self.past.group_id}

    def _ways(self) -> Iterator[tuple[ReplayVariant, list[Row]]]:
        yield self.was, self.recorded
        for way, show in self.shows.items():
            if show.rows is not None:
                yield way, show.rows

    def rows(self) -> Iterator[dict[str, Any]]:
        """The group in each way."""
        stopped = _stopped(self.recorded)
        for way, rows in self._ways():
            recorded = way is self.was
            yield self._named() | {
                "assignor": way.assignor,
                "protocol": protocol_of(way.assignor),
                "static": way.static,
                "recorded": recorded,
                "rebalances": sum(each.rounds for each in rows),
                "replayed": self._found_again() if recorded else self._rebalances(),
                "moved": sum(each.moved for each in rows),
                "stopped_ms": _stopped(rows),
                "saved_ms": None if recorded else stopped - _stopped(rows),
                "note": self._note(recorded=recorded),
            }

    def _rebalances(self) -> int:
        return sum(each.rounds for each in self.recorded)

    def _unlike(self) -> list[tuple[int, str]]:
        return [(at, each.why) for at, each in sorted(self.found.items()) if at and each.why is not None]

    def _found_again(self) -> int:
        return self._rebalances() - len(self._unlike())

    def _note(self, *, recorded: bool) -> str:
        missing = sum(each.missing for each in self.past.thens)
        said = [f"{missing} generations between are not on record"] if missing else []
        if recorded:
            unlike = self._unlike()
            if unlike:
                at, why = unlike[0]
                where = f"generation {self.past.thens[at].number}"
                many = f"{len(unlike)} of {self._rebalances()} rebalances"
                said.append(f"asked again, its assignor says something else of {many}, first of {where}: {why}")
            several = {each.assignor for each in self.past.thens if each.assignor}
            if len(several) > 1:
                said.append(f"it has run with {', '.join(sorted(several))}")
        return "; ".join(said)

    def replays(self, columns: dict[str, list[Any]]) -> None:
        """Each rebalance in each way, added to columns."""
        thens = self.past.thens
        for way, rows in self._ways():
            some = [
                (then, row)
                for then, row in zip(thens[1:], rows[1:], strict=True)
                if then.kind != RESTARTED or row.rounds or row.stopped
            ]
            for name, value in (*self._named().items(), ("assignor", way.assignor), ("static", way.static)):
                columns[name] += [value] * len(some)
            columns["generation"] += [then.number for then, _ in some]
            columns["at"] += [then.at_ms * 1000 for then, _ in some]
            columns["happens"] += [row.rounds > 0 for _, row in some]
            columns["moved"] += [row.moved for _, row in some]
            columns["revoked"] += [row.revoked for _, row in some]
            columns["stopped_ms"] += [round(row.stopped) for _, row in some]

    def faults(self) -> Iterator[dict[str, Any]]:
        """Ways in which its assignor throws."""
        for way, show in self.shows.items():
            if show.fault is not None:
                membership = "static" if way.static else "dynamic"
                yield self._named() | {"code": "kafka-fails", "detail": f"{show.fault} ({membership} members)"}


def _stopped(rows: Iterable[Row]) -> int:
    return sum(round(each.stopped) for each in rows)
