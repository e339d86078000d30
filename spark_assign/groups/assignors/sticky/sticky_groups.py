"""Groups as the sticky kernels see them: numbers in place of names, many groups side by side.

The hash maps of members that the sticky assignors fill, and in which order each is walked.

    subscriptions             filled as the leader lists the members: equal subscriptions, claims in conflict, claims of
                              older generations, and the subscribers of a topic
    what members own          filled in the walk of the first: who keeps one partition more (constrained)
    the same while balanced   (general) without the members that take no part; they come back in the end
    a copy of that            what is gone back to where balancing has not helped

All are walked alike, but where more than eight members share a bucket (`java_hash`). Only there is each of them filled,
emptied and walked as Java does it.


What has moved while a group was balanced (Kafka's `PartitionMovements`)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from spark_assign.java.hash_map import HashTable, partition_hash, table_orders
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PartitionSlices

KEPT, OVER_QUOTA, RACK_MISMATCH, BALANCING = range(4)
"""Why a partition is taken from the member that could have kept it."""


@dataclass(frozen=True)
class TreeifiedMembers:
    """What has to be known of members where so many share a bucket that each hash map has an order of its own.

    Attributes:
        owned_hash_order: of each member its place in the map of what members own, which is filled in the walk of the
            first.
        hash: of each member its `String.hashCode`.
    """

    owned_hash_order: IntArray
    hash: IntArray

    def select(self, members: IntArray) -> TreeifiedMembers:
        """Of some of the members."""
        return TreeifiedMembers(self.owned_hash_order[members], self.hash[members])


@dataclass(frozen=True)
class StickyGroups:
    """Groups 0, 1, … with their members and topics.

    Attributes:
        member_group: of each member its group; members are sorted by group and by `String.compareTo` of their ids.
        hash_order: of each member its place in the hash map of its group's subscriptions; places are distinct over all.
        topic_group: of each topic with metadata its group; topics are sorted by group and name.
        partitions: of each topic its number of partitions.
        cooperative: whether partitions that change hands are withheld until their owner has given them up.
        treeified: null where all hash maps of a group's members are walked alike.
    """

    member_group: IntArray
    hash_order: IntArray
    topic_group: IntArray
    partitions: IntArray
    cooperative: bool
    treeified: TreeifiedMembers | None = None

    @property
    def num_groups(self) -> int:
        """How many groups."""
        return int(self.member_group[-1]) + 1 if len(self.member_group) else 0

    @property
    def owned_hash_order(self) -> IntArray:
        """Of each member its place in the hash map of what members own."""
        return self.hash_order if self.treeified is None else self.treeified.owned_hash_order


@dataclass(frozen=True)
class StickyAssignment:
    """Who gets what.

    Attributes:
        slices: the assignment, partitions that are withheld included.
        reason: of each run, why it was taken from the member that could have kept it (`KEPT` where it was not).
        withheld: whether each run has to be given up by another member first.
        rejected: group to the exception with which Kafka's class would stop; such a group has no runs.
        error_member: of refused groups the member whose id stands in that exception, in the place of `{}`.
    """

    slices: PartitionSlices
    reason: IntArray
    withheld: BoolArray
    rejected: dict[int, str]
    error_member: dict[int, int] = field(default_factory=dict)


NO_UNFILLED_MEMBERS = "IllegalStateException: No more unfilled consumers to be assigned."
TOO_FEW_PARTITIONS = (
    "IllegalStateException: We haven't reached the expected number of members with more than the minQuota "
    "partitions, but no more partitions to be assigned"
)
BELOW_MIN_QUOTA = (
    "IllegalStateException: Consumer: [{}] doesn't reach minQuota partitions, and no more partitions to be assigned"
)
UNDER_CAPACITY = "IllegalStateException: Some consumers are under capacity but all partitions have been assigned"
NO_SUCH_MEMBER = "NullPointerException: a member that takes no part in the balancing is asked for its partitions."
DOES_NOT_CONVERGE = "It never ends: the balancing moves partitions round and round."
AT_CAPACITY = "IllegalStateException: Some partitions are unassigned but all consumers are at maximum capacity"


class AssignorError(Exception):
    """Kafka's class throws an exception for this input."""


