"""The engine behind a session: Spark, or Sail, which runs embedded in this process. Only this module knows which.

Sail (the package `pysail`) is a server of the Spark Connect protocol, written in Rust, that runs Python functions in
threads of its own process. It needs no Java, so the first answer takes three seconds. A pipeline is the same on both
engines. What differs is behind the functions of this module:

- Windows on Sail shuffle rows again (`windows_shuffle_again`).
- Sail caches nothing; a temporary Parquet file takes the place of a cached table (`caching`).
- A path has the same meaning for Python and for the engine, or not (`shares_files`).
"""

from __future__ import annotations

import atexit
import gc
import logging
import os
import re
import shutil
import signal
import tempfile
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import distributions, version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import uuid4
from weakref import WeakSet

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from spark_assign.tables.errors import (
    ConfigError,
    SourceError,
    find_row_fault,
    is_engine_failure,
    needs_extra,
    reason,
    remember_table,
    writing_to,
)

if TYPE_CHECKING:
    import pyarrow as pa


ENGINE = "SPARK_ASSIGN_ENGINE"
"""Environment variable that names the engine of commands: `embedded` or `spark`."""

_EMBEDDED: WeakSet[Any] = WeakSet()
"""Sessions of the embedded engine."""

_STRICT = "spark.sql.requireAllClusterKeysForDistribution"
"""Setting with which Spark shuffles for windows although the rows of a group are in one task already."""

_CALL_SITES = "spark.python.sql.dataFrameDebugging.enabled"
"""Setting with which PySpark looks up its caller in each call of its API, which Sail doesn't report."""

_TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
"""Environment variable with the token of a Spark Connect server."""

_MAX_MESSAGE_BYTES = 2**20
"""Largest table that is sent to the embedded engine in a message. A message has a copy of it for each time that its
query reads the table, and is limited to 128 MB."""

TABLE_FORMATS = ("delta", "iceberg")
"""Formats that Sail reads and writes, besides parquet, csv, and json."""

SCHEMES = ("abfs", "abfss", "adl", "az", "azure", "file", "gs", "hdfs", "s3", "s3a")
"""Schemes of URIs at which Sail reads and writes."""
_READ_SCHEMES = (*SCHEMES, "hf", "http", "https")

_ROWS_PER_FILE_PIECE = 1_000_000
_log = logging.getLogger(__name__)


def embedded_session() -> SparkSession:
    """Returns the session of the embedded engine, Sail. Its server runs until the process ends.

    Returns:
        a session of Spark Connect, for every function of this package that takes one. It reads and writes files of this
        machine, and has no catalogs.

    Raises:
        ConfigError: the package `pysail` isn't installed (extra `embedded`).
        SparkAssignError: the server doesn't answer.

    Examples:
        >>> session = embedded_session()
        >>> Fleet.read(session, "conf/sample-fleet").members.count()
        82
    """
    token = os.environ.pop(_TOKEN, None)  # another server's; with a token, the client would use TLS
    on_interrupt = signal.getsignal(signal.SIGINT)
    try:
        address = _server_address()
        if all(session.is_stopped for session in _EMBEDDED):
            _connect(address)
        session: SparkSession = SparkSession.builder.remote(address).getOrCreate()
    finally:
        if token is not None:
            os.environ[_TOKEN] = token
    if session not in _EMBEDDED:
        # The client warns of each window over all rows, and Spark only in its log.
        warnings.filterwarnings("ignore", "WARN WindowExpression: No Partition Defined", UserWarning)
        session.conf.set("spark.sql.session.timeZone", "UTC")
        session.conf.set("spark.sql.shuffle.partitions", str(os.cpu_count() or 1))
        session.conf.set(_CALL_SITES, "false")
        if on_interrupt is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, on_interrupt)  # the server, which answers now, ends at Ctrl-C otherwise
        _EMBEDDED.add(session)
    return session


