"""Stores runs in a folder or a catalog, atomically.

Every write is an *attempt* with a unique ID. Its tables are visible only after a row of the manifest, which is
written last, names it. Hence:

- A reader that goes through the manifest (`read_run`) sees a complete run or none.
- A job that is killed leaves the previous run in place.
- A second run with the same run_id replaces the first when its manifest row appears, and then removes the first.

Of the finished attempts of a run_id, the one that started last is the run, and it removes those that started before
it. Both follow one order, so if two attempts race, the run is complete at any time, whichever finishes first. Spark
writes and reads the tables, so any file system and Spark Connect work. In a local folder, the manifest and counts need
no Spark (`stores.targets`). Removal of replaced tables is best effort, and failures are logged.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from importlib import metadata
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_assign.numeric.arrays import MAX_PARTITIONS
from spark_assign.spark.engine import check_scheme, is_embedded, refused_option, require_spark, unknown_format
from spark_assign.spark.progress import progress
from spark_assign.stores.local_tables import list_files
from spark_assign.stores.locations import is_path, local_path
from spark_assign.stores.targets import (
    Attempt,
    CatalogTarget,
    FolderTarget,
    count_rows,
    has_no_null,
    local_folder,
    manifest_rows,
    unreadable_manifest,
)
from spark_assign.tables.errors import SourceError, SparkAssignError, find_disk_failure, is_engine_failure, reason
from spark_assign.tables.groups import PLAN_TABLES, SCHEMA_VERSION
from spark_assign.tables.schema_check import check_version, finite, with_keys
from spark_assign.tables.stored_plan import KINDS, REQUIRED_TABLES, TABLES_OF_OTHER_KINDS, has_only_connect

RowCounts = Mapping[str, int]
"""The number of rows of each table that was written."""
ReadTable = Callable[[str], DataFrame]
"""Reads a table of the run, as it was written."""
ManifestOutcome = Callable[[RowCounts, ReadTable], Mapping[str, Any]]
"""Returns the entries of the manifest that say how the job ends."""


STARTED = "%Y%m%dT%H%M%S%fZ"
_LAST_YEAR = 9999
KAFKA_RULES = "4.1 to 4.4"
"""The Kafka releases whose behavior plans follow."""

_PLAN_ROWS_TABLE = "plan_rows"
"""The table of a plan that is written first: computed once, then read back for all tables, which are projections of
it.
"""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Manifest:
    """One finished attempt, a row of the manifest.

    `content` has schema_version, format, inputs, tables (with their row counts), and versions. `duration_s` is the time
    from the start of the first table to the end of the last, in seconds.
    """

    run_id: str
    attempt: str
    finished_at: datetime
    duration_s: float
    content: Mapping[str, Any]

    @property
    def started_at(self) -> datetime:
        """Returns the start of the attempt, which its ID contains."""
        return datetime.strptime(self.attempt.partition("-")[0], STARTED).replace(tzinfo=UTC)

    @property
    def rows(self) -> dict[str, int]:
        """Returns the number of rows written per table."""
        return {name: int(table["rows"]) for name, table in self.content["tables"].items()}

    @property
    def unknown(self) -> list[str]:
        """Returns what the input of the run lacked, in sentences."""
        found = self.content["inputs"].get("unknown")
        return list(map(str, found)) if isinstance(found, list) else []

    @property
    def row(self) -> dict[str, Any]:
        """Returns the row of the manifest table, with `content` as JSON."""
        return {**vars(self), "content": json.dumps(self.content, sort_keys=True)}


@dataclass(frozen=True)
class StoredRun:
    """A complete run read back: its manifest, and its tables by name (those that were written).

    `folders` has the tables that are local Parquet files, for readers that need no Spark.
    """

    manifest: Manifest
    tables: Mapping[str, DataFrame]
    folders: Mapping[str, Path] = field(default_factory=dict)


def safe_run_id(run_id: str) -> str:
    """Returns the run_id in its stored form: letters, digits, `.`, `_`, and `-` stay, and all other characters become
    `_`, as does a name of dots.

    An ID that changes ends with six characters of its hash, so that different IDs stay different:
    `manual__2026-11-21T00:00:00+00:00` is always `manual__2026-11-21T00_00_00_00_00-c755f2`.
    """
    if not run_id.strip():
        raise SourceError("run_id is empty. Use a name such as nightly or 2026-11-21")
    safe = re.sub(r"[^A-Za-z0-9._-]|^\.+$", "_", run_id)[:150]
    hashed = hashlib.sha256(run_id.encode("utf-8", "surrogatepass")).hexdigest()
    return safe if safe == run_id else f"{safe}-{hashed[:6]}"


def new_attempt(replaced: str | None = None) -> str:
    """Returns the ID of an attempt that starts now. IDs sort by start time, and after the one that is replaced."""
    started = datetime.now(UTC)
    if replaced is not None and replaced >= f"{started:{STARTED}}":  # the clock of its driver was ahead
        before = datetime.strptime(replaced.partition("-")[0], STARTED).replace(tzinfo=UTC)
        started = before + timedelta(microseconds=1)
    return f"{started:{STARTED}}-{secrets.token_hex(3)}"


class Computed(Protocol):
    """A result whose tables are projections of the rows of one pass, such as a plan."""

    def tagged_rows(self, tables: Iterable[str]) -> DataFrame:
        """Returns the rows that these tables are projections of."""

    def with_tagged_rows(self, rows: DataFrame) -> Any:
        """Returns the result with its tables as attributes, which read these rows."""


def write_run(
    frames: Mapping[str, DataFrame],
    output: str,
    *,
    run_id: str,
    format: str | None = None,
    tables: Iterable[str] | None = None,
    inputs: Mapping[str, Any] | None = None,
    unknown: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    schemas: Mapping[str, StructType] = PLAN_TABLES,
    computed: Computed | None = None,
    outcome: ManifestOutcome | None = None,
) -> Manifest:
    """Computes the tables of a run and writes them. Replaces the run of the same run_id, if any.

    Args:
        frames: the tables by name.
        output: a folder of any file system (`OUTPUT/<table>/run_id=…/attempt=…/`) or a catalog prefix (tables
            `PREFIX.<table>` with the additional columns run_id and attempt).
        run_id: the name of the run; see `safe_run_id`.
        format: parquet, csv, json, or any other format that Spark writes. If None: parquet in a folder, and in a
            catalog the table's format or the catalog's default.
        tables: names from `schemas`, all if None; metrics and rejected are always written, of every kind of group.
        inputs: what the plan was computed from, for the manifest. Must be JSON without secrets.
        unknown: what the inputs lack, in sentences (`Manifest.unknown`).
        options: Spark's writer options.
        schemas: the available tables with their columns.
        computed: the result that has the tables that `frames` doesn't have. Its rows are computed once and stored, and
            its tables are read from them.
        outcome: returns the outcome of the job for the manifest, from the written tables (`Outcome.of_run`).

    Returns:
        the manifest row that made the run visible.

    Raises:
        SourceError: unknown table, or the output can't be written.
    """
    required = {name for name in schemas if name.rpartition("_")[2] in REQUIRED_TABLES}
    requested = {*(schemas if tables is None else tables), *required}
    if others := sorted(requested - set(schemas)):
        raise SourceError(f"unknown table: {', '.join(others)}. The tables are {', '.join(schemas)}")
    names = sorted(requested, key=list(schemas).index)
    tagged_rows = None if computed is None else computed.tagged_rows([name for name in names if name not in frames])
    spark = (frames[names[0]] if tagged_rows is None else tagged_rows).sparkSession
    target = _target(
        spark, output, schemas if tagged_rows is None else {**schemas, _PLAN_ROWS_TABLE: tagged_rows.schema}
    )
    if format is None and isinstance(target, FolderTarget):
        format = "parquet"
    if format == "csv" and (options or local_folder(output) is None):
        require_spark(spark, f"--output-option {', '.join(options)} for csv" if options else f"Csv in {output}")
    attempt = Attempt(safe_run_id(run_id), new_attempt(), format, options or {})
    started = time.monotonic()
    previous = _newest(target, attempt.run_id)
    folders: list[Path | None] = []
    try:
        attempt = replace(attempt, id=new_attempt(None if previous is None else previous.attempt))
        with progress("tables written", len(names) + (tagged_rows is not None)) as step:
            result = None
            if computed is not None and tagged_rows is not None:
                since = time.monotonic()
                rows_attempt = replace(attempt, format="parquet", options={}) if format == "csv" else attempt
                step(0, _PLAN_ROWS_TABLE)
                target.write(_PLAN_ROWS_TABLE, tagged_rows, rows_attempt)
                step()
                log.info("computed in %.1f s", time.monotonic() - since)
                result = computed.with_tagged_rows(target.read(_PLAN_ROWS_TABLE, rows_attempt, own=True))
            for name in names:
                since = time.monotonic()
                step(0, name)
                frame: DataFrame = frames[name] if name in frames else getattr(result, name)
                target.write(name, frame.select(*schemas[name].fieldNames()), attempt)
                step()
                log.info("wrote %s in %.1f s", name, time.monotonic() - since)
        folders = [target.here(name, attempt.run_id, attempt.id) for name in names]
        # Counted from the stored tables, not from the plan: no second computation, and proof that they can be read.
        rows = _count(target, names, attempt)
        _check_whole_groups(target, required, attempt)
        if tagged_rows is not None and not target.is_there(_PLAN_ROWS_TABLE, attempt):
            raise replaced_error(output, run_id)
        inputs = {**(inputs or {}), **({"unknown": [*unknown]} if unknown else {})}
        content = manifest_content(format, inputs, {name: rows[name] for name in names}, spark=spark.version)
        if outcome is not None:
            content["outcome"] = dict(outcome(rows, lambda name: target.read(name, attempt)))
        finished_at = finish_time(EPOCH if previous is None else previous.finished_at)
        duration_s = round(time.monotonic() - started, 3)
        manifest = Manifest(attempt.run_id, attempt.id, finished_at, duration_s, content)
        if _is_removed(folders):
            raise FileNotFoundError(f"{output} lacks a table of the run {run_id}")
        target.append_manifest(manifest.row, names[0])
    except Exception as error:
        is_removed = _is_removed(folders)
        target.remove(attempt.run_id, attempt.id, older=False)
        if isinstance(error, PySparkException) and "SCHEMA_NOT_FOUND" in str(error):
            hint = f"; for a folder write ./{output}" if not is_path(output) else ""
            raise SourceError(f"the catalog schema {output} doesn't exist: create it first{hint}") from error
        if unknown_error := unknown_format(format, error):
            raise unknown_error from error
        if not isinstance(error, SparkAssignError):
            if _is_replaced(target, attempt):
                raise replaced_error(output, run_id) from error
            if is_removed:
                why = "another process, such as config --prune with a short --keep, removed its tables"
                raise SourceError(f"{output}: the run {run_id} isn't complete: {why}. Store it again") from error
            if refused := refused_option(options or {}, error) or find_disk_failure(output, error):
                raise refused from error
            local = Path(local_path(output) or "/")
            if isinstance(target, FolderTarget) and (file := next(filter(os.path.isfile, (local, *local.parents)), "")):
                raise SourceError(f"{output} can't be written: {file} isn't a folder") from error
        raise
    target.remove(attempt.run_id, attempt.id, older=True)
    return manifest


def read_run(
    spark: SparkSession,
    output: str,
    run_id: str | None = None,
    *,
    options: Mapping[str, str] | None = None,
    schemas: Mapping[str, StructType] = PLAN_TABLES,
    required: Iterable[str] = (),
) -> StoredRun:
    """Reads the newest finished run of a run_id, or of all runs.

    If a run is replaced while its tables are being read, the reader fails (its files are removed) and never mixes
    two runs. Read again. A query fails if a required value is null (`tables.errors.find_row_fault`).

    Args:
        output: the location that was passed to `write_run`.
        run_id: the run; None for the run that finished last.
        options: Spark's reader options, if the run was written with options that reading needs.
        schemas: the schemas that were passed to `write_run`.
        required: names of the tables that the caller reads.

    Raises:
        FleetError: a table has other columns.
        SourceError: there is no finished run, its files aren't complete, or it has other tables.
    """
    target = _target(spark, output, schemas)
    wanted = None if run_id is None else safe_run_id(run_id)
    manifest = _newest(target, wanted)
    while manifest is not None:
        try:
            run = _stored(target, manifest, options or {})
            if missing := [name for name in required if name not in run.tables]:
                known = f"has no table {', '.join(missing)}, but {', '.join(run.tables)}"
                raise SourceError(f"{output}, run {manifest.run_id}, {known}. Name a run that has it")
            return replace(run, tables={name: _checked(run, name, schemas[name]) for name in run.tables})
        except (PySparkException, FileNotFoundError) as error:
            # The files of a plan go away only after a newer one is in the manifest: then that one is meant.
            newest = _newest(target, wanted)
            if newest is None or newest.attempt == manifest.attempt:
                if isinstance(error, FileNotFoundError):
                    text = f"{output}, run {manifest.run_id}, isn't complete: {error}. Store it again"
                    raise SourceError(text) from error
                if is_engine_failure(error):
                    raise
                text = f"{output}, run {manifest.run_id}, can't be read: {reason(error)}. Store it again"
                raise SourceError(text) from error
            manifest = newest
    which = "" if run_id is None else f" with run_id {run_id[:200]}"
    raise SourceError(f"{output} has no finished run{which}")


def checked(name: str, table: DataFrame, schema: StructType) -> DataFrame:
    """Returns a stored table, of which a query fails if a required value is null, or a slice of a plan has partitions
    beyond any topic: a row with a wrong number would need more memory than a worker has. Raises FleetError."""
    if name == "assignment_slices" and {"first", "step", "count"} <= set(table.columns):
        last = F.col("first") + F.col("step") * (F.col("count").cast("long") - 1)
        is_slice = (F.col("first") >= 0) & ((F.col("step") > 0) | (F.col("count") <= 1))
        table = table.withColumn("count", F.when(is_slice & (last < MAX_PARTITIONS), F.col("count")))
    return with_keys(name, table, schema)


def _checked(run: StoredRun, name: str, schema: StructType) -> DataFrame:
    """Returns `checked` and `finite` of a table; without a check of nulls if the footers of its files show none."""
    required = [field.name for field in schema if not field.nullable]
    if name != "assignment_slices" and name in run.folders and has_no_null(run.folders[name], required):
        return finite(name, run.tables[name], schema)
    return finite(name, checked(name, run.tables[name], schema), schema)


def stored_run(
    spark: SparkSession, output: str, manifest: Manifest, *, options: Mapping[str, str] | None = None
) -> StoredRun:
    """Returns the plan of a manifest that `write_run` returned, without reading the manifest table again."""
    return _stored(_target(spark, output, PLAN_TABLES), manifest, options or {})


def previous_run(spark: SparkSession, output: str, run_id: str) -> str | None:
    """Returns the finished run whose name precedes `run_id`, or None if it is the first. Plans of only Connect clusters
    don't count: they have no group to compare. One that lacks tables, such as assignment_slices, does.

    Runs are ordered by name, not by time: for runs named by date (`20261121T050000Z`), it is the run of the previous
    date, even if an old date is planned again.
    """
    target, safe_id = _target(spark, output, PLAN_TABLES), safe_run_id(run_id)
    rows, names = target.manifest_rows(), ("run_id", "attempt")
    with _readable(output):
        earlier: Iterable[Any]
        if rows is not None:
            earlier = [row for row in rows if row["run_id"] < safe_id]
            earlier = sorted(earlier, key=itemgetter(*names), reverse=True)
        else:
            frame = target.manifest()
            if frame is None:
                return None
            frame = frame.where(F.col("run_id") < safe_id).orderBy(*map(F.desc, names))
            earlier = frame.drop("finished_at").toLocalIterator()
        for _, attempts in groupby(earlier, key=itemgetter("run_id")):
            manifest = read_manifest(output, next(attempts), EPOCH)
            if not has_only_connect(manifest.rows):
                return manifest.run_id
    return None


def _stored(target: FolderTarget | CatalogTarget, manifest: Manifest, options: Mapping[str, str]) -> StoredRun:
    """Returns the run of a manifest, without tables of kinds of groups that the schemas don't have.

    Raises:
        SourceError: the run has other tables, because another job wrote it, or another schema version.
        FileNotFoundError: a local table has another number of rows than the manifest.
    """
    check_version(f"{target.output}, run {manifest.run_id},", manifest.content.get("schema_version"))
    names = [name for name in manifest.rows if name in target.schemas]
    if not names or not manifest.rows.keys() - set(names) <= TABLES_OF_OTHER_KINDS:
        found, expected = ", ".join(manifest.rows), ", ".join(target.schemas)
        raise SourceError(
            f"{target.output}, run {manifest.run_id}, has the tables {found}. Name a run with these tables: {expected}"
        )
    attempt = Attempt(manifest.run_id, manifest.attempt, manifest.content["format"], options)
    for name, folder in _local_folders(target, names, attempt).items():
        are_files, written = [file.is_file() for file in folder.glob("[!._]*")], manifest.rows[name]
        count = count_rows(folder) if all(are_files) else 0
        if count is not None or not are_files:
            _verify_count(folder, count or 0, written)
    try:
        tables = {name: target.read(name, attempt) for name in names}
        for table in tables.values():
            _ = table.schema  # Spark Connect opens the files only now
        others = {name: table for name, table in tables.items() if attempt.format != "parquet"}
        folders = {name: target.here(name, attempt.run_id, attempt.id) for name in others}
        counts = _count_rows({name: table for name, table in others.items() if folders[name]})
        for name, count in counts.items():
            _verify_count(folders[name], count, manifest.rows[name])
    except Exception as error:
        if unknown := unknown_format(attempt.format, error):
            raise SourceError(f"{target.output}, run {manifest.run_id}: {unknown}") from error
        raise
    return StoredRun(manifest, tables, {} if options else _local_folders(target, tables, attempt))


def _verify_count(folder: Path | None, count: int, written: int) -> None:
    """Raises FileNotFoundError if a table has another number of rows than the manifest."""
    if count != written:
        raise FileNotFoundError(f"{folder} has {count:,} of the {written:,} rows that were written")


def _local_folders(target: FolderTarget | CatalogTarget, names: Iterable[str], attempt: Attempt) -> dict[str, Path]:
    """Returns the folders of the tables that are local Parquet files."""
    folders = {name: target.here(name, attempt.run_id, attempt.id) for name in names if attempt.format == "parquet"}
    return {name: folder for name, folder in folders.items() if folder is not None}


def _target(spark: SparkSession, output: str, schemas: Mapping[str, StructType]) -> FolderTarget | CatalogTarget:
    """Returns the folder or catalog target of a location."""
    if is_path(output):
        if is_embedded(spark):
            check_scheme(output)
        return FolderTarget(spark, output, schemas)
    require_spark(spark, f"The catalog {output}")
    return CatalogTarget(spark, output, schemas)


def _newest(target: FolderTarget | CatalogTarget, run_id: str | None) -> Manifest | None:
    """Returns the manifest of a run, of the run that finished last if `run_id` is None, or None if there is none."""
    rows = target.manifest_rows()
    if rows is not None:
        row = newest_row(rows, run_id)
        return None if row is None else read_manifest(target.output, row, row["finished_at"])
    with _readable(target.output):
        frame = target.manifest()
        return None if frame is None else _newest_of_frame(target.output, frame, run_id)


@contextmanager
def _readable(output: str) -> Iterator[None]:
    """Raises SourceError if the engine can't read the manifest of a location inside the context."""
    try:
        yield
    except (SparkAssignError, AssertionError, AttributeError, LookupError, NameError, TypeError):
        raise  # the last five are defects of ours, which no location causes
    except Exception as error:  # classic PySpark lets Java's own exceptions through
        if is_engine_failure(error):
            raise
        # Of the embedded engine; Spark reads such a line as nulls. HDFS has an IO error if it can't be reached.
        if re.search("(Json|IO) error(?! occurred)|found mixed compression types", str(error)):
            raise unreadable_manifest(output) from error
        raise SourceError(f"{output} cannot be read: {reason(error)}") from error


