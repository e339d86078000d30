"""Raw records of any table in one shape; log segments read by Spark, transactions across them; no Kafka source."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyarrow import parquet
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs import history as history_job
from spark_assign.cli.job import run_job
from spark_assign.history.records import records_of, redact_records
from spark_assign.sources.kafka.log_segments import log_segments
from spark_assign.sources.kafka.offsets_topic import follow, records_in_kafka
from spark_assign.spark.engine import is_embedded
from spark_assign.stores.local_tables import read_parquet_location
from spark_assign.tables.errors import ConfigError, FleetError, SourceError, find_row_fault
from spark_assign.tables.history import RECORDS
from spark_assign.wire.segment_records import Record
from tests.unit import test_records_text
from tests.unit.test_log_segment import batch_of, control, emptied, of_producer

pytestmark = pytest.mark.spark

SAMPLE = str(Path(__file__).parents[2] / "conf" / "sample-history" / "records.parquet")
AT = datetime(2026, 11, 23, 8, 0, 0, 5000, UTC)
KAFKA = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"


def test_what_the_kafka_source_gives_fits_as_it_is(spark: SparkSession) -> None:
    rows = [(b"k", None, topic, 3, 7, AT, 0) for topic in ("__consumer_offsets", "orders")]
    found = records_of(spark.createDataFrame(rows, KAFKA), "eu")
    assert [(field.name, field.dataType) for field in found.schema] == [(f.name, f.dataType) for f in RECORDS]
    assert found.select(*(F.col(name) for name in found.columns if name != "timestamp")).collect() == [
        ("eu", 3, 7, b"k", None)
    ]


def test_timestamps_may_be_milliseconds_and_clusters_a_column(spark: SparkSession) -> None:
    millis = int(AT.timestamp() * 1000)
    table = spark.createDataFrame(
        [("eu", 3, 7, millis, b"k", b"v", "x")],
        "cluster string, partition smallint, offset int, timestamp bigint, key binary, value binary, more string",
    )
    found = records_of(table).withColumn("timestamp", F.unix_micros("timestamp"))
    assert found.collect() == [("eu", 3, 7, millis * 1000, b"k", b"v")]


def test_errors_state_the_remedy(spark: SparkSession) -> None:
    table = spark.createDataFrame([(b"k", None, "__consumer_offsets", 3, 7, AT, 0)], KAFKA)
    for wrong, cluster, message in (
        (table, None, "records.cluster: the column is missing, and no cluster is given. Pass the cluster"),
        (
            table.withColumn("cluster", F.lit("a")),
            "b",
            "records.cluster: the column exists already. Remove the argument 'b'",
        ),
        (table.drop("value"), "a", "records.value: the column is missing. Add it as binary"),
        (table.drop("timestamp"), "a", "records.timestamp: the column is missing. Add it as timestamp, or in milli"),
        (table.withColumn("key", F.lit("text")), "a", "records.key: the type is string, expected binary. Cast"),
    ):
        with pytest.raises(FleetError) as error:
            records_of(wrong, cluster)
        assert message in str(error.value)


@pytest.mark.parametrize(
    ("column", "value", "row"),
    [
        ("offset", "cast(null as bigint)", "cluster=a. b, partition=3, offset=null, timestamp="),
        ("timestamp", "cast(null as timestamp)", "cluster=a. b, partition=3, offset=7, timestamp=null"),
        ("timestamp", "9223372036854775807L", "cluster=a. b, partition=3, offset=7, timestamp=null"),
    ],
)
def test_a_row_without_a_value_is_wrong_input(spark: SparkSession, column: str, value: str, row: str) -> None:
    """The error of the query names table, column, and row, and a job ends with it and with exit code 2."""
    table = spark.createDataFrame([(b"k", None, "__consumer_offsets", 3, 7, AT, 0)], KAFKA)
    with pytest.raises(PySparkException) as error:
        records_of(table.withColumn(column, F.expr(value)), "a. b").collect()
    fault = find_row_fault(error.value)
    assert f"records.{column}: null or out of range: {row}" in str(fault)
    assert "Correct it, or remove the row" in str(fault)
    assert find_row_fault(ValueError("x")) is None

    def run() -> int:
        raise error.value

    assert run_job("history", run, verbose=False) == 2


def test_the_sample_without_hosts(spark: SparkSession) -> None:
    records = records_of(spark.read.parquet(SAMPLE))
    left = redact_records(records, without_hosts=True)
    hosts = F.contains(F.hex("value"), F.lit(b"127.0.0.1".hex().upper()))
    counted = [frame.agg(F.count("*"), F.count_if(hosts)).collect()[0] for frame in (records, left)]
    assert counted[0][0] == counted[1][0] == 9079
    assert counted[0][1] > 0 == counted[1][1]
    assert redact_records(records) is records


def test_a_folder_of_two_writers(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's stream writes timestamps as INT96. A path that doesn't exist isn't an archive without records."""
    folder = tmp_path / "eu%41 {a,b}*"
    folder.mkdir()
    every = parquet.read_table(SAMPLE)
    parquet.write_table(every[:5000], folder / "part-0.parquet", use_deprecated_int96_timestamps=True)
    parquet.write_table(every[5000:], folder / "part-1.parquet")
    if not is_embedded(spark):  # Spark takes such names for patterns
        folder = folder.rename(tmp_path / "eu%41")
    times = [F.count("*"), F.min(F.unix_micros("timestamp")), F.max(F.unix_micros("timestamp"))]
    whole, mixed = (
        records_of(read_parquet_location(spark, "records", str(place))).agg(*times).collect()
        for place in (SAMPLE, folder)
    )
    assert whole == mixed
    (tmp_path / "empty").mkdir()
    for missing in ("nowhere", "empty"):
        with pytest.raises(SourceError, match=f"records: there are no Parquet files in .*/{missing}"):
            read_parquet_location(spark, "records", str(tmp_path / missing))


