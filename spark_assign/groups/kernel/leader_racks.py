"""The racks of the brokers that lead partitions, from the facts of groups."""

from __future__ import annotations

import numpy as np

from spark_assign.groups.kernel.facts import REPLICA_RACKS
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.java.key_index import to_int_array
from spark_assign.numeric.array_types import IntArray


def read_leader_racks(specs: GroupSpecs, start: IntArray) -> IntArray:
    """Returns the rack of the leader of each partition, as an index into `specs.racks`; -1 if unknown.

    Args:
        specs: all groups.
        start: index of partition 0 of each topic, and the total at the end.
    """
    facts, topics = specs.facts, specs.topics
    leader = np.full(int(start[-1]), -1, np.int64)
    rows, topic = topics.find_rows(facts, REPLICA_RACKS, specs.fact_group_index)
    partitions_at, racks = facts.column("at", rows), facts.column("leader_racks", rows)
    topic = np.repeat(topic, to_int_array(partitions_at.value_lengths(), 0))
    partition = to_int_array(partitions_at.flatten(), -1)
    coded = racks.flatten().dictionary_encode()
    if len(coded) != len(partition):  # the facts are without leaders
        return leader
    known = {name: rack for rack, name in enumerate(specs.racks)}
    rack = np.array([known.get(name, -1) for name in coded.dictionary.to_pylist()] + [-1], np.int64)
    rack = rack[to_int_array(coded.indices, -1)]
    exists = (partition >= 0) & (partition < topics.partitions[topic])
    leader[start[topic[exists]] + partition[exists]] = rack[exists]
    return leader


def groups_with_leaders(specs: GroupSpecs) -> IntArray:
    """Returns the groups (with duplicates) that have the racks of leaders in their facts."""
    rows, topic = specs.topics.find_rows(specs.facts, REPLICA_RACKS, specs.fact_group_index)
    lengths = to_int_array(specs.facts.column("leader_racks", rows).value_lengths(), 0)
    return specs.topics.group[topic[lengths > 0]]