def _newest_of_frame(output: str, frame: DataFrame, run_id: str | None) -> Manifest | None:
    """Returns the manifest of `_newest` from a manifest that the engine reads."""
    # The time is read as a number, as Python would convert it to the local time zone.
    finished = frame.withColumn("micros", F.unix_micros("finished_at")).drop("finished_at")
    if run_id is None:
        last_rows = finished.orderBy(F.desc("micros"), F.desc("attempt")).limit(1).collect()  # one row at most
        run_id = last_rows[0]["run_id"] if last_rows else ""
    newest_rows = finished.where(F.col("run_id") == run_id).orderBy(F.desc("attempt")).limit(1).collect()  # one row
    return read_manifest(output, newest_rows[0], newest_rows[0]["micros"]) if newest_rows else None


def newest_row(rows: Sequence[Mapping[str, Any]], run_id: str | None) -> Mapping[str, Any] | None:
    """Returns the row of `_newest`: of the finished attempts of the run, the one that started last."""
    if run_id is None and rows:
        run_id = max(rows, key=lambda row: (row["finished_at"], row["attempt"]))["run_id"]
    return max((row for row in rows if row["run_id"] == run_id), key=lambda row: row["attempt"], default=None)


def _is_removed(folders: Iterable[Path | None]) -> bool:
    """Checks whether a local folder of a table that was written is gone."""
    return any(folder is not None and not folder.is_dir() for folder in folders)


