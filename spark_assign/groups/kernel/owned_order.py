"""In which order members have what they own, where a fleet says so (`owned.position`)."""

from __future__ import annotations

import numpy as np

from spark_assign.groups.kernel.facts import OWNED_ORDER
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.java.key_index import Places
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import EMPTY_SLICES, PartitionSlices


def read_owned_order(specs: GroupSpecs) -> PartitionSlices:
    """Single partitions as members tell that they own them, where facts say in which order."""
    if specs.owned_order is not None:
        return specs.owned_order
    told, members, topics = specs.facts, specs.members, specs.topics
    number = np.full(told.num_groups, -1, np.int64)
    number[specs.fact_group_index] = np.arange(specs.num_groups)
    rows = told.rows_by_kind[OWNED_ORDER][number[told.group_index[told.rows_by_kind[OWNED_ORDER]]] >= 0]
    if not len(rows):
        return EMPTY_SLICES
    rows = rows[np.lexsort((told.int_column("position")[rows], told.member_index[rows], told.group_index[rows]))]
    ids, names = max(len(told.member_id), 1), max(len(told.topic_names), 1)
    group = number[told.group_index[rows]]
    member = Places(members.group * ids + told.member_index[members.row]).of(group * ids + told.member_index[rows])
    topic = Places(topics.group * names + topics.name).of(group * names + told.topic_index[rows])
    at = told.column("at", rows)
    partition = np.asarray(at.flatten().to_numpy(zero_copy_only=False), np.int64)
    row = np.repeat(np.arange(len(rows)), np.asarray(at.value_lengths().to_numpy(zero_copy_only=False), np.int64))
    one = np.ones(len(row), np.int64)
    every = PartitionSlices(member[row], topic[row], partition, one, one)
    return every.take((every.member >= 0) & (every.topic >= 0))


def in_owned_order(owned: PartitionSlices, told: PartitionSlices) -> tuple[IntArray, BoolArray]:
    """Single partitions in the order in which their members tell them, as far as they do.

    Args:
        owned: single partitions in some other order.
        told: as `read_owned_order` has them, in the same numbers of members and topics.

    Returns:
        the places of `owned` in the new order; and of each, in the old one, whether its member tells all it has here.
    """
    every = np.arange(len(owned))
    if not len(told) or not len(owned):
        return every, np.zeros(len(owned), bool)
    size = int(max(owned.member.max(), told.member.max())) + 1
    keys = Places(told.partition_keys)
    one, other = keys.of(told.partition_keys) * size + told.member, keys.of(owned.partition_keys) * size + owned.member
    order = np.argsort(one, kind="stable")
    at = np.minimum(np.searchsorted(one[order], other), len(one) - 1)
    place = np.where(one[order][at] == other, order[at], -1)
    silent = np.zeros(size, bool)
    silent[owned.member[place < 0]] = True
    known = ~silent[owned.member]
    return np.lexsort((np.where(known, place, every), owned.member)), known
