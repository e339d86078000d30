"""Writes records from the declarations that `decoder.py` reads them with."""

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
"""The methods that write a type in classic and in flexible versions."""


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
    writer = Writer()
    tagged = list(unknown)
    for field in fields:
        value = values.get(field.name, field.default)
        if not field.there(version):
            continue
        if value is None and not field.nullable:
            raise WireError(f"{field.name}: null, but it must not be")
        if field.tag is None:
            writer.data += _field_bytes(field, value, version, flexible=flexible)
        elif value != field.default:
            tagged.append((field.tag, _field_bytes(field, value, version, flexible=flexible)))
    if flexible:
        writer.uvarint(len(tagged))
        for tag, data in sorted(tagged, key=lambda entry: entry[0]):
            writer.uvarint(tag)
            writer.uvarint(len(data))
            writer.data += data
    return bytes(writer.data)


def _field_bytes(field: Field, value: Any, version: int, *, flexible: bool) -> bytes:
    """Returns the bytes of one field."""
    writer = Writer()
    if not isinstance(field.kind, str | Many) and field.nullable:
        # Whether the struct is present: one byte, or a varint in a tagged field.
        if field.tag is None:
            writer.int8(-1 if value is None else 1)
        else:
            writer.uvarint(value is not None)
        if value is None:
            return bytes(writer.data)
    _append(writer, field.kind, value, version, flexible=flexible)
    return bytes(writer.data)


def _append(writer: Writer, kind: Kind, value: Any, version: int, *, flexible: bool) -> None:
    """Appends a value of a type."""
    if isinstance(kind, Many):
        if flexible:
            writer.compact_length(value)
        else:
            writer.int32(-1 if value is None else len(value))
        for element in value or ():
            _append(writer, kind.of, element, version, flexible=flexible)
    elif isinstance(kind, str):
        _PLAIN[kind][flexible](writer, value)
    else:
        writer.data += write(kind.fields, value, version, flexible=flexible)
