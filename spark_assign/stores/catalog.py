"""A plan's tables in a catalog: `PREFIX.<table>`, every attempt's rows marked by run_id and attempt."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_assign.stores.folder import one_row
from spark_assign.tables.errors import SourceError

log = logging.getLogger(__name__)

_KEYS = ["run_id", "attempt"]


class CatalogTarget:
    """Where `plan_store` writes to, as tables of a schema."""

    def __init__(self, spark: SparkSession, output: str, schemas: Mapping[str, StructType]) -> None:
        self.spark = spark
        self.output = output
        self.schemas = schemas

    def write(
        self,
        table: str,
        frame: DataFrame,
        run_id: str,
        attempt: str,
        format: str | None,
        options: dict[str, str],
    ) -> None:
        """Append one table of one attempt; the table is made where it is not there."""
        marked = frame.withColumn("run_id", F.lit(run_id)).withColumn("attempt", F.lit(attempt))
        self._append(f"{self.output}.{table}", marked, format, options, _KEYS)

    def read(self, table: str, run_id: str, attempt: str, format: str | None, options: dict[str, str]) -> DataFrame:
        """One table of one attempt, without the columns that mark it."""
        frame = self.spark.table(f"{self.output}.{table}")
        mine = frame.where((F.col("run_id") == run_id) & (F.col("attempt") == attempt))
        return mine.select(*self.schemas[table].fieldNames())

    def here(self, table: str, run_id: str, attempt: str) -> None:
        """Where a table's files are is the catalog's affair."""

    def append_manifest(self, row: Mapping[str, Any], seen: str) -> None:
        """Make an attempt the plan."""
        self._append(f"{self.output}.manifest", one_row(self.spark, row), None, {}, [])

    def manifest_rows(self) -> None:
        """Only Spark reads a catalog."""

    def manifest(self) -> DataFrame | None:
        """All rows of the manifest; None where nothing has been written yet."""
        name = f"{self.output}.manifest"
        return self.spark.table(name) if self.spark.catalog.tableExists(name) else None

    def remove(self, run_id: str, attempt: str, *, older: bool) -> None:
        """Remove this attempt, or all of the run that began before it. Never fails; what stays is logged."""
        for table in self.schemas:
            name = f"{self.output}.{table}"
            try:
                if self.spark.catalog.tableExists(name):
                    self._delete(name, run_id, attempt, older)
            except PySparkException as error:
                reason = str(error).strip().splitlines()[0]
                log.warning("replaced rows of %s stay (they are in no plan): %s", name, reason)

    def _append(
        self, name: str, frame: DataFrame, format: str | None, options: dict[str, str], partitions: list[str]
    ) -> None:
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
        """By DELETE where the table can (delta, iceberg), else by its partitions (parquet, orc, csv)."""
        try:
            compare = "<" if older else "="
            self.spark.sql(f"DELETE FROM {name} WHERE run_id = '{run_id}' AND attempt {compare} '{attempt}'")
        except PySparkException:
            of_run = self.spark.sql(f"SHOW PARTITIONS {name} PARTITION (run_id = '{run_id}')")
            found = of_run.collect()  # a row per attempt at this run that has not been removed yet
            for row in found:
                other = row[0].rpartition("attempt=")[2]
                if other < attempt if older else other == attempt:
                    partition = f"run_id = '{run_id}', attempt = '{other}'"
                    self.spark.sql(f"ALTER TABLE {name} DROP IF EXISTS PARTITION ({partition})")
