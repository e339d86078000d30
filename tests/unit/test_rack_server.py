"""rack-uniform and rack-server-range, which Kafka does not have: as balanced and as sticky, and never farther away."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from random import Random
from typing import Any

import numpy as np
import pytest

from spark_assign.assignors.server.rack_aware import (
    FlowNetwork,
    assign_by_rack,
    assign_ranges_by_rack,
    is_rack_matched,
    maximize_value,
)
from tests.golden import sticky_kernel
from tests.golden.vectors import Row
from tests.sizes import drawn

RACKS = ("x", "y", "z")
Owners = dict[tuple[str, int], str]


def random_row(random: Random, case: str, *, alike: bool) -> Row:
    """A group with racks: some members without one, some topics whose replicas are not known, some owners."""
    names = [f"t{number}" for number in range(random.randint(1, 4))]
    topics = {name: random.choice([1, 3, 4, 6, 9]) for name in names}
    replicas = {
        name: [random.sample(RACKS, random.choice([1, 1, 2, 3])) for _ in range(count)]
        for name, count in topics.items()
        if random.random() < 0.9
    }
    members: list[dict[str, Any]] = []
    for number in range(random.randint(1, 6)):
        subscribed = names if alike else random.sample(names, random.randint(1, len(names)))
        rack = random.choice([*RACKS, *RACKS, None])
        members.append({"id": f"m{number}", "instance": None, "rack": rack, "topics": subscribed, "owned": []})
        members[-1]["generation"] = 1
    owning = random.sample(members, random.randint(0, len(members)))
    for name, count in topics.items():
        fits = [member for member in owning if name in member["topics"]]
        for partition in range(count):
            if fits and random.random() < 0.8:
                random.choice(fits)["owned"].append((name, partition))
    return {"case": case, "topics": topics, "members": members, "replica_racks": replicas}


def owners(rows: list[Row], assignor: str) -> dict[str, Owners]:
    """By case who has each partition in the end."""
    answer = sticky_kernel.planned(rows, assignor)
    assert answer.refused == {}
    found: dict[str, Owners] = {row["case"]: {} for row in rows}
    for sets in (answer.sets, answer.withheld):
        for case, of_member in sets.items():
            for member, got in of_member.items():
                assert not found[case].keys() & got
                found[case] |= dict.fromkeys(got, member)
    return found


def near(row: Row, owned: Owners) -> int:
    """Partitions with a replica in their owner's rack."""
    rack = {member["id"]: member["rack"] for member in row["members"]}
    layout = row["replica_racks"]
    return sum(rack[member] in layout[topic][at] for (topic, at), member in owned.items() if topic in layout)


def moved(row: Row, owned: Owners) -> int:
    """Partitions that change hands."""
    before = {tuple(one): member["id"] for member in row["members"] for one in member["owned"]}
    return sum(one in before and before[one] != member for one, member in owned.items())


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """Groups of all kinds."""
    random = Random(881)
    return [random_row(random, f"group-{number}", alike=number % 2 == 0) for number in range(drawn(200, 600))]


def test_as_balanced_and_as_sticky_as_uniform_and_no_farther_away(rows: list[Row]) -> None:
    """Complete; as many for each member; nobody gives up more; at least as many near, and often more."""
    kafkas, ours = owners(rows, "uniform"), owners(rows, "rack-uniform")
    saved = 0
    for row in rows:
        theirs, mine = kafkas[row["case"]], ours[row["case"]]
        assert mine.keys() == theirs.keys()
        assert Counter(mine.values()) == Counter(theirs.values())
        assert moved(row, mine) <= moved(row, theirs)
        assert near(row, mine) >= near(row, theirs)
        if near(row, mine) == near(row, theirs) and moved(row, mine) == moved(row, theirs):
            alike = all(set(member["topics"]) == set(row["members"][0]["topics"]) for member in row["members"])
            assert not alike or mine == theirs
        saved += near(row, mine) - near(row, theirs)
    assert saved > len(rows) / 3


def test_as_many_of_each_topic_as_from_server_range_and_no_farther_away(rows: list[Row]) -> None:
    """Of every topic; topics with the same subscribers and as many partitions are laid out alike."""
    kafkas, ours = owners(rows, "server-range"), owners(rows, "rack-server-range")
    saved = 0
    for row in rows:
        theirs, mine = kafkas[row["case"]], ours[row["case"]]
        assert mine.keys() == theirs.keys()
        for topic in row["topics"]:
            of_topic = [Counter(who for (name, _), who in each.items() if name == topic) for each in (mine, theirs)]
            assert of_topic[0] == of_topic[1]
        asking = {name: [m["id"] for m in row["members"] if name in m["topics"]] for name in row["topics"]}
        for one in asking:
            for other in asking:
                if asking[one] == asking[other] and row["topics"][one] == row["topics"][other] and asking[one]:
                    assert all(mine[one, at] == mine[other, at] for at in range(row["topics"][one]))
        assert near(row, mine) >= near(row, theirs)
        saved += near(row, mine) - near(row, theirs)
    assert saved > len(rows) / 3


@pytest.mark.parametrize("assignor", ["rack-uniform", "rack-server-range"])
def test_nothing_moves_on_a_steady_group(rows: list[Row], assignor: str) -> None:
    """What has been planned once stays as it is."""
    after = owners(rows, assignor)
    steady = []
    for row in rows:
        mine: dict[str, list[tuple[str, int]]] = {member["id"]: [] for member in row["members"]}
        for one, member in after[row["case"]].items():
            mine[member].append(one)
        steady.append(row | {"members": [member | {"owned": mine[member["id"]]} for member in row["members"]]})
    assert owners(steady, assignor) == after


