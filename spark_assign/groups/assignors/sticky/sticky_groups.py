"""The input of the sticky kernels, and the hash orders of a group's members.

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

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from spark_assign.groups.kernel.group_specs import HashOrders
from spark_assign.java.hash_map import HashTable, partition_hash
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import invert


@dataclass(frozen=True)
class StickyGroups:
    """Groups as the sticky kernels see them. Groups, members, and topics are indexes of `GroupSpecs`; if there is one
    group, they start at its first member and topic.

    Attributes:
        member_group: group of each member. Members are sorted by group and by `String.compareTo` of their ids.
        topic_group: group of each topic. Topics are sorted by group and name.
        partitions: number of partitions of each topic; 0 if it isn't planned here.
        cooperative: whether a partition that moves is withheld until its owner has revoked it.
        read_hash_orders: returns the hash orders of the members. Kernels call it only if a result depends on them.
    """

    member_group: IntArray
    topic_group: IntArray
    partitions: IntArray
    cooperative: bool
    read_hash_orders: Callable[[], HashOrders]

    @property
    def num_groups(self) -> int:
        """Returns the number of groups."""
        return int(self.member_group[-1]) + 1 if len(self.member_group) else 0

    @cached_property
    def hash_orders(self) -> HashOrders:
        """Returns the hash orders of the members."""
        return self.read_hash_orders()

    @property
    def hash_order(self) -> IntArray:
        """Returns the position of each member in the hash map of subscriptions."""
        return self.hash_orders.subscriptions

    @property
    def owned_hash_order(self) -> IntArray:
        """Returns the position of each member in the hash map of current assignments."""
        return self.hash_orders.owned


KAFKA_FAILS = "kafka-fails"
"""Code of the rejection of a group for which Kafka's class throws an exception."""

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
    """Kafka's class throws an exception for this input, a single group.

    Attributes:
        member: the member whose id replaces `{}` in the message; None if there is none.
    """

    def __init__(self, message: str, member: int | None = None) -> None:
        super().__init__(message)
        self.member = member


def hash_order_while_balancing(groups: StickyGroups, participates: BoolArray) -> IntArray:
    """Returns the position of each member of one group in the map of current assignments while the group is
    balanced."""
    if not groups.hash_orders.treeified:
        return groups.hash_order
    order = _set_aside(groups, participates)[0].iteration_order() + np.flatnonzero(~participates).tolist()
    return invert(order, len(order))


def hash_order_after_balancing(groups: StickyGroups, participates: BoolArray, *, reverted: bool) -> IntArray:
    """Returns the position of each member of one group in the map of current assignments after balancing.

    Args:
        groups: the one group.
        participates: mask of the members that aren't fixed.
        reverted: whether balancing was undone.
    """
    if not groups.hash_orders.treeified:
        return groups.hash_order
    owned, fixed = _set_aside(groups, participates)
    hashes = groups.hash_orders.hash
    if reverted:
        copy: HashTable[int] = HashTable(rank=int)
        _fill(copy, owned.iteration_order(), hashes)
        owned.clear()
        _fill(owned, copy.iteration_order(), hashes)
    _fill(owned, fixed.iteration_order(), hashes)
    return invert(owned.iteration_order(), len(participates))


def _set_aside(groups: StickyGroups, participates: BoolArray) -> tuple[HashTable[int], HashTable[int]]:
    """Returns the map of current assignments and the map of fixed members (`GeneralAssignmentBuilder.balance`).

    Members are sorted by id, so the rank of a key is the index itself (`int`).
    """
    listed, hashes = np.argsort(groups.hash_order).tolist(), groups.hash_orders.hash
    size = len(listed)
    owned: HashTable[int] = HashTable(rank=int)
    potential: HashTable[int] = HashTable(1 << (size - 1).bit_length(), int)
    fixed: HashTable[int] = HashTable(rank=int)
    _fill(owned, listed, hashes)
    _fill(potential, listed, hashes)
    for member in potential.iteration_order():
        if not participates[member]:
            owned.remove(member)
            _fill(fixed, [member], hashes)
    return owned, fixed


def _fill(table: HashTable[int], members: list[int], hashes: IntArray) -> None:
    for member in members:
        table.add(member, int(hashes[member]))


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
        table = self.between.setdefault((topic, from_member, to_member), HashTable(rank=None))
        table.add(number, partition_hash(int(self.topic_hash[topic]), partition))

    def state(self) -> object:
        """Returns a value that determines later results; with treeified tables, one that equals no other state."""
        if any(table.treeified for table in self.between.values()):
            return object()
        return dict(self.moved), {key: (table.capacity, list(table.spread)) for key, table in self.between.items()}
