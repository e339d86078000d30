"""Computes how long partitions pause at rebalances, in partition-milliseconds, and the baseline of a replay.

If commits show the pause of the recorded rebalance, a partition that pauses in a variant does so for one such round:
the recorded pause of all partitions, without the waits for sessions of crashed members, divided by the number of
partitions that the recorded rebalance pauses (or that paused, if these are more).

    eager         all partitions pause for one round
    cooperative   partitions that are revoked pause for one round, each time; so do partitions without a live owner
    consumer      partitions that are revoked, and those without a live owner, pause for one round

If commits show nothing, the pause is what Kafka's timing lets expect (`simulation.kernel.pause_estimates`). In every
variant, waits are added: the partitions of a crashed member wait for its session (as recorded), and those of a static
member until it is back or its session times out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from spark_assign.history.kernel.replay.recorded_history import (
    CONSUMER,
    COOPERATIVE,
    EAGER,
    FOLLOW_UP,
    RESTARTED,
    RecordedGeneration,
    RecordedHistory,
    protocol_of,
)
from spark_assign.history.kernel.replay.replay_steps import MemberIdentities
from spark_assign.simulation.kernel.pause_estimates import (
    PauseCounts,
    cooperative_seconds,
    eager_seconds,
    server_seconds,
)
from spark_assign.simulation.kernel.settings import TimingConfig

_ESTIMATES = {EAGER: eager_seconds, COOPERATIVE: cooperative_seconds, CONSUMER: server_seconds}


@dataclass(slots=True)
class GenerationCost:
    """The cost of one recorded generation in one variant.

    Attributes:
        rebalances: number of rebalances; 0 if the variant avoids it.
        moved: number of partitions with another owner.
        revoked: number of partitions that live members lost.
        paused_partition_ms: partition-milliseconds.
    """

    rebalances: int = 0
    moved: int = 0
    revoked: int = 0
    paused_partition_ms: float = 0.0


# --- recorded rebalances ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RecordedRebalance:
    """A recorded rebalance with its follow-up generations.

    Attributes:
        start: index of its first generation.
        end: index after its last generation.
        protocol: its protocol.
        counts: numbers of its partitions.
        waited_ms: partition-milliseconds of waits for sessions of crashed members before it.
    """

    start: int
    end: int
    protocol: str
    counts: PauseCounts
    waited_ms: int


def count_paused(protocol: str, counts: PauseCounts) -> int:
    """Returns the number of partitions that a rebalance pauses, each as often as it pauses.

    An eager rebalance pauses all partitions; others pause those that are revoked or have no live owner.
    """
    return int(counts.partitions if protocol == EAGER else counts.partitions - counts.kept + counts.later)


def find_rebalances(history: RecordedHistory, session_ms: int) -> Iterator[RecordedRebalance]:
    """Yields all rebalances of a group after its first generation on record.

    Args:
        history: the group.
        session_ms: session timeout of members whose session timeout is not on record.
    """
    generations = history.generations
    starts = [
        index
        for index, generation in enumerate(generations)
        if index and generation.generation_kind not in (FOLLOW_UP, RESTARTED)
    ]
    for start, end in zip(starts, [*starts[1:], len(generations)], strict=False):
        previous, generation = generations[start - 1], generations[start]
        crashed = generation.crashed
        waited_ms = sum(
            previous.members[owner].session_timeout_ms or session_ms
            for owner in previous.owners.values()
            if owner in crashed
        )
        protocol = protocol_of(generation.assignor or history.assignor)
        yield RecordedRebalance(start, end, protocol, _count_partitions(history, start, end), waited_ms)


def _count_partitions(history: RecordedHistory, start: int, end: int) -> PauseCounts:
    """Counts the partitions of a rebalance by what happens to them in its rounds."""
    generations = history.generations
    generation, final = generations[start], generations[end - 1]
    previous_owners = _live_owners(generations[start - 1], generation)
    live_owners = {partition: owner for partition, owner in previous_owners.items() if partition in final.owners}
    kept, later = set(live_owners.items()), 0
    for index in range(start, end):
        before, after = generations[index - 1], generations[index]
        kept &= after.owners.items()
        later += len(_live_owners(before, after).items() - after.owners.items()) if index > start else 0
    returned = len(live_owners.items() & final.owners.items()) - len(kept)
    return PauseCounts(len(generation.members), len(final.owners), len(live_owners), len(kept), returned, later)


def _live_owners(previous: RecordedGeneration, generation: RecordedGeneration) -> dict[int, str]:
    """Returns the previous owners that are still members."""
    return {partition: owner for partition, owner in previous.owners.items() if owner in generation.members}


# --- rounds -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RoundDurations:
    """How long a rebalance round takes at each generation of a group.

    Attributes:
        round_ms: recorded duration at each generation, in milliseconds; None if `timing` applies.
        timing: the timing configuration of groups.
    """

    round_ms: list[float | None]
    timing: TimingConfig

    def rebalance_pause_ms(self, generation_index: int, protocol: str, counts: PauseCounts) -> float:
        """Returns the partition-milliseconds that a rebalance at the time of a generation pauses."""
        if not counts.members:
            return 0.0
        round_ms = self.round_ms[generation_index]
        if round_ms is None:
            timing = self.timing
            if protocol == CONSUMER:
                timing = replace(timing, heartbeat_interval_ms=timing.group_consumer_heartbeat_interval_ms)
            return float(_ESTIMATES[protocol](counts, timing)) * 1000
        return count_paused(protocol, counts) * round_ms

    def unnoticed_downtime_ms(self, generation_index: int) -> float:
        """Returns how long a member is away that returns within one generation: one round, in milliseconds."""
        round_ms = self.round_ms[generation_index]
        return self.timing.heartbeat_interval_ms if round_ms is None else round_ms


def measure_rounds(history: RecordedHistory, timing: TimingConfig) -> RoundDurations:
    """Returns the durations of a group's rounds as its record shows them."""
    round_ms: list[float | None] = [None] * len(history.generations)
    for rebalance in find_rebalances(history, timing.session_timeout_ms):
        generations = history.generations[rebalance.start : rebalance.end]
        measured = [generation.measured for generation in generations if generation.measured is not None]
        paused_partition_ms = sum(pause.paused_partition_ms for pause in measured) - rebalance.waited_ms
        num_paused = count_paused(rebalance.protocol, rebalance.counts)
        partitions = max([num_paused, *(pause.partitions for pause in measured)])
        if paused_partition_ms > 0 and partitions:
            num_generations = rebalance.end - rebalance.start
            round_ms[rebalance.start : rebalance.end] = [paused_partition_ms / partitions] * num_generations
    return RoundDurations(round_ms, timing)


