"""Builds the orders that the broker's assignors depend on (`groups.assignors.server.coordinator_hash_order`) from
`GroupSpecs`.

Where a fleet does not say what an order is made of
    - members stand in the coordinator's table where their ids have them; those that share a place there, by id. In the
      broker the member that comes last, and so makes it decide anew, counts last; and its table may have been larger;
    - topics count by name in place of their ids.
Such an order is a guess. A walk says where: keys with the same `tie` may come in any order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_assign.groups.assignors.server.coordinator_hash_order import (
    TopicIds,
    map_buckets,
    read_topic_ids,
    set_buckets,
    set_order,
    table_slots,
)
from spark_assign.groups.kernel.facts import DUPLICATE_TOPIC, GROUP, SUBSCRIPTION
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.java.hash_map import LONGEST_CHAIN, string_hashes, table_order
from spark_assign.java.key_index import KeyIndex
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PARTITION_BITS, PartitionSlices
from spark_assign.numeric.segmented_arrays import row_numbers, starts_new_key


@dataclass(frozen=True)
class TieOrder:
    """Members or topics in an order.

    Attributes:
        index: who comes at each place.
        tie: of each place a number, ascending; those that share one are next to each other in an unknown order.
    """

    index: IntArray
    tie: IntArray

    def take(self, chosen: BoolArray) -> TieOrder:
        """Some of them."""
        return TieOrder(self.index[chosen], self.tie[chosen])


def coordinator_member_order(specs: GroupSpecs) -> TieOrder:
    """All members, group by group, in the order in which the assignor sees them."""
    told, members = specs.facts, specs.members
    if not len(members):
        return TieOrder(np.empty(0, np.int64), np.empty(0, np.int64))
    none = np.iinfo(np.int32).max
    hashes = string_hashes(specs.member_id.to_pylist())
    position = told.int_column("position", none)[members.row]
    slots = table_slots(hashes, members.group)
    by_slot = np.ones(specs.num_groups, bool)
    by_slot[members.group[position < none]] = False
    by_slot |= find_classic_groups(specs)
    place = np.where(by_slot[members.group], slots, position)
    order = np.lexsort((place, members.group))
    order = order[table_order(hashes[order], order, members.group[order])]
    bucket = map_buckets(hashes, members.group)
    # Of a bucket nothing is known if one of its members has no position, or several have the same.
    group, bucket, place = members.group[order], bucket[order], place[order]
    here = np.cumsum(starts_new_key(group) | starts_new_key(bucket)) - 1
    new = starts_new_key(here)
    if new.all():
        return TieOrder(order, here)
    sorted_places = np.lexsort((place, here))
    twice = np.zeros(len(order), bool)
    twice[sorted_places[1:]] = ~starts_new_key(here[sorted_places])[1:] & (np.diff(place[sorted_places]) == 0)
    unknown = np.bincount(here, twice | (place == none) | by_slot[group]) > 0
    return TieOrder(order, np.cumsum(new | ~unknown[here]) - 1)


def find_classic_groups(specs: GroupSpecs) -> BoolArray:
    """Groups that are known to be classic ones: not in the coordinator's new table, and without a target so far."""
    rows = specs.facts.rows_by_kind[GROUP]
    classic = np.zeros(specs.facts.num_groups, bool)
    kinds = specs.facts.column("group_type", rows).to_pylist()
    classic[specs.facts.group_index[rows]] = [kind == "classic" for kind in kinds]
    return classic[specs.fact_group_index]


@dataclass(frozen=True)
class TopicIdIndex:
    """The ids of a specs' topics.

    Attributes:
        topic_ids: of each topic; in groups of `by_name`, its place by name instead.
        by_name: groups in which the id of a topic is not known.
        rejected: groups in which one is no id.
    """

    topic_ids: TopicIds
    by_name: BoolArray
    rejected: dict[int, tuple[str, str]]


