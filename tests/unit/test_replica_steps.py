"""Each step of a reassignment against its brute-force twin: kept replicas, even shares, vacancies, leaders."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from spark_assign.replicas.kernel.preferred_leaders import choose_leaders
from spark_assign.replicas.kernel.reassign import choose_kept, fill_vacancies, most_kept, sum_load
from spark_assign.replicas.kernel.replica_cluster import (
    NO_BROKER,
    BrokerShares,
    ReplicaCluster,
    count_distinct,
    fair_shares,
    leader_shares,
    usable_replicas,
)
from tests.unit.random_clusters import random_cluster

SEEDS = range(60)


def heavy(seed: int) -> ReplicaCluster:
    """Returns a random cluster; every third one has bytes."""
    cluster = random_cluster(seed)
    if seed % 3:
        return cluster
    return replace(cluster, weight=np.random.default_rng(seed).integers(1, 50, len(cluster.current)), weighed=True)


def placements(cluster: ReplicaCluster, factor: int) -> list[frozenset[int]]:
    """Returns every valid set of brokers of a partition."""
    usable = np.flatnonzero(cluster.usable).tolist()
    rack = cluster.rack.tolist()
    most = min(factor, len({rack[broker] for broker in usable}))
    all_replicas = itertools.combinations(usable, factor)
    return [frozenset(each) for each in all_replicas if len({rack[broker] for broker in each}) == most]


def plain(cluster: ReplicaCluster, **more: object) -> ReplicaCluster:
    """Returns the cluster with changed fields."""
    return replace(cluster, **more)  # type: ignore[arg-type]


def flat(brokers: int, current: list[list[int]], **more: object) -> ReplicaCluster:
    """Builds usable brokers in one rack; each partition keeps its number of replicas."""
    width = max(map(len, current))
    rows = np.array([row + [NO_BROKER] * (width - len(row)) for row in current])
    factor = np.array([len(row) for row in current])
    cluster = ReplicaCluster(np.zeros(brokers, int), np.ones(brokers, bool), rows, factor, np.ones(len(rows), np.int64))
    return plain(cluster, **more)


def shares_of(*share: float, least: float = 0, most: float = 99) -> BrokerShares:
    """Builds these shares, with the same bounds for all brokers."""
    return BrokerShares(np.array(share), np.full(len(share), float(least)), np.full(len(share), float(most)))


# --- what stays ---


def test_distinct_values_are_counted_as_sets_count_them() -> None:
    """Only counted entries matter; an array without columns has 0."""
    draw = np.random.default_rng(3)
    for columns in range(5):
        values, counted = draw.integers(0, 4, (30, columns)), draw.random((30, columns)) < 0.6
        expected = [len({v for v, c in zip(*row, strict=True) if c}) for row in zip(values, counted, strict=True)]
        assert count_distinct(values, counted).tolist() == expected


def test_usable_replicas() -> None:
    """Neither padding nor an unusable broker counts, also for the last broker."""
    cluster = flat(3, [[0, 1, 2], [2], [1, 2]], usable=np.array([True, False, True]))
    assert usable_replicas(cluster).tolist() == [[True, False, True], [True, False, False], [False, True, False]]
    assert not usable_replicas(plain(cluster, usable=np.array([True, True, False])))[1].any()


def test_as_many_stay_as_any_placement_leaves() -> None:
    """Compared with every placement: the chosen replicas are a subset of one, and a leader that can stay does."""
    for seed in SEEDS:
        cluster = heavy(seed)
        kept = most_kept(cluster)
        staying = choose_kept(cluster, kept, fair_shares(cluster, 0.1))
        usable = usable_replicas(cluster)
        assert not (staying & ~usable).any()
        for at, row in enumerate(cluster.current.tolist()):
            possible = placements(cluster, int(cluster.replication_factor[at]))
            assert kept[at] == max(len(each & set(row)) for each in possible)
            chosen = {broker for broker, stays in zip(row, staying[at], strict=True) if stays}
            assert len(chosen) == kept[at]
            assert any(chosen <= each for each in possible)
            assert not (row and usable[at, 0]) or staying[at, 0]


def test_the_most_loaded_give_up_first() -> None:
    """The current load over the share decides; of equals, the later replica goes, and never the first."""
    three = flat(3, [[0, 1, 2], [0, 1], [0, 2], [2]], replication_factor=np.array([2, 2, 2, 1]))
    equal_shares = shares_of(1, 1, 1)
    assert choose_kept(three, most_kept(three), equal_shares)[0].tolist() == [True, True, False]  # loads 3, 2, 3
    assert choose_kept(three, most_kept(three), shares_of(1, 0.5, 1))[0].tolist() == [True, False, True]
    equal = flat(3, [[0, 1, 2]], replication_factor=np.array([2]))
    assert choose_kept(equal, most_kept(equal), equal_shares)[0].tolist() == [True, True, False]
    # Having given up one, broker 2 is no more loaded than broker 1: of these the later replica goes.
    falling = flat(3, [[0, 1, 2], [0, 2, 1], [2, 0], [1, 0], [2, 0]], replication_factor=np.array([2, 2, 2, 2, 2]))
    assert choose_kept(falling, most_kept(falling), equal_shares)[:2, :3].tolist() == [
        [True, True, False],
        [True, True, False],
    ]
    heavier = flat(
        3,
        [[0, 1, 2], [1, 0], [2, 0], [2, 0]],
        replication_factor=np.array([2, 2, 2, 2]),
        weight=np.array([1, 9, 1, 1]),
        weighed=True,
    )
    assert choose_kept(heavier, most_kept(heavier), equal_shares)[0].tolist() == [True, False, True]


def test_what_stands_twice_in_a_rack_goes() -> None:
    """If racks are too few for all replicas, only replicas that share a rack are dropped."""
    cluster = flat(4, [[0, 1, 2]], rack=np.array([0, 0, 1, 2]))
    assert most_kept(cluster).tolist() == [2]
    assert choose_kept(cluster, most_kept(cluster), shares_of(1, 1, 0.1, 1)).tolist() == [[True, False, True]]
    two = flat(4, [[0, 1, 2, 3]], rack=np.array([0, 0, 1, 1]), replication_factor=np.array([3]))
    assert choose_kept(two, most_kept(two), shares_of(1, 1, 1, 1)).tolist() == [[True, True, True, False]]


def test_loads() -> None:
    """The number of replicas, or their bytes; 0 for an empty broker."""
    cluster = flat(4, [[0, 1], [1, 2]], weight=np.array([5, 7]))
    all_replicas = cluster.current != NO_BROKER
    assert sum_load(cluster, all_replicas).tolist() == [1, 2, 1, 0]
    assert sum_load(plain(cluster, weighed=True), all_replicas).tolist() == [5, 12, 7, 0]
    assert sum_load(plain(cluster, weighed=True), all_replicas & np.array([[True, False]])).tolist() == [5, 7, 0, 0]


# --- even shares ---


def test_shares_are_level_within_what_racks_allow() -> None:
    """Racks have one level, clipped to the minimum and maximum over all placements of all partitions."""
    for seed in SEEDS:
        cluster = heavy(seed)
        share = fair_shares(cluster, 0.1).share
        total = (cluster.weight * cluster.replication_factor).sum()
        assert share.sum() == pytest.approx(total)
        assert not share[~cluster.usable].any()
        level: list[float] = []
        above, below = [0.0], [np.inf]
        for rack in np.unique(cluster.rack[cluster.usable]).tolist():
            members = np.flatnonzero(cluster.usable & (cluster.rack == rack))
            assert np.ptp(share[members]) == 0
            low = high = 0
            for factor, weight in zip(cluster.replication_factor.tolist(), cluster.weight.tolist(), strict=True):
                counts = [len(each & set(members.tolist())) for each in placements(cluster, factor)]
                low, high = low + weight * min(counts), high + weight * max(counts)
            load = share[members].sum()
            assert low - 1e-6 <= load <= high + 1e-6, seed
            if low + 1e-6 < load < high - 1e-6:
                level.append(load / len(members))
            elif low < high:
                (above if load >= high - 1e-6 else below).append(load / len(members))
        if level:
            assert np.ptp(level) == pytest.approx(0)
            assert max(above) <= level[0] + 1e-6
            assert level[0] <= min(below) + 1e-6
        assert max(above) <= min(below) + 1e-6


@pytest.mark.parametrize(
    ("replicas", "tolerance", "least", "most"),
    [(10, 0.1, 9, 11), (10, 0.0, 10, 10), (21, 0.0, 10, 11), (5, 0.1, 2, 3), (1, 0.5, 0, 1), (4, 1.5, 0, 5)],
)
def test_bounds_of_counts(replicas: int, tolerance: float, least: int, most: int) -> None:
    """Bounds are rounded away from the share, to at least 0; the same for leaders."""
    brokers = 2 if replicas < 10 or replicas == 21 else 1
    cluster = flat(brokers, [[0]] * replicas)
    for shares in (fair_shares(cluster, tolerance), leader_shares(cluster, tolerance)):
        assert shares.share.tolist() == [pytest.approx(replicas / brokers)] * brokers
        assert (shares.least.tolist(), shares.most.tolist()) == ([least] * brokers, [most] * brokers)


def test_bounds_of_bytes_are_not_rounded() -> None:
    """Bounds of bytes are fractions; leaders are always counted, and only usable brokers lead."""
    cluster = flat(2, [[0], [1]], weight=np.array([10, 11]), weighed=True)
    shares = fair_shares(cluster, 0.1)
    assert shares.share.tolist() == pytest.approx([10.5, 10.5])
    assert shares.least.tolist() == pytest.approx([9.45, 9.45])
    assert shares.most.tolist() == pytest.approx([11.55, 11.55])
    assert fair_shares(cluster, 2.0).least.tolist() == [0, 0]
    leading = leader_shares(plain(cluster, usable=np.array([True, False])), 0.6)
    assert (leading.share.tolist(), leading.least.tolist(), leading.most.tolist()) == ([2, 0], [1, 0], [3, 0])


# --- vacancies ---


def filled_by_hand(cluster: ReplicaCluster, staying: np.ndarray, shares: BrokerShares) -> list[list[int]]:
    """Fills one vacancy after the other, the heaviest partitions first, and considers every broker each time."""
    rack = cluster.rack.tolist()
    share = np.maximum(shares.share, 1e-12).tolist()
    relative = (sum_load(cluster, staying) / np.maximum(shares.share, 1e-12)).tolist()
    assigned: list[list[int]] = [[] for _ in cluster.current]
    for at in sorted(range(len(assigned)), key=lambda at: (-cluster.weight[at], at)):
        row = [broker for broker in cluster.current[at].tolist() if broker != NO_BROKER]
        places = [broker if stays else None for broker, stays in zip(row, staying[at].tolist(), strict=False)]
        assigned_brokers = [broker for broker in places if broker is not None]
        for missing in range(int(cluster.replication_factor[at]) - len(assigned_brokers), 0, -1):
            racks = {rack[broker] for broker in assigned_brokers}
            must_be_new = len(racks) + missing <= cluster.racks_needed()[at]
            fits = [
                broker
                for broker in np.flatnonzero(cluster.usable).tolist()
                if broker not in assigned_brokers and not (must_be_new and rack[broker] in racks)
            ]
            chosen = min(fits, key=lambda broker: (relative[broker], broker))
            relative[chosen] += int(cluster.weight[at]) / share[chosen]
            assigned_brokers.append(chosen)
            if None in places:
                places[places.index(None)] = chosen
            else:
                places.append(chosen)
        assigned[at] = [broker for broker in places if broker is not None]
    return assigned


def test_vacancies_are_filled_as_by_hand() -> None:
    """The broker furthest below its share, then the lowest id, gets the position of the dropped replica."""
    for seed in SEEDS:
        cluster = heavy(seed)
        shares = fair_shares(cluster, 0.1)
        staying = choose_kept(cluster, most_kept(cluster), shares)
        assert fill_vacancies(cluster, staying, shares) == filled_by_hand(cluster, staying, shares), seed


# --- leaders ---


def test_a_leader_that_stays_goes_on_leading() -> None:
    """It stays leader within its bounds, although other brokers lead fewer partitions."""
    cluster = flat(3, [[0, 1, 2]] * 3)
    for assigned in ([[0, 1, 2]] * 3, [[1, 0, 2], [2, 1, 0], [2, 0, 1]]):
        assert choose_leaders(cluster, assigned, shares_of(1, 1, 1, most=3)) == [0, 0, 0]
    assert sorted(choose_leaders(cluster, [[0, 1, 2]] * 3, shares_of(1, 1, 1, most=2))) == [0, 0, 1]
    assert sorted(choose_leaders(cluster, [[0, 1, 2]] * 3, shares_of(1, 1, 1, least=1, most=3))) == [0, 1, 2]


def test_a_replica_that_stays_takes_over_before_a_new_one() -> None:
    """Even if its broker leads more. Then the broker that leads fewest, then the lowest id."""
    cluster = flat(4, [[0, 1], [0, 1], [3, 0], [3, 1, 0]], usable=np.array([True, True, True, False]))
    wide = shares_of(1, 1, 1, 0)
    assert choose_leaders(cluster, [[0, 1], [0, 1], [2, 0], [2, 1, 0]], wide) == [0, 0, 0, 1]
    assert choose_leaders(cluster, [[0, 1], [0, 1], [2, 1], [2, 1]], wide) == [0, 0, 1, 1]
    # Broker 1 leads one by then, and broker 2 leads none.
    new = flat(4, [[1], [3], [3]], usable=np.array([True, True, True, False]))
    assert choose_leaders(new, [[1], [2, 1], [2, 1]], wide) == [1, 2, 1]
    unled = plain(flat(3, [[0], [0]]), current=np.full((2, 1), NO_BROKER))
    assert choose_leaders(unled, [[2, 1], [2, 1]], shares_of(1, 1, 1)) == [1, 2]
    assert choose_leaders(plain(unled, current=np.empty((2, 0), int)), [[2, 1], [2, 1]], shares_of(1, 1, 1)) == [1, 2]


def fewest_changes(before: list[int], assigned: list[list[int]], brokers: int, least: int, most: int) -> int | None:
    """Returns the fewest leader changes of all choices of leaders within bounds, or None."""
    found = [
        sum(leader != old for leader, old in zip(each, before, strict=True))
        for each in itertools.product(*assigned)
        if all(least <= each.count(broker) <= most for broker in range(brokers))
    ]
    return min(found, default=None)


def test_leaders_even_out_by_short_chains() -> None:
    """Leaders are within bounds whenever a choice is, with the fewest changes in total."""
    draw = np.random.default_rng(8)
    fewest = changed = within = 0
    for _ in range(150):
        brokers = int(draw.integers(2, 5))
        assigned = [draw.permutation(brokers)[: draw.integers(1, brokers + 1)].tolist() for _ in range(5)]
        before = [each[0] for each in assigned]
        least = int(draw.integers(0, 2))
        most = int(draw.integers(-(-5 // brokers), 4))
        cluster = flat(brokers, assigned)
        leaders = choose_leaders(cluster, assigned, shares_of(*[5 / brokers] * brokers, least=least, most=most))
        assert all(leader in each for leader, each in zip(leaders, assigned, strict=True))
        best = fewest_changes(before, assigned, brokers, least, most)
        if best is not None:
            within += 1
            assert all(least <= leaders.count(broker) <= most for broker in range(brokers))
            fewest += best
            changed += sum(leader != old for leader, old in zip(leaders, before, strict=True))
    assert within > 80
    assert fewest == changed
