"""Range and round robin where windows cannot say it: racks decide (KIP-881), or subscriptions differ."""

from __future__ import annotations

import numpy as np

from spark_assign.groups.assignors.rack_aware_range import RackTopic, assign_rack_aware_topics
from spark_assign.groups.assignors.sticky.plan_batch import ALL_MEMBERS
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PartitionSlices, owners_to_slices
from spark_assign.numeric.round_robin_offset import round_robin_start


def assign_ranges_by_rack(specs: GroupSpecs, chosen: BoolArray, runs: PartitionSlices) -> PartitionSlices:
    """Range with the topics that racks decide laid out anew."""
    if not specs.rack_set:
        return runs
    members, topics = specs.members, specs.topics
    racked = np.zeros(specs.num_groups, bool)
    racked[members.group[members.rack >= 0]] = True
    replacements: list[PartitionSlices] = []
    replaced_topics: list[int] = []
    for group in np.flatnonzero(racked & chosen).tolist():
        lines = _Lines(specs, group)
        asked = [
            RackTopic(topic, int(topics.subscriber_set[topic]), int(topics.partitions[topic]), _layout(specs, topic))
            for topic in lines.topics.tolist()
        ]
        racks = {line: _racks(members.rack[lines.of(line)]) for line in {each.subscriber_list for each in asked}}
        for topic, owner in assign_rack_aware_topics(asked, racks).items():
            place, first, step, count = owners_to_slices(owner)
            line = lines.of(int(topics.subscriber_set[topic]))
            replacements.append(PartitionSlices(line[place], np.full(len(place), topic), first, step, count))
            replaced_topics.append(topic)
    return _concatenated([runs.take(~np.isin(runs.topic, replaced_topics)), *replacements])


def assign_heterogeneous_round_robin(specs: GroupSpecs, chosen: BoolArray, runs: PartitionSlices) -> PartitionSlices:
    """Round robin with the groups whose topics have differing subscribers dealt anew, round the ring of all members."""
    topics, known = specs.topics, specs.topics.with_metadata
    lines_of_group = np.unique(np.stack([topics.group[known], topics.subscriber_set[known]]), axis=1)[0]
    mixed = (np.bincount(lines_of_group, minlength=specs.num_groups) > 1) & chosen
    if not mixed.any():
        return runs
    replacements = []
    for group in np.flatnonzero(mixed).tolist():
        lines = _Lines(specs, group)
        served = {line: specs.members.assignment_order[lines.of(line)].tolist() for line in set(lines.line)}
        visits = [
            (served[line], count)
            for line, count in zip(lines.line, topics.partitions[lines.topics].tolist(), strict=True)
        ]
        for topic, line, start in zip(lines.topics.tolist(), lines.line, round_robin_start(visits), strict=True):
            replacements.append(_in_turn(lines.of(line), topic, start, int(topics.partitions[topic])))
    return _concatenated([runs.take(~mixed[specs.members.group[runs.member]]), *replacements])


def _in_turn(line: IntArray, topic: int, start: int, partitions: int) -> PartitionSlices:
    """A topic dealt to its line, where `start` gets partition 0."""
    first = (np.arange(len(line)) - start) % len(line)
    some = first < partitions
    first, size = first[some], np.full(int(some.sum()), len(line))
    return PartitionSlices(line[some], np.full(len(first), topic), first, size, -(-(partitions - first) // size))


class _Lines:
    """The lines of one group: members in the order in which they are served, of each class of subscribers."""

    def __init__(self, specs: GroupSpecs, group: int) -> None:
        self.specs = specs
        members = np.arange(*np.searchsorted(specs.members.group, [group, group + 1]))
        known = specs.topics.with_metadata
        self.topics = known[slice(*np.searchsorted(specs.topics.group[known], [group, group + 1]))]
        self.line: list[int] = specs.topics.subscriber_set[self.topics].tolist()
        self._lines: dict[int, IntArray] = {ALL_MEMBERS: members[np.argsort(specs.members.assignment_order[members])]}

    def of(self, line: int) -> IntArray:
        """The members of a class."""
        if line not in self._lines:
            members = self.specs.subscriber_sets[line]
            self._lines[line] = members[np.argsort(self.specs.members.assignment_order[members])]
        return self._lines[line]


def _racks(numbers: IntArray) -> list[int | None]:
    return [None if number < 0 else number for number in numbers.tolist()]


def _layout(specs: GroupSpecs, topic: int) -> list[frozenset[int]]:
    """The racks that each partition of a topic has replicas in."""
    if topic not in specs.rack_set:
        return [frozenset()] * int(specs.topics.partitions[topic])
    return [specs.rack_sets[number] for number in specs.rack_set[topic].tolist()]


def _concatenated(parts: list[PartitionSlices]) -> PartitionSlices:
    return PartitionSlices(*(np.concatenate(each) for each in zip(*(part.columns for part in parts), strict=True)))
