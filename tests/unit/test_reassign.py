"""Compares reassignments with an exact solver, and checks their invariants.

SciPy is imported by the functions that need it, as every worker process imports every test file.
"""

from __future__ import annotations

import numpy as np
import pytest

from spark_assign.replicas.kernel.preferred_leaders import choose_leaders
from spark_assign.replicas.kernel.reassign import ReassignmentPlan, broker_loads, count_unbalanced, reassign
from spark_assign.replicas.kernel.replica_cluster import NO_BROKER, ReplicaCluster, leader_shares
from tests.sizes import drawn
from tests.unit.random_clusters import random_cluster

TOLERANCE = 0.1


def fewest_moves(cluster: ReplicaCluster, bounds: tuple[np.ndarray, np.ndarray] | None) -> int | None:
    """Returns the fewest moves by integer programming, optionally with bounds on each broker's replicas, or None
    if no placement satisfies them."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array

    partitions, brokers = len(cluster.current), len(cluster.rack)
    racks = np.unique(cluster.rack[cluster.usable])
    has, spans = partitions * brokers, partitions * len(racks)
    rows: list[tuple[list[int], list[float], float, float]] = []
    for partition in range(partitions):
        replica_columns = [partition * brokers + broker for broker in range(brokers)]
        factor = int(cluster.replication_factor[partition])
        rows.append((replica_columns, [1.0] * brokers, factor, factor))
        spanned = [has + partition * len(racks) + at for at in range(len(racks))]
        rows.append((spanned, [1.0] * len(racks), min(factor, len(racks)), np.inf))
        for at, rack in enumerate(racks):
            inside = [partition * brokers + broker for broker in np.flatnonzero(cluster.rack == rack)]
            rows.append(([*inside, spanned[at]], [1.0] * len(inside) + [-1.0], 0, np.inf))
    for broker in range(brokers) if bounds is not None else ():
        if cluster.usable[broker]:
            broker_columns = [partition * brokers + broker for partition in range(partitions)]
            rows.append((broker_columns, [1.0] * partitions, bounds[0][broker], bounds[1][broker]))
    gain = np.zeros(has + spans)
    for partition, row in enumerate(cluster.current):
        gain[[partition * brokers + broker for broker in row if broker != NO_BROKER]] = -1
    at = [(n, column, value) for n, row in enumerate(rows) for column, value in zip(row[0], row[1], strict=True)]
    number, column, value = zip(*at, strict=True)
    constraint = LinearConstraint(
        coo_array((value, (number, column)), (len(rows), has + spans)).tocsr(),
        [row[2] for row in rows],
        [row[3] for row in rows],
    )
    upper = np.ones(has + spans)
    upper[:has] = np.tile(cluster.usable.astype(float), partitions)
    solved = milp(gain, constraints=constraint, bounds=Bounds(0, upper), integrality=np.ones(has + spans))
    if solved.status == 2:
        return None
    assert solved.success
    return int(cluster.replication_factor[(cluster.current != NO_BROKER).any(axis=1)].sum()) + round(solved.fun)


def moves(cluster: ReplicaCluster, planned: ReassignmentPlan) -> int:
    """Counts the replicas of existing partitions on brokers that didn't have the partition."""
    pairs = zip(planned.replicas, cluster.current.tolist(), strict=True)
    return sum(len(set(after) - set(before)) for after, before in pairs if any(each != NO_BROKER for each in before))


def assert_hard_constraints(cluster: ReplicaCluster, replicas: list[list[int]]) -> None:
    """Asserts the replication factor, distinct and usable brokers, and as many racks as possible."""
    for each, factor, racks in zip(replicas, cluster.replication_factor, cluster.racks_needed(), strict=True):
        assert len(each) == len(set(each)) == factor
        assert all(cluster.usable[broker] for broker in each)
        assert len({int(cluster.rack[broker]) for broker in each}) >= racks


@pytest.mark.parametrize("block", range(4))
def test_as_few_moves_as_an_exact_solver_finds(block: int) -> None:
    """The moves that the hard constraints require are the optimum, in random clusters."""
    for seed in range(block * 50, block * 50 + drawn(20, 50)):
        cluster = random_cluster(seed)
        planned = reassign(cluster, TOLERANCE, voluntary=False)
        assert_hard_constraints(cluster, planned.replicas)
        assert moves(cluster, planned) == planned.lower_bound.moves == fewest_moves(cluster, None), seed


def test_voluntary_moves_against_an_exact_solver() -> None:
    """The same within a tolerance, and the lower bound holds. (Chains are a heuristic: observed, not proven.)"""
    solvable = 0
    clusters = drawn(80, 200)
    for seed in range(clusters):
        cluster = random_cluster(seed)
        planned = reassign(cluster, TOLERANCE, voluntary=True)
        assert_hard_constraints(cluster, planned.replicas)
        fewest = fewest_moves(cluster, (planned.shares.least, planned.shares.most))
        if fewest is None:
            continue
        solvable += 1
        assert count_unbalanced(broker_loads(cluster, planned.replicas)[0], planned.shares, cluster.usable) == 0, seed
        assert planned.lower_bound.moves <= moves(cluster, planned) == fewest, seed
    assert solvable > 0.75 * clusters


