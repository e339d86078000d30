"""Improves rack locality for rack-uniform and rack-server-range, variants of the broker's assignors."""

from __future__ import annotations

import numpy as np

from spark_assign.groups.assignors.server.rack_uniform import assign_by_rack, is_rack_matched
from spark_assign.groups.assignors.server.range import assign_ranges_by_rack
from spark_assign.groups.assignors.server.target_assignments import TargetAssignments
from spark_assign.groups.assignors.sticky.constrained import to_slices
from spark_assign.groups.assignors.sticky.sticky_groups import BALANCING, KEPT, OVER_QUOTA
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PartitionSlices, owners_to_slices
from spark_assign.numeric.segmented_arrays import key_ranges, ranges_by_length, starts_new_key


def improve_uniform_racks(
    specs: GroupSpecs,
    topics: IntArray,
    members: IntArray,
    is_heterogeneous: BoolArray,
    previous: PartitionSlices,
    targets: TargetAssignments,
) -> TargetAssignments:
    """Returns uniform's targets with more partitions in the racks of their members if possible.

    Args:
        specs: the groups.
        topics: indexes of the planned topics, ascending.
        members: members of all groups, in the order in which the assignor sees them.
        is_heterogeneous: mask of heterogeneous groups, in which each topic is optimized separately.
        previous: what members had.
        targets: uniform's targets.
    """
    topics = topics[_groups_with_racks(specs)[specs.topics.group[topics]]]
    if not len(topics):
        return targets
    partitions = specs.topics.partitions[topics]
    topic, partition = np.repeat(topics, partitions), ranges_by_length(partitions)
    starts = np.zeros(len(specs.topics), np.int64)
    starts[topics] = np.cumsum(partitions) - partitions
    is_planned = np.zeros(len(specs.topics), bool)
    is_planned[topics] = True
    position = np.empty(len(specs.members), np.int64)
    position[members] = np.arange(len(members))
    previous_owner, target_owner = (
        _owners(slices.take(is_planned[slices.topic]), starts, position, len(topic))
        for slices in (previous, targets.slices)
    )
    racks = _Racks(specs)
    rack_set, near, rack = racks.sets_of(topics), racks.near, racks.of_member[members]
    group = specs.topics.group[topic]
    problem = group * len(specs.topics) + np.where(is_heterogeneous[group], topic, 0)
    new_member = target_owner.copy()
    for first, last in key_ranges(problem):
        span = slice(first, last)
        member_start, member_end = np.searchsorted(
            specs.members.group[members], [group[first], group[first] + 1]
        ).tolist()
        target, member_racks = target_owner[span] - member_start, rack[member_start:member_end]
        current = np.where(previous_owner[span] < 0, -1, previous_owner[span] - member_start)
        if (current == target).all():
            continue
        improved = assign_by_rack(
            current, rack_set[span], np.bincount(target, minlength=len(member_racks)), member_racks, near
        )
        if (
            is_rack_matched(member_racks[improved], rack_set[span], near).sum()
            > is_rack_matched(member_racks[target], rack_set[span], near).sum()
        ):
            new_member[span] = improved + member_start
    # A problem is replaced completely or not at all.
    changed = np.zeros(len(specs.topics), bool)
    changed[topic[np.isin(problem, problem[new_member != target_owner])]] = True
    is_new = changed[topic]
    moved = np.where(is_heterogeneous[group], BALANCING, OVER_QUOTA)
    reason = np.where((previous_owner >= 0) & (previous_owner != new_member), moved, KEPT)[is_new]
    runs, reason, _ = to_slices(
        members[new_member[is_new]], topic[is_new], partition[is_new], reason, np.zeros(len(reason), bool)
    )
    is_unchanged = ~changed[targets.slices.topic]
    return TargetAssignments(
        targets.slices.take(is_unchanged).concat(runs), np.append(targets.reason[is_unchanged], reason)
    )


