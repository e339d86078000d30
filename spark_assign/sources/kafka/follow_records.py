"""A history that grows: records of `__consumer_offsets` streamed into a place before compaction takes them.

Each record is there once, whenever the stream is stopped or killed: Spark keeps in the checkpoint how far it has come,
and the place knows which of its files count. Read it back by Spark: `records_of(spark.read.parquet(place))`, or
`spark.table(name)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark_assign.history.records import records_of, redact_records
from spark_assign.sources.kafka import offsets_topic
from spark_assign.stores.locations import for_spark, is_path, join
from spark_assign.tables.errors import ConfigError

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
    asked = offsets_topic.options(bootstrap_servers, properties or {})
    if most_records is not None:
        asked |= {"maxOffsetsPerTrigger": str(most_records)}
    streamed = records_of(offsets_topic.load(spark, spark.readStream, asked), cluster)
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
