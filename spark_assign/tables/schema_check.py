"""Checks the columns and types of input tables, and leaves out rows that lack a required value."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_assign.tables.errors import ROW_REMEDY, Fault, FleetError, SourceError, count, in_one_line
from spark_assign.tables.groups import ALTERNATIVES, GROUP_KEY, OWN_GROUP_PREFIXES, SCHEMA_VERSION
from spark_assign.tables.schema_fields import MAX_RACK_BYTES, ONLY_IF_GIVEN

_log = logging.getLogger(__name__)

_MAX_SHOWN = 100
"""Maximum number of names in a message, and of characters of each."""
_MAX_WARNED = 10
"""Maximum number of groups that a warning names."""
_INTEGERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)


def check_version(location: str, version: object) -> None:
    """Checks whether this release reads stored tables of a schema version.

    Args:
        location: the name of the tables in the message.
        version: `schema_version` of the manifest or of `snapshot.json`; None if it has none.

    Raises:
        SourceError: an older or a newer release wrote the tables.
    """
    if version == SCHEMA_VERSION:
        return
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise SourceError(
            f"{location} was written by a newer spark_assign (schema version {version}; this release reads "
            f"{SCHEMA_VERSION}): upgrade spark_assign, or write it again with this release"
        )
    raise SourceError(
        f"{location} was written by spark_assign before 0.2 (schema version {version or 'missing'}; this release reads "
        f"{SCHEMA_VERSION}): write it again with this release"
    )


def exact_column(name: str) -> Column:
    """Returns a column by its exact name, which can have dots and backticks."""
    return F.col("`" + name.replace("`", "``") + "`")


def check_schema(table: str, df: DataFrame, schema: T.StructType) -> tuple[DataFrame, list[Fault]]:
    """Returns a table with the columns and types of its schema, and its faults (missing columns, wrong types or case).

    Columns of the schema come first, in its order, followed by any others with names that differ in more than case.
    Integers of any size are cast. A value out of range becomes null in a column without nulls, which the value checks
    report; in another column and in a list, it fails the query (`tables.errors.find_row_fault`), and so does a rack of
    a broker that is too long. A missing nullable column is added as null, except for columns with `ONLY_IF_GIVEN`.

    Args:
        table: name of the table in messages.
        df: the table.
        schema: the expected schema.
    """
    present = {field.name: field.dataType for field in df.schema.fields}
    times = Counter(field.name.lower() for field in df.schema.fields)  # engines ignore case
    columns: list[Column] = []
    faults: list[Fault] = []
    keys = [name for name in _keys(schema) if name in present]
    for field in schema.fields:
        want = field.dataType.simpleString()
        have = present.get(field.name)
        if have is None and (other := next((name for name in present if name.lower() == field.name), None)):
            problem = f"the table calls it {other}, which differs in case"
            faults.append(Fault(table, field.name, problem, f"Rename the column to {field.name}"))
            continue
        if times[field.name] > 1:
            faults += find_twins(table, df, [field.name])
            continue
        if have is None and field.metadata == ONLY_IF_GIVEN:
            continue
        if have is None and field.nullable:
            columns.append(F.lit(None).cast(field.dataType).alias(field.name))
        elif have is None:
            remedy = f"Add it as {want}; the table has {_shown(list(present)) or 'no columns'}"
            faults.append(Fault(table, field.name, "the column is missing", remedy))
        elif not _fits(have, field.dataType):
            problem = f"the type is {_shown([have.simpleString()])}, expected {want}"
            faults.append(Fault(table, field.name, problem, f"Cast the column to {want}"))
        elif have != field.dataType:
            columns.append(_cast(table, field, have, keys))
        elif (table, field.name) == ("brokers", "rack_id"):
            rack, problem = F.col(field.name), f"more than {MAX_RACK_BYTES} bytes"
            columns.append(_unless(F.octet_length(rack) > MAX_RACK_BYTES, table, field, problem, keys, rack))
        else:
            columns.append(F.col(field.name))
    if faults:
        return df, faults
    others = [name for name in present if name not in schema.names and times[name.lower()] == 1]
    return df.select(*columns, *(exact_column(name) for name in others)), []


def find_twins(table: str, df: DataFrame, names: Iterable[str]) -> list[Fault]:
    """Returns a fault for each of these columns that a table has more than once, but for case."""
    faults, columns = [], [field.name for field in df.schema.fields]
    for name in names:
        same = [each for each in columns if each.lower() == name]
        if len(same) > 1:
            problem = f"the table has {_shown(same)}, which engines can't tell apart"
            faults.append(Fault(table, name, problem, "Keep or rename one of them"))
    return faults


def _shown(names: Sequence[str]) -> str:
    """Returns the first names of columns or of types, each shortened, for a message."""
    first = [name if len(name) <= _MAX_SHOWN else f"{name[:_MAX_SHOWN]}…" for name in names[:_MAX_SHOWN]]
    return ", ".join([*first, *(["…"] if len(names) > _MAX_SHOWN else [])])


def check_schemas(fleet: Any, schemas: Mapping[str, T.StructType], required: Collection[str] = ()) -> list[Fault]:
    """Gives the tables of a frozen dataclass the columns and types of their schemas, in place; returns the faults.

    Rows of groups of Spark's Kafka source (`tables.groups`) are left out.

    Args:
        fleet: a dataclass whose fields are DataFrames or None.
        schemas: the schema of each field.
        required: names of the fields that must not be None.
    """
    faults: list[Fault] = []
    for name in (field.name for field in fields(fleet)):
        table = getattr(fleet, name)
        if table is not None:
            checked, found = check_schema(name, table, schemas[name])
            faults += found
            if not found and "group_id" in schemas[name].names:
                prefixes = (F.col("group_id").startswith(prefix) for prefix in OWN_GROUP_PREFIXES)
                checked = checked.where(F.col("group_id").isNull() | ~reduce(Column.__or__, prefixes))
            object.__setattr__(fleet, name, checked)
        elif name in required and getattr(fleet, ALTERNATIVES.get(name, ""), None) is None:
            faults.append(Fault(name, "*", "the table is missing", "Add it as a DataFrame"))
    return faults


def not_null(table: str, field: T.StructField, keys: Sequence[str]) -> Column:
    """Returns a column that fails the query if a required value is null (`tables.errors.find_row_fault`).

    Args:
        table: name of the table.
        field: the column.
        keys: columns that say in the message which row it is.
    """
    column = F.col(field.name)
    return column if field.nullable else _unless(_lacks(field), table, field, "null or out of range", keys, column)


def _lacks(field: T.StructField) -> Column:
    """Returns whether a required value is null, or an element of a required list."""
    column = F.col(field.name)
    if isinstance(field.dataType, T.ArrayType):
        return column.isNull() | (F.size(F.array_compact(column)) < F.size(column))
    return column.isNull()


def split_rows(name: str, table: DataFrame, schema: T.StructType, key: Sequence[str]) -> tuple[DataFrame, DataFrame]:
    """Returns the rows of a table without those that lack a required value although they have a key, and the key of
    each of these, with their `detail`: `owned: topic=null`."""
    required = [field for field in schema if not field.nullable and field.name not in key]
    lacking = [F.when(_lacks(field), F.lit(f"{name}: {field.name}=null")) for field in required]
    has_key = reduce(Column.__and__, (F.col(each).isNotNull() for each in key))
    rows = table.withColumn("detail", F.when(has_key, F.coalesce(*lacking, F.lit(None))))
    return rows.where("detail IS NULL").drop("detail"), rows.where("detail IS NOT NULL").select(*key, "detail")


def _unless(
    is_bad: Column, table: str, field: T.StructField, problem: str, keys: Sequence[str], column: Column
) -> Column:
    """Returns a column that fails the query in a bad row."""
    values = (F.coalesce(F.col(name).cast("string"), F.lit("null")) for name in keys)
    row = F.format_string(", ".join(f"{name}=%s" for name in keys), *values)
    start = f"faulty row of {table}.{field.name}: {problem}: "
    message = F.concat(F.lit(start), row, F.lit(f". {ROW_REMEDY}"))
    return F.when(is_bad, F.raise_error(message).cast(field.dataType)).otherwise(column).alias(field.name)


def _cast(table: str, field: T.StructField, have: T.DataType, keys: Sequence[str]) -> Column:
    """Returns a column of one type as that of its field, which `_fits`; see `check_schema` for values out of range."""
    column = F.col(field.name)
    cast = column.try_cast(field.dataType)
    is_plain = isinstance(field.dataType, T.DoubleType) or not (field.nullable or isinstance(have, T.ArrayType))
    if is_plain or "bigint" not in have.simpleString():
        return cast.alias(field.name)
    is_bad = ~cast.cast(have).eqNullSafe(column)
    return _unless(is_bad, table, field, "out of range", [*keys, field.name], cast)


def _keys(schema: T.StructType) -> list[str]:
    """Returns the columns that say in a message which row it is."""
    return [field.name for field in schema if not field.nullable and not isinstance(field.dataType, T.ArrayType)]


def with_keys(name: str, table: DataFrame, schema: T.StructType) -> DataFrame:
    """Returns a table with all columns of its schema, of which a query fails if a required value is null. Raises
    FleetError."""
    checked, faults = check_schema(name, table, schema)
    if faults:
        raise FleetError(faults)
    keys = _keys(schema)
    absent = [field for field in schema if field.metadata == ONLY_IF_GIVEN and field.name not in table.columns]
    checked = checked.select("*", *(F.lit(None).cast(field.dataType).alias(field.name) for field in absent))
    return checked.select(*(not_null(name, field, keys) for field in schema.fields))


def complete_groups(name: str, table: DataFrame, schema: T.StructType) -> DataFrame:
    """Returns a table as `with_keys` does, but without any row of a group of which a row lacks a required value.

    What the table says of such a group is then unknown, and a warning names the group. This reads the table. A row
    without a group, and any faulty row of a table that isn't of groups, still fails the query. Raises FleetError.
    """
    checked, faults = check_schema(name, table, schema)
    if faults:
        raise FleetError(faults)
    if {*GROUP_KEY} <= {*_keys(schema)}:
        checked, lacking = split_rows(name, checked, schema, GROUP_KEY)
        groups = lacking.groupBy(*GROUP_KEY).agg(F.min("detail").alias("detail"))
        if first := groups.orderBy(*GROUP_KEY).limit(_MAX_WARNED).collect():  # ten at most
            named = [f"{row['cluster']}/{row['group_id']} ({row['detail']})" for row in first]
            _log.warning(
                "%s: %s without a required value. The table isn't used for %s. Correct it, or take the snapshot again.",
                *(name, count(number := groups.count(), "group", "has a row", "have rows")),
                in_one_line(_shown([*named, *["…"][: number > _MAX_WARNED]])),
            )
            checked = checked.join(groups.select(*GROUP_KEY), GROUP_KEY, "left_anti")
    return with_keys(name, checked, schema)


def finite(table: str, df: DataFrame, schema: T.StructType) -> DataFrame:
    """Returns a stored table, of which a query fails if a number is infinite, which only a `drain_seconds` can be, or
    "not a number"."""
    columns = {}
    for field in schema:
        if isinstance(field.dataType, T.DoubleType) and field.name in df.columns:
            size = F.abs(field.name)
            is_bad = F.isnan(size) if field.name.startswith("drain_seconds") else size >= math.inf  # NaN is greater
            columns[field.name] = _unless(is_bad, table, field, "not a finite number", _keys(schema), F.col(field.name))
    return df.withColumns(columns) if columns else df


def _fits(have: T.DataType, want: T.DataType) -> bool:
    """Checks whether a column of one type can be read as another: any integer as an integer, any number as a double."""
    if isinstance(want, T.IntegerType | T.LongType):
        return isinstance(have, _INTEGERS)
    if isinstance(want, T.ArrayType):
        return isinstance(have, T.ArrayType) and _fits(have.elementType, want.elementType)
    if isinstance(want, T.StructType):
        return (
            isinstance(have, T.StructType)
            and have.names == want.names
            and all(_fits(had.dataType, wanted.dataType) for had, wanted in zip(have, want, strict=True))
        )
    if isinstance(want, T.DoubleType):
        return isinstance(have, T.NumericType | T.NullType)
    if isinstance(want, T.StringType):
        return isinstance(have, T.StringType | T.NullType)
    return have == want
