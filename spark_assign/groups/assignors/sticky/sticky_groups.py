"""The input and output of the sticky kernels, and the hash orders of a group's members.

The sticky assignors fill these hash maps with the members of a group:

    subscriptions             filled in the order of the member list. Its order decides about equal subscriptions,
                              conflicts, previous owners, and the subscribers of a topic
    currentAssignment         filled in the order of the first. Its order decides which members keep one more partition
                              (constrained)
    ... while balancing       (general) without the fixed members, which are added again at the end
    ... a copy                restored if balancing didn't improve the balance

All have the same iteration order unless a bucket is treeified, that is, holds more than eight members
(`java.hash_map`). Only in this case, each map is filled, emptied, and iterated as in Java.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from spark_assign.java.hash_map import HashTable, partition_hash, table_orders
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PartitionSlices

KEPT, OVER_QUOTA, RACK_MISMATCH, BALANCING = range(4)
"""Reasons why a partition moves from a member that could have kept it."""


@dataclass(frozen=True)
class TreeifiedMembers:
    """Members of groups in which a bucket is treeified, so that each hash map has its own iteration order.

    Attributes:
        owned_hash_order: position of each member in the map of current assignments, which is filled in the order of the
            map of subscriptions.
        hash: `String.hashCode` of each member id.
    """

    owned_hash_order: IntArray
    hash: IntArray

    def select(self, members: IntArray) -> TreeifiedMembers:
        """Returns the selected members."""
        return TreeifiedMembers(self.owned_hash_order[members], self.hash[members])


@dataclass(frozen=True)
class StickyGroups:
    """Groups 0, 1, … with their members and topics.

    Attributes:
        member_group: group of each member. Members are sorted by group and by `String.compareTo` of their ids.
        hash_order: position of each member in the hash map of subscriptions; distinct over all groups.
        topic_group: group of each topic with metadata. Topics are sorted by group and name.
        partitions: number of partitions of each topic.
        cooperative: whether a partition that moves is withheld until its owner has revoked it.
        treeified: None if all hash maps of a group's members have the same iteration order.
    """

    member_group: IntArray
    hash_order: IntArray
    topic_group: IntArray
    partitions: IntArray
    cooperative: bool
    treeified: TreeifiedMembers | None = None

    @property
    def num_groups(self) -> int:
        """Returns the number of groups."""
        return int(self.member_group[-1]) + 1 if len(self.member_group) else 0

    @property
    def owned_hash_order(self) -> IntArray:
        """Returns the position of each member in the hash map of current assignments."""
        return self.hash_order if self.treeified is None else self.treeified.owned_hash_order


@dataclass(frozen=True)
class Subscribers:
    """Which members can get which partitions of one group.

    Attributes:
        is_subscribed: for topics with metadata. Shape: (num_topics, num_members).
        topic_hash: `String.hashCode` of each topic's name.
        previous_owner: partition key to the owner in the newest of the earlier generations.
    """

    is_subscribed: BoolArray
    topic_hash: IntArray
    previous_owner: dict[int, int]


@dataclass(frozen=True)
class StickyAssignment:
    """Which member gets which partitions.

    Attributes:
        slices: the assignment, including withheld partitions.
        reason: why the partitions of each slice moved from a member that could have kept them; `KEPT` if they didn't.
        withheld: whether another member must revoke the partitions of each slice first.
        rejected: group to the exception that Kafka's class throws; such a group has no slices.
        error_member: rejected group to the member whose id replaces `{}` in the exception.
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
    """Returns `StickyGroups.hash_order` and `StickyGroups.treeified`.

    Args:
        hashes: `String.hashCode` of each member id.
        ids: integer for each member that sorts like its id.
        group: group of each member, ascending.
        listed: members in the order of the leader's member list, group after group.
    """
    sorted_group = group[listed]
    order, owned_order = table_orders(hashes[listed], ids[listed], sorted_group)
    hash_order = _positions(listed[order])
    return hash_order, None if owned_order is order else TreeifiedMembers(_positions(listed[owned_order]), hashes)


