"""Groups that the sticky assignors of other libraries can plan on slices, many at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_assign.assignors.group_specs import GroupSpecs
from spark_assign.assignors.sticky.constrained import find_unowned
from spark_assign.assignors.sticky.sticky_groups import find_overlapping_topics
from spark_assign.numeric.arrays import BoolArray, IntArray, PartitionSlices


@dataclass(frozen=True)
class UndisputedGroups:
    """Homogeneous groups without conflicting owners.

    The sticky assignors of other libraries work partition by partition. In undisputed groups the result follows from
    counts, so that many groups are planned at once on slices, and only partitions that change their owner are expanded.

    Attributes:
        groups: mask over all groups.
        owned: partitions that members own and that exist.
        load: number of partitions that each member owns. Shape: (num_members,).
        topic, partition: partitions without an owner, sorted by topic and partition.
    """

    groups: BoolArray
    owned: PartitionSlices
    load: IntArray
    topic: IntArray
    partition: IntArray


def find_undisputed(
    specs: GroupSpecs, selected: BoolArray, counted_in: BoolArray, readable: BoolArray | None = None
) -> UndisputedGroups:
    """Finds the undisputed groups among the selected groups.

    Args:
        specs: all groups.
        selected: mask of the selected groups.
        counted_in: mask of the members that take part; other members are ignored.
        readable: mask of the members whose claims the assignor sees; None: all. A group in which another member owns
            partitions is disputed.
    """
    members, topics = specs.members, specs.topics
    known = topics.partitions_to_assign(selected) > 0
    owned = specs.owned.take(counted_in[specs.owned.member] & known[specs.owned.topic]).below(topics.partitions)
    lists = specs.list_subscribers(np.arange(len(members)))
    num_subscribers = np.where(topics.is_subscribed, lists.size[lists.of_topic], 0)
    num_members = np.bincount(members.group[counted_in], minlength=specs.num_groups)
    groups = selected.copy()
    groups[topics.group[topics.is_subscribed & (num_subscribers != num_members[topics.group])]] = False
    groups[topics.group[find_overlapping_topics(owned)]] = False
    if readable is not None:
        groups[members.group[owned.member[~readable[owned.member]]]] = False
    owned = owned.take(groups[members.group[owned.member]])
    load = np.bincount(owned.member, owned.count, len(members)).astype(np.int64)
    unowned = find_unowned(owned, topics.partitions_to_assign(groups)).expand()
    unowned = unowned.take(np.argsort(unowned.partition_keys))
    return UndisputedGroups(groups, owned, load, unowned.topic, unowned.first)
