"""Range of the broker (`org.apache.kafka.coordinator.group.assignor.RangeAssignor`); here it is called server-range.

Principles, in this priority
    1. Balance within the topic: p partitions over n subscribers give each p / n, and the first p % n one more.
    2. Co-partitioning: topics with the same subscribers and as many partitions are laid out alike.
What members had before and racks play no part: the range of the clients knows racks since KIP-881, this one does not.

Example: C0 and C1 subscribe to t0 and t1, three partitions each.
    C0: [t0p0, t0p1, t1p0, t1p1]
    C1: [t0p2, t1p2]

Steps
    1. Members in order: static ones by instance id, then the others by member id.
    2. Of each topic the subscriber of rank k begins at k * (p / n) + min(k, p % n) and gets p / n partitions, the first
       p % n one more.
"""

from __future__ import annotations

import numpy as np

from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.partition_slices import PartitionSlices
from spark_assign.numeric.segmented_arrays import row_numbers


def lay_out_ranges(member: IntArray, topic: IntArray, served: IntArray, partitions: IntArray) -> PartitionSlices:
    """Step 2.

    Args:
        member, topic: of each subscription, each once.
        served: of each member its place in the order of step 1, distinct within its group.
        partitions: of each topic.
    """
    order = np.lexsort((served[member], topic))
    member, topic = member[order], topic[order]
    rank, subscribers = row_numbers(topic), np.bincount(topic, minlength=len(partitions))[topic]
    quota, longer = np.divmod(partitions[topic], np.maximum(subscribers, 1))
    first, count = rank * quota + np.minimum(rank, longer), quota + (rank < longer)
    runs = PartitionSlices(member, topic, first, np.ones(len(member), np.int64), count)
    return runs.take(count > 0)
