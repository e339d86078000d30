"""Groups of Python consumers: `PYTHONPATH=<the library> python leaders.py <library> <bootstrap servers>`.

Reads a member a line, as `java/Leaders.java` does, and polls until standard input ends. A fetch waits as long as there.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
import threading
from collections.abc import Iterator
from typing import Any

CAMEL = {
    "range": "RangePartitionAssignor",
    "roundrobin": "RoundRobinPartitionAssignor",
    "sticky": "StickyPartitionAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}


FETCH_WAIT_MS = 10_000


def members() -> Iterator[tuple[str, str, str, dict[str, str]]]:
    """Group, topic, assignor, and the client id as an option, if there is one."""
    for line in iter(sys.stdin.readline, "\n"):
        group, topic, assignor, client_id = line.rstrip("\n").split("\t")
        yield group, topic, assignor, {"client_id": client_id} if client_id else {}


def until_the_end() -> None:
    """Whoever started us holds our standard input open."""
    while sys.stdin.read(1):
        pass


def librdkafka(servers: str) -> None:
    """They have threads of their own, and are polled in turn."""
    library, consumers = importlib.import_module("confluent_kafka"), []
    for group, topic, assignor, client in members():
        named = {"client.id": client["client_id"]} if client else {}
        consumers.append(
            library.Consumer(
                {"bootstrap.servers": servers, "group.id": group, "partition.assignment.strategy": assignor}
                | {"fetch.wait.max.ms": FETCH_WAIT_MS}
                | named
            )
        )
        consumers[-1].subscribe([topic])
    ended = threading.Thread(target=until_the_end, daemon=True)
    ended.start()
    while ended.is_alive():
        for consumer in consumers:
            consumer.poll(0.02)
    for consumer in consumers:
        consumer.close()


def kafka_python(servers: str) -> None:
    """Each joins while it polls, so each has a thread."""
    library = importlib.import_module("kafka")

    def assignor_class(name: str) -> Any:
        for folder in (name.replace("-", "_"), "sticky.sticky_assignor", "sticky.cooperative_sticky_assignor"):
            try:
                module = importlib.import_module(f"kafka.coordinator.assignors.{folder}")
            except ModuleNotFoundError:
                continue
            found = [value for value in vars(module).values() if getattr(value, "name", None) == name]
            if found:
                return found[0]
        raise ValueError(name)

    def consume(group: str, topic: str, assignor: str, client: dict[str, str]) -> None:
        settings = {"partition_assignment_strategy": [assignor_class(assignor)], "fetch_max_wait_ms": FETCH_WAIT_MS}
        consumer = library.KafkaConsumer(bootstrap_servers=servers, group_id=group, **settings, **client)
        consumer.subscribe([topic])
        while True:
            consumer.poll(timeout_ms=1_000)

    for member in members():
        threading.Thread(target=consume, args=member, daemon=True).start()
    until_the_end()


def aiokafka(servers: str) -> None:
    """All in one loop."""
    library = importlib.import_module("aiokafka")
    assignors = {}
    for name, module in {"range": "range", "roundrobin": "roundrobin", "sticky": "sticky.sticky_assignor"}.items():
        assignors[name] = getattr(importlib.import_module(f"aiokafka.coordinator.assignors.{module}"), CAMEL[name])

    async def consume(group: str, topic: str, assignor: str, client: dict[str, str]) -> None:
        settings = {"partition_assignment_strategy": [assignors[assignor]], "fetch_max_wait_ms": FETCH_WAIT_MS}
        consumer = library.AIOKafkaConsumer(topic, bootstrap_servers=servers, group_id=group, **settings, **client)
        await consumer.start()
        while True:
            await consumer.getmany(timeout_ms=1_000)

    async def run() -> None:
        tasks = [asyncio.create_task(consume(*member)) for member in members()]
        await asyncio.get_running_loop().run_in_executor(None, until_the_end)
        for task in tasks:
            task.cancel()

    asyncio.run(run())


if __name__ == "__main__":
    {"confluent-kafka": librdkafka, "kafka-python": kafka_python, "aiokafka": aiokafka}[sys.argv[1]](sys.argv[2])
