"""Kafka Connect's `IncrementalCooperativeAssignor` before Kafka 3.4; for the releases, see `release_rules`.

Principles and steps are those of `incremental_cooperative_assignor`. The differences:
    - Revocations for balance need a worker without load. While there is one, the others revoke what is above the
      average of the reported items, rounded up. No other imbalance is corrected.
    - A rebalance that follows such a revocation, or the end of a delay, doesn't revoke for balance (`can_revoke`).
      There is no backoff.
    - New items are assigned by loads that still contain the revoked items.
    - If a worker also reports duplicated items, its deleted items aren't revoked: it keeps running them.
    - A maximum delay of 0 doesn't make lost items new at once.

In 3.3, the average counts an item that several workers report as often (`counts_duplicates`).

Up to 2.6.1, and in 2.7.0 (`spreads_lost`):
    - All lost items go to the first candidate.
    - All workers together revoke at most the average, rounded down. The first ones revoke down to it.
Up to 2.5.0 (`revokes_duplicates`):
    - Items that several workers report keep running. If they are deleted, only the last of these workers stops them.
    - Generations and members that left aren't compared with those of the previous rebalance.

Example: A runs t0 t1 t2 t3, B runs t4, and C joins. 5 tasks over 3 workers are at most 2: A revokes t0 and t1.

Java's hash order decides the order of candidates, and which items are first in a worker's list (`serialized_order`).
"""

from __future__ import annotations

from dataclasses import replace

from spark_assign.assignors.connect.connectors_and_tasks import is_task
from spark_assign.assignors.connect.incremental_cooperative_assignor import (
    Loads,
    assign_new,
    build_result,
    compare_assignments,
    handle_lost_assignments,
    reported_by_worker,
    reported_loads,
)
from spark_assign.assignors.connect.rebalance_input import RebalanceInput, RebalanceResult


def assign(
    rebalance: RebalanceInput,
    *,
    spreads_lost: bool = True,
    revokes_duplicates: bool = True,
    counts_duplicates: bool = False,
) -> RebalanceResult:
    """Plans one rebalance.

    Args:
        rebalance: the input.
        spreads_lost: whether to follow KAFKA-10413.
        revokes_duplicates: whether to follow KAFKA-9849.
        counts_duplicates: whether items that several workers report count as often in the average (3.3).
    """
    if not revokes_duplicates:
        rebalance = replace(rebalance, last_completed_generation_id=rebalance.state.generation_id)
    diff = compare_assignments(rebalance)
    state = replace(rebalance.state, revoked_in_previous=False)
    loads = reported_loads(rebalance, diff.deleted)
    revoked = reported_by_worker(rebalance, diff.deleted)
    if revokes_duplicates:
        revoked |= reported_by_worker(rebalance, diff.duplicated)
    else:
        revoked = _keep_last(revoked)

    unassigned = handle_lost_assignments(
        diff.lost,
        rebalance,
        loads,
        state,
        reassign_if_no_delay=False,
        spreads_lost=spreads_lost,
        checks_departures=revokes_duplicates,
    )
    if state.delay_ms == 0 and (state.can_revoke or diff.revocation_failed):
        surplus = _revoke_for_new_workers(
            rebalance, _count_active(rebalance, diff.active, counts_duplicates), loads, spreads_lost
        )
        for worker, items in surplus.items():
            revoked.setdefault(worker, set()).update(items)
        state.can_revoke = not surplus
    else:
        state.can_revoke = state.delay_ms == 0
    assign_new(diff.created + unassigned, rebalance, loads)

    # Deleted items that no worker reports count as revoked, too: a lost worker might return with them.
    return build_result(diff, rebalance, loads, revoked, state, diff.deleted - diff.active)


def _keep_last(revoked: dict[int, set[int]]) -> dict[int, set[int]]:
    """Returns each item only with the last worker that has it."""
    last = {item: worker for worker, items in revoked.items() for item in items}
    kept = {worker: {item for item in items if last[item] == worker} for worker, items in revoked.items()}
    return {worker: items for worker, items in kept.items() if items}


def _count_active(rebalance: RebalanceInput, active: set[int], counts_duplicates: bool) -> tuple[int, int]:
    """Returns the numbers of reported connectors and tasks."""
    if counts_duplicates:
        connectors, tasks = zip(*rebalance.reported, strict=True)
        return sum(map(len, connectors)), sum(map(len, tasks))
    num_tasks = sum(map(is_task, active))
    return len(active) - num_tasks, num_tasks


def _revoke_for_new_workers(
    rebalance: RebalanceInput, totals: tuple[int, int], loads: Loads, spreads_lost: bool
) -> dict[int, set[int]]:
    """Returns what each loaded worker revokes for workers without load: items above the rounded-up average; up to
    2.6.1, above the rounded-down average, and at most as many of all workers."""
    counts = zip(*(load.num_reported for load in loads), strict=True)
    loaded = [worker for worker, num_reported in enumerate(counts) if any(num_reported)]
    workers = len(rebalance.workers)
    if len(loaded) == workers:
        return {}
    surplus: dict[int, set[int]] = {}
    for load, total in zip(loads, totals, strict=True):
        average = -(-total // workers) if spreads_lost else total // workers
        budget = total if spreads_lost else average
        for worker in loaded:
            if (excess := min(load.num_reported[worker] - average, budget)) > 0:
                budget -= excess
                surplus.setdefault(rebalance.workers[worker], set()).update(load.first_items(worker, excess))
    return surplus
