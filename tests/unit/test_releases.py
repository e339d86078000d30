"""Profiles of older clients: names, the table of lines, and what they do that no recorded row singles out."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from spark_assign.assignors.release_rules import (
    LATEST_RULES,
    RELEASE_LINES,
    client_assignor,
    format_release_lines,
    is_release_assignor,
    parse_release_assignor,
    uses_owned_order,
)
from spark_assign.assignors.sticky.sticky_groups import hash_owned_order, keep_in_owned_order
from spark_assign.groups.planning import find_assignor
from spark_assign.java.hash_map import HashTable, string_hash, string_hashes
from spark_assign.numeric.arrays import EMPTY_SLICES, PartitionSlices
from spark_assign.tables.errors import ConfigError
from tests.golden import sticky_kernel
from tests.golden.vectors import Row

PAGE = Path(__file__).parents[2] / "docs" / "assignors.md"


@pytest.mark.parametrize(
    ("release", "line"),
    [
        *[("2.4", "2.4"), ("2.5.0", "2.4"), ("2.5", "2.5.1"), ("2.7", "2.5.1"), ("2.8.0", "2.5.1")],
        *[("2.8.1", "2.8"), ("2.8", "2.8"), ("3.0", "3.2"), ("3.1.2", "3.2"), ("3.3", "3.2")],
        *[("3.4.0", "3.4.0"), ("3.4", "3.4"), ("3.5.1", "3.5.1"), ("3.5", "3.5"), ("3.6", "3.5")],
        *[("3.7.0", "3.5"), ("3.7", "3.9"), ("3.8", "3.9"), ("3.9.1", "3.9"), ("4.0", "3.9"), ("4.4", "3.9")],
    ],
)
def test_a_release_is_of_the_newest_line_that_is_not_newer(release: str, line: str) -> None:
    """Two numbers name the newest patch."""
    profile = parse_release_assignor(f"sticky@{release}")
    assert profile is not None
    assert (profile[0], profile[1].release_line) == ("sticky", line)
    assert find_assignor(f"cooperative-sticky@{release}") == f"cooperative-sticky@{release}"


@pytest.mark.parametrize("release", ["", "3", "2.3", "2.9", "3.10", "4.5", "3.4.1.0", "v3.4", "03.4", "٣.4", "3.4 "])
def test_releases_that_are_not_known(release: str) -> None:
    """They are refused with the list of lines."""
    assert not is_release_assignor(f"range@{release}")
    with pytest.raises(ConfigError, match=re.escape(format_release_lines())):
        find_assignor(f"range@{release}")


def test_only_the_assignors_of_clients_have_releases() -> None:
    """The broker's do not, nor do those of a user."""
    with pytest.raises(ConfigError, match=r"'uniform@4\.1': a release \(@VERSION\) can be given only for"):
        find_assignor("uniform@4.1")
    assert find_assignor("uniform@4.0.0") == "uniform@4.0.0"
    with pytest.raises(ConfigError, match=r"no assignor is called 'mine@3\.4'"):
        find_assignor("mine@3.4")
    assert [client_assignor(name) for name in ("sticky@2.8", "sticky", "mine@3.4", "uniform")] == [
        *("sticky", "sticky", "mine@3.4", "uniform")
    ]
    assert [uses_owned_order(f"{name}@3.5") for name in ("sticky", "cooperative-sticky", "range")] == [
        True,
        False,
        False,
    ]
    assert not uses_owned_order("sticky")


def test_who_reports_a_rack() -> None:
    """Members since 3.4.0; leaders use it since 3.5.0."""
    rules = [parse_release_assignor(f"range@{release}") for release in ("3.3.2", "3.4.0", "3.4.1", "3.5.0")]
    assert [(each[1].reports_rack, each[1].uses_racks) for each in rules if each] == [
        *((False, False), (True, False), (True, False), (True, True))
    ]


def test_the_page_has_every_line() -> None:
    """docs/assignors.md: each line with its first and last release."""
    rows = [
        [cell.strip() for cell in text.strip("|").split("|")][:2]
        for text in PAGE.read_text().splitlines()
        if re.match(r"\| \d\.\d", text)
    ]
    spans = [
        [rules.release_line, first if first == last else f"{first} to {last}"]
        for first, (last, rules) in RELEASE_LINES.items()
    ]
    assert rows == spans
    assert ", ".join(f"{line} ({span})" if line != span else line for line, span in spans) == format_release_lines()
    assert list(RELEASE_LINES.values())[-1] == ("4.4", LATEST_RULES)


