"""Input facts and result rows of reassignments, checked by hand: reasons, metrics, sizes, new partitions."""

from __future__ import annotations

from typing import Any

import pytest

from spark_assign.replicas import LoadGoals
from spark_assign.replicas.kernel import reassignment_facts as kinds
from spark_assign.replicas.kernel.load_goals import bounded_load
from spark_assign.replicas.kernel.reassign_table import METRICS, PLACEMENT, REJECTED
from spark_assign.tables import replicas as schemas
from tests.unit.test_replica_facts import decided, fact, facts_of, partition


def broker(number: int, rack: str | None = None, **status: bool) -> dict[str, Any]:
    """Builds the fact of a broker."""
    return fact("brokers", broker_id=number, rack_id=rack, **status)


def size(number: int, amount: int | None, topic: str = "t") -> dict[str, Any]:
    """Builds the fact of a partition's bytes."""
    return fact("sizes", topic=topic, partition=number, bytes=amount)


def moved(rows: list[dict[str, Any]]) -> dict[tuple[str, int], list[tuple[int | None, int, str]]]:
    """Returns the moves of each partition: from broker, to broker, reason."""
    return {
        (row["topic"], row["partition"]): list(zip(row["moved_from"], row["moved_to"], row["reasons"], strict=True))
        for row in rows
        if row["kind"] == PLACEMENT and row["moved_to"]
    }


def figures(rows: list[dict[str, Any]]) -> dict[str, int]:
    """Returns the metrics of the only cluster."""
    [values] = [row for row in rows if row["kind"] == METRICS]
    return {name: values[name] for name in schemas.METRICS.names[1:] if not name.startswith("log_dir")}


def test_each_reason() -> None:
    """A replica moves for one reason: removed or fenced broker, rack, balance, or a higher replication factor."""
    three = [broker(1), broker(2), broker(3)]
    removed = decided([*three, partition(0, [1, 2]), fact("removed", broker_id=2)])
    assert moved(removed) == {("t", 0): [(2, 3, "removed-broker")]}
    fenced = decided([broker(1), broker(2, fenced=True), broker(3), partition(0, [1, 2])])
    assert moved(fenced) == {("t", 0): [(2, 3, "fenced-broker")]}
    cordoned = decided([broker(1), broker(2, cordoned=True), broker(3), partition(0, [1, 2])])
    assert moved(cordoned) == {("t", 0): [(2, 3, "cordoned-broker")]}
    both = decided([broker(1), broker(2, fenced=True), broker(3), partition(0, [1, 2]), fact("removed", broker_id=2)])
    assert moved(both) == {("t", 0): [(2, 3, "removed-broker")]}
    more = decided([*three, partition(0, [1, 2]), factor("t", 3)])
    assert moved(more) == {("t", 0): [(None, 3, "replication-factor")]}
    racks = decided([broker(1, "a"), broker(2, "a"), broker(3, "b"), partition(0, [1, 2])])
    assert moved(racks) == {("t", 0): [(2, 3, "rack")]}
    even = decided([*three, *(partition(at, [1 + at % 2]) for at in range(12))], voluntary=True)
    assert {reason for moves in moved(even).values() for _, _, reason in moves} == {"balance"}
    assert moved(decided([*three, *(partition(at, [1 + at % 2]) for at in range(12))])) == {}


def test_reasons_together() -> None:
    """Moves from removed brokers come first, additional replicas of a higher replication factor last."""
    rows = [
        *(broker(each, rack) for each, rack in ((1, "a"), (2, "a"), (3, "b"), (4, "b"), (5, "c"), (6, "c"))),
        partition(0, [1, 2, 3]),
        fact("removed", broker_id=3),
        factor("t", 4),
    ]
    assert sorted(reason for _, _, reason in moved(decided(rows))["t", 0]) == ["removed-broker", "replication-factor"]
    assert moved(decided(rows))["t", 0][0][0] == 3
    rows = [
        *(broker(each, rack) for each, rack in ((1, "a"), (2, "a"), (3, "b"), (4, "b"), (5, "c"))),
        partition(0, [1, 2, 3]),
        fact("removed", broker_id=3),
    ]
    assert moved(decided(rows)) == {("t", 0): [(3, 4, "removed-broker"), (2, 5, "rack")]}


