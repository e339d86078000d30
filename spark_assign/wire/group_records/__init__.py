"""Reads and writes the records of `__consumer_offsets` of Kafka 2.x to 4.4, as `GroupCoordinatorRecordSerde` does.

`record_types` declares the record types; `decoder` and `encoder` follow the declarations. Fields have the names of
Kafka's JSON form, bytes are `bytes`, and UUIDs are text. Trailing bytes are ignored. Unknown tagged fields of newer
releases are kept if they belong to the value itself, and dropped if they belong to a nested struct.

A value of an unknown version is read in the newest layout (a negative version in the first one), and fails if the
bytes don't fit, as in Kafka's message classes. Since 4.0, Kafka's serde rejects such a version first. To do the same,
compare `Value.version` with `NEWEST`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from spark_assign.wire.group_records.codec import GROUP_METADATA, StructDecoder, read_generation, write
from spark_assign.wire.group_records.record_types import RECORDS as _RECORD_TYPES
from spark_assign.wire.group_records.record_types import Record, Struct
from spark_assign.wire.reader import Reader, WireError

RECORDS: dict[int, Record] = {record.type: record for record in _RECORD_TYPES}
NAMES: dict[int, str] = {each.type: each.name for each in RECORDS.values()}
"""Kafka's record names by type."""
NEWEST: dict[int, int] = {each.type: each.newest for each in RECORDS.values()}
"""The newest known version of the values by type."""


class UnknownType(WireError):
    """Raised for a key of a type that no release up to 4.4 writes."""


@dataclass(frozen=True)
class Key:
    """The key of a record."""

    type: int
    name: str
    fields: dict[str, Any]


@dataclass(frozen=True)
class Value:
    """The value of a record: all fields of its newest version. Fields that `version` lacks have Kafka's defaults."""

    version: int
    fields: dict[str, Any]
    unknown: tuple[tuple[int, bytes], ...] = ()
    """Tagged fields (tag, bytes) of newer releases."""


def read_key(data: bytes) -> Key:
    """Returns the type and the fields of a key. Raises UnknownType or WireError."""
    reader = Reader(data)
    record = _record(reader.int16())
    return Key(record.type, record.name, _key_layout(record.type).read(reader))


def read_value(type: int, data: bytes) -> Value:
    """Returns the value for a key of `type`. Tombstones have no value. Raises UnknownType or WireError."""
    record = _record(type)
    if type == GROUP_METADATA and (generation := read_generation(data)) is not None:
        return Value(data[1], generation)
    return _by_tables(record, data)


def _by_tables(record: Record, data: bytes) -> Value:
    """Reads a value with the decoder of its type and version."""
    reader = Reader(data)
    version = reader.int16()
    fields, unknown = _value_layout(record.type, min(max(version, 0), record.newest + 1)).read_all(reader)
    return Value(version, fields, tuple(unknown))


def write_key(type: int, fields: Mapping[str, Any]) -> bytes:
    """Returns the bytes of a key. Raises UnknownType, or WireError if Kafka has no such key."""
    record = _record(type)
    return type.to_bytes(2, signed=True) + write(record.key, fields, 0, flexible=False)


def write_value(type: int, fields: Mapping[str, Any], version: int, unknown: Sequence[tuple[int, bytes]] = ()) -> bytes:
    """Returns the bytes of a value without the fields that its version lacks. Raises UnknownType or WireError."""
    record = _record(type)
    if not 0 <= version <= record.newest:
        raise WireError(f"version {version} of {record.name}: expected 0 to {record.newest}")
    flexible = record.is_flexible(version)
    return version.to_bytes(2, signed=True) + write(record.value, fields, version, flexible=flexible, unknown=unknown)


def _record(type: int) -> Record:
    """Returns the declaration of a type. Raises UnknownType."""
    if type not in RECORDS:
        raise UnknownType(f"records of type {type} are not known")
    return RECORDS[type]


@cache
def _key_layout(type: int) -> StructDecoder:
    """Returns the decoder of the keys of a type."""
    return StructDecoder(Struct(RECORDS[type].key), 0, 0, flexible=False)


@cache
def _value_layout(type: int, version: int) -> StructDecoder:
    """Returns the decoder of the values of a type in a version."""
    record = RECORDS[type]
    return StructDecoder(Struct(record.value), version, record.newest, flexible=record.is_flexible(version))
