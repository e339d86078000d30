"""Reads the tables of a fleet: files in a folder, or tables of a catalog.

A folder has, for each table of `tables.groups.INPUT_TABLES`, a file `<table>.<parquet|csv|json>` or a folder
`<table>/`; or it has one folder per cluster with these (`stores.locations`), which are read as one fleet. A catalog has
tables with these names. Only `tables.groups.REQUIRED_TABLES` are required.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlparse

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_assign.spark.dataframes import union
from spark_assign.spark.engine import (
    check_scheme,
    is_embedded,
    location_for,
    remember,
    require_spark,
    shares_files,
    unknown_format,
)
from spark_assign.stores import typed_text
from spark_assign.stores.local_tables import (
    UNREADABLE_SUFFIXES,
    list_files,
    partition_of,
    read_parquet,
    read_text,
    refuse_pipe,
    walk,
)
from spark_assign.stores.locations import (
    MAX_DISPLAYED,
    SUFFIX,
    SUMMARY,
    FileFaults,
    file_system,
    for_spark,
    is_cluster,
    is_path,
    join,
    key_of,
    local_path,
    read_summary,
    split_by_cluster,
)
from spark_assign.tables.errors import SourceError, SparkAssignError, count, is_engine_failure, reason, unreadable
from spark_assign.tables.groups import ALTERNATIVES, INPUT_TABLES, OWNERSHIP, REQUIRED_TABLES
from spark_assign.tables.schema_check import check_version, complete_groups

_FILE_FORMATS = ("parquet", "csv", "json")
_AGAIN = f"Take the snapshot again, or correct {SUMMARY} if you removed rows"
_CHANGED_BY_HAND = ("workers", "reported")
"""Tables of Connect clusters whose rows are removed to plan the loss of a worker."""
_NOT_FOUND = re.compile(r"NOT_FOUND|DOES_NOT_EXIST|does not exist|not a Delta table|NoSuchTable", re.IGNORECASE)


@dataclass(frozen=True)
class TableSource:
    """The source of one table: paths with their format, or a catalog name."""

    names: tuple[str, ...]
    format: str | None = None
    written: Mapping[str, int] = field(default_factory=dict)
    """Number of rows that the snapshot has written, by name."""

    def __str__(self) -> str:
        more = len(self.names) - 1
        return f"{self.names[0]} (and {more} more)" if more else self.names[0]


@dataclass(frozen=True)
class Shape:
    """A set of tables: its name in messages, the schema of each table, and the required tables."""

    name: str
    schemas: Mapping[str, StructType]
    required: Sequence[str]


FLEET = Shape("A fleet", INPUT_TABLES, REQUIRED_TABLES)


def read_tables(
    spark: SparkSession,
    shape: Shape,
    location: str | None,
    *,
    format: str | None = None,
    options: Mapping[str, str] | None = None,
    tables: Mapping[str, str] | None = None,
) -> dict[str, DataFrame]:
    """Reads the tables of a shape.

    Args:
        spark: the session to read with, classic or Connect.
        shape: the tables to read.
        location: a folder (local or any URI that Spark reads) or a catalog prefix (`catalog.schema`,
            `schema`). None if `tables` names every table.
        format: the format of the files. None detects parquet, csv, and json by file names. With another format of Spark
            (`delta`, `iceberg`), each table is the folder `location/<table>`.
        options: Spark's reader options for that format.
        tables: locations of single tables (a path or a catalog table), which override those of `location`.

    Csv files need a header. The name of a column determines its type. An empty field is null, and `""` is an empty
    string. `replicas` has the form `1,2,3`. Csv columns that aren't in a schema are kept, of local files the first 50
    and `user_data`. In local files (Parquet: with the embedded engine), a name has at most 32,767 bytes, and texts of
    more than 1,000 bytes at most 256 MiB together; so have binary values, or 64 times the size of their file.

    Returns:
        the tables that exist, by name.

    Raises:
        SourceError: a required table is missing, a file can't be read, or a value can't be parsed. The message lists
            all faults.
    """
    options = dict(options or {})
    sources = find_tables(spark, shape, location, format=format, options=options, tables=tables)
    if missing := [name for name in shape.required if not {name, ALTERNATIVES.get(name)} & sources.keys()]:
        raise SourceError(_missing(missing, location, format))

    checks: list[typed_text.Check] = []
    faults = FileFaults()
    frames: dict[str, DataFrame] = {}
    for name, table_sources in sources.items():
        found = [_read(spark, name, shape.schemas[name], source, options, checks, faults) for source in table_sources]
        if read := [frame for frame in found if frame is not None]:
            frames[name] = union(read, name)
    faults.verify()
    if checks:
        typed_text.verify(checks)
    return frames


def read_checked_tables(spark: SparkSession, shape: Shape, location: str | None, **how: Any) -> dict[str, DataFrame]:
    """Reads the tables of a shape as `read_tables` does, with all columns of their schemas, and without groups of which
    a row lacks a required value (`complete_groups`).

    Raises:
        SourceError: see `read_tables`.
        FleetError: a required column is missing, or a column has a wrong type.
    """
    tables = read_tables(spark, shape, location, **how)
    return {name: complete_groups(name, table, shape.schemas[name]) for name, table in tables.items()}


def find_tables(
    spark: SparkSession,
    shape: Shape,
    location: str | None,
    *,
    format: str | None = None,
    options: Mapping[str, str] | None = None,
    tables: Mapping[str, str] | None = None,
) -> dict[str, list[TableSource]]:
    """Returns the tables of a shape that exist, with their sources. Arguments and errors are those of `read_tables`."""
    options = dict(options or {})
    tables = dict(tables or {})
    if unknown := sorted(set(tables) - set(shape.schemas)):
        raise SourceError(f"unknown table: {', '.join(unknown)}. {shape.name} has {', '.join(shape.schemas)}")
    for each in (location or "", *tables.values()) if is_embedded(spark) else ():
        check_scheme(each)
    sources: dict[str, list[TableSource]] = {}
    if location is not None:
        names = tuple(shape.schemas)
        if not is_path(location):
            sources = _in_catalog(spark, location, names)
        elif format in (None, *_FILE_FORMATS):
            here = {name: schema for name, schema in shape.schemas.items() if name not in tables}
            sources = _in_folder(spark, location, format, here)
        else:
            candidates = {name: TableSource((join(for_spark(location), name),), format) for name in names}
            sources = {name: [source] for name, source in candidates.items() if _loads(spark, source, options)}
    return sources | {name: [_single(spark, name, source, format)] for name, source in tables.items()}


def _read(
    spark: SparkSession,
    table: str,
    schema: StructType,
    source: TableSource,
    options: Mapping[str, str],
    checks: list[typed_text.Check],
    faults: FileFaults,
) -> DataFrame | None:
    """Reads a table, and adds its check or its faults; None if it has a fault. Raises SourceError if Spark has one."""
    try:
        if source.format is None:
            frame = spark.table(source.names[0])
        elif (local := _local_files(spark, source, options)) is not None:
            if source.format == "parquet":
                needed = [each.name for each in schema.fields if not each.nullable]
                rows = read_parquet(spark, table, local, faults, needed)
            else:
                rows = read_text(spark, table, schema, source.format, local, faults, is_document=bool(options))
            _check_rows(table, source, local, faults)
            return None if faults.has(table) else rows
        elif source.format in ("csv", "json"):
            read = typed_text.read_csv if source.format == "csv" else typed_text.read_json
            frame, check = read(spark, table, schema, source.names, options)
            checks.append(check)
        else:
            # Snapshots of two versions of this package can differ in columns. Spark would take those of one file.
            merged = {"mergeSchema": "true"} if source.format == "parquet" else {}
            names = [location_for(spark, name, source.format) for name in source.names]
            frame = spark.read.format(source.format).options(**{**merged, **options}).load(names)
        _ = frame.schema  # Connect opens the files only now
    except Exception as error:  # classic PySpark lets Java's own exceptions through
        if isinstance(error, SparkAssignError) or is_engine_failure(error):
            raise
        raise SourceError(unreadable(f"{table}: {source}", error)) from error
    remember(f"{table}: {source}", frame)
    return frame


def _check_rows(table: str, source: TableSource, paths: Sequence[str], faults: FileFaults) -> None:
    """Adds a fault for each path of a source that has fewer rows than its snapshot has written."""
    for name, path in zip(source.names, paths, strict=True) if not faults.has(table) else ():
        if written := source.written.get(name, 0):
            found = sum(faults.num_rows.get(file.path, 0) for file in list_files([path]))
            if found < written:
                faults.add_file(table, path, f"it has {found:,} of the {written:,} rows in {SUMMARY}", _AGAIN)


def _local_files(spark: SparkSession, source: TableSource, options: Mapping[str, str]) -> list[str] | None:
    """Returns the paths of a source that this process reads and checks, or None if only Spark can read it."""
    is_document = source.format == "json" and options == {"multiLine": "true"}
    if source.format not in _FILE_FORMATS or (options and not is_document) or not shares_files(spark):
        return None
    paths = [None if name.startswith("/Volumes/") else local_path(name) for name in source.names]
    local = [path for path in paths if path is not None and (is_embedded(spark) or os.path.exists(path))]
    if len(local) < len(paths) or any(file.path.endswith(UNREADABLE_SUFFIXES) for file in list_files(local)):
        return None
    return local


def _in_catalog(spark: SparkSession, prefix: str, tables: Sequence[str]) -> dict[str, list[TableSource]]:
    """Returns the tables that exist in a catalog."""
    names = {table: f"{prefix}.{table}" for table in tables}
    for name in (f"{prefix}.snapshots", f"{prefix}.connect_snapshots"):
        if _table_exists(spark, name):
            columns = {"name": F.lit(name), "content": F.lit(None)}
            if "content" in (table := spark.table(name)).columns:
                columns["content"] = table.content
            check_contents(table.select(*(column.cast("string").alias(key) for key, column in columns.items())))
    return {table: [TableSource((name,))] for table, name in names.items() if _table_exists(spark, name)}


def _table_exists(spark: SparkSession, name: str) -> bool:
    """Checks whether a table exists. Raises SourceError if the catalog isn't accessible."""
    require_spark(spark, f"The catalog table {name}")
    try:
        return spark.catalog.tableExists(name)
    except PySparkException as error:
        raise SourceError(f"the catalog cannot be asked for {name}: {reason(error)}") from error


