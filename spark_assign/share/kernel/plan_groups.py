"""Plans complete share groups in one pass: facts (`assignors.group_facts`) to tagged rows.

The `kind` of a row determines which columns it uses, beside cluster and group_id:

    assigned    member_id, topic, first, step, count: a slice of the plan; a count of 0: a topic without partitions
    change      the same columns for a slice that a member gets or loses; change (`assigned` or `revoked`), reason
    metrics     `tables.share.METRICS`; null for a group without members, which has 0 everywhere
    rejected    code, detail: a group that can't be planned

Reasons; the first that applies counts. For revoked partitions:
    member-left     the member has left the group
    topic-gone      the topic doesn't exist
    unsubscribed    the member doesn't subscribe to the topic
    over-shared     the partition has more members than it needs
    over-quota      the member has more partitions than its quota
For assigned partitions:
    new             no member had the partition
    under-shared    the partition has fewer members than it needs
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from spark_assign.assignors.group_facts import column, rejected_table
from spark_assign.assignors.group_specs import ALL_MEMBERS, GroupSpecs
from spark_assign.assignors.server.coordinator_order import TopicIds, read_topic_ids_of_specs
from spark_assign.assignors.share.share_group_input import ShareGroupInput, read_share_group_input
from spark_assign.assignors.share.simple_assignor import KEPT, OVERSHARED, ShareAssignment, assign_simple
from spark_assign.groups.kernel.plan_groups import group_key_columns, slice_rows
from spark_assign.groups.kernel.read_specs import open_pass
from spark_assign.groups.kernel.tagged_rows import tagged_table
from spark_assign.java.hash_map import IdentityDecides
from spark_assign.numeric.arrays import (
    PARTITION_BITS,
    BoolArray,
    IntArray,
    PartitionSlices,
    compress,
    compress_tagged,
    mask_from_indexes,
    take_names,
)

ASSIGNED, CHANGE, METRICS, REJECTED = "assigned", "change", "metrics", "rejected"
"""Kinds of result rows."""

REVOKED = "revoked"
REASONS = (
    *("member-left", "topic-gone", "unsubscribed", "over-quota", "over-shared"),
    *("new", "under-shared"),
)

ASSIGNOR_FAILS = (
    "kafka-fails",
    "Kafka's SimpleAssignor throws java.util.NoSuchElementException (4.2 to 4.4, since KAFKA-19362 and KAFKA-19363; no "
    "issue about it is known), and the group keeps its current assignment. The "
    "assignor might succeed again if a member joins or leaves, or if the number of partitions changes",
)
_MAX_SUBSCRIPTIONS = 5_000_000
"""Maximum number of subscriptions of a heterogeneous group, each of which gets partitions."""
IDENTITY_ORDER = (
    "identity-order",
    "More than seven partitions share a bucket of the assignor's HashMap, and two of them a hash code. Their order "
    "depends on System.identityHashCode, which differs between brokers",
)


def plan_share_groups(fact_table: pa.Table, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yields the plan of all groups of the facts, as tagged rows."""
    for kind, rows in _plan(fact_table):
        yield tagged_table(kind, rows, schema)


