"""Walks over Java's hash tables as Java recorded them, buckets that are trees included."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import numpy as np
import pytest

from spark_assign.assignors.server.coordinator_order import set_order
from spark_assign.java.hash_map import (
    Entry,
    HashTable,
    IdentityDecides,
    Tree,
    spread_hashes,
    string_hash,
    string_hashes,
    table_order,
    table_orders,
    text_order,
    text_ranks,
    treeified_groups,
)
from tests.kafka import java_tables
from tests.kafka.java_tables import Row
from tests.recorded_lines import read_rows


@pytest.fixture(scope="module")
def recorded() -> list[Row]:
    """Tables of one kind of keys each, and their walks by Java 17."""
    return read_rows(java_tables.RECORDED)


def alike(number: int) -> list[str]:
    """Texts of one hash code, sorted."""
    return ["".join(parts) for parts in itertools.product(["Aa", "BB"], repeat=6)][:number]


def test_tables_walk_as_java_recorded(recorded: list[Row]) -> None:
    """Maps, sets, copies and maps made from maps; texts, `Optional`s and partitions; put in and taken out."""
    assert [row for row in recorded if java_tables.walked_by_us(row) != row["walk"]] == []
    assert len(recorded) == 120
    trees = [row for row in recorded if java_tables.filled(row).treeified]
    assert {row["keys"] for row in trees} == {"text", "optional", "partition"}
    assert any(op[0] == "-" for row in trees for op in row["ops"])


def test_many_maps_at_once_walk_as_java_recorded(recorded: list[Row]) -> None:
    """The same by `table_order`, all in one call; and maps made from them by `table_orders`."""
    kinds = ("map", "set", "second")
    plain = [row for row in recorded if row["keys"] == "text" and row["table"] in kinds and not _takes_out(row)]
    texts = [[op[1:] for op in row["ops"]] for row in plain]
    group = np.repeat(np.arange(len(plain)), [len(each) for each in texts])
    hashes = np.concatenate([string_hashes(each) for each in texts])
    ranks = np.concatenate([text_ranks(each) for each in texts])
    first, second = table_orders(hashes, ranks, group)
    assert table_order(hashes, ranks, group).tolist() == first.tolist()
    flat = list(itertools.chain(*texts))
    for number, row in enumerate(plain):
        order = second if row["table"] == "second" else first
        assert [flat[at] for at in order[group == number]] == row["walk"]
    assert len(treeified_groups(hashes, group)) > 5
    assert {row["table"] for row in plain} == set(kinds)


def test_sets_made_of_collections_walk_as_java_recorded(recorded: list[Row]) -> None:
    """The same by `set_order`, all in one call; in some, more than eight names have one hash code."""
    copies = [row for row in recorded if row["table"] == "copy"]
    texts = [[op[1:] for op in row["ops"]] for row in copies]
    flat = list(itertools.chain(*texts))
    group = np.repeat(np.arange(len(copies)), [len(each) for each in texts])
    order = set_order(string_hashes(flat), text_ranks(flat), group)
    assert [[flat[at] for at in order[group == number]] for number in range(len(copies))] == [
        row["walk"] for row in copies
    ]
    assert max(np.unique(string_hashes(each), return_counts=True)[1].max() for each in texts) > 20


def _takes_out(row: Row) -> bool:
    return any(op[0] == "-" for op in row["ops"])


def test_eleven_texts_of_one_hash_are_a_tree() -> None:
    """The ninth and the tenth double the table; the eleventh makes a tree, whose root comes first."""
    texts = alike(11)
    assert text_order(texts[:10]) == list(range(10))
    assert text_order(texts) == [3, 0, 1, 2, 4, 5, 6, 7, 8, 9, 10]


def test_trees_are_balanced() -> None:
    """Java's `TreeNode.checkInvariants` after each key: sorted, no red node with a red parent, all paths equally black.

    A removed key stays out of the walk, in which the root comes first.
    """
    random = Random(3)
    for _ in range(12):
        keys = random.sample(range(1 << 32), 60)
        tree = Tree([Entry(key, key, key) for key in keys[:8]])
        present, waiting = keys[:8], keys[8:]
        for at in range(110):
            if waiting and (len(present) < 9 or at < 20 or random.random() < 0.45):
                present.append(waiting.pop())
                tree.put(Entry(present[-1], present[-1], present[-1]))
            elif not tree.remove(present.pop(random.randrange(len(present)))):
                break
            root = tree._root
            assert root is not None
            assert (root.parent, bool(root.red), next(iter(tree))) == (None, False, root.entry.key)
            assert black_height(root) > 0
            assert sorted(tree) == sorted(present)
            assert in_order(root) == sorted(present, key=lambda key: key - (1 << 32) * (key >> 31))
            assert len(tree) == len(present)


def black_height(node: Any) -> int:
    """The number of black nodes on each path down."""
    if node is None:
        return 0
    for child in node.child:
        assert child is None or (child.parent is node and not (child.red and node.red))
    left, right = map(black_height, node.child)
    assert left == right
    return left + (not node.red)


def in_order(node: Any) -> list[int]:
    """The keys of a tree from left to right."""
    return [] if node is None else [*in_order(node.child[0]), node.entry.key, *in_order(node.child[1])]


def test_identity_is_never_guessed() -> None:
    """Eleven keys of one hash that do not compare: Java would order them by where they are in memory."""
    hashes = string_hashes(alike(11))
    assert table_order(hashes[:10], ranks=None).tolist() == list(range(10))
    with pytest.raises(IdentityDecides):
        table_order(hashes, ranks=None)
    table: HashTable[str] = HashTable(rank=None)
    for text in alike(10):
        table.add(text, string_hash(text))
    with pytest.raises(IdentityDecides):
        table.add(alike(11)[-1], string_hash(alike(11)[-1]))


def test_no_treeified_map_is_overlooked() -> None:
    """Wherever the walk is not that of linked buckets, `treeified_groups` says so; ordinary maps it leaves alone."""
    ordinary = string_hashes([f"consumer-{number}" for number in range(2_000)])
    assert len(treeified_groups(ordinary, np.repeat(np.arange(20), 100))) == 0
    crowd = [text for bucket in java_tables.crowds()[5:900:128] for text in bucket[:4]]
    others = [f"consumer-{number}" for number in range(300)]
    for before in (0, 20, 40, 60, 90, 130, 300):
        texts = others[:before] + crowd + others[before:]
        assert walked(texts) == text_order(texts)


def test_the_key_that_doubles_a_table_may_make_a_tree_before() -> None:
    """The 49th key of 64 buckets is the ninth of its bucket: a tree that at once parts into five and four."""
    crowd = [*java_tables.crowds()[1][:5], *java_tables.crowds()[65][:4]]
    others = [f"x{number}" for number in range(60)]
    others = [text for text in others if string_hash(text) % 64 != 1][:40]
    assert walked(others + crowd) == text_order(others + crowd)
    assert treeified([others + crowd])
    assert not treeified([[*others, "x", *crowd]])


def test_a_second_map_may_be_treeified_where_the_first_is_not() -> None:
    """The nine come last, when the first map has 256 buckets; but in its walk they come early."""
    crowd = [*java_tables.crowds()[1][:5], *java_tables.crowds()[65][:4]]
    texts = [f"consumer-{number}" for number in range(90)] + crowd
    hashes, ranks, alone = string_hashes(texts), text_ranks(texts), np.zeros(len(texts), np.int64)
    first, second = table_orders(hashes, ranks, alone)
    assert not treeified([texts])
    assert second.tolist() == [first[at] for at in walked([texts[at] for at in first])] != first.tolist()


def walked(texts: list[str]) -> list[int]:
    """The walk of a map that is filled key by key."""
    table: HashTable[int] = HashTable(rank=text_ranks(texts).__getitem__)
    for number, spread in enumerate(spread_hashes(string_hashes(texts)).tolist()):
        table.put(number, spread)
    return table.iteration_order()


def treeified(maps: list[list[str]]) -> list[int]:
    """`treeified_groups` of maps of texts."""
    group = np.repeat(np.arange(len(maps)), [len(each) for each in maps])
    found: list[int] = treeified_groups(string_hashes(list(itertools.chain(*maps))), group).tolist()
    return found
