"""Weighted-sticky: the kernel, by hand, on random groups, and against an exact solver (HiGHS)."""

from __future__ import annotations

import time

import numpy as np
import pytest
from numpy.typing import NDArray

from spark_assign.assignors.group_specs import KEPT, OVER_QUOTA
from spark_assign.assignors.weighted.assign_weighted import pack_within_bounds, plan_weighted
from spark_assign.assignors.weighted.pack import min_bound, min_cover
from spark_assign.assignors.weighted.weighted_groups import (
    HELD,
    HOT_PARTITION,
    MAKES_ROOM,
    OVER_CAPACITY,
    OVER_LOAD,
    RELAXED,
    Packing,
    WeightedAssignment,
    WeightedGroups,
    compute_bounds,
    fill_loads,
)
from tests.seeds import seed_for
from tests.sizes import drawn

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@pytest.fixture(scope="module")
def draw() -> np.random.Generator:
    """The random numbers that the tests of this module share."""
    return np.random.default_rng(seed_for(__name__))


def group(
    load: list[float], owner: list[int], members: int = 2, bound: float = np.inf, capacity: float = np.inf
) -> WeightedGroups:
    """One group whose members may all have everything."""
    nothing = np.zeros(len(load), np.int64)
    return WeightedGroups(
        np.zeros(members, np.int64),
        nothing,
        np.array(load, np.float64),
        np.array(owner, np.int64),
        nothing,
        [np.arange(members)],
        np.array([bound]),
        np.array([capacity]),
    )


def planned(load: list[float], owner: list[int], members: int = 2, bound: float = np.inf) -> list[int]:
    """The next owners."""
    return plan_weighted(group(load, owner, members, bound)).owner.tolist()


# --- by hand ------------------------------------------------------------------------------------------------------


def test_the_example() -> None:
    """a has 7 too much: 4 is too little, 9 will do, and is one partition where 5 and 4 are two."""
    answer = plan_weighted(group([9, 5, 4, 2], [0, 0, 0, 1], bound=11))
    assert answer.owner.tolist() == [1, 0, 0, 1]
    assert answer.reason.tolist() == [OVER_LOAD, KEPT, KEPT, KEPT]
    assert answer.status.tolist() == [HELD]


def test_another_one_makes_room() -> None:
    """5 fits nowhere but in the place of 3, for which there is room with the one that gave 5 up."""
    answer = plan_weighted(group([6, 5, 5, 3, 9], [0, 0, 1, 1, 2], members=3, bound=10))
    assert answer.owner.tolist() == [0, 1, 1, 0, 2]
    assert answer.reason.tolist() == [KEPT, OVER_LOAD, KEPT, MAKES_ROOM, KEPT]


def test_nothing_moves_where_the_bound_is_held() -> None:
    """However uneven that is, and who is new gets nothing."""
    assert planned([9, 1], [0, 1], members=3, bound=9) == [0, 1]


def test_what_nobody_has_goes_to_most_room() -> None:
    """The largest first."""
    assert planned([1, 6, 4, 5], [0, -1, -1, -1], members=2, bound=10) == [0, 1, 0, 0]


def test_a_hot_partition_is_alone() -> None:
    """It is more than the bound, and no assignment helps; the others leave it, or it does not get any."""
    answer = plan_weighted(group([20, 3, 2], [0, 0, 1], bound=8))
    assert answer.owner.tolist() == [0, 1, 1]
    assert answer.status.tolist() == [HOT_PARTITION]
    assert planned([20, 3, 2], [-1, 0, 1], bound=8) == [1, 0, 0]
    assert planned([20, 3, 2], [0, 1, 1], bound=8) == [0, 1, 1]


def test_the_least_bound_that_can_be_held() -> None:
    """Three of 4 over two members: one has 8, whatever the bound; and then nothing more moves."""
    answer = plan_weighted(group([4, 4, 4], [0, 0, 0], bound=6.6))
    assert np.bincount(answer.owner).tolist() in ([2, 1], [1, 2])
    assert answer.status.tolist() == [RELAXED]
    assert planned([4, 4, 4], answer.owner.tolist(), bound=6.6) == answer.owner.tolist()


