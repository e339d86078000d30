"""Leader moves that spread the load of coordinators: by hand, and against every choice of leaders in small clusters."""

from __future__ import annotations

import random
from itertools import product

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from spark_assign.replicas.kernel import spread_leaders as kernel
from spark_assign.replicas.kernel.spread_leaders import leader_moves, spread_leaders
from spark_assign.tables.replicas import LEADER_MOVES
from tests.cases import cases, tuples


def largest(leaders: list[int], loads: list[int]) -> int:
    """The load of the most loaded broker."""
    return max(sum(load for leader, load in zip(leaders, loads, strict=True) if leader == each) for each in leaders)


@cases(
    "replicas loads leaders",
    ([[1, 2], [1, 2], [2, 1]], [5, 4, 1], [1, 2, 2]),
    ([[1], [1], [2]], [5, 4, 1], [1, 1, 2]),  # nobody else has a replica
    ([[1, 2], [2, 1]], [3, 3], [1, 2]),
    ([[1, 2, 3]], [7], [1]),
    ([], [], []),
)
def test_by_hand(replicas: list[list[int]], loads: list[int], leaders: list[int]) -> None:
    """Leaders move only if that lowers the larger load of two brokers."""
    assert spread_leaders(replicas, loads) == leaders


def test_random_clusters(rng: random.Random) -> None:
    """Leaders have replicas, and the largest load never grows. It is rarely above the least that is possible."""
    exact = 0
    for _ in range(200):
        replicas = [rng.sample(range(4), rng.randint(1, 3)) for _ in range(rng.randint(1, 6))]
        loads = [rng.randint(0, 9) for _ in replicas]
        leaders = spread_leaders(replicas, loads)
        assert all(leader in brokers for leader, brokers in zip(leaders, replicas, strict=True))
        best = min(largest(list(each), loads) for each in product(*replicas))
        assert best <= largest(leaders, loads) <= largest([brokers[0] for brokers in replicas], loads)
        exact += largest(leaders, loads) == best
    assert exact >= 140


def test_many_partitions_take_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first moves are found: the most loaded broker passes on one partition after the other."""
    monkeypatch.setattr(kernel, "MAX_TRIALS", 20_000)
    leaders = spread_leaders([[1, 2]] * 5_000, [1] * 5_000)
    assert leaders == [2, 2, 2, 2, *[1] * 4_996]


def test_rows_in_any_order() -> None:
    """One row per leader that moves, with the new order of replicas; each topic on its own."""
    facts = [
        {"cluster": "c", "topic": topic, "partition": number, "replicas": [1, 2], "leader_id": 1, "load": float(load)}
        for topic in ("__share_group_state", "__consumer_offsets")
        for number, load in enumerate((5, 4))
    ]
    schema = to_arrow_schema(LEADER_MOVES)
    moves = pa.concat_tables(leader_moves(pa.Table.from_pylist(facts), schema)).to_pylist()
    assert moves == pa.concat_tables(leader_moves(pa.Table.from_pylist(facts[::-1]), schema)).to_pylist()
    found = [(row["topic"], row["partition"], row["from_broker_id"], row["replicas"]) for row in moves]
    assert found == tuples("__consumer_offsets 0 1 [2,1]; __share_group_state 0 1 [2,1]")
