"""Requests for placement: Java's draws, validation, chunks, and topics larger than a chunk."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_assign.java.random import JavaRandom, draw_pairs
from spark_assign.replicas.kernel import admin_utils
from spark_assign.replicas.kernel import striped_replica_placer as striped
from spark_assign.replicas.kernel.cluster_brokers import ClusterBrokers, java_order, to_cluster_brokers
from spark_assign.replicas.kernel.placement_requests import (
    CHUNK_PARTITIONS,
    PLACED_CHUNKS,
    VALIDATED_REQUESTS,
    place_all_chunks,
    validate_requests,
)
from tests.cases import cases, keyed

INT_MAX = 2**31 - 1


class OldRandom:
    """`java.util.Random` as documented, with the overflow of an int made explicit."""

    def __init__(self, seed: int) -> None:
        self.seed = (seed ^ 0x5DEECE66D) % 2**48
        self.redrawn = 0

    def next_int(self, bound: int) -> int:
        """`nextInt(bound)`."""
        while True:
            self.seed = (self.seed * 0x5DEECE66D + 0xB) % 2**48
            bits = self.seed // 2**17
            if bound in {2**power for power in range(31)}:
                return bound * bits // 2**31
            value = bits % bound
            total = bits - value + (bound - 1)
            if total - 2**32 * (total >= 2**31) >= 0:
                return value
            self.redrawn += 1


BOUNDS = [1, 2, 3, 7, 64, 1000, 2**30 - 1, 2**30, 2**30 + 1, 2**30 + 2**29, 2**31 - 2, 2**31 - 1, (2**31 + 1) // 3]
"""Three times the last bound exceeds 2**31 by one."""


def test_draws_are_javas() -> None:
    """A number from the incomplete last range is redrawn, for any bound."""
    redrawn = 0
    for seed in [*range(40), -1, -(2**63), 2**63 - 1, 2**48, 2**48 + 5]:
        for bound in BOUNDS:
            old, new = OldRandom(seed), JavaRandom(seed)
            expected = [old.next_int(bound), old.next_int(bound)]
            assert [new.next_int(bound), new.next_int(bound)] == expected
            pair = draw_pairs(np.array([seed]), np.array([bound]))
            assert [each.tolist() for each in pair] == [[number] for number in expected]
            assert {each.dtype for each in pair} == {np.dtype(np.int64)}  # they become indexes
            redrawn += old.redrawn
    assert redrawn > 100


class At:
    """Draws the largest number of each bound, and records the bounds."""

    def __init__(self) -> None:
        self.bounds: list[int] = []

    def next_int(self, bound: int) -> int:
        """Returns bound - 1."""
        self.bounds.append(bound)
        return bound - 1

    def shuffle(self, items: list[Any]) -> None:
        """Does nothing."""


def test_shuffle_is_of_collections() -> None:
    """For i = size..2: swap i - 1 with nextInt(i)."""
    for size in range(7):
        expected, old = list("abcdef"[:size]), OldRandom(3)
        for end in range(size, 1, -1):
            other = old.next_int(end)
            expected[end - 1], expected[other] = expected[other], expected[end - 1]
        items = list("abcdef"[:size])
        JavaRandom(3).shuffle(items)
        assert items == expected


def test_layout_counts() -> None:
    """The numbers of racked and of unfenced brokers, also without brokers."""
    three = to_cluster_brokers([(4, None, True), (2, "b", False), (9, "", True)])
    assert (three.ids, three.racks, three.fenced) == ((4, 2, 9), (None, "b", ""), (True, False, True))
    assert (three.num_racked, three.num_unfenced) == (2, 1)
    assert to_cluster_brokers([]) == ClusterBrokers((), (), ())
    assert sorted(["b", None, "", "\U0001f600", "\uffee"], key=java_order) == [None, "", "b", "\U0001f600", "\uffee"]


def _chunks(
    algorithm: str, brokers: list[tuple[int, str | None, bool]], *chunks: dict[str, Any]
) -> list[dict[str, Any]]:
    line = [{"broker_id": each, "rack_id": rack, "fenced": fenced} for each, rack, fenced in brokers]
    defaults = {"start_index": None, "base": None, "seed": None, "first": 0}
    work = [{"cluster": "c", "broker_list": line, "chunks": [defaults | chunk for chunk in chunks]}]
    found = list(place_all_chunks([pa.RecordBatch.from_pylist(work)], algorithm))
    assert all(batch.schema == PLACED_CHUNKS for batch in found)
    return [row for batch in found for row in batch.to_pylist()]


BROKERS: list[tuple[int, str | None, bool]] = [
    *((1, "a", False), (2, "a", False), (3, "b", False), (4, "b", True)),
    *((5, "c", False), (6, None, False)),
]


@cases("partitions", 1, CHUNK_PARTITIONS - 1, CHUNK_PARTITIONS, CHUNK_PARTITIONS + 1, 2 * CHUNK_PARTITIONS + 5)
def test_a_striped_topic_of_any_size_is_one_walk(partitions: int) -> None:
    """Rows have at most 32 consecutive partitions; the iteration over racks continues from row to row."""
    rows = _chunks("striped", BROKERS, {"topic": "t", "count": partitions, "replication_factor": 3, "seed": 7})
    assert CHUNK_PARTITIONS == 8192
    assert [row["first"] for row in rows] == list(range(0, partitions, 32))
    assert [row["count"] for row in rows] == [min(32, partitions - row["first"]) for row in rows]
    keys = {(row["cluster"], row["topic"], row["brokers"], row["seed"], row["replication_factor"]) for row in rows}
    assert keys == {("c", "t", 6, 7, 3)}
    assert {(row["start_index"], row["base"]) for row in rows} == {(None, None)}
    walk = striped.place(to_cluster_brokers(BROKERS), 3, JavaRandom(7))
    assert [each for row in rows for each in row["placed"]] == [each for _ in range(partitions) for each in next(walk)]


def test_tiles_of_admin_utils_are_parts_of_the_whole() -> None:
    """Chunks are placed independently, and together equal one call."""
    racked = [(each, rack or "d", fenced) for each, rack, fenced in BROKERS]
    expected = admin_utils.assign_replicas_to_brokers(to_cluster_brokers(racked), 3, 4, 2, 0, 50)
    parts = [(0, 20), (20, 1), (21, 29)]
    chunks = [
        {"topic": f"t{first}", "first": first, "count": count, "replication_factor": 3, "start_index": 4, "base": 2}
        for first, count in parts
    ]
    rows = _chunks("adminutils", racked, *chunks)
    assert [(row["topic"], row["first"], row["count"]) for row in rows] == [(f"t{a}", a, b) for a, b in parts]
    assert {(row["start_index"], row["base"], row["brokers"]) for row in rows} == {(4, 2, 6)}
    assert [each for row in rows for each in row["placed"]] == expected.ravel().tolist()


@pytest.mark.parametrize(("racks", "brokers", "factor"), [(1, 1, 1), (1, 2, 2), (3, 7, 3), (2, 5, 5), (4, 4, 2)])
def test_the_table_of_placements_is_the_rule(racks: int, brokers: int, factor: int) -> None:
    """Many partitions are looked up, few are computed, with the same result."""
    cluster = to_cluster_brokers([(each, f"r{each % racks}", False) for each in range(brokers)])
    for start in (0, brokers - 1, 11):
        many = admin_utils.assign_replicas_to_brokers(cluster, factor, start, 3, 5, 200)
        single = [
            admin_utils.assign_replicas_to_brokers(cluster, factor, start, 3, at, 1)[0].tolist() for at in range(5, 205)
        ]
        assert many.tolist() == single


REQUEST = keyed(
    "cluster=c topic=t partitions=5 replication_factor=2 start_index=None start_partition=None "
    "seed=42 brokers=3 racked=0 unfenced=3 overlaps=False"
)


def _validated(algorithm: str, *changes: dict[str, Any]) -> list[dict[str, Any]]:
    schema = pa.schema(list(zip(REQUEST, [pa.string(), pa.string(), *[pa.int64()] * 8, pa.bool_()], strict=True)))
    table = validate_requests(pa.Table.from_pylist([REQUEST | change for change in changes], schema), algorithm)
    assert table.schema == VALIDATED_REQUESTS
    return table.to_pylist()


def test_where_requests_start() -> None:
    """A requested start is start index and shift; a missing one is drawn, and only then the seed is kept."""
    requested, low, zero, drawn, added = _validated(
        "adminutils",
        {"start_index": 4},
        {"start_index": -1},
        {"start_index": 0},
        {},
        {"start_index": 1, "start_partition": 7},
    )
    draws = JavaRandom(42)
    start, shift = draws.next_int(3), draws.next_int(3)
    assert (requested["start_index"], requested["base"], requested["seed"], requested["first"]) == (4, 4, None, 0)
    assert (zero["start_index"], zero["base"], zero["seed"]) == (0, 0, None)
    assert (low["start_index"], low["base"], low["seed"]) == (start, shift, 42)
    assert (drawn["start_index"], drawn["base"], drawn["seed"]) == (start, shift, 42)
    # Partition 7 is the second of the third round over three brokers: the shift has not grown in this call yet.
    assert (added["first"], added["start_index"], added["base"] + 7 // 3) == (7, 1, 1)
    assert {row["code"] for row in (requested, low, zero, drawn, added)} == {None}


def test_the_shift_grows_at_every_multiple_of_the_brokers() -> None:
    """It equals Kafka's loop for every first partition; above 0, the first partition of a call counts too."""
    for brokers in (1, 2, 3, 5):
        for first in range(12):
            shift = 6
            for partition in range(first, first + 12):
                if partition > 0 and partition % brokers == 0:
                    shift += 1
                assert admin_utils.shift_base(6, first, brokers) + partition // brokers == shift