def test_more_is_written_than_all_can_handle() -> None:
    """Then the mean decides, and the word says so."""
    bound = compute_bounds(np.array([30.0]), np.array([2]), np.array([np.nan]), np.array([10.0]))
    assert bound.tolist() == [pytest.approx(16.5)]
    answer = plan_weighted(group([10, 10, 5, 5], [0, 0, 0, 0], bound=float(bound[0]), capacity=10))
    assert sorted(np.bincount(answer.owner, [10, 10, 5, 5]).tolist()) == [15, 15]
    assert answer.status.tolist() == [OVER_CAPACITY]


def test_members_alone_with_a_topic_keep_it() -> None:
    """Only m0 asks for the first topic: its bound is what it has to have, and the others hold theirs."""
    load, owner = np.array([30.0, 4, 4, 4]), np.array([0, 1, 1, 1])
    packing = Packing(load, owner, np.array([0, 1, 1, 1]), [np.array([0]), np.array([0, 1, 2])], np.full(3, 8.0))
    assert pack_within_bounds(packing).tolist() in ([0, 2, 1, 1], [0, 1, 2, 1], [0, 1, 1, 2])


def test_partitions_without_load_by_number() -> None:
    """As many for everybody, rounded up; the last ones go, and nothing where the share is held."""
    answer = plan_weighted(group([0, 0, 0, 0, 0], [0, 0, 0, 0, 0]))
    assert answer.owner.tolist() == [0, 0, 0, 1, 1]
    assert answer.reason.tolist() == [KEPT, KEPT, KEPT, OVER_QUOTA, OVER_QUOTA]
    assert planned([0, 0, 0, 0], [0, 0, 1, 1], members=3) == [0, 0, 1, 1]
    assert planned([0, 0, 7], [-1, -1, 0], bound=7) == [1, 0, 0]
    # m1 has no partition with load: three without are no more than half of all.
    assert planned([5, 5, 0, 0, 0], [0, 0, 1, 1, 1]) == [0, 0, 1, 1, 1]
    assert planned([5, 0, 0, 0], [0, 1, 1, 1]) == [0, 1, 1, 0]


@pytest.mark.parametrize(
    ("load_bound", "capacity", "expected"),
    [(np.nan, np.nan, 11), (1.5, np.nan, 15), (np.nan, 12, 12), (1.5, 12, 12), (1.5, 20, 15), (1.5, 9, 15)],
)
def test_bounds(load_bound: float, capacity: float, expected: float) -> None:
    """Of a group with a mean of 10; less than that is no bound that all could hold."""
    found = compute_bounds(np.array([20.0]), np.array([2]), np.array([load_bound]), np.array([capacity]))
    assert found.tolist() == [pytest.approx(expected)]


def test_missing_rates() -> None:
    """The mean of the topic's known ones, or else of the group's; a group without any stays unknown."""
    rate = np.array([1, 3, np.nan, np.nan, np.nan])
    load = fill_loads(rate, np.array([0, 0, 0, 1, 2]), np.array([0, 0, 0, 0, 1]), 2)
    assert load[:4].tolist() == [1, 3, 2, 2]
    assert np.isnan(load[4])


# --- what is given up ---------------------------------------------------------------------------------------------


def test_the_least_that_will_do(draw: np.random.Generator) -> None:
    """Of few partitions the least sum there is; of many within a hundredth of the excess, and never too little."""
    for _ in range(drawn(100, 200)):
        load = draw.integers(1, 50, draw.integers(1, 10)).astype(np.float64)
        excess = float(draw.uniform(0, load.sum()))
        sums = [load[[bool(choice >> at & 1) for at in range(len(load))]].sum() for choice in range(2 ** len(load))]
        assert load[min_cover(load, excess)].sum() == min(each for each in sums if each >= excess)
    for _ in range(50):
        load = draw.lognormal(0, 1, 2_000)
        excess = float(draw.uniform(0.1, 0.9) * load.sum())
        assert excess <= load[min_cover(load, excess)].sum() <= excess * 1.01


