"""Topics of groups, as numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from spark_assign.groups.kernel.facts import GROUP_LOAD, LOAD, LOAD_COLUMNS, IndexedFacts
from spark_assign.java.key_index import KeyIndex
from spark_assign.java.key_index import to_int_array as numbers_of
from spark_assign.numeric.array_types import BoolArray, FloatArray, IntArray
from spark_assign.numeric.segmented_arrays import exclusive_sum, expand_slices


@dataclass(frozen=True)
class TopicColumns:
    """Topics of groups, sorted by group and name; of each

    Attributes:
        group, name: its group and the number of its name.
        partitions: -1 where there is no such topic.
        is_subscribed: whether a member subscribes to it.
        subscriber_set: the class of its subscribers, `EVERYONE` (also for none) or a number of `GroupSpecs.classes`.
    """

    group: IntArray
    name: IntArray
    partitions: IntArray
    is_subscribed: BoolArray
    subscriber_set: IntArray

    def __len__(self) -> int:
        return len(self.group)

    def sum_of_preceding(self, each: IntArray) -> IntArray:
        """What the topics that come before each in its group have of something, added up."""
        return exclusive_sum(each, np.searchsorted(self.group, self.group))

    @cached_property
    def with_metadata(self) -> IntArray:
        """The topics that are subscribed to and have metadata."""
        return np.flatnonzero(self.is_subscribed & (self.partitions > 0))


# DOC: What goes through the partitions of groups: messages in and out a second, lag, bytes.
#
# A partition's load is the rate at which messages are written to it.
#

REMEDIES = {
    "bad-load": "Rates and lags are numbers from 0, or null where they are not known",
    "duplicate-load": "Keep one row per partition, and one more per group that reads it",
}


@dataclass(frozen=True)
class PartitionLoads:
    """What is known of each partition of each topic of `GroupSpecs`; `NaN` where that is nothing.

    Attributes:
        start: of each topic the place of its first partition in the columns below.
        in_rate, in_rate_stddev: messages a second that are written; the standard deviation of that.
        out_rate, lag: messages a second that the group reads; messages that it is behind.
        bytes: bytes a second that are written.
        faults: of groups with rows that cannot be believed code and detail.
        has_loads: of each group whether the rate of any partition that it subscribes to is known.
    """

    start: IntArray
    in_rate: FloatArray
    in_rate_stddev: FloatArray
    out_rate: FloatArray
    lag: FloatArray
    bytes: FloatArray
    faults: Mapping[int, tuple[str, str]]
    has_loads: BoolArray

    def position_of(self, topic: IntArray, partition: IntArray) -> IntArray:
        """Where partitions stand in the columns."""
        return self.start[topic] + partition


def read_loads(told: IndexedFacts, fact_group_index: IntArray, topics: TopicColumns) -> PartitionLoads:
    """The facts of kinds LOAD and OWN_LOAD, of which the latter, a group's own, come first where they say something."""
    sizes = np.maximum(topics.partitions, 0)
    begin = np.cumsum(sizes) - sizes
    columns = {name: np.full(int(sizes.sum()), np.nan) for name in LOAD_COLUMNS}
    faults: dict[int, tuple[str, str]] = {}
    for kind in (LOAD, GROUP_LOAD):
        rows, topic = _rows(told, kind, fact_group_index, topics)
        lengths = numbers_of(told.column("at", rows).value_lengths(), 0)
        topic = np.repeat(topic, lengths)
        partition = np.asarray(told.column("at", rows).flatten().to_numpy(zero_copy_only=False), np.int64)
        values = {
            name: np.asarray(told.column(list_of, rows).flatten().to_numpy(zero_copy_only=False), np.float64)
            for name, list_of in LOAD_COLUMNS.items()
        }
        for group, code, row in _faults(topic, partition, values, told, topics):
            faults.setdefault(group, (code, f"{row}. {REMEDIES[code]}"))
        inside = (partition >= 0) & (partition < sizes[topic])
        at = begin[topic[inside]] + partition[inside]
        for name, of_each in values.items():
            known = ~np.isnan(of_each[inside])
            columns[name][at[known]] = of_each[inside][known]
    some = np.zeros(len(fact_group_index), bool)
    told_of = np.repeat(topics.is_subscribed, sizes) & ~np.isnan(columns["in_rate"])
    some[np.repeat(topics.group, sizes)[told_of]] = True
    return PartitionLoads(start=begin, **columns, faults=faults, has_loads=some)


def _rows(told: IndexedFacts, kind: int, fact_group_index: IntArray, topics: TopicColumns) -> tuple[IntArray, IntArray]:
    """Rows of that kind which tell of topics of the specs, and the topic of each."""
    number = np.full(told.num_groups, -1, np.int64)
    number[fact_group_index] = np.arange(len(fact_group_index))
    size = max(len(told.topic_names), 1)
    rows = told.rows_by_kind[kind]
    rows = rows[(number[told.group_index[rows]] >= 0) & (told.topic_index[rows] >= 0)]
    topic = KeyIndex(topics.group * size + topics.name).lookup(
        number[told.group_index[rows]] * size + told.topic_index[rows]
    )
    return rows[topic >= 0], topic[topic >= 0]


def _faults(
    topic: IntArray, partition: IntArray, values: Mapping[str, FloatArray], told: IndexedFacts, topics: TopicColumns
) -> Iterator[tuple[int, str, str]]:
    """Group, code and row of what cannot be believed, the first of each group by topic and partition."""
    order = np.lexsort((partition, topic))
    same = np.append(False, (np.diff(topic[order]) == 0) & (np.diff(partition[order]) == 0))[: len(order)]
    wrong = {name: (each < 0) | np.isinf(each) for name, each in values.items()} | {"partition": partition < 0}
    any_wrong = np.logical_or.reduce(list(wrong.values()))
    for at in order[any_wrong[order]].tolist():
        name = next(name for name, flags in wrong.items() if flags[at])
        value = partition[at] if name == "partition" else values[name][at]
        yield int(topics.group[topic[at]]), "bad-load", f"{_row(at, topic, partition, told, topics)}, {name}={value}"
    for at in order[same].tolist():
        yield int(topics.group[topic[at]]), "duplicate-load", _row(at, topic, partition, told, topics)


def _row(at: int, topic: IntArray, partition: IntArray, told: IndexedFacts, topics: TopicColumns) -> str:
    name = told.topic_names[int(topics.name[topic[at]])].as_py()
    return f"loads: topic={name}, partition={partition[at]}"


def slice_rates(
    loads: PartitionLoads, topics: TopicColumns, topic: IntArray, first: IntArray, step: IntArray, count: IntArray
) -> pa.Array:
    """Of each run a list of its partitions' in_rates; null where one is not known, or is no partition of the topic."""
    row, partition = expand_slices(first, step, count)
    there = partition < topics.partitions[topic[row]]
    rate = np.full(len(row), np.nan)
    rate[there] = loads.in_rate[loads.position_of(topic[row[there]], partition[there])]
    ends = np.append(0, np.cumsum(count))
    return pa.LargeListArray.from_arrays(pa.array(ends), pa.array(rate, mask=np.isnan(rate)))
