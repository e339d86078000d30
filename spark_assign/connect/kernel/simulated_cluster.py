"""Simulation of one Connect cluster: events, the rebalances that follow, and their costs.

Events of one time are applied together, then the workers rebalance. A rebalance starts at once, and its result arrives
`rebalance_ms` later. Rebalances follow as long as a worker must rejoin:
    - Incremental protocols: a worker with revoked items stops them when the result arrives, which takes `stop_ms`, and
      rejoins at once.
    - A delay makes all workers rejoin when it ends, unless an event occurs before.
    - `eager`: every worker stops all of its items when the rebalance starts, so the result arrives after
      stop_ms + rebalance_ms.
Events that occur during a rebalance take effect in the next one, which starts when the current one is over.

Example (sessioned, maximum delay 5 min): w2 leaves at 0 with task t. Rebalance 1 at 0: nothing is assigned, delay 5
min. w2 returns without tasks at 1 min: rebalance 2, delay 4 min. Rebalance 3 at 5 min: w2 gets t, which hasn't run for
5 minutes and start_ms.

Workers report in serialized order (`serialized_order`). The leader is the given one, or else the worker with the lowest
id; it leads until it leaves. The next leader starts with an empty state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, groupby
from typing import Annotated, Any

from spark_assign.assignors.connect.connectors_and_tasks import (
    Names,
    apply_assignment,
    connector_item,
    connector_of,
    hash_set_order,
    is_task,
    serialized_order,
    split_items,
    task_item,
)
from spark_assign.assignors.connect.rebalance_input import AssignorState, RebalanceInput, RebalanceResult
from spark_assign.assignors.connect.release_rules import EAGER, ConnectRules
from spark_assign.java.hash_map import LONGEST_CHAIN
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.parameters import Param

EVENTS = ("worker-left", "worker-joined", "connector-removed", "connector-added", "tasks-changed")
"""Event types. Events of one time are applied in this order."""

WORKER_LEFT, WORKER_JOINED, CONNECTOR_REMOVED, CONNECTOR_ADDED, TASKS_CHANGED = range(5)
REJOIN, DELAY_OVER = "rejoin", "delay-over"


class InvalidEventError(Exception):
    """An event that can't occur; the message has the reason."""


@dataclass(frozen=True, slots=True, order=True)
class ConnectEvent:
    """A change of the cluster.

    Attributes:
        at_ms: Time of the event.
        event_type: Index into `EVENTS`.
        subject: Index of the worker or the connector.
        tasks: Number of tasks that the connector has from now on; -1 if the event has none.
    """

    at_ms: int
    event_type: int
    subject: int
    tasks: int


@dataclass(frozen=True, slots=True)
class ConnectTiming:
    """Durations of a start, a stop, and a rebalance, in milliseconds.

    Attributes:
        start_ms: time that a task takes to start.
        stop_ms: time that a worker takes to stop revoked connectors and tasks, which stop concurrently.
        rebalance_ms: time from the start of a rebalance to the arrival of its result.

    Raises:
        ConfigError: A time is negative.
    """

    start_ms: Annotated[int, Param(flag="connect_start_time")] = 2_000
    stop_ms: Annotated[int, Param(flag="connect_stop_time")] = 1_000
    rebalance_ms: Annotated[int, Param(flag="connect_rebalance_time")] = 3_000

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value < 0:
                raise ConfigError(f"{name} is {value}, expected 0 or more milliseconds")


@dataclass(slots=True)
class ConnectInitialState:
    """The cluster at the start of a simulation.

    Attributes:
        rebalance: Input of a rebalance at the start, each worker's items in the order in which it lists them.
        leader: Index of the leading worker; `None` if unknown.
        workers: Names of all workers.
        connectors: Names of all connectors.
    """

    rebalance: RebalanceInput
    leader: int | None
    workers: Names
    connectors: Names


