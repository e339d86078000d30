"""Kafka for the tests: its jars, and one cluster of three brokers in three racks for the whole run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kafka import broker as kafka_broker
from tests.kafka import fetched, maven, secure_listener

RACKS = ("rack-a", "rack-b", "rack-c")


@pytest.fixture(scope="session")
def kafka_jars() -> str:
    """A class path with Kafka's broker, clients and tools; skips without Java or Maven, but fails in CI."""
    with fetched.or_skipped():
        return maven.kafka_classpath()


@pytest.fixture(scope="session")
def keys(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the brokers' key store and its certificate."""
    folder = tmp_path_factory.mktemp("keys")
    secure_listener.make_keys(folder)
    return folder


@pytest.fixture(scope="session")
def broker(kafka_jars: str, keys: Path) -> Iterator[kafka_broker.Cluster]:
    """Three brokers in three racks, open in the clear and behind TLS and SASL."""
    with kafka_broker.cluster(kafka_jars, RACKS, secure_listener.properties(keys)) as started:
        yield started