def test_fewer_replicas_move_nothing() -> None:
    """A lower factor only removes replicas; the row of an unchanged partition has no moves."""
    rows = decided([broker(1), broker(2), broker(3), partition(0, [3, 2]), partition(1, [1, 2]), partition(0, [1], "u"),
                    factor("t", 1)])  # fmt: skip
    assert moved(rows) == {}
    plan = {(row["topic"], row["partition"]): row for row in rows if row["kind"] == PLACEMENT}
    assert plan["t", 0]["new_replicas"] == [3]
    assert (plan["u", 0]["previous_replicas"], plan["u", 0]["new_replicas"], plan["u", 0]["reasons"]) == (
        [1],
        [1],
        [],
    )
    assert {row["bytes"] for row in plan.values()} == {None}


def test_all_figures() -> None:
    """Two of three brokers remain, t-0 leaves broker 3, t-2 is new, and t-1 doesn't change."""
    rows = decided(
        [
            *(broker(1), broker(2), broker(3)),
            *(partition(0, [3, 1]), partition(1, [1, 2])),
            *(size(0, 100), size(1, 40)),
            fact("removed", broker_id=3),
            count("t", 3),
        ]
    )
    assert moved(rows) == {("t", 0): [(3, 2, "removed-broker")]}
    values = figures(rows)
    [stays] = [row for row in rows if row["partition"] == 1]
    assert stays["new_replicas"] == [1, 2]
    assert values == {
        "brokers": 2,
        "partitions": 3,
        "replicas": 6,
        "new_partitions": 1,
        "moved": 1,
        "required_moves": 1,
        "lower_bound": 1,
        "moves_above_bound": 0,
        "moved_bytes": 100,
        "lower_bound_bytes": 100,
        "leaders_changed": 1,
        "leaders_reordered": 0,
        "min_replicas": 3,
        "max_replicas": 3,
        "brokers_out_of_tolerance": 0,
        "min_leaders": 1,
        "max_leaders": 2,
        "leaders_out_of_tolerance": 0,
    }
    [new] = [row for row in rows if row["partition"] == 2]
    assert (new["previous_replicas"], sorted(new["new_replicas"]), new["moved_to"], new["reasons"]) == (
        None,
        [1, 2],
        [],
        [],
    )
    assert [row["bytes"] for row in rows if row["kind"] == PLACEMENT] == [100, 40, 70]


def test_leaders_that_change_without_a_move() -> None:
    """A leader that changes by order alone counts as changed and as reordered."""
    values = figures(decided([broker(1), broker(2), *(partition(at, [1, 2]) for at in range(10))]))
    assert (values["moved"], values["leaders_changed"], values["leaders_reordered"]) == (0, 5, 5)
    assert (values["min_leaders"], values["max_leaders"], values["leaders_out_of_tolerance"]) == (5, 5, 0)
    assert (values["moved_bytes"], values["lower_bound_bytes"]) == (None, None)
    stuck = figures(decided([broker(1), broker(2), *(partition(at, [1]) for at in range(10))]))
    assert (stuck["brokers_out_of_tolerance"], stuck["leaders_out_of_tolerance"]) == (2, 2)
    assert (stuck["min_replicas"], stuck["max_replicas"], stuck["min_leaders"], stuck["max_leaders"]) == (0, 10, 0, 10)


def test_unknown_sizes_are_the_mean() -> None:
    """The mean is rounded down to at least one byte; if no size is known, each is one byte."""
    base_facts = [broker(1), *(partition(at, [1]) for at in range(4))]
    for sizes, expected in (
        ([size(0, 5), size(1, 8), size(2, None)], [5, 8, 6, 6]),
        ([size(0, 0), size(3, 1)], [1, 1, 1, 1]),
        ([size(0, None)], [1, 1, 1, 1]),
        ([size(0, 7), size(0, 100, "u")], [7, 53, 53, 53]),
    ):
        rows = decided([*base_facts, *sizes])
        assert [row["bytes"] for row in rows if row["kind"] == PLACEMENT] == expected


