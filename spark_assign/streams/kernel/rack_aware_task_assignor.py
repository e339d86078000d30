"""Exchanges tasks between clients for less traffic between racks (KIP-925): Kafka's `RackAwareTaskAssignor`.

A task at a client costs the traffic cost per partition that has no replica in the client's rack, plus the non-overlap
cost if it isn't at this client now. The number of tasks per client stays; with `balance_subtopology`, the tasks of each
subtopology are also spread evenly. `task_flow` finds the cheapest exchange, and of equal ones the same as Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from spark_assign.streams.kernel.classic_application import (
    MIN_TRAFFIC,
    NO_RACKS,
    ClassicApplication,
    ClientState,
    TopicPartition,
)
from spark_assign.streams.kernel.task_assignor_api import TaskId
from spark_assign.streams.kernel.task_flow import find_cheapest_owners

_MAX_STANDBY_ROUNDS = 4


class Costs(NamedTuple):
    """Cost per partition that is read from another rack, and per task that moves."""

    traffic: int
    non_overlap: int


class Exchange(NamedTuple):
    """A task that moves from one client to another."""

    task: TaskId
    source: ClientState
    destination: ClientState

    def move_active(self) -> None:
        """Moves the active task."""
        self.source.active.remove(self.task)
        self.destination.active.add(self.task)

    def move_standby(self) -> None:
        """Moves the standby."""
        self.source.standby.remove(self.task)
        self.destination.standby.add(self.task)


CanMove = Callable[[ClientState, ClientState, TaskId], bool]
"""Whether a standby of a task can move from the first client to the second."""


def always(source: ClientState, destination: ClientState, task: TaskId) -> bool:
    """`CanMove` without a limit."""
    return True


def find_exchanges(
    tasks: Sequence[TaskId],
    clients: Sequence[ClientState],
    owners: Sequence[int],
    racks_of: Callable[[TaskId], Sequence[set[str | None]]],
    costs: Costs,
    strategy: str,
) -> list[Exchange]:
    """Returns the tasks that move, in their order.

    Args:
        tasks: tasks, sorted.
        clients: clients in the order of the graph.
        owners: client of each task, an index into `clients`.
        racks_of: racks of each partition of a task.
        costs: costs.
        strategy: `MIN_TRAFFIC` or `BALANCE_SUBTOPOLOGY`.
    """
    if not tasks:
        return []
    racks = {rack: at for at, rack in enumerate({client.rack: None for client in clients})}
    by_rack = np.array(
        [
            [sum(rack not in replicas for replicas in partitions) for rack in racks]
            for partitions in map(racks_of, tasks)
        ]
    )
    matrix = by_rack[:, [racks[client.rack] for client in clients]] * costs.traffic + costs.non_overlap
    owner = np.array(owners, np.int64)
    matrix[np.arange(len(tasks)), owner] -= costs.non_overlap
    groups = np.unique([task[0] for task in tasks], return_inverse=True)[1] if strategy != MIN_TRAFFIC else None
    moved = find_cheapest_owners(matrix, owner, groups)
    return [
        Exchange(tasks[at], clients[owner[at]], clients[moved[at]]) for at in np.flatnonzero(moved != owner).tolist()
    ]


class RackAwareTaskAssignor:
    """The optimizations of one application."""

    def __init__(self, application: ClassicApplication) -> None:
        self._application = application

    @classmethod
    def create(cls, application: ClassicApplication, clients: Sequence[ClientState]) -> RackAwareTaskAssignor | None:
        """Returns None if racks aren't enabled, or not all racks are known."""
        config = application.config
        if config.rack_aware_strategy == NO_RACKS:
            return None
        racks = [{member.rack for member in client.members} for client in clients]
        if any(len(of_client) != 1 or None in of_client for of_client in racks):
            return None
        partitions: set[TopicPartition] = set()
        for task in application.tasks:
            partitions.update(application.source_partitions(task))
            if config.num_standby_replicas > 0:
                partitions.update(application.changelog_partitions(task))
        if any(not (of := application.partition_racks(partition)) or None in of for partition in partitions):
            return None
        return cls(application)

    def optimize_active(
        self, tasks: Sequence[TaskId], clients: Sequence[ClientState], traffic: int, non_overlap: int
    ) -> None:
        """Exchanges active tasks; all of them are assigned."""
        application = self._application
        owner = {task: at for at, client in enumerate(clients) for task in client.active}
        for exchange in find_exchanges(
            tasks,
            clients,
            [owner[task] for task in tasks],
            lambda task: [application.partition_racks(partition) for partition in application.source_partitions(task)],
            Costs(traffic, non_overlap),
            application.config.rack_aware_strategy,
        ):
            exchange.move_active()

    def optimize_standbys(
        self,
        clients: Sequence[ClientState],
        traffic: int,
        non_overlap: int,
        can_move: CanMove,
    ) -> None:
        """Exchanges standbys between pairs of clients in different racks; `can_move` limits the exchanges."""
        application = self._application
        optimize_pairs(
            clients,
            can_move,
            lambda tasks, pair, owners: find_exchanges(
                tasks,
                pair,
                owners,
                lambda task: [application.partition_racks(at) for at in application.changelog_partitions(task)],
                Costs(traffic, non_overlap),
                MIN_TRAFFIC,
            ),
            Exchange.move_standby,
        )


def optimize_pairs(
    clients: Sequence[ClientState],
    can_move: CanMove,
    find: Callable[[Sequence[TaskId], Sequence[ClientState], Sequence[int]], list[Exchange]],
    move: Callable[[Exchange], None],
) -> None:
    """Exchanges standbys between all pairs of clients in different racks, at most four times.

    Args:
        clients: clients; a pair takes the first one first.
        can_move: whether a standby can move from the first client to the second.
        find: finds the exchanges among tasks (sorted), two clients by id, and the client of each task.
        move: moves a standby.
    """
    for _ in range(_MAX_STANDBY_ROUNDS):
        moved = False
        for at, first in enumerate(clients):
            for second in clients[at + 1 :]:
                if first.rack == second.rack:
                    continue
                pair = sorted((first, second), key=lambda client: client.rank)
                movable = [
                    {task for task in of.standby if not other.has(task) and can_move(of, other, task)}
                    for of, other in (pair, pair[::-1])
                ]
                if not all(movable):
                    continue
                tasks = sorted(movable[0] | movable[1])
                for exchange in find(tasks, pair, [int(task in movable[1]) for task in tasks]):
                    move(exchange)
                    moved = True
        if not moved:
            return
