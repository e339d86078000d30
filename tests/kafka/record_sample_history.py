"""Record conf/sample-history/ again: `python -m tests.kafka.record_sample_history` (five minutes, Java and Maven).

One broker, the groups below with real Java consumers and Connect workers that commit about every second, and what
happens to them in four minutes (`STORY`); then `__consumer_offsets` as it stands. Names and times are fixed, member ids
and offsets are Kafka's.
"""

from __future__ import annotations

import base64
import contextlib
import csv
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.structs import OffsetAndMetadata
from pyspark.sql.pandas.types import to_arrow_schema

from spark_assign.tables import history as tables
from tests.kafka import connect_workers, group_members, maven
from tests.kafka.broker import Cluster, cluster
from tests.kafka.group_members import Consumer
from tests.kafka.live_groups import create_topics, offsets_records

TARGET = Path(__file__).parents[2] / "conf" / "sample-history"
CLUSTER = "orders-eu"
TOPICS = {"orders.created": 6, "orders.updated": 4, "payments.captured": 6, "shipping.tracking": 4, "audit.access": 3}
RECORDS_A_SECOND = 40
LONG_S = 240


def _members(group: str, topics: str, count: int, **settings: Any) -> list[Consumer]:
    one = Consumer(group, "", tuple(topics.split()), commit_every_ms=1_000, **settings)
    return [replace(one, client_id=f"{group}-{number}") for number in range(count)]


# Eager, restarted one after the other.
ORDERS = _members("orders-service", "orders.created orders.updated", 3, assignor="range")
# Four that become two again.
INVENTORY = _members("inventory-projector", "orders.created", 4, assignor="cooperative-sticky")
# Static: who comes back in time is not missed.
LEDGER = [
    replace(each, instance_id=f"ledger-{number}")
    for number, each in enumerate(
        _members("payments-ledger", "payments.captured", 3, assignor="range", session_timeout_ms=30_000)
    )
]
# One of it is killed: nobody tells the coordinator.
FRAUD = _members("fraud-detection", "payments.captured", 3, assignor="sticky", session_timeout_ms=6_000)
# One of it takes longer for what it polled than it may, again and again.
PUSH = [
    *_members("notifications-push", "shipping.tracking", 2, assignor="range"),
    replace(_members("notifications-push", "shipping.tracking", 3, assignor="range")[2], max_poll_interval_ms=3_000),
]
# KIP-848; one joins, one leaves, one is killed.
FEATURES = _members("recommendations-features", "orders.updated shipping.tracking", 4, protocol="consumer")
# Share (KIP-932): has no commits.
RETURNS = _members("returns-workers", "orders.updated", 2, protocol="share")

RECORDS = to_arrow_schema(tables.RECORDS)
CONNECT, EXPORT, IMPORTER = "connect-orders", "nightly-export", "legacy-importer"

DOOMED = [FRAUD[2], FEATURES[2]]
LIVING = [*ORDERS, *INVENTORY[:2], *LEDGER, *FRAUD[:2], *PUSH, *FEATURES[:2], *RETURNS]
AUDIT = {"connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector", "tasks.max": "2"}


def record(target: Path) -> None:
    """Let the story happen, and write what the broker has of it into `target`."""
    with contextlib.ExitStack() as stack:
        started = stack.enter_context(cluster(maven.kafka_classpath()))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        admin = stack.enter_context(started.admin())
        create_topics(started, TOPICS)
        started.configure_group("recommendations-features", {"consumer.session.timeout.ms": "8000"})
        for group in ("recommendations-features", "returns-workers"):
            kind = "share" if group == "returns-workers" else "consumer"
            started.configure_group(group, {f"{kind}.heartbeat.interval.ms": "1000"})
        stack.enter_context(_filled(started))
        workers = stack.enter_context(connect_workers.running(started, folder, 2, CONNECT))
        sink = AUDIT | {"topics": "audit.access", "file": str(folder / "audit"), "name": "audit-to-disk"}
        workers.create("audit-to-disk", sink)
        doomed = stack.enter_context(group_members.running(started, DOOMED))
        _happens(_story(stack.enter_context(group_members.running(started, LIVING)), doomed, workers, admin))
        taken = _records(started)
        target.mkdir(parents=True, exist_ok=True)
        pq.write_table(taken, target / "records.parquet", compression="zstd", compression_level=19)
        _write_topics(started, target)
    print(f"{taken.num_rows} records, {sum(file.stat().st_size for file in target.iterdir())} bytes", file=sys.stderr)


