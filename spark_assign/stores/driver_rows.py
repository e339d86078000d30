"""Stores small tables that the driver holds as rows, without Spark, in the layout of `run_store` with Parquet files.

`run_store.read_run` reads them. A run that is written again replaces the previous one, whichever function wrote it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from spark_assign.spark.dataframes import to_arrow_schema
from spark_assign.stores.run_store import (
    EPOCH,
    Manifest,
    ManifestOutcome,
    finish_time,
    manifest_content,
    new_attempt,
    newest_row,
    read_manifest,
    replaced_error,
    safe_run_id,
)
from spark_assign.stores.targets import append_manifest, manifest_rows, remove_attempts
from spark_assign.tables.errors import find_disk_failure

log = logging.getLogger(__name__)


def write_rows(
    tables: Mapping[str, Sequence[Mapping[str, Any]]],
    folder: Path,
    *,
    run_id: str,
    inputs: Mapping[str, Any],
    schemas: Mapping[str, StructType],
    outcome: ManifestOutcome | None = None,
) -> Manifest:
    """Writes small tables atomically. Replaces the tables of the same run_id, if any.

    Args:
        tables: rows by table.
        folder: a local folder (`FOLDER/<table>/run_id=…/attempt=…/`).
        run_id: the name of the run; see `run_store.safe_run_id`.
        inputs: what the tables were computed from, for the manifest. Must be JSON without secrets.
        schemas: the schema of each table.
        outcome: returns the outcome of the job for the manifest. It can't read the tables.

    Returns:
        the manifest row that made the tables visible.

    Raises:
        OSError: the tables can't be written.
        SourceError: a job that started later has written the same run, and removed the tables of this one.
    """
    from pyarrow import parquet

    run_id, started = safe_run_id(run_id), time.monotonic()
    row = newest_row(manifest_rows(folder) or (), run_id)
    previous = None if row is None else read_manifest(str(folder), row, row["finished_at"])
    attempt = new_attempt(None if previous is None else previous.attempt)
    try:
        for table, rows in tables.items():
            table_folder = folder / table / f"run_id={run_id}" / f"attempt={attempt}"
            table_folder.mkdir(parents=True)
            parquet.write_table(
                pa.Table.from_pylist(list(rows), to_arrow_schema(schemas[table])), table_folder / "rows.parquet"
            )
            log.info("wrote %s", table)
        counts = {table: len(rows) for table, rows in tables.items()}
        content = manifest_content("parquet", inputs, counts)
        if outcome is not None:
            content["outcome"] = dict(outcome(counts, _cannot_read))
        finished_at = finish_time(EPOCH if previous is None else previous.finished_at)
        manifest = Manifest(run_id, attempt, finished_at, round(time.monotonic() - started, 3), content)
        append_manifest(folder, manifest.row)
    except Exception as error:
        remove_attempts(str(folder), tables, run_id, attempt, older=False)
        newest = newest_row(manifest_rows(folder) or (), run_id) if isinstance(error, FileNotFoundError) else None
        if newest is not None and newest["attempt"] > attempt:
            raise replaced_error(folder, run_id) from error
        if failure := find_disk_failure(str(folder), error):
            raise failure from error
        raise
    remove_attempts(str(folder), tables, run_id, attempt, older=True)
    return manifest


def _cannot_read(table: str) -> Any:
    """Rejects the request of an outcome to read a table."""
    raise NotImplementedError(f"{table}: rows are written without Spark")
