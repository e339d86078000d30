"""What the engine of a session can do: whether it reads this machine's files, and how it takes local tables."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType


def shares_files(spark: SparkSession) -> bool:
    """Checks whether a session reads the files of this machine: local Spark, or the embedded engine."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return (spark.conf.get("spark_assign.engine", "") or "") != ""
    return (spark.conf.get("spark.master", "") or "").startswith("local")


def dataframe_of(spark: SparkSession, table: pa.Table, schema: StructType) -> DataFrame:
    """Returns a table of this process as a DataFrame with these columns and types."""
    return spark.createDataFrame(table, schema)
