"""Facts of many batches: intervals of commits united, groups brought into as many parts as asked for.

What goes from one task to another is not a row per fact but one per part, with all facts of its groups in Arrow's own
bytes: a million facts are a few hundred rows, which Spark shuffles without a look at them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.history.kernel import facts
from spark_assign.history.kernel.binary_column import codes_of, one_array
from spark_assign.history.kernel.commit_intervals import flatten_intervals, merge_intervals, pack_keys
from spark_assign.history.kernel.reduce import as_facts, reduced
from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.segmented_arrays import starts_new_key

PARTS = pa.schema([pa.field("part", pa.int32(), nullable=False), pa.field("facts", pa.binary(), nullable=False)])
"""Facts of some groups; all facts of a group have the same part."""

_MOST_BYTES = 64 << 20
_TOPIC = ("cluster", "group_id", "topic", "topic_id")
_EVER = np.iinfo(np.int64).max


def in_parts(chunks: Iterable[pa.Table], gap_ms: int, parts: int) -> Iterator[pa.Table]:
    """Records to facts, in parts.

    Args:
        chunks: RECORDS.
        gap_ms: as for `reduced`.
        parts: how many there are.

    Yields:
        PARTS. As many facts as make a good size are brought together and united first, so that memory is bounded.
    """
    known: list[pa.Table] = []
    for chunk in chunks:
        known.append(reduced(chunk, gap_ms))
        if _is_much(known, 1):
            known = [unite(pa.concat_tables(known), gap_ms)]
            if _is_much(known, 2):
                yield _parted(known[0], parts)
                known = []
    if known:
        yield _parted(unite(pa.concat_tables(known), gap_ms), parts)


def of_parts(rows: pa.Table, gap_ms: int) -> Iterator[pa.Table]:
    """The facts of whole groups, part by part.

    Args:
        rows: PARTS, of each of these parts all.
        gap_ms: as for `reduced`.

    Yields:
        FACTS, united, in no order.
    """
    part = rows["part"].to_numpy()
    facts_of = rows["facts"]
    for each in np.unique(part).tolist():
        known = [
            pa.Table.from_batches([pa.ipc.read_record_batch(facts_of[row].as_buffer(), facts.FACTS)])
            for row in np.flatnonzero(part == each).tolist()
        ]
        yield unite(pa.concat_tables(known), gap_ms)


def unite(some: pa.Table, gap_ms: int) -> pa.Table:
    """The fewest facts that say the same."""
    kind = some["kind"]
    whole = [some.filter(_is_kind(kind, facts.RECORD, facts.UNREAD))]
    for each, gap in ((facts.COMMITS, gap_ms), (facts.DELETED, _EVER)):
        whole.append(_united(some.filter(_is_kind(kind, each)), each, gap))
    return pa.concat_tables(whole)


def _united(some: pa.Table, kind: str, gap_ms: int) -> pa.Table:
    topic = np.zeros(len(some), np.int64)
    for name in _TOPIC:
        topic = pack_keys(topic, codes_of(some[name])[0])
    order = np.argsort(topic, kind="stable")
    if starts_new_key(topic[order]).all():
        return some
    some, topic = some.take(pa.array(order)), topic[order]
    found, _ = merge_intervals(flatten_intervals(topic, some), gap_ms)
    facts_of = []
    for column, rows, lists in found.listed():
        names = some.select(_TOPIC).take(pa.array(np.searchsorted(topic, found.topic[rows])))
        facts_of.append(as_facts(kind, len(rows), {column: lists, **{name: one_array(names[name]) for name in _TOPIC}}))
    return pa.concat_tables(facts_of)


def _parted(some: pa.Table, parts: int) -> pa.Table:
    """A row for each part."""
    if not len(some):
        return PARTS.empty_table()
    part = _parts(some, parts)
    order = np.argsort(part, kind="stable")
    batch = some.take(pa.array(order)).combine_chunks().to_batches()[0]
    present, begins = np.unique(part[order], return_index=True)
    ends = np.append(begins[1:], len(part))
    packed = [
        batch.slice(begin, end - begin).serialize().to_pybytes()
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
    ]
    return pa.table([pa.array(present, pa.int32()), pa.array(packed, pa.binary())], schema=PARTS)


def _parts(some: pa.Table, parts: int) -> IntArray:
    """By cluster and group; what belongs to no group is spread by its offset."""
    cluster, clusters = codes_of(some["cluster"])
    group, groups = codes_of(some["group_id"])
    _, row, of = np.unique(pack_keys(cluster, group), return_index=True, return_inverse=True)
    values = (clusters.take(pa.array(cluster[row])), groups.take(pa.array(group[row])))
    names = zip(*(column.to_pylist() for column in values), strict=True)
    part: IntArray = np.array([zlib.crc32(f"{name}\0{each}".encode()) % parts for name, each in names], np.int64)[of]
    alone = some["group_id"].is_null().to_numpy()
    part[alone] = some["offset"].fill_null(0).to_numpy()[alone] % parts
    return part


def _is_kind(kind: pa.ChunkedArray, *kinds: str) -> pa.ChunkedArray:
    return pc.is_in(kind, value_set=pa.array(kinds))


def _is_much(some: list[pa.Table], share: int) -> bool:
    """Whether it is more than is held at once, or a share of that."""
    size: int = sum(table.nbytes for table in some)
    return size * share > _MOST_BYTES
