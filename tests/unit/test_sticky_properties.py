"""What the sticky assignors promise, on random groups and without Kafka; and that no form of input changes a plan."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Mapping

import numpy as np
import pytest

from tests.golden import sticky_kernel
from tests.golden.vectors import Row
from tests.kafka import random_groups
from tests.seeds import seed_for
from tests.sizes import drawn

Sets = Mapping[str, set[tuple[str, int]]]
STRATEGIES = random_groups.STICKY


def _settled_groups(number: int, members: int = 6, most: int = 9) -> list[Row]:
    """Groups of equal subscriptions without racks; every partition is owned once, by a member or by one that left."""
    rng = random.Random(seed_for(__name__))
    rows = []
    for case in range(number):
        topics = {f"t{n}": rng.randint(1, most) for n in range(rng.randint(1, 4))}
        names = [f"c-{rng.randrange(10**6)}-{n}" for n in range(rng.randint(1, members))]
        owned: dict[str, list[list[str | int]]] = {name: [] for name in names}
        skewed = rng.choices([*names, "left"], k=3) if rng.random() < 0.5 else [*names, "left"]
        for topic, count in topics.items():
            for partition in range(count):
                owned.setdefault(rng.choice(skewed), []).append([topic, partition])
        rows.append(
            {
                "case": f"case-{case}",
                "topics": topics,
                "replica_racks": None,
                "members": [_member(name, topics, owned[name], 3) for name in names],
            }
        )
    return rows


def _member(name: str, topics: Mapping[str, int], owned: list[list[str | int]], generation: int) -> Row:
    reported = {"owned": owned, "generation": generation if owned else None}
    return {"id": name, "instance": None, "rack": None, "topics": sorted(topics)} | reported


def _every(row: Row) -> set[tuple[str, int]]:
    return {(topic, partition) for topic, count in row["topics"].items() for partition in range(count)}


def _owned(row: Row) -> dict[str, set[tuple[str, int]]]:
    return {member["id"]: {(t, p) for t, p in member["owned"]} for member in row["members"]}


def _together(*parts: Sets) -> dict[str, set[tuple[str, int]]]:
    whole: dict[str, set[tuple[str, int]]] = {}
    for part in parts:
        for member, partitions in part.items():
            assert not whole.get(member, set()) & partitions
            whole[member] = whole.get(member, set()) | partitions
    return whole


def _most_that_can_stay(row: Row) -> int:
    """By trying every choice of the members that have one partition more than the others."""
    sizes = [len(partitions) for partitions in _owned(row).values()]
    quota, extra = divmod(len(_every(row)), len(sizes))
    return max(
        sum(min(size, quota + (n in larger)) for n, size in enumerate(sizes))
        for larger in itertools.combinations(range(len(sizes)), extra)
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_equal_subscriptions(strategy: str) -> None:
    """Complete, exclusive, sizes within one, and nothing moves that balance did not require."""
    rows = _settled_groups(drawn(300, 600))
    answer = sticky_kernel.planned(rows, strategy)
    assert not answer.refused
    for row in rows:
        given = _together(answer.sets.get(row["case"], {}), answer.withheld.get(row["case"], {}))
        assert sorted(itertools.chain(*given.values())) == sorted(_every(row))
        sizes = [len(given.get(member["id"], ())) for member in row["members"]]
        assert max(sizes) - min(sizes) <= 1
        stays = sum(len(given.get(name, set()) & partitions) for name, partitions in _owned(row).items())
        assert stays == _most_that_can_stay(row)


def test_what_is_withheld_is_what_another_member_owns() -> None:
    """Together with it, cooperative gives everybody what eager does."""
    rows = _settled_groups(drawn(200, 400))
    eager = sticky_kernel.planned(rows, "sticky")
    cooperative = sticky_kernel.planned(rows, "cooperative-sticky")
    assert cooperative.withheld
    for row in rows:
        case, owned = row["case"], _owned(row)
        withheld = cooperative.withheld.get(case, {})
        assert _together(cooperative.sets.get(case, {}), withheld) == _together(eager.sets.get(case, {}))
        for member, partitions in withheld.items():
            assert partitions <= set().union(*(owned[other] for other in owned if other != member))


def test_cooperative_settles_in_two_rounds() -> None:
    """The round after one that withheld something withholds nothing, is complete, and takes nothing from anybody."""
    rows = _settled_groups(drawn(200, 400))
    first = sticky_kernel.planned(rows, "cooperative-sticky")
    rejoined = [_after(row, first.sets.get(row["case"], {})) for row in rows]
    second = sticky_kernel.planned(rejoined, "cooperative-sticky")
    assert first.withheld
    assert not second.withheld
    for row in rejoined:
        given = second.sets.get(row["case"], {})
        assert sorted(itertools.chain(*given.values())) == sorted(_every(row))
        assert all(partitions <= given.get(name, set()) for name, partitions in _owned(row).items())
    third = sticky_kernel.planned([_after(row, second.sets[row["case"]]) for row in rows], "cooperative-sticky")
    assert third.sets == second.sets


def _after(row: Row, given: Sets) -> Row:
    members = [
        m | {"owned": [list(each) for each in sorted(given.get(m["id"], ()))], "generation": 4} for m in row["members"]
    ]
    return row | {"members": members}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_group_of_any_subscriptions(strategy: str, seed: int) -> None:
    """Nobody gets a partition twice or of a topic that nobody asked for; what is asked for is given, if it exists."""
    rows = [
        *_first_plain(drawn(80, 150), random_groups.groups(strategy, seed, small=10_000, mid_size=0)),
        *_first_plain(1, random_groups.groups(strategy, seed, small=0, mid_size=100)),
    ]
    answer = sticky_kernel.planned(rows, strategy)
    assert not answer.refused
    for row in rows:
        given = _together(answer.sets.get(row["case"], {}), answer.withheld.get(row["case"], {}))
        subscribed = {topic for member in row["members"] for topic in member["topics"]}
        assert sorted(itertools.chain(*given.values())) == sorted(each for each in _every(row) if each[0] in subscribed)
        for member in row["members"]:
            assert {topic for topic, _ in given.get(member["id"], ())} <= set(member["topics"])


def _first_plain(number: int, groups: Iterable[Row]) -> list[Row]:
    """The first so many that are not odd; about half are, so that how many have to be drawn depends on the seed."""
    rows = list(itertools.islice((row for row in groups if not _odd(row)), number))
    assert len(rows) == number
    return rows


def _odd(row: Row) -> bool:
    """Groups in which Kafka itself may break the rules: members that ask for nothing, claims of partitions that do not
    exist, and old claims of what is no longer subscribed."""
    return any(
        not member["topics"]
        or any(t in row["topics"] and (p >= row["topics"][t] or t not in member["topics"]) for t, p in member["owned"])
        for member in row["members"]
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_neither_the_order_of_rows_nor_runs_change_a_plan(strategy: str, seed: int) -> None:
    """Ownership row by row or as runs, facts in any order: the same plan, refusals included."""
    rows = list(random_groups.groups(strategy, seed, small=drawn(40, 80), mid_size=drawn(0, 1)))
    reported = sticky_kernel.facts(rows)
    expected = sticky_kernel.decided(reported, strategy)
    shuffled = np.random.default_rng(seed).permutation(len(reported))
    assert sticky_kernel.decided(reported.take(shuffled), strategy) == expected
    assert sticky_kernel.decided(sticky_kernel.facts(rows, runs=True), strategy) == expected
