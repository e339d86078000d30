"""How long partitions stop at one rebalance, in partition-milliseconds.

Where commits show the pause of the rebalance that there was, a partition that stops does so for as long as one did
then: the silence of all, without what was waited for sessions of crashed members, divided by the partitions that such a
rebalance stops (or that were silent, if these are more).

    eager         all partitions stop, for one such round
    cooperative   what is given up stops for one round, for each time that it is; what nobody living owns as well
    consumer      what is given up, and what nobody living owns, for one round

Where commits show nothing, it is what is expected by Kafka's timing: `simulation.kernel.pause_estimates`. Added in
every way is
what waits for somebody: what a crashed member has for its session (as the record has it), and what a static member has
until it is back or its session is over.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from spark_assign.history.kernel.replay.recorded_history import RecordedHistory
from spark_assign.history.kernel.replay.recorded_rebalances import recorded, stopping
from spark_assign.history.kernel.replay.replay_variants import COOPERATES, EAGER, SERVED
from spark_assign.simulation.kernel.pause_estimates import (
    PauseCounts,
    cooperative_seconds,
    eager_seconds,
    server_seconds,
)
from spark_assign.simulation.kernel.settings import Timing

_SECONDS = {EAGER: eager_seconds, COOPERATES: cooperative_seconds, SERVED: server_seconds}


@dataclass(frozen=True)
class RoundDurations:
    """How long a round takes at each generation of a group.

    Attributes:
        rounds: of each place in the past, in milliseconds, as it was seen; null: by `timing`.
        timing: what groups are set to.
    """

    rounds: list[float | None]
    timing: Timing

    def rebalance(self, of: int, protocol: str, counts: PauseCounts) -> float:
        """What a rebalance at the time of this generation stops."""
        if not counts.members:
            return 0.0
        round_ms = self.rounds[of]
        if round_ms is None:
            timing = self.timing
            if protocol == SERVED:
                timing = replace(timing, heartbeat_interval_ms=timing.group_consumer_heartbeat_interval_ms)
            return float(_SECONDS[protocol](counts, timing)) * 1000
        return stopping(protocol, counts) * round_ms

    def unnoticed(self, of: int) -> float:
        """How long a member is away that is back within one generation: one round."""
        round_ms = self.rounds[of]
        return self.timing.heartbeat_interval_ms if round_ms is None else round_ms


def clock_of(past: RecordedHistory, timing: Timing) -> RoundDurations:
    """The rounds of a group as its record shows them."""
    rounds: list[float | None] = [None] * len(past.thens)
    for each in recorded(past, timing.session_timeout_ms):
        seen = [then.measured for then in past.thens[each.begin : each.end] if then.measured is not None]
        stopped = sum(one.stopped_ms for one in seen) - each.waited_ms
        partitions = max(each.stopping, *(one.partitions for one in seen)) if seen else 0
        if stopped > 0 and partitions:
            rounds[each.begin : each.end] = [stopped / partitions] * (each.end - each.begin)
    return RoundDurations(rounds, timing)