def _story(living: Any, doomed: Any, workers: connect_workers.ConnectCluster, admin: KafkaAdminClient) -> list[Any]:
    """(second, what is done then), in order."""

    def start(*consumers: Consumer) -> Callable[[], None]:
        return lambda: group_members.start(living, consumers)

    def leave(*consumers: Consumer) -> Callable[[], None]:
        return lambda: group_members.leave(living, consumers)

    def order(command: str, *consumers: Consumer) -> Callable[[], None]:
        return lambda: group_members.order(living, command, consumers)

    def commit(group: str, topic: str, offset: int) -> Callable[[], None]:
        offsets = {TopicPartition(topic, each): OffsetAndMetadata(offset, "", -1) for each in range(TOPICS[topic])}
        return lambda: admin.alter_group_offsets(group, offsets) and None

    def forget(group: str) -> Callable[[], None]:
        return lambda: admin.delete_groups([group]) and None

    rolling = [(70 + 14 * at, leave(each)) for at, each in enumerate(ORDERS)]
    rolling += [(74 + 14 * at, start(each)) for at, each in enumerate(ORDERS)]
    static = [(120 + 10 * at, leave(each)) for at, each in enumerate(LEDGER)]
    static += [(124 + 10 * at, start(each)) for at, each in enumerate(LEDGER)]
    flapping = [(at, order("pause", PUSH[2])) for at in range(60, 235, 14)]
    flapping += [(at + 7, order("resume", PUSH[2])) for at in range(60, 235, 14)]
    export = [(at, commit(EXPORT, "orders.created", 5 * at)) for at in range(20, 240, 20)]
    scaled = [(50, start(INVENTORY[2])), (55, start(INVENTORY[3]))]
    scaled += [(180, leave(INVENTORY[3])), (186, leave(INVENTORY[2])), (110, leave(RETURNS[1]))]
    scaled += [(65, start(FEATURES[3])), (150, leave(FEATURES[0])), (200, leave(*ORDERS)), (212, start(*ORDERS))]
    killed = [(100, doomed.kill), (140, start(FRAUD[2])), (145, start(FEATURES[2]))]
    imported = [(30, commit(IMPORTER, "audit.access", 7)), (160, forget(IMPORTER))]
    of_workers = [(80, lambda: workers.start(1) and None), (170, lambda: workers.stop(workers.workers[0]))]
    every = [*rolling, *static, *flapping, *export, *scaled, *killed, *imported, *of_workers, (LONG_S, lambda: None)]
    return sorted(every, key=lambda step: step[0])


def _happens(story: Iterable[tuple[int, Callable[[], None]]]) -> None:
    began = time.monotonic()
    for second, done in story:
        time.sleep(max(0.0, began + second - time.monotonic()))
        done()
    print(f"the story took {time.monotonic() - began:.0f} s", file=sys.stderr)


@contextlib.contextmanager
def _filled(started: Cluster) -> Iterator[None]:
    """Records come in while the block runs, so that committed offsets go on."""
    over = threading.Event()
    chance = random.Random(20261123)
    partitions = [(topic, partition) for topic, count in TOPICS.items() for partition in range(count)]

    def send() -> None:
        with contextlib.closing(KafkaProducer(bootstrap_servers=started.bootstrap_servers)) as producer:
            while not over.wait(1 / RECORDS_A_SECOND):
                topic, partition = chance.choice(partitions)
                producer.send(topic, b"x", partition=partition)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _records(started: Cluster) -> pa.Table:
    """`__consumer_offsets` from its beginning to its end."""
    rows = sorted(offsets_records(started), key=lambda row: row[1:3])
    columns = zip(*((CLUSTER, *row[1:]) for row in rows), strict=True)
    return pa.table([pa.array(values, field.type) for values, field in zip(columns, RECORDS, strict=True)], RECORDS)


def _write_topics(started: Cluster, target: Path) -> None:
    with started.admin() as admin:
        uuids = {each["name"]: UUID(str(each["topic_id"])) for each in admin.describe_topics(list(TOPICS))}
    ids = {name: base64.urlsafe_b64encode(uuid.bytes).decode().rstrip("=") for name, uuid in uuids.items()}
    _write(
        target / "topics.csv",
        ("cluster", "topic", "partitions", "topic_id"),
        [(CLUSTER, topic, count, ids[topic]) for topic, count in sorted(TOPICS.items())],
    )
    partitions = [TopicPartition(topic, each) for topic, count in sorted(TOPICS.items()) for each in range(count)]
    with contextlib.closing(KafkaConsumer(bootstrap_servers=started.bootstrap_servers)) as consumer:
        ends = consumer.end_offsets(partitions)
    _write(
        target / "end_offsets.csv",
        ("cluster", "topic", "partition", "end_offset"),
        [(CLUSTER, each.topic, each.partition, ends[each]) for each in partitions],
    )


def _write(file: Path, header: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> None:
    with file.open("w", newline="") as out:
        writer = csv.writer(out, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


if __name__ == "__main__":
    record(Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET)
