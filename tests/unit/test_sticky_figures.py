"""What the sticky kernels tell beside the plan, without Spark: reasons, rounds, balance scores, endless balancing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_assign.assignors.group_facts import DEPARTED_SLICE
from spark_assign.assignors.group_specs import BALANCING, KEPT, OVER_QUOTA, RACK_MISMATCH
from spark_assign.assignors.sticky import general as sticky_balance
from spark_assign.assignors.sticky.general import GeneralBalancer, balance_score, find_level
from spark_assign.groups.kernel.convergence import converge
from spark_assign.groups.kernel.plan_groups import PlanParams, assign
from tests.golden import sticky_kernel
from tests.golden.vectors import Row
from tests.kafka import random_groups
from tests.plan_rows import read_specs
from tests.sizes import drawn
from tests.slices import partitions

Pairs = set[tuple[str, int]]
SEED = 24


def groups(strategy: str, number: int, *, most_claimers: int) -> list[Row]:
    """Random groups whose members ask for something and claim what exists, each partition so many at most."""
    rows = random_groups.groups(strategy, SEED, small=number, mid_size=0)
    return [row for row in rows if all(_plain(row, most_claimers))]


def _plain(row: Row, most_claimers: int) -> Iterator[bool]:
    claims = Counter((t, p) for member in row["members"] for t, p in member["owned"])
    yield max(claims.values(), default=1) <= most_claimers
    yield all(topic not in row["topics"] or partition < row["topics"][topic] for topic, partition in claims)
    yield all(member["topics"] for member in row["members"])


# --- reasons ---


def reason_of(row: Row, owner: Row | None, to_member: str, topic: str, partition: int) -> str | None:
    """Why a partition was taken from its owner, by the rules of Kafka's class."""
    if owner is None or owner["id"] == to_member:
        return None
    alike = len({tuple(member["topics"]) for member in row["members"]}) == 1
    if not alike and topic not in owner["topics"]:
        return None  # it could not have kept it
    if racks_matter(row) and owner["rack"] and owner["rack"] not in racks_of(row, topic, partition):
        return "rack-mismatch"
    return "over-quota" if alike else "balancing"


def racks_of(row: Row, topic: str, partition: int) -> set[str]:
    """The racks in which a partition has replicas."""
    known = (row["replica_racks"] or {}).get(topic)
    return {rack for rack in known[partition] if rack is not None} if known else set()


def racks_matter(row: Row) -> bool:
    """`AbstractPartitionAssignor.useRackAwareAssignment`, of the topics that somebody asks for."""
    subscribed = {topic for member in row["members"] for topic in member["topics"]} & row["topics"].keys()
    sets = [racks_of(row, topic, partition) for topic in subscribed for partition in range(row["topics"][topic])]
    every = set().union(*sets)
    return bool({member["rack"] for member in row["members"]} & every) and any(each != every for each in sets)


def _planned(rows: list[Row], strategy: str) -> Iterator[dict[str, Any]]:
    """Every run of the plans, with why it was taken from whoever could have kept it."""
    specs = read_specs(sticky_kernel.facts(rows))
    planned = assign(specs, strategy, np.ones(specs.num_groups, bool), {})
    reasons = {KEPT: None, OVER_QUOTA: "over-quota", RACK_MISMATCH: "rack-mismatch", BALANCING: "balancing"}
    columns = [column.tolist() for column in (*planned.slices.columns, planned.reason, planned.withheld)]
    for member, topic, first, step, count, reason, withheld in zip(*columns, strict=True):
        yield {
            "cluster": specs.cluster[int(specs.topics.group[topic])].as_py(),
            "member_id": specs.member_id[member].as_py(),
            "topic": specs.topic[topic].as_py(),
            "first": first,
            "step": step,
            "count": count,
            "reason": reasons[reason],
            "withheld": withheld,
        }


