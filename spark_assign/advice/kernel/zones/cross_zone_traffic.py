"""Who reads from where, and what of it crosses a zone.

A member reads from the preferred leader, the first of a partition's replicas. With follower fetching (KIP-392) it reads
from a replica in its own rack where there is one, else from the leader: `RackAwareReplicaSelector` takes the leader if
that is in the rack, else the most caught up of the replicas in sync there.

Example: leader in rack a, followers in b and c. A member in b reads across zones, and with follower fetching it does
not; a member in d does so either way. Of a member whose rack nobody knows it is not known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_assign.advice.kernel.zones.partition_racks import PartitionRacks
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PartitionSlices


@dataclass(frozen=True)
class CrossZoneTraffic:
    """Of each group, in bytes a day and in partitions that a member has.

    Attributes:
        partitions: all of them.
        without_bytes: those of which nobody knows how many bytes are read; all figures are of the others.
        without_rack: those where it hangs on a rack that nobody knows whether they are read across zones.
        read: bytes that are read.
        crosses: of these, what crosses a zone for sure.
        unknown: of these, what may or may not.
    """

    partitions: IntArray
    without_bytes: IntArray
    without_rack: IntArray
    read: IntArray
    crosses: IntArray
    unknown: IntArray


def crossing(
    specs: GroupSpecs, ground: PartitionRacks, runs: PartitionSlices
) -> tuple[CrossZoneTraffic, CrossZoneTraffic]:
    """What crosses a zone where members have these partitions: without follower fetching, and with it."""
    member, place = ground.numbered(runs)
    group, rack, leader = specs.members.group[member], specs.members.rack[member], ground.leader[place]
    size = ground.read[place]
    known = size >= 0
    same, hidden = rack == leader, (rack < 0) | (leader < 0)
    has_near = np.zeros(len(place), bool)
    if ground.near.shape[1]:
        has_near = ground.near[ground.replicas[place], np.maximum(rack, 0)] & (rack >= 0)

    def total(some: BoolArray) -> IntArray:
        return np.bincount(group[some], minlength=specs.num_groups)

    def added(some: BoolArray) -> IntArray:
        sums = np.zeros(specs.num_groups, np.int64)
        np.add.at(sums, group[some], size[some])  # whole numbers: in any order the same
        return sums

    def judged(hidden: BoolArray, far: BoolArray) -> CrossZoneTraffic:
        return CrossZoneTraffic(
            partitions=total(np.ones(len(place), bool)),
            without_bytes=total(~known),
            without_rack=total(hidden),
            read=added(known),
            crosses=added(known & far),
            unknown=added(known & hidden),
        )

    far = ~same & ~hidden
    return judged(hidden, far), judged(hidden & ~has_near, far & ~has_near)
