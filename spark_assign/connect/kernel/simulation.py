"""One Connect cluster played through time: events, the rebalances that follow, and what they cost.

Principle: events of one instant happen together, then the workers rebalance. A round begins at once; its result arrives
`rebalance_ms` later. Then rounds follow while anybody has to join again:
    - with an incremental protocol a worker that has to give something up stops it when the result arrives, which takes
      `stop_ms`, and joins again at once;
    - a delay makes all workers join again when it is over, unless an event comes first;
    - with `eager` every worker stops all it runs when the round begins, so that the result arrives after
      stop_ms + rebalance_ms.
What happens while a round runs takes effect in the next one, which begins when this one is over.

Example (sessioned, max delay 5 min): w2 leaves at 0 with task t. Round 1 at 0: nothing assigned, delay 5 min. w2 comes
back empty at 1 min: round 2, delay 4 min. Round 3 at 5 min: w2 gets t, which has not run for 5 minutes and start_ms.

Workers report as over the wire (`serialized_order`). The leader is the one that is given, else the worker with the
lowest id; it stays leader until it leaves. The next one begins with a memory of its own, which is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby

from spark_assign.connect.kernel import incremental_2_6
from spark_assign.connect.kernel.assignor_state import AssignorState
from spark_assign.connect.kernel.connector_task_ids import (
    Names,
    connector_item,
    connector_of,
    is_task,
    parted,
    task_item,
)
from spark_assign.connect.kernel.costs import Costs
from spark_assign.connect.kernel.hash_set_order import walk
from spark_assign.connect.kernel.rebalance_input import Listed, RebalanceInput, RebalanceResult
from spark_assign.connect.kernel.serialized_order import list_after, over_the_wire
from spark_assign.java.hash_map import LONGEST_CHAIN

EVENTS = ("worker-left", "worker-joined", "connector-removed", "connector-added", "tasks-changed")
"""What can happen; events of one instant happen in this order."""

WORKER_LEFT, WORKER_JOINED, CONNECTOR_REMOVED, CONNECTOR_ADDED, TASKS_CHANGED = range(5)
REJOIN, DELAY_OVER = "rejoin", "delay-over"


class BadEvent(Exception):
    """An event that cannot happen; the message says why."""


@dataclass(frozen=True, slots=True, order=True)
class Event:
    """Something that happens to the cluster.

    Attributes:
        at_ms: when.
        what: number of the event (`EVENTS`).
        subject: number of the worker or the connector.
        tasks: how many tasks the connector has from now on; -1 where the event tells none.
    """

    at_ms: int
    what: int
    subject: int
    tasks: int


@dataclass(frozen=True, slots=True)
class Timing:
    """Milliseconds that a start, a stop and a rebalance take."""

    start_ms: int
    stop_ms: int
    rebalance_ms: int


@dataclass(slots=True)
class ConnectRound:
    """One round. `gone`: connectors and tasks that went with a worker since the round before; `not_running`: configured
    tasks that no worker has after the round."""

    at_ms: int
    event: str
    generation_id: int
    workers: int
    assigned: int
    revoked: int
    gone: int
    stopped: int
    started: int
    running: int
    not_running: int
    delay_ms: int


@dataclass(slots=True)
class ConnectInitialState:
    """What a play begins with.

    Attributes:
        lists: of each worker that is there what it runs, in the order in which it lists it.
        configured: connectors and tasks.
        leader: a worker's number; null: none is named.
        memory: of the leader.
        workers, connectors: the names.
    """

    lists: dict[int, Listed]
    configured: set[int]
    generation_id: int
    last_completed_generation_id: int
    max_delay_ms: int
    leader: int | None
    memory: AssignorState
    workers: Names
    connectors: Names
    now_ms: int = 0


def play(
    stage: ConnectInitialState,
    events: Iterable[Event],
    assignor: Callable[[RebalanceInput], RebalanceResult],
    timing: Timing,
    *,
    eager: bool,
) -> tuple[list[ConnectRound], Costs, int]:
    """Play all events, and all rounds that follow from them.

    Returns:
        the rounds, the costs, and when the play ended.

    Raises:
        BadEvent: an event cannot happen.
    """
    cluster = _SimulatedConnectCluster(stage, assignor, timing, eager)
    now: int = stage.now_ms
    for at_ms, together in groupby(sorted(events), key=lambda event: event.at_ms):
        now = cluster.rebalance_until(at_ms, now)
        for event in together:
            cluster.happens(event)
        now = max(now, at_ms)
    now = cluster.rebalance_until(None, now)
    cluster.costs.end(now)
    return cluster.rounds, cluster.costs, now


@dataclass(slots=True)
class _SimulatedConnectCluster:
    stage: ConnectInitialState
    assignor: Callable[[RebalanceInput], RebalanceResult]
    timing: Timing
    eager: bool
    costs: Costs = field(init=False)
    rounds: list[ConnectRound] = field(default_factory=list)
    lists: dict[int, Listed] = field(init=False)
    configured: set[int] = field(init=False)
    leader: int | None = field(init=False)
    memory: AssignorState = field(init=False)
    generation: int = field(init=False)
    completed: int = field(init=False)
    happened: list[str] = field(default_factory=list)
    otherwise: str = ""
    next_ms: int | None = None
    gone: int = 0

    def __post_init__(self) -> None:
        stage = self.stage
        self.costs = Costs(self.timing.start_ms)
        self.lists, self.configured = dict(stage.lists), set(stage.configured)
        self.leader, self.memory = stage.leader, stage.memory
        self.generation, self.completed = stage.generation_id, stage.last_completed_generation_id
        self.costs.configured(self.configured - self._held(), stage.now_ms)

    def _held(self) -> set[int]:
        """All that workers list."""
        return set(chain.from_iterable(chain(*listed) for listed in self.lists.values()))

    # --- events ---------------------------------------------------------------------------------------------

    def happens(self, event: Event) -> None:
        """Change the cluster; the round that follows is to begin as soon as it can."""
        _check(event.at_ms >= self.stage.now_ms, event, f"it comes before the now_ms of clusters, {self.stage.now_ms}")
        worker = event.what in (WORKER_LEFT, WORKER_JOINED)
        name = (self.stage.workers if worker else self.stage.connectors).texts[event.subject]
        if worker:
            self._worker(event, name)
        else:
            self._connector(event, name)
        self.happened.append(f"{EVENTS[event.what]} {name}")
        self.next_ms = event.at_ms  # whatever was due before has been played

    def _worker(self, event: Event, name: str) -> None:
        there = event.subject in self.lists
        if event.what == WORKER_JOINED:
            _check(not there, event, f"worker {name} is there already")
            self.lists[event.subject] = ([], [])
            return
        _check(there, event, f"worker {name} is not there")
        lost = [*chain(*self.lists.pop(event.subject))]
        self.gone += len(lost)
        self.costs.lost(lost, event.at_ms, self.configured - self._held())  # what another one runs, too, still runs
        if self.leader == event.subject:
            self.leader = None
            self.memory = AssignorState()

    def _connector(self, event: Event, name: str) -> None:
        item = connector_item(event.subject)
        known = item in self.configured
        if event.what == CONNECTOR_ADDED:
            _check(not known, event, f"connector {name} is there already")
        else:
            _check(known, event, f"there is no connector {name}")
        if event.what == TASKS_CHANGED:
            _check(event.tasks >= 0, event, f"it does not tell how many tasks connector {name} has")
        before = {each for each in self.configured if connector_of(each) == event.subject}
        after = set() if event.what == CONNECTOR_REMOVED else {item}
        after.update(task_item(event.subject, task) for task in range(event.tasks) if after)
        self.configured = (self.configured - before) | after
        self.costs.removed(before - after, event.at_ms)
        self.costs.configured(after - before, event.at_ms, self._held())

    # --- rounds ---------------------------------------------------------------------------------------------

    def rebalance_until(self, stop_ms: int | None, now: int) -> int:
        """Play the rounds that begin before this time (null: all); returns when the last one was over."""
        while self.next_ms is not None and (stop_ms is None or max(self.next_ms, now) < stop_ms):
            begin = max(self.next_ms, now)
            self.next_ms = None
            if self.lists:
                now = self._round(begin)
            else:
                self.happened.clear()
                now = begin
        return now

    def _round(self, begin: int) -> int:
        """One round; returns when its result has arrived and what had to stop has stopped."""
        if self.leader not in self.lists:
            if self.leader is not None:
                self.memory = AssignorState()
            self.leader = min(self.lists)
        told, spread = self._told(begin), self.stage.connectors.spread
        result = self.assignor(told)
        stopped = started = 0
        arrives = begin + self.timing.rebalance_ms
        if self.eager:
            held = [item for listed in self.lists.values() for item in chain(*listed)]
            arrives += self.timing.stop_ms if held else 0
            self.costs.stopped(held, begin, self.configured)
            stopped = len(held)
        for worker, assigned in zip(told.workers, result.assigned, strict=True):
            listed = ([], []) if self.eager else self.lists[worker]
            revoked = result.revoked.get(worker, set())
            if gone := [item for item in chain(*listed) if item in revoked]:
                self.costs.stopped(gone, arrives, self.configured)
                stopped += len(gone)
            self.lists[worker] = list_after(listed, parted(assigned), revoked, spread)
            self.costs.started(assigned, arrives)
            started += len(assigned)
        self.memory = result.memory
        self.completed = told.generation_id
        self._close(told, result, stopped, started)
        if result.revoked:
            self.next_ms, self.otherwise = arrives + self.timing.stop_ms, REJOIN
            return self.next_ms
        if result.delay_ms > 0:
            self.next_ms, self.otherwise = arrives + result.delay_ms, DELAY_OVER
        return arrives

    def _told(self, begin: int) -> RebalanceInput:
        """What the leader's assignor is told."""
        workers = walk(sorted(self.lists), self.stage.workers.spread)
        if len(workers) > LONGEST_CHAIN and self.assignor is not incremental_2_6.rebalance:
            workers = walk(workers, self.stage.workers.spread)  # of a second map, made from the first
        spread = self.stage.connectors.spread
        told = RebalanceInput(
            workers=workers,
            reported=[([], []) if self.eager else over_the_wire(*self.lists[each], spread) for each in workers],
            configured=self.configured,
            configured_tasks=sum(map(is_task, self.configured)),
            now_ms=begin,
            max_delay_ms=self.stage.max_delay_ms,
            generation_id=self.generation,
            last_completed_generation_id=self.completed,
            worker_spread=self.stage.workers.spread,
            memory=self.memory,
        )
        self.generation += 1
        return told

    def _close(self, told: RebalanceInput, result: RebalanceResult, stopped: int, started: int) -> None:
        self.rounds.append(
            ConnectRound(
                at_ms=told.now_ms,
                event=", ".join(self.happened) or self.otherwise,
                generation_id=told.generation_id,
                workers=len(told.workers),
                assigned=_total(result.assigned),
                revoked=_total(result.revoked.values()),
                gone=self.gone,
                stopped=stopped,
                started=started,
                running=sum(len(some) + len(others) for some, others in self.lists.values()),
                not_running=self.costs.not_running,
                delay_ms=result.delay_ms,
            )
        )
        self.happened, self.gone = [], 0


def _check(fine: bool, event: Event, why: str) -> None:
    if not fine:
        raise BadEvent(f"events: at_ms={event.at_ms}, event={EVENTS[event.what]}: {why}")


def _total(shares: Iterable[Sequence[int] | set[int]]) -> int:
    return sum(map(len, shares))
