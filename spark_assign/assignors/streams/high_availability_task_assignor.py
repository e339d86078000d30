"""Kafka's `HighAvailabilityTaskAssignor`, the default of classic Streams applications (KIP-441).

Principles, in order of priority
    1. Balance: the target, once every client has caught up, has the same number of tasks per member everywhere.
    2. Availability: until then, a task runs on a client that has its state. The target owner gets a *warmup*, a standby
       that restores the state meanwhile, if the number of warmups allows it; a *probing rebalance* checks for progress.
The previous owner doesn't count for the target: stateful tasks are numbered round robin over the clients.

Steps
    1. stateful active tasks round robin over the clients
    2. balance them by load, the number of assigned tasks per member
    3. exchange them between clients for less traffic between racks
    4. standbys to the least loaded client without the task (by tags, if they are configured)
    5. balance standbys; exchange them for less traffic between racks
    6. active tasks of clients that haven't caught up to the best client: a *movement*
    7. standbys likewise, with the warmups that step 6 leaves
    8. stateless tasks to the client with the fewest active tasks per member

Example: C0 runs task 0 of one subtopology with state, C1 is new; 0 is assigned to C0, as the first client.
    C1's process ID is lower: step 1 assigns 0 to C1; step 6 moves it to C0 and leaves C1 a warmup.

Standbys of clients with tags (KIP-708, Kafka's `ClientTagAwareStandbyTaskAssignor`): a standby goes to the least loaded
client that differs in every configured tag from the clients that have the task already. A tag with too few values for
another copy stops counting. Copies that find no client this way go to the least loaded client.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from types import MappingProxyType

import numpy as np

from spark_assign.assignors.streams.classic_application import (
    MIN_TRAFFIC,
    RUNNING,
    ClassicApplication,
    ClientState,
    client_hash_order,
    task_hash_order,
)
from spark_assign.assignors.streams.rack_aware_task_assignor import (
    STATELESS_COSTS,
    Costs,
    Exchange,
    always,
    knows_racks,
    optimize_active,
    optimize_standbys,
)
from spark_assign.assignors.streams.task_assignor_api import Steps, TaskId
from spark_assign.java.priority_queue import Heap, in_poll_order

# --- client queue -----------------------------------------------------------------------------------------------------
#
# Kafka's `ConstrainedPrioritySet`: clients by weight, of which a caller takes the first that meets a condition.


class ClientQueue:
    """Clients by ascending weight, then by id.

    It is a `PriorityQueue`. Its order isn't restored when the weight of a client inside changes, so that it doesn't
    always return the minimum.
    """

    def __init__(
        self,
        clients: Iterable[ClientState],
        weight: Callable[[ClientState], float],
        steps: Steps | None = None,
        *,
        is_in_order: bool = False,
    ) -> None:
        """Creates a queue of clients, offered in this order.

        Args:
            clients: the clients.
            weight: weight of a client.
            steps: counter of steps.
            is_in_order: whether no weight changes inside, so that the layout of the heap has no effect.
        """
        self._weight, self._steps, self._is_in_order = weight, steps or Steps(), is_in_order
        self._heap: Heap[int] = Heap()
        self._clients: dict[int, ClientState] = {}
        for client in clients:
            self.offer(client)

    def offer(self, client: ClientState) -> None:
        """Adds a client; one that is in the queue is removed first."""
        if client.rank in self._clients:
            self._heap.remove(client.rank)
        self._clients[client.rank] = client
        self._heap.add((self._weight(client), client.rank), client.rank)

    def poll(self, task: TaskId, condition: Callable[[ClientState, TaskId], bool]) -> ClientState | None:
        """Removes and returns the first client that meets the condition for a task; None if no client does."""
        failed = []
        found = None
        while len(self._heap):
            client = self._clients.pop(self._heap.poll())
            if condition(client, task):
                found = client
                break
            failed.append(client)
        self._steps.count(8 * len(failed))
        for client in failed if len(failed) < 2 or self._is_in_order else client_hash_order(failed):
            self.offer(client)
        return found

    def poll_first(self, candidates: Collection[ClientState]) -> ClientState | None:
        """Removes and returns the first of the candidates; None if there are none."""
        ranks = {client.rank for client in candidates}
        return self.poll((0, 0), lambda client, task: client.rank in ranks)

    def offer_changed(self, source: ClientState, target: ClientState, target_weight: float) -> None:
        """Offers two clients that have changed their weights; see `FirstOfFew.offer_changed`."""
        for client in (source, target):
            if client.rank in self._clients:
                self._heap.reprioritize(client.rank, (self._weight(client), client.rank))
        self.offer(source)
        self.offer(target)


class UndeterminedFirstError(Exception):
    """Which client comes first depends on the layout of the heap."""


class FirstOfFew:
    """A `ClientQueue` of all clients by load, without its heap: for polls with few candidates among many clients.

    The first candidate is the least loaded one as long as the heap is in order. It can get out of order in one place:
    a target loses a task and so becomes lighter inside the heap, and the source, which is offered first, ends up below
    the target although it is lighter than the target's parent. The source then stays *hidden* until its ancestors are
    polled, and so can clients be that are offered meanwhile and end up below it. All hidden clients and their ancestors
    weigh between the source's weight and the target's former weight, which is the range kept here. A poll that passes
    the range restores the order. Two candidates inside the range are undetermined.
    """

    def __init__(self) -> None:
        self._hidden: tuple[tuple[float, int], tuple[float, int]] | None = None

    def poll_first(self, candidates: Collection[ClientState]) -> ClientState | None:
        """Returns the first of the candidates; None if there are none.

        Raises:
            UndeterminedFirstError: The order of the heap decides.
        """
        ordered = sorted((((client.load, client.rank), client) for client in candidates), key=itemgetter(0))
        if not ordered or (self._hidden is not None and ordered[0][0] >= self._hidden[1]):
            self._hidden = None
        if not ordered:
            return None
        if self._hidden is not None:
            low, high = self._hidden
            if sum(low <= key < high for key, _ in ordered) > 1 and ordered[0][0] >= low:
                raise UndeterminedFirstError
        return ordered[0][1]

    def offer_changed(self, source: ClientState, target: ClientState, target_weight: float) -> None:
        """Offers the source and the target of a movement.

        Args:
            source: client that gets the task.
            target: client that loses it.
            target_weight: load of the target before.
        """
        if target.load < target_weight:
            low, high = (target.load, target.rank), (target_weight, target.rank)
            if self._hidden is not None:
                low, high = min(low, self._hidden[0]), max(high, self._hidden[1])
            self._hidden = low, high


# --- high availability task assignor ----------------------------------------------------------------------------------


def assign_to_least_loaded(queue: ClientQueue, task: TaskId, num_standbys: int) -> None:
    """Assigns standbys of a task to the least loaded clients without the task, while there are any."""
    polled = []
    while num_standbys and (client := queue.poll(task, _is_any)) is not None:
        polled.append(client)
        if not client.has(task):
            client.standby.add(task)
            num_standbys -= 1
    # Kafka offers each client at once. The order is by load and ID, and those with the task aren't polled again for it.
    for client in polled:
        queue.offer(client)


def assign_standbys_by_tag(
    stateful: Sequence[TaskId], clients: Sequence[ClientState], num_standbys: int, tags: Collection[str], steps: Steps
) -> None:
    """Assigns the standbys of all tasks.

    Args:
        stateful: tasks with state, sorted.
        clients: clients by id.
        num_standbys: number of standbys per task.
        tags: keys of the tags that count (`rack.aware.assignment.tags`).
        steps: counter of steps.
    """
    values: dict[str, set[str]] = {}
    for client in clients:
        for key, value in client.tags.items():
            values.setdefault(key, set()).add(value)
    owner = {task: client for client in clients for task in client.active}
    queue = ClientQueue(clients, lambda client: client.load, steps, is_in_order=True)
    missing: dict[TaskId, int] = {}
    for task in stateful:
        used: dict[str, set[str]] = {}
        last, polled = owner[task], []
        for count in range(1, num_standbys + 1):
            for key, value in last.tags.items():
                if key not in tags:
                    continue
                if len(values[key]) <= count:
                    used.pop(key, None)
                else:
                    used.setdefault(key, set()).add(value)
            found = queue.poll(task, partial(_is_without, used=used))
            if found is None:
                missing[task] = num_standbys - count + 1
                break
            found.standby.add(task)
            polled.append(found)
            last = found
        for client in polled:  # Kafka offers all clients; the order of the others stays, because it's by load and ID.
            queue.offer(client)
    for task in task_hash_order(stateful):  # the map never shrinks, so that all tasks decide the order
        assign_to_least_loaded(queue, task, missing.get(task, 0))


def _is_without(client: ClientState, task: TaskId, used: Mapping[str, Collection[str]] = MappingProxyType({})) -> bool:
    return not client.has(task) and not any(client.tags.get(key) in values for key, values in used.items())


def has_same_tags(source: ClientState, destination: ClientState) -> bool:
    """Checks whether the destination has every tag of the source with the same value."""
    return source.tags.items() <= destination.tags.items()


class TaggedExchanges:
    """The exchanges of standbys that keep the number of distinct tags of each task's clients."""

    def __init__(self, clients: Iterable[ClientState], steps: Steps) -> None:
        self._steps = steps
        self._clients: dict[TaskId, set[ClientState]] = {}
        for client in clients:
            for task in client.active | client.standby:
                self._clients.setdefault(task, set()).add(client)

    def can_move(self, source: ClientState, destination: ClientState, task: TaskId) -> bool:
        """`CanMove`."""
        self._steps.count(len(self._clients[task]))
        others = {tag for client in self._clients[task] if client is not source for tag in client.tags.items()}
        return len(others | destination.tags.items()) >= len(others | source.tags.items())

    def move(self, exchange: Exchange) -> None:
        """Moves a standby."""
        exchange.move()
        self._clients[exchange.task].remove(exchange.source)
        self._clients[exchange.task].add(exchange.destination)