def _connect(address: str) -> None:
    """Makes the session that the next call of `SparkSession.builder` returns, if there is none."""
    from pyspark.sql.connect.client import DefaultChannelBuilder
    from pyspark.sql.connect.session import SparkSession as Session

    from spark_assign.spark.interrupts import CallsOfAnotherThread

    channel = DefaultChannelBuilder(address, [("grpc.enable_http_proxy", 0)])  # https_proxy would get all rows
    channel.add_interceptor(CallsOfAnotherThread())
    Session.builder.channelBuilder(channel).create()


@cache
def _server_address() -> str:
    os.environ.setdefault("RUST_LOG", "error")  # otherwise the server logs every session on standard error
    with needs_extra("the embedded engine needs pysail", "embedded"):
        from pysail.spark import SparkConnectServer
    if ignored := sorted(name for name in os.environ if name.startswith(("SAIL_", "TOKIO_"))):
        # Settings of Sail and of its runtime, of which a wrong one ends the process.
        _log.warning("The embedded engine ignores %s.", ", ".join(ignored))
        for name in ignored:
            del os.environ[name]
    # Sail reads all variables when it starts, and panics at one that isn't UTF-8, such as PWD of such a folder.
    environment: Any = getattr(os, "environb", {})  # Windows has none, and no such variables
    hidden = {name: value for name, value in environment.items() if not _is_utf8(name + value)}
    for key in hidden:
        del environment[key]
    try:
        server = SparkConnectServer("127.0.0.1", 0)
        server.start(background=True)
    finally:
        environment.update(hidden)
    atexit.register(server.stop)
    host, port = server.listening_address or ("", 0)
    return f"sc://{host}:{port}"


def _is_utf8(text: bytes) -> bool:
    return text.decode(errors="ignore").encode() == text


def choose() -> tuple[str, str]:
    """Returns the engine of a command in this environment, `embedded` or `spark`, and the reason.

    Spark takes the place of an embedded engine that can't be imported.

    Raises:
        ConfigError: the environment chooses no engine; or the embedded one, which can't be imported, and Spark isn't
            installed.
    """
    chosen = os.environ.get(ENGINE)
    if chosen not in (None, "", "embedded", "spark"):
        raise ConfigError(f"{ENGINE}={chosen:.100}: expected embedded or spark")
    if chosen != "embedded":
        return "spark", f"{ENGINE}={chosen}, as spark-submit.sh and options of Spark set it" if chosen else "default"
    try:
        import pysail.spark  # noqa: F401
    except ImportError as error:
        if any(distributions(name="pyspark")):
            return "spark", f"Sail can't be imported ({error})"
        raise ConfigError(
            f"The embedded engine, Sail, can't be imported ({error}), and Spark isn't installed: run "
            "./spark-submit.sh in a clone, or pip install '.[spark]' in an environment without pyspark-client"
        ) from error
    return "embedded", f"{ENGINE}=embedded, as spark-assign sets it"


def start_session(app_name: str, settings: Mapping[str, str]) -> tuple[SparkSession, str]:
    """Returns the session of a command, and its engine in words: `Sail 0.7.2, in this process`.

    Args:
        app_name: name of a Spark application.
        settings: further settings of a Spark application.

    Raises:
        ConfigError: no engine can be imported.
    """
    engine, why = choose()
    if engine == "embedded":
        session = embedded_session()
        gc.freeze()  # what is imported by now stays: no garbage collection looks at it again
        return session, engine_name()
    builder = SparkSession.builder.appName(app_name)
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    is_replacement = os.environ.get(ENGINE) == "embedded"
    return session, engine_name(session) + (f", since {why}" if is_replacement else "")


def engine_name(spark: SparkSession | None = None) -> str:
    """Returns an engine with its version, and where it runs: `Spark 4.1.4, local[2]`.

    Args:
        spark: a session of Spark; None: the embedded engine.
    """
    if spark is None:
        return f"Sail {version('pysail')}, in this process"
    return ", ".join(filter(None, (f"Spark {spark.version}", _setting(spark, "spark.master"))))


