"""A topic of group records of any size as Parquet, without a broker: commits, and every so often a rebalance.

Of every ten thousand records a group has ten generations with ten members, a hundred where it is restless, and commits
its fifty partitions in turns. In the compacted form every record has a key of its own: each group has one generation
and commits 999 partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from spark_assign.tables.history import RECORDS
from spark_assign.wire.group_records import write_key, write_value

MEMBERS, PARTITIONS, OF_A_GROUP = 10, 50, 10_000
EACH = {"as written": 1_000, "restless": 100, "compacted": 1_000}
"""Of so many records one is about the group; of a compacted topic that is all of a group."""
ROUND_MS = 5_000
"""The usual auto.commit.interval.ms."""
OFFSETS_PARTITIONS = 50
START_MS = 1_790_000_000_000
_BATCH = 100_000


def written(spark: SparkSession, records: int, folder: Path, form: str) -> Path:
    """The records as Parquet under `folder`; written once."""
    path = folder / f"records-{records}-{form.replace(' ', '-')}"
    if not path.exists():
        numbers = spark.range(0, records, 1, max(records // 2_500_000, 2))
        numbers.mapInArrow(partial(_records, form=form), RECORDS).write.parquet(str(path))
    return path


def _records(batches: Iterable[pa.RecordBatch], *, form: str) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        numbers = batch.column(0).to_numpy()
        for begin in range(0, len(numbers), _BATCH):
            yield _made(numbers[begin : begin + _BATCH], form)


def rows_as_written(number: np.ndarray) -> Iterator[tuple[int, bytes, bytes]]:
    """Time, key, and value of records of the topic as written."""
    for begin in range(0, len(number), _BATCH):
        made = _made(number[begin : begin + _BATCH], "as written")
        at_us = made["timestamp"].cast(pa.int64()).to_pylist()
        for at, key, value in zip(at_us, made["key"].to_pylist(), made["value"].to_pylist(), strict=True):
            yield at // 1_000, key, value


def _made(number: np.ndarray, form: str) -> pa.RecordBatch:
    each, compacted = EACH[form], form == "compacted"
    group, place = np.divmod(number, each if compacted else OF_A_GROUP)
    generation = place // each
    about = place % each == 0
    turn, partition = np.divmod(place - generation - 1, each if compacted else PARTITIONS)
    at_ms = START_MS + turn * ROUND_MS + partition
    keys, values = np.empty(len(number), object), np.empty(len(number), object)
    for which in np.unique(group).tolist():
        mine = group == which
        rows = np.flatnonzero(mine & ~about)
        keys[rows] = _commit_keys(which, partition[rows])
        values[rows] = _commit_values(at_ms[rows], turn[rows] * 1_000 + partition[rows])
        for row in np.flatnonzero(mine & about).tolist():
            keys[row] = write_key(2, {"group": f"group-{which}"})
            values[row] = _rebalance(which, int(generation[row]), int(at_ms[row]))
    columns = {
        "cluster": pa.array(np.full(len(number), "cluster-0")),
        "partition": pa.array((group % OFFSETS_PARTITIONS).astype(np.int32)),
        "offset": pa.array(number),
        "timestamp": pa.array(at_ms * 1_000).view(pa.timestamp("us", tz="UTC")),
        "key": pa.array(keys, pa.binary()),
        "value": pa.array(values, pa.binary()),
    }
    return pa.record_batch(columns)


def _commit_keys(group: int, partition: np.ndarray) -> list[bytes]:
    head = write_key(1, {"group": f"group-{group}", "topic": f"orders-{group}.events", "partition": 0})[:-4]
    whole = partition.astype(">i4").tobytes()
    return [head + whole[at : at + 4] for at in range(0, len(whole), 4)]


def _commit_values(at_ms: np.ndarray, offset: np.ndarray) -> list[bytes]:
    """Version 3, without metadata."""
    rows = np.zeros((len(at_ms), 24), np.uint8)
    rows[:, 1] = 3
    rows[:, 2:10] = offset.astype(">i8")[:, None].view(np.uint8)
    rows[:, 16:24] = at_ms.astype(">i8")[:, None].view(np.uint8)
    whole = rows.tobytes()
    return [whole[at : at + 24] for at in range(0, len(whole), 24)]


def _rebalance(group: int, generation: int, at_ms: int) -> bytes:
    """A generation of ten members, one of which is another in each."""
    names = [f"consumer-{group}-{member + MEMBERS * (generation % MEMBERS > member)}" for member in range(MEMBERS)]
    topic = f"orders-{group}.events".encode()
    subscription = b"\0\1\0\0\0\1" + len(topic).to_bytes(2) + topic + b"\xff\xff\xff\xff\0\0\0\0"
    each = PARTITIONS // MEMBERS
    members = []
    for place, name in enumerate(names):
        owned = np.arange(place * each, (place + 1) * each, dtype=">i4").tobytes()
        assignment = b"\0\1\0\0\0\1" + len(topic).to_bytes(2) + topic + each.to_bytes(4) + owned + b"\xff\xff\xff\xff"
        member: dict[str, object] = {
            "memberId": name,
            "groupInstanceId": None,
            "clientId": name,
            "clientHost": "/10.0.0.1",
        }
        member |= {"rebalanceTimeout": 300_000, "sessionTimeout": 45_000}
        members.append(member | {"subscription": subscription, "assignment": assignment})
    head = {"protocolType": "consumer", "generation": generation + 1, "protocol": "range", "leader": names[0]}
    return write_value(2, head | {"currentStateTimestamp": at_ms, "members": members}, 3)
