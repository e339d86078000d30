"""Loads of a live cluster with producers of known rates and a slow consumer: by readings, timestamps, two snapshots."""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import OffsetAndMetadata, TopicPartition
from pyspark.sql import SparkSession

from spark_assign import Fleet, SparkAssignError
from spark_assign.advice.kernel.unused import group_commands, topic_commands
from spark_assign.sources.files import snapshot_files
from spark_assign.sources.files.snapshot import Snapshot
from spark_assign.sources.files.snapshot_offsets import Offsets, loads_between
from spark_assign.sources.kafka import loads as kafka_log_dirs
from spark_assign.sources.kafka.cluster_snapshot import snapshot
from spark_assign.sources.kafka.loads import LoadReadOptions
from tests.kafka import documented, java_programs, maven
from tests.kafka.broker import Cluster
from tests.kafka.live_groups import PATIENCE_S, create_topics, wait_until

pytestmark = pytest.mark.kafka

VALUE = b"x" * 1000
SENT = {0: 50, 1: 10}
"""Messages a second to the partitions of `rd.hot`; nothing to the third one."""
READ = 20
"""Messages a second that the slow consumer takes from the first partition."""
EVERY_S, TIMES = 4.0, 3
HOUR_MS = 3_600_000
RATES = ("in_messages_per_second", "in_messages_per_second_stddev", "in_bytes_per_second")


