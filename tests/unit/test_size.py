"""How many members a group needs: which numbers are looked at, what is read from the curve, and why, in words."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from spark_assign.advice.kernel import size_sweep
from spark_assign.advice.kernel.size import SizeParams, size_groups
from spark_assign.advice.size import SIZE_ROWS
from spark_assign.assignors.group_facts import GROUP, LOAD, LOAD_COLUMNS, MEMBER, OWNED_SLICE, SUBSCRIPTION
from spark_assign.report.formatting import duration
from spark_assign.report.loads_and_sizes import autoscaler
from spark_assign.simulation.kernel.settings import TimingConfig
from spark_assign.spark.dataframes import to_arrow_schema
from tests.cases import cases
from tests.plan_rows import facts_table

Fact = dict[str, Any]

SCHEMA = to_arrow_schema(SIZE_ROWS)


def group(
    name: str,
    rates: list[float],
    members: int = 2,
    *,
    assignor: str | None = "range",
    deviation: float | None = None,
    lag: float | None = None,
    out_messages_per_second: float | None = None,
    **of_group: float | str,
) -> list[Fact]:
    """A group of one topic; its partitions are dealt to its members in turn."""
    key = {"cluster": "c", "group_id": name}
    facts: list[Fact] = [{**key, "kind": GROUP, "assignor": assignor, **of_group}]
    for number in range(members):
        me = {**key, "member_id": f"m{number}"}
        mine = {"first": number, "step": members, "count": len(range(number, len(rates), members))}
        facts += [
            {**me, "kind": MEMBER},
            {**me, "kind": SUBSCRIPTION, "topic": "t", "partitions": len(rates)},
            {**me, "kind": OWNED_SLICE, "topic": "t", "partitions": len(rates), **mine},
        ]
    every = {
        "in_messages_per_second_stddev": deviation,
        "lag": lag,
        "out_messages_per_second": out_messages_per_second,
        "in_bytes_per_second": None,
    }
    lists = {LOAD_COLUMNS[column]: [value] * len(rates) for column, value in every.items()}
    return [*facts, {**key, "kind": LOAD, "topic": "t", "at": list(range(len(rates))), "in_rates": rates, **lists}]


def sized(
    facts: list[Fact], *, assignor: str = "configured", numbers: tuple[int, ...] = (), **terms: Any
) -> list[Fact]:
    """Returns every result row."""
    params = SizeParams(
        (assignor,),
        size_sweep.SizingCriteria(**{"headroom": 0.0, "quantile": 0.5, **terms}, timing=TimingConfig()),
        ("range", "sticky"),
        numbers,
    )
    random.Random(len(facts)).shuffle(facts)
    return [row for table in size_groups(facts_table(facts), params, SCHEMA) for row in table.to_pylist()]


def one(rows: list[Fact], kind: str = "size") -> Fact:
    """The only row of a kind."""
    [row] = [row for row in rows if row["kind"] == kind]
    return row


def test_the_fewest_that_keep_up() -> None:
    """12 partitions of 10 a second each: with 3 members 4 each, with 4 members 3 each."""
    for capacity, needed, verdict in (
        (40, 3, "under-provisioned"),
        (39, 4, "under-provisioned"),
        (60, 2, "right-sized"),
        (120, 1, "over-provisioned"),
    ):
        row = one(sized(group("g", [10.0] * 12, capacity=capacity)))
        assert (row["needed"], row["verdict"], row["load"]) == (needed, verdict, 120)
        assert row["max_load_needed"] <= capacity
        assert row["capacity_source"] == "configured"
        assert row["saturation_members"] == 12
        assert row["limited_by"] == "partitions"


def test_headroom_and_peaks() -> None:
    """2 members have 60 each, 72 with a fifth beside it, 69.9 at the 95th percentile with a deviation of 1 each."""
    facts = group("g", [10.0] * 12, deviation=1.0, capacity=70)
    assert one(sized(facts))["needed"] == 2
    assert one(sized(facts, headroom=0.2))["needed"] == 3
    assert one(sized(facts, quantile=0.95))["needed"] == 2
    assert one(sized(facts, quantile=0.9999))["needed"] == 3
    assert one(sized(facts, quantile=0.95))["load_at_quantile"] == pytest.approx(120 + 12 * 1.6449, abs=0.01)


def test_too_many_subscribers_with_new_members() -> None:
    """5,000 topics, each with a member of its own: 5,000 new members subscribe to each of them."""
    key = {"cluster": "c", "group_id": "large"}
    facts = group("large", [10.0] * 12, capacity=60)
    for n in range(5_000):
        me = {**key, "member_id": f"x{n}"}
        facts += [{**me, "kind": MEMBER}, {**me, "kind": SUBSCRIPTION, "topic": f"x{n}", "partitions": 1}]
    rows = sized([*facts, *group("g", [10.0] * 12, capacity=40)], numbers=(3, 9_100))
    refused = one(rows, "rejected")
    assert (refused["group_id"], refused["code"]) == ("large", "too-many-partitions")
    assert refused["detail"].startswith("range: with 9,100 members, the topics have 20,")
    assert {row["group_id"] for row in rows if row["kind"] == "curve"} == {"g"}
    assert one(rows)["needed"] == 3


def test_a_hot_partition_that_is_too_much_for_any_member() -> None:
    """And which one it is; more members carry no less from the number on with which it has a member of its own."""
    row = one(sized(group("g", [1.0, 1, 50, 1, 1, 1], capacity=45)))
    assert (row["verdict"], row["needed"], row["hot_topic"], row["hot_partition"]) == ("cannot-keep-up", None, "t", 2)
    assert row["limited_by"] == "hot-partition"
    assert row["partitions_needed"] == 2
    assert "many keys, more partitions." in row["reason"]
    few = one(sized(group("g", [24.0] * 3, capacity=24), headroom=0.5))  # 72 * 1.5 / 24 = 4.5
    assert "many keys, at least 5 partitions in total." in few["reason"]
    assert "t-2 alone receives 50 messages/s" in row["reason"]
    assert "order of a key's messages is lost" in row["reason"]


@cases(
    "capacity locks needed verdict limited_by partitions_needed",
    (60, 2000, 4, "under-provisioned", "record-locks", None),  # 3 members have 2, 1 and 1 of the 4 halves of partitions
    (30, 2000, 8, "under-provisioned", "record-locks", None),
    (60, 1000, 4, "under-provisioned", "record-locks", None),
    (30, 1000, None, "cannot-keep-up", "record-locks", 4),  # at most 2 members work on a partition: 200 / 30 / 2
    (60, 400, None, "cannot-keep-up", "record-locks", 4),  # a member holds more records than there are locks
)
def test_a_share_group(
    capacity: float, locks: int, needed: int | None, verdict: str, limited_by: str, partitions_needed: int | None
) -> None:
    """Its members aren't limited to one per partition, but to as many as the record locks allow. Two partitions of 100
    messages/s each."""
    rows = sized(group("g", [100.0, 100.0], group_type="share", capacity=capacity), record_locks=locks)
    row = one(rows)
    assert (row["assignor"], row["needed"], row["verdict"]) == ("simple", needed, verdict)
    assert (row["limited_by"], row["partitions_needed"]) == (limited_by, partitions_needed)
    assert {each["unassigned"] for each in rows if each["kind"] == "curve"} == {0}
    assert one(rows, "topic")["verdict"] == ("enough" if needed else "too-few")
    assert one(sized(group("g", [1.0], group_type="share"), assignor="range"), "rejected")["code"] == "out-of-scope"


def test_members_of_a_share_group_have_a_part_of_its_rates() -> None:
    """Four members read 80 a second of two partitions, two members of each."""
    facts = group("g", [50.0, 50], 4, group_type="share", lag=10_000, out_messages_per_second=40.0)
    both = {"first": 0, "step": 1, "count": 2, "topic": "t", "partitions": 2}
    facts = [fact | both if fact["kind"] == OWNED_SLICE else fact for fact in facts]
    row = one(sized(facts))
    assert (row["capacity"], row["max_load"]) == (20, 25)


@cases(
    "hosts stated needed pods pods_needed threads source verdict",
    ("", 2, 4, 2, 2, 2, "configured", "right-sized"),  # 3 members would be enough
    ("", 3, 3, 2, 1, 3, "configured", "over-provisioned"),
    ("aabb", None, 4, 2, 2, 2, "read", "right-sized"),
    ("aabb", 1, 3, 4, 3, 1, "configured", "over-provisioned"),
    *((hosts, None, 3, None, None, None, None, "over-provisioned") for hosts in ("aaaa", "aaab", "abcd", "aab ", "")),
)
def test_members_in_pods(
    hosts: str,
    stated: int | None,
    needed: int,
    pods: int | None,
    pods_needed: int | None,
    threads: int | None,
    source: str | None,
    verdict: str,
) -> None:
    """Whole pods count; hosts with the same number of members show the number in each, and nothing else does."""
    facts = group("g", [10.0] * 12, 4, capacity=40)
    for fact, host in zip([fact for fact in facts if fact["kind"] == MEMBER], hosts, strict=False):
        fact["client_host"] = host.strip() or None
    row = one(sized(facts, threads_per_pod=stated, pods_per_node=1 if stated else None))
    found = ("needed", "pods", "pods_needed", "threads_per_pod", "threads_per_pod_source", "verdict")
    assert tuple(row[name] for name in found) == (needed, pods, pods_needed, threads, source, verdict)
    assert row["nodes_needed"] == (pods_needed if stated else None)
    assert f"minReplicaCount: {pods_needed or needed}" in autoscaler(row)


def test_the_partitions_that_a_topic_needs() -> None:
    """The hottest must fit a member, as the same multiple of the mean; with an even load fewer are enough."""
    row = one(sized(group("g", [1.0, 1, 50, 1, 1, 1], capacity=45)), "topic")
    assert (row["topic"], row["verdict"], row["partitions_needed"], row["hot_partition"]) == ("t", "too-few", 7, 2)
    assert "With equally loaded partitions, 2 would be enough." in row["reason"]
    unknown = one(sized(group("g", [1.0, 2])), "topic")
    assert (unknown["verdict"], unknown["partitions_needed"]) == ("unknown", None)


def test_the_capacity_is_measured_where_members_are_behind() -> None:
    """Each of two members reads 6 x 8 a second, and is far behind."""
    row = one(sized(group("g", [10.0] * 12, out_messages_per_second=8.0, lag=10_000)))
    assert (row["capacity"], row["capacity_source"], row["needed"]) == (48, "measured", 3)
    assert row["drain_seconds"] == np.inf
    assert row["drain_seconds_needed"] == 40_000 / 8


def test_nobody_knows_the_capacity() -> None:
    """There is a curve all the same."""
    rows = sized(group("g", [10.0] * 12))
    row = one(rows)
    assert (row["verdict"], row["needed"], row["capacity"]) == ("unknown", None, None)
    assert {each["keeps_up"] for each in rows if each["kind"] == "curve"} == {None}


def test_the_curve() -> None:
    """A row per number, today's marked."""
    rows = [row for row in sized(group("g", [10.0] * 4, capacity=20), numbers=(1, 4, 5)) if row["kind"] == "curve"]
    names = ("members", "is_current", "max_load", "idle", "moved", "keeps_up")
    assert [tuple(row[name] for name in names) for row in rows] == [
        (1, False, 40, 0, 2, False),
        (2, True, 20, 0, 2, True),  # range parts the topic in two halves; it was dealt in turn
        (4, False, 10, 0, 2, True),
        (5, False, 10, 1, 4, True),
    ]


