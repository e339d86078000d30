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
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from spark_assign.assignors.group_specs import HashOrders
from spark_assign.assignors.release_rules import LATEST_RULES, ReleaseRules
from spark_assign.java.hash_map import HashTable, capacities, partition_hash, spread_hashes
from spark_assign.numeric.arrays import (
    PARTITION_BITS,
    BoolArray,
    IntArray,
    PartitionSlices,
    exclusive_sum,
    invert,
    member_partition_keys,
    positions_in,
    row_numbers,
    split_keys,
    starts_new_key,
)


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


@dataclass(frozen=True)
class Subscribers:
    """The members that can get partitions of each topic of one group.

    Attributes:
        of_topic: index into `sets` of each topic.
        sets: different sets of members, ascending.
    """

    of_topic: IntArray
    sets: list[IntArray]

    @property
    def sizes(self) -> IntArray:
        """Returns the number of subscribers of each topic."""
        return np.array([len(members) for members in self.sets], np.int64)[self.of_topic]

    def include(self, topic: IntArray, member: IntArray) -> BoolArray:
        """Returns whether each member subscribes to the topic at the same position."""
        return self._contain(self.of_topic[topic], member)

    def topics_of(self, member: int) -> IntArray:
        """Returns the topics that a member subscribes to."""
        return np.flatnonzero(self._contain(np.arange(len(self.sets)), member)[self.of_topic])

    def _contain(self, index: IntArray, member: IntArray | int) -> BoolArray:
        keys, wanted = self._keys, index << PARTITION_BITS | member
        return np.asarray(keys[np.searchsorted(keys, wanted)] == wanted, bool)

    @cached_property
    def _keys(self) -> IntArray:
        keys = (index << PARTITION_BITS | members for index, members in enumerate(self.sets))
        return np.concatenate([*keys, np.array([np.iinfo(np.int64).max])])


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


# --- conflicts between members that own the same partition (`allSubscriptionsEqual`) --------------------------
#
# Members are processed in hash order. If a partition has an owner already, the later member gets it if its generation
# is higher. If both are equal, no member keeps the partition, and the later one counts as its owner in later
# comparisons. The later member's generation is the one in which it owned the partition; the earlier one's is that of
# its subscription.
#
# Example: C0 and C1 own t0 in generations 4 and 5: C1 keeps it. If both own it in generation 5, neither keeps it.
#
# Earlier releases (`release_rules`)
#     - up to 3.5.1, the later member counts as the owner even if it lost. A third member might win against it, and then
#       has the partition in addition to the first winner;
#     - up to 3.4.0, only the newest generation of the group counts, and nobody keeps a partition with two owners in it;
#     - up to 2.8.0, both owners keep it.


@dataclass(frozen=True)
class ResolvedOwnership:
    """Ownership after conflicts are resolved.

    Attributes:
        slices: the owners. A partition has at most one, except those of `shared_partitions`.
        multiple_owners: keys of the partitions that two members owned in the same generation, ascending.
        shared_partitions: keys of the partitions that two members keep, ascending.
    """

    slices: PartitionSlices
    multiple_owners: IntArray
    shared_partitions: IntArray = field(default_factory=lambda: np.empty(0, np.int64))


