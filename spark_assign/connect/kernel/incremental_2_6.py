"""Kafka's `IncrementalCooperativeAssignor` as it was from 2.6.2 to 3.2 (and in 2.7.1 and later): the profile of 2.6.

Principle and steps are those of `incremental`. What is different:
    - Balance comes only with a worker that has nothing: while there is one, the others give up what they have beyond
      the average of what is reported, rounded up. Nothing else is ever evened out.
    - A round that took something for balance is followed by one that does not, and so is the end of a delay
      (`can_revoke`). There is no growing delay.
    - New items are spread over loads that still contain what is being taken.
    - Deleted items of a worker that also reports duplicated ones are not revoked: it goes on running them.
    - A maximal delay of 0 does not make lost items new at once.

Example: A runs t0 t1 t2 t3, B runs t4, and C joins. 5 tasks over 3 workers are 2 at most: A gives up t0 and t1.

Where Java's hash order matters: the candidates (`lost_assignments`), and which items are at the front of a list
(`serialized_order`).
"""

from __future__ import annotations

from dataclasses import replace

from spark_assign.connect.kernel.connector_task_ids import is_task
from spark_assign.connect.kernel.incremental import close_round, compare, held_loads, of_each_worker, spread_new
from spark_assign.connect.kernel.lost_assignments import handle_lost
from spark_assign.connect.kernel.rebalance_input import RebalanceInput, RebalanceResult
from spark_assign.connect.kernel.worker_load import WorkerLoads


def rebalance(round: RebalanceInput) -> RebalanceResult:
    """Plan one round."""
    found = compare(round)
    memory = replace(round.memory, revoked_in_previous=False)
    connectors, tasks = held_loads(round)
    if found.deleted:
        connectors, tasks = connectors.without(found.deleted), tasks.without(found.deleted)
    revoked = of_each_worker(round, found.deleted) | of_each_worker(round, found.duplicated)

    as_new = handle_lost(found.lost, round, connectors, tasks, memory, at_once_without_delay=False)
    if memory.delay_ms == 0 and (memory.can_revoke or found.revocation_failed):
        taken = _revoke_for_new_workers(round, found.active, connectors, tasks)
        for worker, items in taken.items():
            revoked.setdefault(worker, set()).update(items)
        memory.can_revoke = not taken
    else:
        memory.can_revoke = memory.delay_ms == 0
    spread_new(found.created, as_new, round, connectors, tasks)

    # Deleted items that nobody reports count as revoked, too: a lost worker may come back with them.
    return close_round(found, round, connectors, tasks, revoked, memory, found.deleted - found.active)


def _revoke_for_new_workers(
    round: RebalanceInput, active: set[int], connectors: WorkerLoads, tasks: WorkerLoads
) -> dict[int, set[int]]:
    """What workers give up for those that have nothing: of each kind what is beyond the rounded-up average."""
    loaded = [at for at, (some, others) in enumerate(zip(connectors.held, tasks.held, strict=True)) if some or others]
    workers = len(round.workers)
    if len(loaded) == workers:
        return {}
    active_tasks = sum(map(is_task, active))
    taken: dict[int, set[int]] = {}
    for loads, total in ((connectors, len(active) - active_tasks), (tasks, active_tasks)):
        most = -(-total // workers)
        for at in loaded:
            if (above := loads.held[at] - most) > 0:
                taken.setdefault(round.workers[at], set()).update(loads.front(at, above))
    return taken
