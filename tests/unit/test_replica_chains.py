"""Balance: chains against an exhaustive search, large clusters against small ones, and known bounds."""

from __future__ import annotations

import copy
import itertools
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from spark_assign.replicas.kernel import rebalance_replicas
from spark_assign.replicas.kernel.reassign import (
    LowerBound,
    ReassignmentPlan,
    broker_loads,
    choose_kept,
    count_unbalanced,
    fill_vacancies,
    most_kept,
    reassign,
)
from spark_assign.replicas.kernel.rebalance_replicas import Chain, ReplicaBalance, cheapest_chain
from spark_assign.replicas.kernel.replica_cluster import NO_BROKER, BrokerShares, ReplicaCluster, fair_shares
from tests.sizes import drawn
from tests.unit.random_clusters import random_cluster

Costs = tuple[int, int]
Step = tuple[int, int, int]
TOLERANCE = 0.1


def moves(cluster: ReplicaCluster, planned: ReassignmentPlan) -> int:
    """Counts the replicas of existing partitions on brokers that didn't have the partition."""
    pairs = zip(planned.replicas, cluster.current.tolist(), strict=True)
    return sum(len(set(after) - set(before)) for after, before in pairs if before[0] != NO_BROKER)


def small_states() -> Iterator[tuple[ReplicaCluster, ReplicaBalance]]:
    """Yields random clusters of a few brokers and partitions after their vacancies are filled."""
    for seed in (*range(drawn(30, 60)), 98, 101, 116, 144, 577, 634, 715, 1470, 1879):  # the last five need three steps
        cluster = random_cluster(seed)
        if len(cluster.rack) <= 5 and len(cluster.current) <= 5:
            shares = fair_shares(cluster, 0.0)
            assigned = fill_vacancies(cluster, choose_kept(cluster, most_kept(cluster), shares), shares)
            yield cluster, ReplicaBalance(cluster, assigned, shares)


def valid(cluster: ReplicaCluster, assigned: list[list[int]], partition: int) -> bool:
    """Checks for distinct brokers in as many racks as possible."""
    replicas = assigned[partition]
    racks = len({int(cluster.rack[broker]) for broker in replicas})
    return len(set(replicas)) == len(replicas) and racks >= cluster.racks_needed()[partition]


def chains(
    cluster: ReplicaCluster, assigned: list[list[int]], to_broker: int, from_brokers: set[int], seen: set[int]
) -> Iterator[Costs]:
    """Yields the moves and steps of all chains that end at a broker: the last step first, no broker twice."""
    for from_broker in set(np.flatnonzero(cluster.usable).tolist()) - seen:
        for partition, replicas in enumerate(assigned):
            if from_broker not in replicas or to_broker in replicas:
                continue
            home = set(cluster.current[partition].tolist())
            at = replicas.index(from_broker)
            replicas[at] = to_broker
            if valid(cluster, assigned, partition):
                cost = (to_broker not in home) - (from_broker not in home)
                if from_broker in from_brokers:
                    yield cost, 1
                for more, steps in chains(cluster, assigned, from_broker, from_brokers, seen | {from_broker}):
                    yield cost + more, steps + 1
            replicas[at] = from_broker


def test_the_cheapest_chain_of_all() -> None:
    """It has the fewest moves, then the fewest steps, of all chains; None if there is no chain; and its steps can be
    applied one by one."""
    lengths: Counter[int] = Counter()
    for cluster, state in small_states():
        before = [list(each) for each in state.assigned]
        for from_broker, to_broker in itertools.permutations(state.brokers, 2):
            every = list(chains(cluster, state.assigned, to_broker, {from_broker}, {to_broker}))
            chain = cheapest_chain(state, {from_broker}, {to_broker}, None)
            assert state.assigned == before
            assert (chain is None) == (not every)
            if chain is None:
                continue
            lengths[len(chain.steps)] += 1
            assert (chain.steps[0][2], chain.steps[-1][1]) == (to_broker, from_broker)
            assert [step[1] for step in chain.steps[:-1]] == [step[2] for step in chain.steps[1:]]
            assert (chain.cost, len(chain.steps)) == min(every)
            after = copy.deepcopy(state)
            for step in chain.steps:
                assert after.fits(*step)
                after.move(*step)
            assert away(cluster, after.assigned) - away(cluster, before) == chain.cost
            assert all(valid(cluster, after.assigned, at) for at in range(len(before)))
            assert (
                after.load[to_broker] - state.load[to_broker] == state.load[from_broker] - after.load[from_broker] == 1
            )
    assert lengths[1] > 40
    assert lengths[2] > 10
    assert lengths[3] >= 5


