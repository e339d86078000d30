"""Share groups from facts: what is rejected and why, reasons, figures, and what must hold of any group."""

from __future__ import annotations

import base64
from collections import Counter
from random import Random
from typing import Any

import numpy as np
from pyspark.sql.pandas.types import to_arrow_schema

from spark_assign.assignors.group_facts import DEPARTED_SLICE, GROUP, INITIALIZED, MEMBER, OWNED_SLICE, SUBSCRIPTION
from spark_assign.assignors.share.simple_assignor import compute_quotas
from spark_assign.java.hash_map import ComputedTable, capacities_for, compute_if_absent_order, spread_hashes
from spark_assign.share.kernel.plan_groups import plan_share_groups
from spark_assign.share.plan import PLAN_ROWS
from tests.cases import cases
from tests.plan_rows import facts_table
from tests.slices import partitions

Fact = dict[str, Any]
SCHEMA = to_arrow_schema(PLAN_ROWS)
IDS = {"t": "kYcGx5mSTBWtVzUuEmKbxw", "u": "i_smQ0a4TmmkxNIq7rdHQg"}
PARTITIONS = {"t": 4, "u": 2}


def subscribes(member: str, *topics: str) -> list[Fact]:
    """A member and its subscriptions."""
    subscriptions = [{"partitions": PARTITIONS.get(t), "topic_id": IDS.get(t), "topic": t} for t in topics]
    return [
        {"kind": MEMBER, "member_id": member},
        *({"kind": SUBSCRIPTION, "member_id": member} | each for each in subscriptions),
    ]


def owns(member: str, topic: str, *partitions: int, kind: int = OWNED_SLICE) -> list[Fact]:
    """What it has; nothing: the topic without partitions."""
    known = {"kind": kind, "member_id": member, "topic": topic, "partitions": PARTITIONS.get(topic), "step": 1}
    if not partitions:
        return [known | {"first": 0, "count": 0}]
    return [known | {"first": partition, "count": 1} for partition in partitions]


def plan(*facts: list[Fact], group: str = "g") -> dict[str, list[Fact]]:
    """The tables by kind, without nulls."""
    lines = [{"cluster": "c", "group_id": group} | fact for each in facts for fact in each]
    lines.append({"cluster": "c", "group_id": group, "kind": GROUP, "group_type": "share"})
    return plan_facts(lines)


def plan_facts(lines: list[Fact]) -> dict[str, list[Fact]]:
    """Returns the rows of the plan of any facts by kind, without nulls."""
    tables: dict[str, list[Fact]] = {"assigned": [], "change": [], "metrics": [], "rejected": []}
    for table in plan_share_groups(facts_table(lines), SCHEMA):
        for row in table.to_pylist():
            tables[row.pop("kind")].append({name: value for name, value in row.items() if value is not None})
    return tables


def got(rows: list[Fact]) -> dict[tuple[str, str], list[int]]:
    """By member and topic the partitions of runs."""
    found: dict[tuple[str, str], list[int]] = {}
    for row in rows:
        found.setdefault((row["member_id"], row["topic"]), []).extend(partitions(row))
    return {key: sorted(partitions) for key, partitions in found.items()}


def changes(rows: list[Fact]) -> set[tuple[str, str, int, str, str]]:
    """Member, topic, partition, change, reason."""
    return {(row["member_id"], row["topic"], p, row["change"], row["reason"]) for row in rows for p in partitions(row)}


