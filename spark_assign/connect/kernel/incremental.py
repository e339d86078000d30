"""Kafka's `IncrementalCooperativeAssignor` of Kafka 4.x (KIP-415; KAFKA-12495 for the backoff).

Principle: what runs goes on running; only what has to change hands is stopped, and it starts elsewhere a round later.

Priority: first what nobody may run any more is revoked (deleted, or run twice); then what has lost its worker waits
or is handed out; then, if nothing waits, workers with too much give up some; then new items go to who has least.

Example: A runs t0 t1 t2, and B joins. Round 1: revoked A: [t0]. A stops t0 and joins again at once. Round 2: t0 is
configured and runs nowhere, so it is new: assigned B: [t0].

The protocols `compatible` and `sessioned` differ on the wire only. Where Java's hash order matters: see `lost`,
`load_balancing_revocations` and `serialized_order`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from spark_assign.connect.kernel.assignor_state import AssignorState
from spark_assign.connect.kernel.backoff import backoff
from spark_assign.connect.kernel.connector_task_ids import parted
from spark_assign.connect.kernel.load_balancing_revocations import surplus
from spark_assign.connect.kernel.lost_assignments import handle_lost
from spark_assign.connect.kernel.rebalance_input import Listed, RebalanceInput, RebalanceResult
from spark_assign.connect.kernel.worker_load import WorkerLoads


def rebalance(round: RebalanceInput) -> RebalanceResult:
    """Plan one round."""
    found = compare(round)
    memory = replace(round.memory)
    connectors, tasks = held_loads(round)
    revoked: dict[int, set[int]] = {}
    if gone := found.deleted | found.duplicated:
        revoked = of_each_worker(round, gone)
        connectors, tasks = connectors.without(gone), tasks.without(gone)

    as_new = handle_lost(found.lost, round, connectors, tasks, memory, at_once_without_delay=True)
    if memory.delay_ms == 0:
        _revoke_for_balance(round, connectors, tasks, memory, revoked)
    else:
        memory.revoked_in_previous = False
    spread_new(found.created, as_new, round, connectors, tasks)

    return close_round(found, round, connectors, tasks, revoked, memory)


# --- the steps, shared with incremental_2_6 where that takes the same ----------------------------------------


@dataclass(slots=True)
class AssignmentDiff:
    """What differs between what was assigned, what is configured, and what runs.

    Attributes:
        active: reported by some worker.
        deleted: was assigned and is no longer configured.
        lost: was assigned, is configured, and nobody reports it; sorted.
        created: is configured, was not assigned, and nobody reports it; sorted.
        duplicated: reported by more than one worker.
        revocation_failed: something that the last round revoked is still reported.
    """

    active: set[int]
    deleted: set[int]
    lost: list[int]
    created: list[int]
    duplicated: set[int]
    revocation_failed: bool


def compare(round: RebalanceInput) -> AssignmentDiff:
    """Compare, after forgetting what the leader should not rely on.

    The previous assignment is forgotten if its generation was not completed: the leader failed to hand it out. If
    anything that was revoked is still reported, what is reported takes its place.
    """
    memory = round.memory
    active = set().union(*chain.from_iterable(round.reported)) if round.active is None else round.active
    reports = sum(len(some) + len(others) for some, others in round.reported)
    completed = memory.generation_id == round.last_completed_generation_id
    failed = not active.isdisjoint(memory.revocation)
    before: Collection[int] = active if failed else memory.assignment if completed else ()
    configured = round.configured
    missing = configured - active
    # Mostly nothing is deleted and nothing missing: no set is made of what was assigned before.
    return AssignmentDiff(
        active=active,
        deleted=set() if configured.issuperset(before) else set(before) - configured,
        lost=sorted(missing.intersection(before)) if missing else [],
        created=sorted(missing.difference(before)) if missing else [],
        duplicated=_repeated(round) if reports > len(active) else set(),
        revocation_failed=failed,
    )


def _repeated(round: RebalanceInput) -> set[int]:
    seen: set[int] = set()
    twice: set[int] = set()
    for report in round.reported:
        for item in chain(*report):
            (twice if item in seen else seen).add(item)
    return twice


def held_loads(round: RebalanceInput) -> tuple[WorkerLoads, WorkerLoads]:
    """What workers report, as loads of connectors and of tasks."""
    connectors = [list(some) for some, _ in round.reported]
    tasks = [list(others) for _, others in round.reported]
    if round.in_order is None:
        return WorkerLoads(connectors), WorkerLoads(tasks)

    def listed(kind: int, order: Callable[[list[int], list[int]], Listed], at: int) -> list[int]:
        return order(*round.reported[at])[kind]

    return WorkerLoads(connectors, partial(listed, 0, round.in_order)), WorkerLoads(
        tasks, partial(listed, 1, round.in_order)
    )


def of_each_worker(round: RebalanceInput, gone: set[int]) -> dict[int, set[int]]:
    """Which of these items each worker reports; workers that report none are left out."""
    shares = {
        worker: gone.intersection(chain(*report)) for worker, report in zip(round.workers, round.reported, strict=True)
    }
    return {worker: share for worker, share in shares.items() if share}


def _revoke_for_balance(
    round: RebalanceInput,
    connectors: WorkerLoads,
    tasks: WorkerLoads,
    memory: AssignorState,
    revoked: dict[int, set[int]],
) -> None:
    """Take what is above a worker's share; or, when the round before did so too, wait first."""
    wanted = _wanted(round, connectors, tasks)
    if not any(wanted):
        if memory.revoked_in_previous:
            memory.revoked_in_previous = False
            memory.successive_revoking_rebalances = 0
        return
    if memory.revoked_in_previous:
        memory.successive_revoking_rebalances += 1
        memory.delay_ms = backoff(memory.successive_revoking_rebalances, round.max_delay_ms)
        if memory.delay_ms != 0:
            memory.scheduled_rebalance_ms = round.now_ms + memory.delay_ms
            return
    for loads, above in zip((connectors, tasks), wanted, strict=True):
        for worker, number in above.items():
            revoked.setdefault(round.workers[worker], set()).update(loads.take(worker, number))
    memory.revoked_in_previous = True


