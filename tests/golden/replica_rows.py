"""The recorded placements (`README-other.md`, section 1), and how their brokers and draws are given to the kernels."""

from __future__ import annotations

import gzip
import json
from typing import Any

from spark_assign.java.random import JavaRandom
from spark_assign.replicas.kernel.cluster_brokers import ClusterBrokers, to_cluster_brokers
from tests.golden.vectors import FOLDER, Row

CODES = {
    "InvalidPartitionsException": "invalid-partitions",
    "InvalidReplicationFactorException": "invalid-replication-factor",
    "AdminOperationException": "admin-operation",
}
"""Kafka's exceptions, and what they are called in `rejected`."""


def recorded(system: str) -> list[Row]:
    """All rows of `adminutils` or `striped`."""
    with gzip.open(FOLDER / "replicas.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [row for row in map(json.loads, lines) if row["system"] == system]


def expected(row: Row) -> dict[int, list[int]] | tuple[str, str]:
    """Broker ids by partition, or the code and the message of the refusal."""
    if "error" in row:
        return CODES[row["error"]["class"]], row["error"]["message"]
    return {int(partition): replicas for partition, replicas in row["expect"].items()}


def layout_of(row: Row) -> ClusterBrokers:
    """The brokers in the order recorded."""
    return to_cluster_brokers([(broker["id"], broker["rack"], broker["fenced"]) for broker in row["brokers"]])


class RecordedDraws(JavaRandom):
    """Gives what was drawn when the row was recorded, and checks that nothing else is asked."""

    def __init__(self, row: Row) -> None:
        super().__init__(0)
        self.draws: list[tuple[int, int]] = list(zip(row["random_bounds"], row["random_ints"], strict=True))

    def next_int(self, bound: int) -> int:
        """The next recorded draw."""
        recorded_bound, drawn = self.draws.pop(0)
        assert bound == recorded_bound
        return drawn


def seed_that_draws(row: Row) -> int | None:
    """For a row that was recorded with a mock in place of `Random`: a seed whose generator draws the same."""
    draws: list[tuple[Any, Any]] = list(zip(row["random_bounds"], row["random_ints"], strict=True))
    for seed in range(100_000):
        random = JavaRandom(seed)
        if all(random.next_int(bound) == drawn for bound, drawn in draws):
            return seed
    return None
