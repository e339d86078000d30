"""Target assignments of KIP-848 groups, and the topics image that they refer to.

Kafka's `TargetAssignmentBuilder` passes all members with their previous targets to the assignor, and writes the changed
targets as records. The iteration order of Java's maps and sets depends on their insertion history
(`TargetAssignment.walk`); it decides which partitions a member gives up if it has too many.

Members subscribe to names, but partitions belong to topic IDs: a topic that is deleted and created again is another
topic.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from spark_assign.assignors.server import UNIFORM
from spark_assign.assignors.server.coordinator_order import (
    iteration_order,
    map_capacity,
    power_of_two,
    set_capacity,
)
from spark_assign.java.hash_map import java_key, string_hash
from spark_assign.simulation.kernel.assignment_request import CODE_BITS, PARTITION_MASK


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic with metadata.

    Attributes:
        number: represents the topic ID; the upper part of partition keys.
        name: the topic name.
        partitions: the partition count.
        id_hash: `Uuid.hashCode`, unsigned. If IDs are unknown, a number that orders the topics by name.
        id_rank: rank by `Uuid.compareTo`. If IDs are unknown, rank by name.
    """

    number: int
    name: str
    partitions: int
    id_hash: int
    id_rank: int


@dataclass(slots=True)
class TopicsImage:
    """All topics of a cluster at a time, shared by groups.

    Attributes:
        by_name: existing topics.
        version: number of changes so far.
        created: version in which a topic was created last.
    """

    by_name: dict[str, Topic] = field(default_factory=dict)
    version: int = 0
    created: int = 0
    _numbers: dict[frozenset[str], frozenset[int]] = field(default_factory=dict)
    _walks: dict[frozenset[str], list[Topic]] = field(default_factory=dict)

    def put(self, topics: Iterable[Topic]) -> None:
        """Adds or updates topics in a new version."""
        self._changed()
        for topic in topics:
            before = self.by_name.get(topic.name)
            if before is None or before.number != topic.number:
                self.created = self.version
            self.by_name[topic.name] = topic

    def remove(self, names: Iterable[str]) -> None:
        """Removes topics in a new version."""
        self._changed()
        for name in names:
            self.by_name.pop(name, None)

    def _changed(self) -> None:
        self.version += 1
        self._numbers.clear()
        self._walks.clear()

    def topics(self, names: Iterable[str]) -> frozenset[Topic]:
        """Returns the existing topics with these names. The result is equal if nothing about them has changed."""
        by_name = self.by_name
        return frozenset([by_name[name] for name in names if name in by_name])

    def numbers(self, names: frozenset[str]) -> frozenset[int]:
        """Returns the numbers of the existing topics with these names."""
        if names not in self._numbers:
            self._numbers[names] = frozenset(topic.number for topic in self.topics(names))
        return self._numbers[names]

    def written_walk(self, names: frozenset[str]) -> list[Topic]:
        """Returns the topics in the iteration order of the hash set of their names, inserted in sorted order."""
        if names not in self._walks:
            self._walks[names] = self.name_walk(sorted(names, key=java_key))
        return self._walks[names]

    def name_walk(self, names: Sequence[str]) -> list[Topic]:
        """Returns the topics in the iteration order of the hash set of these unique names, inserted in this order."""
        walked = iteration_order(names, [string_hash(name) for name in names], set_capacity(len(names)), java_key)
        return [self.by_name[name] for name in walked if name in self.by_name]


def id_walk(topics: Sequence[Topic], names: int) -> list[Topic]:
    """Returns the topics in the iteration order of the hash set of their IDs.

    Args:
        topics: in insertion order.
        names: number of names for which the set is allocated, including those without metadata.
    """
    capacity = set_capacity(names)
    return iteration_order(topics, [topic.id_hash for topic in topics], capacity, lambda topic: topic.id_rank)


@dataclass(frozen=True, slots=True)
class TargetAssignment:
    """The target assignment of a member.

    Attributes:
        walk: partition keys in the iteration order of Java's map and sets.
        codes: the same partition keys, as a set.
        topics: numbers of their topics.
    """

    walk: tuple[int, ...] = ()
    codes: frozenset[int] = frozenset()
    topics: frozenset[int] = frozenset()

    def within(self, topics: frozenset[int]) -> Sequence[int]:
        """Returns the partition keys of these topics, in iteration order."""
        return self.walk if self.topics <= topics else [each for each in self.walk if each >> CODE_BITS in topics]


NOTHING = TargetAssignment()


