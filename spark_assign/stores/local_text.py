"""Reads local csv and JSON-lines files in pieces of complete records, and checks every value.

Memory is bounded by the size of a piece, not by that of the file. The dialect of csv is RFC 4180 with a header: a
quoted field can contain line ends, and quotes inside quotes are doubled. An empty field is null, and `""` is an empty
string. Files are UTF-8, with or without a byte order mark.
"""

from __future__ import annotations

import base64
import codecs
import csv
import io
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv
from pyarrow import json as arrow_json
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

from spark_assign.spark.dataframes import to_arrow_type
from spark_assign.stores.locations import (
    MAX_DISPLAYED,
    FileFaults,
    UnreadableFileError,
    problem_of,
    shortened,
)

_PIECE_BYTES = 8 * 1024 * 1024
_HEADER_BYTES = 64 * 1024
_MAX_RECORD_BYTES = 64 * 1024 * 1024
"""Maximum size of a row. A larger one is a quote that is never closed, or no file of this format."""
_MAX_DOCUMENT_BYTES, MAX_COLUMNS = 256 * 1024 * 1024, 1_000
"""Maximum size of a JSON document, decompressed, and number of columns of a csv file."""
_MIN_DECOMPRESSED, _MAX_RATIO = 16 * 1024 * 1024, 1_000
"""A compressed file becomes at most this number of bytes, or this multiple of its size if that is more. Tables compress
about 10:1, and blank lines 1,000:1 (gzip) to 300,000:1 (bzip2)."""
_MAX_ARROW_BRACKETS = 200
"""Maximum number of brackets in a JSON record that Arrow parses: its parser is recursive."""
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_BOM = codecs.BOM_UTF8
_OTHER_ENCODINGS = {
    "UTF-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
    "UTF-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
}
"""Byte order marks of other encodings. Those of UTF-16 are also the start of those of UTF-32."""
_LINE_END, _LINE_ENDS = re.compile(rb"\r\n|\n|\r"), re.compile(rb"[\r\n]+")
_AFTER_BRACKET = re.compile(rb"[}\]][ \t]*[^ \t\r\n,}\]]")
_UTF8 = "Save the file as UTF-8"


def pieces(path: str, *, quotes: bool, size: int = _PIECE_BYTES) -> Iterator[bytes]:
    """Yields a file, decompressed, in pieces that end with a record, without a byte order mark.

    Args:
        path: the file. Its suffix determines the compression.
        quotes: whether line ends inside quotes don't end a record.
        size: number of bytes to read at once.

    Raises:
        UnreadableFileError: the file can't be opened or decompressed, or a record or all of it is too large.
    """
    suffix = next((each for each in COMPRESSIONS if path.endswith(each)), "")
    rest, is_first, num_bytes = b"", True, 0
    try:
        limit = max(_MIN_DECOMPRESSED, _MAX_RATIO * os.path.getsize(path))
        with pa.input_stream(path, compression=COMPRESSIONS.get(suffix)) as file:
            while read := file.read(size):
                data = rest + read
                num_bytes += len(read)
                if suffix and num_bytes > limit:
                    problem = f"decompressed, it has more than {limit:,} bytes, {_MAX_RATIO:,} times its size or more"
                    raise UnreadableFileError(problem, "Remove blank or repeated lines, or decompress it")
                other = next((name for name, marks in _OTHER_ENCODINGS.items() if data.startswith(marks)), None)
                if is_first and other:
                    raise UnreadableFileError(f"it is {other}", _UTF8)
                data, is_first = data.removeprefix(_BOM) if is_first else data, False
                size = min(2 * size, max(size, _PIECE_BYTES))  # a record of many pieces takes linear time
                if end := _end_of_records(data) if quotes else data.rfind(b"\n") + 1:
                    yield data[:end]
                rest = data[end:]
                if len(rest) > _MAX_RECORD_BYTES:
                    remedy = "Close the quote" if quotes else "Write one JSON object per line"
                    raise UnreadableFileError(f"a row has more than {_MAX_RECORD_BYTES:,} bytes", remedy)
    except (OSError, pa.ArrowException) as error:
        remedy = "Copy or compress it again, or fix its name" if suffix else "Check the file and its permissions"
        raise UnreadableFileError(problem_of(error), remedy) from error
    if rest:
        yield rest


