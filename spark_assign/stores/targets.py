"""Stores the tables of a run in a folder (`OUTPUT/<table>/run_id=<id>/attempt=<attempt>/`) or in a catalog."""

from __future__ import annotations

import itertools
import json
import logging
import os
import random
import re
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv as arrow_csv
from pyarrow import parquet
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DoubleType, StringType, StructField, StructType

from spark_assign.spark.dataframes import dataframe_of_rows, to_arrow_type
from spark_assign.spark.engine import is_embedded, location_for, plain_schema, require_spark, shares_files
from spark_assign.stores.local_tables import LocalFile, parquet_pieces, read_stored, read_text
from spark_assign.stores.locations import FileFaults, file_system, join, local_path, write_to_disk
from spark_assign.stores.parquet_footer import row_groups
from spark_assign.stores.typed_text import CSV_READ, CSV_WRITE
from spark_assign.tables.errors import SourceError
from spark_assign.tables.groups import MANIFEST

log = logging.getLogger(__name__)

_HADOOP = ("hdfs:", "viewfs:")
"""File systems that pyarrow can only access with Hadoop's native library, which most nodes lack."""
_STAY = "replaced files under {} stay (they are in no plan):"
_TIME = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}


@dataclass(frozen=True)
class Attempt:
    """One attempt to write a run, and how its tables are stored. `format` is None for the default of a target."""

    run_id: str
    id: str
    format: str | None
    options: Mapping[str, str]
    """Spark's options for writing or reading."""


@dataclass(frozen=True)
class Target:
    """A location in which `run_store` keeps the tables of runs."""

    spark: SparkSession
    output: str
    schemas: Mapping[str, StructType]


