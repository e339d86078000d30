"""Topics as the coordinator of KIP-848 groups knows them: by name and by id.

Members subscribe to names, partitions belong to ids: a topic that was deleted and created again is another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from spark_assign.groups.assignors.server.hash_iteration import set_capacity, walk
from spark_assign.java.hash_map import java_key, string_hash


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
        walked = walk(names, [string_hash(name) for name in names], set_capacity(len(names)), java_key)
        return [self.by_name[name] for name in walked if name in self.by_name]


def id_walk(topics: Sequence[Topic], names: int) -> list[Topic]:
    """The topics in the walk of the hash set of their ids.

    Args:
        topics: in the order in which their ids are put into the set.
        names: how many it is made for; those without metadata count.
    """
    capacity = set_capacity(names)
    return walk(topics, [topic.id_hash for topic in topics], capacity, lambda topic: topic.id_rank)
