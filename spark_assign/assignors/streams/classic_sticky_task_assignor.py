"""The sticky assignors of the classic protocol: `LegacyStickyTaskAssignor`, and the public `StickyTaskAssignor`.

Principles, in order of priority
    1. Stickiness: a task stays with the client that ran it, or goes to one with its state, up to a quota.
    2. Balance: new tasks go to the least loaded client.
    3. Variety: of equally loaded clients, one that doesn't have the task together with the same other tasks yet. If
       that client fails, its tasks spread over more clients.
Lags don't count.

Steps
    1. active tasks to the client that ran them, up to the quota: capacity times (tasks / total capacity, rounded down);
       in the public class of 4.4, capacity times tasks / total capacity, rounded up (KAFKA-20198)
    2. the others to a client with their state, up to the quota
    3. the remaining ones to the best client: the previous one unless it is full, then the least loaded one
    4. exchanges for less traffic between racks
    5. standbys to the best client without the task
    6. exchanges of standbys for less traffic between racks

`FallbackPriorTaskAssignor` is the legacy class without quotas in step 1 and without racks; it runs instead of the
default assignor when end offsets can't be read.

Nearly every step depends on the order of Java's hash sets. The public class iterates a `HashSet` of objects without a
hash code of their own in step 5, so that its standbys differ from process to process
(`ClassicApplication.standby_task_order`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from spark_assign.assignors.streams.classic_application import (
    MIN_TRAFFIC,
    NO_RACKS,
    ClassicApplication,
    ClientState,
    TopicPartition,
    client_hash_order,
    task_hash_order,
)
from spark_assign.assignors.streams.rack_aware_task_assignor import (
    STATELESS_COSTS,
    Costs,
    Exchange,
    PartitionsOf,
    knows_racks,
    optimize_active,
    optimize_standbys,
)
from spark_assign.assignors.streams.task_assignor_api import TaskId
from spark_assign.java.hash_map import HashTable

_TRAFFIC_COST, _NON_OVERLAP_COST = 1, 10
"""Costs of stateful tasks that aren't configured."""


