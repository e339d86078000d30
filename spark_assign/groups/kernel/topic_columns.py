"""Topics of groups, as numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.segmented_arrays import exclusive_sum


@dataclass(frozen=True)
class TopicColumns:
    """Topics of groups, sorted by group and name; of each

    Attributes:
        group, name: its group and the number of its name.
        partitions: -1 where there is no such topic.
        is_subscribed: whether a member subscribes to it.
        subscriber_set: the class of its subscribers, `EVERYONE` (also for none) or a number of `GroupSpecs.classes`.
    """

    group: IntArray
    name: IntArray
    partitions: IntArray
    is_subscribed: BoolArray
    subscriber_set: IntArray

    def __len__(self) -> int:
        return len(self.group)

    def sum_of_preceding(self, each: IntArray) -> IntArray:
        """What the topics that come before each in its group have of something, added up."""
        return exclusive_sum(each, np.searchsorted(self.group, self.group))

    @cached_property
    def with_metadata(self) -> IntArray:
        """The topics that are subscribed to and have metadata."""
        return np.flatnonzero(self.is_subscribed & (self.partitions > 0))
