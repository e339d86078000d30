"""Recorded rebalances replayed with every assignor, and with static and dynamic members."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks.bench import Bench, Result
from spark_assign.history import replay
from spark_assign.tables.history import RECORDS
from spark_assign.wire.group_records import write_key, write_value

TOPICS, PARTITIONS, GENERATIONS = 10, 20, 10
"""Of each group."""
VARIANTS = 12
"""Six assignors, with static and dynamic members."""
START_MS, ROUND_MS = 1_790_000_000_000, 60_000


def replays(bench: Bench) -> None:
    """50 members a group, one of them replaced by another in each generation: the costs of all variants."""
    groups, members = bench.size(2_000, 4), bench.size(50, 5)
    path = write_records(bench.spark, bench.folder / f"replay-{groups}-{members}", groups, members)
    seconds = []
    for _ in range(bench.repeats):
        begin = time.perf_counter()
        summary = replay(bench.spark.read.parquet(str(path))).replay_summary
        rows, rebalances = summary.agg(F.count("*"), F.sum("rebalances")).collect()[0]
        seconds.append(time.perf_counter() - begin)
        assert rows == groups * VARIANTS, f"{rows} of {groups * VARIANTS} variants were replayed"
    took = sorted(seconds)[len(seconds) // 2]
    shape = f"{groups:,} groups x {members} members x {VARIANTS} variants"
    detail = f"{GENERATIONS} generations, {rebalances:,} rebalances, {rebalances / took:,.0f} a second"
    bench.report(Result("replay", shape, took, "s", bench.goal("<= 60"), detail))


def write_records(spark: SparkSession, path: Path, groups: int, members: int) -> Path:
    """Writes the records of the groups' generations as Parquet. There are no commits."""
    numbers = spark.range(0, groups, 1, 4)
    numbers.mapInArrow(partial(_records, members=members), RECORDS).write.mode("overwrite").parquet(str(path))
    return path


def _records(batches: Iterable[pa.RecordBatch], *, members: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = [
            {
                "cluster": "bench",
                "partition": group % 50,
                "offset": group * GENERATIONS + generation,
                "timestamp": (START_MS + generation * ROUND_MS) * 1_000,
                "key": write_key(2, {"group": f"group-{group:04}"}),
                "value": _generation(f"group-{group:04}", generation, members),
            }
            for group in batch.column(0).to_pylist()
            for generation in range(GENERATIONS)
        ]
        columns = {name: [row[name] for row in rows] for name in rows[0]} if rows else {}
        types = {"partition": pa.int32(), "timestamp": pa.timestamp("us", tz="UTC")}
        types |= {"key": pa.binary(), "value": pa.binary()}
        if rows:
            yield pa.record_batch({name: pa.array(values, types.get(name)) for name, values in columns.items()})


def _generation(group: str, generation: int, members: int) -> bytes:
    """A generation assigned by range: as many of the first members as there were generations are new ones."""
    topics = [f"{group}.topic-{number:02}".encode() for number in range(TOPICS)]
    names = b"".join(len(topic).to_bytes(2) + topic for topic in topics)
    subscription = b"\0\1" + TOPICS.to_bytes(4) + names + b"\xff\xff\xff\xff\0\0\0\0"
    rows = []
    for position in range(members):
        first, end = (PARTITIONS * rank // members for rank in (position, position + 1))
        count = (end - first).to_bytes(4)
        owned = count + b"".join(partition.to_bytes(4) for partition in range(first, end))
        topic_rows = b"".join(len(topic).to_bytes(2) + topic + owned for topic in topics)
        member: dict[str, object] = {"memberId": f"consumer-{position:03}-{int(position < generation)}"}
        member |= {"groupInstanceId": None, "clientId": f"consumer-{position:03}", "clientHost": "/10.0.0.1"}
        member |= {"rebalanceTimeout": 300_000, "sessionTimeout": 45_000, "subscription": subscription}
        rows.append(member | {"assignment": b"\0\1" + TOPICS.to_bytes(4) + topic_rows + b"\xff\xff\xff\xff"})
    head = {"protocolType": "consumer", "generation": generation + 1, "protocol": "range"}
    times = {"leader": rows[0]["memberId"], "currentStateTimestamp": START_MS + generation * ROUND_MS}
    return write_value(2, head | times | {"members": rows}, 3)
