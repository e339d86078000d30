"""Kafka Connect's `IncrementalCooperativeAssignor` since Kafka 3.4 (KIP-415; KAFKA-12495 for the backoff).

Connectors and tasks that run keep running; only those that change owners are stopped, and they start on their new
workers in the next rebalance.

Steps of `assign`, in order of priority:
    1. Compare the previous assignment, the configuration, and the workers' reports.
    2. Revoke items that are deleted, or that several workers run.
    3. Delay or reassign the items of lost workers.
    4. If there is no delay, revoke what is above a worker's share.
    5. Assign new items to the least loaded workers.

Example: A runs t0 t1 t2, and B joins. Rebalance 1: revoked A: [t0]. A stops t0 and rejoins at once. Rebalance 2: t0 is
configured and no worker runs it, so it is new: assigned B: [t0].

The protocols `compatible` and `sessioned` differ only on the wire. Java's hash order decides the order of candidates
found in one rebalance (a `HashSet` of worker ids), which workers keep one item more (the `HashMap` of workers), and
which items are first in a worker's list (`serialized_order`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from spark_assign.assignors.connect.connectors_and_tasks import hash_set_order, split_items
from spark_assign.assignors.connect.rebalance_input import AssignorState, RebalanceInput, RebalanceResult

BACKOFF_MULTIPLIER = 40


def assign(rebalance: RebalanceInput, *, reassign_if_no_delay: bool = True) -> RebalanceResult:
    """Plans one rebalance.

    Args:
        rebalance: the input.
        reassign_if_no_delay: see `handle_lost_assignments`.
    """
    # The body of `performTaskAssignment`. Kafka computes `nextWorkerAssignment`, which `loads` is, and derives what is
    # sent from its difference to the reports.
    diff = compare_assignments(rebalance)
    state = replace(rebalance.state)
    stopped = diff.deleted | diff.duplicated
    loads = reported_loads(rebalance, stopped)
    revoked = reported_by_worker(rebalance, stopped) if stopped else {}

    unassigned = handle_lost_assignments(diff.lost, rebalance, loads, state, reassign_if_no_delay=reassign_if_no_delay)
    if state.delay_ms == 0:
        _revoke_for_balance(rebalance, loads, state, revoked)
    else:
        state.revoked_in_previous = False
    assign_new(diff.created + unassigned, rebalance, loads)

    return build_result(diff, rebalance, loads, revoked, state)


# --- the load of the workers ---


class WorkerLoads:
    """Connectors, or tasks, of each worker: first the reported ones, then those that this rebalance assigns.

    Attributes:
        items: Items of each worker, by position in `RebalanceInput.workers`.
        num_reported: Number of reported items at the start of each list.
    """

    def __init__(self, reported: list[list[int]], report_order: Callable[[int], list[int]] | None = None) -> None:
        """Starts from the reported items; `report_order` returns a worker's report in the worker's order, and is
        `None` if `reported` is in that order."""
        self.items = reported
        self.num_reported = list(map(len, reported))
        self._report_order = report_order

    def first_items(self, worker: int, count: int) -> list[int]:
        """Returns the first items of a worker, in the order in which it lists them."""
        items, num_reported = self.items[worker], self.num_reported[worker]
        if self._report_order is not None:
            reported = set(items[:num_reported])
            items[:num_reported] = [item for item in self._report_order(worker) if item in reported]
        return items[:count]

    def revoke(self, worker: int, count: int) -> list[int]:
        """Removes and returns the first items of a worker."""
        revoked = self.first_items(worker, count)
        del self.items[worker][:count]
        self.num_reported[worker] = max(self.num_reported[worker] - count, 0)
        return revoked

    def assigned(self, worker: int) -> list[int]:
        """Returns the items that this rebalance assigns to a worker."""
        return self.items[worker][self.num_reported[worker] :]

    def assign(self, new: Sequence[int], by_id: Sequence[int]) -> None:
        """Assigns new items to the least loaded workers (`assignConnectors`, `assignTasks`).

        Workers are sorted by (load, id) once. All workers in the prefix with the lowest load get one item each, in
        order; then the load rises by one, and the prefix grows by the workers that have this load already.

        Example: A has 2, B and C have 1, and x y z are new. The order is B, C, A. B gets x, C gets y, and now that all
        have 2, B gets z.

        Args:
            new: Items in the order of assignment.
            by_id: The workers, sorted by id.
        """
        if not new:
            return
        loads = sorted((self.items[worker] for worker in by_id), key=len)
        sizes = list(map(len, loads))
        level, prefix, assigned = sizes[0], 0, 0
        while assigned < len(new):
            while prefix < len(loads) and sizes[prefix] <= level:
                prefix += 1
            for items, item in zip(loads[:prefix], new[assigned : assigned + prefix], strict=False):
                items.append(item)
            assigned += prefix
            level += 1


Loads = tuple[WorkerLoads, WorkerLoads]
"""Connectors, and tasks, of the workers."""


def reported_loads(rebalance: RebalanceInput, stopped: Collection[int]) -> Loads:
    """Returns the reported connectors and the reported tasks of the workers, without the stopped items."""
    order = rebalance.report_order

    def loads(kind: int) -> WorkerLoads:
        items = [list(report[kind]) for report in rebalance.reported]
        if stopped:
            items = [[item for item in load if item not in stopped] for load in items]
        return WorkerLoads(items, None if order is None else lambda worker: order(*rebalance.reported[worker])[kind])

    return loads(0), loads(1)


# --- step 1: compare ---


@dataclass(slots=True)
class AssignmentDiff:
    """Differences between the previous assignment, the configuration, and the workers' reports.

    Attributes:
        active: Items that any worker reports.
        deleted: Items that were assigned and are no longer configured.
        lost: Items that were assigned, are configured, and that no worker reports; sorted.
        created: Items that are configured, were not assigned, and that no worker reports; sorted.
        duplicated: Items that several workers report.
        revocation_failed: Whether a worker reports an item that the previous rebalance revoked.
    """

    active: set[int]
    deleted: set[int]
    lost: list[int]
    created: list[int]
    duplicated: set[int]
    revocation_failed: bool


def compare_assignments(rebalance: RebalanceInput) -> AssignmentDiff:
    """Compares the previous assignment, the configuration, and the workers' reports.

    The previous assignment is ignored if its generation was not completed, because the leader failed to send it. If a
    worker still reports a revoked item, the reported items are used instead.
    """
    # The derived sets of `performTaskAssignment`: deleted = previous - configured, lost = previous - active - deleted,
    # created = configured - previous - active.
    #
    # Example: the leader assigned t0, t1, and t2. A reports t0, B has left with t1, t2 was deleted, and t3 is new.
    #     previous {t0, t1, t2}    active {t0}    configured {t0, t1, t3}    deleted {t2}    lost [t1]    created [t3]
    state = rebalance.state
    active = set().union(*chain.from_iterable(rebalance.reported)) if rebalance.active is None else rebalance.active
    num_reported = sum(len(connectors) + len(tasks) for connectors, tasks in rebalance.reported)
    completed = state.generation_id == rebalance.last_completed_generation_id
    failed = not active.isdisjoint(state.revocation)
    previous: Collection[int] = active if failed else state.assignment if completed else ()
    configured = rebalance.configured
    missing = configured - active
    # Mostly nothing is deleted or missing, so avoid a set of the previous assignment.
    return AssignmentDiff(
        active=active,
        deleted=set() if configured.issuperset(previous) else set(previous) - configured,
        lost=sorted(missing.intersection(previous)) if missing else [],
        created=sorted(missing.difference(previous)) if missing else [],
        duplicated=_duplicated(rebalance) if num_reported > len(active) else set(),
        revocation_failed=failed,
    )


def _duplicated(rebalance: RebalanceInput) -> set[int]:
    """Returns the items that occur several times in the reports."""
    seen: set[int] = set()
    duplicated: set[int] = set()
    for report in rebalance.reported:
        for item in chain(*report):
            (duplicated if item in seen else seen).add(item)
    return duplicated


# --- step 2: revoke deleted and duplicated items ---


def reported_by_worker(rebalance: RebalanceInput, items: set[int]) -> dict[int, set[int]]:
    """Returns which of these items each worker reports, for workers that report at least one."""
    shares = {
        worker: items.intersection(chain(*report))
        for worker, report in zip(rebalance.workers, rebalance.reported, strict=True)
    }
    return {worker: share for worker, share in shares.items() if share}


# --- step 3: delay or reassign lost items ---


def handle_lost_assignments(
    lost: list[int],
    rebalance: RebalanceInput,
    loads: Loads,
    state: AssignorState,
    *,
    reassign_if_no_delay: bool,
    spreads_lost: bool = True,
    checks_departures: bool = True,
) -> list[int]:
    """Delays lost items, or assigns them to candidates (`handleLostAssignments`).

    A worker that leaves might return soon, so its items wait for it, up to `scheduled.rebalance.max.delay.ms`. Workers
    that join without load in the meantime are candidates. When the delay ends, the candidates that are still members
    get the lost items in turn; without candidates, lost items count as new.

    Example (maximum delay 5 min): A, B, and C have two tasks each, and C leaves. Rebalance 1: nothing is assigned,
    delay 5 min. C returns after 1 min without tasks: rebalance 2 makes it a candidate, delay 4 min. Rebalance 3, 4 min
    later: C gets both tasks.

    Args:
        lost: Items that were assigned, are configured, and that no worker reports; sorted.
        rebalance: Input of the assignor.
        loads: Loads to which lost connectors and lost tasks are added.
        state: State of the leader; candidates, schedule, and delay are updated.
        reassign_if_no_delay: Whether a maximum delay of 0 makes lost items new at once (KAFKA-15693: 3.5.2, and 3.6.1
            and later). Before, they wait for the next rebalance, which nothing triggers.
        spreads_lost: Whether all candidates get lost items (since 2.6.2), or only the first one.
        checks_departures: Whether lost items are new if no worker left (since 2.5.1).

    Returns:
        Lost items that count as new.
    """
    if not lost and not state.revoked_in_previous:
        state.end_delay()
        return []
    now, scheduled = rebalance.now_ms, state.scheduled_rebalance_ms
    if checks_departures and scheduled <= 0 and set(state.members).issubset(rebalance.workers):
        return lost  # no worker left: a worker didn't receive its assignment
    if reassign_if_no_delay and rebalance.max_delay_ms == 0:
        return lost
    if 0 < scheduled <= now:
        reassigned = _assign_to_candidates(lost, rebalance, loads, state, spreads_lost)
        state.end_delay()
        state.revoked_in_previous = False
        return [] if reassigned else lost
    _add_candidates(rebalance, loads, state)
    state.delay_ms = min(scheduled - now, rebalance.max_delay_ms) if now < scheduled else rebalance.max_delay_ms
    state.scheduled_rebalance_ms = now + state.delay_ms
    return []


def _assign_to_candidates(
    lost: list[int], rebalance: RebalanceInput, loads: Loads, state: AssignorState, spreads_lost: bool
) -> bool:
    """Assigns lost items in turn, connectors and tasks each from the first candidate on; false without candidates."""
    position = {worker: index for index, worker in enumerate(rebalance.workers)}
    present = [position[worker] for worker in state.candidates if worker in position]
    if not present:
        return False
    present = present if spreads_lost else present[:1]
    for load, items in zip(loads, split_items(lost), strict=True):
        for index, item in enumerate(items):
            load.items[present[index % len(present)]].append(item)
    return True


def _add_candidates(rebalance: RebalanceInput, loads: Loads, state: AssignorState) -> None:
    """Adds workers without load after the known candidates."""
    own_items = zip(rebalance.workers, *(load.items for load in loads), strict=True)
    empty = [worker for worker, connectors, tasks in own_items if not connectors and not tasks]
    candidates = hash_set_order(empty, rebalance.worker_spread_hash)
    state.candidates = list(dict.fromkeys([*state.candidates, *candidates]))


# --- step 4: revoke for balance ---


def _revoke_for_balance(
    rebalance: RebalanceInput, loads: Loads, state: AssignorState, revoked: dict[int, set[int]]
) -> None:
    """Revokes what is above a worker's share; waits first if the previous rebalance did so, too."""
    num_tasks = rebalance.configured_tasks
    totals = (len(rebalance.configured) - num_tasks, num_tasks)
    balanced = zip(loads, totals, strict=True) if rebalance.configured else ()
    revocations = [(load, balance_revocations(load, total)) for load, total in balanced]
    if not any(counts for _, counts in revocations):
        if state.revoked_in_previous:
            state.revoked_in_previous = False
            state.successive_revoking_rebalances = 0
        return
    if state.revoked_in_previous:
        # Java's int wraps. A negative number has no delay.
        state.successive_revoking_rebalances = (state.successive_revoking_rebalances + 1 + 2**31) % 2**32 - 2**31
        state.delay_ms = backoff(state.successive_revoking_rebalances, rebalance.max_delay_ms)
        if state.delay_ms != 0:
            state.scheduled_rebalance_ms = rebalance.now_ms + state.delay_ms
            return
    for load, counts in revocations:
        for worker, count in counts.items():
            revoked.setdefault(rebalance.workers[worker], set()).update(load.revoke(worker, count))
    state.revoked_in_previous = True


