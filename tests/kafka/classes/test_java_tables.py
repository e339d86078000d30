"""Random tables, fresh at every run, walked by Java and by us: no difference."""

from __future__ import annotations

import pytest

from tests.kafka import java_tables

pytestmark = pytest.mark.kafka


def test_tables_walk_as_java_walks_them(kafka_jars: str, seed: int) -> None:
    """Treeified maps and sets of texts, of keys that do not compare and of partitions."""
    rows = java_tables.walked_by_java(java_tables.tables(seed, 600), kafka_jars)
    different = [row for row in rows if java_tables.walked_by_us(row) != row["walk"]]
    assert not different, f"{len(different)} differ: {different[0]}"
    assert sum(java_tables.filled(row).treeified for row in rows) > 100
