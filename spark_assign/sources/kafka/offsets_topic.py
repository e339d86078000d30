"""Records of `__consumer_offsets` by Spark's own Kafka source, let in by a properties file of Kafka's names.

It reads with Java's client, on the executors: what a file of Java's properties says is taken as it is. The few names of
librdkafka that the snapshot takes are put into Java's. Stores have to be where the executors are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

from spark_assign.history.records import TOPIC, records_of, redact_records
from spark_assign.sources.auth.secret import Secret
from spark_assign.sources.auth.settings import check_spelling
from spark_assign.stores.locations import for_spark, is_path, join
from spark_assign.tables.errors import ConfigError, SourceError

_INTERNAL_TOPICS = ("spark.sql.streaming.kafka.useDeprecatedOffsetFetching", "true")
"""Asked by its admin client Spark's source passes over Kafka's own topics and reads nothing, without a word; asked by a
consumer, as it was before Spark 3.1, it reads what it is told to. It looks when a query is run, in its session."""
_SCALA = "2.13"
"""Of every Spark 4."""
_PASSED_OVER = {
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
"""What Spark sets, or has no use for."""
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
"""librdkafka's names to Java's."""
_TWO_FILES = ("ssl.certificate.location", "ssl.key.location")
_JAAS = "sasl.jaas.config"


def records_in_kafka(
    spark: SparkSession, bootstrap_servers: str, cluster: str, properties: Mapping[str, str] | None = None
) -> DataFrame:
    """RECORDS (`tables.history`) of a cluster, from the beginning of `__consumer_offsets` to where it ends now.

    Offsets that were committed in a transaction which was aborted are left out. To read the topic is more than to
    describe groups: READ and DESCRIBE on it, and READ on groups that begin with `spark-kafka-`: it is a
    consumer of a group of its own for a moment, of which the topic has records then. The session is set to read Kafka's
    own topics.

    Args:
        spark: a session that has the Kafka source.
        bootstrap_servers: `host:port`, with commas between them.
        cluster: its name in the history.
        properties: of a client, by Kafka's own names (`client_properties.read`); the executors must see its stores.

    Raises:
        SourceError: this Spark has no Kafka source.
        ConfigError: a property that Java's client does not know.
    """
    asked = options(bootstrap_servers, properties or {}) | {"endingOffsets": "latest"}
    return records_of(load(spark, spark.read, asked), cluster)


def options(bootstrap_servers: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Spark's options for reading `__consumer_offsets` as a consumer that sees committed records only.

    Values of the properties file stay `Secret`. Raises ConfigError for what Java's client would not know.
    """
    return {
        "kafka.bootstrap.servers": bootstrap_servers,
        "kafka.isolation.level": "read_committed",
        "subscribe": TOPIC,
        "startingOffsets": "earliest",
        **{f"kafka.{key}": value for key, value in _javas(properties).items() if key not in _PASSED_OVER},
    }


def load(spark: SparkSession, reader: DataFrameReader | DataStreamReader, asked: Mapping[str, str]) -> DataFrame:
    """The source's table, as it is now or as a stream.

    Raises:
        SourceError: this Spark has no Kafka source; it says how to get it.
    """
    spark.conf.set(*_INTERNAL_TOPICS)
    try:
        frame = reader.format("kafka").options(**asked).load()
        frame.schema  # noqa: B018  # Spark Connect looks for the source here
    except AnalysisException as error:
        if "kafka" not in str(error).lower():
            raise
        raise SourceError(
            "this Spark has no Kafka source. Start it with "
            f"--packages org.apache.spark:spark-sql-kafka-0-10_{_SCALA}:{spark.version}"
        ) from None
    return frame


