"""Partitions without load: as many for everybody, whoever has more than its share of them gives up the last ones.

The share is the number of such partitions that the same members may have, over these members, rounded up. Who has fewer
partitions with load may keep more, as long as it has no more in all than the same share of all. What nobody has, or
keeps, goes to whoever has fewest of them, of these to the one with fewest partitions in all.

Example: nothing is written to t-0 … t-4. a has all of them, b joins: the share is 3, b gets t-3 and t-4.
"""

from __future__ import annotations

from heapq import heapify, heapreplace

import numpy as np

from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.segmented_arrays import row_numbers


def share_idle(owner: IntArray, may: IntArray, number: IntArray) -> IntArray:
    """Of each partition without load its next owner.

    Args:
        owner: of each who has it; -1: nobody. Owners are in `may`.
        may: the members that may have them, ascending.
        number: of each member how many partitions with load it has; what it gets here is added.
    """
    share = -(-len(owner) // len(may))
    of_all = -(-(len(owner) + int(number[may].sum())) // len(may))
    keeps = np.maximum(share, of_all - number)
    order = np.argsort(owner, kind="stable")
    place = np.empty(len(owner), np.int64)
    place[order] = row_numbers(owner[order])
    at = np.where((owner >= 0) & (place < keeps[owner]), owner, -1)
    had = np.bincount(at[at >= 0], minlength=len(number))
    free = np.flatnonzero(at < 0)
    heap = [(int(had[member]), int(number[member]), member) for member in may.tolist()]
    heapify(heap)
    to_member = []
    for _ in range(len(free)):
        mine, all_in_all, member = heap[0]
        heapreplace(heap, (mine + 1, all_in_all, member))
        to_member.append(member)
    at[free] = to_member
    number += np.bincount(at, minlength=len(number))
    return at