# --- baseline -----------------------------------------------------------------------------------------------------


def baseline_costs(history: RecordedHistory, durations: RoundDurations) -> list[GenerationCost]:
    """Returns the baseline of a replay: the cost of each recorded generation with the configuration that was in use.

    Pauses are as measured, and estimated for rebalances without a measurement.
    """
    generations, session_ms = history.generations, durations.timing.session_timeout_ms
    identities = MemberIdentities(generations, session_ms)
    costs = [GenerationCost()]
    last_owners = _owner_identities(history, identities, 0)
    for index in range(1, len(generations)):
        previous, generation = generations[index - 1], generations[index]
        owners = _owner_identities(history, identities, index)
        moved = sum(partition in last_owners for partition, _ in owners.items() - last_owners.items())
        revoked = len(_live_owners(previous, generation).items() - generation.owners.items())
        paused_ms = 0 if generation.measured is None else generation.measured.paused_partition_ms
        costs.append(GenerationCost(int(generation.generation_kind != RESTARTED), moved, revoked, float(paused_ms)))
        last_owners |= owners
    for rebalance in find_rebalances(history, session_ms):
        if all(generation.measured is None for generation in generations[rebalance.start : rebalance.end]):
            pause_ms = durations.rebalance_pause_ms(rebalance.start, rebalance.protocol, rebalance.counts)
            costs[rebalance.start].paused_partition_ms += pause_ms + rebalance.waited_ms
    return costs


def _owner_identities(history: RecordedHistory, identities: MemberIdentities, generation_index: int) -> dict[int, str]:
    names = identities.names[generation_index]
    return {partition: names[owner] for partition, owner in history.generations[generation_index].owners.items()}
