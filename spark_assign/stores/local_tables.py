"""Reads tables from local files on the driver, the same for both engines: csv, JSON lines, and the footers of Parquet.

Spark's own readers turn a value that doesn't parse into null, replace bytes that aren't UTF-8, and need jobs for a
check. Here a file is checked while it is read. Small tables are passed to the session as they are; large ones by a
temporary Parquet file.
"""

from __future__ import annotations

import bisect
import contextlib
import itertools
import os
import re
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType

from spark_assign.numeric.arrays import IntArray
from spark_assign.spark.dataframes import spark_type, to_arrow_type, union
from spark_assign.spark.engine import dataframe_of, is_embedded, location_for, plain_schema, shares_files
from spark_assign.stores.local_text import (
    MAX_COLUMNS,
    noun,
    parse_column,
    read_csv_file,
    read_header,
    read_json_document,
    read_json_file,
)
from spark_assign.stores.locations import (
    MAX_DEPTH,
    FileFaults,
    UnreadableFileError,
    for_spark,
    local_path,
    name_of_path,
    problem_of,
    shortened,
)
from spark_assign.stores.parquet_footer import row_groups
from spark_assign.tables.errors import SourceError, is_engine_failure, reason, writing_to
from spark_assign.tables.schema_fields import MAX_NAME_BYTES, is_name

_MAX_BYTES_IN_MEMORY = 16 * 1024 * 1024
"""Size of a table from which it is written to a temporary file while it is read."""
_MAX_PARQUET_BYTES_IN_MEMORY = 4 * 1024 * 1024
"""Size of Parquet files up to which the embedded engine gets their rows at once."""
_MAX_BATCH_ROWS, _MAX_BATCH_BYTES, MAX_EXPANDED_BYTES = 25_000, 64 << 20, 512 << 20
"""Maximum size of a batch of a Parquet file, and of the rows that are in memory at once; a single row can have it."""
_LONG_TEXT_BYTES, _MAX_LONG_TEXT_BYTES = 1_000, 256 << 20
"""Size from which a text is long, and the maximum size of all long texts of a table."""
_MAX_CLUSTER_TEXT_BYTES = _MAX_LONG_TEXT_BYTES >> 8
"""Maximum size of the long texts of a cluster in a table of a snapshot."""
_MAX_BINARY_RATIO = 64
"""Up to this many times the size of its file, binary values don't count: an archive of records can be large."""
_PIECES_PER_FILE, _MAX_TASKS = 4, 64
_NUMBERS = StructType([StructField("number", LongType())])
_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_BAD_ESCAPE, _NOT_ASCII = re.compile("%(?![0-9A-Fa-f]{2})"), re.compile("%[89A-Fa-f]")
_NULL = "void"
"""The type of a column that some writers give to a file with only nulls in it."""
_DELTAS = {6: "DELTA_LENGTH_BYTE_ARRAY", 7: "DELTA_BYTE_ARRAY"}
"""Encodings of texts that pyarrow can't read as dictionaries."""
LOST = "lost+found"
"""A folder of a file system, which only its administrator can list."""
MAX_ENTRIES = 1_000_000
"""Maximum number of files and folders in the folder of a fleet or of a table."""
_MAX_OTHER_COLUMNS, _USER_DATA = 50, "user_data"
"""Maximum number of columns of a csv table that aren't in its schema, for which an engine takes quadratic time; and the
one that assignors get (`assignors.custom`), which doesn't count."""
_MAX_TABLE_COLUMNS = 2 * MAX_COLUMNS
"""Maximum number of different columns of all files of a table: for each file, its rows get those of the others."""
_TOO_MANY_COLUMNS = (
    f"it and the files before it have more than {_MAX_TABLE_COLUMNS:,} different columns",
    "Write them with the same columns, or move them away",
)
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


def list_files(sources: Sequence[str], *, by_spark: bool = False) -> list[LocalFile]:
    """Returns the files of a table that has these files and folders, sorted, without hidden ones (`_SUCCESS`, `.crc`).

    Raises:
        SourceError: a file is a pipe or a device; or see `walk` and `partition_of`.
    """
    return [file for source in sources for file in _files_of(source, by_spark)]


