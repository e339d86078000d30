"""Evening out: chains beside a search of all chains, large clusters beside small ones, and bounds that are known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from spark_assign.kernels.replicas import even_out as evening
from spark_assign.kernels.replicas.chains import cheapest_chain
from spark_assign.kernels.replicas.cluster import NO_BROKER, Cluster
from spark_assign.kernels.replicas.even_out import Evening
from spark_assign.kernels.replicas.fill import fill
from spark_assign.kernels.replicas.keep import choose_kept, most_kept
from spark_assign.kernels.replicas.reassign import Bound, Reassigned, broker_loads, outside, reassign
from spark_assign.kernels.replicas.shares import fair_shares
from tests.unit.random_clusters import random_cluster

Costs = tuple[int, int]
TOLERANCE = 0.1


def moves(cluster: Cluster, planned: Reassigned) -> int:
    """Replicas on brokers that did not have the partition, of partitions that are there."""
    pairs = zip(planned.replicas, cluster.current.tolist(), strict=True)
    return sum(len(set(after) - set(before)) for after, before in pairs if before[0] != NO_BROKER)


def state_of(seed: int) -> tuple[Evening, Cluster]:
    """Few replicas on few brokers, of which one goes, once its vacancies were filled."""
    draw = np.random.default_rng(seed)
    brokers, partitions = int(draw.integers(3, 7)), int(draw.integers(2, 7))
    current = np.array([draw.permutation(brokers)[:2] for _ in range(partitions)])
    rack = draw.integers(0, draw.integers(1, 4), brokers)
    ones = np.ones(partitions, np.int64)
    cluster = Cluster(rack, np.arange(brokers) < brokers - 1, current, ones * 2, ones)
    shares = fair_shares(cluster, 0.0)
    return Evening(cluster, fill(cluster, choose_kept(cluster, most_kept(cluster), shares), shares), shares), cluster


def valid(cluster: Cluster, assigned: list[list[int]], partition: int) -> bool:
    """Distinct brokers in as many racks as possible."""
    replicas = assigned[partition]
    racks = len({int(cluster.rack[broker]) for broker in replicas})
    return len(set(replicas)) == len(replicas) and racks >= cluster.racks_needed()[partition]


def chains(
    cluster: Cluster, assigned: list[list[int]], taker: int, givers: set[int], seen: set[int]
) -> Iterator[Costs]:
    """Moves and steps of all chains that end in a taker: the last step first, no broker twice."""
    for giver in set(np.flatnonzero(cluster.usable).tolist()) - seen:
        for partition, replicas in enumerate(assigned):
            if giver not in replicas or taker in replicas:
                continue
            home = set(cluster.current[partition].tolist())
            at = replicas.index(giver)
            replicas[at] = taker
            if valid(cluster, assigned, partition):
                cost = (taker not in home) - (giver not in home)
                if giver in givers:
                    yield cost, 1
                for more, steps in chains(cluster, assigned, giver, givers, seen | {giver}):
                    yield cost + more, steps + 1
            replicas[at] = giver


def test_the_cheapest_chain_of_all() -> None:
    """The fewest moves, then the fewest steps, of all chains that there are; none where there is none; and its steps
    can be taken one by one."""
    found = 0
    for seed in range(80):
        state, cluster = state_of(seed)
        brokers = np.random.default_rng(seed).permutation(len(cluster.rack) - 1).tolist()
        cut = len(brokers) // 2
        givers, takers = set(brokers[:cut]), set(brokers[cut:][:2])
        before = [list(each) for each in state.assigned]
        every = [costs for taker in takers for costs in chains(cluster, state.assigned, taker, givers, {taker})]
        chain = cheapest_chain(state, givers, takers, None)
        assert state.assigned == before
        assert (chain is None) == (not every), seed
        if chain is None:
            continue
        found += 1
        assert (chain.steps[0][2] in takers, chain.steps[-1][1] in givers) == (True, True)
        assert [step[1] for step in chain.steps[:-1]] == [step[2] for step in chain.steps[1:]]
        assert (chain.cost, len(chain.steps)) == min(every)
        home = away(cluster, state.assigned)
        for step in chain.steps:
            assert state.fits(*step)
            state.move(*step)
        assert (
            away(cluster, state.assigned) - home == chain.cost == sum(state_of(seed)[0].cost(*s) for s in chain.steps)
        )
        assert all(valid(cluster, state.assigned, at) for at in range(len(before)))
    assert found > 40


def away(cluster: Cluster, assigned: list[list[int]]) -> int:
    """Replicas that are on brokers which did not have the partition."""
    return sum(len(set(after) - set(before)) for after, before in zip(assigned, cluster.current.tolist(), strict=True))


def test_a_large_cluster_is_as_even_as_a_small_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Straight moves first and chains for the rest: the same brokers within bounds, hardly a move more."""
    more = 0
    for seed in range(60):
        cluster = random_cluster(seed)
        for voluntary in (False, True):
            monkeypatch.setattr(evening, "SMALL", 100_000)
            small = reassign(cluster, TOLERANCE, voluntary=voluntary)
            monkeypatch.setattr(evening, "SMALL", 0)
            large = reassign(cluster, TOLERANCE, voluntary=voluntary)
            beyond = [outside(broker_loads(cluster, x.replicas)[0], x.shares, cluster.usable) for x in (small, large)]
            assert beyond[0] == beyond[1], seed
            assert large.bound == small.bound
            added = moves(cluster, large) - moves(cluster, small)
            assert added >= 0 if voluntary else added == 0
            more += added
    assert more <= 8  # in 60 clusters


