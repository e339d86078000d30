"""Computes how long partitions pause at rebalances, in partition-milliseconds, and the baseline of a replay.

If commits show the pause of the recorded rebalance, a partition that pauses in a variant does so for one such round:
the recorded pause of all partitions, without the waits for sessions of crashed members, divided by the number of
partitions that the recorded rebalance pauses (or that paused, if these are more).

    eager         all partitions pause for one round
    cooperative   partitions that are revoked pause for one round, each time; so do partitions without a live owner
    consumer      partitions that are revoked, and those without a live owner, pause for one round

A member that revokes partitions doesn't poll until its callback returns (`onPartitionsRevoked`), so in the last two
protocols the partitions that it keeps pause for one round too. The pause of an eager rebalance doesn't show how much of
it was spent in callbacks, so all of it counts. If the record is of the other two protocols, it shows whether kept
partitions paused.

A variant with another protocol than the recorded one adds its own messages: in a cooperative group, the new owner of a
revoked partition learns of the next round with its next heartbeat; with the broker's protocol, every new owner does,
half an interval later on average.

Example: three members own four partitions each, and a round takes 4 s. A fourth member joins, and each member revokes
one partition. eager: 12 * 4 s = 48 partition-seconds; cooperative: (3 + 9) * 4 s + 3 * 3 s = 57.

If commits show nothing, the pause is what Kafka's timing lets expect (`simulation.kernel.pause_estimates`). In every
variant, waits are added: the partitions of a crashed member wait for its session (as recorded), and those of a static
member until it is back or its session times out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
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


def count_paused(protocol: str, counts: PauseCounts, *, is_blocking: bool) -> int:
    """Returns the number of partitions that a rebalance pauses, each as often as it pauses.

    An eager rebalance pauses all partitions; others pause those that are revoked or have no live owner, and if
    `is_blocking`, those that a member keeps while it revokes others.
    """
    if protocol == EAGER:
        return int(counts.partitions)
    return int(counts.partitions - counts.kept + counts.later + (counts.blocked if is_blocking else 0))


def count_blocked(owned: Collection[tuple[int, str]], lost: Collection[tuple[int, str]]) -> int:
    """Returns the number of partitions that members keep in a round while they revoke others.

    Args:
        owned: partition and owner, before the round.
        lost: those of them that their owner revokes.
    """
    revoking = {owner for _, owner in lost}
    return sum(owner in revoking for _, owner in owned) - len(lost)


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
    kept, later, blocked = set(live_owners.items()), 0, 0
    for index in range(start, end):
        before, after = generations[index - 1], generations[index]
        kept &= after.owners.items()
        owned = _live_owners(before, after).items()
        lost = owned - after.owners.items()
        later += len(lost) if index > start else 0
        blocked += count_blocked(owned, lost)
    returned = len(live_owners.items() & final.owners.items()) - len(kept)
    return PauseCounts(
        len(generation.members), len(final.owners), len(live_owners), len(kept), returned, later, blocked
    )


def _live_owners(previous: RecordedGeneration, generation: RecordedGeneration) -> dict[int, str]:
    """Returns the previous owners that are still members."""
    return {partition: owner for partition, owner in previous.owners.items() if owner in generation.members}


# --- rounds -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MeasuredRound:
    """A round of a recorded rebalance, as commits show it.

    Attributes:
        round_ms: how long a partition paused, in milliseconds.
        protocol: the recorded protocol.
        is_blocking: whether members that revoke partitions stop those that they keep, or might.
    """

    round_ms: float
    protocol: str
    is_blocking: bool


@dataclass(frozen=True)
class RoundDurations:
    """How long a rebalance round takes at each generation of a group.

    Attributes:
        rounds: the recorded round at each generation; None if `timing` applies.
        timing: the timing configuration of groups.
    """

    rounds: list[MeasuredRound | None]
    timing: TimingConfig

    def rebalance_pause_ms(self, generation_index: int, protocol: str, counts: PauseCounts) -> float:
        """Returns the partition-milliseconds that a rebalance at the time of a generation pauses."""
        if not counts.members:
            return 0.0
        measured, timing = self.rounds[generation_index], self.timing
        if measured is None:
            if protocol == CONSUMER:
                timing = replace(timing, heartbeat_interval_ms=timing.group_consumer_heartbeat_interval_ms)
            return float(_ESTIMATES[protocol](counts, timing)) * 1000
        heartbeats_ms = 0.0
        if protocol != measured.protocol and protocol == COOPERATIVE:
            heartbeats_ms = (counts.living - counts.kept + counts.later) * timing.heartbeat_interval_ms
        elif protocol != measured.protocol and protocol == CONSUMER:
            heartbeats_ms = (counts.partitions - counts.kept) * timing.group_consumer_heartbeat_interval_ms / 2
        paused = count_paused(protocol, counts, is_blocking=measured.is_blocking)
        return paused * measured.round_ms + heartbeats_ms

    def unnoticed_downtime_ms(self, generation_index: int) -> float:
        """Returns how long a member is away that returns within one generation: one round, in milliseconds."""
        measured = self.rounds[generation_index]
        return self.timing.heartbeat_interval_ms if measured is None else measured.round_ms


def measure_rounds(history: RecordedHistory, timing: TimingConfig) -> RoundDurations:
    """Returns the durations of a group's rounds as its record shows them."""
    rounds: list[MeasuredRound | None] = [None] * len(history.generations)
    for rebalance in find_rebalances(history, timing.session_timeout_ms):
        generations = history.generations[rebalance.start : rebalance.end]
        measured = [generation.measured for generation in generations if generation.measured is not None]
        paused_partition_ms = sum(pause.paused_partition_ms for pause in measured) - rebalance.waited_ms
        protocol, counts = rebalance.protocol, rebalance.counts
        measured_partitions = max((pause.partitions for pause in measured), default=0)
        is_blocking = protocol == EAGER or measured_partitions > count_paused(protocol, counts, is_blocking=False)
        partitions = max(count_paused(protocol, counts, is_blocking=is_blocking), measured_partitions)
        if paused_partition_ms > 0 and partitions:
            measured_round = MeasuredRound(paused_partition_ms / partitions, protocol, is_blocking)
            rounds[rebalance.start : rebalance.end] = [measured_round] * (rebalance.end - rebalance.start)
    return RoundDurations(rounds, timing)


