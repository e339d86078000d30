"""Records as Kafka's own `JsonConverter`s write them, from what we read: for comparison."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from spark_assign.wire.group_records import RECORDS, Key, Value
from spark_assign.wire.group_records.record_types import Field, Kind, Many, Struct


def of_key(key: Key) -> dict[str, Any]:
    """A key."""
    return _fields(RECORDS[key.type].key, key.fields, 0)


def of_value(type: int, value: Value) -> dict[str, Any]:
    """A value: what its version has, and of tagged fields what differs from the default."""
    return _fields(RECORDS[type].value, value.fields, max(value.version, 0))


def of_unknown(value: Value) -> list[dict[str, Any]]:
    """Its tagged fields that nobody knows."""
    return [{"tag": tag, "data": base64.b64encode(data).decode()} for tag, data in value.unknown]


def _fields(fields: Sequence[Field], given: Mapping[str, Any], version: int) -> dict[str, Any]:
    assert list(given) == [field.name for field in fields]
    return {
        field.name: _value(field.kind, given[field.name], version)
        for field in fields
        if field.there(version) and (field.tag is None or given[field.name] != field.default)
    }


def _value(kind: Kind, value: Any, version: int) -> Any:
    if value is None:
        return None
    if isinstance(kind, Many):
        return [_value(kind.of, each, version) for each in value]
    if isinstance(kind, Struct):
        return _fields(kind.fields, value, version)
    return base64.b64encode(value).decode() if kind == "bytes" else value
