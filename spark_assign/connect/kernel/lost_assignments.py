"""What happens to items whose worker is gone (`IncrementalCooperativeAssignor.handleLostAssignments`).

Principle: a worker that leaves may be back soon, so its items wait for it, up to `scheduled.rebalance.max.delay.ms`.
Workers that come without any load in the meantime are candidates; when the delay ends, the candidates that are still
there get what is lost, in turn; without candidates it is spread like new items.

Example (max delay 5 min): A, B and C have two tasks each and C leaves. Round 1: nothing is assigned, delay 5 min. C
comes back after 1 min with nothing: round 2 makes it a candidate, delay 4 min. Round 3, 4 min later: C gets both.

Where Java's hash order matters: candidates found in one round are walked as a `HashSet` of their ids.
"""

from __future__ import annotations

from spark_assign.connect.kernel.assignor_state import AssignorState
from spark_assign.connect.kernel.connector_task_ids import parted
from spark_assign.connect.kernel.hash_set_order import walk
from spark_assign.connect.kernel.rebalance_input import RebalanceInput
from spark_assign.connect.kernel.worker_load import WorkerLoads


def handle_lost(
    lost: list[int],
    round: RebalanceInput,
    connectors: WorkerLoads,
    tasks: WorkerLoads,
    memory: AssignorState,
    *,
    at_once_without_delay: bool,
) -> list[int]:
    """Decide about what is lost.

    Args:
        lost: connectors and tasks that were assigned, are configured, and nobody reports; sorted.
        round: what the assignor is told.
        connectors: what workers have; candidates may get lost ones.
        tasks: likewise.
        memory: of the leader; its candidates, schedule and delay are brought up to date.
        at_once_without_delay: whether a maximal delay of 0 makes lost items new at once (Kafka 4.x). In 2.6 it does
            not: they wait for the next round, which nobody is told to begin.

    Returns:
        the lost items that are to be spread like new ones.
    """
    if not lost and not memory.revoked_in_previous:
        memory.end_delay()
        return []
    now, scheduled = round.now_ms, memory.scheduled_rebalance_ms
    if scheduled <= 0 and set(memory.members).issubset(round.workers):
        return lost  # nobody has gone: some worker did not learn what it was given
    if at_once_without_delay and round.max_delay_ms == 0:
        return lost
    if 0 < scheduled <= now:
        dealt = _deal_to_candidates(lost, round, connectors, tasks, memory)
        memory.end_delay()
        memory.revoked_in_previous = False
        return [] if dealt else lost
    _add_candidates(round, connectors, tasks, memory)
    memory.delay_ms = min(scheduled - now, round.max_delay_ms) if now < scheduled else round.max_delay_ms
    memory.scheduled_rebalance_ms = now + memory.delay_ms
    return []


def _deal_to_candidates(
    lost: list[int], round: RebalanceInput, connectors: WorkerLoads, tasks: WorkerLoads, memory: AssignorState
) -> bool:
    """Hand out what is lost in turn, connectors and tasks each from the first candidate; false if there is none."""
    at = {worker: place for place, worker in enumerate(round.workers)}
    present = [at[worker] for worker in memory.candidates if worker in at]
    if not present:
        return False
    for loads, items in zip((connectors, tasks), parted(lost), strict=True):
        for number, item in enumerate(items):
            loads.give(present[number % len(present)], item)
    return True


def _add_candidates(round: RebalanceInput, connectors: WorkerLoads, tasks: WorkerLoads, memory: AssignorState) -> None:
    """Workers without any load come after the candidates that there are."""
    empty = [
        worker
        for worker, some, others in zip(round.workers, connectors.items, tasks.items, strict=True)
        if not some and not others
    ]
    found = walk(empty, round.worker_spread)
    memory.candidates = list(dict.fromkeys([*memory.candidates, *found]))