def hash_order_while_balancing(groups: StickyGroups, participates: BoolArray) -> IntArray:
    """Returns the position of each member of one group in the map of current assignments while the group is
    balanced."""
    if groups.treeified is None:
        return groups.hash_order
    return _positions(_set_aside(groups, participates)[0].iteration_order() + np.flatnonzero(~participates).tolist())


def hash_order_after_balancing(groups: StickyGroups, participates: BoolArray, *, reverted: bool) -> IntArray:
    """Returns the position of each member of one group in the map of current assignments after balancing.

    Args:
        groups: the one group.
        participates: mask of the members that aren't fixed.
        reverted: whether balancing was undone.
    """
    if groups.treeified is None:
        return groups.hash_order
    owned, fixed = _set_aside(groups, participates)
    if reverted:
        copy: HashTable[int] = HashTable(rank=_identity)
        _fill(copy, owned.iteration_order(), groups.treeified)
        owned.clear()
        _fill(owned, copy.iteration_order(), groups.treeified)
    _fill(owned, fixed.iteration_order(), groups.treeified)
    return _positions(owned.iteration_order())


def _set_aside(groups: StickyGroups, participates: BoolArray) -> tuple[HashTable[int], HashTable[int]]:
    """Returns the map of current assignments and the map of fixed members (`GeneralAssignmentBuilder.balance`)."""
    assert groups.treeified is not None
    listed = np.argsort(groups.hash_order).tolist()
    size = len(listed)
    owned: HashTable[int] = HashTable(rank=_identity)
    potential: HashTable[int] = HashTable(1 << (size - 1).bit_length(), _identity)
    fixed: HashTable[int] = HashTable(rank=_identity)
    _fill(owned, listed, groups.treeified)
    _fill(potential, listed, groups.treeified)
    for member in potential.iteration_order():
        if not participates[member]:
            owned.remove(member)
            _fill(fixed, [member], groups.treeified)
    return owned, fixed


def _fill(table: HashTable[int], members: list[int], treeified: TreeifiedMembers) -> None:
    for member in members:
        table.add(member, int(treeified.hash[member]))


def _identity(member: int) -> int:
    """Returns the rank of a member: its index, because members are sorted by id."""
    return member


def _positions(order: IntArray | list[int]) -> IntArray:
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    return position


class PartitionMovements:
    """The moves of partitions while a group is balanced (Kafka's `PartitionMovements`).

    A partition is identified by `number`, its position in the order in which Kafka iterates over all partitions.
    """

    def __init__(self, topic_hash: IntArray) -> None:
        self.topic_hash = topic_hash
        self.moved: dict[int, tuple[int, int]] = {}
        self.between: dict[tuple[int, int, int], HashTable[int]] = {}

    def partition_to_move(self, number: int, topic: int, from_member: int, to_member: int) -> int:
        """Returns the partition to move instead: one of the same topic that moved the opposite way, or else this
        one."""
        if number in self.moved:
            from_member = self.moved[number][0]
        opposite = self.between.get((topic, to_member, from_member))
        return opposite.first() if opposite else number

    def record_move(self, number: int, topic: int, partition: int, from_member: int, to_member: int) -> None:
        """Records a move. A partition that moves again counts as moved from its first owner."""
        if number in self.moved:
            first, last = self.moved.pop(number)
            table = self.between[topic, first, last]
            table.remove(number)
            if not table:
                del self.between[topic, first, last]
            if first == to_member:
                return
            from_member = first
        self.moved[number] = (from_member, to_member)
        table = self.between.setdefault((topic, from_member, to_member), HashTable())
        table.add(number, partition_hash(int(self.topic_hash[topic]), partition))

    def state(self) -> object:
        """Returns a value that determines later results; with treeified tables, one that equals no other state."""
        if any(table.treeified for table in self.between.values()):
            return object()
        return dict(self.moved), {key: (table.capacity, list(table.spread)) for key, table in self.between.items()}