def test_reported_partitions_that_are_kept() -> None:
    """Runs cut as their partitions one by one: by (topic, partition), or where a member tells otherwise, as it does."""
    rng = random.Random(7)
    for _ in range(200):
        members = rng.randint(1, 4)
        owned: dict[int, list[tuple[int, int]]] = {member: [] for member in range(members)}
        runs: list[tuple[int, int, int, int, int]] = []
        for member in owned:
            for topic in rng.sample(range(4), rng.randint(0, 4)):
                first, step, count = rng.randint(0, 3), rng.randint(1, 3), rng.randint(1, 5)
                for begin in range(rng.randint(1, step)):
                    runs.append((member, topic, first + begin, step, count))
                    owned[member] += [(topic, first + begin + step * at) for at in range(count)]
        reported = {member: rng.sample(owned[member], len(owned[member])) for member in owned if rng.random() < 0.4}
        number = np.array([len(owned[member]) for member in owned], np.int64)
        keeps = np.array([rng.randint(0, each) for each in number.tolist()], np.int64)
        order = _runs([(member, topic, at, 1, 1) for member, listed in reported.items() for topic, at in listed])
        kept, given_up = keep_in_owned_order(_runs(runs), number, keeps, order)
        for member in owned:
            line = reported.get(member) or sorted(owned[member])
            assert _of(kept, member) == sorted(line[: keeps[member]])
            assert _of(given_up, member) == sorted(line[keeps[member] :])


def _runs(rows: list[tuple[int, int, int, int, int]]) -> PartitionSlices:
    return PartitionSlices(*np.array(rows, np.int64).reshape(-1, 5).T)


def _of(runs: PartitionSlices, member: int) -> list[tuple[int, int]]:
    rows = runs.take(runs.member == member).expand()
    return sorted(zip(rows.topic.tolist(), rows.first.tolist(), strict=True))


def test_topics_as_a_hash_map_has_them() -> None:
    """As a table that is filled topic by topic, each put before those of its bucket, and grows a call too late."""
    rng = random.Random(11)
    for _ in range(100):
        names = [f"topic-{rng.randrange(10**6)}" for _ in range(rng.randint(2, 40))]
        counts = [rng.randint(1, 2) for _ in names]
        names.sort()
        runs = [(0, topic, 0, 1, count) for topic, count in enumerate(counts)]
        reported = hash_owned_order(_runs(runs), EMPTY_SLICES, string_hashes(names), 1)
        calls = [name for name, count in zip(names, counts, strict=True) for _ in range(count)]
        assert [names[topic] for topic in reported.topic.tolist()] == _grouped_by_topic(calls)


def _grouped_by_topic(calls: list[str]) -> list[str]:
    """`computeIfAbsent` for each of these, and the walk of the map."""
    buckets: dict[int, list[str]] = {}
    capacity, size = 16, 0
    for name in calls:
        if size * 4 > capacity * 3:
            capacity *= 2
            before, buckets = buckets, {}
            for _, chain in sorted(before.items()):
                for each in chain:
                    buckets.setdefault(_bucket(each, capacity), []).append(each)
        chain = buckets.setdefault(_bucket(name, capacity), [])
        if name not in chain:
            chain.insert(0, name)
            size += 1
    return [name for _, chain in sorted(buckets.items()) for name in chain]


def _bucket(name: str, capacity: int) -> int:
    table: HashTable[str] = HashTable(capacity)
    table.add(name, string_hash(name))
    return table.bucket(name)


def test_whom_3_5_names_when_racks_leave_too_little() -> None:
    """Nobody counts who has one more while partitions go to near members; c2 is the first that then lacks some."""
    row = _row({"t": 4}, {"c0": [1, 2, 3]}, ("c0", "c1", "c2"))
    row["replica_racks"] = {"t": [["r0", "r3"], ["r0", "r3"], ["r2", "r1"], ["r0", "r1"]]}
    for member, rack in zip(row["members"], ("r1", "r3", "r2"), strict=True):
        member["rack"] = rack
    assert sticky_kernel.planned([row], "sticky@3.5").refused == {
        "one": "IllegalStateException: Consumer: [c2] doesn't reach minQuota partitions, "
        "and no more partitions to be assigned"
    }
    assert sticky_kernel.planned([row], "sticky@3.9").refused == {}


def test_members_get_their_quota_in_their_rack() -> None:
    """From 3.5 on, partitions with a replica in the rack of a member come first: as many as its quota, which is 3."""
    row = _row({"t": 6}, {"a": [], "b": []}, ("a", "b"))
    row["replica_racks"] = {"t": [["rb"]] * 3 + [["ra"]] * 3}
    for member in row["members"]:
        member["rack"] = f"r{member['id']}"
    assert _partitions(row, "sticky@3.5") == {"a": [3, 4, 5], "b": [0, 1, 2]}
    assert _partitions(row, "sticky@3.3") == {"a": [0, 2, 4], "b": [1, 3, 5]}
    row["replica_racks"] = {"t": [["ra"]] * 5 + [["rb"]]}
    assert _partitions(row, "sticky@3.5") == {"a": [0, 1, 2], "b": [3, 4, 5]}


