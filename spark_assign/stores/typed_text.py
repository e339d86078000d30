"""Tables from csv and json lines, typed by `schemas.py` and strictly so.

Spark turns a value that does not parse into null, silently. A partition that became null would be a wrong
plan, so each reader also gives a `Check`: the rows that did not parse. `verify` runs the checks of a whole
fleet in one job.
"""

from __future__ import annotations

import csv
import json
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

from spark_assign.stores.cluster_folders import name_of
from spark_assign.stores.locations import local_path
from spark_assign.stores.plain_csv import is_plain
from spark_assign.tables.errors import SourceError

_MALFORMED = "_malformed_record"
_SHOWN = 5
# What Spark takes for an empty field. Its default is the empty string, and then `""` would be null too.
_NO_VALUE = "\x00"
CSV_WRITE = {"header": "true", "quote": '"', "escape": '"'}
CSV_READ = {**CSV_WRITE, "nullValue": _NO_VALUE}
"""Csv as this package has it: a header, quotes inside quotes doubled (RFC 4180), empty is null."""


@dataclass(frozen=True)
class Check:
    """The rows of one table that did not parse: columns file, problem?, record."""

    table: str
    schema: StructType
    rows: DataFrame


def read_csv(
    spark: SparkSession, table: str, schema: StructType, paths: Sequence[str], options: Mapping[str, str]
) -> tuple[DataFrame, Check | None]:
    """Csv files or folders with a header; quotes inside quotes are doubled (RFC 4180).

    Columns are typed by name, in any order; unknown ones stay strings. An empty field is null, `""` an empty
    string. There is no check where everything is known to parse.
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
    typed = [_parsed(name, types.get(name, StringType())).alias(name) for name in columns]
    kinds = [types.get(name, StringType()) for name in columns]
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
    """Csv files of this machine, by path the header of each, as one table; columns that some do not have are null."""
    alike = [[path for path in headers if headers[path] == header] for header in dict.fromkeys(headers.values())]
    frames, checks = zip(*(read_csv(spark, table, schema, paths, {}) for paths in alike), strict=True)
    rows = [check.rows for check in checks if check is not None]
    whole = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
    return whole, Check(table, schema, reduce(DataFrame.union, rows)) if rows else None


def _local_header(local: str | None) -> list[str] | None:
    """The header of a csv file on this machine, which takes no Spark job; null where Spark had better look itself."""
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
    """Files or folders of json lines, one object a row; fields that the schema does not know are ignored."""
    columns = [StructField(field.name, field.dataType) for field in schema.fields]
    names = [field.name for field in columns]
    raw = (
        spark.read.options(**options, columnNameOfCorruptRecord=_MALFORMED)
        .schema(StructType([*columns, StructField(_MALFORMED, StringType())]))
        .json(list(paths))
    )
    check = raw.where(F.col(_MALFORMED).isNotNull()).select(
        F.col("_metadata.file_path").alias("file"),
        F.lit(None).cast("string").alias("problem"),
        # The columns are named because Spark refuses to read a malformed record alone.
        F.when(F.to_json(F.struct(*names)).isNotNull(), F.col(_MALFORMED)).alias("record"),
    )
    return raw.drop(_MALFORMED), Check(table, schema, check)


def verify(checks: Sequence[Check]) -> None:
    """Run all checks in one query, and another to show what it has found.

    Raises:
        SourceError: values that do not parse; names table, column, value, row and file of the first few.
    """
    if not checks:
        return
    try:
        faulty = _faulty(checks)
        if not faulty:
            return
        columns = ["file", "problem", "record"]
        found = [check.rows.select(F.lit(check.table).alias("table"), *columns).limit(_SHOWN + 1) for check in faulty]
        rows = reduce(DataFrame.unionByName, found).collect()  # a few of each check
    except PySparkException as error:
        tables = ", ".join(check.table for check in checks)
        raise SourceError(f"{tables}: a file cannot be read: {str(error).strip().splitlines()[0]}") from error
    schemas = {check.table: check.schema for check in checks}
    lines = []
    for row in rows:
        problem = row["problem"] or _problem_of_json(row["table"], schemas[row["table"]], row["record"])
        lines.append(f"  - {problem}, in {name_of(row['file'])}: {row['record']}")
    more = "\n  - … and more" if len(rows) > _SHOWN else ""
    raise SourceError("values that do not parse:\n" + "\n".join(lines[: _SHOWN * len(checks)]) + more)


def _faulty(checks: Sequence[Check]) -> list[Check]:
    """Those that find something. The record is asked for as well, as Spark parses only columns that are."""
    rows = [check.rows.select(F.lit(check.table).alias("table"), F.length("record").alias("size")) for check in checks]
    every = reduce(DataFrame.union, rows)
    [found] = every.agg(F.collect_set("table").alias("tables"), F.max("size")).collect()  # one row
    return [check for check in checks if check.table in found["tables"]]


def _text(name: str) -> Column:
    return F.col(f"`{name}`")


def _parsed(name: str, kind: DataType) -> Column:
    if isinstance(kind, StringType):
        return _text(name)
    if isinstance(kind, ArrayType):
        inner = F.regexp_replace(_text(name), r"^\s*\[?\s*|\s*\]?\s*$", "")
        empty = F.array().cast(kind)
        return F.when(inner == "", empty).otherwise(
            F.transform(F.split(inner, r"\s*,\s*"), lambda item: item.try_cast(kind.elementType))
        )
    return _text(name).try_cast(kind)


def _is_bad(name: str, kind: DataType) -> Column:
    parsed = _parsed(name, kind)
    wrong = F.exists(parsed, lambda item: item.isNull()) if isinstance(kind, ArrayType) else parsed.isNull()
    return (F.trim(_text(name)) != "") & wrong


def _noun(kind: DataType) -> str:
    if kind == ArrayType(IntegerType()):
        return "a list of ints (1,2,3)"
    return f"a valid {kind.simpleString()}"


def _problem_of_json(table: str, schema: StructType, record: str) -> str:
    """Which column of a malformed json record is wrong, found outside Spark as it does not say."""
    try:
        row = json.loads(record)
    except ValueError:
        return f"{table}: not a json object"
    if not isinstance(row, dict):
        return f"{table}: not a json object"
    for field in schema.fields:
        if not _json_fits(row.get(field.name), field.dataType):
            return f"{table}.{field.name}: {json.dumps(row[field.name])} is not {_noun(field.dataType)}"
    return f"{table}: the record does not parse"


def _json_fits(value: Any, kind: DataType) -> bool:
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
