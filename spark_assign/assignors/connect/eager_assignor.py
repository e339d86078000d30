"""Kafka Connect's `EagerAssignor`: every rebalance assigns everything again.

All workers stop everything before they join. One circular iterator over the workers, sorted by id, then assigns all
connectors, sorted by name, and after them all tasks, sorted by connector and number. It doesn't restart for the tasks.
The assignor has no state, and no hash order matters.

Example: workers A, B; connector c with tasks 0, 1. Assigned: A: [c, c-1], B: [c-0].
"""

from __future__ import annotations

from dataclasses import replace

from spark_assign.assignors.connect.connectors_and_tasks import split_items
from spark_assign.assignors.connect.rebalance_input import RebalanceInput, RebalanceResult


def assign(rebalance: RebalanceInput) -> RebalanceResult:
    """Plans one rebalance. The state stays as it is."""
    connectors, tasks = split_items(sorted(rebalance.configured))
    items = connectors + tasks
    step = len(rebalance.workers)
    index = {worker: position for position, worker in enumerate(sorted(rebalance.workers))}
    return RebalanceResult(
        assigned=[items[index[worker] :: step] for worker in rebalance.workers],
        revoked={},
        state=replace(rebalance.state),
    )