def partition_of(source: str, name: str, *, by_spark: bool = False) -> dict[str, str | None]:
    """Returns the values of the columns that are in the names of folders (`cluster=eu/`).

    Args:
        source: the folder of a table.
        name: the path of a file in it.
        by_spark: whether Spark decodes the names. For Spark, each `%XX` is a character, not a byte of UTF-8.

    Raises:
        SourceError: a folder isn't one of a partition, which Spark would pass over; a column is in two folders; or a
            name can't be decoded, so that two folders could have the same value.
    """
    values: dict[str, str | None] = {}
    for folder in name.split("/")[:-1]:
        key, equals, value = folder.partition("=")
        shown = shortened(folder)
        if not equals:
            problem = f"has files in {shown}, a folder that isn't one of a partition (name=value)"
            raise SourceError(f"{source} {problem}. Move them up, or away")
        if key in values:
            raise SourceError(f"{source} has the folder {shown} in another one of {key}. Remove or rename one of them")
        if _BAD_ESCAPE.search(value):
            raise SourceError(f"{source} has the folder {shown}, in which % isn't the start of %XX. Write %25 for %")
        if by_spark and _NOT_ASCII.search(value):
            problem = "which Spark reads as other characters, since its % is a byte of UTF-8"
            raise SourceError(f"{source} has the folder {shown}, {problem}. Rename it to the characters themselves")
        try:
            values[key] = None if value == _NULL_PARTITION else unquote(value, errors="strict")
            f"{key}{values[key]}".encode()
        except UnicodeError:
            raise SourceError(f"{source} has the folder {shown}, whose name isn't UTF-8. Rename it") from None
    return values


