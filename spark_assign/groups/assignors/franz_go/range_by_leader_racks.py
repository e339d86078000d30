"""Range as franz-go 1.21.4 to 1.21.7 assigns it: by the racks of members and of the brokers that lead.

Principles
    1. Of p partitions and n subscribers, each subscriber gets p // n, and the first p % n get one more.
    2. A member with a rack takes the first partitions with a leader in its rack, up to this number.
    3. The other partitions go, in order, to the members that still lack some, in order.

Each topic is assigned by itself. Java's range (KIP-881) instead uses the racks of all replicas, assigns topics with the
same subscribers and partitions alike, and lets a member without a rack take partitions of any rack in step 2.

Example: t has four partitions with leaders in racks y, y, x, y. C0 is in rack x, C1 in rack y.

    by rack    C0: [p2]        C1: [p0, p1]
    rest       C0: [p2, p3]
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from spark_assign.groups.assignors.range import assign_ranges
from spark_assign.groups.kernel.group_specs import GroupSpecs, SubscriberLists
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PartitionSlices, owners_to_slices


def assign_range_by_leader_racks(
    specs: GroupSpecs, lists: SubscriberLists, selected: BoolArray, racks: Mapping[int, tuple[IntArray, IntArray]]
) -> PartitionSlices:
    """Assigns the selected groups.

    Args:
        specs: all groups.
        lists: the subscribers of each topic, in the order in which they are assigned to.
        selected: mask of groups.
        racks: for each group that uses racks, the index of partition 0 of each topic, and the racks of leaders.
    """
    topics = specs.topics
    partitions = topics.partitions_to_assign(selected)
    slices = assign_ranges(lists, partitions)
    uses_racks = selected & np.isin(np.arange(specs.num_groups), [*racks])
    by_rack = uses_racks[topics.group] & (partitions > 0)
    replacements: list[PartitionSlices] = []
    for topic in np.flatnonzero(by_rack).tolist():
        start, leader_racks = racks[int(topics.group[topic])]
        members = lists.of(topic)
        leaders = leader_racks[start[topic] : start[topic] + partitions[topic]]
        position, *ranges = owners_to_slices(_owners(specs.members.rack[members], leaders))
        replacements.append(PartitionSlices(members[position], np.full(len(position), topic), *ranges))
    return slices.take(~by_rack[slices.topic]).concat(*replacements)


def _owners(member_racks: IntArray, leader_racks: IntArray) -> IntArray:
    """Returns the position of the owner of each partition of a topic.

    Members of different racks don't compete in step 2, so that each rack is assigned in one step.
    """
    quota, extra = divmod(len(leader_racks), len(member_racks))
    lacks = quota + (np.arange(len(member_racks)) < extra)
    owner = np.full(len(leader_racks), -1, np.int64)
    for rack in np.intersect1d(member_racks[member_racks >= 0], leader_racks).tolist():
        members, free = np.flatnonzero(member_racks == rack), np.flatnonzero(leader_racks == rack)
        matched = np.repeat(members, lacks[members])[: len(free)]
        owner[free[: len(matched)]] = matched
        lacks -= np.bincount(matched, minlength=len(lacks))
    owner[owner < 0] = np.repeat(np.arange(len(lacks)), lacks)
    return owner
