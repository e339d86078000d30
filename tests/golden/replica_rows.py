"""Reads the recorded placements (`README-other.md`, section 1), and converts their brokers and random numbers."""

from __future__ import annotations

from typing import Any

from spark_assign.java.random import JavaRandom
from spark_assign.replicas.kernel.cluster_brokers import ClusterBrokers, to_cluster_brokers
from tests.golden.vectors import FOLDER, Row
from tests.recorded_lines import read_rows

CODES = {
    "InvalidPartitionsException": "invalid-partitions",
    "InvalidReplicationFactorException": "invalid-replication-factor",
    "AdminOperationException": "admin-operation",
}
"""The code in `rejected` of each Kafka exception."""


def recorded(system: str) -> list[Row]:
    """Returns all rows of `adminutils` or `striped`."""
    return [row for row in read_rows(FOLDER / "replicas.jsonl.gz") if row["system"] == system]


def expected(row: Row) -> dict[int, list[int]] | tuple[str, str]:
    """Returns the broker ids by partition, or the code and the message of the error."""
    if "error" in row:
        return CODES[row["error"]["class"]], row["error"]["message"]
    return {int(partition): replicas for partition, replicas in row["expect"].items()}


def layout_of(row: Row) -> ClusterBrokers:
    """Returns the brokers in the recorded order."""
    return to_cluster_brokers([(broker["id"], broker["rack"], broker["fenced"]) for broker in row["brokers"]])


class RecordedDraws(JavaRandom):
    """Returns the recorded random numbers, and asserts the recorded bounds."""

    def __init__(self, row: Row) -> None:
        super().__init__(0)
        self.draws: list[tuple[int, int]] = list(zip(row["random_bounds"], row["random_ints"], strict=True))

    def next_int(self, bound: int) -> int:
        """Returns the next recorded number."""
        recorded_bound, drawn = self.draws.pop(0)
        assert bound == recorded_bound
        return drawn


def seed_that_draws(row: Row) -> int | None:
    """Returns a seed that draws the numbers of a row that was recorded with a mock of `Random`, or None."""
    draws: list[tuple[Any, Any]] = list(zip(row["random_bounds"], row["random_ints"], strict=True))
    for seed in range(100_000):
        random = JavaRandom(seed)
        if all(random.next_int(bound) == drawn for bound, drawn in draws):
            return seed
    return None
