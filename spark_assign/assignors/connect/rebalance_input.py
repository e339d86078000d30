"""The input and the result of one rebalance of one Connect cluster.

Connectors, tasks, and workers are integers whose order is Kafka's (`connectors_and_tasks`); `workers` and `connectors`
of `IndexedConnectFacts` translate them to names.

Example: workers [0, 1], reported [([c0], [c0-0]), ([], [])], configured {c0, c0-0, c0-1}. Task c0-1 is new and goes to
worker 1, so that assigned = [[], [c0-1]], revoked = {}, and the state of the leader holds all three items.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from spark_assign.assignors.connect.connectors_and_tasks import ConnectorsAndTasks


@dataclass(slots=True)
class AssignorState:
    """The fields of `IncrementalCooperativeAssignor` that outlive a rebalance.

    The state belongs to the leader. A new leader starts from its own state, which might be old or, at first, empty.

    Attributes:
        assignment: Items that were assigned after the previous rebalance, and items that were lost.
        revocation: Items that the previous rebalance revoked.
        revoked_in_previous: Whether the previous rebalance revoked for balance (Kafka 4.x).
        can_revoke: Whether the next rebalance may revoke for balance (Kafka 2.6).
        candidates: Workers that may get lost items, in order (Kafka: candidateWorkersForReassignment).
        scheduled_rebalance_ms: Time at which the delay ends; 0 if there is no delay.
        delay_ms: Delay that the workers got with their assignments.
        generation_id: Generation of the previous rebalance; -1 if there is none. If it wasn't completed, the next
            rebalance ignores `assignment`.
        members: Workers of the previous rebalance.
        successive_revoking_rebalances: Number of successive rebalances that needed a revocation (Kafka 4.x).
    """

    assignment: Collection[int] = field(default_factory=set)
    revocation: Collection[int] = field(default_factory=set)
    revoked_in_previous: bool = False
    can_revoke: bool = True
    candidates: list[int] = field(default_factory=list)
    scheduled_rebalance_ms: int = 0
    delay_ms: int = 0
    generation_id: int = -1
    members: list[int] = field(default_factory=list)
    successive_revoking_rebalances: int = 0

    def end_delay(self) -> None:
        """Ends the delay and forgets the candidates (`resetDelay`)."""
        self.candidates = []
        self.scheduled_rebalance_ms = 0
        self.delay_ms = 0


@dataclass(slots=True)
class RebalanceInput:
    """The input of an assignor.

    Attributes:
        workers: Worker indexes, which sort as worker ids do, in iteration order of the leader's `HashMap`.
        reported: Connectors and tasks that each worker runs; parallel to `workers`.
        configured: All configured connectors and tasks.
        configured_tasks: Number of tasks in `configured`.
        worker_spread_hash: Spread hash of each worker id, by worker index.
        state: State of the leader.
        report_order: Returns a worker's connectors and tasks in the order in which the worker lists them; `None` if
            `reported` is in that order. Called only for workers whose items are revoked.
        active: All reported items, if known already.
        remembered: If the state is unknown, that of a leader that remembers the items that no worker runs any more.
    """

    workers: list[int]
    reported: list[ConnectorsAndTasks]
    configured: set[int]
    configured_tasks: int
    now_ms: int
    max_delay_ms: int
    generation_id: int
    last_completed_generation_id: int
    worker_spread_hash: list[int]
    state: AssignorState
    report_order: Callable[[list[int], list[int]], ConnectorsAndTasks] | None = None
    active: set[int] | None = None
    remembered: AssignorState | None = None


@dataclass(slots=True)
class RebalanceResult:
    """The result of an assignor.

    Attributes:
        assigned: Newly assigned items of each worker, connectors before tasks; parallel to `RebalanceInput.workers`.
        revoked: Revoked items by worker index, for workers with at least one.
        state: State of the leader after the rebalance.
        delay_ms: Time after which the workers rejoin; 0 if no rebalance is scheduled.
        lost: Number of items that were assigned and that no worker runs.
        waiting: Number of lost items that this rebalance doesn't assign.
    """

    assigned: list[list[int]]
    revoked: dict[int, set[int]]
    state: AssignorState
    delay_ms: int = 0
    lost: int = 0
    waiting: int = 0
