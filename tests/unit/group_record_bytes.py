"""Random records of `__consumer_offsets`, whole, cut short and corrupt, by our writer; a seed repeats them."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass

import pyarrow as pa

from spark_assign.history.kernel.facts import RECORDS
from spark_assign.wire.group_records import write_key, write_value

START_MS = 1_790_000_000_000
_NAMES = ["g", "payments-eu", "größe-ü", "connect-a b/c:d", "x" * 249, "分析"]
_METADATA = ["", "", "checkpoint-7", "aé" * 40, "m" * 127, "m" * 126, "n" * 20_000]
_UUIDS = ["B7bwCk5oQxSRAg3-gGRA9A", "AAAAAAAAAAAAAAAAAAAAAA", "3z-oQ0B2TnqvQm5Yb1bLZw"]


@dataclass(frozen=True)
class Raw:
    """A record as `RECORDS` has it."""

    cluster: str
    partition: int
    offset: int
    at_ms: int
    key: bytes | None
    value: bytes | None


def table(records: list[Raw]) -> pa.Table:
    """Records as a table."""
    return pa.Table.from_pylist([vars(record) for record in records], schema=RECORDS)


def commit_key(rng: random.Random, kind: int = 1) -> bytes:
    """A key of an OffsetCommit."""
    fields = {"group": rng.choice(_NAMES), "topic": rng.choice(_NAMES), "partition": rng.choice([0, 1, 7, 2**31 - 1])}
    return write_key(kind, fields)


def commit_value(rng: random.Random, version: int | None = None) -> bytes:
    """A value of an OffsetCommit in any version."""
    version = rng.randrange(5) if version is None else version
    fields = {
        "offset": rng.choice([0, 5, rng.randrange(2**40), 2**63 - 1, -1]),
        "leaderEpoch": rng.choice([-1, 0, 12]),
        "metadata": rng.choice(_METADATA),
        "commitTimestamp": rng.choice([START_MS, -1, 2**63 - 1]),
        "expireTimestamp": rng.choice([-1, START_MS]),
        "topicId": rng.choice(_UUIDS),
    }
    return write_value(1, fields, version, [(5, b"later")] if version == 4 and rng.random() < 0.2 else [])


def mutated(rng: random.Random, data: bytes) -> bytes:
    """Cut short, longer, some bytes others, another version, or anything at all."""
    how = rng.randrange(6)
    if how == 0:
        return data[: rng.randrange(len(data) + 1)]
    if how == 1:
        return data + rng.randbytes(rng.randrange(1, 9))
    if how == 2:
        return struct.pack(">h", rng.randrange(-3, 20)) + data[2:]
    if how == 3:
        return rng.randbytes(rng.randrange(40))
    changed = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        if changed:
            changed[rng.randrange(len(changed))] = rng.choice([0, 1, 127, 128, 255, rng.randrange(256)])
    return bytes(changed)