@dataclass
class Traffic:
    """Who produces and consumes, until told to stop. All begin when each has sent or read a message."""

    broker: Cluster
    at_work: threading.Barrier = field(default_factory=lambda: threading.Barrier(len(SENT) + 2))
    stopped: threading.Event = field(default_factory=threading.Event)
    threads: list[threading.Thread] = field(default_factory=list)

    def run(self, target: Any, *arguments: Any) -> None:
        """In a thread of its own."""
        self.threads.append(threading.Thread(target=target, args=arguments, daemon=True))
        self.threads[-1].start()

    def produce(self, partition: int, rate: float) -> None:
        """So many a second, by the clock: what comes late is caught up."""
        producer = KafkaProducer(bootstrap_servers=self.broker.bootstrap_servers)
        producer.send("rd.hot", VALUE, partition=partition).get(PATIENCE_S)
        self.at_work.wait()
        begun, sent = time.monotonic(), 0
        while not self.stopped.wait(max(begun + sent / rate - time.monotonic(), 0)):
            producer.send("rd.hot", VALUE, partition=partition)
            sent += 1
        producer.close()

    def consume(self) -> None:
        """Poll, and commit what a slow consumer has handled by now."""
        at = TopicPartition("rd.hot", 0)
        consumer = KafkaConsumer(
            bootstrap_servers=self.broker.bootstrap_servers,
            group_id="rd-slow",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        consumer.assign([at])
        while not self.stopped.is_set() and not consumer.poll(timeout_ms=100, max_records=1):
            pass
        consumer.commit({at: OffsetAndMetadata(1, "", -1)})
        self.at_work.wait()
        begun, taken = time.monotonic(), 1
        while not self.stopped.wait(0.1):
            due = int((time.monotonic() - begun) * READ) - taken
            if due > 0:
                taken += sum(map(len, consumer.poll(timeout_ms=100, max_records=due).values()))
                consumer.commit({at: OffsetAndMetadata(taken, "", -1)})
        consumer.close(autocommit=False)


@contextmanager
def running(broker: Cluster) -> Iterator[Traffic]:
    """Producers and the consumer, all at work, for as long as the block lasts."""
    traffic = Traffic(broker)
    for partition, rate in SENT.items():
        traffic.run(traffic.produce, partition, rate)
    traffic.run(traffic.consume)
    try:
        traffic.at_work.wait(PATIENCE_S)
        yield traffic
    finally:
        traffic.stopped.set()
        for thread in traffic.threads:
            thread.join()


def commit(broker: Cluster, group: str, offset: int) -> None:
    """Of a group without members, on `rd.still`."""
    with broker.admin() as admin:
        admin.alter_group_offsets(group, {TopicPartition("rd.still", 0): OffsetAndMetadata(offset, "", -1)})


def make(broker: Cluster, topic: str, messages: int, timestamp_ms: int | None = None) -> None:
    """A topic of one partition with so many messages."""
    create_topics(broker, {topic: 1})
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    for _ in range(messages):
        producer.send(topic, VALUE, partition=0, timestamp_ms=timestamp_ms)
    producer.close()


@dataclass(frozen=True)
class Taken:
    """Three snapshots of the same traffic, one after the other, and what was said while the first was read."""

    readings: Snapshot
    since: Snapshot
    after: Snapshot
    messages: list[str]


@pytest.fixture(scope="module")
def taken(broker: Cluster) -> Taken:
    create_topics(broker, {"rd.hot": (3, 2)})
    now_ms = int(time.time() * 1000)
    make(broker, "rd.still", 9, now_ms - HOUR_MS)
    make(broker, "rd.ahead", 3, now_ms + HOUR_MS)
    make(broker, "rd.empty", 0)
    make(broker, "rd.anew", 5)
    commit(broker, "rd-still", 4)
    commit(broker, "rd-reset", 7)

    messages: list[str] = []

    def reported(message: str) -> None:
        """Before the second reading, a topic is made anew and grows beyond what it was, and a group is reset."""
        messages.append(message)
        if message != f"reading 2 of {TIMES}":
            return
        with broker.admin() as admin:
            admin.delete_topics(["rd.anew"])
            wait_until(lambda: "rd.anew" not in admin.list_topics(), "the topic is deleted", every_s=0.1)
        make(broker, "rd.anew", 8)
        commit(broker, "rd-reset", 2)

    chosen: dict[str, Any] = {"groups": "rd-*", "topics": "rd.*"}
    with running(broker):
        loads = LoadReadOptions(every_s=EVERY_S, times=TIMES)
        readings = snapshot(broker.bootstrap_servers, loads=loads, progress=reported, **chosen)
        since = snapshot(broker.bootstrap_servers, loads=LoadReadOptions(since_s=8), **chosen)
    after = snapshot(broker.bootstrap_servers, **chosen)
    return Taken(readings, since, after, messages)


def loads_of(taken: Snapshot) -> dict[tuple[str, int, str | None], dict[str, Any]]:
    """By topic, partition and group."""
    rows = taken.tables["loads"].to_pylist()
    found = {(row["topic"], row["partition"], row["group_id"]): row for row in rows}
    assert len(found) == len(rows)
    return found


def test_what_was_sent_between_readings(taken: Taken) -> None:
    """Something came in and went out, of messages of this size; nothing in a partition without traffic."""
    loads = loads_of(taken.readings)
    for partition in SENT:
        row = loads["rd.hot", partition, None]
        assert row["in_messages_per_second"] > 0
        assert row["in_messages_per_second_stddev"] >= 0
        assert 1 < row["in_bytes_per_second"] / (row["in_messages_per_second"] * len(VALUE)) < 1.25
        assert row["out_messages_per_second"] is None
        assert row["lag"] is None
    for key in (("rd.hot", 2, None), ("rd.still", 0, None), ("rd.empty", 0, None)):
        assert [loads[key][name] for name in RATES] == [0, 0, 0]
    slow = loads["rd.hot", 0, "rd-slow"]
    assert slow["out_messages_per_second"] > 0
    assert [slow[name] for name in RATES] == [None, None, None]
    assert f"reading {TIMES} of {TIMES}" in taken.messages


def test_lag_is_that_of_the_last_reading(taken: Taken) -> None:
    """Exact where nothing moves; `tests/kafka/clock` has what grows."""
    still = loads_of(taken.readings)["rd.still", 0, "rd-still"]
    assert (still["lag"], still["out_messages_per_second"]) == (5, 0)


def test_resets_and_topics_recreated(taken: Taken) -> None:
    """No rate, although the topic has more messages than before; the lag is as it is."""
    loads = loads_of(taken.readings)
    assert [loads["rd.anew", 0, None][name] for name in RATES] == [None] * 3
    reset = loads["rd.still", 0, "rd-reset"]
    assert (reset["out_messages_per_second"], reset["lag"]) == (None, 7)


def test_by_timestamps(taken: Taken) -> None:
    """One reading: what was written in the last seconds; nothing where records are ahead of the clock."""
    loads = loads_of(taken.since)
    for partition in SENT:
        assert loads["rd.hot", partition, None]["in_messages_per_second"] > 0
    assert {
        topic: loads[topic, 0, None]["in_messages_per_second"] for topic in ("rd.still", "rd.empty", "rd.ahead")
    } == {"rd.still": 0, "rd.empty": 0, "rd.ahead": None}
    row = loads["rd.still", 0, "rd-still"]
    assert (row["lag"], row["out_messages_per_second"]) == (5, None)
    assert all(
        row[name] is None
        for row in loads.values()
        for name in ("in_messages_per_second_stddev", "in_bytes_per_second", "out_messages_per_second")
    )


def test_a_snapshot_without_readings_has_no_loads(taken: Taken) -> None:
    """The table is not there, rather than empty."""
    assert "loads" not in taken.after.tables


def test_between_two_snapshots(taken: Taken, spark: SparkSession, tmp_path: Path) -> None:
    """As files, read back: rates over the time between; the wrong order is told."""
    for name in ("readings", "since"):
        snapshot_files.write_folder(getattr(taken, name), tmp_path / name)
    loads = Fleet.read(spark, str(tmp_path / "readings")).loads
    assert loads is not None
    assert sorted((row.asDict() for row in loads.collect()), key=str) == sorted(
        loads_of(taken.readings).values(), key=str
    )
    before, after = (Offsets.read(spark, str(tmp_path / name)) for name in ("readings", "since"))
    rows = [row.asDict() for row in loads_between(before, after).collect()]
    found = {(row["topic"], row["partition"], row["group_id"]): row for row in rows}
    assert found["rd.hot", 0, None]["in_messages_per_second"] > 0
    slow = found["rd.hot", 0, "rd-slow"]
    assert slow["out_messages_per_second"] > 0
    assert slow["lag"] == loads_of(taken.since)["rd.hot", 0, "rd-slow"]["lag"]
    assert (
        found["rd.still", 0, "rd-reset"]["out_messages_per_second"],
        found["rd.still", 0, None]["in_messages_per_second"],
    ) == (None, 0)
    with pytest.raises(SparkAssignError, match=r"the earlier one was taken at .*, the later one at .*Swap them"):
        loads_between(after, before)


def test_brokers_that_do_not_tell_sizes(broker: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A word, no bytes, and everything else."""
    monkeypatch.setattr(kafka_log_dirs.kafka_connection, "no_sizes_reason", lambda _: "no reason")
    messages: list[str] = []
    some = snapshot(
        broker.bootstrap_servers,
        topics="rd.still",
        groups="rd-still",
        loads=LoadReadOptions(0.2, 2),
        progress=messages.append,
    )
    row = loads_of(some)["rd.still", 0, None]
    assert (row["in_bytes_per_second"], row["in_messages_per_second"]) == (None, 0)
    lines = [line for line in messages if line.startswith("bytes are not known")]
    assert [re.sub(r"\d", "N", line) for line in lines] == [
        "bytes are not known of what these brokers lead: N (no reason)"
    ]


def test_the_documented_commands(broker: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With less time between the readings."""
    monkeypatch.chdir(tmp_path)
    for step in documented.steps("test_readings"):
        seen = documented.run_job(step, broker, {"60s": "1s", "10m": "5s"})
        assert any(" loads" in line.text for line in seen.lines), seen


def test_ends_sizes_and_policies_of_all_partitions(taken: Taken) -> None:
    """Also of topics without a group; sizes only with readings."""
    ends = {(row["topic"], row["partition"]): row["end_offset"] for row in taken.after.tables["replicas"].to_pylist()}
    assert [ends[topic, 0] for topic in ("rd.still", "rd.ahead", "rd.empty", "rd.anew")] == [9, 3, 0, 8]
    sizes = {row["topic"]: row["bytes"] for row in taken.readings.tables["replicas"].to_pylist()}
    assert (sizes["rd.still"] > 9 * len(VALUE), sizes["rd.empty"]) == (True, 0)
    assert {row["bytes"] for row in taken.after.tables["replicas"].to_pylist()} == {None}
    assert {row["cleanup_policy"] for row in taken.after.tables["topics"].to_pylist()} == {"delete"}


def test_commands_that_remove(broker: Cluster, taken: Taken, tmp_path: Path) -> None:
    """Kafka's tools, in a shell: a group is saved, deleted, and restored; a topic is deleted, and none like it."""
    classes = maven.applications_classpath()
    for name in ("kafka-topics.sh", "kafka-consumer-groups.sh"):
        words = " ".join(
            [*java_programs.SHORT_LIVED, "-cp", f"'{classes}'", f"org.apache.kafka.tools.{documented.TOOLS[name]}"]
        )
        (tmp_path / name).write_text(f'#!/bin/sh\nexec java {words} "$@"\n')
        (tmp_path / name).chmod(0o755)
    given = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "BOOTSTRAP_SERVERS": broker.bootstrap_servers}

    def run(*lines: str) -> None:
        done = subprocess.run(
            ["bash", "-ec", "\n".join(lines)], cwd=tmp_path, env=os.environ | given, capture_output=True
        )
        assert done.returncode == 0, done

    def offsets() -> list[int]:
        tables = snapshot(broker.bootstrap_servers, groups="rd it's").tables
        return [row["committed_offset"] for row in tables["offsets"].to_pylist()]

    commit(broker, "rd it's", 3)
    assert offsets() == [3]
    commands = group_commands("c", "rd it's", "classic")
    run(*commands)
    assert offsets() == []
    run(f"kafka-consumer-groups.sh --bootstrap-server $BOOTSTRAP_SERVERS {commands[-1].partition('# undo: ')[2]}")
    assert offsets() == [3]
    make(broker, "rd.x.y", 0)
    make(broker, "rd.xay", 0)
    run(*(line.removeprefix("# ") for line in topic_commands("rd.x.y") if "topics.sh" in line and "--delete" in line))
    with broker.admin() as admin:
        assert {"rd.x.y", "rd.xay"} & set(admin.list_topics()) == {"rd.xay"}