def one_rack(brokers: int, current: list[list[int]], share: list[float] | None = None) -> ReplicaBalance:
    """Builds brokers of one rack that keep all replicas."""
    rows, ones = np.array(current), np.ones(len(current), np.int64)
    cluster = ReplicaCluster(np.zeros(brokers, int), np.ones(brokers, bool), rows, ones * rows.shape[1], ones)
    shares = np.array(share or [1.0] * brokers)
    return ReplicaBalance(cluster, [list(each) for each in current], BrokerShares(shares, shares, shares))


def test_of_equal_chains() -> None:
    """From the broker with the highest load for its share to the lowest, then by id; the first replica that fits."""
    assert cheapest_chain(one_rack(4, [[0], [0], [1], [1], [2]]), {1, 0}, {3, 2}, None) == Chain([(0, 0, 3)], 1)
    half = one_rack(4, [[0], [0], [1], [1], [2]], [2.0, 1.0, 4.0, 1.0])
    assert cheapest_chain(half, {0, 1}, {2}, None) == Chain([(2, 1, 2)], 1)
    assert cheapest_chain(one_rack(4, [[0], [2], [3], [3]], [1, 1, 1, 4]), {0}, {2, 3}, None) == Chain([(0, 0, 3)], 1)
    assert cheapest_chain(one_rack(4, [[0], [2], [3]]), {0}, {3, 2}, None) == Chain([(0, 0, 2)], 1)


def test_probes() -> None:
    """Only this number of a broker's replicas is considered, in their order of arrival."""
    state = one_rack(3, [[0, 1], [0, 2], [0, 1]])
    order = list(state.kept_replicas[0])
    assert sorted(order) == [0, 1, 2]
    for probes, found in ((1, order[0] == 1), (2, 1 in order[:2]), (3, True), (None, True)):
        assert (cheapest_chain(state, {0}, {1}, probes) == Chain([(1, 0, 1)], 1)) == found


def test_steps_that_hinder_each_other() -> None:
    """The second of two steps of one partition would leave a rack: it's returned, and the placement doesn't change."""
    ones = np.ones(1, np.int64)
    cluster = ReplicaCluster(np.array([0, 1, 0, 1, 1]), np.ones(5, bool), np.array([[0, 1, 2]]), ones * 3, ones)
    state = ReplicaBalance(cluster, [[0, 1, 2]], fair_shares(cluster, 0.0))
    assert rebalance_replicas._find_blocked_step(state, [(0, 0, 3), (0, 2, 4)]) == (0, 2, 4)
    assert rebalance_replicas._find_blocked_step(state, [(0, 0, 4), (0, 1, 3)]) is None
    assert state.assigned == [[0, 1, 2]]


def test_a_step_that_fails_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another partition moves instead; without one there is no chain; and the number of attempts is limited."""
    state = one_rack(2, [[0], [0], [0]])
    refused: set[Step] = set()
    monkeypatch.setattr(
        rebalance_replicas, "_find_blocked_step", lambda _, steps: next((s for s in steps if s in refused), None)
    )
    first = cheapest_chain(state, {0}, {1}, None)
    for left in (2, 1, 0):
        assert first is not None
        refused.add(first.steps[0])
        first = cheapest_chain(state, {0}, {1}, None)
        assert (first is None) == (left == 0)
        assert first is None or first.steps[0] not in refused
    many = one_rack(2, [[0]] * 40)
    tried: list[Step] = []
    monkeypatch.setattr(rebalance_replicas, "_find_blocked_step", lambda _, steps: tried.append(steps[0]) or steps[0])
    assert cheapest_chain(many, {0}, {1}, None) is None
    assert len(tried) == len(set(tried)) == 20


def away(cluster: ReplicaCluster, assigned: list[list[int]]) -> int:
    """Counts the replicas on brokers that didn't have the partition."""
    return sum(len(set(after) - set(before)) for after, before in zip(assigned, cluster.current.tolist(), strict=True))