def _javas(properties: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in properties.items():
        check_spelling(key)
        if key in _TWO_FILES:
            raise ConfigError(
                f"{key}: Java's client has no such setting. Put certificate and key into one PEM file, and name it in "
                "ssl.keystore.location, with ssl.keystore.type=PEM"
            )
        if key == "enable.ssl.certificate.verification":
            if value.strip().lower() != "true":
                raise ConfigError(f"{key}: certificates are always verified. Name the authority in ssl.ca.location")
            continue
        found[_RENAMED.get(key, key)] = value
    for place, names in (("truststore", ("ssl.ca.location", "ssl.ca.pem")), ("keystore", ("ssl.key.pem",))):
        if any(name in properties for name in names):
            found.setdefault(f"ssl.{place}.type", "PEM")
    user, password = found.pop("sasl.username", None), found.pop("sasl.password", None)
    if user is not None and password is not None and _JAAS not in found:
        module = _LOGINS.get(found.get("sasl.mechanism", "").strip())
        if module is None:
            raise ConfigError(f"sasl.mechanism: sasl.username is for {', '.join(_LOGINS)}")
        found[_JAAS] = Secret(f"{module} required username={_quoted(user)} password={_quoted(password)};")
    return found


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


_UNTOLD = 'because the return value of "scala.Option.get()" is null'
CHECKPOINT = "_checkpoint"
"""The folder inside a folder of records; Spark does not read what begins with an underscore."""


def follow(
    spark: SparkSession,
    bootstrap_servers: str,
    cluster: str,
    place: str,
    *,
    properties: Mapping[str, str] | None = None,
    checkpoint: str | None = None,
    table_format: str | None = None,
    every: str | None = None,
    most_records: int | None = None,
    without_hosts: bool = False,
    without_metadata: bool = False,
) -> StreamingQuery:
    """Bring what has been written since last time into a place, once or over and over.

    Args:
        spark: a session that has the Kafka source.
        bootstrap_servers: `host:port`, with commas between them.
        cluster: its name in the history.
        place: a folder, which gets Parquet files and is of one cluster; or a table of a catalog, which is made where it
            is not there. Several clusters have one table only in a format of tables, such as Delta.
        properties: of a client, by Kafka's own names; the executors must see its stores.
        checkpoint: of a table: a folder that is this stream's alone, and stays. A folder of records has its own inside.
        table_format: of a table that is made; else what the session makes.
        every: such as `1 minute`: goes on, and looks so often; None: what is there now, and ends.
        most_records: that are taken in one go; what is there at first may be a lot.
        without_hosts: leaves out the hosts of members.
        without_metadata: leaves out what clients wrote to the offsets that they committed.

    Returns the query, which runs; `to_its_end` waits for its end.

    Raises:
        SourceError: this Spark has no Kafka source.
        ConfigError: there is no checkpoint, or one too many, or the place has the records of another cluster.
    """
    folder = is_path(place)
    if folder and checkpoint is not None:
        raise ConfigError(f"checkpoint: that of {place} is in it, at {CHECKPOINT}. Leave it out")
    if not folder and checkpoint is None:
        raise ConfigError(f"checkpoint: the table {place} needs one. Give a folder that is this stream's alone")
    _check_cluster(spark, place, cluster, folder)
    asked = options(bootstrap_servers, properties or {})
    if most_records is not None:
        asked |= {"maxOffsetsPerTrigger": str(most_records)}
    streamed = records_of(load(spark, spark.readStream, asked), cluster)
    kept = redact_records(streamed, without_hosts=without_hosts, without_metadata=without_metadata)
    writer = kept.writeStream.outputMode("append").queryName(f"history of {cluster}")
    writer = writer.trigger(availableNow=True) if every is None else writer.trigger(processingTime=every)
    if folder:
        return _into_folder(writer, for_spark(place))
    writer = writer.option("checkpointLocation", for_spark(checkpoint or ""))
    return (writer if table_format is None else writer.format(table_format)).toTable(place)


def to_its_end(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Start a stream and wait until it ends.

    The Kafka source of Spark 4.1.0 and of some releases after it (SPARK-57438) makes up for a batch that was
    interrupted, and then fails when it tells how far it is. All is stored by then: it is started again.

    Args:
        start: calls `follow`.

    Raises:
        StreamingQueryException: it ended otherwise.
    """
    query = start()
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        if _UNTOLD not in str(error):
            raise
        query = start()
        query.awaitTermination()
    return query


def _into_folder(writer: DataStreamWriter, place: str) -> StreamingQuery:
    return writer.format("parquet").option("checkpointLocation", join(place, CHECKPOINT)).start(place)


def _check_cluster(spark: SparkSession, place: str, cluster: str, folder: bool) -> None:
    """A folder takes the files of one stream: those of another would be passed over without a word."""
    there = _there(spark, place, folder)
    if there is None:
        return
    other = there.where(there.cluster != cluster).select("cluster").limit(1).collect()  # one row at most
    if other:
        raise ConfigError(
            f"{place} has records of the cluster {other[0].cluster!r}, not of {cluster!r}. Give each cluster a place"
        )


def _there(spark: SparkSession, place: str, folder: bool) -> DataFrame | None:
    """What is in the place, if it can have the records of one stream only."""
    if folder:
        path = for_spark(place)
        try:
            # Twice: of one path Spark would ask whether a stream wrote it, and log at length where it is not there.
            found = spark.read.parquet(path, path)
            found.schema  # noqa: B018  # Spark Connect looks here
        except AnalysisException:  # there is none yet, or it is empty
            return None
        return found
    if not spark.catalog.tableExists(place):
        return None
    rows = spark.sql(f"DESCRIBE TABLE EXTENDED {place}").collect()  # a row per column and property of one table
    described = {row.col_name: row.data_type for row in rows}
    return spark.table(place) if described.get("Provider", "").lower() in ("parquet", "orc") else None
