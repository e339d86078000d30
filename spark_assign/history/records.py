"""Brings raw records of `__consumer_offsets` from any source into the schema that a history is read from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, NullType, StructField, StructType

from spark_assign.tables.errors import Fault, FleetError
from spark_assign.tables.history import RECORDS
from spark_assign.tables.schema_check import check_schema

if TYPE_CHECKING:
    import pyarrow as pa

TOPIC = "__consumer_offsets"
_TABLE = "records"
_TIMESTAMP_REMEDY = "Add it as timestamp, or in milliseconds since 1970 as bigint"


def records_of(table: DataFrame, cluster: str | None = None) -> DataFrame:
    """Returns RECORDS (`tables.history`) of a table with key, value, partition, offset, and timestamp of each record.

    The output of Spark's Kafka source is such a table. Timestamps can be milliseconds since 1970. If there is a column
    `topic`, rows of other topics are left out. All other columns are ignored.

    Args:
        table: key and value as binary, partition, offset, timestamp; optionally cluster and topic.
        cluster: the cluster of all records, if the table has no column `cluster`.

    Raises:
        FleetError: a column is missing or has a wrong type, or the cluster is given twice or not at all. A row with a
            null in a required column fails the query that reads it, with a message that names the column.
    """
    present = {field.name: field.dataType for field in table.schema.fields}
    if cluster is not None and "cluster" not in present:
        table = table.withColumn("cluster", F.lit(cluster))
    elif cluster is not None:
        raise FleetError([Fault(_TABLE, "cluster", "the table has it already", f"Do not name {cluster!r} as well")])
    elif "cluster" not in present:
        remedy = "Name the cluster as an argument, or add it as string"
        raise FleetError([Fault(_TABLE, "cluster", "the column is missing, and no cluster is named", remedy)])
    if isinstance(present.get("timestamp"), LongType | IntegerType):
        table = table.withColumn("timestamp", F.timestamp_millis("timestamp"))
    for name in ("key", "value"):
        if isinstance(present.get(name), NullType):
            table = table.withColumn(name, F.col(name).cast("binary"))
    topic = [StructField("topic", RECORDS["cluster"].dataType)] if "topic" in present else []
    checked, faults = check_schema(_TABLE, table, StructType([*map(_as_required, RECORDS.fields), *topic]))
    if faults:
        raise FleetError([_with_remedy(fault) for fault in faults])
    if topic:
        checked = checked.where(F.col("topic") == TOPIC)
    return checked.select(*(_check_not_null(field) for field in RECORDS.fields))


def _as_required(field: StructField) -> StructField:
    """Returns a field that must exist. Key and value can be null, but their columns can't be missing."""
    return StructField(field.name, field.dataType, nullable=False)


def _with_remedy(fault: Fault) -> Fault:
    if fault.column == "timestamp" and "missing" in fault.problem:
        return Fault(fault.table, fault.column, fault.problem, _TIMESTAMP_REMEDY)
    return fault


def _check_not_null(field: StructField) -> Column:
    """Returns a column that fails the query if a required value is null."""
    column = F.col(field.name)
    if field.nullable:
        return column
    message = f"{_TABLE}.{field.name}: a row has none. Leave such rows out, or say what they are"
    return F.coalesce(column, F.raise_error(F.lit(message)).cast(field.dataType)).alias(field.name)


def redact_records(records: DataFrame, *, without_hosts: bool = False, without_metadata: bool = False) -> DataFrame:
    """Returns RECORDS without the hosts of members, or without the metadata of commits.

    An unreadable record, and a record of an unknown type, keeps its position and timestamp, but no bytes except those
    of
    its type: the other bytes might contain anything.
    """
    if not (without_hosts or without_metadata):
        return records

    def redact(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from spark_assign.history.kernel.redact import redact_records

        for batch in batches:
            yield redact_records(batch, hosts=without_hosts, metadata=without_metadata)

    return records.mapInArrow(redact, records.schema)
