"""How jobs read the fleet that they are about."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol

from spark_assign.cli.job import Options, spark_session
from spark_assign.cli.options import fleet_or_sample, tables_with_loads
from spark_assign.fleet import Fleet
from spark_assign.sources.files.tables import interpreted, read_fleet
from spark_assign.stores.locations import for_spark, is_path, join, split_run_id
from spark_assign.stores.run_store import check_output
from spark_assign.tables.errors import ConfigError, SourceError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from spark_assign.fleet import Fleet
    from spark_assign.sources.files.snapshot import Snapshot
    from spark_assign.stores.run_store import ReadTable, StoredRun


def on_fleet(
    name: str,
    options: Options,
    job_file: str,
    run: Callable[[Options, str | None, Fleet], int],
    *,
    loads: bool = False,
) -> int:
    """Read the fleet and run a job on it; the place to write to is looked at before anything is read.

    Args:
        name: of the job.
        options: of a job that `reads` and `writes`.
        job_file: the job, beside which the sample fleet is.
        run: gets the options, the place of the fleet, and the fleet.
        loads: whether the sample fleet comes with its made-up rates.
    """
    if options.output:
        check_output(options.output)
    place = fleet_or_sample(options, job_file)
    tables = tables_with_loads(options, job_file) if loads else options.table
    spark = spark_session(name, options)
    with interpreted(spark, [*([place] if place else []), *(tables or {}).values()]):
        fleet = read_fleet(spark, place, format=options.format, options=options.option, tables=tables)
        return run(options, place, fleet)


def with_capacities(fleet: Fleet, capacity: Mapping[str, str] | None) -> Fleet:
    """The fleet with what `--capacity` says; of several patterns that fit a group, the first one wins.

    Raises:
        ConfigError: what stands behind a pattern is no number.
    """
    for glob, rate in reversed(dict(capacity or {}).items()):
        try:
            messages = float(rate)
        except ValueError as error:
            raise ConfigError(f"--capacity {glob}={rate}: expected a number") from error
        fleet = fleet.with_capacity(messages, group_id=glob)
    return fleet


def store_run(
    options: Options,
    tables: Mapping[str, DataFrame],
    *,
    schemas: Mapping[str, StructType],
    inputs: Mapping[str, Any],
    found: str | Callable[[ReadTable], bool] | None = None,
) -> None:
    """Write tables as one run, as `--output`, `--run-id`, `--output-format` and `--output-option` say.

    Args:
        options: of the job; its outcome gets what was written.
        tables: by name.
        schemas: of each table.
        inputs: for the manifest.
        found: what ends the job with exit code 1 (`Outcome.of_run`).
    """
    from spark_assign.stores.run_store import write_run

    manifest = write_run(
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


class _Answer(Protocol):
    """What one pass over a fleet has decided; its tables are attributes."""

    @property
    def rows(self) -> DataFrame: ...

    def tagged_rows(self) -> DataFrame: ...

    def with_tagged_rows(self, decided: DataFrame) -> Any: ...


def store_or_keep(
    options: Options, found: _Answer, *, schemas: Mapping[str, StructType], inputs: Mapping[str, Any]
) -> Mapping[str, DataFrame]:
    """The tables of an answer: written as one run and read back; without `--output`, kept for as long as the job runs.

    Args:
        options: as `store_run` takes them; rows of `rejected` end the job with exit code 1 where `--fail-on` says so.
        found: the answer.
        schemas: of each of its tables.
        inputs: for the manifest.
    """
    if options.output:
        from spark_assign.stores.run_store import read_run

        written = {name: getattr(found, name) for name in schemas}
        store_run(options, written, schemas=schemas, inputs=inputs, found=options.fail_on)
        return read_run(found.rows.sparkSession, options.output, options.run_id, schemas=schemas).tables
    from spark_assign.spark.caching import cached

    kept = found.with_tagged_rows(cached(found.tagged_rows()))
    return {name: getattr(kept, name) for name in schemas}


def stored_history(spark: SparkSession, place: str) -> StoredRun:
    """What the job history wrote there: the run that is named behind an @, or the last one.

    Raises:
        SourceError: there is none, or something else.
    """
    from spark_assign.stores.run_store import read_run
    from spark_assign.tables.history import HISTORY_TABLES, REPLAYED_TABLES

    place, run_id = split_run_id(place)
    found = read_run(spark, place, run_id, schemas={**HISTORY_TABLES, **REPLAYED_TABLES})
    if "rebalances" not in found.tables:
        raise SourceError(f"{place} holds no history of groups but {', '.join(sorted(found.tables))}")
    return found


def store_fleet(fleet: Fleet, place: str) -> dict[str, int]:
    """Write the tables of a fleet into a folder or a catalog, as `read_fleet` reads them; how many rows each has."""
    from spark_assign.tables.groups import INPUT_TABLES

    counts = {}
    for name in INPUT_TABLES:
        table = getattr(fleet, name)
        if table is None:
            continue
        writer = table.write.mode("overwrite")
        if is_path(place):
            writer.parquet(join(place, name))
            written = table.sparkSession.read.parquet(for_spark(join(place, name)))
        else:
            writer.saveAsTable(f"{place}.{name}")
            written = table.sparkSession.table(f"{place}.{name}")
        counts[name] = written.count()
    return counts


def store_snapshot(job: str, options: Options, snapshot: Snapshot) -> None:
    """Writes a snapshot to the folder `--fleet-dir` or the catalog `--table-prefix`, and prints its row counts."""
    from spark_assign.sources.files import snapshot_catalog, snapshot_files

    if options.fleet_dir:
        folders = snapshot_files.write_folder(snapshot, options.fleet_dir, options.output_format)
        written = ", ".join(str(folder) for folder in folders)
    else:
        snapshot_catalog.write_tables(snapshot, spark_session(job, options), options.table_prefix)
        written = options.table_prefix
    options.outcome.rows = snapshot.rows()
    options.outcome.locations["output"] = options.fleet_dir or options.table_prefix
    print(f"{snapshot.cluster}: " + ", ".join(f"{n} {table}" for table, n in snapshot.rows().items()))
    print(f"written to {written}")
