"""Parses columns of text and JSON values as the types of the tables.

The rules are those of Spark's `try_cast`, so that a file means the same in both readers: blanks around a value are
ignored, and a number can have a plus sign. A value that doesn't parse is a fault and never null.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from spark_assign.spark.arrow_schemas import to_arrow_type

_BLANKS = "".join(map(chr, range(0x21))) + "\x7f"
"""The characters that Spark removes around a number: blanks and control characters of ASCII."""
_INT = re.compile(r"[+-]?[0-9]{1,4000}")
_DOUBLE = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?")
_SPECIAL = re.compile(r"[+-]?NaN|(?i:nan|[+-]?inf(?:inity)?)")
_BOOLEANS = {
    **dict.fromkeys(("t", "true", "y", "yes", "1"), True),
    **dict.fromkeys(("f", "false", "n", "no", "0"), False),
}
_BRACKETS = re.compile(r"\A\s*\[?\s*|\s*\]?\s*\Z", re.ASCII)
_COMMA = re.compile(r"\s*,\s*", re.ASCII)


def noun(kind: DataType) -> str:
    """Returns the description of a type for messages."""
    if kind == ArrayType(IntegerType()):
        return "a list of ints (1,2,3)"
    if kind == ArrayType(StringType()):
        return 'a list of names (a,b or ["a","b"])'
    return f"a valid {kind.simpleString()}"


def parse_column(texts: pa.Array, kind: DataType) -> tuple[pa.Array, pa.Array | None]:
    """Parses a column of text.

    Args:
        texts: strings; null stays null, and so does a blank value, unless the type is a string or a list.
        kind: the type of the column.

    Returns:
        the values, and a mask that is true for values that don't parse (None: all parse). Those are null.
    """
    if isinstance(kind, StringType):
        return texts, None
    values = _parse_plain(texts, kind)
    if values is not None:
        return values, None
    distinct = texts.dictionary_encode()
    parsed, is_bad = [], []
    for text in distinct.dictionary.to_pylist():
        try:
            parsed.append(parse_text(text, kind))
            is_bad.append(False)
        except (ValueError, RecursionError):
            parsed.append(None)
            is_bad.append(True)
    values = pa.array(parsed, to_arrow_type(kind)).take(distinct.indices)
    return values, pa.array(is_bad, pa.bool_()).take(distinct.indices) if any(is_bad) else None


def _parse_plain(texts: pa.Array, kind: DataType) -> pa.Array | None:
    """Returns the values of a column of digits, lists of digits, or plain decimals, or None if it has other values."""
    is_list = kind == ArrayType(IntegerType())
    try:
        if isinstance(kind, IntegerType | LongType) or is_list:
            # Arrow alone would accept hexadecimal numbers.
            lists = pc.split_pattern(texts, ",") if is_list else None
            digits = pc.utf8_is_decimal(texts if lists is None else lists.flatten())
            if pc.all(digits, min_count=0).as_py():
                return pc.cast(texts if lists is None else lists, to_arrow_type(kind))
        elif isinstance(kind, DoubleType):
            values = pc.cast(texts, pa.float64())
            return values if pc.all(pc.is_finite(values), min_count=0).as_py() else None
    except pa.ArrowInvalid:
        pass  # a value is out of range or no number, or blanks surround it
    return None


def parse_text(text: str, kind: DataType) -> Any:
    """Returns a text as a value of a type; a blank one is null. Raises ValueError if it doesn't parse."""
    if isinstance(kind, StringType):
        return text
    if isinstance(kind, ArrayType):
        return _parse_list(text, kind)
    if isinstance(kind, BinaryType):
        return text.encode()
    if not text.strip(" "):
        return None
    trimmed = text.strip(_BLANKS)
    if isinstance(kind, BooleanType):
        if trimmed.lower() in _BOOLEANS:
            return _BOOLEANS[trimmed.lower()]
    elif isinstance(kind, DoubleType):
        if match := _DOUBLE.fullmatch(trimmed):
            return float(match[1])
        if _SPECIAL.fullmatch(trimmed):
            return float(trimmed)
    elif isinstance(kind, TimestampType):
        return _timestamp(trimmed)
    elif isinstance(kind, IntegerType | LongType):
        return _int(trimmed, kind)
    raise ValueError(text)


