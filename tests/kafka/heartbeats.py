"""Heartbeats of the members of consumer, share and streams groups with their answers, as the brokers log them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kafka.admin import ConfigResource, ConfigResourceType

from tests.kafka.broker import Cluster

_LOGGER = "kafka.request.logger"


@dataclass(frozen=True)
class Heartbeat:
    """One request and its answer, under the names of Kafka's message schemas. `at_ms` is when it was answered."""

    at_ms: int
    client_id: str
    request: dict[str, Any]
    answer: dict[str, Any]


@contextlib.contextmanager
def logged(cluster: Cluster) -> Iterator[None]:
    """Heartbeats are written down while the block runs."""
    _log(cluster, "DEBUG")
    try:
        yield
    finally:
        _log(cluster, "ERROR")


def heartbeats(cluster: Cluster, group: str) -> list[Heartbeat]:
    """Those of one group that have been written down so far, in order of time."""
    found = []
    for file in cluster.folder.glob("broker-*.heartbeats"):
        for line in file.read_text().splitlines():
            at, text = line.split(" ", 1)
            body = json.loads(text.removeprefix("Completed request:"))
            if body["request"]["groupId"] == group:
                client_id = body["requestHeader"]["clientId"]
                found.append(Heartbeat(int(at), client_id, body["request"], body["response"]))
    return sorted(found, key=lambda each: each.at_ms)


def _log(cluster: Cluster, level: str) -> None:
    brokers = range(1, 1 + len(cluster.racks))
    resources = [ConfigResource(ConfigResourceType.BROKER_LOGGER, str(broker), {_LOGGER: level}) for broker in brokers]
    with cluster.admin() as admin:
        admin.alter_configs(resources, raise_on_unknown=False)
