"""A group as franz-go's sticky balancers see it, and whose claims they believe."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

import numpy as np

from spark_assign.numeric.array_types import IntArray

NO_MEMBER = -1


@dataclass(frozen=True)
class FranzGoGroup:
    """One group: members 0, 1, … as its leader sorts them, and topics 0, 1, … by name.

    Partitions are numbered through, topic by topic.

    Attributes:
        members: how many.
        partitions: of each topic how many; 0 for a topic that nobody knows of.
        subscribers: of each topic its subscribers, ascending.
        owner: of each partition the subscriber that has it before: who claims it in the newest generation, and of these
            the first; or nobody.
        stale: by partition who claims it as well and might get it back: of all others again the newest and first.
    """

    members: int
    partitions: list[int]
    subscribers: list[list[int]]
    owner: list[int]
    stale: dict[int, int] = field(default_factory=dict)

    @cached_property
    def first(self) -> list[int]:
        """Of each topic its first partition."""
        return [0, *accumulate(self.partitions)][:-1]

    @cached_property
    def topic(self) -> list[int]:
        """Of each partition its topic."""
        return [topic for topic, count in enumerate(self.partitions) for _ in range(count)]

    def of_topic(self, topic: int) -> range:
        """The partitions of a topic."""
        return range(self.first[topic], self.first[topic] + self.partitions[topic])


def believe(members: IntArray, claimed: IntArray, generation: IntArray, number: int) -> tuple[IntArray, dict[int, int]]:
    """Of each partition who has it, and who else claims it.

    Args:
        members, claimed: claims, by member; a partition each.
        generation: of each member.
        number: of partitions.
    """
    owner = np.full(number, NO_MEMBER, np.int64)
    counts = np.bincount(claimed, minlength=number)
    once = counts[claimed] == 1
    owner[claimed[once]] = members[once]
    stale: dict[int, int] = {}
    newest: dict[int, int] = {}
    older: dict[int, int] = {}
    for member, partition in zip(members[~once].tolist(), claimed[~once].tolist(), strict=True):
        # Go knows no negative generation here: none at all counts as 0.
        mine = max(int(generation[member]), 0)
        if mine > newest.get(partition, -1):
            if partition in newest:
                stale[partition], older[partition] = int(owner[partition]), newest[partition]
            owner[partition], newest[partition] = member, mine
        elif mine > older.get(partition, -1):
            stale[partition], older[partition] = member, mine
    return owner, stale
