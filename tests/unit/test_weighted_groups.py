"""Weighted-sticky over whole groups: facts in, plans out, and why groups can't be weighed."""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_assign.assignors.group_facts import GROUP, LOAD, LOAD_COLUMNS, MEMBER, OWNED_SLICE, SUBSCRIPTION
from spark_assign.comparison.kernel.compare import MAX_ROUNDS
from spark_assign.groups.kernel.convergence import converge
from spark_assign.groups.kernel.plan_groups import ALL_KINDS, PlanParams
from tests.plan_rows import facts_table, plan_rows

Fact = dict[str, Any]
PARAMS = PlanParams((("*", "weighted-sticky"),), ("weighted-sticky",), required_kinds=ALL_KINDS, loads_known=True)


def group(name: str, owned: dict[str, list[int]], rates: list[float | None], **of_group: float) -> list[Fact]:
    """A group of one topic `t`, by member what it owns, by partition its rate."""
    key = {"cluster": "c", "group_id": name}
    facts: list[Fact] = [{**key, "kind": GROUP, **of_group}]
    for member, numbers in owned.items():
        me = {**key, "member_id": member}
        facts += [{**me, "kind": MEMBER}, {**me, "kind": SUBSCRIPTION, "topic": "t", "partitions": len(rates)}]
        one = {"step": 1, "count": 1, "topic": "t", "partitions": len(rates)}
        facts += [{**me, "kind": OWNED_SLICE, "first": number, **one} for number in numbers]
    nothing = {list_of: [None] * len(rates) for list_of in LOAD_COLUMNS.values()}
    return [*facts, {**key, "kind": LOAD, "topic": "t", "at": list(range(len(rates))), **nothing, "in_rates": rates}]


def table(facts: list[Fact]) -> pa.Table:
    """As they come from Spark."""
    return facts_table(facts)


def rows(facts: list[Fact], params: PlanParams = PARAMS) -> list[Fact]:
    """All rows of the answer."""
    return plan_rows(table(facts), params)


def of_kind(answer: list[Fact], kind: str, *columns: str) -> list[tuple[Any, ...]]:
    """Some columns of the rows of one kind, sorted."""
    return sorted(tuple(row[name] for name in columns) for row in answer if row["kind"] == kind)


def test_moved_partitions_are_withheld() -> None:
    """a has 14 and may have 9.6: of what it has, 5 is the least that is enough."""
    answer = rows(group("g", {"a": [0, 1], "b": [2]}, [9, 5, 2], load_bound=1.2))
    assert of_kind(answer, "assigned", "member_id", "first", "count") == [("a", 0, 1), ("b", 2, 1)]
    assert of_kind(answer, "withheld", "member_id", "first", "count") == [("b", 1, 1)]
    moves = ("first", "member_id", "next_member_id", "reason")
    assert [row[name] for row in answer if row["kind"] == "move" for name in moves] == [1, "a", "b", "over-load"]
    assert of_kind(answer, "revocation", "first", "member_id", "next_member_id") == [(1, "a", "b")]
    assert of_kind(answer, "metrics", "load_bound_status", "moved") == [("held", 1)]


def test_a_bound_that_cannot_be_held_is_reported() -> None:
    """By a word each."""
    facts = [
        *group("held", {"a": [0, 1], "b": [2]}, [4, 4, 4], load_bound=1.4),
        *group("hot", {"a": [0, 1], "b": [2]}, [9, 1, 1]),
        *group("relaxed", {"a": [0, 1], "b": [2]}, [4, 4, 4]),
        *group("full", {"a": [0, 1], "b": [2]}, [4, 4, 4], capacity=5),
    ]
    words = [("full", "over-capacity"), ("held", "held"), ("hot", "hot-partition"), ("relaxed", "relaxed")]
    assert of_kind(rows(facts), "metrics", "group_id", "load_bound_status") == words


def test_a_capacity_is_enough() -> None:
    """Nobody has more than it can handle: nothing moves, however uneven."""
    facts = group("g", {"a": [0, 1], "b": [2]}, [9, 5, 2], capacity=14)
    assert of_kind(rows(facts), "move") == []


def test_who_joins_gets_what_is_too_much() -> None:
    """12 with a are more than 8.4; b gives up nothing."""
    facts = group("g", {"a": [0, 1, 2], "b": [3, 4], "new": []}, [4, 4, 4, 3, 3], load_bound=1.4)
    answer = rows(facts)
    assert of_kind(answer, "move", "member_id", "next_member_id", "reason") == [("a", "new", "over-load")]


