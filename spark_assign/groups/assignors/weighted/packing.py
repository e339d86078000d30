"""Partitions with a load, and members with room for it: one group, or the part of it that shares members."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from spark_assign.numeric.array_types import BoolArray, FloatArray, IntArray

NO_MEMBER = -1

_ROUNDING = 1e-9
"""Sums of loads are floats: so much more than the bound, as a share of it, is not more."""


@dataclass(frozen=True)
class Packing:
    """Who has what, and how much a member may have.

    Attributes:
        load: of each partition, above zero.
        home: of each partition the member that owns it, which may have it; `NO_MEMBER`.
        kind: of each partition the set of members that may have it, a number of `may`.
        may: members, ascending; no set is empty.
        bound: of each member the load that it may have. One partition alone may be more.
    """

    load: FloatArray
    home: IntArray
    kind: IntArray
    may: list[IntArray]
    bound: FloatArray

    @property
    def members(self) -> int:
        """How many."""
        return len(self.bound)

    @cached_property
    def limit(self) -> FloatArray:
        """Of each member its bound, with what rounding may add to a sum."""
        return np.asarray(self.bound * (1 + _ROUNDING), np.float64)

    @cached_property
    def allows(self) -> BoolArray:
        """Of each set of members whether a member is in it."""
        allows = np.zeros((len(self.may), self.members), bool)
        for number, members in enumerate(self.may):
            allows[number, members] = True
        return allows

    def with_bound(self, bound: FloatArray) -> Packing:
        """The same with other bounds."""
        return replace(self, bound=bound)

    def loads(self, at: IntArray) -> FloatArray:
        """Of each member what it has to do."""
        some = at >= 0
        return np.bincount(at[some], self.load[some], self.members).astype(np.float64)

    def too_much(self, at: IntArray) -> BoolArray:
        """Members that have more than their bound, and more than one partition."""
        number = np.bincount(at[at >= 0], minlength=self.members)
        return np.asarray((self.loads(at) > self.limit) & (number > 1))

    def holds(self, at: IntArray) -> bool:
        """Whether everything is with somebody, and nobody has too much."""
        return bool((at >= 0).all()) and not self.too_much(at).any()

    def cannot_hold(self) -> bool:
        """Whether it is plain that no assignment holds the bounds: no two share a member that are more than half of the
        largest bound, and what is not more than a bound by itself is more than all of them."""
        largest = float(self.limit.max())
        hot = self.load > largest
        room = largest * max(self.members - int(hot.sum()), 0)
        return int((self.load > largest / 2).sum()) > self.members or float(self.load[~hot].sum()) > room

    def moved(self, at: IntArray) -> float:
        """How much load changes its owner."""
        return float(self.load[(self.home >= 0) & (at != self.home)].sum())