def leaders_can_be_even(
    cluster: ReplicaCluster, replicas: list[list[int]], least: np.ndarray, most: np.ndarray
) -> bool:
    """Checks by integer programming whether a choice of leaders keeps every broker within its bounds."""
    from scipy.optimize import LinearConstraint, milp

    pairs = [(partition, broker) for partition, each in enumerate(replicas) for broker in each]
    rows = [[float(partition == at) for partition, _ in pairs] for at in range(len(replicas))]
    usable = np.flatnonzero(cluster.usable).tolist()
    rows += [[float(broker == each) for _, broker in pairs] for each in usable]
    low = [1.0] * len(replicas) + [float(least[each]) for each in usable]
    high = [1.0] * len(replicas) + [float(most[each]) for each in usable]
    constraint = LinearConstraint(np.array(rows), low, high)
    return bool(milp(np.zeros(len(pairs)), constraints=constraint, integrality=np.ones(len(pairs))).success)


def test_leaders_are_even_where_any_order_of_the_replicas_is() -> None:
    """Reordering alone reaches the tolerance whenever a choice of leaders does."""
    possible = 0
    clusters = drawn(60, 150)
    for seed in range(clusters):
        cluster = random_cluster(seed)
        planned = reassign(cluster, TOLERANCE, voluntary=False)
        shares = leader_shares(cluster, TOLERANCE)
        if leaders_can_be_even(cluster, planned.replicas, shares.least, shares.most):
            possible += 1
            assert count_unbalanced(broker_loads(cluster, planned.replicas)[2], shares, cluster.usable) == 0, seed
    assert possible > clusters / 3


def test_leaders_stay_where_they_are_even() -> None:
    """Nothing is reordered without need; a partition without its leader goes to a replica that stays."""
    cluster = ReplicaCluster(
        np.zeros(3, int), np.array([True, True, False]), np.array([[0, 1], [1, 0], [2, 0]]), *_ones(3, 2)
    )
    assert choose_leaders(cluster, [[0, 1], [1, 0], [1, 0]], leader_shares(cluster, 0.0)) == [0, 1, 0]


def _ones(partitions: int, factor: int) -> tuple[np.ndarray, np.ndarray]:
    return np.full(partitions, factor), np.ones(partitions, np.int64)


def test_twenty_brokers_in_two_racks_and_one_of_them_goes() -> None:
    """One replica moves if broker 19 is removed from a topic of ten partitions with two replicas."""
    current = np.array([[at, 10 + at] for at in range(10)])
    usable = np.arange(20) != 19
    cluster = ReplicaCluster(np.arange(20) // 10, usable, current, *_ones(10, 2))
    for voluntary in (False, True):
        planned = reassign(cluster, TOLERANCE, voluntary=voluntary)
        assert moves(cluster, planned) == planned.lower_bound.moves == 1
        assert_hard_constraints(cluster, planned.replicas)


def test_a_new_broker_gets_its_share() -> None:
    """Voluntary moves fill it to the lower end of the tolerance, not further; without them it stays empty."""
    current = np.array([[at % 4] for at in range(400)])
    cluster = ReplicaCluster(np.zeros(5, int), np.ones(5, bool), current, *_ones(400, 1))
    planned = reassign(cluster, TOLERANCE, voluntary=True)
    assert broker_loads(cluster, planned.replicas)[0].tolist() == [82, 82, 82, 82, 72]
    assert moves(cluster, planned) == planned.lower_bound.moves == 72
    assert moves(cluster, reassign(cluster, TOLERANCE, voluntary=False)) == 0


def test_tolerances_are_whole_numbers_inside() -> None:
    """13 replicas on four brokers: 10 % of 3.25 has no whole number, so 3 and 4 are allowed, not 2 to 4."""
    current = np.array([[0]] * 7 + [[1]] * 6)
    cluster = ReplicaCluster(np.zeros(4, int), np.ones(4, bool), current, *_ones(13, 1))
    planned = reassign(cluster, TOLERANCE, voluntary=True)
    assert (planned.shares.least.tolist(), planned.shares.most.tolist()) == ([3.0] * 4, [4.0] * 4)
    assert sorted(broker_loads(cluster, planned.replicas)[0].tolist()) == [3, 3, 3, 4]
    assert moves(cluster, planned) == planned.lower_bound.moves == 6


def test_a_new_broker_leads_if_it_can() -> None:
    """Broker 3 gets a replica of one of the three partitions, which broker 0 leads twice: it leads one of them."""
    current = np.array([[0, 1, 2], [1, 0, 2], [2, 1, 0]])
    cluster = ReplicaCluster(np.zeros(4, int), np.ones(4, bool), current, *_ones(3, 3))
    planned = reassign(cluster, TOLERANCE, voluntary=True)
    replicas, _, leaders = broker_loads(cluster, planned.replicas)
    assert (replicas[3], leaders[3]) == (2, 1)
    assert max(leaders) == 1


def test_bytes_count_instead_of_replicas() -> None:
    """Vacancies of different sizes are spread by their bytes."""
    sizes = np.array([900, 100, 100, 100, 100, 100, 100, 100, 100, 100])
    cluster = ReplicaCluster(
        np.zeros(3, int), np.array([True, True, False]), np.full((10, 1), 2), np.ones(10, int), sizes, True
    )
    planned = reassign(cluster, TOLERANCE, voluntary=False)
    assert planned.required.weight == 1800
    assert broker_loads(cluster, planned.replicas)[1].tolist() == [900, 900, 0]