def test_reasons_of_changes() -> None:
    """A topic that is gone, one that is not subscribed to, too much, a member that has left; and what is new."""
    tables = plan(
        subscribes("a", "t"),
        subscribes("b", "t"),
        owns("a", "t", 0, 1, 2),
        owns("a", "gone", 7),
        owns("b", "u", 1),
        owns("z", "t", 3, kind=DEPARTED_SLICE),
    )
    found = changes(tables["change"])
    assert ("a", "gone", 7, "revoked", "topic-gone") in found
    assert ("b", "u", 1, "revoked", "unsubscribed") in found
    assert ("z", "t", 3, "revoked", "member-left") in found
    over = {each for each in found if each[4] == "over-quota"}
    assert len(over) == 1
    ((_, _, lost, _, _),) = over
    assert {each for each in found if each[3] == "assigned"} == {
        ("b", "t", 3, "assigned", "new"),
        ("b", "t", lost, "assigned", "under-shared"),
    }
    figures = tables["metrics"][0]
    assert (figures["assigned"], figures["revoked"], figures["assignments"], figures["partitions"]) == (2, 3, 4, 4)
    assert (figures["min_per_member"], figures["max_per_member"], figures["mean_per_member"]) == (2, 2, 2.0)
    assert (figures["unassigned"], figures["under_shared"]) == (0, 0)


def test_partitions_that_too_many_share() -> None:
    """Two members would do for four partitions; nobody has too many, but one partition has both."""
    tables = plan(subscribes("a", "t"), subscribes("b", "t"), owns("a", "t", 0, 1), owns("b", "t", 1, 2))
    taken = {each for each in changes(tables["change"]) if each[3] == "revoked"}
    assert {(topic, partition, reason) for _, topic, partition, _, reason in taken} == {("t", 1, "over-shared")}
    assert Counter(partition for each in got(tables["assigned"]).values() for partition in each) == {
        0: 1,
        1: 1,
        2: 1,
        3: 1,
    }


def test_what_is_not_initialised_is_not_given() -> None:
    """But stays with who has it; a count of 0 says that there is nothing of a topic, a group without rows has all."""
    initialized = [{"kind": INITIALIZED, "topic": "t", "first": 0, "step": 2, "count": 2}]
    tables = plan(subscribes("a", "t", "u"), initialized, owns("a", "t", 3))
    (partitions,) = got(tables["assigned"]).values()
    assert len(partitions) == 2
    assert 3 in partitions
    assert 1 not in partitions
    assert tables["metrics"][0]["not_assignable"] == 1
    tables = plan(subscribes("a", "t"), [{"kind": INITIALIZED, "topic": "t", "first": 0, "step": 1, "count": 0}])
    assert tables["assigned"] == []
    assert tables["metrics"][0]["partitions"] == 0
    assert got(plan(subscribes("a", "t"))["assigned"]) == {("a", "t"): [0, 1, 2, 3]}


def test_topics_without_partitions_stay() -> None:
    """As Kafka keeps them: a count of 0, in and out, for as long as the topic is subscribed to."""
    tables = plan(subscribes("a", "t", "u"), subscribes("b", "t", "u"), owns("a", "u"), owns("b", "t", 0, 1, 2, 3))
    assert {(row["member_id"], row["topic"]) for row in tables["assigned"] if row["count"] == 0} <= {("a", "u")}
    tables = plan(subscribes("a", "t"), owns("a", "u"))
    assert {row["topic"] for row in tables["assigned"]} == {"t"}


def test_subscriptions_to_nothing() -> None:
    """Names that no topic has: nobody gets anything, and what was there is taken; it is no fault."""
    tables = plan(subscribes("a", "absent"), owns("a", "t", 0))
    assert tables["assigned"] == tables["rejected"] == []
    assert changes(tables["change"]) == {("a", "t", 0, "revoked", "unsubscribed")}
    assert tables["metrics"][0]["unknown_topics"] == 1
    tables = plan(subscribes("a", "absent"), subscribes("b", "absent", "other"), owns("a", "t", 0))
    assert tables["assigned"] == tables["rejected"] == []
    assert changes(tables["change"]) == {("a", "t", 0, "revoked", "unsubscribed")}


def test_a_topic_of_nobody_stays_where_subscriptions_differ() -> None:
    """A fault of Kafka's: only topics that somebody subscribes to are looked at."""
    tables = plan(subscribes("a", "t"), subscribes("b", "t", "absent"), owns("a", "u", 0, 1))
    assert got(tables["assigned"])["a", "u"] == [0, 1]
    assert tables["metrics"][0]["not_assignable"] == 2


