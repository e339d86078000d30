"""What members own as a snapshot keeps it, where they tell it in an order of their own (sticky before 3.7.1)."""

from __future__ import annotations

from random import Random

from spark_assign.sources.files.snapshot import SnapshotRows, to_slices_in_order
from spark_assign.sources.kafka.groups import _in_reported_order
from tests.cases import tuples
from tests.snapshots import owned_slices


def test_runs_keep_the_order() -> None:
    """A run ends where partitions go down, or by other steps; put together again they are what they were."""
    assert to_slices_in_order([0, 2, 4, 5, 1, 1]) == [(0, 2, 3), (5, 1, 1), (1, 1, 1), (1, 1, 1)]
    random = Random(5)
    for _ in range(200):
        partitions = random.sample(range(12), random.randint(0, 12))
        found = to_slices_in_order(partitions)
        assert [first + step * nth for first, step, count in found for nth in range(count)] == partitions
        assert all(step > 0 and count > 0 for _, step, count in found)


def test_sticky_tells_topics_as_a_hash_map_has_them() -> None:
    """Each topic's partitions stay together, as they were given; other assignors tell nothing that hangs on it."""
    given = (("b", 1), ("b", 0), ("AaBB", 3), ("BBAa", 2), ("a", 0))
    assert _in_reported_order(given, "sticky") == (("a", 0), ("b", 1), ("b", 0), ("AaBB", 3), ("BBAa", 2))
    assert _in_reported_order(given, "range") == given


def test_position_only_where_the_order_is_another() -> None:
    """By topic and partition is how it is read without `position`."""
    rows = SnapshotRows("c")
    rows.add_owned("g", "plain", [("a", 0), ("a", 1), ("b", 0)], in_order=True)
    rows.add_owned("g", "odd", [("b", 0), ("a", 1), ("a", 2), ("a", 0)], in_order=True)
    rows.add_owned("g", "whatever", [("b", 1), ("a", 3)])
    columns = ("member_id", "topic", "first", "count", "position")
    found = [{name: row[name] for name in columns} for row in owned_slices(rows.rows)]
    assert [tuple(row.values()) for row in found] == tuples(
        "plain a 0 2 None; plain b 0 1 None; odd b 0 1 0; "
        "odd a 1 2 1; odd a 0 1 3; whatever a 3 1 None; "
        "whatever b 1 1 None"
    )