class FolderTarget(Target):
    """The target of `run_store` for a folder."""

    def write(self, table: str, frame: DataFrame, attempt: Attempt) -> None:
        """Writes one table of one attempt to a new folder."""
        settings = {**(CSV_WRITE if attempt.format == "csv" else {}), **attempt.options}
        for name in self._json_columns(table, attempt.format):
            frame = frame.withColumn(name, F.to_json(name))
        folder = local_folder(self._path(table, attempt.run_id, attempt.id))
        has_doubles = any(isinstance(each.dataType, DoubleType) for each in self.schemas[table])
        is_text = attempt.format == "csv" or (attempt.format == "json" and has_doubles and not attempt.options)
        if is_text and is_embedded(self.spark) and folder is not None:
            _write_text(frame, folder, str(attempt.format))
            return
        path = self._path(table, attempt.run_id, attempt.id)
        frame.write.format(attempt.format or "parquet").options(**settings).save(
            location_for(self.spark, path, attempt.format)
        )
        if is_embedded(self.spark) and folder is not None and not folder.is_dir():  # Sail writes no file without rows
            write_empty(folder, frame.schema, attempt.format or "parquet")

    def read(self, table: str, attempt: Attempt, *, own: bool = False) -> DataFrame:
        """Returns one table of one attempt; `own`: this process writes it, and checks later that it is still there."""
        lists = self._json_columns(table, attempt.format)
        fields = [StructField(each.name, StringType()) if each.name in lists else each for each in self.schemas[table]]
        schema = plain_schema(StructType(fields))
        frame = None if own else self._read_here(table, attempt, schema)
        if frame is None:
            if attempt.format == "csv":  # for Sail, an empty field is no null
                require_spark(self.spark, f"Csv in {self.output}, which is remote or read with options,")
            reader = self.spark.read.format(attempt.format or "parquet")
            if attempt.format in (None, "parquet", "orc", "csv", "json"):
                reader = reader.schema(schema)  # without a schema, Spark runs a job to infer it
            settings = {**(CSV_READ if attempt.format == "csv" else {}), **attempt.options}
            path = self._path(table, attempt.run_id, attempt.id)
            frame = reader.options(**settings).load(location_for(self.spark, path, attempt.format))
        for name, kind in lists.items():
            frame = frame.withColumn(name, F.from_json(name, kind))
        return frame

    def _read_here(self, table: str, attempt: Attempt, schema: StructType) -> DataFrame | None:
        """Returns a table that this process reads itself, or None if the engine reads it.

        Raises:
            FileNotFoundError: the files are gone; the embedded engine would read no rows.
            SourceError: a file can't be read.
        """
        kind = attempt.format or "parquet"
        local = local_folder(self._path(table, attempt.run_id, attempt.id))
        if local is None or not shares_files(self.spark) or kind not in ("parquet", "csv", "json") or attempt.options:
            return None
        if kind == "parquet":
            return read_stored(self.spark, local, schema) if is_embedded(self.spark) else None
        if not local.is_dir():
            raise FileNotFoundError(f"{local} doesn't exist")
        faults = FileFaults()
        frame = read_text(self.spark, table, schema, kind, [str(local)], faults)
        faults.verify()
        return frame

    def is_there(self, table: str, attempt: Attempt) -> bool:
        """Checks whether the table of an attempt still exists. Spark notices by itself if files are gone."""
        folder = local_folder(self._path(table, attempt.run_id, attempt.id))
        return not is_embedded(self.spark) or folder is None or folder.is_dir()

    def here(self, table: str, run_id: str, attempt: str) -> Path | None:
        """Returns the local folder of one table of one attempt, or None if this machine doesn't see it.

        The name of an attempt is unique. A local folder of that name is therefore the one that Spark wrote, wherever
        Spark runs.
        """
        folder = local_folder(self._path(table, run_id, attempt))
        return folder if folder is not None and folder.is_dir() else None

    def append_manifest(self, row: Mapping[str, Any], seen: str) -> None:
        """Makes an attempt the current run: one file that appears by one rename.

        Args:
            row: the row of the manifest.
            seen: a table that the attempt has written.
        """
        folder = local_folder(self.output)
        if folder is not None and self.here(seen, row["run_id"], row["attempt"]):
            append_manifest(folder, row)
            return
        frame = one_row(self.spark, row)
        frame.write.mode("append").options(**_TIME).json(join(self.output, "manifest"))

    def manifest_rows(self) -> list[dict[str, Any]] | None:
        """Returns all rows of the manifest, read without Spark, or None if that isn't possible."""
        folder = local_folder(self.output)
        if folder is None or not shares_files(self.spark) or not (folder / "manifest").is_dir():
            return None
        return manifest_rows(folder)

    def manifest(self) -> DataFrame | None:
        """Returns all rows of the manifest, or None if nothing has been written yet."""
        local = local_path(self.output)
        if local is not None and not os.path.isdir(join(local, "manifest")):
            return None
        try:
            frame = self.spark.read.schema(MANIFEST).options(**_TIME).json(join(self.output, "manifest"))
            _ = frame.schema  # Spark Connect opens the files only now
        except AnalysisException as error:
            if "PATH_NOT_FOUND" in str(error):
                return None
            raise
        return frame

    def remove(self, run_id: str, attempt: str, *, older: bool) -> None:
        """Removes this attempt, or all attempts of the run that started before it. Never fails; logs what remains."""
        if self.output.startswith(_HADOOP):
            self._empty_attempts(run_id, attempt, older=older)
        else:
            remove_attempts(self.output, self.schemas, run_id, attempt, older=older)

    def _empty_attempts(self, run_id: str, attempt: str, *, older: bool) -> None:
        """Does what `remove_attempts` does, by Spark. It can't delete folders, so it overwrites them with no rows."""
        tables = f"{{{','.join(self.schemas)}}}"
        files = self.spark.read.format("binaryFile").option("recursiveFileLookup", "true")
        folder = F.regexp_extract("path", "^(.*/attempt=[^/]+)/", 1).alias("folder")
        try:
            found = files.load(join(self.output, tables, f"run_id={run_id}")).where("length > 0").select(folder)
            no_rows = self.spark.range(0).select(F.col("id").cast("string")).coalesce(1)
            for row in found.distinct().collect():  # one row per table and attempt that hasn't been emptied yet
                name = row["folder"].rpartition("attempt=")[2]
                if name < attempt if older else name == attempt:
                    no_rows.write.mode("overwrite").text(row["folder"])
        except Exception as error:
            if "PATH_NOT_FOUND" not in str(error):
                log.warning("%s %s", _STAY.format(self.output), str(error).strip().splitlines()[0])

    def _json_columns(self, table: str, format: str | None) -> dict[str, ArrayType]:
        """Returns the types of the lists that are stored as JSON, by column: all lists in CSV, which has none."""
        fields = self.schemas[table] if format == "csv" else ()
        return {field.name: field.dataType for field in fields if isinstance(field.dataType, ArrayType)}

    def _path(self, table: str, run_id: str, attempt: str) -> str:
        return join(self.output, table, f"run_id={run_id}", f"attempt={attempt}")