def _plan(fact_table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Yields the rows of a batch of complete groups."""
    groups = open_pass(fact_table, kinds=("share",))
    specs = groups.specs
    assigned, rejected = assign_share_groups(specs)
    for changes in assigned:
        yield from ((ASSIGNED, rows) for rows in slice_rows(specs, changes.slices()))
        yield from ((CHANGE, rows) for rows in _change_rows(changes))
        metrics = pa.table(group_key_columns(specs, np.arange(specs.num_groups)) | compute_metrics(changes))
        yield METRICS, metrics.filter(pa.array(changes.is_planned))
    failed = {int(specs.fact_group_index[group]): fault for group, fault in rejected.items()}
    yield REJECTED, rejected_table(groups.facts, groups.rejected | failed)
    empty = pa.array(groups.empty_groups, pa.int64())
    yield METRICS, pa.table({name: column(fact_table, name).take(empty) for name in ("cluster", "group_id")})


def assign_share_groups(specs: GroupSpecs) -> tuple[list[ShareAssignmentChanges], dict[int, tuple[str, str]]]:
    """Returns the next assignments of all groups of the specs, and code and detail of each group that has none."""
    ids = read_topic_ids_of_specs(specs)
    rejected = dict(ids.rejected) | _find_too_many(specs)
    assigned = list(_assign(specs, ids, ~mask_from_indexes(list(rejected), specs.num_groups), rejected))
    for changes in assigned:
        rejected |= dict.fromkeys(np.flatnonzero(changes.assignment.failed).tolist(), ASSIGNOR_FAILS)
    return assigned, rejected


def _find_too_many(specs: GroupSpecs) -> dict[int, tuple[str, str]]:
    """Returns code and detail of each heterogeneous group with too many subscriptions."""
    topics, lists = specs.topics, specs.list_subscribers(np.arange(len(specs.members)))
    is_partial = topics.is_subscribed & (topics.subscriber_set != ALL_MEMBERS)
    subscriptions = np.bincount(topics.group, lists.size[lists.of_topic] * topics.is_subscribed, specs.num_groups)
    is_large = (subscriptions > _MAX_SUBSCRIPTIONS) & mask_from_indexes(topics.group[is_partial], specs.num_groups)
    detail = f"expected at most {_MAX_SUBSCRIPTIONS:,} of members with different topics. Remove members or topics"
    return {
        group: ("too-many-partitions", f"subscriptions: {int(subscriptions[group]):,}, {detail}")
        for group in np.flatnonzero(is_large).tolist()
    }


def _assign(
    specs: GroupSpecs, ids: TopicIds, selected: BoolArray, rejected: dict[int, tuple[str, str]]
) -> Iterator[ShareAssignmentChanges]:
    """Assigns the selected groups at once. If an order is unknowable, bisects the groups and rejects the affected
    ones."""
    group_input = read_share_group_input(specs, ids, selected)
    try:
        yield ShareAssignmentChanges(specs, group_input, assign_simple(group_input.share_specs))
    except IdentityDecides:
        groups = np.flatnonzero(selected)
        if len(groups) == 1:
            rejected[int(groups[0])] = IDENTITY_ORDER
            return
        for half in np.array_split(groups, 2):
            yield from _assign(specs, ids, mask_from_indexes(half, specs.num_groups), rejected)


# --- rows of the result -------------------------------------------------------------------------------------------


def _change_rows(changes: ShareAssignmentChanges) -> Iterator[pa.Table]:
    specs, departed = changes.specs, changes.departed()
    departed_reason = np.full(len(departed), REASONS.index("member-left"))
    for change, slices, reason, member_ids in (
        (REVOKED, departed, departed_reason, specs.facts.member_id),
        (REVOKED, *compress_tagged(*changes.revoked.columns[:3], changes.revoked_reasons()), specs.member_id),
        (ASSIGNED, *compress_tagged(*changes.added.columns[:3], changes.added_reasons()), specs.member_id),
    ):
        start = 0
        for rows in slice_rows(specs, slices, member_ids):
            reasons = take_names(pa.array(REASONS), reason[start : start + len(rows)])
            start += len(rows)
            yield rows.append_column("reason", reasons).append_column("change", pa.repeat(pa.scalar(change), len(rows)))


# --- changes ------------------------------------------------------------------------------------------------------


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
        slices = compress(*self.assigned.columns[:3])
        group_input, assignment = self.group_input, self.assignment
        member = group_input.members[np.append(group_input.share_specs.previous_member, group_input.empty.member)]
        topic = np.append(group_input.share_specs.previous_topic, group_input.empty.topic)
        remains = ~assignment.is_removed[topic] & ~assignment.failed[self.group(topic)]
        size = max(len(self.specs.topics), 1)
        empty = np.setdiff1d((member * size + topic)[remains], slices.member * size + slices.topic)
        zeros, ones = np.zeros(len(empty), np.int64), np.ones(len(empty), np.int64)
        return slices.concat(PartitionSlices(empty // size, empty % size, zeros, ones, zeros))

    def added_reasons(self) -> IntArray:
        """Returns the reason of each row of `added`: whether any member had the partition before."""
        specs = self.group_input.share_specs
        previous = specs.previous_topic << PARTITION_BITS | specs.previous_partition
        had_member = np.isin(self.added.partition_keys, previous)
        return np.where(had_member, REASONS.index("under-shared"), REASONS.index("new"))

    def revoked_reasons(self) -> IntArray:
        """Returns the reason of each row of `revoked`."""
        specs, assignment, revoked = self.specs, self.assignment, self.revoked
        topic = self.group_input.share_specs.previous_topic
        is_revoked = (assignment.reason != KEPT) & ~assignment.failed[self.group(topic)]
        is_overshared = assignment.reason[is_revoked] == OVERSHARED
        is_subscribed = specs.subscribes(revoked.member, revoked.topic)
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
        has_input = mask_from_indexes(self.group_input.share_specs.member_group, self.specs.num_groups)
        return has_input & ~self.assignment.failed


# --- metrics ------------------------------------------------------------------------------------------------------


def compute_metrics(changes: ShareAssignmentChanges) -> dict[str, pa.Array]:
    """Returns the metrics of each group of the specs, by name."""
    specs, share_specs = changes.specs, changes.group_input.share_specs
    num_groups, topics, assigned = specs.num_groups, specs.topics, changes.assigned
    assigned_group = changes.group(assigned.topic)
    assignable = share_specs.assignable_topic << PARTITION_BITS | share_specs.assignable_partition
    key = assigned.partition_keys
    index = np.minimum(np.searchsorted(assignable, key), max(len(assignable) - 1, 0))
    is_assignable = assignable[index] == key if len(assignable) else np.zeros(len(key), bool)
    per_partition = np.bincount(index[is_assignable], minlength=len(assignable))
    partition_group = topics.group[share_specs.assignable_topic]
    per_member = np.bincount(assigned.member, minlength=len(specs.members))
    under_shared = per_partition < changes.assignment.desired_sharing[share_specs.assignable_topic]
    groups = {
        "members": specs.members.group,
        "partitions": partition_group,
        "assignments": assigned_group,
        "assigned": changes.group(changes.added.topic),
        "revoked": changes.group(changes.revoked.topic),
        "unassigned": partition_group[per_partition == 0],
        "under_shared": partition_group[under_shared],
        "not_assignable": assigned_group[~is_assignable],
        "members_without_subscription": specs.members.group[~specs.members.has_subscription],
        "unknown_topics": topics.group[topics.is_subscribed & (topics.partitions < 0)],
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
