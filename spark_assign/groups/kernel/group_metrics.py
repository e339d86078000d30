"""Figures of groups, from runs: balance, churn, and what is odd."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from spark_assign.groups.kernel.facts import GROUP
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.groups.kernel.ownership_changes import Ownership, count_changes
from spark_assign.numeric.array_types import BoolArray, FloatArray, IntArray
from spark_assign.numeric.partition_slices import PartitionSlices
from spark_assign.numeric.segmented_arrays import expand_slices


def read_ownership(
    specs: GroupSpecs, given: PartitionSlices, withheld: PartitionSlices, planned: BoolArray
) -> Ownership:
    """What the planned groups own, and what they are given."""
    members = planned[specs.members.group]
    return Ownership(
        num_groups=specs.num_groups,
        topic_group=specs.topics.group,
        partitions=specs.topics.partitions,
        owned=specs.owned.take(members[specs.owned.member]),
        departed=specs.departed_owned.take(planned[specs.topics.group[specs.departed_owned.topic]]),
        assigned=given,
        withheld=withheld,
    )


def balance_metrics(group: IntArray, number: int, given: PartitionSlices) -> dict[str, pa.Array]:
    """Of each group how evenly these runs are spread over its members.

    Args:
        group: of each member its group, ascending; every group has members.
        number: how many groups.
        given: who has what; members are places in `group`.
    """
    begins = np.searchsorted(group, np.arange(number))
    each = np.bincount(given.member, given.count, len(group)).astype(np.int64)
    members = np.diff(np.append(begins, len(group)))
    total = np.add.reduceat(each, begins) if len(begins) else each
    least, most = (function.reduceat(each, begins) if len(begins) else each for function in (np.minimum, np.maximum))
    mean = total / np.maximum(members, 1)
    squares = (each - np.repeat(mean, members)) ** 2
    variance = (np.add.reduceat(squares, begins) if len(begins) else squares) / np.maximum(members, 1)
    uneven = np.divide(most, mean, out=np.zeros(len(mean)), where=total > 0)
    return {
        "members": pa.array(members),
        "partitions": pa.array(total),
        "min_per_member": pa.array(least),
        "max_per_member": pa.array(most),
        "mean_per_member": pa.array(mean),
        "stddev_per_member": pa.array(np.sqrt(variance)),
        "max_over_mean": pa.array(uneven, mask=total == 0),
    }


def group_metrics(
    specs: GroupSpecs, compared: Ownership, order_dependent: PartitionSlices, *, racks_known: bool
) -> dict[str, pa.Array]:
    """Of each group its figures; columns and units: `tables.groups.METRICS`."""
    counts, topics = count_changes(compared), specs.topics
    given, withheld = compared.assigned, compared.withheld
    total = compared.sum_by_group(given.topic, given.count)
    silent = ~specs.members.has_subscription
    unknown = topics.is_subscribed & (topics.partitions <= 0)
    return {
        **balance_metrics(specs.members.group, specs.num_groups, given),
        "moved": pa.array(counts.owned_and_assigned - counts.kept - counts.returned),
        "revoked": pa.array(counts.owned - counts.kept),
        "unassigned": pa.array(count_subscribed_partitions(specs) - total),
        "withheld": pa.array(compared.sum_by_group(withheld.topic, withheld.count)),
        "members_without_subscription": pa.array(np.bincount(specs.members.group[silent], minlength=specs.num_groups)),
        "unknown_topics": pa.array(np.bincount(topics.group[unknown], minlength=specs.num_groups)),
        "owned_topic_gone": pa.array(counts.topic_gone),
        "owned_beyond_count": pa.array(counts.out_of_range),
        "claim_conflicts": pa.array(counts.conflicts),
        "order_dependent": pa.array(compared.sum_by_group(order_dependent.topic, order_dependent.count)),
        "rack_matched": count_rack_matched(specs, given, racks_known=racks_known),
    }


def count_subscribed_partitions(specs: GroupSpecs) -> IntArray:
    """Of each group the partitions of all topics that it subscribes to."""
    known = specs.topics.with_metadata
    return np.bincount(specs.topics.group[known], specs.topics.partitions[known], specs.num_groups).astype(np.int64)


def count_rack_matched(specs: GroupSpecs, given: PartitionSlices, *, racks_known: bool) -> pa.Array:
    """Of each group the partitions of members that have a replica in their rack; null where no member has a rack."""
    racked = np.zeros(specs.num_groups, bool)
    racked[specs.members.group[specs.members.rack >= 0]] = racks_known
    near = np.array([[rack in each for rack in range(len(specs.racks))] for each in specs.rack_sets], bool)
    matched = np.zeros(specs.num_groups, np.int64)
    has_rack_set = np.zeros(len(specs.topics), bool)
    has_rack_set[list(specs.rack_set)] = True
    runs = given.take(has_rack_set[given.topic] & (specs.members.rack[given.member] >= 0))
    order = np.argsort(runs.topic, kind="stable")
    runs = runs.take(order)
    ends = np.searchsorted(runs.topic, np.unique(runs.topic), "right").tolist()
    for begin, end in zip([0, *ends], ends, strict=False):
        topic = int(runs.topic[begin])
        some = runs.take(np.arange(begin, end))
        run, partition = expand_slices(some.first, some.step, some.count)
        sets = specs.rack_set[topic]
        there = partition < len(sets)
        rack = specs.members.rack[some.member[run[there]]]
        matched[specs.topics.group[topic]] += int(near[sets[partition[there]], rack].sum())
    return pa.array(matched, mask=~racked)


# DOC: How the load of groups is spread over their members, and how long these take to catch up.
#
# All sums are added up in the order of topics and partitions, so that they are the same, to the last bit, whatever else
# is in a task.
#

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
