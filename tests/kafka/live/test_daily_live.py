"""`daily` on three Kafka clusters of one broker each: after a scripted night of real consumers, and after a second
one, in which the recommended setting is applied, and a cluster is down.

    eu   orders    a deployment: its three members restart one after the other
    us   payments  a crash: one of two members is killed
         alerts    flapping: a member joins and leaves six times
    ap   audit, billing    the broker restarts
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from subprocess import Popen
from threading import Event
from typing import Any

import jsonschema
import pyarrow.parquet as pq
import pyspark
import pytest
from kafka import KafkaProducer

from spark_assign.report.daily import STATIC_MEMBERS
from tests.kafka import broker as kafka_broker
from tests.kafka import group_members, history_session, maven
from tests.kafka.broker import Cluster
from tests.kafka.coordinator_log import Line, generations
from tests.kafka.group_members import Consumer, leave, start, wait_until_settled
from tests.kafka.live_groups import create_topics, wait_until
from tests.unit.test_printed import SCHEMA

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

COMMIT_GAP_S, DEPLOY_GAP_S = 3, 25
DOWN_S = 8
"""How long a member of the deployment is away."""
QUIET_S = DEPLOY_GAP_S + 5
"""Without rebalances before a night, so that its events aren't part of what came before."""
CYCLES = 6

ONE = Consumer("orders", "orders-0", ("t",), "range", follow=True, commit_every_ms=500, revoking_ms=3000)
ORDERS = [replace(ONE, client_id=f"orders-{number}") for number in range(3)]
PAYMENTS = [
    Consumer("payments", f"payments-{number}", ("t",), "range", commit_every_ms=500, session_timeout_ms=15_000)
    for number in range(2)
]
ALERTS = [
    Consumer("alerts", f"alerts-{number}", ("t",), "range", commit_every_ms=500, heartbeat_interval_ms=500)
    for number in range(2)
]
AP = [
    Consumer(group, f"{group}-0", (topic,), "range", commit_every_ms=500)
    for group, topic in (("audit", "t"), ("billing", "u"))
]
"""They read different topics: groups that read the same one and stop at the same time can lack records to read."""
EVENTS = {
    ("eu", "orders"): "rolling-restart",
    ("us", "payments"): "crash",
    ("us", "alerts"): "flapping",
    ("ap", "audit"): "outage",
    ("ap", "billing"): "outage",
}


@dataclass
class World:
    """The clusters by name, how to stop each, the processes with members, and a folder."""

    clusters: dict[str, Cluster]
    stacks: dict[str, contextlib.ExitStack]
    members: dict[str, Popen[str]]
    folder: Path

    def settle(self, name: str, groups: Mapping[str, int]) -> None:
        """Waits until the groups of a cluster have these members."""
        wait_until_settled(self.clusters[name], groups)

    def reported(self, client_id: str, event: str, since_ms: float) -> bool:
        """Whether a member of `orders` has reported an event since a time."""
        lines = (self.folder / "orders.jsonl").read_text().splitlines()
        rows = (json.loads(line) for line in lines if line.endswith("}"))
        return any((row["client_id"], row["event"]) == (client_id, event) and row["at_ms"] >= since_ms for row in rows)

    def deploy(self, before: list[Consumer], after: list[Consumer]) -> None:
        """Restarts members of `orders` one after the other; returns when all own their partitions."""
        for old, new in zip(before, after, strict=True):
            stopped_ms = time.time() * 1000
            leave(self.members["eu"], [old])
            wait_until(
                lambda old=old, at=stopped_ms: self.reported(old.client_id, "closed", at), f"{old} doesn't close"
            )
            time.sleep(DOWN_S)
            started_ms = time.time() * 1000
            start(self.members["eu"], [new])
            wait_until(
                lambda new=new, at=started_ms: self.reported(new.client_id, "assigned", at), f"{new} gets nothing"
            )
            self.settle("eu", {"orders": len(after)})

    def replace(self, before: list[Consumer], after: list[Consumer]) -> None:
        """Stops all members of `orders`, and starts others."""
        stopped_ms = time.time() * 1000
        leave(self.members["eu"], before)
        wait_until(lambda: all(self.reported(each.client_id, "closed", stopped_ms) for each in before), "nobody closes")
        start(self.members["eu"], after)
        self.settle("eu", {"orders": len(after)})

    def crash_and_flap(self) -> None:
        """Kills a member of `payments`; lets one of `alerts` join and leave."""
        us = self.clusters["us"]
        position = us.log_position()
        self.members["doomed"].kill()
        for _ in range(CYCLES):
            for order, size in ((start, 2), (leave, 1)):
                order(self.members["us"], [ALERTS[1]])
                wait_until(lambda size=size: sizes("alerts", us.group_log(position))[-1:] == [size], "alerts")
                time.sleep(1)  # the generation is recorded once the leader has sent its assignment
        self.settle("us", {"alerts": 1, "payments": 1})

    def restart_broker(self) -> None:
        """Restarts the broker of `ap`."""
        ap = self.clusters["ap"]
        (broker,) = ap.processes
        broker.process.terminate()
        broker.process.wait(60)
        broker.start()
        kafka_broker.wait_until_ready(ap)
        self.settle("ap", {"audit": 1, "billing": 1})