# --- random groups ------------------------------------------------------------------------------------------------


def random_packing(draw: np.random.Generator, most: int) -> Packing:
    """Some members, some sets of them, some partitions, most of them with an owner."""
    members = int(draw.integers(2, 6))
    number = int(draw.integers(members, most))
    load = draw.lognormal(0, 1, number).round(2) + 0.01 if draw.random() < 0.5 else draw.integers(1, 10, number) * 1.0
    may, kind = [np.arange(members)], np.zeros(number, np.int64)
    if draw.random() < 0.4:
        may = [np.sort(draw.choice(members, draw.integers(1, members + 1), replace=False)) for _ in range(3)]
        kind = draw.integers(0, 3, number)
    home = np.array([draw.choice(may[each]) if draw.random() < 0.8 else -1 for each in kind])
    return Packing(load, home, kind, may, np.full(members, load.sum() / members * draw.choice([1.02, 1.1, 1.3])))


def least_moved(packing: Packing, *, presolve: bool = True) -> float | None:
    """By HiGHS: the least load that moves where all bounds are held; null where no assignment holds them."""
    from scipy.optimize import Bounds, LinearConstraint, milp  # here: every worker process imports every file

    partitions, members = len(packing.load), packing.num_members
    hot = packing.load[:, None] > packing.limit[None, :]
    moves = (packing.home[:, None] >= 0) & (packing.home[:, None] != np.arange(members)[None, :])
    rows = [np.repeat(np.eye(partitions), members, axis=1)]
    upper = [np.ones(partitions)]
    # A member's loads are within its bound; a hot partition fills it.
    taken = np.where(hot, packing.limit[None, :], packing.load[:, None])
    within = np.zeros((members, partitions, members))
    for member in range(members):
        within[member, :, member] = taken[:, member]
    rows.append(within.reshape(members, -1))
    upper.append(packing.limit)
    pairs = [(one, o, m) for one, m in zip(*np.nonzero(hot), strict=True) for o in range(partitions) if o != one]
    together = np.zeros((len(pairs), partitions, members))
    for at, (one, other, member) in enumerate(pairs):
        together[at, [one, other], member] = 1
    rows.append(together.reshape(len(pairs), partitions * members))
    upper.append(np.ones(len(pairs)))
    lower = np.concatenate([np.ones(partitions), np.full(members + len(pairs), -np.inf)])
    found = milp(
        (moves * packing.load[:, None]).ravel(),
        constraints=LinearConstraint(np.concatenate(rows), lower, np.concatenate(upper)),
        integrality=np.ones(partitions * members),
        bounds=Bounds(0, packing.is_eligible[packing.eligible_set].ravel().astype(np.float64)),
        options={"mip_rel_gap": 0, "presolve": presolve},
    )
    return None if found.x is None else float(found.fun)


def test_small_groups_against_an_exact_solver(draw: np.random.Generator) -> None:
    """The bound is held wherever an assignment can hold it, and no assignment that does moves less."""
    held = 0
    for _ in range(drawn(50, 80)):
        packing = random_packing(draw, 12)
        at, least = pack_within_bounds(packing), least_moved(packing)
        assert packing.is_eligible[packing.eligible_set, at].all()
        assert packing.holds_bounds(at) == (least is not None), packing
        if least is not None:
            held += 1
            if packing.moved_load(at) < least - 1e-6:  # HiGHS has presolved the least away
                least = least_moved(packing, presolve=False)
            assert packing.moved_load(at) == pytest.approx(least, abs=1e-6), packing
    assert held > 10


