"""Metrics of groups: balance, moves, irregularities, and how load is spread over members.

Loads are summed in the order of topics and partitions, so that the sums are identical to the last bit regardless of the
other groups of a Spark task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from spark_assign.groups.assignors.release_rules import client_assignor
from spark_assign.groups.kernel.group_specs import ALL_MEMBERS, GroupAssignments, GroupSpecs
from spark_assign.groups.kernel.ownership_changes import Ownership, count_changes
from spark_assign.numeric.array_types import BoolArray, FloatArray, IntArray
from spark_assign.numeric.partition_slices import PartitionSlices, mask_from_indexes
from spark_assign.numeric.segmented_arrays import expand_slices, key_ranges, starts_new_key
from spark_assign.tables.counted_nouns import count


def read_ownership(specs: GroupSpecs, assignments: GroupAssignments, is_planned: BoolArray) -> Ownership:
    """Returns what the planned groups own and what they are assigned."""
    members = is_planned[specs.members.group]
    return Ownership(
        num_groups=specs.num_groups,
        topic_group=specs.topics.group,
        partitions=specs.topics.partitions,
        owned=specs.owned.take(members[specs.owned.member]),
        departed=specs.departed_owned.take(is_planned[specs.topics.group[specs.departed_owned.topic]]),
        assigned=assignments.assigned_now,
        withheld=assignments.withheld_slices,
    )


def balance_metrics(group: IntArray, num_groups: int, assigned: PartitionSlices) -> dict[str, pa.Array]:
    """Returns how evenly the assigned partitions are spread over the members of each group.

    Args:
        group: group index of each member, ascending; every group has members.
        num_groups: number of groups.
        assigned: the assignment; `member` indexes into `group`.
    """
    starts = np.searchsorted(group, np.arange(num_groups))
    num_owned = np.bincount(assigned.member, assigned.count, len(group)).astype(np.int64)
    members = np.diff(np.append(starts, len(group)))
    total, minimum, maximum = (
        function.reduceat(num_owned, starts) if len(starts) else num_owned
        for function in (np.add, np.minimum, np.maximum)
    )
    mean = total / np.maximum(members, 1)
    squares = (num_owned - np.repeat(mean, members)) ** 2
    variance = (np.add.reduceat(squares, starts) if len(starts) else squares) / np.maximum(members, 1)
    max_over_mean = np.divide(maximum, mean, out=np.zeros(len(mean)), where=total > 0)
    return {
        "members": pa.array(members),
        "partitions": pa.array(total),
        "min_per_member": pa.array(minimum),
        "max_per_member": pa.array(maximum),
        "mean_per_member": pa.array(mean),
        "stddev_per_member": pa.array(np.sqrt(variance)),
        "max_over_mean": pa.array(max_over_mean, mask=total == 0),
    }


def group_metrics(
    specs: GroupSpecs, compared: Ownership, order_dependent: PartitionSlices, *, racks_known: bool
) -> dict[str, pa.Array]:
    """Returns the metrics of each group; columns and units: `tables.groups.METRICS`."""
    counts, topics = count_changes(compared), specs.topics
    assigned, withheld = compared.assigned, compared.withheld
    no_subscription = ~specs.members.has_subscription
    unknown = topics.is_subscribed & (topics.partitions <= 0)
    return {
        **balance_metrics(specs.members.group, specs.num_groups, assigned),
        "moved": pa.array(counts.moved),
        "revoked": pa.array(counts.owned - counts.kept),
        "unassigned": pa.array(count_unassigned(specs, assigned)),
        "withheld": pa.array(compared.sum_by_group(withheld.topic, withheld.count)),
        "members_without_subscription": pa.array(
            np.bincount(specs.members.group[no_subscription], minlength=specs.num_groups)
        ),
        "unknown_topics": pa.array(np.bincount(topics.group[unknown], minlength=specs.num_groups)),
        "owned_unknown_topic": pa.array(counts.topic_gone),
        "owned_out_of_range": pa.array(counts.out_of_range),
        "claim_conflicts": pa.array(counts.conflicts),
        "order_dependent": pa.array(compared.sum_by_group(order_dependent.topic, order_dependent.count)),
        "rack_matched": count_rack_matched(specs, assigned, racks_known=racks_known),
    }


DISTRIBUTION_METRICS = {
    **dict.fromkeys(("final_min_per_member", "final_max_per_member"), pa.int64()),
    **dict.fromkeys(("final_max_over_mean", "topic_max_over_mean"), pa.float64()),
    "members_without_partitions": pa.int64(),
    "note": pa.string(),
}
"""Columns of `distribution_metrics`."""


def distribution_metrics(
    specs: GroupSpecs, target: PartitionSlices, assignors: Sequence[str | None]
) -> dict[str, pa.Array]:
    """Returns how each group's partitions are distributed after the last round, and what is conspicuous about it.

    Args:
        specs: the groups.
        target: the assignment, including withheld partitions.
        assignors: the assignor of each group; None: no assignor.
    """
    members, topics = specs.members, specs.topics
    final = balance_metrics(members.group, specs.num_groups, target)
    idle = (np.bincount(target.member, target.count, len(members)) == 0) & members.has_subscription
    num_idle = np.bincount(members.group[idle], minlength=specs.num_groups)
    lists = specs.list_subscribers(np.arange(len(members)))
    mean = topics.partitions / np.maximum(lists.size[lists.of_topic], 1)
    largest = _largest_shares(target, len(topics), max(len(members), 1))
    skew = largest / np.maximum(mean, 1)
    by_skew = np.lexsort((-np.arange(len(topics)), skew, topics.group))
    num_topics = np.bincount(topics.group, minlength=specs.num_groups)
    worst = np.append(by_skew, -1)[np.where(num_topics > 0, np.cumsum(num_topics) - 1, -1)]
    largest_topic = np.zeros(specs.num_groups, np.int64)
    np.maximum.at(largest_topic, topics.group, np.where(topics.is_subscribed, topics.partitions, 0))
    even, most = np.ceil(mean).astype(np.int64), final["max_per_member"].to_numpy()
    partitions = count_subscribed_partitions(specs)
    sizes = np.bincount(members.group[members.has_subscription], minlength=specs.num_groups)
    is_uneven = (worst >= 0) & ((largest > even + 1) & (largest >= 2 * even))[worst] if len(topics) else worst > 0
    is_range = np.array([client_assignor(name or "") in ("range", "server-range") for name in assignors], bool)
    share = -(-partitions // np.maximum(sizes, 1))
    is_mixed = _is_heterogeneous(specs)
    is_skewed = (is_range | is_mixed) & (most > share)
    notes: list[str | None] = [None] * specs.num_groups
    for group in np.flatnonzero((num_idle > 0) | is_uneven | is_skewed).tolist():
        by_topic, texts = f"{assignors[group]} divides each topic separately, ", []
        if num_idle[group]:
            reason = "other members have all partitions of the topics that they subscribe to"
            if partitions[group] < sizes[group]:
                reason = f"the topics have {count(partitions[group], 'partition')} in total"
            elif is_range[group] and not is_mixed[group] and largest_topic[group] < sizes[group]:
                reason = f"{by_topic}and no topic has more partitions than {largest_topic[group]:,}"
            have = "has" if num_idle[group] == 1 else "have"
            texts.append(f"{num_idle[group]:,} of {sizes[group]:,} members {have} no partitions: {reason}")
        elif is_skewed[group]:
            reason = f"{by_topic}so the same members have the larger share of each: up to"
            if is_mixed[group]:
                reason = "members subscribe to different topics, and one has"
            texts.append(f"{reason} {most[group]:,} partitions, and an even share is {share[group]:,}")
        if is_uneven[group]:
            topic = worst[group]
            name, counts = specs.topic[topic].as_py(), f"{largest[topic]:,} of {topics.partitions[topic]:,} partitions"
            texts.append(f"one member has {counts} of {name}, and an even share is {even[topic]:,}")
        notes[group] = "; ".join(texts)
    return {
        **{f"final_{name}": final[name] for name in ("min_per_member", "max_per_member", "max_over_mean")},
        "topic_max_over_mean": pa.array(np.append(skew, 0)[worst], mask=np.append(skew, 0)[worst] == 0),
        "members_without_partitions": pa.array(num_idle),
        "note": pa.array(notes, pa.string()),
    }


def _is_heterogeneous(specs: GroupSpecs) -> BoolArray:
    """Checks, for each group, whether members subscribe to different topics. Members without a subscription don't
    count."""
    topics, num_sets = specs.topics, len(specs.subscriber_sets) + 1
    sets = topics.group * num_sets + topics.subscriber_set - ALL_MEMBERS
    return np.bincount(np.unique(sets[topics.is_subscribed]) // num_sets, minlength=specs.num_groups) > 1


def _largest_shares(target: PartitionSlices, num_topics: int, num_members: int) -> IntArray:
    """Returns the number of partitions that one member has of each topic, at most."""
    key = target.topic * num_members + target.member
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(starts_new_key(key[order]))
    largest = np.zeros(num_topics, np.int64)
    if len(starts):
        np.maximum.at(largest, target.topic[order[starts]], np.add.reduceat(target.count[order], starts))
    return largest


def count_subscribed_partitions(specs: GroupSpecs) -> IntArray:
    """Returns the number of partitions of all subscribed topics, per group."""
    known = specs.topics.with_metadata
    return np.bincount(specs.topics.group[known], specs.topics.partitions[known], specs.num_groups).astype(np.int64)


def count_unassigned(specs: GroupSpecs, assigned: PartitionSlices) -> IntArray:
    """Returns the number of partitions of all subscribed topics, per group, that have no owner. Sticky assignors leave
    a member a partition that it claims beyond the topic's; it stands for none of these."""
    existing = assigned.below(specs.topics.partitions)
    owned = np.bincount(specs.topics.group[existing.topic], existing.count, specs.num_groups).astype(np.int64)
    return count_subscribed_partitions(specs) - owned


