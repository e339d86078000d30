"""Raw records to what is told of groups, by Spark: one pass over the records, one over whole groups.

The first makes facts, batch by batch (`history.kernel.facts`): of a million commits some thousand intervals are left.
Only these, and the records about the groups themselves, are shuffled, all of a group to one task
(`history.kernel.merge_facts`), where they are told (`history.kernel.build_history`).
"""

from __future__ import annotations

from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from spark_assign.history.kernel import merge_facts, facts as reduce
from spark_assign.history.kernel.build_history import told_of
from spark_assign.history.kernel.timeline import HistoryThresholds
from spark_assign.history.schemas import TOLD
from spark_assign.spark.arrow_batches import map_arrow_batches, map_arrow_chunks
from spark_assign.tables.errors import FleetError
from spark_assign.tables.history import RECORDS
from spark_assign.tables.schema_check import conform

_PARTS_PER_TASK = 8
"""Groups are told part by part, so that a task never holds more than the bytes of all of its groups."""

_PARTS = from_arrow_schema(merge_facts.PARTS)


def told(records: DataFrame, asked: HistoryThresholds) -> DataFrame:
    """What is told of all groups that some records are of.

    Args:
        records: RECORDS, of any clusters and in any order; of a group all that there are.
        asked: the thresholds.

    Returns:
        TOLD, lazily: one pass over the records. There are as many tasks over whole groups as the session has for
        shuffles (`spark.sql.shuffle.partitions`).

    Raises:
        FleetError: a column of the records is missing, or of another type.
    """
    rows = in_whole_groups(records, asked.gap_ms)
    return rows.mapInArrow(map_arrow_batches(partial(told_of, asked=asked)), TOLD)


def in_whole_groups(records: DataFrame, gap_ms: int) -> DataFrame:
    """The facts of some records, all of a group in one task (`history.kernel.merge_facts.of_parts` reads them there).

    Args:
        records: as for `told`.
        gap_ms: a partition for which nothing is committed for longer is silent.

    Raises:
        FleetError: a column of the records is missing, or of another type.
    """
    records = conformed("records", records, RECORDS)
    tasks = int(records.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    parts = tasks * _PARTS_PER_TASK
    plain = records.withColumn("at_ms", F.unix_millis("timestamp")).select(*reduce.RECORDS.names)
    work = partial(merge_facts.in_parts, gap_ms=gap_ms, parts=parts)
    return plain.mapInArrow(map_arrow_chunks(work), _PARTS).repartition(tasks, "part")


def conformed(name: str, table: DataFrame, schema: StructType) -> DataFrame:
    """A table with the columns of a schema only. Raises FleetError."""
    shaped, faults = conform(name, table, schema)
    if faults:
        raise FleetError(faults)
    return shaped.select(*schema.names)
