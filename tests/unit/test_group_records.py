"""Records of `__consumer_offsets` against rows recorded from Kafka's own classes: valid, damaged, from the future."""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from spark_assign.wire import consumer_protocol
from spark_assign.wire.group_records import (
    NAMES,
    UnknownType,
    read_key,
    read_value,
    write_key,
    write_value,
)
from spark_assign.wire.reader import WireError
from tests.unit import group_record_json

_ROWS = Path(__file__).parents[1] / "golden" / "wire.jsonl.gz"


def _rows() -> list[dict[str, Any]]:
    with gzip.open(_ROWS, "rt", encoding="utf-8") as lines:
        return [row for row in map(json.loads, lines) if row["kind"] == "record"]


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)


def test_every_recorded_record() -> None:
    """Reads as Kafka 4.0 reads it, or is refused where Kafka refuses it; it did not know types 16 to 23 yet."""
    seen: Counter[str] = Counter()
    for row in _rows():
        seen["valid" if row["valid"] else "refused"] += 1
        if not row["valid"]:
            unknown = row["error"].endswith("UnknownRecordTypeException") and row["key_version"] not in NAMES
            with pytest.raises(UnknownType if unknown else WireError):
                read_value(read_key(_bytes(row["key"])).type, _bytes(row["value"]))
            continue
        key = read_key(_bytes(row["key"]))
        assert (key.type, key.name) == (row["key_version"], row["type"]), row["case"]
        assert group_record_json.of_key(key) == row["decoded_key"], row["case"]
        if row["value"] is None:
            seen["tombstones"] += 1
            continue
        value = read_value(key.type, _bytes(row["value"]))
        assert value.version == row["value_version"], row["case"]
        assert group_record_json.of_value(key.type, value) == row["decoded_value"], row["case"]
        assert group_record_json.of_unknown(value) == row.get("unknown_tagged_fields", []), row["case"]
    assert seen == {"valid": 688, "refused": 236, "tombstones": 96}


def test_what_members_of_recorded_groups_say() -> None:
    """Each member's subscription and assignment, or that it is unreadable."""
    seen: Counter[str] = Counter()
    for row in _rows():
        for told in row.get("embedded") or []:
            seen.update(told.keys())
        if row.get("embedded"):
            members = read_value(2, _bytes(row["value"])).fields["members"]
            told = [{name: said for name, said in each.items() if "error" not in name} for each in row["embedded"]]
            assert [_embedded(member) for member in members] == told, row["case"]
    assert seen == {
        "member_id": 988,
        "subscription": 988,
        "assignment": 988,
        "subscription_error": 106,
        "assignment_error": 145,
    }


def _embedded(member: dict[str, Any]) -> dict[str, Any]:
    subscription: dict[str, Any] | None = None
    assignment: dict[str, Any] | None = None
    with contextlib.suppress(WireError):
        said = consumer_protocol.subscription(member["subscription"])
        subscription = {
            "topics": list(said.topics),
            "user_data": _text(said.user_data),
            "owned": [list(pair) for pair in said.owned],
            "generation": said.generation_id,
            "rack": said.rack_id,
        }
    with contextlib.suppress(WireError):
        given = consumer_protocol.assignment(member["assignment"])
        assignment = {"partitions": [list(pair) for pair in given.partitions], "user_data": _text(given.user_data)}
    return {"member_id": member["memberId"], "subscription": subscription, "assignment": assignment}


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def test_what_was_recorded_is_written_as_it_was() -> None:
    """Keys and values of known versions, byte by byte."""
    seen = 0
    for row in _rows():
        if not row["valid"] or row.get("note") not in (None, "tombstone", "consumer-group", "connect-group"):
            continue
        if row["type"] == "GroupMetadata" and row.get("unknown_tagged_fields"):
            continue  # members have some, too
        seen += 1
        key = read_key(_bytes(row["key"]))
        assert write_key(key.type, key.fields) == _bytes(row["key"]), row["case"]
        if row["value"] is not None:
            value = read_value(key.type, _bytes(row["value"]))
            written = write_value(key.type, value.fields, value.version, value.unknown)
            assert written == _bytes(row["value"]), row["case"]
    assert seen == 470
