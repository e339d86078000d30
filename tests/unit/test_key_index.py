"""Indexes of keys and names, against plain lists and dictionaries."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa

from spark_assign.numeric.arrays import KeyIndex, byte_ranks, index_rows, take_names, to_int_array
from tests.cases import cases


@cases(
    "keys",
    [],
    [0],
    [5],
    [2, 0, 1, 0],  # a dense range
    [0, 1, 3, 3],  # a dense range with a gap
    [0, 1, 2, 4],  # one more than there are keys
    [7, 1 << 40, 7, 3],
    [-3, 2, 0, 1],
)
def test_positions_of_keys(keys: list[int]) -> None:
    """A key that the index doesn't contain has no position: one in a gap, below the first key, or above the last."""
    index, distinct = KeyIndex(np.array(keys, np.int64)), sorted(set(keys))
    assert (len(index), index.keys.tolist()) == (len(distinct), distinct)
    assert index.lookup(np.array(keys, np.int64)).tolist() == [distinct.index(key) for key in keys]
    wanted = [*keys, *range(-4, 9), 1 << 40, (1 << 40) - 1, 1 << 50]
    expected = [distinct.index(key) if key in distinct else -1 for key in wanted]
    assert index.lookup(np.array(wanted, np.int64)).tolist() == expected


def test_rows_by_key() -> None:
    """Rows with the same key have the same index, which has an example. Null is a key of its own."""
    random = Random(5)
    rows = [{"a": random.choice(["x", "y", None]), "b": random.choice([1, None])} for _ in range(40)]
    table = pa.Table.from_pylist(rows)
    key_index, example = index_rows(table, ["a", "b"])
    keys = [tuple(row.values()) for row in rows]
    assert len({*zip(keys, key_index.tolist(), strict=True)}) == len(set(keys)) == len(example) == 6
    assert [keys[row] for row in example[key_index].tolist()] == keys
    assert [each.tolist() for each in index_rows(table.slice(0, 3), [])] == [[0, 0, 0], [2]]
    for names in ([], ["a"], ["a", "b"]):
        assert [each.tolist() for each in index_rows(table.slice(0, 0), names)] == [[], []]


def test_names_and_numbers() -> None:
    """No name at a negative index, and a number for null. Texts rank by their UTF-8 bytes, and null comes last."""
    assert take_names(pa.array(["x", "y"]), np.array([1, -1, 0])).to_pylist() == ["y", None, "x"]
    assert to_int_array(pa.array([3, None, 0], pa.int32()), -7).tolist() == [3, -7, 0]
    ranks = byte_ranks(pa.array(["\U00010000", "\uffff", "b", None, "a", "b"]))
    assert [rank - ranks.min() for rank in ranks.tolist()] == [3, 2, 1, 4, 0, 1]
