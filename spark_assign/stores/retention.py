"""Lists and removes old runs of a folder or a catalog.

A run is removed from the manifest first, so that no reader sees a part of it; then its files or rows are removed. What
a killed removal leaves belongs to no run, and the next removal takes it. The run that finished last always stays.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_assign.numeric.arrays import values_by_key
from spark_assign.stores.locations import file_system, files_below, join
from spark_assign.stores.targets import MAX_MANIFEST_BYTES, CatalogTarget, rows_of_file, too_large, unreadable_manifest
from spark_assign.tables.errors import SourceError, reason

_ABANDONED = timedelta(days=1)
"""A younger attempt without a row of the manifest might still be written. The row would then replace a complete run."""
_ATTEMPT = re.compile(r"run_id=(?P<run_id>[^/]+)/attempt=(?P<attempt>[^/]+)(/|$)")
_STARTED = "%Y%m%dT%H%M%S%fZ"
_NAMES = r"[A-Za-z0-9._-]{1,200}/\d{8}T\d{12}Z-[0-9a-f]{6}"
"""Run ID and attempt as `write_run` names them. Others aren't runs: they could name a folder elsewhere, or be SQL."""
_IS_ROWS = re.compile(r"[^._/][^/]*\.json(\.\w+)?$")
"""A file of the manifest. Spark compresses it if Hadoop's settings say so."""
_MAX_ATTEMPTS = 100_000
"""Maximum number of attempts of a catalog that are listed at once; the next call lists the next ones."""


@dataclass(frozen=True)
class StoredAttempt:
    """One attempt to write a run.

    Attributes:
        location: the folder or catalog prefix.
        run_id, attempt: its names.
        finished_at: when it finished; None if it didn't, or if its row of the manifest is gone.
        size: bytes of its files; None in a catalog.
    """

    location: str
    run_id: str
    attempt: str
    finished_at: datetime | None
    size: int | None

    @property
    def last_used_at(self) -> datetime:
        """Returns when it finished, or else started."""
        started = self.attempt.partition("-")[0]
        return self.finished_at or datetime.strptime(started, _STARTED).replace(tzinfo=UTC)


def stored_attempts(
    spark: SparkSession | None, location: str, problems: list[str] | None = None
) -> list[StoredAttempt]:
    """Returns all attempts of a location, ordered by location and time.

    Args:
        spark: the session, for a catalog; None: `location` is a folder.
        location: what `write_run` wrote to, or a folder of such folders, such as that of `daily`.
        problems: gets a message for each of these folders with a damaged manifest; None: the first is an error.

    Raises:
        SourceError: there are no runs, or the location can't be read.
    """
    faults: list[str] = []
    try:
        found = list(_in_folder(location, faults) if spark is None else _in_catalog(spark, location))
        found = [each for each in found if re.fullmatch(_NAMES, f"{each.run_id}/{each.attempt}")]
        found.sort(key=lambda each: (each.location, each.last_used_at, each.attempt))
    except (OSError, pa.ArrowException, PySparkException, RecursionError, ValueError) as error:
        raise SourceError(f"{location} can't be read: {reason(error)}") from error
    if faults and (problems is None or not found):
        raise SourceError("\n".join(faults))
    if problems is not None:
        problems += faults
    if not found:
        raise SourceError(f"{location} has no runs. Name a folder or a catalog prefix that a job wrote to")
    return found


def expired(attempts: Iterable[StoredAttempt], keep: timedelta, now: datetime) -> list[StoredAttempt]:
    """Returns the attempts that finished longer ago than `keep`, or started without finishing, then at least a day ago.

    Of each location, the run that finished last is never among them. An attempt that finished later than the run, but
    started before it, goes with the run (`run_store`).
    """
    attempts = list(attempts)
    finished = sorted((each for each in attempts if each.finished_at), key=lambda each: each.last_used_at)
    newest = {each.location: each.run_id for each in finished}
    valid: dict[tuple[str, str], StoredAttempt] = {}
    for each in sorted(finished, key=lambda each: each.attempt):
        valid[each.location, each.run_id] = each

    kept = {run for run in valid.values() if newest[run.location] == run.run_id}
    age = {True: keep, False: max(keep, _ABANDONED)}
    old = {each for each in attempts if each.last_used_at < now - age[each.finished_at is not None]} - kept
    gone = {(run.location, run.run_id) for run in valid.values() if run in old}
    return [each for each in attempts if each in old or (each.finished_at and (each.location, each.run_id) in gone)]


def remove(spark: SparkSession | None, attempts: Iterable[StoredAttempt]) -> None:
    """Removes attempts, first from the manifest.

    Raises:
        SourceError: a location can't be changed, for example a catalog table without DELETE.
    """
    for location, of_location in values_by_key((each.location, each) for each in attempts).items():
        try:
            if spark is None:
                _remove_files(location, of_location)
            else:
                _remove_rows(spark, location, of_location)
        except (OSError, pa.ArrowException, PySparkException) as error:
            hint = (
                ". Rows can only be removed from tables that support DELETE, such as Delta and Iceberg tables"
                if spark
                else ""
            )
            raise SourceError(f"runs of {location} can't be removed: {reason(error)}{hint}") from error


