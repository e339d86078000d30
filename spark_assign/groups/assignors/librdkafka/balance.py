"""What has moved in a round of balancing, so that no topic's partitions are merely swapped between two members.

librdkafka keeps these records by reference, and goes on reading one after it is freed or has slipped into its place:

- A partition that is to move in place of another is an element of a list from which its record is removed first. So the
  next of that list moves; if there is none, what is read is freed memory.
- A pair is freed once the first partition that moved so moves on, and still is the key of those that moved so after it.

The first is modelled where there is a next one. Where freed memory decides nobody can say what a process does; mostly
it ends with a signal. There `UndefinedBehaviorError` is raised.


Balancing by single moves, as librdkafka's `balance()` and `performReassignments()` do it."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from spark_assign.groups.assignors.librdkafka.balancer_input import Assignment, TopicPartition


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


class LibrdkafkaMovements:
    """By partition how it has moved, and by topic and pair which have."""

    def __init__(self) -> None:
        self._of: dict[TopicPartition, _MemberPair] = {}
        self._by_topic: dict[str, dict[tuple[str, str], _PairMoves]] = {}

    def partition_to_move(self, partition: TopicPartition, owner: str, to_member: str) -> TopicPartition | None:
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


class LibrdkafkaBalancer:
    """Who has what at this moment, and who could have it.

    Args:
        given: by member id, what it has so far.
        owner: of each partition whom it counts as owned by, which may be somebody who claims it in vain.
        before: of some partitions the member that had it before.
        subscribers: of each topic with subscribers, their member ids.
        partitions: of each topic its count.
    """

    def __init__(
        self,
        given: Assignment,
        owner: dict[TopicPartition, str],
        before: dict[TopicPartition, str],
        subscribers: dict[str, list[str]],
        partitions: dict[str, int],
    ) -> None:
        self.given: dict[str, dict[TopicPartition, None]] = {who: dict.fromkeys(what) for who, what in given.items()}
        self._owner, self._before = owner, before
        self._subscribers = {topic: set(who) for topic, who in subscribers.items()}
        self._most: Counter[str] = Counter()
        self._topics: dict[str, list[str]] = {who: [] for who in given}
        for topic, members in subscribers.items():
            for member in members:
                self._most[member] += partitions[topic]
                self._topics[member].append(topic)
        self._of_topic: dict[str, Counter[str]] = {topic: Counter() for topic in subscribers}
        for who, what in self.given.items():
            for topic, _ in what:
                self._of_topic[topic][who] += 1
        self._line = sorted((len(what), who) for who, what in self.given.items())
        self._partitions = partitions
        self._twice: set[TopicPartition] = set()

    def assign(self, partition: TopicPartition, fits: Callable[[str, TopicPartition], bool] | None = None) -> bool:
        """Give a partition to whoever has least of those who may have it; false where nobody may."""
        subscribers = self._subscribers[partition[0]]
        for _, who in self._line:
            if who in subscribers and (fits is None or fits(who, partition)):
                self._add(who, partition)
                self._owner[partition] = who
                return True
        return False

    def run(
        self, ordered: list[TopicPartition], left: list[TopicPartition], *, fresh: bool, given_up: bool
    ) -> Assignment:
        """Balance; first what was left over, where nobody had to give up anything.

        Args:
            ordered: all partitions.
            left: those of them that nobody owned.
            fresh: whether nobody owned anything.
            given_up: whether somebody had to give up what it owns.
        """
        movable = [partition for partition in ordered if len(self._subscribers[partition[0]]) > 1]
        fixed = {who: list(what) for who, what in self.given.items() if not self._takes_part(who)}
        for who in fixed:
            self._line.remove((len(self.given[who]), who))
            del self.given[who]
        before = {who: dict(what) for who, what in self.given.items()}
        movements = LibrdkafkaMovements()
        if not given_up:
            self._reassign(movements, [partition for partition in left if len(self._subscribers[partition[0]]) > 1])
        moved = self._reassign(movements, movable)
        if not fresh and moved and _imbalance(self.given) >= _imbalance(before):
            self.given = before
        return {who: list(what) for who, what in self.given.items()} | fixed

    def _takes_part(self, who: str) -> bool:
        """Whether a member could get more, or has something that another may have."""
        if len(self.given[who]) < self._most[who]:
            return True
        return any(len(self._subscribers[topic]) > 1 for topic, _ in self.given[who])

    def _reassign(self, movements: LibrdkafkaMovements, partitions: list[TopicPartition]) -> bool:
        any_moved = again = False
        while True:
            again = False
            for partition in partitions:
                if self._is_balanced():
                    break
                to = self._better(partition)
                if to is not None:
                    self._move(movements, partition, to)
                    any_moved = again = True
            if not again:
                return any_moved

    def _better(self, partition: TopicPartition) -> str | None:
        """Who should have a partition in place of its owner."""
        owner, before = self._owner[partition], self._before.get(partition)
        if owner not in self.given or (before is not None and before not in self.given):
            raise UndefinedBehaviorError(NO_OWNER)
        has = len(self.given[owner])
        if before is not None and has > len(self.given[before]) + 1:
            return before
        subscribers = self._subscribers[partition[0]]
        least = next((count, who) for count, who in self._line if who in subscribers)
        return least[1] if has > least[0] + 1 else None

    def _move(self, movements: LibrdkafkaMovements, partition: TopicPartition, to_member: str) -> None:
        other = movements.partition_to_move(partition, self._owner[partition], to_member)
        owner = self._owner[partition if other is None else other]
        partition = movements.move(partition if other is None else other, owner, to_member, instead=other is not None)
        if partition in self.given[to_member]:
            raise UndefinedBehaviorError(NO_OWNER)
        self._add(to_member, partition)
        if partition in self.given[owner]:
            self._line.remove((len(self.given[owner]), owner))
            del self.given[owner][partition]
            self._of_topic[partition[0]][owner] -= 1
            insort(self._line, (len(self.given[owner]), owner))
        else:
            self._twice.add(partition)
        self._owner[partition] = to_member

    def _add(self, who: str, partition: TopicPartition) -> None:
        has = len(self.given[who])
        del self._line[bisect_left(self._line, (has, who))]
        insort(self._line, (has + 1, who))
        self.given[who][partition] = None
        self._of_topic[partition[0]][who] += 1

    def _is_balanced(self) -> bool:
        """Whether nobody could take a partition from one who has more."""
        if self._line[0][0] >= self._line[-1][0] - 1:
            return True
        if self._twice:
            return self._is_balanced_one_by_one()
        most: dict[str, int] = {}
        for has, who in self._line:
            if has == self._most[who]:
                continue
            for topic in self._topics[who]:
                if topic not in most:
                    owners = self._of_topic[topic]
                    most[topic] = max((len(self.given[each]) for each, n in owners.items() if n), default=0)
                if most[topic] > has:
                    return False
        return True

    def _is_balanced_one_by_one(self) -> bool:
        """The same where partitions are two members' by mistake: they count as that of who is listed first."""
        owner = {partition: who for who, what in reversed(self.given.items()) for partition in what}
        for has, who in self._line:
            if has == self._most[who]:
                continue
            for topic in self._topics[who]:
                for partition in range(self._partitions[topic]):
                    if (topic, partition) in self.given[who]:
                        continue
                    if (topic, partition) not in owner:
                        raise UndefinedBehaviorError(NO_OWNER)
                    if has < len(self.given[owner[topic, partition]]):
                        return False
        return True


def _imbalance(given: dict[str, dict[TopicPartition, None]]) -> int:
    """The differences between any two members, added up."""
    sizes = sorted(len(what) for what in given.values())
    return sum(size * (2 * at - len(sizes) + 1) for at, size in enumerate(sizes))
