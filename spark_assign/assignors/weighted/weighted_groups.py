"""The input and output of weighted-sticky, and the bounds of groups.

The bound of a group is `load_bound` times the mean load of its members; or the load that a member can handle
(`capacity`), if only that is set; or the lower of both. By default, it is 1.1 times the mean. The loads of a quiet
topic
vary by about that much between two readings: a bound closer to the mean would be exceeded again after a minute, and
load would move for nothing; a higher one leaves the busiest member with load that another consumer could take.

If all members together can handle less than is written, no assignment helps, and the mean decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from spark_assign.assignors.group_specs import BALANCING
from spark_assign.numeric.arrays import BoolArray, FloatArray, IntArray

HELD, HOT_PARTITION, OVER_CAPACITY, RELAXED = range(4)
BOUND_STATUSES = ("held", "hot-partition", "over-capacity", "relaxed")
"""Statuses of a group's bound: no member exceeds it; only members with a single partition above it exceed it; all
members together can handle less than is written; no assignment was found that holds it."""

OVER_LOAD, MAKES_ROOM = BALANCING + 1, BALANCING + 2
"""Further reasons why a partition moved: its owner exceeds the bound; it made room for a partition that fits nowhere
else."""


@dataclass(frozen=True)
class WeightedGroups:
    """Groups 0, 1, … with members and partitions.

    Attributes:
        member_group: group of each member, ascending.
        partition_group: group of each partition, ascending. Within a group, the order of partitions breaks ties.
        load: load of each partition, in messages per second; zero or more.
        owner: owner of each partition, which must be eligible; -1 for none.
        eligible_set: index into `eligible_sets` of each partition.
        eligible_sets: members of one group that can get a partition, ascending; may be empty.
        bound: load that a member can have, for each group.
        capacity: load that a member can handle, for each group; infinite if unknown.
    """

    member_group: IntArray
    partition_group: IntArray
    load: FloatArray
    owner: IntArray
    eligible_set: IntArray
    eligible_sets: list[IntArray]
    bound: FloatArray
    capacity: FloatArray


@dataclass(frozen=True)
class WeightedAssignment:
    """Which member gets which partitions.

    Attributes:
        owner: next owner of each partition; -1 if no member is eligible.
        reason: why each partition moved: `OVER_LOAD`, `MAKES_ROOM`, or, without load, `OVER_QUOTA`; `KEPT` if it
        didn't.
        status: index into `BOUND_STATUSES`, for each group.
    """

    owner: IntArray
    reason: IntArray
    status: IntArray


NO_MEMBER = -1

ROUNDING = 1e-9
"""Relative tolerance of bounds, because sums of loads are floats."""


@dataclass(frozen=True)
class Packing:
    """Partitions with a load, and members with a bound: one group, or a part of it with members of its own.

    Attributes:
        load: load of each partition, above zero.
        home: owner of each partition, which must be eligible, or `NO_MEMBER`.
        eligible_set: index into `eligible_sets` of each partition.
        eligible_sets: members that can get a partition, ascending; never empty.
        bound: load that each member can have. A single partition can exceed it.
    """

    load: FloatArray
    home: IntArray
    eligible_set: IntArray
    eligible_sets: list[IntArray]
    bound: FloatArray

    @property
    def num_members(self) -> int:
        """Returns the number of members."""
        return len(self.bound)

    @cached_property
    def limit(self) -> FloatArray:
        """Returns the bound of each member, plus the tolerance."""
        return np.asarray(self.bound * (1 + ROUNDING), np.float64)

    @cached_property
    def is_eligible(self) -> BoolArray:
        """Returns a mask by eligible set and member, for few partitions."""
        is_eligible = np.zeros((len(self.eligible_sets), self.num_members), bool)
        for index, members in enumerate(self.eligible_sets):
            is_eligible[index, members] = True
        return is_eligible

    def loads(self, assigned: IntArray) -> FloatArray:
        """Returns the load of each member."""
        is_assigned = assigned >= 0
        return np.bincount(assigned[is_assigned], self.load[is_assigned], self.num_members).astype(np.float64)

    def is_overloaded(self, assigned: IntArray) -> BoolArray:
        """Returns a mask of the members above their bound with more than one partition."""
        num_partitions = np.bincount(assigned[assigned >= 0], minlength=self.num_members)
        return np.asarray((self.loads(assigned) > self.limit) & (num_partitions > 1))

    def holds_bounds(self, assigned: IntArray) -> bool:
        """Checks whether every partition is assigned and no member is overloaded."""
        return bool((assigned >= 0).all()) and not self.is_overloaded(assigned).any()

    def is_infeasible(self) -> bool:
        """Checks two simple conditions under which no assignment holds the bounds.

        There are more partitions above half of the highest bound than members, or the partitions that don't exceed a
        bound by themselves exceed the room of all other members.
        """
        largest = float(self.limit.max())
        is_hot = self.load > largest
        room = largest * max(self.num_members - int(is_hot.sum()), 0)
        return int((self.load > largest / 2).sum()) > self.num_members or float(self.load[~is_hot].sum()) > room

    def moved_load(self, assigned: IntArray) -> float:
        """Returns the load that changes its owner."""
        return float(self.load[(self.home >= 0) & (assigned != self.home)].sum())


LOAD_BOUND = 1.1
"""Default bound, as a multiple of the mean load of a member."""


def compute_bounds(
    total: FloatArray, num_members: IntArray, load_bound: FloatArray, capacity: FloatArray
) -> FloatArray:
    """Returns the load that a member can have, for each group.

    Args:
        total: load of all partitions.
        num_members: number of eligible members.
        load_bound, capacity: NaN if not set.
    """
    mean = total / np.maximum(num_members, 1)
    factor = np.where(np.isnan(load_bound), LOAD_BOUND, load_bound)
    by_mean = factor * mean
    known_capacity = np.where(np.isnan(capacity), np.inf, capacity)
    lower = np.where(np.isnan(load_bound), known_capacity, np.minimum(by_mean, known_capacity))
    is_feasible = ~np.isnan(capacity) & (known_capacity >= mean)
    return np.where(is_feasible, lower, by_mean)


def fill_loads(rate: FloatArray, topic: IntArray, group: IntArray, num_groups: int) -> FloatArray:
    """Returns the load of each partition.

    A partition without a rate gets the mean of its topic, or else of its group; NaN if the group has no rates.
    """
    known = ~np.isnan(rate)
    topics = int(topic.max(initial=-1)) + 1
    load = rate.copy()
    for row_key, num_keys in ((topic, topics), (group, num_groups)):
        sums = np.bincount(row_key[known], rate[known], num_keys)
        counts = np.bincount(row_key[known], minlength=num_keys)
        mean = np.divide(sums, counts, out=np.full(num_keys, np.nan), where=counts > 0)
        load = np.where(np.isnan(load), mean[row_key], load)
    return load