@dataclass(slots=True)
class ConnectCosts:
    """Starts, stops, and the time during which tasks don't run.

    A configured task doesn't run from the event that creates it, from the loss of its worker, or from the time at which
    its worker starts to stop it. It runs `start_ms` after the arrival of the result that assigns it. Time counts only
    while the task is configured, and ends with the simulation.

    Example: start_ms 2,000. A task is created at 0, and the result that assigns it to w1 arrives at 500: 2,500 ms. w1
    leaves at 60,000, and the result that assigns it to w2 arrives at 360,000: 302,000 ms more. If its connector is
    removed at 361,000, while w2 is starting it, 301,000 ms more.

    Attributes:
        start_ms: Time that a task takes to start.
        starts: Number of started connectors, number of started tasks.
        stops: Number of stopped connectors, number of stopped tasks.
        lost_with_worker: Number of connectors and tasks lost with their worker, which aren't stops.
        task_ms_not_running: Sum over all tasks.
    """

    start_ms: int
    starts: list[int] = field(default_factory=lambda: [0, 0])
    stops: list[int] = field(default_factory=lambda: [0, 0])
    lost_with_worker: int = 0
    task_ms_not_running: int = 0
    _down_since: dict[int, int] = field(default_factory=dict)
    _ready: dict[int, int] = field(default_factory=dict)

    def add_configured(self, items: Iterable[int], at_ms: int, owned: Collection[int] = ()) -> None:
        """Adds configured items, which don't run yet, except `owned`: configured again before the worker learned of
        the removal."""
        for item in items:
            if item in owned:
                self.task_ms_not_running += self._charged_ahead(item, at_ms)
            elif is_task(item):
                self._down_since[item] = at_ms
                self._ready.pop(item, None)

    def remove_configured(self, items: Iterable[int], at_ms: int) -> None:
        """Removes configured items, and refunds the time charged in advance for their start."""
        for item in items:
            since = self._down_since.pop(item, at_ms)
            self.task_ms_not_running += max(at_ms - since, 0) - self._charged_ahead(item, at_ms)

    def start(self, items: Iterable[int], at_ms: int) -> None:
        """Counts the items that a worker starts."""
        for item in items:
            self.starts[is_task(item)] += 1
            since = self._down_since.pop(item, None)
            if since is not None:
                self._ready[item] = at_ms + self.start_ms
                self.task_ms_not_running += self._ready[item] - since

    def stop(self, items: Iterable[int], at_ms: int, configured: set[int]) -> None:
        """Counts the items that a worker stops."""
        for item in items:
            self.stops[is_task(item)] += 1
            self._mark_down(item, at_ms, configured)

    def lose(self, items: Iterable[int], at_ms: int, configured: set[int]) -> None:
        """Counts the items that are lost with their worker."""
        for item in items:
            self.lost_with_worker += 1
            self._mark_down(item, at_ms, configured)

    def end(self, at_ms: int) -> None:
        """Ends the simulation."""
        self.remove_configured(list(self._down_since), at_ms)

    @property
    def not_running(self) -> int:
        """Number of configured tasks without a worker."""
        return len(self._down_since)

    def _charged_ahead(self, item: int, at_ms: int) -> int:
        """Returns the time after `at_ms` that is already charged for a starting task."""
        return max(self._ready.get(item, at_ms) - at_ms, 0)

    def _mark_down(self, item: int, at_ms: int, configured: set[int]) -> None:
        if is_task(item) and item in configured:
            # A task that is stopped while it starts is charged until the end of the start already.
            self._down_since[item] = max(at_ms, self._ready.get(item, at_ms))