def _is_replaced(target: FolderTarget | CatalogTarget, attempt: Attempt) -> bool:
    """Checks whether an attempt that started later is the run, so that it has removed the files of this one."""
    try:
        newest = _newest(target, attempt.run_id)
    except (PySparkException, SparkAssignError, OSError):
        return False
    return newest is not None and newest.attempt > attempt.id


def replaced_error(output: Any, run_id: str) -> SourceError:
    """Returns the error of the writer that started first, of two with the same run_id."""
    return SourceError(
        f"{output}: another job that started later has written the run {run_id}, so this job's tables were removed. "
        "Give each job its own --run-id"
    )


def find_replaced(error: BaseException, output: str, run_id: str | None, attempt: str) -> SourceError | None:
    """Returns the error of a run that was stored, and that another job replaced before this one read it to its end;
    None if the error has another reason, or if the manifest isn't a local one.

    Args:
        error: what was raised.
        output: location of the run.
        run_id, attempt: those of the run.
    """
    is_of_reading = isinstance(error, FileNotFoundError) or type(error).__module__.startswith("pyspark")
    folder = local_folder(output) if is_of_reading and is_path(output) else None
    rows: list[Any] = []
    with suppress(SparkAssignError):
        rows = list((folder and manifest_rows(folder)) or ())
    newest = newest_row(rows, run_id)
    return replaced_error(output, str(run_id)) if newest and newest["attempt"] > attempt else None