def initialized(topic: str | None, step: int = 1) -> list[Fact]:
    """One partition for which there is share state."""
    return [{"kind": INITIALIZED, "topic": topic, "first": 0, "step": step, "count": 1}]


NO_ID = {"kind": SUBSCRIPTION, "member_id": "a", "topic": "t", "partitions": 1, "topic_id": "short"}


@cases(
    "facts code words",
    ([*subscribes("a", "t"), *subscribes("a")], "duplicate-member", "members: member_id=a"),
    ([*subscribes("a", "t"), *owns("x", "t", 0)], "unknown-member", "owned_slices: member_id=x"),
    ([*subscribes("a", "t"), *owns("a", "t", 0), *owns("a", "t", 0)], "duplicate-owned", "partition=0"),
    ([*subscribes("a", "t"), *initialized("t", step=0)], "bad-partition", "initialized: topic=t"),
    ([*subscribes("a", "t"), *initialized(None)], "null-key", "initialized: topic=null"),
    ([*subscribes("a"), NO_ID], "bad-topic-id", "'short'"),
)
def test_faults(facts: list[Fact], code: str, words: str) -> None:
    """One group is rejected, and the other one is planned."""
    keys = [{"cluster": "c", "group_id": name} for name in ("bad", "good")]
    lines = [keys[0] | fact for fact in facts] + [keys[1] | fact for fact in subscribes("a", "t")]
    lines += [key | {"kind": GROUP, "group_type": "share"} for key in keys]
    tables = plan_facts(lines)
    ((rejected_row),) = tables["rejected"]
    assert (rejected_row["group_id"], rejected_row["code"]) == ("bad", code)
    assert words in rejected_row["detail"]
    assert {row["group_id"] for row in tables["assigned"]} == {"good"}
    assert {row["group_id"] for row in tables["metrics"]} == {"good"}


def test_groups_without_members_are_not_forgotten() -> None:
    """They have figures, all of them zero."""
    tables = plan()
    assert tables["metrics"] == [{"cluster": "c", "group_id": "g"} | dict.fromkeys(_figures(tables), 0)]


def _figures(tables: dict[str, list[Fact]]) -> list[str]:
    return [name for name in tables["metrics"][0] if name not in ("cluster", "group_id")]


def test_the_order_of_rows_does_not_matter() -> None:
    """The same rows, shuffled: the same tables."""
    draw = Random(7)
    lines = [
        {"cluster": "c", "group_id": f"g{group}"} | fact
        for group in range(20)
        for member in range(draw.randint(1, 9))
        for fact in [
            *subscribes(f"m{member}", *draw.sample(["t", "u"], draw.randint(1, 2))),
            *owns(f"m{member}", "t", *draw.sample(range(4), draw.randint(0, 3))),
        ]
    ]
    lines += [{"cluster": "c", "group_id": f"g{group}", "kind": GROUP, "group_type": "share"} for group in range(20)]
    first = plan_facts(lines)
    for _ in range(3):
        draw.shuffle(lines)
        again = plan_facts(lines)
        for kind, rows in first.items():
            assert sorted(map(str, rows)) == sorted(map(str, again[kind]))
    assert first["assigned"]
    found = {row["group_id"] for row in first["metrics"]} | {row["group_id"] for row in first["rejected"]}
    assert found == {f"g{group}" for group in range(20)}


def test_promises_of_a_group_that_begins() -> None:
    """From nothing: everybody has its quota, every partition its members, nobody has a partition twice."""
    for members in (1, 2, 3, 5, 8, 13):
        tables = plan(*(subscribes(f"m{member}", "t", "u") for member in range(members)))
        if tables["rejected"]:
            continue
        figures = tables["metrics"][0]
        assert figures["max_per_member"] - figures["min_per_member"] <= 1
        assert figures["assignments"] == sum(map(len, got(tables["assigned"]).values()))
        assert all(len(set(each)) == len(each) for each in got(tables["assigned"]).values())


