"""Reads the input tables of jobs, and writes their output tables."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from spark_assign.api import Fleet
from spark_assign.cli.job import Options, spark_session
from spark_assign.cli.options import fleet_or_sample, sample, tables_with_sample
from spark_assign.cli.owners import select_groups, select_tables
from spark_assign.sources.files.tables import Shape, interpreted, read_tables
from spark_assign.spark.engine import cached, is_embedded, location_for, plain_schema, require_spark
from spark_assign.stores.local_tables import read_parquet_location
from spark_assign.stores.locations import is_path, join, read_file, split_run_id, text_of
from spark_assign.stores.result import LazyResult, Result
from spark_assign.stores.run_store import read_run, write_run
from spark_assign.stores.targets import local_folder, write_empty
from spark_assign.tables.errors import ConfigError, FleetError, writing_to
from spark_assign.tables.groups import INPUT_TABLES, REQUIRED_TABLES
from spark_assign.tables.history import HISTORY_TABLES, REPLAY_TABLES
from spark_assign.tables.schema_check import check_schema
from spark_assign.tables.simulation import EVENTS

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from spark_assign.sources.files.snapshot import Snapshot
    from spark_assign.stores.run_store import ReadTable, StoredRun

    Found = str | Callable[[ReadTable], bool] | None

R = TypeVar("R", bound=LazyResult)
AnyResult = TypeVar("AnyResult", bound=Result)


def on_fleet(
    name: str, options: Options, job_file: str, run: Callable[[Options, str | None, Fleet], int], *, loads: bool = False
) -> int:
    """Reads the fleet and runs a job on it.

    Args:
        name: name of the job.
        options: options of a job with `input_options`, `group_filter_options`, and `output_options`.
        job_file: file of the job, beside which the sample fleet is.
        run: gets the options, the location of the fleet, and the fleet.
        loads: whether the sample fleet includes its made-up loads.
    """
    location = fleet_or_sample(options, job_file)
    tables = tables_with_sample(options, job_file, "loads") if loads else options.table
    spark = spark_session(name, options)
    with interpreted(spark, [*([location] if location else []), *(tables or {}).values()]):
        fleet = Fleet.read(spark, location, format=options.format, options=options.option, tables=tables)
        return run(options, location, select_groups(spark, fleet, options))


def read_fleet_and_settings(
    spark: SparkSession,
    options: Options,
    location: str | None,
    locations: Mapping[str, str] | None,
    required: Sequence[str] = (),
) -> tuple[Fleet, dict[str, Any]]:
    """Reads a fleet, its table `events`, and the tables `settings_groups`, `settings_members`, `settings_partitions`.

    Args:
        spark: the session.
        options: options of a job with `input_options` and `group_filter_options`.
        location: location of the fleet.
        locations: locations of single tables.
        required: tables that must exist, besides those of every fleet.

    Returns:
        the fleet, and the other tables that exist: `events`, and those of `Settings` by their argument.
    """
    from spark_assign.simulation.settings import SETTINGS_TABLES  # of no use to a snapshot, which should start soon

    schemas = {"events": EVENTS, **{f"settings_{name}": schema for name, schema in SETTINGS_TABLES.items()}}
    shape = Shape("A fleet with events", {**INPUT_TABLES, **schemas}, (*REQUIRED_TABLES, *required))
    tables = read_tables(spark, shape, location, format=options.format, options=options.option, tables=locations)
    fleet = Fleet(**{name: table for name, table in tables.items() if name in INPUT_TABLES})
    fleet = select_groups(spark, fleet, options)
    if "events" in tables and (options.group or options.owner):  # those of a whole cluster remain
        events, faults = check_schema("events", tables["events"], EVENTS)
        if faults:
            raise FleetError(faults)
        of_groups, of_clusters = (events.where(f"group_id IS {null}") for null in ("NOT NULL", "NULL"))
        selected = select_tables(spark, {"events": of_groups}, options)["events"]
        tables["events"] = selected.unionByName(of_clusters)
    return fleet, {name.removeprefix("settings_"): table for name, table in tables.items() if name in schemas}


def with_capacities(fleet: Fleet, capacity: Mapping[str, float] | None) -> Fleet:
    """Returns the fleet with the values of `--capacity`. The first matching pattern wins."""
    for glob, messages in reversed(list((capacity or {}).items())):
        fleet = fleet.with_capacity(messages, group_id=glob)
    return fleet


def store_run(
    options: Options,
    tables: Mapping[str, DataFrame],
    *,
    inputs: Mapping[str, Any],
    schemas: Mapping[str, StructType] | None = None,
    found: Found = None,
    prints: bool = True,
) -> None:
    """Writes tables as one run (`--output`, `--run-id`, `--output-format`, `--output-option`).

    Args:
        options: options of the job; its outcome gets what was written.
        tables: tables by name.
        inputs: inputs for the manifest.
        schemas: schemas by name; None: as the tables are.
        found: condition for exit code 1 (`Outcome.of_run`).
        prints: whether to print where the run is.
    """
    manifest = write_run(
        tables,
        options.output,
        run_id=options.run_id,
        format=options.output_format,
        inputs=dict(inputs),
        options=options.output_option,
        schemas=schemas or {name: table.schema for name, table in tables.items()},
        outcome=options.outcome.of_run(found),
    )
    options.outcome.wrote(manifest, options.output)
    if prints:
        print(f"Written to {options.output} as run_id={options.run_id}", flush=True)


def store_and_read(
    options: Options,
    tables: Mapping[str, DataFrame],
    *,
    inputs: Mapping[str, Any],
    schemas: Mapping[str, StructType] | None = None,
    found: Found = None,
    prints: bool = True,
) -> Mapping[str, DataFrame]:
    """Writes tables as `store_run` does, and returns them as they are stored; without `--output`, as they are."""
    if not options.output:
        return tables
    schemas = schemas or {name: table.schema for name, table in tables.items()}
    store_run(options, tables, schemas=schemas, inputs=inputs, found=found, prints=prints)
    spark = next(iter(tables.values())).sparkSession
    return read_run(spark, options.output, options.run_id, schemas=schemas).tables


def exit_code(options: Options, found: DataFrame) -> int:
    """Returns 1 if there are rows that `--fail-on` names, else 0."""
    return int(options.fail_on is not None and not found.isEmpty())


def store_or_cache(options: Options, result: R, *, inputs: Mapping[str, Any]) -> R:
    """Returns a result computed once: with its tables as stored or, without `--output`, cached.

    Args:
        options: see `store_run`; with `--fail-on rejected`, rows of that table mean exit code 1.
        result: the result.
        inputs: inputs for the manifest.
    """
    (stored,) = store_or_cache_all(options, [result], inputs=inputs)
    return stored


def store_or_cache_all(options: Options, results: Sequence[R], *, inputs: Mapping[str, Any]) -> list[R]:
    """Returns the results of several kinds of groups as `store_or_cache` does, stored as one run."""
    results = [result.with_tagged_rows(cached(result.tagged_rows())) for result in results]
    if not options.output:
        return results
    stored = store_all(options, results, inputs, options.fail_on)
    for each in results:
        each.unpersist()
    return stored


def store_all(
    options: Options, results: Sequence[AnyResult], inputs: Mapping[str, Any], found: Found
) -> list[AnyResult]:
    """Writes the results of several kinds of groups as one run (`store_run`), and returns them as they are stored."""
    tables = {name: table for each in results for name, table in each.with_prefix(each.tables).items()}
    schemas = {name: schema for each in results for name, schema in each.with_prefix(each.schemas).items()}
    stored = store_and_read(options, tables, schemas=schemas, inputs=inputs, found=found)
    return [each.with_tables({name: stored[f"{each.prefix}{name}"] for name in each.tables}) for each in results]


def sample_run(spark: SparkSession, job_file: str, job: str) -> str:
    """Returns the location of a stored run of the sample: a temporary folder, which is removed when the process ends.

    Args:
        spark: the session.
        job_file: file of the job, beside which the samples are.
        job: what to store: `plan` (of the sample fleet) or `history` (of the sample history).
    """
    from spark_assign.groups.planning import plan  # these are of no use to a snapshot, which should start soon
    from spark_assign.history.history import read_history
    from spark_assign.history.records import records_of

    folder = tempfile.mkdtemp(prefix=f"spark-assign-{job}-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    location = sample(job_file, "fleet" if job == "plan" else "history")
    with interpreted(spark, [location]):
        result: Result
        if job == "plan":
            result = plan(Fleet.read(spark, location))
        else:
            result = read_history(records_of(read_parquet_location(spark, "records", f"{location}/records.parquet")))
        result.write(folder, run_id="sample", inputs={"fleet": location})
    return folder


def stored_history(spark: SparkSession, location: str) -> StoredRun:
    """Returns the stored history of `LOCATION[@RUN_ID]`; without a run, the one that finished last.

    Raises:
        SourceError: there is no run, or it isn't a history.
    """
    required = ("groups", "rebalances", "pauses", "deploys", "unreadable", "rejected")
    schemas = {**HISTORY_TABLES, **REPLAY_TABLES}
    return read_run(spark, *split_run_id(location), schemas=schemas, required=required)


def stored_plan(spark: SparkSession, location: str, schemas: Mapping[str, StructType]) -> StoredRun:
    """Returns the stored plan of `LOCATION[@RUN_ID]`; without a run, the one that finished last.

    Raises:
        SourceError: there is no run, or it lacks a table that every plan has.
    """
    return read_run(spark, *split_run_id(location), schemas=schemas, required=("metrics", "rejected"))


def read_topologies(values: Sequence[str]) -> dict[str, str]:
    """Returns the text of each topology that `--topology GROUP=FILE` gives, by group ID. Raises ConfigError."""
    topologies = {}
    for value in values:
        group_id, equals, file = value.rpartition("=")
        if not (group_id and equals and file):
            raise ConfigError(f"--topology {value}: expected GROUP=FILE, for example orders=topology.txt.")
        try:
            topologies[group_id] = text_of(read_file(file, 16 << 20), "utf-8")
        except (OSError, ValueError) as error:  # no UTF-8, or a path with NUL
            raise ConfigError(f"--topology {value}: the file can't be read: {error}.") from error
    return topologies


def store_fleet(fleet: Fleet, location: str) -> dict[str, int]:
    """Writes the tables of a fleet to a folder or catalog, as `Fleet.read` reads them. Returns the row counts."""
    counts = {}
    with writing_to(location):
        for name in INPUT_TABLES:
            table = getattr(fleet, name)
            if table is None:
                continue
            spark, writer = table.sparkSession, table.write.mode("overwrite")
            if is_path(location):
                folder = join(location, name)
                writer.parquet(location_for(spark, folder))
                written = spark.read.schema(plain_schema(table.schema)).parquet(location_for(spark, folder))
                counts[name] = written.count()
                local = local_folder(folder)
                if not counts[name] and is_embedded(spark) and local is not None:  # Sail writes no file without rows
                    write_empty(local, table.schema, "parquet")
            else:
                require_spark(spark, f"The catalog {location}")
                writer.saveAsTable(f"{location}.{name}")
                counts[name] = spark.table(f"{location}.{name}").count()
    return counts


def store_snapshot(job: str, options: Options, snapshot: Snapshot) -> str:
    """Writes a snapshot to the folder `--fleet-dir` or the catalog `--table-prefix`. Returns where it is.

    `options.pseudonyms` is a key, or None.
    """
    from spark_assign.sources.files import pseudonyms, snapshot_catalog, snapshot_files

    if options.pseudonyms:
        snapshot = pseudonyms.with_pseudonyms(snapshot, options.pseudonyms)
    options.outcome.locations["output"] = options.fleet_dir or options.table_prefix
    if options.fleet_dir:
        folders = snapshot_files.write_folder(snapshot, options.fleet_dir, options.output_format)
        return ", ".join(str(folder) for folder in folders)
    snapshot_catalog.write_tables(snapshot, spark_session(job, options), options.table_prefix)
    return str(options.table_prefix)


def last_snapshot_time(job: str, options: Options, key: str, cluster: str) -> datetime | None:
    """Returns the time of a cluster's snapshot in `--fleet-dir` or `--table-prefix`, or None if there is none."""
    from spark_assign.sources.files import snapshot_catalog, snapshot_files

    if options.fleet_dir:
        return snapshot_files.last_taken(options.fleet_dir, key, cluster)
    return snapshot_catalog.last_taken(spark_session(job, options), options.table_prefix, key, cluster)
