"""Plans on disk or in a catalog, whole or not at all.

Every write is an *attempt* with an id of its own; what it writes is nobody's plan until a row of the
manifest, the last thing written, names it. So

- a reader who goes through the manifest (`read_plan`) sees a whole plan or none;
- a job killed in the middle leaves the plan that was there;
- a second run of one `run_id` replaces the first at the moment its manifest row is there, and then removes
  it.

Where the newest two attempts of a run_id race, the one that finishes last is the run. Spark writes and reads the
tables, so any file system and Spark Connect work; in a folder that this machine sees, the manifest and the counting
need no Spark (`local_parquet`). Removing what was replaced is best effort, and said in the log where it fails.
"""

from __future__ import annotations

import hashlib
import json
import logging
import platform
import re
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import reduce
from importlib import metadata
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_assign.spark.progress import progress
from spark_assign.stores import local_parquet
from spark_assign.stores.catalog import CatalogTarget
from spark_assign.stores.folder import FolderTarget
from spark_assign.stores.locations import is_path, local_path
from spark_assign.stores.manifest_outcome import ManifestOutcome
from spark_assign.tables.errors import SourceError
from spark_assign.tables.groups import MANIFEST, PLAN_TABLES

KAFKA_RULES = "4.1 to 4.4"
"""The Kafka releases whose behaviour plans follow."""

_DECIDED = "decided"
"""Of a `Plan` written first: computed once, then read back for every table, each of which is a projection of it."""

_ALWAYS = ("metrics", "rejected")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Manifest:
    """One finished attempt, as the manifest has it.

    `content` holds format, inputs, tables (rows of each) and versions; `duration_s` is the time from the
    start of the first table to the end of the last, in seconds.
    """

    run_id: str
    attempt: str
    finished_at: datetime
    duration_s: float
    content: Mapping[str, Any]

    @property
    def rows(self) -> dict[str, int]:
        """Rows written per table."""
        return {name: int(table["rows"]) for name, table in self.content["tables"].items()}


@dataclass(frozen=True)
class StoredPlan:
    """A whole plan read back: its manifest, and its tables by name (those that were written).

    `folders` has those tables that are Parquet files on this machine, for whoever needs no Spark to look into them.
    """

    manifest: Manifest
    tables: Mapping[str, DataFrame]
    folders: Mapping[str, Path] = field(default_factory=dict)


def safe_run_id(run_id: str) -> str:
    """The run_id as it is stored: letters, digits, `.`, `_` and `-` stay, the rest becomes `_`.

    An id that had to change ends with six characters of its hash, so that different ids stay different:
    `manual__2026-11-21T00:00:00+00:00` is `manual__2026-11-21T00_00_00_00_00-c755f2` whenever it comes.
    """
    if not run_id.strip():
        raise SourceError("run_id is empty; give a name such as nightly or 2026-11-21")
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", run_id)[:150]
    return safe if safe == run_id else f"{safe}-{hashlib.sha256(run_id.encode()).hexdigest()[:6]}"


