"""Writes records from the declarations that `decoder.py` reads them with."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Callable, Mapping, Sequence, Sized
from typing import Any

from spark_assign.wire.group_records.record_schema import Field, Kind, Many, Struct
from spark_assign.wire.reader import WireError

_MAX_STRING_BYTES = 0x7FFF

_NUMBERS = {"int8": ">b", "int16": ">h", "int32": ">i", "int64": ">q", "uint16": ">H"}
"""The layout of each type of number, for `struct.pack`."""


class _Writer:
    """Collects bytes. Each method appends one value, or raises WireError if Kafka can't write the value.

    Attributes:
        data: the bytes so far.
        flexible: whether lengths are those of a flexible version (KIP-482).
    """

    def __init__(self, *, flexible: bool) -> None:
        self.data = bytearray()
        self.flexible = flexible

    def number(self, kind: str, value: int) -> None:
        """Appends a number of a type in `_NUMBERS`."""
        try:
            self.data += struct.pack(_NUMBERS[kind], value)
        except struct.error as error:
            raise WireError(f"{value!r}: {error}") from None

    def uvarint(self, value: int) -> None:
        """Appends an UNSIGNED_VARINT. The value must not be negative."""
        while value > 0x7F:
            self.data.append(value & 0x7F | 0x80)
            value >>= 7
        self.data.append(value)

    def uuid(self, value: str) -> None:
        """Appends a UUID from its text in Kafka's base64 form."""
        try:
            decoded = base64.urlsafe_b64decode(f"{value}==")
        except (binascii.Error, ValueError) as error:
            raise WireError(f"{value!r} is no uuid: {error}") from None
        if len(decoded) != 16:
            raise WireError(f"{value!r} is no uuid: 16 bytes expected, {len(decoded)} given")
        self.data += decoded

    def string(self, value: str | None) -> None:
        """Appends a NULLABLE_STRING, in UTF-8 with Java's replacement `?` for unpaired surrogates."""
        encoded = None if value is None else value.encode("utf-8", errors="replace")
        if encoded is not None and len(encoded) > _MAX_STRING_BYTES:
            raise WireError(f"a text of {len(encoded)} bytes: Kafka has at most {_MAX_STRING_BYTES}")
        self.binary(encoded, "int16")

    def binary(self, value: bytes | None, length_kind: str = "int32") -> None:
        """Appends NULLABLE_BYTES."""
        self.length(value, length_kind)
        self.data += value or b""

    def length(self, value: Sized | None, kind: str = "int32") -> None:
        """Appends the length of `value`: a number, -1 for null; in flexible versions a varint, plus one, 0 for null."""
        length = -1 if value is None else len(value)
        if self.flexible:
            self.uvarint(length + 1)
        else:
            self.number(kind, length)


def write(
    fields: Sequence[Field],
    values: Mapping[str, Any],
    version: int,
    *,
    flexible: bool,
    unknown: Sequence[tuple[int, bytes]] = (),
) -> bytes:
    """Returns the bytes of a struct. Omitted fields have their defaults. Raises WireError for an unknown field."""
    if unknown_names := values.keys() - {field.name for field in fields}:
        raise WireError(f"unknown: {', '.join(sorted(unknown_names))}")
    writer = _Writer(flexible=flexible)
    tagged = list(unknown)
    for field in fields:
        value = values.get(field.name, field.default)
        if not field.there(version):
            continue
        if value is None and not field.nullable:
            raise WireError(f"{field.name}: null, but it must not be")
        if field.tag is None:
            _append_field(writer, field, value, version)
        elif value != field.default:
            tagged_writer = _Writer(flexible=flexible)
            _append_field(tagged_writer, field, value, version)
            tagged.append((field.tag, bytes(tagged_writer.data)))
    if flexible:
        writer.uvarint(len(tagged))
        for tag, data in sorted(tagged, key=lambda entry: entry[0]):
            writer.uvarint(tag)
            writer.uvarint(len(data))
            writer.data += data
    return bytes(writer.data)


def _append_field(writer: _Writer, field: Field, value: Any, version: int) -> None:
    """Appends the value of a field."""
    if isinstance(field.kind, Struct) and field.nullable:
        # Whether the struct is present: one byte, or a varint in a tagged field.
        if field.tag is None:
            writer.number("int8", -1 if value is None else 1)
        else:
            writer.uvarint(value is not None)
        if value is None:
            return
    _append(writer, field.kind, value, version)


def _append(writer: _Writer, kind: Kind, value: Any, version: int) -> None:
    """Appends a value of a type."""
    if isinstance(kind, Many):
        writer.length(value)
        for element in value or ():
            _append(writer, kind.of, element, version)
    elif isinstance(kind, Struct):
        writer.data += write(kind.fields, value, version, flexible=writer.flexible)
    elif kind in _NUMBERS:
        writer.number(kind, value)
    else:
        _METHODS[kind](writer, value)


_METHODS: dict[str, Callable[[_Writer, Any], None]] = {
    "string": _Writer.string,
    "bytes": _Writer.binary,
    "uuid": _Writer.uuid,
}
