"""Groups as weighted-sticky sees them, many side by side, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass

from spark_assign.groups.assignors.sticky.sticky_types import BALANCING
from spark_assign.numeric.array_types import FloatArray, IntArray

HELD, HOT_PARTITION, OVER_CAPACITY, RELAXED = range(4)
WORDS = ("held", "hot-partition", "over-capacity", "relaxed")
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
        group: of each partition its group, ascending; within a group they are in the order that breaks ties.
        load: of each partition, zero or more.
        owner: of each partition the member that has it, and may have it; -1: nobody.
        kind: of each partition the set of members that may have it, a number of `may`.
        may: members of one group, ascending. An empty one: nobody may.
        bound: of each group the load that a member may have.
        capacity: of each group what a member can handle; infinite: not known.
    """

    member_group: IntArray
    group: IntArray
    load: FloatArray
    owner: IntArray
    kind: IntArray
    may: list[IntArray]
    bound: FloatArray
    capacity: FloatArray


@dataclass(frozen=True)
class WeightedAssignment:
    """Who gets what.

    Attributes:
        owner: of each partition its next owner; -1 where nobody may have it.
        reason: of each partition why it was taken from its owner: `OVER_LOAD`, `MAKES_ROOM`, or, of one without load,
            `OVER_QUOTA`; `STAYS` where it was not.
        word: of each group a place in `WORDS`.
    """

    owner: IntArray
    reason: IntArray
    word: IntArray
