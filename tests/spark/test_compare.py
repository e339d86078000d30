"""The comparison's figures against one plan at a time, and what a comparison has to hold."""

from __future__ import annotations

import random
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_assign import Change, Fleet, UnknownAssignorError, compare, converge, plan
from spark_assign.kernels.protocol.settings import Timing
from spark_assign.pauses import Counts, cooperative_seconds, eager_seconds
from spark_assign.protocol import Settings
from spark_assign.runs import expand
from spark_assign.schemas import COMPARISON
from spark_assign.what_if import AS_IS, members_left
from tests.spark.fleets import fleet, tuples

pytestmark = [pytest.mark.spark, pytest.mark.keeps_cached]

NAMES = ["range", "roundrobin", "sticky", "cooperative-sticky"]
TIMES = Settings(revoke_ms=100, restore_ms=2_000)
ONE_LEAVES = members_left(group_id="random-*", number=1)
Key = tuple[str, str]


def tables(order: int = 0) -> dict[str, list[tuple[Any, ...]]]:
    """Groups by hand, one for each thing that may happen, and random ones; rows in any order."""
    dice = random.Random(7)
    topics = {"four": 4, "one": 1, "t": 6, "u": 6, "v": 2, "w": 2, "big": 40}
    asked: dict[str, dict[str, list[str]]] = {
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
        *(("grown", "a", "t", p) for p in range(6)),
        *(("grown", "b", "u", p) for p in range(6)),
        *(("left", "a", "t", p) for p in range(4)),
        *(("left", "b", "t", p) for p in (4, 5)),
        *(("contested", "a", "v", p) for p in (0, 1)),
        *(("contested", "b", "v", p) for p in (0, 1)),
        ("racked", "a", "w", 1),
        *(("uneven", "a", "four", p) for p in range(4)),
        *(("uneven", "idle", "big", p) for p in range(3)),
        ("broken", "a", "v", 5),
        ("broken", "a", "w", 0),
        *(("astray", "a", "one", p) for p in range(3)),
        ("astray", "a", "gone", 0),
        ("astray", "b", "four", 7),
        ("astray", "b", "four", 1),
    ]
    for number in range(6):
        name, size = f"random-{number}", dice.randint(2, 5)
        wanted = dice.sample(sorted(topics), 4)
        asked[name] = {f"m{n}": [t for t in wanted if number < 3 or dice.random() < 0.7] for n in range(size)}
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
        for name, each in asked.items()
        for member in each
    ]
    found = {
        "topics": [("c", topic, count) for topic, count in topics.items()],
        "members": [*members, ("c", "twice", "a")],
        "subscriptions": [("c", name, m, t) for name, each in asked.items() for m in each for t in each[m]],
        "owned": sorted({("c", *row) for row in owned}),
        "replicas": [
            ("c", topic, p, [1 + (p + n) % 3]) for n, topic in enumerate(topics) for p in range(topics[topic])
        ],
        "brokers": [("c", 1, "r1"), ("c", 2, "r2"), ("c", 3, None)],
        "groups": [("c", "grown", "cooperative-sticky"), ("c", "empty", "range"), ("c", "other", None, "connect")],
    }
    for rows in found.values():
        random.Random(order).shuffle(rows)
    return found


@pytest.fixture(scope="module")
def groups(spark: SparkSession) -> Fleet:
    """All of them; `a` of `left` has just gone."""
    return fleet(spark, **tables()).with_members_left(group_id="left", member_id="a")


@pytest.fixture(scope="module")
def comparison(groups: Fleet) -> Iterator[DataFrame]:
    """The groups as they are, and with a member less in some."""
    compared = compare(groups, NAMES, [AS_IS, ONE_LEAVES], TIMES).persist()
    yield compared
    compared.unpersist()
    groups.release()


@pytest.fixture(scope="module")
def rows(comparison: DataFrame) -> dict[tuple[str, str, str], Any]:
    """The rows by group, assignor and change."""
    collected = comparison.collect()
    found = {(row["group_id"], row["assignor"], row["change"]): row for row in collected}
    assert len(found) == len(collected)
    return found


def figures_of_one_plan(changed: Fleet, name: str) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """The same figures from one plan's tables, partition by partition; and the codes of the rejected groups."""
    planned = plan(changed, name)
    metrics = {row["group_id"]: row for row in planned.metrics.collect() if row["members"]}
    end: dict[str, dict[Key, str]] = defaultdict(dict)
    for group, member, topic, partition in tuples(expand(planned.target).drop("cluster")):
        end[group][topic, partition] = member
    now: dict[str, set[tuple[str, Key]]] = defaultdict(set)
    for group, member, topic, partition in tuples(expand(planned.runs).drop("cluster")):
        now[group].add((member, (topic, partition)))
    claimed: dict[str, set[tuple[str, Key]]] = defaultdict(set)
    claims = changed.claims()
    assert claims is not None
    for group, member, topic, partition in tuples(expand(claims.where("not departed")).drop("cluster", "departed")):
        claimed[group].add((member, (topic, partition)))
    rounds: dict[str, list[Any]] = defaultdict(list)
    if name == "cooperative-sticky":
        for row in converge(changed, name).collect():
            rounds[row["group_id"]].append(row)
    racks = {(row["group_id"], row["member_id"]): row["rack_id"] for row in changed.members.collect() if row["rack_id"]}
    rack_of = {1: "r1", 2: "r2", 3: None}
    near = {(topic, p): {rack_of[b] for b in brokers} for _, topic, p, brokers in tables()["replicas"]}
    found = {}
    members = Counter(row["group_id"] for row in changed.members.select("group_id", "member_id").distinct().collect())
    for group, metric in metrics.items():
        loads = Counter(end[group].values())
        given = [*loads.values(), *[0] * (members[group] - len(loads))]
        later = [row for row in rounds[group] if row["round"] > 1]
        living = {partition for _, partition in claimed[group]} & end[group].keys()
        kept = claimed[group] & now[group]
        back = claimed[group] & {(m, p) for p, m in end[group].items()} - kept
        counts = Counts(
            members=members[group],
            partitions=len(end[group]),
            living=len(living),
            kept=len(kept),
            back=len(back),
            later=sum(row["revoked"] for row in later),
        )
        formula = cooperative_seconds if rounds[group] else eager_seconds
        matched = sum(racks.get((group, m)) in near[p] for p, m in end[group].items() if (group, m) in racks)
        racked = any(each == group for each, _ in racks)
        found[group] = {
            "members": members[group],
            "partitions": len(end[group]),
            "max_over_mean": max(given) / statistics.mean(given) if any(given) else None,
            "stddev_per_member": statistics.pstdev(given),
            "moved": metric["moved"] + sum(row["moved"] for row in later),
            "revoked": metric["revoked"] + counts.later,
            "unassigned": metric["unassigned"] - metric["withheld"],
            "rounds": len(rounds[group]) or 1,
            "stable": rounds[group][-1]["stable"] if rounds[group] else True,
            "partition_seconds_paused": formula(counts, TIMES.timing),
            "rack_matched": matched if racked else None,
            "cross_rack_share": 1 - matched / len(end[group]) if racked and end[group] else None,
        }
    return found, {row["group_id"]: row["code"] for row in planned.rejected.collect()}