def test_new_partitions_and_factors() -> None:
    """New partitions have the factor of the topic's first partition; a requested factor applies to all partitions."""
    base = [broker(1), broker(2), broker(3), partition(0, [1, 2]), partition(1, [1]), partition(0, [3], "a")]
    rows = decided([*base, count("t", 4)])
    plan = [
        (r["topic"], r["partition"], len(r["new_replicas"]), r["previous_replicas"] is None)
        for r in rows
        if r["kind"] == PLACEMENT
    ]
    assert plan == [
        *(("a", 0, 1, False), ("t", 0, 2, False), ("t", 1, 1, False)),
        *(("t", 2, 2, True), ("t", 3, 2, True)),
    ]
    rows = decided([*base, count("t", 3), factor("t", 3)])
    assert [len(row["new_replicas"]) for row in rows if row["kind"] == PLACEMENT] == [1, 3, 3, 3]
    same = decided([*base, count("t", 2)])
    assert len([row for row in same if row["kind"] == PLACEMENT]) == 3


def test_racks_that_change() -> None:
    """The rack after the change counts, for new and for existing brokers; brokers without a rack form one rack."""
    two = [broker(1, "a"), broker(2, "a"), broker(3), broker(4), partition(0, [1, 2])]
    assert moved(decided(two))["t", 0][0][2] == "rack"
    assert moved(decided([*two, fact("racks", broker_id=2, rack_id=None)])) == {}
    three = [broker(1, "a"), broker(2, "a"), partition(0, [1, 2]), fact("added", broker_id=7, rack_id="b")]
    assert moved(decided(three)) == {("t", 0): [(2, 7, "rack")]}
    assert moved(decided([*three, fact("racks", broker_id=7, rack_id="a")])) == {}


def test_a_broker_that_comes_may_take_what_stays() -> None:
    """By default, replicas move for balance only if brokers are added."""
    rows = [broker(1), *(partition(at, [1]) for at in range(10)), fact("added", broker_id=2)]
    assert len(moved(decided(rows))) == 5
    assert len(moved(decided(rows, voluntary=False))) == 0
    assert figures(decided(rows))["lower_bound"] == 5


def count(topic: str, amount: int) -> dict[str, Any]:
    """A requested number of partitions."""
    return fact("partitions", topic=topic, partitions=amount)


def factor(topic: str, amount: int) -> dict[str, Any]:
    """A requested replication factor."""
    return fact("replication_factors", topic=topic, replication_factor=amount)


def changed(table: str, *broker_ids: int) -> list[dict[str, Any]]:
    """Brokers that are added or removed, or whose rack changes."""
    return [fact(table, broker_id=each) for each in broker_ids]


TOO_MANY, UNKNOWN = "too-many-partitions", "unknown-topic"
NO_BROKER, TWICE, BAD = "unknown-broker", "duplicate-broker", "bad-replicas"


