"""Reads what the footer of a Parquet file says of its columns (`parquet.thrift` of Apache Parquet, in Thrift's compact
protocol).

pyarrow reads everything else. Its own objects of columns let exceptions of C++ through, which end the process, where
the footer is damaged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyarrow import parquet

from spark_assign.stores.locations import shortened
from spark_assign.wire.reader import Reader, WireError

_MAX_DEPTH = 20
"""Structs and lists in each other; Parquet has less than ten."""


@dataclass(frozen=True)
class ColumnFacts:
    """What a footer says of a column in one row group.

    Attributes:
        name: the column of the table, also for a part of a list or struct.
        num_values: its values and nulls, also those in lists.
        null_count: its nulls, or None if the footer doesn't say it.
        encodings: the numbers of its encodings (`Encoding` of `parquet.thrift`).
    """

    name: str
    num_values: int
    null_count: int | None
    encodings: frozenset[int]


def row_groups(path: str | Path, metadata: parquet.FileMetaData) -> list[list[ColumnFacts]]:
    """Returns the columns of each row group of a Parquet file.

    Args:
        path: the file.
        metadata: what pyarrow says of the whole file.

    Raises:
        OSError: the file can't be read.
        ValueError: its footer is damaged, or contradicts itself.
    """
    with open(path, "rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - 8))
        length = int.from_bytes(file.read(4), "little")
        file.seek(max(0, size - 8 - length))
        reader = _Thrift(file.read(length))
    try:
        groups = [([_facts_of(column[3]) for column in group[1]], group[3]) for group in reader.struct()[4]]
    except (WireError, LookupError, TypeError, AttributeError) as error:
        raise ValueError("its footer is damaged") from error
    schema = metadata.schema
    is_flat = [schema.column(index).max_repetition_level == 0 for index in range(metadata.num_columns)]
    if len(groups) != metadata.num_row_groups or sum(num_rows for _, num_rows in groups) != metadata.num_rows:
        raise ValueError("its footer contradicts itself: the numbers of rows differ")
    for columns, num_rows in groups:
        if len(columns) != len(is_flat):
            raise ValueError("its footer contradicts itself: the numbers of columns differ")
        for column, is_single in zip(columns, is_flat, strict=True):
            if column.num_values < 0 or (is_single and column.num_values != num_rows):
                text = f"{column.num_values:,} values of {shortened(column.name)} in {num_rows:,} rows"
                raise ValueError(f"its footer contradicts itself: {text}")
    return [columns for columns, _ in groups]


def _facts_of(column: Mapping[int, Any]) -> ColumnFacts:
    """Returns the facts of a `ColumnMetaData`."""
    path: Sequence[bytes] = column[3]
    return ColumnFacts(path[0].decode(), column[5], column.get(12, {}).get(3), frozenset(column[2]))


class _Thrift(Reader):
    """Reads values of Thrift's compact protocol: structs as their fields by number."""

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Reads a struct."""
        fields, number = {}, 0
        while head := self.take(1)[0]:
            number = number + (head >> 4) if head >> 4 else self.varint()
            if number in fields:
                raise WireError(f"two fields {number} at byte {self.size - self.left}")
            fields[number] = head & 15 == 1 if head & 15 < 3 else self._value(head & 15, depth + 1)
        return fields

    def varint(self) -> int:
        """Reads a zigzag number of up to ten bytes."""
        value = self._unsigned()
        return value >> 1 ^ -(value & 1)

    def _unsigned(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise WireError("a number of more than ten bytes")

    def _value(self, kind: int, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise WireError("too many structs in each other")
        match kind:
            case 1 | 2 | 3:
                return self.take(1)[0]
            case 4 | 5 | 6:
                return self.varint()
            case 7:
                return self.take(8)
            case 8:
                return self.take(self._unsigned())
            case 9 | 10:
                head = self.take(1)[0]
                size = self._unsigned() if head >> 4 == 15 else head >> 4
                if size > self.left:
                    raise WireError(f"{size} elements in {self.left} bytes")
                return [self._value(head & 15, depth + 1) for _ in range(size)]
            case 12:
                return self.struct(depth)
            case _:
                raise WireError(f"values of an unknown type {kind}")