def count_rack_matched(specs: GroupSpecs, assigned: PartitionSlices, *, racks_known: bool) -> pa.Array:
    """Returns the number of partitions, per group, that have a replica in the rack of their member; null if no member
    has a rack.
    """
    has_racks = np.zeros(specs.num_groups, bool)
    has_racks[specs.members.group[specs.members.rack >= 0]] = racks_known
    set_has_rack = np.zeros((len(specs.rack_sets), len(specs.racks)), bool)
    for index, rack_set in enumerate(specs.rack_sets):
        set_has_rack[index, list(rack_set)] = True
    matched = np.zeros(specs.num_groups, np.int64)
    has_rack_set = mask_from_indexes(list(specs.rack_set), len(specs.topics))
    runs = assigned.take(has_rack_set[assigned.topic] & (specs.members.rack[assigned.member] >= 0))
    runs = runs.take(np.argsort(runs.topic, kind="stable"))
    for start, end in key_ranges(runs.topic):
        topic = int(runs.topic[start])
        topic_slices = runs.take(np.arange(start, end))
        run, partition = expand_slices(topic_slices.first, topic_slices.step, topic_slices.count)
        partition_sets = specs.rack_set[topic]
        exists = partition < len(partition_sets)
        rack = specs.members.rack[topic_slices.member[run[exists]]]
        matched[specs.topics.group[topic]] += int(set_has_rack[partition_sets[partition[exists]], rack].sum())
    return pa.array(matched, mask=~has_racks)


MIN_CAPACITY = 2.0**-63
"""The lowest capacity of a member. The number of members that a lower one would need could be infinite."""

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


def configured_value(specs: GroupSpecs, name: str) -> FloatArray:
    """Returns a load setting of each group (capacity or load_bound); NaN if it is not set."""
    return np.array(specs.group_values(name), np.float64)


def member_capacity(specs: GroupSpecs, sharing: int = 0) -> FloatArray:
    """Returns the capacity of one member of each group, in messages/s; NaN if unknown.

    The capacity is `groups.capacity` if set. Otherwise it is the highest reading rate of the members that are behind,
    because only those members don't wait for messages. `sharing`: as in `MemberLoads`.
    """
    loads, owned_loads = specs.loads, MemberLoads(specs, specs.owned, sharing)
    out_messages_per_second, lag = owned_loads.sums(loads.out_messages_per_second), owned_loads.sums(loads.lag)
    busy = (out_messages_per_second >= MIN_CAPACITY) & (lag > BEHIND_S * out_messages_per_second)
    configured = configured_value(specs, "capacity")
    return np.where(
        np.isnan(configured), max_per_group(specs, np.where(busy, out_messages_per_second, np.nan)), configured
    )


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
