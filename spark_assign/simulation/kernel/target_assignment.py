"""Target assignments of KIP-848 groups: what their coordinator asks for, and the answers for many groups at once.

Kafka's `TargetAssignmentBuilder` hands the assignor all members with the target so far, and writes those of the new one
that differ as records. Java walks maps and sets in an order that hangs on what was put in when
(`TargetAssignment.walk`); it decides what an overfull member gives up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from spark_assign.groups.assignors.server.coordinator_hash_order import (
    iteration_order,
    map_capacity,
    power_of_two,
    set_capacity,
)
from spark_assign.java.hash_map import java_key, string_hash
from spark_assign.simulation.kernel.assignment_request import CODE_BITS


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic with metadata.

    Attributes:
        number: stands for its id; the upper part of its partitions' codes.
        name: its name.
        partitions: how many.
        id_hash: `Uuid.hashCode`, unsigned; of topics whose ids are not known, a number that orders them by name.
        id_rank: its place among all by `Uuid.compareTo`; the same.
    """

    number: int
    name: str
    partitions: int
    id_hash: int
    id_rank: int


@dataclass(slots=True)
class TopicsImage:
    """All topics of a cluster at a time; groups share it.

    Attributes:
        by_name: those that there are.
        version: counts the changes.
        created: the version in which a topic came last.
    """

    by_name: dict[str, Topic] = field(default_factory=dict)
    version: int = 0
    created: int = 0
    _numbers: dict[frozenset[str], frozenset[int]] = field(default_factory=dict)
    _walks: dict[frozenset[str], list[Topic]] = field(default_factory=dict)

    def put(self, topics: Iterable[Topic]) -> None:
        """These are new, or have changed: a new version."""
        self._changed()
        for topic in topics:
            before = self.by_name.get(topic.name)
            if before is None or before.number != topic.number:
                self.created = self.version
            self.by_name[topic.name] = topic

    def remove(self, names: Iterable[str]) -> None:
        """These are gone: a new version."""
        self._changed()
        for name in names:
            self.by_name.pop(name, None)

    def _changed(self) -> None:
        self.version += 1
        self._numbers.clear()
        self._walks.clear()

    def topics(self, names: Iterable[str]) -> frozenset[Topic]:
        """Those of these names that there are; equal if nothing in them has changed."""
        by_name = self.by_name
        return frozenset([by_name[name] for name in names if name in by_name])

    def numbers(self, names: frozenset[str]) -> frozenset[int]:
        """The numbers of those of these names that there are."""
        if names not in self._numbers:
            self._numbers[names] = frozenset(topic.number for topic in self.topics(names))
        return self._numbers[names]

    def written_walk(self, names: frozenset[str]) -> list[Topic]:
        """The topics in the walk of the hash set of their names, which is filled as they are written: sorted."""
        if names not in self._walks:
            self._walks[names] = self.name_walk(sorted(names, key=java_key))
        return self._walks[names]

    def name_walk(self, names: Sequence[str]) -> list[Topic]:
        """The same of names, each once, in the order in which they are put into the set."""
        walked = iteration_order(names, [string_hash(name) for name in names], set_capacity(len(names)), java_key)
        return [self.by_name[name] for name in walked if name in self.by_name]


def id_walk(topics: Sequence[Topic], names: int) -> list[Topic]:
    """The topics in the walk of the hash set of their ids.

    Args:
        topics: in the order in which their ids are put into the set.
        names: how many it is made for; those without metadata count.
    """
    capacity = set_capacity(names)
    return iteration_order(topics, [topic.id_hash for topic in topics], capacity, lambda topic: topic.id_rank)


_PARTITION = (1 << CODE_BITS) - 1


@dataclass(frozen=True, slots=True)
class TargetAssignment:
    """What a member is to have.

    Attributes:
        walk: its partitions in the order of Java's map and sets.
        codes: the same.
        topics: theirs.
    """

    walk: tuple[int, ...] = ()
    codes: frozenset[int] = frozenset()
    topics: frozenset[int] = frozenset()

    @staticmethod
    def of(walk: Sequence[int], topics: Iterable[int]) -> TargetAssignment:
        """Of partitions in their walk, and their topics."""
        return TargetAssignment(tuple(walk), frozenset(walk), frozenset(topics))

    def within(self, topics: frozenset[int]) -> Sequence[int]:
        """Those of these topics, in their walk."""
        return self.walk if self.topics <= topics else [each for each in self.walk if each >> CODE_BITS in topics]


NOTHING = TargetAssignment()


@dataclass(slots=True)
class MemberSubscriptionAndAssignment:
    """A member as the assignor sees it (`MemberSubscriptionAndAssignmentImpl`).

    Attributes:
        subscribed: the topics that it subscribes to and that there are, in the walk of its set of names.
        names: to how many it subscribes, there or not.
        target: what it was to have so far.
    """

    member_id: str
    instance_id: str | None
    subscribed: Sequence[Topic]
    names: int
    target: TargetAssignment


