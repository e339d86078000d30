"""The brokers of a cluster as the placers are given them, and the words with which they refuse."""

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
BEYOND_INT = "beyond-int"
"""Kafka's own arithmetic would leave the range of an int, and what it then does is an accident."""
IDENTITY_ORDER = "identity-order"
"""What Kafka does hangs on Java's identity hash codes, which are others in every process."""


@dataclass(frozen=True)
class PlacementError:
    """What Kafka says where it places nothing: a code for the exception's class, and its message."""

    code: str
    message: str


@dataclass(frozen=True)
class BrokerList:
    """The brokers of one cluster, in the order in which Kafka is given them."""

    ids: tuple[int, ...]
    racks: tuple[str | None, ...]
    fenced: tuple[bool, ...]

    @property
    def racked(self) -> int:
        """Brokers that have a rack."""
        return sum(rack is not None for rack in self.racks)

    @property
    def unfenced(self) -> int:
        """Brokers that are not fenced."""
        return sum(not fenced for fenced in self.fenced)


def layout(brokers: Sequence[tuple[int, str | None, bool]]) -> BrokerList:
    """A layout of (broker id, rack, fenced)."""
    ids, racks, fenced = zip(*brokers, strict=True) if brokers else ((), (), ())
    return BrokerList(tuple(ids), tuple(racks), tuple(fenced))


def java_order(text: str | None) -> tuple[bool, bytes]:
    """A key that sorts racks as Java does: none first, then `String.compareTo`, by UTF-16 code units."""
    return text is not None, java_key(text or "")
