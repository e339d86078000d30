"""Kafka's `SimpleAssignor` of share groups (4.2 to 4.4): divides the groups into pools of partitions.

Several members of a share group can have one partition; they do if there are more members than partitions.
`assignors.share.simple_assignor` describes how the members of a pool share its partitions. The pools are

    all assignable partitions of the group's topics     if all members subscribe to the same names
                                                        (`SimpleHomogeneousAssignmentBuilder`)
    the partitions of each topic, for its subscribers   if they don't (`SimpleHeterogeneousAssignmentBuilder`)

A partition is assignable if the coordinator has initialized its share state. A partition that isn't assignable stays
with its members as long as no limit is exceeded. For previously assigned topics,
    - a topic without subscribers in the group is removed in a homogeneous group and stays in a heterogeneous one;
    - a topic that other members subscribe to, but not this one, counts as exceeding the limit.
A heterogeneous group in which no member subscribes to an existing topic gets nothing. A homogeneous group gets nothing
only if its members subscribe to no name at all.

Orders: members as in the broker's hash map of members; topics as in the hash set of the first member's names; previous
partitions as in the member's map of topics and their sets (`assignors.server.coordinator_order`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from spark_assign.assignors.share.share_group_input import ShareGroupSpecs
from spark_assign.java.hash_map import HashTable, capacities_for, compute_if_absent_order, table_order, treeified_groups
from spark_assign.numeric.arrays import (
    PARTITION_BITS,
    BoolArray,
    IntArray,
    expand_slices,
    invert,
    key_ranges,
    mask_from_indexes,
    match_keys,
    number_keys,
    ranges_by_length,
    starts_new_key,
)
from spark_assign.numeric.arrays import row_numbers as ranks_of

_HASH_MASK = 0xFFFFFFFF


@dataclass(frozen=True)
class ShareAssignment:
    """The assignor's result.

    Attributes:
        reason: for each previous assignment, `KEPT` or why it ends (`assignors.share.simple_assignor`).
        member, topic, partition: the new assignments.
        is_removed: whether members lose each topic completely, including an empty set of its partitions.
        failed: whether Kafka throws `NoSuchElementException` for each group.
        desired_sharing: desired number of members per partition of each topic; 0 for a topic without subscribers.
    """

    reason: IntArray
    member: IntArray
    topic: IntArray
    partition: IntArray
    is_removed: BoolArray
    failed: BoolArray
    desired_sharing: IntArray


def assign_simple(specs: ShareGroupSpecs) -> ShareAssignment:
    """Returns the next assignment of each group.

    Raises:
        IdentityDecides: Java would have to order two partitions that aren't `Comparable`.
    """
    is_removed = _find_removed_topics(specs)
    reason = np.where(is_removed[specs.previous_topic], UNSUBSCRIBED, KEPT)
    failed = np.zeros(len(specs.homogeneous), bool)
    desired_sharing = np.zeros(len(specs.topic_group), np.int64)
    assigned = [(np.empty(0, np.int64),) * 3]
    for topic_pools in (_pools_by_group(specs), _pools_by_topic(specs)):
        if not len(topic_pools.pool_group):
            continue
        result = _assign(specs, topic_pools)
        reason[result.rows] = result.reason
        failed[topic_pools.pool_group[result.failed]] = True
        desired_sharing[topic_pools.topic] = result.desired_sharing[topic_pools.topic_pool]
        assigned.append(result.assigned)
    member, topic, partition = (np.concatenate(columns) for columns in zip(*assigned, strict=True))
    return ShareAssignment(reason, member, topic, partition, is_removed, failed, desired_sharing)


def _find_removed_topics(specs: ShareGroupSpecs) -> BoolArray:
    """Returns the topics that all members lose because they are in no pool."""
    has_subscribers = mask_from_indexes(specs.subscribed_topic, len(specs.topic_group))
    # A heterogeneous group loses topics only if none of its members subscribes to an existing topic.
    has_topics = mask_from_indexes(specs.topic_group[has_subscribers], len(specs.homogeneous))
    return ~has_subscribers & (specs.homogeneous | ~has_topics)[specs.topic_group]


# --- pools --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _TopicPools:
    """Topics divided into pools.

    Attributes:
        topic, topic_pool: the topics, in the order in which Kafka lists them, and the pool of each.
        pool_group: group of each pool.
        subscriber_pool, subscriber: pools and their subscribing members, in any order.
        is_comparable: whether Kafka's map keys of partitions are `Comparable`.
    """

    topic: IntArray
    topic_pool: IntArray
    pool_group: IntArray
    subscriber_pool: IntArray
    subscriber: IntArray
    is_comparable: bool


def _pools_by_group(specs: ShareGroupSpecs) -> _TopicPools:
    """Returns a pool per homogeneous group with a subscription; Kafka's map keys are topic and partition."""
    first_member = np.flatnonzero(starts_new_key(specs.member_group))
    is_pool = specs.homogeneous[specs.member_group[first_member]] & specs.has_subscription[first_member]
    first_member = first_member[is_pool]
    group_pool = invert(specs.member_group[first_member], len(specs.homogeneous))
    # `groupSpec.memberSubscription(groupSpec.memberIds().iterator().next()).subscribedTopicIds()`
    starts, ends = (np.searchsorted(specs.subscriber, first_member + one) for one in (0, 1))
    topics = specs.subscribed_topic[expand_slices(starts, np.ones_like(starts), ends - starts)[1]]
    members = np.flatnonzero(group_pool[specs.member_group] >= 0)
    return _TopicPools(
        topic=topics,
        topic_pool=group_pool[specs.topic_group[topics]],
        pool_group=specs.member_group[first_member],
        subscriber_pool=group_pool[specs.member_group[members]],
        subscriber=members,
        is_comparable=False,
    )


