"""Writes by the same declarations that `decoder.py` reads by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spark_assign.wire.group_records.record_schema import Field, Kind, Many
from spark_assign.wire.reader import WireError
from spark_assign.wire.writer import Writer

_PLAIN: dict[str, tuple[Callable[[Writer, Any], None], Callable[[Writer, Any], None]]] = {
    "string": (Writer.string, Writer.compact_string),
    "bytes": (Writer.binary, Writer.compact_binary),
    "uuid": (Writer.uuid, Writer.uuid),
    "int8": (Writer.int8, Writer.int8),
    "int16": (Writer.int16, Writer.int16),
    "int32": (Writer.int32, Writer.int32),
    "int64": (Writer.int64, Writer.int64),
    "uint16": (Writer.uint16, Writer.uint16),
}
"""How it is written, and how in flexible versions."""


def write(
    fields: Sequence[Field],
    given: Mapping[str, Any],
    version: int,
    *,
    flexible: bool,
    unknown: Sequence[tuple[int, bytes]] = (),
) -> bytes:
    """A struct; a field that is not given has its default. Raises WireError for one that is not known."""
    if strangers := given.keys() - {field.name for field in fields}:
        raise WireError(f"unknown: {', '.join(sorted(strangers))}")
    writer = Writer()
    tagged = list(unknown)
    for field in fields:
        value = given.get(field.name, field.default)
        if not field.there(version):
            continue
        if value is None and not field.nullable:
            raise WireError(f"{field.name}: null, but it must not be")
        if field.tag is None:
            writer.data += _written(field, value, version, flexible=flexible)
        elif value != field.default:
            tagged.append((field.tag, _written(field, value, version, flexible=flexible)))
    if flexible:
        writer.uvarint(len(tagged))
        for tag, data in sorted(tagged, key=lambda each: each[0]):
            writer.uvarint(tag)
            writer.uvarint(len(data))
            writer.data += data
    return bytes(writer.data)


def _written(field: Field, value: Any, version: int, *, flexible: bool) -> bytes:
    writer = Writer()
    if not isinstance(field.kind, str | Many) and field.nullable:
        # Whether it is there: one byte, of a tagged field a varint.
        if field.tag is None:
            writer.int8(-1 if value is None else 1)
        else:
            writer.uvarint(value is not None)
        if value is None:
            return bytes(writer.data)
    _add(writer, field.kind, value, version, flexible=flexible)
    return bytes(writer.data)


def _add(writer: Writer, kind: Kind, value: Any, version: int, *, flexible: bool) -> None:
    if isinstance(kind, Many):
        if flexible:
            writer.compact_length(value)
        else:
            writer.int32(-1 if value is None else len(value))
        for each in value or ():
            _add(writer, kind.of, each, version, flexible=flexible)
    elif isinstance(kind, str):
        _PLAIN[kind][flexible](writer, value)
    else:
        writer.data += write(kind.fields, value, version, flexible=flexible)
