"""How much load a member of a group may have.

`load_bound` times the mean load of a member; what a member can handle, its `capacity`, where only that is said; the
lesser of both, where both are. Neither is said: 1.1 times the mean. So much the loads of partitions change between two
readings of a quiet topic: a bound much closer to the mean would be passed again the next minute, and load would move
for nothing; one much farther away leaves the busiest member with what one more consumer would have taken off it.

Where all members together can handle less than is written, no assignment helps, and the mean decides again.
"""

from __future__ import annotations

import numpy as np

from spark_assign.numeric.array_types import FloatArray, IntArray

LOAD_BOUND = 1.1
"""Max over mean, where a group says nothing."""


def bounds(total: FloatArray, members: IntArray, load_bound: FloatArray, capacity: FloatArray) -> FloatArray:
    """Of each group the load that a member may have.

    Args:
        total: the load of all of its partitions.
        members: how many may have partitions.
        load_bound, capacity: NaN where the group does not say it.
    """
    mean = total / np.maximum(members, 1)
    times = np.where(np.isnan(load_bound), LOAD_BOUND, load_bound)
    by_mean = times * mean
    said = np.where(np.isnan(capacity), np.inf, capacity)
    both = np.where(np.isnan(load_bound), said, np.minimum(by_mean, said))
    enough = ~np.isnan(capacity) & (said >= mean)
    return np.where(enough, both, by_mean)


def fill_loads(rate: FloatArray, topic: IntArray, group: IntArray, groups: int) -> tuple[FloatArray, IntArray]:
    """Of each partition its load: where no rate is known the mean of its topic's known ones, or else of its group's.

    Returns:
        loads, NaN in groups without any rate; and of each group how many of its partitions had no rate.
    """
    known = ~np.isnan(rate)
    topics = int(topic.max(initial=-1)) + 1
    load = rate.copy()
    for place, number in ((topic, topics), (group, groups)):
        sums = np.bincount(place[known], rate[known], number)
        counts = np.bincount(place[known], minlength=number)
        mean = np.divide(sums, counts, out=np.full(number, np.nan), where=counts > 0)
        load = np.where(np.isnan(load), mean[place], load)
    return load, np.bincount(group[~known], minlength=groups)
