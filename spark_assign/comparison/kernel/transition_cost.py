"""What it costs to go over to a plan: the rounds after the first, and partition-seconds without consumption."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from spark_assign.groups.assignors.custom import GroupAssignor
from spark_assign.groups.assignors.server import SERVER_ASSIGNORS
from spark_assign.groups.kernel import ownership_changes
from spark_assign.groups.kernel.convergence import MAX_ROUNDS, is_cooperative, simulate_assignor_rounds
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.numeric.array_types import BoolArray, FloatArray, IntArray
from spark_assign.numeric.partition_slices import PartitionSlices
from spark_assign.simulation.kernel.pause_estimates import (
    PauseCounts,
    cooperative_seconds,
    eager_seconds,
    server_seconds,
)
from spark_assign.simulation.kernel.settings import Timing


class TransitionParams(Protocol):
    """By which times pauses are counted, and which assignors plan one group at a time."""

    @property
    def timing(self) -> Timing:
        """What groups are set to."""

    @property
    def custom(self) -> Mapping[str, GroupAssignor]:
        """By name."""


def later_rounds(
    specs: GroupSpecs, assignor: str, fine: BoolArray, custom: Mapping[str, GroupAssignor]
) -> dict[str, Any]:
    """Of each group the rounds, and what the rounds after the first do."""
    later: dict[str, Any] = {name: np.zeros(specs.num_groups, np.int64) for name in ("moved", "revoked")}
    later |= {"rounds": np.ones(specs.num_groups, np.int64), "stable": np.ones(specs.num_groups, bool)}
    rounds = None if assignor in custom else simulate_assignor_rounds(assignor, specs, fine, MAX_ROUNDS)
    for each in rounds or ():
        later["rounds"][each.group], later["stable"][each.group] = each.number, each.stable
        if each.number > 1:
            later["moved"][each.group] += each.moved
            later["revoked"][each.group] += each.revoked
    return later


def seconds_paused(
    specs: GroupSpecs,
    counts: ownership_changes.OwnershipCounts,
    target: PartitionSlices,
    later: Mapping[str, IntArray],
    assignor: str,
    asked: TransitionParams,
) -> FloatArray:
    """Of each group the partition-seconds without consumption, expected, until everybody has its part of the target."""
    told = PauseCounts(
        members=np.maximum(np.bincount(specs.members.group, minlength=specs.num_groups), 1),
        partitions=np.bincount(specs.topics.group[target.topic], target.count, specs.num_groups).astype(np.int64),
        living=counts.live_owned_and_assigned,
        kept=counts.kept,
        back=counts.returned,
        later=later["revoked"],
    )
    seconds: Any = cooperative_seconds if is_cooperative(assignor) else eager_seconds
    if assignor in asked.custom:
        seconds = eager_seconds
    elif assignor in SERVER_ASSIGNORS:
        seconds = server_seconds
    return np.asarray(seconds(told, asked.timing), np.float64)