_TRAFFIC_COST, _NON_OVERLAP_COST = 10, 1
"""Costs of stateful tasks that aren't configured."""
_MAX_LAG = (1 << 63) - 1


@dataclass
class HighAvailabilityTrace:
    """What the assignor decided on the way.

    Attributes:
        target: Active tasks and standbys of each client after step 5.
        warmups: Standbys of each client that restore a task which the client gets later.
        movements: Number of tasks that aren't at their target yet; with any, a probing rebalance follows.
    """

    target: dict[str, tuple[set[TaskId], set[TaskId]]] = field(default_factory=dict)
    warmups: dict[str, set[TaskId]] = field(default_factory=dict)
    movements: int = 0


def assign_tasks(application: ClassicApplication, clients: Iterable[ClientState]) -> HighAvailabilityTrace:
    """Assigns all tasks to the clients."""
    clients = sorted(clients, key=lambda client: client.rank)
    config, trace = application.config, HighAvailabilityTrace()
    stateful = sorted(application.stateful)
    # Step 1, `assignActiveStatefulTasks`. Example: three tasks, two clients: C0 gets 0_0 and 0_2, C1 gets 0_1.
    for at, client in enumerate(clients):
        client.active.update(stateful[at :: len(clients)])
    balance_tasks(clients, lambda client: client.active, application.steps)
    has_racks, sources = knows_racks(application, clients), application.source_partitions
    costs = Costs.configured(config, _TRAFFIC_COST, _NON_OVERLAP_COST)
    if has_racks:
        optimize_active(application, stateful, clients, sources, costs)
    # Steps 4 and 5, `assignStandbyReplicaTasks`.
    if config.num_standby_replicas > 0:
        if config.rack_aware_tags:
            tags = config.rack_aware_tags
            assign_standbys_by_tag(stateful, clients, config.num_standby_replicas, tags, application.steps)
        else:
            queue = ClientQueue(clients, lambda client: client.load)
            for task in stateful:
                assign_to_least_loaded(queue, task, config.num_standby_replicas)
        can_move = has_same_tags if config.rack_aware_tags else None
        balance_tasks(clients, lambda client: client.standby, application.steps, can_move)
        if has_racks:
            tagged = TaggedExchanges(clients, application.steps) if config.rack_aware_tags else None
            rules = (tagged.can_move, tagged.move) if tagged is not None else (always, Exchange.move)
            optimize_standbys(application, clients, costs, MIN_TRAFFIC, *rules)
    trace.target = {client.process_id: (set(client.active), set(client.standby)) for client in clients}
    # Steps 6 and 7, `assignActiveTaskMovements` and `assignStandbyTaskMovements` of `TaskMovement`.
    Movements(application, clients, trace).run()
    # Step 8, `assignStatelessActiveTasks`.
    stateless = [task for task in application.tasks if task not in application.stateful]
    queue = ClientQueue(clients, lambda client: len(client.active) / client.capacity)
    for task in stateless:
        least_loaded = queue.poll(task, _is_any)
        assert least_loaded is not None
        least_loaded.active.add(task)
        queue.offer(least_loaded)
    if has_racks:
        optimize_active(application, stateless, clients, sources, STATELESS_COSTS)
    return trace