def _positions(data: bytes, character: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Returns the indexes of a character, sorted."""
    return np.flatnonzero(np.frombuffer(data, np.uint8) == ord(character))


def _end_of_records(data: bytes) -> int:
    """Returns the number of bytes up to the last line end outside of quotes, or 0."""
    if b'"' not in data:
        return data.rfind(b"\n") + 1
    lines = _positions(data, "\n")
    outside = lines[np.searchsorted(_positions(data, '"'), lines) % 2 == 0]
    return int(outside[-1]) + 1 if len(outside) else 0


# --- csv -----------------------------------------------------------------------------------------------------------


def read_header(path: str) -> list[str]:
    """Returns the names of the columns of a csv file; empty if the file is. Columns without a name are `_c0`, ….

    Raises:
        UnreadableFileError: there is no header of this dialect, or two columns have the same name, in any case.
    """
    try:
        found = (piece for piece in pieces(path, quotes=True, size=_HEADER_BYTES) if piece.strip(b"\r\n"))
        text = _split_header(next(found, b""))[0].decode()
        if text.count(",") >= MAX_COLUMNS:
            raise UnreadableFileError(f"the header has more than {MAX_COLUMNS:,} columns", "Check whether it is csv")
        names = next(csv.reader(io.StringIO(text, newline=""), strict=True), [])
    except UnicodeDecodeError:
        raise UnreadableFileError("the header is not UTF-8", _UTF8) from None
    except csv.Error as error:
        remedy = "Write a header with comma-separated names"
        raise UnreadableFileError(f"the header isn't csv ({error})", remedy) from None
    names = [name or f"_c{index}" for index, name in enumerate(names)]
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise UnreadableFileError(
                f"the header has the column {shortened(name)} twice", "Remove or rename one of them"
            )
        seen.add(name.lower())
    return names


def _split_header(data: bytes) -> tuple[bytes, bytes]:
    """Returns the first record of csv data, without line ends, and what follows its line end."""
    data = data.lstrip(b"\r\n")
    start = quotes = 0
    for match in _LINE_END.finditer(data):
        quotes += data.count(b'"', start, match.start())
        start = match.end()
        if quotes % 2 == 0:
            return data[: match.start()], data[start:]
    return data, b""


def read_csv_file(
    table: str,
    path: str,
    names: Sequence[str],
    schema: StructType,
    faults: FileFaults,
    wanted: Container[str] | None = None,
) -> Iterator[pa.Table]:
    """Yields the rows of a csv file with these columns, with the types of the schema. Other columns are strings.

    Columns that aren't `wanted` are left out (None: all are). Values that don't parse are added to the faults.

    Raises:
        UnreadableFileError: see `pieces`.
    """
    types = {field.name: field.dataType for field in schema.fields}
    num_rows, is_first = 0, True
    for piece in pieces(path, quotes=True):
        records, is_first = _split_header(piece)[1] if is_first else piece, is_first and not piece.strip(b"\r\n")
        if not records.strip(b"\r\n"):
            continue
        if (position := _misplaced_quote(records)) is not None:
            before = _LINE_END.split(records[:position])
            record = before[-1] + _LINE_END.split(records[position:], maxsplit=1)[0]
            problem = f"{table}: a quote that isn't closed, or isn't doubled (\"\"), or is in a field without quotes"
            faults.add_value(table, problem, path, _shown(record), num_rows + len(before))
            return
        read = [name for name in names if wanted is None or name in wanted]
        rows = _CsvRows.parse(table, path, names, read, records, num_rows, faults)
        yield pa.table({name: rows.typed(name, types.get(name, StringType())) for name in read})
        num_rows += rows.values.num_rows + len(rows.skipped)
        if faults.is_full(table):
            return


def _misplaced_quote(data: bytes) -> int | None:
    """Returns the index of the first quote that the dialect doesn't allow, or None.

    Quotes alternately open and close. One that opens follows a comma or line end, or the quote before it (`""`). One
    that closes precedes a comma or line end, or the next quote.
    """
    quotes = _positions(data, '"')
    if not len(quotes):
        return None
    is_end = np.isin(np.frombuffer(b"\n" + data + b"\n", np.uint8), np.frombuffer(b",\r\n", np.uint8))
    is_next = quotes[1:] == quotes[:-1] + 1  # of each quote but the last: whether the next one follows at once
    opens = np.arange(len(quotes)) % 2 == 0
    is_right = np.where(
        opens, is_end[quotes] | np.append(False, is_next), is_end[quotes + 2] | np.append(is_next, False)
    )
    is_right[-1] &= not opens[-1]
    return None if is_right.all() else int(quotes[np.argmin(is_right)])


@dataclass(frozen=True)
class _CsvRows:
    """Rows of a csv file, as columns of bytes."""

    table: str
    path: str
    values: pa.Table
    num_before: int
    """Number of rows of the file before these."""
    skipped: Sequence[int]
    """Numbers of the rows that don't have all fields, from 1, sorted."""
    faults: FileFaults

    @classmethod
    def parse(
        cls,
        table: str,
        path: str,
        names: Sequence[str],
        read: Sequence[str],
        records: bytes,
        num_before: int,
        faults: FileFaults,
    ) -> _CsvRows:
        """Returns the columns `read` of complete records, which have the columns `names`. Rows without all fields
        are faults.
        """
        skipped: list[int] = []

        def skip(row: arrow_csv.InvalidRow) -> str:
            skipped.append(row.number)
            if row.text.strip() and len(skipped) <= MAX_DISPLAYED + 1:
                problem = f"{table}: the row does not have {len(names)} fields"
                faults.add_value(table, problem, path, row.text, num_before + row.number)
            return "skip"

        handler = skip if _is_utf8(records) else None  # it gets text
        try:
            values = arrow_csv.read_csv(
                pa.BufferReader(records),
                read_options=arrow_csv.ReadOptions(
                    column_names=list(names), use_threads=False, block_size=len(records) + 1
                ),
                parse_options=arrow_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=handler),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(read, pa.binary()),
                    include_columns=list(read),
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid as error:
            row = num_before + int(str(error).partition("Row #")[2].partition(":")[0] or 0)
            problem = f"row {row:,} does not have {len(names)} fields, and isn't UTF-8"
            raise UnreadableFileError(problem, _UTF8) from error
        return cls(table, path, values.combine_chunks(), num_before, skipped, faults)

    def typed(self, name: str, kind: DataType) -> pa.Array:
        """Returns a column with its type. Values that don't parse are faults, and null."""
        column = self.values[name]
        values = column.chunk(0) if column.num_chunks else pa.array([], pa.binary())
        try:
            texts = values.cast(pa.string())
        except pa.ArrowInvalid:
            is_text = [_is_utf8(value) for value in values.to_pylist()]
            for row in np.flatnonzero(~np.array(is_text))[: MAX_DISPLAYED + 1]:
                self._add(f'{self.table}.{name}: "{shortened(_shown(values[row].as_py()))}" is not UTF-8. {_UTF8}', row)
            texts = pc.if_else(pa.array(is_text), values, None).cast(pa.string())
        parsed, is_bad = parse_column(texts, kind)
        if is_bad is not None:
            bad = np.flatnonzero(is_bad.fill_null(False).to_numpy(zero_copy_only=False))
            for row in bad[: MAX_DISPLAYED + 1]:
                self._add(f'{self.table}.{name}: "{shortened(texts[row].as_py())}" is not {noun(kind)}', row)
        return parsed

    def _add(self, problem: str, row: int) -> None:
        """Adds a fault of a row by its index."""
        number = int(row) + 1
        for each in self.skipped:
            number += each <= number
        record = ", ".join(f"{name}={_shown(self.values[name][row].as_py())}" for name in self.values.column_names)
        self.faults.add_value(self.table, problem, self.path, record, self.num_before + number)


def _is_utf8(value: bytes | None) -> bool:
    try:
        return value is None or value.decode() is not None
    except UnicodeDecodeError:
        return False


def _shown(value: bytes | None) -> str:
    """Returns bytes as text for a message."""
    return (value or b"").decode(errors="backslashreplace")


# --- JSON ----------------------------------------------------------------------------------------------------------


def read_json_file(table: str, path: str, schema: StructType, faults: FileFaults) -> Iterator[pa.Table]:
    """Yields the rows of a file of JSON lines. Fields that the schema doesn't have are ignored.

    Values that don't parse are added to the faults.

    Raises:
        UnreadableFileError: see `pieces`; or a key of the first row differs from a column only in case.
    """
    arrow_schema = pa.schema([(field.name, to_arrow_type(field.dataType)) for field in schema.fields])
    num_rows = 0
    for piece in pieces(path, quotes=False):
        if b"\r" in piece or b"\n\n" in piece:  # a blank line isn't an item of the list
            piece = _LINE_ENDS.sub(b"\n", piece)
        lines = piece.split(b"\n")
        records = [line for line in lines if line.strip()]
        if not records:
            continue
        if not num_rows:
            with suppress(ValueError, RecursionError):
                _check_keys(json.loads(records[0]), schema)
        rows = _parse_plain_json(piece, records, schema, arrow_schema)
        if rows is None:
            values = []
            for number, record in enumerate(records, start=num_rows + 1):
                try:
                    values.append(_json_row(table, record, schema))
                except ValueError as error:
                    faults.add_value(table, str(error), path, _shown(record), number)
                    if faults.is_full(table):
                        return
            rows = pa.Table.from_pylist(values, arrow_schema)
        num_rows += len(records)
        yield rows


def _check_keys(row: Any, schema: StructType) -> None:
    """Raises UnreadableFileError if a key of a row differs from a column only in case: it would be passed over."""
    for key in row if isinstance(row, dict) else ():
        if key not in schema.names and key.lower() in schema.names:
            raise UnreadableFileError(f"the key {key} differs in case from the column {key.lower()}", "Rename it")


def read_json_document(table: str, path: str, schema: StructType, faults: FileFaults) -> Iterator[pa.Table]:
    """Yields the rows of a file that is one JSON object, or an array of objects. Values that don't parse are faults.

    Raises:
        UnreadableFileError: see `pieces`.
    """
    text = b""
    for piece in pieces(path, quotes=False):
        text += piece
        if len(text) > _MAX_DOCUMENT_BYTES:
            remedy = "Write one JSON object per line"
            raise UnreadableFileError(f"a document has more than {_MAX_DOCUMENT_BYTES:,} bytes", remedy)
    try:
        document = parse_json(text.decode())
        rows = document if isinstance(document, list) else [document]
        for row in rows[:1]:
            _check_keys(row, schema)
        values = [_fields_of(table, row, schema) for row in rows]
    except UnicodeDecodeError:
        faults.add_file(table, path, "it is not UTF-8", _UTF8)
    except RecursionError:
        faults.add_file(table, path, "it is nested too deeply", "Write a JSON object, or an array of objects")
    except _FieldError as error:
        faults.add_value(table, str(error), path, _shown(text), 1)
    except ValueError as error:
        faults.add_file(table, path, f"it isn't JSON ({error})", "Write a JSON object, or an array of objects")
    else:
        arrow_schema = pa.schema([(field.name, to_arrow_type(field.dataType)) for field in schema.fields])
        yield pa.Table.from_pylist(values, arrow_schema)


def _parse_plain_json(
    piece: bytes, records: Sequence[bytes], schema: StructType, arrow_schema: pa.Schema
) -> pa.Table | None:
    """Returns the rows of JSON lines, parsed by Arrow, or None if another parser must decide about a value.

    Arrow's parser crashes on a record that isn't an object, and it accepts several records in a line.
    """
    if any(isinstance(field.dataType, TimestampType | BinaryType) for field in schema.fields):
        return None  # Arrow has other rules for them
    if _AFTER_BRACKET.search(piece) or not all(
        record.startswith(b"{") and record.count(b"[") + record.count(b"{") < _MAX_ARROW_BRACKETS for record in records
    ):
        return None
    try:
        piece.decode()
        rows = arrow_json.read_json(
            pa.BufferReader(piece),
            read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(piece) + 1),
            parse_options=arrow_json.ParseOptions(explicit_schema=arrow_schema, unexpected_field_behavior="ignore"),
        )
    except (pa.ArrowException, ValueError):
        return None
    return rows.select(arrow_schema.names) if rows.num_rows == len(records) else None


