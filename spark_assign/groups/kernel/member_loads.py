"""Loads of members, and metrics of how load is spread over the members of each group.

Loads are summed in the order of topics and partitions, so that the sums are identical to the last bit regardless of the
other groups of a Spark task.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from spark_assign.assignors.group_specs import GroupSpecs
from spark_assign.numeric.arrays import FloatArray, IntArray, PartitionSlices

MIN_CAPACITY, MAX_CAPACITY = 2.0**-63, 2.0**63
"""The bounds of a member's capacity. The number of members that a lower one would need could be infinite."""

BEHIND_S = 10
"""Lag, in seconds of a member's own reading rate, from which the member is assumed to read at full speed."""

LOAD_METRICS = {
    **dict.fromkeys(("load", "max_load_per_member", "load_max_over_mean"), pa.float64()),
    "load_unknown": pa.int64(),
    "drain_seconds": pa.float64(),
}
"""Columns of `load_metrics`."""


@dataclass(frozen=True)
class MemberLoads:
    """Loads of the members of `specs`, for the given slices.

    Attributes:
        sharing: number of members that can work on a partition at the same time, in share groups. The members of a
            partition share it evenly, and those beyond this number don't reduce the load of the others. 0: consumer
            groups, in which each partition counts once for each owner.
    """

    specs: GroupSpecs
    slices: PartitionSlices
    sharing: int = 0

    @cached_property
    def _each(self) -> tuple[IntArray, IntArray, FloatArray | float]:
        """Member of each partition, its position in the load columns, and the portion of it that counts for the
        member, in a fixed order."""
        rows = self.slices.expand()
        rows = rows.take(rows.first < self.specs.topics.partitions[rows.topic])
        order = np.lexsort((rows.first, rows.topic, rows.member))
        rows = rows.take(order)
        portion: FloatArray | float = 1.0
        if self.sharing:
            _, partition, owners = np.unique(rows.partition_keys, return_inverse=True, return_counts=True)
            portion = 1 / np.minimum(owners[partition], self.sharing)
        return rows.member, self.specs.loads.position_of(rows.topic, rows.first), portion

    def sums(self, values: FloatArray) -> FloatArray:
        """Returns the sum of `values` over each member's partitions, ignoring NaN. Shape: (num_members,)."""
        member, position, portion = self._each
        return np.bincount(member, np.nan_to_num(values[position]) * portion, len(self.specs.members)).astype(
            np.float64
        )

    def num_known(self, values: FloatArray) -> IntArray:
        """Returns the number of each member's partitions whose value is known."""
        member, position, _ = self._each
        return np.bincount(member[~np.isnan(values[position])], minlength=len(self.specs.members))

    def num_partitions(self) -> IntArray:
        """Returns the number of partitions of each member."""
        return np.bincount(self._each[0], minlength=len(self.specs.members))


def sum_by_group(specs: GroupSpecs, member_values: FloatArray | IntArray) -> FloatArray:
    """Returns the sum over the members of each group."""
    return np.bincount(specs.members.group, member_values, specs.num_groups).astype(np.float64)


def max_per_group(specs: GroupSpecs, member_values: FloatArray) -> FloatArray:
    """Returns the maximum over the members of each group, ignoring NaN; NaN if all are NaN."""
    maximum = np.full(specs.num_groups, np.nan)
    np.fmax.at(maximum, specs.members.group, member_values)
    return maximum


def member_capacity(specs: GroupSpecs, sharing: int = 0) -> FloatArray:
    """Returns the capacity of one member of each group, in messages/s; NaN if unknown.

    The capacity is `groups.capacity` if set and possible. Otherwise it is the highest reading rate of the members that
    are behind, because only those members don't wait for messages. `sharing`: as in `MemberLoads`.
    """
    loads, owned_loads = specs.loads, MemberLoads(specs, specs.owned, sharing)
    out_messages_per_second, lag = owned_loads.sums(loads.out_messages_per_second), owned_loads.sums(loads.lag)
    busy = (out_messages_per_second >= MIN_CAPACITY) & (lag > BEHIND_S * out_messages_per_second)
    configured = specs.load_setting("capacity")
    is_set = (configured >= MIN_CAPACITY) & (configured <= MAX_CAPACITY)
    return np.where(is_set, configured, max_per_group(specs, np.where(busy, out_messages_per_second, np.nan)))


def drain_seconds(lag: FloatArray, in_messages_per_second: FloatArray, capacity: FloatArray) -> FloatArray:
    """Returns the time that members need to work off their lag, in seconds.

    The time is infinite if the write rate is at or above the capacity, and NaN if the capacity is unknown.
    """
    spare = capacity - in_messages_per_second
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        seconds = np.where(spare > 0, lag / spare, np.where((lag > 0) | (spare < 0), np.inf, 0.0))
    return np.where(np.isnan(capacity), np.nan, seconds)


def load_metrics(specs: GroupSpecs, assigned: PartitionSlices) -> dict[str, pa.Array]:
    """Returns how evenly load is spread over the members of each group; columns and units: `tables.groups.METRICS`."""
    loads, member_loads = specs.loads, MemberLoads(specs, assigned)
    load = member_loads.sums(loads.in_messages_per_second)
    known = sum_by_group(specs, member_loads.num_known(loads.in_messages_per_second))
    total, maximum = sum_by_group(specs, load), max_per_group(specs, load)
    mean = total / np.maximum(np.bincount(specs.members.group, minlength=specs.num_groups), 1)
    drain = drain_seconds(member_loads.sums(loads.lag), load, member_capacity(specs)[specs.members.group])
    num_lags = sum_by_group(specs, member_loads.num_known(loads.lag))
    slowest = max_per_group(specs, drain)
    load_unknown = (known == 0) | np.isin(np.arange(specs.num_groups), list(loads.faults))
    max_over_mean = np.divide(maximum, mean, out=np.zeros(specs.num_groups), where=total > 0)
    unknown = sum_by_group(specs, member_loads.num_partitions()) - known
    return {
        "load": pa.array(total, mask=load_unknown),
        "max_load_per_member": pa.array(maximum, mask=load_unknown),
        "load_max_over_mean": pa.array(max_over_mean, mask=load_unknown | (total <= 0)),
        "load_unknown": pa.array(unknown.astype(np.int64), mask=load_unknown),
        "drain_seconds": pa.array(slowest, mask=load_unknown | np.isnan(slowest) | (num_lags == 0)),
    }
