"""What groups commit, as columns of many groups, and of one group as a mapping that reads them when it is asked."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import pyarrow as pa

from spark_assign.history.kernel.commit_intervals import CommitIntervals
from spark_assign.history.kernel.timeline import CommitInterval
from spark_assign.numeric.array_types import IntArray

Slot = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True)
class CommitColumns:
    """All that the groups of a piece commit, as columns.

    Attributes:
        group, topic, partition: of each slot, by group and slot.
        whole: the intervals of all.
        first: the place of each slot's first interval, and their number at the end.
        deleted: the tombstones of each slot.
    """

    group: IntArray
    topic: pa.DictionaryArray
    partition: IntArray
    whole: CommitIntervals
    first: IntArray
    deleted: IntArray

    @cached_property
    def several(self) -> list[int]:
        """The places of slots that have several intervals."""
        places: list[int] = np.flatnonzero(np.diff(self.first) > 1).tolist()
        return places

    def of(self, begin: int, end: int) -> Iterator[tuple[Slot, tuple[CommitInterval, ...]]]:
        """Some slots, each with its intervals."""
        first = self.first[begin : end + 1].tolist()
        columns = (getattr(self.whole, name)[first[0] : first[-1]].tolist() for name in CommitInterval._fields)
        intervals = list(map(CommitInterval, *columns))
        names = self.topic.slice(begin, end - begin).to_pylist()
        for name, partition, (since, until) in zip(
            names, self.partition[begin:end].tolist(), pairwise(first), strict=True
        ):
            yield (name, partition), tuple(intervals[since - first[0] : until - first[0]])


class Commits(Mapping[Slot, tuple[CommitInterval, ...]]):
    """What a group commits, read when somebody asks: of most groups nobody does."""

    def __init__(self, slots: CommitColumns, begin: int, end: int) -> None:
        self._slots, self._begin, self._end = slots, begin, end

    def __getitem__(self, slot: Slot) -> tuple[CommitInterval, ...]:
        return self._known[slot]

    def __iter__(self) -> Iterator[Slot]:
        return iter(self._known)

    def __len__(self) -> int:
        return self._end - self._begin

    @cached_property
    def _known(self) -> dict[Slot, tuple[CommitInterval, ...]]:
        if not len(self):
            return {}
        return dict(sorted(self._slots.of(self._begin, self._end)))

    def silent(self) -> Iterator[tuple[Slot, tuple[CommitInterval, ...]]]:
        """What has several intervals, and so gaps between them."""
        several = self._slots.several
        begin, end = (bisect_left(several, place) for place in (self._begin, self._end))
        for place in several[begin:end]:
            yield from self._slots.of(place, place + 1)


def silent(commits: Mapping[Slot, tuple[CommitInterval, ...]]) -> list[tuple[Slot, tuple[CommitInterval, ...]]]:
    """What is committed with gaps, by topic and partition; what has none is not looked at."""
    told = commits.silent() if isinstance(commits, Commits) else commits.items()
    return sorted(each for each in told if len(each[1]) > 1)
