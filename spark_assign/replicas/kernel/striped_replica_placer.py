"""Kafka's `StripedReplicaPlacer`: where the KRaft controller puts the replicas of a new topic.

Principles
    1. Racks come first: the replicas of a partition go around the racks, and each partition starts one rack later.
    2. Inside a rack, brokers take turns, unfenced brokers before fenced ones. A leader is never fenced.
    3. The start offsets are random. After one epoch per unfenced broker, racks and brokers are shuffled, so that the
       pattern doesn't repeat. An epoch is one partition.

Example: racks A, B, C of three brokers, all offsets 0.
    p0: A0 B0 C0   p1: B1 C1 A1   p2: C2 A2 B2

Java's hash order decides which rack gets which random number: Kafka iterates a `HashMap<Optional<String>, Rack>`. All
brokers without a rack form one rack, which sorts first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from spark_assign.java.hash_map import IdentityDecides, string_hashes, table_order
from spark_assign.replicas.kernel.cluster_brokers import (
    IDENTITY_ORDER,
    INVALID_REPLICATION_FACTOR,
    ClusterBrokers,
    PlacementError,
    java_order,
)


class Random(Protocol):
    """The source of random numbers: `java.random.JavaRandom`, or recorded numbers."""

    def next_int(self, bound: int) -> int:
        """Returns an integer from 0 to bound - 1."""

    def shuffle(self, items: list[Any]) -> None:
        """Shuffles in place (`Collections.shuffle`)."""


def find_error(replication_factor: int, num_brokers: int, num_unfenced: int) -> PlacementError | None:
    """Returns the exception that Kafka throws for a request, in Kafka's order of checks, or None."""
    message = None
    if replication_factor <= 0:
        message = f"Invalid replication factor {replication_factor}: the replication factor must be positive."
    elif num_unfenced == 0:
        message = "All brokers are currently fenced."
    elif replication_factor > num_brokers:
        message = (
            f"The target replication factor of {replication_factor} cannot be reached because only {num_brokers} "
            "broker(s) are registered."
        )
    return None if message is None else PlacementError(INVALID_REPLICATION_FACTOR, message)


def place(brokers: ClusterBrokers, replication_factor: int, random: Random) -> Iterator[list[int]]:
    """Yields the broker ids of one partition of a topic after the other, without end.

    The start partition of a call has no effect: a call that adds partitions starts from epoch 0.
    """
    racks = _RackList(brokers, random)
    while True:
        yield racks.place(replication_factor)


def rack_order(broker_racks: Sequence[str | None]) -> list[str | None]:
    """Returns the distinct racks, given in the order of brokers, in the iteration order of Kafka's `HashMap`.

    Raises:
        IdentityDecides: too many racks share a bucket, and two of them a hash code. `Optional` isn't `Comparable`.
    """
    racks = list(dict.fromkeys(broker_racks))
    hashes = string_hashes([rack or "" for rack in racks])  # Optional.empty() and the empty text both have 0
    return [racks[index] for index in table_order(hashes, ranks=None)]


def find_order_error(racks: Sequence[str | None]) -> PlacementError | None:
    """Returns an error if the iteration order of these racks depends on Java's identity hash codes, or None.

    Args:
        racks: the racks of a cluster, in the order of its brokers.
    """
    try:
        rack_order(racks)
    except IdentityDecides:
        message = (
            "More than eight racks share a bucket of the placer's HashMap, and two of them a hash code. Their order "
            "depends on System.identityHashCode, which differs between controllers. Rename one of the racks"
        )
        return PlacementError(IDENTITY_ORDER, message)
    return None


class _BrokerList:
    """The fenced or the unfenced brokers of a rack; in every epoch it starts one broker later."""

    def __init__(self, brokers: list[int], random: Random) -> None:
        self.brokers = sorted(brokers)
        self.index = 0
        self.offset = random.next_int(len(brokers)) if brokers else 0
        self.epoch = 0

    def next(self, epoch: int) -> int | None:
        """Returns the next broker, or None if this epoch has used all brokers."""
        size = len(self.brokers)
        if not size:
            return None
        if self.epoch != epoch:
            self.epoch = epoch
            self.index = 0
            self.offset = (self.offset + 1) % size
        if self.index >= size:
            return None
        self.index += 1
        return self.brokers[(self.index - 1 + self.offset) % size]


class _Rack:
    def __init__(self, fenced: list[int], unfenced: list[int], random: Random) -> None:
        self.fenced = _BrokerList(fenced, random)
        self.unfenced = _BrokerList(unfenced, random)

    def next(self, epoch: int) -> int | None:
        broker = self.unfenced.next(epoch)
        return self.fenced.next(epoch) if broker is None else broker

    def shuffle(self, random: Random) -> None:
        random.shuffle(self.fenced.brokers)
        random.shuffle(self.unfenced.brokers)


class _RackList:
    """All racks of a cluster (`StripedReplicaPlacer.RackList`)."""

    def __init__(self, brokers: ClusterBrokers, random: Random) -> None:
        rack_brokers: dict[str | None, tuple[list[int], list[int]]] = {rack: ([], []) for rack in brokers.racks}
        for broker, rack, fenced in zip(brokers.ids, brokers.racks, brokers.fenced, strict=True):
            rack_brokers[rack][0 if fenced else 1].append(broker)
        self.random = random
        self.racks = {rack: _Rack(*rack_brokers[rack], random) for rack in rack_order(brokers.racks)}
        self.names = sorted(rack_brokers, key=java_order)
        self.offset = random.next_int(len(self.names)) if self.names else 0
        self.num_unfenced = brokers.num_unfenced
        self.epoch = 0

    def place(self, replication_factor: int) -> list[int]:
        if self.epoch == self.num_unfenced and self.num_unfenced > 1:
            self._shuffle()
        if self.offset == len(self.names):
            self.offset = 0
        leader_rack, leader = self._next_leader()
        replicas = [leader]
        skipped = False  # the leader's rack is skipped on the first visit
        index = self.offset
        while len(replicas) < replication_factor:
            if index == leader_rack and not skipped:
                skipped = True
            else:
                broker = self.racks[self.names[index]].next(self.epoch)
                if broker is not None:
                    replicas.append(broker)
            index = (index + 1) % len(self.names)
        self.epoch += 1
        self.offset += 1
        return replicas

    def _next_leader(self) -> tuple[int, int]:
        """Returns the first rack, from the offset on, that has an unfenced broker left, and that broker."""
        index = self.offset
        while (broker := self.racks[self.names[index]].unfenced.next(self.epoch)) is None:
            index = (index + 1) % len(self.names)
        return index, broker

    def _shuffle(self) -> None:
        self.random.shuffle(self.names)
        for rack in self.racks.values():
            rack.shuffle(self.random)
        self.epoch = 0
