"""What members own, read as the sticky assignors read it (`AbstractStickyAssignor.allSubscriptionsEqual`).

Members are taken in the order of Java's hash map. Whoever claims a partition that an earlier one claims as well gets
it if its generation is higher; at equal generations nobody keeps it, and the later claimer counts as its owner from
there on. The later claimer's generation is the one it claims with, the earlier one's that of its subscription.

Older releases (`groups.assignors.release_rules`)
    - up to 3.5.1 the later claimer counts as the owner even if it has lost: one that comes after both may win against
      it, and then has the partition beside the one that has won before;
    - up to 3.4.0 only what is claimed in the group's newest generation counts, and who claims the same has nothing;
    - up to 2.8.0 they both keep it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from spark_assign.groups.assignors.release_rules import LATEST_RULES, ReleaseRules
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PARTITION_BITS, PartitionSlices
from spark_assign.numeric.segmented_arrays import starts_new_key


@dataclass(frozen=True)
class ResolvedOwnership:
    """Claims after conflicts.

    Attributes:
        slices: who owns what; no partition twice, unless `shared_partitions`.
        multiple_owners: keys, ascending, of partitions that two members claimed in one generation.
        shared_partitions: keys, ascending, of partitions that have two owners.
    """

    slices: PartitionSlices
    multiple_owners: IntArray
    shared_partitions: IntArray = field(default_factory=lambda: np.empty(0, np.int64))


def resolve_conflicts(
    claims: PartitionSlices,
    walk: IntArray,
    group: IntArray,
    claimed_in: IntArray,
    generation: IntArray,
    rules: ReleaseRules = LATEST_RULES,
) -> ResolvedOwnership:
    """Decide between members that claim the same partition.

    Args:
        claims: of topics with metadata.
        walk: of each member its place in the hash map's walk.
        group: of each member its group.
        claimed_in: of each member the generation that its claims are of; -1 for none.
        generation: of each member its subscription's generation; -1 for none.
        rules: of which release.
    """
    none = np.empty(0, np.int64)
    if rules.only_newest_generation:
        claims = claims.take(in_newest_generation(group, claimed_in)[claims.member])
    crossing = np.isin(claims.topic, find_overlapping_topics(claims))
    if not crossing.any():
        return ResolvedOwnership(claims, none)
    rows = claims.take(crossing).expand()
    rows = rows.take(np.lexsort((walk[rows.member], rows.partition_keys)))
    keys = rows.partition_keys
    starts = starts_new_key(keys)
    alone = starts & np.append(starts[1:], True)
    if rules.only_newest_generation:
        twice = np.unique(keys[~alone])
        if rules.conflicts_keep_both:
            return ResolvedOwnership(claims.take(~crossing).concat(rows), none, twice)
        return ResolvedOwnership(claims.take(~crossing).concat(rows.take(alone)), twice)
    winners: list[int] = []
    contested: list[int] = []
    shared: list[int] = []
    ends = np.flatnonzero(np.append(starts[1:], True)) + 1
    for begin, end in zip(np.flatnonzero(starts), ends, strict=True):
        if end - begin == 1:
            continue
        owner, holders = int(begin), {int(begin)}
        for claimer in range(int(begin) + 1, int(end)):
            later, earlier = claimed_in[rows.member[claimer]], generation[rows.member[owner]]
            if later >= earlier:
                holders.discard(owner)
            if later == earlier:
                contested.append(int(keys[claimer]))
            elif later > earlier:
                holders.add(claimer)
            if later >= earlier or rules.rejected_owner_counts:
                owner = claimer
        winners += holders
        shared += [int(keys[begin])] * (len(holders) > 1)
    settled = rows.take(np.sort(np.append(np.flatnonzero(alone), np.array(winners, np.int64))))
    claims = claims.take(~crossing).concat(settled)
    return ResolvedOwnership(claims, np.unique(np.array(contested, np.int64)), np.array(shared, np.int64))


def in_newest_generation(group: IntArray, claimed_in: IntArray) -> BoolArray:
    """Of each member whether its claims are of the newest generation in its group."""
    newest = np.full(int(group.max(initial=-1)) + 1, -1, np.int64)
    np.maximum.at(newest, group, claimed_in)
    newer: BoolArray = claimed_in == newest[group]
    return newer


def find_overlapping_topics(claims: PartitionSlices) -> IntArray:
    """The topics in which claims may meet.

    Claims do not meet if each begins after all before it have ended, or if all have one step and differ modulo it.
    """
    order = np.argsort(claims.partition_keys, kind="stable")
    sorted_claims = claims.take(order)
    begins = sorted_claims.partition_keys
    ends = (sorted_claims.topic << PARTITION_BITS) | sorted_claims.last
    reached = np.maximum.accumulate(ends)
    meets = np.flatnonzero(reached[:-1] >= begins[1:]) + 1
    topics = sorted_claims.topic[meets]
    topics = topics[starts_new_key(topics)]
    if not len(topics):
        return topics
    some = sorted_claims.take(np.isin(sorted_claims.topic, topics))
    new = starts_new_key(some.topic)
    begin = np.flatnonzero(new)
    one_step = np.minimum.reduceat(some.step, begin) == np.maximum.reduceat(some.step, begin)
    residues = np.sort((some.topic << PARTITION_BITS) | (some.first % some.step))
    residues = residues[starts_new_key(residues)] >> PARTITION_BITS
    distinct = np.searchsorted(residues, topics, "right") - np.searchsorted(residues, topics, "left")
    apart: BoolArray = one_step & (distinct == np.diff(np.append(begin, len(some))))
    return topics[~apart]