def _pools_by_topic(specs: ShareGroupSpecs) -> _TopicPools:
    """Returns a pool per subscribed topic of each heterogeneous group; Kafka's map keys are partition numbers."""
    is_heterogeneous = ~specs.homogeneous[specs.topic_group]
    heterogeneous = is_heterogeneous[specs.subscribed_topic] if is_heterogeneous.any() else slice(0)
    subscribed_topic = specs.subscribed_topic[heterogeneous]
    topics = np.flatnonzero(mask_from_indexes(subscribed_topic, len(specs.topic_group)))
    return _TopicPools(
        topic=topics,
        topic_pool=np.arange(len(topics)),
        pool_group=specs.topic_group[topics],
        subscriber_pool=invert(topics, len(specs.topic_group))[subscribed_topic],
        subscriber=specs.subscriber[heterogeneous],
        is_comparable=True,
    )


@dataclass(frozen=True)
class _PoolResult:
    """The assignment of all pools, in the indexes of `ShareGroupSpecs`.

    Attributes:
        rows: indexes of the previous assignments that are in a pool.
        reason: for each of these rows, `KEPT` or why the assignment ends.
        assigned: member, topic, and partition of the new assignments.
        desired_sharing: desired number of members per partition of each pool.
        failed: pools for which Kafka throws `NoSuchElementException`.
    """

    rows: IntArray
    reason: IntArray
    assigned: tuple[IntArray, IntArray, IntArray]
    desired_sharing: IntArray
    failed: IntArray


