"""A Fleet from tables that exist already: files in a folder, or tables of a catalog.

A folder holds, for each table of `tables.groups.INPUT_TABLES`, a file `<table>.<parquet|csv|json>` or a folder
`<table>/`; or it holds a folder for each cluster with those in it (`cluster_folders`), and is read as one fleet. A
catalog holds tables of those names. Only `tables.groups.REQUIRED_TABLES` must be there. Everything
is asked of Spark and nothing of the JVM behind it, so the same call works on Spark Connect.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from urllib.parse import unquote, urlparse

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from spark_assign.fleet import Fleet
from spark_assign.stores import typed_text
from spark_assign.stores.cluster_folders import is_cluster, key_of, split_by_cluster
from spark_assign.stores.locations import for_spark, is_path, join, local_path
from spark_assign.tables.errors import SourceError, reason
from spark_assign.tables.groups import INPUT_TABLES, REQUIRED_TABLES

_FILE_FORMATS = ("parquet", "csv", "json")
_SUFFIX = re.compile(r"\.(parquet|csv|json|jsonl|ndjson)(\.(gz|bz2|zst|lz4|snappy|deflate))?$")
_NOT_THERE = re.compile(r"NOT_FOUND|DOES_NOT_EXIST|does not exist|not a Delta table|NoSuchTable", re.IGNORECASE)


@dataclass(frozen=True)
class _Place:
    """One table that was found: paths with their format, or a catalog name."""

    names: tuple[str, ...]
    format: str | None = None

    def __str__(self) -> str:
        more = len(self.names) - 1
        return f"{self.names[0]} (and {more} more)" if more else self.names[0]


def read_fleet(
    spark: SparkSession,
    location: str | None,
    *,
    format: str | None = None,
    options: Mapping[str, str] | None = None,
    tables: Mapping[str, str] | None = None,
) -> Fleet:
    """Read a fleet.

    Args:
        spark: the session to read with, classic or Connect.
        location: a folder (local or any URI that Spark reads) or a catalog prefix (`catalog.schema`,
            `schema`). None where `tables` names everything.
        format: of the files; None tells parquet, csv and json by their names. Any format Spark has is allowed
            (`delta`, `iceberg`): then each table is the folder `location/<table>`.
        options: Spark's reader options for that format.
        tables: places of single tables (a path or a catalog table) that replace those of `location`.

    Csv files need a header. Every column is typed by its name; an empty field is null and `""` an empty
    string; `replicas` is written `1,2,3`. Csv columns that no schema knows are carried along.

    Raises:
        SourceError: a required table is not there, a file cannot be read, or a value does not parse; lists
            everything found.
        FleetError: a column is missing or has a wrong type.
    """
    shape = Shape("A fleet", INPUT_TABLES, REQUIRED_TABLES)
    return Fleet(**read_tables(spark, shape, location, format=format, options=options, tables=tables))


@dataclass(frozen=True)
class Shape:
    """Which tables there may be: what they make together, the schema of each, and those that must be there."""

    name: str
    schemas: Mapping[str, StructType]
    required: Sequence[str]


def read_tables(
    spark: SparkSession,
    shape: Shape,
    location: str | None,
    *,
    format: str | None = None,
    options: Mapping[str, str] | None = None,
    tables: Mapping[str, str] | None = None,
) -> dict[str, DataFrame]:
    """Read the tables of some shape by name; arguments and errors as `read_fleet` has them."""
    options = dict(options or {})
    tables = dict(tables or {})
    if unknown := sorted(set(tables) - set(shape.schemas)):
        raise SourceError(f"no such table: {', '.join(unknown)}. {shape.name} has {', '.join(shape.schemas)}")
    places: dict[str, list[_Place]] = {}
    if location is not None:
        names = tuple(shape.schemas)
        if not is_path(location):
            places = _in_catalog(spark, location, names)
        elif format in (None, *_FILE_FORMATS):
            places = _in_folder(spark, location, format, shape.schemas)
        else:
            found = {name: _Place((join(for_spark(location), name),), format) for name in names}
            places = {name: [place] for name, place in found.items() if _loads(spark, place, options)}
    places |= {name: [_single(spark, name, place, format)] for name, place in tables.items()}
    if missing := [name for name in shape.required if name not in places]:
        raise SourceError(_missing(missing, location, format))

    checks: list[typed_text.Check] = []
    frames: dict[str, DataFrame] = {}
    for name, found_at in places.items():
        read = [_readable(spark, name, shape.schemas[name], place, options, checks) for place in found_at]
        frames[name] = reduce(_union, read)
    typed_text.verify(checks)
    return frames


def _readable(
    spark: SparkSession,
    table: str,
    schema: StructType,
    place: _Place,
    options: Mapping[str, str],
    checks: list[typed_text.Check],
) -> DataFrame:
    try:
        frame = _read(spark, table, schema, place, options, checks)
        _ = frame.schema  # Connect opens the files only now
    except SourceError:
        raise
    except Exception as error:  # classic PySpark lets Java's own exceptions through
        if "Job aborted" in str(error) and "Caused by: " not in str(error):
            raise  # Spark itself has failed, whatever is in the table
        raise SourceError(f"{table}: {place} cannot be read: {reason(error)}") from error
    return frame


def _read(
    spark: SparkSession,
    table: str,
    schema: StructType,
    place: _Place,
    options: Mapping[str, str],
    checks: list[typed_text.Check],
) -> DataFrame:
    if place.format is None:
        return spark.table(place.names[0])
    if place.format in ("csv", "json"):
        read = typed_text.read_csv if place.format == "csv" else typed_text.read_json
        frame, check = read(spark, table, schema, place.names, options)
        checks += [check] if check is not None else []
        return frame
    # Snapshots of two versions of this package may differ in columns.
    merged = {"mergeSchema": "true"} if place.format == "parquet" and len(place.names) > 1 else {}
    return spark.read.format(place.format).options(**{**merged, **options}).load(list(place.names))


def _union(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.unionByName(other, allowMissingColumns=True)


def _in_catalog(spark: SparkSession, prefix: str, tables: Sequence[str]) -> dict[str, list[_Place]]:
    names = {table: f"{prefix}.{table}" for table in tables}
    return {table: [_Place((name,))] for table, name in names.items() if _in_any_catalog(spark, name)}


def _in_any_catalog(spark: SparkSession, name: str) -> bool:
    try:
        return spark.catalog.tableExists(name)
    except PySparkException as error:
        raise SourceError(f"the catalog cannot be asked for {name}: {reason(error)}") from error


def _in_folder(
    spark: SparkSession, location: str, format: str | None, schemas: Mapping[str, StructType]
) -> dict[str, list[_Place]]:
    """Every table that the folder has, or that the folders of its clusters have: the files of a format together."""
    files = _files(spark, location)
    of_key = {key: split_by_cluster(files, key) for key in sorted(set(map(key_of, schemas.values())))}
    found: dict[str, list[_Place]] = {}
    for table, schema in schemas.items():
        inside = of_key[key_of(schema)]
        places = [_in_part(join(location, *part.split("/")[:-1]), format, table, mine) for part, mine in inside.items()]
        there = [place for place in places if place is not None]
        own = _in_part(location, format, table, files) if is_cluster(next(iter(inside))) else None
        if own is not None and there:
            raise SourceError(
                f"{table}: {location} has it in itself and in {next(iter(inside))} as well. "
                "Leave one: a folder for each cluster, or the tables of all"
            )
        there += [own] if own is not None else []
        by_format: dict[str | None, tuple[str, ...]] = {}
        for place in there:
            by_format[place.format] = (*by_format.get(place.format, ()), *place.names)
        if there:
            found[table] = [_Place(names, kind) for kind, names in by_format.items()]
    return found


def _in_part(folder: str, format: str | None, table: str, files: Sequence[str]) -> _Place | None:
    """A table in the folder of one cluster or of a whole fleet, which has these files, if it is there."""
    single = [name for name in files if "/" not in name and name.split(".")[0] == table and _kind(name)]
    if format is not None:
        single = [name for name in single if _kind(name) == format]
    inside = [name for name in files if name.startswith(f"{table}/")]
    candidates = [*single, *([f"{table}/"] if inside else [])]
    if len(candidates) > 1:
        raise SourceError(
            f"{table}: {folder} has it more than once: {', '.join(candidates)}. Leave one, or choose by format"
        )
    if single:
        return _Place((join(for_spark(folder), single[0]),), _kind(single[0]))
    if inside:
        return _Place((join(for_spark(folder), table),), format or _kind_of_all(join(folder, table), inside))
    return None


def _single(spark: SparkSession, table: str, place: str, format: str | None) -> _Place:
    """A table that the caller has placed himself; it must be there."""
    if not is_path(place):
        if not _in_any_catalog(spark, place):
            raise SourceError(f"{table}: the catalog has no table {place}. Is it a path? Then write ./{place}")
        return _Place((place,))
    format = format or _kind(place) or _kind_of_all(place, _files(spark, place))
    return _Place((for_spark(place),), format)


def _kind(name: str) -> str | None:
    match = _SUFFIX.search(name)
    return None if match is None else {"jsonl": "json", "ndjson": "json"}.get(match[1], match[1])


def _kind_of_all(place: str, files: list[str]) -> str:
    kinds = {kind for kind in map(_kind, files) if kind is not None}
    if len(kinds) == 1:
        return kinds.pop()
    seen = "files of several formats" if kinds else "no parquet, csv or json file"
    raise SourceError(f"{place} has {seen}. Say which format it is")


def _files(spark: SparkSession, location: str) -> list[str]:
    """Every file under the folder, relative to it, without those that Spark hides (`_SUCCESS`, `.crc`)."""
    local = local_path(location)
    if local is not None and os.path.isdir(local):
        found = [
            os.path.relpath(os.path.join(folder, name), local)
            for folder, _, names in os.walk(local, followlinks=True)
            for name in names
        ]
    else:
        # Spark's own listing, as it works for every file system that Spark can read; no file is opened.
        reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
        try:
            uris = reader.load(location).inputFiles()
        except AnalysisException as error:
            if _NOT_THERE.search(str(error)):
                raise SourceError(f"there is no folder {location}. {_hint(location)}") from error
            raise SourceError(f"{location} cannot be listed: {reason(error)}") from error
        root = "/" + os.path.normpath(urlparse(location).path).strip("/")
        found = [unquote(urlparse(uri).path).partition(root)[2].lstrip("/") for uri in uris]
    return sorted(name for name in found if not any(part[0] in "_." for part in name.split("/")))


def _loads(spark: SparkSession, place: _Place, options: Mapping[str, str]) -> bool:
    """Whether a table in a format that only Spark knows is there."""
    try:
        return bool(spark.read.format(str(place.format)).options(**options).load(place.names[0]).columns)
    except Exception as error:  # classic PySpark lets Java's own exception through for an unknown format
        if "DATA_SOURCE_NOT_FOUND" in str(error):
            raise SourceError(
                f"Spark does not know the format {place.format}; add its package, for example by "
                "--conf spark.jars.packages=…"
            ) from error
        if _NOT_THERE.search(str(error)):
            return False
        raise SourceError(f"{place} cannot be read as {place.format}: {reason(error)}") from error


def _missing(tables: list[str], location: str | None, format: str | None) -> str:
    lines = []
    for table in tables:
        if location is None:
            lines.append(f"{table}: no place is given for it")
        elif not is_path(location):
            lines.append(f"{table}: looked for the table {location}.{table}")
        elif format not in (None, *_FILE_FORMATS):
            lines.append(f"{table}: looked for {join(location, table)} as {format}")
        else:
            names = ", ".join(f"{table}.{kind}" for kind in ([format] if format else _FILE_FORMATS))
            lines.append(f"{table}: looked for {names} and the folder {table}/ in {location}")
    hint = f"\n{_hint(location)}" if location is not None else ""
    return "tables of the fleet are missing:\n" + "\n".join(f"  - {line}" for line in lines) + hint


def _hint(location: str) -> str:
    if is_path(location):
        return "Relative paths start from where the job was called; those in a settings file, from that file."
    return f"A name without a slash is a catalog's; for a folder write ./{location}"


_SMALL = 4 * 1024 * 1024
_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@contextmanager
def interpreted(spark: SparkSession, places: Iterable[str | None]) -> Iterator[None]:
    """Let a local session interpret its queries for a while, where all that it is to read is small.

    Compiling the queries of a plan takes a JVM that has just begun seconds, in which a small fleet is long planned.

    Args:
        spark: whose settings are as they were afterwards.
        places: what is read; where a place is none of this machine, nothing is changed.
    """
    try:
        small = str(spark.conf.get("spark.master", "")).startswith("local") and _bytes(places) <= _SMALL
        before = {name: spark.conf.get(name, None) for name in _INTERPRETED} if small else {}
    except (OSError, PySparkException):
        before = {}
    for name in before:
        spark.conf.set(name, _INTERPRETED[name])
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value) if value is not None else spark.conf.unset(name)


def _bytes(places: Iterable[str | None]) -> int:
    """Of all files in these places together.

    Raises:
        OSError: a place is none of this machine.
    """
    size = 0
    for place in places:
        path = None if place is None else local_path(place)
        if path is None or not os.path.exists(path):
            raise FileNotFoundError(place)
        files = Path(path).rglob("*") if os.path.isdir(path) else [Path(path)]
        size += sum(file.stat().st_size for file in files if file.is_file())
    return size
