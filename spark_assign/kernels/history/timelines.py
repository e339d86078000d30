"""From facts of whole groups to their timelines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.kernels.history.asked import Asked
from spark_assign.kernels.history.broker_groups import kind_of, names_of_topics
from spark_assign.kernels.history.course import Course
from spark_assign.kernels.history.facts import COMMITS, DELETED, RECORD, UNREAD
from spark_assign.kernels.history.steps import CLASSIC, Raw, said, steps
from spark_assign.kernels.history.stretches import Stretches, united
from spark_assign.kernels.history.timeline import Stretch, Timeline, Unread
from spark_assign.kernels.segments import stretches
from spark_assign.wire.group_records import NAMES, read_value
from spark_assign.wire.reader import WireError

SIMPLE = "simple"
_ROWS = 100_000
"""So many rows are taken at once, if groups are smaller."""
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""Kafka's uuid of nothing."""
_NAMING = {number: kind for number, name in NAMES.items() if (kind := kind_of(name)) and "PartitionMetadata" in name}
"""Types of records that bring ids and names of topics together."""
_KEYS = ("cluster", "group_id", "kind", "partition", "offset")


def timelines(facts: pa.Table, asked: Asked | None = None) -> Iterator[tuple[str, str, Timeline]]:
    """The timeline of each group, by cluster and group; facts are of whole groups, in any order.

    What could not be read before (`unread`) has no timeline.
    """
    gap_ms = (asked or Asked()).gap_ms
    told = pc.and_(pc.is_valid(facts["group_id"]), pc.not_equal(facts["kind"], UNREAD))
    facts = facts.filter(told).combine_chunks()
    order = pc.sort_indices(facts, [(name, "ascending") for name in _KEYS])
    cluster, group = (_codes(facts[name].take(order)) for name in _KEYS[:2])
    borders = stretches(cluster * (int(group.max(initial=0)) + 1) + group)
    for begin, end in _pieces(borders):
        piece = facts.take(order.slice(borders[begin][0], borders[end - 1][1] - borders[begin][0]))
        names = [piece[name].combine_chunks() for name in _KEYS[:2]]
        for first, last in borders[begin:end]:
            at = first - borders[begin][0]
            rows = piece.slice(at, last - first)
            yield names[0][at].as_py(), names[1][at].as_py(), _timeline(rows, gap_ms)


def _codes(names: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Names as numbers; those that stand together are the same."""
    return np.asarray(names.combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False), np.int64)


def _pieces(borders: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Groups that are taken together: a few big ones or many small ones."""
    begin = 0
    for end in range(1, len(borders) + 1):
        if end == len(borders) or borders[end][1] - borders[begin][0] > _ROWS:
            yield begin, end
            begin = end


def _timeline(facts: pa.Table, gap_ms: int) -> Timeline:
    kinds = facts["kind"].combine_chunks()
    of_kind = {kind: facts.filter(pc.equal(kinds, kind)) for kind in (RECORD, COMMITS, DELETED)}
    records, commits, deleted = of_kind.values()
    unread: list[Unread] = []
    named = {**_named_by_records(records), **_named_by_commits(commits, deleted)}
    course = Course(named)
    for step in steps(said(_raw(records), unread)):
        course.take(step)
    times = [pc.min_max(table[name]) for table in of_kind.values() for name in ("at_ms", "from_ms", "until_ms")]
    known = [time[end].as_py() for time in times for end in ("min", "max") if time["min"].is_valid]
    tombstones = _deleted(deleted)
    return Timeline(
        group_type=_group_type(course, only_commits=bool(commits.num_rows or tombstones)),
        protocol_type=course.protocol_type if course.group_type == CLASSIC else None,
        generations=course.generations(),
        owned=course.owners.told(),
        commits=_commits(commits, gap_ms),
        deleted=tombstones,
        first_ms=min(known, default=0),
        last_ms=max(known, default=0),
        records=records.num_rows - len(unread) + (pc.sum(commits["commits"]).as_py() or 0) + sum(tombstones.values()),
        rejected=tuple(course.embedded.rejected()),
        unread=tuple(unread),
        topic_ids={topic: topic_id for topic_id, topic in sorted(named.items())},
    )


def _raw(records: pa.Table) -> Iterator[Raw]:
    yield from zip(
        *(records[name].to_pylist() for name in ("partition", "offset", "at_ms", "key", "value")), strict=True
    )


def _named_by_records(records: pa.Table) -> dict[str, str]:
    """Ids of topics to names, by what the group's own records say (those of 4.0, and of share groups)."""
    named: dict[str, str] = {}
    types = pc.binary_slice(records["key"], 0, 2)
    naming = records.filter(pc.is_in(types, value_set=pa.array([each.to_bytes(2, "big") for each in _NAMING])))
    for key, value in zip(naming["key"].to_pylist(), naming["value"].to_pylist(), strict=True):
        number = int.from_bytes(key[:2], "big")
        if value is not None:
            try:
                named.update(names_of_topics(_NAMING[number][1], read_value(number, value).fields))
            except WireError:
                continue  # It is told as unread where the records are taken in their order.
    return named


def _named_by_commits(*facts: pa.Table) -> dict[str, str]:
    """The same, by what the group commits."""
    named: dict[str, str] = {}
    for table in facts:
        pairs = table.select(["topic_id", "topic"]).group_by(["topic_id", "topic"]).aggregate([])
        rows = zip(pairs["topic_id"].to_pylist(), pairs["topic"].to_pylist(), strict=True)
        named.update((topic_id, topic) for topic_id, topic in rows if topic_id not in (None, _NO_ID))
    return named


def _group_type(course: Course, *, only_commits: bool) -> str:
    """What the group is; a tombstone alone is also written for who only commits."""
    return course.group_type or (SIMPLE if only_commits else course.ended) or SIMPLE


def _commits(commits: pa.Table, gap_ms: int) -> dict[tuple[str, int], tuple[Stretch, ...]]:
    """Stretches by topic and partition; those of several batches, and under several ids of a topic, are united."""
    if not commits.num_rows:
        return {}
    topics = commits["topic"].combine_chunks().dictionary_encode()
    code, partition = topics.indices.to_numpy(), commits["topic_partition"].to_numpy()
    least = int(partition.min())  # below 0 of a record that is corrupt; Kafka's class reads that, too
    most = int(partition.max()) - least + 1
    numbers = ("from_ms", "until_ms", "commits", "first_offset", "last_offset")
    slot = code.astype(np.int64) * most + partition - least
    some = united(Stretches(slot, *(commits[name].to_numpy() for name in numbers)), gap_ms)
    found: dict[tuple[str, int], list[Stretch]] = defaultdict(list)
    names = topics.dictionary.to_pylist()
    columns = (some.slot // most, some.slot % most + least, *(getattr(some, name) for name in numbers))
    for topic, number, *stretch in zip(*(column.tolist() for column in columns), strict=True):
        found[names[topic], number].append(Stretch(*stretch))
    return {key: tuple(found[key]) for key in sorted(found)}


def _deleted(deleted: pa.Table) -> dict[tuple[str, int], int]:
    found: dict[tuple[str, int], int] = defaultdict(int)
    columns = (deleted[name].to_pylist() for name in ("topic", "topic_partition", "commits"))
    for topic, partition, tombstones in zip(*columns, strict=True):
        found[topic, partition] += tombstones
    return dict(sorted(found.items()))
