"""Spreads the load of an internal topic over brokers by leader moves alone, which copy no data.

The most loaded broker passes a partition to another replica of it, such that the larger load of the two brokers becomes
as small as possible. This repeats until the most loaded broker can't pass on a partition without loading the other one
as much. Ties go to the lowest broker ID, then partition.

Example: loads 5, 4, and 1 on partitions [1, 2], [1, 2], and [2, 1]. Broker 1 has 9, broker 2 has 1. The partition with
load 4 moves to broker 2: both have 5.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import pyarrow as pa

from spark_assign.numeric.arrays import values_by_key

MAX_TRIALS = 10_000_000
"""Number of brokers and moves that are compared for a topic, in seconds. More partitions get the moves up to then, each
of which lowers the larger load of two brokers."""


def spread_leaders(replicas: Sequence[Sequence[int]], loads: Sequence[float]) -> list[int]:
    """Returns the leader of each partition.

    Args:
        replicas: broker IDs of each partition, the current leader first.
        loads: load of each partition.
    """
    leader = [brokers[0] for brokers in replicas]
    load_of = dict.fromkeys(sorted({broker for brokers in replicas for broker in brokers}), 0.0)
    led: dict[int, set[int]] = defaultdict(set)
    for partition, (broker, load) in enumerate(zip(leader, loads, strict=True)):
        load_of[broker] += load
        led[broker].add(partition)
    num_trials = 0
    while load_of and num_trials < MAX_TRIALS:
        source = min(load_of, key=lambda broker: (-load_of[broker], broker))
        trials = [
            (max(load_of[source] - loads[partition], load_of[broker] + loads[partition]), broker, partition)
            for partition in led[source]
            for broker in replicas[partition]
            if broker != source
        ]
        num_trials += len(load_of) + len(trials)
        load, broker, partition = min(trials, default=(load_of[source], source, 0))
        if load >= load_of[source]:
            break
        leader[partition] = broker
        load_of[source] -= loads[partition]
        load_of[broker] += loads[partition]
        led[source].remove(partition)
        led[broker].add(partition)
    return leader


def leader_moves(facts: pa.Table, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yields the leader moves of each topic (`tables.replicas.LEADER_MOVES`).

    Args:
        facts: cluster, topic, partition, replicas, leader_id (the current one), load.
        schema: schema of the result.
    """
    in_order = facts.sort_by([(name, "ascending") for name in ("cluster", "topic", "partition")]).to_pylist()
    for rows in values_by_key(((row["cluster"], row["topic"]), row) for row in in_order).values():
        replicas = [_leader_first(row["replicas"], row["leader_id"]) for row in rows]
        leaders = spread_leaders(replicas, [row["load"] for row in rows])
        moved = [
            row
            | {"from_broker_id": brokers[0], "to_broker_id": leader, "previous_replicas": row["replicas"]}
            | {"replicas": _leader_first(row["replicas"], leader)}
            for row, brokers, leader in zip(rows, replicas, leaders, strict=True)
            if leader != brokers[0]
        ]
        yield pa.Table.from_pylist(moved, schema)


def _leader_first(brokers: list[int], leader: int) -> list[int]:
    return [leader, *(broker for broker in brokers if broker != leader)]