def test_larger_groups_against_an_exact_solver(draw: np.random.Generator) -> None:
    """The bound is held, and of all groups together at most a tenth more load moves than has to."""
    moved = must_move = 0.0
    for _ in range(12):
        members, number = int(draw.integers(3, 7)), int(draw.integers(15, 40))
        load = draw.lognormal(0, 1, number)
        home, kind = draw.integers(-1, members, number), np.zeros(number, np.int64)
        bound = np.full(members, max(load.sum() / members * 1.1, load.max()))
        packing = Packing(load, home, kind, [np.arange(members)], bound)
        at, least = pack_within_bounds(packing), least_moved(packing)
        assert packing.holds_bounds(at) == (least is not None), packing
        if least is not None:
            moved, must_move = moved + packing.moved_load(at), must_move + least
    assert moved <= must_move * 1.1 + 1


def test_differing_subscriptions_against_an_exact_solver(draw: np.random.Generator) -> None:
    """Of larger groups a few are too hard; of the others together a third more moves than has to, at most."""
    moved = must_move = missed = 0.0
    for _ in range(5):
        members, number = int(draw.integers(4, 7)), int(draw.integers(15, 40))
        may = [np.sort(draw.choice(members, draw.integers(2, members + 1), replace=False)) for _ in range(4)]
        load, kind = draw.lognormal(0, 1, number), draw.integers(0, 4, number)
        home = np.array([draw.choice(may[each]) for each in kind])
        packing = Packing(load, home, kind, may, np.full(members, max(load.sum() / members * 1.1, load.max())))
        at, least = pack_within_bounds(packing), least_moved(packing)
        assert packing.is_eligible[kind, at].all()
        if least is not None and packing.holds_bounds(at):
            moved, must_move = moved + packing.moved_load(at), must_move + least
        else:
            missed += least is not None
    assert missed <= 2
    assert moved <= must_move * 4 / 3 + 5


def test_a_bound_that_plainly_cannot_be_held() -> None:
    """Three of more than half of it over two members; more than all of them; and one hot one beside what fits."""
    for load, plain in (([3.0, 3, 3], True), ([2, 2, 2, 2, 2.1], True), ([9, 2, 2], False), ([9, 3, 3], True)):
        number = np.zeros(len(load), np.int64)
        packing = Packing(np.array(load), number, number, [np.arange(2)], np.full(2, 5.0))
        assert packing.is_infeasible() == plain
        assert packing.holds_bounds(pack_within_bounds(packing)) != plain


def test_the_least_bound_against_every_assignment(draw: np.random.Generator) -> None:
    """Where none holds the bound: nobody with two partitions or more has more than there has to be."""
    seen = 0
    while seen < 20:
        members, number = int(draw.integers(2, 4)), int(draw.integers(3, 7))
        load = draw.integers(1, 10, number).astype(np.float64)
        packing = Packing(
            load,
            np.full(number, -1),
            np.zeros(number, np.int64),
            [np.arange(members)],
            np.full(members, load.sum() / members),
        )
        every = np.indices((members,) * number).reshape(number, -1).T
        most = min(packing.loads(at)[packing.is_overloaded(at)].max(initial=0.0) for at in every)
        assert min_bound(packing) == most
        if most:
            seen += 1
            at = pack_within_bounds(packing)
            assert packing.loads(at)[packing.is_overloaded(at)].max() == most


def test_a_search_among_thousands_of_members() -> None:
    """A step doesn't examine all of them: those without partitions are alike."""
    draw = np.random.default_rng(3)
    load = np.append(np.round(draw.uniform(50, 150, 12), 3), [100.5, 90.5])
    home = np.append(draw.integers(0, 3, 12), [5, 6])
    limit = np.full(10_000, load[:12].sum() / 3 * 1.002)
    sets = [np.arange(3), np.arange(10_000)]
    start = time.process_time()
    packing = Packing(load, home, np.append(np.zeros(12, np.int64), [1, 1]), sets, limit)
    assert packing.moved_load(pack_within_bounds(packing)) == pytest.approx(927.768)
    assert time.process_time() - start < 5


