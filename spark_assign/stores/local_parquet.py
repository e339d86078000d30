"""Reads and writes the parts of a stored run that need no Spark if its folder is local: the manifest and Parquet
footers.

A Spark job for one line of JSON costs more than the line. The files are the same as Spark's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql.types import StructType

from spark_assign.stores.locations import local_path
from spark_assign.tables.errors import SourceError

MAX_MANIFEST_BYTES = 64 << 20
"""Maximum size of a file of the manifest. A run has one, of some kilobytes."""


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
    from pyarrow import parquet

    from spark_assign.spark.arrow_schemas import to_arrow_schema

    table.mkdir(parents=True, exist_ok=True)
    if format == "parquet":
        parquet.write_table(to_arrow_schema(schema).empty_table(), table / "part-0.parquet")
    else:
        (table / f"part-0.{format}").touch()


def count_rows(table: Path) -> int | None:
    """Returns the number of rows of a table from its Parquet footers, or None if pyarrow can't read them."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return sum(int(parquet.read_metadata(file).num_rows) for file in _parquet_files(table))
    except (OSError, pa.ArrowException):
        return None


def read_rows(table: Path, columns: Sequence[str]) -> list[dict[str, Any]] | None:
    """Returns the rows of a small table of Parquet files, or None if pyarrow can't read them."""
    import pyarrow as pa
    from pyarrow import parquet

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
