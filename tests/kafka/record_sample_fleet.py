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
from collections import Counter
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

# topic: (partitions, replication factor)
TOPICS = {
    "orders.created": (12, 3),
    "orders.updated": (12, 3),
    "orders.cancelled": (12, 3),
    "orders.returns": (6, 3),
    "orders.dlq": (3, 2),
    "payments.authorized": (12, 3),
    "payments.captured": (12, 3),
    "payments.refunded": (6, 3),
    "payments.chargebacks": (3, 3),
    "payments.ledger": (16, 3),
    "payments.dlq": (1, 2),
    "clickstream.web": (48, 2),
    "clickstream.ios": (24, 2),
    "clickstream.android": (24, 2),
    "clickstream.sessions": (32, 2),
    "clickstream.bots": (5, 2),
    "inventory.levels": (9, 3),
    "inventory.reservations": (9, 3),
    "inventory.adjustments": (3, 3),
    "catalog.products": (8, 3),
    "catalog.prices": (8, 3),
    "catalog.media": (4, 3),
    "catalog.reviews": (6, 3),
    "search.queries": (16, 2),
    "search.clicks": (16, 2),
    "shipping.labels": (6, 3),
    "shipping.tracking": (10, 3),
    "shipping.exceptions": (2, 3),
    "customers.profiles": (8, 3),
    "customers.consents": (4, 3),
    "customers.logins": (12, 3),
    "notifications.email": (6, 3),
    "notifications.push": (6, 3),
    "notifications.sms": (2, 3),
    "fraud.scores": (7, 3),
    "fraud.signals": (13, 3),
    "pricing.requests": (5, 3),
    "pricing.results": (5, 3),
    "billing.invoices": (4, 3),
    "billing.usage": (20, 3),
    "audit.api": (6, 3),
    "audit.admin": (2, 3),
    "audit.access": (8, 3),
    "metrics.jvm": (18, 2),
    "metrics.hosts": (18, 2),
    "experiments.exposures": (11, 2),
}
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


def _numbered(consumers: list[Consumer]) -> list[Consumer]:
    """Client ids unique inside a group that is put together from several teams."""
    seen: Counter[str] = Counter()
    numbered = []
    for each in consumers:
        numbered.append(Consumer(**{**vars(each), "client_id": f"{each.group}-{seen[each.group]}"}))
        seen[each.group] += 1
    return numbered


ORDERS = "orders.created orders.updated orders.cancelled"
TEAMS = [
    *_team("orders-service", ORDERS, 5, "012", assignor="range"),
    *_team(
        "payments-ledger",
        "payments.authorized payments.captured payments.ledger",
        4,
        assignor="range",
        static="yes",
    ),
    *_team("clickstream-sessionizer", "clickstream.web clickstream.ios clickstream.android", 7, assignor="roundrobin"),
    *_team("clickstream-archive", "clickstream.web clickstream.sessions", 2, assignor="roundrobin"),
    *_team("clickstream-archive", "clickstream.web clickstream.bots", 3, assignor="roundrobin"),
    *_team("fraud-detection", "fraud.signals payments.authorized customers.logins", 4, "01-", assignor="sticky"),
    *_team(
        "inventory-projector",
        "inventory.levels inventory.reservations orders.created",
        4,
        assignor="cooperative-sticky",
    ),
    *_team(
        "search-indexer",
        "catalog.products catalog.prices catalog.reviews",
        4,
        "0122",
        assignor="cooperative-sticky",
        static="yes",
    ),
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
        Consumer("orders-service", "orders-service-5", tuple(ORDERS.split()), "range", rack=RACKS[2]),
        Consumer("fraud-detection", "fraud-detection-4", ("fraud.signals", "fraud.scores"), "sticky"),
        Consumer("fraud-detection", "fraud-detection-5", ("fraud.signals", "customers.logins"), "sticky"),
        Consumer(
            "inventory-projector", "inventory-projector-4", ("inventory.levels", "orders.created"), "cooperative-sticky"
        ),
        Consumer("shipping-tracker", "shipping-tracker-4", ("shipping.labels",), "sticky"),
        Consumer(
            "metrics-rollup", "metrics-rollup-4", ("metrics.jvm", "metrics.hosts"), "cooperative-sticky", rack=RACKS[1]
        ),
        Consumer(
            "recommendations-features",
            "recommendations-features-4",
            ("search.clicks",),
            protocol="consumer",
            rack=RACKS[0],
        ),
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
            offsets = {
                TopicPartition(*key): OffsetAndMetadata(max(0, ends[key] - lag), "", -1) for key, lag in behind.items()
            }
            if offsets:
                admin.alter_group_offsets(group, offsets)
    print(f"filled: {len(TOPICS)} topics, {sum(ends.values())} records", file=sys.stderr)


if __name__ == "__main__":
    record(Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET)
