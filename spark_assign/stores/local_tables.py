"""Reads tables from local files on the driver, the same for both engines: csv, JSON lines, and the footers of Parquet.

Spark's own readers turn a value that doesn't parse into null, replace bytes that aren't UTF-8, and need jobs for a
check. Here a file is checked while it is read. Small tables are passed to the session as they are; large ones by a
temporary Parquet file.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType

from spark_assign.spark.arrow_schemas import to_arrow_type
from spark_assign.spark.engine import dataframe_of, is_embedded, location_for, plain_schema, shares_files
from spark_assign.spark.tagged_pass import union
from spark_assign.stores.file_faults import FileFaults, UnreadableFileError, name_of_path, problem_of, shortened
from spark_assign.stores.local_text import read_csv_file, read_header, read_json_document, read_json_file
from spark_assign.stores.locations import for_spark, local_path
from spark_assign.stores.text_values import noun, parse_column
from spark_assign.tables.errors import SourceError

_MAX_BYTES_IN_MEMORY = 16 * 1024 * 1024
"""Size of a table from which it is written to a temporary file while it is read."""
_MAX_PARQUET_BYTES_IN_MEMORY = 4 * 1024 * 1024
"""Size of Parquet files up to which the embedded engine gets their rows at once."""
_PIECES_PER_FILE = 4
_PIECE_ROWS = 250_000
_MAX_TASKS = 64
_NUMBERS = StructType([StructField("number", LongType())])
_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_NULL = "void"
"""The type of a column that some writers give to a file with only nulls in it."""
UNREADABLE_SUFFIXES = (".lz4", ".snappy", ".deflate")
"""Suffixes of compressed files that only Spark can read."""


@dataclass(frozen=True)
class LocalFile:
    """A file of a table, and the values of its columns that are in the names of folders (`cluster=eu/`)."""

    path: str
    partition: Mapping[str, str | None] = field(default_factory=dict)


def list_files(sources: Sequence[str]) -> list[LocalFile]:
    """Returns the files of a table that has these files and folders, sorted, without hidden ones (`_SUCCESS`, `.crc`).

    As in Spark, of the folders in a folder only those of partitions (`name=value`) are read.
    """
    return [file for source in sources for file in _files_of(source, {})]


def _files_of(source: str, partition: Mapping[str, str | None]) -> Iterator[LocalFile]:
    if not os.path.isdir(source):
        yield LocalFile(source, partition)
        return
    for name in sorted(os.listdir(source)):
        path = os.path.join(source, name)
        key, equals, value = name.partition("=")
        if name[0] in "._":
            continue
        if not os.path.isdir(path):
            yield LocalFile(path, partition)
        elif equals:
            yield from _files_of(path, {**partition, key: None if value == _NULL_PARTITION else unquote(value)})


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
    for file in files:
        with _reported(table, file.path, faults):
            if kind == "csv":
                names = read_header(file.path)
                columns |= {name: types.get(name, StringType()) for name in names}
                if names:
                    readers.append((file, partial(read_csv_file, table, file.path, names, schema, faults)))
            else:
                read = read_json_document if is_document else read_json_file
                readers.append((file, partial(read, table, file.path, schema, faults)))
        columns |= {name: types.get(name, StringType()) for name in file.partition}
    if not columns and not faults.has(table) and files:
        faults.add_file(table, files[0].path, "it is empty", "Write a header with the names of the columns")
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
        faults: gets the files that aren't Parquet files, and those whose columns have other types than in other files.

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
    if faults.has(table):
        return None
    if is_embedded(spark):
        kinds = {name: _schema_of(path).field(name).type for name, (_, path) in types.items()}
        of_folders = {name: StringType() for file in files for name in file.partition}
        columns = {name: from_arrow_type(_value_type(kind)) for name, kind in kinds.items()} | of_folders
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
    local = None if location.startswith("/Volumes/") else local_path(location)
    if local is None or not shares_files(spark):
        return spark.read.parquet(for_spark(location))
    if not list_files([local] if os.path.exists(local) else []):
        raise SourceError(f"{table}: there are no Parquet files in {location}")
    if not is_embedded(spark):
        return spark.read.parquet(for_spark(location))
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

    Small files are read at once, others when the table is computed.
    """
    arrow_schema = pa.schema([(each.name, to_arrow_type(each.dataType)) for each in schema.fields])
    if sum(os.path.getsize(file.path) for file in files) <= _MAX_PARQUET_BYTES_IN_MEMORY:
        pieces = [piece for file in files for piece in _pieces(file, arrow_schema)]
        return dataframe_of(spark, pa.concat_tables([arrow_schema.empty_table(), *pieces]), schema)

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["number"].to_pylist():
                for piece in _pieces(files[number], arrow_schema):
                    yield from piece.to_batches()

    numbers = dataframe_of(spark, pa.table({"number": pa.array(range(len(files)), pa.int64())}), _NUMBERS)
    return numbers.repartition(min(len(files), _MAX_TASKS), "number").mapInArrow(read, schema)


def _pieces(file: LocalFile, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yields the rows of a Parquet file with the columns of a schema; null for those that the file lacks.

    Raises:
        SourceError: its content is damaged.
    """
    try:
        content = parquet.ParquetFile(file.path, coerce_int96_timestamp_unit="us")
        names = [name for name in schema.names if name in content.schema_arrow.names]
        for batch in content.iter_batches(batch_size=_PIECE_ROWS, columns=names):
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
    except (OSError, pa.ArrowException, ValueError) as error:
        problem = f"file://{file.path} cannot be read: {shortened(problem_of(error), 300)}"
        raise SourceError(f"{problem}. Write or copy it again") from error


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _columns_of(table: str, path: str, faults: FileFaults) -> dict[str, str]:
    """Returns the name of the type of each column of a Parquet file, from its footer."""
    try:
        schema = _schema_of(path)
    except (OSError, pa.ArrowException, ValueError) as error:
        is_empty = os.path.exists(path) and not os.path.getsize(path)
        problem = "it is empty" if is_empty else problem_of(error)
        faults.add_file(table, path, problem, "Check its name, or write or copy it again")
        return {}
    return {each.name: _type_name(each.type) for each in schema}


def _schema_of(path: str) -> pa.Schema:
    """Returns the schema of a Parquet file. Spark writes timestamps as INT96, which for Arrow have no time zone."""
    file = parquet.ParquetFile(path)
    schema = file.schema_arrow
    for column in (file.metadata.schema.column(index) for index in range(file.metadata.num_columns)):
        if column.physical_type == "INT96" and column.path == column.name:
            at = schema.get_field_index(column.name)
            schema = schema.set(at, pa.field(column.name, pa.timestamp("us", "UTC")))
    return schema


def _type_name(kind: pa.DataType) -> str:
    """Returns the name of a type in Spark, or Arrow's if Spark has none."""
    try:
        return from_arrow_type(_value_type(kind)).simpleString()
    except Exception:  # an unsupported type, whose exception differs between versions of PySpark
        return str(kind)
