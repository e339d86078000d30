"""One pass over whole groups: rows of several tables become facts, and a kernel turns facts into tagged rows.

    tables ─ gather_tables ─ shuffle by key ─ kernel (`mapInArrow`) ─ tagged rows ─ projections

`stores.result.LazyResult` has the projections. Facts and tagged rows are both rows of several kinds in one table;
`kind` determines which columns a row uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StructField, StructType

from spark_assign.spark.arrow_batches import map_arrow_batches
from spark_assign.spark.arrow_schemas import to_arrow_schema
from spark_assign.spark.engine import cached, with_schema

Kernel = Callable[..., Iterable[pa.Table]]
"""A function from the facts of a Spark task and `schema`, that of the tagged rows, to tables of tagged rows."""


def gather_tables(
    tables: Mapping[str, DataFrame | None], key: Sequence[str], columns: Mapping[str, Iterable[str]]
) -> DataFrame:
    """Returns the rows of all tables, each as the only element of the list of its table; the other lists are empty.

    A null struct would be simpler, but Spark's conversion to Arrow is quadratic in the number of null lists, and those
    of a null struct are null.

    Args:
        tables: The tables by name, of which at least one isn't None.
        key: Columns that identify a group.
        columns: Columns of each table that the kernel reads (`groups.kernel.tagged_rows.InputTable`).
    """
    lists, empty = {}, {}
    for table, rows in tables.items():
        if rows is not None:
            types = {field.name: field.dataType for field in rows.schema}  # one request to the engine
            read = [StructField(name, types[name]) for name in columns[table] if name in types]
            lists[table] = rows.select(*key, F.array(F.struct(*(field.name for field in read))).alias(table))
            empty[table] = F.array().cast(ArrayType(StructType(read))).alias(table)
    filled = (rows.select(*key, *(empty | {table: F.col(table)}).values()) for table, rows in lists.items())
    return reduce(DataFrame.unionByName, filled)


def gather_columns(
    tables: Mapping[str, DataFrame | None], key: Sequence[str], columns: Mapping[str, Iterable[str]]
) -> DataFrame:
    """Returns the rows of all tables with `table`, its index in `columns`, and the columns of all tables: null, or an
    empty list, in the rows of others. It costs less than `gather_tables`; columns of one name must have one type.

    Args:
        tables, key, columns: see `gather_tables`.
    """
    typed = [
        rows.select(
            *key,
            F.lit(at).cast("byte").alias("table"),
            *(name for name in columns[table] if name in rows.columns),
        )
        for at, table in enumerate(columns)
        if (rows := tables.get(table)) is not None
    ]
    fields = [field for rows in typed for field in rows.schema if isinstance(field.dataType, ArrayType)]
    empty = {field.name: F.array().cast(field.dataType).alias(field.name) for field in fields}
    return union(rows.select("*", *(empty[name] for name in empty if name not in rows.columns)) for rows in typed)


def union(tables: Iterable[DataFrame]) -> DataFrame:
    """Returns the rows of all tables; missing columns are null."""
    listed = list(tables)
    names = {name for table in listed for name in table.columns}
    if any(names - set(table.columns) for table in listed):  # typed here, because Sail adds columns without a type
        types = {field.name: field.dataType for table in listed for field in table.schema.fields}
        listed = [_with_columns(table, types) for table in listed]
    return reduce(DataFrame.unionByName, listed)


def _with_columns(table: DataFrame, types: Mapping[str, DataType]) -> DataFrame:
    missing = sorted(types.keys() - set(table.columns))
    columns = (F.lit(None).cast(types[name]).alias(name) for name in missing)
    fields = [*table.schema.fields, *(StructField(name, types[name]) for name in missing)]
    return with_schema(table.select("*", *columns), StructType(fields))


def run_pass(
    facts: DataFrame, key: Sequence[str], tasks: int, kernel: Kernel, schema: StructType, batch_rows: int = 100_000
) -> DataFrame:
    """Returns the tagged rows of a kernel that gets all facts of a key in one Spark task; cached if the session can.

    Args:
        facts: The facts.
        key: Columns that identify a group or a cluster.
        tasks: Number of Spark tasks.
        kernel: The kernel; Spark sends it to executors.
        schema: Schema of the tagged rows.
        batch_rows: Maximum number of rows per Arrow batch.
    """
    work = partial(kernel, schema=to_arrow_schema(schema))
    return cached(facts.repartition(tasks, *key).mapInArrow(map_arrow_batches(work, batch_rows), schema))
