"""Who owns what, as Arrow tables: from rows to runs, and what is wrong with either.

Rows become runs in two steps, so that rows themselves are never shuffled: `gather` puts what a task has read of a
member's topic into one row, a `piece`; `merge` makes runs of all pieces of that member's topic.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_assign.kernels.runs import compress_sorted
from spark_assign.kernels.segments import expand_runs

Ints = NDArray[np.int64]

KEY = ["cluster", "group_id", "member_id", "topic"]
RUN = ["first", "step", "count"]

PIECES = [*KEY, "partitions", "code"]
"""Columns of a piece: its key, its partitions (a list), and null; or a faulty row, and the code of its fault."""

JUDGED = [*KEY, *RUN, "code"]
"""Columns of a run and null; or of a fault and its code. A faulty row's partition is in `first`."""

NULL_KEY, BAD_PARTITION, DUPLICATE = "null-key", "bad-partition", "duplicate-owned"

_BITS = 31  # of a partition; the bits above hold the number of its key
_LARGEST = (1 << _BITS) - 1
_EXPANDED = 4_000_000
"""About so many partitions of runs that cross are looked at together."""


def gather(rows: pa.Table) -> pa.Table:
    """Rows of KEY and `partition`, as `PIECES`: one per member's topic, and one per faulty row."""
    code = _code(rows, ["partition"], pc.less(rows["partition"], 0))
    faulty = rows.filter(code.is_valid())
    sound = rows.filter(code.is_null()) if len(faulty) else rows
    packed, example = _packed(sound)
    packed.sort()
    begins = np.searchsorted(packed, np.arange(len(example) + 1) << _BITS)
    pieces = _table(sound, example, PIECES, _lists(begins, _unsigned(packed)), _codes(None, len(example)))
    each = _lists(np.arange(len(faulty) + 1), faulty["partition"].combine_chunks())
    faults = _table(faulty, np.arange(len(faulty)), PIECES, each, code.drop_null())
    return pa.concat_tables([pieces, faults])


def merge(pieces: pa.Table) -> pa.Table:
    """All pieces of some members' topics, as runs and faults (`JUDGED`).

    The runs are lossless: evenly spaced neighbours become one run; a row that stands twice counts once, and is a fault
    beside.
    """
    faulty = pieces.filter(pieces["code"].is_valid())
    sound = pieces.filter(pieces["code"].is_null())
    number, example = number_keys(sound)
    lists = sound["partitions"].combine_chunks()
    packed = _pack(np.repeat(number, lists.value_lengths().to_numpy()), lists.flatten().to_numpy())
    packed.sort()
    twice = _repeated(packed)
    fresh = packed[np.append(True, packed[1:] != packed[:-1])] if len(packed) else packed
    key, *run = compress_sorted(fresh >> _BITS, fresh & _LARGEST)
    runs = _table(sound, example[key], JUDGED, *run, _codes(None, len(key)))
    alone = _alone(faulty["partitions"].combine_chunks().flatten())
    faults = _table(faulty, np.arange(len(faulty)), JUDGED, *alone, faulty["code"])
    return pa.concat_tables([runs, _duplicates(sound, example, twice), faults])


def judge(runs: pa.Table) -> pa.Table:
    """What is wrong with runs, all of some members' topics: faults (`JUDGED`).

    A faulty run is given as it is; a partition that is in several runs of one member as a run of its own.
    """
    bad = pc.or_kleene(pc.or_kleene(pc.less(runs["first"], 0), pc.less(runs["step"], 1)), pc.less(runs["count"], 0))
    code = _code(runs, RUN, bad)
    faulty = runs.filter(code.is_valid())
    faults = _table(faulty, np.arange(len(faulty)), JUDGED, *(faulty[name] for name in RUN), code.drop_null())
    sound = runs.filter(pc.and_(code.is_null(), pc.fill_null(pc.greater(runs["count"], 0), False)))
    number, example = number_keys(sound)
    duplicates = [
        _duplicates(sound, example, _repeated(np.sort(packed))) for packed in _crossing(number, *_columns(sound, RUN))
    ]
    return pa.concat_tables([faults, *duplicates])


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


def _crossing(number: Ints, first: Ints, step: Ints, count: Ints) -> Iterator[Ints]:
    """The partitions, packed, of keys of which one run begins before another has ended; all of a key together."""
    begin = _pack(number, first)
    order = np.argsort(begin)
    end = _pack(number, np.minimum(first + step * (count - 1), _LARGEST))[order]
    within = np.maximum.accumulate(end)[:-1] >= begin[order][1:]
    crossed = np.zeros(len(number) + 1, bool)
    crossed[number[order][1:][within]] = True
    rows = order[crossed[number[order]]]
    key, size = number[rows], np.cumsum(count[rows])
    parts = np.flatnonzero(np.diff(size // _EXPANDED)) + 1
    cuts = np.unique(np.searchsorted(key, key[parts]))  # a key is never parted
    for part in np.split(rows, cuts):
        run, partition = expand_runs(first[part], step[part], count[part])
        yield _pack(number[part][run], partition)


def _repeated(packed: Ints) -> Ints:
    """What stands more than once in a sorted array, once each."""
    return np.unique(packed[1:][packed[1:] == packed[:-1]])


def _duplicates(rows: pa.Table, example: Ints, packed: Ints) -> pa.Table:
    codes = _codes(DUPLICATE, len(packed))
    return _table(rows, example[packed >> _BITS], JUDGED, *_alone(_unsigned(packed)), codes)


def _packed(rows: pa.Table) -> tuple[Ints, Ints]:
    number, example = number_keys(rows)
    return _pack(number, *_columns(rows, ["partition"])), example


def _pack(number: Ints, partition: Ints) -> Ints:
    return (number << _BITS) | partition


def _unsigned(packed: Ints) -> pa.Array:
    return pa.array(packed & _LARGEST, pa.int32())


def _columns(rows: pa.Table, names: list[str]) -> list[Ints]:
    return [rows[name].to_numpy().astype(np.int64) for name in names]


def _code(rows: pa.Table, numbers: list[str], bad: pa.ChunkedArray) -> pa.ChunkedArray:
    """Of each row the code of its fault, null if it has none. (A missing member is a fault of the member.)"""
    null = pc.is_null(rows["cluster"])
    for name in ("group_id", "topic", *numbers):
        null = pc.or_(null, pc.is_null(rows[name]))
    return pc.if_else(null, NULL_KEY, pc.if_else(bad, BAD_PARTITION, pa.scalar(None, pa.string())))


def _codes(code: str | None, size: int) -> pa.Array:
    return pa.repeat(pa.scalar(code, pa.string()), size)


def _alone(partition: pa.Array) -> list[pa.Array]:
    """Each partition as a run of its own: first, step, count."""
    one = pa.repeat(pa.scalar(1, pa.int32()), len(partition))
    return [partition, one, one]


def _lists(begins: Ints, values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(begins, pa.int32()), values)


def _table(rows: pa.Table, at: Ints, names: list[str], *columns: pa.Array | Ints) -> pa.Table:
    """The keys of those rows, and these columns beside them."""
    keys = rows.select(KEY).take(pa.array(at, pa.int64()))
    numbers = (pa.array(each, pa.int32()) if isinstance(each, np.ndarray) else each for each in columns)
    return pa.table([*keys.columns, *numbers], names=names)
