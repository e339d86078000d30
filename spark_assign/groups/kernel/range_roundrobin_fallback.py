"""Range and round robin for groups that windows cannot compute: racks matter (KIP-881), or subscriptions differ."""

from __future__ import annotations

import numpy as np

from spark_assign.groups.assignors.rack_aware_range import RackTopic, assign_rack_aware_topics
from spark_assign.groups.assignors.sticky.plan_batch import ALL_MEMBERS
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PartitionSlices, owners_to_slices
from spark_assign.numeric.round_robin_offset import round_robin_start


def assign_ranges_by_rack(specs: GroupSpecs, selected: BoolArray, slices: PartitionSlices) -> PartitionSlices:
    """Returns range assignments in which the topics where racks matter are recomputed."""
    if not specs.rack_set:
        return slices
    members, topics = specs.members, specs.topics
    has_racks = np.zeros(specs.num_groups, bool)
    has_racks[members.group[members.rack >= 0]] = True
    replacements: list[PartitionSlices] = []
    replaced_topics: list[int] = []
    for group in np.flatnonzero(has_racks & selected).tolist():
        lines = _Subscribers(specs, group)
        rack_topics = [
            RackTopic(
                topic, int(topics.subscriber_set[topic]), int(topics.partitions[topic]), _partition_racks(specs, topic)
            )
            for topic in lines.topics.tolist()
        ]
        racks = {line: _racks(members.rack[lines.of(line)]) for line in {each.subscriber_list for each in rack_topics}}
        for topic, owner in assign_rack_aware_topics(rack_topics, racks).items():
            position, first, step, count = owners_to_slices(owner)
            line = lines.of(int(topics.subscriber_set[topic]))
            replacements.append(PartitionSlices(line[position], np.full(len(position), topic), first, step, count))
            replaced_topics.append(topic)
    return _concatenated([slices.take(~np.isin(slices.topic, replaced_topics)), *replacements])


def assign_heterogeneous_round_robin(
    specs: GroupSpecs, selected: BoolArray, slices: PartitionSlices
) -> PartitionSlices:
    """Returns round-robin assignments in which groups with different subscriptions are recomputed, on the ring of all
    members."""
    topics, with_metadata = specs.topics, specs.topics.with_metadata
    sets_by_group = np.unique(np.stack([topics.group[with_metadata], topics.subscriber_set[with_metadata]]), axis=1)[0]
    is_heterogeneous = (np.bincount(sets_by_group, minlength=specs.num_groups) > 1) & selected
    if not is_heterogeneous.any():
        return slices
    replacements = []
    for group in np.flatnonzero(is_heterogeneous).tolist():
        subscribers = _Subscribers(specs, group)
        positions = {
            line: specs.members.assignment_order[subscribers.of(line)].tolist() for line in set(subscribers.line)
        }
        visits = [
            (positions[line], count)
            for line, count in zip(subscribers.line, topics.partitions[subscribers.topics].tolist(), strict=True)
        ]
        for topic, line, start in zip(
            subscribers.topics.tolist(), subscribers.line, round_robin_start(visits), strict=True
        ):
            replacements.append(_assign_in_turn(subscribers.of(line), topic, start, int(topics.partitions[topic])))
    return _concatenated([slices.take(~is_heterogeneous[specs.members.group[slices.member]]), *replacements])


def _assign_in_turn(subscribers: IntArray, topic: int, start: int, partitions: int) -> PartitionSlices:
    """Assigns a topic to its subscribers in turn; the subscriber at `start` gets partition 0."""
    first = (np.arange(len(subscribers)) - start) % len(subscribers)
    has_partitions = first < partitions
    first, size = first[has_partitions], np.full(int(has_partitions.sum()), len(subscribers))
    return PartitionSlices(
        subscribers[has_partitions], np.full(len(first), topic), first, size, -(-(partitions - first) // size)
    )


class _Subscribers:
    """The subscribers of each subscriber set of one group, in assignment order."""

    def __init__(self, specs: GroupSpecs, group: int) -> None:
        self.specs = specs
        members = np.arange(*np.searchsorted(specs.members.group, [group, group + 1]))
        known = specs.topics.with_metadata
        self.topics = known[slice(*np.searchsorted(specs.topics.group[known], [group, group + 1]))]
        self.line: list[int] = specs.topics.subscriber_set[self.topics].tolist()
        self._lines: dict[int, IntArray] = {ALL_MEMBERS: members[np.argsort(specs.members.assignment_order[members])]}

    def of(self, line: int) -> IntArray:
        """Returns the members of a subscriber set, in assignment order."""
        if line not in self._lines:
            members = self.specs.subscriber_sets[line]
            self._lines[line] = members[np.argsort(self.specs.members.assignment_order[members])]
        return self._lines[line]


def _racks(racks: IntArray) -> list[int | None]:
    return [None if rack < 0 else rack for rack in racks.tolist()]


def _partition_racks(specs: GroupSpecs, topic: int) -> list[frozenset[int]]:
    """Returns the set of replica racks of each partition of a topic."""
    if topic not in specs.rack_set:
        return [frozenset()] * int(specs.topics.partitions[topic])
    return [specs.rack_sets[rack_set] for rack_set in specs.rack_set[topic].tolist()]


def _concatenated(slices: list[PartitionSlices]) -> PartitionSlices:
    return PartitionSlices(*(np.concatenate(each) for each in zip(*(part.columns for part in slices), strict=True)))
