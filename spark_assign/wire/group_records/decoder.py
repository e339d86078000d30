"""From a declaration to what reads it: made once for each version, of small functions that know where they are.

As Kafka's generated classes do it, mistakes included: the announced size of a known tagged field is not looked at, the
last of two counts, and lengths are refused where 4.4 refuses them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spark_assign.wire.group_records.record_schema import Field, Kind, Many, Struct
from spark_assign.wire.reader import MOST_ELEMENTS, MOST_TAGGED_FIELDS, Reader, WireError

Take = Callable[[Reader], Any]
Unknown = list[tuple[int, bytes]]
"""Tagged fields by a number that is not known, and what they hold."""

_PLAIN: dict[str, Take] = {
    "int8": Reader.int8,
    "int16": Reader.int16,
    "int32": Reader.int32,
    "int64": Reader.int64,
    "uint16": Reader.uint16,
    "uuid": Reader.uuid,
}
_TEXTS: dict[tuple[str, bool, bool], Take] = {
    # kind, flexible, nullable
    ("string", False, False): Reader.string,
    ("string", False, True): Reader.nullable_string,
    ("string", True, False): Reader.compact_string,
    ("string", True, True): Reader.compact_nullable_string,
    ("bytes", False, False): Reader.binary,
    ("bytes", True, False): Reader.compact_binary,
}


class StructDecoder:
    """What one version of a struct looks like, and all that is in it."""

    def __init__(self, struct: Struct, version: int, newest: int, *, flexible: bool) -> None:
        self._version, self._newest, self._flexible = version, newest, flexible
        self._refused = struct.strict and version > newest
        there = [field for field in struct.fields if field.there(version)]
        self._plan = [
            (field.name, self._take(field.kind, nullable=field.nullable))
            if field in there and field.tag is None
            else (field.name, _constant(field))
            for field in struct.fields
        ]
        self._tagged = {field.tag: (field.name, self._take_tagged(field)) for field in there if field.tag is not None}

    def read(self, reader: Reader) -> dict[str, Any]:
        """All fields of the newest version; those that this one lacks have their defaults. Raises WireError."""
        return self.read_all(reader)[0]

    def read_all(self, reader: Reader) -> tuple[dict[str, Any], Unknown]:
        """The same, and tagged fields that are not known."""
        if self._refused:
            raise WireError(f"version {self._version}: expected at most {self._newest}")
        found = {name: take(reader) for name, take in self._plan}
        unknown: Unknown = []
        if self._flexible and (tags := reader.uvarint()):
            if not 0 <= tags <= MOST_TAGGED_FIELDS:
                raise WireError(f"{tags} tagged fields announced")
            for _ in range(tags):
                tag, size = reader.uvarint(), reader.uvarint()
                if tag in self._tagged:
                    name, take = self._tagged[tag]
                    found[name] = take(reader)
                else:
                    unknown.append((tag, reader.take(size)))
        return found, unknown

    def _take(self, kind: Kind, *, nullable: bool) -> Take:
        if isinstance(kind, Struct):
            inside = self._of(kind).read
            if not nullable:
                return inside
            return lambda reader: None if reader.int8() < 0 else inside(reader)
        if isinstance(kind, Many):
            each = self._take(kind.of, nullable=False)
            return _many(each, nullable=nullable, flexible=self._flexible, numbers=kind.of == "int32")
        return _PLAIN.get(kind) or _TEXTS[kind, self._flexible, nullable]

    def _take_tagged(self, field: Field) -> Take:
        if isinstance(field.kind, Struct) and field.nullable:
            inside = self._of(field.kind).read
            return lambda reader: None if reader.uvarint() <= 0 else inside(reader)
        return self._take(field.kind, nullable=field.nullable)

    def _of(self, struct: Struct) -> StructDecoder:
        return StructDecoder(struct, self._version, self._newest, flexible=self._flexible)


def _constant(field: Field) -> Take:
    return lambda _: field.default


def _many(each: Take, *, nullable: bool, flexible: bool, numbers: bool) -> Take:
    def take(reader: Reader) -> list[Any] | None:
        length = reader.compact_length() if flexible else reader.int32()
        if length < 0 and nullable:
            return None
        if not 0 <= length <= min(reader.left, MOST_ELEMENTS):
            raise WireError(f"{length} elements announced, {reader.left} bytes left")
        return reader.int32s_of(length) if numbers else [each(reader) for _ in range(length)]

    return take
