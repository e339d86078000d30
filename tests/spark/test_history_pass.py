"""The pass over raw records by Spark: no bytes make a task fail, none is lost, and no order of the records matters."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_assign.history import HistoryThresholds, read_history
from spark_assign.tables.errors import ConfigError, FleetError
from spark_assign.tables.history import END_OFFSETS, HISTORY_TABLES, RECORDS, TOPIC_IDS
from spark_assign.wire.group_records import NEWEST, UnknownType, read_key, read_value, write_key, write_value
from spark_assign.wire.reader import WireError
from tests.frames import dataframe
from tests.recorded_lines import read_rows
from tests.spark.fleets import assert_declared
from tests.unit.group_record_bytes import mutated

pytestmark = [pytest.mark.spark]

GOLDEN = Path(__file__).parents[1] / "golden" / "wire.jsonl.gz"
SAMPLE = Path(__file__).parents[2] / "conf" / "sample-history" / "records.parquet"
START = datetime(2026, 11, 1, tzinfo=UTC)
MUTATIONS = 10_000
Record = tuple[str, int, int, datetime, bytes | None, bytes | None]


def recorded() -> Iterator[tuple[bytes, bytes | None]]:
    """Key and value of what Kafka's classes wrote, and of what a broker did: records of every type."""
    for row in read_rows(GOLDEN):
        if row["kind"] == "record":
            yield tuple(None if row[name] is None else base64.b64decode(row[name]) for name in ("key", "value"))


def fate(key: bytes | None, value: bytes | None) -> str | None:
    """By the reader of single records: the code of a record that nothing can be made of; None of the others."""
    if key is None:
        return "no-key"
    try:
        kind = read_key(key).type
        if value is None:
            return None
        if len(value) >= 2 and int.from_bytes(value[:2], signed=True) > NEWEST[kind]:
            return "newer-version"
        read_value(kind, value)
    except UnknownType:
        return "unknown-type"
    except WireError:
        return "corrupt"
    return None


def test_ten_thousand_mutations(spark: SparkSession, seed: int) -> None:
    """In one query: what cannot be read is told with its place, and all else is used."""
    rng = random.Random(seed)
    given = [*recorded(), *((row["key"], row["value"]) for row in spark.read.parquet(str(SAMPLE)).limit(300).collect())]
    pairs = list(given)
    while len(pairs) < len(given) + MUTATIONS:
        key, value = rng.choice(given)
        if rng.random() < 0.4:
            key = rng.choice([None, mutated(rng, bytes(key or b"")), mutated(rng, bytes(key or b""))])
        else:
            value = mutated(rng, bytes(value or b""))
        pairs.append((key, value))
    records = [
        ("c", at % 50, at, START + timedelta(seconds=at), None if key is None else bytes(key), value and bytes(value))
        for at, (key, value) in enumerate(pairs)
    ]
    history = read_history(dataframe(spark, RECORDS, records).repartition(4))
    rows = history.rows.where(F.col("kind").isin("groups", "unreadable")).collect()
    unreadable = {(row["partition"], row["offset"]): row for row in rows if row["kind"] == "unreadable"}
    expected = {(at % 50, at): code for at in range(len(records)) if (code := fate(*records[at][4:]))}
    assert {place: row["code"] for place, row in unreadable.items()} == expected
    assert len([row for row in rows if row["kind"] == "unreadable"]) == len(unreadable)
    for (_, at), row in unreadable.items():
        assert (row["timestamp"].replace(tzinfo=UTC), row["key"], row["value"]) == records[at][3:]
    used = sum(row["records"] for row in rows if row["kind"] == "groups")
    assert used + len(unreadable) == len(records)


def sample(spark: SparkSession) -> DataFrame:
    """Records of the sample, and some that cannot be read."""
    records = spark.read.parquet(str(SAMPLE))
    bad = records.limit(40).withColumn("offset", F.col("offset") + 10**9).withColumn("value", F.lit(b"\0\1"))
    return records.union(bad.select(*records.columns))


def test_the_same_tables_in_any_order(spark: SparkSession) -> None:
    """Shuffled, split otherwise, told by another number of tasks."""
    one = sample(spark)
    tables = sorted(map(repr, read_history(one).rows.collect()))
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    try:
        spark.conf.set(name, "5")
        other = sorted(map(repr, read_history(one.orderBy(F.rand(3)).repartition(7)).rows.collect()))
    finally:
        spark.conf.set(name, str(before))
    assert other == tables
    assert len(tables) > 300


def test_tables_have_their_columns(spark: SparkSession) -> None:
    """Those of the schemas; names of topics and ends of partitions are joined where they are given."""
    topic_id = "B7bwCk5oQxSRAg3-gGRA9A"
    key = write_key(1, {"group": "g", "topic": "t", "partition": 0})
    commit = {"offset": 5, "leaderEpoch": 0, "metadata": "", "commitTimestamp": 0}
    member = {"groupId": "g", "memberId": "m"}
    assigned = {"topicPartitions": [{"topicId": topic_id, "partitions": [0, 1]}]}
    current: dict[str, Any] = {"memberEpoch": 1, "previousMemberEpoch": 0, "state": 0, "assignedPartitions": []}
    current["assignedPartitions"] = assigned["topicPartitions"]
    current["partitionsPendingRevocation"] = []
    metadata = {"instanceId": None, "rackId": None, "clientId": "c", "clientHost": "/h", "subscribedTopicNames": ["t"]}
    metadata |= {"subscribedTopicRegex": None, "rebalanceTimeoutMs": 1, "serverAssignor": "uniform"}
    pairs = [
        (write_key(3, {"groupId": "g"}), write_value(3, {"epoch": 1}, 0)),
        (write_key(5, member), write_value(5, metadata | {"classicMemberMetadata": None}, 0)),
        (write_key(7, member), write_value(7, assigned, 0)),
        (write_key(6, {"groupId": "g"}), write_value(6, {"assignmentEpoch": 1}, 0)),
        (write_key(8, member), write_value(8, current, 0)),
        (key, write_value(1, commit, 3)),
        (write_key(1, {"group": "g", "topic": "t", "partition": 1}), write_value(1, commit | {"offset": -(2**63)}, 3)),
    ]
    rows = [("c", 3, at, START + timedelta(seconds=at), *pair) for at, pair in enumerate(pairs)]
    history = read_history(
        dataframe(spark, RECORDS, rows),
        topics=dataframe(spark, TOPIC_IDS, [("c", "t", topic_id), ("d", "other", topic_id)]),
        end_offsets=dataframe(spark, END_OFFSETS, [("c", "t", 0, 12), ("c", "t", 1, 12)]),
    )
    assert_declared(history, HISTORY_TABLES)
    assert {row["partition"]: row["lag"] for row in history.commits.collect()} == {0: 7, 1: None}
    assert {(row["topic"], row["first"], row["count"]) for row in history.ownership.collect()} == {("t", 0, 2)}
    with pytest.raises(FleetError, match=r"records\.key"):
        read_history(dataframe(spark, RECORDS, rows).drop("key").withColumn("key", F.lit(1)))
    with pytest.raises(ConfigError, match="commit_gap_ms is 0; expected at least 1 ms"):
        read_history(dataframe(spark, RECORDS, rows), HistoryThresholds(commit_gap_ms=0))