class _FieldError(ValueError):
    """A JSON value that has another type than its column."""


def _json_row(table: str, record: bytes, schema: StructType) -> dict[str, Any]:
    """Returns the fields of a JSON line. Raises ValueError with the problem."""
    try:
        value = parse_json(record.decode())
    except UnicodeDecodeError:
        raise ValueError(f"{table}: the row is not UTF-8. {_UTF8}") from None
    except RecursionError:
        raise ValueError(f"{table}: the row is nested too deeply. Write one JSON object per line") from None
    except ValueError:
        value = [] if record.lstrip().startswith(b"[") else None
    return _fields_of(table, value, schema)


def _fields_of(table: str, value: Any, schema: StructType) -> dict[str, Any]:
    """Returns the fields of a JSON object. Raises _FieldError with the problem."""
    if not isinstance(value, dict):
        hint = ". Write one object per line, without an array around them" if isinstance(value, list) else ""
        raise _FieldError(f"{table}: not a json object{hint}")
    fields = {}
    for column in schema.fields:
        found = value.get(column.name)
        if column.name in value.repeated:  # type: ignore[attr-defined]
            raise _FieldError(f"{table}.{column.name}: the row has it more than once. Leave one")
        try:
            fields[column.name] = json_value(found, column.dataType)
        except UnicodeEncodeError:
            raise _FieldError(f"{table}.{column.name}: half of a surrogate pair isn't a character. {_UTF8}") from None
        except (ValueError, RecursionError):
            shown = "what is nested too deeply"
            with suppress(RecursionError):
                shown = shortened(json_text(found))
            raise _FieldError(f"{table}.{column.name}: {shown} is not {noun(column.dataType)}") from None
    return fields


