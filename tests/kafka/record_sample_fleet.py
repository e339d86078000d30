"""Record conf/sample-fleet/ again: `python -m tests.kafka.record_sample_fleet` (two minutes, Java and Maven).

Three brokers in three racks, the topics and groups below with real Java consumers, joined in two waves, so
that sticky groups have a history; then the snapshot job. Names and counts are fixed, member ids are Kafka's.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

from kafka import KafkaProducer
from kafka.structs import OffsetAndMetadata, TopicPartition

from jobs import snapshot as snapshot_job
from tests.kafka import group_members, maven
from tests.kafka.broker import Cluster, cluster
from tests.kafka.group_members import Consumer
from tests.kafka.live_groups import create_topics

RACKS = ("use1-az1", "use1-az2", "use1-az4")
TARGET = Path(__file__).parents[2] / "conf" / "sample-fleet"

_TOPICS = """
orders: created 12 3, updated 12 3, cancelled 12 3, returns 6 3, dlq 3 2
payments: authorized 12 3, captured 12 3, refunded 6 3, chargebacks 3 3, ledger 16 3, dlq 1 2
clickstream: web 48 2, ios 24 2, android 24 2, sessions 32 2, bots 5 2
inventory: levels 9 3, reservations 9 3, adjustments 3 3
catalog: products 8 3, prices 8 3, media 4 3, reviews 6 3
search: queries 16 2, clicks 16 2
shipping: labels 6 3, tracking 10 3, exceptions 2 3
customers: profiles 8 3, consents 4 3, logins 12 3
notifications: email 6 3, push 6 3, sms 2 3
fraud: scores 7 3, signals 13 3
pricing: requests 5 3, results 5 3
billing: invoices 4 3, usage 20 3
audit: api 6 3, admin 2 3, access 8 3
metrics: jvm 18 2, hosts 18 2
experiments: exposures 11 2
"""
TOPICS = {
    f"{prefix}.{name}": (int(partitions), int(replicas))
    for prefix, _, listed in (line.partition(": ") for line in _TOPICS.strip().splitlines())
    for name, partitions, replicas in (each.split() for each in listed.split(", "))
}
"""Topic to its partitions and its replication factor."""

# Groups that once consumed and have no members now.
IDLE_GROUPS = {"nightly-export": ("orders.created", "payments.captured"), "legacy-importer": ("catalog.media",)}


def _team(group: str, topics: str, size: int, racks: str = "", **settings: str | None) -> list[Consumer]:
    """`size` like members; `racks` gives each its rack by position in RACKS (`-`: none), repeated."""
    return [
        Consumer(
            group,
            f"{group}-{number}",
            tuple(topics.split()),
            rack=RACKS[int(racks[number % len(racks)])] if racks and racks[number % len(racks)] != "-" else None,
            instance_id=f"{group}-{number}" if settings.get("static") else None,
            **{key: value for key, value in settings.items() if key != "static"},  # type: ignore[arg-type]
        )
        for number in range(size)
    ]


def _late(group: str, number: int, topics: str, **settings: str) -> Consumer:
    """A member that joins when the others have settled."""
    return Consumer(group, f"{group}-{number}", tuple(topics.split()), **settings)  # type: ignore[arg-type]


def _numbered(consumers: list[Consumer]) -> list[Consumer]:
    """Client ids unique inside a group that is put together from several teams."""
    numbers: defaultdict[str, Iterator[int]] = defaultdict(count)
    return [replace(each, client_id=f"{each.group}-{next(numbers[each.group])}") for each in consumers]


ORDERS, CAPTURED = "orders.created orders.updated orders.cancelled", "payments.authorized payments.captured"
INVENTORY, CATALOG = "inventory.levels inventory.reservations", "catalog.products catalog.prices catalog.reviews"
TEAMS = [
    *_team("orders-service", ORDERS, 5, "012", assignor="range"),
    *_team("payments-ledger", f"{CAPTURED} payments.ledger", 4, assignor="range", static="yes"),
    *_team("clickstream-sessionizer", "clickstream.web clickstream.ios clickstream.android", 7, assignor="roundrobin"),
    *_team("clickstream-archive", "clickstream.web clickstream.sessions", 2, assignor="roundrobin"),
    *_team("clickstream-archive", "clickstream.web clickstream.bots", 3, assignor="roundrobin"),
    *_team("fraud-detection", "fraud.signals payments.authorized customers.logins", 4, "01-", assignor="sticky"),
    *_team("inventory-projector", f"{INVENTORY} orders.created", 4, assignor="cooperative-sticky"),
    *_team("search-indexer", CATALOG, 4, "0122", assignor="cooperative-sticky", static="yes"),
    # Two replicas in three racks: the one thing that makes range look at racks.
    *_team("search-ranking", "search.queries search.clicks", 5, "01210", assignor="range"),
    *_team("notifications-email", "notifications.email orders.created", 3, assignor="range"),
    *_team("notifications-push", "notifications.push", 1, assignor="range"),
    *_team("notifications-push", "notifications.push shipping.tracking", 2, assignor="range"),
    *_team("recommendations-features", "search.clicks clickstream.sessions", 4, "012", protocol="consumer"),
    *_team("billing-aggregator", "billing.usage billing.invoices", 4, protocol="consumer", assignor="range"),
    *_team("audit-archiver", "", 3, assignor="roundrobin", regex="audit\\..*"),
    *_team("shipping-tracker", "shipping.labels shipping.tracking", 3, assignor="sticky"),
    *_team("shipping-tracker", "shipping.exceptions shipping.tracking", 1, assignor="sticky"),
    *_team("pricing-engine", "pricing.requests", 8, assignor="range"),
    *_team("metrics-rollup", "metrics.jvm metrics.hosts", 4, "012", assignor="cooperative-sticky"),
    *_team("data-quality", "customers.profiles customers.consents catalog.products", 4, "01-", assignor="range"),
]
WAVES = [
    _numbered(TEAMS),
    [
        _late("orders-service", 5, ORDERS, assignor="range", rack=RACKS[2]),
        _late("fraud-detection", 4, "fraud.signals fraud.scores", assignor="sticky"),
        _late("fraud-detection", 5, "fraud.signals customers.logins", assignor="sticky"),
        _late("inventory-projector", 4, "inventory.levels orders.created", assignor="cooperative-sticky"),
        _late("shipping-tracker", 4, "shipping.labels", assignor="sticky"),
        _late("metrics-rollup", 4, "metrics.jvm metrics.hosts", assignor="cooperative-sticky", rack=RACKS[1]),
        _late("recommendations-features", 4, "search.clicks", protocol="consumer", rack=RACKS[0]),
    ],
]


def record(target: Path) -> None:
    """Set the fleet up, wait until every group is settled, write the snapshot's csv files into `target`."""
    with cluster(maven.kafka_classpath(), RACKS) as started, contextlib.ExitStack() as members:
        print(f"brokers {started.bootstrap_servers}", file=sys.stderr)
        _fill(started)
        joined: Counter[str] = Counter()
        for wave in WAVES:
            members.enter_context(group_members.running(started, wave))
            joined.update(consumer.group for consumer in wave)
            group_members.wait_until_settled(started, joined)
            print(f"settled: {joined.total()} members in {len(joined)} groups", file=sys.stderr)
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "snapshot"
            arguments = ["--bootstrap-server", started.bootstrap_servers, "--cluster-name", "shop-prod"]
            if snapshot_job.main([*arguments, "--fleet-dir", str(folder), "--output-format", "csv"]) != 0:
                raise SystemExit(3)
            target.mkdir(parents=True, exist_ok=True)
            for file in folder.glob("cluster=shop-prod/taken=*/*"):
                shutil.copyfile(file, target / file.name)


