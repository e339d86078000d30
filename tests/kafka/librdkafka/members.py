"""Consumers of librdkafka, by way of confluent-kafka, run in a process of its own.

Reads lines of JSON: {"start": {group, client_id, topics, assignor}} and {"leave": client_id}. Ends with its input.
"""

from __future__ import annotations

import json
import sys
import threading

from confluent_kafka import Consumer

SERVERS = sys.argv[1]


def poll(settings: dict[str, object], topics: list[str], leaves: threading.Event) -> None:
    """One consumer, until it is to leave."""
    consumer = Consumer(settings)
    consumer.subscribe(topics)
    while not leaves.is_set():
        consumer.poll(0.1)
    consumer.close()


running: dict[str, tuple[threading.Thread, threading.Event]] = {}
for line in sys.stdin:
    order = json.loads(line)
    if "start" in order:
        asked = order["start"]
        told = {"bootstrap.servers": SERVERS, "group.id": asked["group"], "client.id": asked["client_id"]}
        told |= {"partition.assignment.strategy": asked["assignor"], "log_level": 0}
        if asked.get("instance_id"):
            told["group.instance.id"] = asked["instance_id"]
        leaves = threading.Event()
        thread = threading.Thread(target=poll, args=(told, asked["topics"], leaves))
        thread.start()
        running[asked["client_id"]] = thread, leaves
    else:
        running.pop(order["leave"])[1].set()
for _, leaves in running.values():
    leaves.set()
for thread, _ in running.values():
    thread.join()