def test_a_striped_request_has_no_start() -> None:
    """Kafka's class counts from 0, whatever the start partition."""
    [row] = _validated("striped", {"start_partition": 7, "start_index": 2})
    assert (row["first"], row["start_index"], row["base"], row["seed"]) == (0, None, None, 42)
    assert (row["partitions"], row["replication_factor"], row["brokers"], row["racked"]) == (5, 2, 3, 0)


FACTOR, BAD_FACTOR = "replication_factor", "invalid-replication-factor"


@cases(
    "algorithm change code detail",
    ("adminutils", {"partitions": None}, "null-value", "requests.partitions is null or out of range. Add the value"),
    ("striped", {FACTOR: None}, "null-value", "requests.replication_factor is null or out of range. Add the value"),
    (
        "adminutils",
        {"overlaps": True, "partitions": 0},
        "duplicate-request",
        "Another row of requests has partitions of this row. Keep one of the rows",
    ),
    *(
        (
            algorithm,
            {"partitions": INT_MAX, FACTOR: 0},
            "too-many-partitions",
            "requests.partitions is 2,147,483,647, expected at most 1,000,000. Correct the number",
        )
        for algorithm in ("adminutils", "striped")
    ),
    (
        "striped",
        {"partitions": -1},
        "invalid-partitions",
        "Number of partitions was set to an invalid non-positive value.",
    ),
    ("adminutils", {"partitions": 0, FACTOR: 0}, "invalid-partitions", "Number of partitions must be larger than 0."),
    ("adminutils", {FACTOR: 0, "brokers": 0}, BAD_FACTOR, "Replication factor must be larger than 0."),
    ("adminutils", {FACTOR: 4, "racked": 1}, BAD_FACTOR, "Replication factor: 4 larger than available brokers: 3."),
    ("adminutils", {"brokers": 0}, BAD_FACTOR, "Replication factor: 2 larger than available brokers: 0."),
    (
        "adminutils",
        {"racked": 2},
        "admin-operation",
        "Not all brokers have rack information for replica rack aware assignment.",
    ),
    (
        "striped",
        {FACTOR: 0, "unfenced": 0},
        BAD_FACTOR,
        "Invalid replication factor 0: the replication factor must be positive.",
    ),
    ("striped", {FACTOR: 9, "unfenced": 0}, BAD_FACTOR, "All brokers are currently fenced."),
    (
        "striped",
        {FACTOR: 4, "racked": 1},
        BAD_FACTOR,
        "The target replication factor of 4 cannot be reached because only 3 broker(s) are registered.",
    ),
)
def test_refusals(algorithm: str, change: dict[str, Any], code: str, detail: str) -> None:
    """Errors have Kafka's order and messages; a rejected request has no start."""
    row, accepted = _validated(algorithm, change, {})
    assert (row["code"], row["detail"]) == (code, detail)
    assert (row["start_index"], row["base"], row["seed"]) == (None, None, None if algorithm == "adminutils" else 42)
    assert (accepted["code"], accepted["detail"]) == (None, None)