def _assign(specs: ShareGroupSpecs, topic_pools: _TopicPools) -> _PoolResult:
    """Indexes the members and partitions of the pools, and assigns them."""
    num_pools = len(topic_pools.pool_group)
    pool = np.full(len(specs.topic_group), -1, np.int64)
    pool[topic_pools.topic] = topic_pools.topic_pool
    rows = np.flatnonzero(pool[specs.previous_topic] >= 0)
    topic, partition = specs.previous_topic[rows], specs.previous_partition[rows]
    # Members of a pool: its subscribers, and previous owners of its partitions.
    # Kafka numbers the members of a group (`memberIndices`); these are the members of all pools, pool by pool.
    size = int(np.bincount(specs.member_group).max())
    first_member = np.searchsorted(specs.member_group, topic_pools.pool_group)
    pool_start = np.arange(num_pools) * size - first_member
    pool_members, subscriber, owner = number_keys(
        pool_start[topic_pools.subscriber_pool] + topic_pools.subscriber,
        pool_start[pool[topic]] + specs.previous_member[rows],
        num_pools * size,
    )
    order = np.argsort(owner, kind="stable")
    pool_of_member, member = np.divmod(pool_members, size)
    # Partitions of a pool: assignable partitions, and previously assigned ones.
    topic_row, row = match_keys(topic_pools.topic, specs.assignable_topic)
    stride = max(int(columns.max(initial=0)) for columns in (specs.assignable_partition, partition)) + 1
    keys, assignable, previous = number_keys(
        specs.assignable_topic[row] * stride + specs.assignable_partition[row],
        topic * stride + partition,
        len(pool) * stride,
    )
    topic, partition = np.divmod(keys, stride)
    num_subscribers = np.bincount(topic_pools.subscriber_pool, minlength=num_pools)
    num_partitions = np.bincount(topic_pools.topic_pool[topic_row], minlength=num_pools)
    desired_sharing, quotas = compute_quotas(num_subscribers, num_partitions)
    quota = np.zeros(len(pool_members), np.int64)
    quota[mask_from_indexes(subscriber, len(quota))] = quotas
    comparable = topic_pools.is_comparable
    result = assign_pools(
        PartitionPools(
            pool_of_member=pool_of_member,
            member=member,
            quota=quota,
            num_subscribers=num_subscribers,
            desired_sharing=desired_sharing,
            pool_of_partition=pool[topic],
            partition_hash=partition if comparable else (31 * specs.topic_hash[topic] + partition) & _HASH_MASK,
            partition_rank=partition if comparable else None,
            previous_member=owner[order],
            previous_partition=previous[order],
            assignable=assignable,
        )
    )
    new_member = pool_members[result.pool_member] - pool_start[pool_of_member[result.pool_member]]
    assigned = new_member, topic[result.partition], partition[result.partition]
    return _PoolResult(rows[order], result.reason, assigned, desired_sharing, result.failed)


# --- assigns one pool of partitions to members: the four steps of Kafka's `SimpleAssignor` --------------------
#
# Principles, in order of priority
#     1. Balance: with m members and p partitions, each partition goes to `desired_sharing` members, m / p rounded up;
#        and each member gets desired_sharing * p / m partitions, rounded up or down (its quota).
#     2. Stickiness: the assignor revokes only what exceeds a limit.
#
# Example: three members, t0 with 2 partitions. The desired sharing is 2; the quotas are 2, 1, and 1.
#     before                    after
#     C0: [t0p0 t0p1]           C0: [t0p0 t0p1]
#     C1: [t0p0 t0p1]           C1: [t0p0]         exceeds its quota and loses the first partition of its set, say t0p1
#     C2: []                    C2: [t0p1]         t0p1 needs a second member again
#
# Steps
#     1. Compute the quotas.
#     2. Revoke partitions from members that exceed their quota, in the order of the member's hash set of partitions.
#     3. Revoke partitions with more than `desired_sharing` members, in the order of the partition's hash set of
#        members.
#     4. Assign partitions with fewer members: in the order of the hash map of partitions, each to the next of the
#        members below their quota, in turns.
#
# Step 4 has three defects in Kafka, which this module reproduces
#     - A member whose turn it is, but that already has the partition, loses its turn.
#     - Kafka doesn't record assignments of step 4 with the partition. In the next cycle, the same member can get the
#       same partition a second time, which then counts as a further member of the partition.
#     - If a complete cycle assigns nothing, this partition gets no more members, and no later partition gets any. If
#       the last member reaches its quota with a partition that needs more members, Kafka starts a cycle without members
#       and throws `NoSuchElementException`.
#
# The module assigns many pools at once. The hash set of members is in ascending order of the member index for up to
# 65,536 members; a broker allows a thousand.


KEPT, UNSUBSCRIBED, OVERFILLED, OVERSHARED = range(4)
"""Whether a member keeps a partition, and if not, the reason."""


