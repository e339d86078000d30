"""Sticky where all members subscribe to the same topics, without racks (Kafka's `ConstrainedAssignmentBuilder`).

Principle: everybody keeps as much of its own as the quota allows; what is left fills up the others, evenly.

Steps
    1. Quota: p partitions over n members give each p // n; p % n of them have one more. Of the members that own more
       than that, the first p % n in the walk of the hash map keep one more.
    2. Keep: each member keeps the first of its partitions by (partition, topic), up to its quota.
    3. Fill: what nobody keeps, by (topic, partition), goes round the members below the quota, by id, until they have
       it; then one each to members that may have one more: those that kept their quota, by id, then those that were
       filled up, in the order in which they were.

Example: t has 6 partitions; a owns 0 1 2 3, b owns 4 5, c joins. The quota is 2: a keeps 0 1, b keeps 4 5, c gets 2 3.

Everything is done for many groups at once, on runs; only partitions that nobody keeps are looked at one by one.

Up to 3.7.0 cooperative-sticky withholds all that was over somebody's quota, even if it comes back to that one. Up to
2.8 the algorithm is another one (`constrained_2_8`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_assign.groups.assignors.release_rules import LATEST_RULES, ReleaseRules
from spark_assign.groups.assignors.sticky.ownership_conflicts import ResolvedOwnership
from spark_assign.groups.assignors.sticky.retained_partitions import TopicOrder, keep_owned
from spark_assign.groups.assignors.sticky.sticky_groups import (
    KEPT,
    NO_UNFILLED_MEMBERS,
    OVER_QUOTA,
    TOO_FEW_PARTITIONS,
    StickyAssignment,
    StickyGroups,
)
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PARTITION_BITS, PartitionSlices, compress_sorted
from spark_assign.numeric.segmented_arrays import expand_slices, ranges_by_length, row_numbers, starts_new_key


def plan_constrained(
    groups: StickyGroups,
    claims: ResolvedOwnership,
    told: PartitionSlices | TopicOrder,
    rules: ReleaseRules = LATEST_RULES,
) -> StickyAssignment:
    """Plan groups whose members all subscribe to the same topics.

    Args:
        groups: the groups.
        claims: who owns what.
        told: as `keep.keep_owned` has it.
        rules: of which release.
    """
    owned = drop_contested(claims)
    quota = compute_quotas(groups, np.bincount(owned.member, owned.count, len(groups.member_group)).astype(np.int64))
    kept, given_up = keep_owned(owned, quota.num_owned, quota.num_kept, told, rules)
    left = find_unassigned(
        groups, owned, kept, given_up, find_reassigned(groups, kept, claims.shared_partitions), claims.shared_partitions
    )
    to_member, refused = _assign_unassigned(groups, quota, left)
    return combine_assignment(groups, claims, kept, left, to_member, refused, rules)


def drop_contested(claims: ResolvedOwnership) -> PartitionSlices:
    """What members own; nobody keeps what is contested, even if a third claimer won it."""
    if not len(claims.multiple_owners):
        return claims.slices
    # Contested partitions have runs of their own.
    return claims.slices.take(
        ~(np.isin(claims.slices.partition_keys, claims.multiple_owners) & (claims.slices.count == 1))
    )


# --- 1. quota -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MemberQuota:
    """What each member owns, and how much of it it keeps.

    Attributes:
        num_owned: per member.
        num_kept: per member.
        min_quota: per member, its group's quota.
        can_exceed_min_quota: members that keep exactly the quota and may still get one more.
    """

    num_owned: IntArray
    num_kept: IntArray
    min_quota: IntArray
    can_exceed_min_quota: BoolArray


def compute_quotas(groups: StickyGroups, owned: IntArray) -> MemberQuota:
    """Quota by group, and who keeps one more."""
    group = groups.member_group
    members = np.bincount(group, minlength=groups.num_groups)
    total = np.bincount(groups.topic_group, groups.partitions, groups.num_groups).astype(np.int64)
    least, extra = (total // members)[group], total % members
    large = (owned > least) & (extra[group] > 0)
    keeps_more = np.zeros(len(owned), bool)
    candidates = np.flatnonzero(large)
    candidates = candidates[np.argsort(groups.owned_hash_order[candidates])]
    candidates = candidates[np.argsort(group[candidates], kind="stable")]
    keeps_more[candidates[row_numbers(group[candidates]) < extra[group[candidates]]]] = True
    room = np.bincount(group[keeps_more], minlength=groups.num_groups) < extra
    return MemberQuota(
        num_owned=owned,
        num_kept=np.minimum(owned, least + keeps_more),
        min_quota=least,
        can_exceed_min_quota=room[group] & (owned >= least) & ~keeps_more,
    )


# --- 3. fill ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class UnassignedPartitions:
    """Partitions that nobody keeps, by (topic, partition).

    Attributes:
        topic, partition: which.
        previous_owner: the member that gave it up; -1 for none.
        current_owner: the member that keeps it although it is dealt again; -1 for none.
    """

    topic: IntArray
    partition: IntArray
    previous_owner: IntArray
    current_owner: IntArray

    def take(self, chosen: BoolArray | IntArray) -> UnassignedPartitions:
        """Some of the partitions."""
        return UnassignedPartitions(
            self.topic[chosen], self.partition[chosen], self.previous_owner[chosen], self.current_owner[chosen]
        )


def find_unassigned(
    groups: StickyGroups,
    owned: PartitionSlices,
    kept: PartitionSlices,
    given_up: PartitionSlices,
    again: PartitionSlices,
    shared: IntArray,
) -> UnassignedPartitions:
    """What is to be dealt.

    Args:
        groups: the groups.
        owned, kept, given_up: by members.
        again: partitions that are dealt although somebody keeps them.
        shared: as `ResolvedOwnership` has it.
    """
    from_member = np.full(len(again), -1, np.int64)
    if len(shared):
        one = given_up.take(np.isin(given_up.partition_keys, shared))
        from_member_of = dict(zip(one.partition_keys.tolist(), one.member.tolist(), strict=True))
        from_member = np.array([from_member_of.get(key, -1) for key in again.partition_keys.tolist()], np.int64)
        given_up = given_up.take(
            ~np.isin(given_up.partition_keys, kept.partition_keys[np.isin(kept.partition_keys, shared)])
        )
        owned, given_up = drop_second_owners(owned, shared), drop_second_owners(given_up, shared)
    exists = given_up.first < groups.partitions[given_up.topic]
    given_up = given_up.take(exists)
    fitting = -(-(groups.partitions[given_up.topic] - given_up.first) // given_up.step)
    row, partition = expand_slices(given_up.first, given_up.step, np.minimum(given_up.count, fitting))
    topics, numbers = find_unowned(owned, groups.partitions)
    nobody = np.full(len(row) + len(topics), -1, np.int64)
    left = UnassignedPartitions(
        topic=np.concatenate([given_up.topic[row], topics, again.topic]),
        partition=np.concatenate([partition, numbers, again.first]),
        previous_owner=np.concatenate([given_up.member[row], nobody[len(row) :], from_member]),
        current_owner=np.append(nobody, again.member),
    )
    return left.take(np.argsort((left.topic << PARTITION_BITS) | left.partition, kind="stable"))


def find_unowned(owned: PartitionSlices, partitions: IntArray) -> tuple[IntArray, IntArray]:
    """The partitions that nobody owns, as topics and partitions.

    Where the longer runs of a topic all have one step, partitions that are equal modulo the step are looked at as one
    line, on which owned runs are intervals and unowned partitions the gaps between them.
    """
    owned = owned.take(owned.first < partitions[owned.topic])
    fitting = -(-(partitions[owned.topic] - owned.first) // owned.step)
    owned = PartitionSlices(owned.member, owned.topic, owned.first, owned.step, np.minimum(owned.count, fitting))
    covered = np.bincount(owned.topic, owned.count, len(partitions)).astype(np.int64)
    open_topics = covered < partitions
    if not open_topics.any():
        return np.empty(0, np.int64), np.empty(0, np.int64)
    owned = owned.take(open_topics[owned.topic])
    steps = np.where(owned.count > 1, owned.step, 0)
    largest = np.zeros(len(partitions), np.int64)
    np.maximum.at(largest, owned.topic, steps)
    scattered = np.zeros(len(partitions), bool)
    scattered[owned.topic[(steps > 0) & (steps != largest[owned.topic])]] = True
    owned = owned.take(~scattered[owned.topic]).concat(owned.take(scattered[owned.topic]).expand())
    step = np.where(scattered | (largest == 0), 1, largest)

    lines = np.where(open_topics, np.minimum(step, partitions), 0)
    line_topic = np.repeat(np.arange(len(partitions)), lines)
    line = ranges_by_length(lines)
    length = -(-(partitions[line_topic] - line) // step[line_topic])
    # Every line ends with an empty run behind its last partition, so that each gap has a run after it.
    topic = np.concatenate([owned.topic, line_topic])
    residue = np.concatenate([owned.first % step[owned.topic], line])
    begin = np.concatenate([owned.first // step[owned.topic], length])
    end = begin + np.concatenate([owned.count, np.zeros(len(line), np.int64)])
    order = np.lexsort((begin, residue, topic))
    topic, residue, begin, end = topic[order], residue[order], begin[order], end[order]
    gap_begin = np.append(0, end[:-1])
    gap_begin[starts_new_key((topic << PARTITION_BITS) | residue)] = 0
    gap = begin - gap_begin
    row, number = expand_slices(residue + gap_begin * step[topic], step[topic], np.maximum(gap, 0))
    return topic[row], number


def drop_second_owners(runs: PartitionSlices, shared: IntArray) -> PartitionSlices:
    """The same without second owners of partitions, which have runs of their own."""
    again = np.flatnonzero(np.isin(runs.partition_keys, shared) & (runs.count == 1))
    once = np.ones(len(runs), bool)
    once[np.delete(again, np.unique(runs.partition_keys[again], return_index=True)[1])] = False
    return runs.take(once)


def find_reassigned(groups: StickyGroups, kept: PartitionSlices, shared: IntArray) -> PartitionSlices:
    """Kept partitions that Kafka deals once more.

    Its search for unassigned partitions goes along the kept ones in order, and gets stuck at the first that does not
    exist or that is kept twice; those behind it count as unassigned (`getUnassignedPartitions`).
    """
    stops = (kept.last >= groups.partitions[kept.topic]) | np.isin(kept.partition_keys, shared)
    if not stops.any():
        return kept.take(stops)
    rows = kept.take(np.isin(groups.topic_group[kept.topic], groups.topic_group[kept.topic[stops]])).expand()
    rows = rows.take(np.argsort(rows.partition_keys, kind="stable"))
    ghost = rows.first >= groups.partitions[rows.topic]
    stops = ghost | ~starts_new_key(rows.partition_keys)
    stuck = np.full(groups.num_groups, np.iinfo(np.int64).max)
    np.minimum.at(stuck, groups.topic_group[rows.topic[stops]], rows.partition_keys[stops])
    return rows.take(~stops & (rows.partition_keys > stuck[groups.topic_group[rows.topic]]))


def _assign_unassigned(
    groups: StickyGroups, quota: MemberQuota, left: UnassignedPartitions
) -> tuple[IntArray, dict[int, str]]:
    """The member that takes each left over partition, and the groups in which it does not come out even."""
    lacking = np.maximum(quota.min_quota - quota.num_kept, 0)
    return assign_round_robin(
        groups.member_group, groups.topic_group[left.topic], lacking, quota.can_exceed_min_quota, groups.num_groups
    )


def assign_round_robin(
    member_group: IntArray, partition_group: IntArray, lacking: IntArray, may_have_more: BoolArray, number: int
) -> tuple[IntArray, dict[int, str]]:
    """Deal partitions to members (`assignRoundRobin`).

    Args:
        member_group: of each member its group, members by id.
        partition_group: of each partition, in the order of dealing, its group.
        lacking: of each member, how many partitions it lacks to the quota.
        may_have_more: members with the quota that may have one more.
        number: of groups.

    Returns:
        the member of each partition (-1 in groups that are refused), and the refused groups.
    """
    dealt = np.bincount(partition_group, minlength=number)
    needed = np.bincount(member_group, lacking, number).astype(np.int64)
    member = np.repeat(np.arange(len(lacking)), lacking)
    turn = ranges_by_length(lacking)
    # One more each: those with the quota, by id; then those that were filled up, in the order of their last turn.
    filled = lacking > 0
    more = np.flatnonzero(may_have_more | filled)
    more = more[np.lexsort((more, lacking[more], member_group[more]))]
    spare = row_numbers(member_group[more]) < (dealt - needed)[member_group[more]]
    more = more[spare]
    possible = needed + np.bincount(member_group[more], minlength=number)
    refused = {int(each): TOO_FEW_PARTITIONS for each in np.flatnonzero(dealt < needed)}
    refused |= {int(each): NO_UNFILLED_MEMBERS for each in np.flatnonzero(dealt > possible)}
    to_members = np.concatenate([member, more])
    turns = np.concatenate([turn, np.full(len(more), np.iinfo(np.int64).max)])
    # Both parts stand in their own order already; the sort is stable.
    order = np.argsort(turns, kind="stable") if number == 1 else np.lexsort((turns, member_group[to_members]))
    to_members = to_members[order]
    if not refused:
        return to_members, refused
    fine = np.ones(number, bool)
    fine[list(refused)] = False
    taken = np.full(len(partition_group), -1, np.int64)
    taken[fine[partition_group]] = to_members[fine[member_group[to_members]]]
    return taken, refused


# --- the outcome --------------------------------------------------------------------------------------------


def combine_assignment(
    groups: StickyGroups,
    claims: ResolvedOwnership,
    kept: PartitionSlices,
    left: UnassignedPartitions,
    to_member: IntArray,
    refused: dict[int, str],
    rules: ReleaseRules,
) -> StickyAssignment:
    """What is kept and what is dealt, together."""
    if refused:
        fine = np.ones(groups.num_groups, bool)
        fine[list(refused)] = False
        kept = kept.take(fine[groups.member_group[kept.member]])
        left, to_member = left.take(to_member >= 0), to_member[to_member >= 0]
    if (left.current_owner >= 0).any():
        left, to_member = left.take(left.current_owner != to_member), to_member[left.current_owner != to_member]
    if len(claims.shared_partitions):
        both = kept.take(np.isin(kept.partition_keys, claims.shared_partitions))
        has = set(zip(both.member.tolist(), both.partition_keys.tolist(), strict=True))
        gets = zip(to_member.tolist(), ((left.topic << PARTITION_BITS) | left.partition).tolist(), strict=True)
        new = np.array([pair not in has for pair in gets], bool)
        left, to_member = left.take(new), to_member[new]
    changes = (left.previous_owner >= 0) & (left.previous_owner != to_member)
    reason = np.where(changes, OVER_QUOTA, KEPT)
    withheld = np.zeros(len(to_member), bool)
    if groups.cooperative:
        given_up = left.previous_owner >= 0 if rules.withholds_over_quota else changes
        withheld = given_up | np.isin((left.topic << PARTITION_BITS) | left.partition, claims.multiple_owners)
    runs, reason, withheld = to_slices(to_member, left.topic, left.partition, reason, withheld)
    stays = np.zeros(len(kept), np.int64)
    return StickyAssignment(
        kept.concat(runs),
        np.concatenate([stays, reason]),
        np.concatenate([stays.astype(bool), withheld]),
        refused,
    )


def to_slices(
    member: IntArray, topic: IntArray, partition: IntArray, reason: IntArray, withheld: BoolArray
) -> tuple[PartitionSlices, IntArray, BoolArray]:
    """Partitions, in any order, to runs of one member, topic, reason and state."""
    kind = reason * 2 + withheld
    order = np.lexsort((partition, kind, topic, member))
    columns = [column[order] for column in (member, topic, kind)]
    new = starts_new_key(columns[0])
    for column in columns[1:]:
        new |= starts_new_key(column)
    key = np.cumsum(new, dtype=np.int64)
    sorted_partition = partition[order]
    if len(key) > 1:  # a partition that is dealt twice to one member counts once
        once = np.append(True, (key[1:] != key[:-1]) | (sorted_partition[1:] != sorted_partition[:-1]))
        key, sorted_partition = key[once], sorted_partition[once]
    run_key, first, step, count = compress_sorted(key, sorted_partition)
    begin = np.flatnonzero(new)[run_key - 1]
    member, topic, kind = (column[begin] for column in columns)
    return PartitionSlices(member, topic, first, step, count), kind // 2, (kind % 2).astype(bool)
