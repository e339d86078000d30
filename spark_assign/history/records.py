"""Raw records of `__consumer_offsets`, wherever somebody has them, in the one shape that the history is read from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, NullType, StructField, StructType

from spark_assign.tables.errors import Fault, FleetError
from spark_assign.tables.history import RECORDS
from spark_assign.tables.schema_check import conform

if TYPE_CHECKING:
    import pyarrow as pa

TOPIC = "__consumer_offsets"
_TABLE = "records"
_ADD = "Add it as timestamp, or in milliseconds since 1970 as bigint"


def records_of(table: DataFrame, cluster: str | None = None) -> DataFrame:
    """RECORDS (`tables.history`) of a table with key, value, partition, offset and timestamp of each record.

    What Spark's Kafka source gives is such a table. Timestamps may be milliseconds since 1970. Rows of other topics are
    left out where there is a column `topic`; all other columns are not looked at.

    Args:
        table: key and value as binary, partition, offset, timestamp; perhaps cluster and topic.
        cluster: of all records, where the table has no column `cluster`.

    Raises:
        FleetError: a column is missing or of a wrong type, or the cluster is said twice or not at all. A row in which
            one of them is null fails the query that reads it, with a word that names the column.
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
    fitting, faults = conform(_TABLE, table, StructType([*map(_must_be_there, RECORDS.fields), *topic]))
    if faults:
        raise FleetError([_as_told(fault) for fault in faults])
    if topic:
        fitting = fitting.where(F.col("topic") == TOPIC)
    return fitting.select(*(_there(field) for field in RECORDS.fields))


def _must_be_there(field: StructField) -> StructField:
    """Key and value may be null, but a table without them is none."""
    return StructField(field.name, field.dataType, nullable=False)


def _as_told(fault: Fault) -> Fault:
    if fault.column == "timestamp" and "missing" in fault.problem:
        return Fault(fault.table, fault.column, fault.problem, _ADD)
    return fault


def _there(field: StructField) -> Column:
    column = F.col(field.name)
    if field.nullable:
        return column
    told = f"{_TABLE}.{field.name}: a row has none. Leave such rows out, or say what they are"
    return F.coalesce(column, F.raise_error(F.lit(told)).cast(field.dataType)).alias(field.name)


def without_secrets(records: DataFrame, *, without_hosts: bool = False, without_metadata: bool = False) -> DataFrame:
    """RECORDS without hosts of members, without metadata of commits: what is stored of them is no secret then.

    A record that cannot be read, or is of no type that is known, keeps its place and its time, but no bytes but those
    that say what it was: it may have anything.
    """
    if not (without_hosts or without_metadata):
        return records

    def emptied(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from spark_assign.history.kernel import redact

        for batch in batches:
            yield redact.without_secrets(batch, hosts=without_hosts, metadata=without_metadata)

    return records.mapInArrow(emptied, records.schema)