def many(draw: np.random.Generator, groups: int) -> WeightedGroups:
    """Groups side by side, with idle partitions, partitions without owner, and subsets of members."""
    member_group: list[int] = []
    of_partition: list[tuple[int, float, int, int]] = []
    may: list[IntArray] = []
    total = np.zeros(groups)
    for number in range(groups):
        first, members = len(member_group), int(draw.integers(1, 8))
        member_group += [number] * members
        for _ in range(int(draw.integers(1, 4))):
            who = np.sort(draw.choice(members, draw.integers(1, members + 1), replace=False)) + first
            for _ in range(int(draw.integers(1, 30))):
                load = 0.0 if draw.random() < 0.2 else float(draw.lognormal(0, 1))
                owner = int(draw.choice(who)) if draw.random() < 0.8 else -1
                of_partition.append((number, load, owner, len(may)))
                total[number] += load
            may.append(who)
    group, load, owner, kind = (np.array(column) for column in zip(*of_partition, strict=True))
    sizes = np.bincount(member_group, minlength=groups)
    return WeightedGroups(
        np.array(member_group), group, load, owner, kind, may, total / sizes * 1.2, np.full(groups, np.inf)
    )


def again(groups: WeightedGroups, answer: WeightedAssignment) -> WeightedGroups:
    """The same groups, owned as planned."""
    columns = (
        *(groups.member_group, groups.partition_group, groups.load, answer.owner, groups.eligible_set),
        groups.eligible_sets,
    )
    return WeightedGroups(*columns, groups.bound, groups.capacity)


def test_random_groups(draw: np.random.Generator) -> None:
    """Everything is with somebody who may have it; words tell the truth; nothing moves for nothing, or twice."""
    groups = many(draw, drawn(60, 150))
    answer = plan_weighted(groups)
    assert all(o in groups.eligible_sets[kind] for o, kind in zip(answer.owner, groups.eligible_set, strict=True))
    load = np.bincount(answer.owner, groups.load, len(groups.member_group))
    much = load > groups.bound[groups.member_group] * (1 + 1e-6)
    assert set(groups.member_group[much]) == set(np.flatnonzero(answer.status != HELD))
    before = np.bincount(groups.owner[groups.owner >= 0], groups.load[groups.owner >= 0], len(groups.member_group))
    moves = (groups.owner >= 0) & (groups.owner != answer.owner)
    assert (before > groups.bound[groups.member_group])[groups.owner[answer.reason == OVER_LOAD]].all()
    assert (answer.reason[moves] != KEPT).all()
    assert (answer.reason[~moves] == KEPT).all()
    fine = np.isin(answer.status, (HELD, HOT_PARTITION))[groups.partition_group]
    assert (plan_weighted(again(groups, answer)).owner == answer.owner)[fine].all()


def test_groups_do_not_hang_on_each_other(draw: np.random.Generator) -> None:
    """Each by itself is planned as among the others."""
    groups = many(draw, 30)
    together = plan_weighted(groups)
    for number in range(30):
        mine, members = groups.partition_group == number, np.flatnonzero(groups.member_group == number)
        kinds = np.unique(groups.eligible_set[mine])
        alone = WeightedGroups(
            np.zeros(len(members), np.int64),
            np.zeros(int(mine.sum()), np.int64),
            groups.load[mine],
            np.where(groups.owner[mine] >= 0, groups.owner[mine] - members[0], -1),
            np.searchsorted(kinds, groups.eligible_set[mine]),
            [groups.eligible_sets[kind] - members[0] for kind in kinds],
            groups.bound[[number]],
            groups.capacity[[number]],
        )
        assert (plan_weighted(alone).owner + members[0]).tolist() == together.owner[mine].tolist()


def test_a_large_group(draw: np.random.Generator) -> None:
    """Of many partitions about as much moves as has to: what members have above the bound."""
    load, owner = draw.lognormal(0, 1, 20_000), draw.zipf(1.5, 20_000) % 50
    bound = load.sum() / 50 * 1.1
    answer = plan_weighted(group(load.tolist(), owner.tolist(), members=50, bound=bound))
    assert answer.status.tolist() == [HELD]
    has = np.bincount(owner, load, 50)
    assert load[answer.owner != owner].sum() <= np.maximum(has - bound, 0).sum() * 1.001 + load.min()
