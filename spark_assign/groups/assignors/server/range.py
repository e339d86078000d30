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


Server-range with racks: an assignor of ours, which Kafka does not have. It says what racks would save there.

(Range of the clients knows racks since KIP-881, the broker's does not.)

Principles, in this priority
    1. Balance within the topic: every subscriber has as many partitions of it as from server-range.
    2. Co-partitioning: topics with the same subscribers and as many partitions are laid out alike.
    3. Racks: under these two, as many partitions as possible go to a member that has a replica of them in its rack.
Where server-range's own layout has as many of those, it stands. What members had before plays no part.

Example: t has 4 partitions with replicas in rack y, x, y, x. C0 is in rack x, C1 in rack y.
    server-range         C0: [p0 p1]    C1: [p2 p3]    two of four are read across racks
    rack-server-range    C0: [p1 p3]    C1: [p0 p2]    none is

Steps, for topics that are laid out alike
    1. Worth: of each partition number and rack, how many of the topics have a replica of it there.
    2. Spread the numbers over the racks, to each as many as its members are due (members without a rack share a place
       where nothing is worth anything): the most valuable pairs first. As long as a ring of racks is better off if
       each hands a number to the next, it does; where there is none, no spread is worth more.
    3. The numbers of a rack go to its members in order, in one piece each.
"""

from __future__ import annotations

import numpy as np

from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.partition_slices import PartitionSlices
from spark_assign.numeric.segmented_arrays import row_numbers


def assign_server_ranges(member: IntArray, topic: IntArray, served: IntArray, partitions: IntArray) -> PartitionSlices:
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


def assign_ranges_by_rack(due: IntArray, rack: IntArray, worth: IntArray) -> IntArray:
    """Which member gets each partition number.

    Args:
        due: of each member, in the order of server-range, how many numbers it gets; all in all as many as there are.
        rack: of each member, -1 for none.
        worth: `worth[number, rack]`, of how many topics that is near.
    """
    racks = worth.shape[1]
    place = np.where(rack < 0, racks, rack)
    capacity = np.bincount(place, due, racks + 1).astype(np.int64)
    classes, of_class, supply = np.unique(
        np.append(worth, np.zeros((len(worth), 1), np.int64), axis=1), axis=0, return_inverse=True, return_counts=True
    )
    flow = maximize_value(classes, supply, capacity)
    order = np.argsort(of_class.ravel(), kind="stable")
    where = np.empty(len(worth), np.int64)
    where[order] = np.repeat(np.tile(np.arange(racks + 1), len(classes)), flow.ravel())
    owner = np.empty(len(worth), np.int64)
    owner[np.argsort(where, kind="stable")] = np.repeat(np.arange(len(due)), due)[
        np.argsort(np.repeat(place, due), kind="stable")
    ]
    return owner


def maximize_value(worth: IntArray, supply: IntArray, capacity: IntArray) -> IntArray:
    """Step 2: how many of each class go to each place, so that all in all they are worth most.

    Args:
        worth: `worth[class, place]`.
        supply: of each class.
        capacity: of each place; as much as the supply, all in all.
    """
    flow, left, room = np.zeros_like(worth), supply.copy(), capacity.copy()
    for each, place in zip(*np.unravel_index(np.argsort(-worth, axis=None, kind="stable"), worth.shape), strict=True):
        much = min(left[each], room[place])
        flow[each, place] = much
        left[each] -= much
        room[place] -= much
    while ring := _find_improving_cycle(worth, flow):
        much = min(flow[each, place] for each, place, _ in ring)
        for each, place, following in ring:
            flow[each, place] -= much
            flow[each, following] += much
    return flow


def _find_improving_cycle(worth: IntArray, flow: IntArray) -> list[tuple[int, int, int]]:
    """Places each of which hands a class to the next, so that all are worth more then: class, place, next place."""
    places = worth.shape[1]
    gain = np.full((places, places), -np.inf)
    hands = np.zeros((places, places), np.int64)
    for place in range(places):
        there = np.flatnonzero(flow[:, place])
        if len(there):
            differs = worth[there] - worth[there, place][:, None]
            hands[place], gain[place] = there[differs.argmax(axis=0)], differs.max(axis=0)
    # Bellman and Ford: a way that still gets better after as many steps as there are places has a ring in it.
    best, before = np.zeros(places), np.full(places, -1)
    better = np.zeros(places, bool)
    for _ in range(places):
        through = best[:, None] + gain
        better = through.max(axis=0) > best
        before[better] = through.argmax(axis=0)[better]
        best = np.maximum(best, through.max(axis=0))
    if not better.any():
        return []
    place = int(np.flatnonzero(better)[0])
    for _ in range(places):
        place = int(before[place])
    ring: list[tuple[int, int, int]] = []
    begin = place
    while not ring or place != begin:
        earlier = int(before[place])
        ring.append((int(hands[earlier, place]), earlier, place))
        place = earlier
    return ring
