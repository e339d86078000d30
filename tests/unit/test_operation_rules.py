"""What a change of brokers or replicas does to a group, rule by rule; and the order of a rolling restart."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from spark_assign.replicas.kernel import group_effects as rules
from spark_assign.replicas.kernel.restart_order import Leadership, fewest_moves, restart_orders
from spark_assign.replicas.operation import _ORDER_FACTS
from spark_assign.tables.replicas import EFFECTS, GROUP_EVENT_ROWS, ORDERS
from tests.cases import cases, tuples

KNOWN = {"leader_library": "Java", "leader_version": "3.5-4.3", "racked_members": 2}


def effects(event: str = "restart", release: str = "4.4", **values: Any) -> dict[str, dict[str, Any]]:
    """The effects of an event on a group with two members and six partitions, by cause."""
    row = {field.name: 0 if field.dataType.typeName() == "long" else None for field in GROUP_EVENT_ROWS}
    row |= {"cluster": "c", "group_id": "g", "step": 1, "event": event, "assignor": "range"}
    row |= {"members": 2, "partitions": 6, **values}
    table = pa.Table.from_pylist([row], to_arrow_schema(GROUP_EVENT_ROWS))
    (found,) = rules.group_effects(table, to_arrow_schema(EFFECTS), broker_release=release, downtime_seconds=60.0)
    return {effect["cause"]: effect for effect in found.to_pylist()}


def between(effect: dict[str, Any], name: str) -> tuple[Any, Any]:
    """Minimum and maximum."""
    return effect[f"min_{name}"], effect[f"max_{name}"]


@cases(
    "values rebalances",
    (KNOWN, (0, 2)),
    (KNOWN | {"leader_version": "4.4"}, None),
    (KNOWN | {"leader_version": "4.4+"}, None),
    (KNOWN | {"leader_version": "2.8-3.3"}, None),
    (KNOWN | {"leader_version": "3.4+"}, (0, 2)),
    (KNOWN | {"racked_members": 0}, None),
    (KNOWN | {"leader_library": None, "leader_version": None}, (0, 2)),
    (KNOWN | {"leader_library": "librdkafka", "leader_version": None}, (0, 2)),
    (KNOWN | {"leader_library": "franz-go", "leader_version": None}, None),
    (KNOWN | {"group_type": "consumer"}, None),
)
def test_a_broker_bounces(values: dict[str, Any], rebalances: tuple[int, int] | None) -> None:
    """Two rebalances with a rack-aware leader of a Java client before 4.4 (KAFKA-20778); none with any other."""
    found = effects(hosted=3, **values)
    assert (between(found["broker-bounce"], "rebalances") if found else None) == rebalances


def test_a_broker_stays_down() -> None:
    """One rebalance, certain if every member has a rack; the crash is noticed after the session of the broker."""
    found = effects("down", hosted=3, min_leaders=2, max_leaders=2, offline=1, **KNOWN)
    assert between(found["broker-bounce"], "rebalances") == (1, 1)
    assert between(effects("down", hosted=3, **KNOWN | {"racked_members": 1})["broker-bounce"], "rebalances") == (0, 1)
    assert between(found["leaders-moved"], "paused_partition_seconds") == (14.0, 20.0)
    assert between(found["partition-offline"], "paused_partition_seconds") == (None, None)


def test_a_clean_restart() -> None:
    """Leaders move before the broker stops; a partition without another replica waits for it; nobody rejoins."""
    found = effects(hosted=3, min_leaders=2, max_leaders=2, offline=1, min_coordinator=2, max_coordinator=2)
    assert between(found["leaders-moved"], "paused_partition_seconds") == (0.0, 2.0)
    assert between(found["partition-offline"], "paused_partition_seconds") == (60.0, 60.0)
    assert between(found["coordinator-moved"], "moves") == (2, 2)
    assert {effect["max_rebalances"] for effect in found.values()} == {0}


@pytest.mark.parametrize("group_type", ["consumer", "share", "streams"])
def test_racks_of_replicas_change(group_type: str) -> None:
    """Groups of the broker get epochs since 4.1 (KIP-1101), in which nothing stops."""
    changed = {"min_hash": 1, "max_hash": 4, "min_racks": 1, "max_racks": 2}
    (effect,) = effects("reassign", group_type=group_type, racked_members=2, **changed).values()
    assert effect["cause"] == "rack-hash"
    assert (between(effect, "epochs"), between(effect, "rebalances")) == ((1, 4), (0, 0))
    assert between(effect, "paused_partition_seconds") == (0.0, 0.0)
    assert not effects("reassign", "4.0", group_type=group_type, **changed)


def test_the_leader_sees_other_racks() -> None:
    """A classic group rebalances if the leader has a rack: certain only if all members have one."""
    changed = {"min_hash": 1, "max_hash": 4, "min_racks": 1, "max_racks": 2}
    effect = effects("reassign", **changed, **KNOWN)["leader-racks"]
    assert (between(effect, "rebalances"), effect["paused_partitions"]) == ((1, 2), 6)
    assert between(effect, "paused_partition_seconds") == (0.0, None)
    cooperative = effects("reassign", assignor="cooperative-sticky", **changed, **KNOWN)["leader-racks"]
    assert cooperative["paused_partitions"] == 0
    mixed = effects("reassign", **changed, **KNOWN | {"racked_members": 1})["leader-racks"]
    assert between(mixed, "rebalances") == (0, 2)
    assert not effects("reassign", **changed, leader_library="Java", leader_version="4.4")


def test_topics_grow() -> None:
    """The leader of a classic group rejoins; a group of the broker only gets the new partitions."""
    assert between(effects("grow", grown=2, **KNOWN)["topic-grown"], "rebalances") == (1, 2)
    assert between(effects("grow", grown=2)["topic-grown"], "rebalances") == (0, 2)
    librdkafka = {"leader_library": "librdkafka", "assignor": "range"}
    effect = effects("grow", grown=2, **librdkafka)["topic-grown"]
    assert between(effect, "rebalances") == (0, 2)
    assert "stay unassigned until the next rebalance" in effect["detail"]
    sees = librdkafka | {"assignor": "cooperative-sticky"}
    assert between(effects("grow", grown=2, **sees)["topic-grown"], "rebalances") == (1, 2)
    effect = effects("grow", grown=2, group_type="consumer")["topic-grown"]
    assert (between(effect, "rebalances"), between(effect, "epochs")) == ((0, 0), (1, 2))
    assert between(effects("grow", grown=2, group_type="share")["topic-grown"], "epochs") == (1, 4)
    effect = effects("grow", grown=1, group_type="streams")["topic-grown"]
    assert (between(effect, "epochs"), between(effect, "paused_partition_seconds")) == ((1, 3), (0.0, None))


def test_every_cause_has_a_rule() -> None:
    """Each names its source, its releases, and how it is known."""
    causes = {*effects(hosted=1, max_leaders=1, offline=1, max_coordinator=1, max_racks=1, grown=1, **KNOWN)}
    assert causes | {rules.RACK_HASH} == set(rules.RULES)
    assert {rule.evidence for rule in rules.RULES.values()} <= {rules.LIVE, rules.SOURCE, rules.INFERRED}


def test_the_partition_of_a_group() -> None:
    """abs(String.hashCode); that of -2**31 is 0, as in Kafka's Utils.abs."""
    assert rules.coordinator_hashes(["polygenelubricants", "a", "", "orders-service"]).tolist() == [0, 97, 0, 23943117]


