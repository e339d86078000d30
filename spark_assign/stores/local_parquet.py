"""Reads and writes the parts of a stored run that need no Spark if its folder is local: the manifest and Parquet
footers.

A Spark job for one line of JSON costs more than the line. The files are the same as Spark's.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet
from pyspark.sql.types import StructType

from spark_assign.numeric.arrays import IntArray
from spark_assign.stores.locations import local_path
from spark_assign.tables.errors import SourceError

MAX_MANIFEST_BYTES = 64 << 20
"""Maximum size of a file of the manifest. A run has one, of some kilobytes."""
_MAX_BATCH_ROWS, _MAX_BATCH_BYTES, MAX_EXPANDED_BYTES = 25_000, 64 << 20, 512 << 20
"""Maximum size of a batch of a Parquet file, and of the rows that are in memory at once; a single row can have it."""


def local_folder(location: str) -> Path | None:
    """Returns a folder as a local path, or None if only Spark can access it. Mounted volumes have their own rules."""
    local = None if location.startswith("/Volumes/") else local_path(location)
    return None if local is None else Path(local)


def append_manifest(folder: Path, row: Mapping[str, Any]) -> None:
    """Appends a row (columns: `tables.groups.MANIFEST`) as one file that appears by one rename."""
    manifest = folder / "manifest"
    manifest.mkdir(parents=True, exist_ok=True)
    finished = row["finished_at"].isoformat(timespec="microseconds")
    line = json.dumps({**row, "finished_at": finished}, separators=(",", ":"))
    # Spark ignores files whose names start with a dot. The rename makes the attempt the current run.
    temporary = manifest / f".{row['attempt']}.json"
    temporary.write_text(f"{line}\n", encoding="utf-8")
    temporary.replace(manifest / f"{row['attempt']}.json")


def too_large(file: Any) -> SourceError:
    """Returns the error for a file of the manifest that no job has written."""
    return SourceError(f"{file} has more than {MAX_MANIFEST_BYTES:,} bytes. Remove it, and store the run again")


def manifest_rows(folder: Path) -> list[dict[str, Any]] | None:
    """Returns all rows of the manifest, or None if it contains files that only Spark can read. Raises SourceError."""
    files = [file for file in (folder / "manifest").glob("*") if file.name[0] not in "._"]
    if not all(file.suffix == ".json" and file.is_file() for file in files):
        return None
    try:
        if large := next((file for file in files if file.stat().st_size > MAX_MANIFEST_BYTES), None):
            raise too_large(large)
        rows = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
        found = [{**row, "finished_at": datetime.fromisoformat(row["finished_at"])} for row in rows]
        names = [row[name] for row in found for name in ("run_id", "attempt", "content")]
        is_valid = all(isinstance(name, str) for name in names) and all(row["finished_at"].tzinfo for row in found)
        return found if is_valid else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def write_empty(table: Path, schema: StructType, format: str) -> None:
    """Writes a table without rows: a file that has its columns, as far as the format has them."""
    from spark_assign.spark.dataframes import to_arrow_schema

    table.mkdir(parents=True, exist_ok=True)
    if format == "parquet":
        parquet.write_table(to_arrow_schema(schema).empty_table(), table / "part-0.parquet")
    else:
        (table / f"part-0.{format}").touch()


def count_rows(table: Path) -> int | None:
    """Returns the number of rows of a table from its Parquet footers, or None if pyarrow can't read them."""
    try:
        return sum(int(parquet.read_metadata(file).num_rows) for file in _parquet_files(table))
    except (OSError, pa.ArrowException):
        return None


def has_no_null(table: Path, columns: Collection[str]) -> bool:
    """Checks whether the Parquet footers of a table show that columns, also of lists, have no null."""
    try:
        for footer in map(parquet.read_metadata, _parquet_files(table)):
            for group in map(footer.row_group, range(footer.num_row_groups)):
                chunks = [group.column(index) for index in range(group.num_columns)]
                chunks = [chunk for chunk in chunks if chunk.path_in_schema.split(".")[0] in columns]
                facts = [chunk.statistics for chunk in chunks if chunk.is_stats_set]
                complete = [each for each in facts if each.has_null_count and not each.null_count]
                if len(complete) < len(columns) or len(complete) < len(chunks):
                    return False
    except (OSError, pa.ArrowException):
        return False
    return True


def read_rows(table: Path, columns: Sequence[str]) -> list[dict[str, Any]] | None:
    """Returns the rows of a small table of Parquet files, or None if pyarrow can't read them."""
    try:
        tables = [parquet.ParquetFile(file).read(columns=list(columns)) for file in _parquet_files(table)]
    except (OSError, pa.ArrowException):
        return None
    return [row for batch in tables for row in batch.to_pylist()]


def _parquet_files(table: Path) -> list[Path]:
    """Returns the files that Spark would read. Spark handles a table without files.

    Raises:
        OSError: there is no file.
    """
    files = [file for file in sorted(table.iterdir()) if file.name[0] not in "._"]
    if not files:
        raise FileNotFoundError(f"no file in {table}")
    return files


def batches(path: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a Parquet file, with those of the columns that it has.

    A batch has about `_MAX_BATCH_BYTES` at most, also once its texts aren't in dictionaries any more: a few kilobytes
    can repeat a long one in each row.

    Raises:
        ValueError: a row is too large, or text isn't UTF-8.
    """
    metadata = parquet.read_metadata(path)
    leaves = [metadata.schema.column(index) for index in range(metadata.num_columns)]
    texts = [each.path for each in leaves if each.physical_type == "BYTE_ARRAY" and ".key_value." not in each.path]
    width, is_flat = sum(max(0, each.length) for each in leaves), not any("." in each for each in texts)
    made = partial(parquet.ParquetFile, path, metadata=metadata, coerce_int96_timestamp_unit="us")
    plain, packed = made(), made(read_dictionary=texts)
    names = [name for name in columns if name in plain.schema_arrow.names]
    for number in range(plain.num_row_groups):  # each has dictionaries of its own
        group = metadata.row_group(number)
        most = _MAX_BATCH_BYTES // (1 + width + group.total_byte_size // max(1, group.num_rows))
        size = max(1, min(_MAX_BATCH_ROWS, most))
        read = {"batch_size": size, "row_groups": [number], "columns": names}
        is_short = is_flat and size < group.num_rows and size * _longest(packed, read) <= _MAX_BATCH_BYTES
        for batch in (plain if is_short else packed).iter_batches(**read):
            batch.validate(full=True)
            ends = np.cumsum(sum(map(_row_bytes, batch.columns), np.zeros(len(batch), np.int64)))
            if np.diff(ends, prepend=0).max(initial=0) > MAX_EXPANDED_BYTES:
                raise ValueError(f"a row has more than {MAX_EXPANDED_BYTES:,} bytes")
            cuts = np.flatnonzero(np.diff(ends // _MAX_BATCH_BYTES)) + 1
            for start, end in itertools.pairwise([0, *cuts.tolist(), len(batch)]):  # a slice would keep all lists
                yield batch.take(pa.array(range(start, end))) if len(cuts) else batch


def _longest(packed: parquet.ParquetFile, read: Mapping[str, Any]) -> int:
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
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
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