@cases(
    "facts code text",
    (group("g", [1.0, -1.0], capacity=5), "bad-load", "loads: topic=t, partition=1, in_messages_per_second=-1.0"),
    (group("g", [1.0, 2.0], capacity=0), "bad-capacity", "groups: capacity=0.0"),
    (group("g", [1.0, 2.0], capacity=1e308), "bad-capacity", "groups: capacity=1e+308"),
    (group("g", [1.0, 2.0], capacity=1e-320), "bad-capacity", "groups: capacity=1e-320"),
    (group("g", [1.0, 2.0])[:-1], "no-loads", "loads has no in_messages_per_second"),
    (group("g", [1.0, 2.0], assignor="mine"), "unknown-assignor", "It is configured with mine"),
)
def test_a_group_without_a_verdict(facts: list[Fact], code: str, text: str) -> None:
    """Each is rejected with a code, and the others are sized."""
    rows = sized([*facts, *[fact | {"group_id": "fine"} for fact in group("fine", [1.0, 2.0], capacity=5)]])
    refused = one(rows, "rejected")
    assert (refused["group_id"], refused["code"], refused["detail"][: len(text)]) == ("g", code, text)
    assert one(rows)["group_id"] == "fine"


def test_which_numbers_are_looked_at() -> None:
    """All where they are few; else today's, those around the needed count, and the remaining ones spaced by ratio."""
    assert size_sweep.initial_counts(3, 12, 4.2, 9).tolist() == list(range(1, 13))
    assert size_sweep.initial_counts(20, 12, np.nan, 2).tolist() == list(range(1, 21))
    assert size_sweep.initial_counts(10_000, 3, 2.0, 2).tolist() == [1, 2, 3, 4, 5, 6, 7, 9_999, 10_000]
    assert size_sweep.initial_counts(10_000, 50, np.nan, 2).tolist() == [*range(1, 51), 9_999, 10_000]
    many = size_sweep.initial_counts(100, 100_000, 731.5, 300)
    assert len(many) <= size_sweep.MAX_COUNTS
    assert {99, 100, 101, 732, 733} <= set(many.tolist())
    assert size_sweep.counts_between(np.array([1, 4, 8]), np.array([False, False, True])).tolist() == [5, 6, 7]
    assert size_sweep.counts_between(np.array([1, 4, 8]), np.array([False, False, False])).tolist() == []