def test_transactions_end_in_later_segments(spark: SparkSession, tmp_path: Path) -> None:
    """Of two brokers' copies, one cut off twice; other topics are not looked at; what is open at the end is left."""
    first = of_producer(0, 1) + of_producer(1, 2) + batch_of([Record(2, 9, b"k", None)]) + of_producer(3, 3)
    second = control(4, 1, 1) + control(5, 0, 2) + of_producer(6, 2) + of_producer(7, 1) + control(8, 0, 1)
    third = control(9, 1, 2) + of_producer(10, 2) + emptied(11, 3)
    for broker in ("a", "b"):
        folder = tmp_path / broker / "__consumer_offsets-12"
        folder.mkdir(parents=True)
        for base, data in ((0, first), (4, second), (9, third)):
            (folder / f"{base:020}.log").write_bytes(data[:-5] if (broker, base) in (("b", 4), ("b", 9)) else data)
    other = tmp_path / "a" / "orders-0"
    other.mkdir()
    (other / f"{0:020}.log").write_bytes(of_producer(0, 1))
    found = log_segments(spark, str(tmp_path), "eu")
    rows = found.records.select("cluster", "partition", "offset", F.unix_micros("timestamp"), "key", "value").collect()
    assert sorted(rows) == [
        ("eu", 12, 0, 1_000_000, b"k", b"v"),
        ("eu", 12, 2, 9_000, b"k", None),
        ("eu", 12, 6, 1_006_000, b"k", b"v"),
    ]
    damaged = sorted((row.partition, row.after, row.code) for row in found.damaged.collect())
    assert damaged == [(12, 7, "corrupt"), (12, 10, "cut-off")]
    for nothing in (tmp_path / "a" / "orders-0", tmp_path / "not-there"):
        with pytest.raises(SourceError, match=r"has no log segments of __consumer_offsets\. Their paths end in"):
            log_segments(spark, str(nothing), "eu")


def test_a_spark_without_the_kafka_source_gets_its_package(spark: SparkSession, tmp_path: Path) -> None:
    """The embedded engine can't have it: there, the message says how to use Spark."""
    error: type[Exception] = ConfigError if is_embedded(spark) else SourceError
    package = f"--packages org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}"
    message = r"has no Kafka source\. Add --env local" if is_embedded(spark) else package
    with pytest.raises(error, match=message):
        records_in_kafka(spark, "localhost:9", "eu")
    with pytest.raises(error, match=message):
        follow(spark, "localhost:9", "eu", str(tmp_path / "history"))


def test_a_later_history_of_the_same_session(spark: SparkSession, tmp_path: Path) -> None:
    """It has the records that have come into the folder since the first one, which `daily` relies on."""
    records = parquet.read_table("conf/sample-history/records.parquet")
    (tmp_path / "records").mkdir()
    found = []
    for part, rows in enumerate((records.slice(0, len(records) // 2), records.slice(len(records) // 2))):
        parquet.write_table(rows, tmp_path / "records" / f"{part}.parquet")
        arguments = ["--records", f"{tmp_path}/records", "--output", f"{tmp_path}/out", "--run-id", f"r{part}"]
        assert history_job.main(arguments) == 0
        found.append(len(parquet.read_table(tmp_path / "out" / "rebalances" / f"run_id=r{part}")))
    assert found[0] < found[1]


def test_a_place_is_of_one_stream(spark: SparkSession, tmp_path: Path) -> None:
    """And a folder that the client has written isn't one for a stream."""
    with pytest.raises(ConfigError, match=r"the folder \./history contains its checkpoint"):
        follow(spark, "localhost:9", "eu", "./history", checkpoint="./elsewhere")
    with pytest.raises(ConfigError, match="the table history requires one"):
        follow(spark, "localhost:9", "eu", "history")
    place = str(tmp_path / "history")
    spark.read.parquet(SAMPLE).limit(1).write.parquet(place)
    message = "no Kafka source" if is_embedded(spark) else "has records of the cluster 'orders-eu', not of 'eu'"
    with pytest.raises(ConfigError, match=message):
        follow(spark, "localhost:9", "eu", place)
    (tmp_path / "client").mkdir()
    (tmp_path / "client" / "records-000000001.parquet").touch()
    message = "no Kafka source" if is_embedded(spark) else r"client has records that the client has read\. Continue it"
    with pytest.raises(ConfigError, match=message):
        follow(spark, "localhost:9", "orders-eu", str(tmp_path / "client"))


def test_the_text_of_a_tool(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The job reads a dump that is compressed; other text is exit code 2, with the accepted formats."""
    dump = tmp_path / "dump.txt.gz"
    dump.write_bytes(gzip.compress(test_records_text._recorded()[2]["text"].encode()))
    assert history_job.main(["--records", str(dump), "--cluster-name", "c"]) == 0
    printed = capsys.readouterr().out
    assert "9 groups from 2026-11-29" in printed
    assert "team one" in printed
    dump.write_bytes(gzip.compress(b"key,value\n"))
    assert history_job.main(["--records", str(dump), "--cluster-name", "c"]) == 2
    assert "dump.txt.gz has no records. Accepted are a folder or table of records, and text" in caplog.text
