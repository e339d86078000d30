"""Groups in which nothing is in dispute: members all subscribe to the same topics, and nobody claims what another does.

The sticky assignors of other libraries go partition by partition. In such groups it can be told from counts alone what
comes out: there they are planned on runs, many at once, and only what changes hands is looked at one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_assign.groups.assignors.sticky.constrained import unowned
from spark_assign.groups.assignors.sticky.ownership_conflicts import crossing_topics
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PartitionSlices


@dataclass(frozen=True)
class UndisputedGroups:
    """Some groups of specs.

    Attributes:
        groups: of all groups, which.
        owned: what members own, as far as there are such partitions.
        load: of all members, how many partitions they own.
        topic, partition: what nobody owns, by topic and partition.
    """

    groups: BoolArray
    owned: PartitionSlices
    load: IntArray
    topic: IntArray
    partition: IntArray

    def without(self, others: BoolArray, specs: GroupSpecs) -> UndisputedGroups:
        """The same without some groups."""
        if not (others & self.groups).any():
            return self
        owned = self.owned.take(~others[specs.members.group[self.owned.member]])
        some = ~others[specs.topics.group[self.topic]]
        load = np.where(others[specs.members.group], 0, self.load)
        return UndisputedGroups(self.groups & ~others, owned, load, self.topic[some], self.partition[some])


def find_undisputed(specs: GroupSpecs, chosen: BoolArray, counted_in: BoolArray) -> UndisputedGroups:
    """Those of the chosen groups in which nothing is in dispute.

    Args:
        specs: all groups.
        chosen: of each group, whether it is one of those.
        counted_in: of each member, whether it counts: if not, it is as if it were not there.
    """
    members, topics = specs.members, specs.topics
    known = np.zeros(len(topics), bool)
    known[topics.with_metadata] = chosen[topics.group[topics.with_metadata]]
    claims = specs.owned
    claims = claims.take(counted_in[claims.member] & known[claims.topic])
    fitting = -(-(topics.partitions[claims.topic] - claims.first) // claims.step)
    owned = PartitionSlices(*claims.columns[:4], np.minimum(claims.count, fitting)).take(fitting > 0)
    asked_by = np.bincount(specs.subscriptions % max(len(topics), 1), minlength=len(topics))
    all_members = np.bincount(members.group[counted_in], minlength=specs.num_groups)
    groups = chosen.copy()
    groups[topics.group[topics.is_subscribed & (asked_by != all_members[topics.group])]] = False
    groups[topics.group[crossing_topics(owned)]] = False
    owned = owned.take(groups[members.group[owned.member]])
    load = np.bincount(owned.member, owned.count, len(members)).astype(np.int64)
    partitions = np.where(known & groups[topics.group], topics.partitions, 0)
    topic, partition = unowned(owned, partitions)
    order = np.lexsort((partition, topic))
    return UndisputedGroups(groups, owned, load, topic[order], partition[order])
