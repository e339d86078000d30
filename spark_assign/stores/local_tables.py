"""Reads tables from local files on the driver, the same for both engines: csv, JSON lines, and the footers of Parquet.

Spark's own readers turn a value that doesn't parse into null, replace bytes that aren't UTF-8, and need jobs for a
check. Here a file is checked while it is read. Small tables are passed to the session as they are; large ones by a
temporary Parquet file.
"""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv
from pyarrow import json as arrow_json
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, DataType, LongType, StringType, StructField, StructType, TimestampType

from spark_assign.spark.dataframes import spark_type, to_arrow_type, union
from spark_assign.spark.engine import dataframe_of, is_embedded, location_for, plain_schema, shares_files
from spark_assign.stores.local_parquet import MAX_EXPANDED_BYTES, batches, schema_of
from spark_assign.stores.locations import (
    MAX_DEPTH,
    MAX_DISPLAYED,
    FileFaults,
    UnreadableFileError,
    for_spark,
    local_path,
    name_of_path,
    problem_of,
    shortened,
)
from spark_assign.stores.typed_text import json_text, json_value, noun, parse_column, parse_json
from spark_assign.tables.errors import SourceError, is_engine_failure, reason

_MAX_BYTES_IN_MEMORY = 16 * 1024 * 1024
"""Size of a table from which it is written to a temporary file while it is read."""
_MAX_PARQUET_BYTES_IN_MEMORY = 4 * 1024 * 1024
"""Size of Parquet files up to which the embedded engine gets their rows at once."""
_PIECES_PER_FILE, _MAX_TASKS = 4, 64
_NUMBERS = StructType([StructField("number", LongType())])
_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_NULL = "void"
"""The type of a column that some writers give to a file with only nulls in it."""
LOST = "lost+found"
"""A folder of a file system, which only its administrator can list."""
MAX_ENTRIES = 1_000_000
"""Maximum number of files and folders in the folder of a fleet or of a table."""
UNREADABLE_SUFFIXES = (".lz4", ".snappy", ".deflate")
"""Suffixes of compressed files that only Spark can read."""


@dataclass(frozen=True)
class LocalFile:
    """A file of a table, and the values of its columns that are in the names of folders (`cluster=eu/`)."""

    path: str
    partition: Mapping[str, str | None] = field(default_factory=dict)


