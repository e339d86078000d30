"""How long partitions stop at one rebalance, in partition-milliseconds.

Where commits show the pause of the rebalance that there was, a partition that stops does so for as long as one did
then: the silence of all, without what was waited for sessions of crashed members, divided by the partitions that were
silent.

    eager         all partitions stop, for one such round
    cooperative   what is given up stops for one round, for each time that it is; what nobody living owns as well
    consumer      what is given up, and what nobody living owns, for one round

Where commits show nothing, it is what is expected by Kafka's timing: `kernels.pauses`. Added in every way is what waits
for somebody: what a crashed member has for its session (as the record has it), and what a static member has until it is
back or its session is over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from spark_assign.kernels.pauses import Counts, cooperative_seconds, eager_seconds, server_seconds
from spark_assign.kernels.protocol.settings import Timing
from spark_assign.kernels.replay.past import Past, Then
from spark_assign.kernels.replay.ways import COOPERATES, EAGER, SERVED

_SECONDS = {EAGER: eager_seconds, COOPERATES: cooperative_seconds, SERVED: server_seconds}


@dataclass(frozen=True)
class Clock:
    """How long a round takes at each generation of a group.

    Attributes:
        rounds: of each place in the past, in milliseconds, as it was seen; null: by `timing`.
        timing: what groups are set to.
    """

    rounds: list[float | None]
    timing: Timing

    def rebalance(self, of: int, protocol: str, counts: Counts) -> float:
        """What a rebalance at the time of this generation stops."""
        if not counts.members:
            return 0.0
        round_ms = self.rounds[of]
        if round_ms is None:
            timing = self.timing
            if protocol == SERVED:
                timing = replace(timing, heartbeat_interval_ms=timing.group_consumer_heartbeat_interval_ms)
            return float(_SECONDS[protocol](counts, timing)) * 1000
        if protocol == EAGER:
            return float(counts.partitions * round_ms)
        given_up = counts.living - counts.kept + counts.later
        return float((given_up + counts.partitions - counts.living) * round_ms)

    def unnoticed(self, of: int) -> float:
        """How long a member is away that is back within one generation: one round."""
        round_ms = self.rounds[of]
        return self.timing.heartbeat_interval_ms if round_ms is None else round_ms


def clock_of(past: Past, timing: Timing) -> Clock:
    """The rounds of a group as its record shows them."""
    owned = _last_owned(past)
    rounds = [_round(then, before, timing) for then, before in zip(past.thens, owned, strict=True)]
    return Clock(rounds, timing)


def _last_owned(past: Past) -> list[Mapping[str, int]]:
    """Of each generation how many partitions everybody had before it."""
    found: list[Mapping[str, int]] = []
    counted: dict[str, int] = {}
    for then in past.thens:
        found.append(counted)
        counted = {}
        for owner in then.owners.values():
            counted[owner] = counted.get(owner, 0) + 1
    return found


def _round(then: Then, owned: Mapping[str, int], timing: Timing) -> float | None:
    if then.measured is None or not then.measured.partitions:
        return None
    session = max((each.session_timeout_ms or 0 for each in then.members.values()), default=0)
    waited = sum(owned.get(each, 0) for each in then.crashed) * (session or timing.session_timeout_ms)
    rest = then.measured.stopped_ms - waited
    return rest / then.measured.partitions if rest > 0 else None
