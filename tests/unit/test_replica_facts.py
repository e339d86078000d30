"""Facts of clusters to reassign: rejections and their reasons; the order of rows has no effect."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from spark_assign.groups.kernel.tagged_rows import rows_of_tables
from spark_assign.replicas.kernel import reassignment_facts as kinds
from spark_assign.replicas.kernel.reassign_table import METRICS, PLACEMENT, REJECTED, reassign_clusters
from spark_assign.replicas.reassignment import REASSIGNMENT_ROWS

REPLICAS = pa.struct({"topic": pa.string(), "partition": pa.int32(), "replicas": pa.list_(pa.int32())})


def fact(table: str, **columns: Any) -> dict[str, Any]:
    return {"cluster": "c", "table": table} | columns


def brokers(*ids: int) -> list[dict[str, Any]]:
    return [fact("brokers", broker_id=each, rack_id=f"r{each % 2}") for each in ids]


def partition(number: int, replicas: list[int | None] | None, topic: str = "t") -> dict[str, Any]:
    return fact("replicas", topic=topic, partition=number, replicas=replicas)


def decided(rows: list[dict[str, Any]], voluntary: bool | None = None) -> list[dict[str, Any]]:
    schema = to_arrow_schema(REASSIGNMENT_ROWS)
    return pa.concat_tables(reassign_clusters(facts_of(rows), schema, 0.1, voluntary)).to_pylist()


def facts_of(rows: list[dict[str, Any]]) -> pa.Table:
    """The facts of a cluster, from the rows of its tables."""
    tables = {name: [row for row in rows if row["table"] == name] for name in kinds.TABLES}
    table = rows_of_tables(tables, ["cluster"], kinds.TABLES)
    at = table.column_names.index("replicas")
    return table.set_column(at, "replicas", table["replicas"].cast(pa.list_(REPLICAS)))


GOOD = [*brokers(0, 1, 2, 3), partition(0, [0, 1]), partition(1, [2, 3])]


@pytest.mark.parametrize(
    ("more", "code", "detail"),
    [
        ([fact("removed", broker_id=9)], "unknown-broker", "removed: brokers has no broker 9"),
        ([fact("racks", broker_id=9, rack_id="r")], "unknown-broker", "racks: brokers has no broker 9"),
        ([partition(2, [0, 9])], "unknown-broker", "replicas: brokers has no broker 9"),
        ([fact("added", broker_id=3)], "known-broker", "added: broker 3"),
        (brokers(3), "duplicate-broker", "brokers: broker 3 is listed twice"),
        (
            [fact("removed", broker_id=each) for each in range(4)],
            "no-brokers",
            "All brokers are removed, fenced, or cordoned",
        ),
        (
            [fact("partitions", topic="t", partitions=1)],
            "fewer-partitions",
            "t has 2 partitions, and Kafka can't reduce them to 1",
        ),
        ([fact("partitions", topic="u", partitions=1)], "unknown-topic", "partitions: replicas has no topic u"),
        (
            [fact("replication_factors", topic="u", replication_factor=1)],
            "unknown-topic",
            "replication_factors: replicas has no topic u",
        ),
        (
            [fact("replication_factors", topic="t", replication_factor=5)],
            "invalid-replication-factor",
            "t needs 5 replicas, 4 broker(s)",
        ),
        (
            [fact("replication_factors", topic="t", replication_factor=0)],
            "invalid-replication-factor",
            "t needs 0 replicas",
        ),
        ([partition(1, [0, 1])], "duplicate-partition", "topic=t, partition=1"),
        ([partition(2, [1, 1])], "bad-replicas", "duplicate broker, e.g. topic=t, partition=2"),
        ([partition(2, [])], "bad-replicas", "e.g. topic=t, partition=2"),
        (
            [*brokers(*range(4, 1_001)), partition(2, [*range(1_001)])],
            "bad-replicas",
            "more than 1,000 replicas of one of 3 partitions: topic=t, partition=2",
        ),
        ([partition(2, None)], "bad-replicas", "e.g. topic=t, partition=2"),
        ([partition(2, [1, None])], "bad-replicas", "null, or a partition below 0, e.g. topic=t, partition=2"),
        (
            [
                *brokers(*range(4, 1_000)),
                partition(2, [*range(1_000)]),
                fact("partitions", topic="t", partitions=10**6),
            ],
            "bad-replicas",
            "a partition has 1,000 replicas, too many for 1,000,000 of t",
        ),
        ([partition(-1, [1])], "bad-replicas", "partition=-1"),
    ],
)
def test_a_cluster_that_cannot_be_planned(more: list[dict[str, Any]], code: str, detail: str) -> None:
    """It's rejected with a remedy; another cluster in the same table is planned."""
    other = [row | {"cluster": "d"} for row in GOOD]
    rows = decided(GOOD + more + other)
    [rejected] = [row for row in rows if row["kind"] == REJECTED]
    assert (rejected["cluster"], rejected["code"]) == ("c", code)
    assert detail in rejected["detail"]
    assert {row["cluster"] for row in rows if row["kind"] == PLACEMENT} == {"d"}


def test_the_order_of_rows_does_not_matter() -> None:
    """The same rows shuffled give the same plan."""
    rows = [*brokers(*range(7)), fact("removed", broker_id=6), fact("added", broker_id=9, rack_id="r1")]
    rows += [
        partition(at, [at % 7, (at + 1) % 7, (at + 3) % 7], topic) for at in range(20) for topic in ("t", "é", "a.b")
    ]
    rows += [fact("replication_factors", topic="t", replication_factor=2), fact("partitions", topic="é", partitions=23)]
    rows += [row | {"cluster": "other"} for row in GOOD]
    once = decided(rows)
    for seed in range(5):
        random.Random(seed).shuffle(rows)
        assert decided(rows) == once
    named = next(row for row in once if row["kind"] == METRICS and row["cluster"] == "c")
    assert named["moved"] == named["lower_bound"] > named["required_moves"]
    assert (named["partitions"], named["new_partitions"]) == (63, 3)


def test_a_broker_that_is_gone_already_can_be_removed() -> None:
    """If only `replicas` lists a broker, removing it moves its replicas."""
    rows = decided([*GOOD, partition(2, [9, 0]), fact("removed", broker_id=9)])
    [moved] = [row for row in rows if row["kind"] == PLACEMENT and row["moved_to"]]
    assert (moved["moved_from"], moved["reasons"], moved["previous_replicas"]) == ([9], ["removed-broker"], [9, 0])


def test_a_cluster_without_partitions() -> None:
    """A cluster of brokers only has an empty plan."""
    [figures] = decided(brokers(0, 1))
    assert [figures[name] for name in ("brokers", "partitions", "replicas")] == [2, 0, 0]


def test_names_of_topics_are_no_arrays() -> None:
    """A name of 32 kB isn't multiplied by the partitions of other topics, and two names that only NumPy takes for one
    stay two."""
    rows = [*brokers(0, 1), partition(0, [0], "x" * 32_767), partition(0, [0], "a"), partition(0, [1], "a\0")]
    rows += [partition(at, [at % 2]) for at in range(1_000)]
    rows += [fact("partitions", topic="x" * 32_767, partitions=1_000)]
    table = facts_of(rows)
    tracemalloc.start()
    named = kinds.read_cluster(table)
    assert tracemalloc.get_traced_memory()[1] < 10 << 20
    tracemalloc.stop()
    assert [named.topic.count(name) for name in ("a", "a\0", "t", "x" * 32_767)] == [1, 1, 1_000, 1_000]
