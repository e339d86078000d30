"""Kafka's `SimpleAssignor` of share groups (4.2 to 4.4): divides the groups into pools of partitions.

Several members of a share group can have one partition; they do if there are more members than partitions.
`share.kernel.pool_assignment` describes how the members of a pool share its partitions. The pools are

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
partitions as in the member's map of topics and their sets (`groups.assignors.server.coordinator_order`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import invert, mask_from_indexes, match_keys
from spark_assign.numeric.segmented_arrays import expand_slices, number_keys, starts_new_key
from spark_assign.share.kernel.pool_assignment import KEPT, UNSUBSCRIBED, PartitionPools, assign_pools, compute_quotas
from spark_assign.share.kernel.share_group_input import ShareGroupSpecs

_HASH_MASK = 0xFFFFFFFF


@dataclass(frozen=True)
class ShareAssignment:
    """The assignor's result.

    Attributes:
        reason: for each previous assignment, `KEPT` or why it ends (`share.kernel.pool_assignment`).
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
