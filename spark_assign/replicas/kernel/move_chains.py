"""The cheapest chain of replica moves from one set of brokers to another (Bellman and Ford's way)."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

PROBES_IN_LARGE = 64
"""In a large cluster so many replicas of a broker are looked at."""
CHAINS_IN_LARGE = 200
"""In a large cluster so many chains are sought."""

_TRIES = 20
_Edge = tuple[int, int, int]


class Placement(Protocol):
    """What chains are sought in: `even_out.Evening`."""

    assigned: list[list[int]]
    brokers: list[int]
    load: list[int]
    share: list[float]
    fresh: list[list[int]]
    stayed: list[list[int]]

    def cost(self, partition: int, from_broker: int, to_broker: int) -> int:
        """Moves that a step adds."""

    def fits(self, partition: int, from_broker: int, to_broker: int) -> bool:
        """Whether a step is allowed."""


@dataclass(frozen=True)
class Chain:
    """Steps (partition, from broker, to broker), the last one first, and the moves that they add."""

    steps: list[_Edge]
    cost: int


def cheapest_chain(
    state: Placement, from_brokers: Collection[int], to_brokers: Collection[int], probes: int | None
) -> Chain | None:
    """The chain that adds the fewest moves, of those the shortest; null where there is none.

    Args:
        state: the placement.
        from_brokers, to_brokers: where a chain may begin, and where it may end.
        probes: how many replicas of a broker to look at; null for all.
    """
    banned: set[_Edge] = set()
    for _ in range(_TRIES):
        steps = _search(state, from_brokers, to_brokers, probes, banned)
        if steps is None:
            return None
        wrong = _first_that_fails(state, steps)
        if wrong is None:
            return Chain(steps, sum(state.cost(*step) for step in steps))
        banned.add(wrong)
    return None


def _search(
    state: Placement, from_brokers: Collection[int], to_brokers: Collection[int], probes: int | None, banned: set[_Edge]
) -> list[_Edge] | None:
    far = (1 << 30, 0)
    distance = dict.fromkeys(from_brokers, (0, 0))
    came: dict[int, _Edge] = {}
    # Of equally cheap chains the first one found stays: the one from the most loaded broker.
    waiting = deque(sorted(from_brokers, key=lambda broker: (-state.load[broker] / state.share[broker], broker)))
    edges: dict[int, dict[int, tuple[int, int]]] = {}
    longest = len(state.brokers)
    while waiting:
        from_broker = waiting.popleft()
        if from_broker not in edges:
            edges[from_broker] = _steps_from(state, from_broker, probes, banned)
        cost, hops = distance[from_broker]
        for to_broker, (added, partition) in edges[from_broker].items():
            reached = (cost + added, hops + 1)
            if hops < longest and reached < distance.get(to_broker, far):
                distance[to_broker] = reached
                came[to_broker] = (partition, from_broker, to_broker)
                waiting.append(to_broker)
    ends = [broker for broker in to_brokers if broker in came]
    if not ends:
        return None
    at = min(ends, key=lambda broker: (distance[broker], state.load[broker] / state.share[broker], broker))
    steps: list[_Edge] = []
    seen = {at}
    while at in came:
        steps.append(came[at])
        at = came[at][1]
        if at in seen:  # a circle that saves moves by itself: no chain
            return None
        seen.add(at)
    return steps


def _steps_from(
    state: Placement, from_broker: int, probes: int | None, banned: set[_Edge]
) -> dict[int, tuple[int, int]]:
    """Of each broker that this one can send something to: the moves that adds, and the partition."""
    found: dict[int, tuple[int, int]] = {}
    for pool in (state.fresh[from_broker], state.stayed[from_broker]):
        for partition in pool[:probes]:
            if from_broker not in state.assigned[partition]:
                continue
            for to_broker in state.brokers:
                if found.get(to_broker, (2, 0))[0] == -1 or not state.fits(partition, from_broker, to_broker):
                    continue
                added = state.cost(partition, from_broker, to_broker)
                if added < found.get(to_broker, (2, 0))[0] and (partition, from_broker, to_broker) not in banned:
                    found[to_broker] = (added, partition)
    return found


def _first_that_fails(state: Placement, steps: list[_Edge]) -> _Edge | None:
    """A step that is no longer allowed once those before it are done; the placement is as before afterwards."""
    partitions = {partition for partition, _, _ in steps}
    if len(partitions) == len(steps):
        return None
    before = {partition: list(state.assigned[partition]) for partition in partitions}
    wrong = None
    for step in steps:
        partition, from_broker, to_broker = step
        if not state.fits(*step):
            wrong = step
            break
        replicas = state.assigned[partition]
        replicas[replicas.index(from_broker)] = to_broker
    for partition, replicas in before.items():
        state.assigned[partition] = replicas
    return wrong