def read_topic_ids_of_specs(specs: GroupSpecs) -> TopicIdIndex:
    """The ids of the specs' topics."""
    topics, told = specs.topics, specs.facts
    texts: list[str | None] = [None] * len(topics)
    if "topic_id" in told.table.column_names:
        rows = np.append(told.rows_by_kind[SUBSCRIPTION], told.rows_by_kind[DUPLICATE_TOPIC])
        rows = rows[told.topic_index[rows] >= 0]
        size = max(len(told.topic_names), 1)
        key, first = np.unique(told.group_index[rows] * size + told.topic_index[rows], return_index=True)
        at = KeyIndex(specs.fact_group_index[topics.group] * size + topics.name).lookup(key)
        for place, text in zip(at.tolist(), told.column("topic_id", rows[first]).to_pylist(), strict=True):
            if place >= 0:
                texts[place] = text
    ids = read_topic_ids(texts)
    refused: dict[int, tuple[str, str]] = {}
    for at in topics.with_metadata[~ids.is_valid[topics.with_metadata]].tolist():
        if texts[at] is not None:
            said = f"topics: topic_id {texts[at]!r} of {specs.topic[at]} is no id. Kafka prints one as 22 characters"
            refused.setdefault(int(topics.group[at]), ("bad-topic-id", said))
    by_name = np.zeros(specs.num_groups, bool)
    by_name[topics.group[topics.with_metadata[~ids.is_valid[topics.with_metadata]]]] = True
    place, nameless = row_numbers(topics.group), by_name[topics.group]
    of = TopicIds(np.where(nameless, place, ids.hash), np.where(nameless, place, ids.rank), ids.is_valid)
    return TopicIdIndex(of, by_name, refused)


def coordinator_topic_order(specs: GroupSpecs, topics: IntArray, ids: TopicIdIndex) -> TieOrder:
    """The same topics in the walk of the hash set of their ids, group by group; names are in a set before.

    Args:
        specs: the groups.
        topics: those with metadata.
        ids: of all topics.
    """
    asked = np.flatnonzero(specs.topics.is_subscribed)
    names, of = string_hashes(specs.facts.topic_names.to_pylist())[specs.topics.name[asked]], specs.topics.group[asked]
    walked = asked[set_order(names, of)]
    bucket_of_name = np.zeros(len(specs.topics), np.int64)
    bucket_of_name[asked] = set_buckets(names, of)
    # Names without metadata have no id, but make the set larger.
    sizes = np.bincount(of, minlength=specs.num_groups)
    has = np.zeros(len(specs.topics), bool)
    has[topics] = True
    inserted = walked[has[walked]]
    group = specs.topics.group[inserted]
    order = set_order(ids.topic_ids.hash[inserted], group, sizes)
    bucket = set_buckets(ids.topic_ids.hash[inserted], group, sizes)[order]
    at, group = inserted[order], group[order]
    here = np.cumsum(starts_new_key(group) | starts_new_key(bucket)) - 1
    # Where Java rebuilds a bucket, the order of names says nothing any more.
    short = np.bincount(here)[here] <= LONGEST_CHAIN if len(here) else np.empty(0, bool)
    new = starts_new_key(here) | (starts_new_key(bucket_of_name[at]) & short)
    return TieOrder(at, np.cumsum(starts_new_key(group) | (new & ~ids.by_name[group])) - 1)


def coordinator_previous_order(
    losing: PartitionSlices, id_hash: IntArray, id_rank: IntArray
) -> tuple[PartitionSlices, IntArray, IntArray]:
    """What members had, each partition for itself, in the walk of their maps and sets.

    Args:
        losing: ascending by member, topic, and partition.
        id_hash, id_rank: of each topic.

    Returns:
        the rows; and of each the tie of its topic, and that of its partition.
    """
    some = losing.expand()
    if not len(some):
        return some, some.topic, some.topic
    # Sets of partitions, filled in ascending order.
    some = some.take(np.lexsort((some.first, some.topic, some.member)))
    new = starts_new_key(some.member << PARTITION_BITS | some.topic)
    of = np.cumsum(new) - 1
    tie = set_buckets(some.first, of)
    order = set_order(some.first, of)
    some, tie = some.take(order), tie[order]
    # Maps of topics, filled from the record. `computeIfAbsent` puts a key before those that its bucket has, so that the
    # record has topics that were new in one assignment backwards. These maps grow as they fill.
    member, topic = some.member[new], some.topic[new]
    number, hashes = np.cumsum(starts_new_key(member)) - 1, id_hash[topic]
    put = np.lexsort((-topic, member))
    at = put[table_order(hashes[put], id_rank[topic][put], number[put])]
    topic_tie = map_buckets(hashes, number)[of]
    place = np.empty(len(at), np.int64)
    place[at] = np.arange(len(at))
    order = np.argsort(place[of], kind="stable")
    return some.take(order), topic_tie[order], tie[order]