def test_a_large_cluster_is_as_even_as_a_small_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Direct moves first, then chains: the same brokers within bounds, with hardly a move more."""
    more = 0
    for seed in range(drawn(30, 60)):
        cluster = random_cluster(seed)
        for voluntary in (False, True):
            monkeypatch.setattr(rebalance_replicas, "MAX_EXHAUSTIVE_SIZE", 100_000)
            small = reassign(cluster, TOLERANCE, voluntary=voluntary)
            monkeypatch.setattr(rebalance_replicas, "MAX_EXHAUSTIVE_SIZE", 0)
            large = reassign(cluster, TOLERANCE, voluntary=voluntary)
            unbalanced = [
                count_unbalanced(broker_loads(cluster, x.replicas)[0], x.shares, cluster.usable) for x in (small, large)
            ]
            assert unbalanced[0] == unbalanced[1], seed
            assert large.lower_bound == small.lower_bound
            added = moves(cluster, large) - moves(cluster, small)
            assert added >= 0 if voluntary else added == 0
            more += added
    assert more <= 8  # in 60 clusters


def large(brokers: int, new: int, partitions: int, racks: int) -> ReplicaCluster:
    """Builds partitions of three replicas, evenly on all brokers except the new ones, which have none."""
    current = np.array([[(at + 7 * place) % brokers for place in range(3)] for at in range(partitions)])
    every = brokers + new
    ones = np.ones(partitions, np.int64)
    return ReplicaCluster(np.arange(every) % racks, np.ones(every, bool), current, ones * 3, ones)


@pytest.mark.parametrize("racks", [1, 3])
def test_the_lower_bound_of_a_large_cluster_is_reached(racks: int) -> None:
    """12,000 replicas on 30 brokers, three brokers are added: each needs 328 (363.6 less a tenth), and gets no more."""
    cluster = large(30, 3, 4_000, racks)
    assert rebalance_replicas.MAX_EXHAUSTIVE_SIZE < 12_000 * 33
    planned = reassign(cluster, TOLERANCE, voluntary=True)
    assert planned.required == LowerBound(0, 0)
    assert planned.lower_bound == LowerBound(984, 984)
    assert moves(cluster, planned) == 984
    load = broker_loads(cluster, planned.replicas)[0]
    assert load[30:].tolist() == [328] * 3
    assert count_unbalanced(load, planned.shares, cluster.usable) == 0
    assert all(len({broker % racks for broker in each}) == min(3, racks) for each in planned.replicas)
    assert reassign(cluster, TOLERANCE, voluntary=False).lower_bound == LowerBound(0, 0)


def test_a_broker_of_a_large_cluster_that_goes_and_comes() -> None:
    """All replicas of a removed broker move, which is the bound; a broker above its bounds loses the excess."""
    cluster = large(30, 0, 4_000, 1)
    removed = replace(cluster, usable=np.arange(30) != 4)
    planned = reassign(removed, TOLERANCE, voluntary=True)
    num_moved = int((cluster.current == 4).sum())
    assert planned.required.moves == planned.lower_bound.moves == moves(removed, planned) == num_moved
    treeified = replace(cluster, current=np.array([[0, 1 + at % 29, 1 + (at + 5) % 29] for at in range(4_000)]))
    planned = reassign(treeified, TOLERANCE, voluntary=True)
    assert planned.lower_bound.moves == moves(treeified, planned) == 4_000 - 440  # a share is 400
    assert broker_loads(treeified, planned.replicas)[0][0] == 440


def test_a_thousand_brokers_take_bounded_time() -> None:
    """Hundreds of brokers need replicas that few can give: donors are in a heap, instead of compared for each try."""
    usable = np.arange(1_000) != 2
    ones = np.ones(1_500, np.int64)
    cluster = ReplicaCluster(np.zeros(1_000, np.int64), usable, np.arange(1_500)[:, np.newaxis] % 3, ones, ones)
    start = time.process_time()
    planned = reassign(cluster, TOLERANCE, voluntary=False)
    assert time.process_time() - start < 12
    assert moves(cluster, planned) == planned.lower_bound.moves == 500


def test_chains_of_thousands_of_brokers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The more brokers, the fewer searches for chains: here the first one is the last one."""
    searched = []
    monkeypatch.setattr(rebalance_replicas, "MAX_EXHAUSTIVE_SIZE", 0)
    monkeypatch.setattr(rebalance_replicas, "MAX_CHAIN_PAIRS", 33 * 33)
    monkeypatch.setattr(rebalance_replicas, "_supply", lambda *_: None)
    monkeypatch.setattr(rebalance_replicas, "_move_chains", lambda *values: searched.append(values[-1]))
    reassign(large(30, 3, 100, 1), TOLERANCE, voluntary=True)
    assert searched == [1]


def test_a_partition_of_a_thousand_replicas_takes_linear_time() -> None:
    """Which of its replicas stay is decided once, not again for each that goes."""
    current = np.tile(np.arange(1_000), (10, 1))
    ones = np.ones(10, np.int64)
    cluster = ReplicaCluster(np.arange(1_000) % 2, np.ones(1_000, bool), current, 3 * ones, ones)
    shares = fair_shares(cluster, TOLERANCE)
    start = time.process_time()
    staying = choose_kept(cluster, most_kept(cluster), shares)
    assert time.process_time() - start < 3
    assert staying.sum(axis=1).tolist() == [3] * 10
    assert staying[:, 0].all(), "the preferred leader stays"
