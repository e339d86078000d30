"""One pass over whole groups: rows of several tables become facts, and a kernel turns facts into tagged rows.

    tables ─ to_facts ─ union ─ shuffle by key ─ kernel (`mapInArrow`) ─ tagged rows ─ projections

`stores.result.LazyResult` has the projections. Facts and tagged rows are both rows of several kinds in one table;
`kind` determines which columns a row uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import ArrayType, DataType, StructField, StructType

from spark_assign.spark.arrow_batches import map_arrow_batches
from spark_assign.spark.arrow_schemas import to_arrow_schema
from spark_assign.spark.engine import cached, with_schema

Kernel = Callable[..., Iterable[pa.Table]]
"""A function from the facts of a Spark task and `schema`, that of the tagged rows, to tables of tagged rows."""


def to_facts(rows: DataFrame, schema: pa.Schema, kind: int | Column, **columns: str | Column) -> DataFrame:
    """Returns rows as facts of a kind.

    Spark's conversion to Arrow is quadratic in the number of null lists, so that missing lists are empty.

    Args:
        rows: The rows, which have the columns of the schema before `kind`: the key.
        schema: Columns of the facts.
        kind: Kind of the facts.
        columns: Source of each column of the facts; missing columns are null, or an empty list.
    """
    fields = from_arrow_schema(schema).fields
    values: dict[str, str | Column] = {f.name: F.array() for f in fields if isinstance(f.dataType, ArrayType)}
    values |= {"kind": F.lit(kind) if isinstance(kind, int) else kind} | columns
    key = schema.names[: schema.names.index("kind")]
    return rows.select(*key, *(_column(values.get(f.name), f) for f in fields[len(key) :]))


def _column(value: str | Column | None, field: StructField) -> Column:
    column = F.lit(None) if value is None else F.col(value) if isinstance(value, str) else value
    return column.cast(field.dataType).alias(field.name)


def gather_tables(
    tables: Mapping[str, DataFrame | None], key: Sequence[str], columns: Mapping[str, Iterable[Sequence[str]]]
) -> DataFrame:
    """Returns the rows of all tables, each as the only element of the list of its table; the other lists are empty.

    A null struct would be simpler, but Spark's conversion to Arrow is quadratic in the number of null lists, and those
    of a null struct are null.

    Args:
        tables: The tables by name, of which at least one isn't None.
        key: Columns that identify a group.
        columns: Columns of each table that the kernel reads (`groups.kernel.tagged_rows.InputTable`).
    """
    lists = {
        table: rows.select(
            *key,
            F.array(F.struct(*(name for of in columns[table] for name in of if name in rows.columns))).alias(table),
        )
        for table, rows in tables.items()
        if rows is not None
    }
    empty = {table: F.array().cast(rows.schema[table].dataType).alias(table) for table, rows in lists.items()}
    filled = (rows.select(*key, *(empty | {table: F.col(table)}).values()) for table, rows in lists.items())
    return reduce(DataFrame.unionByName, filled)


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
