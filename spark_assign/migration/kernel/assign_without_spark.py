"""Any assignor asked for groups that Spark has no rows of, as they are after some of their members have left.

Range and round robin are laid out by windows wherever Spark has the rows (`assignors`). Here are the same two rules
over the numbers of specs; what windows cannot say is said by the same kernels in both places
(`groups.kernel.range_roundrobin_fallback`).
"""

from __future__ import annotations

import numpy as np

from spark_assign.groups.assignors.release_rules import LATEST_RULES, parse_release_assignor
from spark_assign.groups.assignors.server.range import assign_server_ranges
from spark_assign.groups.assignors.sticky.sticky_groups import KEPT
from spark_assign.groups.kernel.assign import assign
from spark_assign.groups.kernel.facts import WINDOW_ASSIGNORS
from spark_assign.groups.kernel.group_specs import GroupAssignments, GroupSpecs
from spark_assign.groups.kernel.range_roundrobin_fallback import assign_heterogeneous_round_robin, assign_ranges_by_rack
from spark_assign.numeric.array_types import BoolArray
from spark_assign.numeric.partition_slices import PartitionSlices
from spark_assign.numeric.segmented_arrays import row_numbers


def assign_without_spark(specs: GroupSpecs, assignor: str, chosen: BoolArray) -> GroupAssignments:
    """Plan some groups by one of Kafka's assignors, as of a release or not, with nothing laid out before."""
    name, rules = parse_release_assignor(assignor) or (assignor, LATEST_RULES)
    if name not in WINDOW_ASSIGNORS:
        return assign(specs, assignor, chosen, {})
    slices = _ranges(specs) if name == "range" else _in_turn(specs)
    runs = slices.take(chosen[specs.members.group[slices.member]])
    if name == "roundrobin":
        runs = assign_heterogeneous_round_robin(specs, chosen, runs)
    elif rules.uses_racks:
        runs = assign_ranges_by_rack(specs, chosen, runs)
    return GroupAssignments(runs, np.full(len(runs), KEPT), np.zeros(len(runs), bool), {})


def _ranges(specs: GroupSpecs) -> PartitionSlices:
    """Range without racks: consecutive partitions to each subscriber of a topic, in the order of serving."""
    member, topic = np.divmod(specs.subscriptions, max(len(specs.topics), 1))
    known = specs.topics.partitions[topic] > 0
    partitions = np.maximum(specs.topics.partitions, 0)
    return assign_server_ranges(member[known], topic[known], specs.members.assignment_order, partitions)


def _in_turn(specs: GroupSpecs) -> PartitionSlices:
    """Round robin where all topics have the same subscribers: these in turn, over all partitions of topics by name."""
    topics = specs.topics
    member, topic = np.divmod(specs.subscriptions, max(len(topics), 1))
    order = np.lexsort((specs.members.assignment_order[member], topic))
    member, topic = member[order], topic[order]
    partitions = np.maximum(np.where(topics.is_subscribed, topics.partitions, 0), 0)
    size = np.bincount(topic, minlength=len(topics))[topic]
    first = (row_numbers(topic) - topics.sum_of_preceding(partitions)[topic]) % size
    count = -(-(partitions[topic] - first) // size)
    runs = PartitionSlices(member, topic, first, size, np.maximum(count, 0))
    return runs.take(runs.count > 0)
