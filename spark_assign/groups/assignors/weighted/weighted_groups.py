"""Groups as weighted-sticky sees them, many side by side, and what it answers.

Partitions with a load, and members with room for it: one group, or the part of it that shares members.

How much load a member of a group may have.

`load_bound` times the mean load of a member; what a member can handle, its `capacity`, where only that is said; the
lesser of both, where both are. Neither is said: 1.1 times the mean. So much the loads of partitions change between two
readings of a quiet topic: a bound much closer to the mean would be passed again the next minute, and load would move
for nothing; one much farther away leaves the busiest member with what one more consumer would have taken off it.

Where all members together can handle less than is written, no assignment helps, and the mean decides again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from spark_assign.groups.assignors.sticky.sticky_groups import BALANCING
from spark_assign.numeric.array_types import BoolArray, FloatArray, IntArray

HELD, HOT_PARTITION, OVER_CAPACITY, RELAXED = range(4)
BOUND_STATUSES = ("held", "hot-partition", "over-capacity", "relaxed")
"""How it went with a group's bound: nobody has more; nobody but members of one partition that is more by itself; all
members together can handle less than is written; no assignment was found that holds it."""

OVER_LOAD, MAKES_ROOM = BALANCING + 1, BALANCING + 2
"""Why a partition was taken from its owner, beside what the sticky assignors have: that has more load than its bound;
it made room for another one, that fitted nowhere else."""


@dataclass(frozen=True)
class WeightedGroups:
    """Groups 0, 1, … with members and partitions.

    Attributes:
        member_group: of each member its group, ascending.
        partition_group: of each partition its group, ascending; within a group they are in the order that breaks ties.
        load: of each partition, zero or more.
        owner: of each partition the member that has it, and may have it; -1: nobody.
        eligible_set: of each partition the set of members that may have it, a number of `eligible_sets`.
        eligible_sets: members of one group, ascending. An empty one: nobody may.
        bound: of each group the load that a member may have.
        capacity: of each group what a member can handle; infinite: not known.
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
    """Who gets what.

    Attributes:
        owner: of each partition its next owner; -1 where nobody may have it.
        reason: of each partition why it was taken from its owner: `OVER_LOAD`, `MAKES_ROOM`, or, of one without load,
            `OVER_QUOTA`; `STAYS` where it was not.
        status: of each group a place in `BOUND_STATUSES`.
    """

    owner: IntArray
    reason: IntArray
    status: IntArray


NO_MEMBER = -1

_ROUNDING = 1e-9
"""Sums of loads are floats: so much more than the bound, as a share of it, is not more."""


@dataclass(frozen=True)
class Packing:
    """Who has what, and how much a member may have.

    Attributes:
        load: of each partition, above zero.
        home: of each partition the member that owns it, which may have it; `NO_MEMBER`.
        eligible_set: of each partition the set of members that may have it, a number of `eligible_sets`.
        eligible_sets: members, ascending; no set is empty.
        bound: of each member the load that it may have. One partition alone may be more.
    """

    load: FloatArray
    home: IntArray
    eligible_set: IntArray
    eligible_sets: list[IntArray]
    bound: FloatArray

    @property
    def num_members(self) -> int:
        """How many."""
        return len(self.bound)

    @cached_property
    def limit(self) -> FloatArray:
        """Of each member its bound, with what rounding may add to a sum."""
        return np.asarray(self.bound * (1 + _ROUNDING), np.float64)

    @cached_property
    def is_eligible(self) -> BoolArray:
        """Of each set of members whether a member is in it."""
        allows = np.zeros((len(self.eligible_sets), self.num_members), bool)
        for number, members in enumerate(self.eligible_sets):
            allows[number, members] = True
        return allows

    def with_bound(self, bound: FloatArray) -> Packing:
        """The same with other bounds."""
        return replace(self, bound=bound)

    def loads(self, at: IntArray) -> FloatArray:
        """Of each member what it has to do."""
        some = at >= 0
        return np.bincount(at[some], self.load[some], self.num_members).astype(np.float64)

    def is_overloaded(self, at: IntArray) -> BoolArray:
        """Members that have more than their bound, and more than one partition."""
        number = np.bincount(at[at >= 0], minlength=self.num_members)
        return np.asarray((self.loads(at) > self.limit) & (number > 1))

    def holds_bounds(self, at: IntArray) -> bool:
        """Whether everything is with somebody, and nobody has too much."""
        return bool((at >= 0).all()) and not self.is_overloaded(at).any()

    def is_infeasible(self) -> bool:
        """Whether it is plain that no assignment holds the bounds: no two share a member that are more than half of the
        largest bound, and what is not more than a bound by itself is more than all of them."""
        largest = float(self.limit.max())
        hot = self.load > largest
        room = largest * max(self.num_members - int(hot.sum()), 0)
        return int((self.load > largest / 2).sum()) > self.num_members or float(self.load[~hot].sum()) > room

    def moved_load(self, at: IntArray) -> float:
        """How much load changes its owner."""
        return float(self.load[(self.home >= 0) & (at != self.home)].sum())


LOAD_BOUND = 1.1
"""Max over mean, where a group says nothing."""


def compute_bounds(total: FloatArray, members: IntArray, load_bound: FloatArray, capacity: FloatArray) -> FloatArray:
    """Of each group the load that a member may have.

    Args:
        total: the load of all of its partitions.
        members: how many may have partitions.
        load_bound, capacity: NaN where the group does not say it.
    """
    mean = total / np.maximum(members, 1)
    times = np.where(np.isnan(load_bound), LOAD_BOUND, load_bound)
    by_mean = times * mean
    said = np.where(np.isnan(capacity), np.inf, capacity)
    both = np.where(np.isnan(load_bound), said, np.minimum(by_mean, said))
    enough = ~np.isnan(capacity) & (said >= mean)
    return np.where(enough, both, by_mean)


def fill_loads(rate: FloatArray, topic: IntArray, group: IntArray, groups: int) -> tuple[FloatArray, IntArray]:
    """Of each partition its load: where no rate is known the mean of its topic's known ones, or else of its group's.

    Returns:
        loads, NaN in groups without any rate; and of each group how many of its partitions had no rate.
    """
    known = ~np.isnan(rate)
    topics = int(topic.max(initial=-1)) + 1
    load = rate.copy()
    for place, number in ((topic, topics), (group, groups)):
        sums = np.bincount(place[known], rate[known], number)
        counts = np.bincount(place[known], minlength=number)
        mean = np.divide(sums, counts, out=np.full(number, np.nan), where=counts > 0)
        load = np.where(np.isnan(load), mean[place], load)
    return load, np.bincount(group[~known], minlength=groups)
