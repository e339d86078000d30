"""Reads csv and JSON lines strictly, with the column types that `tables` declares.

Spark silently turns a value that doesn't parse into null. A partition that became null would make a wrong plan, so
each reader also returns a `Check` with the rows that didn't parse. `verify` runs the checks of a complete fleet in
one job.

A query for values that don't parse costs seconds in a JVM that has just started, but a small local file is read in
milliseconds. If every value of such a file is plain (`is_plain`), it has no check. Values that aren't plain can
still be valid; only Spark decides about them.
"""

from __future__ import annotations

import csv
import json
import os
import re
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
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from spark_assign.spark.tagged_pass import union
from spark_assign.stores.cluster_folders import name_of
from spark_assign.stores.locations import local_path
from spark_assign.tables.errors import SourceError

_MALFORMED = "_malformed_record"
_MAX_DISPLAYED = 5
# The text that Spark reads as null. With the default, the empty string, `""` would be null too.
_NULL_TEXT = "\x00"
CSV_WRITE = {"header": "true", "quote": '"', "escape": '"'}
CSV_READ = {**CSV_WRITE, "nullValue": _NULL_TEXT}
"""The csv dialect of this package: a header, quotes inside quotes are doubled (RFC 4180), and empty fields are null.
"""


@dataclass(frozen=True)
class Check:
    """The rows of one table that didn't parse: columns file, problem (nullable), record."""

    table: str
    schema: StructType
    rows: DataFrame


def read_csv(
    spark: SparkSession, table: str, schema: StructType, paths: Sequence[str], options: Mapping[str, str]
) -> tuple[DataFrame, Check | None]:
    """Reads csv files or folders with a header. Quotes inside quotes are doubled (RFC 4180).

    Columns are typed by name, in any order; unknown ones stay strings. An empty field is null, and `""` is an empty
    string. There is no check if all values are known to parse.
    """
    settings = {**CSV_READ, **options, "header": "true", "inferSchema": "false"}
    local = [local_path(path) if not options else None for path in paths]
    headers = [_local_header(path) for path in local]
    if None not in headers and any(header != headers[0] for header in headers):
        return _several_headers(spark, table, schema, dict(zip(paths, map(str, headers), strict=True)))
    columns = None if None in headers else headers[0]
    if columns is None:
        local, columns = [None], spark.read.options(**settings).csv(paths[0]).columns
    if not columns:
        return spark.read.options(**settings).csv(list(paths)), None
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
    if all(path is not None and is_plain(path, kinds) for path in local):
        return raw.select(*typed), None
    problems = [
        F.when(
            _is_bad(name, types[name]),
            F.concat(F.lit(f'{table}.{name}: "'), _text(name), F.lit(f'" is not {_noun(types[name])}')),
        )
        for name in columns
        if name in types and not isinstance(types[name], StringType)
    ]
    ragged = F.when(F.col(_MALFORMED).isNotNull(), F.lit(f"{table}: the row does not have {len(columns)} fields"))
    fields = [F.concat(F.lit(f"{name}="), F.coalesce(_text(name), F.lit(""))) for name in columns]
    check = raw.select(
        F.col("_metadata.file_path").alias("file"),
        F.coalesce(ragged, *problems).alias("problem"),
        F.coalesce(F.col(_MALFORMED), F.concat_ws(", ", *fields)).alias("record"),
    )
    return raw.select(*typed), Check(table, schema, check.where("problem is not null"))


def _several_headers(
    spark: SparkSession, table: str, schema: StructType, headers: Mapping[str, str]
) -> tuple[DataFrame, Check | None]:
    """Reads local csv files with different headers as one table. Columns that a file lacks are null.

    `headers` has the header of each file by path.
    """
    paths_by_header = [
        [path for path in headers if headers[path] == header] for header in dict.fromkeys(headers.values())
    ]
    frames, checks = zip(*(read_csv(spark, table, schema, paths, {}) for paths in paths_by_header), strict=True)
    rows = [check.rows for check in checks if check is not None]
    return union(frames), Check(table, schema, reduce(DataFrame.union, rows)) if rows else None


def _local_header(local: str | None) -> list[str] | None:
    """Returns the header of a local csv file without a Spark job, or None if Spark must read it."""
    if local is None or not local.endswith(".csv"):
        return None
    try:
        with open(local, encoding="utf-8", newline="") as lines:
            header = next(csv.reader(lines), [])
    except (OSError, UnicodeDecodeError, csv.Error):
        return None
    plain = all(name and name == name.strip() and name.isprintable() for name in header)
    return header if header and plain and len({name.lower() for name in header}) == len(header) else None