def _wanted(
    round: RebalanceInput, connectors: WorkerLoads, tasks: WorkerLoads
) -> tuple[dict[int, int], dict[int, int]]:
    """How many connectors and how many tasks each worker is to give up."""
    if not round.configured:
        return {}, {}
    configured = len(round.configured) - round.configured_tasks
    return surplus(connectors, configured), surplus(tasks, round.configured_tasks)


def spread_new(
    created: list[int], as_new: list[int], round: RebalanceInput, connectors: WorkerLoads, tasks: WorkerLoads
) -> None:
    """Spread created items, then the lost ones that count as new: first all connectors, then all tasks."""
    if not created and not as_new:
        return
    by_id = sorted(range(len(round.workers)), key=round.workers.__getitem__)
    new_connectors, new_tasks = parted([*created, *as_new])
    connectors.spread(new_connectors, by_id)
    tasks.spread(new_tasks, by_id)


def close_round(
    found: AssignmentDiff,
    round: RebalanceInput,
    connectors: WorkerLoads,
    tasks: WorkerLoads,
    revoked: dict[int, set[int]],
    memory: AssignorState,
    also_revoked: Collection[int] = (),
) -> RebalanceResult:
    """The result. The memory learns it: what is lost counts as assigned there, and `also_revoked` as revoked."""
    memory.revocation = set().union(also_revoked, *revoked.values())
    assignment: set[int] = set().union(*connectors.items, *tasks.items)
    assignment.difference_update(memory.revocation)
    waiting = len(found.lost) - len(assignment.intersection(found.lost))
    assignment.update(found.lost)
    memory.assignment = assignment
    memory.generation_id = round.generation_id
    memory.members = list(round.workers)
    assigned = [connectors.given(at) + tasks.given(at) for at in range(len(round.workers))]
    return RebalanceResult(assigned, revoked, memory, memory.delay_ms, len(found.lost), waiting)
