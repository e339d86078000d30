"""What Kafka 2.4 plans where nobody has to give up anything: only what nobody owns is dealt, and nothing is balanced.

That is so where all members subscribe to the same topics, no partition is claimed twice, and no two members differ by
two or more once everything is dealt. Then of the order of partitions (`general_2_8`) it only matters in which one those
come that nobody owns.
"""

from __future__ import annotations

import numpy as np

from spark_assign.kernels.arrays import Ints
from spark_assign.kernels.java_hash import capacities, crowded_groups, spread_hashes
from spark_assign.kernels.runs import Runs
from spark_assign.kernels.segments import counted
from spark_assign.kernels.sticky.claims import crossing_topics
from spark_assign.kernels.sticky.constrained import as_runs, unowned
from spark_assign.kernels.sticky.groups import STAYS, Decided, Groups
from spark_assign.kernels.sticky.levels import fill_up

_WORD = 1 << 32
_BY_31 = pow(31, -1, _WORD)


def plan_at_rest(groups: Groups, owned: Runs, topic_hash: Ints, topics: Ints | None) -> Decided | None:
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
    taker = fill_up(np.zeros_like(load), load, every, np.array([len(topic)]))
    load += np.bincount(taker, minlength=len(load))
    if load.max() > load.min() + 1:
        return None
    order: Ints | None = np.lexsort((partition, topic))
    if topics is not None:
        differ = _hashes_differ(topic_hash, partitions)
        order = _walk(topic, partition, topic_hash, topics, partitions) if differ else None
    if order is None:
        return None
    nothing = np.zeros(len(taker), np.int64)
    dealt, *_ = as_runs(taker, topic[order], partition[order], nothing, nothing.astype(bool))
    runs = owned.joined(dealt)
    return Decided(runs, np.full(len(runs), STAYS), np.zeros(len(runs), bool), {})


def _hashes_differ(topic_hash: Ints, partitions: Ints) -> bool:
    """Whether no two partitions have one hash code: else a bucket of them may be one that cannot be known.

    That of a partition is 31 * (31 + partition) + that of its topic. Divided by 31, those of a topic follow each other.
    """
    begin = np.sort(topic_hash * _BY_31 % _WORD)
    order = np.argsort(topic_hash * _BY_31 % _WORD, kind="stable")
    end = begin + partitions[order]
    return bool((end <= np.append(begin[1:], begin[:1] + _WORD)).all())


def _walk(topic: Ints, partition: Ints, topic_hash: Ints, topics: Ints, partitions: Ints) -> Ints | None:
    """In which order some partitions stand in a `HashMap` of all of them; null where its buckets are too full."""
    row = np.repeat(topics, partitions[topics])
    hashes = _hashes(row, counted(partitions[topics]), topic_hash)
    if len(crowded_groups(hashes, np.zeros(len(hashes), np.int64))):
        return None
    place = np.empty(len(topics), np.int64)
    place[topics] = np.arange(len(topics))
    bucket = spread_hashes(_hashes(topic, partition, topic_hash)) & (capacities(np.array([len(hashes)])) - 1)
    return np.lexsort((partition, place[topic], bucket))


def _hashes(topic: Ints, partition: Ints, topic_hash: Ints) -> Ints:
    hashes: Ints = (31 * (31 + partition) + topic_hash[topic]) & (_WORD - 1)
    return hashes
