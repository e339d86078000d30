"""Load in the figures of a plan: sums by member, what is not known, how long it takes to catch up."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from spark_assign.assignors.group_facts import (
    GROUP,
    GROUP_LOAD,
    LOAD,
    LOAD_COLUMNS,
    MEMBER,
    OWNED_SLICE,
    SUBSCRIPTION,
    index_facts,
)
from spark_assign.groups.kernel.member_loads import LOAD_METRICS, drain_seconds, member_capacity
from spark_assign.groups.kernel.plan_groups import METRICS, PlanParams
from spark_assign.groups.kernel.read_specs import read_group_specs
from tests.plan_rows import facts_table, plan_rows

Fact = dict[str, Any]


def group(name: str, partitions: int, members: int = 2, **of_group: float) -> list[Fact]:
    """A group of one topic `t`; member `m0` owns the even partitions, `m1` the odd ones."""
    key = {"cluster": "c", "group_id": name}
    facts = [{**key, "kind": GROUP, **of_group}]
    for number in range(members):
        me = {**key, "member_id": f"m{number}"}
        mine = {"first": number, "step": members, "count": len(range(number, partitions, members))}
        facts += [
            {**me, "kind": MEMBER},
            {**me, "kind": SUBSCRIPTION, "topic": "t", "partitions": partitions},
            {**me, "kind": OWNED_SLICE, "topic": "t", "partitions": partitions, **mine},
        ]
    return facts


def loads(name: str, at: list[int], kind: int = LOAD, **rates: list[float | None]) -> Fact:
    """What goes through the partitions `at` of its topic."""
    lists = {LOAD_COLUMNS[column]: values for column, values in rates.items()}
    nothing = {list_of: [None] * len(at) for list_of in LOAD_COLUMNS.values()}
    return {"cluster": "c", "group_id": name, "kind": kind, "topic": "t", "at": at, **nothing, **lists}


def figures(facts: list[Fact]) -> dict[str, Fact]:
    """By group the load columns of its metrics, planned by `sticky`."""
    params = PlanParams((("*", "sticky"),), ("sticky",), required_kinds=frozenset({METRICS}), loads_known=True)
    rows = plan_rows(facts_table(facts), params)
    return {row["group_id"]: {name: row[name] for name in LOAD_METRICS} for row in rows}


def test_the_load_of_members() -> None:
    """m0 has partitions 0 and 2, m1 has 1; nothing is known of partition 3, which is m1's."""
    assert figures([*group("g", 4), loads("g", [0, 1, 2], in_messages_per_second=[10, 20, 30])])["g"] == {
        "load": 60,
        "max_load_per_member": 40,
        "load_max_over_mean": 40 / 30,
        "load_unknown": 1,
        "drain_seconds": None,
    }


def test_what_a_group_says_itself_comes_first() -> None:
    """Column by column; what it does not say holds as for all."""
    of_all = loads("g", [0, 1], in_messages_per_second=[10, 20], lag=[5, 5])
    of_group = loads("g", [1], GROUP_LOAD, in_messages_per_second=[None], lag=[100], out_messages_per_second=[1])
    known = read_group_specs(index_facts(facts_table([of_group, *group("g", 2), of_all])), set()).loads
    assert known.in_messages_per_second.tolist() == [10, 20]
    assert known.lag.tolist() == [5, 100]
    assert np.isnan(known.out_messages_per_second[0])
    assert known.out_messages_per_second[1] == 1


def test_the_capacity_is_that_of_a_member_that_is_behind() -> None:
    """m0 reads 50 a second and is 1,000 behind; m1 reads 80 and waits for messages. What is given comes first."""
    rates = loads("g", [0, 1], in_messages_per_second=[60, 80], out_messages_per_second=[50, 80], lag=[1_000, 3])
    for given, expected in ((None, 50), (200, 200)):
        facts = [*group("g", 2, **({} if given is None else {"capacity": given})), rates]
        assert member_capacity(read_group_specs(index_facts(facts_table(facts)), set())).tolist() == [expected]
    assert figures([*group("g", 2, capacity=200), rates])["g"]["drain_seconds"] == 1_000 / (200 - 60)
    assert figures([*group("g", 2), rates])["g"]["drain_seconds"] == np.inf


def test_how_long_until_nothing_is_left() -> None:
    """Never, where no less is written than can be read; at once where there is no lag; unknown without a capacity."""
    lag, in_messages_per_second = np.array([100.0, 100, 0, 0, 5]), np.array([5.0, 10, 10, 11, 0])
    found = drain_seconds(lag, in_messages_per_second, np.array([10.0, 10, 10, 10, np.nan]))
    assert found[:4].tolist() == [20, np.inf, 0, np.inf]
    assert np.isnan(found[4])


@pytest.mark.parametrize(
    "wrong",
    [
        {"in_messages_per_second": [-1.0, 2.0]},
        {"lag": [float("inf"), None], "in_messages_per_second": [1.0, 1.0]},
        {"in_messages_per_second": [float("inf"), 2.0]},
        {"out_messages_per_second": [1e308, 1e308], "lag": [float("inf"), 1.0], "in_messages_per_second": [1.0, 1.0]},
    ],
)
@pytest.mark.filterwarnings("error")
def test_a_group_with_rows_that_cannot_be_believed_has_no_figures(wrong: dict[str, list[float | None]]) -> None:
    """And the others have theirs, without a warning of NumPy."""
    facts = [*group("bad", 2), loads("bad", [0, 1], GROUP_LOAD, **wrong), *group("fine", 2)]
    facts += [loads("fine", [0, 1], in_messages_per_second=[1, 2])]
    found = figures(facts)
    assert set(found["bad"].values()) == {None}
    assert found["fine"]["load"] == 3


def test_faults_name_the_row() -> None:
    """The first by topic and partition."""
    for rows, code, text in (
        (
            [loads("g", [1, 0], in_messages_per_second=[-2.0, 4.0])],
            "bad-load",
            "loads: topic=t, partition=1, in_messages_per_second=-2.0.",
        ),
        (
            [loads("g", [1, 1], in_messages_per_second=[2.0, 4.0])],
            "duplicate-load",
            "loads: topic=t, partition=1. Keep one row",
        ),
        ([loads("g", [-1], in_messages_per_second=[2.0])], "bad-load", "loads: topic=t, partition=-1, partition=-1."),
    ):
        found_code, detail = read_group_specs(index_facts(facts_table([*group("g", 2), *rows])), set()).loads.faults[0]
        assert (found_code, detail[: len(text)]) == (code, text)


def test_partitions_behind_the_end_of_a_topic_count_for_nothing() -> None:
    """Loads of a larger topic that was made anew with fewer partitions."""
    assert figures([*group("g", 2), loads("g", [0, 1, 7], in_messages_per_second=[1, 2, 50])])["g"]["load"] == 3


def test_the_same_to_the_last_bit_whatever_else_is_in_the_task(seed: int) -> None:
    """Sums of floating-point numbers hang on their order."""
    draw = random.Random(seed)
    groups = [f"g{number}" for number in range(6)]
    facts: list[Fact] = []
    for name in groups:
        size = draw.randrange(3, 40)
        at = draw.sample(range(size), size)
        facts += [
            *group(name, size, members=3),
            loads(name, at, in_messages_per_second=[draw.random() * 1e3 for _ in at]),
        ]
    together = figures(facts)
    draw.shuffle(facts)
    assert figures(facts) == together
    for name in groups:
        assert figures([fact for fact in facts if fact["group_id"] == name])[name] == together[name], seed
