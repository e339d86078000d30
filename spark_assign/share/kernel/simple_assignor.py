"""Share groups planned as the broker plans them: Kafka's `SimpleAssignor` of 4.2 to 4.4.

Principle: several members of a share group may have one partition, and where there are more members than partitions
they do. How a pool of partitions is shared is the page `sharing`. What is one pool?

    everybody subscribes to the same names    all assignable partitions of the group's topics
                                              (`SimpleHomogeneousAssignmentBuilder`)
    names differ                              those of each topic for itself, among its subscribers
                                              (`SimpleHeterogeneousAssignmentBuilder`)

Assignable are partitions for which the coordinator has initialised share state. One that is not, or not any more, stays
with who had it, as long as nobody has too much. Of topics that members have had
    - what nobody of the group subscribes to any more is dropped if all subscribe to the same, and otherwise stays;
    - what a member does not subscribe to, but another one does, counts as too much.
Nobody gets anything where nobody subscribes to any topic that there is; if all subscribe to the same, only where they
subscribe to no name at all.

Orders: members as their hash map has them; topics as the hash set of the first member's names has them; what a member
had as its map of topics and their sets of partitions have it (`groups.assignors.server.coordinator_hash_order`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PARTITION_BITS
from spark_assign.numeric.segmented_arrays import expand_slices, starts_new_key
from spark_assign.share.kernel.pool_assignment import STAYS, UNSUBSCRIBED, PartitionPools, quotas, share_out

_MASK = 0xFFFFFFFF
_LOW = (1 << PARTITION_BITS) - 1


@dataclass(frozen=True)
class ShareGroupSpecs:
    """Share groups as the assignor is told of them; groups, members and topics are numbers.

    Attributes:
        group: of each member, ascending; the members of a group in the order in which the assignor sees them.
        names: of each member whether it subscribes to any name, known or not.
        alike: of each group whether all of its members subscribe to the same names.
        topic_group, topic_hash: of each topic its group, and the hash code of its id.
        asking, asked: member and topic of each subscription to a topic that there is, ascending by member; topics in
            the order of the member's set of names.
        topic, partition: what is assignable, ascending by both.
        member, had_topic, had: what members had, ascending by member, in the order of their maps and sets.
    """

    group: IntArray
    names: BoolArray
    alike: BoolArray
    topic_group: IntArray
    topic_hash: IntArray
    asking: IntArray
    asked: IntArray
    topic: IntArray
    partition: IntArray
    member: IntArray
    had_topic: IntArray
    had: IntArray


@dataclass(frozen=True)
class ShareAssignment:
    """What the assignor says.

    Attributes:
        reason: of each thing that members had whether it stays, and if not, why (`share.kernel.pool_assignment`).
        member, topic, partition: what is given.
        dropped: of each topic whether members lose it as a whole, an empty set of its partitions included.
        failed: of each group whether Kafka throws `NoSuchElementException`.
        sharing: of each topic how many members each of its partitions shall have; 0 where nobody subscribes to it.
    """

    reason: IntArray
    member: IntArray
    topic: IntArray
    partition: IntArray
    dropped: BoolArray
    failed: BoolArray
    sharing: IntArray


def assign_simple(groups: ShareGroupSpecs) -> ShareAssignment:
    """The next assignment of each group.

    Raises:
        IdentityDecides: Java would have to order two partitions that do not compare.
    """
    dropped = _dropped(groups)
    reason = np.where(dropped[groups.had_topic], UNSUBSCRIBED, STAYS)
    failed = np.zeros(len(groups.alike), bool)
    sharing = np.zeros(len(groups.topic_group), np.int64)
    given = tuple(np.empty(0, np.int64) for _ in range(3))
    for cut in (_by_group(groups), _by_topic(groups)):
        shared = _share(groups, cut)
        reason[shared.rows] = shared.reason
        failed[cut.group[shared.failed]] = True
        sharing[cut.topics] = shared.sharing[cut.pool]
        given = tuple(np.append(*both) for both in zip(given, shared.given, strict=True))
    member, topic, partition = given
    return ShareAssignment(reason, member, topic, partition, dropped, failed, sharing)


def _dropped(groups: ShareGroupSpecs) -> BoolArray:
    """Of each topic whether it is decided without any pool that nobody has it any more."""
    subscribed = np.zeros(len(groups.topic_group), bool)
    subscribed[groups.asked] = True
    # Of groups whose subscriptions differ topics are dropped only where there is none that anybody subscribes to.
    drops = np.ones(len(groups.alike), bool)
    drops[groups.topic_group[groups.asked]] = False
    return ~subscribed & (groups.alike | drops)[groups.topic_group]


# --- pools --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Cut:
    """Topics cut into pools.

    Attributes:
        topics, pool: the topics, in the order in which Kafka lists them, and of each its pool.
        group: of each pool.
        subscribed, subscriber: pools and their subscribers, in any order.
        compare: whether Kafka's keys of partitions have an order.
    """

    topics: IntArray
    pool: IntArray
    group: IntArray
    subscribed: IntArray
    subscriber: IntArray
    compare: bool


def _by_group(groups: ShareGroupSpecs) -> _Cut:
    """A pool for each group whose members subscribe to the same names, if to any; its keys are topic and partition."""
    first = np.flatnonzero(starts_new_key(groups.group))
    first = first[groups.alike[groups.group[first]] & groups.names[first]]
    pool = np.full(len(groups.alike), -1, np.int64)
    pool[groups.group[first]] = np.arange(len(first))
    topics = groups.asked[np.isin(groups.asking, first)]
    members = np.flatnonzero(pool[groups.group] >= 0)
    of_topic = pool[groups.topic_group[topics]]
    return _Cut(topics, of_topic, groups.group[first], pool[groups.group[members]], members, compare=False)


def _by_topic(groups: ShareGroupSpecs) -> _Cut:
    """A pool for each topic that somebody subscribes to in the other groups; its keys are numbers of partitions."""
    mixed = ~groups.alike[groups.topic_group[groups.asked]]
    topics, pool = np.unique(groups.asked[mixed], return_inverse=True)
    every = np.arange(len(topics))
    return _Cut(topics, every, groups.topic_group[topics], pool, groups.asking[mixed], compare=True)


@dataclass(frozen=True)
class _Shared:
    """What has become of pools.

    Attributes:
        rows: what members had of them, as places in the columns of `ShareGroupSpecs`.
        reason: of each whether it stays.
        given: member, topic and partition.
        sharing: of each pool.
        failed: pools in which Kafka throws.
    """

    rows: IntArray
    reason: IntArray
    given: tuple[IntArray, IntArray, IntArray]
    sharing: IntArray
    failed: IntArray


def _share(groups: ShareGroupSpecs, cut: _Cut) -> _Shared:
    """Number what is in the pools, and share it."""
    pool = np.full(len(groups.topic_group), -1, np.int64)
    pool[cut.topics] = cut.pool
    rows = np.flatnonzero(pool[groups.had_topic] >= 0)
    topic, partition = groups.had_topic[rows], groups.had[rows]
    # Members of pools: subscribers, and who had something.
    size = max(len(groups.group), 1)
    subscriber, holder = np.sort(cut.subscribed * size + cut.subscriber), pool[topic] * size + groups.member[rows]
    pool_members = np.union1d(subscriber, holder)
    pool_of_member, member = np.divmod(pool_members, size)
    first = np.searchsorted(groups.group, cut.group)
    # Partitions of pools: those to be shared, and what somebody had.
    begin, end = (np.searchsorted(groups.topic, cut.topics, side) for side in ("left", "right"))
    which, at = expand_slices(begin, np.ones_like(begin), end - begin)
    wanted, held = groups.topic[at] << PARTITION_BITS | groups.partition[at], topic << PARTITION_BITS | partition
    keys = np.union1d(wanted, held)
    topic, partition = keys >> PARTITION_BITS, keys & _LOW
    subscribers, partitions = (
        np.bincount(each, minlength=len(cut.group)) for each in (cut.subscribed, cut.pool[which])
    )
    sharing, wants = quotas(subscribers, partitions)
    quota = np.zeros(len(pool_members), np.int64)
    quota[np.searchsorted(pool_members, subscriber)] = wants
    order = np.argsort(holder, kind="stable")
    pools = PartitionPools(
        pool_of_member=pool_of_member,
        member=member - first[pool_of_member],
        quota=quota,
        subscribers=subscribers,
        sharing=sharing,
        of_key=pool[topic],
        hashes=partition if cut.compare else (31 * groups.topic_hash[topic] + partition) & _MASK,
        ranks=partition if cut.compare else None,
        pool_member=np.searchsorted(pool_members, holder[order]),
        key=np.searchsorted(keys, held[order]),
        wanted=np.searchsorted(keys, wanted),
    )
    shares = share_out(pools)
    given = member[shares.pool_member], topic[shares.key], partition[shares.key]
    return _Shared(rows[order], shares.reason, given, sharing, shares.failed)