def improve_range_racks(specs: GroupSpecs, server_slices: PartitionSlices) -> PartitionSlices:
    """Returns server-range's slices with more partitions in the racks of their members if possible."""
    topic_indexes = np.unique(server_slices.topic)
    topic_indexes = topic_indexes[_groups_with_racks(specs)[specs.topics.group[topic_indexes]]]
    if not len(topic_indexes):
        return server_slices
    topics, racks = specs.topics, _Racks(specs)
    order = np.lexsort((server_slices.first, server_slices.topic))
    ordered = server_slices.take(order)
    columns = topics.partitions[topic_indexes], topics.subscriber_set[topic_indexes], topics.group[topic_indexes]
    sorted_topics = topic_indexes[np.lexsort((topic_indexes, *columns))]
    starts_class = np.zeros(len(sorted_topics), bool)
    for column in (topics.partitions, topics.subscriber_set, topics.group):
        starts_class |= starts_new_key(column[sorted_topics])
    improved: list[PartitionSlices] = []
    replaced = np.zeros(len(topics), bool)
    for first, last in key_ranges(np.cumsum(starts_class)):
        class_topics = sorted_topics[first:last]
        class_slices = ordered.take(np.arange(*np.searchsorted(ordered.topic, [class_topics[0], class_topics[0] + 1])))
        rack = racks.of_member[class_slices.member]
        used_racks = np.unique(rack[rack >= 0])
        rack = np.where(rack < 0, -1, np.searchsorted(used_racks, rack))
        value = racks.near[racks.sets_of(class_topics).reshape(len(class_topics), -1)].sum(axis=0)[:, used_racks]
        owner = assign_ranges_by_rack(class_slices.count, rack, value)
        if _count_matched(owner, rack, value) <= _count_matched(
            np.repeat(np.arange(len(class_slices)), class_slices.count), rack, value
        ):
            continue
        replaced[class_topics] = True
        position, *run = owners_to_slices(owner)
        improved += [
            PartitionSlices(class_slices.member[position], np.full(len(position), topic), *run)
            for topic in class_topics.tolist()
        ]
    slices = [server_slices.take(~replaced[server_slices.topic]), *improved]
    return PartitionSlices(*(np.concatenate(each) for each in zip(*(part.columns for part in slices), strict=True)))


def _count_matched(owner: IntArray, rack: IntArray, value: IntArray) -> int:
    """Returns the number of partitions with a replica in the rack of their owner."""
    owner_rack = rack[owner]
    return int(value[np.flatnonzero(owner_rack >= 0), owner_rack[owner_rack >= 0]].sum())


def _groups_with_racks(specs: GroupSpecs) -> BoolArray:
    """Returns the mask of groups in which a member has a rack and the rack of a replica is known."""
    has_racks, has_rack_set = np.zeros(specs.num_groups, bool), np.zeros(specs.num_groups, bool)
    has_racks[specs.members.group[specs.members.rack >= 0]] = True
    has_rack_set[specs.topics.group[list(specs.rack_set)]] = True
    result: BoolArray = has_racks & has_rack_set
    return result


class _Racks:
    """Racks and rack sets, indexed by sorted names, so that the order of rows has no effect.

    Attributes:
        of_member: rack of each member; -1 for none.
        near: `near[set, rack]`: whether the set contains the rack.
    """

    def __init__(self, specs: GroupSpecs) -> None:
        self._specs = specs
        names = sorted(specs.racks)
        rank = np.array([names.index(name) for name in specs.racks] + [-1], np.int64)
        self.of_member = rank[specs.members.rack]
        sets = [tuple(sorted(rank[rack] for rack in rack_set)) for rack_set in specs.rack_sets]
        sorted_sets = sorted(sets)
        self._number = np.array([sorted_sets.index(rack_set) for rack_set in sets], np.int64)
        self.near: BoolArray = np.array(
            [[rack in rack_set for rack in range(len(names))] for rack_set in sorted_sets], bool
        )

    def sets_of(self, topics: IntArray) -> IntArray:
        """Returns the rack set of each partition of the topics; set 0 is empty."""
        empty = np.empty(0, np.int64)
        counts = zip(topics.tolist(), self._specs.topics.partitions[topics].tolist(), strict=True)
        sets = [self._specs.rack_set.get(topic, np.zeros(partitions, np.int64)) for topic, partitions in counts]
        result: IntArray = self._number[np.concatenate([empty, *sets])]
        return result


def _owners(slices: PartitionSlices, starts: IntArray, position: IntArray, size: int) -> IntArray:
    """Returns the position of each partition's member; -1 for none."""
    rows = slices.expand()
    owner = np.full(size, -1, np.int64)
    owner[starts[rows.topic] + rows.first] = position[rows.member]
    return owner
