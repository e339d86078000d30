"""Balances the loads of brokers by goals in order of priority, with as few moved bytes as possible.

Principles
    1. A goal bounds the load of each broker (`BoundedLoad`). The violation of a goal is how far brokers are outside
       their bounds, as a multiple of the mean load, plus `CHARGE` for each of them. A later goal never makes the
       violation of an earlier one larger.
    2. A change of the leader moves no bytes, so it comes before moves if a goal counts leaders only.
    3. Of the replicas of an overloaded broker, those with the fewest bytes per load move first, the largest of equals
       first, as long as they fit into the excess; then the one with the fewest bytes that covers the rest. Brokers
       below their bounds receive in the same way.
    4. Clusters of up to `SEARCHED_REPLICAS` replicas are then searched by simulated annealing with a fixed seed; the
       best placement counts: the smallest violations in the order of goals, then the fewest moved bytes, then the
       fewest changes of leaders.
    5. If all goals are met in a cluster of a few brokers and dozens of partitions, a nearly exact search follows
       (`branch_and_bound`).

Racks, distinct and usable brokers, and the limit of moved bytes hold after every change.

Example: broker 0 has replicas of 50, 30, and 20 MB, broker 1 none, and both may have 45 to 55 MB. Of the excess of
45 MB, 30 MB move first, and of the rest of 15 MB, the replica with 20 MB is the cheapest that covers it: 50 MB move.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from spark_assign.numeric.arrays import key_ranges
from spark_assign.replicas.kernel.anneal_loads import anneal
from spark_assign.replicas.kernel.branch_and_bound import branch_and_bound
from spark_assign.replicas.kernel.load_placement import CHARGE, EPSILON, BoundedLoad, LoadPlacement
from spark_assign.replicas.kernel.replica_cluster import ReplicaCluster

SEARCHED_REPLICAS = 3_000
"""Largest number of replicas of a cluster that is searched after the greedy steps."""

_PROBES = 30
"""Number of brokers that are tried for a replica, the least loaded first."""

_PASSES = 4
"""Maximum number of passes over the brokers for a goal."""

_FAILURES = 300
"""Number of replicas in a row without a broker after which a broker is left as it is."""


def balance_loads(
    cluster: ReplicaCluster,
    replicas: list[list[int]],
    loads: list[BoundedLoad],
    max_bytes: int | None,
    searched: int = SEARCHED_REPLICAS,
) -> list[list[int]]:
    """Returns the replicas of each partition, the preferred leader first, after changes that balance the loads.

    Args:
        cluster: the cluster before the reassignment.
        replicas: a placement that satisfies the hard constraints.
        loads: the loads to balance, in order of priority.
        max_bytes: the largest number of bytes that move, those of the given placement included; None: no limit.
        searched: largest number of replicas for which the search follows the greedy steps.
    """
    balance = _LoadBalance(cluster, replicas, loads, math.inf if max_bytes is None else max_bytes)
    if not any(balance.violation):
        return replicas
    for goal in range(len(loads)):
        balance.improve(goal)
    if sum(map(len, replicas)) <= searched:
        balance.place(anneal(balance))
        return branch_and_bound(balance)
    return balance.replicas


class _LoadBalance(LoadPlacement):
    """The greedy steps."""

    def improve(self, goal: int) -> None:
        """Makes the violation of a goal smaller; those of earlier goals don't become larger."""
        ways = (True, False) if self.loads[goal].leaders_only else (False,)
        for by_leader in ways:
            for _ in range(_PASSES):
                before = self.violation[goal]
                self._unload(goal, by_leader)
                self._fill(goal, by_leader)
                if self.violation[goal] <= EPSILON or self.violation[goal] > before - 1e-3 * CHARGE:
                    break

    def _unload(self, goal: int, by_leader: bool) -> None:
        """Passes load of the brokers above their bounds to the least loaded brokers."""
        load, most = self.load[goal], self.most[goal]
        over = [broker for broker in self.usable if load[broker] > most[broker]]
        if not over:
            return
        candidates = self._candidates(goal, led=self.loads[goal].leaders_only)
        order = sorted((self._relative(goal, broker), broker) for broker in self.usable)
        for broker in sorted(over, key=lambda broker: (-self._relative(goal, broker), broker)):
            for partition in self._fitting(goal, candidates.get(broker, []), partial(self._space, goal, source=broker)):
                row = self.replicas[partition]
                if broker not in row:
                    continue
                targets = row[1:] if by_leader else [target for _, target in order[:_PROBES]]
                if by_leader:
                    targets = sorted(targets, key=lambda target: (self._relative(goal, target), target))
                for target in targets:
                    ranks = [(self._relative(goal, changed), changed) for changed in (broker, target)]
                    if self._try(goal, partition, row.index(broker), target):
                        for rank in ranks:
                            del order[bisect_left(order, rank)]
                            insort(order, (self._relative(goal, rank[1]), rank[1]))
                        break

    def _fill(self, goal: int, by_leader: bool) -> None:
        """Passes load to the brokers below their bounds, from the most loaded brokers."""
        load, least = self.load[goal], self.least[goal]
        under = [broker for broker in self.usable if load[broker] < least[broker]]
        if not under:
            return
        leaders_only = self.loads[goal].leaders_only
        candidates = self._candidates(goal, led=leaders_only and not by_leader, followed=by_leader)
        for broker in sorted(under, key=lambda broker: (self._relative(goal, broker), broker)):
            for floor in (self.share[goal], least):
                if by_leader:
                    sources = [broker]
                else:
                    sources = sorted(self.usable, key=lambda source: (-self._relative(goal, source), source))
                for source in sources:
                    if load[broker] >= least[broker] or (not by_leader and load[source] <= floor[source]):
                        continue
                    space = partial(self._space, goal, target=broker, source=None if by_leader else source, floor=floor)
                    for partition in self._fitting(goal, candidates.get(source, []), space):
                        row = self.replicas[partition]
                        if by_leader and load[row[0]] - self.weight[goal][partition] < floor[row[0]]:
                            continue
                        if source in row and (by_leader or broker not in row):
                            self._try(goal, partition, 0 if by_leader else row.index(source), broker)

    def _space(
        self, goal: int, *, source: int | None = None, target: int | None = None, floor: list[float] | None = None
    ) -> float:
        """Returns the load that a broker can pass on, down to its `floor` or its maximum, or that another one needs."""
        load, spaces = self.load[goal], []
        if source is not None:
            spaces.append(load[source] - (self.most[goal] if floor is None else floor)[source])
        if target is not None:
            spaces.append(self.least[goal][target] - load[target])
        return float(min(spaces))

    def _fitting(self, goal: int, partitions: list[int], space: Callable[[], float]) -> Iterator[int]:
        """Yields partitions to pass on until the space is used up: those that fit, then the cheapest that covers it."""
        weight, failures = self.weight[goal], 0
        for partition in partitions:
            if (left := space()) <= EPSILON * self.mean[goal] or failures > _FAILURES:
                break
            if weight[partition] <= left:
                yield partition
                failures = failures + 1 if space() == left else 0
        left = space()
        if left <= EPSILON * self.mean[goal]:
            return
        for partition in sorted(
            (partition for partition in partitions if weight[partition] > left),
            key=lambda partition: (self.size[partition], weight[partition]),
        )[:_FAILURES]:
            yield partition
            if space() < left:
                return

    def _candidates(self, goal: int, *, led: bool = False, followed: bool = False) -> dict[int, list[int]]:
        """Returns the partitions with a replica on each broker, those with the fewest bytes per load first.

        Args:
            goal: the index of the goal.
            led: only the partitions that the broker leads.
            followed: only the partitions that it doesn't lead.
        """
        lengths = np.array([len(row) for row in self.replicas])
        partition = np.repeat(np.arange(len(lengths)), lengths)
        broker = np.array([broker for row in self.replicas for broker in row], np.int64)
        is_first = np.zeros(len(broker), bool)
        is_first[np.cumsum(lengths) - lengths] = True
        weight = self.loads[goal].weight[partition]
        chosen = (weight > 0) & (is_first if led else ~is_first if followed else True)
        partition, broker, weight = partition[chosen], broker[chosen], weight[chosen]
        order = np.lexsort((partition, -weight, np.array(self.size)[partition] / weight, broker))
        partition, broker = partition[order], broker[order]
        return {int(broker[start]): partition[start:end].tolist() for start, end in key_ranges(broker)}

    def _relative(self, goal: int, broker: int) -> float:
        return float(self.load[goal][broker] / self.share[goal][broker])

    def _try(self, goal: int, partition: int, slot: int, broker: int) -> bool:
        """Makes a change if it improves a goal, and neither worsens an earlier one nor moves too many bytes."""
        if not self.fits(partition, slot, broker):
            return False
        before, from_broker = list(self.violation), self.replicas[partition][slot]
        self.change(partition, slot, broker)
        if (
            self.moved_bytes <= self.max_bytes
            and self.violation[goal] < before[goal] - EPSILON
            and all(self.violation[earlier] <= before[earlier] + EPSILON for earlier in range(goal))
        ):
            return True
        self.change(partition, slot, from_broker)
        self.violation = before
        return False
