"""One group's past in one way: each rebalance begins with what this way left after the one before.

All ways begin with the first generation on record: an assignor that looks at what is owned is told what was owned then,
and what it costs to begin is counted for no way. Members tell what today's Java clients tell
(`migration.kernel.upgrade.reported_subscription`): sticky's what they were assigned last and when, cooperative ones
what they have. Who comes anew tells nothing.

A rebalance is spared where a way has no reason for it: a static member was back in time; what came in the next
generation, as somebody had to give it up first, comes by rounds of its own, as many as this way needs; and the broker
of a KIP-848 group does nothing where nothing has changed.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_assign.groups.assignors.server import SERVER_RANGE
from spark_assign.groups.kernel.facts import WINDOW_ASSIGNORS
from spark_assign.history.kernel.replay.pause_cost import RoundDurations
from spark_assign.history.kernel.replay.recorded_history import AGAIN, FOLLOWS, FOUNDED, RESTARTED, RecordedHistory
from spark_assign.history.kernel.replay.replay_member import Seats
from spark_assign.history.kernel.replay.replay_steps import ReplayStep
from spark_assign.history.kernel.replay.replay_variants import COOPERATES, EAGER, SERVED, ReplayVariant
from spark_assign.history.kernel.replay.target_tracker import TargetTracker
from spark_assign.simulation.kernel.assignment_request import (
    AssignmentRequest,
    AssignmentResponse,
    JoinedMember,
    Topics,
)
from spark_assign.simulation.kernel.pause_estimates import PauseCounts

MOST_ROUNDS = 16
"""Cooperative members are followed for so many rounds of one rebalance."""


class ReplayError(Exception):
    """The assignor refuses a generation. Its text says why."""


@dataclass(slots=True)
class Row:
    """One past generation in one way. `rounds`: rebalances that there would have been, 0 where it is spared."""

    rounds: int = 0
    moved: int = 0
    revoked: int = 0
    stopped: float = 0.0


@dataclass(frozen=True, slots=True)
class ReplayAssignment:
    """Who has what after an assignment.

    Attributes:
        owners: of each partition who has it, by member id.
        kept: partitions that their owner had all the time, of those that living members had.
        revoked: what living members lost.
        back: of that, what its owner got back.
        later: of that, what was given up in rounds after the first two.
        rounds: how many.
    """

    owners: dict[int, str]
    kept: int
    revoked: int
    back: int = 0
    later: int = 0
    rounds: int = 1


def play(
    past: RecordedHistory,
    way: ReplayVariant,
    steps: Sequence[ReplayStep],
    clock: RoundDurations,
    trail: list[Mapping[int, str]] | None = None,
) -> Generator[Any, Any, list[Row]]:
    """Replay a group; yields what has to be assigned, and is sent the answers.

    Args:
        past: the group.
        way: the way.
        steps: its course in it.
        clock: its rounds.
        trail: gets who has what after each rebalance; null: nobody looks.

    Returns:
        a row for each generation of the past; that of the first one is empty.

    Raises:
        Fails: the assignor throws.
    """
    rows = [Row() for _ in past.thens]
    group = _group(past, way)
    last: dict[int, str] = {}
    for step in steps:
        row = rows[step.of]
        _wait(row, step, group, clock)
        if step.kind in (FOLLOWS, RESTARTED) or (step.kind == AGAIN and way.protocol == SERVED):
            continue
        before = {code: each for code, each in group.owners.items() if each in step.seats}
        people = step.people
        share = yield from group.rebalance(step, before)
        now = {code: people[each] for code, each in share.owners.items()}
        if trail is not None:
            trail.append(share.owners)
        if step.kind != FOUNDED:
            row.rounds += share.rounds
            row.moved += sum(code in last for code, _ in now.items() - last.items())
            row.revoked += share.revoked
            living = len(before.keys() & share.owners.keys())
            counts = PauseCounts(len(step.seats), len(share.owners), living, share.kept, share.back, share.later)
            row.stopped += clock.rebalance(step.of, way.protocol, counts)
        last |= now
    return rows


def _wait(row: Row, step: ReplayStep, group: _Group, clock: RoundDurations) -> None:
    """What members have that are waited for."""
    if not step.waited and not step.away:
        return
    owned: dict[str, int] = {}
    for owner in group.owners.values():
        owned[owner] = owned.get(owner, 0) + 1
    row.stopped += sum(owned.get(each, 0) * waited for each, waited in step.waited.items())
    for each, away in step.away.items():
        row.stopped += owned.get(each, 0) * (clock.unnoticed(step.of) if away is None else away)


class _Group:
    """A group in one way. `owners`: of each partition who had it after the last rebalance, by member id."""

    def __init__(self, past: RecordedHistory, way: ReplayVariant) -> None:
        self.topics, self.way = past.topics, way
        self.owners: dict[int, str] = dict(past.thens[0].owners)

    def rebalance(self, step: ReplayStep, before: dict[int, str]) -> Generator[Any, Any, ReplayAssignment]:
        """Share out; `before`: what living members have."""
        raise NotImplementedError


class _Served(_Group):
    """By the broker's protocol."""

    def __init__(self, past: RecordedHistory, way: ReplayVariant) -> None:
        super().__init__(past, way)
        self.served = TargetTracker(way.assignor, past.topics)
        self.served.begin(past.thens[0].owners, past.thens[0].partitions)

    def rebalance(self, step: ReplayStep, before: dict[int, str]) -> Generator[Any, Any, ReplayAssignment]:
        """See `_Group`."""
        self.owners = (yield from self.targets(step)) if step.seats else {}
        kept = len(before.items() & self.owners.items())
        return ReplayAssignment(self.owners, kept, len(before) - kept)

    def targets(self, step: ReplayStep) -> Generator[Any, Any, dict[int, str]]:
        """Who is to have what."""
        answer = yield self.served.ask(step.seats, step.partitions)
        self.served.answered(answer)
        return self.served.owners()


