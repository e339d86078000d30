"""What the assignor's answer means for the members of share groups: what each has, is given and loses, and why."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PARTITION_BITS, PartitionSlices, compress_sorted
from spark_assign.share.kernel.pool_assignment import OVER_SHARED, STAYS
from spark_assign.share.kernel.share_group_input import ShareGroupInput
from spark_assign.share.kernel.simple_assignor import ShareAssignment

REASONS = (
    *("member-left", "topic-gone", "unsubscribed", "over-quota", "over-shared"),
    *("new", "under-shared"),
)
"""Of what is taken, and of what is given; the first that fits."""


@dataclass(frozen=True)
class ShareAssignmentChanges:
    """An answer, of the groups in which Kafka gives one. Members and topics are numbers of the specs.

    Attributes:
        specs, listed, answer: the groups, what the assignor was told of them, and what it says.
    """

    specs: GroupSpecs
    listed: ShareGroupInput
    answer: ShareAssignment

    def group(self, topic: IntArray) -> IntArray:
        """Of topics their group."""
        return self.specs.topics.group[topic]

    @cached_property
    def assigned(self) -> PartitionSlices:
        """Who has what, partition by partition."""
        told = self.listed.groups
        stays = self.answer.reason == STAYS
        kept = self._rows(told.member[stays], told.had_topic[stays], told.had[stays])
        return kept.concat(self.given)

    @cached_property
    def given(self) -> PartitionSlices:
        """What members are given."""
        return self._rows(self.answer.member, self.answer.topic, self.answer.partition)

    @cached_property
    def taken(self) -> PartitionSlices:
        """What members lose that are there."""
        told = self.listed.groups
        lost = self.answer.reason != STAYS
        return self._rows(told.member[lost], told.had_topic[lost], told.had[lost])

    def _rows(self, member: IntArray, topic: IntArray, partition: IntArray) -> PartitionSlices:
        fine = ~self.answer.failed[self.group(topic)]
        one = np.ones(int(fine.sum()), np.int64)
        return PartitionSlices(self.listed.members[member[fine]], topic[fine], partition[fine], one, one)

    def runs(self) -> PartitionSlices:
        """Who has what, as runs; one that is empty where a member has a topic without partitions."""
        runs, _ = self.compressed(self.assigned, np.zeros(len(self.assigned), np.int64))
        told, answer = self.listed.groups, self.answer
        member = self.listed.members[np.append(told.member, self.listed.empty_member)]
        topic = np.append(told.had_topic, self.listed.empty_topic)
        left = ~answer.dropped[topic] & ~answer.failed[self.group(topic)]
        size = max(len(self.specs.topics), 1)
        empty = np.setdiff1d((member * size + topic)[left], runs.member * size + runs.topic)
        none, one = np.zeros(len(empty), np.int64), np.ones(len(empty), np.int64)
        return runs.concat(PartitionSlices(empty // size, empty % size, none, one, none))

    def compressed(self, rows: PartitionSlices, reason: IntArray) -> tuple[PartitionSlices, IntArray]:
        """Single partitions as runs, and of each the reason, which all of its partitions share."""
        size = max(len(self.specs.topics), 1)
        key = (rows.member * size + rows.topic) * len(REASONS) + reason
        order = np.lexsort((rows.first, key))
        found, *run = compress_sorted(key[order], rows.first[order])
        pair, why = np.divmod(found, len(REASONS))
        return PartitionSlices(pair // size, pair % size, *run), why

    def why_given(self) -> IntArray:
        """Of each row of `given` its reason: whether anybody had it."""
        told, given = self.listed.groups, self.given
        had = np.isin(given.topic << PARTITION_BITS | given.first, told.had_topic << PARTITION_BITS | told.had)
        return np.where(had, REASONS.index("under-shared"), REASONS.index("new"))

    def why_taken(self) -> IntArray:
        """Of each row of `taken` its reason."""
        specs, answer, told = self.specs, self.answer, self.listed.groups
        lost = answer.reason != STAYS
        shared = answer.reason[lost & ~answer.failed[self.group(told.had_topic)]] == OVER_SHARED
        taken = self.taken
        asked: BoolArray = np.isin(taken.member * max(len(specs.topics), 1) + taken.topic, specs.subscriptions)
        conditions = (specs.topics.partitions[taken.topic] < 0, ~asked, shared)
        names = ("topic-gone", "unsubscribed", "over-shared")
        return np.select(conditions, [REASONS.index(name) for name in names], REASONS.index("over-quota"))

    def left(self) -> PartitionSlices:
        """What members lose that have left; the member is a number of `told.member_id`."""
        left = self.specs.departed_owned
        return left.take(~self.answer.failed[self.group(left.topic)] & self.chosen[self.group(left.topic)])

    @cached_property
    def chosen(self) -> BoolArray:
        """Of each group of the specs whether the assignor was asked and gives an answer."""
        asked = np.zeros(self.specs.num_groups, bool)
        asked[self.listed.groups.group] = True
        return asked & ~self.answer.failed
