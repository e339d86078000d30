"""What members own, read as the sticky assignors read it (`AbstractStickyAssignor.allSubscriptionsEqual`).

Members are taken in the order of Java's hash map. Whoever claims a partition that an earlier one claims as well gets
it if its generation is higher; at equal generations nobody keeps it, and the later claimer counts as its owner from
there on. The later claimer's generation is the one it claims with, the earlier one's that of its subscription.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spark_assign.kernels.segments import expand_runs, first_of_each

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

KEY_BITS = 32
"""A partition's number fits in so many bits, so that topic << KEY_BITS | partition sorts by topic and partition."""


@dataclass(frozen=True)
class Runs:
    """Runs of partitions, as columns: member, topic, first, step, count. No run is empty."""

    member: Ints
    topic: Ints
    first: Ints
    step: Ints
    count: Ints

    def __len__(self) -> int:
        return len(self.member)

    @property
    def last(self) -> Ints:
        """The last partition of each run."""
        return self.first + self.step * (self.count - 1)

    def where(self, chosen: Flags | Ints) -> Runs:
        """Some of the runs."""
        return Runs(self.member[chosen], self.topic[chosen], self.first[chosen], self.step[chosen], self.count[chosen])

    def joined(self, other: Runs) -> Runs:
        """These runs and others."""
        pairs = zip(self.columns, other.columns, strict=True)
        return Runs(*(np.concatenate(pair) for pair in pairs))

    @property
    def columns(self) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """The five columns."""
        return self.member, self.topic, self.first, self.step, self.count

    def rows(self) -> Runs:
        """The same, a run for each partition."""
        if (self.count == 1).all():
            return self
        row, partition = expand_runs(self.first, self.step, self.count)
        one = np.ones(len(row), np.int64)
        return Runs(self.member[row], self.topic[row], partition, one, one)

    @property
    def keys(self) -> Ints:
        """Topic and first partition as one sortable number."""
        return (self.topic << KEY_BITS) | self.first


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
