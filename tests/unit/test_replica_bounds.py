"""Lower bounds of reassignments: known ones, and never above an exact solver's result, in moves and in bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from spark_assign.replicas.kernel.reassign import LowerBound, broker_loads, count_unbalanced, reassign
from spark_assign.replicas.kernel.replica_cluster import NO_BROKER, BrokerShares, ReplicaCluster
from tests.cases import cases
from tests.unit.random_clusters import random_cluster
from tests.unit.test_reassign import fewest_moves, moves


def cluster_of(
    rack: list[int], current: list[list[int]], weight: list[int] | None = None, factor: int = 0
) -> ReplicaCluster:
    """Builds usable brokers in these racks; a partition keeps its number of replicas, a new one gets `factor`."""
    width = max(max(map(len, current)), 1)
    rows = np.array([row + [NO_BROKER] * (width - len(row)) for row in current])
    factors = np.array([len(row) or factor for row in current])
    weights = np.array(weight or [1] * len(current))
    return ReplicaCluster(np.array(rack), np.ones(len(rack), bool), rows, factors, weights, weight is not None)


@cases(
    "cluster forced bound",
    # Three brokers with three replicas each, a fourth comes: a share is 2.25, at least two arrive.
    (cluster_of([0] * 4, [[at % 3] for at in range(9)]), (0, 0), (2, 2)),
    # Eight on one broker, none on the other: four are above its share; exactly four arrive.
    (cluster_of([0, 0], [[0]] * 8), (0, 0), (4, 4)),
    # In bytes: 90 of 100 on one broker; 40 are too many, in pieces of 30 at most: two moves.
    (cluster_of([0, 0], [[0], [0], [0], [1]], [30, 30, 30, 10]), (0, 0), (2, 40)),
    # A rack comes that every partition needs: each sends a replica there, whatever the shares.
    (cluster_of([0, 0, 1], [[0, 1], [1, 0], [0, 1]], None), (3, 3), (3, 3)),
    # The same, weighed: the racks force it, and balance asks for no more.
    (cluster_of([0, 0, 1], [[0, 1], [1, 0]], [7, 5]), (2, 12), (2, 12)),
    # A broker comes, and new partitions fill it up: nothing has to move.
    (cluster_of([0, 0, 0], [[0], [0], [1], [1], [], []], None, 1), (0, 0), (0, 0)),
    # One new partition only: of the two that the new broker is short of, one has to move.
    (cluster_of([0, 0, 0], [[0], [0], [0], [1], [1], []], None, 1), (0, 0), (1, 1)),
    # Two new brokers in a rack of their own, one new partition may bring one replica: three of four move.
    (cluster_of([0, 0, 1, 1], [*[[0], [1], [0], [1], [0], [1], [0]], []], None, 1), (0, 0), (3, 3)),
    # Three new brokers of five are short of one each; a new partition of two replicas brings two.
    (cluster_of([0] * 5, [[0], [0], [1], [1], []], None, 2), (0, 0), (1, 1)),
    # Everything is as it should be.
    (cluster_of([0, 1], [[0, 1], [1, 0]]), (0, 0), (0, 0)),
)
def test_known_bounds(cluster: ReplicaCluster, forced: tuple[int, int], bound: tuple[int, int]) -> None:
    """With tolerance 0: the bound of the hard constraints, and the bound with balance."""
    planned = reassign(cluster, 0.0, voluntary=True)
    assert (planned.required, planned.lower_bound) == (LowerBound(*forced), LowerBound(*bound))
    if count_unbalanced(broker_loads(cluster, planned.replicas)[1], planned.shares, cluster.usable) == 0:
        assert moves(cluster, planned) == planned.lower_bound.moves
    assert reassign(cluster, 0.0, voluntary=False).lower_bound == planned.required


def test_a_rack_that_comes_and_a_broker_besides() -> None:
    """Each of four partitions sends a replica to the new rack, although balance needs only two; and a new broker in
    another rack needs one."""
    cluster = cluster_of([0, 0, 1, 1, 2], [[0, 1, 2]] * 4)
    planned = reassign(cluster, 0.5, voluntary=True)
    assert (planned.required, planned.lower_bound) == (LowerBound(4, 4), LowerBound(5, 5))
    assert fewest_moves(cluster, (planned.shares.least, planned.shares.most)) == moves(cluster, planned) == 5


def test_bounds_are_bounds_and_close() -> None:
    """They never exceed the fewest moves that an exact solver finds, and equal them in most clusters."""
    solved = tight = 0
    for seed in range(30):
        cluster = random_cluster(seed + 1_000)
        planned = reassign(cluster, 0.0, voluntary=True)
        fewest = fewest_moves(cluster, (planned.shares.least, planned.shares.most))
        if fewest is None:
            continue
        solved += 1
        assert planned.required.moves <= planned.lower_bound.moves <= fewest, seed
        assert planned.required.weight <= planned.lower_bound.weight
        tight += planned.lower_bound.moves == fewest
    assert solved == 30
    assert tight >= 28


def test_bytes_that_move_are_at_least_the_bound() -> None:
    """In random weighed clusters, a plan never moves less than its bound."""
    same = 0
    for seed in range(60):
        cluster = random_cluster(seed)
        weight = np.random.default_rng(seed).integers(1, 9, len(cluster.current))
        for voluntary in (False, True):
            heavy = replace(cluster, weight=weight, weighed=True)
            planned = reassign(heavy, 0.1, voluntary=voluntary)
            pairs = zip(planned.replicas, heavy.current.tolist(), weight.tolist(), strict=True)
            moved = [(len(set(new) - set(old)), size) for new, old, size in pairs if old[0] != NO_BROKER]
            within = count_unbalanced(broker_loads(heavy, planned.replicas)[1], planned.shares, heavy.usable) == 0
            if not voluntary:
                assert sum(number for number, _ in moved) == planned.required.moves == planned.lower_bound.moves
                assert sum(number * size for number, size in moved) == planned.required.weight
            elif within:
                assert sum(number for number, _ in moved) >= planned.lower_bound.moves, seed
                assert sum(number * size for number, size in moved) >= planned.lower_bound.weight, seed
                same += sum(number for number, _ in moved) == planned.lower_bound.moves
    assert same >= 15


def test_the_loads_of_brokers() -> None:
    """Replicas, bytes, and leaders of each broker; and the number of usable brokers outside their bounds."""
    replicas, weight, leaders = broker_loads(cluster_of([0, 0, 0, 0], [[0, 1], [2]], [5, 3]), [[1, 0], [1]])
    assert (replicas.tolist(), weight.tolist(), leaders.tolist()) == ([1, 2, 0, 0], [5, 8, 0, 0], [0, 2, 0, 0])
    shares = BrokerShares(np.full(4, 4.0), np.full(4, 3.0), np.full(4, 5.0))
    usable = np.array([True, True, True, False])
    for load, number in (([3, 5, 4, 9], 0), ([2, 5, 4, 4], 1), ([3, 6, 2, 0], 2), ([3 - 1e-7, 5 + 1e-7, 4, 0], 0)):
        assert count_unbalanced(np.array(load), shares, usable) == number