def test_many_members_with_few_partitions() -> None:
    """The answer is that of all numbers of members, of which only some are planned."""
    facts = group("g", [10.0, 20.0], members=2_000, capacity=25.0)
    rows = sized([fact for fact in facts if fact.get("count") != 0])
    row = one(rows)
    assert (row["verdict"], row["needed"], row["knee"], row["saturation_members"]) == ("over-provisioned", 2, 2, 2)
    assert [each["members"] for each in rows if each["kind"] == "curve"] == [1, 2, 3, 4, 5, 6, 7, 1_999, 2_000]


def test_a_member_called_like_a_new_one() -> None:
    """It costs its own group only that ID, and other groups of the task nothing."""
    victim = group("victim", [40.0, 10.0, 10.0, 10.0, 10.0], capacity=55)
    stranger = [fact | {"group_id": "stranger"} for fact in group("stranger", [1.0])]
    for fact in victim:
        fact |= {"member_id": f"consumer-{fact['member_id']}"} if "member_id" in fact else {}

    def of_victim(name: str) -> list[Fact]:
        renamed = [fact | ({"member_id": name} if fact.get("member_id") == "m0" else {}) for fact in stranger]
        return [row for row in sized([*victim, *renamed]) if row["group_id"] == "victim"]

    assert of_victim("m0") == of_victim("joiner-x") == of_victim("joiner-01") == of_victim("another-joiner-01")


