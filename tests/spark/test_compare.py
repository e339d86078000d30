"""The comparison's figures against one plan at a time, and what a comparison has to hold."""

from __future__ import annotations

import random
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_assign import ConfigError, Fleet, WhatIf, compare, converge, plan
from spark_assign.comparison.what_if import AS_IS, joiners, members_joined, members_left
from spark_assign.groups.kernel.client_settings import plan_switch
from spark_assign.simulation import Settings
from spark_assign.simulation.kernel.pause_estimates import PauseCounts, cooperative_seconds, eager_seconds
from spark_assign.tables.comparison import COMPARISON
from tests import slices
from tests.spark.fleets import fleet, kept, tuples

pytestmark = [pytest.mark.spark, pytest.mark.keeps_cached]

NAMES = ["range", "roundrobin", "sticky", "cooperative-sticky"]
TIMES = Settings(revoke_ms=100, restore_ms=2_000)
Key = tuple[str, str]


def tables() -> dict[str, list[tuple[Any, ...]]]:
    """Groups by hand, one for each thing that may happen, and random ones; rows in any order."""
    dice = random.Random(7)
    topics = {"four": 4, "one": 1, "t": 6, "u": 6, "v": 2, "w": 2, "big": 40}
    subscribed: dict[str, dict[str, list[str]]] = {
        "grown": {"a": ["t", "u"], "b": ["t", "u"], "c": ["t", "u"]},
        "left": {"a": ["t"], "b": ["t"]},
        "contested": {"a": ["v"], "b": ["v"], "c": ["v"]},
        "racked": {"a": ["w"], "b": ["w"], "c": ["w"]},
        "uneven": {"a": ["four"], "b": ["four", "one"], "idle": []},
        "broken": {"a": ["v", "w"], "b": ["v", "w"]},
        "astray": {"a": ["one", "gone"], "b": ["one", "four"]},
        "twice": {"a": ["t"], "b": ["t"]},
    }
    owned = [
        (group, member, topic, partition)
        for group, *owners in (
            ("grown", ("a", "t", range(6)), ("b", "u", range(6))),
            ("left", ("a", "t", range(4)), ("b", "t", (4, 5))),
            ("contested", ("a", "v", (0, 1)), ("b", "v", (0, 1))),
            ("racked", ("a", "w", (1,))),
            ("uneven", ("a", "four", range(4)), ("idle", "big", range(3))),
            ("broken", ("a", "v", (5,)), ("a", "w", (0,))),
            ("astray", ("a", "one", range(3)), ("a", "gone", (0,)), ("b", "four", (7, 1))),
        )
        for member, topic, partitions in owners
        for partition in partitions
    ]
    for number in range(6):
        name, size = f"random-{number}", dice.randint(2, 5)
        wanted = dice.sample(sorted(topics), 4)
        subscribed[name] = {f"m{n}": [t for t in wanted if number < 3 or dice.random() < 0.7] for n in range(size)}
        owned += [
            (name, f"m{dice.randrange(size)}", topic, p)
            for topic in wanted
            for p in range(topics[topic])
            for _ in range(1 + (dice.random() < 0.05))
            if dice.random() < 0.8
        ]
    rack = {("racked", "a"): "r1", ("racked", "b"): "r2", ("random-1", "m0"): "r1", ("random-4", "m1"): "r2"}
    members = [
        ("c", name, member, None, None, None, rack.get((name, member)), 5)
        for name, each in subscribed.items()
        for member in each
    ]
    found = {
        "topics": [("c", topic, count) for topic, count in topics.items()],
        "members": [*members, ("c", "twice", "a")],
        "subscriptions": [("c", name, m, t) for name, each in subscribed.items() for m in each for t in each[m]],
        "owned": sorted({("c", *row) for row in owned}),
        "replicas": [
            ("c", topic, p, [1 + (p + n) % 3]) for n, topic in enumerate(topics) for p in range(topics[topic])
        ],
        "brokers": [("c", 1, "r1"), ("c", 2, "r2"), ("c", 3, None)],
        "groups": [("c", "grown", "cooperative-sticky"), ("c", "empty", "range"), ("c", "other", None, "connect")],
    }
    for rows in found.values():
        dice.shuffle(rows)
    return found


