"""Goals for loads: against an exact solver, their priorities, limits, and messages."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product
from statistics import median

import numpy as np
import pytest

from spark_assign.replicas import LoadGoals
from spark_assign.replicas.kernel.balance_loads import balance_loads
from spark_assign.replicas.kernel.load_goals import bounded_load, plan_goals
from spark_assign.replicas.kernel.load_placement import BoundedLoad, LoadPlacement, sum_by_broker
from spark_assign.replicas.kernel.reassign import reassign
from spark_assign.replicas.kernel.reassignment_facts import NamedCluster, RejectedError
from spark_assign.replicas.kernel.replica_cluster import NO_BROKER, ReplicaCluster
from spark_assign.tables.errors import ConfigError
from tests.cases import cases
from tests.sizes import drawn
from tests.unit.test_reassign import assert_hard_constraints

GOALS = (["disk"], ["disk", "leader-in"], ["disk", "in", "out"])


def loaded_cluster(seed: int) -> NamedCluster:
    """Returns up to six brokers in up to three racks with up to 20 partitions, unevenly placed and of uneven size."""
    draw = np.random.default_rng(seed)
    brokers = int(draw.integers(3, 7))
    rack = np.arange(brokers) % int(draw.integers(1, 4))
    factor = int(draw.integers(1, 4))
    racks = len(np.unique(rack))
    popular = draw.random(brokers) + 0.15
    rows: list[list[int]] = []
    partitions = int(draw.integers(8, 21))
    while len(rows) < partitions:
        row = draw.choice(brokers, factor, replace=False, p=popular / popular.sum()).tolist()
        if len({int(rack[broker]) for broker in row}) >= min(factor, racks):
            rows.append(row)
    sizes, rates = ((draw.lognormal(0, 1, partitions) * unit).astype(np.int64) + 1 for unit in (1e6, 1e3))
    cluster = ReplicaCluster(
        rack, np.ones(brokers, bool), np.array(rows), np.full(partitions, factor), sizes, weighed=True
    )
    return _named(cluster, rates)


def _named(cluster: ReplicaCluster, rates: np.ndarray, **capacities: dict[int, int]) -> NamedCluster:
    partitions, brokers = len(cluster.current), len(cluster.rack)
    topics, partition = ["t"] * partitions, np.arange(partitions)
    return NamedCluster(cluster, np.arange(brokers), {}, topics, partition, False, rates, rates, {**capacities})


def fewest_bytes(cluster: ReplicaCluster, loads: list[BoundedLoad]) -> float | None:
    """Returns the fewest moved bytes of a placement within all bounds by integer programming; None if there is none,
    NaN if the solver doesn't end in time."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array

    partitions, brokers = cluster.current.shape[0], len(cluster.rack)
    racks = np.unique(cluster.rack)
    cells = np.arange(partitions * brokers).reshape(partitions, brokers)  # has a replica; the leader follows
    leads, spans = cells + cells.size, 2 * cells.size + np.arange(partitions * len(racks)).reshape(partitions, -1)
    rows: list[tuple[list[int], list[float], float, float]] = []
    for at, factor in enumerate(cluster.replication_factor.tolist()):
        rows.append((cells[at].tolist(), [1.0] * brokers, factor, factor))
        rows.append((leads[at].tolist(), [1.0] * brokers, 1, 1))
        rows += [([int(cells[at, each]), int(leads[at, each])], [1.0, -1.0], 0, 1) for each in range(brokers)]
        rows.append((spans[at].tolist(), [1.0] * len(racks), min(factor, len(racks)), np.inf))
        for index, rack in enumerate(racks):
            inside = cells[at, cluster.rack == rack].tolist()
            rows.append(([*inside, int(spans[at, index])], [1.0] * len(inside) + [-1.0], 0, np.inf))
    for load in loads:
        unit = float(load.share.mean())
        for broker in range(brokers):
            columns = (leads if load.leaders_only else cells)[:, broker].tolist()
            rows.append((columns, (load.weight / unit).tolist(), load.least[broker] / unit, load.most[broker] / unit))
    cost = np.zeros(2 * cells.size + spans.size)
    cost[cells] = cluster.weight[:, None] / cluster.weight.sum()
    for at, row in enumerate(cluster.current):
        cost[cells[at, row]] = 0
    entries = [(number, *pair) for number, row in enumerate(rows) for pair in zip(row[0], row[1], strict=True)]
    number, column, value = zip(*entries, strict=True)
    matrix = coo_array((value, (number, column)), (len(rows), len(cost))).tocsr()
    constraint = LinearConstraint(matrix, [row[2] for row in rows], [row[3] for row in rows])
    options = {"time_limit": 60, "mip_rel_gap": 1e-4}
    solved = milp(cost, constraints=constraint, bounds=Bounds(0, 1), integrality=np.ones(len(cost)), options=options)
    if solved.status == 2:
        return None
    return float(solved.fun * cluster.weight.sum()) if solved.status == 0 else np.nan


