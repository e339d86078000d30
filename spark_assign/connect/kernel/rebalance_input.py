"""One rebalance of one Connect cluster: what an assignor is told, and what comes out.

Example: workers [0, 1], reported {0: [c0, c0-0], 1: []}, configured {c0, c0-0, c0-1}: c0-1 is new and goes to worker 1,
so that assigned = {1: [c0-1]}, revoked = {}, and the memory holds all three.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from spark_assign.connect.kernel.assignor_state import AssignorState

Listed = tuple[list[int], list[int]]
"""Connectors and tasks, as a worker lists them."""


@dataclass(slots=True)
class RebalanceInput:
    """What an assignor is told.

    Attributes:
        workers: their numbers, which sort as their ids do, in the order in which the leader's `HashMap` is walked.
        reported: of each of them the connectors and the tasks that it runs.
        configured: all connectors and tasks that there should be.
        configured_tasks: how many of these are tasks.
        worker_spread: of every worker number the spread hash of its id.
        memory: of the leader.
        in_order: how a worker lists what it reports, where `reported` does not tell: given a worker's connectors and
            tasks it returns them in order. Null where they are in order. Only asked for workers that have to give.
        active: all that is reported, where it was looked at already.
    """

    workers: list[int]
    reported: list[Listed]
    configured: set[int]
    configured_tasks: int
    now_ms: int
    max_delay_ms: int
    generation_id: int
    last_completed_generation_id: int
    worker_spread: list[int]
    memory: AssignorState
    in_order: Callable[[list[int], list[int]], Listed] | None = None
    active: set[int] | None = None


@dataclass(slots=True)
class RebalanceResult:
    """What comes out.

    Attributes:
        assigned: of each worker, as `RebalanceInput.workers` has them, what it gets, connectors before tasks.
        revoked: of each worker with something to give up, by number, what that is.
        memory: of the leader after the round.
        delay_ms: what the workers are told to wait before they join again; 0 for no waiting.
        lost: how many items were assigned to a worker and are run by none.
        waiting: how many of these are not handed out in this round.
    """

    assigned: list[list[int]]
    revoked: dict[int, set[int]]
    memory: AssignorState
    delay_ms: int = 0
    lost: int = 0
    waiting: int = 0