def read_manifest(output: str, row: Any, finished_at: datetime | int) -> Manifest:
    """Returns a Manifest from a row.

    Args:
        output: the location in messages.
        row: the row.
        finished_at: its time, or microseconds since 1970.

    Raises:
        SourceError: the row is damaged, or names a folder outside of the output.
    """
    try:
        if not isinstance(finished_at, datetime):
            finished_at = EPOCH + timedelta(microseconds=finished_at)
        content = json.loads(row["content"])
        manifest = Manifest(row["run_id"], row["attempt"], finished_at, row["duration_s"], content)
        is_valid = (
            all(re.fullmatch(r"[A-Za-z0-9._-]{1,200}", name) for name in (manifest.run_id, manifest.attempt))
            and max(manifest.started_at.year, finished_at.year) < _LAST_YEAR
            and isinstance(content["format"], str | None)
            and isinstance(content["inputs"], dict)
            and isinstance(content["versions"], dict)
            and min(manifest.rows.values(), default=0) >= 0
        )
    except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise unreadable_manifest(output) from error
    if not is_valid:
        raise unreadable_manifest(output)
    return manifest


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def finish_time(previous: datetime) -> datetime:
    """Returns the current time, but never a time before the replaced run: the clocks of two drivers can differ."""
    return max(datetime.now(UTC), previous + timedelta(microseconds=1))


