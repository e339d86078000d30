"""Facts of some groups, laid out so that each group's are at hand without a look at the others'."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.kernels.arrays import Ints
from spark_assign.kernels.history.facts import COMMITS, DELETED, RECORD, UNREAD
from spark_assign.kernels.history.gathered import codes_of
from spark_assign.kernels.history.slots import STRETCH, Commits, Slot, Slots
from spark_assign.kernels.history.steps import Raw
from spark_assign.kernels.history.stretches import Stretches, in_one, united
from spark_assign.kernels.segments import first_of_each, stretches

_ROWS = 100_000
"""So many rows are taken at once, if groups are smaller."""
_AT_ONCE = 1_000
"""So many records of a group are brought out of Arrow at once: giant groups have records of megabytes."""
_WHOSE = ("cluster", "group_id")
_LEAST, _MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True)
class Known:
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


def pieces(facts: pa.Table, gap_ms: int) -> Iterator[Piece]:
    """The facts of some groups after the others, by cluster and group; what could not be read before is left out."""
    told = pc.and_(pc.is_valid(facts["group_id"]), pc.not_equal(facts["kind"], UNREAD))
    facts = (facts if pc.all(told).as_py() else facts.filter(told)).combine_chunks()
    whose = in_one(*(codes_of(facts[name])[0] for name in _WHOSE))
    kind = codes_of(facts["kind"])[0]  # Records of a group stand together.
    order = np.lexsort((*(facts[name].fill_null(0).to_numpy() for name in ("offset", "partition")), kind, whose))
    borders = stretches(whose[order])
    begin = 0
    for end in range(1, len(borders) + 1):
        first = borders[begin][0]
        if end == len(borders) or borders[end][1] - first > _ROWS:
            piece = facts.take(pa.array(order[first : borders[end - 1][1]])).combine_chunks()
            begins = np.array([border[0] - first for border in borders[begin:end]], np.int64)
            yield Piece(piece, begins, gap_ms)
            begin = end


class Piece:
    """Facts of whole groups, one group after the other.

    Attributes:
        clusters, names: of each group.
        slots: what they commit; None: nothing.
    """

    def __init__(self, facts: pa.Table, begins: Ints, gap_ms: int) -> None:
        self._facts, self._begins = facts, begins
        lengths = np.diff(np.append(begins, facts.num_rows))
        self._group = np.repeat(np.arange(len(begins)), lengths)
        self._rows = {
            kind: np.flatnonzero(pc.equal(facts["kind"], kind).to_numpy()) for kind in (RECORD, COMMITS, DELETED)
        }
        self.clusters, self.names = (facts[name].take(pa.array(begins)).combine_chunks() for name in _WHOSE)
        self.slots = self._slots(gap_ms)

    def groups(self) -> Iterator[Known]:
        """Each group's."""
        clusters, names = self.clusters.to_pylist(), self.names.to_pylist()
        slots, commits = self._committed()
        records = self._facts.select(["partition", "offset", "at_ms", "key", "value"])
        deleted, topic_ids, first_ms, last_ms = (
            self.deleted(),
            self._topic_ids(),
            self._times(np.minimum),
            self._times(np.maximum),
        )
        bounds = np.searchsorted(self._group[self._rows[RECORD]], np.arange(len(names) + 1)).tolist()
        place = self._rows[RECORD]
        types = pc.binary_slice(records["key"].take(pa.array(place)), 0, 2).to_pylist()
        for number, (cluster, name) in enumerate(zip(clusters, names, strict=True)):
            begin, count = bounds[number], bounds[number + 1] - bounds[number]
            gone = deleted.get(number, {})
            yield Known(
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

    def _of(self, kind: str, *names: str) -> tuple[list[int], list[list[Any]]]:
        """Of rows of a kind their groups and some columns."""
        rows = self._rows[kind]
        some = self._facts.select(names).take(pa.array(rows))
        return self._group[rows].tolist(), [column.to_pylist() for column in some.columns]

    def _slots(self, gap_ms: int) -> Slots | None:
        """Stretches of several batches, and under several ids of a topic, are united."""
        rows = self._rows[COMMITS]
        if not len(rows):
            return None
        some = self._facts.select(["topic", "topic_partition", *STRETCH]).take(pa.array(rows))
        topics = some["topic"].combine_chunks().dictionary_encode()
        partition = some["topic_partition"].to_numpy().astype(np.int64)
        least = int(partition.min())  # Below 0 of a record that is corrupt; Kafka's class reads that, too.
        many = len(topics.dictionary), int(partition.max()) - least + 1
        number = (self._group[rows] * many[0] + topics.indices.to_numpy()) * many[1] + partition - least
        known, slot = np.unique(number, return_inverse=True)
        whole, _ = united(Stretches(slot, *(some[name].to_numpy() for name in STRETCH)), gap_ms)
        rest, part = np.divmod(known, many[1])
        group, topic = np.divmod(rest, many[0])
        named = pa.DictionaryArray.from_arrays(pa.array(topic), topics.dictionary)
        first = np.append(np.flatnonzero(first_of_each(whole.slot)), len(whole.slot))
        return Slots(group, named, part + least, whole, first)

    def _committed(self) -> tuple[list[int], list[int]]:
        """Of each group the place of its first slot, with the number of all at the end; and how many commits it has."""
        groups = len(self._begins)
        if self.slots is None:
            return [0] * (groups + 1), [0] * groups
        commits = np.zeros(groups, np.int64)
        np.add.at(commits, self.slots.group, np.add.reduceat(self.slots.whole.commits, self.slots.first[:-1]))
        return np.searchsorted(self.slots.group, np.arange(groups + 1)).tolist(), commits.tolist()

    def deleted(self) -> dict[int, dict[Slot, int]]:
        """By group: tombstones of what is committed."""
        found: dict[int, dict[Slot, int]] = defaultdict(lambda: defaultdict(int))
        groups, columns = self._of(DELETED, "topic", "topic_partition", "commits")
        for group, topic, partition, tombstones in zip(groups, *columns, strict=True):
            found[group][topic, partition] += tombstones
        return found

    def _topic_ids(self) -> dict[int, dict[str, str]]:
        """By group."""
        found: dict[int, dict[str, str]] = defaultdict(dict)
        groups, columns = self._of(COMMITS, "topic_id", "topic")
        for group, topic_id, topic in zip(groups, *columns, strict=True):
            if topic_id is not None:
                found[group][topic_id] = topic
        return found

    def _times(self, which: np.ufunc) -> list[int]:
        """Of each group the first or the last moment of its facts."""
        none = _MOST if which is np.minimum else _LEAST
        columns = [self._facts[name].fill_null(none).to_numpy() for name in ("at_ms", "from_ms", "until_ms")]
        moments: list[int] = which.reduceat(which.reduce(columns), self._begins).tolist()
        return moments
