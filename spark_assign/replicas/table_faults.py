"""What can be wrong with the tables that replicas are placed by, found in one pass and raised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_assign.tables.errors import Fault, FleetError
from spark_assign.tables.schema_check import conform

_TWICE = "twice"


def shaped(tables: Mapping[str, tuple[DataFrame, StructType]]) -> list[DataFrame]:
    """The tables in their declared shape.

    Raises:
        FleetError: a missing column or a wrong type; lists everything found.
    """
    results = [conform(name, table, schema) for name, (table, schema) in tables.items()]
    if faults := [fault for _, found in results for fault in found]:
        raise FleetError(faults)
    return [table for table, _ in results]


def faulty_rows(table: str, rows: DataFrame, key: Sequence[str], *, unique: bool) -> DataFrame:
    """Rows with a null in their key and, where keys have to be `unique`, rows whose key stands twice.

    Returns:
        table, problem (the column, or that a key stands twice), rows (how many), example; one row per problem.
    """
    null = F.coalesce(*(F.when(F.col(name).isNull(), name) for name in key))
    keyed = rows.select(*key, null.alias("problem"))
    if unique:
        counted = keyed.groupBy(*key, "problem").agg(F.count(F.lit(1)).alias("rows"))
        counted = counted.withColumn("problem", F.coalesce("problem", F.when(F.col("rows") > 1, _TWICE)))
    else:
        counted = keyed.withColumn("rows", F.lit(1).cast("long"))
    return (
        counted.where(F.col("problem").isNotNull())
        .groupBy("problem")
        .agg(F.sum("rows").alias("rows"), F.min(_show(key)).alias("example"))
        .select(F.lit(table).alias("table"), "problem", "rows", "example")
    )


def together(found: Sequence[DataFrame]) -> DataFrame:
    """What `faulty_rows` has found in several tables."""
    return reduce(DataFrame.unionByName, found)


def raise_faults(found: Sequence[Row], keys: Mapping[str, Sequence[str]]) -> None:
    """Raise what `faulty_rows` found, if anything; `keys` are the key columns of each table.

    Raises:
        FleetError: listing every kind of fault with its number of rows and one of them.
    """
    faults = []
    for row in found:
        where = f"{row['rows']} row(s), e.g. {row['example']}"
        key = keys[row["table"]]
        if row["problem"] == _TWICE:
            remedy = f"Keep one row per {' and '.join(key)}"
            faults.append(Fault(row["table"], key[-1], f"the same key twice: {where}", remedy))
        else:
            remedy = "Fill it in or leave the row out"
            faults.append(Fault(row["table"], row["problem"], f"null or beyond int in a key: {where}", remedy))
    if faults:
        raise FleetError(sorted(faults, key=str))


def _show(columns: Sequence[str]) -> Column:
    """A row's key as a person reads it: `cluster=c1, topic=orders`."""
    values = [F.coalesce(F.col(name).cast("string"), F.lit("null")) for name in columns]
    return F.concat_ws(", ", *(F.concat(F.lit(f"{name}="), value) for name, value in zip(columns, values, strict=True)))
