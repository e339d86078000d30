"""Consumers of librdkafka, by way of confluent-kafka, run in a process of its own.

Reads lines of JSON, as java/OldConsumers.java does: {"start": a member} and {"leave": a member}, with Java's classes as
assignors; "revoking_ms" is how long it takes to give up partitions; "rack", "metadata_max_age_ms", and
"session_timeout_ms" are as there.
At the end of the input all leave. Each time that a member gets partitions or gives some up is a line of JSON on
standard output: {"group", "client_id", "event": "assigned|revoked|lost", "partitions": [[topic, partition], ...],
"at_ms"}.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from functools import partial

from confluent_kafka import Consumer, TopicPartition

SERVERS = sys.argv[1]
ASSIGNORS = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "CooperativeStickyAssignor": "cooperative-sticky",
}

CALLS = {"assign": "assigned", "revoke": "revoked", "lost": "lost"}
WRITING = threading.Lock()


def poll(settings: dict[str, object], topics: list[str], revoking_s: float, leaves: threading.Event) -> None:
    """One consumer, until it is to leave."""

    def report(event: str, partitions: list[TopicPartition]) -> None:
        line = {"group": settings["group.id"], "client_id": settings["client.id"], "event": event}
        pairs = [[each.topic, each.partition] for each in partitions]
        with WRITING:  # a line and its end are two writes, and another member's can come between them
            print(json.dumps(line | {"partitions": pairs, "at_ms": time.time_ns() // 1_000_000}), flush=True)
        time.sleep(revoking_s if event == "revoked" else 0)

    consumer = Consumer(settings)
    calls = {f"on_{name}": partial(report, event) for name, event in CALLS.items()}
    consumer.subscribe(topics, **{name: lambda _, parts, call=call: call(parts) for name, call in calls.items()})
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
    names = {"instance_id": "group.instance.id", "rack": "client.rack"}
    names |= {"metadata_max_age_ms": "topic.metadata.refresh.interval.ms", "session_timeout_ms": "session.timeout.ms"}
    settings |= {setting: member[name] for name, setting in names.items() if member.get(name)}
    leaves = threading.Event()
    revoking_s = member.get("revoking_ms", 0) / 1000
    thread = threading.Thread(target=poll, args=(settings, member["topics"], revoking_s, leaves))
    thread.start()
    running[member["group"], member["client_id"]] = thread, leaves
for _, leaves in running.values():
    leaves.set()
for thread, _ in running.values():
    thread.join()