def new_attempt() -> str:
    """The id of an attempt that begins now; those that began later sort behind it."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}-{secrets.token_hex(3)}"


def check_output(output: str) -> None:
    """Whether a plan can be written there, as far as can be told before anything is computed.

    Raises:
        SourceError: a file of this machine stands where a folder is meant.
    """
    local = local_path(output) if is_path(output) else None
    if local is not None:
        for place in (Path(local), *Path(local).parents):
            if place.exists() and not place.is_dir():
                raise SourceError(f"cannot write to {output}: {place} is not a folder")


def write_plan(
    plan: Any,
    output: str,
    *,
    run_id: str,
    format: str | None = None,
    tables: Iterable[str] | None = None,
    inputs: Mapping[str, Any] | None = None,
    options: Mapping[str, str] | None = None,
    schemas: Mapping[str, StructType] = PLAN_TABLES,
    outcome: ManifestOutcome | None = None,
) -> Manifest:
    """Compute a plan and write it; the plan of the same run_id, if any, is replaced.

    Args:
        plan: what to write: a `Plan`, or whatever has the tables of `schemas` as attributes.
        output: a folder of any file system (`OUTPUT/<table>/run_id=…/attempt=…/`) or a catalog prefix (tables
            `PREFIX.<table>` with the columns run_id and attempt besides their own).
        run_id: the run's name; see `safe_run_id`.
        format: parquet, csv, json or any other that Spark writes. None: parquet in a folder, in a catalog
            what the table has or the catalog's default.
        tables: which of `schemas`, all if null; metrics and rejected are written in any case.
        inputs: what the plan was made from, for the manifest; must be JSON, must hold no secret.
        options: Spark's writer options.
        schemas: the tables that there are, with their columns.
        outcome: what the manifest has of how the job ends, from the tables that are written (`Outcome.of_run`).

    Returns:
        the manifest row that made the plan visible.

    Raises:
        SourceError: unknown table, or the output cannot be written.
    """
    wanted = {*(schemas if tables is None else tables), *(name for name in _ALWAYS if name in schemas)}
    if unknown := sorted(wanted - set(schemas)):
        raise SourceError(f"no such table: {', '.join(unknown)}. A plan has {', '.join(schemas)}")
    names = sorted(wanted, key=list(schemas).index)
    decided = plan.tagged_rows(names) if hasattr(plan, "with_tagged_rows") else None
    spark = (getattr(plan, names[0]) if decided is None else decided).sparkSession
    run_id = safe_run_id(run_id)
    attempt = new_attempt()
    target = _target(spark, output, schemas if decided is None else {**schemas, _DECIDED: decided.schema})
    if format is None and isinstance(target, FolderTarget):
        format = "parquet"
    started = time.monotonic()
    try:
        with progress("tables written", len(names) + (decided is not None)) as step:
            if decided is not None:
                since = time.monotonic()
                whole = format if format != "csv" else "parquet"
                step(0, _DECIDED)
                target.write(_DECIDED, decided, run_id, attempt, whole, dict(options or {}) if whole == format else {})
                step()
                log.info("decided in %.1f s", time.monotonic() - since)
                plan = plan.with_tagged_rows(target.read(_DECIDED, run_id, attempt, whole, dict(options or {})))
            for name in names:
                since = time.monotonic()
                step(0, name)
                frame: DataFrame = getattr(plan, name).select(*schemas[name].fieldNames())
                target.write(name, frame, run_id, attempt, format, dict(options or {}))
                step()
                log.info("wrote %s in %.1f s", name, time.monotonic() - since)
        # Counted from what is there, not from the plan: no second computation, and proof that it can be read.
        rows = _count(target, names, run_id, attempt, format, dict(options or {}))
        ends = None
        if outcome is not None:
            ends = outcome(rows, lambda name: target.read(name, run_id, attempt, format, dict(options or {})))
        manifest = Manifest(
            run_id=run_id,
            attempt=attempt,
            finished_at=after(_finished(target, run_id)),
            duration_s=round(time.monotonic() - started, 3),
            content={
                "format": format,
                "inputs": dict(inputs or {}),
                "tables": {name: {"rows": rows[name]} for name in names},
                "versions": versions() | {"spark": spark.version},
            }
            | ({} if ends is None else {"outcome": dict(ends)}),
        )
        content = json.dumps(manifest.content, sort_keys=True)
        values = (run_id, attempt, manifest.finished_at, manifest.duration_s, content)
        target.append_manifest(dict(zip(MANIFEST.names, values, strict=True)), names[0])
    except Exception as error:
        target.remove(run_id, attempt, older=False)
        if isinstance(error, PySparkException) and "SCHEMA_NOT_FOUND" in str(error):
            hint = f"; for a folder write ./{output}" if not is_path(output) else ""
            raise SourceError(f"there is no catalog schema {output}: create it first{hint}") from error
        raise
    target.remove(run_id, attempt, older=True)
    return manifest


def read_plan(
    spark: SparkSession,
    output: str,
    run_id: str | None = None,
    *,
    options: Mapping[str, str] | None = None,
    schemas: Mapping[str, StructType] = PLAN_TABLES,
) -> StoredPlan:
    """The newest finished plan of a run_id, or of all.

    A plan that is replaced while its tables are being read fails in the reader (its files are gone) and never mixes
    with the new one; read again.

    Args:
        output: as it was given to `write_plan`.
        run_id: the run; None for the run that finished last.
        options: Spark's reader options, where the plan was written with options that reading needs.
        schemas: as they were given to `write_plan`.

    Raises:
        SourceError: there is no finished plan.
    """
    target = _target(spark, output, schemas)
    wanted = None if run_id is None else safe_run_id(run_id)
    manifest = _newest(target, wanted)
    while manifest is not None:
        try:
            return _stored(target, manifest, dict(options or {}))
        except PySparkException:
            # The files of a plan go away only after a newer one is in the manifest: then that one is meant.
            newest = _newest(target, wanted)
            if newest is None or newest.attempt == manifest.attempt:
                raise
            manifest = newest
    which = "finished plan" if run_id is None else f"finished plan with run_id {run_id}"
    raise SourceError(f"there is no {which} in {output}")


def stored_plan(
    spark: SparkSession,
    output: str,
    manifest: Manifest,
    *,
    options: Mapping[str, str] | None = None,
    schemas: Mapping[str, StructType] = PLAN_TABLES,
) -> StoredPlan:
    """The plan of a manifest that `write_plan` has returned, without another look at what else is there."""
    return _stored(_target(spark, output, schemas), manifest, dict(options or {}))


def run_before(
    spark: SparkSession, output: str, run_id: str, *, schemas: Mapping[str, StructType] = PLAN_TABLES
) -> str | None:
    """The finished run whose name comes before `run_id`, None where it is the first.

    By name and not by the clock: of runs that are named by date (`20261121T050000Z`) it is that of the date before,
    also where an old date is planned again.
    """
    target, own = _target(spark, output, schemas), safe_run_id(run_id)
    rows = target.manifest_rows()
    if rows is not None:
        return max((row["run_id"] for row in rows if row["run_id"] < own), default=None)
    frame = target.manifest()
    if frame is None:
        return None
    earlier = frame.where(F.col("run_id") < own).agg(F.max("run_id").alias("run_id"))
    found: str | None = earlier.collect()[0]["run_id"]  # one row
    return found


def _stored(target: FolderTarget | CatalogTarget, manifest: Manifest, options: dict[str, str]) -> StoredPlan:
    written, which = manifest.content["format"], (manifest.run_id, manifest.attempt)
    tables = {name: target.read(name, *which, written, options) for name in manifest.rows}
    for table in tables.values():
        _ = table.schema  # Connect opens the files only now
    found = {name: target.here(name, *which) for name in tables} if written == "parquet" and not options else {}
    return StoredPlan(manifest, tables, {name: folder for name, folder in found.items() if folder is not None})


def _target(spark: SparkSession, output: str, schemas: Mapping[str, StructType]) -> FolderTarget | CatalogTarget:
    return (FolderTarget if is_path(output) else CatalogTarget)(spark, output, schemas)


def _newest(target: FolderTarget | CatalogTarget, run_id: str | None) -> Manifest | None:
    """What finished last, of a run or of all; None where nothing has."""
    rows = target.manifest_rows()
    if rows is not None:
        finished = [_manifest(row, row["finished_at"]) for row in rows if run_id in (None, row["run_id"])]
        return max(finished, key=lambda each: (each.finished_at, each.attempt), default=None)
    frame = target.manifest()
    if frame is None:
        return None
    frame = frame if run_id is None else frame.where(F.col("run_id") == run_id)
    # Time comes as a number: Python would shift it to its zone.
    newest = frame.withColumn("micros", F.unix_micros("finished_at")).drop("finished_at")
    found = newest.orderBy(F.desc("micros"), F.desc("attempt")).limit(1).collect()  # one row at most
    return _manifest(found[0], EPOCH + timedelta(microseconds=found[0]["micros"])) if found else None


def _manifest(row: Any, finished_at: datetime) -> Manifest:
    return Manifest(
        run_id=row["run_id"],
        attempt=row["attempt"],
        finished_at=finished_at,
        duration_s=row["duration_s"],
        content=json.loads(row["content"]),
    )


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _finished(target: FolderTarget | CatalogTarget, run_id: str) -> datetime:
    newest = _newest(target, run_id)
    return EPOCH if newest is None else newest.finished_at


def after(previous: datetime) -> datetime:
    """Now, but never before what this run replaces: the clocks of two drivers may differ."""
    return max(datetime.now(UTC), previous + timedelta(microseconds=1))


def _count(
    target: FolderTarget | CatalogTarget,
    names: Sequence[str],
    run_id: str,
    attempt: str,
    format: str | None,
    options: dict[str, str],
) -> dict[str, int]:
    """Rows of each table: those of Parquet files on this machine by their footers, all others in one query."""
    counts: dict[str, int] = {}
    for name in names:
        folder = target.here(name, run_id, attempt) if format == "parquet" else None
        known = None if folder is None else local_parquet.count_rows(folder)
        if known is not None:
            counts[name] = known
    if unknown := [name for name in names if name not in counts]:
        tables = [
            target.read(name, run_id, attempt, format, options).select(F.lit(name).alias("of")) for name in unknown
        ]
        sums = [F.count_if(F.col("of") == name).alias(name) for name in unknown]
        counts |= reduce(DataFrame.union, tables).agg(*sums).collect()[0].asDict()  # one row
    return counts


def versions() -> dict[str, str]:
    """What a plan is made with, for its manifest."""
    try:
        own = metadata.version("spark_assign")
    except metadata.PackageNotFoundError:
        own = "from source"
    return {"spark_assign": own, "python": platform.python_version(), "kafka_rules": KAFKA_RULES}