@pytest.mark.parametrize(
    ("more", "code", "detail"),
    [
        (
            [count("t", 1_000_001)],
            TOO_MANY,
            "partitions: 1,000,001 partitions of t, expected at most 1,000,000",
        ),
        (
            [partition(0, [1], topic="u"), count("t", 600_002), count("u", 400_002)],
            TOO_MANY,
            "partitions: 1,000,001 new partitions up to those of u, expected at most 1,000,000",
        ),
        ([count("t", 1)], "fewer-partitions", "partitions: t has 2 partitions, and Kafka can't reduce them to 1"),
        ([count("u", 1)], UNKNOWN, "partitions: replicas has no topic u. Use place for new topics"),
        ([count("t", 3), count("t", 4)], UNKNOWN, "partitions: topic t is listed twice. Remove one of the rows"),
        (
            [factor("t", 1), factor("t", 2)],
            UNKNOWN,
            "replication_factors: topic t is listed twice. Remove one of the rows",
        ),
        ([factor("u", 1)], UNKNOWN, "replication_factors: replicas has no topic u. Check its name"),
        (
            [factor("t", 4)],
            "invalid-replication-factor",
            "topic t needs 4 replicas, 3 broker(s) can have replicas. Add a broker (--add), or lower the replication "
            "factor (--replication-factor '*=3')",
        ),
        (changed("removed", 9), NO_BROKER, "removed: brokers has no broker 9. Check its id"),
        (changed("racks", 9), NO_BROKER, "racks: brokers has no broker 9. Check its id"),
        (
            [partition(2, [1, 9])],
            NO_BROKER,
            "replicas: brokers has no broker 9. Add it to brokers, or remove the broker to move its replicas",
        ),
        (changed("added", 2), "known-broker", "added: broker 2 already exists in brokers. Remove it from added"),
        ([broker(2)], TWICE, "brokers: broker 2 is listed twice. Remove one of the rows"),
        (changed("removed", 2, 2), TWICE, "removed: broker 2 is listed twice. Remove one of the rows"),
        (changed("added", 8, 8), TWICE, "added: broker 8 is listed twice. Remove one of the rows"),
        (changed("racks", 2, 2), TWICE, "racks: broker 2 is listed twice. Remove one of the rows"),
        (
            changed("removed", 1, 2, 3),
            "no-brokers",
            "All brokers are removed, fenced, or cordoned. Add a broker",
        ),
        (
            [partition(1, [1])],
            "duplicate-partition",
            "replicas: the same key twice: topic=t, partition=1. Keep one row per partition",
        ),
        (
            [size(at, bytes_) for at, bytes_ in ((1, 5), (0, 3), (1, 7), (0, 3))],
            "duplicate-partition",
            "sizes: topic=t, partition=0 is listed twice. Keep one row per partition",
        ),
        ([partition(2, [1, 1])], BAD, "replicas: duplicate broker, e.g. topic=t, partition=2. Remove one of them"),
        *(
            (
                [partition(at, of)],
                BAD,
                f"replicas: empty, null, or a partition below 0, e.g. topic=t, partition={at}. Correct the row",
            )
            for at, of in ((2, []), (-3, [1]))
        ),
        (
            [partition(2, [1] * 10_000)],
            BAD,
            "replicas: duplicate broker, e.g. topic=t, partition=2. Remove one of them",
        ),
        ([size(0, 5), size(1, -1)], "bad-sizes", "sizes: t-1 has -1 bytes. Correct the row"),
        (
            [size(0, 2**63 - 1), size(1, 2**63 - 1)],
            "bad-sizes",
            "sizes: more than 1,152,921,504,606,846,976 bytes in a cluster. Correct the rows",
        ),
        (
            [fact("rates", topic="t", partition=1, in_rate=-1)],
            "bad-load",
            "loads: topic=t, partition=1: in_bytes_per_second is negative, or not a number up to 1,000,000,000,000. "
            "Correct the row",
        ),
        (
            [fact("rates", topic="t", partition=at, in_rate=10**12, groups=1_200_000) for at in (0, 1)],
            "bad-load",
            "loads: replicas and groups have more than 4,611,686,018,427,387,904 bytes/s of in_bytes_per_second in a "
            "cluster. Correct the rows",
        ),
    ],
)
def test_what_is_to_be_mended(more: list[dict[str, Any]], code: str, detail: str) -> None:
    """The complete message of each rejection."""
    rows = decided([broker(1), broker(2), broker(3), partition(0, [1, 2]), partition(1, [2, 3]), *more])
    assert [(row["kind"], row["code"], row["detail"]) for row in rows] == [(REJECTED, code, detail)]


def test_rates_up_to_the_bound() -> None:
    """Each partition is read once per group, and once without groups. Sums of the goal `out` stay longs."""
    amounts = ((0, 10**12, 2_300_000), (1, 7, 3), (3, 10**12, 10**9))  # of the last one, there are no replicas
    rates = [fact("rates", topic="t", partition=at, in_rate=rate, groups=groups) for at, rate, groups in amounts]
    facts = [broker(1), broker(2), partition(0, [1, 2]), partition(1, [1, 2]), partition(2, [2, 1]), *rates]
    named = kinds.read_cluster(facts_of(facts))
    assert (named.in_rate.tolist(), named.read_rate.tolist()) == ([10**12, 7, 0], [23 * 10**17, 21, 0])
    share = bounded_load(named, "out", LoadGoals({"out": 0.1})).share
    assert share.tolist() == [pytest.approx((23 * 10**17 + 10**12 + 28) / 2)] * 2


def test_requests_that_repeat_or_name_nothing() -> None:
    """A duplicate row with the same count, a million partitions, removing a broker that only replicas list."""
    base = [broker(1), broker(2), partition(0, [1])]
    twice = [count("t", 2)] * 2
    assert len(decided([*base, *twice])) == 3
    rows = decided([*base, partition(1, [9]), fact("removed", broker_id=9)])
    assert moved(rows) == {("t", 1): [(9, 2, "removed-broker")]}
    assert kinds.MOST_PARTITIONS == 1_000_000