def _in_folder(
    spark: SparkSession, location: str, format: str | None, schemas: Mapping[str, StructType]
) -> dict[str, list[TableSource]]:
    """Returns every table of the folder or of its cluster folders, with one source per format. Raises SourceError."""
    files = _files(spark, location)
    files_by_key = {key: split_by_cluster(files, key) for key in sorted(set(map(key_of, schemas.values())))}
    prefixes = {prefix for parts in files_by_key.values() for prefix, names in parts.items() if SUMMARY in names}
    summaries = [join(location, f"{prefix}{SUMMARY}") for prefix in sorted(prefixes)]
    written = check_versions(spark, {summary: local_path(summary) for summary in summaries})
    by_spark = _is_decoded_by_spark(spark, location)
    lost: list[str] = []
    found: dict[str, list[TableSource]] = {}
    for table, schema in schemas.items():
        cluster_files = files_by_key[key_of(schema)]
        found_sources: list[TableSource] = []
        num_rows: dict[str, int] = {}
        for part, names in cluster_files.items():
            folder = join(location, *part.split("/")[:-1])
            rows = written.get(join(location, f"{part}{SUMMARY}"), {}).get(table, 0)
            if (source := _in_one_folder(folder, format, table, names, by_spark)) is not None:
                found_sources.append(source)
                num_rows[source.names[0]] = rows if table not in _CHANGED_BY_HAND else 0
            elif rows and not {name.split("/")[0].split(".")[0] for name in names} & _same(table):
                lost.append(f"{table}: {folder} lacks it, but {SUMMARY} there has {count(rows, 'row')} of it. {_AGAIN}")
        own = (
            _in_one_folder(location, format, table, files, by_spark) if is_cluster(next(iter(cluster_files))) else None
        )
        if own is not None and found_sources:
            raise SourceError(
                f"{table}: {location} has it in itself and in {next(iter(cluster_files))} as well. "
                "Leave one: a folder for each cluster, or the tables of all"
            )
        found_sources += [own] if own is not None else []
        by_format: dict[str | None, tuple[str, ...]] = {}
        for source in found_sources:
            by_format[source.format] = (*by_format.get(source.format, ()), *source.names)
        if found_sources:
            found[table] = [TableSource(names, kind, num_rows) for kind, names in by_format.items()]
    if lost:
        more = ["… and more"] if len(lost) > MAX_DISPLAYED else []
        raise SourceError("\n  - ".join(["tables of snapshots are missing:", *lost[:MAX_DISPLAYED], *more]))
    return found


