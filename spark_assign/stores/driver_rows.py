"""A few rows that the driver holds, stored without Spark where and as `run_store` stores tables as Parquet files.

`plan_store.read_plan` reads them, and a run that is written again replaces the former one, whoever has written it.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from spark_assign.stores.folder import remove_attempts
from spark_assign.stores.local_parquet import append_manifest, manifest_rows
from spark_assign.stores.manifest_outcome import ManifestOutcome
from spark_assign.stores.run_store import EPOCH, Manifest, after, new_attempt, safe_run_id, versions

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
    """Write small tables, whole or not at all; those of the same run_id, if any, are replaced.

    Args:
        tables: rows by table.
        folder: of this machine (`FOLDER/<table>/run_id=…/attempt=…/`).
        run_id: the run's name; see `plan_store.safe_run_id`.
        inputs: what the tables were made from, for the manifest; must be JSON, must hold no secret.
        schemas: of the tables.
        outcome: what the manifest has of how the job ends; it cannot look into the tables.

    Returns:
        the manifest row that made them visible.

    Raises:
        OSError: they cannot be written.
    """
    from pyarrow import parquet

    run_id, attempt, started = safe_run_id(run_id), new_attempt(), time.monotonic()
    try:
        for name, rows in tables.items():
            place = folder / name / f"run_id={run_id}" / f"attempt={attempt}"
            place.mkdir(parents=True)
            parquet.write_table(
                pa.Table.from_pylist(list(rows), to_arrow_schema(schemas[name])), place / "rows.parquet"
            )
            log.info("wrote %s", name)
        counts = {name: len(rows) for name, rows in tables.items()}
        content: dict[str, Any] = {
            "format": "parquet",
            "inputs": dict(inputs),
            "tables": {name: {"rows": count} for name, count in counts.items()},
            "versions": versions(),
        }
        if outcome is not None:
            content["outcome"] = dict(outcome(counts, _not_here))
        finished_at = after(max(_finished(folder, run_id), default=EPOCH))
        manifest = Manifest(run_id, attempt, finished_at, round(time.monotonic() - started, 3), content)
        row = {**vars(manifest), "content": json.dumps(content, sort_keys=True)}
        append_manifest(folder, row)
    except Exception:
        remove_attempts(str(folder), tables, run_id, attempt, older=False)
        raise
    remove_attempts(str(folder), tables, run_id, attempt, older=True)
    return manifest


def _finished(folder: Path, run_id: str) -> list[datetime]:
    """When each attempt of a run was finished."""
    return [row["finished_at"] for row in manifest_rows(folder) or [] if row["run_id"] == run_id]


def _not_here(table: str) -> Any:
    raise NotImplementedError(f"{table}: rows are written without Spark")