@dataclass(slots=True)
class TargetRequest:
    """A target that a group needs.

    Attributes:
        assignor: `uniform` or `server-range`, by their names here.
        members: in the order in which the assignor sees them.
        topics: all topics that anybody subscribes to and that there are; for uniform in homogeneous groups those of the
            first member, in the walk of the hash set of their ids.
        homogeneous: everybody subscribes to the same (Kafka's `SubscriptionType`).
        taken: the partitions that somebody was to have so far.
    """

    assignor: str
    members: Sequence[MemberSubscriptionAndAssignment]
    topics: Sequence[Topic]
    homogeneous: bool
    taken: Collection[int]


@dataclass(slots=True)
class TargetResponse:
    """The new target.

    Attributes:
        changed: of each member whose target is another one than before.
        error: always null: the broker's assignors refuse nothing. It is there as for a leader's answer.
    """

    changed: Mapping[str, TargetAssignment] = field(default_factory=dict)
    error: str | None = None


def follow(
    target: TargetAssignment,
    changes: Iterable[tuple[int, bool]],
    by_number: Mapping[int, Topic],
    sizes: Mapping[int, int] | None = None,
) -> TargetAssignment:
    """The member's next target: written by the assignor, sent as a record and read back.

    Args:
        target: the last one.
        changes: in the order in which the assignor makes them, partitions, and whether each is given or taken away.
        by_number: the topics.
        sizes: of each topic for how many partitions the assignor makes a set; null: it makes plain ones.
    """
    before: dict[int, dict[int, None]] = {}
    for each in target.walk:
        before.setdefault(each >> CODE_BITS, {})[each & _PARTITION] = None
    written = _Written(before, sizes)
    for each, given in changes:
        if given:
            written.give(each >> CODE_BITS, each & _PARTITION)
        else:
            written.take(each >> CODE_BITS, each & _PARTITION)
    return written.read(by_number)


class _Written:
    """The map of a member's target while the assignor changes it: a copy, whose tables grow and never shrink."""

    def __init__(self, partitions: dict[int, dict[int, None]], sizes: Mapping[int, int] | None) -> None:
        """Copied in the order of its walk."""
        self._chain = list(partitions)
        self._capacity = map_capacity(len(partitions), power_of_two(len(partitions)))
        self._partitions = partitions
        self._capacities = {topic: set_capacity(len(some)) for topic, some in partitions.items()}
        self._sizes = sizes

    def give(self, topic: int, partition: int) -> None:
        """`computeIfAbsent` doubles a table that is too full before it puts in a key, at the front of its bucket."""
        some = self._partitions.get(topic)
        if some is None:
            self._capacity = map_capacity(len(self._chain), self._capacity)
            self._chain.insert(0, topic)
            some = self._partitions[topic] = {}
            self._capacities[topic] = 16 if self._sizes is None else power_of_two(self._sizes[topic] * 4 // 3 + 1)
        some[partition] = None
        self._capacities[topic] = map_capacity(len(some), self._capacities[topic])

    def take(self, topic: int, partition: int) -> None:
        """A topic without partitions is taken out."""
        some = self._partitions[topic]
        del some[partition]
        if not some:
            del self._partitions[topic]
            self._chain.remove(topic)

    def read(self, by_number: Mapping[int, Topic]) -> TargetAssignment:
        """As it is read back."""
        read = _read_back(_topic_walk(self._chain, by_number, self._capacity), by_number)
        codes: list[int] = []
        for topic in read:
            begins = self._capacities[topic]
            codes += [topic << CODE_BITS | each for each in _partition_walk(list(self._partitions[topic]), begins)]
        return TargetAssignment.of(codes, read)


def fresh(
    assigned: Sequence[int], topics: Sequence[int], by_number: Mapping[int, Topic], made_for: int | None = None
) -> TargetAssignment:
    """A target that an assignor has built anew: topic by topic, partitions ascending.

    Args:
        assigned: of these topics, ascending within each.
        topics: in the order in which they were put into the map, each with a partition.
        by_number: what they are.
        made_for: how many topics the map was made for; null: for these.
    """
    size = len(topics) if made_for is None else made_for
    of_topic: dict[int, list[int]] = {topic: [] for topic in topics}
    for each in assigned:
        of_topic[each >> CODE_BITS].append(each & _PARTITION)
    read = _read_back(_topic_walk(topics, by_number, power_of_two(size * 4 // 3 + 1)), by_number)
    codes: list[int] = []
    for topic in read:
        some = of_topic[topic]
        codes += [topic << CODE_BITS | each for each in iteration_order(some, some, set_capacity(len(some)))]
    return TargetAssignment.of(codes, read)


def _topic_walk(
    numbers: Sequence[int], by_number: Mapping[int, Topic], capacity: int, begins: int | None = None
) -> list[int]:
    """Topics put into a map by their ids."""
    hashes = [by_number[each].id_hash for each in numbers]
    return iteration_order(numbers, hashes, capacity, lambda each: by_number[each].id_rank, begins)


def _read_back(written: Sequence[int], by_number: Mapping[int, Topic]) -> list[int]:
    """The same in a map that grows as the record is read."""
    return _topic_walk(written, by_number, map_capacity(len(written)), map_capacity(0))


def _partition_walk(partitions: list[int], capacity: int) -> list[int]:
    """Partitions put into a set of so many buckets, in the walk of the set that is read back."""
    least = set_capacity(len(partitions))
    if max(partitions) < least:  # each in a bucket of its own, however they are put in
        return sorted(partitions)
    written = iteration_order(partitions, partitions, capacity)
    return iteration_order(written, written, least)
