"""Operations on DataFrames that the pipelines share.

- Schemas and rows as Arrow has them, and the union of tables with different columns.
- Slices: an assignment consists of few slices (a range has step 1, a round robin of n members step n), so plans are
  computed on slices and expanded to partitions last.
- Functions of Arrow tables, adapted to `mapInArrow`.
- One pass over whole groups: rows of several tables become facts, and a kernel turns facts into tagged rows.

      tables ─ gather_tables ─ shuffle by key ─ kernel (`mapInArrow`) ─ tagged rows ─ projections

  `stores.result.LazyResult` has the projections. Facts and tagged rows are both rows of several kinds in one table;
  `kind` determines which columns a row uses.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from inspect import signature
from typing import Any
from zipimport import zipimporter

import pyarrow as pa
import pyspark
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas import types as arrow_types
from pyspark.sql.types import ArrayType, DataType, StructField, StructType

from spark_assign.numeric.arrays import (
    BITMAP_INDEX_BITS,
    WORDS_PER_BITMAP,
    index_rows,
    read_bitmaps,
    slices_from_bitmaps,
    to_int_array,
)
from spark_assign.spark.engine import cached, dataframe_of, plain_schema, with_schema
from spark_assign.tables.errors import SourceError
from spark_assign.tables.groups import ASSIGNMENT_SLICES, GROUP_KEY, MEMBER_KEY

_ZONE: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(arrow_types.to_arrow_schema).parameters else {}
"""From Spark 4.3, the time zone of timestamps is an argument that has no default; before, it is UTC."""


def to_arrow_schema(schema: StructType) -> pa.Schema:
    """Returns the Arrow schema of a Spark schema, with timestamps in UTC."""
    return arrow_types.to_arrow_schema(schema, **_ZONE)


def to_arrow_type(kind: DataType) -> pa.DataType:
    """Returns the Arrow type of a type of Spark, with timestamps in UTC."""
    return arrow_types.to_arrow_type(kind, **_ZONE)


_OF_VIEWS = {"string_view": pa.string(), "binary_view": pa.binary()}


def spark_type(kind: pa.DataType) -> DataType | None:
    """Returns the type of Spark, or None if it has none."""
    try:
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        found = arrow_types.from_arrow_type(_OF_VIEWS.get(str(kind), kind))
        to_arrow_type(found)  # not a decimal of more than 38 digits
        return found
    except Exception:  # an unsupported type, whose exception differs between versions of PySpark
        return None


def dataframe_of_rows(spark: SparkSession, rows: Iterable[Mapping[str, Any]], schema: StructType) -> DataFrame:
    """Returns rows of the driver as a DataFrame with the columns of a schema; missing columns are null."""
    nullable = StructType([StructField(field.name, field.dataType) for field in schema])
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=to_arrow_schema(nullable))
    return dataframe_of(spark, table, nullable)


def union(tables: Iterable[DataFrame], name: str = "tables") -> DataFrame:
    """Returns the rows of all tables; missing columns are null. Raises SourceError, which has the `name` of the union,
    if two columns differ only in case, which engines ignore."""
    listed = list(tables)
    names = {name for table in listed for name in table.columns}
    if twice := sorted(names - {*{each.lower(): each for each in sorted(names)}.values()}):
        raise SourceError(f"{name}: the column {twice[0]} differs from another one only in case. Rename it")
    if any(names - set(table.columns) for table in listed):  # typed here, because Sail adds columns without a type
        types = {field.name: field.dataType for table in listed for field in table.schema.fields}
        listed = [_with_columns(table, types) for table in listed]
    return reduce(DataFrame.unionByName, listed)


def _with_columns(table: DataFrame, types: Mapping[str, DataType]) -> DataFrame:
    missing = sorted(types.keys() - set(table.columns))
    columns = (F.lit(None).cast(types[name]).alias(name) for name in missing)
    fields = [*table.schema.fields, *(StructField(name, types[name]) for name in missing)]
    return with_schema(table.select("*", *columns), StructType(fields))


def with_leaders(replicas: DataFrame) -> DataFrame:
    """Returns replicas with `leader_id`: the current leader, or the first replica if that is unknown.

    Args:
        replicas: replicas (broker IDs, preferred leader first), leader_id?, and other columns.
    """
    preferred = F.get("replicas", F.lit(0))
    return replicas.withColumn(
        "leader_id", F.coalesce("leader_id", preferred) if "leader_id" in replicas.columns else preferred
    )


def with_brokers(rows: DataFrame, name: str, replicas: str, brokers: DataFrame) -> DataFrame:
    """Returns rows with the column `name`: the broker_id of each replica, in order, and its other columns of `brokers`,
    which are null if it isn't listed.

    A lookup in a map of the brokers is quadratic on Sail, which copies the map for each row and for each replica. Only
    the first replica of a row has the lists of the row, because a copy for each replica would be quadratic, too.

    Args:
        rows: cluster, and other columns. No two rows are equal in all columns that aren't lists.
        name: name of the new column.
        replicas: the column of `rows` with lists of broker IDs.
        brokers: one row per broker: cluster, broker_id, and other columns.
    """
    values = [each for each in brokers.columns if each != "cluster"]
    lists = [field.name for field in rows.schema.fields if isinstance(field.dataType, ArrayType)]
    key = [each for each in rows.columns if each not in lists]
    ids = F.when(F.size(replicas) > 0, F.col(replicas)).otherwise(F.array(F.lit(None).cast("int")))
    zipped = rows.select(*key, ids.alias("ids"), F.array(F.struct(*lists)).alias("lists"))
    places = zipped.select(*key, F.posexplode(F.arrays_zip("ids", "lists")).alias("place", "each"))
    each = places.select(*key, "place", F.col("each.ids").alias("broker_id"), F.col("each.lists").alias("lists"))
    found = each.join(F.broadcast(brokers), ["cluster", "broker_id"], "left")
    broker = F.when(F.col("broker_id").isNotNull(), F.struct("place", *values))  # an empty list has none
    listed = F.array_sort(F.collect_list(broker)).alias(name)
    whole = found.groupBy(*key).agg(F.get(F.collect_list("lists"), F.lit(0)).alias("lists"), listed)  # `first` is slow
    return whole.select(*(F.col(f"lists.{each}" if each in lists else each) for each in rows.columns), name)


# --- slices: partitions first, first + step, … (`count` of them) of one topic, as one row --------------------------


_PIECE = 10_000
"""Maximum number of partitions that are expanded as one array: with names of `MAX_NAME_BYTES`, less than 2^31 bytes."""


def expand(slices: DataFrame) -> DataFrame:
    """Expands slices to one row per partition: `first, step, count` become `partition`; other columns are kept.

    A slice without partitions yields no row. A long slice is expanded in pieces, because an array holds a piece.
    """
    columns = [name for name in slices.columns if name not in ("first", "step", "count")]
    starts = F.explode(F.sequence(F.lit(0), F.col("count") - 1, F.lit(_PIECE))).alias("piece_start")
    pieces = slices.where(F.col("count") > 0).select("*", starts)
    # The last piece ends with the slice: written so that no number exceeds int.
    last = F.col("piece_start") + F.least(F.lit(_PIECE), F.col("count") - F.col("piece_start")) - 1
    first, last = (F.col("first") + F.col("step") * each for each in (F.col("piece_start"), last))
    return pieces.select(*columns, F.explode(F.sequence(first, last, "step")).alias("partition"))


def from_lists(lists: DataFrame) -> DataFrame:
    """Returns the slices of `owned_lists`, one row per slice, with the columns of `owned_slices`."""
    names = {"topics": "topic", "firsts": "first", "steps": "step", "counts": "count", "positions": "position"}
    given = lists.withColumn("positions", F.coalesce("positions", F.array().cast("array<int>")))
    return given.select(*MEMBER_KEY, F.inline(F.arrays_zip(*names))).toDF(*MEMBER_KEY, *names.values())


def contains_partition(partition: Column, first: Column, step: Column, count: Column) -> Column:
    """Returns whether a slice contains a partition."""
    offset = partition.cast("long") - first
    return (offset >= 0) & (offset < step.cast("long") * count) & (offset % step == 0)


def compress(partitions: DataFrame) -> DataFrame:
    """Compresses one row per partition to slices, losslessly; duplicates count once.

    Args:
        partitions: cluster, group_id, member_id, topic, partition. A null topic stays null.

    Returns:
        cluster, group_id, member_id, topic, first, step, count.
    """
    blocks = to_bitmaps(partitions).repartition(*GROUP_KEY, "topic")  # adaptive execution decides in how many tasks
    return blocks.mapInArrow(map_arrow_batches(_merged), plain_schema(ASSIGNMENT_SLICES))


def to_bitmaps(owned: DataFrame) -> DataFrame:
    """Returns bitmaps of single partitions: cluster, group_id, member_id, topic, block, bits, twice, count.

    The aggregation needs neither a sort nor Python, and reduces the shuffle (`numeric.arrays`).
    """
    word = F.shiftright("partition", 6).bitwiseAND(WORDS_PER_BITMAP - 1)
    bit = F.expr("shiftleft(1L, partition & 63)")
    bit_words = [F.when(word == index, bit).otherwise(F.lit(0).cast("long")) for index in range(WORDS_PER_BITMAP)]
    return owned.groupBy(*MEMBER_KEY, "topic", F.shiftright("partition", BITMAP_INDEX_BITS).alias("block")).agg(
        F.array(*map(F.bit_or, bit_words)).alias("bits"),
        F.array(*map(F.bit_xor, bit_words)).alias("twice"),
        F.count(F.lit(1)).cast("int").alias("count"),
    )


def _merged(blocks: pa.Table) -> Iterator[pa.Table]:
    key = [*MEMBER_KEY, "topic"]
    key_index, row = index_rows(blocks, key)
    owner, *slices = slices_from_bitmaps(
        key_index, to_int_array(blocks["block"], 0), read_bitmaps(blocks["bits"].combine_chunks())
    )
    columns = blocks.select(key).take(pa.array(row[owner], pa.int64())).columns
    yield pa.table([*columns, *(pa.array(each, pa.int32()) for each in slices)], names=[*key, "first", "step", "count"])


# --- functions of Arrow tables over the rows of Spark tasks --------------------------------------------------------


def map_arrow_batches(
    work: Callable[[pa.Table], Iterable[pa.Table]], batch_rows: int = 100_000
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Adapts a function over all rows of a Spark task to `mapInArrow`.

    Args:
        work: function from the rows of a task to result tables. It must be picklable, because Spark sends it to
            executors.
        batch_rows: maximum number of rows per result batch.
    """

    def done(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        forget_zipped_pyspark()
        received = list(batches)
        if received:
            rows = pa.Table.from_batches(received)
            received.clear()
            for table in work(rows):
                yield from _with_rows(table.to_batches(max_chunksize=batch_rows))

    return done


def map_arrow_chunks(
    work: Callable[[Iterator[pa.Table]], Iterable[pa.Table]], chunk_rows: int = 300_000
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Adapts a function over a stream of chunks to `mapInArrow`, for tasks with any number of rows.

    Args:
        work: function from chunks to result tables.
        chunk_rows: minimum number of rows per chunk; 256 bytes count as at least one.
    """

    def done(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        forget_zipped_pyspark()
        for table in work(batches_to_chunks(batches, chunk_rows)):
            yield from _with_rows(table.to_batches())

    return done


def _with_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (batch for batch in batches if batch.num_rows)


Row = dict[str, Any]


def map_sorted_rows(
    table: DataFrame, key: Sequence[str], work: Callable[[Iterator[Row]], Iterable[Row]], schema: StructType
) -> DataFrame:
    """Returns the rows that a function makes of the rows of a table.

    Args:
        table: the table.
        key: columns by which the function gets the rows of a task, sorted; all of one value of the first column are in
            one task. Sail doesn't keep the order of `sortWithinPartitions`.
        work: the function, from rows to rows of any size. It must be picklable.
        schema: schema of the result.
    """
    arrow_schema = to_arrow_schema(schema)

    def done(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if received := list(batches):
            rows = pa.Table.from_batches(received).sort_by([(name, "ascending") for name in key])
            pieces = rows.to_batches(max_chunksize=10_000)
            for row in work(row for piece in pieces for row in piece.to_pylist()):
                yield pa.RecordBatch.from_pylist([row], arrow_schema)

    return table.repartition(key[0]).mapInArrow(done, schema)


def batches_to_chunks(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Combines batches into tables of at least `rows` rows, except for the last one. 256 bytes count as a row."""
    received: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        received.append(batch)
        size += max(batch.num_rows, batch.nbytes >> 8)
        if size >= rows:
            yield pa.Table.from_batches(received)
            received, size = [], 0
    if received:
        yield pa.Table.from_batches(received)


def forget_zipped_pyspark() -> None:
    """Removes the importers of PySpark's archive from Python's cache; the next import creates one from cached data.

    Spark's worker invalidates all import caches before every task. Up to Python 3.12, each importer of an archive then
    reads the archive's directory again. `pyspark.zip` has 16 importers, which took 0.1 s per task.
    """
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter) and str(pyspark.__file__).startswith(importer.archive):
            del sys.path_importer_cache[path]


# --- one pass over whole groups ------------------------------------------------------------------------------------


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