def test_a_missing_rate_counts_as_the_mean_of_its_topic() -> None:
    """The two that are known have 6: a has 18 of 24 then, and may have 13.2."""
    answer = rows(group("g", {"a": [0, 1, 2], "b": [3]}, [6, None, None, 6]))
    assert of_kind(answer, "move", "member_id", "next_member_id") == [("a", "b")]
    assert [row["load_unknown"] for row in answer if row["kind"] == "metrics"] == [2]


@pytest.mark.parametrize(
    ("rates", "of_group", "code", "says"),
    [
        ([None, None], {}, "no-loads", "the table loads has no value"),
        ([1, -2], {}, "bad-load", "partition=1, in_messages_per_second=-2"),
        ([1, float("inf")], {}, "bad-load", "in_messages_per_second=inf"),
        ([1, 1e308], {}, "bad-load", "in_messages_per_second=1e+308"),
        ([1, np.inf], {}, "bad-load", "in_messages_per_second=inf"),
        ([np.inf, np.inf], {"load_bound": np.inf}, "bad-load-bound", "groups.load_bound is inf"),
        ([1, 2], {"load_bound": np.inf}, "bad-load-bound", "groups.load_bound is inf"),
        ([1, 2], {"capacity": np.inf}, "bad-capacity", "groups.capacity is inf"),
        ([1, 2], {"capacity": 0.0}, "bad-capacity", "groups.capacity is 0"),
        ([1, 2], {"capacity": -5.0}, "bad-capacity", "above 0"),
        ([1, 2], {"load_bound": 0.9}, "bad-load-bound", "from 1"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_groups_that_cannot_be_weighed(
    rates: list[float | None], of_group: dict[str, float], code: str, says: str
) -> None:
    """Each is rejected with a code and a remedy, without a warning of NumPy, and the other groups are planned."""
    answer = rows([*group("bad", {"a": [0, 1]}, rates, **of_group), *group("good", {"a": [0]}, [1])])
    assert of_kind(answer, "rejected", "group_id", "code") == [("bad", code)]
    assert says in next(row["detail"] for row in answer if row["kind"] == "rejected")
    assert of_kind(answer, "metrics", "group_id") == [("good",)]
    assert of_kind(answer, "assigned", "group_id") == [("good",)]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("setting", ["capacity", "load_bound"])
def test_a_bound_beyond_every_number_is_none(setting: str) -> None:
    """The product with the number of members, or with the mean load, is infinite."""
    for value in (1e308, sys.float_info.max):
        answer = rows(group("g", {"a": [0, 1, 2], "b": []}, [10, 20, 30], **{setting: value}))
        assert of_kind(answer, "metrics", "moved", "load_bound_status") == [(0, "held")]


def test_a_group_without_partitions_needs_no_loads() -> None:
    """Its topic does not exist."""
    key = {"cluster": "c", "group_id": "g", "member_id": "a"}
    answer = rows([{**key, "kind": MEMBER}, {**key, "kind": SUBSCRIPTION, "topic": "t"}])
    assert of_kind(answer, "rejected") == []
    assert of_kind(answer, "metrics", "partitions") == [(0,)]


def random_facts(draw: random.Random, groups: int) -> list[Fact]:
    """Groups with owners, conflicts, members that own nothing, and partitions whose rate is not known."""
    facts = []
    for number in range(groups):
        members, count = draw.randint(1, 5), draw.randint(1, 12)
        owned: dict[str, list[int]] = {f"m{each}": [] for each in range(members)}
        for partition in range(count):
            for _ in range(draw.choice([0, 1, 1, 1, 1, 2])):
                owned[f"m{draw.randrange(members)}"].append(partition)
        rates = [None if draw.random() < 0.1 else round(draw.lognormvariate(0, 1), 3) for _ in range(count)]
        facts += group(f"g{number}", {name: sorted(set(mine)) for name, mine in owned.items()}, rates)
    return facts


def test_the_order_of_facts_does_not_matter(seed: int) -> None:
    """Any order, the same rows."""
    facts = random_facts(random.Random(seed), 60)
    expected = sorted(map(repr, rows(facts)))
    random.shuffle(facts)
    assert sorted(map(repr, rows(facts))) == expected


def test_groups_come_to_rest(seed: int) -> None:
    """Cooperatively: what moves is given up in a round and assigned in the next; the last one gives up nothing."""
    facts = random_facts(random.Random(seed), 60)
    refused = {row["group_id"] for row in rows(facts) if row["kind"] == "rejected"}
    found = [row for answer in converge(table(facts), PARAMS, MAX_ROUNDS) for row in answer.to_pylist()]
    last = {row["group_id"]: row for row in found}
    assert set(last) == {f"g{number}" for number in range(60)} - refused
    assert all(row["stable"] and row["unowned"] == 0 for row in last.values())
    assert max(row["round"] for row in last.values()) >= 2
    assert np.mean([row["round"] <= 3 for row in last.values()]) == 1