def _in_folder(location: str, problems: list[str]) -> Iterator[StoredAttempt]:
    """Returns the attempts of a folder and the folders in it, by their files and the manifest.

    Folders with a damaged manifest are left out, and appended to the problems.
    """
    files, base = file_system(location)
    base = base.rstrip("/")
    finished: dict[tuple[str, str, str], datetime] = {}
    sizes: dict[tuple[str, str, str], int] = defaultdict(int)
    faults: dict[str, str] = {}
    for info in files_below(files, base, follow_links=True):
        path = info.path.removeprefix(f"{base}/")
        folder, is_manifest, name = f"/{path}".rpartition("/manifest/")
        folder = folder.strip("/")
        if is_manifest and _IS_ROWS.match(name):
            home = join(location, folder).rstrip("/")
            try:
                for row in _rows(files, home, info.path):
                    key = folder, f"{row['run_id']}", f"{row['attempt']}"
                    finished[key] = row["finished_at"].astimezone(UTC)
            except SourceError as error:
                faults[folder] = str(error)
            except (KeyError, OverflowError):
                faults[folder] = str(unreadable_manifest(home, name))
        elif match := _ATTEMPT.search(path):
            folder = path[: match.start()].rstrip("/").rpartition("/")[0]
            sizes[folder, match["run_id"], match["attempt"]] += info.size
    for folder in {folder for folder, *_ in sizes}:
        manifest = join(base, *filter(None, [folder]), "manifest")
        if files.get_file_info(manifest).is_file:
            faults[folder] = f"{manifest} isn't a folder. Remove it, and store the runs again"
    problems += [faults[folder] for folder in sorted(faults)]
    for key in {*finished, *sizes}:
        folder, run_id, attempt = key
        if folder not in faults:
            home = join(location, folder) if folder else location
            yield StoredAttempt(home, run_id, attempt, finished.get(key), sizes.get(key, 0))


def _rows(files: Any, location: str, path: str) -> list[dict[str, Any]]:
    """Returns the rows of a file of the manifest. Raises SourceError."""
    name = path.rpartition("/")[2]
    try:
        with files.open_input_stream(path) as stream:
            content = stream.read(MAX_MANIFEST_BYTES + 1)
    except OSError as error:
        if name.endswith(".json"):
            raise
        raise unreadable_manifest(location, name) from error  # the compression isn't that of its name
    if len(content) > MAX_MANIFEST_BYTES:
        raise too_large(path)
    return rows_of_file(location, name, content)


def _remove_files(location: str, attempts: Iterable[StoredAttempt]) -> None:
    """Removes attempts from a folder."""
    from pyarrow import fs

    files, base = file_system(location)
    base = base.rstrip("/")
    keys = {(each.run_id, each.attempt) for each in attempts}
    for info in files.get_file_info(fs.FileSelector(f"{base}/manifest", allow_not_found=True)):
        if info.is_file and _IS_ROWS.match(info.base_name):
            rows = _rows(files, location, info.path)
            if {(f"{row['run_id']}", f"{row['attempt']}") for row in rows} <= keys:
                files.delete_file(info.path)
    for table in files.get_file_info(fs.FileSelector(base)):
        for run_id, attempt in keys if table.type == fs.FileType.Directory else ():
            run = f"{table.path}/run_id={run_id}"
            if files.get_file_info(f"{run}/attempt={attempt}").type == fs.FileType.Directory:
                files.delete_dir(f"{run}/attempt={attempt}")
                if files.get_file_info(fs.FileSelector(run)):
                    continue
                if files.type_name == "local":  # the folder stays if a job has just started to write there
                    with suppress(OSError):
                        os.rmdir(run)
                else:
                    files.delete_dir(run)


def _in_catalog(spark: SparkSession, prefix: str) -> Iterator[StoredAttempt]:
    """Returns the attempts in the manifest and in the tables of a catalog, the oldest `_MAX_ATTEMPTS` of them."""
    manifest = CatalogTarget(spark, prefix, {}).manifest()
    if manifest is None:
        return
    keys = ["run_id", "attempt"]
    tables = [manifest, *(spark.table(f"{prefix}.{name}") for name in _tables_of_runs(spark, prefix))]
    attempts = reduce(DataFrame.union, [table.select(*keys) for table in tables]).distinct()
    # Another tool can have tables with these columns.
    attempts = attempts.where(F.concat_ws("/", *keys).rlike(f"^{_NAMES}$"))
    finished = manifest.groupBy(*keys).agg(F.max(F.unix_micros("finished_at")).alias("micros"))
    rows = attempts.join(finished, keys, "left").orderBy("attempt").limit(_MAX_ATTEMPTS).collect()  # bounded
    for row in rows:
        finished_at = None if row["micros"] is None else datetime.fromtimestamp(row["micros"] / 1e6, UTC)
        yield StoredAttempt(prefix, row["run_id"], row["attempt"], finished_at, None)


def _remove_rows(spark: SparkSession, prefix: str, attempts: Iterable[StoredAttempt]) -> None:
    """Removes attempts from a catalog."""
    target = CatalogTarget(spark, prefix, {name: StructType() for name in _tables_of_runs(spark, prefix)})
    for each in attempts:
        where = f"run_id = '{each.run_id}' AND attempt = '{each.attempt}'"
        spark.sql(f"DELETE FROM {prefix}.manifest WHERE {where}")
        target.remove(each.run_id, each.attempt, older=False)


def _tables_of_runs(spark: SparkSession, prefix: str) -> list[str]:
    """Returns the tables of a catalog schema that have rows of runs, without the manifest."""
    tables = spark.sql(f"SHOW TABLES IN {prefix}").where("NOT isTemporary AND tableName != 'manifest'")
    names = [row["tableName"] for row in tables.collect()]  # one row per table of the schema
    return [name for name in names if {"run_id", "attempt"} <= set(spark.table(f"{prefix}.{name}").columns)]
