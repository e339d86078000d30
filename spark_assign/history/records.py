"""Raw records of `__consumer_offsets` as DataFrames: from any source into one schema, redacted, and reduced to facts.

A history is two passes. The first one reduces records to facts, batch by batch (`history.kernel.facts`): a million
commits become a few thousand intervals. Only the facts are shuffled, all of a group to one task, in which the second
pass builds the tables (`history.kernel.build_history`, `history.kernel.replay`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import IntegerType, LongType, NullType, StructField, StructType

from spark_assign.history.kernel import facts
from spark_assign.spark.dataframes import map_arrow_chunks
from spark_assign.tables.errors import Fault, FleetError
from spark_assign.tables.history import RECORDS
from spark_assign.tables.schema_check import check_schema, find_twins, not_null

if TYPE_CHECKING:
    import pyarrow as pa

TOPIC = "__consumer_offsets"
_TABLE = "records"
_POSITION = ("cluster", "partition", "offset", "timestamp")
_TIMESTAMP_REMEDY = "Add it as timestamp, or in milliseconds since 1970 as bigint"

_MAX_MS = ((1 << 63) - 1) // 1000
"""Largest timestamp, in milliseconds, of which the microseconds fit in 64 bits."""

_BUCKETS_PER_TASK = 8
"""A task processes its groups bucket by bucket, so it never holds more than the serialized facts of all its groups."""


def records_of(table: DataFrame, cluster: str | None = None) -> DataFrame:
    """Returns RECORDS (`tables.history`) of a table with key, value, partition, offset, and timestamp of each record.

    The output of Spark's Kafka source is such a table. Timestamps can be milliseconds since 1970. If there is a column
    `topic`, rows of other topics are left out. All other columns are ignored.

    Args:
        table: key and value as binary, partition, offset, timestamp; optionally cluster and topic.
        cluster: the cluster of all records, if the table has no column `cluster`.

    Raises:
        FleetError: a column is missing or has a wrong type, or the cluster is given twice or not at all. A row with a
            null in a required column fails the query that reads it, with a message that names column and row
            (`tables.errors.find_row_fault`).
    """
    if twins := find_twins(_TABLE, table, RECORDS.names):
        raise FleetError(twins)
    present = {field.name: field.dataType for field in table.schema.fields}
    if cluster is not None and "cluster" not in present:
        table = table.withColumn("cluster", F.lit(cluster))
    elif cluster is not None:
        raise FleetError([Fault(_TABLE, "cluster", "the column exists already", f"Remove the argument {cluster!r}")])
    elif "cluster" not in present:
        remedy = "Pass the cluster as an argument, or add the column as string"
        raise FleetError([Fault(_TABLE, "cluster", "the column is missing, and no cluster is given", remedy)])
    if isinstance(present.get("timestamp"), LongType | IntegerType):
        fits = F.col("timestamp").between(-_MAX_MS, _MAX_MS)
        table = table.withColumn("timestamp", F.timestamp_millis(F.when(fits, F.col("timestamp"))))
    for name in ("key", "value"):
        if isinstance(present.get(name), NullType):
            table = table.withColumn(name, F.col(name).cast("binary"))
    topic = [StructField("topic", RECORDS["cluster"].dataType)] if "topic" in present else []
    # Key and value can be null, but their columns can't be missing.
    required = (StructField(field.name, field.dataType, nullable=False) for field in RECORDS.fields)
    checked, faults = check_schema(_TABLE, table, StructType([*required, *topic]))
    if faults:
        raise FleetError([_with_remedy(fault) for fault in faults])
    if topic:
        checked = checked.where(F.col("topic") == TOPIC)
    return checked.select(*(not_null(_TABLE, field, _POSITION) for field in RECORDS.fields))


def _with_remedy(fault: Fault) -> Fault:
    is_missing_timestamp = fault.column == "timestamp" and "missing" in fault.problem
    return replace(fault, remedy=_TIMESTAMP_REMEDY) if is_missing_timestamp else fault


def redact_records(records: DataFrame, *, without_hosts: bool = False, without_metadata: bool = False) -> DataFrame:
    """Returns RECORDS without the hosts of members, or without the metadata of commits.

    An unreadable record, and a record of an unknown type, keeps its position and timestamp, but no bytes except those
    of its type: the other bytes might contain anything.
    """
    if not (without_hosts or without_metadata):
        return records

    def redact(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from spark_assign.history.kernel.redact import redact_records

        for batch in batches:
            yield redact_records(batch, hosts=without_hosts, metadata=without_metadata)

    return records.mapInArrow(redact, records.schema)


# --- facts --------------------------------------------------------------------------------------------------------


def group_facts(records: DataFrame, gap_ms: int) -> DataFrame:
    """Returns the facts of records as `history.kernel.facts.BUCKETS`, all of a group in one task.

    There are as many tasks over complete groups as the session has for shuffles (`spark.sql.shuffle.partitions`).

    Args:
        records: RECORDS of any clusters, in any order; all records of each group.
        gap_ms: shortest time without a commit that counts as a gap of a partition, in milliseconds.

    Raises:
        FleetError: a column of the records is missing, or has another type.
    """
    records = select_schema("records", records, RECORDS)
    tasks = int(records.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    num_buckets = tasks * _BUCKETS_PER_TASK
    plain = records.withColumn("at_ms", F.unix_millis("timestamp")).select(*facts.RECORDS.names)
    work = partial(facts.bucket_facts, gap_ms=gap_ms, num_buckets=num_buckets)
    buckets = plain.mapInArrow(map_arrow_chunks(work), from_arrow_schema(facts.BUCKETS))
    return buckets.repartition(tasks, "bucket")


def select_schema(name: str, table: DataFrame, schema: StructType) -> DataFrame:
    """Returns a table with the columns of a schema only. Raises FleetError if one is missing or has another type."""
    checked, faults = check_schema(name, table, schema)
    if faults:
        raise FleetError(faults)
    return checked.select(*schema.names)