@dataclass(slots=True)
class MemberSubscriptionAndAssignment:
    """A member as the assignor sees it (`MemberSubscriptionAndAssignmentImpl`).

    Attributes:
        subscribed: existing subscribed topics, in the iteration order of the set of their names.
        names: number of subscribed names, existing or not.
        target: the previous target.
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
        assignor: `uniform` or `server-range`.
        members: in the order in which the assignor iterates over them.
        homogeneous: whether all members have the same subscription (Kafka's `SubscriptionType`).
        taken: partitions in previous targets.
        topics: existing topics that any member subscribes to. For uniform in homogeneous groups, those of the first
            member, in the iteration order of the hash set of their IDs.
    """

    assignor: str
    members: Sequence[MemberSubscriptionAndAssignment]
    homogeneous: bool
    taken: Collection[int]
    topics: Sequence[Topic] = field(init=False)

    def __post_init__(self) -> None:
        if self.homogeneous and self.assignor == UNIFORM:
            self.topics = id_walk(self.members[0].subscribed, self.members[0].names)
        else:
            topics = {topic.number: topic for member in self.members for topic in member.subscribed}
            self.topics = list(topics.values())


TargetResponse = Mapping[str, TargetAssignment]
"""The new target: the targets of members that differ from the previous ones, by member ID."""


def follow(
    target: TargetAssignment,
    changes: Iterable[tuple[int, bool]],
    by_number: Mapping[int, Topic],
    sizes: Mapping[int, int] | None = None,
) -> TargetAssignment:
    """Returns the next target of a member, as written by the assignor, stored as a record, and read back.

    Args:
        target: the previous target.
        changes: partition keys in the order of the assignor's changes, each with True if assigned, False if revoked.
        by_number: topics by number.
        sizes: capacity of the set that the assignor allocates for each topic. None: default sets.
    """
    partitions: dict[int, dict[int, None]] = {}
    for each in target.walk:
        partitions.setdefault(each >> CODE_BITS, {})[each & PARTITION_MASK] = None
    # The assignor changes a copy of the map, in its iteration order. Its tables grow and never shrink.
    chain, capacity = list(partitions), map_capacity(len(partitions), power_of_two(len(partitions)))
    capacities = {topic: set_capacity(len(some)) for topic, some in partitions.items()}
    for each, given in changes:
        topic, partition = each >> CODE_BITS, each & PARTITION_MASK
        if given and topic not in partitions:
            # `computeIfAbsent` doubles a full table before it inserts a key at the front of its bucket.
            capacity = map_capacity(len(chain), capacity)
            chain.insert(0, topic)
            partitions[topic] = {}
            capacities[topic] = 16 if sizes is None else power_of_two(sizes[topic] * 4 // 3 + 1)
        some = partitions[topic]
        if given:
            some[partition] = None
            capacities[topic] = map_capacity(len(some), capacities[topic])
        else:
            del some[partition]
            if not some:
                del partitions[topic]
                chain.remove(topic)
    read = _read_back(_topic_walk(chain, by_number, capacity), by_number)
    return _stored({topic: _partition_walk(list(partitions[topic]), capacities[topic]) for topic in read})


def fresh(
    assigned: Sequence[int], topics: Sequence[int], by_number: Mapping[int, Topic], made_for: int | None = None
) -> TargetAssignment:
    """Returns a target that an assignor built from scratch, topic by topic, with ascending partitions.

    Args:
        assigned: partition keys, ascending within each topic.
        topics: topics with at least one partition, in insertion order.
        by_number: topics by number.
        made_for: number of topics for which the map is allocated. None: the number of `topics`.
    """
    size = len(topics) if made_for is None else made_for
    of_topic: dict[int, list[int]] = {topic: [] for topic in topics}
    for each in assigned:
        of_topic[each >> CODE_BITS].append(each & PARTITION_MASK)
    read = _read_back(_topic_walk(topics, by_number, power_of_two(size * 4 // 3 + 1)), by_number)
    return _stored({topic: _set_walk(of_topic[topic]) for topic in read})


def _stored(walks: Mapping[int, Sequence[int]]) -> TargetAssignment:
    """Returns the target with these partitions by topic, both in iteration order."""
    codes = tuple(topic << CODE_BITS | each for topic, walk in walks.items() for each in walk)
    return TargetAssignment(codes, frozenset(codes), frozenset(walks))


def _topic_walk(
    numbers: Sequence[int], by_number: Mapping[int, Topic], capacity: int, begins: int | None = None
) -> list[int]:
    """Returns the iteration order of a map of topics by ID."""
    hashes = [by_number[each].id_hash for each in numbers]
    return iteration_order(numbers, hashes, capacity, lambda each: by_number[each].id_rank, begins)


def _read_back(written: Sequence[int], by_number: Mapping[int, Topic]) -> list[int]:
    """Returns the iteration order of a map that grows while the record is read."""
    return _topic_walk(written, by_number, map_capacity(len(written)), map_capacity(0))


def _partition_walk(partitions: list[int], capacity: int) -> list[int]:
    """Returns the iteration order of a set of partitions that is written with this capacity and read back."""
    if len(partitions) == 1 or max(partitions) < set_capacity(
        len(partitions)
    ):  # each in a bucket of its own, however they are put in
        return sorted(partitions)
    return _set_walk(iteration_order(partitions, partitions, capacity))


def _set_walk(partitions: Sequence[int]) -> list[int]:
    """Returns the iteration order of a set that is made from these partitions in this order."""
    return iteration_order(partitions, partitions, set_capacity(len(partitions)))