@contextlib.contextmanager
def producing(cluster: Cluster) -> Iterator[None]:
    """Writes a record to each partition twice a second: a time in which none waits is no pause, but idle.

    After a restart of the broker it writes at once: if consumers commit before that, no record has waited.
    """
    stop = Event()
    backoff = {"reconnect_backoff_ms": 20, "reconnect_backoff_max_ms": 50}

    def write() -> None:
        with closing(KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, **backoff)) as producer:
            while not stop.wait(0.5):
                for number in range(24):
                    producer.send("tu"[number % 2], b"x", partition=number // 2)

    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(write)
        try:
            yield
        finally:
            stop.set()
    written.result()


@pytest.fixture
def world(kafka_jars: str, tmp_path: Path) -> Iterator[World]:
    """Three clusters with the members of their groups."""
    with contextlib.ExitStack() as all_of_them:
        names = ("eu", "us", "ap")
        stacks = {name: all_of_them.enter_context(contextlib.ExitStack()) for name in names}
        with ThreadPoolExecutor(len(names)) as pool:
            started = pool.map(lambda stack: stack.enter_context(kafka_broker.cluster(kafka_jars)), stacks.values())
            found = World(dict(zip(names, started, strict=True)), stacks, {}, tmp_path)
        for cluster in found.clusters.values():
            create_topics(cluster, {"t": 12, "u": 12})
            with closing(KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)) as producer:
                for number in range(120):
                    producer.send("t", b"x", partition=number % 12)
                producer.flush()
        consumers = {"eu": ORDERS, "us": [PAYMENTS[0], ALERTS[0]], "doomed": [PAYMENTS[1]], "ap": AP}
        for name, members in consumers.items():
            cluster, events = found.clusters.get(name, found.clusters["us"]), tmp_path / "orders.jsonl"
            running = group_members.running(cluster, members, events if name == "eu" else None)
            found.members[name] = stacks["us" if name == "doomed" else name].enter_context(running)
        with producing(found.clusters["eu"]), producing(found.clusters["ap"]):
            yield found


def sizes(group: str, log: list[Line]) -> list[int]:
    """Returns the number of members of each generation."""
    return [size for _, size in generations(group, log)]


def paused_ms(output: Path, run_id: str, start: float, end: float) -> int:
    """Returns the partition-milliseconds that `orders` paused between two times, with and without rebalances."""
    files = (output / "histories").rglob("pauses/**/*.parquet")
    rows = [row for file in files if f"run_id={run_id}" in str(file) for row in pq.read_table(file).to_pylist()]
    found = [row for row in rows if row["group_id"] == "orders" and start <= _seconds(row["start_time"]) <= end]
    return sum(row["paused_partition_ms"] for row in found)


def _seconds(time: datetime) -> float:
    return time.timestamp()


def applied(saving: Mapping[str, Any], member: Consumer) -> Consumer:
    """Returns a member with the setting that the page recommends."""
    if saving["setting"] == STATIC_MEMBERS:
        return replace(member, instance_id=member.client_id)
    if saving["setting"] in group_members._CLASSES:
        return replace(member, assignor=saving["setting"])
    assert "group.protocol=consumer" in saving["settings"].splitlines()
    return replace(member, assignor=None, protocol="consumer")


