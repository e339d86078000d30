"""A placement of replicas under change: loads by goal and broker, their bounds, and what the changes move."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from spark_assign.numeric.arrays import BoolArray, FloatArray, IntArray
from spark_assign.replicas.kernel.replica_cluster import NO_BROKER, ReplicaCluster

CHARGE = 0.02
"""Violation of a broker outside its bounds, beside its distance, as a multiple of the mean load."""

EPSILON = 1e-9
"""Smallest difference of loads that counts, as a multiple of the mean."""


@dataclass(frozen=True)
class BoundedLoad:
    """The load of one goal, and its bounds.

    Args:
        leaders_only: whether only the leader of a partition has the load, not every replica.
        weight: the load of one replica of each partition. Shape: (num_partitions,).
        share: the even share of each broker; 0 for unusable brokers. Shape: (num_brokers,), as the bounds.
        least, most: the bounds of each broker.
    """

    leaders_only: bool
    weight: IntArray
    share: FloatArray
    least: FloatArray
    most: FloatArray

    def is_outside(self, load: IntArray) -> BoolArray:
        """Returns a mask of the brokers with a load outside the bounds."""
        slack = EPSILON * max(float(self.share.max(initial=0)), 1.0)
        outside: BoolArray = (load > self.most + slack) | (load < self.least - slack)
        return outside


class PlacementScore(NamedTuple):
    """The quality of a placement; less is better."""

    violations: tuple[float, ...]
    moved_bytes: int
    leaders_changed: int


class LoadPlacement:
    """A placement under change, with the load of each goal and broker (`load[goal][broker]`)."""

    def __init__(
        self, cluster: ReplicaCluster, replicas: list[list[int]], loads: list[BoundedLoad], max_bytes: float
    ) -> None:
        self.loads, self.max_bytes = loads, max_bytes
        self.rack = cluster.rack.tolist()
        self.usable = np.flatnonzero(cluster.usable).tolist()
        self.is_usable = [*cluster.usable.tolist(), False]  # the last one: NO_BROKER
        self.racks_needed = cluster.racks_needed().tolist()
        self.current = [tuple(row) or (NO_BROKER,) for row in cluster.previous()]
        is_new = (cluster.current == NO_BROKER).all(axis=1)
        self.size = np.where(is_new, 0, cluster.weight).tolist()
        self.mean = [max(float(load.share.sum()) / max(len(self.usable), 1), EPSILON) for load in loads]
        self.weight = [load.weight.tolist() for load in loads]
        self.share = [np.maximum(load.share, EPSILON).tolist() for load in loads]
        self.least = [load.least.tolist() for load in loads]
        self.most = [load.most.tolist() for load in loads]
        self.place(replicas)
        self.required_bytes = self.moved_bytes

    def place(self, replicas: list[list[int]]) -> None:
        """Starts from a placement."""
        self.replicas = [list(row) for row in replicas]
        self.load = [sum_by_broker(load, replicas, len(self.rack)).tolist() for load in self.loads]
        pairs = list(zip(self.replicas, self.current, self.size, strict=True))
        self.moved_bytes = sum(size * len(set(row).difference(old)) for row, old, size in pairs)
        self.leaders_changed = sum(row[0] != old[0] for row, old, _ in pairs)
        self.violation = list(self.score().violations)

    def score(self) -> PlacementScore:
        """Returns the score of the placement, with violations computed from the loads, free of rounding errors."""
        violations = tuple(
            round(math.fsum(self._violation(goal, broker, load[broker]) for broker in self.usable), 9)
            for goal, load in enumerate(self.load)
        )
        return PlacementScore(violations, self.moved_bytes, self.leaders_changed)

    def _violation(self, goal: int, broker: int, load: float) -> float:
        outside = max(load - self.most[goal][broker], self.least[goal][broker] - load)
        mean = self.mean[goal]
        return float(outside / mean) + CHARGE if outside > EPSILON * mean else 0.0

    def fits(self, partition: int, slot: int, broker: int) -> bool:
        """Checks whether a replica can move to a usable broker, by the racks of the partition."""
        row, rack = self.replicas[partition], self.rack
        if broker in row:
            return (slot == 0) != (row.index(broker) == 0)
        if rack[broker] == rack[row[slot]]:
            return True
        racks = {rack[other] for other in row if other != row[slot]}
        racks.add(rack[broker])
        return len(racks) >= int(self.racks_needed[partition])

    def change(self, partition: int, slot: int, broker: int) -> None:
        """Moves a replica to a broker. If that has another replica of the partition, the two change places."""
        row = self.replicas[partition]
        from_broker, first = row[slot], row[0]
        moves = broker not in row
        if moves:
            old = self.current[partition]
            self.moved_bytes += self.size[partition] * ((broker not in old) - (from_broker not in old))
        else:
            row[row.index(broker)] = from_broker
        row[slot] = broker
        if row[0] != first:
            old_leader = self.current[partition][0]
            self.leaders_changed += (row[0] != old_leader) - (first != old_leader)
        for goal, bounded in enumerate(self.loads):
            if not (weight := self.weight[goal][partition]):
                continue
            source, target = (first, row[0]) if bounded.leaders_only else (from_broker, broker)
            if source == target or not (bounded.leaders_only or moves):
                continue
            load = self.load[goal]
            before = self._violation(goal, source, load[source]) + self._violation(goal, target, load[target])
            load[source] -= weight
            load[target] += weight
            after = self._violation(goal, source, load[source]) + self._violation(goal, target, load[target])
            self.violation[goal] += after - before


def sum_by_broker(load: BoundedLoad, replicas: list[list[int]], num_brokers: int) -> IntArray:
    """Returns the load of each broker; a partition can be without replicas."""
    lengths = np.array([len(row) for row in replicas], np.int64)
    if load.leaders_only:
        broker, weight = np.array([row[0] for row in replicas if row], np.int64), load.weight[lengths > 0]
    else:
        broker = np.array([broker for row in replicas for broker in row], np.int64)
        weight = np.repeat(load.weight, lengths)
    total = np.zeros(num_brokers, np.int64)
    np.add.at(total, broker, weight)
    return total
