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

    def cost(self, partition: int, giver: int, taker: int) -> int:
        """Moves that a step adds."""

    def fits(self, partition: int, giver: int, taker: int) -> bool:
        """Whether a step is allowed."""


@dataclass(frozen=True)
class Chain:
    """Steps (partition, from broker, to broker), the last one first, and the moves that they add."""

    steps: list[_Edge]
    cost: int


def cheapest_chain(
    state: Placement, givers: Collection[int], takers: Collection[int], probes: int | None
) -> Chain | None:
    """The chain that adds the fewest moves, of those the shortest; null where there is none.

    Args:
        state: the placement.
        givers, takers: where a chain may begin, and where it may end.
        probes: how many replicas of a broker to look at; null for all.
    """
    banned: set[_Edge] = set()
    for _ in range(_TRIES):
        steps = _search(state, givers, takers, probes, banned)
        if steps is None:
            return None
        wrong = _first_that_fails(state, steps)
        if wrong is None:
            return Chain(steps, sum(state.cost(*step) for step in steps))
        banned.add(wrong)
    return None


def _search(
    state: Placement, givers: Collection[int], takers: Collection[int], probes: int | None, banned: set[_Edge]
) -> list[_Edge] | None:
    far = (1 << 30, 0)
    distance = dict.fromkeys(givers, (0, 0))
    came: dict[int, _Edge] = {}
    # Of equally cheap chains the first one found stays: the one from the most loaded broker.
    waiting = deque(sorted(givers, key=lambda broker: (-state.load[broker] / state.share[broker], broker)))
    edges: dict[int, dict[int, tuple[int, int]]] = {}
    longest = len(state.brokers)
    while waiting:
        giver = waiting.popleft()
        if giver not in edges:
            edges[giver] = _steps_from(state, giver, probes, banned)
        cost, hops = distance[giver]
        for taker, (added, partition) in edges[giver].items():
            reached = (cost + added, hops + 1)
            if hops < longest and reached < distance.get(taker, far):
                distance[taker] = reached
                came[taker] = (partition, giver, taker)
                waiting.append(taker)
    ends = [broker for broker in takers if broker in came]
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


def _steps_from(state: Placement, giver: int, probes: int | None, banned: set[_Edge]) -> dict[int, tuple[int, int]]:
    """Of each broker that the giver can send something to: the moves that adds, and the partition."""
    found: dict[int, tuple[int, int]] = {}
    for pool in (state.fresh[giver], state.stayed[giver]):
        for partition in pool[:probes]:
            if giver not in state.assigned[partition]:
                continue
            for taker in state.brokers:
                if found.get(taker, (2, 0))[0] == -1 or not state.fits(partition, giver, taker):
                    continue
                added = state.cost(partition, giver, taker)
                if added < found.get(taker, (2, 0))[0] and (partition, giver, taker) not in banned:
                    found[taker] = (added, partition)
    return found


def _first_that_fails(state: Placement, steps: list[_Edge]) -> _Edge | None:
    """A step that is no longer allowed once those before it are done; the placement is as before afterwards."""
    partitions = {partition for partition, _, _ in steps}
    if len(partitions) == len(steps):
        return None
    before = {partition: list(state.assigned[partition]) for partition in partitions}
    wrong = None
    for step in steps:
        partition, giver, taker = step
        if not state.fits(*step):
            wrong = step
            break
        replicas = state.assigned[partition]
        replicas[replicas.index(giver)] = taker
    for partition, replicas in before.items():
        state.assigned[partition] = replicas
    return wrong
