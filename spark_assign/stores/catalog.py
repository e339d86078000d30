"""Stores the tables of a run in a catalog: `PREFIX.<table>`, with run_id and attempt in every row."""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.stores.folder import Attempt, Target, one_row
from spark_assign.tables.errors import SourceError

log = logging.getLogger(__name__)

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
