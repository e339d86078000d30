"""Small random clusters to reassign."""

from __future__ import annotations

import numpy as np

from spark_assign.replicas.kernel.replica_cluster import NO_BROKER, ReplicaCluster


def random_cluster(seed: int) -> ReplicaCluster:
    """Returns up to nine brokers in up to four racks. Brokers can be removed or empty (new), partitions can be new or
    change their replication factor, and replicas are placed at random."""
    draw = np.random.default_rng(seed)
    brokers = int(draw.integers(3, 10))
    rack = draw.integers(0, draw.integers(1, 5), brokers)
    usable = draw.random(brokers) > draw.choice([0.0, 0.2, 0.4])
    usable[draw.integers(0, brokers)] = True
    partitions = int(draw.integers(1, 13))
    once = draw.random(brokers) > 0.2  # the others are new brokers
    once[draw.integers(0, brokers)] = True
    width = min(int(once.sum()), 4)
    current = np.full((partitions, width), NO_BROKER)
    same = int(draw.integers(1, width + 1))
    for row in current:
        replicas = draw.permutation(np.flatnonzero(once))[
            : same if draw.random() < 0.7 else draw.integers(1, width + 1)
        ]
        row[: len(replicas)] = replicas
    if draw.random() < 0.3:
        current[partitions - int(draw.integers(0, partitions)) :] = NO_BROKER
    most = min(int(usable.sum()), 4)
    before = (current != NO_BROKER).sum(axis=1)
    changed = draw.random(partitions) < draw.choice([0.0, 0.3])
    factor = np.where(changed | (before == 0), draw.integers(1, most + 1, partitions), before)
    return ReplicaCluster(rack, usable, current, np.minimum(factor, most), np.ones(partitions, np.int64))
