"""Faults of what is owned, from the blocks in which Spark gathers it; and arithmetic on stretches of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_assign.kernels.ownership import JUDGED, KEY, WORDS, merge, number_keys
from spark_assign.kernels.ring import first_in_line
from spark_assign.kernels.runs import compress_owners, compress_sorted
from spark_assign.kernels.segments import counted, expand_runs, first_of_each, ranks, stretches

SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in KEY),
        ("block", pa.int32()),
        *((word, pa.int64()) for word in WORDS),
        ("rows", pa.int64()),
    ]
)


def block(number: int | None, bits: list[int], rows: int | None = None, **key: str | None) -> dict[str, Any]:
    """A block of which these bits are set."""
    words = [sum(1 << (bit & 63) for bit in bits if bit >> 6 == word) for word in range(8)]
    signed = [word - (1 << 64) if word >> 63 else word for word in words]
    named = {"cluster": "c", "group_id": "g", "member_id": "m", "topic": "t"} | key
    return {**named, "block": number, **dict(zip(WORDS, signed, strict=True)), "rows": rows or len(bits)}


def judged(*blocks: dict[str, Any]) -> list[tuple[Any, ...]]:
    """What was found, without cluster and group."""
    table = merge(pa.Table.from_pylist(list(blocks), SCHEMA))
    assert table.column_names == JUDGED
    return [tuple(row.values())[2:] for row in table.to_pylist()]


def test_blocks_are_joined() -> None:
    """A run goes over the seam of two blocks, whose order does not matter; the first and the last bit count."""
    assert judged(block(1, [0, 1]), block(0, [510, 511])) == [("m", "t", 510, 1, 4, 4, None)]
    assert judged(block(2, [0, 511])) == [("m", "t", 1024, 511, 2, 2, None)]
    assert judged(block(4194303, [511])) == [("m", "t", 2**31 - 1, 1, 1, 1, None)]
    apart = judged(block(0, [3, 63, 64]), block(0, [3], topic="u"), block(1, [3], member_id=None))
    assert sorted(apart, key=str) == sorted(
        [
            ("m", "t", 3, 60, 2, 2, None),
            ("m", "t", 64, 1, 1, 1, None),
            ("m", "u", 3, 1, 1, 1, None),
            (None, "t", 515, 1, 1, 1, None),
        ],
        key=str,
    )


def test_rows_that_stand_twice() -> None:
    """The run is told once, and beside it how many rows too many; which partition it was is not known."""
    assert judged(block(0, [1, 2], rows=5)) == [
        ("m", "t", 1, 1, 2, 2, None),
        ("m", "t", None, 1, 1, 3, "duplicate-owned"),
    ]


@pytest.mark.parametrize("missing", ["cluster", "group_id", "topic"])
def test_keys_that_are_null(missing: str) -> None:
    """A null in a key is a fault, told with its least partition; a null partition has none."""
    [found] = judged(block(1, [7, 70], **{missing: None}))
    assert found[2:] == (512 + 7, 1, 1, 2, "null-key")
    assert judged(block(None, [], rows=4)) == [("m", "t", None, 1, 1, 4, "null-key")]


def test_partitions_below_zero() -> None:
    """-1 is the last bit of block -1; sound blocks beside it are runs."""
    assert judged(block(-1, [511, 500]), block(0, [0])) == [
        ("m", "t", 0, 1, 1, 1, None),
        ("m", "t", -12, 1, 1, 2, "bad-partition"),
    ]
    assert judged(block(-1, [511], topic=None))[0][-1] == "null-key"
    assert judged() == []


def test_keys_are_numbered() -> None:
    """Alike where all four are, null as any other value; each number has a row that has it."""
    rows = [block(0, [], topic=topic, member_id=member) for topic in "tu" for member in ("m", "n", None)]
    table = pa.Table.from_pylist([*rows, *rows[::-1], block(0, [], cluster="d")], SCHEMA)
    number, example = number_keys(table)
    keys = [tuple(row[name] for name in KEY) for row in table.to_pylist()]
    assert len(set(number.tolist())) == len(example) == len(set(keys)) == 7
    assert [keys[example[each]] for each in number] == keys


def test_stretches() -> None:
    """Rows of equal neighbours: where they begin, their ranks, begins and ends; none of none."""
    keys = np.array([4, 4, 7, 9, 9, 9])
    assert first_of_each(keys).tolist() == [True, False, True, True, False, False]
    assert ranks(keys).tolist() == [0, 1, 0, 0, 1, 2]
    assert stretches(keys) == [(0, 2), (2, 3), (3, 6)]
    assert (stretches(keys[:0]), ranks(keys[:0]).tolist(), first_of_each(keys[:0]).tolist()) == ([], [], [])
    assert counted(np.array([2, 0, 3])).tolist() == [0, 1, 0, 1, 2]
    row, number = expand_runs(np.array([5, 1]), np.array([3, 2]), np.array([2, 3]))
    assert (row.tolist(), number.tolist()) == ([0, 0, 1, 1, 1], [5, 8, 1, 3, 5])


def test_compressed_runs() -> None:
    """A gap that changes ends a run; one partition alone has step 1; nobody's are left out."""
    columns = compress_sorted(np.array([0, 0, 0, 0, 0, 1]), np.array([0, 2, 4, 5, 9, 3]))
    assert [column.tolist() for column in columns] == [[0, 0, 1], [0, 5, 3], [2, 4, 1], [3, 2, 1]]
    assert [column.tolist() for column in compress_sorted(np.empty(0, int), np.empty(0, int))] == [[], [], [], []]
    owners = compress_owners(np.array([1, -1, 0, 1, -7, 0]))
    assert [column.tolist() for column in owners] == [[0, 1], [2, 0], [3, 3], [2, 2]]


def test_the_pointer_goes_on() -> None:
    """Behind whoever got the last partition; a topic without partitions leaves it where it is."""
    assert first_in_line([([0, 1, 2], 4), ([0, 2], 1), ([0, 1, 2], 0), ([0, 1], 1)]) == [0, 1, 0, 0]
    assert first_in_line([([1, 3], 2), ([0, 3, 4], 1)]) == [0, 2]