def _count(target: FolderTarget | CatalogTarget, names: Sequence[str], attempt: Attempt) -> dict[str, int]:
    """Returns the number of rows of each table: from the footers of local Parquet files, and for all other tables in
    one query.
    """
    num_rows = {name: count_rows(path) for name, path in _local_folders(target, names, attempt).items()}
    counts = {name: count for name, count in num_rows.items() if count is not None}
    return counts | _count_rows({name: target.read(name, attempt) for name in names if name not in counts})


def _count_rows(tables: Mapping[str, DataFrame]) -> dict[str, int]:
    """Returns the number of rows of each table, in one query."""
    if not tables:
        return {}
    marked = [table.select(F.lit(name).alias("of")) for name, table in tables.items()]
    sums = [F.count_if(F.col("of") == name).alias(name) for name in tables]
    return dict(reduce(DataFrame.union, marked).agg(*sums).collect()[0].asDict())  # one row


def _check_whole_groups(target: FolderTarget | CatalogTarget, names: Iterable[str], attempt: Attempt) -> None:
    """Raises RuntimeError if a group is in several rows of `metrics` and `rejected`, of any kind of group."""
    for prefix in sorted({name.rpartition("_")[0] for name in names}):
        pair = [f"{prefix}_{name}" if prefix else name for name in REQUIRED_TABLES]
        if not target.schemas.keys() >= set(pair):
            continue
        folders = _local_folders(target, pair, attempt)
        group = split_group([target.read(name, attempt) for name in pair], [folders.get(name) for name in pair])
        if group is not None:
            raise RuntimeError(
                f"the group {group} was planned by two tasks, each from a part of its rows. The engine has split it: "
                "report this with the engine's version and settings"
            )