# --- parses columns of text and JSON values as the types of the tables ---------------------------------------------
#
# The rules are those of Spark's `try_cast`, so that a file means the same in both readers: blanks around a value are
# ignored, and a number can have a plus sign. A value that doesn't parse is a fault and never null.


_BLANKS = "".join(map(chr, range(0x21))) + "\x7f"
"""The characters that Spark removes around a number: blanks and control characters of ASCII."""
_INT = re.compile(r"[+-]?[0-9]{1,4000}")
_DOUBLE = re.compile(r"([+-]?(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?)[fFdD]?")
_SPECIAL = re.compile(r"[+-]?NaN|(?i:nan|[+-]?inf(?:inity)?)")
_BOOLEANS = {
    **dict.fromkeys(("t", "true", "y", "yes", "1"), True),
    **dict.fromkeys(("f", "false", "n", "no", "0"), False),
}
_SPACES = " \t\n\r\f\v"
"""What is ignored around the items of a list, without patterns, which would backtrack over it."""


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
    is_names = isinstance(kind.elementType, StringType) and text.lstrip(_SPACES).startswith("[")
    if isinstance(kind.elementType, StructType) or is_names:
        if not text.strip(" "):
            return []
        items = json_value(parse_json(text), kind)
    else:
        if text.strip() == "]":
            raise ValueError(text)
        inner = text.strip(_SPACES).removeprefix("[").removesuffix("]").strip(_SPACES)
        items = [parse_text(item.strip(_SPACES), kind.elementType) for item in inner.split(",")] if inner else []
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
        counts = Counter(name for name, _ in names) if len(self) < len(names) else {}
        self.repeated = {name for name, count in counts.items() if count > 1}


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
        text = value if isinstance(value, str) else json_text(value)
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


def json_text(value: Any) -> str:
    """Returns a value of `parse_json` as JSON, with its numbers as they were written."""
    if isinstance(value, list):
        return f"[{','.join(map(json_text, value))}]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{json_text(name)}:{json_text(item)}" for name, item in value.items()) + "}"
    return str(value) if isinstance(value, JsonNumber) else json.dumps(value, ensure_ascii=False)