def bounded_loads(named: NamedCluster, goals: LoadGoals) -> list[BoundedLoad]:
    """Returns the loads of all goals."""
    return [bounded_load(named, goal, goals) for goal in goals.tolerances]


OPTIMA = {
    0: 15_734_870,
    1: 5_101_630,
    2: None,
    3: None,
    4: 9_017_688,
    5: None,
    6: 8_747_427,
    7: 11_561_285,
    8: None,
    9: 3_365_022,
    13: 6_513_768,
    14: 4_949_461,
    23: 2_552_725,
    29: 7_127_214,
}
"""What the exact solver finds for these clusters: the fewest moved bytes, or None if not all goals can be met."""


def test_moved_bytes_against_an_exact_solver() -> None:
    """Median and maximum of moved bytes above the optimum; every goal is met that can be met. The solver runs in the
    full run only, and confirms what is stored here; by default, these are half of the clusters."""
    gaps, unmet, unsolved = [], 0, []
    solves = drawn(0, 90)
    for seed in range(solves) or list(OPTIMA)[::2]:
        named, names = loaded_cluster(seed), GOALS[seed % 3]
        loads = bounded_loads(named, LoadGoals(dict.fromkeys(names, (0.1, 0.2, 0.3)[seed % 7 % 3])))
        fewest = fewest_bytes(named.cluster, loads) if solves else OPTIMA[seed]
        if solves and seed in OPTIMA:
            stored = OPTIMA[seed]
            assert fewest == (stored and pytest.approx(stored, rel=1e-3)), seed
        before = named.cluster.current.tolist()
        replicas = balance_loads(named.cluster, before, loads, None)
        assert_hard_constraints(named.cluster, replicas)
        score = LoadPlacement(named.cluster, replicas, loads, np.inf).score()
        assert score.violations <= LoadPlacement(named.cluster, before, loads, np.inf).score().violations
        if fewest is None:
            continue
        if np.isnan(fewest):
            unsolved.append(seed)
            continue
        if any(score.violations):
            unmet += 1
            continue
        assert score.moved_bytes >= 0.999 * fewest - 1
        gaps.append(score.moved_bytes / fewest - 1 if fewest > 0.5 else float(score.moved_bytes > 0))
    print(f"{len(gaps)} clusters: median {median(gaps):.2%}, maximum {max(gaps):.2%}, {unmet} unmet")
    assert unmet == 0
    assert len(unsolved) <= 5, f"the solver isn't over in time for the clusters {unsolved}"
    # Of the 90 clusters, 50 can meet their goals; of the default ones, four.
    assert len(gaps) >= (45 if solves else 4)
    assert median(gaps) <= 0.001
    assert max(gaps) <= 0.05


def changed_cluster(seed: int) -> tuple[NamedCluster, list[list[int]]]:
    """Returns three usable brokers with four partitions, and a placement: a broker is removed, replication factors
    become 2, and the last partition is new."""
    draw = np.random.default_rng(seed)
    current = np.full((4, 3), NO_BROKER)
    for partition, replicas in enumerate(draw.integers(1, 4, 3)):
        current[partition, :replicas] = draw.choice(4, replicas, replace=False, p=[0.5, 0.2, 0.1, 0.2])
    sizes, rates = draw.integers(1, 30, (2, 4)) * 10
    usable = np.arange(4) < 3
    cluster = ReplicaCluster(np.zeros(4, int), usable, current, np.full(4, 2), sizes, weighed=True)
    return _named(cluster, rates), reassign(cluster, 0.1, voluntary=False).replicas


