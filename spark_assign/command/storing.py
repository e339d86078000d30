"""How jobs write what they have made, and say where it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from spark_assign.command.job import Options, spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from spark_assign.command.outcome import Read
    from spark_assign.sources.snapshot import Snapshot


def store_run(
    options: Options,
    tables: Mapping[str, DataFrame],
    *,
    schemas: Mapping[str, StructType],
    inputs: Mapping[str, Any],
    found: str | Callable[[Read], bool] | None = None,
) -> None:
    """Write tables as one run, as `--output`, `--run-id`, `--output-format` and `--output-option` say.

    Args:
        options: of the job; its outcome gets what was written.
        tables: by name.
        schemas: of each table.
        inputs: for the manifest.
        found: what ends the job with exit code 1 (`Outcome.of_run`).
    """
    from spark_assign.sinks.plan_store import write_plan

    manifest = write_plan(
        SimpleNamespace(**tables),
        options.output,
        run_id=options.run_id,
        format=options.output_format,
        inputs=dict(inputs),
        options=options.output_option,
        schemas=schemas,
        outcome=options.outcome.of_run(found),
    )
    options.outcome.wrote(manifest, options.output)
    print(f"Written to {options.output} as run_id={options.run_id}", flush=True)


def store_snapshot(job: str, options: Options, snapshot: Snapshot) -> None:
    """Write a snapshot into the folder of `--output` or the catalog of `--table-prefix`, and say what is in it."""
    from spark_assign.sources import snapshot_catalog, snapshot_files

    if options.output:
        folders = snapshot_files.write_folder(snapshot, options.output, options.output_format)
        written = ", ".join(str(folder) for folder in folders)
    else:
        snapshot_catalog.write_tables(snapshot, spark_session(job, options), options.table_prefix)
        written = options.table_prefix
    options.outcome.rows = snapshot.rows()
    options.outcome.places["output"] = options.output or options.table_prefix
    print(f"{snapshot.cluster}: " + ", ".join(f"{n} {table}" for table, n in snapshot.rows().items()))
    print(f"written to {written}")