class LegacyStickyAssignment:
    """The assignment of one application in progress."""

    def __init__(self, application: ClassicApplication, clients: Sequence[ClientState], *, preserve: bool) -> None:
        """Creates an assignment without tasks.

        Args:
            application: the application.
            clients: its clients, in the order of the leader's map.
            preserve: whether active tasks stay with the client that ran them, whatever its load.
        """
        self._application, self._clients, self._preserve = application, clients, preserve
        self._total_capacity = sum(client.capacity for client in clients)
        self._costs = Costs.configured(application.config, _TRAFFIC_COST, _NON_OVERLAP_COST)
        self._first: dict[TaskId, ClientState] = {}
        self._copies: dict[TaskId, list[ClientState]] = {}
        self._by_first: dict[int, dict[int, list[TaskId]]] = {client.rank: {} for client in clients}
        self._previous: dict[TaskId, ClientState] = {}
        standbys: dict[TaskId, list[ClientState]] = {}
        for client in clients:
            self._previous |= dict.fromkeys(sorted(client.previous_active), client)
            for task in client.previous_standby:
                standbys.setdefault(task, []).append(client)
        self._previous_standbys = {task: client_hash_order(owners) for task, owners in standbys.items()}

    def run(self) -> None:
        """Assigns all tasks to the clients."""
        self._assign_active()
        if not self._preserve:
            self._optimize_active()
        if self._application.config.num_standby_replicas > 0:
            self._assign_standbys()
            if not self._preserve:
                self._optimize_standbys()

    # --- steps 1 to 3, and 5 ----------------------------------------------------------------------------------------

    def _assign_active(self) -> None:
        application = self._application
        existing, assigned = set(application.tasks), set()
        for task in task_hash_order(list(self._previous)):
            client = self._previous[task]
            if task in existing and (self._preserve or len(client.active) < self._quota(client)):
                self._assign(task, client, client.active)
                assigned.add(task)
        for task in task_hash_order(application.task_order, is_copy=True):
            if task in assigned:
                continue
            for client in self._previous_standbys.get(task, ()):
                if len(client.active) < self._quota(client):
                    self._assign(task, client, client.active)
                    assigned.add(task)
                    break
        candidates = self._all_candidates()
        for task in application.tasks:
            if task not in assigned:
                client = self._find_best(task, candidates)
                self._assign(task, client, client.active)

    def _assign_standbys(self) -> None:
        for client in self._clients:
            for task in client.active:
                self._by_first[client.rank].setdefault(self._first[task].rank, []).append(task)
        for task in self._standby_task_order():
            for _ in range(self._application.config.num_standby_replicas):
                candidates = client_hash_order([client for client in self._clients if not client.has(task)])
                if not candidates:
                    break
                client = self._find_best(task, candidates)
                self._assign(task, client, client.standby)

    def _assign(self, task: TaskId, client: ClientState, role: set[TaskId]) -> None:
        if role is client.active:
            self._first[task] = client
        else:
            self._copies.setdefault(task, []).append(client)
            self._by_first[client.rank].setdefault(self._first.setdefault(task, client).rank, []).append(task)
        role.add(task)

    def _find_best(self, task: TaskId, candidates: Sequence[ClientState]) -> ClientState:
        """Returns the best client for a task; the candidates are in the order of their set."""
        if len(candidates) == 1:
            return candidates[0]
        ranks = {client.rank for client in candidates}
        previous = self._previous.get(task)
        owners = client_hash_order(self._previous_standbys.get(task, ()), is_copy=True)
        with_state = [client for client in owners if client.rank in ranks]
        if previous is None or previous.rank not in ranks:
            previous = self._find_least_loaded(task, with_state)
        if previous is not None and self._is_full(previous):
            previous = self._find_least_loaded(task, with_state)
            if previous is not None and self._is_full(previous):
                previous = None
        if previous is None:
            previous = self._find_least_loaded(task, candidates)
        assert previous is not None
        return previous

    def _find_least_loaded(self, task: TaskId, candidates: Sequence[ClientState]) -> ClientState | None:
        """Returns the least loaded client, if possible of those that don't have the task with the same tasks yet."""
        for must_be_new in (True, False):
            self._application.steps.count(len(candidates))
            best: ClientState | None = None
            for client in candidates:
                if not client.active and not client.standby:
                    return client
                if (best is None or self._has_more_room(client, best)) and (
                    not must_be_new or self._has_new_pair(task, client)
                ):
                    best = client
            if best is not None:
                return best
        return None

    def _has_new_pair(self, task: TaskId, client: ClientState) -> bool:
        """Checks whether the client has a task that was never assigned to a client that has this one (`TaskPairs`).

        Pairs aren't stored: a client with many tasks has too many. Two tasks are one if both were first assigned to the
        same client, or if a client has one as a standby and also the other.
        """
        first, copies = self._first.get(task), self._copies.get(task, ())
        if first is None:
            return bool(client.active or client.standby)
        for rank, tasks in self._by_first[client.rank].items():
            for other in tasks if rank != first.rank else ():
                copies_of_other = self._copies.get(other, ())
                self._application.steps.count(1 + (len(copies) + len(copies_of_other)) // 100)
                if not any(each.has(other) for each in copies) and not any(each.has(task) for each in copies_of_other):
                    return True
        return False

    # --- differences of the public class --------------------------------------------------------------------------

    def _quota(self, client: ClientState) -> int:
        """Returns the number of active tasks up to which a client gets tasks in steps 1 and 2."""
        return client.capacity * (len(self._application.tasks) // self._total_capacity)

    def _all_candidates(self) -> Sequence[ClientState]:
        return self._clients

    def _standby_task_order(self) -> Iterable[TaskId]:
        return self._application.stateful_order

    def _has_more_room(self, client: ClientState, other: ClientState) -> bool:
        return (client.load, -client.capacity) < (other.load, -other.capacity)

    def _is_full(self, client: ClientState) -> bool:
        """Checks whether the client has a task per member, and another client has more room."""
        if client.load < 1:
            return False
        is_full = any(self._has_more_room(other, client) for other in self._clients)
        self._application.steps.count(0 if is_full else len(self._clients))
        return is_full

    def _optimize_active(self) -> None:
        application = self._application
        by_id = sorted(self._clients, key=lambda client: client.rank)
        if knows_racks(application, by_id):
            stateless = [task for task in application.tasks if task not in application.stateful]
            for tasks, costs in ((sorted(application.stateful), self._costs), (stateless, STATELESS_COSTS)):
                optimize_active(application, tasks, by_id, application.source_partitions, costs)

    def _optimize_standbys(self) -> None:
        by_id = sorted(self._clients, key=lambda client: client.rank)
        if knows_racks(self._application, by_id):
            optimize_standbys(self._application, by_id, self._costs, MIN_TRAFFIC)


class PublicStickyAssignment(LegacyStickyAssignment):
    """The public class: a client keeps its tasks in a `HashMap`. The tasks of its members depend on the map's order.

    Attributes:
        roles: Keys of the map of each client, by its rank.
    """

    def __init__(self, application: ClassicApplication, clients: Sequence[ClientState]) -> None:
        super().__init__(application, clients, preserve=False)
        self.roles: dict[int, HashTable[TaskId]] = {
            client.rank: HashTable(rank=lambda task: task) for client in clients
        }

    def _assign(self, task: TaskId, client: ClientState, role: set[TaskId]) -> None:
        super()._assign(task, client, role)
        self._put(client, task)

    def _put(self, client: ClientState, task: TaskId) -> None:
        self.roles[client.rank].add(task, (29791 + 961 * task[0] + 31 * task[1]) & 0xFFFFFFFF)

    def _quota(self, client: ClientState) -> int:
        if not self._application.rules.rounds_up_shares:
            return super()._quota(client)
        return -(-len(self._application.tasks) * client.capacity // self._total_capacity)

    def _all_candidates(self) -> Sequence[ClientState]:
        return client_hash_order(self._clients)

    def _standby_task_order(self) -> Iterable[TaskId]:
        order = self._application.standby_task_order
        return sorted(self._application.stateful) if order is None else order

    def _has_more_room(self, client: ClientState, other: ClientState) -> bool:
        return client.load < other.load

    def _optimize_active(self) -> None:
        application = self._application
        if not self._has_racks([application.source_partitions, application.changelog_partitions]):
            return
        clients = client_hash_order(self._clients)
        with_store = [task for task in application.tasks if application.subtopologies[task[0]].has_store]
        without_store = sorted(set(application.tasks).difference(with_store))
        for tasks, costs in ((with_store, self._costs), (without_store, STATELESS_COSTS)):
            optimize_active(
                application,
                tasks,
                clients,
                lambda task: {*application.source_partitions(task), *application.changelog_partitions(task)},
                costs,
                self._move,
            )

    def _optimize_standbys(self) -> None:
        application, clients = self._application, client_hash_order(self._clients)
        if self._has_racks([application.changelog_partitions]):
            strategy = application.config.rack_aware_strategy
            optimize_standbys(application, clients, self._costs, strategy, move=self._move)

    def _move(self, exchange: Exchange) -> None:
        exchange.move()
        self.roles[exchange.source.rank].remove(exchange.task)
        self._put(exchange.destination, exchange.task)

    def _has_racks(self, kinds: Sequence[PartitionsOf]) -> bool:
        """Checks whether racks are enabled, with both costs, and every client and partition has one."""
        application, config = self._application, self._application.config
        if config.rack_aware_strategy == NO_RACKS or None in (config.traffic_cost, config.non_overlap_cost):
            return False
        partitions: set[TopicPartition] = set()
        for task in application.tasks:
            for kind in kinds:
                partitions.update(kind(task))
        return all(client.rack is not None for client in self._clients) and all(
            application.partition_racks(partition) - {None} for partition in partitions
        )