@pytest.fixture(scope="module")
def groups(spark: SparkSession) -> Iterator[Fleet]:
    """All of them; `a` of `left` has just gone."""
    made = fleet(spark, **tables()).with_members_left(group_id="left", member_id="a")
    yield made
    made.unpersist()


@pytest.fixture(scope="module")
def rows(groups: Fleet) -> dict[tuple[str, str], Any]:
    """The rows by group and assignor."""
    comparison = compare(groups, NAMES, settings=TIMES).comparison
    assert [(f.name, f.dataType) for f in comparison.schema] == [(f.name, f.dataType) for f in COMPARISON]
    collected = comparison.collect()
    found = {(row["group_id"], row["assignor"]): row for row in collected}
    assert len(found) == len(collected)
    return found


def test_the_way_to_what_is_recommended(groups: Fleet, rows: dict[tuple[str, str], Any]) -> None:
    """Told where a group runs with something else, with what its members' client ids say; as the kernel words it."""
    rated = {key: row for key, row in rows.items() if row["switch_steps"] is not None}
    assert rated
    for (group, assignor), row in rows.items():
        assert (row["switch_steps"] is not None) == (row["recommended"] and row["current_assignor"] != assignor), (
            group,
            assignor,
        )
        if row["switch_steps"] is not None:
            assert row["switch_steps"] == plan_switch(row["current_assignor"], assignor, row["client_libraries"]).text
    members = {row["group_id"] for row in groups.members.select("group_id").distinct().collect()}
    assert {group for group, _ in rows if rows[group, NAMES[0]]["client_libraries"]} == members


def partitions(runs: DataFrame) -> dict[str, set[tuple[str, Key]]]:
    """Runs as pairs of a member and a partition, by group."""
    found: dict[str, set[tuple[str, Key]]] = defaultdict(set)
    for row in runs.select("group_id", "member_id", "topic", "first", "step", "count").collect():
        found[row["group_id"]] |= {(row["member_id"], pair) for pair in slices.topic_partitions([row])}
    return found


@pytest.fixture(scope="module")
def claims(groups: Fleet) -> tuple[dict[str, set[tuple[str, Key]]], dict[str, set[tuple[str, Key]]]]:
    """What living members own, and what those owned that left."""
    living = groups.ownership_slices()
    assert living is not None
    assert groups.departed is not None
    return partitions(living), partitions(groups.departed)


def figures(group: str, plan: dict[str, Any], claimed: set, left: set, rounds: list[Any]) -> dict[str, Any]:
    """A group's figures partition by partition.

    Args:
        group: its id.
        plan: `now`, pairs of member and partition after the first round; `end`, in the end.
        claimed: the same of living members before; left: of those that left.
        rounds: of `converge`; empty under the eager protocol.
    """
    source = tables()
    members = {row[2] for row in source["members"] if row[1] == group} - ({"a"} if group == "left" else set())
    subscribed = {topic for _, of, member, topic in source["subscriptions"] if of == group and member in members}
    now, end = plan["now"], plan["end"]
    sizes = {topic: count for _, topic, count in source["topics"]}
    owned_in_the_end = {partition for _, partition in end}
    loads = Counter(member for member, _ in end)
    given = [loads[member] for member in members]
    kept, back = claimed & now, claimed & (end - now)
    later = [row for row in rounds if row["round"] > 1]
    counts = PauseCounts(
        members=len(members),
        partitions=len(end),
        living=len({partition for _, partition in claimed} & owned_in_the_end),
        kept=len(kept),
        back=len(back),
        later=sum(row["revoked"] for row in later),
    )
    there = {partition for _, partition in claimed | left} & owned_in_the_end
    racks = {row[2]: row[6] for row in source["members"] if row[1] == group and row[6]}
    near = {(topic, p): {{1: "r1", 2: "r2"}.get(b) for b in brokers} for _, topic, p, brokers in source["replicas"]}
    matched = sum(racks[member] in near[partition] for member, partition in end if member in racks)
    formula = cooperative_seconds if rounds else eager_seconds
    return {
        "members": len(members),
        "partitions": len(end),
        "max_over_mean": max(given) / statistics.mean(given) if any(given) else None,
        "stddev_per_member": statistics.pstdev(given),
        "moved": len(there) - len(kept) - len(back) + sum(row["moved"] for row in later),
        "revoked": len(claimed) - len(kept) + counts.later,
        "unassigned": sum(sizes.get(topic, 0) for topic in subscribed)
        - sum(number < sizes.get(topic, 0) for topic, number in owned_in_the_end),
        "rounds": len(rounds) or 1,
        "stable": rounds[-1]["stable"] if rounds else True,
        "paused_partition_seconds": formula(counts, TIMES.timing),
        "rack_matched": matched if racks else None,
        "cross_rack_share": 1 - matched / len(end) if racks and end else None,
    }


