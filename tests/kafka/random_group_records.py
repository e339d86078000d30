"""Random records of `__consumer_offsets`: of every type and version, and damaged ones."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator, Sequence
from typing import Any

from spark_assign.wire.group_records import RECORDS, write_key, write_value
from spark_assign.wire.group_records.record_types import Field, Kind, Many, Struct

Bytes = tuple[bytes, bytes | None]
"""Key and value; without a value it is a tombstone."""

_NUMBERS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_TEXTS = ("", "g", "orders-consumer", "分析-group", "\U0001f600", "\u0000", "\u2028", "\uffff", "x" * 200, "ä" * 1_000)
# Nothing, the ends of short lengths, surrogates, half a character, an overlong one: what UTF-8 does not have.
_ODD = (
    b"\x00",
    b"\x80",
    b"\xff" * 5,
    *(b"\x80\x80\x80\x80\x10", b"\xed\xa0\x80", b"\xed\xa0", b"\xf0\x9f\x98", b"\xc0\xaf"),
)


def records(seed: int, each: int, types: Sequence[int] = tuple(RECORDS)) -> Iterator[tuple[int, int, Bytes]]:
    """Of each type and version so many, written by us: type, version, key and value."""
    draw = random.Random(f"records-{seed}")
    for type in types:
        record = RECORDS[type]
        for version in range(record.newest + 1):
            for _ in range(each):
                key = write_key(type, _fields(draw, record.key, 0))
                unknown = _unknown(draw) if version >= record.flexible and draw.random() < 0.2 else []
                value = write_value(type, _fields(draw, record.value, version), version, unknown)
                yield type, version, (key, None if draw.random() < 0.05 else value)


def damaged(seed: int, sound: Sequence[Bytes], number: int) -> Iterator[Bytes]:
    """So many that were cut, turned, added to or mixed up, in the value or (one of ten) in the key."""
    draw = random.Random(f"damaged-{seed}")
    sound = [(key, value) for key, value in sound if value is not None and len(value) < 2_000]
    for _ in range(number):
        key, value = draw.choice(sound)
        assert value is not None
        for _ in range(draw.choice([1, 1, 1, 2, 5])):
            if draw.random() < 0.1:
                key = harmed(draw, key)
            else:
                value = harmed(draw, value)
        yield key, value


def harmed(draw: random.Random, data: bytes) -> bytes:
    """Bytes with one fault."""
    found = bytearray(data)
    # Lengths and versions stand at the start, tagged fields at the end.
    at, other = (min(draw.choice([draw.randrange(4), draw.randrange(len(data) + 1)]), len(data)) for _ in range(2))
    match draw.choice(["cut", "turn", "set", "insert", "odd", "swap", "remove"]):
        case "cut":
            del found[at:]
        case "turn" if at < len(data):
            found[at] ^= 1 << draw.randrange(8)
        case "set" if at < len(data):
            found[at] = draw.choice([0, 1, 2, 0x7F, 0x80, 0xFF, draw.randrange(256)])
        case "insert":
            found[at:at] = draw.randbytes(draw.randint(1, 4))
        case "odd":
            odd = draw.choice(_ODD)
            found[at : at + len(odd)] = odd
        case "swap" if max(at, other) < len(data):
            found[at], found[other] = found[other], found[at]
        case "remove":
            del found[at : at + draw.randint(1, 4)]
    return bytes(found)


def _fields(draw: random.Random, fields: Sequence[Field], version: int) -> dict[str, Any]:
    return {field.name: _value_of(draw, field, version) for field in fields if field.there(version)}


def _value_of(draw: random.Random, field: Field, version: int) -> Any:
    if field.tag is not None and draw.random() < 0.4:
        return field.default
    return None if field.nullable and draw.random() < 0.3 else _value(draw, field.kind, version)


def _value(draw: random.Random, kind: Kind, version: int) -> Any:
    if isinstance(kind, Many):
        return [_value(draw, kind.of, version) for _ in range(draw.choice([0, 1, 1, 2, 3]))]
    if isinstance(kind, Struct):
        return _fields(draw, kind.fields, version)
    if kind in _NUMBERS:
        ends = 1 << _NUMBERS[kind] - 1
        return draw.choice([-1, 0, 1, 100, -ends, ends - 1, draw.randrange(-ends, ends)])
    if kind == "uint16":
        return draw.randrange(1 << 16)
    if kind == "string":
        return draw.choice(_TEXTS) if draw.random() < 0.3 else f"consumer-{draw.getrandbits(40):x}"
    if kind == "uuid":
        return base64.urlsafe_b64encode(draw.randbytes(16))[:22].decode()
    return draw.randbytes(draw.choice([0, 1, 20, 200]))


def _unknown(draw: random.Random) -> list[tuple[int, bytes]]:
    return [(tag, draw.randbytes(draw.choice([0, 3, 150]))) for tag in sorted(draw.sample(range(10, 400), 2))]