def test_the_example_of_2_8() -> None:
    """As `sticky_2_8` has it: c steals the first partition of the member that comes first in the hash map."""
    row = _row({"t": 7}, {"a": [0, 1, 2], "b": [3, 4, 5], "c": [6]}, ("a", "b", "c"))
    assert _partitions(row, "sticky@2.8") == {"a": [1, 2], "b": [3, 4, 5], "c": [0, 6]}
    assert _partitions(row, "sticky") == {"a": [0, 1, 2], "b": [3, 4], "c": [5, 6]}


def test_a_gift_to_who_asks_for_nothing() -> None:
    """From 2.5.1 on, a member that subscribes to nothing and comes first gets a partition of a topic of the others."""
    row = _row({"t": 1}, {}, ("c0", "c1"))
    row["members"][0]["topics"] = []
    assert _partitions(row, "sticky@2.5.0") == {"c1": [0]}
    for release in ("2.5.1", "2.8", "3.2", "3.9"):
        assert _partitions(row, f"sticky@{release}") == {"c0": [0]}


def test_who_claims_in_vain_counts_as_the_owner_up_to_3_5_1() -> None:
    """b loses against a; c wins against b, and has the partition beside a."""
    row = _row({"t": 4}, {"a": [0], "b": [0], "c": [0]}, ("a", "b", "c"))
    for member, generation in zip(row["members"], (5, 3, 4), strict=True):
        member["generation"] = generation
    for release in ("3.4.1", "3.5.1"):
        assert _partitions(row, f"cooperative-sticky@{release}") == {"a": [0, 2], "b": [1], "c": [0, 3]}
    assert _partitions(row, "cooperative-sticky@3.5.2") == {"a": [0, 3], "b": [1], "c": [2]}


def test_a_group_is_balanced_only_if_nobody_has_one_more_up_to_3_5_1() -> None:
    """So 3.4.1 goes on, and gives t1-0 back to c2, which does not subscribe to it; recorded from its class."""
    row = _row({"t0": 1, "t1": 2}, {}, ("c0", "c1", "c2"))
    reported = (
        (["t1"], [["t0", 0], ["t1", 0], ["t1", 1]], 2),
        (["t0", "t1"], [], 2),
        (["t0"], [["t1", 0], ["t1", 1]], 1),
    )
    for member, (topics, owned, generation) in zip(row["members"], reported, strict=True):
        member |= {"topics": topics, "owned": owned, "generation": generation}
    for release in ("3.4.1", "3.5.1"):
        assert _partitions(row, f"sticky@{release}") == {"c0": [1], "c1": [0], "c2": [0]}
    assert _partitions(row, "sticky@3.5.2") == {"c0": [0, 1], "c1": [0]}


def test_a_large_group_that_is_never_balanced_up_to_3_5_1() -> None:
    """One member owns a partition that doesn't exist, so that each partition is compared with all subscribers."""
    members = [f"c{number:04d}" for number in range(1_500)]
    row = _row({"t": 15_015, "u": 30}, {name: [*range(at, 15_015, 1_500)] for at, name in enumerate(members)}, members)
    for member in row["members"]:
        member["topics"] = ["t"]
    row["members"][0]["owned"].append(["t", 20_000])
    owned = [["u", number] for number in range(30)]
    row["members"].append(row["members"][0] | {"id": "x", "topics": ["t", "u"], "owned": owned})
    start = time.process_time()
    assert len(_partitions(row, "sticky@3.4.1")) == 1_501
    assert time.process_time() - start < 6


def _row(topics: Mapping[str, int], owned: Mapping[str, list[int]], members: Sequence[str]) -> Row:
    return {
        "case": "one",
        "topics": dict(topics),
        "replica_racks": None,
        "members": [
            {
                "id": member,
                "instance": None,
                "rack": None,
                "topics": sorted(topics),
                "owned": [["t", partition] for partition in owned.get(member, [])],
                "generation": 1 if member in owned else None,
            }
            for member in members
        ],
    }


def _partitions(row: Row, profile: str) -> dict[str, list[int]]:
    answer = sticky_kernel.planned([row], profile)
    assert answer.refused == {}
    return {member: sorted(number for _, number in got) for member, got in answer.sets["one"].items()}