@pytest.mark.once
@pytest.mark.parametrize("name", NAMES)
def test_the_figures_are_those_of_one_plan(groups: Fleet, rows, claims, name: str) -> None:
    """Each assignor by itself, its plan looked at partition by partition."""
    planned = kept(plan(groups, name))
    now = partitions(planned.assignment_slices)
    waits = {} if planned.withheld is None else partitions(planned.withheld)
    rounds: dict[str, list[Any]] = defaultdict(list)
    if name == "cooperative-sticky":
        for row in converge(groups, name).orderBy("round").collect():
            rounds[row["group_id"]].append(row)
    rejected = {row["group_id"]: row["code"] for row in planned.rejected.collect()}
    mine = {group: row.asDict() for (group, assignor), row in rows.items() if assignor == name}
    assert {group: row["rejected"] for group, row in mine.items() if row["rejected"]} == rejected
    for group in {row[1] for row in tables()["members"]} - rejected.keys():
        of_plan = {"now": now[group], "end": now[group] | waits.get(group, set())}
        expected = figures(group, of_plan, claims[0][group], claims[1][group], rounds[group])
        assert {column: mine[group][column] for column in expected} == pytest.approx(expected, abs=1e-9), group


def test_nobody_is_dropped(rows) -> None:
    """Every group for every assignor: planned, rejected, or without members."""
    listed = {row[1] for row in tables()["members"]} | {"empty"}
    assert rows.keys() == {(group, name) for group in listed for name in NAMES}
    for row in rows.values():
        assert row["what_if"] == "as-is"
        assert row["reason"].startswith(f"{row['assignor']}: ")
        if row["group_id"] == "twice":
            assert (row["rejected"], row["members"], row["recommended"]) == ("duplicate-member", None, False)
            assert "Keep one row per member" in row["reason"]
        if row["group_id"] == "empty":
            assert (row["rejected"], row["members"], row["moved"], row["recommended"]) == (None, 0, None, False)
    assert rows["broken", "sticky"]["rejected"] == "kafka-fails"


def test_one_is_recommended(rows) -> None:
    """One for each group that somebody can plan; configured is what the fleet says."""
    able = {group for (group, _), row in rows.items() if row["members"]}
    assert Counter(group for (group, _), row in rows.items() if row["recommended"]) == dict.fromkeys(able, 1)
    grown = {name: rows["grown", name]["is_current"] for name in NAMES}
    assert grown == {name: name == "cooperative-sticky" for name in NAMES}
    assert rows["left", "range"]["is_current"] is None


