"""A Spark session with the Kafka source in a process of its own, because a session needs those jars when it starts.

`python -m tests.kafka.history_session classic|connect WAREHOUSE` starts the session, then runs the steps that it reads
from standard input, one line of JSON each, and prints the result of each step as one line of JSON.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from spark_assign.history.records import records_of
from spark_assign.sources.auth import properties as client_properties
from spark_assign.sources.kafka.log_segments import log_segments
from spark_assign.sources.kafka.offsets_topic import follow, records_in_kafka, to_its_end
from tests import conftest
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
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable -Xlog:all=warning:stderr",
}


def start_session(kind: str, warehouse: str) -> SparkSession:
    """Starts a session that has the sources for Kafka and Delta."""
    remote = kind == "connect"
    builder = SparkSession.builder.remote("local[2]") if remote else SparkSession.builder.master("local[2]")
    settings = SETTINGS | (conftest.CONNECT if remote else conftest.CLASSIC)
    jars = ",".join([*maven.kafka_source_jars(), *maven.delta_jars()])
    for key, value in {**settings, "spark.jars": jars, "spark.sql.warehouse.dir": warehouse}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


@dataclass(frozen=True)
class Session:
    """A running process, and the file that it logs to."""

    process: subprocess.Popen[str]
    log: Path

    def begin(self, step: str, **arguments: Any) -> None:
        """Starts a step without waiting for its end."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"step": step, **arguments}) + "\n")
        self.process.stdin.flush()

    def run(self, step: str, **arguments: Any) -> dict[str, Any]:
        """Runs a step and returns its result."""
        self.begin(step, **arguments)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the session ended in the step {step}:\n{self.log.read_text(errors='replace')[-3000:]}"
        result: dict[str, Any] = json.loads(line)
        return result

    def kill(self) -> None:
        """Kills the process and all processes that it started, unless that was done."""
        if self.process.returncode is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@contextlib.contextmanager
def running(kind: str, folder: Path) -> Iterator[Session]:
    """Runs a session in `folder` while the block runs, then kills its process and all processes that it started."""
    folder.mkdir(parents=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    with (folder / "session.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.kafka.history_session", kind, str(folder / "warehouse")],
            cwd=folder,
            env=environment | {"PYTHONPATH": str(ROOT), "SPARK_TESTING": "1", "PYSPARK_PYTHON": sys.executable},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    session = Session(process, folder / "session.log")
    try:
        yield session
    finally:
        session.kill()


def main() -> None:
    """Runs the steps that standard input names, until it ends."""
    spark = start_session(*sys.argv[1:])
    for line in sys.stdin:
        arguments = json.loads(line)
        print(json.dumps(STEPS[arguments.pop("step")](spark, **arguments), default=str), flush=True)


def read(spark: SparkSession, servers: str, to: str, properties: str = "") -> Any:
    """Writes what Spark's Kafka source reads into a folder of Parquet, and returns the text of its plans."""
    found = records_in_kafka(spark, servers, "live", client_properties.parse(properties))
    found.write.parquet(to)
    return {"plans": spark_plans(found)}


def segments(spark: SparkSession, location: str, to: str) -> Any:
    """Writes the records of log segments into a folder of Parquet, and returns what is damaged."""
    found = log_segments(spark, location, "live")
    found.records.write.parquet(to)
    return {"damaged": [row.asDict() for row in found.damaged.collect()]}


def stream(spark: SparkSession, servers: str, location: str, **options: Any) -> Any:
    """Follows the topic into a location until the query ends, and returns how many records are there then."""
    to_its_end(lambda: follow(spark, servers, "live", location, **options))
    return {"rows": stored(spark, location).count()}


def copy(spark: SparkSession, location: str, to: str) -> Any:
    """Writes all records of a location into a folder of Parquet."""
    stored(spark, location).write.parquet(to)
    return {}


def job(spark: SparkSession, arguments: list[str], name: str = "history") -> Any:
    """Runs a job in this session, and returns what it prints."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = import_module(f"jobs.{name}").main(arguments)
    assert SparkSession.getActiveSession() is spark
    return {"code": code, "printed": out.getvalue()}


def stored(spark: SparkSession, location: str) -> DataFrame:
    """Reads the records of a folder or a table as users do."""
    return records_of(spark.read.parquet(location) if "/" in location else spark.table(location))


def spark_plans(frame: DataFrame) -> str:
    """Returns the text of all plans that `explain` shows."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        for mode in ("extended", "formatted", "cost"):
            frame.explain(mode=mode)
    return out.getvalue()


STEPS = {
    "read": read,
    "segments": segments,
    "stream": stream,
    "copy": copy,
    "job": job,
}

if __name__ == "__main__":
    main()
