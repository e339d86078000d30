"""Records of `__consumer_offsets` against rows recorded from Kafka's own classes: valid, damaged, from the future."""

from __future__ import annotations

import base64
import contextlib
import random
import struct
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from spark_assign.history.kernel.record_parser import EmbeddedProtocolReader, ParsedRecord, group_by_write
from spark_assign.wire import consumer_protocol
from spark_assign.wire.group_records import NAMES, UnknownType, read_key, read_value, write_key, write_value
from spark_assign.wire.reader import WireError
from tests.cases import keyed
from tests.kafka import group_records, streams_user_data
from tests.recorded_lines import read_rows
from tests.unit import group_record_json
from tests.unit.history_log import classic_member, generation

_ROWS = Path(__file__).parents[1] / "golden" / "wire.jsonl.gz"


def _rows() -> list[dict[str, Any]]:
    return [row for row in read_rows(_ROWS) if row["kind"] == "record"]


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
        for fields in row.get("embedded") or []:
            seen.update(fields.keys())
        if row.get("embedded"):
            members = read_value(2, _bytes(row["value"])).fields["members"]
            fields = [{name: value for name, value in each.items() if "error" not in name} for each in row["embedded"]]
            assert [_embedded(member) for member in members] == fields, row["case"]
    assert seen == keyed("member_id=988 subscription=988 assignment=988 subscription_error=106 assignment_error=145")


def _embedded(member: dict[str, Any]) -> dict[str, Any]:
    subscription: dict[str, Any] | None = None
    assignment: dict[str, Any] | None = None
    with contextlib.suppress(WireError):
        subscription = consumer_protocol.subscription(member["subscription"])
        subscription = {
            "topics": list(subscription.topics),
            "user_data": _text(subscription.user_data),
            "owned": [list(pair) for pair in subscription.owned],
            "generation": subscription.generation_id,
            "rack": subscription.rack_id,
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


def test_every_type_as_kafka_4_4_read_it() -> None:
    """Random and damaged records of every type and version; those that went with 4.1 as 4.0 read them."""
    types: Counter[int] = Counter()
    for row in read_rows(group_records.RECORDED):
        key, value = _bytes(row["key"]), None if row["value"] is None else _bytes(row["value"])
        assert not group_records.differs(row, key, value), row
        if "refused" not in row:
            types[int.from_bytes(key[:2])] += 1
            if row.get("value_written") == row["value"] is not None:
                read = read_value(int.from_bytes(key[:2]), _bytes(row["value"]))
                assert write_value(int.from_bytes(key[:2]), read.fields, read.version) == _bytes(row["value"])
    assert set(types) == set(NAMES)


def test_streams_user_data_as_its_classes_read_it() -> None:
    """What clients of every version said and were given, and damaged bytes."""
    rows = read_rows(streams_user_data.RECORDED)
    assert [row for row in rows if streams_user_data.ours(row) != streams_user_data.theirs(row)] == []
    assert Counter("refused" in row for row in rows) == {False: 102, True: 242}


def test_bytes_that_are_no_record() -> None:
    """Whatever they are, they are told apart by WireError."""
    draw = random.Random(7)
    for _ in range(3_000):
        data = draw.randbytes(draw.randint(0, 40))
        with contextlib.suppress(WireError):
            read_key(bytes([0, draw.randrange(26)]) + data)
        with contextlib.suppress(WireError):
            read_value(draw.choice(list(NAMES)), bytes([0, draw.randrange(6)]) + data)


def test_many_records_at_one_time_and_many_entries_of_one_topic() -> None:
    """In linear time."""
    keys = ({"memberId": str(number)} for number in range(40_000))
    records = [ParsedRecord(0, at, 5, "consumer", "CurrentMemberAssignment", key, {}) for at, key in enumerate(keys)]
    data = b"\0\1" + struct.pack(">i", 60_000)
    data += b"".join(b"\0\1t" + struct.pack(">ii", 1, number) for number in range(60_000)) + b"\xff" * 4
    start = time.process_time()
    assert [len(write) for write in group_by_write(records)] == [40_000]
    members = [classic_member("a", {}, ["t"], assignment=data)]
    (member,) = EmbeddedProtocolReader().read_members(generation(1, members))
    assert member.assignment == {("partition", "t"): tuple(range(60_000))}
    assert time.process_time() - start < 1


def test_a_type_that_nobody_writes() -> None:
    """Its number is told; a key too short to have one is a WireError as well."""
    with pytest.raises(UnknownType, match="type 18"):
        read_key(b"\x00\x12\x00\x01g")
    with pytest.raises(UnknownType, match="type -1"):
        read_value(-1, b"\x00\x00")
    with pytest.raises(WireError):
        read_key(b"\x00")


def test_what_cannot_be_written() -> None:
    """Unknown types, versions, fields; null, numbers, texts and uuids that there are not."""
    group = {"groupId": "g"}
    for call, match in {
        "unknown type": (lambda: write_key(18, group), "type 18"),
        "unknown version": (lambda: write_value(2, {}, 5), "version 5 of GroupMetadata: expected 0 to 4"),
        "below the first": (lambda: write_value(2, {}, -1), "version -1"),
        "unknown field": (lambda: write_key(3, {"group": "g"}), "unknown: group"),
        "null": (lambda: write_key(3, {"groupId": None}), "groupId: null"),
        "too big a number": (lambda: write_value(3, {"epoch": 1 << 31}, 0), "2147483648"),
        "too long a text": (lambda: write_key(3, {"groupId": "g" * 32_768}), "32768 bytes"),
        "no uuid": (lambda: write_value(1, {"topicId": "a"}, 4), "UUID"),
    }.values():
        with pytest.raises(WireError, match=match):
            call()


def test_defaults() -> None:
    """What is not given is what Kafka's classes start with, and so is what a version does not have."""
    value = read_value(2, write_value(2, {"members": [{"memberId": "m"}]}, 0))
    assert value.fields["currentStateTimestamp"] == -1
    assert value.fields["members"][0]["groupInstanceId"] is None
    assert value.fields["members"][0]["rebalanceTimeout"] == -1
    # Not null: a member of which nothing is written takes part by the classic protocol, for Kafka too.
    member = read_value(5, write_value(5, {}, 0)).fields
    assert member["classicMemberMetadata"] == {"sessionTimeoutMs": 0, "supportedProtocols": []}
    found = read_value(5, write_value(5, member | {"classicMemberMetadata": None}, 0)).fields
    assert found == member | {"classicMemberMetadata": None}


def test_text_that_is_no_utf_8() -> None:
    """One character for a surrogate and for each start of one, as Java has it; Python would have three."""
    for data, text in {
        b"a\xed\xa0\x80b": "a\ufffdb",
        b"\xed\xa0": "\ufffd",
        b"\xed\xa0a": "\ufffda",
        b"\xed\xc3\xa9": "\ufffd\xe9",
        b"\xed": "\ufffd",
        b"\xf0\x9f\x98a": "\ufffda",
        b"\xe0\x80\x80": "\ufffd\ufffd\ufffd",
    }.items():
        assert read_key(b"\x00\x03" + len(data).to_bytes(2) + data).fields == {"groupId": text}