def _fill(started: Cluster) -> None:
    """Topics, some records in them, and committed offsets a little behind the end for every group."""
    chance = random.Random(20261121)
    create_topics(started, TOPICS)
    ends: dict[tuple[str, int], int] = {}
    producer = KafkaProducer(bootstrap_servers=started.bootstrap_servers)
    for topic, (partitions, _) in TOPICS.items():
        busy = chance.randint(0, 30)
        for partition in range(partitions):
            ends[topic, partition] = busy and chance.randint(busy // 2, busy)
            for _ in range(ends[topic, partition]):
                producer.send(topic, b"x", partition=partition)
    producer.flush()
    producer.close()
    reading = {group: set(topics) for group, topics in IDLE_GROUPS.items()}
    for consumer in (each for wave in WAVES for each in wave):
        reading.setdefault(consumer.group, set()).update(consumer.topics)
    with started.admin() as admin:
        for group, topics in reading.items():
            behind = {key: chance.choice((0, 0, 1, 5, 20)) for key in ends if key[0] in topics}
            offsets = {TopicPartition(*k): OffsetAndMetadata(max(0, ends[k] - a), "", -1) for k, a in behind.items()}
            if offsets:
                admin.alter_group_offsets(group, offsets)
    print(f"filled: {len(TOPICS)} topics, {sum(ends.values())} records", file=sys.stderr)


if __name__ == "__main__":
    record(Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET)