def refuse_pipe(path: str) -> None:
    """Raises SourceError if a path is a pipe or a device, from which a reader could wait forever."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise SourceError(f"{path} is a pipe or a device. Replace it with a file")


def _files_of(source: str, by_spark: bool) -> Iterator[LocalFile]:
    is_folder = os.path.isdir(source)
    for name in sorted(walk(source)) if is_folder else [""]:
        path = os.path.join(source, name) if is_folder else source
        partition = partition_of(source, name, by_spark=by_spark)
        refuse_pipe(path)
        yield LocalFile(path, partition)


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
    paths: dict[str, str] = {}
    readers: list[tuple[LocalFile, Callable[[], Iterator[pa.Table]]]] = []
    empty: list[str] = []
    for file in files:
        with _reported(table, file.path, faults):
            if kind == "csv":
                names = read_header(file.path)
                for name in names:
                    paths.setdefault(name, file.path)
                if names:
                    readers.append((file, partial(read_csv_file, table, file.path, names, schema, faults, columns)))
                else:
                    empty.append(file.path)
            else:
                read = read_json_document if is_document else read_json_file
                readers.append((file, partial(read, table, file.path, schema, faults)))
        for name in file.partition:
            paths.setdefault(name, file.path)
        if len(paths) > _MAX_TABLE_COLUMNS:
            faults.add_file(table, file.path, *_TOO_MANY_COLUMNS)
            return None
    columns |= {name: types.get(name, StringType()) for name in paths}
    for name in [name for name in columns if name.lower() not in types and name != _USER_DATA][_MAX_OTHER_COLUMNS:]:
        del columns[name]
    written = {os.path.dirname(file.path) for file, _ in readers}
    for path in empty:  # a writer that failed; beside others, a part of a table, of which not every writer has rows
        if os.path.dirname(path) not in written:
            faults.add_file(table, path, "it is empty", "Write a header with the names of the columns")
    is_twice = faults.add_same_names(table, {name: paths.get(name, "") for name in columns})
    if is_twice or (faults.has(table) and not columns):
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
    number = next(_tables)
    for file, read in readers:
        if faults.is_full(table):
            return
        check = TextCheck(number, file.path)
        with _reported(table, file.path, faults):
            for rows in read():
                for batch in rows.to_batches():
                    check.add(batch)
                yield _with_all_columns(table, file, rows, schema, faults)
        faults.num_rows[file.path] = check.num_rows


_tables = itertools.count()
_long_texts: defaultdict[int, dict[str, int]] = defaultdict(dict)
"""Size of the long texts of each file that has any, by number of its table. Tasks of the engine share them. Long binary
values count if they have more than `_MAX_BINARY_RATIO` times the size of the file."""


@dataclass
class TextCheck:
    """Checks the texts of a file while it is read: their sizes, before dictionaries are expanded."""

    table: int
    """The number of the table, of `_tables`."""
    path: str
    num_rows: int = 0
    size: int = 0
    binary_size: int = 0
    """Number of rows, and sizes of their long texts and long binary values."""

    def add(self, rows: pa.RecordBatch) -> None:
        """Checks the next rows.

        Raises:
            UnreadableFileError: a name is too long, or all long texts of the table are.
        """
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            long = [lengths.filter(pc.greater(lengths, _LONG_TEXT_BYTES)) for lengths in _long_lengths(column)]
            is_binary = "binary" in str(column.type)  # also in a list or a dictionary
            if is_name(name) and not is_binary and _longest(long) > MAX_NAME_BYTES:
                before = bisect.bisect_left(
                    range(len(rows)), MAX_NAME_BYTES + 1, key=lambda row: _longest(_long_lengths(column[: row + 1]))
                )
                size = _longest(_long_lengths(column[before : before + 1]))
                problem = f"{name} of row {self.num_rows + before + 1:,} has {size:,} bytes"
                remedy = f"A name has at most {MAX_NAME_BYTES:,}: shorten it, or remove the row"
                raise UnreadableFileError(problem, remedy)
            if any(map(len, long)):
                size, files = _long_bytes(rows, name), _long_texts[self.table]
                self.size, self.binary_size = self.size + size * (not is_binary), self.binary_size + size * is_binary
                is_repeated = self.binary_size > _MAX_BINARY_RATIO * os.path.getsize(self.path)
                files[self.path] = self.size + self.binary_size * is_repeated
                if sum(list(files.values())) > _MAX_LONG_TEXT_BYTES:
                    kind = "binary values" if is_binary else "texts"
                    problem = f"{kind} of more than {_LONG_TEXT_BYTES:,} bytes have more than {_MAX_LONG_TEXT_BYTES:,}"
                    problem += ", those beside lists for each element, in all files of the table"
                    where = f"at {name} near row {self.num_rows + 1:,}"
                    raise UnreadableFileError(f"{problem}, {where}", "Shorten them, or remove the rows")
        self.num_rows += len(rows)


def check_texts(cluster: str, tables: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """Returns tables of a cluster that can be stored, since `TextCheck` accepts them beside those of other clusters.

    Raises:
        SourceError: a name is too long, or the long texts of a table exceed the share of a cluster.
    """
    for table, rows in tables.items():
        size = 0
        for batch in rows.to_batches():
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                longest = _longest(_long_lengths(column))
                size += _long_bytes(batch, name) if longest else 0
                problem = None
                if longest > MAX_NAME_BYTES and is_name(name):
                    problem = f"{name} of {table} has {longest:,} bytes, and a name has at most {MAX_NAME_BYTES:,}"
                elif size > _MAX_CLUSTER_TEXT_BYTES:
                    problem = f"texts of more than {_LONG_TEXT_BYTES:,} bytes in {table} have more than "
                    problem += f"{_MAX_CLUSTER_TEXT_BYTES:,} bytes together"
                if problem is not None:
                    raise SourceError(f"{cluster:.260} can't be stored: {problem}")
    return tables


def _long_lengths(column: pa.Array) -> Iterator[pa.Array]:
    """Yields the sizes of the texts in a column, or in each part of a nested one, if it can have long ones."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_nested(kind):
        parts = [column.keys, column.items] if pa.types.is_map(kind) else column.flatten()
        for part in [parts] if isinstance(parts, pa.Array) else parts:
            yield from _long_lengths(part)
    elif "string" in str(kind) or "binary" in str(kind):
        texts = column.dictionary if pa.types.is_dictionary(column.type) else column
        if str(kind) not in ("string", "large_string", "binary", "large_binary"):  # a view, or binary of a fixed size
            kind = pa.large_string() if "string" in str(kind) else pa.large_binary()
            texts = texts.cast(kind)
        if len(texts):  # `binary_length` takes longer, and only long texts need it
            width = np.int64 if str(kind).startswith("large_") else np.int32
            ends: np.typing.NDArray[Any] = np.frombuffer(texts.buffers()[1], width)[
                texts.offset : texts.offset + len(texts) + 1
            ]
            if (ends[1:] - ends[:-1]).max() > _LONG_TEXT_BYTES:
                lengths = pc.binary_length(texts)
                yield lengths.take(column.indices) if pa.types.is_dictionary(column.type) else lengths


def _long_bytes(rows: pa.RecordBatch, name: str) -> int:
    """Returns the size of the long texts in a column. A text beside lists counts once for each of their elements, to
    which engines copy it."""
    column = rows[name]
    sizes = [np.asarray(lengths.fill_null(0), np.int64) for lengths in _long_lengths(column)]
    long = [np.where(each > _LONG_TEXT_BYTES, each, 0) for each in sizes]
    others = [each for other, each in zip(rows.schema.names, rows.columns, strict=True) if other != name]
    elements = [np.asarray(pc.list_value_length(each).fill_null(0), np.int64) for each in others if _is_list(each)]
    times = np.maximum.reduce([np.ones(len(rows), np.int64), *elements])
    times = times[np.asarray(pc.list_parent_indices(column))] if _is_list(column) else times
    return int(sum((each * times if len(each) == len(times) else each).sum() for each in long))


