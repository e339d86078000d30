"""What Kafka 2.4 plans where nobody has to give up anything: only what nobody owns is dealt, and nothing is balanced.

That is so where all members subscribe to the same topics, no partition is claimed twice, and no two members differ by
two or more once everything is dealt. Then of the order of partitions (`general_2_8`) it only matters in which one those
come that nobody owns.
"""

from __future__ import annotations

import numpy as np

from spark_assign.groups.assignors.sticky.constrained import as_runs, unowned
from spark_assign.groups.assignors.sticky.ownership_conflicts import crossing_topics
from spark_assign.groups.assignors.sticky.sticky_types import STAYS, StickyAssignment, StickyGroups
from spark_assign.groups.assignors.sticky.water_filling import fill_up
from spark_assign.java.hash_map import capacities, spread_hashes, treeified_groups
from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.partition_slices import PartitionSlices
from spark_assign.numeric.segmented_arrays import ranges_by_length

_WORD = 1 << 32
_BY_31 = pow(31, -1, _WORD)


def plan_at_rest(
    groups: StickyGroups, owned: PartitionSlices, topic_hash: IntArray, topics: IntArray | None
) -> StickyAssignment | None:
    """Plan one group all of whose members subscribe to all topics; null where it is not as easy as that.

    Args:
        groups: the one group.
        owned: all claims of topics with metadata.
        topic_hash: of each topic its `String.hashCode`.
        topics: in the order in which they are walked over; null where partitions go by topic and number.
    """
    partitions = groups.partitions
    if len(crossing_topics(owned)) or (owned.last >= partitions[owned.topic]).any():
        return None
    load = np.bincount(owned.member, owned.count, len(groups.member_group)).astype(np.int64)
    topic, partition = unowned(owned, partitions)
    every = np.arange(len(load))
    to_member = fill_up(np.zeros_like(load), load, every, np.array([len(topic)]))
    load += np.bincount(to_member, minlength=len(load))
    if load.max() > load.min() + 1:
        return None
    order: IntArray | None = np.lexsort((partition, topic))
    if topics is not None:
        differ = _hashes_differ(topic_hash, partitions)
        order = _walk(topic, partition, topic_hash, topics, partitions) if differ else None
    if order is None:
        return None
    nothing = np.zeros(len(to_member), np.int64)
    dealt, *_ = as_runs(to_member, topic[order], partition[order], nothing, nothing.astype(bool))
    runs = owned.concat(dealt)
    return StickyAssignment(runs, np.full(len(runs), STAYS), np.zeros(len(runs), bool), {})


def _hashes_differ(topic_hash: IntArray, partitions: IntArray) -> bool:
    """Whether no two partitions have one hash code: else a bucket of them may be one that cannot be known.

    That of a partition is 31 * (31 + partition) + that of its topic. Divided by 31, those of a topic follow each other.
    """
    begin = np.sort(topic_hash * _BY_31 % _WORD)
    order = np.argsort(topic_hash * _BY_31 % _WORD, kind="stable")
    end = begin + partitions[order]
    return bool((end <= np.append(begin[1:], begin[:1] + _WORD)).all())


def _walk(
    topic: IntArray, partition: IntArray, topic_hash: IntArray, topics: IntArray, partitions: IntArray
) -> IntArray | None:
    """In which order some partitions stand in a `HashMap` of all of them; null where its buckets are too full."""
    row = np.repeat(topics, partitions[topics])
    hashes = _hashes(row, ranges_by_length(partitions[topics]), topic_hash)
    if len(treeified_groups(hashes, np.zeros(len(hashes), np.int64))):
        return None
    place = np.empty(len(topics), np.int64)
    place[topics] = np.arange(len(topics))
    bucket = spread_hashes(_hashes(topic, partition, topic_hash)) & (capacities(np.array([len(hashes)])) - 1)
    return np.lexsort((partition, place[topic], bucket))


def _hashes(topic: IntArray, partition: IntArray, topic_hash: IntArray) -> IntArray:
    hashes: IntArray = (31 * (31 + partition) + topic_hash[topic]) & (_WORD - 1)
    return hashes
