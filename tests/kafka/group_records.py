"""Records of `__consumer_offsets` as the broker's own serde reads them (`java/GroupRecords.java`), and as we do."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spark_assign.wire.group_records import NEWEST, Value, read_key, read_value
from spark_assign.wire.reader import WireError
from tests.kafka import live_assignors
from tests.kafka.random_group_records import Bytes
from tests.unit import group_record_json

Row = dict[str, Any]

PROGRAM = "GroupRecords"
RECORDED = Path(__file__).parents[1] / "unit" / "group_records.jsonl.gz"
"""Answers, for a test without Java (`python -m tests.kafka.record_group_records`)."""
ONLY_BEFORE_4_1 = (0, 9)
"""Kafka 4.1 has no type 9 any more, and of type 0 only the first version."""
SINCE_4_1 = tuple(type for type in NEWEST if type not in ONLY_BEFORE_4_1)


def answered(records: Sequence[Bytes], class_path: str) -> list[Row]:
    """What the broker's serde says to them."""
    return live_assignors.answered([{"key": encoded(k), "value": encoded(v)} for k, v in records], class_path, PROGRAM)


def differs(row: Row, key: bytes, value: bytes | None) -> bool:
    """Whether the broker reads something else than we do, or one of both refuses it."""
    try:
        ours = read_key(key)
        decoded = None if value is None else read_value(ours.type, value)
    except WireError:
        return "refused" not in row
    if "refused" in row:
        return True
    if "unknown_version" in row:
        assert decoded is not None
        assert not 0 <= decoded.version <= NEWEST[ours.type]
    elif row["key_read"] != group_record_json.of_key(ours):
        return True
    return value_differs(row, ours.type, decoded)


def refused_since_4_4(key: bytes, value: bytes | None) -> bool:
    """Whether less than no tagged fields are announced, which is none for releases before 4.4."""
    try:
        read_value(read_key(key).type, value or b"")
    except WireError as reason:
        return "tagged fields announced" in str(reason)
    return False


def value_differs(row: Row, type: int, decoded: Value | None) -> bool:
    """The same of a value."""
    if decoded is None:
        return "value_read" in row
    return (row["version"], row["value_read"], row["unknown"]) != (
        decoded.version,
        group_record_json.of_value(type, decoded),
        group_record_json.of_unknown(decoded),
    )


def encoded(data: bytes | None) -> str | None:
    """As text."""
    return None if data is None else base64.b64encode(data).decode()


def differing(rows: Sequence[Row]) -> str:
    """The message for rows that differ."""
    return f"{len(rows)} differ, {str(rows[0])[:3000]}"
