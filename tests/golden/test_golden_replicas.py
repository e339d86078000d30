"""The placement kernels reproduce every recorded row of Kafka's classes, including errors, without Spark."""

from __future__ import annotations

import numpy as np

from spark_assign.java.random import JavaRandom, draw_pairs
from spark_assign.replicas.kernel import admin_utils
from spark_assign.replicas.kernel import striped_replica_placer as striped
from tests.golden.replica_rows import RecordedDraws, expected, layout_of, recorded
from tests.golden.vectors import Row


def _by_admin_utils(row: Row) -> dict[int, list[int]] | tuple[str, str]:
    layout = layout_of(row)
    brokers, replication_factor = len(layout.ids), row["replication_factor"]
    refused = admin_utils.find_error(row["partitions"], replication_factor, brokers, layout.num_racked)
    if refused is not None:
        return refused.code, refused.message
    start = shift = row["fixed_start_index"]
    if start < 0:
        starts, shifts = draw_pairs(np.array([row["seed"]]), np.array([brokers]))
        start, shift = int(starts[0]), int(shifts[0])
        assert [start, shift] == row["random_ints"]
    first = max(0, row["start_partition_id"])
    base = admin_utils.shift_base(shift, first, brokers)
    placed = admin_utils.assign_replicas_to_brokers(layout, replication_factor, start, base, first, row["partitions"])
    return {first + at: replicas for at, replicas in enumerate(placed.tolist())}


def _by_striped(row: Row) -> dict[int, list[int]] | tuple[str, str]:
    layout = layout_of(row)
    refused = striped.find_error(row["replication_factor"], len(layout.ids), layout.num_unfenced)
    if refused is not None:
        return refused.code, refused.message
    assert striped.rack_order(layout.racks) == row["rack_order"]
    random = RecordedDraws(row) if row["seed"] is None else JavaRandom(row["seed"])
    placed = striped.place(layout, row["replication_factor"], random)
    return {partition: next(placed) for partition in range(row["partitions"])}


def test_admin_utils() -> None:
    """`AdminUtils.assignReplicasToBrokers`: 911 rows."""
    rows = recorded("adminutils")
    assert len(rows) == 911
    assert [row["case"] for row in rows if _by_admin_utils(row) != expected(row)] == []


def test_admin_utils_in_parts() -> None:
    """Each partition placed alone, by computation, equals the recorded placement."""
    for row in recorded("adminutils"):
        if "error" in row or row["fixed_start_index"] < 0 or not (layout := layout_of(row)).num_racked:
            continue
        start, first = row["fixed_start_index"], max(0, row["start_partition_id"])
        base = admin_utils.shift_base(start, first, len(layout.ids))
        for at in range(first, first + row["partitions"]):
            alone = admin_utils.assign_replicas_to_brokers(layout, row["replication_factor"], start, base, at, 1)
            assert alone.tolist() == [row["expect"][str(at)]]


def test_striped() -> None:
    """`StripedReplicaPlacer.place`: 508 rows, those recorded with a mock generator by their draws."""
    rows = recorded("striped")
    assert len(rows) == 508
    assert [row["case"] for row in rows if _by_striped(row) != expected(row)] == []


def test_draws() -> None:
    """The vectorized generator equals the scalar one, also for negative seeds and bounds that Java redraws for."""
    seeds = np.concatenate([np.arange(-50, 50), np.array([-(2**63), 2**63 - 1])])
    bounds = np.array([1, 2, 7, 64, 2**30 + 1, 2**31 - 1])[np.arange(len(seeds)) % 6]
    firsts, seconds = draw_pairs(seeds, bounds)
    for seed, bound, first, second in zip(
        seeds.tolist(), bounds.tolist(), firsts.tolist(), seconds.tolist(), strict=True
    ):
        random = JavaRandom(seed)
        assert (random.next_int(bound), random.next_int(bound)) == (first, second)
