"""Exchanges tasks between clients for less traffic between racks (KIP-925): Kafka's `RackAwareTaskAssignor`.

A task at a client costs the traffic cost per partition that has no replica in the client's rack, plus the non-overlap
cost if it isn't at this client now. The number of tasks per client stays; with `balance_subtopology`, the tasks of each
subtopology are also spread evenly. The cheapest exchange is a minimum-cost flow between tasks and clients, with the
choices of Kafka's `Graph` between equally cheap flows.

Graph of `min_traffic`: source - tasks - clients - sink. Each client passes on as many tasks as it has, and the current
assignment is the first flow. Graph of `balance_subtopology`: each client has one node per subtopology, which passes on
its share of the subtopology's tasks to a second node of the client. The first flow is a maximum flow (Edmonds-Karp).

A flow gets cheaper by negative cycles of the residual graph (Klein). Bellman-Ford finds a cycle: passes over the nodes
in ascending order, as many as there are nodes and one more; the first distance that still decreases in the last pass
leads to the cycle. Which cycle it is depends on each pass, so that all passes are made. They are cheap because tasks
can be left out: a task is reached only from its own client, so that the way from client i to client j over a task of
i costs the smallest `cost[task, j] - cost[task, i]`, and the task is the first with this difference.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np

from spark_assign.assignors.streams.classic_application import (
    MIN_TRAFFIC,
    NO_RACKS,
    ClassicApplication,
    ClassicConfig,
    ClientState,
    TopicPartition,
)
from spark_assign.assignors.streams.task_assignor_api import Steps, TaskId, TooManyStepsError
from spark_assign.numeric.arrays import IntArray

# --- the cheapest exchange --------------------------------------------------------------------------------------------

_FAR = 1 << 60
_SOURCE = (-1, 0, 0)
_Node = tuple[int, int, int]
"""Layer (0 tasks, 1 clients of a subtopology, 2 clients), subtopology, and index of the task or client."""


class FlowError(Exception):
    """Raised if not all tasks find a client (Kafka throws IllegalStateException)."""


MAX_EDGES = 20_000_000
"""Maximum number of pairs of tasks and clients, and of clients of each subtopology."""


def find_cheapest_owners(
    cost: IntArray, owner: IntArray, groups: IntArray | None, steps: Steps | None = None
) -> IntArray:
    """Returns the client of each task after the exchanges.

    Args:
        cost: cost of each task at each client; shape (num_tasks, num_clients).
        owner: current client of each task.
        groups: index of the subtopology of each task, ascending, for `balance_subtopology`; None for `min_traffic`.
        steps: counter of steps.

    Raises:
        FlowError: With `balance_subtopology`, the clients' shares don't suffice for all tasks.
    """
    flow = _TaskFlow(cost, owner, groups, steps or Steps())
    while (cycle := flow.find_cycle()) is not None:
        flow.cancel(cycle)
    return flow.owner


class _TaskFlow:
    def __init__(self, cost: IntArray, owner: IntArray, groups: IntArray | None, steps: Steps) -> None:
        self._cost, self.owner, self._steps = cost.astype(np.int64), owner.copy(), steps
        num_tasks, num_clients = cost.shape
        self._has_stages = groups is not None
        self._group = np.zeros(num_tasks, np.int64) if groups is None else groups
        num_groups = int(self._group.max()) + 1
        self._num_nodes = 2 + num_tasks + num_groups * num_clients + self._has_stages * num_clients
        self._flow = np.zeros((num_groups, num_clients), np.int64)
        """Flow from the client's node of a subtopology to its second node."""
        self._capacity = np.zeros_like(self._flow)
        if groups is not None:
            number, sizes = np.bincount(owner, minlength=num_clients), np.bincount(groups)
            self._capacity = np.ceil(number * 1.0 / num_tasks * sizes[:, None]).astype(np.int64)
            self._find_maximum_flow(number)
        self._step = np.full((num_groups, num_clients, num_clients), _FAR, np.int64)
        """Cost from client i of a subtopology to client j over the cheapest task of i."""
        self._step_task = np.zeros_like(self._step)
        for group in range(num_groups):
            for client in range(num_clients):
                self._find_steps(group, client)

    def _find_steps(self, group: int, client: int) -> None:
        """Finds the cheapest task to pass from a client to each other one, the first of equally cheap ones."""
        tasks = np.flatnonzero((self.owner == client) & (self._group == group))
        self._step[group, client] = _FAR
        if not len(tasks):
            return
        differences = self._cost[tasks] - self._cost[tasks, client][:, None]
        cheapest = differences.argmin(axis=0)
        self._step[group, client] = differences[cheapest, np.arange(len(cheapest))]
        self._step[group, client, client] = _FAR
        self._step_task[group, client] = tasks[cheapest]

    # --- maximum flow ---------------------------------------------------------------------------------------------

    def _find_maximum_flow(self, number: IntArray) -> None:
        """Finds a flow of all tasks; the shortest augmenting path counts, with the lowest nodes first."""
        owner = np.full(len(self.owner), -1, np.int64)
        self.owner, total = owner, np.zeros(len(number), np.int64)
        for _ in range(len(owner)):
            path = self._find_short_path(number - total) or self._find_path(number - total)
            if path is None:
                raise FlowError(f"only {int((owner >= 0).sum())} of {len(owner)} tasks find a client")
            total[path[-1][2]] += 1
            for source, destination in pairwise(path):
                self._push(source, destination)

    def _find_short_path(self, room: IntArray) -> list[_Node] | None:
        """Returns the first path over an unassigned task to a client that has room."""
        seen = set()
        self._steps.count(50 + len(self.owner) // 50)
        unassigned = np.flatnonzero(self.owner < 0)
        groups, first = np.unique(self._group[unassigned], return_index=True)
        for group, task in zip(groups.tolist(), unassigned[first].tolist(), strict=True):
            for client in np.flatnonzero(self._flow[group] < self._capacity[group]).tolist():
                if client not in seen and room[client] > 0:
                    return [(0, group, task), (1, group, client), (2, 0, client)]
                seen.add(client)
        return None

    def _find_path(self, room: IntArray) -> list[_Node] | None:
        """Returns the path that a breadth-first search finds, from a task to a client with room."""
        queue = deque[_Node]((0, int(self._group[task]), task) for task in np.flatnonzero(self.owner < 0).tolist())
        parent: dict[_Node, _Node | None] = dict.fromkeys(queue)
        while queue:
            node = queue.popleft()
            self._steps.count(self._cost.shape[1])
            if node[0] == 2 and room[node[2]] > 0:
                path: list[_Node] = []
                step: _Node | None = node
                while step is not None:
                    path.append(step)
                    step = parent[step]
                return path[::-1]
            for neighbor in self._neighbors(node):
                if neighbor not in parent:
                    parent[neighbor] = node
                    queue.append(neighbor)
        return None

    def _neighbors(self, node: _Node) -> Iterator[_Node]:
        layer, group, at = node
        if layer == 0:
            yield from ((1, group, client) for client in range(self._cost.shape[1]) if client != self.owner[at])
        elif layer == 1:
            owned = np.flatnonzero((self.owner == at) & (self._group == group))
            yield from ((0, group, task) for task in owned.tolist())
            if self._flow[group, at] < self._capacity[group, at]:
                yield (2, 0, at)
        else:
            yield from ((1, group, at) for group in np.flatnonzero(self._flow[:, at] > 0).tolist())

    def _push(self, source: _Node, destination: _Node) -> None:
        """Pushes one unit of flow along an edge of the residual graph."""
        if source[0] == 0:
            self.owner[source[2]] = destination[2]
        elif destination[0] == 2:
            self._flow[source[1], source[2]] += 1
        elif source[0] == 2:
            self._flow[destination[1], destination[2]] -= 1

    # --- negative cycles ------------------------------------------------------------------------------------------

    def cancel(self, cycle: list[_Node]) -> None:
        """Pushes one unit of flow along a cycle; each cycle contains tasks, which have one unit."""
        changed = {(node[1], node[2]) for node in cycle if node[0] == 1}
        for source, destination in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
            self._push(source, destination)
        for group, client in changed:
            self._find_steps(group, client)

    def find_cycle(self) -> list[_Node] | None:
        """Returns the negative cycle that Kafka finds, in the direction of its edges; None if there is none."""
        num_groups, num_clients = self._flow.shape
        tasks = np.arange(len(self.owner))
        own_cost = self._cost[tasks, self.owner]
        first = np.zeros((num_groups, num_clients), np.int64)  # distances of the first nodes of clients
        second = np.zeros(num_clients, np.int64)
        source = 0
        first_parent = np.full((num_groups, num_clients), -1, np.int64)  # a task, or -1 for the second node
        second_parent = np.full(num_clients, -1, np.int64)
        source_parent = -1
        relaxed = np.zeros_like(first)  # distances of the first nodes when their tasks got theirs
        is_open, is_used = self._flow < self._capacity, self._flow > 0
        task_distance = np.zeros(len(tasks), np.int64)
        for number in range(self._num_nodes):
            self._steps.count(30 + (self._step.size + len(tasks)) // 200)
            if number:
                lowest_task = int(task_distance.argmin())
                if task_distance[lowest_task] < source:
                    source, source_parent = int(task_distance[lowest_task]), lowest_task
                # Bellman-Ford over two edges at once, client - task - client, for all pairs of clients.
                #
                # Example: task 0 is at C0, task 1 at C1, and each costs 10 less at the other client. Of the first pass:
                #     step [[far, -10], [-10, far]]    relaxed [0, 0]    best [-10, -10]    way_task [task 1, task 0]
                ways = relaxed[:, :, None] + self._step
                best = ways.min(axis=1)
                better = best < first
                if better.any():
                    way_task = np.where(ways == best[:, None, :], self._step_task, len(tasks)).min(axis=1)
                    first = np.where(better, best, first)
                    first_parent = np.where(better, way_task, first_parent)
            changed = number == 0 or bool((first < relaxed).any())
            relaxed = first.copy()
            task_distance = relaxed[self._group, self.owner] - own_cost
            if self._has_stages:
                reach = np.where(is_open, first, _FAR)
                group = reach.argmin(axis=0)
                lowest = reach[group, np.arange(num_clients)]
                better = lowest < second
                second, second_parent = np.where(better, lowest, second), np.where(better, group, second_parent)
                back = is_used & (second < first)
                first, first_parent = np.where(back, second, first), np.where(back, -1, first_parent)
                changed = changed or bool(back.any()) or bool(better.any())
            if not changed:
                return None
        last_edge = self._find_relaxable(task_distance, source, first, second, own_cost)
        if last_edge is None:
            return None
        before_last, last = last_edge

        def parent(node: _Node) -> _Node:
            if node == last:
                return before_last
            if node == _SOURCE:
                return (0, int(self._group[source_parent]), source_parent)
            layer, group, index = node
            if layer == 0:
                return (1, group, int(self.owner[index]))
            if layer == 1:
                task = int(first_parent[group, index])
                return (2, 0, index) if task < 0 else (0, group, task)
            return (1, int(second_parent[index]), index)

        visited, at = set(), last
        while at not in visited:
            visited.add(at)
            at = parent(at)
        cycle = [at]
        while (node := parent(cycle[-1])) != at:
            cycle.append(node)
        return cycle[::-1]

    def _find_relaxable(
        self, task_distance: IntArray, source: int, first: IntArray, second: IntArray, own_cost: IntArray
    ) -> tuple[_Node, _Node] | None:
        """Returns the first edge, in ascending order, over which a distance still decreases."""
        reach = task_distance[:, None] + self._cost < first[self._group]
        reach[np.arange(len(self.owner)), self.owner] = False
        is_relaxable = reach.any(axis=1) | (task_distance < source)
        if is_relaxable.any():
            task = int(is_relaxable.argmax())
            group = int(self._group[task])
            to_source = task_distance[task] < source
            return (0, group, task), _SOURCE if to_source else (1, group, int(reach[task].argmax()))
        for group, client in np.ndindex(*first.shape):
            owned = np.flatnonzero((self.owner == client) & (self._group == group))
            closer = owned[first[group, client] - own_cost[owned] < task_distance[owned]]
            if len(closer):
                return (1, group, client), (0, group, int(closer[0]))
            is_open = self._has_stages and self._flow[group, client] < self._capacity[group, client]
            if is_open and first[group, client] < second[client]:
                return (1, group, client), (2, 0, client)
        for client in range(len(second)) if self._has_stages else ():
            for group in np.flatnonzero((self._flow[:, client] > 0) & (second[client] < first[:, client])).tolist():
                return (2, 0, client), (1, group, client)
        return None


_MAX_STANDBY_ROUNDS = 4


class Costs(NamedTuple):
    """Cost per partition that is read from another rack, and per task that moves."""

    traffic: int
    non_overlap: int

    @classmethod
    def configured(cls, config: ClassicConfig, traffic: int, non_overlap: int) -> Costs:
        """Returns the costs of an application; these are the ones that aren't configured."""
        return cls(
            traffic if config.traffic_cost is None else config.traffic_cost,
            non_overlap if config.non_overlap_cost is None else config.non_overlap_cost,
        )


STATELESS_COSTS = Costs(1, 0)
"""Costs of tasks without state."""


class Exchange(NamedTuple):
    """A task that moves from one client to another."""

    task: TaskId
    source: ClientState
    destination: ClientState

    def move(self) -> None:
        """Moves the task in its role: a client has it in one."""
        if self.task in self.source.active:
            self.source.active.remove(self.task)
            self.destination.active.add(self.task)
        else:
            self.source.standby.remove(self.task)
            self.destination.standby.add(self.task)


CanMove = Callable[[ClientState, ClientState, TaskId], bool]
"""Whether a standby of a task can move from the first client to the second."""
PartitionsOf = Callable[[TaskId], Collection[TopicPartition]]
"""Partitions of a task whose racks count."""


def always(source: ClientState, destination: ClientState, task: TaskId) -> bool:
    """`CanMove` without a limit."""
    return True


def knows_racks(application: ClassicApplication, clients: Sequence[ClientState]) -> bool:
    """Checks whether racks are enabled, and the racks of all members and partitions are known."""
    config = application.config
    if config.rack_aware_strategy == NO_RACKS:
        return False
    racks = [{member.rack for member in client.members} for client in clients]
    if any(len(of_client) != 1 or None in of_client for of_client in racks):
        return False
    partitions: set[TopicPartition] = set()
    for task in application.tasks:
        partitions.update(application.source_partitions(task))
        if config.num_standby_replicas > 0:
            partitions.update(application.changelog_partitions(task))
    return all((of := application.partition_racks(partition)) and None not in of for partition in partitions)


def _find_exchanges(
    application: ClassicApplication,
    tasks: Sequence[TaskId],
    clients: Sequence[ClientState],
    owners: Sequence[int],
    partitions_of: PartitionsOf,
    costs: Costs,
    strategy: str,
) -> list[Exchange]:
    """Returns the tasks that move, in their order.

    Args:
        application: the application.
        tasks: tasks, sorted.
        clients: clients in the order of the graph.
        owners: client of each task, an index into `clients`.
        partitions_of: partitions of a task.
        costs: costs.
        strategy: `MIN_TRAFFIC` or `BALANCE_SUBTOPOLOGY`.
    """
    if not tasks:
        return []
    num_groups = len({task[0] for task in tasks}) if strategy != MIN_TRAFFIC else 1
    if (edges := max(len(tasks), num_groups * len(clients)) * len(clients)) > MAX_EDGES:
        raise TooManyStepsError(
            f"rack.aware.assignment.strategy: {edges:,} pairs, expected at most {MAX_EDGES:,}. Set it to none"
        )
    racks = {rack: at for at, rack in enumerate({client.rack: None for client in clients})}
    application.steps.count(10 * len(tasks) + len(tasks) * len(racks))
    racks_of = ([application.partition_racks(partition) for partition in partitions_of(task)] for task in tasks)
    by_rack = np.array(
        [[sum(rack not in replicas for replicas in partitions) for rack in racks] for partitions in racks_of]
    )
    matrix = by_rack[:, [racks[client.rack] for client in clients]] * costs.traffic + costs.non_overlap
    owner = np.array(owners, np.int64)
    matrix[np.arange(len(tasks)), owner] -= costs.non_overlap
    groups = np.unique([task[0] for task in tasks], return_inverse=True)[1] if strategy != MIN_TRAFFIC else None
    moved = find_cheapest_owners(matrix, owner, groups, application.steps)
    return [
        Exchange(tasks[at], clients[owner[at]], clients[moved[at]]) for at in np.flatnonzero(moved != owner).tolist()
    ]


def optimize_active(
    application: ClassicApplication,
    tasks: Sequence[TaskId],
    clients: Sequence[ClientState],
    partitions_of: PartitionsOf,
    costs: Costs,
    move: Callable[[Exchange], None] = Exchange.move,
) -> None:
    """Exchanges active tasks; all of them are assigned. `move` moves a task."""
    owner = {task: at for at, client in enumerate(clients) for task in client.active}
    owners, strategy = [owner[task] for task in tasks], application.config.rack_aware_strategy
    for exchange in _find_exchanges(application, tasks, clients, owners, partitions_of, costs, strategy):
        move(exchange)


def optimize_standbys(
    application: ClassicApplication,
    clients: Sequence[ClientState],
    costs: Costs,
    strategy: str,
    can_move: CanMove = always,
    move: Callable[[Exchange], None] = Exchange.move,
) -> None:
    """Exchanges standbys between all pairs of clients in different racks, at most four times.

    Args:
        application: the application.
        clients: clients; a pair takes the first one first.
        costs, strategy: see `_find_exchanges`.
        can_move: whether a standby can move from the first client to the second.
        move: moves a standby.
    """
    for _ in range(_MAX_STANDBY_ROUNDS):
        moved = False
        for first, second in combinations(clients, 2):
            if first.rack == second.rack:
                continue
            application.steps.count(50 + len(first.standby) + len(second.standby))
            pair = sorted((first, second), key=lambda client: client.rank)
            movable = [
                {task for task in of.standby if not other.has(task) and can_move(of, other, task)}
                for of, other in (pair, pair[::-1])
            ]
            if not all(movable):
                continue
            tasks, partitions_of = sorted(movable[0] | movable[1]), application.changelog_partitions
            owners = [int(task in movable[1]) for task in tasks]
            for exchange in _find_exchanges(application, tasks, pair, owners, partitions_of, costs, strategy):
                move(exchange)
                moved = True
        if not moved:
            return