def large(brokers: int, new: int, partitions: int, racks: int) -> Cluster:
    """Partitions of three replicas, alike on all brokers but the new ones, which have none."""
    current = np.array([[(at + 7 * place) % brokers for place in range(3)] for at in range(partitions)])
    every = brokers + new
    ones = np.ones(partitions, np.int64)
    return Cluster(np.arange(every) % racks, np.ones(every, bool), current, ones * 3, ones)


@pytest.mark.parametrize("racks", [1, 3])
def test_the_lower_bound_of_a_large_cluster_is_reached(racks: int) -> None:
    """12,000 replicas on 30 brokers, three more come: each needs 327 (363.6 less a tenth), and gets no more."""
    cluster = large(30, 3, 4_000, racks)
    assert evening.SMALL < 12_000 * 33
    planned = reassign(cluster, TOLERANCE, voluntary=True)
    assert planned.forced == Bound(0, 0)
    assert planned.bound == Bound(981, 981)
    assert moves(cluster, planned) == 981
    load = broker_loads(cluster, planned.replicas)[0]
    assert load[30:].tolist() == [327] * 3
    assert outside(load, planned.shares, cluster.usable) == 0
    assert all(len({broker % racks for broker in each}) == min(3, racks) for each in planned.replicas)
    assert reassign(cluster, TOLERANCE, voluntary=False).bound == Bound(0, 0)


def test_a_broker_of_a_large_cluster_that_goes_and_comes() -> None:
    """What it had has to move, that is the bound; and a broker above its bounds gives what is above."""
    cluster = large(30, 0, 4_000, 1)
    gone = replace(cluster, usable=np.arange(30) != 4)
    planned = reassign(gone, TOLERANCE, voluntary=True)
    held = int((cluster.current == 4).sum())
    assert planned.forced.moves == planned.bound.moves == moves(gone, planned) == held
    crowded = replace(cluster, current=np.array([[0, 1 + at % 29, 1 + (at + 5) % 29] for at in range(4_000)]))
    planned = reassign(crowded, TOLERANCE, voluntary=True)
    assert planned.bound.moves == moves(crowded, planned) == 4_000 - 440  # a share is 400
    assert broker_loads(crowded, planned.replicas)[0][0] == 440
