"""How a reassignment is split into batches: limits hold, and no batch waits for one broker."""

from __future__ import annotations

import random
from typing import Any

import pytest

from spark_assign.replicas.batch_schedule import Ports
from spark_assign.replicas.kernel.reassignment_batches import split_batches


def changes(rng: random.Random, topics: int, brokers: int, *, known: bool = True) -> list[dict[str, Any]]:
    """One replica of each partition moves."""
    rows = []
    for topic in range(topics):
        size = rng.randint(1, 10**9)
        for partition in range(rng.randint(1, 30)):
            old = rng.sample(range(brokers), 3)
            new = [*old[:2], rng.choice([broker for broker in range(brokers) if broker not in old])]
            size_here = int(size * rng.uniform(0.5, 1.5)) if known or rng.random() < 0.5 else None
            row = {"topic": f"t{topic:03}", "partition": partition, "previous_replicas": old, "replicas": new}
            rows.append(row | {"bytes": size_here, "moved": 1, "rate": 0.0})
    return rows


def seconds(rows: list[dict[str, Any]]) -> float:
    """Time at one byte per second."""
    found, _ = Ports.of_rows(rows, 0.0).seconds(1.0, writes=False)
    assert found is not None
    return found


def test_the_example() -> None:
    """Of four partitions, those with one way go to different batches."""
    ways = ([1, 2], [3, 2]), ([2, 1], [4, 1])
    rows = [
        {"topic": "t", "partition": number, "previous_replicas": old, "replicas": new, "bytes": 100, "moved": 1}
        for number, (old, new) in enumerate(way for way in ways for _ in range(2))
    ]
    batches = list(split_batches(rows, 2, None))
    assert [(size, [row["partition"] for row in batch]) for batch, size in batches] == [(200, [0, 2]), (200, [1, 3])]


@pytest.mark.parametrize("known", [True, False])
def test_limits_hold_in_any_order_of_rows(known: bool, rng: random.Random) -> None:
    """Each partition is in one batch; only a partition above the limit exceeds it, alone."""
    for _ in range(20):
        rows = changes(rng, rng.randint(1, 20), rng.randint(4, 12), known=known)
        partitions, limit = rng.randint(1, 40), rng.choice([None, rng.randint(1, 10**10)])
        batches = list(split_batches(rows, partitions, limit))
        names = [(row["topic"], row["partition"]) for batch, _ in batches for row in batch]
        assert sorted(names) == [(row["topic"], row["partition"]) for row in rows]
        for batch, size in batches:
            assert 0 < len(batch) <= partitions
            assert size == (sum(each) if (each := [r["bytes"] for r in batch if r["bytes"] is not None]) else None)
            if limit is not None and (size or 0) > limit:
                assert len(each) == 1
        assert batches == list(split_batches(rng.sample(rows, len(rows)), partitions, limit))


def test_batches_end_close_to_the_lower_bound(seed: int) -> None:
    """Ten batches take at most 10 % longer than the busiest port alone; batches by name take longer."""
    rows = changes(random.Random(seed), 100, 10)
    partitions = len(rows) // 10 + 1
    bound = seconds(rows)
    assert sum(seconds(batch) for batch, _ in split_batches(rows, partitions, None)) < 1.1 * bound
    by_name = [rows[start : start + partitions] for start in range(0, len(rows), partitions)]
    assert sum(map(seconds, by_name)) > 1.1 * bound
