"""Some members of specs as specs of their own: groups as they are while one of them is away, or has a new id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from spark_assign.groups.assignors.sticky.sticky_groups import member_hash_orders
from spark_assign.groups.kernel.facts import IndexedFacts
from spark_assign.groups.kernel.group_specs import GroupSpecs, MemberColumns, subscriber_classes
from spark_assign.groups.kernel.topic_columns import TopicColumns
from spark_assign.java.hash_map import string_hashes
from spark_assign.java.key_index import NameIndex
from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.partition_slices import PartitionSlices
from spark_assign.numeric.segmented_arrays import row_numbers


@dataclass(frozen=True)
class GroupSubset:
    """A part of specs.

    Attributes:
        specs: the part, numbered anew. Nobody owns anything in it but for the claims it was made with.
        groups, members, topics: of each of its groups, members and topics the number in the whole.
    """

    specs: GroupSpecs
    groups: IntArray
    members: IntArray
    topics: IntArray

    def outward(self, runs: PartitionSlices) -> PartitionSlices:
        """Runs of the part, in numbers of the whole."""
        return PartitionSlices(self.members[runs.member], self.topics[runs.topic], *runs.columns[2:])


def part_of(
    specs: GroupSpecs, members: IntArray, ids: Sequence[str], claims: PartitionSlices, left: PartitionSlices
) -> GroupSubset:
    """These members, with their groups and all topics of those.

    Args:
        specs: the whole.
        members: their numbers.
        ids: of each member of the whole the id that it has now.
        claims: who owns what now, in numbers of the whole.
        left: what members that are away owned, likewise.
    """
    texts = pa.array([ids[number] for number in members.tolist()], pa.string())
    names = NameIndex(texts)
    order = np.lexsort((names.columns[0], specs.members.group[members]))
    members, texts, rank = members[order], texts.take(pa.array(order)), names.columns[0][order]
    groups = np.unique(specs.members.group[members])
    topics = np.flatnonzero(np.isin(specs.topics.group, groups))
    group, member, topic = (
        _numbers(some, size)
        for some, size in ((groups, specs.num_groups), (members, len(specs.members)), (topics, len(specs.topics)))
    )
    owner, wanted = np.divmod(specs.subscriptions, max(len(specs.topics), 1))
    stays = member[owner] >= 0
    pairs = member[owner[stays]] * max(len(topics), 1) + topic[wanted[stays]]
    by_pair = np.argsort(pairs)
    pairs, rows = pairs[by_pair], specs.subscription_rows[stays][by_pair]
    told = _told(specs, members, groups, texts)
    here = _members(specs, told.member_index, members, group, texts, rank)
    some = _topics(specs, topics, group, pairs)
    subscribers, classes = subscriber_classes(
        pairs // max(len(topics), 1), pairs % max(len(topics), 1), len(topics), some.group, here
    )
    mine, gone = claims.take(member[claims.member] >= 0), left.take(topic[left.topic] >= 0)
    made = GroupSpecs(
        facts=told,
        fact_group_index=specs.fact_group_index[groups],
        members=replace(here, has_subscription=np.bincount(pairs // max(len(topics), 1), minlength=len(members)) > 0),
        topics=replace(some, subscriber_set=subscribers),
        subscriber_sets=classes,
        owned=PartitionSlices(member[mine.member], topic[mine.topic], *mine.columns[2:]),
        departed_owned=PartitionSlices(gone.member, topic[gone.topic], *gone.columns[2:]),
        subscriptions=pairs,
        subscription_rows=rows,
        racks=specs.racks,
        rack_sets=specs.rack_sets,
        rack_set={int(topic[at]): sets for at, sets in specs.rack_set.items() if topic[at] >= 0},
    )
    return GroupSubset(made, groups, members, topics)


def _numbers(some: IntArray, size: int) -> IntArray:
    """Of each number of the whole the one in the part; -1 where it is not in it."""
    numbers = np.full(size, -1, np.int64)
    numbers[some] = np.arange(len(some))
    return numbers


def _told(specs: GroupSpecs, members: IntArray, groups: IntArray, texts: pa.Array) -> IndexedFacts:
    """The same facts, in which these members have these ids; of other groups there are none."""
    told = specs.facts
    mine = np.zeros(told.num_groups, bool)
    mine[specs.fact_group_index[groups]] = True
    member = told.member_index.copy()
    member[specs.members.row[members]] = len(told.member_id) + np.arange(len(members))
    return replace(
        told,
        rows_by_kind={kind: rows[mine[told.group_index[rows]]] for kind, rows in told.rows_by_kind.items()},
        member_index=member,
        member_id=pa.concat_arrays([told.member_id, texts]),
    )


def _members(
    specs: GroupSpecs, named: IntArray, members: IntArray, number: IntArray, texts: pa.Array, rank: IntArray
) -> MemberColumns:
    whole, told = specs.members, specs.facts
    group, rows = number[whole.group[members]], whole.row[members]
    instance = NameIndex(told.column("group_instance_id", rows)).columns[0]
    order = np.lexsort((rank, instance, instance < 0, group))
    served = np.empty(len(members), np.int64)
    served[order] = row_numbers(group[order])
    position = told.int_column("position", np.iinfo(np.int32).max)[rows]
    hashes = string_hashes(texts.to_pylist()) if len(texts) else np.empty(0, np.int64)
    walk, treeified = member_hash_orders(hashes, named[rows], group, np.lexsort((position, group)))
    return MemberColumns(
        group=group,
        row=rows,
        assignment_order=served,
        hash_order=walk,
        treeified=treeified,
        generation=whole.generation[members],
        user_data_generation=whole.user_data_generation[members],
        has_user_data=whole.has_user_data[members],
        rack=whole.rack[members],
        has_subscription=whole.has_subscription[members],
    )


def _topics(specs: GroupSpecs, topics: IntArray, number: IntArray, pairs: IntArray) -> TopicColumns:
    whole = specs.topics
    asked = np.zeros(len(topics), bool)
    asked[pairs % max(len(topics), 1)] = True
    return TopicColumns(
        number[whole.group[topics]], whole.name[topics], whole.partitions[topics], asked, whole.subscriber_set[topics]
    )
