"""What rack-uniform and rack-server-range do otherwise than the assignors of the broker, asked with a `GroupSpecs`."""

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
    mixed: BoolArray,
    previous: PartitionSlices,
    targets: TargetAssignments,
) -> TargetAssignments:
    """Uniform's targets, with more partitions near to their members wherever that is possible.

    Args:
        specs: the groups.
        topics: those that are planned, ascending.
        members: of all groups, in the order in which the assignor sees them.
        mixed: groups whose members subscribe to different topics; there each topic is looked at on its own.
        previous: what members had.
        targets: uniform's.
    """
    topics = topics[_racked(specs)[specs.topics.group[topics]]]
    if not len(topics):
        return targets
    partitions = specs.topics.partitions[topics]
    topic, partition = np.repeat(topics, partitions), ranges_by_length(partitions)
    begin = np.zeros(len(specs.topics), np.int64)
    begin[topics] = np.cumsum(partitions) - partitions
    concerned = np.zeros(len(specs.topics), bool)
    concerned[topics] = True
    place = np.empty(len(specs.members), np.int64)
    place[members] = np.arange(len(members))
    had, answered = (
        _owners(each.take(concerned[each.topic]), begin, place, len(topic)) for each in (previous, targets.slices)
    )
    racks = _Racks(specs)
    kind, near, rack = racks.sets_of(topics), racks.near, racks.of_member[members]
    group = specs.topics.group[topic]
    problem = group * len(specs.topics) + np.where(mixed[group], topic, 0)
    new_member = answered.copy()
    for first, last in key_ranges(problem):
        some = slice(first, last)
        begins, ends = np.searchsorted(specs.members.group[members], [group[first], group[first] + 1]).tolist()
        now, mine = answered[some] - begins, rack[begins:ends]
        before = np.where(had[some] < 0, -1, had[some] - begins)
        if (before == now).all():
            continue
        better = assign_by_rack(before, kind[some], np.bincount(now, minlength=len(mine)), mine, near)
        if is_rack_matched(mine[better], kind[some], near).sum() > is_rack_matched(mine[now], kind[some], near).sum():
            new_member[some] = better + begins
    # Of a problem all or nothing is new.
    changed = np.zeros(len(specs.topics), bool)
    changed[topic[np.isin(problem, problem[new_member != answered])]] = True
    new = changed[topic]
    moved = np.where(mixed[group], BALANCING, OVER_QUOTA)
    reason = np.where((had >= 0) & (had != new_member), moved, KEPT)[new]
    runs, reason, _ = to_slices(
        members[new_member[new]], topic[new], partition[new], reason, np.zeros(len(reason), bool)
    )
    rest = ~changed[targets.slices.topic]
    return TargetAssignments(targets.slices.take(rest).concat(runs), np.append(targets.reason[rest], reason))


def improve_range_racks(specs: GroupSpecs, runs: PartitionSlices) -> PartitionSlices:
    """Server-range's runs, with more partitions near to their members wherever that is possible."""
    known = np.unique(runs.topic)
    known = known[_racked(specs)[specs.topics.group[known]]]
    if not len(known):
        return runs
    topics, racks = specs.topics, _Racks(specs)
    order = np.lexsort((runs.first, runs.topic))
    ordered = runs.take(order)
    columns = topics.partitions[known], topics.subscriber_set[known], topics.group[known]
    alike = known[np.lexsort((known, *columns))]
    new = np.zeros(len(alike), bool)
    for column in (topics.partitions, topics.subscriber_set, topics.group):
        new |= starts_new_key(column[alike])
    found: list[PartitionSlices] = []
    replaced = np.zeros(len(topics), bool)
    for first, last in key_ranges(np.cumsum(new)):
        some = alike[first:last]
        mine = ordered.take(np.arange(*np.searchsorted(ordered.topic, [some[0], some[0] + 1])))
        rack = racks.of_member[mine.member]
        here = np.unique(rack[rack >= 0])
        rack = np.where(rack < 0, -1, np.searchsorted(here, rack))
        worth = racks.near[racks.sets_of(some).reshape(len(some), -1)].sum(axis=0)[:, here]
        owner = assign_ranges_by_rack(mine.count, rack, worth)
        if _worth(owner, rack, worth) <= _worth(np.repeat(np.arange(len(mine)), mine.count), rack, worth):
            continue
        replaced[some] = True
        at, *run = owners_to_slices(owner)
        found += [PartitionSlices(mine.member[at], np.full(len(at), topic), *run) for topic in some.tolist()]
    parts = [runs.take(~replaced[runs.topic]), *found]
    return PartitionSlices(*(np.concatenate(each) for each in zip(*(part.columns for part in parts), strict=True)))


def _worth(owner: IntArray, rack: IntArray, worth: IntArray) -> int:
    """How many partitions are near, if each number has this owner."""
    of = rack[owner]
    return int(worth[np.flatnonzero(of >= 0), of[of >= 0]].sum())


def _racked(specs: GroupSpecs) -> BoolArray:
    """Groups in which a member has a rack, and a replica of some topic is known to be in one."""
    racked, has_rack_set = np.zeros(specs.num_groups, bool), np.zeros(specs.num_groups, bool)
    racked[specs.members.group[specs.members.rack >= 0]] = True
    has_rack_set[specs.topics.group[list(specs.rack_set)]] = True
    both: BoolArray = racked & has_rack_set
    return both


class _Racks:
    """Racks and sets of racks, numbered by their names: which of them a row told of first says nothing.

    Attributes:
        of_member: of each member its rack; -1 for none.
        near: `near[set, rack]`, whether the rack is in the set.
    """

    def __init__(self, specs: GroupSpecs) -> None:
        self._specs = specs
        names = sorted(specs.racks)
        rank = np.array([names.index(name) for name in specs.racks] + [-1], np.int64)
        self.of_member = rank[specs.members.rack]
        sets = [tuple(sorted(rank[rack] for rack in each)) for each in specs.rack_sets]
        every = sorted(sets)
        self._number = np.array([every.index(each) for each in sets], np.int64)
        self.near: BoolArray = np.array([[rack in each for rack in range(len(names))] for each in every], bool)

    def sets_of(self, topics: IntArray) -> IntArray:
        """Of each partition of these topics the set of racks that it has replicas in; the first one is empty."""
        nothing = np.empty(0, np.int64)
        counts = zip(topics.tolist(), self._specs.topics.partitions[topics].tolist(), strict=True)
        sets = [self._specs.rack_set.get(topic, np.zeros(partitions, np.int64)) for topic, partitions in counts]
        found: IntArray = self._number[np.concatenate([nothing, *sets])]
        return found


def _owners(runs: PartitionSlices, begin: IntArray, place: IntArray, size: int) -> IntArray:
    """Of each partition its member's place; -1 for nobody."""
    rows = runs.expand()
    owner = np.full(size, -1, np.int64)
    owner[begin[rows.topic] + rows.first] = place[rows.member]
    return owner
