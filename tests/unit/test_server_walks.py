"""Walks of single tables, beside `java_hash`, which is held against Java's own."""

from __future__ import annotations

from random import Random

from spark_assign.assignors.server.coordinator_order import iteration_order, map_capacity
from spark_assign.java.hash_map import java_key, string_hash, texts_in_table_order
from tests.sizes import drawn


def crowd(random: Random) -> list[str]:
    """Texts of a few hashes, and others, none twice."""
    pairs = ["".join(random.choice(("Aa", "BB")) for _ in range(5)) for _ in range(random.randint(0, 30))]
    texts = list(dict.fromkeys(pairs + [f"member-{random.randrange(1000)}" for _ in range(random.randint(0, 60))]))
    random.shuffle(texts)
    return texts


def test_growing_maps_of_texts() -> None:
    """Buckets that become trees, or double the table early, on the way from the smallest table."""
    random, trees = Random(11), 0
    for _ in range(drawn(200, 400)):
        texts = crowd(random)
        hashes = [string_hash(each) for each in texts]
        trees += max([hashes.count(each) for each in hashes], default=0) > 8
        found = iteration_order(texts, hashes, map_capacity(len(texts)), java_key, map_capacity(0))
        assert found == texts_in_table_order(texts)
    assert trees > 50