def manifest_content(
    format: str | None, inputs: Mapping[str, Any] | None, rows: RowCounts, **versions: str
) -> dict[str, Any]:
    """Returns the content of a manifest: schema version, format, inputs, row counts, and the versions that computed the
    run.
    """
    try:
        package_version = metadata.version("spark_assign")
    except metadata.PackageNotFoundError:
        package_version = "from source"
    versions |= {"spark_assign": package_version, "python": platform.python_version(), "kafka_rules": KAFKA_RULES}
    tables = {name: {"rows": count} for name, count in rows.items()}
    return {
        "schema_version": SCHEMA_VERSION,
        "format": format,
        "inputs": dict(inputs or {}),
        "tables": tables,
        "versions": versions,
    }


def num_rows_of_kinds(rows: Mapping[str, int], table: str) -> int:
    """Returns the number of rows of a table, such as `rejected`, summed over the kinds that a run has."""
    return sum(rows.get(f"{prefix}{table}", 0) for prefix in KINDS)


# --- checks that no group of a stored plan was seen by two tasks ----------------------------------------------
#
# Every group of a plan is a row of `metrics` or of `rejected`. An engine that splits the facts of a group, for example
# by shuffling them again for a window, makes two rows of it, each of a part of the group.


_REJECTION = "code"
"""The first column of the tables of rejections that isn't part of the key."""