def _write_text(rows: DataFrame, folder: Path, format: str) -> None:
    """Writes a table of the embedded engine as csv or as JSON lines.

    The engine itself writes an empty text and null alike in csv, and infinity as null in JSON. Here, as in Spark, an
    empty text is `""`, and infinity is a number.
    """
    schema = pa.schema([(each.name, to_arrow_type(each.dataType)) for each in rows.schema])
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="spark_assign-") as copy, open(folder / f"part-0.{format}", "wb") as file:
        rows.write.parquet(location_for(rows.sparkSession, f"{copy}/rows"))
        parts = [LocalFile(str(each)) for each in sorted(Path(copy).rglob("*.parquet"))]
        pieces = itertools.chain([schema.empty_table()], *(parquet_pieces(each, schema) for each in parts))
        if format == "csv":
            with arrow_csv.CSVWriter(file, schema) as out:
                for piece in pieces:
                    out.write_table(piece)
        else:
            # Sail reads the escape of a character beyond U+FFFF as another character.
            to_json = partial(json.dumps, default=datetime.isoformat, ensure_ascii=False)
            lines = (to_json(row) for piece in pieces for row in piece.to_pylist())
            file.writelines(f"{line}\n".encode() for line in lines)


def one_row(spark: SparkSession, row: Mapping[str, Any]) -> DataFrame:
    """Returns a row of the manifest as a DataFrame that needs neither a Python worker nor a shuffle."""
    return dataframe_of_rows(spark, [row], MANIFEST).coalesce(1)


def remove_attempts(output: str, tables: Iterable[str], run_id: str, attempt: str, *, older: bool) -> None:
    """Removes this attempt of these tables, or all attempts of the run that started before it.

    Never fails; logs what remains.
    """
    # Only pyarrow can delete without the JVM. Imported here, as writing a plan doesn't need it.
    from pyarrow import fs

    try:
        files, base = file_system(output)
        for table in tables:
            folder = f"{base.rstrip('/')}/{table}/run_id={run_id}"
            for entry in files.get_file_info(fs.FileSelector(folder, allow_not_found=True)):
                name = entry.base_name.removeprefix("attempt=")
                if entry.base_name != name and (name < attempt if older else name == attempt):
                    files.delete_dir(entry.path)
    except Exception as error:
        log.warning("%s %s", _STAY.format(output), error)


# --- stores the tables of a run in a catalog: `PREFIX.<table>`, with run_id and attempt in every row ----------


_KEYS = ["run_id", "attempt"]

_CONFLICT = re.compile(
    r"Concurrent|CONCURRENT|(METADATA|PROTOCOL)_CHANGED|(Metadata|Protocol)Changed|CommitFailed|onflicting files"
    # For a table that another process is creating.
    r"|NON_EMPTY_LOCATION|ALREADY_EXISTS|lready exists"
)
_ATTEMPTS = 8