def read_json(
    spark: SparkSession, table: str, schema: StructType, paths: Sequence[str], options: Mapping[str, str]
) -> tuple[DataFrame, Check]:
    """Reads files or folders of JSON lines, one object per row. Ignores fields that the schema doesn't have."""
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
    if not checks:
        return
    try:
        failed = _faulty(checks)
        if not failed:
            return
        problem_rows = [
            check.rows.select(F.lit(check.table).alias("table"), "*").limit(_MAX_DISPLAYED + 1) for check in failed
        ]
        rows = reduce(DataFrame.unionByName, problem_rows).collect()  # a few of each check
    except PySparkException as error:
        tables = ", ".join(check.table for check in checks)
        raise SourceError(f"{tables}: a file cannot be read: {str(error).strip().splitlines()[0]}") from error
    schemas = {check.table: check.schema for check in checks}
    lines = []
    for row in rows:
        problem = row["problem"] or _problem_of_json(row["table"], schemas[row["table"]], row["record"])
        lines.append(f"  - {problem}, in {name_of(row['file'])}: {row['record']}")
    suffix = "\n  - … and more" if len(rows) > _MAX_DISPLAYED else ""
    raise SourceError("values that do not parse:\n" + "\n".join(lines[: _MAX_DISPLAYED * len(checks)]) + suffix)


def _faulty(checks: Sequence[Check]) -> list[Check]:
    """Returns the checks that find rows. The query includes the record, as Spark only parses columns that are used."""
    rows = [check.rows.select(F.lit(check.table).alias("table"), F.length("record").alias("size")) for check in checks]
    all_rows = reduce(DataFrame.union, rows)
    [result] = all_rows.agg(F.collect_set("table").alias("tables"), F.max("size")).collect()  # one row
    return [check for check in checks if check.table in result["tables"]]


def _text(name: str) -> Column:
    """Returns a column by its exact name."""
    return F.col(f"`{name}`")


def _parsed(name: str, kind: DataType) -> Column:
    """Returns a text column cast to a type; null if the value doesn't parse."""
    if isinstance(kind, StringType):
        return _text(name)
    if isinstance(kind, ArrayType):
        is_json = _text(name).startswith("[") & F.lit(kind.elementType == StringType())
        inner = F.regexp_replace(_text(name), r"^\s*\[?\s*|\s*\]?\s*$", "")
        empty = F.array().cast(kind)
        items = F.transform(F.split(inner, r"\s*,\s*"), lambda item: item.try_cast(kind.elementType))
        return F.when(is_json, F.from_json(_text(name), kind)).when(inner == "", empty).otherwise(items)
    return _text(name).try_cast(kind)


def _is_bad(name: str, kind: DataType) -> Column:
    """Checks whether a nonempty value doesn't parse."""
    parsed = _parsed(name, kind)
    fails = parsed.isNull()
    if isinstance(kind, ArrayType):
        fails |= F.exists(parsed, lambda item: item.isNull())
    return (F.trim(_text(name)) != "") & fails


def _noun(kind: DataType) -> str:
    """Returns the description of a type for messages."""
    if kind == ArrayType(IntegerType()):
        return "a list of ints (1,2,3)"
    if kind == ArrayType(StringType()):
        return 'a list of names (a,b or ["a","b"])'
    return f"a valid {kind.simpleString()}"


def _problem_of_json(table: str, schema: StructType, record: str) -> str:
    """Returns a description of the column of a malformed JSON record that doesn't parse. Spark doesn't report it."""
    try:
        row = json.loads(record)
    except ValueError:
        row = None
    if not isinstance(row, dict):
        return f"{table}: not a json object"
    for field in schema.fields:
        if not _json_fits(row.get(field.name), field.dataType):
            return f"{table}.{field.name}: {json.dumps(row[field.name])} is not {_noun(field.dataType)}"
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


_MAX_PLAIN_BYTES = 4 * 1024 * 1024
_TEXT_PATTERN = r'(?:"[^"\r\0]*"|[^",\r\0]*)'
_LIST_PATTERN = r'(?:"\[?[0-9]{1,9}(?:, ?[0-9]{1,9})*\]?"|[0-9]{0,9}|"")'
_VALUE_PATTERNS: dict[type[DataType], str] = {
    IntegerType: "-?[0-9]{1,9}",
    LongType: "-?[0-9]{1,18}",
    BooleanType: "true|false",
}


def is_plain(path: str, kinds: Sequence[DataType]) -> bool:
    """Checks without Spark whether every field of a small local csv file is empty or a plain value of its column's
    type.

    Never raises: files that can't be read, or are large, aren't plain.

    Args:
        path: a csv file in the dialect of `CSV_READ`.
        kinds: the types of its columns, in order.
    """
    fields = [_plain_field_pattern(kind) for kind in kinds]
    try:
        if os.path.getsize(path) > _MAX_PLAIN_BYTES:
            return False
        with open(path, encoding="utf-8", newline="") as file:
            lines = file.read().split("\n")
    except (OSError, UnicodeDecodeError):
        return False
    # No field matches a quote that is still open at the end of a line, or a carriage return.
    plain = re.compile(",".join(field for field in fields if field is not None))
    rows = lines[1:-1] if lines[-1] == "" else lines[1:]
    return None not in fields and all(map(plain.fullmatch, rows))


def _plain_field_pattern(kind: DataType) -> str | None:
    """Returns the regular expression of a plain field of a type, or None if there is none."""
    if isinstance(kind, StringType):
        return _TEXT_PATTERN
    if kind == ArrayType(IntegerType()):
        return _LIST_PATTERN
    value = _VALUE_PATTERNS.get(type(kind))
    return None if value is None else f'(?:(?:{value})?|"(?:{value})?")'
