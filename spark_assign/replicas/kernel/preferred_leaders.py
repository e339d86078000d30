"""Preferred leaders: even by the order of replicas alone, which moves no data.

A broker that leads too many partitions hands one to a broker that has a replica of it, and this one perhaps another
to a third: the shortest such chain from a broker with too many to one with room, until none has too many; then the
same towards brokers with too few. Where no chain is left, no order of the replicas is better.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from spark_assign.replicas.kernel.replica_cluster import BrokerShares, ReplicaCluster


def choose_leaders(cluster: ReplicaCluster, assigned: list[list[int]], shares: BrokerShares) -> list[int]:
    """Of each partition the broker that leads it.

    A preferred leader that has kept its replica goes on leading where balance allows. Otherwise the replica whose
    broker leads the fewest takes over, one that stays before one that is new.
    """
    leader, orphans = _first_choice(cluster, assigned)
    led = np.bincount([broker for broker in leader if broker >= 0], minlength=len(cluster.rack)).tolist()
    for partition in orphans:
        before = set(cluster.current[partition].tolist())
        leader[partition] = min(assigned[partition], key=lambda broker: (broker not in before, led[broker], broker))
        led[leader[partition]] += 1
    _Leading(assigned, leader, led, shares).even_out()
    return leader


def _first_choice(cluster: ReplicaCluster, assigned: list[list[int]]) -> tuple[list[int], list[int]]:
    """Who led before and still has a replica; and the partitions for which nobody has."""
    before = cluster.current[:, 0].tolist() if cluster.current.shape[1] else [-1] * len(assigned)
    leader = [old if old in replicas else -1 for old, replicas in zip(before, assigned, strict=True)]
    return leader, [partition for partition, broker in enumerate(leader) if broker < 0]


class _Leading:
    def __init__(self, assigned: list[list[int]], leader: list[int], led: list[int], shares: BrokerShares) -> None:
        self.assigned, self.leader, self.led = assigned, leader, led
        self.least, self.most = shares.least.astype(int).tolist(), shares.most.astype(int).tolist()
        self.brokers = [broker for broker, share in enumerate(shares.share.tolist()) if share > 0]
        self.between: dict[int, dict[int, list[int]]] = {broker: {} for broker in self.brokers}

    def even_out(self) -> None:
        led, least, most = self.led, self.least, self.most
        if all(least[broker] <= led[broker] <= most[broker] for broker in self.brokers):
            return
        for partition, broker in enumerate(self.leader):
            self._offer(partition, broker)
        while over := [broker for broker in self.brokers if led[broker] > most[broker]]:
            if not self._shift(over, {broker for broker in self.brokers if led[broker] < most[broker]}):
                break
        while under := {broker for broker in self.brokers if led[broker] < least[broker]}:
            if not self._shift([broker for broker in self.brokers if led[broker] > least[broker]], under):
                break

    def _offer(self, partition: int, leader: int) -> None:
        """Note to whom the leader could hand the partition."""
        for other in self.assigned[partition]:
            if other != leader:
                self.between[leader].setdefault(other, []).append(partition)

    def _shift(self, from_brokers: list[int], to_brokers: set[int]) -> bool:
        """Hand on leadership along a shortest chain; from the brokers that lead most to those that lead least."""
        from_brokers = sorted(from_brokers, key=lambda broker: (-self.led[broker], broker))
        came: dict[int, int] = dict.fromkeys(from_brokers, -1)
        waiting = deque(came)
        while waiting:
            from_broker = waiting.popleft()
            reached = [
                other
                for other in self.between[from_broker]
                if other not in came and self._common(from_broker, other) is not None
            ]
            reached.sort(key=lambda broker: (self.led[broker], broker))
            for other in reached:
                came[other] = from_broker
                if other in to_brokers:
                    self._hand_along(other, came)
                    return True
                waiting.append(other)
        return False

    def _common(self, leader: int, other: int) -> int | None:
        """A partition that one leads and the other has; what is no longer so is forgotten."""
        partitions = self.between[leader].get(other, [])
        while partitions:
            if self.leader[partitions[-1]] == leader:
                return partitions[-1]
            partitions.pop()
        return None

    def _hand_along(self, to_broker: int, came: dict[int, int]) -> None:
        while (from_broker := came[to_broker]) >= 0:
            partition = self._common(from_broker, to_broker)
            assert partition is not None
            self.between[from_broker][to_broker].pop()
            self.leader[partition] = to_broker
            self.led[from_broker] -= 1
            self.led[to_broker] += 1
            self._offer(partition, to_broker)
            to_broker = from_broker