@cases("change", {"racked": 0}, {"racked": 3}, {FACTOR: 3}, {"partitions": 1}, {"partitions": 1_000_000})
def test_what_kafka_accepts(change: dict[str, Any]) -> None:
    """Accepted: racks on no or all brokers, as many replicas as brokers, one partition."""
    for algorithm in ("adminutils", "striped"):
        [row] = _validated(algorithm, change)
        assert row["code"] is None


@cases(
    "change last start",
    # Partition 1,000 and the start index together; the shift, a round for every three partitions, is far below.
    ({"partitions": 1_001}, 1_000, INT_MAX - 1_000),
    ({"partitions": 501, "start_partition": 500}, 1_000, INT_MAX - 1_000),
    # Two rounds, counted by shift, times racks; and a candidate stands up to two rounds behind it.
    ({"racked": 3}, 4, (INT_MAX - 6) // 3 - 2),
    ({"racked": 3, "partitions": 1}, 0, (INT_MAX - 6) // 3 - 1),
    ({"racked": 3, "partitions": 4}, 3, (INT_MAX - 6) // 3 - 2),
    ({}, 4, INT_MAX - 8),
)
def test_what_kafka_cannot_count(change: dict[str, Any], last: int, start: int) -> None:
    """An index or a shift beyond int is rejected; the largest that fits is accepted."""
    fits, beyond = _validated("adminutils", change | {"start_index": start}, change | {"start_index": start + 1})
    assert (fits["code"], fits["start_index"]) == (None, start)
    assert (beyond["code"], beyond["start_index"], beyond["base"]) == ("int-overflow", None, None)
    expected = f"Partition {last} with start index {start + 1} overflows Kafka's arithmetic. Use a smaller start_index"
    assert beyond["detail"] == (expected)
