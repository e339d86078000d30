"""Groups of Spark's Kafka source are in no snapshot and in no history; tests/spark has fleets that are read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from spark_assign.history.kernel import facts
from spark_assign.sources.files.snapshot import SnapshotRows
from spark_assign.sources.kafka.groups import listed
from spark_assign.tables.groups import is_own_group
from spark_assign.wire.group_records import write_key

OWN = (
    "spark-kafka-relation-1f0c7a3e-63ac-4f5c-a1c1-cf4c0c1fb5f0-driver-0",
    "spark-kafka-source-1f0c7a3e-63ac-4f5c-a1c1-cf4c0c1fb5f0--1234-executor",
)
OTHER = ("orders", "spark-kafka", "my-spark-kafka-source-1", "Spark-kafka-source-1")


def test_their_ids() -> None:
    """Batch and stream, driver and executor; no other group."""
    assert all(map(is_own_group, OWN))
    assert not any(map(is_own_group, OTHER))


def test_they_are_not_listed() -> None:
    """So nothing is requested of them, and no count has them."""
    groups = [SimpleNamespace(group_id=name, protocol_type="consumer") for name in OWN + OTHER]
    response = SimpleNamespace(error_code=0, groups=groups)
    connection: Any = SimpleNamespace(brokers=lambda: [1], send_all=lambda _: [response])
    assert set(listed(connection, None)) == set(OTHER)
    assert set(listed(connection, "spark*")) == {"spark-kafka"}


def test_they_are_in_no_table_of_a_snapshot() -> None:
    """Also of the text of Kafka's tools."""
    rows = SnapshotRows("eu")
    for group in OWN + OTHER:
        rows.add("groups", group_id=group)
        rows.add("undescribed", group_id=group, error="x")
        rows.add_subscriptions(group, {"m": ["t"]})
        rows.add_owned(group, "m", [("t", 0)])
    rows.add("topics", topic="t", partitions=1)
    tables = rows.tables()
    for name in ("groups", "undescribed", "subscription_lists", "owned_lists"):
        assert tables[name]["group_id"].to_pylist() == list(OTHER)
    assert tables["topics"].num_rows == 1


def test_they_are_in_no_fact_of_a_history() -> None:
    """Commits, tombstones, records about the group, and records that can't be decoded; records without a group stay."""
    keys = [
        key
        for group in (*OWN, "orders")
        for key in (write_key(1, {"group": group, "topic": "t", "partition": 0}), write_key(2, {"group": group}))
    ]
    keys = [*keys, None, b"\x7f\xff"]  # type: ignore[list-item]
    rows = [
        {"cluster": "eu", "partition": 0, "offset": 2 * at + dead, "at_ms": 0, "key": key, "value": value}
        for at, key in enumerate(keys)
        for dead, value in enumerate((b"\x00\x00broken", None))
    ]
    found = facts.reduce_records(pa.Table.from_pylist(rows, facts.RECORDS), 1000)
    assert set(found["group_id"].to_pylist()) == {"orders", None}
    of_orders = [row for row in rows if row["key"] and b"orders" in row["key"]]  # type: ignore[operator]
    assert facts.reduce_records(pa.Table.from_pylist([*of_orders, *rows[-4:]], facts.RECORDS), 1000).equals(found)