def test_few_choices_against_all_placements() -> None:
    """Removed brokers, other replication factors, and new partitions: of all placements within the bounds, none moves
    fewer bytes."""
    met = 0
    for seed in range(drawn(12, 60)):
        named, replicas = changed_cluster(seed)
        loads = bounded_loads(named, LoadGoals(dict.fromkeys(GOALS[seed % 3], 0.3)))
        placement = LoadPlacement(named.cluster, replicas, loads, np.inf)
        fewest = np.inf
        for rows in product(permutations(range(3), 2), repeat=4):
            placement.place([list(row) for row in rows])
            if not any(placement.violation):
                fewest = min(fewest, placement.moved_bytes)
        placement.place(balance_loads(named.cluster, replicas, loads, None))
        if np.isfinite(fewest):
            assert (any(placement.violation), placement.moved_bytes) == (False, fewest), seed
            met += 1
    assert met >= 6


def test_no_limit_of_moved_bytes_is_exceeded() -> None:
    """Fewer bytes may move than the goals need: earlier goals don't become worse, and the limit holds."""
    for seed in range(3):
        named = loaded_cluster(seed)
        loads = bounded_loads(named, LoadGoals(dict.fromkeys(GOALS[seed % 3], 0.1)))
        before = named.cluster.current.tolist()
        free = LoadPlacement(named.cluster, balance_loads(named.cluster, before, loads, None), loads, np.inf)
        limit = free.moved_bytes // 2
        limited = LoadPlacement(named.cluster, balance_loads(named.cluster, before, loads, limit), loads, np.inf)
        assert limited.moved_bytes <= limit
        assert limited.score().violations <= LoadPlacement(named.cluster, before, loads, np.inf).score().violations


