"""Resolves conflicts between members that own the same partition (`AbstractStickyAssignor.allSubscriptionsEqual`).

Members are processed in hash order. If a partition has an owner already, the later member gets it if its generation is
higher. If both are equal, no member keeps the partition, and the later one counts as its owner in later comparisons.
The later member's generation is the one in which it owned the partition; the earlier one's is that of its subscription.

Example: C0 and C1 own t0 in generations 4 and 5: C1 keeps it. If both own it in generation 5, neither keeps it.

Earlier releases (`release_rules`)
    - up to 3.5.1, the later member counts as the owner even if it lost. A third member might win against it, and then
      has the partition in addition to the first winner;
    - up to 3.4.0, only the newest generation of the group counts, and nobody keeps a partition with two owners in it;
    - up to 2.8.0, both owners keep it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from spark_assign.groups.assignors.release_rules import LATEST_RULES, ReleaseRules
from spark_assign.groups.assignors.sticky.sticky_groups import StickyGroups
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PARTITION_BITS, PartitionSlices
from spark_assign.numeric.segmented_arrays import starts_new_key


@dataclass(frozen=True)
class ResolvedOwnership:
    """Ownership after conflicts are resolved.

    Attributes:
        slices: the owners. A partition has at most one, except those of `shared_partitions`.
        multiple_owners: keys of the partitions that two members owned in the same generation, ascending.
        shared_partitions: keys of the partitions that two members keep, ascending.
    """

    slices: PartitionSlices
    multiple_owners: IntArray
    shared_partitions: IntArray = field(default_factory=lambda: np.empty(0, np.int64))


def resolve_conflicts(
    owned: PartitionSlices,
    groups: StickyGroups,
    owned_generation: IntArray,
    generation: IntArray,
    rules: ReleaseRules = LATEST_RULES,
) -> ResolvedOwnership:
    """Resolves conflicts between members that own the same partition.

    Args:
        owned: owned partitions of topics with metadata.
        groups: the groups.
        owned_generation: generation in which each member owned its partitions; -1 if unknown.
        generation: generation of each member's subscription; -1 if unknown.
        rules: rules of a release.
    """
    no_keys = np.empty(0, np.int64)
    if rules.only_newest_generation:
        owned = owned.take(in_newest_generation(groups.member_group, owned_generation)[owned.member])
    is_overlapping = np.isin(owned.topic, find_overlapping_topics(owned))
    if not is_overlapping.any():
        return ResolvedOwnership(owned, no_keys)
    rows = owned.take(is_overlapping).expand()
    rows = rows.take(np.lexsort((groups.hash_order[rows.member], rows.partition_keys)))
    keys = rows.partition_keys
    starts = starts_new_key(keys)
    is_undisputed = starts & np.append(starts[1:], True)
    if rules.only_newest_generation:
        disputed = np.unique(keys[~is_undisputed])
        if rules.conflicts_keep_both:
            return ResolvedOwnership(owned.take(~is_overlapping).concat(rows), no_keys, disputed)
        return ResolvedOwnership(owned.take(~is_overlapping).concat(rows.take(is_undisputed)), disputed)
    winners: list[int] = []
    disputed_keys: list[int] = []
    shared_keys: list[int] = []
    ends = np.flatnonzero(np.append(starts[1:], True)) + 1
    for start, end in zip(np.flatnonzero(starts), ends, strict=True):
        if end - start == 1:
            continue
        owner, winners_of_partition = int(start), {int(start)}
        for row in range(int(start) + 1, int(end)):
            later_generation, earlier_generation = owned_generation[rows.member[row]], generation[rows.member[owner]]
            if later_generation >= earlier_generation:
                winners_of_partition.discard(owner)
            if later_generation == earlier_generation:
                disputed_keys.append(int(keys[row]))
            elif later_generation > earlier_generation:
                winners_of_partition.add(row)
            if later_generation >= earlier_generation or rules.rejected_owner_counts:
                owner = row
        winners += winners_of_partition
        shared_keys += [int(keys[start])] * (len(winners_of_partition) > 1)
    resolved = rows.take(np.sort(np.append(np.flatnonzero(is_undisputed), np.array(winners, np.int64))))
    owned = owned.take(~is_overlapping).concat(resolved)
    return ResolvedOwnership(owned, np.unique(np.array(disputed_keys, np.int64)), np.array(shared_keys, np.int64))


def in_newest_generation(group: IntArray, owned_generation: IntArray) -> BoolArray:
    """Returns a mask of the members that owned their partitions in the newest generation of the group."""
    newest = np.full(int(group.max(initial=-1)) + 1, -1, np.int64)
    np.maximum.at(newest, group, owned_generation)
    newer: BoolArray = owned_generation == newest[group]
    return newer


def find_overlapping_topics(slices: PartitionSlices) -> IntArray:
    """Returns the topics in which slices might overlap.

    Slices don't overlap if each starts after all preceding ones have ended, or if all have one step and differ modulo
    it.
    """
    order = np.argsort(slices.partition_keys, kind="stable")
    sorted_slices = slices.take(order)
    starts = sorted_slices.partition_keys
    ends = (sorted_slices.topic << PARTITION_BITS) | sorted_slices.last
    reached = np.maximum.accumulate(ends)
    overlap = np.flatnonzero(reached[:-1] >= starts[1:]) + 1
    topics = sorted_slices.topic[overlap]
    topics = topics[starts_new_key(topics)]
    if not len(topics):
        return topics
    candidates = sorted_slices.take(np.isin(sorted_slices.topic, topics))
    is_start = starts_new_key(candidates.topic)
    first_rows = np.flatnonzero(is_start)
    has_one_step = np.minimum.reduceat(candidates.step, first_rows) == np.maximum.reduceat(candidates.step, first_rows)
    residues = np.sort((candidates.topic << PARTITION_BITS) | (candidates.first % candidates.step))
    residues = residues[starts_new_key(residues)] >> PARTITION_BITS
    distinct = np.searchsorted(residues, topics, "right") - np.searchsorted(residues, topics, "left")
    is_disjoint: BoolArray = has_one_step & (distinct == np.diff(np.append(first_rows, len(candidates))))
    return topics[~is_disjoint]
