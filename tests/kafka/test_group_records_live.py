"""Random records of `__consumer_offsets`, fresh at every run, read and written by the broker's classes and by us."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from spark_assign.wire.group_records import NEWEST, Value, read_key, read_value
from spark_assign.wire.reader import WireError
from tests.kafka import live_assignors, maven, random_group_records, random_groups
from tests.kafka.random_group_records import Bytes
from tests.unit import group_record_json

pytestmark = pytest.mark.kafka

PROGRAM = live_assignors.PROGRAM.with_name("GroupRecords.java")
EACH, DAMAGED = 40, 10_000
ONLY_BEFORE_4_1 = (0, 9)
"""Kafka 4.1 has no type 9 any more, and of type 0 only the first version."""

Row = dict[str, Any]


@pytest.fixture(params=["4.4", "4.0"])
def release(request: pytest.FixtureRequest, kafka_jars: str) -> tuple[str, list[int]]:
    """A class path, and the types that are asked of it."""
    if request.param == "4.4":
        return kafka_jars, [type for type in NEWEST if type not in ONLY_BEFORE_4_1]
    return maven.group_coordinator_classpath("4.0.0"), list(ONLY_BEFORE_4_1)


def test_records_are_read_and_written_as_the_broker_does(release: tuple[str, list[int]]) -> None:
    """What we write it reads as we do and writes alike; what it writes of the same fields are our bytes."""
    seed = random_groups.seed()
    made = list(random_group_records.records(seed, EACH, release[1]))
    read = answered([pair for _, _, pair in made], release[0])
    different = [row for row, (_, _, pair) in zip(read, made, strict=True) if differs(row, *pair)]
    assert not different, repeat(seed, different)
    again = [row for row in read if row.get("value_written", row["value"]) != row["value"]]
    again += [row for row in read if row["key_written"] != row["key"]]
    assert not again, repeat(seed, again)
    given = [
        {"type": type, "version": version, "fields": row["value_read"], "value": row["value"]}
        for row, (type, version, _) in zip(read, made, strict=True)
        if row["value"] is not None and not row["unknown"]
    ]
    written = live_assignors.answered(given, release[0], PROGRAM)
    different = [row for row in written if row["written"] != row["value"]]
    assert not different, repeat(seed, different)
    assert len(written) > 0.7 * len(made)


def test_damaged_records(release: tuple[str, list[int]]) -> None:
    """Cut, turned, added to and mixed up: refused by both, or read alike by both."""
    seed = random_groups.seed()
    sound = [pair for _, _, pair in random_group_records.records(seed, EACH, release[1])]
    harmed = list(random_group_records.damaged(seed, sound, DAMAGED))
    # A key may have been turned into a type of the other release.
    others = {type.to_bytes(2) for type in NEWEST if type not in release[1]}
    harmed = [pair for pair in harmed if pair[0][:2] not in others]
    read = answered(harmed, release[0])
    different = [row for row, pair in zip(read, harmed, strict=True) if differs(row, *pair)]
    assert not different, repeat(seed, different)
    seen = Counter("refused" if "refused" in row else "version" if "unknown_version" in row else "read" for row in read)
    assert min(seen["refused"], seen["read"]) > 0.1 * DAMAGED, seen
    assert seen["version"] > 0, seen


def answered(records: Sequence[Bytes], class_path: str) -> list[Row]:
    """What the broker's serde says to them."""
    return live_assignors.answered(
        [{"key": encoded(key), "value": encoded(value)} for key, value in records], class_path, PROGRAM
    )


def differs(row: Row, key: bytes, value: bytes | None) -> bool:
    """Whether the broker reads something else than we do, or one of both refuses it."""
    try:
        ours = read_key(key)
        told = None if value is None else read_value(ours.type, value)
    except WireError:
        return "refused" not in row
    if "refused" in row:
        return True
    if "unknown_version" in row:
        assert told is not None
        assert not 0 <= told.version <= NEWEST[ours.type]
    elif row["key_read"] != group_record_json.of_key(ours):
        return True
    return told_differs(row, ours.type, told)


def told_differs(row: Row, type: int, told: Value | None) -> bool:
    """The same of a value."""
    if told is None:
        return "value_read" in row
    said = (row["version"], row["value_read"], row["unknown"])
    return said != (told.version, group_record_json.of_value(type, told), group_record_json.of_unknown(told))


def repeat(seed: int, rows: Sequence[Row]) -> str:
    """What to say of them."""
    return f"repeat with {random_groups.SEED_VARIABLE}={seed}: {len(rows)} differ, {str(rows[0])[:3000]}"


def encoded(data: bytes | None) -> str | None:
    """As text."""
    return None if data is None else base64.b64encode(data).decode()
