"""A group as franz-go's sticky balancers see it, and whose claims they believe.

Who has least, and who has how much: the orders in which franz-go asks its members."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import accumulate

import numpy as np

from spark_assign.numeric.array_types import IntArray

NO_MEMBER = -1


@dataclass(frozen=True)
class FranzGoGroup:
    """One group: members 0, 1, … as its leader sorts them, and topics 0, 1, … by name.

    Partitions are numbered through, topic by topic.

    Attributes:
        num_members: how many.
        partitions: of each topic how many; 0 for a topic that nobody knows of.
        subscribers: of each topic its subscribers, ascending.
        owner: of each partition the subscriber that has it before: who claims it in the newest generation, and of these
            the first; or nobody.
        stale: by partition who claims it as well and might get it back: of all others again the newest and first.
    """

    num_members: int
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

    def partitions_of(self, topic: int) -> range:
        """The partitions of a topic."""
        return range(self.first[topic], self.first[topic] + self.partitions[topic])


def resolve_owners(
    members: IntArray, claimed: IntArray, generation: IntArray, number: int
) -> tuple[IntArray, dict[int, int]]:
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


class MemberHeap:
    """A heap of members by load. Only its top ever changes, so things sink and never rise."""

    def __init__(self, members: Iterable[int], load: list[int]) -> None:
        self._heap, self._load = list(members), load
        for at in reversed(range(len(self._heap) // 2)):
            self._sink(at)

    def take_many(self, times: int) -> list[int]:
        """So many times the least loaded member, which has one more from then on.

        Once all have the same, each round of the heap goes by its places alone, whoever stands there.
        """
        load, size = self._load, len(self._heap)
        has = [load[member] for member in self._heap]
        until_level = size * max(has) - sum(has)
        if times < until_level + size:
            return self._one_by_one(times)
        taken = self._one_by_one(until_level)
        rounds, rest = divmod(times - until_level, size)
        turns, after = _round(size)
        heap = self._heap
        for _ in range(rounds):
            taken += [heap[at] for at in turns]
            heap = [heap[at] for at in after]
        for member in heap:
            load[member] += rounds
        self._heap = heap
        return taken + self._one_by_one(rest)

    def _one_by_one(self, times: int) -> list[int]:
        heap, load = self._heap, self._load
        size, taken = len(heap), []
        for _ in range(times):
            top = heap[0]
            taken.append(top)
            load[top] = mine = load[top] + 1
            at, least = 0, 1
            while least < size:
                if least + 1 < size and load[heap[least + 1]] < load[heap[least]]:
                    least += 1
                if mine <= load[heap[least]]:
                    break
                heap[at] = heap[least]
                at, least = least, 2 * least + 1
            heap[at] = top
        return taken

    def _sink(self, at: int) -> None:
        heap, load = self._heap, self._load
        while (least := 2 * at + 1) < len(heap):
            if least + 1 < len(heap) and load[heap[least + 1]] < load[heap[least]]:
                least += 1
            if load[heap[at]] <= load[heap[least]]:
                return
            heap[at], heap[least] = heap[least], heap[at]
            at = least


@lru_cache(maxsize=64)
def _round(size: int) -> tuple[list[int], list[int]]:
    """The places from which a heap of so many, all alike, takes each once; and who stands where after it."""
    heap = MemberHeap(range(size), [0] * size)
    return heap._one_by_one(size), heap._heap


class LoadLevels:
    """Members by their load, those of a level in the order in which they came to it."""

    def __init__(self, load: list[int]) -> None:
        self.of: dict[int, list[int]] = {}
        for member, level in enumerate(load):
            self.members_at(level).append(member)

    def members_at(self, level: int) -> list[int]:
        """The members of a level, to be changed."""
        return self.of.setdefault(level, [])

    def leave(self, level: int, member: int) -> None:
        """A member leaves; the last of its level takes its place."""
        swap_remove(self.of[level], member)
        self.drop_if_empty(level)

    def drop_if_empty(self, level: int) -> None:
        """Forget a level that nobody is on."""
        if not self.of[level]:
            del self.of[level]


def swap_remove(values: list[int], value: int) -> None:
    """Take a value out of a list; the last one takes its place."""
    values[values.index(value)] = values[-1]
    values.pop()
