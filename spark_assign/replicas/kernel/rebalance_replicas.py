"""Bring every broker within its bounds: first by replicas that move anyway, then by as few others as possible.

A replica that is on a broker which did not have the partition before is new: to send it elsewhere costs nothing, and
to send it back home saves a move. One that stayed costs a move. In a small cluster the cheapest chain of such steps
from a broker above its bounds to one with room is sought, again and again (as in a minimum-cost flow). In a large one
replicas go straight from the one to the other, and only what that leaves is sought in chains.

Bounds are met as far as the steps reach; that is a heuristic, unlike what `retained_replicas` and `leaders` decide.
"""

from __future__ import annotations

import numpy as np

from spark_assign.replicas.kernel.broker_shares import BrokerShares
from spark_assign.replicas.kernel.cluster import ReplicaCluster
from spark_assign.replicas.kernel.move_chains import CHAINS_IN_LARGE, PROBES_IN_LARGE, cheapest_chain

SMALL = 100_000
"""Replicas times brokers up to which chains are sought among all replicas."""

_EXACT = 1e-9


class ReplicaBalance:
    """A placement that is being evened out: `assigned`, changed in place, and the load of each broker."""

    def __init__(self, cluster: ReplicaCluster, assigned: list[list[int]], shares: BrokerShares) -> None:
        self.assigned = assigned
        self.home = cluster.current.tolist()
        self.rack: list[int] = cluster.rack.tolist()
        self.needed: list[int] = cluster.racks_needed().tolist()
        self.weight: list[int] = cluster.weight.tolist()
        self.weighed = cluster.weighed
        self.brokers: list[int] = np.flatnonzero(cluster.usable).tolist()
        self.least: list[float] = (shares.least - _EXACT * (1 + shares.least)).tolist()
        self.most: list[float] = (shares.most + _EXACT * (1 + shares.most)).tolist()
        self.share: list[float] = np.maximum(shares.share, 1e-12).tolist()
        self.load: list[int] = [0] * len(self.rack)
        self.fresh: list[list[int]] = [[] for _ in self.rack]
        self.stayed: list[list[int]] = [[] for _ in self.rack]
        # Neighbouring partitions are of one topic: a broker should not get or give a topic's replicas in a row.
        scattered = np.argsort((np.arange(len(assigned)) * 2654435761) & 0xFFFFFFFF, kind="stable")
        for partition in scattered.tolist():
            home = self.home[partition]
            for broker in assigned[partition]:
                self.load[broker] += self.weight[partition]
                (self.stayed if broker in home else self.fresh)[broker].append(partition)

    def over(self) -> list[int]:
        """Brokers above their bounds, the worst first."""
        found = [broker for broker in self.brokers if self.load[broker] > self.most[broker]]
        return sorted(found, key=lambda broker: (-self.load[broker] / self.share[broker], broker))

    def under(self) -> list[int]:
        """Brokers below their bounds, the worst first."""
        found = [broker for broker in self.brokers if self.load[broker] < self.least[broker]]
        return sorted(found, key=lambda broker: (self.load[broker] / self.share[broker], broker))

    def cost(self, partition: int, from_broker: int, to_broker: int) -> int:
        """Moves that sending a replica from one broker to another adds."""
        home = self.home[partition]
        return (to_broker not in home) - (from_broker not in home)

    def fits(self, partition: int, from_broker: int, to_broker: int) -> bool:
        """Whether the partition's replica may go from one broker to the other."""
        replicas = self.assigned[partition]
        if from_broker not in replicas or to_broker in replicas:
            return False
        rack = self.rack
        if rack[from_broker] == rack[to_broker]:
            return True
        racks = {rack[broker] for broker in replicas if broker != from_broker}
        racks.add(rack[to_broker])
        return len(racks) >= self.needed[partition]

    def move(self, partition: int, from_broker: int, to_broker: int) -> None:
        """Send it."""
        replicas = self.assigned[partition]
        replicas[replicas.index(from_broker)] = to_broker
        self.load[from_broker] -= self.weight[partition]
        self.load[to_broker] += self.weight[partition]
        (self.stayed if to_broker in self.home[partition] else self.fresh)[to_broker].append(partition)


