"""Facts of some groups, laid out so that each group's are at hand without a look at the others'."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.history.kernel.binary_column import codes_of
from spark_assign.history.kernel.commit_columns import CommitColumns, Commits, Slot
from spark_assign.history.kernel.commit_intervals import (
    LISTS,
    CommitIntervals,
    flatten_intervals,
    merge_intervals,
    pack_keys,
)
from spark_assign.history.kernel.facts import COMMITS, DELETED, RECORD, UNREAD
from spark_assign.history.kernel.write_batches import Raw
from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.segmented_arrays import key_ranges, starts_new_key

_ROWS = 300_000
"""So many records and intervals are taken at once, if groups have fewer."""
_AT_ONCE = 1_000
"""So many records of a group are brought out of Arrow at once: giant groups have records of megabytes."""
_WHOSE = ("cluster", "group_id")
_LEAST, _MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True)
class GroupFacts:
    """The facts of one group.

    Attributes:
        topic_ids: ids of topics to their names, by what the group committed.
        first_ms, last_ms, records: as in `timeline.Timeline`.
    """

    cluster: str
    group_id: str
    commits: Commits
    deleted: dict[Slot, int]
    topic_ids: dict[str, str]
    first_ms: int
    last_ms: int
    records: int
    _raw: pa.Table
    _types: frozenset[bytes]

    def raw(self) -> Iterator[Raw]:
        """Records about the group itself, in their order."""
        for at in range(0, self._raw.num_rows, _AT_ONCE):
            some = self._raw.slice(at, _AT_ONCE)
            yield from zip(*(column.to_pylist() for column in some.columns), strict=True)

    def raw_of_types(self, types: Sequence[int]) -> Iterator[tuple[bytes, bytes | None]]:
        """Key and value of the records of some types."""
        asked = [number.to_bytes(2, "big") for number in types]
        if self._types.isdisjoint(asked):
            return
        known = pa.array(asked)
        some = self._raw.filter(pc.is_in(pc.binary_slice(self._raw["key"], 0, 2), value_set=known))
        yield from zip(some["key"].to_pylist(), some["value"].to_pylist(), strict=True)


def pieces(facts: pa.Table, gap_ms: int) -> Iterator[GroupChunk]:
    """The facts of some groups after the others, by cluster and group; what could not be read before is left out."""
    told = pc.and_(pc.is_valid(facts["group_id"]), pc.not_equal(facts["kind"], UNREAD))
    facts = (facts if pc.all(told).as_py() else facts.filter(told)).combine_chunks()
    whose = pack_keys(*(codes_of(facts[name])[0] for name in _WHOSE))
    kind, topic = (codes_of(facts[name])[0] for name in ("kind", "topic"))  # Records of a group stand together.
    place = (facts[name].fill_null(0).to_numpy() for name in ("offset", "partition"))
    order = np.lexsort((*place, topic, kind, whose))
    borders = key_ranges(whose[order])
    listed = sum(pc.list_value_length(facts[name]).fill_null(0).to_numpy() for name in LISTS)
    size = np.append(0, np.cumsum(1 + listed[order]))
    begin = 0
    for end in range(1, len(borders) + 1):
        first = borders[begin][0]
        if end == len(borders) or size[borders[end][1]] - size[first] > _ROWS:
            piece = facts.take(pa.array(order[first : borders[end - 1][1]])).combine_chunks()
            begins = np.array([border[0] - first for border in borders[begin:end]], np.int64)
            yield GroupChunk(piece, begins, gap_ms)
            begin = end


class GroupChunk:
    """Facts of whole groups, one group after the other.

    Attributes:
        clusters, names: of each group.
        slots: what they commit.
    """

    def __init__(self, facts: pa.Table, begins: IntArray, gap_ms: int) -> None:
        self._facts, self._begins = facts, begins
        lengths = np.diff(np.append(begins, facts.num_rows))
        self._group = np.repeat(np.arange(len(begins)), lengths)
        self._rows = {
            kind: np.flatnonzero(pc.equal(facts["kind"], kind).to_numpy()) for kind in (RECORD, COMMITS, DELETED)
        }
        self._topic, self._topics = codes_of(facts["topic"])
        self.clusters, self.names = (facts[name].take(pa.array(begins)).combine_chunks() for name in _WHOSE)
        self._committed, self._deleted = self._commit_intervals(COMMITS, gap_ms), self._commit_intervals(DELETED, _MOST)
        self.slots = self._slots()

    def groups(self) -> Iterator[GroupFacts]:
        """Each group's."""
        clusters, names = self.clusters.to_pylist(), self.names.to_pylist()
        groups = np.arange(len(names) + 1)
        slots = np.searchsorted(self.slots.group, groups).tolist()
        records = self._facts.select(["partition", "offset", "at_ms", "key", "value"])
        deleted, topic_ids = self._deleted_by_group(), self._topic_ids()
        commits, first_ms, last_ms = self._counted(), self._times(np.minimum), self._times(np.maximum)
        bounds = np.searchsorted(self._group[self._rows[RECORD]], groups).tolist()
        place = self._rows[RECORD]
        types = pc.binary_slice(records["key"].take(pa.array(place)), 0, 2).to_pylist()
        for number, (cluster, name) in enumerate(zip(clusters, names, strict=True)):
            begin, count = bounds[number], bounds[number + 1] - bounds[number]
            gone = deleted.get(number, {})
            yield GroupFacts(
                cluster=cluster,
                group_id=name,
                commits=Commits(self.slots, slots[number], slots[number + 1]),
                deleted={slot: gone[slot] for slot in sorted(gone)},
                topic_ids=topic_ids.get(number, {}),
                first_ms=first_ms[number],
                last_ms=last_ms[number],
                records=count + commits[number] + sum(gone.values()),
                _raw=records.slice(int(place[begin]) if count else 0, count),
                _types=frozenset(types[begin : begin + count]),
            )

    def _commit_intervals(self, kind: str, gap_ms: int) -> CommitIntervals:
        """Those of a kind, by group and topic; of several batches, and under several ids of a topic, united."""
        rows = self._rows[kind]
        number = self._group[rows] * len(self._topics) + self._topic[rows]
        return merge_intervals(flatten_intervals(number, self._facts.select(list(LISTS)).take(pa.array(rows))), gap_ms)[
            0
        ]

    def _slots(self) -> CommitColumns:
        first = np.flatnonzero(starts_new_key(self._committed.slot))
        group, topic = np.divmod(self._committed.topic[first], len(self._topics))
        named = pa.DictionaryArray.from_arrays(pa.array(topic), self._topics)
        ends = np.append(first, len(self._committed.topic))
        return CommitColumns(
            group, named, self._committed.partition[first], self._committed, ends, self._tombstones(first)
        )

    def _tombstones(self, first: IntArray) -> IntArray:
        """Of each slot, by its first interval."""
        known, gone = self._committed, self._deleted
        found = np.zeros(len(first), np.int64)
        if len(gone.topic):
            topic, partition = (
                np.concatenate([getattr(known, name)[first], getattr(gone, name)]) for name in ("topic", "partition")
            )
            slot = pack_keys(topic, partition)
            place = np.searchsorted(slot[: len(first)], slot[len(first) :])
            same = (place < len(first)) & (slot[np.minimum(place, len(first) - 1)] == slot[len(first) :])
            found[place[same]] = gone.commits[same]
        return found

    def _counted(self) -> list[int]:
        """Of each group how many commits it has."""
        commits = np.zeros(len(self._begins), np.int64)
        np.add.at(commits, self._committed.topic // len(self._topics), self._committed.commits)
        counted: list[int] = commits.tolist()
        return counted

    def _deleted_by_group(self) -> dict[int, dict[Slot, int]]:
        """By group: tombstones of what is committed."""
        found: dict[int, dict[Slot, int]] = defaultdict(dict)
        group, topic = np.divmod(self._deleted.topic, len(self._topics))
        names = self._topics.take(pa.array(topic)).to_pylist()
        columns = (group.tolist(), names, self._deleted.partition.tolist(), self._deleted.commits.tolist())
        for which, name, partition, tombstones in zip(*columns, strict=True):
            found[which][name, partition] = tombstones
        return found

    def _topic_ids(self) -> dict[int, dict[str, str]]:
        """By group."""
        found: dict[int, dict[str, str]] = defaultdict(dict)
        rows = self._rows[COMMITS]
        some = self._facts.select(["topic_id", "topic"]).take(pa.array(rows))
        columns = (column.to_pylist() for column in some.columns)
        for group, topic_id, topic in zip(self._group[rows].tolist(), *columns, strict=True):
            if topic_id is not None:
                found[group][topic_id] = topic
        return found

    def _times(self, which: np.ufunc) -> list[int]:
        """Of each group the first or the last moment of its facts."""
        found = np.full(len(self._begins), _MOST if which is np.minimum else _LEAST)
        rows = self._rows[RECORD]
        which.at(found, self._group[rows], self._facts["at_ms"].take(pa.array(rows)).to_numpy())
        for some in (self._committed, self._deleted):
            for moments in (some.from_ms, some.until_ms):
                which.at(found, some.topic // len(self._topics), moments)
        moments_of: list[int] = found.tolist()
        return moments_of