def walk(folder: str) -> Iterator[str]:
    """Yields the files in a folder and in its folders, by their paths in it, without hidden ones (`_SUCCESS`, `.crc`).

    Links are followed. A folder that another process removes meanwhile has no files.

    Raises:
        SourceError: a folder can't be listed, or has too many files and folders. Links in a circle are too deep.
    """

    def refuse(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise SourceError(f"{error.filename} cannot be listed: {problem_of(error)}. Change it, or move it away")

    num_entries = 0
    for path, folders, names in os.walk(folder, followlinks=True, onerror=refuse):
        folders[:] = [name for name in folders if name[0] not in "._" and name != LOST]
        num_entries += len(folders) + len(names)
        if num_entries > MAX_ENTRIES or path.count(os.sep) > folder.count(os.sep) + MAX_DEPTH:
            limits = f"more than {MAX_ENTRIES:,} files and folders, or more than {MAX_DEPTH} in each other"
            raise SourceError(f"{folder} has {limits}. Name a folder with tables only")
        yield from (os.path.relpath(os.path.join(path, name), folder) for name in names if name[0] not in "._")


def list_files(sources: Sequence[str]) -> list[LocalFile]:
    """Returns the files of a table that has these files and folders, sorted, without hidden ones (`_SUCCESS`, `.crc`).

    As in Spark, of the folders in a folder only those of partitions (`name=value`) are read.

    Raises:
        SourceError: a file is a pipe or a device, or see `walk`.
    """
    return [file for source in sources for file in _files_of(source)]


def refuse_pipe(path: str) -> None:
    """Raises SourceError if a path is a pipe or a device, from which a reader could wait forever."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise SourceError(f"{path} is a pipe or a device. Replace it with a file")


def _files_of(source: str) -> Iterator[LocalFile]:
    is_folder = os.path.isdir(source)
    for name in sorted(walk(source)) if is_folder else [""]:
        path, folders = os.path.join(source, name) if is_folder else source, name.split("/")[:-1]
        if all("=" in each for each in folders):
            refuse_pipe(path)
            values = {key: value for key, _, value in (each.partition("=") for each in folders)}
            yield LocalFile(
                path, {key: None if value == _NULL_PARTITION else unquote(value) for key, value in values.items()}
            )


def read_text(
    spark: SparkSession,
    table: str,
    schema: StructType,
    kind: str,
    sources: Sequence[str],
    faults: FileFaults,
    *,
    is_document: bool = False,
) -> DataFrame | None:
    """Reads csv or JSON-lines files as one table; columns that a file lacks are null.

    Args:
        spark: a session on this machine.
        table: the name of the table in messages.
        schema: the types of the columns. Csv files can have others, which are strings.
        kind: `csv` or `json`.
        sources: files and folders.
        faults: gets the values that don't parse, and the files that can't be read.
        is_document: whether each JSON file is one object or an array of objects, in any number of lines.

    Returns:
        the table, or None if it has a fault.
    """
    files = list_files(sources)
    types = {each.name: each.dataType for each in schema.fields}
    columns: dict[str, DataType] = {} if kind == "csv" else dict(types)
    readers: list[tuple[LocalFile, Callable[[], Iterator[pa.Table]]]] = []
    empty: list[str] = []
    for file in files:
        with _reported(table, file.path, faults):
            if kind == "csv":
                names = read_header(file.path)
                columns |= {name: types.get(name, StringType()) for name in names}
                if names:
                    readers.append((file, partial(read_csv_file, table, file.path, names, schema, faults)))
                else:
                    empty.append(file.path)
            else:
                read = read_json_document if is_document else read_json_file
                readers.append((file, partial(read, table, file.path, schema, faults)))
        columns |= {name: types.get(name, StringType()) for name in file.partition}
    written = {os.path.dirname(file.path) for file, _ in readers}
    for path in empty:  # a writer that failed; beside others, a part of a table, of which not every writer has rows
        if os.path.dirname(path) not in written:
            faults.add_file(table, path, "it is empty", "Write a header with the names of the columns")
    if faults.has(table) and not columns:
        return None
    whole = StructType([StructField(name, each) for name, each in columns.items()])
    frame = _frame(spark, _rows(table, readers, whole, faults), whole)
    return None if faults.has(table) else frame


@contextlib.contextmanager
def _reported(table: str, path: str, faults: FileFaults) -> Iterator[None]:
    """Adds an UnreadableFileError inside the context to the faults of a table."""
    try:
        yield
    except UnreadableFileError as error:
        faults.add_file(table, path, error.problem, error.remedy)


def _rows(
    table: str,
    readers: Sequence[tuple[LocalFile, Callable[[], Iterator[pa.Table]]]],
    schema: StructType,
    faults: FileFaults,
) -> Iterator[pa.Table]:
    """Yields the rows of all files with all columns."""
    for file, read in readers:
        if faults.is_full(table):
            return
        with _reported(table, file.path, faults):
            for rows in read():
                yield _with_all_columns(table, file, rows, schema, faults)


def _with_all_columns(table: str, file: LocalFile, rows: pa.Table, schema: StructType, faults: FileFaults) -> pa.Table:
    """Returns rows with the columns of a schema: those of the file, of its folders, and null for others."""
    columns = []
    for each in schema.fields:
        kind = to_arrow_type(each.dataType)
        if each.name in file.partition:
            value, is_bad = parse_column(pa.array([file.partition[each.name]], pa.string()), each.dataType)
            if is_bad is not None:
                problem = f'{table}.{each.name}: "{file.partition[each.name]}" is not {noun(each.dataType)}'
                faults.add_value(table, problem, file.path, name_of_path(os.path.dirname(file.path)), 1)
            columns.append(pa.repeat(value[0], len(rows)))
        else:
            found = each.name in rows.column_names
            columns.append(rows[each.name].cast(kind) if found else pa.nulls(len(rows), kind))
    return pa.table(columns, schema.names)


def _frame(spark: SparkSession, rows: Iterator[pa.Table], schema: StructType) -> DataFrame:
    """Returns rows as a DataFrame, by a temporary file if they are many."""
    arrow_schema = pa.schema([(each.name, to_arrow_type(each.dataType)) for each in schema.fields])
    head: list[pa.Table] = []
    size = 0
    for piece in rows:
        head.append(piece)
        size += piece.nbytes
        if size > _MAX_BYTES_IN_MEMORY:
            break
    else:
        return dataframe_of(spark, pa.concat_tables([arrow_schema.empty_table(), *head]), schema)
    folder = tempfile.mkdtemp(dir=_temporary_folder())
    # Several files, so that several tasks read them.
    pieces = itertools.chain(head, rows)
    while some := list(itertools.islice(pieces, _PIECES_PER_FILE)):
        parquet.write_table(pa.concat_tables(some), os.path.join(folder, f"{len(os.listdir(folder)):06d}.parquet"))
    return spark.read.schema(schema).parquet(location_for(spark, f"file://{folder}"))


@cache
def _temporary_folder() -> str:
    """Returns a folder that is removed when the process ends."""
    folder = tempfile.TemporaryDirectory(prefix="spark_assign-")
    _kept.append(folder)
    return folder.name


_kept: list[tempfile.TemporaryDirectory[str]] = []


# --- Parquet -------------------------------------------------------------------------------------------------------


def read_parquet(spark: SparkSession, table: str, sources: Sequence[str], faults: FileFaults) -> DataFrame | None:
    """Reads Parquet files as one table; columns that a file lacks are null.

    Args:
        spark: a session on this machine.
        table: the name of the table in messages.
        sources: files and folders.
        faults: gets the files that aren't Parquet files, or have columns that don't fit those of other files.

    Returns:
        the table, or None if it has a fault.
    """
    files = list_files(sources)
    types: dict[str, tuple[str, str]] = {}
    paths_by_columns: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for file in files:
        found = _columns_of(table, file.path, faults)
        paths_by_columns.setdefault(tuple(found.items()), []).append(file.path)
        for name, kind in found.items():
            if kind == _NULL:
                continue
            first, path = types.setdefault(name, (kind, file.path))
            if first != kind:
                problem = f"{name} is {kind}, but {first} in {name_of_path(path)}"
                faults.add_file(table, file.path, problem, "Write both files with the same type")
    faults.add_same_names(table, {name: path for name, (_, path) in types.items()})
    if faults.has(table):
        return None
    if is_embedded(spark):
        columns: dict[str, DataType] = {}
        for name, (kind, path) in types.items():
            if (found_type := spark_type(schema_of(path).field(name).type)) is None:
                faults.add_file(table, path, f"{name} is {kind}, a type that Spark lacks", "Cast or remove the column")
            else:
                columns[name] = found_type
        columns |= {name: StringType() for file in files for name in file.partition}
        if faults.has(table):
            return None
        return _read_files(spark, files, StructType([StructField(name, each) for name, each in columns.items()]))
    if len(paths_by_columns) <= 1:
        return spark.read.parquet(*(location_for(spark, f"file://{path}") for path in sources))
    if any(file.partition for file in files):
        problem = "files in folders of partitions have different columns"
        raise SourceError(f"{table}: {sources[0]} cannot be read: {problem}. Write it again")
    # Spark reads a column of type null as int, which has no type in common with strings.
    return union(
        spark.read.parquet(*(location_for(spark, f"file://{path}") for path in paths)).drop(
            *(name for name, kind in columns if kind == _NULL)
        )
        for columns, paths in paths_by_columns.items()
    )


def read_parquet_location(spark: SparkSession, table: str, location: str) -> DataFrame:
    """Reads a Parquet file, or a folder of Parquet files.

    The embedded engine gets local files by pyarrow: it would read no rows of a path that doesn't exist, and refuses the
    timestamps (INT96) that Spark writes by default.

    Args:
        spark: the session.
        table: the name of the table in messages.
        location: a path or URI.

    Raises:
        SourceError: there is no such file or folder, or it can't be read.
    """
    is_elsewhere = location.startswith("/Volumes/") or not shares_files(spark)
    local = None if is_elsewhere else local_path(location)
    if local is not None and not list_files([local] if os.path.exists(local) else []):
        raise SourceError(f"{table}: there are no Parquet files in {location}")
    if local is None or not is_embedded(spark):
        try:
            frame = spark.read.parquet(for_spark(location))
            _ = frame.schema  # Spark Connect opens the files only now
        except Exception as error:  # classic PySpark lets Java's own exceptions through
            if is_engine_failure(error):
                raise
            if re.search("PATH_NOT_FOUND|UNABLE_TO_INFER_SCHEMA", str(error)):
                raise SourceError(f"{table}: there are no Parquet files in {location}") from error
            raise SourceError(f"{table}: {location} cannot be read: {reason(error)}") from error
        return frame
    faults = FileFaults()
    rows = read_parquet(spark, table, [local], faults)
    faults.verify()
    assert rows is not None
    return rows


def read_stored(spark: SparkSession, folder: Path, schema: StructType) -> DataFrame:
    """Returns a table of Parquet files that a run has stored in a folder, read by the embedded engine.

    Raises:
        FileNotFoundError: the folder is gone, because the run was replaced.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} does not exist: the run was replaced while it was read. Read it again")
    return _read_files(spark, list_files([str(folder)]), plain_schema(schema))