def retry_conflicts(write: Callable[[], None]) -> None:
    """Calls `write`, and retries it after a pause if it conflicts with another writer."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            write()
            return
        except Exception as error:
            if attempt == _ATTEMPTS or not _CONFLICT.search(str(error)):
                raise
            log.info("the tables were written at the same time; once more")
            time.sleep(random.uniform(0.5, 1) * min(2**attempt / 4, 4))


class CatalogTarget(Target):
    """The target of `run_store` for tables of a catalog schema."""

    def write(self, table: str, frame: DataFrame, attempt: Attempt) -> None:
        """Appends one table of one attempt. Creates the catalog table if it doesn't exist."""
        marked = frame.withColumn("run_id", F.lit(attempt.run_id)).withColumn("attempt", F.lit(attempt.id))
        retry_conflicts(partial(self._append, f"{self.output}.{table}", marked, attempt.format, attempt.options, _KEYS))

    def is_there(self, table: str, attempt: Attempt) -> bool:
        """Returns True: Spark notices by itself if rows are gone."""
        return True

    def read(self, table: str, attempt: Attempt, *, own: bool = False) -> DataFrame:
        """Returns one table of one attempt, without the columns run_id and attempt."""
        frame = self.spark.table(f"{self.output}.{table}")
        attempt_rows = frame.where((F.col("run_id") == attempt.run_id) & (F.col("attempt") == attempt.id))
        return attempt_rows.select(*self.schemas[table].fieldNames())

    def here(self, table: str, run_id: str, attempt: str) -> None:
        """Returns None: the catalog decides where the files of a table are."""

    def append_manifest(self, row: Mapping[str, Any], seen: str) -> None:
        """Makes an attempt the current run."""
        retry_conflicts(partial(self._append, f"{self.output}.manifest", one_row(self.spark, row), None, {}, []))

    def manifest_rows(self) -> None:
        """Returns None: only Spark can read a catalog."""

    def manifest(self) -> DataFrame | None:
        """Returns all rows of the manifest, or None if nothing has been written yet."""
        name = f"{self.output}.manifest"
        return self.spark.table(name) if self.spark.catalog.tableExists(name) else None

    def remove(self, run_id: str, attempt: str, *, older: bool) -> None:
        """Removes this attempt, or all attempts of the run that started before it. Never fails; logs what remains."""
        for table in self.schemas:
            name = f"{self.output}.{table}"
            try:
                if self.spark.catalog.tableExists(name):
                    self._delete(name, run_id, attempt, older)
            except PySparkException as error:
                reason = str(error).strip().splitlines()[0]
                log.warning("replaced rows of %s stay (they are in no plan): %s", name, reason)

    def _append(
        self, name: str, frame: DataFrame, format: str | None, options: Mapping[str, str], partitions: list[str]
    ) -> None:
        """Appends rows to a table. Raises SourceError if the table has other columns."""
        if not self.spark.catalog.tableExists(name):
            writer = frame.write.options(**options).mode("append")
            writer = writer if format is None else writer.format(format)
            (writer.partitionBy(*partitions) if partitions else writer).saveAsTable(name)
            return
        columns = self.spark.table(name).columns
        if set(columns) != set(frame.columns):
            raise SourceError(
                f"{name} is there with other columns: {', '.join(columns)}; "
                f"expected {', '.join(frame.columns)}. "
                "Choose another schema for the output, or rename that table"
            )
        frame.select(*columns).write.insertInto(name)

    def _delete(self, name: str, run_id: str, attempt: str, older: bool) -> None:
        """Deletes rows by DELETE if the table supports it (Delta, Iceberg), else by partition (parquet, orc, csv)."""
        try:
            compare = "<" if older else "="
            self.spark.sql(f"DELETE FROM {name} WHERE run_id = '{run_id}' AND attempt {compare} '{attempt}'")
        except PySparkException:
            partitions = self.spark.sql(f"SHOW PARTITIONS {name} PARTITION (run_id = '{run_id}')")
            partition_rows = partitions.collect()  # one row per attempt of this run that hasn't been removed yet
            for row in partition_rows:
                other_attempt = row[0].rpartition("attempt=")[2]
                if other_attempt < attempt if older else other_attempt == attempt:
                    partition = f"run_id = '{run_id}', attempt = '{other_attempt}'"
                    self.spark.sql(f"ALTER TABLE {name} DROP IF EXISTS PARTITION ({partition})")


# --- what needs no Spark if the folder is local: the manifest and the footers of Parquet files ---------------------
#
# A Spark job for one line of JSON costs more than the line. The files are the same as Spark's.


MAX_MANIFEST_BYTES = 64 << 20
"""Maximum size of a file of the manifest. A run has one, of some kilobytes."""


def local_folder(location: str) -> Path | None:
    """Returns a folder as a local path, or None if only Spark can access it. Mounted volumes have their own rules."""
    local = None if location.startswith("/Volumes/") else local_path(location)
    return None if local is None else Path(local)


def append_manifest(folder: Path, row: Mapping[str, Any]) -> None:
    """Appends a row (columns: `tables.groups.MANIFEST`) as one file that appears by one rename."""
    manifest = folder / "manifest"
    manifest.mkdir(parents=True, exist_ok=True)
    finished = row["finished_at"].isoformat(timespec="microseconds")
    line = json.dumps({**row, "finished_at": finished}, separators=(",", ":"))
    # Spark ignores files whose names start with a dot. The rename makes the attempt the current run.
    temporary = manifest / f".{row['attempt']}.json"
    write_to_disk(temporary, f"{line}\n".encode())
    temporary.replace(manifest / f"{row['attempt']}.json")