def _is_any(client: ClientState, task: TaskId) -> bool:
    return True


def balance_tasks(
    clients: Sequence[ClientState],
    tasks_of: Callable[[ClientState], set[TaskId]],
    steps: Steps,
    can_move: Callable[[ClientState, ClientState], bool] | None = None,
) -> None:
    """Moves tasks from client to client while that lowers the difference of their loads (`balanceTasksOverThreads`).

    Args:
        clients: the clients, by id.
        tasks_of: the tasks of a client that can move.
        steps: counter of steps.
        can_move: whether tasks can move from the first client to the second; None if all can.
    """
    capacity = np.array([client.capacity for client in clients], np.float64)
    count = np.array([len(client.active) + len(client.standby) for client in clients], np.float64)
    moved = True
    while moved:
        moved = False
        for at, source in enumerate(clients):
            # The inner loop of `balanceTasksOverThreads` visits all destinations. Those that can't take a task are
            # skipped.
            #
            # Example: C0 has four tasks, C1 has one, and each has one member.
            #     count [4, 1]    source C0: load_difference [-2, 1]    candidates [False, True]    one task moves to C1
            # A source only gets less loaded, so that later destinations can only drop out.
            load_difference = (count[at] - 1) / capacity[at] - (count + 1) / capacity
            candidates = (count[at] / capacity[at] > count / capacity) & (load_difference >= 0)
            destinations = np.flatnonzero(candidates).tolist()
            steps.count(len(destinations) + len(clients) // 100)
            for to in destinations:
                destination = clients[to]
                if can_move is not None and not can_move(source, destination):
                    continue
                steps.count(len(tasks_of(source)))
                for task in sorted(tasks_of(source)):
                    if not _should_move(source, destination):
                        break
                    if not destination.has(task):
                        tasks_of(source).remove(task)
                        tasks_of(destination).add(task)
                        count[at], count[to], moved = count[at] - 1, count[to] + 1, True


def _should_move(source: ClientState, destination: ClientState) -> bool:
    """Checks whether a move lowers the difference of the loads, and doesn't turn it around."""
    difference = source.load - destination.load
    if difference <= 0:
        return False
    source_count = len(source.active) + len(source.standby)
    destination_count = len(destination.active) + len(destination.standby)
    after = (source_count - 1) / source.capacity - (destination_count + 1) / destination.capacity
    return 0 <= after < difference


# --- steps 6 and 7 ----------------------------------------------------------------------------------------------------


class Movements:
    """Moves tasks from clients that haven't caught up to clients that have, or are closer (`TaskMovement`)."""

    def __init__(
        self, application: ClassicApplication, clients: Sequence[ClientState], trace: HighAvailabilityTrace
    ) -> None:
        self._clients, self._trace, self._steps = clients, trace, application.steps
        self._ends = application.end_offset_sums
        self._acceptable = application.config.acceptable_recovery_lag
        self._budget = self._max_warmups = application.config.max_warmup_replicas
        reporters: dict[TaskId, list[ClientState]] = {task: [] for task in application.stateful}
        for client in clients:
            for task in client.lags:
                reporters[task].append(client)
        self._reporters = reporters
        """Clients that report offsets of each task, by id; the lag of all others is the end offset."""
        self._caught_up = {
            task: [client for client in of if self._is_acceptable(client.lags[task])] for task, of in reporters.items()
        }
        """Those that have caught up. If clients that report nothing had, there would be no movement."""
        self._lowest_lag = {
            task: min([client.lags[task] for client in of] + [self._ends[task]] * (len(of) < len(clients)))
            for task, of in reporters.items()
        }
        """The lowest lag of all clients."""

    def run(self) -> None:
        """Steps 6 and 7."""
        before = [(set(client.active), set(client.standby)) for client in self._clients]
        try:
            self.move_all(FirstOfFew)
        except UndeterminedFirstError:
            for client, (active, standby) in zip(self._clients, before, strict=True):
                client.active, client.standby = active, standby
            self.move_all(lambda: ClientQueue(self._clients, lambda client: client.load, self._steps))

    def move_all(self, queue: Callable[[], FirstOfFew | ClientQueue]) -> None:
        """Makes the movements with queues of this kind."""
        self._budget, self._trace.movements = self._max_warmups, 0
        self._trace.warmups = {client.process_id: set() for client in self._clients}
        self._move_active(queue())
        self._move_standbys(queue())

    # --- lags -----------------------------------------------------------------------------------------------------

    def _is_acceptable(self, lag: int) -> bool:
        return lag == RUNNING or self._acceptable == _MAX_LAG or 0 <= lag <= self._acceptable

    def _by_lag(self, task: TaskId) -> Iterator[ClientState]:
        """Yields the clients by lag, then by id."""
        reporters, end = self._reporters[task], self._ends[task]
        lags = {client.rank: client.lags[task] for client in reporters}
        by_lag = sorted(reporters, key=lambda client: (client.lags[task], client.rank))
        yield from (client for client in by_lag if client.lags[task] < end)
        yield from (client for client in self._clients if lags.get(client.rank, end) == end)
        yield from (client for client in by_lag if client.lags[task] > end)

    def _must_move(self, client: ClientState, task: TaskId) -> bool:
        """Checks whether the client hasn't caught up and another one is closer."""
        lag = client.lags.get(task, self._ends[task])
        return self._lowest_lag[task] < lag and not self._is_acceptable(lag)

    def _collect(self, tasks_of: Callable[[ClientState], Iterable[TaskId]]) -> list[tuple[TaskId, ClientState]]:
        """Returns the movements, by the number of clients that have caught up, then by task."""
        return in_poll_order(
            ((len(self._caught_up[task]), task), (task, client))
            for client in self._clients
            for task in sorted(tasks_of(client))
            if self._must_move(client, task)
        )

    # --- moves ----------------------------------------------------------------------------------------------------

    def _move_active(self, queue: FirstOfFew | ClientQueue) -> None:
        """Step 6: runs a task at a caught-up client with its standby, any caught-up client, or the closest one."""
        movements = self._collect(lambda client: client.active & self._reporters.keys())
        self._trace.movements += len(movements)
        for task, target in movements:
            caught_up, weight = self._caught_up[task], target.load
            self._steps.count(len(caught_up))
            source = queue.poll_first([client for client in caught_up if task in client.standby])
            if source is None:
                source = queue.poll_first(caught_up)
            if source is None:
                source = next(iter(self._by_lag(task)))
            target.active.remove(task)
            source.active.add(task)
            if task in source.standby:
                source.standby.remove(task)
                target.standby.add(task)
            elif self._take_warmup():
                target.standby.add(task)
                self._trace.warmups[target.process_id].add(task)
            queue.offer_changed(source, target, weight)

    def _move_standbys(self, queue: FirstOfFew | ClientQueue) -> None:
        """Step 7: puts a standby at a caught-up client without the task, or the closest one."""
        warmups = self._trace.warmups
        for task, target in self._collect(lambda client: client.standby - warmups[client.process_id]):
            weight = target.load
            self._steps.count(len(self._caught_up[task]))
            source = queue.poll_first([client for client in self._caught_up[task] if not client.has(task)])
            if source is None:
                for client in self._by_lag(task):
                    if client is target:
                        break
                    if not client.has(task):
                        source = client
                        break
            if source is None:
                continue
            source.standby.add(task)
            if not self._take_warmup():
                target.standby.remove(task)
            self._trace.movements += 1
            queue.offer_changed(source, target, weight)

    def _take_warmup(self) -> bool:
        """Takes one from the number of warmups that are left; each attempt counts."""
        self._budget -= 1
        return self._budget >= 0
