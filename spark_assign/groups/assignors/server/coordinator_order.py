"""Builds the orders that the broker's assignors depend on (`groups.assignors.server.coordinator_hash_order`).

If a fleet lacks the input of an order, the order is a guess:
    - Members are in the slots of the coordinator's hash table that their ids determine; members with the same slot are
      ordered by id. In the broker, the member that joins last, and so triggers the assignment, comes last, and the
      table might have been larger.
    - Topics are ordered by name instead of by id.
A `TieOrder` marks guesses: keys with the same `tie` can be in any order.
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
from spark_assign.groups.kernel.facts import LISTED_TOPIC, SUBSCRIPTION
from spark_assign.groups.kernel.group_specs import UNKNOWN_POSITION, GroupSpecs
from spark_assign.java.hash_map import LONGEST_CHAIN, table_order
from spark_assign.java.key_index import KeyIndex
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import (
    PARTITION_BITS,
    PartitionSlices,
    invert,
    mask_from_indexes,
    member_partition_keys,
    positions_in,
)
from spark_assign.numeric.segmented_arrays import row_numbers, starts_new_key


@dataclass(frozen=True)
class TieOrder:
    """An order of members or topics.

    Attributes:
        index: member or topic index at each position.
        tie: ascending numbers; adjacent positions with the same number are in an unknown order.
    """

    index: IntArray
    tie: IntArray

    def take(self, mask: BoolArray) -> TieOrder:
        """Returns the positions that the mask selects."""
        return TieOrder(self.index[mask], self.tie[mask])


def coordinator_member_order(specs: GroupSpecs) -> TieOrder:
    """Returns all members, by group, in the order in which the assignor sees them."""
    members = specs.members
    if not len(members):
        return TieOrder(np.empty(0, np.int64), np.empty(0, np.int64))
    hashes, position = specs.member_hash, specs.list_position
    slots = table_slots(hashes, members.group)
    has_positions = mask_from_indexes(members.group[position < UNKNOWN_POSITION], specs.num_groups)
    by_slot = ~has_positions | find_classic_groups(specs)
    slot = np.where(by_slot[members.group], slots, position)
    order = np.lexsort((slot, members.group))
    order = order[table_order(hashes[order], order, members.group[order])]
    bucket = map_buckets(hashes, members.group)
    # The order within a bucket is unknown if a member has no position, or several have the same.
    group, bucket, slot = members.group[order], bucket[order], slot[order]
    bucket_index = np.cumsum(starts_new_key(group, bucket)) - 1
    starts_bucket = starts_new_key(bucket_index)
    if starts_bucket.all():
        return TieOrder(order, bucket_index)
    sorted_places = np.lexsort((slot, bucket_index))
    is_duplicate = np.zeros(len(order), bool)
    is_duplicate[sorted_places] = ~starts_new_key(bucket_index[sorted_places], slot[sorted_places])
    is_unknown = np.bincount(bucket_index, is_duplicate | (slot == UNKNOWN_POSITION) | by_slot[group]) > 0
    return TieOrder(order, np.cumsum(starts_bucket | ~is_unknown[bucket_index]) - 1)


def find_classic_groups(specs: GroupSpecs) -> BoolArray:
    """Returns the mask of the groups that are known to be classic: not in the new coordinator table, and without a
    target."""
    return np.array([kind == "classic" for kind in specs.group_values("group_type")], bool)


@dataclass(frozen=True)
class TopicIdIndex(TopicIds):
    """Ids of the topics of specs. In groups of `by_name`, hash and rank are the position by name.

    Attributes:
        by_name: mask of the groups in which a topic id is unknown.
        rejected: code and detail by group index, for groups with an invalid id.
    """

    by_name: BoolArray
    rejected: dict[int, tuple[str, str]]


def read_topic_ids_of_specs(specs: GroupSpecs) -> TopicIdIndex:
    """Reads the ids of the topics of the specs."""
    topics, facts = specs.topics, specs.facts
    id_texts: list[str | None] = [None] * len(topics)
    if "topic_id" in facts.table.column_names:
        rows = np.append(facts.rows_by_kind[SUBSCRIPTION], facts.rows_by_kind[LISTED_TOPIC])
        rows = rows[facts.topic_index[rows] >= 0]
        size = max(len(facts.topic_names), 1)
        key, first = np.unique(facts.group_index[rows] * size + facts.topic_index[rows], return_index=True)
        topic = KeyIndex(specs.fact_group_index[topics.group] * size + topics.name).lookup(key)
        for topic_position, text in zip(topic.tolist(), facts.column("topic_id", rows[first]).to_pylist(), strict=True):
            if topic_position >= 0:
                id_texts[topic_position] = text
    ids = read_topic_ids(id_texts)
    rejected: dict[int, tuple[str, str]] = {}
    nameless_topics = topics.with_metadata[~ids.is_valid[topics.with_metadata]]
    for topic in nameless_topics.tolist():
        if id_texts[topic] is not None:
            detail = (
                f"topics: topic_id {id_texts[topic]!r} of {specs.topic[topic]} is no id. "
                "Kafka prints one as 22 characters"
            )
            rejected.setdefault(int(topics.group[topic]), ("bad-topic-id", detail))
    by_name = mask_from_indexes(topics.group[nameless_topics], specs.num_groups)
    topic_position, nameless = row_numbers(topics.group), by_name[topics.group]
    hashes, ranks = (np.where(nameless, topic_position, values) for values in (ids.hash, ids.rank))
    return TopicIdIndex(hashes, ranks, ids.is_valid, by_name, rejected)


def coordinator_topic_order(specs: GroupSpecs, topics: IntArray, ids: TopicIdIndex) -> TieOrder:
    """Returns topics, by group, in the iteration order of the hash set of their ids, which is filled from a set of
    names.

    Args:
        specs: the groups.
        topics: indexes of the topics with metadata.
        ids: ids of all topics.
    """
    subscribed = np.flatnonzero(specs.topics.is_subscribed)
    name_hash, group_of_name = specs.topic_hash[subscribed], specs.topics.group[subscribed]
    by_name_set = subscribed[set_order(name_hash, subscribed, group_of_name)]
    bucket_of_name = np.zeros(len(specs.topics), np.int64)
    bucket_of_name[subscribed] = set_buckets(name_hash, group_of_name)
    # Names without metadata have no id, but increase the size of the set.
    sizes = np.bincount(group_of_name, minlength=specs.num_groups)
    is_selected = mask_from_indexes(topics, len(specs.topics))
    inserted = by_name_set[is_selected[by_name_set]]
    group = specs.topics.group[inserted]
    order = set_order(ids.hash[inserted], ids.rank[inserted], group, sizes)
    bucket = set_buckets(ids.hash[inserted], group, sizes)[order]
    ordered, group = inserted[order], group[order]
    bucket_index = np.cumsum(starts_new_key(group, bucket)) - 1
    # If Java treeifies a bucket, the order of names has no effect.
    short = np.bincount(bucket_index)[bucket_index] <= LONGEST_CHAIN if len(bucket_index) else np.empty(0, bool)
    starts_bucket = starts_new_key(bucket_index) | (starts_new_key(bucket_of_name[ordered]) & short)
    return TieOrder(ordered, np.cumsum(starts_new_key(group) | (starts_bucket & ~ids.by_name[group])) - 1)


def coordinator_previous_order(
    losing: PartitionSlices, id_hash: IntArray, id_rank: IntArray
) -> tuple[PartitionSlices, IntArray, IntArray]:
    """Returns previously owned partitions, one per row, in the iteration order of the members' maps and sets.

    Args:
        losing: slices sorted by member, topic, and partition.
        id_hash, id_rank: hash and rank of each topic id.

    Returns:
        the rows; the tie of each row's topic; the tie of each row's partition.
    """
    rows = losing.expand()
    if not len(rows):
        return rows, rows.topic, rows.topic
    # Sets of partitions, filled in ascending order.
    rows = rows.take(np.lexsort((rows.first, rows.topic, rows.member)))
    starts_set = starts_new_key(rows.member << PARTITION_BITS | rows.topic)
    set_index = np.cumsum(starts_set) - 1
    tie = set_buckets(rows.first, set_index)
    order = set_order(rows.first, rows.first, set_index)
    rows, tie = rows.take(order), tie[order]
    # Maps of topics, filled from the record. `computeIfAbsent` inserts a key before the keys of its bucket, so that the
    # record has the new topics of one assignment in reverse order. These maps grow as they fill.
    member, topic = rows.member[starts_set], rows.topic[starts_set]
    member_number, hashes = np.cumsum(starts_new_key(member)) - 1, id_hash[topic]
    insertion = np.lexsort((-topic, member))
    map_order = insertion[table_order(hashes[insertion], id_rank[topic][insertion], member_number[insertion])]
    topic_tie = map_buckets(hashes, member_number)[set_index]
    position = invert(map_order, len(map_order))
    order = np.argsort(position[set_index], kind="stable")
    return rows.take(order), topic_tie[order], tie[order]


def in_owned_order(owned: PartitionSlices, ordered: PartitionSlices) -> tuple[IntArray, BoolArray]:
    """Sorts single partitions by the order in which their members report them.

    Args:
        owned: single partitions in any order.
        ordered: the reported order, with the same member and topic indexes.

    Returns:
        the sort order of `owned`; and for each row of `owned`, whether its member reports all of its rows.
    """
    indexes = np.arange(len(owned))
    if not len(ordered) or not len(owned):
        return indexes, np.zeros(len(owned), bool)
    position = positions_in(*member_partition_keys(ordered, owned))
    is_incomplete = mask_from_indexes(owned.member[position == len(ordered)], int(owned.member.max()) + 1)
    is_ordered = ~is_incomplete[owned.member]
    return np.lexsort((np.where(is_ordered, position, indexes), owned.member)), is_ordered
