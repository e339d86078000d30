"""One consumer of a Python library with pasted settings: `pasted.py <package> <servers> <group> <topic> <file>`.

It closes when its input does. Settings of librdkafka are properties, those of the others statements.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
import threading
import types
from pathlib import Path
from typing import Any

SERVERS, GROUP, TOPIC, FILE = sys.argv[2:6]
ended = threading.Event()


def until_the_end() -> None:
    """Whoever started us holds our standard input open."""
    while sys.stdin.read(1):
        pass
    ended.set()


def properties() -> dict[str, str]:
    """The lines as keys and values."""
    lines = [line for line in Path(FILE).read_text().splitlines() if line and not line.startswith("#")]
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def keywords() -> dict[str, Any]:
    """What the lines assign."""
    names: dict[str, Any] = {}
    exec(Path(FILE).read_text(), names)
    skipped = (type, types.ModuleType)
    return {name: value for name, value in names.items() if name[0] != "_" and not isinstance(value, skipped)}


def confluent() -> None:
    """librdkafka."""
    module = importlib.import_module("confluent_kafka")
    consumer = module.Consumer({"bootstrap.servers": SERVERS, "group.id": GROUP} | properties())
    consumer.subscribe([TOPIC])
    while not ended.is_set():
        message = consumer.poll(0.1)
        if message is not None and message.error() and message.error().fatal():
            sys.exit(str(message.error()))
    consumer.close()


def kafka_python() -> None:
    """kafka-python."""
    module = importlib.import_module("kafka")
    consumer = module.KafkaConsumer(TOPIC, bootstrap_servers=SERVERS, group_id=GROUP, **keywords())
    while not ended.is_set():
        consumer.poll(timeout_ms=100)
    consumer.close()


async def aiokafka() -> None:
    """aiokafka."""
    module = importlib.import_module("aiokafka")
    consumer = module.AIOKafkaConsumer(TOPIC, bootstrap_servers=SERVERS, group_id=GROUP, **keywords())
    await consumer.start()
    while not ended.is_set():
        await consumer.getmany(timeout_ms=100)
    await consumer.stop()


if __name__ == "__main__":
    threading.Thread(target=until_the_end, daemon=True).start()
    if sys.argv[1] == "aiokafka":
        asyncio.run(aiokafka())
    else:
        {"confluent-kafka": confluent, "kafka-python": kafka_python}[sys.argv[1]]()