def _same(table: str) -> set[str]:
    """Returns the tables of which a fleet needs only one, if the table is one of them; else the table alone."""
    sets = [{*OWNERSHIP}, *({*pair} for pair in ALTERNATIVES.items())]
    return next((each for each in sets if table in each), {table})


def _is_decoded_by_spark(spark: SparkSession, location: str) -> bool:
    """Checks whether Spark itself lists the files of a location, and decodes the names of folders of partitions."""
    return not is_embedded(spark) and (local_path(location) is None or not shares_files(spark))


def _in_one_folder(
    folder: str, format: str | None, table: str, files: Sequence[str], by_spark: bool
) -> TableSource | None:
    """Returns the source of a table in the folder of a cluster or fleet with these files, or None. Raises
    SourceError if it is ambiguous, or see `partition_of`.
    """
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
        return TableSource((join(for_spark(folder), single[0]),), _kind(single[0]))
    if inside:
        for name in inside:
            partition_of(join(folder, table), name.removeprefix(f"{table}/"), by_spark=by_spark)
        return TableSource((join(for_spark(folder), table),), format or _kind_of_all(join(folder, table), inside))
    return None


def _single(spark: SparkSession, table: str, source: str, format: str | None) -> TableSource:
    """Returns the source of a table that the caller named. Raises SourceError if it doesn't exist."""
    if not is_path(source):
        require_spark(spark, f"{source}, a name in a catalog (a file or folder would be ./{source}),")
        if not _table_exists(spark, source):
            raise SourceError(f"{table}: the catalog has no table {source}. Is it a path? Then write ./{source}")
        return TableSource((source,))
    if not (format := format or _kind(source)):
        files = _files(spark, source)
        for name in files:
            partition_of(source, name, by_spark=_is_decoded_by_spark(spark, source))
        format = _kind_of_all(source, files)
    return TableSource((for_spark(source),), format)