def test_a_large_cluster() -> None:
    """30 brokers in three racks, 9,000 replicas: all goals are met, close to the fewest bytes that disks require."""
    draw = np.random.default_rng(1)
    partitions, brokers = 3_000, 30
    current = (np.arange(partitions)[:, None] + np.arange(3)) % 3 + 3 * draw.integers(0, brokers // 3, (partitions, 3))
    current = np.where(draw.random((partitions, 3)) < 0.1, current % 3, current)
    sizes, rates = ((draw.lognormal(0, 1, partitions) * unit).astype(np.int64) + 1 for unit in (1e6, 1e3))
    cluster = ReplicaCluster(
        np.arange(brokers) % 3, np.ones(brokers, bool), current, np.full(partitions, 3), sizes, weighed=True
    )
    loads = bounded_loads(_named(cluster, rates), LoadGoals({"disk": 0.1, "leader-in": 0.1}))
    replicas = balance_loads(cluster, current.tolist(), loads, None)
    assert_hard_constraints(cluster, replicas)
    score = LoadPlacement(cluster, replicas, loads, np.inf).score()
    disk, before = loads[0], sum_by_broker(loads[0], current.tolist(), brokers)
    fewest = max(np.maximum(before - disk.most, 0).sum(), np.maximum(disk.least - before, 0).sum())
    assert not any(score.violations)
    assert fewest <= score.moved_bytes <= 1.05 * fewest


def _two_brokers(**capacities: dict[int, int]) -> NamedCluster:
    """Broker 0 leads all, broker 1 follows; broker 2 is empty."""
    sizes = np.full(6, 100)
    cluster = ReplicaCluster(np.arange(3), np.ones(3, bool), np.array([[0, 1]] * 6), np.full(6, 2), sizes, weighed=True)
    return _named(cluster, np.full(6, 10), **capacities)


def test_leaders_change_before_replicas_move() -> None:
    """Bytes of leaders are balanced without moving any, as far as replicas allow; `count` and `disk` move replicas."""
    named = _two_brokers()
    replicas, rows = plan_goals(named, named.cluster.current.tolist(), LoadGoals({"leader-in": 0.6}, max_moved_bytes=0))
    assert [row["load_after"] for row in rows] == [30, 30, 0]
    assert all(set(row) == {0, 1} for row in replicas)
    _, rows = plan_goals(named, named.cluster.current.tolist(), LoadGoals({"disk": 0, "count": 0, "leaders": 0}))
    assert [row["load_after"] for row in rows] == [400] * 3 + [4] * 3 + [2] * 3


def test_shares_follow_capacities() -> None:
    """A broker of four times the capacity gets four times the bytes; none gets more than the threshold allows."""
    named = _two_brokers(disk_bytes={0: 1000, 1: 1000, 2: 1000}, out_bytes_per_second={0: 100, 1: 100, 2: 400})
    goals = LoadGoals({"disk": 0.05, "out": 0.05}, hard=["disk", "out"], capacity_threshold=0.6)
    _, rows = plan_goals(named, named.cluster.current.tolist(), goals)
    assert [row["load_after"] for row in rows] == [400] * 3 + [20, 20, 80]
    assert [row["capacity"] for row in rows[3:]] == [100, 100, 400]


@cases(
    "capacities goals code detail",
    (
        {"disk_bytes": dict.fromkeys(range(3), 450)},
        LoadGoals({"disk": 0.1}),
        "unmet-goal",
        r"capacity of disk: broker 0 has 400, 40 above the maximum of 360; broker 1 .* Add brokers",
    ),
    ({}, LoadGoals({"disk": 0}, ["disk"], max_moved_bytes=100), "unmet-goal", r"hard goal disk: broker 0 has"),
    ({"disk_bytes": {0: 9}}, LoadGoals({"disk": 0}), "no-capacity", "capacities: broker 1 has no disk_bytes"),
)
def test_what_cannot_be_met(capacities: dict[str, dict[int, int]], goals: LoadGoals, code: str, detail: str) -> None:
    """The message names the goal, the brokers, and by how much they miss it."""
    named = _two_brokers(**capacities)
    with pytest.raises(RejectedError, match=detail) as error:
        plan_goals(named, named.cluster.current.tolist(), goals)
    assert error.value.code == code


def test_missing_facts_and_required_moves() -> None:
    """Sizes and rates of a cluster are required; required moves count against the limit."""
    named = _two_brokers()
    current = named.cluster.current.tolist()
    without_sizes = replace(named, cluster=replace(named.cluster, weighed=False))
    with pytest.raises(RejectedError, match="sizes: no bytes of this cluster"):
        plan_goals(without_sizes, current, LoadGoals({"disk": 0.1}))
    with pytest.raises(RejectedError, match="loads: no in_bytes_per_second of this cluster"):
        plan_goals(replace(named, in_rate=np.zeros(6, int)), current, LoadGoals({"in": 0.1}))
    with pytest.raises(RejectedError, match="600 bytes must move, 500 may move"):
        plan_goals(named, [[0, 2]] * 6, LoadGoals({"count": 0.1}, max_moved_bytes=500))


@cases(
    "arguments message",
    (({"cpu": 0.1},), "unknown goal 'cpu'. The goals are disk, in, out, leader-in, count, leaders"),
    (({"disk": 0.1}, ["in"]), "the hard goal 'in' isn't among the goals: disk"),
    (({"disk": 1.0},), "a tolerance from 0 to below 1"),
    (({"disk": 0.1}, (), 1.5), "capacity_threshold is 1.5; expected above 0 and at most 1"),
    (({"disk": 0.1}, (), 0.8, -1), "max_moved_bytes is -1; expected at least 0"),
)
def test_wrong_goals(arguments: tuple[object, ...], message: str) -> None:
    """Each message has the remedy."""
    with pytest.raises(ConfigError, match=message):
        LoadGoals(*arguments)  # type: ignore[arg-type]


def test_new_partitions_count_after_only() -> None:
    """A new partition has no load before, and its bytes don't count as moved."""
    named = _two_brokers()
    current = named.cluster.current.copy()
    current[5] = NO_BROKER
    named = replace(named, cluster=replace(named.cluster, current=current))
    _, rows = plan_goals(named, [[0, 1]] * 6, LoadGoals({"leaders": 0}, max_moved_bytes=0))
    assert [row["load_before"] for row in rows] == [5, 0, 0]
    assert sum(row["load_after"] for row in rows) == 6


def test_one_long_list_makes_no_other_long() -> None:
    """Partitions have the replicas that they have, not as many as the longest list of the cluster."""
    named = _two_brokers()
    current = named.cluster.current
    wide = np.hstack([current, np.full((len(current), 1_000 - current.shape[1]), NO_BROKER)])
    placement = LoadPlacement(replace(named.cluster, current=wide), current.tolist(), [], np.inf)
    assert [list(row) for row in placement.current] == current.tolist()
