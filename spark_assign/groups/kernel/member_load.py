"""How the load of groups is spread over their members, and how long these take to catch up.

All sums are added up in the order of topics and partitions, so that they are the same, to the last bit, whatever else
is in a task.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from spark_assign.groups.kernel.facts import GROUP
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.numeric.array_types import FloatArray, IntArray
from spark_assign.numeric.partition_slices import PartitionSlices

BEHIND_S = 10
"""A member that is more than so many seconds of its own reading behind does not wait for messages: it reads as fast as
it can."""

LOAD_METRICS = {
    **dict.fromkeys(("load", "max_load_per_member", "load_max_over_mean"), pa.float64()),
    "load_unknown": pa.int64(),
    "drain_seconds": pa.float64(),
}
"""Columns of `load_metrics`."""


@dataclass(frozen=True)
class MemberLoads:
    """What the members of a specs' groups carry of some runs, each its own."""

    specs: GroupSpecs
    slices: PartitionSlices

    @cached_property
    def _each(self) -> tuple[IntArray, IntArray]:
        """Member, and place in the columns of `Loads`, of each partition, in an order that nothing else changes."""
        rows = self.slices.expand()
        rows = rows.take(rows.first < self.specs.topics.partitions[rows.topic])
        order = np.lexsort((rows.first, rows.topic, rows.member))
        return rows.member[order], self.specs.loads.position_of(rows.topic[order], rows.first[order])

    def sums(self, values: FloatArray) -> FloatArray:
        """Of each member its values added up, those that are not known left out."""
        member, at = self._each
        return np.bincount(member, np.nan_to_num(values[at]), len(self.specs.members)).astype(np.float64)

    def num_known(self, values: FloatArray) -> IntArray:
        """Of each member the number of its partitions with a known value."""
        member, at = self._each
        return np.bincount(member[~np.isnan(values[at])], minlength=len(self.specs.members))

    def num_partitions(self) -> IntArray:
        """Of each member the number of its partitions."""
        return np.bincount(self._each[0], minlength=len(self.specs.members))


def sum_by_group(specs: GroupSpecs, of_member: FloatArray | IntArray) -> FloatArray:
    """Of each group what its members have, added up."""
    return np.bincount(specs.members.group, of_member, specs.num_groups).astype(np.float64)


def max_per_group(specs: GroupSpecs, of_member: FloatArray) -> FloatArray:
    """Of each group the most that a member has; `NaN` is nothing, and where all are, `NaN` is the answer."""
    most = np.full(specs.num_groups, np.nan)
    np.fmax.at(most, specs.members.group, of_member)
    return most


def configured_value(specs: GroupSpecs, name: str) -> FloatArray:
    """Of each group a number that `groups` gives: capacity, load_bound; `NaN` where it gives none."""
    rows = specs.facts.rows_by_kind[GROUP]
    number = np.full(specs.facts.num_groups, np.nan)
    number[specs.facts.group_index[rows]] = specs.facts.column(name, rows).to_numpy(zero_copy_only=False)
    return number[specs.fact_group_index]


def member_capacity(specs: GroupSpecs) -> FloatArray:
    """Of each group the messages a second that one member can handle; `NaN` where nothing tells.

    That is what `groups.capacity` says. Else it is what the fastest of those members reads that are behind, as only
    they do not wait for messages.
    """
    loads, owned = specs.loads, MemberLoads(specs, specs.owned)
    out_rate, lag = owned.sums(loads.out_rate), owned.sums(loads.lag)
    busy = (out_rate > 0) & (lag > BEHIND_S * out_rate)
    given = configured_value(specs, "capacity")
    return np.where(np.isnan(given), max_per_group(specs, np.where(busy, out_rate, np.nan)), given)


def drain_seconds(lag: FloatArray, in_rate: FloatArray, capacity: FloatArray) -> FloatArray:
    """How long members take until they have read what they are behind, each with that capacity.

    Infinite where as much is written as a member can read, or more; `NaN` where the capacity is not known.
    """
    spare = capacity - in_rate
    with np.errstate(divide="ignore", invalid="ignore"):
        seconds = np.where(spare > 0, lag / spare, np.where((lag > 0) | (spare < 0), np.inf, 0.0))
    return np.where(np.isnan(capacity), np.nan, seconds)


def load_metrics(specs: GroupSpecs, given: PartitionSlices) -> dict[str, pa.Array]:
    """Of each group how evenly load is spread over its members; columns and units: `tables.groups.METRICS`."""
    loads, carried = specs.loads, MemberLoads(specs, given)
    load = carried.sums(loads.in_rate)
    known = sum_by_group(specs, carried.num_known(loads.in_rate))
    total, most = sum_by_group(specs, load), max_per_group(specs, load)
    mean = total / np.maximum(np.bincount(specs.members.group, minlength=specs.num_groups), 1)
    drain = drain_seconds(carried.sums(loads.lag), load, member_capacity(specs)[specs.members.group])
    lags = sum_by_group(specs, carried.num_known(loads.lag))
    slowest = max_per_group(specs, drain)
    silent = (known == 0) | np.isin(np.arange(specs.num_groups), list(loads.faults))
    uneven = np.divide(most, mean, out=np.zeros(specs.num_groups), where=total > 0)
    unknown = sum_by_group(specs, carried.num_partitions()) - known
    return {
        "load": pa.array(total, mask=silent),
        "max_load_per_member": pa.array(most, mask=silent),
        "load_max_over_mean": pa.array(uneven, mask=silent | (total <= 0)),
        "load_unknown": pa.array(unknown.astype(np.int64), mask=silent),
        "drain_seconds": pa.array(slowest, mask=silent | np.isnan(slowest) | (lags == 0)),
    }