def test_a_plan_is_stable() -> None:
    """Beginning with what was planned, nothing changes any more."""
    first = plan(*(subscribes(f"m{member}", "t", "u") for member in range(4)))
    had = [owns(member, topic, *at) for (member, topic), at in got(first["assigned"]).items()]
    again = plan(*(subscribes(f"m{member}", "t", "u") for member in range(4)), *had)
    assert again["change"] == []
    assert got(again["assigned"]) == got(first["assigned"])


def test_quotas() -> None:
    """Three members and four partitions: 2, 1, 1. Five and two: three members a partition, as six assignments."""
    sharing, quota = compute_quotas(np.array([3, 5, 2]), np.array([4, 2, 0]))
    assert sharing.tolist() == [1, 3, 0]
    assert quota.tolist() == [2, 1, 1, 2, 1, 1, 1, 1, 0, 0]


def test_keys_that_share_a_hash_cannot_be_predicted() -> None:
    """Thirty topics whose partitions have one hash code each: Java orders them by where they are in memory."""
    ids = [base64.urlsafe_b64encode(n.to_bytes(8) + (n ^ 5).to_bytes(8)).decode()[:22] for n in range(30)]
    topics = [
        {"kind": SUBSCRIPTION, "member_id": "a", "topic": f"t{n:02}", "partitions": 3, "topic_id": each}
        for n, each in enumerate(ids)
    ]
    lines = [{"group_id": "bad"} | fact for fact in [*subscribes("a"), *topics]]
    lines += [{"group_id": f"good-{n}"} | fact for n in range(4) for fact in subscribes("a", "t")]
    tables = plan_facts([{"cluster": "c"} | line for line in lines])
    assert [(row["group_id"], row["code"]) for row in tables["rejected"]] == [("bad", "identity-order")]
    assert {row["group_id"] for row in tables["metrics"]} == {f"good-{n}" for n in range(4)}
    assert len(tables["assigned"]) == 4


def test_maps_filled_by_computing() -> None:
    """A new key stands first in its bucket; the table doubles at the call after the one that filled it."""
    keys = np.arange(13)
    hashes = keys * 16
    assert compute_if_absent_order(keys[:3], np.zeros(3, np.int64), hashes, keys, np.array([16])).tolist() == [2, 1, 0]
    spread = spread_hashes(keys)
    assert compute_if_absent_order(keys, np.zeros(13, np.int64), spread, keys, np.array([16])).tolist() == keys.tolist()
    hashes = np.append(np.arange(12), 16)
    walk = compute_if_absent_order(keys, np.zeros(13, np.int64), hashes, keys, np.array([16]))
    assert walk.tolist() == [12, *range(12)]
    twice = np.append(keys, 0)
    walk = compute_if_absent_order(twice, np.zeros(14, np.int64), hashes, keys, np.array([16]))
    assert walk.tolist() == keys.tolist()
    table = ComputedTable(16, None)
    for key in keys.tolist():
        table.put(key, key)
    assert table.capacity == 16
    table.put(0, 0)
    assert table.capacity == 32
    found = compute_if_absent_order(twice, np.zeros(14, np.int64), keys * 16, keys, np.array([16])).tolist()
    assert found == table_of(twice)
    # Seven keys of bucket 5 leave the table as it is. The eighth doubles it, and the key 17 gets a bucket of its own.
    for number, walk in ((7, [0, 1, *range(8, 1, -1)]), (8, [1, *range(9, 1, -1), 0])):
        table = ComputedTable(16, None)
        for key, spread in enumerate([17, 2, *[5] * number]):
            table.put(key, spread)
        assert table.iteration_order() == walk
    assert capacities_for(np.array([0, 1, 10, 11, 200])).tolist() == [2, 4, 16, 32, 512]


def table_of(calls: np.ndarray) -> list[int]:
    """The walk of a table after `computeIfAbsent` of these keys, key by key."""
    table = ComputedTable(16, int)
    for key in calls.tolist():
        table.put(key, key * 16)
    return table.iteration_order()