def is_embedded(spark: SparkSession) -> bool:
    """Checks whether `embedded_session` has made a session."""
    return spark in _EMBEDDED


def shares_files(spark: SparkSession) -> bool:
    """Checks whether the engine runs in this process only, so that a path has the same meaning for both."""
    is_remote = type(spark).__module__.startswith("pyspark.sql.connect")
    return is_embedded(spark) if is_remote else _setting(spark, "spark.master").startswith("local")


def windows_shuffle_again(spark: SparkSession) -> bool:
    """Checks whether windows over more columns than the rows are partitioned by shuffle the rows again.

    Spark does so only with a setting. Sail always does, and knows none of Spark's settings.
    """
    return _setting(spark, _STRICT, unknown="true") == "true"


def location_for(spark: SparkSession, location: str, format: str | None = None) -> str:
    """Returns a location as the engine of a session opens it.

    Spark takes a location as it is. Sail decodes `%XX`, and takes `*`, `?`, and braces for patterns. Of a path that
    doesn't exist, it reads no rows, without an error.

    Args:
        spark: the session.
        location: a folder, a file, or a URI.
        format: the format of its tables.

    Raises:
        ConfigError: Sail would write a table of this format to another path, since it encodes such a path twice.
    """
    path = location.removeprefix("file://")
    is_local = path.startswith("/") or ":" not in path.partition("/")[0]
    if not is_local or not is_embedded(spark):
        return location
    encoded = quote(os.path.abspath(path), safe="/=")
    if "%" in encoded and format in TABLE_FORMATS:
        problem = "whose path has blanks, percent signs, or letters that aren't ASCII"
        raise needs_spark(f"A {format} table in {path}, {problem},")
    return f"file://{encoded}"


def remember(name: str, table: DataFrame) -> None:
    """Remembers a table that the embedded engine reads by itself (`tables.errors.remember_table`)."""
    if is_embedded(table.sparkSession):
        remember_table(name, lambda: table.mapInArrow(_without_rows, table.schema).collect())


def _without_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (batch.slice(0, 0) for batch in batches)


def require_spark(spark: SparkSession, need: str) -> None:
    """Checks that a session is able to do what only Spark can.

    Args:
        spark: the session.
        need: what needs Spark, as the start of a sentence: `The catalog main.kafka`.

    Raises:
        ConfigError: the session is of the embedded engine. The message says which option chooses Spark.
    """
    if is_embedded(spark):
        raise needs_spark(need)


def check_scheme(location: str, *, is_written: bool = False) -> None:
    """Raises ConfigError if Sail doesn't know the scheme of a location. Sail takes `dbfs:/x` for a folder."""
    scheme = re.match("([A-Za-z][A-Za-z0-9+.-]*):", location)
    known = SCHEMES if is_written else _READ_SCHEMES
    if scheme and scheme[1] not in known:
        names = ", ".join(known)
        raise needs_spark(f"{location}, whose scheme isn't one of {names} (a folder would be ./{location}),")


def unknown_format(format: str | None, error: BaseException) -> SourceError | None:
    """Returns the error for a format that the engine doesn't know, if that is why a query failed; otherwise None.

    Classic PySpark lets Java's own exception through, so it can be of any class.
    """
    if not re.search("DATA_SOURCE_NOT_FOUND|No data source found", str(error)):
        return None
    packages = "add its package, for example by --conf spark.jars.packages=…"
    return SourceError(f"Spark does not know the format {format}; {packages}")


def refused_option(options: Mapping[str, str], error: BaseException) -> ConfigError | None:
    """Returns the error for a writer option if a query failed for a reason that names it or its value, else None."""
    if is_engine_failure(error) or find_row_fault(error):
        return None
    why = reason(error)
    for name, value in options.items():
        if name.lower() in why.lower() or (value and value in why):
            return ConfigError(f"--output-option {name}={value}: the engine refuses it: {why}")
    return None