def _kind(name: str) -> str | None:
    """Returns the format of a file by its name, or None."""
    match = SUFFIX.search(name)
    return None if match is None else {"jsonl": "json", "ndjson": "json"}.get(match[1], match[1])


def _kind_of_all(source: str, files: list[str]) -> str:
    """Returns the common format of files. Raises SourceError if there is none."""
    kinds = {kind for kind in map(_kind, files) if kind is not None}
    if len(kinds) == 1:
        return kinds.pop()
    seen = "files of several formats" if kinds else "no parquet, csv or json file"
    raise SourceError(f"{source} has {seen}. Say which format it is")


def _files(spark: SparkSession, location: str) -> list[str]:
    """Returns every file under the folder, relative to it, sorted, without hidden ones (`_SUCCESS`, `.crc`)."""
    local = local_path(location)
    if local is not None and is_embedded(spark) and not os.path.exists(local):
        raise SourceError(f"there is no folder {location}. {_hint(location)}")
    if local is not None and os.path.isdir(local):
        found = list(walk(local))
    elif is_embedded(spark):
        found = _list_remote(location)
    else:
        # Spark's own listing supports every file system that Spark can read, and opens no file.
        reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
        try:
            uris = reader.load(location).inputFiles()
        except Exception as error:
            if is_engine_failure(error):
                raise
            if _NOT_FOUND.search(str(error)):
                raise SourceError(f"there is no folder {location}. {_hint(location)}") from error
            raise SourceError(f"{location} cannot be listed: {reason(error)}") from error
        root = "/" + os.path.normpath(urlparse(location).path).strip("/")
        found = [unquote(urlparse(uri).path).partition(root)[2].lstrip("/") for uri in uris]
    return sorted(name for name in found if not any(part[0] in "_." for part in name.split("/")))


def _list_remote(location: str) -> list[str]:
    """Returns every file under a URI that pyarrow can list, relative to it, for the embedded engine."""
    from pyarrow import ArrowException, fs

    try:
        files, base = file_system(location)
        entries = files.get_file_info(fs.FileSelector(base, recursive=True))
    except FileNotFoundError as error:
        raise SourceError(f"there is no folder {location}. {_hint(location)}") from error
    except (ArrowException, OSError) as error:
        if isinstance(error, NotADirectoryError):
            raise SourceError(
                f"{location} isn't a folder. Name a folder or, for one table, a file such as loads.csv"
            ) from error
        raise SourceError(f"{location} cannot be listed: {reason(error)}. Spark might: --env local") from error
    return [os.path.relpath(entry.path, base) for entry in entries if entry.is_file]


