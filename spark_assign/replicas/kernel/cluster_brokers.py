"""The brokers that a placer chooses from, and the errors that it returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spark_assign.java.hash_map import java_key

INVALID_PARTITIONS = "invalid-partitions"
"""Kafka throws `InvalidPartitionsException`."""
INVALID_REPLICATION_FACTOR = "invalid-replication-factor"
"""Kafka throws `InvalidReplicationFactorException`."""
ADMIN_OPERATION = "admin-operation"
"""Kafka throws `AdminOperationException`."""
INT_OVERFLOW = "int-overflow"
"""Kafka's arithmetic overflows an int, so that its result is undefined."""
IDENTITY_ORDER = "identity-order"
"""Kafka's result depends on Java's identity hash codes, which differ from process to process."""


@dataclass(frozen=True)
class PlacementError:
    """The reason why Kafka rejects a request: a code for the exception class, and Kafka's message."""

    code: str
    message: str


@dataclass(frozen=True)
class ClusterBrokers:
    """The brokers of one cluster, in the order in which Kafka's caller lists them."""

    ids: tuple[int, ...]
    racks: tuple[str | None, ...]
    fenced: tuple[bool, ...]

    @property
    def num_racked(self) -> int:
        """The number of brokers that have a rack."""
        return sum(rack is not None for rack in self.racks)

    @property
    def num_unfenced(self) -> int:
        """The number of brokers that aren't fenced."""
        return sum(not fenced for fenced in self.fenced)


def to_cluster_brokers(brokers: Sequence[tuple[int, str | None, bool]]) -> ClusterBrokers:
    """Converts a list of (broker id, rack, is fenced)."""
    ids, racks, fenced = zip(*brokers, strict=True) if brokers else ((), (), ())
    return ClusterBrokers(tuple(ids), tuple(racks), tuple(fenced))


def java_order(text: str | None) -> tuple[bool, bytes]:
    """Returns a key that sorts racks as Java does: None first, then `String.compareTo` (UTF-16 code units)."""
    return text is not None, java_key(text or "")
