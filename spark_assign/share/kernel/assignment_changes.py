"""Changes of share groups: what each member has, gets, and loses, with reasons; and the metrics of the groups."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PARTITION_BITS, PartitionSlices, compress_sorted
from spark_assign.share.kernel.pool_assignment import KEPT, OVERSHARED
from spark_assign.share.kernel.share_group_input import ShareGroupInput
from spark_assign.share.kernel.simple_assignor import ShareAssignment

REASONS = (
    *("member-left", "topic-gone", "unsubscribed", "over-quota", "over-shared"),
    *("new", "under-shared"),
)
"""Reasons for lost and for new assignments (`share.kernel.plan_groups`); the first that applies counts."""


@dataclass(frozen=True)
class ShareAssignmentChanges:
    """An assignment compared with the previous one. Groups for which Kafka throws are left out.

    Attributes:
        specs: the groups; members and topics of slices are indexes of the specs.
        group_input: the assignor's input.
        assignment: the assignor's result.
    """

    specs: GroupSpecs
    group_input: ShareGroupInput
    assignment: ShareAssignment

    def group(self, topic: IntArray) -> IntArray:
        """Returns the group of each topic."""
        return self.specs.topics.group[topic]

    @cached_property
    def assigned(self) -> PartitionSlices:
        """The assignment, partition by partition."""
        return self._previous(self.assignment.reason == KEPT).concat(self.added)

    @cached_property
    def added(self) -> PartitionSlices:
        """The partitions that members get."""
        return self._slices(self.assignment.member, self.assignment.topic, self.assignment.partition)

    @cached_property
    def revoked(self) -> PartitionSlices:
        """The partitions that live members lose."""
        return self._previous(self.assignment.reason != KEPT)

    def _previous(self, selected: BoolArray) -> PartitionSlices:
        specs = self.group_input.share_specs
        columns = specs.previous_member, specs.previous_topic, specs.previous_partition
        return self._slices(*(column[selected] for column in columns))

    def _slices(self, member: IntArray, topic: IntArray, partition: IntArray) -> PartitionSlices:
        """Returns slices of one partition each, without those of failed groups."""
        is_valid = ~self.assignment.failed[self.group(topic)]
        ones = np.ones(int(is_valid.sum()), np.int64)
        return PartitionSlices(
            self.group_input.members[member[is_valid]], topic[is_valid], partition[is_valid], ones, ones
        )

    def slices(self) -> PartitionSlices:
        """Returns the assignment as slices; a slice is empty if a member keeps a topic without partitions."""
        slices, _ = self.compress(self.assigned, np.zeros(len(self.assigned), np.int64))
        group_input, assignment = self.group_input, self.assignment
        member = group_input.members[np.append(group_input.share_specs.previous_member, group_input.empty_member)]
        topic = np.append(group_input.share_specs.previous_topic, group_input.empty_topic)
        remains = ~assignment.is_removed[topic] & ~assignment.failed[self.group(topic)]
        size = max(len(self.specs.topics), 1)
        empty = np.setdiff1d((member * size + topic)[remains], slices.member * size + slices.topic)
        zeros, ones = np.zeros(len(empty), np.int64), np.ones(len(empty), np.int64)
        return slices.concat(PartitionSlices(empty // size, empty % size, zeros, ones, zeros))

    def compress(self, rows: PartitionSlices, reason: IntArray) -> tuple[PartitionSlices, IntArray]:
        """Compresses single partitions to slices; returns them and the reason that all partitions of a slice share."""
        size = max(len(self.specs.topics), 1)
        key = (rows.member * size + rows.topic) * len(REASONS) + reason
        order = np.lexsort((rows.first, key))
        slice_key, *columns = compress_sorted(key[order], rows.first[order])
        member_topic, slice_reason = np.divmod(slice_key, len(REASONS))
        return PartitionSlices(member_topic // size, member_topic % size, *columns), slice_reason

    def added_reasons(self) -> IntArray:
        """Returns the reason of each row of `added`: whether any member had the partition before."""
        specs, added = self.group_input.share_specs, self.added
        previous = specs.previous_topic << PARTITION_BITS | specs.previous_partition
        had_member = np.isin(added.topic << PARTITION_BITS | added.first, previous)
        return np.where(had_member, REASONS.index("under-shared"), REASONS.index("new"))

    def revoked_reasons(self) -> IntArray:
        """Returns the reason of each row of `revoked`."""
        specs, assignment, revoked = self.specs, self.assignment, self.revoked
        topic = self.group_input.share_specs.previous_topic
        is_revoked = (assignment.reason != KEPT) & ~assignment.failed[self.group(topic)]
        is_overshared = assignment.reason[is_revoked] == OVERSHARED
        subscription = revoked.member * max(len(specs.topics), 1) + revoked.topic
        is_subscribed: BoolArray = np.isin(subscription, specs.subscriptions)
        conditions = (specs.topics.partitions[revoked.topic] < 0, ~is_subscribed, is_overshared)
        names = ("topic-gone", "unsubscribed", "over-shared")
        return np.select(conditions, [REASONS.index(name) for name in names], REASONS.index("over-quota"))

    def departed(self) -> PartitionSlices:
        """Returns the slices of departed members; `member` indexes into `specs.facts.member_id`."""
        departed = self.specs.departed_owned
        return departed.take(self.is_planned[self.group(departed.topic)])

    @cached_property
    def is_planned(self) -> BoolArray:
        """Whether the assignor assigned each group of the specs without an error."""
        has_input = np.zeros(self.specs.num_groups, bool)
        has_input[self.group_input.share_specs.member_group] = True
        return has_input & ~self.assignment.failed


# --- metrics ------------------------------------------------------------------------------------------------------

_COUNTS = ("members", "partitions", "assignments", "given", "taken")
_BALANCE = tuple(f"{value}_per_{unit}" for unit in ("member", "partition") for value in ("min", "max", "mean"))
_PROBLEMS = ("unassigned", "under_shared", "not_assignable", "members_without_subscription", "unknown_topics")
METRIC_COLUMNS = {
    **dict.fromkeys(_COUNTS, pa.int64()),
    **{name: pa.float64() if name.startswith("mean") else pa.int64() for name in _BALANCE},
    **dict.fromkeys(_PROBLEMS, pa.int64()),
}
"""Names and types of the metrics that `tables.share.METRICS` describes."""


def compute_metrics(changes: ShareAssignmentChanges) -> dict[str, pa.Array]:
    """Returns the metrics of each group of the specs, by name."""
    specs, share_specs = changes.specs, changes.group_input.share_specs
    num_groups, topics, assigned = specs.num_groups, specs.topics, changes.assigned
    assigned_group = changes.group(assigned.topic)
    assignable = share_specs.assignable_topic << PARTITION_BITS | share_specs.assignable_partition
    key = assigned.topic << PARTITION_BITS | assigned.first
    index = np.minimum(np.searchsorted(assignable, key), max(len(assignable) - 1, 0))
    is_assignable = assignable[index] == key if len(assignable) else np.zeros(len(key), bool)
    per_partition = np.bincount(index[is_assignable], minlength=len(assignable))
    partition_group = topics.group[share_specs.assignable_topic]
    per_member = np.bincount(assigned.member, minlength=len(specs.members))
    under_shared = per_partition < changes.assignment.desired_sharing[share_specs.assignable_topic]
    unknown = topics.is_subscribed & (topics.partitions < 0)
    groups = {
        "members": specs.members.group,
        "partitions": partition_group,
        "assignments": assigned_group,
        "given": changes.group(changes.added.topic),
        "taken": changes.group(changes.revoked.topic),
        "unassigned": partition_group[per_partition == 0],
        "under_shared": partition_group[under_shared],
        "not_assignable": assigned_group[~is_assignable],
        "members_without_subscription": specs.members.group[~specs.members.has_subscription],
        "unknown_topics": topics.group[unknown],
    }
    return {
        **{name: pa.array(np.bincount(group, minlength=num_groups)) for name, group in groups.items()},
        **_balance_metrics("member", specs.members.group, per_member, num_groups),
        **_balance_metrics("partition", partition_group, per_partition, num_groups),
    }


def _balance_metrics(unit: str, group: IntArray, values: IntArray, num_groups: int) -> dict[str, pa.Array]:
    """Returns minimum, maximum, and mean of the values of each group; 0 for a group without values."""
    size = np.bincount(group, minlength=num_groups)
    smallest, largest = np.full(num_groups, np.iinfo(np.int64).max), np.zeros(num_groups, np.int64)
    np.minimum.at(smallest, group, values)
    np.maximum.at(largest, group, values)
    mean = np.bincount(group, values, num_groups) / np.maximum(size, 1)
    return {
        f"min_per_{unit}": pa.array(np.where(size > 0, smallest, 0)),
        f"max_per_{unit}": pa.array(largest),
        f"mean_per_{unit}": pa.array(mean),
    }
