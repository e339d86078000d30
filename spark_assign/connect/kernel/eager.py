"""Kafka's `EagerAssignor`: everything is dealt anew in every round.

Principle: all workers stop everything before they join; then one iterator goes round and round over the workers,
sorted by id, and hands out all connectors, sorted by name, and after them all tasks, sorted by connector and number. It
does not start again for the tasks. Nothing is remembered, and no hash order matters.

Example: workers A, B; connector c with tasks 0, 1. A: [c, c-1], B: [c-0].
"""

from __future__ import annotations

from dataclasses import replace

from spark_assign.connect.kernel.connector_task_ids import parted
from spark_assign.connect.kernel.rebalance_input import RebalanceInput, RebalanceResult


def rebalance(round: RebalanceInput) -> RebalanceResult:
    """Deal everything. The memory stays as it is: this assignor has none."""
    connectors, tasks = parted(sorted(round.configured))
    dealt = connectors + tasks
    step = len(round.workers)
    place = {worker: at for at, worker in enumerate(sorted(round.workers))}
    return RebalanceResult(
        assigned=[dealt[place[worker] :: step] for worker in round.workers],
        revoked={},
        memory=replace(round.memory),
    )