# --- baseline -----------------------------------------------------------------------------------------------------


def baseline_costs(
    history: RecordedHistory, identities: MemberIdentities, durations: RoundDurations
) -> list[GenerationCost]:
    """Returns the baseline of a replay: the cost of each recorded generation with the configuration that was in use.

    Pauses are as measured, and estimated for rebalances without a measurement.
    """
    generations, costs = history.generations, [GenerationCost()]
    last_owners = _owner_identities(history, identities, 0)
    for index in range(1, len(generations)):
        previous, generation = generations[index - 1], generations[index]
        owners = _owner_identities(history, identities, index)
        moved = sum(partition in last_owners for partition, _ in owners.items() - last_owners.items())
        revoked = len(_live_owners(previous, generation).items() - generation.owners.items())
        paused_ms = 0 if generation.measured is None else generation.measured.paused_partition_ms
        costs.append(GenerationCost(int(generation.generation_kind != RESTARTED), moved, revoked, float(paused_ms)))
        last_owners |= owners
    for rebalance in find_rebalances(history, identities.session_ms):
        if all(generation.measured is None for generation in generations[rebalance.start : rebalance.end]):
            pause_ms = durations.rebalance_pause_ms(rebalance.start, rebalance.protocol, rebalance.counts)
            costs[rebalance.start].paused_partition_ms += pause_ms + rebalance.waited_ms
    return costs


def _owner_identities(history: RecordedHistory, identities: MemberIdentities, generation_index: int) -> dict[int, str]:
    names = identities.names[generation_index]
    return {partition: names[owner] for partition, owner in history.generations[generation_index].owners.items()}
