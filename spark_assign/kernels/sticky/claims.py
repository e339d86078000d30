"""What members own, read as the sticky assignors read it (`AbstractStickyAssignor.allSubscriptionsEqual`).

Members are taken in the order of Java's hash map. Whoever claims a partition that an earlier one claims as well gets
it if its generation is higher; at equal generations nobody keeps it, and the later claimer counts as its owner from
there on. The later claimer's generation is the one it claims with, the earlier one's that of its subscription.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_assign.kernels.arrays import Flags, Ints
from spark_assign.kernels.runs import KEY_BITS, Runs
from spark_assign.kernels.segments import first_of_each


@dataclass(frozen=True)
class Claims:
    """Claims after conflicts.

    Attributes:
        runs: who owns what; no partition twice.
        contested: keys, ascending, of partitions that two members claimed in one generation.
    """

    runs: Runs
    contested: Ints


def settle(claims: Runs, walk: Ints, claimed_in: Ints, generation: Ints) -> Claims:
    """Decide between members that claim the same partition.

    Args:
        claims: of topics with metadata.
        walk: of each member its place in the hash map's walk.
        claimed_in: of each member the generation that its claims are of; -1 for none.
        generation: of each member its subscription's generation; -1 for none.
    """
    none = np.empty(0, np.int64)
    crossing = np.isin(claims.topic, crossing_topics(claims))
    if not crossing.any():
        return Claims(claims, none)
    rows = claims.where(crossing).rows()
    rows = rows.where(np.lexsort((walk[rows.member], rows.keys)))
    keys = rows.keys
    starts = first_of_each(keys)
    alone = starts & np.append(starts[1:], True)
    winners: list[int] = []
    contested: list[int] = []
    ends = np.flatnonzero(np.append(starts[1:], True)) + 1
    for begin, end in zip(np.flatnonzero(starts), ends, strict=True):
        if end - begin == 1:
            continue
        owner = holder = int(begin)
        for claimer in range(int(begin) + 1, int(end)):
            later, earlier = claimed_in[rows.member[claimer]], generation[rows.member[owner]]
            if later == earlier:
                contested.append(int(keys[claimer]))
                holder = -1 if holder == owner else holder
                owner = claimer
            elif later > earlier:
                owner = holder = claimer
        if holder >= 0:
            winners.append(holder)
    settled = rows.where(np.sort(np.append(np.flatnonzero(alone), np.array(winners, np.int64))))
    return Claims(claims.where(~crossing).joined(settled), np.unique(np.array(contested, np.int64)))


def crossing_topics(claims: Runs) -> Ints:
    """The topics in which claims may meet.

    Claims do not meet if each begins after all before it have ended, or if all have one step and differ modulo it.
    """
    order = np.argsort(claims.keys, kind="stable")
    sorted_claims = claims.where(order)
    begins = sorted_claims.keys
    ends = (sorted_claims.topic << KEY_BITS) | sorted_claims.last
    reached = np.maximum.accumulate(ends)
    meets = np.flatnonzero(reached[:-1] >= begins[1:]) + 1
    topics = np.unique(sorted_claims.topic[meets])
    if not len(topics):
        return topics
    some = sorted_claims.where(np.isin(sorted_claims.topic, topics))
    new = first_of_each(some.topic)
    begin = np.flatnonzero(new)
    one_step = np.minimum.reduceat(some.step, begin) == np.maximum.reduceat(some.step, begin)
    residues = np.unique((some.topic << KEY_BITS) | (some.first % some.step)) >> KEY_BITS
    distinct = np.searchsorted(residues, topics, "right") - np.searchsorted(residues, topics, "left")
    apart: Flags = one_step & (distinct == np.diff(np.append(begin, len(some))))
    return topics[~apart]