def member_hash_orders(
    hashes: IntArray, ids: IntArray, group: IntArray, listed: IntArray
) -> tuple[IntArray, TreeifiedMembers | None]:
    """`StickyGroups.walk` and `StickyGroups.treeified`.

    Args:
        hashes: of each member the `String.hashCode` of its id.
        ids: of each member a number that sorts as its id does.
        group: of each member, ascending.
        listed: the members as leaders list them, group after group.
    """
    sorted_group = group[listed]
    order, again = table_orders(hashes[listed], ids[listed], sorted_group)
    walk = _positions(listed[order])
    return walk, None if again is order else TreeifiedMembers(_positions(listed[again]), hashes)


def hash_order_while_balancing(groups: StickyGroups, takes_part: BoolArray) -> IntArray:
    """Of each member of one group its place in the map of what members own, while the group is balanced."""
    if groups.treeified is None:
        return groups.hash_order
    return _positions(_set_aside(groups, takes_part)[0].iteration_order() + np.flatnonzero(~takes_part).tolist())


def hash_order_after_balancing(groups: StickyGroups, takes_part: BoolArray, *, reverted: bool) -> IntArray:
    """The same at the end; `reverted` where balancing has not helped."""
    if groups.treeified is None:
        return groups.hash_order
    owned, aside = _set_aside(groups, takes_part)
    if reverted:
        copy: HashTable[int] = HashTable(rank=_identity)
        _fill(copy, owned.iteration_order(), groups.treeified)
        owned.clear()
        _fill(owned, copy.iteration_order(), groups.treeified)
    _fill(owned, aside.iteration_order(), groups.treeified)
    return _positions(owned.iteration_order())


def _set_aside(groups: StickyGroups, takes_part: BoolArray) -> tuple[HashTable[int], HashTable[int]]:
    """What members own, without those that take no part, and these (`GeneralAssignmentBuilder.balance`)."""
    assert groups.treeified is not None
    listed = np.argsort(groups.hash_order).tolist()
    size = len(listed)
    owned: HashTable[int] = HashTable(rank=_identity)
    potential: HashTable[int] = HashTable(1 << (size - 1).bit_length(), _identity)
    aside: HashTable[int] = HashTable(rank=_identity)
    _fill(owned, listed, groups.treeified)
    _fill(potential, listed, groups.treeified)
    for member in potential.iteration_order():
        if not takes_part[member]:
            owned.remove(member)
            _fill(aside, [member], groups.treeified)
    return owned, aside


def _fill(table: HashTable[int], members: list[int], treeified: TreeifiedMembers) -> None:
    for member in members:
        table.add(member, int(treeified.hash[member]))


def _identity(member: int) -> int:
    """Members are numbered as their ids sort."""
    return member


def _positions(order: IntArray | list[int]) -> IntArray:
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return place


class PartitionMovements:
    """Which partition has moved from whom to whom."""

    def __init__(self, topic_hash: IntArray) -> None:
        self.topic_hash = topic_hash
        self.moved: dict[int, tuple[int, int]] = {}
        self.between: dict[tuple[int, int, int], HashTable[int]] = {}

    def partition_to_move(self, number: int, topic: int, from_member: int, receiver: int) -> int:
        """The partition to move in place of this one: one of its topic that has moved the opposite way."""
        if number in self.moved:
            from_member = self.moved[number][0]
        opposite = self.between.get((topic, receiver, from_member))
        return opposite.first() if opposite else number

    def record_move(self, number: int, topic: int, partition: int, from_member: int, receiver: int) -> None:
        """Note a move; a partition that moves on counts as moved from where it was first."""
        if number in self.moved:
            first, last = self.moved.pop(number)
            table = self.between[topic, first, last]
            table.remove(number)
            if not table:
                del self.between[topic, first, last]
            if first == receiver:
                return
            from_member = first
        self.moved[number] = (from_member, receiver)
        table = self.between.setdefault((topic, from_member, receiver), HashTable())
        table.add(number, partition_hash(int(self.topic_hash[topic]), partition))

    def state(self) -> object:
        """What the answers to come hang on; with trees, which say less of themselves, like no other state."""
        if any(table.treeified for table in self.between.values()):
            return object()
        return dict(self.moved), {key: (table.capacity, list(table.spread)) for key, table in self.between.items()}