def _read_files(spark: SparkSession, files: Sequence[LocalFile], schema: StructType) -> DataFrame:
    """Reads Parquet files by pyarrow. The embedded engine itself would read no rows of a file that is gone.

    Small files are read at once, others (and small ones with values that become large) when the table is computed.
    """
    arrow_schema = pa.schema([(each.name, to_arrow_type(each.dataType)) for each in schema.fields])
    if sum(os.path.getsize(file.path) for file in files) <= _MAX_PARQUET_BYTES_IN_MEMORY:
        read_at_once, num_bytes = [arrow_schema.empty_table()], 0
        for piece in (piece for file in files for piece in parquet_pieces(file, arrow_schema)):
            read_at_once.append(piece)
            if (num_bytes := num_bytes + piece.nbytes) > MAX_EXPANDED_BYTES:
                break
        else:
            return dataframe_of(spark, pa.concat_tables(read_at_once), schema)

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["number"].to_pylist():
                for piece in parquet_pieces(files[number], arrow_schema):
                    yield from piece.to_batches()

    numbers = dataframe_of(spark, pa.table({"number": pa.array(range(len(files)), pa.int64())}), _NUMBERS)
    return numbers.repartition(min(len(files), _MAX_TASKS), "number").mapInArrow(read, schema)


def parquet_pieces(file: LocalFile, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yields the rows of a Parquet file with the columns of a schema; null for those that the file lacks.

    Raises:
        SourceError: its content is damaged.
    """
    try:
        for batch in batches(file.path, schema.names):
            names = batch.schema.names
            columns = []
            for each in schema:
                if each.name in file.partition:
                    columns.append(pa.repeat(pa.scalar(file.partition[each.name], each.type), len(batch)))
                elif each.name in names:
                    columns.append(batch[each.name].cast(each.type))
                else:
                    columns.append(pa.nulls(len(batch), each.type))
            yield pa.table(columns, schema=schema)
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException, ValueError, KeyError) as error:  # KeyError: two columns of one name
        problem = f"file://{file.path} cannot be read: {shortened(problem_of(error), 300)}"
        raise SourceError(f"{problem}. Write or copy it again") from error


def _columns_of(table: str, path: str, faults: FileFaults) -> dict[str, str]:
    """Returns the name of the type of each column of a Parquet file, from its footer."""
    try:
        schema = schema_of(path)
        if len(set(schema.names)) < len(schema):
            raise ValueError("two columns have the same name")
    except (OSError, pa.ArrowException, ValueError) as error:
        problem = "it is empty" if os.path.exists(path) and not os.path.getsize(path) else problem_of(error)
        faults.add_file(table, path, problem, "Check its name, or write or copy it again")
        return {}
    return {each.name: _type_name(each.type) for each in schema}


def _type_name(kind: pa.DataType) -> str:
    """Returns the name of a type in Spark, or Arrow's if Spark has none."""
    known = spark_type(kind)
    return str(kind) if known is None else known.simpleString()


# --- reads local csv and JSON-lines files in pieces of complete records, and checks every value ---------------
#
# Memory is bounded by the size of a piece, not by that of the file. The dialect of csv is RFC 4180 with a header: a
# quoted field can contain line ends, and quotes inside quotes are doubled. An empty field is null, and `""` is an empty
# string. Files are UTF-8, with or without a byte order mark.


_PIECE_BYTES = 8 * 1024 * 1024
_HEADER_BYTES = 64 * 1024
_MAX_RECORD_BYTES = 64 * 1024 * 1024
"""Maximum size of a row. A larger one is a quote that is never closed, or no file of this format."""
_MAX_DOCUMENT_BYTES, _MAX_COLUMNS = 256 * 1024 * 1024, 10_000
"""Maximum size of a JSON document, decompressed, and number of columns of a csv file."""
_MAX_ARROW_BRACKETS = 200
"""Maximum number of brackets in a JSON record that Arrow parses: its parser is recursive."""
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_BOM, _OTHER_ENCODINGS = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")
_LINE_END = re.compile(rb"\r\n|\n|\r")
_AFTER_BRACKET = re.compile(rb"[}\]][ \t]*[^ \t\r\n,}\]]")
_UTF8 = "Save the file as UTF-8"


def pieces(path: str, *, quotes: bool, size: int = _PIECE_BYTES) -> Iterator[bytes]:
    """Yields a file, decompressed, in pieces that end with a record, without a byte order mark.

    Args:
        path: the file. Its suffix determines the compression.
        quotes: whether line ends inside quotes don't end a record.
        size: number of bytes to read at once.

    Raises:
        UnreadableFileError: the file can't be opened or decompressed, or a record is too large.
    """
    suffix = next((each for each in COMPRESSIONS if path.endswith(each)), "")
    rest, is_first = b"", True
    try:
        with pa.input_stream(path, compression=COMPRESSIONS.get(suffix)) as file:
            while read := file.read(size):
                data = rest + read
                if is_first and data.startswith(_OTHER_ENCODINGS):
                    raise UnreadableFileError("it is UTF-16", _UTF8)
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
        text = _split_header(next(pieces(path, quotes=True, size=_HEADER_BYTES), b""))[0].decode()
        if text.count(",") >= _MAX_COLUMNS:
            raise UnreadableFileError(f"the header has more than {_MAX_COLUMNS:,} columns", "Check whether it is csv")
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
            raise UnreadableFileError(f"the header has the column {name} twice", "Remove or rename one of them")
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
    table: str, path: str, names: Sequence[str], schema: StructType, faults: FileFaults
) -> Iterator[pa.Table]:
    """Yields the rows of a csv file with these columns, with the types of the schema. Other columns are strings.

    Values that don't parse are added to the faults.

    Raises:
        UnreadableFileError: see `pieces`.
    """
    types = {field.name: field.dataType for field in schema.fields}
    num_rows, is_first = 0, True
    for piece in pieces(path, quotes=True):
        records, is_first = _split_header(piece)[1] if is_first else piece, False
        if not records.strip(b"\r\n"):
            continue
        if (position := _misplaced_quote(records)) is not None:
            before = _LINE_END.split(records[:position])
            record = before[-1] + _LINE_END.split(records[position:], maxsplit=1)[0]
            problem = f"{table}: a quote that isn't closed, or isn't doubled (\"\"), or is in a field without quotes"
            faults.add_value(table, problem, path, _shown(record), num_rows + len(before))
            return
        rows = _CsvRows.parse(table, path, names, records, num_rows, faults)
        yield pa.table({name: rows.typed(name, types.get(name, StringType())) for name in names})
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
        cls, table: str, path: str, names: Sequence[str], records: bytes, num_before: int, faults: FileFaults
    ) -> _CsvRows:
        """Returns the rows of complete records. Rows that don't have all fields are faults."""
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
                    column_types=dict.fromkeys(names, pa.binary()),
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
        UnreadableFileError: see `pieces`.
    """
    arrow_schema = pa.schema([(field.name, to_arrow_type(field.dataType)) for field in schema.fields])
    num_rows = 0
    for piece in pieces(path, quotes=False):
        lines = piece.splitlines() if b"\r" in piece else piece.split(b"\n")
        records = [line for line in lines if line.strip()]
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
            rows = _rows_of(values, arrow_schema)
        num_rows += len(records)
        yield rows


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
        values = [_fields_of(table, row, schema) for row in (document if isinstance(document, list) else [document])]
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
        yield _rows_of(values, arrow_schema)


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
            shown = shortened(json_text(found))
            raise _FieldError(f"{table}.{column.name}: {shown} is not {noun(column.dataType)}") from None
    return fields


def _rows_of(values: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist(values, schema)
