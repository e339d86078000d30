"""Whether a small csv file of this machine is so plain that every value of it parses, told without Spark.

A query that looks for values which do not parse costs seconds in a JVM that has just begun, and a file of a small fleet
is read in milliseconds. What is not plain may still be right: of that only Spark is asked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from pyspark.sql.types import ArrayType, BooleanType, DataType, IntegerType, LongType, StringType

_SMALL = 4 * 1024 * 1024
_TEXT = r'(?:"[^"\r\0]*"|[^",\r\0]*)'
_LIST = r'(?:"\[?[0-9]{1,9}(?:, ?[0-9]{1,9})*\]?"|[0-9]{0,9}|"")'
_VALUES: dict[type[DataType], str] = {
    IntegerType: "-?[0-9]{1,9}",
    LongType: "-?[0-9]{1,18}",
    BooleanType: "true|false",
}


def is_plain(path: str, kinds: Sequence[DataType]) -> bool:
    """Whether every row behind the header has a value of its column's type, or none, in each field.

    Never raises: what cannot be read, or is large, is not plain.

    Args:
        path: of a csv file as `text.CSV_READ` describes it.
        kinds: the types of its columns, in their order.
    """
    fields = [_field(kind) for kind in kinds]
    try:
        if os.path.getsize(path) > _SMALL:
            return False
        with open(path, encoding="utf-8", newline="") as file:
            lines = file.read().split("\n")
    except (OSError, UnicodeDecodeError):
        return False
    # A quote that is still open at the end of a line fits no field, and neither does a carriage return.
    plain = re.compile(",".join(field for field in fields if field is not None))
    rows = lines[1:-1] if lines[-1] == "" else lines[1:]
    return None not in fields and all(map(plain.fullmatch, rows))


def _field(kind: DataType) -> str | None:
    """What a plain field of a type looks like; null where that is not known."""
    if isinstance(kind, StringType):
        return _TEXT
    if kind == ArrayType(IntegerType()):
        return _LIST
    value = _VALUES.get(type(kind))
    return None if value is None else f'(?:(?:{value})?|"(?:{value})?")'