def needs_spark(need: str) -> ConfigError:
    """Returns the error for something that the embedded engine can't do (`require_spark`)."""
    return ConfigError(
        f"{need} needs Spark, but this is the embedded engine (Sail). Choose Spark: spark-assign --env local JOB …"
    )


def divide(numerator: Column, denominator: Column) -> Column:
    """Returns a ratio; null if the denominator is 0 or null. Sail can divide before it evaluates a condition."""
    is_number = denominator != 0
    return F.when(is_number, numerator / F.when(is_number, denominator).otherwise(1))


def stored_copy(table: DataFrame) -> DataFrame:
    """Computes a table into a temporary Parquet file, and returns the stored rows. The file exists until the process
    ends."""
    folder, schema = str(_new_folder()), plain_schema(table.schema)
    table.write.parquet(folder)
    return table.sparkSession.read.schema(schema).parquet(folder)


def dataframe_of(spark: SparkSession, table: pa.Table, schema: StructType) -> DataFrame:
    """Returns a table of this process as a DataFrame. A large one reaches the embedded engine as a Parquet file."""
    schema = plain_schema(schema)
    # For a chunk without rows, Sail raises the errors of all branches of a condition.
    table = table.combine_chunks()
    if table.nbytes <= _MAX_MESSAGE_BYTES or not is_embedded(spark):
        return with_schema(spark.createDataFrame(table, schema), schema)
    from pyarrow import parquet

    folder = _new_folder()
    folder.mkdir()
    with writing_to(str(folder)):
        parquet.write_table(table, folder / "rows.parquet", row_group_size=_ROWS_PER_FILE_PIECE)
    return spark.read.schema(schema).parquet(str(folder))


def with_schema(table: DataFrame, schema: StructType) -> DataFrame:
    """Returns a table with its schema, for which Spark Connect otherwise sends the plan to the server."""
    return table.to(schema) if type(table).__module__.startswith("pyspark.sql.connect") else table


def plain_schema(schema: StructType) -> StructType:
    """Returns a schema with nullable fields at every level and without metadata.

    Sail doesn't parse metadata, and reads a required field of a null struct in a Parquet file as 0 or "".
    """
    return StructType([StructField(field.name, _plain_type(field.dataType)) for field in schema])


def _plain_type(kind: DataType) -> DataType:
    if isinstance(kind, ArrayType):
        return ArrayType(_plain_type(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(_plain_type(kind.keyType), _plain_type(kind.valueType))
    return plain_schema(kind) if isinstance(kind, StructType) else kind


@cache
def _temporary_folder() -> Path:
    folder = tempfile.mkdtemp(prefix="spark-assign-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _new_folder() -> Path:
    return _temporary_folder() / uuid4().hex


def _setting(spark: SparkSession, name: str, unknown: str = "") -> str:
    """Returns a setting of a session; `unknown` if the engine doesn't know it, "" if the session doesn't show it."""
    try:
        value = spark.conf.get(name, None)
    except PySparkException:
        return ""
    return unknown if value is None else str(value)


# --- caches tables that several queries use, if the session supports it ---------------------------------------


def cached(table: DataFrame) -> DataFrame:
    """Returns the table, persisted if the session supports it (Databricks serverless computes it per query).

    The embedded engine computes the table at once, into a temporary file, because it caches nothing.
    """
    if is_embedded(table.sparkSession):
        return stored_copy(table)
    try:
        return table.persist()
    except PySparkException:
        return table


def uncached(table: DataFrame) -> None:
    """Unpersists a table; does nothing if the session could not persist it."""
    with suppress(PySparkException):
        table.unpersist()


def is_cached(table: DataFrame) -> bool:
    """Checks whether the rows of a table are persisted already."""
    try:
        level = table.storageLevel
    except PySparkException:
        return False
    return level.useMemory or level.useDisk
