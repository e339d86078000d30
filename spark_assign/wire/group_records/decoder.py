"""Compiles the declaration of a struct into a decoder, once per version.

Behaves as Kafka's generated classes, including their flaws: the announced size of a known tagged field is ignored,
the last of two equal tags counts, and lengths are rejected if Kafka 4.4 rejects them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spark_assign.wire.group_records.record_schema import Field, Kind, Many, Struct
from spark_assign.wire.reader import MAX_ELEMENTS, MAX_TAGGED_FIELDS, Reader, WireError

ReadValue = Callable[[Reader], Any]
Unknown = list[tuple[int, bytes]]
"""Unknown tagged fields: tag and bytes."""

_PLAIN: dict[str, ReadValue] = {
    "int8": Reader.int8,
    "int16": Reader.int16,
    "int32": Reader.int32,
    "int64": Reader.int64,
    "uint16": Reader.uint16,
    "uuid": Reader.uuid,
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
