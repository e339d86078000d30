"""Reads and writes structs by their declarations. A declaration is compiled into a decoder once per version.

The decoder behaves as Kafka's generated classes, including their flaws: the announced size of a known tagged field is
ignored, the last of two equal tags counts, and lengths are rejected if Kafka 4.4 rejects them.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Callable, Mapping, Sequence, Sized
from struct import error as StructError
from typing import Any

from spark_assign.wire.group_records.record_types import Field, Kind, Many, Struct
from spark_assign.wire.reader import MAX_ELEMENTS, MAX_TAGGED_FIELDS, Reader, WireError

ReadValue = Callable[[Reader], Any]
Unknown = list[tuple[int, bytes]]
"""Unknown tagged fields: tag and bytes."""

_PLAIN: dict[str, ReadValue] = {
    kind: getattr(Reader, kind) for kind in ("int8", "int16", "int32", "int64", "uint16", "uuid")
}
_TEXTS: dict[tuple[str, bool, bool], ReadValue] = {
    # kind, flexible, nullable
    ("string", False, False): Reader.string,
    ("string", False, True): Reader.nullable_string,
    ("string", True, False): Reader.compact_string,
    ("string", True, True): Reader.compact_nullable_string,
    ("bytes", False, False): Reader.binary,
    ("bytes", True, False): Reader.compact_binary,
}


class StructDecoder:
    """Reads one version of a struct with all nested fields."""

    def __init__(self, struct: Struct, version: int, newest: int, *, flexible: bool) -> None:
        self._version, self._newest, self._flexible = version, newest, flexible
        self._is_rejected = struct.strict and version > newest
        present_fields = [field for field in struct.fields if field.there(version)]
        self._plan = [
            (field.name, self._reader(field.kind, nullable=field.nullable))
            if field in present_fields and field.tag is None
            else (field.name, _constant(field))
            for field in struct.fields
        ]
        self._tagged = {
            field.tag: (field.name, self._tagged_reader(field)) for field in present_fields if field.tag is not None
        }

    def read(self, reader: Reader) -> dict[str, Any]:
        """Returns all fields of the newest version. Fields that this version lacks have their defaults. Raises
        WireError.
        """
        return self.read_all(reader)[0]

    def read_all(self, reader: Reader) -> tuple[dict[str, Any], Unknown]:
        """Returns the fields as `read` does, and the unknown tagged fields."""
        if self._is_rejected:
            raise WireError(f"version {self._version}: expected at most {self._newest}")
        fields = {name: read_value(reader) for name, read_value in self._plan}
        unknown: Unknown = []
        if self._flexible and (tags := reader.uvarint()):
            if not 0 <= tags <= MAX_TAGGED_FIELDS:
                raise WireError(f"{tags} tagged fields announced")
            for _ in range(tags):
                tag, size = reader.uvarint(), reader.uvarint()
                if tag in self._tagged:
                    name, read_value = self._tagged[tag]
                    fields[name] = read_value(reader)
                else:
                    unknown.append((tag, reader.take(size)))
        return fields, unknown

    def _reader(self, kind: Kind, *, nullable: bool) -> ReadValue:
        """Returns the function that reads a value of a type."""
        if isinstance(kind, Struct):
            read_struct = self._nested(kind).read
            if not nullable:
                return read_struct
            return lambda reader: None if reader.int8() < 0 else read_struct(reader)
        if isinstance(kind, Many):
            read_element = self._reader(kind.of, nullable=False)
            return _list_reader(read_element, nullable=nullable, flexible=self._flexible, is_int32=kind.of == "int32")
        return _PLAIN.get(kind) or _TEXTS[kind, self._flexible, nullable]

    def _tagged_reader(self, field: Field) -> ReadValue:
        """Returns the function that reads a tagged field."""
        if isinstance(field.kind, Struct) and field.nullable:
            read_struct = self._nested(field.kind).read
            return lambda reader: None if reader.uvarint() <= 0 else read_struct(reader)
        return self._reader(field.kind, nullable=field.nullable)

    def _nested(self, struct: Struct) -> StructDecoder:
        """Returns the decoder of a nested struct."""
        return StructDecoder(struct, self._version, self._newest, flexible=self._flexible)


def _constant(field: Field) -> ReadValue:
    """Returns a function that gives the default of a field and reads nothing."""
    return lambda _: field.default


def _list_reader(read_element: ReadValue, *, nullable: bool, flexible: bool, is_int32: bool) -> ReadValue:
    """Returns the function that reads a list."""

    def read_value(reader: Reader) -> list[Any] | None:
        length = reader.compact_length() if flexible else reader.int32()
        if length < 0 and nullable:
            return None
        if not 0 <= length <= min(reader.left, MAX_ELEMENTS):
            raise WireError(f"{length} elements announced, {reader.left} bytes left")
        return reader.int32s_of(length) if is_int32 else [read_element(reader) for _ in range(length)]

    return read_value


# --- writes records from the declarations that they are read with ---------------------------------------------


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
            raise WireError(f"{value!r} isn't a UUID: {error}") from None
        if len(decoded) != 16:
            raise WireError(f"{value!r} isn't a UUID: 16 bytes expected, {len(decoded)} given")
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


# --- GroupMetadata of versions 0 to 3 in one pass: nearly all group records -----------------------------------
#
# The loop reads regular bytes several times as fast as the generic decoder, with which it agrees on everything that it
# reads. Irregular bytes are left to the generic decoder.


GROUP_METADATA = 2
_NEWEST = 3
_INT, _TWO_INTS, _LONG = (struct.Struct(f">{layout}").unpack_from for layout in ("i", "ii", "q"))
_NULL = 0x8000
"""An int16 length from here on is negative, which means null."""


def read_generation(data: bytes) -> dict[str, Any] | None:
    """Returns the fields of a value, or None if it has another version or irregular bytes."""
    try:
        version = data[0] << 8 | data[1]
        return _read(data, version) if version <= _NEWEST else None
    except (IndexError, UnicodeDecodeError, StructError):
        return None


def _read(data: bytes, version: int) -> dict[str, Any] | None:
    """Returns the fields of a value of a known version, or None if the bytes are irregular."""
    # Slices past the last byte are too short. The comparison of the position with the size at the end detects them.
    texts: list[str | None] = []
    position = 2
    for text_index in range(3):
        size = data[position] << 8 | data[position + 1]
        position += 2
        if size >= _NULL:
            if text_index == 0:
                return None
            texts.append(None)
        else:
            texts.append(data[position : position + size].decode())
            position += size
        if text_index == 0:
            generation = _INT(data, position)[0]
            position += 4
    state_timestamp = -1
    if version > 1:
        state_timestamp = _LONG(data, position)[0]
        position += 8
    count = _INT(data, position)[0]
    position += 4
    if not 0 <= count <= len(data) - position:
        return None
    members = []
    for _ in range(count):
        size = data[position] << 8 | data[position + 1]
        name = data[position + 2 : position + 2 + size].decode()
        position += 2 + size
        if size >= _NULL:
            return None
        instance = None
        if version == _NEWEST:
            size = data[position] << 8 | data[position + 1]
            position += 2
            if size < _NULL:
                instance = data[position : position + size].decode()
                position += size
        size = data[position] << 8 | data[position + 1]
        client = data[position + 2 : position + 2 + size].decode()
        position += 2 + size
        host_size = data[position] << 8 | data[position + 1]
        host = data[position + 2 : position + 2 + host_size].decode()
        position += 2 + host_size
        rebalance = -1
        if version:
            rebalance = _INT(data, position)[0]
            position += 4
        session, subscription_size = _TWO_INTS(data, position)
        subscription_start = position + 8
        position = subscription_start + subscription_size
        assignment_size = _INT(data, position)[0] if subscription_size >= 0 else -1
        if size >= _NULL or host_size >= _NULL or assignment_size < 0:
            return None
        members.append(
            {
                "memberId": name,
                "groupInstanceId": instance,
                "clientId": client,
                "clientHost": host,
                "rebalanceTimeout": rebalance,
                "sessionTimeout": session,
                "subscription": data[subscription_start:position],
                "assignment": data[position + 4 : position + 4 + assignment_size],
            }
        )
        position += 4 + assignment_size
    if position > len(data):
        return None
    protocol_type, protocol, leader = texts
    return {
        "protocolType": protocol_type,
        "generation": generation,
        "protocol": protocol,
        "leader": leader,
        "currentStateTimestamp": state_timestamp,
        "members": members,
    }