@dataclass(frozen=True)
class PartitionPools:
    """Pools of partitions and the members that share them.

    Attributes:
        pool_of_member, member: pool of each member, and its index in the group; sorted by both.
        quota: desired number of partitions of each member (Kafka: desiredAssignmentCount).
        num_subscribers: number of subscribers of each pool. Other members have quota 0, but can own partitions.
        desired_sharing: desired number of members per partition of each pool.
        pool_of_partition, partition_hash: pool and hash code of each partition.
        partition_rank: rank of each partition in the order of `compareTo`; None if the map keys aren't `Comparable`.
        previous_member, previous_partition: previous assignments, as indexes of members and partitions of the pools;
            ascending by member, in the order of its maps and sets.
        assignable: the assignable partitions, by pool in the order in which Kafka lists them.
    """

    pool_of_member: IntArray
    member: IntArray
    quota: IntArray
    num_subscribers: IntArray
    desired_sharing: IntArray
    pool_of_partition: IntArray
    partition_hash: IntArray
    partition_rank: IntArray | None
    previous_member: IntArray
    previous_partition: IntArray
    assignable: IntArray


@dataclass(frozen=True)
class PoolAssignment:
    """The assignment of pools.

    Attributes:
        reason: for each previous assignment, `KEPT` or why it ends.
        pool_member, partition: the new assignments, as indexes of members and partitions of the pools.
        failed: pools for which Kafka throws `NoSuchElementException`.
    """

    reason: IntArray
    pool_member: IntArray
    partition: IntArray
    failed: IntArray


