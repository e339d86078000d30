"""A snapshot as a folder with a file per table and `snapshot.json`, or as tables of a catalog.

The folder appears whole: it is written beside its place and renamed, so a job that dies leaves the previous
snapshot as it was.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from spark_assign.errors import ConfigError, SourceError, reason
from spark_assign.sources.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMATS = ("parquet", "csv", "json")
SUMMARY = "snapshot.json"


def write_folder(snapshot: Snapshot, folder: str | Path, format: str = "parquet") -> None:
    """Write `<table>.<format>` for each table and the summary; json: a row a line, csv: lists as `1,2,3`, of structs
    as JSON.

    Raises ConfigError where the folder holds something that is no snapshot, SourceError where it cannot be
    written.
    """
    target = Path(folder).absolute()
    if format not in FORMATS:
        raise ConfigError(f"format {format}: expected one of {', '.join(FORMATS)}")
    if target.exists() and not (target.is_dir() and (_is_snapshot(target) or not any(target.iterdir()))):
        raise ConfigError(f"{target} is there already and holds no {SUMMARY}. Name a new or an empty folder.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
        try:
            for name, table in snapshot.tables.items():
                _write(table, fresh / f"{name}.{format}", format)
            summary = json.dumps(snapshot.summary(), indent=2, ensure_ascii=False)
            (fresh / SUMMARY).write_text(f"{summary}\n", encoding="utf-8")
            fresh.chmod(0o777 & ~_umask())
            _replace(fresh, target)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    except OSError as error:
        raise SourceError(f"{target} cannot be written: {error.strerror or error}") from error


def write_tables(snapshot: Snapshot, spark: SparkSession, prefix: str) -> None:
    """Replace the catalog tables `<prefix>.<table>`, one after the other.

    Raises SourceError where one cannot be written; those before it are replaced, those after it are as they were.
    """
    for name, table in snapshot.tables.items():
        try:
            spark.createDataFrame(table).write.mode("overwrite").saveAsTable(f"{prefix}.{name}")
        except Exception as error:  # classic PySpark lets Java's own exceptions through
            raise SourceError(f"the table {prefix}.{name} cannot be written: {reason(error)}") from error


def _is_snapshot(folder: Path) -> bool:
    return (folder / SUMMARY).is_file()


def _replace(fresh: Path, target: Path) -> None:
    """Put a folder in another's place; between the renames the old one is beside it, with ~ at the end."""
    old = fresh.with_name(f"{fresh.name}~")
    if target.exists():
        target.rename(old)
    fresh.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _write(table: pa.Table, file: Path, format: str) -> None:
    if format == "parquet":
        pq.write_table(table, file)
    elif format == "json":
        with file.open("w", encoding="utf-8") as lines:
            lines.writelines(f"{json.dumps(row, ensure_ascii=False)}\n" for row in table.to_pylist())
    else:
        pa_csv.write_csv(_flat(table), file)


def _flat(table: pa.Table) -> pa.Table:
    """Lists as text, `1,2,3`, and lists of structs as JSON: csv has neither."""
    for position, column in enumerate(table.schema):
        if not pa.types.is_list(column.type):
            continue
        if pa.types.is_struct(column.type.value_type):
            rows = table[column.name].to_pylist()
            texts = pa.array(
                [None if row is None else json.dumps(row, ensure_ascii=False) for row in rows], pa.string()
            )
        else:
            texts = pc.binary_join(table[column.name].cast(pa.list_(pa.string())), ",")
        table = table.set_column(position, column.name, texts)
    return table