def resolve_conflicts(
    owned: PartitionSlices,
    groups: StickyGroups,
    owned_generation: IntArray,
    generation: IntArray,
    rules: ReleaseRules = LATEST_RULES,
) -> ResolvedOwnership:
    """Resolves conflicts between members that own the same partition.

    Args:
        owned: owned partitions of topics with metadata.
        groups: the groups.
        owned_generation: generation in which each member owned its partitions; -1 if unknown.
        generation: generation of each member's subscription; -1 if unknown.
        rules: rules of a release.
    """
    no_keys = np.empty(0, np.int64)
    if rules.only_newest_generation:
        owned = owned.take(in_newest_generation(groups.member_group, owned_generation)[owned.member])
    is_overlapping = np.isin(owned.topic, find_overlapping_topics(owned))
    if not is_overlapping.any():
        return ResolvedOwnership(owned, no_keys)
    # `allSubscriptionsEqual` visits the members in hash order, and remembers the owner of each partition in
    # `allPreviousPartitionsToOwner`. Sorted by partition and hash order, the owners of a partition follow each other.
    #
    # Example: C0 owns t0 and t1 in generation 4, C1 owns t0 in generation 5.
    #     rows t0 of C0, t0 of C1, t1 of C0    starts [True, False, True]    is_undisputed [False, False, True]
    #     winners [1], the row t0 of C1
    rows = owned.take(is_overlapping).expand()
    rows = rows.take(np.lexsort((groups.hash_order[rows.member], rows.partition_keys)))
    keys = rows.partition_keys
    starts = starts_new_key(keys)
    is_undisputed = starts & np.append(starts[1:], True)
    if rules.only_newest_generation:
        disputed = np.unique(keys[~is_undisputed])
        if rules.conflicts_keep_both:
            return ResolvedOwnership(owned.take(~is_overlapping).concat(rows), no_keys, disputed)
        return ResolvedOwnership(owned.take(~is_overlapping).concat(rows.take(is_undisputed)), disputed)
    winners: list[int] = []
    disputed_keys: list[int] = []
    shared_keys: list[int] = []
    ends = np.flatnonzero(np.append(starts[1:], True)) + 1
    for start, end in zip(np.flatnonzero(starts), ends, strict=True):
        if end - start == 1:
            continue
        owner, winners_of_partition = int(start), {int(start)}
        for row in range(int(start) + 1, int(end)):
            later_generation, earlier_generation = owned_generation[rows.member[row]], generation[rows.member[owner]]
            if later_generation >= earlier_generation:
                winners_of_partition.discard(owner)
            if later_generation == earlier_generation:
                disputed_keys.append(int(keys[row]))
            elif later_generation > earlier_generation:
                winners_of_partition.add(row)
            if later_generation >= earlier_generation or rules.rejected_owner_counts:
                owner = row
        winners += winners_of_partition
        shared_keys += [int(keys[start])] * (len(winners_of_partition) > 1)
    resolved = rows.take(np.sort(np.append(np.flatnonzero(is_undisputed), np.array(winners, np.int64))))
    owned = owned.take(~is_overlapping).concat(resolved)
    return ResolvedOwnership(owned, np.unique(np.array(disputed_keys, np.int64)), np.array(shared_keys, np.int64))


def in_newest_generation(group: IntArray, owned_generation: IntArray) -> BoolArray:
    """Returns a mask of the members that owned their partitions in the newest generation of the group."""
    newest = np.full(int(group.max(initial=-1)) + 1, -1, np.int64)
    np.maximum.at(newest, group, owned_generation)
    newer: BoolArray = owned_generation == newest[group]
    return newer


def find_overlapping_topics(slices: PartitionSlices) -> IntArray:
    """Returns the topics in which slices might overlap.

    Slices don't overlap if each starts after all preceding ones have ended, or if all have one step and differ modulo
    it.
    """
    order = np.argsort(slices.partition_keys, kind="stable")
    sorted_slices = slices.take(order)
    starts = sorted_slices.partition_keys
    ends = (sorted_slices.topic << PARTITION_BITS) | sorted_slices.last
    reached = np.maximum.accumulate(ends)
    overlap = np.flatnonzero(reached[:-1] >= starts[1:]) + 1
    topics = sorted_slices.topic[overlap]
    topics = topics[starts_new_key(topics)]
    if not len(topics):
        return topics
    candidates = sorted_slices.take(np.isin(sorted_slices.topic, topics))
    is_start = starts_new_key(candidates.topic)
    first_rows = np.flatnonzero(is_start)
    has_one_step = np.minimum.reduceat(candidates.step, first_rows) == np.maximum.reduceat(candidates.step, first_rows)
    residues = np.sort((candidates.topic << PARTITION_BITS) | (candidates.first % candidates.step))
    residues = residues[starts_new_key(residues)] >> PARTITION_BITS
    distinct = np.searchsorted(residues, topics, "right") - np.searchsorted(residues, topics, "left")
    is_disjoint: BoolArray = has_one_step & (distinct == np.diff(np.append(first_rows, len(candidates))))
    return topics[~is_disjoint]


# --- selects the partitions that members keep if they own too many: the first ones by (partition, topic) ------
#
# Up to 3.7.0 (before KAFKA-16277), members keep the first partitions in the order in which they report them.
# Cooperative-sticky reports owned partitions by (topic, partition), up to 2.8.0 with the topics in hash order. Sticky
# reports them as in its user data: topic after topic, the partitions of a topic in the order of their assignment.


@dataclass(frozen=True)
class TopicOrder:
    """(member, topic) pairs in the order in which members report their topics, each with ascending partitions.

    Members without a pair report their topics by name.
    """

    member: IntArray
    topic: IntArray

    def take(self, rows: BoolArray | IntArray) -> TopicOrder:
        """Returns the selected pairs."""
        return TopicOrder(self.member[rows], self.topic[rows])

    def shift(self, member: int, topic: int) -> TopicOrder:
        """Returns the same pairs with these numbers added to the indexes."""
        return TopicOrder(self.member + member, self.topic + topic)

    def sort_keys(self, member: IntArray, topic: IntArray) -> IntArray:
        """Returns an integer for each (member, topic) pair that ascends in the order in which the member reports its
        topics."""
        keys = (self.member << PARTITION_BITS) | self.topic
        position = positions_in(keys, (member << PARTITION_BITS) | topic)
        return np.where(position < len(keys), position, topic)