def balance_revocations(loads: WorkerLoads, configured: int) -> dict[int, int]:
    """Returns the number of items that each overloaded worker must revoke (`performLoadBalancingRevocations`).

    Connectors and tasks are balanced separately. With n workers, each keeps `configured` // n, and the first
    `configured` % n workers that have more keep one more, in iteration order of Java's map.

    Example: 7 tasks; A has 5, B has 2, and C has none. Each keeps 2, one worker 3: A is first and revokes 2.

    Args:
        loads: Connectors or tasks of the workers.
        configured: Number of configured connectors or tasks.

    Returns:
        Counts by position in `RebalanceInput.workers`.
    """
    share, extra = divmod(configured, len(loads.items))
    counts: dict[int, int] = {}
    for worker, size in enumerate(map(len, loads.items)):
        if size > share:
            allowed = share + (1 if extra > 0 else 0)
            extra -= 1
            if size > allowed:
                counts[worker] = size - allowed
    return counts


def backoff(attempts: int, max_delay_ms: int) -> int:
    """Returns the delay in milliseconds after successive rebalances that need a revocation (`ExponentialBackoff`).

    The delay is 1 ms, times 40 per attempt, at most `scheduled.rebalance.max.delay.ms`, without jitter.

    Example: with a maximum of 5 minutes 40, 1,600, 64,000, 300,000, 300,000, … ms. The exponent is limited to
    log(max) / log(40), and the result is truncated: a maximum of 30,000 ms is never reached, the delay is 29,999.

    Java rounds the last bit of logarithm and power differently. Over all maxima up to 3,000,000 ms, one in 12,000
    differs by one millisecond (for example 1,207), and none that is a multiple of 1,000.
    """
    initial = min(max_delay_ms, 1)
    if max_delay_ms <= initial:
        return initial
    max_exponent = math.log(max_delay_ms) / math.log(BACKOFF_MULTIPLIER)
    return min(int(initial * math.pow(BACKOFF_MULTIPLIER, min(attempts, max_exponent))), max_delay_ms)


