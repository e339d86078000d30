"""What has moved in a round of balancing, so that no topic's partitions are merely swapped between two members.

librdkafka keeps these records by reference, and goes on reading one after it is freed or has slipped into its place:

- A partition that is to move in place of another is an element of a list from which its record is removed first. So the
  next of that list moves; if there is none, what is read is freed memory.
- A pair is freed once the first partition that moved so moves on, and still is the key of those that moved so after it.

The first is modelled where there is a next one. Where freed memory decides nobody can say what a process does; mostly
it ends with a signal. There `UndefinedBehaviorError` is raised.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from spark_assign.groups.assignors.librdkafka.balancer_input import TopicPartition


class UndefinedBehaviorError(Exception):
    """librdkafka ends, or goes on with memory it has freed; the text says why."""


FREED = "it reads memory that it has freed, for a partition that would move back"
NO_RECORD = "it finds no record of how a partition has moved"
NO_OWNER = "a partition that two members claim counts as that of the one who lost it"


@dataclass(eq=False)
class _MemberPair:
    """From whom, to whom."""

    from_member: str
    to_member: str
    freed: bool = False


@dataclass
class _PairMoves:
    """The partitions of a topic that have moved from one member to another; the key is the pair of the first."""

    key: _MemberPair
    partitions: list[TopicPartition] = field(default_factory=list)


class Movements:
    """By partition how it has moved, and by topic and pair which have."""

    def __init__(self) -> None:
        self._of: dict[TopicPartition, _MemberPair] = {}
        self._by_topic: dict[str, dict[tuple[str, str], _PairMoves]] = {}

    def instead(self, partition: TopicPartition, owner: str, to_member: str) -> TopicPartition | None:
        """Returns what moves in place of a partition: one of its topic, or itself, that `owner` got from
        `to_member`."""
        if partition[0] not in self._by_topic:
            return None
        moved = self._of.get(partition)
        if moved is not None and moved.to_member != owner:
            raise UndefinedBehaviorError(NO_RECORD)
        back = self._alike(partition[0], to_member, owner)
        return None if back is None else back.partitions[0]

    def move(self, partition: TopicPartition, owner: str, to_member: str, *, instead: bool) -> TopicPartition:
        """Note that a partition moves; the one that moves in fact.

        Args:
            partition: the partition.
            owner, to_member: from whom to whom.
            instead: whether `instead` has said so.
        """
        moved = self._of.get(partition)
        if moved is None:
            self._note(partition, _MemberPair(owner, to_member))
            return partition
        alike = self._alike(partition[0], moved.from_member, moved.to_member)
        if alike is None:
            raise UndefinedBehaviorError(NO_RECORD)
        if partition in alike.partitions:
            alike.partitions.remove(partition)
        if moved.to_member != owner:
            raise UndefinedBehaviorError(NO_RECORD)
        if not alike.partitions:
            pairs = self._by_topic[partition[0]]
            del pairs[moved.from_member, moved.to_member]
            if not pairs:
                del self._by_topic[partition[0]]
            if instead:
                raise UndefinedBehaviorError(FREED)
        if moved.from_member != to_member:
            self._note(partition, _MemberPair(moved.from_member, to_member))
        return alike.partitions[0] if instead else partition

    def _note(self, partition: TopicPartition, pair: _MemberPair) -> None:
        if partition in self._of:
            self._of[partition].freed = True
        self._of[partition] = pair
        self._by_topic.setdefault(partition[0], {})
        alike = self._alike(partition[0], pair.from_member, pair.to_member)
        if alike is None:
            alike = self._by_topic[partition[0]][pair.from_member, pair.to_member] = _PairMoves(pair)
        alike.partitions.append(partition)

    def _alike(self, topic: str, from_member: str, to_member: str) -> _PairMoves | None:
        alike = self._by_topic.get(topic, {}).get((from_member, to_member))
        if alike is not None and alike.key.freed:
            raise UndefinedBehaviorError(FREED)
        return alike
