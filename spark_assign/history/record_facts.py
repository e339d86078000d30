"""Turns raw records into the rows of a history in Spark: one pass over the records, one over complete groups.

The first pass reduces records to facts, batch by batch (`history.kernel.facts`): a million commits become some thousand
intervals. Only these, and the records about the groups themselves, are shuffled, all of a group to one task
(`history.kernel.merge_facts`), which builds the tables (`history.kernel.build_history`).
"""

from __future__ import annotations

from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from spark_assign.history.kernel import facts, merge_facts
from spark_assign.history.kernel.build_history import build_history
from spark_assign.history.kernel.timeline import HistoryThresholds
from spark_assign.history.schemas import HISTORY_ROWS
from spark_assign.spark.arrow_batches import map_arrow_batches, map_arrow_chunks
from spark_assign.tables.errors import FleetError
from spark_assign.tables.history import RECORDS
from spark_assign.tables.schema_check import check_schema

_BUCKETS_PER_TASK = 8
"""A task processes its groups bucket by bucket, so it never holds more than the serialized facts of all its groups."""

_BUCKETS = from_arrow_schema(merge_facts.BUCKETS)


def history_rows(records: DataFrame, thresholds: HistoryThresholds) -> DataFrame:
    """Returns HISTORY_ROWS of all groups, lazily: one pass over the records.

    There are as many tasks over complete groups as the session has for shuffles (`spark.sql.shuffle.partitions`).

    Args:
        records: RECORDS of any clusters, in any order; all records of each group.
        thresholds: the thresholds.

    Raises:
        FleetError: a column of the records is missing, or has another type.
    """
    rows = group_facts(records, thresholds.gap_ms)
    return rows.mapInArrow(map_arrow_batches(partial(build_history, thresholds=thresholds)), HISTORY_ROWS)


def group_facts(records: DataFrame, gap_ms: int) -> DataFrame:
    """Returns the facts of records as BUCKETS, all of a group in one task.

    `history.kernel.merge_facts.merge_buckets` reads them.

    Args:
        records: as for `history_rows`.
        gap_ms: shortest time without a commit that counts as a gap of a partition, in milliseconds.

    Raises:
        FleetError: a column of the records is missing, or has another type.
    """
    records = select_schema("records", records, RECORDS)
    tasks = int(records.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    num_buckets = tasks * _BUCKETS_PER_TASK
    plain = records.withColumn("at_ms", F.unix_millis("timestamp")).select(*facts.RECORDS.names)
    bucket_facts = partial(merge_facts.bucket_facts, gap_ms=gap_ms, num_buckets=num_buckets)
    return plain.mapInArrow(map_arrow_chunks(bucket_facts), _BUCKETS).repartition(tasks, "bucket")


def select_schema(name: str, table: DataFrame, schema: StructType) -> DataFrame:
    """Returns a table with the columns of a schema only. Raises FleetError if one is missing or has another type."""
    checked, faults = check_schema(name, table, schema)
    if faults:
        raise FleetError(faults)
    return checked.select(*schema.names)