@pytest.mark.parametrize(("assignor", "kafkas"), [("rack-uniform", "uniform"), ("rack-server-range", "server-range")])
def test_without_racks_they_are_kafkas(rows: list[Row], assignor: str, kafkas: str) -> None:
    """Where no member says its rack, or nobody knows where replicas are."""
    nowhere = [row | {"replica_racks": None} for row in rows]
    assert owners(nowhere, assignor) == owners(nowhere, kafkas)
    silent = [row | {"members": [member | {"rack": None} for member in row["members"]]} for row in rows]
    assert owners(silent, assignor) == owners(silent, kafkas)


@pytest.mark.parametrize("assignor", ["rack-uniform", "rack-server-range"])
def test_the_order_of_groups_and_rows_says_nothing(rows: list[Row], assignor: str) -> None:
    """The same rows backwards, but for the places that members have."""
    facts = sticky_kernel.facts(rows)
    backwards = facts.take(list(range(len(facts)))[::-1])
    assert sticky_kernel.decided(backwards, assignor) == sticky_kernel.decided(facts, assignor)


def best_uniform(had: list[int], kind: list[int], target: list[int], rack: list[int], near_: Any) -> int:
    """The most matches that any answer has which gives everybody its target and takes no more than it has to."""
    size = [had.count(member) for member in range(len(target))]
    keeps = [min(size[member], target[member]) for member in range(len(target))]
    best = -1
    for owner in set(permutations([m for m, much in enumerate(target) for _ in range(much)])):
        if all(sum(h == o == m for h, o in zip(had, owner, strict=True)) == k for m, k in enumerate(keeps)):
            best = max(best, sum(rack[o] >= 0 and near_[k][rack[o]] for o, k in zip(owner, kind, strict=True)))
    return best


def test_no_answer_as_sticky_has_more_matches() -> None:
    """Against all answers there are, on small groups."""
    random = Random(5)
    near_ = np.array([[False] * 3, [True, False, False], [False, True, False], [False, True, True], [True] * 3])
    for _ in range(drawn(80, 150)):
        members, size = random.randint(1, 4), random.randint(1, 7)
        had = [random.randrange(-1, members) for _ in range(size)]
        kind = [random.randrange(5) for _ in range(size)]
        rack = [random.randrange(-1, 3) for _ in range(members)]
        target = Counter(random.randrange(members) for _ in range(size))
        much = [target[member] for member in range(members)]
        owner = assign_by_rack(*(np.array(each, np.int64) for each in (had, kind, much, rack)), near_)
        assert np.bincount(owner, minlength=members).tolist() == much
        found = int(is_rack_matched(np.array(rack)[owner], np.array(kind), near_).sum())
        assert found == best_uniform(had, kind, much, rack, near_)
        kept = [int((owner[np.array(had) == member] == member).sum()) for member in range(members)]
        assert kept == [min(had.count(member), much[member]) for member in range(members)]


def test_no_spread_is_worth_more() -> None:
    """Against all layouts there are, on small sets of topics."""
    random = Random(6)
    for _ in range(drawn(80, 150)):
        members, size, racks = random.randint(1, 4), random.randint(1, 7), random.randint(1, 3)
        due = Counter(random.randrange(members) for _ in range(size))
        much = [due[member] for member in range(members)]
        rack = [random.randrange(-1, racks) for _ in range(members)]
        worth = np.array([[random.randrange(4) for _ in range(racks)] for _ in range(size)], np.int64)
        owner = assign_ranges_by_rack(np.array(much), np.array(rack), worth)
        assert np.bincount(owner, minlength=members).tolist() == much
        every = set(permutations([member for member, count in enumerate(much) for _ in range(count)]))
        values = [sum(worth[n, rack[who]] for n, who in enumerate(each) if rack[who] >= 0) for each in every]
        assert max(values) == sum(worth[n, rack[who]] for n, who in enumerate(owner.tolist()) if rack[who] >= 0)


def test_partition_numbers_of_one_class_go_to_racks_in_order() -> None:
    """Of 60 partition numbers, even ones have two topics in x, odd ones none: y has the first 10 of the odd ones, and
    whoever has no rack the others."""
    worth = np.zeros((60, 2), np.int64)
    worth[::2, 0] = 2
    owner = assign_ranges_by_rack(np.array([30, 10, 20]), np.array([0, 1, -1]), worth)
    assert owner[::2].tolist() == [0] * 30
    assert owner[1::2].tolist() == [1] * 10 + [2] * 20


def test_a_spread_is_found_by_rings() -> None:
    """The most valuable pair first is not the best here: 3 + 0 is less than 2 + 2."""
    worth = np.array([[3, 2], [2, 0]], np.int64)
    assert maximize_value(worth, np.array([1, 1]), np.array([1, 1])).tolist() == [[0, 1], [1, 0]]


def test_a_flow_goes_back_where_that_makes_room() -> None:
    """The shortest ways first would block the second one; the pipe between them is emptied again."""
    network = FlowNetwork(6)
    found = ((0, 1, 1), (0, 2, 1), (1, 3, 1), (1, 4, 1), (2, 3, 1), (3, 5, 1), (4, 5, 1))
    pipes = [network.add_edge(*e) for e in found]
    network.max_flow(0, 5)
    assert [network.flow(pipe) for pipe in pipes] == [1, 1, 0, 1, 1, 1, 1]
