"""Predicted = actual for the time of throttled moves: 1.26 GB on real brokers, by the commands that `schedule` prints.

Each of two topics has three partitions, which move one after the other. The first two moves calibrate: their rates
agree within 10 %. The rate of the first one predicts the others within 10 %. Between two moves, the window of the
throttle passes: a time without copies that it still has makes the next move faster.
"""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from jobs import replicas as replicas_job
from jobs import snapshot as snapshot_job
from spark_assign import replicas
from spark_assign.replicas.batch_schedule import WINDOW_SECONDS
from spark_assign.sources.kafka.cluster_snapshot import snapshot
from tests.docs.pages import Step
from tests.frames import dataframe
from tests.kafka import broker as kafka_broker
from tests.kafka import documented, maven
from tests.kafka.broker import Cluster
from tests.kafka.live_groups import Row, create_topics, log_bytes, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.once]

THROTTLE = 5_000_000
PARTITIONS = 3
TOLERANCE = 0.10
SIZES = "cluster string, topic string, partition int, bytes long"


@dataclass(frozen=True)
class Move:
    """A batch of the schedule, and the seconds from when it was submitted until the new replica was in sync."""

    predicted: Row
    seconds: float

    @property
    def rate(self) -> float:
        """Bytes/s of its copy."""
        return float(self.predicted["copied_bytes"]) / self.seconds

    @property
    def middle(self) -> float:
        """The middle of the predicted range (s)."""
        return float(self.predicted["min_seconds"] + self.predicted["max_seconds"]) / 2


