"""Kafka's `AdminUtils.assignReplicasToBrokers`: the placement of ZooKeeper's time, and of its tools.

Principles
    1. The first replica goes round the list of brokers, partition after partition.
    2. The followers stand behind it at a distance that grows by one (the shift) with every round over the list.
    3. Where brokers have racks, the list takes one broker of each rack in turn, and a follower skips the racks that
       have a replica while another has none.

Example: racks rack1 {0, 5}, rack2 {3, 4}, rack3 {1, 2} give the list 0 3 1 5 4 2. From start index 0, three replicas:
    p0: 0 3 1   p1: 3 1 5   p2: 1 5 4   p3: 5 4 2   p4: 4 2 0   p5: 2 0 3   p6: 0 4 2 (the second round, shift 1)

Every partition is independent of the others, given its shift. All racks must be known, or none.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from spark_assign.numeric.array_types import IntArray
from spark_assign.replicas.kernel.broker_list import (
    ADMIN_OPERATION,
    INVALID_PARTITIONS,
    INVALID_REPLICATION_FACTOR,
    BrokerList,
    PlacementError,
    java_order,
)

_LARGEST_TABLE = 1_000_000
"""Replicas in a table of all placements that is worth keeping: 100 brokers and 3 replicas need 29,700."""


def refuse(partitions: int, replication_factor: int, brokers: int, racked: int) -> PlacementError | None:
    """What the class throws, in its order of checks: of a request, the brokers and how many of them have a rack."""
    if partitions <= 0:
        return PlacementError(INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    if replication_factor <= 0:
        return PlacementError(INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
    if replication_factor > brokers:
        message = f"Replication factor: {replication_factor} larger than available brokers: {brokers}."
        return PlacementError(INVALID_REPLICATION_FACTOR, message)
    if 0 < racked < brokers:
        message = "Not all brokers have rack information for replica rack aware assignment."
        return PlacementError(ADMIN_OPERATION, message)
    return None


def rack_alternated(layout: BrokerList) -> list[int]:
    """Positions in the layout: racks in string order, brokers by id in each, one of every rack in turn."""
    of_rack: dict[str | None, list[int]] = {}
    for at in sorted(range(len(layout.ids)), key=lambda at: layout.ids[at]):
        of_rack.setdefault(layout.racks[at], []).append(at)
    turns = [(turn, *java_order(rack), at) for rack, ats in of_rack.items() for turn, at in enumerate(ats)]
    return [at for *_, at in sorted(turns)]


def shift_base(shift: int, start_partition: int, brokers: int) -> int:
    """The shift at partition p is this + p // brokers, where `shift` is the initial one of a call.

    It grows at every partition above 0 that is a multiple of the number of brokers, also at the first of the call.
    """
    return shift - (max(start_partition, 1) - 1) // brokers


def place(layout: BrokerList, replication_factor: int, start_index: int, base: int, first: int, count: int) -> IntArray:
    """Broker ids of partitions `first`, `first` + 1, …: an array of count rows and replication_factor columns.

    Args:
        layout: one that `refuse` does not object to.
        replication_factor: as many columns.
        start_index: the index of partition 0's first replica.
        base: see `shift_base`.
        first, count: which partitions of the call.
    """
    partition = np.arange(first, first + count)
    brokers = len(layout.ids)
    leader = (partition + start_index) % brokers
    shift = base + partition // brokers
    if not layout.racked:
        return _unaware(np.array(layout.ids), replication_factor, leader, shift)
    racks = len(set(layout.racks))
    behind = shift * racks % max(brokers - 1, 1)
    all_placements = brokers * max(brokers - 1, 1)
    if count * 4 >= all_placements and all_placements * replication_factor <= _LARGEST_TABLE:
        table: IntArray = _table(layout, replication_factor)[behind, leader]
        return table
    return _aware(layout, replication_factor, leader, behind)


def _unaware(ids: IntArray, replication_factor: int, leader: IntArray, shift: IntArray) -> IntArray:
    """Without racks: every follower in closed form."""
    brokers = len(ids)
    column = np.arange(replication_factor - 1)
    followers = 1 + (shift[:, None] + column) % max(brokers - 1, 1)
    placed: IntArray = ids[np.concatenate([leader[:, None], (leader[:, None] + followers) % brokers], axis=1)]
    return placed


@lru_cache(maxsize=16)
def _table(layout: BrokerList, replication_factor: int) -> IntArray:
    """All placements there are, by how far the followers are behind and by the place of the first replica."""
    brokers = len(layout.ids)
    behind, leader = np.divmod(np.arange(max(brokers - 1, 1) * brokers), brokers)
    return _aware(layout, replication_factor, leader, behind).reshape(-1, brokers, replication_factor)


def _aware(layout: BrokerList, replication_factor: int, leader: IntArray, behind: IntArray) -> IntArray:
    """With racks: candidate after candidate, all partitions at once, until each has its replicas."""
    line = rack_alternated(layout)
    brokers = len(line)
    rack_numbers = {rack: number for number, rack in enumerate(dict.fromkeys(layout.racks))}
    rack_of = np.array([rack_numbers[layout.racks[at]] for at in line])
    racks = len(rack_numbers)
    chosen = np.empty((len(leader), replication_factor), np.int64)
    chosen[:, 0] = leader
    has_broker = np.zeros((len(leader), brokers), bool)
    has_rack = np.zeros((len(leader), racks), bool)
    all_partitions = np.arange(len(leader))
    has_broker[all_partitions, leader] = True
    has_rack[all_partitions, rack_of[leader]] = True
    placed = np.ones(len(leader), np.int64)
    going = all_partitions if replication_factor > 1 else all_partitions[:0]
    candidate_number = 0
    while len(going):
        candidate = (leader[going] + 1 + (behind[going] + candidate_number) % (brokers - 1)) % brokers
        rack = rack_of[candidate]
        complete = np.minimum(placed[going], racks) == racks
        fits = (~has_rack[going, rack] | complete) & ~has_broker[going, candidate]
        taking, candidate, rack = going[fits], candidate[fits], rack[fits]
        chosen[taking, placed[taking]] = candidate
        has_broker[taking, candidate] = True
        has_rack[taking, rack] = True
        placed[taking] += 1
        going = going[placed[going] < replication_factor]
        candidate_number += 1
    ids: IntArray = np.array(layout.ids)[np.array(line)][chosen]
    return ids