def _loads(spark: SparkSession, source: TableSource, options: Mapping[str, str]) -> bool:
    """Checks whether a table in a format of Spark exists. Raises SourceError if it can't be read."""
    local = local_path(source.names[0])
    if local is not None and is_embedded(spark) and not os.path.exists(local):
        return False
    try:
        return bool(spark.read.format(str(source.format)).options(**options).load(source.names[0]).columns)
    except Exception as error:
        if unknown := unknown_format(source.format, error):
            raise unknown from error
        if _NOT_FOUND.search(str(error)):
            return False
        raise SourceError(unreadable(f"{source} as {source.format}", error)) from error


def _missing(tables: list[str], location: str | None, format: str | None) -> str:
    """Returns the message about missing tables."""
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
    """Returns the hint about paths and catalog names."""
    if is_path(location):
        return "Relative paths start from where the job was called; those in a settings file, from that file."
    return f"A name without a slash is a catalog's; for a folder write ./{location}"


_MAX_SMALL_BYTES = 4 * 1024 * 1024
_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@contextlib.contextmanager
def interpreted(spark: SparkSession, locations: Iterable[str | None]) -> Iterator[None]:
    """Makes a local session interpret its queries inside the context, if the input is small.

    In a new JVM, compiling the queries of a plan takes seconds, longer than planning a small fleet.

    Args:
        spark: the session. Its settings are restored afterward.
        locations: the input. If a location isn't on this machine, the settings aren't changed.
    """
    with contextlib.ExitStack() as stack:
        # A session can refuse to show or to change a setting.
        with contextlib.suppress(OSError, PySparkException, SourceError):
            is_local = str(spark.conf.get("spark.master", "")).startswith("local")
            if is_local and _bytes(locations) <= _MAX_SMALL_BYTES:
                stack.enter_context(temporary_settings(spark, _INTERPRETED))
        yield


@contextlib.contextmanager
def temporary_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Applies settings to a session inside the context, and restores the previous ones afterward."""
    previous = {name: spark.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, before in previous.items():
            spark.conf.set(name, before) if before is not None else spark.conf.unset(name)


def _bytes(locations: Iterable[str | None]) -> int:
    """Returns the total size of the files at these locations; of large ones, a part.

    Raises:
        OSError: a location isn't on this machine.
    """
    size = 0
    for location in locations:
        path = None if location is None else local_path(location)
        if path is None or not os.path.exists(path):
            raise FileNotFoundError(location)
        for name in walk(path) if os.path.isdir(path) else [""]:
            size += os.path.getsize(os.path.join(path, name) if name else path)
            if size > _MAX_SMALL_BYTES:
                return size
    return size


# --- checks whether this release reads the snapshots of a fleet, by the `snapshot.json` of each ---------------


def check_versions(spark: SparkSession, summaries: Mapping[str, str | None]) -> dict[str, dict[str, int]]:
    """Checks files `snapshot.json`, and returns the number of rows of each table, by location of local ones.

    `summaries` has the local path of each location, or None if Spark must read it. Raises SourceError if a file can't
    be read, or if its snapshot has another schema version.
    """
    remote, num_rows = [], dict[str, dict[str, int]]()
    for summary, path in summaries.items():
        refuse_pipe(path or "")
        if path is None or not os.path.isfile(path):
            remote.append(summary)
            continue
        try:
            content = read_summary(path)
        except OSError as error:
            raise SourceError(
                f"{path} can't be read: {error.strerror}. Change it, or take the snapshot again."
            ) from error
        if content is None:
            raise SourceError(f"{path} isn't the summary of a snapshot: it isn't valid JSON. Take the snapshot again.")
        check_version(summary, content.get("schema_version") if isinstance(content, dict) else None)
        rows = content.get("rows")
        items = rows.items() if isinstance(rows, dict) else ()
        num_rows[summary] = {table: number for table, number in items if type(number) is int}
    if remote:
        files = spark.read.text(remote, wholetext=True)
        check_contents(files.select(F.col("_metadata.file_path").alias("name"), F.col("value").alias("content")))
    return num_rows


def check_contents(summaries: DataFrame) -> None:
    """Raises SourceError if a row has the content of a `snapshot.json` (columns: name, content) of another version."""
    version = F.get_json_object("content", "$.schema_version").try_cast("int").alias("version")
    for row in summaries.groupBy(version).agg(F.min("name").alias("name")).limit(10).collect():  # one row per version
        check_version(unquote(row["name"]), row["version"])
