"""Groups with another number of members are those that members have left or joined."""

from __future__ import annotations

import random
from typing import Any
from zlib import crc32

import numpy as np
import pytest

from spark_assign.advice.kernel.size_sweep import resize
from spark_assign.assignors.group_facts import (
    DEPARTED_SLICE,
    FACT_TYPES,
    LISTED_MEMBER,
    LISTED_TOPIC,
    MEMBER,
    OWNED_BITMAP,
    OWNED_ORDER,
    OWNED_SLICE,
    SUBSCRIPTION,
)
from spark_assign.assignors.group_specs import GroupSpecs
from spark_assign.groups.kernel.ownership_changes import count_changes
from spark_assign.groups.kernel.plan_groups import assign, read_ownership
from spark_assign.java.hash_map import java_key
from tests.golden.vectors import Row
from tests.kafka import random_groups
from tests.plan_rows import facts_table, read_specs
from tests.sizes import drawn
from tests.unit.test_whole_groups import facts, windows

Fact = dict[str, Any]
NAMES = ("range", "roundrobin", "sticky", "cooperative-sticky", "uniform")


def changed(row: Row, fact_rows: list[Fact], members: int, name: str) -> list[Fact]:
    """The facts of a group with so many members, as if `Fleet.with_members_left` or `…_joined` had made it."""
    ids = sorted((each["id"] for each in row["members"]), key=java_key)
    gone = set(ids[: max(len(ids) - members, 0)])
    joiners = [f"joiner-{nth:02d}" for nth in range(1, members - len(ids) + 1)]
    kept = [f for f in fact_rows if f["kind"] not in (MEMBER, SUBSCRIPTION, OWNED_ORDER) or f["member_id"] not in gone]
    kept = [f | {"kind": DEPARTED_SLICE} if f["kind"] == OWNED_SLICE and f["member_id"] in gone else f for f in kept]
    topics = {fact["topic"]: fact["partitions"] for fact in fact_rows if fact["kind"] == SUBSCRIPTION}
    nothing = dict.fromkeys(FACT_TYPES) | {"cluster": name, "group_id": "group", "at": [], "racks": []}
    for joiner in joiners:
        kept.append(nothing | {"kind": MEMBER, "member_id": joiner})
        for topic, partitions in topics.items():
            kept.append(nothing | {"kind": SUBSCRIPTION, "member_id": joiner, "topic": topic, "partitions": partitions})
    new = {"rack": None, "generation": None, "owned": []}
    new_row = row | {
        "case": name,
        "members": [each for each in row["members"] if each["id"] not in gone]
        + [{**new, "id": joiner, "topics": list(topics)} for joiner in joiners],
    }
    values: dict[Any, dict[str, int]] = {}
    for assignor in ("range", "roundrobin"):
        for key, run in windows(new_row, assignor):
            values[key] = values.get(key, {}) | run
    for fact in kept:
        if fact["kind"] == SUBSCRIPTION:
            fact |= values.get((name, fact["member_id"], fact["topic"]), {})
    return [fact | {"cluster": name} for fact in kept]


def as_lists(fact: Fact) -> list[Fact]:
    """The same fact; a subscription as a list of one member and one topic, and some remain rows."""
    number = crc32((fact["member_id"] or "").encode())
    if fact["kind"] != SUBSCRIPTION or number % 4 == 0:
        return [fact]
    key = {name: fact[name] for name in ("cluster", "group_id")} | {"list": number}
    topic = {"topic": fact["topic"], "partitions": fact["partitions"]}
    return [key | {"kind": LISTED_MEMBER, "member_id": fact["member_id"]}, key | {"kind": LISTED_TOPIC} | topic]


def outcomes(specs: GroupSpecs, assignor: str, names: list[str]) -> list[Any]:
    """Of each group who gets what, why it is refused, and how much moves."""
    planned = assign(specs, assignor, np.ones(specs.num_groups, bool), {})
    counts = count_changes(read_ownership(specs, planned, np.ones(specs.num_groups, bool)))
    found: list[Any] = [
        [
            planned.rejected.get(at),
            int(counts.owned_and_assigned[at]),
            int(counts.kept[at]),
            int(counts.owned[at]),
            set(),
        ]
        for at in range(len(names))
    ]
    rows = planned.slices.expand()
    member_ids, topics = specs.member_id.take(rows.member).to_pylist(), specs.topic.take(rows.topic).to_pylist()
    groups = specs.topics.group[rows.topic].tolist()
    for group, member, topic, partition in zip(groups, member_ids, topics, rows.first.tolist(), strict=True):
        found[group][4].add((member, topic, partition))
    return found


def test_ids_of_new_members() -> None:
    """The first that no member of their group has, whatever other groups have."""
    rows = []
    for name, ids in (("a", ("m",)), ("b", ("joiner-02", "joiner-03", "joiner-05", "joiner-7")), ("c", ("joiner-01",))):
        members = [
            {"id": each, "instance": None, "rack": None, "topics": ["t"], "owned": [], "generation": 3} for each in ids
        ]
        rows.append({"case": name, "topics": {"t": 2}, "replica_racks": None, "members": members})
    specs = read_specs(facts(rows, ()))
    new = resize(specs, np.array([0, 1, 1, 2]), np.array([3, 7, 5, 3]))
    ids = np.array(new.facts.member_id.to_pylist(), object)[new.facts.member_index[new.members.row]]
    assert [ids[new.members.group == group].tolist() for group in range(4)] == [
        ["joiner-01", "joiner-02", "m"],
        ["joiner-01", "joiner-02", "joiner-03", "joiner-04", "joiner-05", "joiner-06", "joiner-7"],
        ["joiner-01", "joiner-02", "joiner-03", "joiner-05", "joiner-7"],
        ["joiner-01", "joiner-02", "joiner-03"],
    ]


@pytest.mark.parametrize("strategy", ["cooperative-sticky", "range"])
def test_as_if_members_had_left_or_joined(strategy: str, seed: int) -> None:
    """Random groups with every oddity, with fewer and more members, by all assignors."""
    rows = list(random_groups.groups(strategy, seed, small=drawn(10, 25), mid_size=0))
    rng = random.Random(seed)
    fact_rows = facts(rows, ()).to_pylist()
    assert not any(fact["kind"] == OWNED_BITMAP for fact in fact_rows)
    by_case: dict[str, list[Fact]] = {}
    for fact in fact_rows:
        by_case.setdefault(fact["cluster"], []).append(fact)
    specs = read_specs(facts_table(fact_rows))
    of_case = {row["case"]: row for row in rows}
    groups, members, expected, names = [], [], [], []
    for at, case in enumerate(specs.cluster.to_pylist()):
        now = len(of_case[case]["members"])
        for number in {1, now, now + 1, rng.randint(1, now + 3)}:
            groups.append(at)
            members.append(number)
            names.append(f"{len(names):05d}")
            expected += changed(of_case[case], by_case[case], number, names[-1])
    wanted = read_specs(facts_table(expected))
    listed = read_specs(facts_table([row for fact in fact_rows for row in as_lists(fact)]))
    for found in (resize(each, np.array(groups), np.array(members)) for each in (specs, listed)):
        assert found.num_groups == wanted.num_groups == len(names)
        for assignor in NAMES:
            for name, one, other in zip(
                names, outcomes(found, assignor, names), outcomes(wanted, assignor, names), strict=True
            ):
                at = int(name)
                case = specs.cluster[groups[at]].as_py()
                assert one == other, (assignor, case, members[at])