def simulate(
    initial: ConnectInitialState,
    events: Iterable[ConnectEvent],
    rules: ConnectRules,
    timing: ConnectTiming,
) -> tuple[list[dict[str, Any]], ConnectCosts, int]:
    """Simulates all events and all rebalances that follow from them.

    Returns:
        The rebalances as rows of `tables.connect.REBALANCES`, the costs, and the time at which the simulation ends.

    Raises:
        InvalidEventError: An event can't occur.
    """
    cluster = _SimulatedConnectCluster(initial, rules, timing)
    now: int = initial.rebalance.now_ms
    for at_ms, simultaneous in groupby(sorted(events), key=lambda event: event.at_ms):
        now = cluster.rebalance_until(at_ms, now)
        for event in simultaneous:
            cluster.apply(event)
        now = max(now, at_ms)
    now = cluster.rebalance_until(None, now)
    cluster.costs.end(now)
    return cluster.rebalances, cluster.costs, now


class _SimulatedConnectCluster:
    def __init__(self, initial: ConnectInitialState, rules: ConnectRules, timing: ConnectTiming) -> None:
        self.initial, self.rules, self.timing, self.eager = initial, rules, timing, rules is EAGER
        first = initial.rebalance
        self.lists = dict(zip(first.workers, first.reported, strict=True))
        self.configured, self.leader, self.state = first.configured, initial.leader, first.state
        self.generation, self.last_completed = first.generation_id, first.last_completed_generation_id
        self.costs = ConnectCosts(timing.start_ms)
        self.costs.add_configured(self.configured - self._owned(), first.now_ms)
        self.rebalances: list[dict[str, Any]] = []
        self.event_texts: list[str] = []
        self.cause, self.lost_with_worker = "", 0
        self.next_ms: int | None = None

    def _owned(self) -> set[int]:
        """Returns the items that any worker lists."""
        return set(chain.from_iterable(chain(*listed) for listed in self.lists.values()))

    def apply(self, event: ConnectEvent) -> None:
        """Changes the cluster, and schedules a rebalance as soon as possible."""
        now_ms = self.initial.rebalance.now_ms
        _check(event.at_ms >= now_ms, event, f"at_ms is before {now_ms}, the now_ms of its cluster")
        is_worker = event.event_type in (WORKER_LEFT, WORKER_JOINED)
        name = (self.initial.workers if is_worker else self.initial.connectors).texts[event.subject]
        if is_worker:
            self._change_worker(event, name)
        else:
            self._change_connector(event, name)
        self.event_texts.append(f"{EVENTS[event.event_type]} {name}")
        self.next_ms = event.at_ms  # earlier rebalances are already simulated

    def _change_worker(self, event: ConnectEvent, name: str) -> None:
        """Adds or removes a worker. If the leader leaves, its state is lost."""
        is_member = event.subject in self.lists
        if event.event_type == WORKER_JOINED:
            _check(not is_member, event, f"worker {name} is already a member")
            self.lists[event.subject] = ([], [])
            return
        _check(is_member, event, f"worker {name} isn't a member")
        lost = [*chain(*self.lists.pop(event.subject))]
        self.lost_with_worker += len(lost)
        self.costs.lose(lost, event.at_ms, self.configured - self._owned())  # items of several workers keep running
        if self.leader == event.subject:
            self.leader = None
            self.state = AssignorState()

    def _change_connector(self, event: ConnectEvent, name: str) -> None:
        """Adds, removes, or resizes a connector."""
        item = connector_item(event.subject)
        is_configured = item in self.configured
        if event.event_type == CONNECTOR_ADDED:
            _check(not is_configured, event, f"connector {name} exists already")
        else:
            _check(is_configured, event, f"connector {name} doesn't exist")
        if event.event_type == TASKS_CHANGED:
            _check(event.tasks >= 0, event, f"tasks is null, expected the new number of tasks of connector {name}")
        before = set(filter(lambda item: connector_of(item) == event.subject, self.configured))
        after = set() if event.event_type == CONNECTOR_REMOVED else {item}
        after.update(task_item(event.subject, task) for task in range(event.tasks) if after)
        self.configured = (self.configured - before) | after
        self.costs.remove_configured(before - after, event.at_ms)
        self.costs.add_configured(after - before, event.at_ms, self._owned())

    def rebalance_until(self, end_ms: int | None, now: int) -> int:
        """Simulates the rebalances that start before `end_ms` (`None`: all), and returns when the last one is over."""
        while self.next_ms is not None and (end_ms is None or max(self.next_ms, now) < end_ms):
            start = max(self.next_ms, now)
            self.next_ms = None
            if self.lists:
                now = self._rebalance(start)
            else:
                self.event_texts.clear()
                now = start
        return now

    def _rebalance(self, start: int) -> int:
        """Simulates one rebalance, and returns when its result is applied and the revoked items are stopped."""
        if self.leader not in self.lists:
            if self.leader is not None:
                self.state = AssignorState()
            self.leader = min(self.lists)
        rebalance, spread_hash = self._rebalance_input(start), self.initial.connectors.spread_hash
        result = self.rules.assign(rebalance)
        stops_before = sum(self.costs.stops)
        arrival = start + self.timing.rebalance_ms
        if self.eager:
            owned = [item for listed in self.lists.values() for item in chain(*listed)]
            arrival += self.timing.stop_ms if owned else 0
            self.costs.stop(owned, start, self.configured)
        for worker, assigned in zip(rebalance.workers, result.assigned, strict=True):
            listed = ([], []) if self.eager else self.lists[worker]
            revoked = result.revoked.get(worker, set())
            self.costs.stop([item for item in chain(*listed) if item in revoked], arrival, self.configured)
            self.lists[worker] = apply_assignment(listed, split_items(assigned), revoked, spread_hash)
            self.costs.start(assigned, arrival)
        self.state = result.state
        self.last_completed = rebalance.generation_id
        self._add_rebalance(rebalance, result, sum(self.costs.stops) - stops_before)
        if result.revoked:
            self.next_ms, self.cause = arrival + self.timing.stop_ms, REJOIN
            return self.next_ms
        if result.delay_ms > 0:
            self.next_ms, self.cause = arrival + result.delay_ms, DELAY_OVER
        return arrival

    def _rebalance_input(self, start: int) -> RebalanceInput:
        """Returns the input of the leader's assignor."""
        workers = hash_set_order(sorted(self.lists), self.initial.workers.spread_hash)
        if len(workers) > LONGEST_CHAIN and self.rules.copies_workers:
            workers = hash_set_order(workers, self.initial.workers.spread_hash)  # a second map, copied from the first
        hashes = self.initial.connectors.spread_hash
        reported = [([], []) if self.eager else serialized_order(*self.lists[worker], hashes) for worker in workers]
        rebalance = replace(
            self.initial.rebalance,
            workers=workers,
            reported=reported,
            configured=self.configured,
            configured_tasks=sum(map(is_task, self.configured)),
            now_ms=start,
            generation_id=self.generation,
            last_completed_generation_id=self.last_completed,
            state=self.state,
        )
        self.generation += 1
        return rebalance

    def _add_rebalance(self, rebalance: RebalanceInput, result: RebalanceResult, stopped: int) -> None:
        """Adds the row of a rebalance; the next one starts without events. Workers start all assigned items."""
        num_assigned = sum(map(len, result.assigned))
        self.rebalances.append(
            {
                "rebalance": len(self.rebalances),
                "at_ms": rebalance.now_ms,
                "event": ", ".join(self.event_texts) or self.cause,
                "generation_id": rebalance.generation_id,
                "workers": len(rebalance.workers),
                "assigned": num_assigned,
                "revoked": sum(map(len, result.revoked.values())),
                "lost_with_worker": self.lost_with_worker,
                "stopped": stopped,
                "started": num_assigned,
                "running": sum(len(connectors) + len(tasks) for connectors, tasks in self.lists.values()),
                "not_running": self.costs.not_running,
                "delay_ms": result.delay_ms,
            }
        )
        self.event_texts, self.lost_with_worker = [], 0


def _check(is_valid: bool, event: ConnectEvent, reason: str) -> None:
    if not is_valid:
        raise InvalidEventError(f"events: at_ms={event.at_ms}, event={EVENTS[event.event_type]}: {reason}")