def _is_list(column: pa.Array) -> bool:
    kind = column.type
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _longest(lengths: Iterable[pa.Array]) -> int:
    """Returns the largest of sizes, or 0."""
    return max((pc.max(each).as_py() or 0 for each in lengths), default=0)


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
        with writing_to(folder):
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


def read_parquet(
    spark: SparkSession, table: str, sources: Sequence[str], faults: FileFaults, needed: Iterable[str] = ()
) -> DataFrame | None:
    """Reads Parquet files as one table; columns that a file lacks are null.

    Args:
        spark: a session on this machine.
        table: the name of the table in messages.
        sources: files and folders.
        needed: columns that each file has if one has them.
        faults: gets the files that aren't Parquet files, or have columns that don't fit those of other files.

    Returns:
        the table, or None if it has a fault.
    """
    files = list_files(sources, by_spark=not is_embedded(spark))
    types: dict[str, tuple[str, str]] = {}
    partitions: dict[str, str] = {}
    paths_by_columns: dict[tuple[tuple[str, str], ...], list[str]] = {}
    found_in: list[tuple[LocalFile, Set[str]]] = []
    for file in files:
        found = _columns_of(table, file.path, faults)
        paths_by_columns.setdefault(tuple(found.items()), []).append(file.path)
        found_in.append((file, found.keys() | file.partition.keys()))
        for name, kind in found.items():
            if kind == _NULL:
                continue
            first, path = types.setdefault(name, (kind, file.path))
            if first != kind:
                problem = f"{name} is {kind}, but {first} in {name_of_path(path)}"
                faults.add_file(table, file.path, problem, "Write both files with the same type")
        for name in file.partition:
            partitions.setdefault(name, file.path)
        if len(types) + len(partitions) > _MAX_TABLE_COLUMNS:
            faults.add_file(table, file.path, *_TOO_MANY_COLUMNS)
            return None
    paths = {name: path for name, (_, path) in types.items()}
    faults.add_same_names(table, partitions | paths)
    for file, names in found_in:
        for name in (set(needed) & types.keys()) - names if names else ():
            problem = f"the column {name} is missing, but {name_of_path(types[name][1])} has it"
            faults.add_file(table, file.path, problem, "Write it again")
    if faults.has(table):
        return None
    if is_embedded(spark):
        columns: dict[str, DataType] = {}
        schemas = {path: schema_of(path) for path in set(paths.values())}
        for name, (kind, path) in types.items():
            if (found_type := spark_type(schemas[path].field(name).type)) is None:
                faults.add_file(table, path, f"{name} is {kind}, a type that Spark lacks", "Cast or remove the column")
            else:
                columns[name] = found_type
        columns |= dict.fromkeys(partitions, StringType())
        if faults.has(table):
            return None
        schema = StructType([StructField(name, each) for name, each in columns.items()])
        return _read_files(spark, files, schema, next(_tables))
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


