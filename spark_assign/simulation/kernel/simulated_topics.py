"""The topics that there really are, whoever has seen them yet, and which of them the group misses."""

from __future__ import annotations

from collections.abc import Iterable

from spark_assign.simulation.kernel.assignment_request import code
from spark_assign.simulation.kernel.event_queue import EventQueue
from spark_assign.simulation.kernel.ownership_log import OwnershipLog


class SimulatedTopics:
    """Topics by index, with their partition counts.

    Attributes:
        partitions: of every topic that there is.
        wanted: topics that some member has asked for; nobody misses the others.
    """

    def __init__(self, partitions: dict[int, int], ledger: OwnershipLog, clock: EventQueue) -> None:
        self.partitions = partitions
        self.wanted: set[int] = set()
        self._ledger, self._clock = ledger, clock

    def look(self, topics: Iterable[int]) -> dict[int, int]:
        """What a client sees that looks at these topics now."""
        return {topic: self.partitions[topic] for topic in topics if topic in self.partitions}

    def want(self, topics: Iterable[int]) -> None:
        """From now on it matters whether these topics are consumed."""
        for topic in topics:
            if topic not in self.wanted:
                self.wanted.add(topic)
                self._appear(topic, 0, self.partitions.get(topic, 0))

    def grow(self, topic: int, count: int) -> None:
        """The topic has so many partitions now."""
        before = self.partitions.get(topic, 0)
        self.partitions[topic] = count
        self._appear(topic, before, count)

    def delete(self, topic: int) -> None:
        """The topic is gone with all its partitions."""
        count = self.partitions.pop(topic)
        if topic in self.wanted:
            self._ledger.delete((code(topic, number) for number in range(count)), self._clock.now)

    def _appear(self, topic: int, first: int, end: int) -> None:
        if topic in self.wanted:
            self._ledger.create((code(topic, number) for number in range(first, end)), self._clock.now)