def test_two_nights(world: World) -> None:
    """The page names each event. What its setting saves is measured in the second night, with a cluster down."""
    if ".".join(pyspark.__version__.split(".")[:2]) != maven.FORMATS_FOR_SPARK:
        pytest.skip(f"the jars are for Spark {maven.FORMATS_FOR_SPARK}, this is {pyspark.__version__}")
    output = world.folder / "daily"
    tables = [
        f'[clusters.{name}]\nbootstrap_server = "{each.bootstrap_servers}"\n' for name, each in world.clusters.items()
    ]
    (world.folder / "clusters.toml").write_text("".join([*tables, '[[owners]]\ncluster = "eu"\nteam = "shop"\n']))
    common = ["--clusters", str(world.folder / "clusters.toml"), "--output", str(output), "-o", "json"]
    common += ["--commit-gap", f"{COMMIT_GAP_S}s", "--deploy-gap", f"{DEPLOY_GAP_S}s", "--top", "100", "--run-id"]

    with history_session.running("classic", world.folder / "session") as spark:

        def daily(run_id: str) -> tuple[int, dict[str, Any], str]:
            """Runs the job. Returns its exit code, what it prints, and its page."""
            result = spark.run("job", name="daily", arguments=[*common, run_id])
            document: dict[str, Any] = json.loads(result["printed"])
            jsonschema.validate(document, SCHEMA)
            page = (output / "index.html").read_text()
            assert (output / run_id / "index.html").read_text() == page, document["summary"]
            return result["code"], document, page

        world.settle("eu", {"orders": 3})
        world.settle("us", {"payments": 2, "alerts": 1})
        world.settle("ap", {"audit": 1, "billing": 1})
        time.sleep(QUIET_S)
        first_start = time.time()
        with ThreadPoolExecutor(3) as pool:
            events = [pool.submit(world.deploy, ORDERS, ORDERS)]
            events += [pool.submit(each) for each in (world.crash_and_flap, world.restart_broker)]
            for event in events:
                event.result()
        first_end = time.time()
        time.sleep(2 * COMMIT_GAP_S)
        code, document, page = daily("night1")
        assert code == 0, document["summary"]
        found = {(row["cluster"], row["group_id"], row["deploy_type"]) for row in document["tables"]["deploys"]}
        assert {(*group, kind) for group, kind in EVENTS.items()} <= found
        causes = ("deployment", "crash", "rebalance storm", "broker or network")
        assert all(text in page for text in (*causes, *("/".join(group) for group in EVENTS)))
        assert (output / "night1" / "owners" / "shop.html").is_file()

        saving = next(row for row in document["tables"]["savings"] if row["group_id"] == "orders")
        assert f"{saving['setting']}" in page
        changed = [applied(saving, member) for member in ORDERS]
        world.replace(ORDERS, changed)
        world.stacks["us"].close()
        time.sleep(QUIET_S)
        second_start = time.time()
        world.deploy(changed, changed)
        second_end = time.time()
        time.sleep(2 * COMMIT_GAP_S)
        code, document, page = daily("night2")

    assert (code, document["exit_code"]) == (3, 3)
    stale = {row["cluster"]: row["problem"] for row in document["tables"]["clusters"] if row["stale"]}
    assert stale == {"us": "Not read."}
    assert "Stale: us." in page
    predicted = saving["paused_ms"] - saving["replayed_ms"]
    nights = [
        paused_ms(output, "night1", first_start - DOWN_S, first_end),
        paused_ms(output, "night2", second_start - DOWN_S, second_end),
    ]
    measured = nights[0] - nights[1]
    print(f"\n{saving['setting']}: predicted {saving['paused_ms']:,} - {saving['replayed_ms']:,} = {predicted:,},")
    print(f"measured {nights[0]:,} - {nights[1]:,} = {measured:,} partition-milliseconds\nfound {sorted(found)}")
    # `daily` recommends a setting only if it saves more than a quarter of the pauses. If the replay is wrong by less,
    # because of its rules or because a busy machine stops members, no recommended setting saves nothing.
    assert predicted > saving["paused_ms"] / 4, saving
    assert abs(measured - predicted) <= saving["paused_ms"] / 4, (saving, nights)