def too_large(file: Any) -> SourceError:
    """Returns the error for a file of the manifest that no job has written."""
    return SourceError(f"{file} has more than {MAX_MANIFEST_BYTES:,} bytes. Remove it, and store the run again")


def unreadable_manifest(output: str, file: str = "its file") -> SourceError:
    """Returns the error for a manifest that has a row that `write_run` hasn't written."""
    return SourceError(
        f"{output}: the manifest has a row that can't be read. Remove {file} from the folder manifest, and store the "
        "run again"
    )


def rows_of_file(output: str, file: str, content: bytes) -> list[dict[str, Any]]:
    """Returns the rows of a file of the manifest.

    Raises:
        SourceError: it has no row, or one that isn't JSON or has no time. Each file has a row when it appears, also one
            of Spark: without it, an earlier run would take the place of this one.
    """
    try:
        # Only of bytes, lines end as in Spark's files: not at U+2028.
        rows = [json.loads(line.decode()) for line in content.splitlines() if line.strip()]
        if rows:
            return [{**row, "finished_at": datetime.fromisoformat(row["finished_at"])} for row in rows]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise unreadable_manifest(output, file) from error
    raise unreadable_manifest(output, file)


def manifest_rows(folder: Path) -> list[dict[str, Any]] | None:
    """Returns all rows of the manifest, or None if it contains files that only Spark can read. Raises SourceError."""
    files = [file for file in (folder / "manifest").glob("*") if file.name[0] not in "._"]
    if not all(file.suffix == ".json" and file.is_file() for file in files):
        return None
    try:
        if large := next((file for file in files if file.stat().st_size > MAX_MANIFEST_BYTES), None):
            raise too_large(large)
        found = [row for file in files for row in rows_of_file(str(folder), file.name, file.read_bytes())]
        names = [row[name] for row in found for name in ("run_id", "attempt", "content")]
        is_valid = all(isinstance(name, str) for name in names) and all(row["finished_at"].tzinfo for row in found)
        return found if is_valid else None
    except (OSError, KeyError):
        return None


def write_empty(table: Path, schema: StructType, format: str) -> None:
    """Writes a table without rows: a file that has its columns, as far as the format has them."""
    from spark_assign.spark.dataframes import to_arrow_schema

    table.mkdir(parents=True, exist_ok=True)
    if format == "parquet":
        parquet.write_table(to_arrow_schema(schema).empty_table(), table / "part-0.parquet")
    else:
        (table / f"part-0.{format}").touch()


def count_rows(table: Path) -> int | None:
    """Returns the number of rows of a table from its Parquet footers, or None if pyarrow can't read them."""
    try:
        num_rows = 0
        for file in _parquet_files(table):
            metadata = parquet.read_metadata(file)
            row_groups(file, metadata)
            num_rows += metadata.num_rows
        return num_rows
    except (OSError, ValueError, pa.ArrowException):
        return None


def has_no_null(table: Path, columns: Collection[str]) -> bool:
    """Checks whether the Parquet footers of a table show that columns, also of lists, have no null."""
    try:
        files = _parquet_files(table)
        for facts in itertools.chain.from_iterable(row_groups(file, parquet.read_metadata(file)) for file in files):
            shown = {column.name for column in facts if column.null_count == 0}
            unknown = {column.name for column in facts if column.null_count != 0}
            if not set(columns) <= shown - unknown:
                return False
    except (OSError, ValueError, pa.ArrowException):
        return False
    return True


def read_rows(table: Path, columns: Sequence[str]) -> list[dict[str, Any]] | None:
    """Returns the rows of a small table of Parquet files, or None if pyarrow can't read them."""
    try:
        tables = [parquet.ParquetFile(file).read(columns=list(columns)) for file in _parquet_files(table)]
    except (OSError, ValueError, pa.ArrowException):
        return None
    return [row for batch in tables for row in batch.to_pylist()]


def _parquet_files(table: Path) -> list[Path]:
    """Returns the files that Spark would read. Spark handles a table without files.

    Raises:
        OSError: there is no file, or something else, such as a pipe, of which a reader would wait for the footer.
    """
    files = [file for file in sorted(table.iterdir()) if file.name[0] not in "._"]
    if not files or not all(map(Path.is_file, files)):
        raise FileNotFoundError(f"no file in {table}")
    return files
