"""Consumers of a limited speed on a live cluster: what `size` measures and says, and whether it is so.

Six partitions get messages at skewed rates. Five consumers are too few for range, as one of them has the two hottest;
its lag grows. With as many as `size` says, nobody's does.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.structs import TopicPartition
from pyspark.sql import SparkSession

from spark_assign import Fleet, plan
from spark_assign.advice import SizingParams, size_groups
from spark_assign.sources.files import snapshot_files
from spark_assign.sources.files.snapshot import Snapshot
from spark_assign.sources.kafka.cluster_snapshot import snapshot
from spark_assign.sources.kafka.loads import LoadReadOptions
from tests.kafka.broker import Cluster
from tests.kafka.live_groups import create_topics, wait_until
from tests.slices import partitions

pytestmark = pytest.mark.kafka

TOPIC, GROUP = "sz.skewed", "sz-limited"
RATES = (160, 80, 40, 40, 40, 40)
"""Messages a second."""
CAPACITY = 200
"""Messages a second that a consumer handles at most."""
BACKLOG = 3_000
UNDER_PROVISIONED, RIGHT_SIZED = 5, 6
SETTLED_S = 180


@dataclass
class Limited:
    """A consumer that handles no more than `CAPACITY` messages a second, in a thread of its own."""

    broker: Cluster
    stopped: threading.Event = field(default_factory=threading.Event)
    has: frozenset[int] = frozenset()

    def start(self) -> threading.Thread:
        """Join the group."""
        thread = threading.Thread(target=self.work, daemon=True)
        thread.start()
        return thread

    def work(self) -> None:
        """Poll as fast as allowed; what is not used up is not saved up."""
        consumer = KafkaConsumer(
            TOPIC,
            bootstrap_servers=self.broker.bootstrap_servers,
            group_id=GROUP,
            partition_assignment_strategy=[RangePartitionAssignor],
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=500,
        )
        budget, before = 0.0, time.monotonic()
        while not self.stopped.wait(0.02):
            now = time.monotonic()
            budget, before = min(budget + (now - before) * CAPACITY, CAPACITY / 4), now
            taken = sum(map(len, consumer.poll(timeout_ms=200, max_records=max(int(budget), 1)).values()))
            budget -= taken
            self.has = frozenset(each.partition for each in consumer.assignment())
            if taken:
                consumer.commit_async()
        consumer.close(autocommit=False)


def produce(broker: Cluster, partition: int, rate: float, stopped: threading.Event) -> None:
    """So many a second, by the clock."""
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, linger_ms=20)
    begun, sent = time.monotonic(), 0
    while not stopped.wait(max(begun + sent / rate - time.monotonic(), 0.02)):
        for _ in range(int((time.monotonic() - begun) * rate) - sent):
            producer.send(TOPIC, b"x", partition=partition)
            sent += 1
    producer.close()


@contextmanager
def producing(broker: Cluster) -> Iterator[None]:
    """A backlog, and messages at `RATES` for as long as the block lasts."""
    create_topics(broker, {TOPIC: len(RATES)})
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, linger_ms=20)
    for nth in range(BACKLOG):
        producer.send(TOPIC, b"x", partition=nth % 2)
    producer.close()
    stopped = threading.Event()
    threads = [threading.Thread(target=produce, args=(broker, p, r, stopped), daemon=True) for p, r in enumerate(RATES)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopped.set()
        for thread in threads:
            thread.join()


def wait_until_settled(consumers: list[Limited]) -> None:
    """Everybody has what it gets, and nobody shares."""

    def has() -> list[frozenset[int]]:
        return [each.has for each in consumers]

    every = list(range(len(RATES)))
    wait_until(lambda: all(has()) and sorted(itertools.chain(*has())) == every, has, SETTLED_S)


def read(broker: Cluster) -> Snapshot:
    """Three readings in ten seconds."""
    return snapshot(broker.bootstrap_servers, groups=GROUP, topics=TOPIC, loads=LoadReadOptions(every_s=5, times=3))


def lags(taken: Snapshot) -> tuple[int, int]:
    """Of all partitions together, at the first reading and at the last."""
    first = sum(row["lag"] for row in taken.tables["offsets"].to_pylist())
    return first, sum(row["lag"] for row in taken.tables["loads"].to_pylist() if row["group_id"])


@pytest.fixture(scope="module")
def traffic(broker: Cluster) -> Iterator[None]:
    """Producers for all tests here."""
    with producing(broker):
        yield


@pytest.fixture(scope="module")
def taken(broker: Cluster, traffic: None) -> tuple[Snapshot, Snapshot]:
    """With too few consumers, and with one more."""
    consumers = [Limited(broker) for _ in range(RIGHT_SIZED)]
    threads = [each.start() for each in consumers[:UNDER_PROVISIONED]]
    try:
        wait_until_settled(consumers[:UNDER_PROVISIONED])
        before = read(broker)
        threads += [each.start() for each in consumers[UNDER_PROVISIONED:]]
        wait_until_settled(consumers)
        return before, read(broker)
    finally:
        for each in consumers:
            each.stopped.set()
        for thread in threads:
            thread.join()


@pytest.fixture
def fleet(taken: tuple[Snapshot, Snapshot], spark: SparkSession, tmp_path: Path) -> Fleet:
    """As it is with too few."""
    (home,) = snapshot_files.write_folder(taken[0], tmp_path)
    return Fleet.read(spark, str(home))


def test_with_as_many_as_it_says_lag_does_not_grow(taken: tuple[Snapshot, Snapshot], fleet: Fleet) -> None:
    """And with one less it does, by what the most loaded consumer cannot read."""
    [sizing] = size_groups(fleet, SizingParams(["range"], headroom=0, quantile=0.5)).sizes.collect()
    assert sizing["members"] == UNDER_PROVISIONED
    assert sizing["capacity_source"] == "measured"
    assert sizing["capacity"] == pytest.approx(CAPACITY, rel=0.1)
    assert sizing["max_load"] == pytest.approx(RATES[0] + RATES[1], rel=0.1)
    assert (sizing["verdict"], sizing["needed"]) == ("under-provisioned", RIGHT_SIZED), sizing["reason"]
    first, last = lags(taken[0])
    assert last - first == pytest.approx((RATES[0] + RATES[1] - CAPACITY) * 10, rel=0.4)
    first, last = lags(taken[1])
    assert last < first


def test_what_is_planned_by_load_is_what_consumers_get(broker: Cluster, traffic: None, fleet: Fleet) -> None:
    """Three consumers with what weighted-sticky gives them, by hand: each reads as much as predicted."""
    fewer = fleet.with_members_left(group_id=GROUP, count=UNDER_PROVISIONED - 3)
    planned = plan(fewer, "weighted-sticky")
    given: dict[str, list[int]] = {}
    for row in planned.target.collect():
        given.setdefault(row["member_id"], []).extend(partitions(row))
    assert sorted(part for parts in given.values() for part in parts) == list(range(len(RATES)))
    [metrics] = planned.metrics.select("members", "load_max_over_mean").collect()
    [by_range] = plan(fewer, "range").metrics.select("load_max_over_mean").collect()
    assert metrics["members"] == len(given) == 3
    assert metrics["load_max_over_mean"] < by_range["load_max_over_mean"]
    read_of = count(broker, given, 8)
    for member, parts in given.items():
        assert read_of[member] == pytest.approx(8 * sum(RATES[part] for part in parts), rel=0.1)


def count(broker: Cluster, given: dict[str, list[int]], seconds: float) -> dict[str, int]:
    """What consumers of these partitions read in so many seconds."""
    found: dict[str, int] = {}

    def work(member: str) -> None:
        consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers)
        parts = [TopicPartition(TOPIC, part) for part in given[member]]
        consumer.assign(parts)
        for part, offset in consumer.end_offsets(parts).items():
            consumer.seek(part, offset)
        taken, stop = 0, time.monotonic() + seconds
        while (left := stop - time.monotonic()) > 0:
            taken += sum(map(len, consumer.poll(timeout_ms=int(left * 1000)).values()))
        found[member] = taken
        consumer.close()

    threads = [threading.Thread(target=work, args=(member,), daemon=True) for member in given]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found