class _Classic(_Group):
    """By an assignor of the clients. `told`: of each member the generation that it was in last."""

    def __init__(self, past: RecordedHistory, way: ReplayVariant) -> None:
        super().__init__(past, way)
        self.generation = 1
        self.told = dict.fromkeys(past.thens[0].members, 1)

    def rebalance(self, step: ReplayStep, before: dict[int, str]) -> Generator[Any, Any, ReplayAssignment]:
        """See `_Group`."""
        if not step.seats:
            self.owners, self.told = {}, {}
            return ReplayAssignment({}, 0, 0)
        has = yield from self.share_out(step, before)
        lost = before.items() - has.items()
        if self.way.protocol == EAGER or not lost:
            self.owners = has
            return ReplayAssignment(has, len(before) - len(lost), len(lost))
        kept, given_up, later, rounds = before.items() - lost, lost, 0, 1
        while lost and rounds < MOST_ROUNDS:
            given = yield from self.share_out(step, has)
            lost = has.items() - given.items()
            kept, later, rounds, has = kept - lost, later + len(lost), rounds + 1, given
        self.owners = has
        back = len(given_up & has.items())
        return ReplayAssignment(has, len(kept), len(given_up) + later, back, later, rounds)

    def share_out(
        self, step: ReplayStep, has: Mapping[int, str]
    ) -> Generator[AssignmentRequest, AssignmentResponse, dict[int, str]]:
        """One round; `has`: what members tell that they have."""
        ask = _ask(self.way, step.seats, step.partitions, self.topics, has, self.told)
        answer = yield ask
        if answer.error is not None:
            raise ReplayError(f"{self.way.assignor}: {answer.error}")
        self.generation += 1
        self.told = dict.fromkeys(step.seats, self.generation)
        return {code: each.member_id for each, mine in zip(ask.members, answer.assigned, strict=True) for code in mine}


class _RangeOrRoundRobinGroup(_Classic):
    """By range or round robin (`line.Line`)."""

    def __init__(self, past: RecordedHistory, way: ReplayVariant) -> None:
        super().__init__(past, way)
        self._places: dict[object, list[list[int]]] = {}

    def share_out(
        self, step: ReplayStep, has: Mapping[int, str]
    ) -> Generator[AssignmentRequest, AssignmentResponse, dict[int, str]]:
        """See `_Classic`."""
        line = step.line
        if not line.alike:
            return (yield from super().share_out(step, has))
        if line.shape not in self._places:
            given = yield from super().share_out(step, has)
            self._places[line.shape] = line.places(given)
        return line.given(self._places[line.shape])


class _DealtByBroker(_Served):
    """By the broker's range (`line.Line`)."""

    def __init__(self, past: RecordedHistory, way: ReplayVariant) -> None:
        super().__init__(past, way)
        self._places: dict[object, list[list[int]]] = {}

    def targets(self, step: ReplayStep) -> Generator[Any, Any, dict[int, str]]:
        """See `_Served`."""
        line = step.line
        if not line.alike or line.shape not in self._places:
            given = yield from super().targets(step)
            self._places |= {line.shape: line.places(given)} if line.alike else {}
            return given
        return line.given(self._places[line.shape])


def _group(past: RecordedHistory, way: ReplayVariant) -> _Group:
    if way.protocol == SERVED:
        return (_DealtByBroker if way.assignor == SERVER_RANGE else _Served)(past, way)
    return (_RangeOrRoundRobinGroup if way.assignor in WINDOW_ASSIGNORS else _Classic)(past, way)


def _ask(
    way: ReplayVariant,
    seats: Seats,
    partitions: Mapping[int, int],
    topics: Topics,
    has: Mapping[int, str],
    told: Mapping[str, int],
) -> AssignmentRequest:
    """What the leader is asked, with members that tell what they have."""
    owned: dict[str, list[int]] = {each: [] for each in seats}
    if way.assignor in ("sticky", "cooperative-sticky"):
        for code in sorted(has):
            owned[has[code]].append(code)
    in_user_data = way.protocol != COOPERATES
    members = [
        JoinedMember(
            each,
            seat.instance,
            seat.rack,
            seat.hash,
            seat.topics,
            owned[each],
            told.get(each, -1),
            told.get(each, -1) if in_user_data else None,
        )
        for each, seat in seats.items()
    ]
    return AssignmentRequest(way.assignor, members, topics, partitions)
