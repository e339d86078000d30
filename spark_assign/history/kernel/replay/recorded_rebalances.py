"""What each recorded rebalance gave up and handed on, counted; those that hand over later are one with the first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from spark_assign.history.kernel.replay.recorded_history import FOLLOWS, RESTARTED, RecordedGeneration, RecordedHistory
from spark_assign.history.kernel.replay.replay_variants import EAGER, protocol_of
from spark_assign.simulation.kernel.pause_estimates import PauseCounts


@dataclass(frozen=True)
class RecordedRebalance:
    """A rebalance.

    Attributes:
        begin, end: places in the past of its first generation, and of the one behind its last.
        protocol: by which it went.
        counts: of its partitions.
        waited_ms: partition-milliseconds that crashed members' sessions were waited for before it.
    """

    begin: int
    end: int
    protocol: str
    counts: PauseCounts
    waited_ms: int

    @property
    def stopping(self) -> int:
        """How many partitions stop in it, once for each time."""
        return stopping(self.protocol, self.counts)


def stopping(protocol: str, counts: PauseCounts) -> int:
    """How many partitions stop in a rebalance, once for each time: all, or what is given up or owned by nobody."""
    if protocol == EAGER:
        return int(counts.partitions)
    return int(counts.living - counts.kept + counts.later + counts.partitions - counts.living)


def recorded(past: RecordedHistory, session_ms: int) -> Iterator[RecordedRebalance]:
    """All rebalances of a group after its first generation on record.

    Args:
        past: the group.
        session_ms: of members whose session timeout is not on record.
    """
    begins = [at for at, then in enumerate(past.thens) if at and then.kind not in (FOLLOWS, RESTARTED)]
    for begin, end in zip(begins, [*begins[1:], len(past.thens)], strict=False):
        before, then = past.thens[begin - 1], past.thens[begin]
        crashed = then.crashed
        waited = sum(
            before.members[each].session_timeout_ms or session_ms for each in before.owners.values() if each in crashed
        )
        yield RecordedRebalance(
            begin, end, protocol_of(then.assignor or past.assignor), _counts(past, begin, end), waited
        )


def _counts(past: RecordedHistory, begin: int, end: int) -> PauseCounts:
    before, then, after = past.thens[begin - 1], past.thens[begin], past.thens[end - 1]
    had = _living(before, then)
    living = {code: each for code, each in had.items() if code in after.owners}
    kept, later = set(living.items()), 0
    for at in range(begin, end):
        was, now = past.thens[at - 1], past.thens[at]
        kept &= now.owners.items()
        later += len(_living(was, now).items() - now.owners.items()) if at > begin else 0
    back = len(living.items() & after.owners.items()) - len(kept)
    return PauseCounts(len(then.members), len(after.owners), len(living), len(kept), back, later)


def _living(before: RecordedGeneration, then: RecordedGeneration) -> dict[int, str]:
    """What members had that are still there."""
    return {code: each for code, each in before.owners.items() if each in then.members}