OwnedOrder = PartitionSlices | TopicOrder
"""The order in which members report single partitions, or topics."""


def keep_owned(
    owned: PartitionSlices, num_owned: IntArray, num_kept: IntArray, owned_order: OwnedOrder, rules: ReleaseRules
) -> tuple[PartitionSlices, PartitionSlices]:
    """Returns the partitions that members keep, and those that they give up.

    Args:
        owned: slices of all members.
        num_owned: number of partitions that each member owns.
        num_kept: number of partitions that each member keeps.
        owned_order: single partitions in the order in which members report them, or their topics. A member without an
            entry reports its partitions by (topic, partition).
        rules: rules of a release.
    """
    return (
        keep_in_owned_order(owned, num_owned, num_kept, owned_order)
        if rules.keeps_in_owned_order
        else keep_by_partition(owned, num_owned, num_kept)
    )


def keep_by_partition(
    owned: PartitionSlices, num_owned: IntArray, num_kept: IntArray
) -> tuple[PartitionSlices, PartitionSlices]:
    """Splits the slices of each member after its first partitions by (partition, topic).

    Args:
        owned: slices of all members.
        num_owned: number of partitions that each member owns.
        num_kept: number of partitions that each member keeps.

    Returns:
        the partitions that members keep, and those that they give up.
    """
    is_over = (num_owned > num_kept)[owned.member]
    if not is_over.any():
        return owned, owned.take(is_over)
    # `ownedPartitions`, sorted by partition and then by topic, is cut with `subList(0, quota)`. The head has all
    # partitions below a bound, and of the partitions at the bound those of the first topics. `below` counts them for
    # each slice.
    #
    # Example: C0 owns t0 to t4, one slice, and keeps three.
    #     bound [2]    below [2], with the one at the bound [3]    kept: [t0, t1, t2]    released: [t3, t4]
    slices = owned.take(is_over)
    bound = _last_kept_partition(slices, num_kept)[slices.member]
    below = np.clip((bound - slices.first + slices.step - 1) // slices.step, 0, slices.count)
    # Of the partitions at the bound itself, those of the first topics are kept.
    at_bound = (bound >= slices.first) & (bound <= slices.last) & ((bound - slices.first) % slices.step == 0)
    num_at_bound = num_kept - np.bincount(slices.member, below, len(num_kept)).astype(np.int64)
    candidates = np.flatnonzero(at_bound)
    candidates = candidates[np.lexsort((slices.topic[candidates], slices.member[candidates]))]
    members = slices.member[candidates]
    below[candidates] += row_numbers(members) < num_at_bound[members]
    kept, released = split_slices(slices, below)
    return owned.take(~is_over).concat(kept), released


def split_slices(slices: PartitionSlices, num_kept: IntArray) -> tuple[PartitionSlices, PartitionSlices]:
    """Splits each slice after its first `num_kept` partitions. Returns the heads and the tails that aren't empty."""
    head = replace(slices, count=num_kept)
    tail = replace(slices, first=slices.first + slices.step * num_kept, count=slices.count - num_kept)
    return head.take(num_kept > 0), tail.take(tail.count > 0)


def _last_kept_partition(slices: PartitionSlices, num_kept: IntArray) -> IntArray:
    """Returns, for each member, the lowest partition up to which it owns as many partitions as it keeps; -1 for
    none."""
    # A binary search for all members at once. For three of t0 to t4, `middle` is 1, 3, and 2.
    low = np.full(len(num_kept), -1, np.int64)
    high = np.zeros(len(num_kept), np.int64)
    np.maximum.at(high, slices.member, slices.last)
    high[num_kept == 0] = -1
    while (low < high).any():
        middle = (low + high) >> 1
        reached = np.clip((middle[slices.member] - slices.first) // slices.step + 1, 0, slices.count)
        enough = np.bincount(slices.member, reached, len(num_kept)) >= num_kept
        high = np.where(enough, middle, high)
        low = np.where(enough | (low >= high), low, middle + 1)
        low = np.minimum(low, high)
    return high


# --- In the order in which members report what they own -----------------------------------------------------


def keep_in_owned_order(
    owned: PartitionSlices, num_owned: IntArray, num_kept: IntArray, owned_order: OwnedOrder
) -> tuple[PartitionSlices, PartitionSlices]:
    """Splits each member's partitions after the first ones in the order in which it reports them (see `keep_owned`)."""
    is_over = (num_owned > num_kept)[owned.member]
    if not is_over.any():
        return owned, owned.take(is_over)
    is_listed = _has_partition_order(owned, owned_order)
    head, tail = _keep_by_topic(owned.take(is_over & ~is_listed), num_kept, owned_order)
    kept, released = owned.take(~is_over).concat(head), tail
    if isinstance(owned_order, PartitionSlices) and is_listed.any():
        head, tail = _keep_by_partition_order(owned.take(is_over & is_listed), num_kept, owned_order)
        kept, released = kept.concat(head), released.concat(tail)
    return kept, released


def _has_partition_order(owned: PartitionSlices, owned_order: OwnedOrder) -> BoolArray:
    """Returns a mask of the slices whose member reports the order of single partitions."""
    return (
        np.isin(owned.member, owned_order.member)
        if isinstance(owned_order, PartitionSlices)
        else np.zeros(len(owned), bool)
    )


def _keep_by_topic(
    slices: PartitionSlices, num_kept: IntArray, owned_order: OwnedOrder
) -> tuple[PartitionSlices, PartitionSlices]:
    """Splits slices by (topic, partition), which fixes the number of partitions that a member keeps of each topic."""
    pairs, pair = np.unique((slices.member << PARTITION_BITS) | slices.topic, return_inverse=True)
    member, topic = split_keys(pairs)
    num_owned = np.bincount(pair, slices.count, len(pairs)).astype(np.int64)
    order = np.arange(len(pairs))
    if isinstance(owned_order, TopicOrder):
        order = np.lexsort((owned_order.sort_keys(member, topic), member))
    num_before = np.empty_like(num_owned)
    num_before[order] = exclusive_sum(num_owned[order], np.searchsorted(member, member))
    pair_kept = np.clip(num_kept[member] - num_before, 0, num_owned)
    split = keep_by_partition(PartitionSlices(pair, *slices.columns[1:]), num_owned, pair_kept)
    kept, released = (PartitionSlices(member[slices.member], *slices.columns[1:]) for slices in split)
    return kept, released


def _keep_by_partition_order(
    slices: PartitionSlices, num_kept: IntArray, owned_order: PartitionSlices
) -> tuple[PartitionSlices, PartitionSlices]:
    """Splits slices in the reported order of single partitions."""
    rows = sort_by_owned_order(slices.expand(), owned_order)
    is_kept: BoolArray = row_numbers(rows.member) < num_kept[rows.member]
    return rows.take(is_kept), rows.take(~is_kept)


def sort_by_owned_order(rows: PartitionSlices, owned_order: OwnedOrder) -> PartitionSlices:
    """Sorts single partitions by member and by the order in which the member reports them."""
    if isinstance(owned_order, TopicOrder):
        return rows.take(np.lexsort((rows.first, owned_order.sort_keys(rows.member, rows.topic), rows.member)))
    position = positions_in(*member_partition_keys(owned_order, rows))
    return rows.take(np.lexsort((rows.partition_keys, position, rows.member)))


def first_in_owned_order(kept: PartitionSlices, owned_order: OwnedOrder) -> PartitionSlices:
    """Returns the first of the partitions that each member keeps, in the order in which it reports them."""
    is_listed = _has_partition_order(kept, owned_order)
    heads = kept.take(~is_listed)
    one = np.ones(len(heads), np.int64)
    rows = sort_by_owned_order(
        PartitionSlices(*heads.columns[:3], one, one).concat(kept.take(is_listed).expand()), owned_order
    )
    return rows.take(starts_new_key(rows.member))


def hash_owned_order(
    owned: PartitionSlices, others: PartitionSlices, topic_hash: IntArray, num_members: int
) -> TopicOrder:
    """Returns the topic order of members that own several topics and report them in hash order
    (`groupPartitionsByTopic`).

    The map is filled by `computeIfAbsent`, which inserts a key before those of its bucket, and resizes the table only
    in the next call.

    Args:
        owned: owned partitions of topics with metadata.
        others: owned partitions of other topics. Only their number matters.
        topic_hash: `String.hashCode` of each topic's name.
        num_members: number of members.
    """
    slices = owned.concat(others)
    pairs, pair = np.unique((slices.member << PARTITION_BITS) | slices.topic, return_inverse=True)
    member, topic = split_keys(pairs)
    num_partitions = np.bincount(pair, slices.count, len(pairs)).astype(np.int64)
    num_topics = np.bincount(member, minlength=num_members)[member]
    is_last = np.append(starts_new_key(member)[1:], True)[: len(member)]
    size = np.zeros(num_members, np.int64)
    size[member[is_last]] = num_topics[is_last] - (num_partitions[is_last] == 1)
    bucket = spread_hashes(topic_hash[topic]) & (capacities(size)[member] - 1)
    order = np.lexsort((-row_numbers(member), bucket, member))
    order = order[(num_topics > 1)[order] & np.isin(topic, owned.topic)[order]]
    return TopicOrder(member[order], topic[order])