def _int(text: str, kind: DataType) -> int:
    """Returns a number in the range of a type. Raises ValueError."""
    bits = 63 if isinstance(kind, LongType) else 31
    if _INT.fullmatch(text) and -(2**bits) <= (value := int(text)) < 2**bits:
        return value
    raise ValueError(text)


def _timestamp(text: str) -> datetime:
    """Returns an ISO 8601 time. Raises ValueError if it isn't one, or if it has no offset from UTC."""
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError(text)
    return time


def _parse_list(text: str, kind: ArrayType) -> list[Any]:
    """Returns `1,2,3`, `[1, 2]`, or a JSON list of names or structs as a list. Raises ValueError."""
    if isinstance(kind.elementType, StructType) or (text.startswith("[") and isinstance(kind.elementType, StringType)):
        if not text.strip(" "):
            return []
        items = json_value(parse_json(text), kind)
    else:
        if text.strip() == "]":
            raise ValueError(text)
        inner = _BRACKETS.sub("", text)
        items = [parse_text(item, kind.elementType) for item in _COMMA.split(inner)] if inner else []
    if items is None or None in items:
        raise ValueError(text)
    return list(items)


class JsonNumber(str):
    """A JSON number as it is written."""

    __slots__ = ()


class JsonObject(dict[str, Any]):
    """A JSON object, and the names that it has more than once."""

    def __init__(self, pairs: Iterable[tuple[str, Any]]) -> None:
        names: list[tuple[str, Any]] = list(pairs)
        super().__init__(names)
        count = [name for name, _ in names] if len(self) < len(names) else []
        self.repeated = {name for name in count if count.count(name) > 1}


parse_json: Callable[[str | bytes], Any] = json.JSONDecoder(
    parse_int=JsonNumber, parse_float=JsonNumber, parse_constant=JsonNumber, object_pairs_hook=JsonObject
).decode  # type: ignore[assignment]
"""Returns a JSON text as a value. Raises ValueError, or RecursionError if it is nested too deeply."""


def json_value(value: Any, kind: DataType) -> Any:
    """Returns a value of `parse_json` as a value of a type. Raises ValueError if it has another type.

    As in Spark, a string can be any value, as it is written; other types aren't converted. Fields that a type doesn't
    have are ignored.
    """
    if value is None:
        return None
    if isinstance(kind, StringType):
        text = _json_text(value)
        text.encode()  # raises a ValueError for half of a surrogate pair
        return str(text)
    if isinstance(kind, ArrayType) and isinstance(value, list):
        return [json_value(item, kind.elementType) for item in value]
    if isinstance(kind, StructType) and isinstance(value, JsonObject):
        if value.repeated & set(kind.names):
            raise ValueError("repeated")
        return {field.name: json_value(value.get(field.name), field.dataType) for field in kind.fields}
    if isinstance(kind, BooleanType) and isinstance(value, bool):
        return value
    if isinstance(value, str):
        if isinstance(kind, DoubleType) and (isinstance(value, JsonNumber) or _SPECIAL.fullmatch(value)):
            return float(value)
        if isinstance(kind, IntegerType | LongType) and isinstance(value, JsonNumber):
            return _int(value, kind)
        if isinstance(kind, TimestampType) and not isinstance(value, JsonNumber):
            return _timestamp(value)
        if isinstance(kind, BinaryType) and not isinstance(value, JsonNumber):
            return base64.b64decode(value, validate=True)
    raise ValueError(value)


def _json_text(value: Any) -> str:
    """Returns a JSON value as text: a string as it is, and any other value as JSON."""
    return value if isinstance(value, str) else json_text(value)


def json_text(value: Any) -> str:
    """Returns a value of `parse_json` as JSON, with its numbers as they were written."""
    if isinstance(value, list):
        return f"[{','.join(map(json_text, value))}]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{json_text(name)}:{json_text(item)}" for name, item in value.items()) + "}"
    return str(value) if isinstance(value, JsonNumber) else json.dumps(value, ensure_ascii=False)