@pytest.mark.once
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("change", [AS_IS, ONE_LEAVES], ids=lambda change: change.name)
def test_the_figures_are_those_of_one_plan(spark: SparkSession, rows, change: Change, name: str) -> None:
    """Each assignor and change by itself, on a fleet of its own with its rows in another order."""
    alone = fleet(spark, **tables(order=1)).with_members_left(group_id="left", member_id="a")
    expected, rejected = figures_of_one_plan(change.apply(alone), name)
    mine = {group: row.asDict() for (group, assignor, of), row in rows.items() if (assignor, of) == (name, change.name)}
    assert {group: row["rejected"] for group, row in mine.items() if row["rejected"]} == rejected
    assert mine.keys() == expected.keys() | rejected.keys() | {"empty"}
    for group, figures in expected.items():
        got = {column: mine[group][column] for column in figures}
        assert got == pytest.approx(figures, abs=1e-9), group
    alone.release()


def test_nobody_is_dropped(comparison: DataFrame, rows) -> None:
    """Every group for every assignor and change: planned, rejected, or without members."""
    assert comparison.schema.names == COMPARISON.names
    assert [f.dataType for f in comparison.schema] == [f.dataType for f in COMPARISON]
    listed = {row[1] for row in tables()["members"]} | {"empty"}
    changes = ("as-is", "leave:random-*:1")
    assert rows.keys() == {(group, name, change) for group in listed for name in NAMES for change in changes}
    for row in rows.values():
        assert row["reason"].startswith(f"{row['assignor']}: ")
        if row["group_id"] == "twice":
            assert (row["rejected"], row["members"], row["recommended"]) == ("duplicate-member", None, False)
            assert "Keep one row per member" in row["reason"]
        if row["group_id"] == "empty":
            assert (row["rejected"], row["members"], row["moved"], row["recommended"]) == (None, 0, None, False)
    assert rows["broken", "sticky", "as-is"]["rejected"] == "kafka-fails"


def test_one_is_recommended(rows) -> None:
    """One for each group and change that somebody can plan; configured is what the fleet says."""
    able = {(group, change) for (group, _, change), row in rows.items() if row["members"]}
    chosen = Counter((group, change) for (group, _, change), row in rows.items() if row["recommended"])
    assert chosen == dict.fromkeys(able, 1)
    grown = {name: rows["grown", name, "as-is"] for name in NAMES}
    assert {name: row["configured"] for name, row in grown.items()} == {n: n == "cooperative-sticky" for n in NAMES}
    assert rows["left", "range", "as-is"]["configured"] is None


def test_the_call_as_the_design_has_it(spark: SparkSession) -> None:
    """A fleet and names; a fleet that owns nothing, has no racks and no groups table."""
    plain = fleet(
        spark,
        topics=[("c", "t", 3)],
        members=[("c", "g", "a"), ("c", "g", "b")],
        subscriptions=[("c", "g", "a", "t"), ("c", "g", "b", "t")],
    )
    found = tuples(compare(plain, ["range", "roundrobin"]), "assignor", "change", "members", "partitions", "rounds")
    assert found == [("range", "as-is", 2, 3, 1), ("roundrobin", "as-is", 2, 3, 1)]
    joined = Change("grown", lambda each: each.with_members_joined(number=2))
    (row,) = compare(plain, ["cooperative-sticky"], [joined]).collect()
    assert (row["members"], row["moved"], row["recommended"]) == (4, 0, True)
    assert row["partition_seconds_paused"] == pytest.approx(3 * (1.5 + 0.5 * 4 / 5))
    plain.release()


def test_wrong_calls(groups: Fleet) -> None:
    """Said before anything is planned."""
    with pytest.raises(UnknownAssignorError, match="did you mean 'sticky'"):
        compare(groups, ["stikcy"])
    with pytest.raises(ValueError, match="name at least one assignor"):
        compare(groups, [])
    with pytest.raises(ValueError, match="each with a name of its own"):
        compare(groups, ["range"], [AS_IS, AS_IS])
    with pytest.raises(ValueError, match="no tables"):
        compare(
            groups,
            ["range"],
            settings=Settings(partitions=groups.topics.selectExpr("cluster", "topic", "0 as partition")),
        )
    assert Timing() != TIMES.timing
