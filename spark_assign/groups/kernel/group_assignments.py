"""What an assignor answers for groups of `GroupSpecs`, whichever assignor it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import EMPTY_SLICES, PartitionSlices


@dataclass(frozen=True)
class GroupAssignments:
    """Who gets what; members and topics are numbers of `GroupSpecs`.

    Attributes:
        slices: the assignment, partitions that are withheld included.
        reason: of each run why it was taken from the member that could have kept it (`STAYS`: it was not).
        withheld: whether each run has to be given up by another member first.
        rejected: group to code and detail; such a group has no runs.
        order_dependent: what of the runs may go to somebody else in Kafka, as it hangs on an order that the fleet does
        not say.
            (Only uniform and franz-go's sticky balancers are asked for that.)
        load_bound_status: of groups that weighted-sticky has planned how it went with their bound, one of
            `groups.assignors.weighted.weighted_groups.WORDS`.
    """

    slices: PartitionSlices
    reason: IntArray
    withheld: BoolArray
    rejected: dict[int, tuple[str, str]]
    order_dependent: PartitionSlices = EMPTY_SLICES
    load_bound_status: Mapping[int, str] = field(default_factory=dict)

    def concat(self, other: GroupAssignments) -> GroupAssignments:
        """This plan and that of other groups."""
        return GroupAssignments(
            self.slices.concat(other.slices),
            np.append(self.reason, other.reason),
            np.append(self.withheld, other.withheld),
            self.rejected | other.rejected,
            self.order_dependent.concat(other.order_dependent),
            {**self.load_bound_status, **other.load_bound_status},
        )

    @property
    def assigned_now(self) -> PartitionSlices:
        """What is assigned in this round."""
        return self.slices.take(~self.withheld)