def read_parquet_location(spark: SparkSession, table: str, location: str, needed: Iterable[str] = ()) -> DataFrame:
    """Reads a Parquet file, or a folder of Parquet files.

    The embedded engine gets local files by pyarrow: it would read no rows of a path that doesn't exist, and refuses the
    timestamps (INT96) that Spark writes by default.

    Args:
        spark: the session.
        table: the name of the table in messages.
        location: a path or URI.
        needed: see `read_parquet`.

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
    rows = read_parquet(spark, table, [local], faults, needed)
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


def _read_files(
    spark: SparkSession, files: Sequence[LocalFile], schema: StructType, number: int | None = None
) -> DataFrame:
    """Reads Parquet files by pyarrow. The embedded engine itself would read no rows of a file that is gone.

    Small files are read at once, others (and small ones with values that become large) when the table is computed.

    Args:
        spark: a session of the embedded engine.
        files: the files.
        schema: the columns to read.
        number: the number of the table, of `_tables`, whose texts are checked; None if a run has stored it.
    """
    arrow_schema = pa.schema([(each.name, to_arrow_type(each.dataType)) for each in schema.fields])
    if sum(os.path.getsize(file.path) for file in files) <= _MAX_PARQUET_BYTES_IN_MEMORY:
        read_at_once, num_bytes = [arrow_schema.empty_table()], 0
        for piece in (piece for file in files for piece in parquet_pieces(file, arrow_schema, number)):
            read_at_once.append(piece)
            if (num_bytes := num_bytes + piece.nbytes) > MAX_EXPANDED_BYTES:
                break
        else:
            return dataframe_of(spark, pa.concat_tables(read_at_once), schema)

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch["number"].to_pylist():
                for piece in parquet_pieces(files[index], arrow_schema, number):
                    yield from piece.to_batches()

    numbers = dataframe_of(spark, pa.table({"number": pa.array(range(len(files)), pa.int64())}), _NUMBERS)
    return numbers.repartition(min(len(files), _MAX_TASKS), "number").mapInArrow(read, schema)


def parquet_pieces(file: LocalFile, schema: pa.Schema, number: int | None = None) -> Iterator[pa.Table]:
    """Yields the rows of a Parquet file with the columns of a schema; null for those that the file lacks.

    Raises:
        SourceError: its content is damaged, or a text is too long (`number`: see `_read_files`).
    """
    check = None if number is None else TextCheck(number, file.path)
    try:
        for batch in batches(file.path, schema.names, check):
            names = batch.schema.names
            columns = []
            for each in schema:
                if each.name in file.partition:
                    columns.append(pa.repeat(pa.scalar(file.partition[each.name], each.type), len(batch)))
                elif each.name in names:
                    column = batch[each.name]
                    is_cut = pa.types.is_timestamp(each.type) and str(column.type).startswith("timestamp[ns")
                    try:
                        columns.append(column.cast(each.type, safe=not is_cut))  # Spark has microseconds
                    except pa.ArrowException as error:
                        raise ValueError(f"{each.name}: {error}") from error
                else:
                    columns.append(pa.nulls(len(batch), each.type))
            yield pa.table(columns, schema=schema)
    except FileNotFoundError:
        raise
    except UnreadableFileError as error:
        raise SourceError(f"file://{file.path} cannot be read: {error.problem}. {error.remedy}") from error
    except (OSError, pa.ArrowException, ValueError, KeyError) as error:  # KeyError: two columns of one name
        problem = f"file://{file.path} cannot be read: {shortened(problem_of(error), 300)}"
        raise SourceError(f"{problem}. Write or copy it again") from error


def batches(path: str, columns: Sequence[str], check: TextCheck | None = None) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a Parquet file, with those of the columns that it has.

    A batch has about `_MAX_BATCH_BYTES` at most, also once its texts aren't in dictionaries any more: a few kilobytes
    can repeat a long one in each row.

    Raises:
        ValueError: a row is too large, text isn't UTF-8, or the footer is damaged.
        UnreadableFileError: see `TextCheck.add`.
    """
    metadata = parquet.read_metadata(path)
    groups = row_groups(path, metadata)
    leaves = [metadata.schema.column(index) for index in range(metadata.num_columns)]
    for leaf, column in (pair for facts in groups for pair in zip(leaves, facts, strict=True)):
        if leaf.physical_type == "BYTE_ARRAY" and (deltas := _DELTAS.keys() & column.encodings):
            # The size of a value can be thousands of times what it takes in the file.
            raise ValueError(
                f"{shortened(leaf.path)} has the encoding {_DELTAS[max(deltas)]}, use a dictionary or PLAIN"
            )
    texts = [each.path for each in leaves if each.physical_type == "BYTE_ARRAY" and ".key_value." not in each.path]
    width, is_flat = sum(max(0, each.length) for each in leaves), not any("." in each for each in texts)
    made = partial(parquet.ParquetFile, path, metadata=metadata, coerce_int96_timestamp_unit="us")
    plain, packed = made(), made(read_dictionary=texts)
    names = [name for name in columns if name in plain.schema_arrow.names]
    for number, facts in enumerate(groups):  # each has dictionaries of its own
        group = metadata.row_group(number)
        items = sum(column.num_values for column in facts)  # nulls of lists, too
        mean = max(8 * items, group.total_byte_size) // max(1, group.num_rows)
        if mean > MAX_EXPANDED_BYTES:
            raise ValueError(f"a row has more than {MAX_EXPANDED_BYTES:,} bytes")
        most = _MAX_BATCH_BYTES // (1 + width + mean)
        size = max(1, min(_MAX_BATCH_ROWS, most))
        read = {"batch_size": size, "row_groups": [number], "columns": names}
        is_short = is_flat and size < group.num_rows and size * _longest_packed(packed, read) <= _MAX_BATCH_BYTES
        left = group.num_rows
        for batch in (plain if is_short else packed).iter_batches(**read):
            _validate(batch, number, group.num_rows - left)
            left -= len(batch)
            if check is not None:
                check.add(batch)
            if not any(pa.types.is_nested(each) or pa.types.is_dictionary(each) for each in batch.schema.types):
                yield batch  # the size of a batch is all that bounds plain columns
                continue
            ends = np.cumsum(sum(map(_row_bytes, batch.columns), np.zeros(len(batch), np.int64)))
            if np.diff(ends, prepend=0).max(initial=0) > MAX_EXPANDED_BYTES:
                raise ValueError(f"a row has more than {MAX_EXPANDED_BYTES:,} bytes")
            cuts = np.flatnonzero(np.diff(ends // _MAX_BATCH_BYTES)) + 1
            for start, end in itertools.pairwise([0, *cuts.tolist(), len(batch)]):  # a slice would keep all lists
                yield batch.take(pa.array(range(start, end))) if len(cuts) else batch
        if left:
            raise ValueError(f"row group {number} has {group.num_rows - left:,} of {group.num_rows:,} rows")


def _validate(rows: pa.RecordBatch, group: int, before: int) -> None:
    """Raises ValueError if a column has values that its type doesn't allow, such as text that isn't UTF-8."""
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowException as error:
            where = f"{shortened(name)}, rows {before + 1:,} to {before + len(rows):,} of row group {group}"
            raise ValueError(f"{where}: {error}") from error


def _longest_packed(packed: parquet.ParquetFile, read: Mapping[str, Any]) -> int:
    """Returns the sum of the longest texts in the dictionaries of a row group, which the first batch has."""
    columns = next(packed.iter_batches(**read)).columns
    texts = [column.dictionary for column in columns if pa.types.is_dictionary(column.type)]
    return sum(pc.max(pc.binary_length(each)).as_py() or 0 for each in texts)


def _row_bytes(column: pa.Array) -> IntArray:
    """Returns about how many bytes each row of a column has without dictionaries."""
    if pa.types.is_dictionary(column.type):
        lengths = pc.binary_length(column.dictionary)
        least = pc.mean(lengths).as_py() or 0  # for each row, Arrow allocates as much
        of_rows = np.asarray(lengths.take(column.indices).fill_null(0), np.int64)
        return np.maximum(of_rows, int(least))
    if _is_list(column):
        if pa.types.is_fixed_size_list(column.type):
            column = column.cast(pa.list_(column.type.value_type))
        before = np.append(0, np.cumsum(_row_bytes(column.values)))
        return np.diff(before[np.asarray(column.offsets, np.int64)])
    if pa.types.is_struct(column.type):
        return sum(map(_row_bytes, column.flatten()), np.zeros(len(column), np.int64))
    return np.full(len(column), 8)


def schema_of(path: str) -> pa.Schema:
    """Returns the schema of a Parquet file. Spark writes timestamps as INT96, which for Arrow have no time zone."""
    file = parquet.ParquetFile(path)
    schema = file.schema_arrow
    for column in (file.metadata.schema.column(index) for index in range(file.metadata.num_columns)):
        if column.physical_type == "INT96" and column.path == column.name:
            at = schema.get_field_index(column.name)
            schema = schema.set(at, pa.field(column.name, pa.timestamp("us", "UTC")))
    return schema


def _columns_of(table: str, path: str, faults: FileFaults) -> dict[str, str]:
    """Returns the name of the type of each column of a Parquet file, from its footer."""
    try:
        schema = schema_of(path)
        faults.num_rows[path] = parquet.read_metadata(path).num_rows
        if len(set(schema.names)) < len(schema):
            raise ValueError("two columns have the same name")
        if len(schema) > MAX_COLUMNS:
            raise ValueError(f"it has more than {MAX_COLUMNS:,} columns")
    except (OSError, pa.ArrowException, ValueError) as error:
        problem = "it is empty" if os.path.exists(path) and not os.path.getsize(path) else problem_of(error)
        faults.add_file(table, path, problem, "Check its name, or write or copy it again")
        return {}
    return {each.name: _type_name(each.type) for each in schema}


def _type_name(kind: pa.DataType) -> str:
    """Returns the name of a type in Spark, or Arrow's if Spark has none."""
    known = spark_type(kind)
    return str(kind) if known is None else known.simpleString()