def test_more_numbers_are_looked_at_where_none_keeps_up() -> None:
    """Range assigns the two busy partitions to one member until each of the 16 partitions has a member of its own. Two
    members would be enough for an even load, so the numbers looked at first end at 8."""
    row = one(sized(group("g", [10.0, 10.0, *[0.0] * 14], capacity=10.0)))
    assert (row["verdict"], row["needed"], row["max_load_needed"]) == ("under-provisioned", 16, 10.0)


def test_the_answer_is_the_first_even_in_a_gap() -> None:
    """5,000 equal partitions: the first number that keeps up is found, though not all numbers are tried at first."""
    assert one(sized(group("g", [1.0] * 5_000, members=3, capacity=7.9)))["needed"] == -(-5_000 // 7)


def test_knee_and_saturation() -> None:
    """Of 60, 30, 20, 15, 15 the point farthest below the line; and the first of the least."""
    members, most = np.arange(1, 6), np.array([60.0, 30, 20, 15, 15])
    assert size_sweep.knee(members, most) == 2
    assert size_sweep.saturation_members(members, most) == 4
    assert size_sweep.knee(np.array([1, 2]), np.array([5.0, 5.0])) == 1


def test_numbers_for_an_autoscaler() -> None:
    """The fewest at the peak, those of use, and so much lag as one member handles in half a minute."""
    text = autoscaler(one(sized(group("g", [10.0] * 12, capacity=40))))
    assert "minReplicaCount: 3" in text
    assert "maxReplicaCount: 12" in text
    assert 'lagThreshold: "1200"' in text


def test_durations_in_words() -> None:
    """Short ones in seconds."""
    found = [duration(each) for each in (None, 0.2, 119, 600, 7200, np.inf)]
    assert found == [*("–", "0 s", "119 s", "10 min", "2.0 h", "never")]
