"""What has moved while a group was balanced (Kafka's `PartitionMovements`)."""

from __future__ import annotations

from spark_assign.java.hash_map import HashTable, partition_hash
from spark_assign.numeric.array_types import IntArray


class PartitionMovements:
    """Which partition has moved from whom to whom."""

    def __init__(self, topic_hash: IntArray) -> None:
        self.topic_hash = topic_hash
        self.moved: dict[int, tuple[int, int]] = {}
        self.between: dict[tuple[int, int, int], HashTable[int]] = {}

    def actual(self, number: int, topic: int, from_member: int, receiver: int) -> int:
        """The partition to move in place of this one: one of its topic that has moved the opposite way."""
        if number in self.moved:
            from_member = self.moved[number][0]
        opposite = self.between.get((topic, receiver, from_member))
        return opposite.first() if opposite else number

    def record(self, number: int, topic: int, partition: int, from_member: int, receiver: int) -> None:
        """Note a move; a partition that moves on counts as moved from where it was first."""
        if number in self.moved:
            first, last = self.moved.pop(number)
            table = self.between[topic, first, last]
            table.remove(number)
            if not table:
                del self.between[topic, first, last]
            if first == receiver:
                return
            from_member = first
        self.moved[number] = (from_member, receiver)
        table = self.between.setdefault((topic, from_member, receiver), HashTable())
        table.add(number, partition_hash(int(self.topic_hash[topic]), partition))

    def state(self) -> object:
        """What the answers to come hang on; with trees, which say less of themselves, like no other state."""
        if any(table.treed for table in self.between.values()):
            return object()
        return dict(self.moved), {key: (table.capacity, list(table.spread)) for key, table in self.between.items()}
