"""Brings every broker within its bounds: first with replicas that move anyway, then with as few others as possible.

A replica on a broker that didn't have the partition before is new: to send it to another broker costs nothing, and to
send it back to its previous broker saves a move. To send away a replica that stayed costs a move. In a small cluster,
the cheapest chain of such steps from a broker above its bounds to a broker with room is found repeatedly, by
Bellman-Ford (as in a minimum-cost flow). In a large cluster, replicas move directly between the two brokers first, and
chains are searched only for the remaining ones.

Whether all bounds are met depends on the steps found: this is a heuristic, unlike the other steps of `reassign`.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np

from spark_assign.numeric.arrays import values_by_key
from spark_assign.replicas.kernel.replica_cluster import BrokerShares, ReplicaCluster

MAX_EXHAUSTIVE_SIZE = 10_000
"""Largest number of replicas times brokers for which chains are searched among all replicas."""

PROBES_IN_LARGE = 64
"""Maximum number of replicas per broker that the chain search of a large cluster considers."""
CHAINS_IN_LARGE = 200
"""Maximum number of chain searches in a large cluster."""
MAX_CHAIN_PAIRS = 40_000_000
"""Maximum number of chain searches times brokers times brokers in a large cluster, because a search looks at each pair
of brokers. Up to 447 brokers, all searches are made; for 2,000, ten."""

_MAX_ATTEMPTS = 20
_EPSILON = 1e-9
_Step = tuple[int, int, int]
"""Partition, from broker, to broker."""


class ReplicaBalance:
    """A placement under change: `assigned`, which is updated in place, and the load of each broker."""

    def __init__(self, cluster: ReplicaCluster, assigned: list[list[int]], shares: BrokerShares) -> None:
        self.assigned = assigned
        self.previous = cluster.previous()
        self.rack: list[int] = cluster.rack.tolist()
        self.needed: list[int] = cluster.racks_needed().tolist()
        self.weight: list[int] = cluster.weight.tolist()
        self.lightest = min(self.weight, default=0)
        self.weighed = cluster.weighed
        self.brokers: list[int] = np.flatnonzero(cluster.usable).tolist()
        self.least: list[float] = (shares.least - _EPSILON * (1 + shares.least)).tolist()
        self.most: list[float] = (shares.most + _EPSILON * (1 + shares.most)).tolist()
        self.share: list[float] = np.maximum(shares.share, 1e-12).tolist()
        self.load: list[int] = [0] * len(self.rack)
        self.new_replicas: list[list[int]] = [[] for _ in self.rack]
        self.kept_replicas: list[list[int]] = [[] for _ in self.rack]
        # Neighboring partitions are of one topic: a broker should not receive or send a topic's replicas in a row.
        scattered = np.argsort((np.arange(len(assigned)) * 2654435761) & 0xFFFFFFFF, kind="stable")
        for partition in scattered.tolist():
            previous = self.previous[partition]
            for broker in assigned[partition]:
                self.load[broker] += self.weight[partition]
                (self.kept_replicas if broker in previous else self.new_replicas)[broker].append(partition)

    def over(self) -> list[int]:
        """Returns the brokers above their bounds, the most loaded for its share first."""
        brokers = [broker for broker in self.brokers if self.load[broker] > self.most[broker]]
        return sorted(brokers, key=lambda broker: (-self.load[broker] / self.share[broker], broker))

    def under(self) -> list[int]:
        """Returns the brokers below their bounds, the least loaded for its share first."""
        brokers = [broker for broker in self.brokers if self.load[broker] < self.least[broker]]
        return sorted(brokers, key=self.fullness)

    def fullness(self, broker: int) -> tuple[float, int]:
        """Returns the load of a broker for its share, and the broker, for an order of brokers."""
        return self.load[broker] / self.share[broker], broker

    def has_room(self, broker: int) -> bool:
        """Checks whether any replica can go to a broker."""
        return self.load[broker] + self.lightest <= self.most[broker]

    def can_give(self, broker: int) -> bool:
        """Checks whether any replica can leave a broker."""
        return self.load[broker] > self.least[broker] and self.load[broker] - self.lightest >= self.least[broker]

    def cost(self, partition: int, from_broker: int, to_broker: int) -> int:
        """Returns the number of moves that a step adds: -1, 0, or 1."""
        previous = self.previous[partition]
        return (to_broker not in previous) - (from_broker not in previous)

    def fits(self, partition: int, from_broker: int, to_broker: int) -> bool:
        """Checks whether a replica of the partition can go from one broker to the other."""
        replicas = self.assigned[partition]
        if from_broker not in replicas or to_broker in replicas:
            return False
        rack = self.rack
        if rack[from_broker] == rack[to_broker]:
            return True
        racks = {rack[broker] for broker in replicas if broker != from_broker}
        racks.add(rack[to_broker])
        return len(racks) >= self.needed[partition]

    def racks_for(self, partition: int, from_broker: int, racks: Collection[int]) -> list[int]:
        """Returns the racks to whose brokers a replica of the partition can go, if they don't have another one."""
        others = {self.rack[broker] for broker in self.assigned[partition] if broker != from_broker}
        rack, missing = self.rack[from_broker], self.needed[partition] - len(others)
        if missing > 1:
            return [rack] if rack in racks else []
        return [each for each in racks if missing <= 0 or each == rack or each not in others]

    def move(self, partition: int, from_broker: int, to_broker: int) -> None:
        """Applies a step."""
        replicas = self.assigned[partition]
        replicas[replicas.index(from_broker)] = to_broker
        self.load[from_broker] -= self.weight[partition]
        self.load[to_broker] += self.weight[partition]
        pools = self.kept_replicas if to_broker in self.previous[partition] else self.new_replicas
        pools[to_broker].append(partition)


