"""A session of Spark that has the Kafka source, in a process of its own: its jars are needed to start one.

`python -m tests.kafka.history_session classic|connect` reads from standard input what is to be done, as JSON, and
prints a line of JSON for each thing that it has found.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_assign.fleet import Fleet
from spark_assign.history.following import follow, to_its_end
from spark_assign.history.history import History
from spark_assign.history.records import records_of
from spark_assign.history.replay import replay
from spark_assign.history.schemas import HISTORY_TABLES
from spark_assign.sources import client_properties
from spark_assign.sources.log_segments import log_segments
from spark_assign.sources.records_in_kafka import records_in_kafka
from tests.kafka import maven

ROOT = Path(__file__).parents[2]
SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.compression.codec": "uncompressed",  # so that what is in files can be looked for
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def session(kind: str, warehouse: str) -> SparkSession:
    """One that knows Kafka and Delta."""
    builder = SparkSession.builder.remote("local[2]") if kind == "connect" else SparkSession.builder.master("local[2]")
    jars = ",".join([*maven.kafka_source_jars(), *maven.delta_jars()])
    for key, value in {**SETTINGS, "spark.jars": jars, "spark.sql.warehouse.dir": warehouse}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


@contextlib.contextmanager
def running(kind: str, asked: Mapping[str, Any], folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Such a process, which is gone afterwards with all that it started; what it logs is in `folder`."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    with (folder / "session.log").open("a") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.kafka.history_session", kind],
            cwd=folder,
            env=environment | {"PYTHONPATH": str(ROOT), "SPARK_TESTING": "1", "PYSPARK_PYTHON": sys.executable},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    assert process.stdin is not None
    process.stdin.write(json.dumps(asked))
    process.stdin.close()
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def told(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The next line."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "the session ended; see its log"
    said: dict[str, Any] = json.loads(line)
    return said


def main() -> None:
    """Do as asked."""
    asked = json.load(sys.stdin)
    spark = session(sys.argv[1], asked["warehouse"])
    properties = client_properties.parse(asked.get("properties", ""))
    for step in asked["steps"]:
        say(DOES[step["do"]](spark, properties, **{key: value for key, value in step.items() if key != "do"}))


def read(spark: SparkSession, properties: Mapping[str, str], servers: str, to: str) -> Any:
    """The topic by Spark's Kafka source, into a folder of Parquet; and how its plan reads."""
    found = records_in_kafka(spark, servers, "live", properties)
    found.write.parquet(to)
    plans = spark_plans(found)
    return {"plans": plans}


def segments(spark: SparkSession, _: Mapping[str, str], place: str, to: str) -> Any:
    """Log segments, likewise; and what is damaged."""
    found = log_segments(spark, place, "live")
    found.records.write.parquet(to)
    return {"damaged": [row.asDict() for row in found.damaged.collect()]}


def stream(spark: SparkSession, properties: Mapping[str, str], servers: str, place: str, **more: Any) -> Any:
    """Follow until it ends, or until somebody ends this process."""
    say({"started": place})
    to_its_end(lambda: follow(spark, servers, "live", place, properties=properties, **more))
    return {"rows": stored(spark, place).count()}


def copy(spark: SparkSession, _: Mapping[str, str], place: str, to: str) -> Any:
    """What was followed so far, into a folder of Parquet."""
    stored(spark, place).write.parquet(to)
    return {}


def tell(spark: SparkSession, _: Mapping[str, str], place: str, to: str, groups: str, moments: list[str]) -> Any:
    """What records of groups whose names have that in them tell: every table into a folder of Parquet; the replay of
    what was in use; and the fleet of some moments."""
    named = F.contains(F.col("key"), F.lit(bytearray(groups.encode())))
    records = spark.read.parquet(place).where(named)
    history = History.read(records)
    history.decided().write.parquet(f"{to}/decided")
    history = history.with_decided(spark.read.parquet(f"{to}/decided"))
    for name in HISTORY_TABLES:
        getattr(history, name).write.parquet(f"{to}/{name}")
    again = replay(records, assignors=[])
    again.replayed.write.parquet(f"{to}/replayed")
    again.rejected.write.parquet(f"{to}/unreplayed")
    for number, moment in enumerate(moments):
        fleet = Fleet.at(history, moment)
        for name in ("groups", "members", "subscriptions", "owned_runs", "topics"):
            getattr(fleet, name).write.parquet(f"{to}/fleet-{number}/{name}")
    return {}


def stored(spark: SparkSession, place: str) -> DataFrame:
    """As users read it back."""
    return records_of(spark.read.parquet(place) if "/" in place else spark.table(place))


def spark_plans(frame: DataFrame) -> str:
    """All that `explain` says."""
    from io import StringIO

    with contextlib.redirect_stdout(StringIO()) as out:
        for mode in ("extended", "formatted", "cost"):
            frame.explain(mode=mode)
    return out.getvalue()


def say(what: Any) -> None:
    """A line for whoever asked."""
    print(json.dumps(what, default=str), flush=True)


DOES = {"read": read, "segments": segments, "stream": stream, "copy": copy, "tell": tell}

if __name__ == "__main__":
    main()
