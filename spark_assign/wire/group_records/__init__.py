"""The records of `__consumer_offsets`, of Kafka 2.x to 4.4, read and written as `GroupCoordinatorRecordSerde` does.

The tables `classic`, `consumer`, `share` and `streams` declare them; `decoder` and `encoder` go by the tables. Fields
are named as in Kafka's JSON form, bytes are bytes, uuids text. Extra bytes at the end are ignored. Tagged fields of
newer releases are kept where they belong to the value itself, and left out of what stands inside of it.

A value of a version that is not known is read in the newest layout, below 0 in the first one, and fails where the bytes
do not fit: so do Kafka's message classes. Their serde refuses it before that since 4.0; who wants that, too, holds
`Value.version` against `NEWEST`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from spark_assign.wire.group_records.classic import RECORDS as _OF_CLASSIC
from spark_assign.wire.group_records.consumer import RECORDS as _OF_CONSUMER
from spark_assign.wire.group_records.decoder import StructDecoder
from spark_assign.wire.group_records.encoder import write
from spark_assign.wire.group_records.group_metadata_fast_path import GROUP_METADATA, read_generation
from spark_assign.wire.group_records.record_schema import Record, Struct
from spark_assign.wire.group_records.share import RECORDS as _OF_SHARE
from spark_assign.wire.group_records.streams import RECORDS as _OF_STREAMS
from spark_assign.wire.reader import Reader, WireError

RECORDS: dict[int, Record] = {
    each.type: each for family in (_OF_CLASSIC, _OF_CONSUMER, _OF_SHARE, _OF_STREAMS) for each in family
}
NAMES: dict[int, str] = {each.type: each.name for each in RECORDS.values()}
"""Kafka's names, by type."""
NEWEST: dict[int, int] = {each.type: each.newest for each in RECORDS.values()}
"""The newest known version of values, by type."""


class UnknownType(WireError):
    """A key of a type that no release up to 4.4 writes."""


@dataclass(frozen=True)
class Key:
    """The key of a record."""

    type: int
    name: str
    fields: dict[str, Any]


@dataclass(frozen=True)
class Value:
    """The value of a record: all fields of its newest version; those that `version` lacks have Kafka's defaults."""

    version: int
    fields: dict[str, Any]
    unknown: tuple[tuple[int, bytes], ...] = ()
    """Tagged fields (number, bytes) of newer releases."""


def read_key(data: bytes) -> Key:
    """Type and fields of a key. Raises UnknownType, or WireError."""
    reader = Reader(data)
    record = _record(reader.int16())
    return Key(record.type, record.name, _key_layout(record.type).read(reader))


def read_value(type: int, data: bytes) -> Value:
    """A value by the type of its key; a tombstone has none. Raises UnknownType, or WireError."""
    record = _record(type)
    if type == GROUP_METADATA and (generation := read_generation(data)) is not None:
        return Value(data[1], generation)
    return _by_tables(record, data)


def _by_tables(record: Record, data: bytes) -> Value:
    reader = Reader(data)
    version = reader.int16()
    fields, unknown = _layout(record.type, min(max(version, 0), record.newest + 1)).read_all(reader)
    return Value(version, fields, tuple(unknown))


def write_key(type: int, fields: Mapping[str, Any]) -> bytes:
    """The bytes of a key. Raises UnknownType, or WireError where Kafka has no such key."""
    record = _record(type)
    return _int16(type) + write(record.key, fields, 0, flexible=False)


def write_value(type: int, fields: Mapping[str, Any], version: int, unknown: Sequence[tuple[int, bytes]] = ()) -> bytes:
    """The bytes of a value; what its version lacks is left out. Raises UnknownType, or WireError."""
    record = _record(type)
    if not 0 <= version <= record.newest:
        raise WireError(f"version {version} of {record.name}: expected 0 to {record.newest}")
    flexible = record.is_flexible(version)
    return _int16(version) + write(record.value, fields, version, flexible=flexible, unknown=unknown)


def _record(type: int) -> Record:
    if type not in RECORDS:
        raise UnknownType(f"records of type {type} are not known")
    return RECORDS[type]


@cache
def _key_layout(type: int) -> StructDecoder:
    return StructDecoder(Struct(RECORDS[type].key), 0, 0, flexible=False)


@cache
def _layout(type: int, version: int) -> StructDecoder:
    record = RECORDS[type]
    return StructDecoder(Struct(record.value), version, record.newest, flexible=record.is_flexible(version))


def _int16(number: int) -> bytes:
    return number.to_bytes(2, signed=True)
