"""Consumer protocol bytes against rows recorded from Kafka's own classes: valid, damaged, from the future.

The 924 rows of kind `record` are read in `test_group_records.py`.
"""

from __future__ import annotations

import base64
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_assign.wire import consumer_protocol
from spark_assign.wire.reader import WireError
from tests.recorded_lines import read_rows
from tests.sizes import drawn

_ROWS = Path(__file__).parents[1] / "golden" / "wire.jsonl.gz"


def _rows(kind: str) -> Iterator[tuple[dict[str, Any], Any]]:
    for row in read_rows(_ROWS):
        if row["kind"] == kind:
            yield row, None if row["bytes"] is None else base64.b64decode(row["bytes"])


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _pairs(partitions: consumer_protocol.TopicPartitions) -> list[list[Any]]:
    return [list(pair) for pair in partitions]


def test_subscriptions() -> None:
    """Every recorded subscription reads as Kafka reads it, or is refused where Kafka refuses it."""
    seen = 0
    for row, data in _rows("subscription"):
        seen += 1
        if not row["valid"]:
            with pytest.raises(WireError):
                consumer_protocol.subscription(data)
            continue
        got = consumer_protocol.subscription(data)
        assert {
            "topics": list(got.topics),
            "user_data": _text(got.user_data),
            "owned": _pairs(got.owned),
            "generation": got.generation_id,
            "rack": got.rack_id,
        } == row["decoded"], row["case"]
    assert seen == 292
    assert consumer_protocol.subscription(bytes(10)).user_data == b"", "empty user data is not null"


def test_assignments() -> None:
    """Every recorded assignment reads as Kafka reads it, or is refused where Kafka refuses it."""
    seen = 0
    for row, data in _rows("assignment"):
        seen += 1
        if not row["valid"]:
            with pytest.raises(WireError):
                consumer_protocol.assignment(data)
            continue
        got = consumer_protocol.assignment(data)
        assert {"partitions": _pairs(got.partitions), "user_data": _text(got.user_data)} == row["decoded"], row["case"]
    assert seen == 243


def test_what_is_assigned_is_the_same_at_once_and_field_by_field(rng: random.Random) -> None:
    """Of recorded bytes, of thousands that were damaged at random, and where both refuse them."""
    recorded = [data for _, data in _rows("assignment") if data]
    damaged = [_damaged(rng.choice(recorded), rng) for _ in range(drawn(6_000, 20_000))]
    read = refused = 0
    for data in recorded + damaged:
        try:
            expected = consumer_protocol.assignment(data).partitions
        except WireError as error:
            refused += 1
            with pytest.raises(WireError, match=re.escape(str(error))):
                consumer_protocol.assigned(data)
            continue
        read += 1
        found = consumer_protocol.assigned(data)
        assert tuple((topic, partition) for topic, partitions in found for partition in partitions) == expected
    assert min(read, refused) > 1_000


def _damaged(data: bytes, draw: random.Random) -> bytes:
    """With one byte or four that are others, or an end that is another."""
    bytes_ = bytearray(data)
    at = draw.randrange(len(bytes_))
    match draw.randrange(4):
        case 0:
            bytes_[at] = draw.randrange(256)
        case 1:
            bytes_[at : at + 4] = draw.choice([b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0", b"\x80\0\0\0"])
        case 2:
            del bytes_[at:]
        case _:
            bytes_ += draw.randbytes(draw.randrange(9))
    return bytes(bytes_)


def test_user_data() -> None:
    """Sticky user data: ownership and generation, old format without generation, garbage."""
    types: Counter[str] = Counter()
    for row, data in _rows("user_data"):
        types[row["type"]] += 1
        if row["type"] == "sticky":
            got = consumer_protocol.sticky_user_data(data)
            decoded = {"owned": _pairs(got.owned), "generation": got.generation_id}
        else:
            decoded = {"generation": consumer_protocol.cooperative_user_data(data)}
        assert decoded == row["decoded"], row["case"]
    assert set(types) == {"sticky", "cooperative-sticky"}
    assert types.total() == 100


def test_what_is_read_elsewhere() -> None:
    """Every other row is a record of `__consumer_offsets`."""
    kinds = Counter(row["kind"] for row in read_rows(_ROWS))
    assert kinds == {"subscription": 292, "assignment": 243, "user_data": 100, "record": 924}