def _fill(broker: Cluster, topic: str, size: int, record_bytes: int) -> None:
    """Writes incompressible records with Kafka's performance test; a batch has 16 KiB, or a larger record."""
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", maven.applications_classpath()]
    command += ["org.apache.kafka.tools.ProducerPerformance", "--topic", topic, "--throughput", "-1"]
    command += ["--num-records", str(size // record_bytes), "--record-size", str(record_bytes)]
    command += ["--producer-props", f"bootstrap.servers={broker.bootstrap_servers}"]
    subprocess.run(command, check=True, capture_output=True)


def _plan(broker: Cluster, spark: SparkSession, topic: str) -> replicas.Reassignment:
    """All partitions leave broker 1; sizes are those of its logs."""
    taken = snapshot(broker.bootstrap_servers, groups="no-group", topics=topic)
    tables = {name: spark.createDataFrame(taken.tables[name]) for name in ("replicas", "brokers")}
    (cluster,) = {row["cluster"] for row in taken.tables["brokers"].to_pylist()}
    sizes = [(cluster, topic, partition, size) for (_, partition), size in log_bytes(broker, topic, [1]).items()]
    fleet = replicas.ReplicaFleet(tables["replicas"], tables["brokers"], dataframe(spark, SIZES, sizes))
    return replicas.reassign(fleet, replicas.ClusterChange.from_values(fleet, removed=[1]))


def _run(broker: Cluster, command: str, file: Path) -> str:
    """Runs a command of the schedule; returns its output."""
    return documented.run_tool(
        Step("schedule", 0, "sh", command), broker, {"BROKER:PORT": broker.bootstrap_servers, file.name: str(file)}
    )


def _carry_out(broker: Cluster, batch: Row, folder: Path) -> Move:
    """Runs both commands of a batch, and takes the time between them until the reassignment is complete."""
    time.sleep(WINDOW_SECONDS)
    (file,) = folder.rglob(batch["name"])
    assert "Successfully started" in _run(broker, batch["execute"], file)
    begin = time.monotonic()
    with broker.admin() as admin:
        wait_until(lambda: not admin.list_partition_reassignments(), batch["name"])
    wait_until(lambda: not any(log["is_future"] for log in _logs(broker)), batch["name"])
    seconds = time.monotonic() - begin
    assert "is completed" in _run(broker, batch["verify"], file)
    return Move(batch, seconds)


def _logs(broker: Cluster) -> list[Row]:
    taken = snapshot(broker.bootstrap_servers, groups="no-group", log_dirs=True)
    return [row for row in taken.tables["log_dir_replicas"].to_pylist() if row["topic"].startswith("throttled.")]


def _moves(
    broker: Cluster, spark: SparkSession, folder: Path, topic: str, size: int, record_bytes: int
) -> tuple[list[Move], list[float]]:
    """The moves of a topic, and for each the seconds that are predicted with the rate of the first one."""
    create_topics(broker, {topic: {each: [1] for each in range(PARTITIONS)}})
    _fill(broker, topic, size, record_bytes)
    plan = _plan(broker, spark, topic)
    replicas.write_tool_files(replicas.tool_files(plan, partitions_per_batch=1), str(folder))
    batches = replicas.schedule(plan, replicas.Bandwidth(THROTTLE), partitions_per_batch=1).orderBy("batch").collect()
    moves = [_carry_out(broker, row.asDict(), folder) for row in batches]
    measured = replicas.Bandwidth(THROTTLE, measured_rate=round(moves[0].rate))
    improved = replicas.schedule(plan, measured, partitions_per_batch=1).orderBy("batch").collect()
    plan.unpersist()
    for move, row in zip(moves, improved, strict=True):
        predicted = [move.predicted[name] for name in ("min_seconds", "max_seconds")]
        print(topic, f"{move.predicted['copied_bytes']:,} bytes", *predicted, row["max_seconds"], move.seconds)
    return moves, [row["max_seconds"] for row in improved]


def _is_near(predicted: float, actual: float) -> bool:
    return abs(predicted - actual) <= TOLERANCE * actual


def test_the_throttle_predicts_small_record_batches(broker: Cluster, spark: SparkSession, tmp_path: Path) -> None:
    """With the producer's default of 16 KiB: from the first move on, and with the rate of the first move."""
    moves, improved = _moves(broker, spark, tmp_path, "throttled.small", 750_000_000, 4_000)
    assert _is_near(moves[0].rate, moves[1].rate)
    assert all(_is_near(move.middle, move.seconds) for move in moves)
    assert all(_is_near(seconds, move.seconds) for seconds, move in zip(improved[1:], moves[1:], strict=True))


def test_the_measured_rate_predicts_large_record_batches(broker: Cluster, spark: SparkSession, tmp_path: Path) -> None:
    """Of each fetch of 1 MiB, a follower keeps one batch of 700 KB: only a measured rate predicts the time."""
    moves, improved = _moves(broker, spark, tmp_path, "throttled.large", 510_000_000, 700_000)
    assert _is_near(moves[0].rate, moves[1].rate)
    assert all(move.seconds > (1 + TOLERANCE) * move.predicted["max_seconds"] for move in moves)
    assert all(_is_near(seconds, move.seconds) for seconds, move in zip(improved[1:], moves[1:], strict=True))


@pytest.mark.usefixtures("spark")
def test_the_throttle_predicts_a_move_between_log_dirs(kafka_jars: str, tmp_path: Path) -> None:
    """Two topics have all bytes, in one of two directories; one of them moves within the range of the schedule."""
    with kafka_broker.cluster(kafka_jars, log_dirs=2) as broker:
        create_topics(broker, {f"throttled.{each}": {0: [1]} for each in range(4)})
        first, *others = _logs(broker)
        for log in (first, *(each for each in others if each["log_dir"] == first["log_dir"])):
            _fill(broker, log["topic"], 100_000_000, 4_000)
        plan, fleet = str(tmp_path / "plan"), str(tmp_path / "fleet")
        given = ["--bootstrap-server", broker.bootstrap_servers, "--log-dirs", "--fleet-dir", fleet]
        assert snapshot_job.main(given) == 0
        given = ["--balance", "log-dirs=0.3", "--capacity-threshold", "1", "--throttle", str(THROTTLE)]
        assert replicas_job.main(["reassign", "--fleet", fleet, *given, "--output", plan]) == 0
        [batch] = pq.read_table(tmp_path / "plan" / "schedule").to_pylist()
        assert batch["copied_bytes"] > 100_000_000
        move = _carry_out(broker, batch, tmp_path / "plan" / "json")
        print(f"{batch['copied_bytes']:,} bytes", batch["min_seconds"], batch["max_seconds"], move.seconds)
        assert _is_near(move.middle, move.seconds)
