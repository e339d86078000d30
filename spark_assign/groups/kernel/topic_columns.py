"""Topics of groups, subscriptions to them, and the loads of their partitions.

The load of a partition is the rate at which messages are written to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from spark_assign.groups.kernel.facts import GROUP_LOAD, LOAD, LOAD_COLUMNS, IndexedFacts
from spark_assign.java.key_index import KeyIndex, to_int_array
from spark_assign.numeric.array_types import BoolArray, FloatArray, IntArray
from spark_assign.numeric.partition_slices import invert
from spark_assign.numeric.segmented_arrays import starts_new_key


@dataclass(frozen=True)
class TopicColumns:
    """Topics, sorted by group and name. Shape of each array: (num_topics,).

    Attributes:
        group: group index.
        name: index into `IndexedFacts.topic_names`.
        partitions: number of partitions; -1 for an unknown topic.
        is_subscribed: whether a member subscribes to the topic.
        subscriber_set: index into `GroupSpecs.subscriber_sets`; `ALL_MEMBERS` if all members or none subscribe.
    """

    group: IntArray
    name: IntArray
    partitions: IntArray
    is_subscribed: BoolArray
    subscriber_set: IntArray

    def __len__(self) -> int:
        return len(self.group)

    def find(self, group: IntArray, name: IntArray) -> IntArray:
        """Returns the topic of each group and name; -1 if there is none. No name is negative (null)."""
        size = max(int(self.name.max(initial=0)), int(name.max(initial=0))) + 1
        return KeyIndex(self.group * size + self.name).lookup(group * size + name)

    def find_rows(self, facts: IndexedFacts, kind: int, fact_group_index: IntArray) -> tuple[IntArray, IntArray]:
        """Returns the rows of a kind that have one of the topics, and the topic of each.

        `fact_group_index` is the index of each group in the facts.
        """
        spec_index = invert(fact_group_index, facts.num_groups)
        rows = facts.rows_by_kind[kind]
        rows = rows[(spec_index[facts.group_index[rows]] >= 0) & (facts.topic_index[rows] >= 0)]
        topic = self.find(spec_index[facts.group_index[rows]], facts.topic_index[rows])
        return rows[topic >= 0], topic[topic >= 0]

    @cached_property
    def with_metadata(self) -> IntArray:
        """Indexes of the topics that are subscribed to and exist."""
        return np.flatnonzero(self.is_subscribed & (self.partitions > 0))

    def partitions_to_assign(self, selected: BoolArray) -> IntArray:
        """Returns the number of partitions of each topic that are assigned, given a mask of groups."""
        return np.where(self.is_subscribed & (self.partitions > 0) & selected[self.group], self.partitions, 0)


class SubscriptionRows(NamedTuple):
    """Subscriptions that are rows of the facts.

    Attributes:
        key: member * num_topics + topic; sorted and unique.
        row: index of the row.
    """

    key: IntArray
    row: IntArray


REMEDIES = {
    "bad-load": "Rates and lags are numbers from 0, or null where they are not known",
    "duplicate-load": "Keep one row per partition, and one more per group that reads it",
}


@dataclass(frozen=True)
class PartitionLoads:
    """Loads of the partitions of all topics of `GroupSpecs`; NaN if unknown.

    Attributes:
        start: index of each topic's first partition in the columns below.
        in_messages_per_second, in_messages_per_second_stddev: messages/s written, and their standard deviation.
        out_messages_per_second: messages/s that the group reads.
        lag: messages that the group is behind.
        in_bytes_per_second: bytes/s written.
        faults: code and detail by group index, for groups with invalid rows.
        has_loads: whether the rate of any subscribed partition is known. Shape: (num_groups,).
    """

    start: IntArray
    in_messages_per_second: FloatArray
    in_messages_per_second_stddev: FloatArray
    out_messages_per_second: FloatArray
    lag: FloatArray
    in_bytes_per_second: FloatArray
    faults: Mapping[int, tuple[str, str]]
    has_loads: BoolArray

    def position_of(self, topic: IntArray, partition: IntArray) -> IntArray:
        """Returns the positions of partitions in the columns."""
        return self.start[topic] + partition


def read_loads(facts: IndexedFacts, fact_group_index: IntArray, topics: TopicColumns) -> PartitionLoads:
    """Reads the facts of kinds LOAD and GROUP_LOAD; a group's own values override the values for all groups."""
    sizes = np.maximum(topics.partitions, 0)
    start = np.cumsum(sizes) - sizes
    columns = {name: np.full(int(sizes.sum()), np.nan) for name in LOAD_COLUMNS}
    faults: dict[int, tuple[str, str]] = {}
    for kind in (LOAD, GROUP_LOAD):
        rows, topic = topics.find_rows(facts, kind, fact_group_index)
        lengths = to_int_array(facts.column("at", rows).value_lengths(), 0)
        topic = np.repeat(topic, lengths)
        partition = np.asarray(facts.column("at", rows).flatten().to_numpy(zero_copy_only=False), np.int64)
        values = {
            name: np.asarray(facts.column(list_of, rows).flatten().to_numpy(zero_copy_only=False), np.float64)
            for name, list_of in LOAD_COLUMNS.items()
        }
        for row, code, value in _faults(topic, partition, values):
            name = facts.topic_names[int(topics.name[topic[row]])].as_py()
            detail = f"loads: topic={name}, partition={partition[row]}{value}. {REMEDIES[code]}"
            faults.setdefault(int(topics.group[topic[row]]), (code, detail))
        exists = (partition >= 0) & (partition < sizes[topic])
        position = start[topic[exists]] + partition[exists]
        for name, column in values.items():
            is_known = ~np.isnan(column[exists])
            columns[name][position[is_known]] = column[exists][is_known]
    has_loads = np.zeros(len(fact_group_index), bool)
    has_rate = np.repeat(topics.is_subscribed, sizes) & ~np.isnan(columns["in_messages_per_second"])
    has_loads[np.repeat(topics.group, sizes)[has_rate]] = True
    return PartitionLoads(start=start, **columns, faults=faults, has_loads=has_loads)


def _faults(topic: IntArray, partition: IntArray, values: Mapping[str, FloatArray]) -> Iterator[tuple[int, str, str]]:
    """Yields the index, the code, and the text of the invalid value of invalid rows, ordered by topic and partition."""
    order = np.lexsort((partition, topic))
    is_duplicate = ~starts_new_key(topic[order], partition[order])
    columns = {**values, "partition": partition}
    invalid = {name: (column < 0) | np.isinf(column) for name, column in columns.items()}
    any_wrong = np.logical_or.reduce(list(invalid.values()))
    for index in order[any_wrong[order]].tolist():
        name = next(name for name, flags in invalid.items() if flags[index])
        yield index, "bad-load", f", {name}={columns[name][index]}"
    for index in order[is_duplicate].tolist():
        yield index, "duplicate-load", ""