# --- step 5: assign new items ---


def assign_new(items: list[int], rebalance: RebalanceInput, loads: Loads) -> None:
    """Assigns created items, then the lost ones that count as new: first all connectors, then all tasks."""
    if not items:
        return
    by_id = sorted(range(len(rebalance.workers)), key=rebalance.workers.__getitem__)
    for load, new in zip(loads, split_items(items), strict=True):
        load.assign(new, by_id)


def build_result(
    diff: AssignmentDiff,
    rebalance: RebalanceInput,
    loads: Loads,
    revoked: dict[int, set[int]],
    state: AssignorState,
    also_revoked: Collection[int] = (),
) -> RebalanceResult:
    """Returns the result and updates the state, where lost items count as assigned, and `also_revoked` as revoked."""
    state.revocation = set().union(also_revoked, *revoked.values())
    connectors, tasks = loads
    assignment: set[int] = set().union(*connectors.items, *tasks.items)
    assignment.difference_update(state.revocation)
    waiting = len(diff.lost) - len(assignment.intersection(diff.lost))
    assignment.update(diff.lost)
    state.assignment = assignment
    state.generation_id = rebalance.generation_id
    state.members = list(rebalance.workers)
    assigned = [connectors.assigned(worker) + tasks.assigned(worker) for worker in range(len(rebalance.workers))]
    return RebalanceResult(assigned, revoked, state, state.delay_ms, len(diff.lost), waiting)
