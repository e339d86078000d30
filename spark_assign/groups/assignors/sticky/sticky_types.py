"""Groups as the sticky kernels see them: numbers in place of names, many groups side by side."""

from __future__ import annotations

from dataclasses import dataclass, field

from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PartitionSlices

STAYS, OVER_QUOTA, RACK_MISMATCH, BALANCING = range(4)
"""Why a partition is taken from the member that could have kept it."""


@dataclass(frozen=True)
class TreeifiedMembers:
    """What has to be known of members where so many share a bucket that each hash map has an order of its own.

    Attributes:
        owned_walk: of each member its place in the map of what members own, which is filled in the walk of the first.
        hash: of each member its `String.hashCode`.
    """

    owned_walk: IntArray
    hash: IntArray

    def part(self, members: IntArray) -> TreeifiedMembers:
        """Of some of the members."""
        return TreeifiedMembers(self.owned_walk[members], self.hash[members])


@dataclass(frozen=True)
class StickyGroups:
    """Groups 0, 1, … with their members and topics.

    Attributes:
        member_group: of each member its group; members are sorted by group and by `String.compareTo` of their ids.
        walk: of each member its place in the hash map of its group's subscriptions; places are distinct over all.
        topic_group: of each topic with metadata its group; topics are sorted by group and name.
        partitions: of each topic its number of partitions.
        cooperative: whether partitions that change hands are withheld until their owner has given them up.
        treeified: null where all hash maps of a group's members are walked alike.
    """

    member_group: IntArray
    walk: IntArray
    topic_group: IntArray
    partitions: IntArray
    cooperative: bool
    treeified: TreeifiedMembers | None = None

    @property
    def number(self) -> int:
        """How many groups."""
        return int(self.member_group[-1]) + 1 if len(self.member_group) else 0

    @property
    def owned_walk(self) -> IntArray:
        """Of each member its place in the hash map of what members own."""
        return self.walk if self.treeified is None else self.treeified.owned_walk


@dataclass(frozen=True)
class StickyAssignment:
    """Who gets what.

    Attributes:
        runs: the assignment, partitions that are withheld included.
        reason: of each run, why it was taken from the member that could have kept it (`STAYS` where it was not).
        withheld: whether each run has to be given up by another member first.
        refused: group to the exception with which Kafka's class would stop; such a group has no runs.
        named: of refused groups the member whose id stands in that exception, in the place of `{}`.
    """

    runs: PartitionSlices
    reason: IntArray
    withheld: BoolArray
    refused: dict[int, str]
    named: dict[int, int] = field(default_factory=dict)


NOTHING_LEFT = "IllegalStateException: No more unfilled consumers to be assigned."
NOT_FILLED = (
    "IllegalStateException: We haven't reached the expected number of members with more than the minQuota "
    "partitions, but no more partitions to be assigned"
)
NOT_REACHED = (
    "IllegalStateException: Consumer: [{}] doesn't reach minQuota partitions, and no more partitions to be assigned"
)
UNDER_CAPACITY = "IllegalStateException: Some consumers are under capacity but all partitions have been assigned"
AT_CAPACITY = "IllegalStateException: Some partitions are unassigned but all consumers are at maximum capacity"
