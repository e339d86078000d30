"""A plan's tables as files: `OUTPUT/<table>/run_id=<id>/attempt=<attempt>/`, on any file system."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from spark_assign.stores import local_parquet
from spark_assign.stores.locations import join, local_path
from spark_assign.stores.typed_text import CSV_READ, CSV_WRITE
from spark_assign.tables.groups import MANIFEST

log = logging.getLogger(__name__)

_TIME = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}


class FolderTarget:
    """Where `plan_store` writes to, as a folder."""

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
        """Write one table of one attempt; nothing is there before."""
        settings = {**(CSV_WRITE if format == "csv" else {}), **options}
        frame.write.format(format or "parquet").options(**settings).save(self._path(table, run_id, attempt))

    def read(self, table: str, run_id: str, attempt: str, format: str | None, options: dict[str, str]) -> DataFrame:
        """One table of one attempt."""
        reader = self.spark.read.format(format or "parquet")
        if format in (None, "parquet", "orc", "csv", "json"):
            reader = reader.schema(self.schemas[table])  # else Spark looks into the files in a job of its own
        settings = {**(CSV_READ | {"multiLine": "true"} if format == "csv" else {}), **options}
        return reader.options(**settings).load(self._path(table, run_id, attempt))

    def here(self, table: str, run_id: str, attempt: str) -> Path | None:
        """The folder of one table of one attempt as a path of this machine, if it is seen here.

        An attempt has a name of its own: a folder of that name is the one that Spark has written, wherever Spark runs.
        """
        folder = local_parquet.folder_here(self._path(table, run_id, attempt))
        return folder if folder is not None and folder.is_dir() else None

    def append_manifest(self, row: Mapping[str, Any], seen: str) -> None:
        """Make an attempt the plan: one file that appears by one rename.

        Args:
            row: of the manifest.
            seen: a table that the attempt has written.
        """
        folder = local_parquet.folder_here(self.output)
        if folder is not None and self.here(seen, row["run_id"], row["attempt"]):
            local_parquet.append_manifest(folder, row)
            return
        frame = one_row(self.spark, row)
        frame.write.mode("append").options(**_TIME).json(join(self.output, "manifest"))

    def manifest_rows(self) -> list[dict[str, Any]] | None:
        """All rows of the manifest, read without Spark; None where that cannot be."""
        folder = local_parquet.folder_here(self.output)
        if folder is None or not local_parquet.spark_is_here(self.spark) or not (folder / "manifest").is_dir():
            return None
        return local_parquet.manifest_rows(folder)

    def manifest(self) -> DataFrame | None:
        """All rows of the manifest; None where nothing has been written yet."""
        local = local_path(self.output)
        if local is not None and not os.path.isdir(join(local, "manifest")):
            return None
        try:
            frame = self.spark.read.schema(MANIFEST).options(**_TIME).json(join(self.output, "manifest"))
            _ = frame.schema  # Connect finds out only now
        except AnalysisException as error:
            if "PATH_NOT_FOUND" in str(error):
                return None
            raise
        return frame

    def remove(self, run_id: str, attempt: str, *, older: bool) -> None:
        """Remove this attempt, or all of the run that began before it. Never fails; what stays is logged."""
        remove_attempts(self.output, self.schemas, run_id, attempt, older=older)

    def _path(self, table: str, run_id: str, attempt: str) -> str:
        return join(self.output, table, f"run_id={run_id}", f"attempt={attempt}")


def one_row(spark: SparkSession, row: Mapping[str, Any]) -> DataFrame:
    """A row of the manifest as a frame, for which Spark needs neither Python nor a shuffle."""
    return spark.createDataFrame(pa.Table.from_pylist([dict(row)], to_arrow_schema(MANIFEST)), MANIFEST).coalesce(1)


def remove_attempts(output: str, tables: Iterable[str], run_id: str, attempt: str, *, older: bool) -> None:
    """Remove this attempt of these tables, or all attempts of the run that began before it.

    Never fails; what stays is logged.
    """
    # Only pyarrow can delete without the JVM; imported here as a plan is written without it as well.
    from pyarrow import fs

    try:
        local = local_path(output)
        if local is not None:
            files, base = fs.LocalFileSystem(), local
        else:
            uri = output.replace("s3a://", "s3://", 1).replace("s3n://", "s3://", 1)
            files, base = fs.FileSystem.from_uri(uri)
        for table in tables:
            folder = f"{base.rstrip('/')}/{table}/run_id={run_id}"
            for found in files.get_file_info(fs.FileSelector(folder, allow_not_found=True)):
                name = found.base_name.removeprefix("attempt=")
                if found.base_name != name and (name < attempt if older else name == attempt):
                    files.delete_dir(found.path)
    except Exception as error:
        log.warning("replaced files under %s stay (they are in no plan): %s", output, error)
