"""librdkafka's range and roundrobin on runs, many groups at once, where racks decide nothing.

They differ from Java's in who is served when: ids are compared as bytes, and where a group has static members and
others, each line of members is what C's merge sort makes of it
(`groups.assignors.librdkafka.balancer_input.assignment_order`).
"""

from __future__ import annotations

import numpy as np

from spark_assign.groups.assignors.librdkafka.balancer_input import LibrdkafkaMember, assignment_order
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.java.key_index import byte_ranks
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PartitionSlices
from spark_assign.numeric.round_robin_offset import round_robin_start
from spark_assign.numeric.segmented_arrays import exclusive_sum, key_ranges, row_numbers

NO_POSITION = np.iinfo(np.int32).max
"""The position of a member that has none."""


def range_slices(specs: GroupSpecs, chosen: BoolArray) -> PartitionSlices:
    """Range: each topic cut in pieces."""
    member, topic = _asking(specs, chosen)
    lines = _Lines(specs)
    order = np.lexsort((lines.place[member], topic))
    member, topic = lines.sorted_out(member[order], topic[order]), topic[order]
    at, size = row_numbers(topic), np.bincount(topic, minlength=len(specs.topics))[topic]
    quota, extra = np.divmod(specs.topics.partitions[topic], np.maximum(size, 1))
    runs = PartitionSlices(member, topic, at * quota + np.minimum(at, extra), np.ones_like(at), quota + (at < extra))
    return runs.take(runs.count > 0)


def round_robin_slices(specs: GroupSpecs, chosen: BoolArray) -> PartitionSlices:
    """Round robin: all topics by name, dealt round the ring of those that subscribe to anything."""
    member, topic = _asking(specs, chosen)
    topics = specs.topics
    ring, sizes = _rings(specs, _Lines(specs))
    order = np.lexsort((ring[member], topic))
    member, topic = member[order], topic[order]
    of_topic = np.bincount(topic, minlength=len(topics))
    start = _starts(specs, np.flatnonzero(of_topic), sizes, ring[member], topic)
    size = of_topic[topic]
    first = (row_numbers(topic) - start[topic]) % np.maximum(size, 1)
    count = np.maximum(-(-(topics.partitions[topic] - first) // np.maximum(size, 1)), 0)
    runs = PartitionSlices(member, topic, first, np.where(count > 1, size, 1), count)
    return runs.take(count > 0)


def _asking(specs: GroupSpecs, chosen: BoolArray) -> tuple[IntArray, IntArray]:
    """Member and topic of each subscription to a topic of some partitions."""
    member, topic = np.divmod(specs.subscriptions, max(len(specs.topics), 1))
    some = chosen[specs.topics.group[topic]] & (specs.topics.partitions[topic] > 0)
    return member[some], topic[some]


def _rings(specs: GroupSpecs, lines: _Lines) -> tuple[IntArray, IntArray]:
    """Of each member its place in its group's ring, and how many there are in each."""
    group = specs.members.group
    some = np.flatnonzero(specs.members.has_subscription)
    some = some[np.lexsort((lines.place[some], group[some]))]
    some = lines.sorted_out(some, group[some])
    ring = np.zeros(len(group), np.int64)
    ring[some] = row_numbers(group[some])
    return ring, np.bincount(group[some], minlength=specs.num_groups)


def _starts(specs: GroupSpecs, dealt: IntArray, sizes: IntArray, place: IntArray, topic: IntArray) -> IntArray:
    """Of each topic the number, among its own subscribers, of the one who gets partition 0.

    Args:
        specs: all groups.
        dealt: the topics that are dealt out.
        sizes: of each group, how many are in its ring.
        place, topic: of each subscription the place of its member in the ring, by topic and place.
    """
    topics = specs.topics
    dealt = dealt[np.lexsort((byte_ranks(specs.topic)[dealt], topics.group[dealt]))]
    group = topics.group[dealt]
    start = np.zeros(len(topics), np.int64)
    before = exclusive_sum(topics.partitions[dealt], np.searchsorted(group, group))
    start[dealt] = before % np.maximum(sizes[group], 1)
    of_topic = np.bincount(topic, minlength=len(topics))
    mixed = np.zeros(specs.num_groups, bool)
    mixed[group[of_topic[dealt] != sizes[group]]] = True
    begins = np.cumsum(of_topic) - of_topic
    some = dealt[mixed[group]]
    for begin, end in key_ranges(topics.group[some]):
        mine = some[begin:end].tolist()
        visits = [(place[begins[at] : begins[at] + of_topic[at]].tolist(), int(topics.partitions[at])) for at in mine]
        start[mine] = round_robin_start(visits)
    return start


class _Lines:
    """In which order members are served.

    Attributes:
        place: of each member, numbers that ascend as members are served in groups of one kind, static or not.
    """

    def __init__(self, specs: GroupSpecs) -> None:
        members = specs.members
        facts = specs.facts
        instance = facts.column("group_instance_id", members.row)
        static = instance.is_valid().to_numpy(zero_copy_only=False)
        name = byte_ranks(specs.member_id)
        self.place: IntArray = np.where(static, byte_ranks(instance), name)
        self._specs, self._static, self._group = specs, static, members.group
        some = members.has_subscription
        counts = [np.bincount(members.group[some & kind], minlength=specs.num_groups) for kind in (static, ~static)]
        self._mixed = (counts[0] > 0) & (counts[1] > 0)
        self._listed = (name, facts.int_column("position", NO_POSITION)[members.row])

    def sorted_out(self, member: IntArray, line: IntArray) -> IntArray:
        """Members by line, with those of groups that have members of both kinds in the order that C makes of them."""
        some = self._mixed[self._group[member]]
        if not some.any():
            return member
        member = member.copy()
        found: dict[bytes, IntArray] = {}
        for begin, end in key_ranges(line):
            if some[begin]:
                mine = np.sort(member[begin:end])
                key = mine.tobytes()
                if key not in found:
                    found[key] = self._merged(mine)
                member[begin:end] = found[key]
        return member

    def _merged(self, members: IntArray) -> IntArray:
        name, position = self._listed
        members = members[np.lexsort((name[members], position[members]))]
        ids = self._specs.member_id.take(members).to_pylist()
        instances = self._specs.facts.column("group_instance_id", self._specs.members.row[members]).to_pylist()
        listed = [
            LibrdkafkaMember(name, instance, "", at, frozenset(), ())
            for at, (name, instance) in enumerate(zip(ids, instances, strict=True))
        ]
        return members[[member.generation for member in assignment_order(listed)]]
