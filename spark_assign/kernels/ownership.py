"""Who owns what, as Arrow tables: from blocks of partitions to runs, and which runs may meet.

A block is 512 neighbouring partitions of a topic, of which a member owns those whose bits are set: bit b of word w
stands for partition 512 * block + 64 * w + b.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_assign.kernels.runs import compress_sorted
from spark_assign.kernels.segments import first_of_each

Ints = NDArray[np.int64]

KEY = ["cluster", "group_id", "member_id", "topic"]
RUN = ["first", "step", "count"]
WORDS = [f"word{number}" for number in range(8)]
BLOCK_BITS = 9
"""A block has so many bits of a partition's number below its own."""

JUDGED = [*KEY, *RUN, "rows", "code"]
"""Columns of a run, whose code is null, or of a fault, its code, and how many `rows` of the fleet have it."""

NULL_KEY, BAD_PARTITION, DUPLICATE = "null-key", "bad-partition", "duplicate-owned"

_BITS = 31  # of a partition
_LARGEST = (1 << _BITS) - 1
_BLOCKS = 65_536
"""So many blocks are unpacked together."""


def merge(blocks: pa.Table) -> pa.Table:
    """All blocks of some members' topics, as runs and faults (`JUDGED`).

    The runs are lossless: evenly spaced neighbours become one run. A fault has one of its partitions in `first`; but
    of a block in which rows stand twice, it is not known which.

    Args:
        blocks: KEY, block (null: the partition is), WORDS, rows (how many there were).
    """
    code = _code(blocks)
    faulty = blocks.filter(code.is_valid())
    sound = blocks.filter(code.is_null())
    number, example = number_keys(sound)
    block, rows = _columns(sound, ["block", "rows"])
    order = np.lexsort((block, number))
    at, low = _unpacked(sound, order)
    owner, *run = compress_sorted(number[at], (block[at] << BLOCK_BITS) + low)
    runs = _table(sound, example[owner], *run, run[2], _codes(None, len(owner)))
    more = rows - np.bincount(at, minlength=len(rows))
    twice = np.flatnonzero(more)
    repeated = _table(
        sound, twice, *_alone(pa.nulls(len(twice), pa.int32())), more[twice], _codes(DUPLICATE, len(twice))
    )
    return pa.concat_tables([runs, repeated, _faults(faulty, code.drop_null())])


def _faults(blocks: pa.Table, codes: pa.Array) -> pa.Table:
    """Faulty blocks, each with its least partition."""
    every = np.arange(len(blocks))
    at, low = _unpacked(blocks, every)
    least = np.full(len(blocks), 1 << BLOCK_BITS)
    np.minimum.at(least, at, low)
    base = pc.shift_left(blocks["block"].cast(pa.int64()), BLOCK_BITS)
    first = pc.add(base, pa.array(least)).cast(pa.int32()).combine_chunks()
    return _table(blocks, every, *_alone(first), blocks["rows"], codes)


def _unpacked(blocks: pa.Table, order: Ints) -> tuple[Ints, Ints]:
    """Of each bit that is set, the row of its block and its number there; blocks in that order, bits ascending."""
    words = np.stack(_columns(blocks, WORDS), axis=1) if len(blocks) else np.empty((0, len(WORDS)), np.int64)
    rows, bits = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for begin in range(0, len(order), _BLOCKS):
        part = order[begin : begin + _BLOCKS]
        octets = words[part].astype("<i8").view(np.uint8)
        found = np.flatnonzero(np.unpackbits(octets, bitorder="little"))
        rows.append(part[found >> BLOCK_BITS])
        bits.append(found & ((1 << BLOCK_BITS) - 1))
    return np.concatenate(rows), np.concatenate(bits)


def crossing(runs: pa.Table) -> pa.Table:
    """The members' topics in which one run begins before another has ended, so that they may meet.

    Args:
        runs: pair (the number of a member's topic), first, step, count, all sound and not empty.

    Returns:
        pair, each once.
    """
    pair, first, step, count = _columns(runs, ["pair", *RUN])
    order = np.lexsort((first, pair))
    pair, first, last = pair[order], first[order], (first + step * (count - 1))[order]
    above = np.cumsum(first_of_each(pair)) << _BITS  # keeps the greatest end of one pair from reaching into the next
    ends = np.maximum.accumulate(above | np.minimum(last, _LARGEST))
    within = ends[:-1] >= (above | first)[1:]
    return pa.table([np.unique(pair[1:][within])], names=["pair"])


def number_keys(rows: pa.Table) -> tuple[Ints, Ints]:
    """Number the distinct keys (KEY, in which null is a value as any other).

    Returns:
        for each row the number of its key; for each number a row that has it.
    """
    number = np.zeros(len(rows), np.int64)
    for name in KEY:
        value, values = _numbered(rows[name].combine_chunks())
        number, keys = _numbered(pa.array(number * values + value))
    example = np.empty(keys, np.int64)
    example[number] = np.arange(len(rows))
    return number, example


def _numbered(values: pa.Array) -> tuple[Ints, int]:
    """Of each value its number among the distinct ones; and how many those are."""
    coded = values.dictionary_encode(null_encoding="encode")
    return coded.indices.to_numpy().astype(np.int64), len(coded.dictionary)


def _columns(rows: pa.Table, names: list[str]) -> list[Ints]:
    return [rows[name].to_numpy().astype(np.int64) for name in names]


def _code(blocks: pa.Table) -> pa.ChunkedArray:
    """Of each block the code of its fault, null if it has none. (A missing member is a fault of the member.)"""
    null = pc.is_null(blocks["block"])
    for name in ("cluster", "group_id", "topic"):
        null = pc.or_(null, pc.is_null(blocks[name]))
    bad = pc.less(blocks["block"], 0)
    return pc.if_else(null, NULL_KEY, pc.if_else(bad, BAD_PARTITION, pa.scalar(None, pa.string())))


def _codes(code: str | None, size: int) -> pa.Array:
    return pa.repeat(pa.scalar(code, pa.string()), size)


def _alone(partition: pa.Array) -> list[pa.Array]:
    """Each partition as a run of its own: first, step, count."""
    one = pa.repeat(pa.scalar(1, pa.int32()), len(partition))
    return [partition, one, one]


def _table(rows: pa.Table, at: Ints, *columns: pa.Array | Ints) -> pa.Table:
    """The keys of those rows, and the other columns of `JUDGED` beside them."""
    keys = rows.select(KEY).take(pa.array(at, pa.int64()))
    types = [pa.int32()] * len(RUN) + [pa.int64(), pa.string()]
    others = [pa.array(each) if isinstance(each, np.ndarray) else each for each in columns]
    return pa.table([*keys.columns, *(each.cast(kind) for each, kind in zip(others, types, strict=True))], names=JUDGED)
