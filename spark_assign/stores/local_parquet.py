"""What of a stored plan needs no Spark where its folder is on this machine: the manifest, and a look into its files.

A Spark job for a single line of JSON costs more than the line; everything here is as Spark writes and reads it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from spark_assign.stores.locations import local_path


def folder_here(place: str) -> Path | None:
    """A folder as a path of this machine; None where only Spark knows it (a mounted volume has rules of its own)."""
    local = None if place.startswith("/Volumes/") else local_path(place)
    return None if local is None else Path(local)


def spark_is_here(spark: SparkSession) -> bool:
    """Whether Spark runs in this process and nowhere else, so that a path means the same to both."""
    remote = type(spark).__module__.startswith("pyspark.sql.connect")
    return not remote and (spark.conf.get("spark.master", "") or "").startswith("local")


def append_manifest(folder: Path, row: Mapping[str, Any]) -> None:
    """Add a row (columns: `tables.groups.MANIFEST`) as one file that appears by one rename."""
    manifest = folder / "manifest"
    manifest.mkdir(parents=True, exist_ok=True)
    finished = row["finished_at"].isoformat(timespec="microseconds")
    line = json.dumps({**row, "finished_at": finished}, separators=(",", ":"))
    # Spark reads no file whose name begins with a dot; by its name the attempt becomes the run.
    partial = manifest / f".{row['attempt']}.json"
    partial.write_text(f"{line}\n", encoding="utf-8")
    partial.replace(manifest / f"{row['attempt']}.json")


def manifest_rows(folder: Path) -> list[dict[str, Any]] | None:
    """All rows of the manifest; None where something is in it that Spark had better read."""
    files = [file for file in (folder / "manifest").glob("*") if file.name[0] not in "._"]
    if not all(file.suffix == ".json" for file in files):
        return None
    try:
        rows = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
        return [{**row, "finished_at": datetime.fromisoformat(row["finished_at"])} for row in rows]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def count_rows(table: Path) -> int | None:
    """How many rows the Parquet files of a table have, by their footers; None where pyarrow cannot tell."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return sum(int(parquet.read_metadata(file).num_rows) for file in _parquet_files(table))
    except (OSError, pa.ArrowException):
        return None


def read_rows(table: Path, columns: Sequence[str]) -> list[dict[str, Any]] | None:
    """The rows of a small table of Parquet files; None where pyarrow cannot read them."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        read = [parquet.ParquetFile(file).read(columns=list(columns)) for file in _parquet_files(table)]
    except (OSError, pa.ArrowException):
        return None
    return [row for part in read for row in part.to_pylist()]


def _parquet_files(table: Path) -> list[Path]:
    """The files that Spark would read; a table without any is for Spark to judge.

    Raises:
        OSError: there is none.
    """
    files = [file for file in sorted(table.iterdir()) if file.name[0] not in "._"]
    if not files:
        raise FileNotFoundError(f"no file in {table}")
    return files