@pytest.mark.parametrize("strategy", random_groups.STICKY)
def test_reasons(strategy: str) -> None:
    """Of every partition: over its quota, in another rack, or for balance; none where its owner keeps it or cannot."""
    rows = {row["case"]: row for row in groups(strategy, 70, most_claimers=1)}
    cooperative = strategy == "cooperative-sticky"
    reasons: Counter[str | None] = Counter()
    for run in _planned(list(rows.values()), strategy):
        row = rows[run["cluster"]]
        owners = {(t, p): member for member in row["members"] for t, p in member["owned"]}
        for partition in partitions(run):
            owner = owners.get((run["topic"], partition))
            assert run["reason"] == reason_of(row, owner, run["member_id"], run["topic"], partition)
            reasons[run["reason"]] += 1
            someone_else = owner is not None and owner["id"] != run["member_id"]
            assert run["withheld"] == (cooperative and someone_else)
    assert all(reasons[each] > 5 for each in (None, "over-quota", "rack-mismatch", "balancing"))


# --- rounds ---


def rounds_by_hand(row: Row, departed: Pairs, limit: int) -> Iterator[tuple[int, dict[str, int | bool]]]:
    """Round after round by planning it anew, each partition looked at by itself."""
    topics = {topic for member in row["members"] for topic in member["topics"]} & row["topics"].keys()
    every = {(topic, number) for topic in topics for number in range(row["topics"][topic])}
    for number in range(1, limit + 1):
        answer = sticky_kernel.planned([row], "cooperative-sticky")
        sets, withheld = answer.sets.get(row["case"], {}), answer.withheld.get(row["case"], {})
        owned = {member["id"]: {(t, p) for t, p in member["owned"]} for member in row["members"]}
        claimed = sum(map(len, owned.values()))
        kept = sum(len(sets.get(name, set()) & partitions) for name, partitions in owned.items())
        after = {pair: name for part in (sets, withheld) for name, pairs in part.items() for pair in pairs}
        assigned = sum(map(len, sets.values()))
        found = set().union(departed, *owned.values())
        moved = [p for p in found if p in after and p not in owned.get(after[p], set())]
        yield (
            number,
            {
                "assigned": assigned,
                "revoked": claimed - kept,
                "moved": len(moved),
                "unowned": len(every) - assigned,
                "stable": claimed == kept,
            },
        )
        if claimed == kept:
            return
        departed = set()
        members = [
            {key: value for key, value in member.items() if key != "user_generation"}
            | {"owned": [list(each) for each in sorted(sets.get(member["id"], ()))], "generation": 1}
            for member in row["members"]
        ]
        row = row | {"members": members}


@pytest.mark.parametrize(("limit", "number"), [(1, 10), (12, drawn(25, 40))])
def test_rounds(limit: int, number: int) -> None:
    """Every figure of every round, of many groups at once: members that have left included, refused groups not."""
    rows = groups("cooperative-sticky", number, most_claimers=9)
    left: dict[str, Pairs] = {}
    for row in rows:
        claimed = {(t, p) for member in row["members"] for t, p in member["owned"]}
        subscribed = {topic for member in row["members"] for topic in member["topics"]} & row["topics"].keys()
        left[row["case"]] = {(t, p) for t in subscribed for p in range(0, row["topics"][t], 3)} - claimed
    facts = sticky_kernel.facts(rows, runs=True)
    gone = [
        {
            "kind": DEPARTED_SLICE,
            "cluster": case,
            "group_id": "group",
            "member_id": "gone",
            "topic": topic,
            "partitions": 99,
        }
        | {"first": partition, "step": 1, "count": 1}
        for case, pairs in left.items()
        for topic, partition in pairs
    ]
    facts = pa.concat_tables([facts, pa.Table.from_pylist(gone, schema=facts.schema)])
    question = PlanParams((("*", "cooperative-sticky"),), ("cooperative-sticky",))
    found: dict[tuple[str, int], dict[str, int | bool]] = {}
    for table in converge(facts, question, limit):
        for metrics in table.to_pylist():
            key = metrics.pop("cluster"), metrics.pop("round")
            assert metrics.pop("group_id") == "group"
            assert metrics.pop("assignor") == "cooperative-sticky"
            assert key not in found
            found[key] = metrics
    assert found == {(row["case"], n): f for row in rows for n, f in rounds_by_hand(row, left[row["case"]], limit)}
    assert max(number for _, number in found) == limit  # one group never comes to rest
    assert sum(bool(figures["moved"]) for figures in found.values()) > 3


