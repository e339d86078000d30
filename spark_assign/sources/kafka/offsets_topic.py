"""Reads the records of `__consumer_offsets` by Spark's Kafka source, with a client properties file, once or as a
stream: on the executors of a cluster, and into tables. `records_folder` reads without Spark, and joins no group.

Spark reads with Java's client on the executors, so Java's properties are passed unchanged. The few librdkafka names
that the snapshot accepts are converted to Java's. Key and trust stores must be accessible to the executors.

A stream stores each record exactly once, even if it is stopped or killed: Spark keeps its position in the
checkpoint, and the target knows which of its files count. Read it back with
`records_of(spark.read.parquet(location))` or `spark.table(name)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamReader

from spark_assign.history.records import TOPIC, records_of, redact_records
from spark_assign.sources.auth.secret import Secret
from spark_assign.sources.auth.settings import check_servers, check_spelling
from spark_assign.spark.engine import is_embedded
from spark_assign.stores.locations import for_spark, is_path, join, local_path
from spark_assign.tables.errors import KAFKA_SOURCE, ConfigError, SourceError

_INTERNAL_TOPICS = ("spark.sql.streaming.kafka.useDeprecatedOffsetFetching", "true")
"""With its admin client, Spark's source silently skips internal topics and reads nothing. With a consumer, as before
Spark 3.1, it reads them. The setting is evaluated in the query's session when the query runs.
"""
_IGNORED_PROPERTIES = {
    "auto.offset.reset",
    "bootstrap.servers",
    "enable.auto.commit",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "interceptor.classes",
    "isolation.level",
    "key.deserializer",
    "key.serializer",
    "value.deserializer",
    "value.serializer",
}
"""Properties that Spark sets itself or doesn't use."""
_LOGINS = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_RENAMED = {
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
}
"""Java's names of librdkafka's properties."""
_TWO_FILES = ("ssl.certificate.location", "ssl.key.location")
_JAAS = "sasl.jaas.config"


def records_in_kafka(
    spark: SparkSession, bootstrap_servers: str, cluster: str, properties: Mapping[str, str] | None = None
) -> DataFrame:
    """Returns RECORDS (`tables.history`) of a cluster, from the beginning of `__consumer_offsets` to its current end.

    Offsets of aborted transactions are omitted. Reading the topic needs more permissions than describing groups: READ
    and DESCRIBE on the topic, and READ on groups whose IDs start with `spark-kafka-`. Spark reads as a consumer of
    such a group, which leaves records in the topic. The session is configured to read Kafka's internal topics.

    Args:
        spark: a session that has the Kafka source.
        bootstrap_servers: `host:port`, comma-separated.
        cluster: the name of the cluster in the history.
        properties: client properties with Kafka's names (`auth.properties.read`). The executors must be able to read
            the key and trust stores.

    Raises:
        SourceError: this Spark has no Kafka source.
        ConfigError: Java's client doesn't know a property, or the session is of the embedded engine.
    """
    check_engine(spark)
    source_options = options(bootstrap_servers, properties or {}) | {"endingOffsets": "latest"}
    return records_of(load(spark, spark.read, source_options), cluster)


def check_engine(spark: SparkSession) -> None:
    """Checks whether a session can have the Kafka source. Raises ConfigError for the embedded engine."""
    if is_embedded(spark):
        raise ConfigError(
            "--reader spark needs Spark, because the embedded engine has no Kafka source. Add --env local."
        )


