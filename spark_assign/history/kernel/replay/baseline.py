"""The way that was in use, generation by generation as the record has it."""

from __future__ import annotations

from spark_assign.history.kernel.replay.pause_cost import RoundDurations
from spark_assign.history.kernel.replay.recorded_history import RESTARTED, RecordedHistory
from spark_assign.history.kernel.replay.recorded_rebalances import recorded
from spark_assign.history.kernel.replay.replay_group import Row
from spark_assign.history.kernel.replay.replay_steps import MemberIdentities
from spark_assign.simulation.kernel.settings import Timing


def as_it_was(past: RecordedHistory, clock: RoundDurations, timing: Timing) -> list[Row]:
    """A row for each generation; what stopped is as measured, where it was, and else as expected."""
    people = MemberIdentities(past.thens, timing.session_timeout_ms)
    rows = [Row()]
    last = _by_person(past, people, 0)
    for at in range(1, len(past.thens)):
        before, then = past.thens[at - 1], past.thens[at]
        owned = {code: each for code, each in before.owners.items() if each in then.members}
        now = _by_person(past, people, at)
        rows.append(
            Row(
                rounds=int(then.kind != RESTARTED),
                moved=sum(code in last for code, _ in now.items() - last.items()),
                revoked=len(owned.items() - then.owners.items()),
                stopped=float(then.measured.stopped_ms) if then.measured is not None else 0.0,
            )
        )
        last |= now
    for each in recorded(past, timing.session_timeout_ms):
        if all(then.measured is None for then in past.thens[each.begin : each.end]):
            rows[each.begin].stopped += clock.rebalance(each.begin, each.protocol, each.counts) + each.waited_ms
    return rows


def _by_person(past: RecordedHistory, people: MemberIdentities, at: int) -> dict[int, str]:
    names = people.name[at]
    return {code: names[each] for code, each in past.thens[at].owners.items()}