def balance_replicas(
    cluster: ReplicaCluster, assigned: list[list[int]], shares: BrokerShares, *, voluntary: bool
) -> None:
    """Changes a placement, in place, until every broker is within its bounds or no step helps.

    Args:
        cluster: the cluster.
        assigned: the replicas of each partition.
        shares: the bounds.
        voluntary: whether replicas that could stay can move for balance; if not, no move is added.
    """
    state = ReplicaBalance(cluster, assigned, shares)
    if not state.over() and not state.under():
        return
    max_cost = 1 if voluntary else 0
    small = not state.weighed and sum(map(len, assigned)) * len(state.brokers) <= MAX_EXHAUSTIVE_SIZE
    if not small:
        _relieve(state, max_cost)
        _supply(state, max_cost)
    if not state.weighed:
        limit = min(CHAINS_IN_LARGE, MAX_CHAIN_PAIRS // max(len(state.brokers), 1) ** 2)
        _move_chains(state, max_cost, None if small else PROBES_IN_LARGE, None if small else limit)


# --- directly from one broker to another --------------------------------------------------------------------------


def _relieve(state: ReplicaBalance, max_cost: int) -> None:
    """Moves replicas from brokers above their bounds to the brokers that are furthest below their shares."""
    room = sorted(state.fullness(broker) for broker in state.brokers if state.has_room(broker))
    for from_broker in state.over():
        for pool in (state.new_replicas, state.kept_replicas)[: 1 + max_cost]:
            for partition in list(pool[from_broker]):
                if state.load[from_broker] <= state.most[from_broker]:
                    break
                weight = state.weight[partition]
                if state.load[from_broker] - weight < state.least[from_broker]:
                    continue
                to_brokers = (broker for _, broker in room if state.load[broker] + weight <= state.most[broker])
                to_broker = next((broker for broker in to_brokers if state.fits(partition, from_broker, broker)), None)
                if to_broker is not None and state.cost(partition, from_broker, to_broker) <= max_cost:
                    del room[bisect_left(room, state.fullness(to_broker))]
                    state.move(partition, from_broker, to_broker)
                    if state.has_room(to_broker):
                        insort(room, state.fullness(to_broker))
        if state.has_room(from_broker):
            insort(room, state.fullness(from_broker))


def _supply(state: ReplicaBalance, max_cost: int) -> None:
    """Moves replicas to brokers below their bounds from the brokers that are furthest above their shares."""
    for to_broker in state.under():
        next_position: dict[int, int] = {}
        from_brokers = [
            (-state.load[broker] / state.share[broker], broker) for broker in state.brokers if state.can_give(broker)
        ]
        heapify(from_brokers)
        while from_brokers and state.load[to_broker] < state.least[to_broker]:
            _, from_broker = heappop(from_brokers)
            position = _supply_replica(state, from_broker, to_broker, next_position.get(from_broker, 0), max_cost)
            next_position[from_broker] = position
            if position >= 0 and state.can_give(from_broker):
                heappush(from_brokers, (-state.load[from_broker] / state.share[from_broker], from_broker))


def _supply_replica(state: ReplicaBalance, from_broker: int, to_broker: int, start: int, max_cost: int) -> int:
    """Moves one replica; returns the position at which the next search starts, or -1 if no replica fits."""
    new_replicas, kept_replicas = state.new_replicas[from_broker], state.kept_replicas[from_broker] if max_cost else []
    for position in range(start, len(new_replicas) + len(kept_replicas)):
        is_new = position < len(new_replicas)
        partition = new_replicas[position] if is_new else kept_replicas[position - len(new_replicas)]
        weight = state.weight[partition]
        if (
            state.fits(partition, from_broker, to_broker)
            and state.load[from_broker] - weight >= state.least[from_broker]
            and state.load[to_broker] + weight <= state.most[to_broker]
            and state.cost(partition, from_broker, to_broker) <= max_cost
        ):
            state.move(partition, from_broker, to_broker)
            return position + 1
    return -1


# --- chains -------------------------------------------------------------------------------------------------------


def _move_chains(state: ReplicaBalance, max_cost: int, probes: int | None, limit: int | None) -> None:
    """Applies the cheapest chains to brokers with room from those above their bounds, and to those below theirs."""
    for _ in itertools.count() if limit is None else range(limit):
        brokers = state.brokers
        room = {broker for broker in brokers if state.load[broker] + 1 <= state.most[broker]}
        over, under = state.over(), set(state.under())
        # The first of equally cheap chains is applied: a chain that solves two problems comes first.
        endpoints = (
            (over, under),
            (over, room),
            ([broker for broker in brokers if state.load[broker] - 1 >= state.least[broker]], under),
        )
        chains = [
            cheapest_chain(state, from_brokers, to_brokers, probes)
            for from_brokers, to_brokers in endpoints
            if from_brokers and to_brokers
        ]
        affordable = [chain for chain in chains if chain is not None and (max_cost or chain.cost <= 0)]
        if not affordable:
            return
        for partition, from_broker, to_broker in min(affordable, key=lambda chain: chain.cost).steps:
            state.move(partition, from_broker, to_broker)


@dataclass(frozen=True)
class Chain:
    """Steps (partition, from broker, to broker), the last one first, and the number of moves that they add."""

    steps: list[_Step]
    cost: int


def cheapest_chain(
    state: ReplicaBalance, from_brokers: Collection[int], to_brokers: Collection[int], probes: int | None
) -> Chain | None:
    """Returns the chain that adds the fewest moves, and of those the shortest, or None.

    Args:
        state: the placement.
        from_brokers, to_brokers: the brokers at which a chain can start, and end.
        probes: the number of replicas of a broker to consider; None: all.
    """
    blocked: set[_Step] = set()
    for _ in range(_MAX_ATTEMPTS):
        steps = _search(state, from_brokers, to_brokers, probes, blocked)
        if steps is None:
            return None
        blocked_step = _find_blocked_step(state, steps)
        if blocked_step is None:
            return Chain(steps, sum(state.cost(*step) for step in steps))
        blocked.add(blocked_step)
    return None


def _search(
    state: ReplicaBalance,
    from_brokers: Collection[int],
    to_brokers: Collection[int],
    probes: int | None,
    blocked: set[_Step],
) -> list[_Step] | None:
    """Returns the steps of the cheapest chain without blocked steps, the last one first, or None (Bellman-Ford)."""
    far = (1 << 30, 0)
    distance = dict.fromkeys(from_brokers, (0, 0))
    last_step: dict[int, _Step] = {}
    # Of equally cheap chains the first one found is kept: the one from the most loaded broker.
    waiting = deque(sorted(from_brokers, key=lambda broker: (-state.load[broker] / state.share[broker], broker)))
    edges: dict[int, dict[int, tuple[int, int]]] = {}
    longest = len(state.brokers)
    while waiting:
        from_broker = waiting.popleft()
        if from_broker not in edges:
            edges[from_broker] = _steps_from(state, from_broker, probes, blocked)
        cost, hops = distance[from_broker]
        for to_broker, (added, partition) in edges[from_broker].items():
            reached = (cost + added, hops + 1)
            if hops < longest and reached < distance.get(to_broker, far):
                distance[to_broker] = reached
                last_step[to_broker] = (partition, from_broker, to_broker)
                waiting.append(to_broker)
    ends = [broker for broker in to_brokers if broker in last_step]
    if not ends:
        return None
    broker = min(ends, key=lambda broker: (distance[broker], state.load[broker] / state.share[broker], broker))
    steps: list[_Step] = []
    visited = {broker}
    while broker in last_step:
        steps.append(last_step[broker])
        broker = last_step[broker][1]
        if broker in visited:  # a cycle that saves moves by itself: no chain
            return None
        visited.add(broker)
    return steps


def _steps_from(
    state: ReplicaBalance, from_broker: int, probes: int | None, blocked: set[_Step]
) -> dict[int, tuple[int, int]]:
    """Returns (moves added, partition) of the cheapest step to each broker that can receive a replica from this one."""
    steps: dict[int, tuple[int, int]] = {}
    unreached = values_by_key((state.rack[broker], broker) for broker in state.brokers)
    for pool in (state.new_replicas[from_broker], state.kept_replicas[from_broker]):
        for partition in pool[:probes]:
            if from_broker not in state.assigned[partition]:
                continue
            # A later replica is cheaper only to a broker that had its partition: those without a move come first.
            racks = state.racks_for(partition, from_broker, unreached)
            new = sorted(itertools.chain.from_iterable(unreached[rack] for rack in racks))
            for to_broker in (*new, *(broker for broker in state.previous[partition] if broker in steps)):
                if steps.get(to_broker, (2, 0))[0] == -1 or not state.fits(partition, from_broker, to_broker):
                    continue
                added = state.cost(partition, from_broker, to_broker)
                if added < steps.get(to_broker, (2, 0))[0] and (partition, from_broker, to_broker) not in blocked:
                    steps[to_broker] = (added, partition)
            for rack in racks:
                unreached[rack] = [broker for broker in unreached[rack] if broker not in steps]
                if not unreached[rack]:
                    del unreached[rack]
    return steps


def _find_blocked_step(state: ReplicaBalance, steps: list[_Step]) -> _Step | None:
    """Returns the first step that the steps before it make impossible, or None; doesn't change the placement."""
    partitions = {partition for partition, _, _ in steps}
    if len(partitions) == len(steps):
        return None
    before = {partition: list(state.assigned[partition]) for partition in partitions}
    blocked_step = None
    for step in steps:
        partition, from_broker, to_broker = step
        if not state.fits(*step):
            blocked_step = step
            break
        replicas = state.assigned[partition]
        replicas[replicas.index(from_broker)] = to_broker
    for partition, replicas in before.items():
        state.assigned[partition] = replicas
    return blocked_step