def options(bootstrap_servers: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Returns Spark's options for reading `__consumer_offsets` as a consumer that sees committed records only.

    Values of the properties stay `Secret`. Raises ConfigError for properties that Java's client doesn't know, and for
    servers that none can be.
    """
    check_servers(bootstrap_servers)
    return {
        "kafka.bootstrap.servers": bootstrap_servers,
        "kafka.isolation.level": "read_committed",
        "subscribe": TOPIC,
        "startingOffsets": "earliest",
        **{
            f"kafka.{key}": value
            for key, value in _java_properties(properties).items()
            if key not in _IGNORED_PROPERTIES
        },
    }


def load(
    spark: SparkSession, reader: DataFrameReader | DataStreamReader, option_values: Mapping[str, str]
) -> DataFrame:
    """Returns the table of the source, in batch or streaming mode.

    Raises:
        SourceError: this Spark has no Kafka source; the message says how to add it.
    """
    spark.conf.set(*_INTERNAL_TOPICS)
    try:
        frame = reader.format("kafka").options(**option_values).load()
        frame.schema  # noqa: B018  # Spark Connect looks for the source here
    except AnalysisException as error:
        if "kafka" not in str(error).lower():
            raise
        raise SourceError(
            f"This Spark has no Kafka source. Start it with --packages {KAFKA_SOURCE}:{spark.version}"
        ) from None
    return frame


def _java_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the properties with Java's names. Raises ConfigError for properties without an equivalent."""
    java_properties: dict[str, str] = {}
    for key, value in properties.items():
        check_spelling(key)
        if key in _TWO_FILES:
            raise ConfigError(
                f"{key}: Java's client has no such setting. Put certificate and key into one PEM file, and set "
                "ssl.keystore.location and ssl.keystore.type=PEM."
            )
        if key == "enable.ssl.certificate.verification":
            if value.strip().lower() != "true":
                raise ConfigError(
                    f"{key}: certificates are always verified. Set ssl.ca.location to the certificate authority."
                )
            continue
        java_properties[_RENAMED.get(key, key)] = value
    for store, names in (("truststore", ("ssl.ca.location", "ssl.ca.pem")), ("keystore", ("ssl.key.pem",))):
        if any(name in properties for name in names):
            java_properties.setdefault(f"ssl.{store}.type", "PEM")
    user, password = java_properties.pop("sasl.username", None), java_properties.pop("sasl.password", None)
    if user is not None and password is not None and _JAAS not in java_properties:
        module = _LOGINS.get(java_properties.get("sasl.mechanism", "").strip())
        if module is None:
            raise ConfigError(f"sasl.mechanism: sasl.username requires one of {', '.join(_LOGINS)}.")
        java_properties[_JAAS] = Secret(f"{module} required username={_quoted(user)} password={_quoted(password)};")
    return java_properties


def _quoted(text: str) -> str:
    """Returns a text as a quoted value of a JAAS configuration."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


_PROGRESS_ERROR = 'because the return value of "scala.Option.get()" is null'
CLIENT_FILES = "records-[0-9]*.parquet"
"""Names of the files in a folder of `records_folder`."""
CHECKPOINT = "_checkpoint"
"""The checkpoint folder inside a folder of records. Spark doesn't read names that start with an underscore."""


def follow(
    spark: SparkSession,
    bootstrap_servers: str,
    cluster: str,
    location: str,
    *,
    properties: Mapping[str, str] | None = None,
    checkpoint: str | None = None,
    table_format: str | None = None,
    interval: str | None = None,
    max_records: int | None = None,
    without_hosts: bool = False,
    without_metadata: bool = False,
) -> StreamingQuery:
    """Starts a stream that stores the records written since its last run, once or continuously.

    Args:
        spark: a session that has the Kafka source.
        bootstrap_servers: `host:port`, comma-separated.
        cluster: the name of the cluster in the history.
        location: a folder, for Parquet files of one cluster; or a table of a catalog, which is created if it doesn't
            exist. Several clusters can share a table only in a table format such as Delta.
        properties: client properties with Kafka's names. The executors must be able to read the key and trust stores.
        checkpoint: for a table, a persistent folder that only this stream uses. A folder of records contains its
            checkpoint.
        table_format: the format of a new table (default: that of the session).
        interval: the time between two batches of a continuous stream, such as `1 minute`. With None, the stream stores
            the available records and ends.
        max_records: maximum number of records per batch (default: unlimited). The first batch can be large.
        without_hosts: omits the hosts of members.
        without_metadata: omits the metadata that clients added to committed offsets.

    Returns:
        The running query. `to_its_end` waits for its end.

    Raises:
        SourceError: this Spark has no Kafka source.
        ConfigError: the checkpoint is missing or redundant, or the location has records of another cluster, or of
            `records_folder`.
    """
    folder = is_path(location)
    if folder and checkpoint is not None:
        raise ConfigError(
            f"checkpoint: the folder {location} contains its checkpoint ({CHECKPOINT}). Remove the option."
        )
    if not folder and checkpoint is None:
        raise ConfigError(f"checkpoint: the table {location} requires one. Give a folder that no other stream uses.")
    check_engine(spark)
    local = local_path(location) if folder else None
    if local is not None and any(Path(local).glob(CLIENT_FILES)):
        raise ConfigError(f"{location} has records that the client has read. Continue it without --reader spark.")
    _check_cluster(spark, location, cluster, folder)
    source_options = options(bootstrap_servers, properties or {})
    if max_records is not None:
        source_options |= {"maxOffsetsPerTrigger": str(max_records)}
    records = records_of(load(spark, spark.readStream, source_options), cluster)
    redacted = redact_records(records, without_hosts=without_hosts, without_metadata=without_metadata)
    writer = redacted.writeStream.outputMode("append").queryName(f"history of {cluster}")
    writer = writer.trigger(availableNow=True) if interval is None else writer.trigger(processingTime=interval)
    if folder:
        path = for_spark(location)
        return writer.format("parquet").option("checkpointLocation", join(path, CHECKPOINT)).start(path)
    writer = writer.option("checkpointLocation", for_spark(checkpoint or ""))
    return (writer if table_format is None else writer.format(table_format)).toTable(location)


def to_its_end(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Starts a stream and waits for its end.

    In Spark 4.1.0 and a few releases after it (SPARK-57438), the Kafka source reprocesses an interrupted batch and
    then fails when it reports its progress. All records are stored by then, so the stream is started again.

    Args:
        start: calls `follow`.

    Raises:
        StreamingQueryException: the stream failed for another reason.
    """
    query = start()
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        if _PROGRESS_ERROR not in str(error):
            raise
        query = start()
        query.awaitTermination()
    return query


def _check_cluster(spark: SparkSession, location: str, cluster: str, folder: bool) -> None:
    """Raises ConfigError if a folder has records of another cluster. Its stream would silently skip the files of
    another one.
    """
    records = _existing_records(spark, location, folder)
    if records is None:
        return
    others = records.where(records.cluster != cluster).select("cluster").limit(1).collect()  # one row at most
    if others:
        raise ConfigError(
            f"{location} has records of the cluster {others[0].cluster!r}, not of {cluster!r}. "
            "Use another location for each cluster."
        )


def _existing_records(spark: SparkSession, location: str, folder: bool) -> DataFrame | None:
    """Returns the records of a target that can only have the records of one stream, or None."""
    if folder:
        path = for_spark(location)
        try:
            # The path is passed twice: for one path, Spark checks whether a stream wrote it, and logs at length if the
            # path doesn't exist.
            existing = spark.read.parquet(path, path)
            existing.schema  # noqa: B018  # Spark Connect looks here
        except AnalysisException:  # no records yet
            return None
        return existing
    if not spark.catalog.tableExists(location):
        return None
    rows = spark.sql(f"DESCRIBE TABLE EXTENDED {location}").collect()  # a row per column and property of one table
    described = {row.col_name: row.data_type for row in rows}
    return spark.table(location) if described.get("Provider", "").lower() in ("parquet", "orc") else None