# --- balance ---


def score_in_java(sizes: list[int]) -> int:
    """`getBalanceScore`: an int to which the difference of every pair is added."""
    score = 0
    for at, size in enumerate(sizes):
        for other in sizes[at + 1 :]:
            score = (score + abs(size - other)) & 0xFFFFFFFF
    return score - (1 << 32) if score >= 1 << 31 else score


def test_balance_scores_are_ints_of_java() -> None:
    """Beyond 2,147,483,647 they start again at -2,147,483,648, as the class's own do."""
    draw = np.random.default_rng(5)
    sizes = [[0, 2**31 - 1], [1, 0, 2**30], [0, 0, 2**30, 2**30], [0, 0, 0, 2**30], [7], []]
    sizes += [draw.integers(0, 2**29, draw.integers(1, 12)).tolist() for _ in range(200)]
    scores = [balance_score(np.array(each, np.int64)) for each in sizes]
    assert scores == [score_in_java(each) for each in sizes]
    assert scores[:3] == [2**31 - 1, -(2**31), 0]
    assert min(scores) < 0


def test_water_in_vessels() -> None:
    """The level is that of pouring one partition after the other to whoever has fewest."""
    draw = np.random.default_rng(6)
    for _ in range(300):
        sizes = draw.integers(0, 9, draw.integers(1, 7))
        number = int(draw.integers(1, 25))
        filled = sizes.copy()
        for _ in range(number):
            filled[np.argmin(filled)] += 1
        assert find_level(sizes, number) == max(each for each, was in zip(filled, sizes, strict=True) if each > was)


def unlike(owned: int) -> Row:
    """a and b ask for t of 6 partitions and c for u; a owns some of t, and so much is to be moved to b."""
    return {
        "case": "case",
        "topics": {"t": 6, "u": 1},
        "replica_racks": None,
        "members": [
            {"id": name, "instance": None, "rack": None, "topics": [topic], "owned": has, "generation": 3}
            for name, topic, has in (("a", "t", [["t", p] for p in range(owned)]), ("b", "t", []), ("c", "u", []))
        ],
    }


@pytest.mark.parametrize(("changes", "most"), [(True, 10_000), (False, 17)])
def test_balancing_that_never_ends(monkeypatch: pytest.MonkeyPatch, *, changes: bool, most: int) -> None:
    """Refused once a state comes back, else after 10,000 passes; Kafka's class would go on for ever."""
    passes = Counter[int]()

    def again(self: GeneralBalancer, block: np.ndarray, topic: int) -> tuple[bool, bool]:
        passes[topic] += 1
        self.size[0] += changes
        return True, False

    with monkeypatch.context() as patched:
        patched.setattr(GeneralBalancer, "_reassign_topic", again)
        endless = sticky_kernel.planned([unlike(6)], "sticky")
    assert endless.refused == {"case": "It never ends: the balancing moves partitions round and round."}
    assert (endless.sets, set(passes.values())) == ({}, {most})


def test_the_last_pass_of_a_balancing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing moves in it, and it has to be within the bound."""
    for most, refused in ((1, True), (2, False)):
        monkeypatch.setattr(sticky_balance, "_MAX_PASSES", most)
        answer = sticky_kernel.planned([unlike(6)], "sticky")
        assert ("case" in answer.refused) == refused
    assert {name: len(given) for name, given in answer.sets["case"].items()} == {"a": 3, "b": 3, "c": 1}


def test_moves_that_make_nothing_more_even_are_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The score of what takes part, wrapped as it may be, has to fall."""
    scores = iter([5, 5, 4, 5])
    monkeypatch.setattr(sticky_balance, "balance_score", lambda sizes: next(scores))
    for stays in (6, 3):  # not below what it was: all of a's stays with it; below: half moves
        assert len(sticky_kernel.planned([unlike(6)], "sticky").sets["case"]["a"]) == stays
