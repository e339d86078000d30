"""One group's past in one way: each rebalance begins with what this way left after the one before.

All ways begin with the first generation on record: an assignor that looks at what is owned is told what was owned then,
and what it costs to begin is counted for no way. Members tell what today's Java clients tell (`kernels.upgrade.tells`):
sticky's what they were assigned last and when, cooperative ones what they have. Who comes anew tells nothing.

A rebalance is spared where a way has no reason for it: a static member was back in time; what came in the next
generation, as somebody had to give it up first, comes by rounds of its own, as many as this way needs; and the broker
of a KIP-848 group does nothing where nothing has changed.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_assign.kernels.pauses import Counts
from spark_assign.kernels.protocol.leader_asks import Answer, Ask, Joined, Topics
from spark_assign.kernels.replay.cost import Clock
from spark_assign.kernels.replay.course import Seats, Step
from spark_assign.kernels.replay.past import AGAIN, FOLLOWS, FOUNDED, RESTARTED, Past
from spark_assign.kernels.replay.served import Served
from spark_assign.kernels.replay.ways import COOPERATES, EAGER, SERVED, Way

MOST_ROUNDS = 16
"""Cooperative members are followed for so many rounds of one rebalance."""


class Fails(Exception):
    """The assignor refuses a generation. Its text says why."""


@dataclass(slots=True)
class Row:
    """One past generation in one way. `rounds`: rebalances that there would have been, 0 where it is spared."""

    rounds: int = 0
    moved: int = 0
    revoked: int = 0
    stopped: float = 0.0


@dataclass(frozen=True, slots=True)
class Share:
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


def play(past: Past, way: Way, steps: Sequence[Step], clock: Clock) -> Generator[Any, Any, list[Row]]:
    """Replay a group; yields what has to be assigned, and is sent the answers.

    Returns:
        a row for each generation of the past; that of the first one is empty.

    Raises:
        Fails: the assignor throws.
    """
    rows = [Row() for _ in past.thens]
    group = _Served(past, way) if way.protocol == SERVED else _Classic(past, way)
    last: dict[int, str] = {}
    for step in steps:
        row = rows[step.of]
        _wait(row, step, group, clock)
        if step.kind in (FOLLOWS, RESTARTED) or (step.kind == AGAIN and way.protocol == SERVED):
            continue
        before = {code: each for code, each in group.owners.items() if each in step.seats}
        people = {each: seat.person for each, seat in step.seats.items()}
        share = yield from group.rebalance(step, before)
        if step.kind != FOUNDED:
            row.rounds += share.rounds
            row.moved += sum(last.get(code, people[each]) != people[each] for code, each in share.owners.items())
            row.revoked += share.revoked
            counts = Counts(
                len(step.seats), len(share.owners), _still(before, share), share.kept, share.back, share.later
            )
            row.stopped += clock.rebalance(step.of, way.protocol, counts)
        last |= {code: people[each] for code, each in share.owners.items()}
    return rows


def _still(before: Mapping[int, str], share: Share) -> int:
    """Of what living members had, what somebody has now."""
    return sum(code in share.owners for code in before)


def _wait(row: Row, step: Step, group: _Group, clock: Clock) -> None:
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

    def __init__(self, past: Past, way: Way) -> None:
        self.topics, self.way = past.topics, way
        self.owners: dict[int, str] = dict(past.thens[0].owners)

    def rebalance(self, step: Step, before: dict[int, str]) -> Generator[Any, Any, Share]:
        """Share out; `before`: what living members have."""
        raise NotImplementedError


class _Served(_Group):
    """By the broker's protocol."""

    def __init__(self, past: Past, way: Way) -> None:
        super().__init__(past, way)
        self.served = Served(way.assignor, past.topics)
        self.served.begin(past.thens[0].owners, past.thens[0].partitions)

    def rebalance(self, step: Step, before: dict[int, str]) -> Generator[Any, Any, Share]:
        """See `_Group`."""
        if step.seats:
            answer = yield self.served.ask(step.seats, step.partitions)
            self.served.answered(answer)
        else:
            self.served.targets = {}
        self.owners = self.served.owners()
        kept = sum(self.owners.get(code) == each for code, each in before.items())
        return Share(self.owners, kept, len(before) - kept)


class _Classic(_Group):
    """By an assignor of the clients. `told`: of each member the generation that it was in last."""

    def __init__(self, past: Past, way: Way) -> None:
        super().__init__(past, way)
        self.generation = 1
        self.told = dict.fromkeys(past.thens[0].members, 1)

    def rebalance(self, step: Step, before: dict[int, str]) -> Generator[Any, Any, Share]:
        """See `_Group`."""
        if not step.seats:
            self.owners, self.told = {}, {}
            return Share({}, 0, 0)
        has, kept, revoked, later, number = before, set(before.items()), 0, 0, 0
        given_up: dict[int, str] = {}
        for number in range(1, MOST_ROUNDS + 1):
            given = yield from self._share_out(step, has)
            lost = {code: each for code, each in has.items() if given.get(code) != each}
            kept -= lost.items()
            given_up |= lost if number == 1 else {}
            revoked += len(lost)
            later += len(lost) if number > 1 else 0
            has = given
            if not lost or self.way.protocol == EAGER:
                break
        self.owners = has
        back = sum(has.get(code) == each for code, each in given_up.items())
        return Share(has, len(kept), revoked, back, later, number)

    def _share_out(self, step: Step, has: Mapping[int, str]) -> Generator[Ask, Answer, dict[int, str]]:
        ask = _ask(self.way, step.seats, step.partitions, self.topics, has, self.told)
        answer = yield ask
        if answer.error is not None:
            raise Fails(f"{self.way.assignor}: {answer.error}")
        self.generation += 1
        self.told = dict.fromkeys(step.seats, self.generation)
        return {code: each.member_id for each, mine in zip(ask.members, answer.assigned, strict=True) for code in mine}


def _ask(
    way: Way,
    seats: Seats,
    partitions: Mapping[int, int],
    topics: Topics,
    has: Mapping[int, str],
    told: Mapping[str, int],
) -> Ask:
    """What the leader is asked, with members that tell what they have."""
    owned: dict[str, list[int]] = {each: [] for each in seats}
    if way.assignor in ("sticky", "cooperative-sticky"):
        for code in sorted(has):
            owned[has[code]].append(code)
    in_user_data = way.protocol != COOPERATES
    members = [
        Joined(
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
    return Ask(way.assignor, members, topics, partitions)