@pytest.mark.once
def test_changes(spark: SparkSession) -> None:
    """Each with a fleet of its own; a faulty group is one under every change, and order of rows means nothing."""
    owned = [("c", "g", "ab"[p % 2], "t", p) for p in range(6)] + [("c", "bad", "m", "t", 0)] * 2
    subscribed = [("c", "g", "a", "t"), ("c", "g", "b", "t"), ("c", "bad", "m", "t"), ("c", "gone", "m", "t")]
    columns = ("what_if", "group_id", "assignor", "members", "partitions", "moved", "revoked", "rounds", "rejected")
    leave = members_left(group_id="gone", count=1, name="leave")
    join = members_joined(group_id="g", count=1, name="join")
    found = []
    for back, changes in ((1, [AS_IS, leave, join]), (-1, [join])):
        members = [row[:3] for row in subscribed][::back]
        some = fleet(spark, topics={"t": 6}, members=members, subscriptions=subscribed[::back], owned=owned[::back])
        found.append(tuples(compare(some, ["range", "cooperative-sticky"], changes).comparison, *columns))
        some.unpersist()
    assert found[1] == [row for row in found[0] if row[0] == "join"]
    keys = [(group, name) for group in ("bad", "g", "gone") for name in ("cooperative-sticky", "range")]
    faulty, nobody = (*[None] * 5, "duplicate-owned"), (0, 0, *[None] * 4)
    stays = (1, 6, 0, 0, 1, None)
    assert found[0] == [
        (change, *key, *row)
        for change, cooperative, eager, of_gone in (
            ("as-is", (2, 6, 0, 0, 1, None), (2, 6, 2, 2, 1, None), stays),
            ("join", (3, 6, 2, 2, 2, None), (3, 6, 4, 4, 1, None), stays),
            ("leave", (2, 6, 0, 0, 1, None), (2, 6, 2, 2, 1, None), nobody),
        )
        for key, row in zip(keys, (faulty, faulty, cooperative, eager, of_gone, of_gone), strict=True)
    ]


@pytest.mark.once
@pytest.mark.parametrize("row", [("x", None, 0), ("x", "t", None), ("x", "t", -1)])
def test_a_leaver_owns_what_none_can(spark: SparkSession, row: tuple[Any, ...]) -> None:
    """Its group is rejected, and the other one is compared."""
    subscribed = {"bad": {"x": "t", "y": "t"}, "g": {"x": "t", "y": "t"}}
    given = fleet(spark, subscribed, topics={"t": 6}, owned=[("c", "bad", *row), ("c", "g", "x", "t", 0)])
    comparison = compare(given, ["range"], [members_left(count=1)]).comparison
    code = "bad-partition" if row[-1] == -1 else "null-key"
    assert tuples(comparison, "group_id", "rejected") == [("bad", code), ("g", None)]


@pytest.mark.once
def test_the_call_as_the_design_has_it(spark: SparkSession) -> None:
    """A fleet and names; a fleet that owns nothing, has no racks and no groups table."""
    plain = fleet(spark, {"g": dict.fromkeys("ab", "t")}, topics={"t": 3})
    compared = compare(plain, ["range", "roundrobin"]).comparison
    found = tuples(compared, "assignor", "what_if", "members", "partitions", "rounds")
    assert found == [("range", "as-is", 2, 3, 1), ("roundrobin", "as-is", 2, 3, 1)]
    joined = WhatIf("grown", lambda each: each.with_members_joined(count=2))
    (row,) = compare(plain, ["cooperative-sticky"], [joined]).comparison.collect()
    assert (row["members"], row["moved"], row["recommended"]) == (4, 0, True)
    assert row["paused_partition_seconds"] == pytest.approx(3 * (1.5 + 0.5 * 4 / 5))
    plain.unpersist()


@pytest.mark.once
def test_new_members_have_ids_of_their_own(spark: SparkSession) -> None:
    """The first ones that no member of the group has, so whoever calls itself joiner-01 rejects no group."""
    some = fleet(spark, {"g": {"joiner-01": "t", "joiner-03": "t"}, "h": {"a": "t"}}, topics={"t": 3})
    new = {"g": ["joiner-02", "joiner-04", "joiner-05"], "h": ["joiner-01", "joiner-02", "joiner-03"]}
    found = tuples(joiners(some, count=3), "group_id", "member_id")
    assert found == [(group_id, member_id) for group_id, ids in new.items() for member_id in ids]


def test_wrong_calls(groups: Fleet) -> None:
    """Said before anything is planned."""
    with pytest.raises(ConfigError, match="did you mean 'sticky'"):
        compare(groups, ["stikcy"])
    with pytest.raises(ConfigError, match="Name at least one in assignors"):
        compare(groups, [])
    with pytest.raises(ConfigError, match="each with a unique name"):
        compare(groups, ["range"], [AS_IS, AS_IS])
    with pytest.raises(ConfigError, match="Remove partitions from the settings"):
        compare(
            groups,
            ["range"],
            settings=Settings(partitions=groups.topics.selectExpr("cluster", "topic", "0 as partition")),
        )
