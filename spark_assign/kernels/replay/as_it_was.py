"""The way that was in use, generation by generation as the record has it."""

from __future__ import annotations

from spark_assign.kernels.pauses import Counts
from spark_assign.kernels.protocol.settings import Timing
from spark_assign.kernels.replay.cost import Clock
from spark_assign.kernels.replay.course import People
from spark_assign.kernels.replay.past import FOLLOWS, RESTARTED, Past, Then
from spark_assign.kernels.replay.play import Row
from spark_assign.kernels.replay.ways import protocol_of


def as_it_was(past: Past, clock: Clock, timing: Timing) -> list[Row]:
    """A row for each generation; what stopped is as measured, where it was, and else as expected."""
    people = People(past.thens, timing.session_timeout_ms)
    rows = [Row()]
    last = _by_person(past, people, 0)
    for at in range(1, len(past.thens)):
        before, then = past.thens[at - 1], past.thens[at]
        owned = {code: each for code, each in before.owners.items() if each in then.members}
        now = _by_person(past, people, at)
        rows.append(
            Row(
                rounds=int(then.kind != RESTARTED),
                moved=sum(last.get(code, person) != person for code, person in now.items()),
                revoked=sum(then.owners.get(code) != each for code, each in owned.items()),
                stopped=float(then.measured.stopped_ms) if then.measured is not None else 0.0,
            )
        )
        last |= now
    for begin, end in _rebalances(past):
        if all(each.measured is None for each in past.thens[begin:end]):
            rows[begin].stopped += _expected(past, begin, end, clock, people)
    return rows


def _by_person(past: Past, people: People, at: int) -> dict[int, str]:
    names = people.name[at]
    return {code: names[each] for code, each in past.thens[at].owners.items()}


def _rebalances(past: Past) -> list[tuple[int, int]]:
    """Each rebalance with those that hand over what it has withheld: first generation, and the one behind the last."""
    begins = [at for at, then in enumerate(past.thens) if at and then.kind not in (FOLLOWS, RESTARTED)]
    return list(zip(begins, [*begins[1:], len(past.thens)], strict=False))


def _expected(past: Past, begin: int, end: int, clock: Clock, people: People) -> float:
    before, then, after = past.thens[begin - 1], past.thens[begin], past.thens[end - 1]
    had = {code: each for code, each in before.owners.items() if each in then.members}
    living = {code: each for code, each in had.items() if code in after.owners}
    kept, later = set(living.items()), 0
    for at in range(begin, end):
        was, now = past.thens[at - 1], past.thens[at]
        kept &= now.owners.items()
        if at > begin:
            later += sum(now.owners.get(code) != each for code, each in was.owners.items() if each in now.members)
    back = sum(after.owners.get(code) == each for code, each in living.items()) - len(kept)
    counts = Counts(len(then.members), len(after.owners), len(living), len(kept), back, later)
    waited = sum(people.session(before.members[each]) for each in before.owners.values() if _crashed(then, each))
    return clock.rebalance(begin, protocol_of(then.assignor or past.assignor), counts) + waited


def _crashed(then: Then, member_id: str) -> bool:
    return member_id in then.crashed and member_id not in then.members
