"""Balances preferred leaders by the order of replicas alone, which moves no data.

A broker that leads too many partitions passes one to a broker that has a replica of it, which can pass another one to
a third broker. The shortest such chain from a broker above its bounds to a broker with room is applied until no broker
leads too many; then the same for brokers that lead too few. If no chain is left, no order of the replicas is better.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from spark_assign.replicas.kernel.replica_cluster import BrokerShares, ReplicaCluster


def choose_leaders(cluster: ReplicaCluster, assigned: list[list[int]], shares: BrokerShares) -> list[int]:
    """Returns the preferred leader of each partition, as a broker index.

    A preferred leader that keeps its replica stays leader if balance allows. If not, the replica whose broker leads the
    fewest partitions becomes the leader; replicas that stay come before new ones.
    """
    before = cluster.current[:, 0].tolist() if cluster.current.shape[1] else [-1] * len(assigned)
    leader = [old if old in replicas else -1 for old, replicas in zip(before, assigned, strict=True)]
    led = np.bincount([broker for broker in leader if broker >= 0], minlength=len(cluster.rack)).tolist()
    for partition in [partition for partition, broker in enumerate(leader) if broker < 0]:
        previous = set(cluster.current[partition].tolist())
        leader[partition] = min(assigned[partition], key=lambda broker: (broker not in previous, led[broker], broker))
        led[leader[partition]] += 1
    _LeaderBalance(assigned, leader, led, shares).balance()
    return leader


class _LeaderBalance:
    """Leaders under change: `leader` of each partition, and the number of partitions `led` by each broker."""

    def __init__(self, assigned: list[list[int]], leader: list[int], led: list[int], shares: BrokerShares) -> None:
        self.assigned, self.leader, self.led = assigned, leader, led
        self.least, self.most = shares.least.astype(int).tolist(), shares.most.astype(int).tolist()
        self.brokers = [broker for broker, share in enumerate(shares.share.tolist()) if share > 0]
        self.transferable: dict[int, dict[int, list[int]]] = {broker: {} for broker in self.brokers}

    def balance(self) -> None:
        led, least, most = self.led, self.least, self.most
        if all(least[broker] <= led[broker] <= most[broker] for broker in self.brokers):
            return
        for partition, broker in enumerate(self.leader):
            self._add_transfers(partition, broker)
        while over := [broker for broker in self.brokers if led[broker] > most[broker]]:
            if not self._shift(over, {broker for broker in self.brokers if led[broker] < most[broker]}):
                break
        while under := {broker for broker in self.brokers if led[broker] < least[broker]}:
            if not self._shift([broker for broker in self.brokers if led[broker] > least[broker]], under):
                break

    def _add_transfers(self, partition: int, leader: int) -> None:
        """Registers the brokers to which the leader can pass the partition."""
        for broker in self.assigned[partition]:
            if broker != leader:
                self.transferable[leader].setdefault(broker, []).append(partition)

    def _shift(self, from_brokers: list[int], to_brokers: set[int]) -> bool:
        """Applies a shortest chain, starting at the broker that leads most, if there is one; returns whether it did."""
        from_brokers = sorted(from_brokers, key=lambda broker: (-self.led[broker], broker))
        predecessor: dict[int, int] = dict.fromkeys(from_brokers, -1)
        waiting = deque(predecessor)
        while waiting:
            from_broker = waiting.popleft()
            reached = [
                broker
                for broker in self.transferable[from_broker]
                if broker not in predecessor and self._last_transfer(from_broker, broker) is not None
            ]
            reached.sort(key=lambda broker: (self.led[broker], broker))
            for broker in reached:
                predecessor[broker] = from_broker
                if broker in to_brokers:
                    self._apply_chain(broker, predecessor)
                    return True
                waiting.append(broker)
        return False

    def _last_transfer(self, leader: int, broker: int) -> int | None:
        """Returns a partition that the leader can pass to the broker, or None; drops outdated entries."""
        partitions = self.transferable[leader].get(broker, [])
        while partitions:
            if self.leader[partitions[-1]] == leader:
                return partitions[-1]
            partitions.pop()
        return None

    def _apply_chain(self, to_broker: int, predecessor: dict[int, int]) -> None:
        while (from_broker := predecessor[to_broker]) >= 0:
            partition = self._last_transfer(from_broker, to_broker)
            assert partition is not None
            self.transferable[from_broker][to_broker].pop()
            self.leader[partition] = to_broker
            self.led[from_broker] -= 1
            self.led[to_broker] += 1
            self._add_transfers(partition, to_broker)
            to_broker = from_broker
