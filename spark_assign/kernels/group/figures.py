"""Figures of groups, from runs: balance, churn, and what is odd."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_assign.kernels.group.changes import Held, count_changes
from spark_assign.kernels.group.sheet import Sheet
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PartitionSlices
from spark_assign.numeric.segmented_arrays import expand_slices


def held(sheet: Sheet, given: PartitionSlices, withheld: PartitionSlices, planned: BoolArray) -> Held:
    """What the planned groups own, and what they are given."""
    members = planned[sheet.members.group]
    return Held(
        groups=sheet.number,
        topic_group=sheet.topics.group,
        partitions=sheet.topics.partitions,
        claims=sheet.claims.take(members[sheet.claims.member]),
        left=sheet.left.take(planned[sheet.topics.group[sheet.left.topic]]),
        given=given,
        withheld=withheld,
    )


def spread(group: IntArray, number: int, given: PartitionSlices) -> dict[str, pa.Array]:
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


def measure(sheet: Sheet, compared: Held, unsure: PartitionSlices, *, racks_known: bool) -> dict[str, pa.Array]:
    """Of each group its figures; columns and units: `schemas.METRICS`."""
    counts, topics = count_changes(compared), sheet.topics
    given, withheld = compared.given, compared.withheld
    total = compared.by_group(given.topic, given.count)
    silent = ~sheet.members.subscribes
    unknown = topics.asked & (topics.partitions <= 0)
    return {
        **spread(sheet.members.group, sheet.number, given),
        "moved": pa.array(counts.there - counts.kept - counts.back),
        "revoked": pa.array(counts.claimed - counts.kept),
        "unassigned": pa.array(subscribed_partitions(sheet) - total),
        "withheld": pa.array(compared.by_group(withheld.topic, withheld.count)),
        "members_without_subscription": pa.array(np.bincount(sheet.members.group[silent], minlength=sheet.number)),
        "unknown_topics": pa.array(np.bincount(topics.group[unknown], minlength=sheet.number)),
        "owned_topic_gone": pa.array(counts.topic_gone),
        "owned_beyond_count": pa.array(counts.beyond_count),
        "claim_conflicts": pa.array(counts.conflicts),
        "unsure": pa.array(compared.by_group(unsure.topic, unsure.count)),
        "rack_matched": rack_matched(sheet, given, racks_known=racks_known),
    }


def subscribed_partitions(sheet: Sheet) -> IntArray:
    """Of each group the partitions of all topics that it subscribes to."""
    known = sheet.topics.known
    return np.bincount(sheet.topics.group[known], sheet.topics.partitions[known], sheet.number).astype(np.int64)


def rack_matched(sheet: Sheet, given: PartitionSlices, *, racks_known: bool) -> pa.Array:
    """Of each group the partitions of members that have a replica in their rack; null where no member has a rack."""
    racked = np.zeros(sheet.number, bool)
    racked[sheet.members.group[sheet.members.rack >= 0]] = racks_known
    near = np.array([[rack in each for rack in range(len(sheet.racks))] for each in sheet.rack_sets], bool)
    matched = np.zeros(sheet.number, np.int64)
    laid = np.zeros(len(sheet.topics), bool)
    laid[list(sheet.rack_set)] = True
    runs = given.take(laid[given.topic] & (sheet.members.rack[given.member] >= 0))
    order = np.argsort(runs.topic, kind="stable")
    runs = runs.take(order)
    ends = np.searchsorted(runs.topic, np.unique(runs.topic), "right").tolist()
    for begin, end in zip([0, *ends], ends, strict=False):
        topic = int(runs.topic[begin])
        some = runs.take(np.arange(begin, end))
        run, partition = expand_slices(some.first, some.step, some.count)
        sets = sheet.rack_set[topic]
        there = partition < len(sets)
        rack = sheet.members.rack[some.member[run[there]]]
        matched[sheet.topics.group[topic]] += int(near[sets[partition[there]], rack].sum())
    return pa.array(matched, mask=~racked)
