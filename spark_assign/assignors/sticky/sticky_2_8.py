"""Sticky up to Kafka 2.8: first homogeneous groups as Kafka 2.5.1 to 2.8 assigns them (`constrainedAssign`).

Principles: as in `constrained`, but the number of members that exceed the quota isn't computed beforehand.

Steps
    1. Quota: with p partitions and n members, the quota is p // n, or one more if there is a remainder. Each member
       keeps up to that many of its partitions, in the order in which it reports them.
    2. Fill: unassigned partitions, by (topic, partition), go round robin, by member id, to the members below p // n.
    3. Steal: if there weren't enough, each member that is still below, by id, takes one partition from a member with
       one more, in hash order: the first partition that this member keeps.
    4. Rest: if there were too many, one goes to each member with exactly p // n: first those that kept them, in hash
       order, then those that were filled up, in this order.

Example: topic t has seven partitions, all owned in one generation. The quota is 2; C0 and C1 keep three, and C2 steals
t0 from C0.

    owned     C0: [t0, t1, t2]    C1: [t3, t4, t5]    C2: [t6]
    target    C0: [t1, t2]        C1: [t3, t4, t5]    C2: [t0, t6]
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from spark_assign.assignors.group_specs import KEPT, OVER_QUOTA, GroupAssignments
from spark_assign.assignors.release_rules import ReleaseRules
from spark_assign.assignors.sticky.constrained import drop_contested, find_unassigned, find_unowned
from spark_assign.assignors.sticky.general import GeneralBalancer, fill_up, run_balancer
from spark_assign.assignors.sticky.sticky_groups import (
    AT_CAPACITY,
    KAFKA_FAILS,
    UNDER_CAPACITY,
    AssignorError,
    OwnedOrder,
    ResolvedOwnership,
    StickyGroups,
    Subscribers,
    find_overlapping_topics,
    first_in_owned_order,
    keep_in_owned_order,
    sort_by_owned_order,
)
from spark_assign.java.hash_map import IdentityDecides, capacities, spread_hashes, table_order, treeified_groups
from spark_assign.numeric.arrays import (
    PARTITION_BITS,
    BoolArray,
    IntArray,
    PartitionSlices,
    compress,
    invert,
    member_partition_keys,
    positions_in,
    ranges_by_length,
    row_numbers,
    split_keys,
    starts_new_key,
)


@dataclass(frozen=True)
class _Quota:
    """The quota of each member: partitions that it owns, keeps, and lacks, and the minimum and maximum of its group."""

    num_owned: IntArray
    num_kept: IntArray
    num_missing: IntArray
    min_quota: IntArray
    max_quota: IntArray


def plan_constrained_2_8(
    groups: StickyGroups, resolved: ResolvedOwnership, owned_order: OwnedOrder, rules: ReleaseRules
) -> GroupAssignments:
    """Returns the assignment of groups whose members all subscribe to the same topics (see `plan_constrained`)."""
    owned = drop_contested(resolved)
    quota = _compute_quotas(groups, np.bincount(owned.member, owned.count, len(groups.member_group)).astype(np.int64))
    kept, released = keep_in_owned_order(owned, quota.num_owned, quota.num_kept, owned_order)
    unassigned = find_unassigned(
        groups, owned, kept, released, kept.take(np.empty(0, np.int64)), resolved.shared_partitions
    ).slices.expand()
    unassigned = unassigned.take(np.argsort(unassigned.partition_keys))
    group = groups.topic_group[unassigned.topic]
    filled = _fill_to_min_quota(groups, quota, np.bincount(group, minlength=groups.num_groups))
    stolen, thief, too_few = _steal(groups, quota, filled, kept, owned_order)
    above_quota, too_many = _assign_remaining(groups, quota, np.bincount(group, minlength=groups.num_groups))
    rejected = dict.fromkeys(too_few, (KAFKA_FAILS, UNDER_CAPACITY)) | dict.fromkeys(
        too_many, (KAFKA_FAILS, AT_CAPACITY)
    )

    is_planned = np.ones(groups.num_groups, bool)
    is_planned[list(rejected)] = False
    filled, above_quota = (members[is_planned[groups.member_group[members]]] for members in (filled, above_quota))
    to_members = np.append(filled, above_quota)
    to_members = to_members[np.argsort(groups.member_group[to_members], kind="stable")]
    unassigned, kept = unassigned.take(is_planned[group]), kept.take(is_planned[groups.member_group[kept.member]])
    is_thief_planned = is_planned[groups.member_group[thief]]
    return _combine_assignment(
        groups, resolved, kept, unassigned, to_members, stolen.take(is_thief_planned), thief[is_thief_planned], rejected
    )


def _compute_quotas(groups: StickyGroups, num_owned: IntArray) -> _Quota:
    """Returns the quota of each member (step 1)."""
    group = groups.member_group
    members = np.bincount(group, minlength=groups.num_groups)
    total = np.bincount(groups.topic_group, groups.partitions, groups.num_groups).astype(np.int64)
    min_quota = (total // members)[group]
    max_quota = min_quota + (total % members > 0)[group]
    return _Quota(
        num_owned, np.minimum(num_owned, max_quota), np.maximum(min_quota - num_owned, 0), min_quota, max_quota
    )


def _fill_to_min_quota(groups: StickyGroups, quota: _Quota, num_unassigned: IntArray) -> IntArray:
    """Returns the members that get the first unassigned partitions, given their number per group (step 2)."""
    # The loop over `unfilledMembers`: in each round, every member that is still below the quota takes one partition.
    #
    # Example: C0 lacks two partitions, and C1 lacks one: member [C0, C0, C1], rounds [0, 1, 0], to_members [C0, C1,
    # C0].
    member = np.repeat(np.arange(len(quota.num_missing)), quota.num_missing)
    to_members = member[np.lexsort((ranges_by_length(quota.num_missing), groups.member_group[member]))]
    return to_members[row_numbers(groups.member_group[to_members]) < num_unassigned[groups.member_group[to_members]]]


def _steal(
    groups: StickyGroups, quota: _Quota, filled: IntArray, kept: PartitionSlices, owned_order: OwnedOrder
) -> tuple[PartitionSlices, IntArray, list[int]]:
    """Returns the stolen partitions, their new members, and the groups with too few partitions to steal (step 3)."""
    group = groups.member_group
    # `maxCapacityMembers` is polled for each partition that a member lacks, so the n-th missing partition comes from
    # the n-th member of that queue, which loses its first partition (`assignment.get(overloadedConsumer).remove(0)`).
    #
    # Example of the module: thief [C2], victims [C0, C1], num_wanted [1], from_member [C0], stolen [t0].
    num_missing = quota.num_missing - np.bincount(filled, minlength=len(quota.num_missing))
    thief = np.repeat(np.arange(len(num_missing)), num_missing)
    at_max_quota = np.flatnonzero((quota.num_kept == quota.max_quota) & (quota.num_owned >= quota.min_quota))
    victims = at_max_quota[np.lexsort((groups.owned_hash_order[at_max_quota], group[at_max_quota]))]
    num_wanted = np.bincount(group[thief], minlength=groups.num_groups)
    too_few = np.flatnonzero(num_wanted > np.bincount(group[victims], minlength=groups.num_groups))
    from_member = victims[row_numbers(group[victims]) < num_wanted[group[victims]]]
    thief = thief[~np.isin(group[thief], too_few)]
    from_member = from_member[~np.isin(group[from_member], too_few)]
    first = first_in_owned_order(kept.take(np.isin(kept.member, from_member)), owned_order)
    return first.take(np.searchsorted(first.member, from_member)), thief, too_few.tolist()


def _assign_remaining(groups: StickyGroups, quota: _Quota, num_unassigned: IntArray) -> tuple[IntArray, list[int]]:
    """Returns the members that get one more, group by group, and the groups with too many partitions (step 4)."""
    group = groups.member_group
    num_remaining = np.maximum(
        num_unassigned - np.bincount(group, quota.num_missing, groups.num_groups).astype(np.int64), 0
    )
    # The queue `minCapacityMembers`: members enter when they keep minQuota, in hash order, or later, when they reach
    # it.
    at_min_quota = np.flatnonzero((quota.num_kept == quota.min_quota) | (quota.num_missing > 0))
    num_missing = quota.num_missing[at_min_quota]
    turn = np.where(num_missing > 0, at_min_quota, groups.owned_hash_order[at_min_quota])
    members = at_min_quota[np.lexsort((turn, num_missing, group[at_min_quota]))]
    members = members[row_numbers(group[members]) < num_remaining[group[members]]]
    return members, np.flatnonzero(num_remaining > np.bincount(group[members], minlength=groups.num_groups)).tolist()


def _combine_assignment(
    groups: StickyGroups,
    resolved: ResolvedOwnership,
    kept: PartitionSlices,
    unassigned: PartitionSlices,
    to_members: IntArray,
    stolen: PartitionSlices,
    thief: IntArray,
    rejected: dict[int, tuple[str, str]],
) -> GroupAssignments:
    """Combines the kept, the newly assigned, and the stolen partitions."""
    if len(stolen):
        is_near = np.isin(_member_topic_keys(kept), _member_topic_keys(stolen))
        candidates, kept = kept.take(is_near).expand(), kept.take(~is_near)
        kept = kept.concat(candidates.take(~np.isin(*member_partition_keys(candidates, stolen))))
    keys = np.append(unassigned.partition_keys, stolen.partition_keys)
    owner, to_member = np.append(unassigned.member, stolen.member), np.append(to_members, thief)
    withheld = np.zeros(len(to_member), bool)
    if groups.cooperative:
        withheld = (owner >= 0) | np.isin(keys, resolved.multiple_owners)
        # A partition is recorded once: one that is stolen from two members is withheld only from the last thief.
        last = np.unique(keys[::-1], return_index=True)[1]
        withheld[np.delete(np.arange(len(keys)), len(keys) - 1 - last)] = False
    reason = np.where((owner >= 0) & (owner != to_member), OVER_QUOTA, KEPT)
    return GroupAssignments.of(kept, rejected).concat(
        GroupAssignments.of_partitions(to_member, *split_keys(keys), reason, withheld)
    )


def _member_topic_keys(slices: PartitionSlices) -> IntArray:
    return (slices.member << PARTITION_BITS) | slices.topic


# --- assigns groups from the generations of ownership, as Kafka 2.4 to 2.8 do (`generalAssign`) ---------------
#
# Principles: as in `general`, but a partition is owned by the owner of its newest generation, however old, and
# that of its second newest generation can get it back (`prepopulateCurrentAssignments`). Of equal generations, the
# first member in hash order counts; of members without a generation, the last.
#
# Example: C0 owns t0 in generation 3, and C1 owns it in generation 4. C1 owns t0; C0 is its previous owner.
#
# Two faults of these releases
#     - Up to 2.8, the leader reads user data twice, and the buffer is empty the second time. Members that precede the
#       first one with a different subscription own nothing (sticky), or have no generation (cooperative-sticky).
#     - Up to 2.5.0, all groups are planned this way. If subscriptions are equal and anything is owned, the iteration
#       order of partitions depends on Java's hash order (`sortPartitions`).
#
# If all members subscribe to the same topics, no partition has two owners, and no numbers of partitions differ by two
# or more after filling, then Kafka 2.4 only assigns the unowned partitions and balances nothing. In this case, only the
# relative order of the unowned partitions matters (`plan_without_rebalance_2_4`).


ORDER_UNKNOWN = (
    "It cannot be known: nine partitions of one hash code share a bucket, and Java tells them apart by address."
)

_NONE = -1
_UNREADABLE = -2
"""Generations: unknown, and that of unreadable user data, which any other member without a generation overrides."""


@dataclass(frozen=True)
class GenerationInput:
    """One group, except for what its members own.

    Attributes:
        groups: the one group.
        subscribers: the subscribers of each topic.
        topic_hash: `String.hashCode` of each topic's name.
        first_heterogeneous: position in hash order of the first member with a different subscription; None if there is
        none.
        owned_generation: generation in which each member owned its partitions; -1 if unknown.
    """

    groups: StickyGroups
    subscribers: Subscribers
    topic_hash: IntArray
    first_heterogeneous: int | None
    owned_generation: IntArray

    @cached_property
    def with_metadata(self) -> IntArray:
        """Returns the topics with metadata."""
        return np.flatnonzero(self.groups.partitions)

    @property
    def is_homogeneous(self) -> bool:
        """Returns whether all members subscribe to all topics with metadata."""
        return bool((self.subscribers.sizes[self.with_metadata] == len(self.groups.member_group)).all())

    def partition_hashes(self, rows: PartitionSlices) -> IntArray:
        """Returns `TopicPartition.hashCode` of single partitions."""
        return _partition_hashes(rows.topic, rows.first, self.topic_hash)


def plan_from_generations(
    specs: GenerationInput,
    owned: PartitionSlices,
    owned_without_metadata: PartitionSlices,
    owned_order: OwnedOrder,
    rules: ReleaseRules,
) -> GroupAssignments:
    """Returns the assignment of one group.

    Args:
        specs: the group.
        owned: owned partitions of topics with metadata.
        owned_without_metadata: owned partitions of other topics, whose indexes serve only to tell them apart.
        owned_order: see `keep_owned`.
        rules: rules of a release.
    """
    groups, hash_order = specs.groups, specs.groups.hash_order
    if rules.only_general and specs.is_homogeneous:
        topics = _topic_order(specs) if len(owned) + len(owned_without_metadata) else None
        assignment = plan_without_rebalance_2_4(groups, owned, specs.topic_hash, topics)
        if assignment is not None:
            return assignment
    is_unreadable = np.zeros(len(hash_order), bool)
    if specs.first_heterogeneous is not None and not rules.only_general:
        is_unreadable[np.argsort(hash_order)[: specs.first_heterogeneous]] = True
    unreadable = is_unreadable & (specs.owned_generation >= 0) & groups.cooperative
    readable = owned if groups.cooperative else owned.take(~is_unreadable[owned.member])
    owners = owners_by_generation(readable.expand(), hash_order, specs.owned_generation, unreadable)
    order = None
    if rules.only_general and specs.is_homogeneous and len(owned) + len(owned_without_metadata):
        removed = owners_by_generation(owned_without_metadata.expand(), hash_order, specs.owned_generation, unreadable)
        inserted = insertion_order(owned, owned_order, hash_order)
        try:
            order = partition_order_2_4(specs, inserted, *owners, *map(len, removed))
        except IdentityDecides:
            raise AssignorError(ORDER_UNKNOWN) from None
    newest, second = (rows.take(rows.first < groups.partitions[rows.topic]) for rows in owners)
    previous_owner = dict(zip(second.partition_keys.tolist(), second.member.tolist(), strict=True))
    balancer = GeneralBalancer(groups, newest, specs.subscribers, specs.topic_hash, previous_owner, None, rules, order)
    return run_balancer(groups, owned, ResolvedOwnership(newest, np.empty(0, np.int64)), balancer)


def owners_by_generation(
    owned: PartitionSlices, hash_order: IntArray, owned_generation: IntArray, unreadable: BoolArray
) -> tuple[PartitionSlices, PartitionSlices]:
    """Returns the owners of one group's partitions in their newest and their second newest generation, as single
    partitions, including those that don't exist.

    Args:
        owned: single partitions.
        hash_order: position of each member in hash order.
        owned_generation: generation in which each member owned its partitions; -1 if unknown.
        unreadable: mask of members whose generation can't be read.
    """
    # `sortedPartitionConsumersByGeneration`, a map from generation to member for each partition, is a sort of all rows.
    #
    # Example: C0 owns t0 in generation 3, C1 in generation 4: rows t0 of C1, t0 of C0: the owner is C1, the second one
    # is C0.
    generation = np.where(unreadable, _UNREADABLE, owned_generation)[owned.member]
    known_generation = np.where(generation == _UNREADABLE, _NONE, generation)
    position = hash_order[owned.member]
    # In a generation the first member counts; without one, the last; before these, the first unreadable one.
    priority = np.where(generation == _NONE, -position, position)
    order = np.lexsort((priority, generation == _UNREADABLE, -known_generation, owned.partition_keys))
    rows, known_generation = owned.take(order), known_generation[order]
    keys = rows.partition_keys
    is_repeated = ~starts_new_key(keys) & ~np.append(True, known_generation[1:] != known_generation[:-1])[: len(keys)]
    rows = rows.take(~is_repeated)
    rank = row_numbers(rows.partition_keys)
    return rows.take(rank == 0), rows.take(rank == 1)


def insertion_order(owned: PartitionSlices, owned_order: OwnedOrder, hash_order: IntArray) -> PartitionSlices:
    """Returns owned partitions in the order in which the leader inserts them: member by member, in the reported
    order."""
    rows = sort_by_owned_order(owned.expand(), owned_order)
    return rows.take(np.argsort(hash_order[rows.member], kind="stable"))


# --- The iteration order of 2.4 -----------------------------------------------------------------------------------


def partition_order_2_4(
    specs: GenerationInput,
    inserted: PartitionSlices,
    newest: PartitionSlices,
    second: PartitionSlices,
    num_removed: int,
    num_removed_repeated: int,
) -> IntArray:
    """Returns the keys of all partitions in the iteration order of 2.4, if all members subscribe to the same topics.

    The member with the most partitions (ties: the last by id) repeatedly contributes one: first those with a previous
    owner, in their hash order, then the others in theirs. Unowned partitions come last, in a hash order of their own.

    Args:
        specs: the group.
        inserted: owned partitions, as returned by `insertion_order`.
        newest, second: the same by generation, as returned by `owners_by_generation`.
        num_removed: number of owned partitions of topics without metadata.
        num_removed_repeated: number of those that are owned in several generations.
    """
    partitions = specs.groups.partitions
    # The map of owned partitions; in its order, the map of partitions with a previous owner is filled.
    _, first_rows = np.unique(inserted.partition_keys, return_index=True)
    first_inserted = inserted.take(np.sort(first_rows))
    ordered = first_inserted.take(_map_order(specs.partition_hashes(first_inserted), num_removed))
    with_previous = ordered.take(np.isin(ordered.partition_keys, second.partition_keys))
    with_previous = with_previous.take(_map_order(specs.partition_hashes(with_previous), num_removed_repeated))
    owned = newest.take(np.argsort(positions_in(ordered.partition_keys, newest.partition_keys), kind="stable"))
    previous_position = positions_in(with_previous.partition_keys, owned.partition_keys)
    previous_position = previous_position[owned.first < partitions[owned.topic]]
    owned = owned.take(owned.first < partitions[owned.topic])
    # Partitions of a member with a previous owner come first. Both sets are in the order of their maps.
    order = np.lexsort((previous_position, owned.member))
    owned = owned.take(order)
    num_remaining = np.bincount(owned.member)[owned.member] - row_numbers(owned.member)
    contributed = owned.partition_keys[np.lexsort((-owned.member, -num_remaining))]

    topics = _topic_order(specs)
    zero = np.zeros_like(topics)
    rows = PartitionSlices(zero, topics, zero, zero + 1, partitions[topics]).expand()
    rows = rows.take(_map_order(specs.partition_hashes(rows), 0))
    return np.append(contributed, rows.partition_keys[~np.isin(rows.partition_keys, contributed)])


def _topic_order(specs: GenerationInput) -> IntArray:
    """Returns the topics in the order of the map of partition counts, which is filled from the set of subscribed
    topics."""
    topics, topic_hash = specs.with_metadata, specs.topic_hash
    num_without_metadata = int((specs.subscribers.sizes > 0).sum()) - len(topics)
    in_set_order = topics[_map_order(topic_hash[topics], num_without_metadata, topics)]
    return in_set_order[_map_order(topic_hash[in_set_order], 0, in_set_order)]


def _map_order(hashes: IntArray, num_removed: int, order: IntArray | None = None) -> IntArray:
    """Returns the iteration order of a hash map with these keys and `num_removed` removed ones."""
    if not num_removed:
        return table_order(hashes, order)
    capacity = capacities(np.array([len(hashes) + num_removed]))
    return np.argsort(spread_hashes(hashes) & (capacity - 1), kind="stable")


_TWO_TO_32 = 1 << 32
_INVERSE_OF_31 = pow(31, -1, _TWO_TO_32)


def plan_without_rebalance_2_4(
    groups: StickyGroups, owned: PartitionSlices, topic_hash: IntArray, topics: IntArray | None
) -> GroupAssignments | None:
    """Returns the assignment of one homogeneous group, or None if 2.4 would also move partitions.

    Args:
        groups: the one group.
        owned: owned partitions of topics with metadata.
        topic_hash: `String.hashCode` of each topic's name.
        topics: iteration order of topics; None if partitions are sorted by (topic, partition).
    """
    partitions = groups.partitions
    if len(find_overlapping_topics(owned)) or (owned.last >= partitions[owned.topic]).any():
        return None
    load = np.bincount(owned.member, owned.count, len(groups.member_group)).astype(np.int64)
    unowned = find_unowned(owned, partitions).expand()
    topic, partition = unowned.topic, unowned.first
    members = np.arange(len(load))
    to_member = fill_up(np.zeros_like(load), load, members, np.array([len(topic)]))
    load += np.bincount(to_member, minlength=len(load))
    if load.max() > load.min() + 1:
        return None
    order: IntArray | None = np.lexsort((partition, topic))
    if topics is not None:
        differ = _hashes_differ(topic_hash[topics], partitions[topics])
        order = _partition_order(topic, partition, topic_hash, topics, partitions) if differ else None
    if order is None:
        return None
    return GroupAssignments.of(owned.concat(compress(to_member, topic[order], partition[order])))


def _hashes_differ(topic_hash: IntArray, partitions: IntArray) -> bool:
    """Checks whether all partitions have different hash codes. Otherwise, the order within a bucket might be unknown.

    The hash code of a partition is 31 * (31 + partition) + that of its topic. Multiplied by the inverse of 31, the hash
    codes of a topic are consecutive.
    """
    start = np.sort(topic_hash * _INVERSE_OF_31 % _TWO_TO_32)
    order = np.argsort(topic_hash * _INVERSE_OF_31 % _TWO_TO_32, kind="stable")
    end = start + partitions[order]
    return bool((end <= np.append(start[1:], start[:1] + _TWO_TO_32)).all())


def _partition_order(
    topic: IntArray, partition: IntArray, topic_hash: IntArray, topics: IntArray, partitions: IntArray
) -> IntArray | None:
    """Returns the order of these partitions in a `HashMap` of all partitions; None if a bucket is treeified."""
    row = np.repeat(topics, partitions[topics])
    hashes = _partition_hashes(row, ranges_by_length(partitions[topics]), topic_hash)
    if len(treeified_groups(hashes, np.zeros(len(hashes), np.int64))):
        return None
    position = invert(topics, len(partitions))
    bucket = spread_hashes(_partition_hashes(topic, partition, topic_hash)) & (capacities(np.array([len(hashes)])) - 1)
    return np.lexsort((partition, position[topic], bucket))


def _partition_hashes(topic: IntArray, partition: IntArray, topic_hash: IntArray) -> IntArray:
    return (31 * (31 + partition) + topic_hash[topic]) & (_TWO_TO_32 - 1)
