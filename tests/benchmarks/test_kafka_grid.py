"""The cells of Kafka's grid, by examples that are small enough to compute by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import astuple, replace
from itertools import islice

import pytest

from benchmarks.kafka_grid import VALUES, Cell, draw, next_longs, partition_counts, topic_ids

CELL = Cell(11, 25, 100, "EQUAL", "HETEROGENEOUS_DISJOINT", "NONE", "UNIFORM", "FULL")


@pytest.mark.parametrize(
    ("distribution", "topics", "partitions", "counts"),
    [
        ("EQUAL", 4, 10, [3, 3, 2, 2]),
        ("EQUAL", 4, 2, [1, 1, 1, 1]),
        ("SKEWED", 1, 7, [7]),
        # Tiers of 3, 1, and 1 topics: 9 partitions for the two others, by weights 2 and 1.
        ("SKEWED", 5, 12, [6, 3, 1, 1, 1]),
        # 8 partitions: 5 for the tier of weight 2 (16 / 3, rounded down), 3 for the other.
        ("SKEWED", 5, 11, [5, 3, 1, 1, 1]),
        # 2 partitions are less than the sum of the weights.
        ("SKEWED", 5, 5, [1, 1, 1, 1, 1]),
        # Tiers of 7, 2, and 1: 13 partitions, 6 (13 x 2 / 4) and 7, of which the first topic gets one more.
        ("SKEWED", 10, 20, [6, 4, 3, 1, 1, 1, 1, 1, 1, 1]),
    ],
)
def test_partitions_of_topics(distribution: str, topics: int, partitions: int, counts: list[int]) -> None:
    """Each topic has one at least."""
    assert partition_counts(distribution, topics, partitions) == counts


def test_buckets_are_as_many_as_members_and_topics_allow() -> None:
    """Disjoint ones have a share each, nested ones all shares up to theirs."""
    cell = replace(CELL, members=3, topics=7)
    assert cell.buckets == [range(2), range(2, 4), range(4, 7)]
    assert replace(cell, subscription="HETEROGENEOUS_NESTED").buckets == [range(2), range(4), range(7)]
    assert replace(cell, subscription="HOMOGENEOUS").buckets == [range(7)] * 3
    assert len(replace(cell, members=500, topics=500).buckets) == 5


@pytest.mark.parametrize(
    ("event", "before"),
    [("FULL", 11), ("STABLE", 11), ("JOIN_ONE", 10), ("JOIN_MANY", 9), ("LEAVE_ONE", 12), ("LEAVE_MANY", 13)],
)
def test_members_before_the_event(event: str, before: int) -> None:
    """A tenth of eleven members is two."""
    assert replace(CELL, event=event).members_before == before


def test_a_tenth_of_the_topics_grows() -> None:
    """Three of 25: those with the numbers 0, 25 / 3, and 50 / 3, rounded down."""
    cell = replace(CELL, event="PARTITIONS_ADDED")
    assert set(cell.partitions_before) == {4}
    assert [topic for topic, count in enumerate(cell.partitions_now) if count == 5] == [0, 8, 16]
    assert cell.members_before == 11


def test_topic_ids_are_drawn_as_java_does() -> None:
    """The ids and numbers are from Java. The first and the fourth pair of numbers make an id with a hyphen."""
    drawn = [-5025562857975149833, -5843495416241995736, 5694868678511409995]
    assert list(islice(next_longs(42), 3)) == drawn
    assert topic_ids(3) == ["Twg84_Eru0tG7p2CtSyFbQ", "qmFqvhdhDJrnQ2e9c4WX3A", "drIAEMMYV1TIbEAO_4ih4w"]


def test_each_value_is_drawn_equally_often() -> None:
    """A sample is the same at each run, and has no cell twice."""
    cells = draw(42, 1)
    assert cells == draw(42, 1) != draw(42, 2)
    assert len(set(cells)) == 42
    for column, values in zip(zip(*map(astuple, cells), strict=True), VALUES.values(), strict=True):
        times = Counter(column)
        assert set(times) == set(values)
        assert max(times.values()) - min(times.values()) <= 1
