"""Where partitions lie, and what is read of them a day: those of all groups, one after the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_assign.groups.kernel.facts import REPLICA_RACKS
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.java.key_index import KeyIndex, to_int_array
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PartitionSlices

SECONDS_A_DAY = 86_400
MOST = 10**18
"""More bytes a day than this (an exabyte) no group reads; up to here sums are exact whole numbers."""


@dataclass(frozen=True)
class PartitionRacks:
    """Partitions of topics, numbered topic by topic; racks by their names' places in `GroupSpecs.racks`.

    Attributes:
        begin: of each topic the number of its partition 0, and the end.
        leader: of each partition the rack of its preferred leader; -1 where that is not known.
        near: `near[set, rack]`, whether a rack is in a set of racks.
        replicas: of each partition the set of racks in which it has a replica; 0: none is known.
        read: of each partition the bytes that a group which has it reads a day; -1 where that is not known.
    """

    begin: IntArray
    leader: IntArray
    near: BoolArray
    replicas: IntArray
    read: IntArray

    def numbered(self, runs: PartitionSlices) -> tuple[IntArray, IntArray]:
        """Of each partition in these runs that there is: the member, and its number."""
        rows = runs.expand()
        place = self.begin[rows.topic] + rows.first
        there = (rows.first >= 0) & (place < self.begin[rows.topic + 1])
        return rows.member[there], place[there]


def survey(specs: GroupSpecs) -> PartitionRacks:
    """Where the partitions of all groups lie; the facts have the racks of preferred leaders, and loads."""
    partitions = np.maximum(specs.topics.partitions, 0)
    begin = np.append(0, np.cumsum(partitions))
    replicas = np.zeros(int(begin[-1]), np.int64)
    for topic, sets in specs.rack_set.items():
        replicas[begin[topic] : begin[topic] + len(sets)] = sets
    near = np.array([[rack in each for rack in range(len(specs.racks))] for each in specs.rack_sets], bool)
    rate = specs.loads.bytes
    known = np.isfinite(rate) & (rate >= 0)
    a_day = np.rint(np.minimum(np.where(known, rate, 0) * SECONDS_A_DAY, MOST)).astype(np.int64)
    near = near.reshape(len(specs.rack_sets), len(specs.racks))
    return PartitionRacks(begin, _leaders(specs, begin), near, replicas, np.where(known, a_day, -1))


def _leaders(specs: GroupSpecs, begin: IntArray) -> IntArray:
    """Of each partition the rack of its preferred leader."""
    told, topics = specs.facts, specs.topics
    leader = np.full(int(begin[-1]), -1, np.int64)
    number = np.full(told.num_groups, -1, np.int64)
    number[specs.fact_group_index] = np.arange(specs.num_groups)
    size = max(len(told.topic_names), 1)
    rows = told.rows_by_kind[REPLICA_RACKS]
    rows = rows[number[told.group_index[rows]] >= 0]
    topic = KeyIndex(topics.group * size + topics.name).lookup(
        number[told.group_index[rows]] * size + told.topic_index[rows]
    )
    rows, topic = rows[topic >= 0], topic[topic >= 0]
    at, racks = told.column("at", rows), told.column("leader_racks", rows)
    if not len(racks.flatten()):
        return leader
    of = np.repeat(topic, to_int_array(at.value_lengths(), 0))
    partition = to_int_array(at.flatten(), -1)
    coded = racks.flatten().dictionary_encode()
    known = {name: rack for rack, name in enumerate(specs.racks)}
    rack = np.array([known.get(name, -1) for name in coded.dictionary.to_pylist()] + [-1], np.int64)
    rack = rack[to_int_array(coded.indices, -1)]
    there = (partition >= 0) & (partition < topics.partitions[of])
    leader[begin[of[there]] + partition[there]] = rack[there]
    return leader
