"""Kafka's `StripedReplicaPlacer`: where the KRaft controller puts the replicas of a new topic.

Principles
    1. Racks first: the replicas of a partition go round the racks, and each partition starts one rack further on.
    2. Inside a rack brokers are taken in turn; unfenced ones before fenced ones, and a leader is never fenced.
    3. Where things start is random. After as many partitions as there are unfenced brokers (an epoch's end) racks and
       brokers are shuffled, so that the pattern does not repeat.

Example: racks A, B, C of three brokers, all offsets 0.
    p0: A0 B0 C0   p1: B1 C1 A1   p2: C2 A2 B2

Java's hash order decides which rack gets which draw: the racks are walked as a `HashMap<Optional<String>, Rack>`. All
brokers without a rack are one rack, which sorts first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from spark_assign.java.hash_map import string_hashes, table_order
from spark_assign.java.tree_bin import IdentityDecides
from spark_assign.replicas.kernel.broker_list import (
    IDENTITY_ORDER,
    INVALID_REPLICATION_FACTOR,
    BrokerList,
    PlacementError,
    java_order,
)


class Random(Protocol):
    """What the placer draws from: `java_random.JavaRandom`, or recorded draws."""

    def next_int(self, bound: int) -> int:
        """A number from 0 to bound - 1."""

    def shuffle(self, items: list[Any]) -> None:
        """Shuffle in place."""


def refuse(replication_factor: int, brokers: int, unfenced: int) -> PlacementError | None:
    """What the class throws, in its order of checks."""
    message = None
    if replication_factor <= 0:
        message = f"Invalid replication factor {replication_factor}: the replication factor must be positive."
    elif unfenced == 0:
        message = "All brokers are currently fenced."
    elif replication_factor > brokers:
        message = (
            f"The target replication factor of {replication_factor} cannot be reached because only {brokers} "
            "broker(s) are registered."
        )
    return None if message is None else PlacementError(INVALID_REPLICATION_FACTOR, message)


def place(layout: BrokerList, replication_factor: int, random: Random) -> Iterator[list[int]]:
    """Broker ids of partition after partition of one topic, without end.

    `start_partition` has no part in it: a call that adds partitions begins anew.
    """
    racks = _RackList(layout, random)
    while True:
        yield racks.place(replication_factor)


def rack_order(layout: BrokerList) -> list[str | None]:
    """The racks in the order in which the class's `HashMap` is walked.

    Raises:
        IdentityDecides: too many racks share a bucket, and some of those a hash code. `Optional` does not compare.
    """
    racks = list(dict.fromkeys(layout.racks))
    hashes = string_hashes([rack or "" for rack in racks])  # Optional.empty() and the empty text both have 0
    return [racks[at] for at in table_order(hashes, ranks=None)] if racks else []


def refuse_order(racks: Sequence[str | None]) -> PlacementError | None:
    """What cannot be foretold: a walk over these racks that hangs on where Java keeps them.

    Args:
        racks: of a cluster, in the order in which its brokers are passed.
    """
    try:
        rack_order(BrokerList((), tuple(racks), ()))
    except IdentityDecides:
        message = (
            "More than eight racks share a bucket of the placer's HashMap, and two of them a hash code. Their order "
            "hangs on System.identityHashCode, which is another one in every controller. Rename one of the racks"
        )
        return PlacementError(IDENTITY_ORDER, message)
    return None


class _BrokerList:
    """The fenced or the unfenced brokers of a rack; in every epoch it starts one further on."""

    def __init__(self, brokers: list[int], random: Random) -> None:
        self.brokers = sorted(brokers)
        self.index = 0
        self.offset = random.next_int(len(brokers)) if brokers else 0
        self.epoch = 0

    def next(self, epoch: int) -> int | None:
        """The next broker, or none where all have been given in this epoch."""
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
        found = self.unfenced.next(epoch)
        return self.fenced.next(epoch) if found is None else found

    def shuffle(self, random: Random) -> None:
        random.shuffle(self.fenced.brokers)
        random.shuffle(self.unfenced.brokers)


class _RackList:
    """All racks; an epoch is a partition."""

    def __init__(self, layout: BrokerList, random: Random) -> None:
        members: dict[str | None, tuple[list[int], list[int]]] = {rack: ([], []) for rack in layout.racks}
        for broker, rack, fenced in zip(layout.ids, layout.racks, layout.fenced, strict=True):
            members[rack][0 if fenced else 1].append(broker)
        self.random = random
        self.racks = {rack: _Rack(*members[rack], random) for rack in rack_order(layout)}
        self.names = sorted(members, key=java_order)
        self.offset = random.next_int(len(self.names)) if self.names else 0
        self.unfenced = layout.unfenced
        self.epoch = 0

    def place(self, replication_factor: int) -> list[int]:
        if self.epoch == self.unfenced and self.unfenced > 1:
            self._shuffle()
        if self.offset == len(self.names):
            self.offset = 0
        leader_rack, leader = self._leader()
        replicas = [leader]
        skipped = False  # the leader's rack, the first time it comes by
        at = self.offset
        while len(replicas) < replication_factor:
            if at == leader_rack and not skipped:
                skipped = True
            else:
                found = self.racks[self.names[at]].next(self.epoch)
                if found is not None:
                    replicas.append(found)
            at = (at + 1) % len(self.names)
        self.epoch += 1
        self.offset += 1
        return replicas

    def _leader(self) -> tuple[int, int]:
        """Of the racks from the offset on the first that still has an unfenced broker, and that broker."""
        at = self.offset
        while (found := self.racks[self.names[at]].unfenced.next(self.epoch)) is None:
            at = (at + 1) % len(self.names)
        return at, found

    def _shuffle(self) -> None:
        self.random.shuffle(self.names)
        for rack in self.racks.values():
            rack.shuffle(self.random)
        self.epoch = 0


def place_many(
    layout: BrokerList, replication_factor: int, random: Random, chunk: int, partitions: int
) -> Iterator[Any]:
    """The placement of a topic in arrays of at most `chunk` rows, a column per replica."""
    placed = place(layout, replication_factor, random)
    for first in range(0, partitions, chunk):
        yield np.array([next(placed) for _ in range(min(chunk, partitions - first))], np.int64)
