"""Reads csv and JSON lines by Spark, strictly, with the column types that `tables` declares.

Spark silently turns a value that doesn't parse into null. A partition that became null would make a wrong plan, so
each reader also returns a `Check` with the rows that didn't parse. `verify` runs the checks of a complete fleet in
one job.

This is only for files that the driver can't read, and for options of Spark's readers: `local_text` reads others.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from spark_assign.spark.dataframes import union
from spark_assign.spark.engine import require_spark
from spark_assign.stores.local_text import noun
from spark_assign.stores.locations import MAX_DISPLAYED, MAX_RECORD_CHARACTERS, name_of
from spark_assign.tables.errors import SourceError, in_one_line, is_engine_failure
from spark_assign.tables.schema_check import exact_column as _text

_MALFORMED = "_malformed_record"


_NEED = "{}: {}, which is remote, compressed by a codec of Hadoop, or read with options,"


_NULL_TEXT = secrets.token_hex()
"""The text that Spark reads as null, which is no value. With the default, the empty string, `""` would be null too."""


_REPLACEMENT = "\ufffd"
"""The character that Spark reads for bytes that aren't UTF-8; names that differ only in such bytes would be one."""


# Spark trims texts when it writes them, control characters too: two names would be one.
_EXACT = {"ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}
CSV_WRITE = {"header": "true", "quote": '"', "escape": '"', **_EXACT}


CSV_READ = {**CSV_WRITE, "nullValue": _NULL_TEXT, "multiLine": "true"}
"""The csv dialect of this package: a header, quotes inside quotes are doubled (RFC 4180), empty fields are null, and a
value in quotes can have line ends."""


@dataclass(frozen=True)
class Check:
    """The rows of one table that didn't parse: columns file, problem (nullable), record."""

    table: str
    schema: StructType
    rows: DataFrame


def read_csv(
    spark: SparkSession, table: str, schema: StructType, paths: Sequence[str], options: Mapping[str, str]
) -> tuple[DataFrame, Check]:
    """Reads csv files or folders with a header. Quotes inside quotes are doubled (RFC 4180).

    Columns are typed by name, in any order; unknown ones stay strings. An empty field is null, and `""` is an empty
    string. Paths can have different columns; those that a path lacks are null. All files of a folder have the same.

    Raises:
        SourceError: a file is empty.
    """
    require_spark(spark, _NEED.format(table, paths[0]))
    settings = {**CSV_READ, **options, "header": "true", "inferSchema": "false"}
    paths_by_columns: dict[tuple[str, ...], list[str]] = {}
    for path in paths:
        columns = spark.read.options(**settings).csv(path).columns
        paths_by_columns.setdefault(tuple(columns), []).append(path)
    if () in paths_by_columns:
        problem = "it is empty. Write a header with the names of the columns"
        raise SourceError(f"{table}: {paths_by_columns[()][0]} cannot be read: {problem}")
    found = [
        _read_same_columns(spark, table, schema, columns, same, settings) for columns, same in paths_by_columns.items()
    ]
    checks = [*(rows for _, rows in found), _unclosed_quotes(spark, table, paths)]
    return union((rows for rows, _ in found), table), Check(table, schema, union(checks))


def _unclosed_quotes(spark: SparkSession, table: str, paths: Sequence[str]) -> DataFrame:
    """Returns the rows of a check for the files with an odd number of quotes. Spark would lose the rest of such a file
    in one value."""
    file, text = F.col("_metadata.file_path").alias("file"), F.col("value")
    number = F.sum(F.length(text) - F.length(F.translate(text, '"', "")))
    problem = F.lit(f"{table}: a quote that isn't closed, or isn't doubled (\"\")")
    files = spark.read.text(list(paths)).groupBy(file).agg(number.alias("number")).where("number % 2 = 1")
    return files.select("file", problem.alias("problem"), F.format_string("%d quotes", "number").alias("record"))


def _read_same_columns(
    spark: SparkSession,
    table: str,
    schema: StructType,
    columns: Sequence[str],
    paths: Sequence[str],
    settings: Mapping[str, str],
) -> tuple[DataFrame, DataFrame]:
    """Returns the rows of csv files with these columns, and the rows of their check."""
    # Strings by position; without enforceSchema Spark compares every file's header with the first one's.
    as_text = StructType([StructField(name, StringType()) for name in [*columns, _MALFORMED]])
    raw = (
        spark.read.options(**settings, enforceSchema="false", columnNameOfCorruptRecord=_MALFORMED)
        .schema(as_text)
        .csv(list(paths))
    )
    types = {field.name: field.dataType for field in schema.fields}
    kinds = [types.get(name, StringType()) for name in columns]
    typed = [_parsed(name, kind).alias(name) for name, kind in zip(columns, kinds, strict=True)]
    nouns = {name: noun(types[name]) for name in columns if not isinstance(types.get(name, StringType()), StringType)}
    faults = [(name, _is_bad(name, types[name]), f'" is not {text}') for name, text in nouns.items()]
    faults += [(name, _text(name).contains(_REPLACEMENT), '" is not UTF-8. Save the file as UTF-8') for name in columns]
    problems = [
        F.when(is_bad, F.concat(F.lit(f'{table}.{name}: "'), _shortened(_text(name)), F.lit(problem)))
        for name, is_bad, problem in faults
    ]
    ragged = F.when(F.col(_MALFORMED).isNotNull(), F.lit(f"{table}: the row does not have {len(columns)} fields"))
    fields = [F.concat(F.lit(f"{name}="), F.coalesce(_text(name), F.lit(""))) for name in columns]
    check = raw.select(
        F.col("_metadata.file_path").alias("file"),
        F.coalesce(ragged, *problems).alias("problem"),
        _shortened(F.coalesce(F.col(_MALFORMED), F.concat_ws(", ", *fields)), MAX_RECORD_CHARACTERS).alias("record"),
    )
    return raw.select(*typed), check.where("problem is not null")


def read_json(
    spark: SparkSession, table: str, schema: StructType, paths: Sequence[str], options: Mapping[str, str]
) -> tuple[DataFrame, Check]:
    """Reads files or folders of JSON lines, one object per row. Ignores fields that the schema doesn't have."""
    require_spark(spark, _NEED.format(table, paths[0]))
    columns = [StructField(field.name, field.dataType) for field in schema.fields]
    raw = (
        spark.read.options(**options, columnNameOfCorruptRecord=_MALFORMED)
        .schema(StructType([*columns, StructField(_MALFORMED, StringType())]))
        .json(list(paths))
    )
    check = raw.where(F.col(_MALFORMED).isNotNull()).select(
        F.col("_metadata.file_path").alias("file"),
        F.lit(None).cast("string").alias("problem"),
        # The columns are named because Spark refuses to read a malformed record alone.
        F.when(F.to_json(F.struct(*schema.names)).isNotNull(), F.col(_MALFORMED)).alias("record"),
    )
    return raw.drop(_MALFORMED), Check(table, schema, check)


def verify(checks: Sequence[Check]) -> None:
    """Runs all checks in one query, and a second query for the details of failed ones.

    Raises:
        SourceError: values that don't parse; names the table, column, value, row, and file of the first few.
    """
    try:
        failed = _faulty(checks)
        if not failed:
            return
        problem_rows = [
            check.rows.select(F.lit(check.table).alias("table"), "*").limit(MAX_DISPLAYED + 1) for check in failed
        ]
        rows = reduce(DataFrame.unionByName, problem_rows).collect()  # a few of each check
    except PySparkException as error:
        if is_engine_failure(error):
            raise
        tables = ", ".join(check.table for check in checks)
        remedy = "Csv files of one folder need the same columns in the same order"
        raise SourceError(f"{tables}: a file cannot be read: {str(error).strip().splitlines()[0]}. {remedy}") from error
    schemas = {check.table: check.schema for check in checks}
    lines = []
    for row in rows:
        problem = row["problem"] or _problem_of_json(row["table"], schemas[row["table"]], row["record"])
        lines.append(in_one_line(f"  - {problem}, in {name_of(row['file'])}: {row['record']}"))
    suffix = "\n  - … and more" if len(rows) > MAX_DISPLAYED else ""
    raise SourceError("values that do not parse:\n" + "\n".join(lines[: MAX_DISPLAYED * len(checks)]) + suffix)


def _faulty(checks: Sequence[Check]) -> list[Check]:
    """Returns the checks that find rows. The query includes the record, as Spark only parses columns that are used."""
    rows = [check.rows.select(F.lit(check.table).alias("table"), F.length("record").alias("size")) for check in checks]
    all_rows = reduce(DataFrame.union, rows)
    [result] = all_rows.agg(F.collect_set("table").alias("tables"), F.max("size")).collect()  # one row
    return [check for check in checks if check.table in result["tables"]]


def _shortened(text: Column, limit: int = 100) -> Column:
    """Returns the first characters of a text, bounded, as `locations.shortened`."""
    return F.when(F.length(text) <= limit, text).otherwise(F.concat(F.substring(text, 1, limit), F.lit("…")))


def _parsed(name: str, kind: DataType) -> Column:
    """Returns a text column cast to a type; null if the value doesn't parse."""
    if isinstance(kind, StringType):
        return _text(name)
    if isinstance(kind, ArrayType):
        is_json = _trimmed(_text(name)).startswith("[") & F.lit(kind.elementType == StringType())
        inner = _inner(_text(name))
        empty = F.array().cast(kind)
        items = F.transform(F.split(inner, ","), lambda item: _trimmed(item).try_cast(kind.elementType))
        return F.when(is_json, F.from_json(_text(name), kind)).when(inner == "", empty).otherwise(items)
    return _text(name).try_cast(kind)


def _inner(text: Column) -> Column:
    """Returns the text of a list without its brackets, which can be missing. A pattern would backtrack over blanks."""
    text = _trimmed(text)
    text = F.when(text.startswith("["), text.substr(F.lit(2), F.length(text))).otherwise(text)
    text = F.when(text.endswith("]"), text.substr(F.lit(1), F.length(text) - 1)).otherwise(text)
    return _trimmed(text)


def _trimmed(text: Column) -> Column:
    return F.btrim(text, F.lit(" \t\n\x0b\f\r"))


def _is_bad(name: str, kind: DataType) -> Column:
    """Checks whether a nonempty value doesn't parse."""
    parsed = _parsed(name, kind)
    fails = parsed.isNull()
    if isinstance(kind, ArrayType):
        fails |= F.exists(parsed, lambda item: item.isNull())
    return (F.trim(_text(name)) != "") & fails


def _problem_of_json(table: str, schema: StructType, record: str) -> str:
    """Returns a description of the column of a malformed JSON record that doesn't parse. Spark doesn't report it."""
    try:
        row = json.loads(record)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        return f"{table}: not a json object"
    for field in schema.fields:
        if not _json_fits(row.get(field.name), field.dataType):
            return f"{table}.{field.name}: {json.dumps(row[field.name])} is not {noun(field.dataType)}"
    return f"{table}: the record does not parse"


def _json_fits(value: Any, kind: DataType) -> bool:
    """Checks whether a JSON value has a type."""
    if value is None:
        return True
    if isinstance(kind, ArrayType):
        return isinstance(value, list) and all(_json_fits(item, kind.elementType) for item in value)
    if isinstance(kind, StringType):
        return True
    if isinstance(kind, StructType):
        return isinstance(value, dict) and all(_json_fits(value.get(f.name), f.dataType) for f in kind.fields)
    if isinstance(kind, BooleanType):
        return isinstance(value, bool)
    bits = 63 if isinstance(kind, LongType) else 31
    return isinstance(value, int) and not isinstance(value, bool) and -(2**bits) <= value < 2**bits
