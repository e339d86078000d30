"""Figures of groups, from runs: balance, churn, and what is odd."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.groups.kernel.ownership_changes import Ownership, count_changes
from spark_assign.numeric.array_types import BoolArray, IntArray
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
        "count_rack_matched": count_rack_matched(specs, given, racks_known=racks_known),
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