def compute_quotas(num_members: IntArray, num_partitions: IntArray) -> tuple[IntArray, IntArray]:
    """Step 1: computes the limits of pools with at least one member each.

    Returns:
        The desired number of members per partition of each pool, and the quota of each member, member by member.
    """
    desired_sharing = np.where(num_partitions > 0, -(-num_members // np.maximum(num_partitions, 1)), 0)
    precise = (desired_sharing * num_partitions / num_members).repeat(num_members)
    position = ranks_of(np.arange(len(num_members)).repeat(num_members))
    return desired_sharing, (np.ceil(precise * (position + 1)) - np.ceil(precise * position)).astype(np.int64)


def assign_pools(pools: PartitionPools) -> PoolAssignment:
    """Performs steps 2 to 4.

    Raises:
        IdentityDecides: Java would have to order two partitions that aren't `Comparable`.
    """
    reason = np.full(len(pools.previous_partition), KEPT)
    if len(reason):
        _revoke_overfilled_members(pools, reason)
        _revoke_overshared_partitions(pools, reason)
    return _assign_remaining_partitions(pools, reason)


def _revoke_overfilled_members(pools: PartitionPools, reason: IntArray) -> None:
    """Step 2: marks previous assignments above the quota of their member."""
    surplus = np.bincount(pools.previous_member, minlength=len(pools.quota)) - pools.quota
    rows = np.flatnonzero(surplus[pools.previous_member] > 0)
    partition, member = pools.previous_partition[rows], pools.previous_member[rows]
    ranks = None if pools.partition_rank is None else pools.partition_rank[partition]
    rows = rows[table_order(pools.partition_hash[partition], ranks, member)]
    member = pools.previous_member[rows]
    reason[rows[ranks_of(member) < surplus[member]]] = OVERFILLED


def _revoke_overshared_partitions(pools: PartitionPools, reason: IntArray) -> None:
    """Step 3: marks previous assignments above the desired sharing of their partition."""
    desired_sharing = pools.desired_sharing[pools.pool_of_partition]
    surplus = np.bincount(pools.previous_partition[reason == KEPT], minlength=len(desired_sharing)) - desired_sharing
    rows = np.flatnonzero(surplus[pools.previous_partition] > 0)
    rows = rows[np.argsort(pools.previous_partition[rows], kind="stable")]
    member, partition = pools.member[pools.previous_member[rows]], pools.previous_partition[rows]
    set_rows = rows[table_order(member, member, partition)]
    for treeified in treeified_groups(member, partition).tolist():
        start, end = np.searchsorted(partition, [treeified, treeified + 1])
        set_rows[start:end] = _treeified_set_order(pools, rows[start:end], reason)
    set_rows = set_rows[reason[set_rows] == KEPT]
    partition = pools.previous_partition[set_rows]
    reason[set_rows[ranks_of(partition) < surplus[partition]]] = OVERSHARED


def _treeified_set_order(pools: PartitionPools, rows: IntArray, reason: IntArray) -> IntArray:
    """Returns the rows of one partition in the order of its set of members, revoked ones first.

    A treeified bucket changes its order if an element is removed. Step 2 removes members in the order of the map of
    members.
    """
    pool = pools.pool_of_partition[pools.previous_partition[rows[0]]]
    pool_rows = pools.pool_of_partition[pools.previous_partition] == pool
    calls = pools.member[pools.previous_member[pool_rows]]
    indexes = np.arange(int(calls.max()) + 1)
    capacities = capacities_for(pools.num_subscribers[[pool]])
    members = compute_if_absent_order(calls, np.zeros(len(calls), np.int64), indexes, indexes, capacities)
    member_row = dict(zip(pools.member[pools.previous_member[rows]].tolist(), rows.tolist(), strict=True))
    table: HashTable[int] = HashTable(rank=int)
    for member in member_row:
        table.add(member, member)
    removed = [member for member in members.tolist() if member in member_row and reason[member_row[member]] != KEPT]
    for member in removed:
        table.remove(member)
    return np.array([member_row[member] for member in (*removed, *table.iteration_order())], np.int64)


def _assign_remaining_partitions(pools: PartitionPools, reason: IntArray) -> PoolAssignment:
    """Step 4: assigns partitions that have too few members."""
    kept = reason == KEPT
    unfilled = pools.quota - np.bincount(pools.previous_member[kept], minlength=len(pools.quota))
    num_kept = np.bincount(pools.previous_partition[kept], minlength=len(pools.pool_of_partition))
    desired_sharing = pools.desired_sharing[pools.pool_of_partition]
    partitions = _partition_map_order(pools, num_kept < desired_sharing)
    num_missing = desired_sharing[partitions] - num_kept[partitions]
    rows = np.flatnonzero(kept & (num_kept < desired_sharing)[pools.previous_partition])
    new_partition, new_member, is_complete = _assign_undisputed_turns(pools, partitions, num_missing, unfilled, rows)
    partitions, num_missing = (each[~is_complete] for each in (partitions, num_missing))
    owners = _find_owners(pools, rows) if len(partitions) else {}
    unfilled_members = np.flatnonzero(unfilled > 0) if len(partitions) else np.empty(0, np.int64)
    members_by_pool = {
        int(pools.pool_of_member[unfilled_members[start]]): unfilled_members[start:end].tolist()
        for start, end in key_ranges(pools.pool_of_member[unfilled_members])
    }
    missing, remaining_quota = num_missing.tolist(), unfilled.tolist()
    assigned: list[tuple[int, int]] = []
    failed: list[int] = []
    for start, end in key_ranges(pools.pool_of_partition[partitions]):
        pool = int(pools.pool_of_partition[partitions[start]])
        undershared = zip(partitions[start:end].tolist(), missing[start:end], strict=True)
        try:
            assigned += _assign_in_turns(undershared, owners, members_by_pool.get(pool, []), remaining_quota)
        except NoSuchElementError:
            failed.append(pool)
    partition, pool_member = np.array(assigned, np.int64).reshape(-1, 2).T
    return PoolAssignment(
        reason, np.append(new_member, pool_member), np.append(new_partition, partition), np.array(failed, np.int64)
    )


def _assign_undisputed_turns(
    pools: PartitionPools, partitions: IntArray, num_missing: IntArray, unfilled: IntArray, rows: IntArray
) -> tuple[IntArray, IntArray, BoolArray]:
    """Performs step 4 for the pools in which no member comes to a partition that it has, and the quotas suffice.

    There, the turns are those of the members in each cycle, one after the other.

    Args:
        pools: the pools.
        partitions: partitions with too few members, by pool in the order of the map.
        num_missing: number of members that each of them lacks.
        unfilled: number of partitions that each member lacks.
        rows: previous assignments of these partitions that are kept.

    Returns:
        the partitions and their members, and a mask of `partitions`: whether they are among them.
    """
    pool, num_pools = pools.pool_of_partition[partitions], len(pools.desired_sharing)
    room = np.bincount(pools.pool_of_member, np.maximum(unfilled, 0), num_pools)
    is_simple = np.bincount(pool, num_missing, num_pools) <= room
    members = np.flatnonzero((unfilled > 0) & is_simple[pools.pool_of_member])
    cycle = ranges_by_length(unfilled[members])
    members = np.repeat(members, unfilled[members])
    order = np.argsort(pools.pool_of_member[members] << PARTITION_BITS | cycle, kind="stable")
    members = members[order]
    is_complete = is_simple[pool]
    partition = np.repeat(partitions[is_complete], num_missing[is_complete])
    num_turns = np.bincount(pools.pool_of_partition[partition], minlength=num_pools)
    members = members[ranks_of(pools.pool_of_member[members]) < num_turns[pools.pool_of_member[members]]]
    if num_missing.max(initial=0) < 2 and not len(rows):
        return partition, members, is_complete
    has_member = np.append(partition, pools.previous_partition[rows]), np.append(members, pools.previous_member[rows])
    key = np.sort(has_member[0] * max(len(unfilled), 1) + has_member[1])
    if (twice := key[1:] == key[:-1]).any():
        # A member that comes to a partition that it has, or comes again, loses its turn.
        has_repeats = np.zeros(num_pools, bool)
        has_repeats[pools.pool_of_partition[key[1:][twice] // max(len(unfilled), 1)]] = True
        is_complete &= ~has_repeats[pool]
        is_new = ~has_repeats[pools.pool_of_partition[partition]]
        partition, members = partition[is_new], members[is_new]
    return partition, members, is_complete


class NoSuchElementError(Exception):
    """Kafka reads the next of no members (`NoSuchElementException`)."""


def _assign_in_turns(
    undershared: Iterable[tuple[int, int]],
    owners: dict[int, set[int]],
    members: Sequence[int],
    remaining_quota: list[int],
) -> Iterator[tuple[int, int]]:
    """Yields the partitions of one pool and the members that get them.

    Args:
        undershared: partitions and the number of members that each lacks, in the order of the map.
        owners: members that already have each partition; partitions without members are absent.
        members: members below their quota, in their order.
        remaining_quota: number of partitions that each member lacks; updated.
    """
    position, has_assigned, next_cycle = 0, False, list[int]()
    for partition, num_missing in undershared:
        previous, new = owners.get(partition, ()), set[int]()
        while num_missing:
            if position == len(members):
                if not has_assigned:
                    break
                if not next_cycle:
                    raise NoSuchElementError
                members, next_cycle, position, has_assigned = next_cycle, [], 0, False
            pool_member = members[position]
            position += 1
            if pool_member not in previous:
                num_missing, has_assigned = num_missing - 1, True
                if pool_member not in new:
                    new.add(pool_member)
                    remaining_quota[pool_member] -= 1
                    yield partition, pool_member
            if remaining_quota[pool_member]:
                next_cycle.append(pool_member)
        if position == len(members) and not next_cycle:
            return


def _partition_map_order(pools: PartitionPools, selected: BoolArray) -> IntArray:
    """Returns the selected partitions (a flag per partition) in the order of the map of partitions.

    The map gets previous assignments first, then assignable partitions, which are by pool.
    """
    # Kafka calls `computeIfAbsent` for every partition; only those with too few members are read from the map.
    calls = pools.assignable
    if len(pools.previous_partition):
        calls = np.append(pools.previous_partition, calls)
        calls = calls[np.argsort(pools.pool_of_partition[calls], kind="stable")]
    capacities = capacities_for(
        np.bincount(pools.pool_of_partition[pools.assignable], minlength=len(pools.desired_sharing))
    )
    pool = pools.pool_of_partition[calls]
    return compute_if_absent_order(calls, pool, pools.partition_hash, pools.partition_rank, capacities, selected)


def _find_owners(pools: PartitionPools, rows: IntArray) -> dict[int, set[int]]:
    """Returns the members of each partition in these rows of previous assignments."""
    owners: dict[int, set[int]] = {}
    for partition, pool_member in zip(
        pools.previous_partition[rows].tolist(), pools.previous_member[rows].tolist(), strict=True
    ):
        owners.setdefault(partition, set()).add(pool_member)
    return owners