SHARED = pa.schema([("cluster", pa.string()), ("partition", pa.int32()), ("groups", pa.int64()), ("keys", pa.int64())])
SHARE_FACTS = ("cluster", "group_id", "topic_id", "partitions", "state_partitions")


def share_counts(*rows: tuple[str, str, str, int, int]) -> list[tuple[Any, ...]]:
    """Cluster, partition, groups, and keys of each row."""
    facts = pa.table(dict(zip(SHARE_FACTS, zip(*rows, strict=True), strict=True)))
    found = pa.concat_tables(rules.share_partition_counts(facts, SHARED))
    return [tuple(row.values()) for row in found.to_pylist()]


@pytest.mark.parametrize("at_once", [1, 7, 1 << 20])
def test_share_partitions_by_the_hash_of_their_keys(
    at_once: int, rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Java has the hash of each whole key, however many are hashed at once."""
    monkeypatch.setattr(rules, "_AT_ONCE", at_once)
    names, topics = (
        ("", "g", "a:b", "\u00e9\U0001f600", "x" * 300),
        ("AAAAAAAAAAAAAAAAAAAAAQ", "t", "longer-\U0001f600"),
    )
    pairs = [(name, topic, rng.choice((1, 9, 10, 11, 100, 123))) for name in names for topic in topics]
    rng.shuffle(pairs)
    expected: dict[int, list[str]] = {}
    for name, topic, size in pairs:
        for hashed in rules.coordinator_hashes([f"{name}:{topic}:{number}" for number in range(size)]).tolist():
            expected.setdefault(hashed % 5, []).append(name)
    by_hand = [("c", each, len(set(found)), len(found)) for each, found in sorted(expected.items())]
    assert share_counts(*(("c", *pair, 5) for pair in pairs)) == by_hand


def test_share_partitions_without_number() -> None:
    """Share groups times partitions are bounded for each cluster; those that are counted are never rows."""
    many = [("many", f"g{each}", "t", 1_000_000, 50) for each in range(1_000)]
    found = share_counts(*many, ("other", "g", "t", 1_000_000, 3), ("wide", "g", "t", 1, 1_000_001))
    assert [row for row in found if row[1] is None] == [("many", None, 0, 0), ("wide", None, 0, 0)]
    assert sum(keys for cluster, _, _, keys in found if cluster == "other") == 1_000_000


def moves(replicas: list[list[int]], leaders: list[int], order: Sequence[int], *, returning: bool = False) -> int:
    """Moves of leaders, partition by partition; leaders stay, or return after each restart of one of their replicas."""
    count = 0
    for brokers, leader in zip(replicas, leaders, strict=True):
        for broker in order:
            if leader == broker and len(brokers) > 1:
                leader = next(other for other in brokers if other != broker)
                count += 1
            if returning and broker in brokers and leader != brokers[0]:
                leader = brokers[0]
                count += 1
    return count


@pytest.mark.parametrize("seed", range(20))
def test_order_against_all_orders(rng: random.Random) -> None:
    """The counts are those of a loop, and no order of few brokers has fewer moves."""
    replicas = [rng.sample(range(10, 15), rng.randint(1, 5)) for _ in range(12)]
    leader = [rng.choice(brokers) for brokers in replicas]
    leadership = Leadership(replicas, leader, [1] * 12, [2] * 12)
    orders = list(permutations(range(10, 15)))
    for order in orders[::7]:
        assert leadership.count(order) == (moves(replicas, leader, order), 2 * moves(replicas, leader, order))
    found = leadership.count(fewest_moves(leadership, range(10, 15)))[0]
    assert found == min(moves(replicas, leader, each) for each in orders)
    some = [10, 12, 13]
    returning = moves(replicas, leader, some, returning=True)
    assert leadership.count_returning(some) == (returning, 2 * returning)


def test_order_of_many_brokers() -> None:
    """Every broker restarts once, with no more moves than in the given order, although some have no replicas."""
    draw = random.Random(1)
    replicas = [draw.sample(range(20), draw.choice([1, 2, 3])) for _ in range(300)]
    leadership = Leadership(replicas, [each[0] for each in replicas], [draw.randrange(3) for _ in replicas], [1] * 300)
    order = fewest_moves(leadership, range(25))
    assert sorted(order) == list(range(25))
    assert leadership.count(order) < leadership.count(range(25))


def test_one_long_list_of_replicas() -> None:
    """It doesn't make the others as long, nor is the order of the brokers repeated for each of them."""
    lists = [*([at % 50, (at + 1) % 50, (at + 2) % 50] for at in range(300)), [*range(1_000)]]
    leadership = Leadership(lists, [each[-1] for each in lists], [1] * 301, [1] * 301)
    assert leadership.replicas.shape == (301, 3)
    assert leadership.count(range(1_000))[0] == moves(lists, [each[-1] for each in lists], range(1_000))
    rows = [{"replicas": each, "leader_id": each[0], "groups": 1, "partitions": 1} for each in ([1, 2], [2, 3])]
    table = pa.Table.from_pylist(
        [{"cluster": "c", **row} for row in (*rows, {"brokers": [3, 2]})], to_arrow_schema(_ORDER_FACTS)
    )
    (found,) = restart_orders(table, to_arrow_schema(ORDERS))
    assert found["brokers"].to_pylist() == [[3, 2]] * 4
    assert not list(restart_orders(table.slice(2), to_arrow_schema(ORDERS))), "a cluster without partitions"


def test_orders_of_clusters() -> None:
    """Four rows per cluster: the given order, and the best one; each with leaders that return, and that stay."""
    pairs = ([1, 2], [2, 3], [3, 1])
    rows = [{"cluster": "c", "replicas": pair, "leader_id": pair[0], "groups": 1, "partitions": 3} for pair in pairs]
    table = pa.Table.from_pylist([row | {"brokers": [1, 2, 3]} for row in rows])
    (found,) = restart_orders(table, to_arrow_schema(ORDERS))
    assert [tuple(row.values()) for row in found.to_pylist()] == tuples(
        "c given True [1,2,3] 6 18; c given False [1,2,3] 5 15; "
        "c fewest-moves True [1,3,2] 6 18; c fewest-moves False [1,3,2] 4 12"
    )