def even_out(cluster: ReplicaCluster, assigned: list[list[int]], shares: BrokerShares, *, voluntary: bool) -> None:
    """Change a placement, in place, until every broker is within its bounds or no step helps.

    Args:
        cluster: the cluster.
        assigned: of each partition its replicas.
        shares: the bounds.
        voluntary: whether replicas that could stay may move for it; otherwise no move is added.
    """
    state = ReplicaBalance(cluster, assigned, shares)
    if not state.over() and not state.under():
        return
    highest = 1 if voluntary else 0
    small = not state.weighed and sum(map(len, assigned)) * len(state.brokers) <= SMALL
    if not small:
        _give(state, highest)
        _take(state, highest)
    if not state.weighed:
        _by_chains(state, highest, None if small else PROBES_IN_LARGE, None if small else CHAINS_IN_LARGE)


# --- straight from one broker to another --------------------------------------------------------------------------


def _give(state: ReplicaBalance, highest: int) -> None:
    """Brokers above their bounds give to whoever is furthest below its share."""
    for from_broker in state.over():
        for pool in (state.fresh, state.stayed)[: 1 + highest]:
            for partition in list(pool[from_broker]):
                if state.load[from_broker] <= state.most[from_broker]:
                    break
                weight = state.weight[partition]
                if state.load[from_broker] - weight < state.least[from_broker]:
                    continue
                room = [each for each in state.brokers if state.load[each] + weight <= state.most[each]]
                room.sort(key=lambda broker: (state.load[broker] / state.share[broker], broker))
                to_broker = next((each for each in room if state.fits(partition, from_broker, each)), None)
                if to_broker is not None and state.cost(partition, from_broker, to_broker) <= highest:
                    state.move(partition, from_broker, to_broker)


def _take(state: ReplicaBalance, highest: int) -> None:
    """Brokers below their bounds take from whoever is furthest above its share."""
    for to_broker in state.under():
        tried: dict[int, int] = {}
        while state.load[to_broker] < state.least[to_broker]:
            from_brokers = [
                each for each in state.brokers if tried.get(each, 0) >= 0 and state.load[each] > state.least[each]
            ]
            if not from_brokers:
                break
            from_broker = max(from_brokers, key=lambda broker: (state.load[broker] / state.share[broker], -broker))
            tried[from_broker] = _take_one(state, from_broker, to_broker, tried.get(from_broker, 0), highest)


def _take_one(state: ReplicaBalance, from_broker: int, to_broker: int, start: int, highest: int) -> int:
    """Take one replica; where to look next time, or -1 where the broker has none."""
    fresh, stayed = state.fresh[from_broker], state.stayed[from_broker] if highest else []
    for at in range(start, len(fresh) + len(stayed)):
        partition = fresh[at] if at < len(fresh) else stayed[at - len(fresh)]
        weight = state.weight[partition]
        if (
            state.fits(partition, from_broker, to_broker)
            and state.load[from_broker] - weight >= state.least[from_broker]
            and state.load[to_broker] + weight <= state.most[to_broker]
            and state.cost(partition, from_broker, to_broker) <= highest
        ):
            state.move(partition, from_broker, to_broker)
            return at + 1
    return -1


# --- chains -------------------------------------------------------------------------------------------------------


def _by_chains(state: ReplicaBalance, highest: int, probes: int | None, limit: int | None) -> None:
    """Cheapest chains from brokers above their bounds to those with room, then to those below from any with more."""
    done = 0
    while limit is None or done < limit:
        done += 1
        brokers = state.brokers
        room = {broker for broker in brokers if state.load[broker] + 1 <= state.most[broker]}
        over, under = state.over(), set(state.under())
        # One that solves two problems is as cheap as one that solves one.
        wanted = (
            (over, under),
            (over, room),
            ([each for each in brokers if state.load[each] - 1 >= state.least[each]], under),
        )
        chains = [
            cheapest_chain(state, from_brokers, to_brokers, probes)
            for from_brokers, to_brokers in wanted
            if from_brokers and to_brokers
        ]
        found = [chain for chain in chains if chain is not None and (highest or chain.cost <= 0)]
        if not found:
            return
        for partition, from_broker, to_broker in min(found, key=lambda chain: chain.cost).steps:
            state.move(partition, from_broker, to_broker)