def split_group(tables: Sequence[DataFrame], folders: Sequence[Path | None]) -> str | None:
    """Returns the key of a group that is in more than one row of two tables, or None if there is none.

    Args:
        tables: `metrics` and `rejected` of one kind of group.
        folders: their folders if they are local Parquet files, which are read without a query.
    """
    names = tables[-1].columns
    key = names[: names.index(_REJECTION)]
    if None in folders:
        rows = reduce(DataFrame.unionByName, [table.select(*key) for table in tables])
        counted = rows.groupBy(*key).agg(F.count(F.lit(1)).alias("rows")).where(F.col("rows") > 1)
        twice = [tuple(row) for row in counted.select(*key).limit(1).collect()]  # one row at most
    else:
        paths = [file.path for folder in folders for file in list_files([str(folder)])]
        found = [parquet.ParquetFile(path).read(columns=key) for path in paths]
        rows_of_key = pa.concat_tables(found).group_by(key).aggregate([([], "count_all")]) if found else pa.table({})
        twice = []
        if len(rows_of_key):
            many = rows_of_key.filter(pc.greater(rows_of_key["count_all"], 1)).slice(0, 1)
            twice = [tuple(row[name] for name in key) for row in many.to_pylist()]
    return "/".join(map(str, twice[0])) if twice else None
