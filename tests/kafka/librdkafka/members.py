"""Consumers of librdkafka, by way of confluent-kafka, run in a process of its own.

Reads lines of JSON, as java/OldConsumers.java does: {"start": a member} and {"leave": a member}, with Java's classes as
assignors; "revoking_ms" is how long it takes to give up partitions. At the end of the input all leave.
"""

from __future__ import annotations

import json
import sys
import threading
import time

from confluent_kafka import Consumer

SERVERS = sys.argv[1]
ASSIGNORS = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "CooperativeStickyAssignor": "cooperative-sticky",
}


def poll(settings: dict[str, object], topics: list[str], revoking_s: float, leaves: threading.Event) -> None:
    """One consumer, until it is to leave."""
    consumer = Consumer(settings)
    consumer.subscribe(topics, **({"on_revoke": lambda *_: time.sleep(revoking_s)} if revoking_s else {}))
    while not leaves.is_set():
        consumer.poll(0.1)
    consumer.close()


running: dict[tuple[str, str], tuple[threading.Thread, threading.Event]] = {}
for line in filter(str.strip, sys.stdin):
    ((what, member),) = json.loads(line).items()
    if what == "leave":
        running.pop((member["group"], member["client_id"]))[1].set()
        continue
    settings = {"bootstrap.servers": SERVERS, "group.id": member["group"], "client.id": member["client_id"]}
    settings |= {"partition.assignment.strategy": ASSIGNORS[member["assignor"].rpartition(".")[2]], "log_level": 0}
    if member.get("instance_id"):
        settings["group.instance.id"] = member["instance_id"]
    leaves = threading.Event()
    revoking_s = member.get("revoking_ms", 0) / 1000
    thread = threading.Thread(target=poll, args=(settings, member["topics"], revoking_s, leaves))
    thread.start()
    running[member["group"], member["client_id"]] = thread, leaves
for _, leaves in running.values():
    leaves.set()
for thread, _ in running.values():
    thread.join()
