"""Facts about consumer groups, one row per fact. The `kind` of a row says which columns it uses.

MEMBER   member_id, group_instance_id, rack_id, generation_id, user_data_generation_id, position, user_data, client_id,
         client_host:
         a row of `members`
SUBSCRIPTION
         member_id, topic, partitions (null: unknown topic), topic_id: a row of `subscriptions`; and the slice of each
         window assignor: `<assignor>_first`, `_step`, `_count`
LISTED_MEMBER
         member_id, list: a member that subscribes to all topics of a list
LISTED_TOPIC
         topic, partitions (null: unknown topic), topic_id, list: a topic of a list
GROUP    assignor, group_type, subscription_type, leader_library, leader_version, leader_confidence: a row of `groups`
OWNED_SLICE
         member_id, topic, partitions (of the topic; null: unknown topic), first, step, count: owned partitions
OWNED_LIST
         member_id, and the parallel lists topics, firsts, steps, counts: a row of `owned_lists`
OWNED_TOPIC
         topic, partitions (null: unknown topic): a topic in rows of kind OWNED_LIST
OWNED_PARTITION
         member_id, topic, partitions, partition: an owned partition
OWNED_BITMAP
         owned partitions as bits: member_id, topic, partitions, block, bits, twice, count (`numeric.partition_slices`)
DEPARTED_SLICE
         as OWNED_SLICE: partitions that a departed member owned
OWNED_ORDER
         member_id, topic, position, and at, or first, step, count: partitions of a topic in the order in which a member
         reports them; topics are ordered by position
REPLICA_RACKS
         topic, and the parallel lists at (partitions), racks (of the replicas), leader_racks (of the leader)
INITIALIZED
         topic, first, step, count: a row of `initialized`
LOAD     topic, and the parallel lists at (partitions), in_rates, in_rate_stddevs, out_rates, lags, byte_rates (null if
         unknown): rows of `loads` that apply to all groups
GROUP_LOAD
         as LOAD: rows that apply to this group only
SUBTOPOLOGY
         no columns: a row of `subtopologies`
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.java.key_index import KeyIndex, NameIndex, to_int_array
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import compress_sorted, read_bitmaps, slices_from_bitmaps
from spark_assign.numeric.segmented_arrays import expand_slices

KINDS = (
    MEMBER,
    SUBSCRIPTION,
    GROUP,
    OWNED_SLICE,
    OWNED_BITMAP,
    DEPARTED_SLICE,
    REPLICA_RACKS,
    LISTED_MEMBER,
    OWNED_ORDER,
    SUBTOPOLOGY,
    INITIALIZED,
    LOAD,
    GROUP_LOAD,
    OWNED_PARTITION,
    LISTED_TOPIC,
    OWNED_LIST,
    OWNED_TOPIC,
) = range(17)

LEADER_COLUMNS = ("leader_library", "leader_version", "leader_confidence")
"""Columns of `groups` about the group's leader (`groups.kernel.leader_rules`)."""

LOAD_COLUMNS = {
    "in_messages_per_second": "in_rates",
    "in_messages_per_second_stddev": "in_rate_stddevs",
    "out_messages_per_second": "out_rates",
    "lag": "lags",
    "in_bytes_per_second": "byte_rates",
}
"""Columns of `loads`, and the fact columns that hold a list of each."""

LOAD_SETTINGS = ("capacity", "load_bound")
"""Columns of `groups` with load settings."""

SLICE_LISTS = ("topics", "firsts", "steps", "counts")
"""Columns of OWNED_LIST with an element per slice."""

WINDOW_ASSIGNORS = ("range", "roundrobin")
"""Assignors whose slices windows compute."""

_TEXT, _INT = pa.string(), pa.int32()

FACT_TYPES: dict[str, pa.DataType] = {
    **dict.fromkeys(("cluster", "group_id"), _TEXT),
    "kind": pa.int8(),
    **dict.fromkeys(("member_id", "topic", "assignor", "group_type", "group_instance_id", "rack_id"), _TEXT),
    **dict.fromkeys(("generation_id", "user_data_generation_id", "position", "partitions"), _INT),
    "topic_id": _TEXT,
    "list": pa.int64(),
    **dict.fromkeys(("first", "step", "count", "block", "partition"), _INT),
    **dict.fromkeys(("bits", "twice"), pa.list_(pa.int64())),
    "topics": pa.list_(_TEXT),
    **dict.fromkeys(SLICE_LISTS[1:], pa.list_(_INT)),
    "at": pa.list_(_INT),
    "racks": pa.list_(pa.list_(_TEXT)),
    "leader_racks": pa.list_(_TEXT),
    **dict.fromkeys(LOAD_COLUMNS.values(), pa.list_(pa.float64())),
    **dict.fromkeys(LOAD_SETTINGS, pa.float64()),
    "user_data": pa.binary(),
    **dict.fromkeys(("client_id", "client_host"), _TEXT),
    **dict.fromkeys(("subscription_type", *LEADER_COLUMNS), _TEXT),
    **{f"{name}_{part}": _INT for name in WINDOW_ASSIGNORS for part in ("first", "step", "count")},
}
"""All fact columns and their types. A fact table can omit columns that no fact uses."""


def column(table: pa.Table, name: str) -> pa.Array:
    """Returns a column of a fact table; all null if the table omits it."""
    if name in table.column_names:
        return table[name].combine_chunks()
    return pa.nulls(len(table), FACT_TYPES[name])


@dataclass(frozen=True)
class IndexedFacts:
    """Facts of complete groups, with names replaced by indexes. All arrays have one element per fact unless noted.

    Attributes:
        table: the fact table.
        rows_by_kind: row indexes of each kind of fact.
        group_index: index into `cluster` and `group_id`.
        member_index: index into `member_id`; -1 for null.
        topic_index: index into `topic_names`; -1 for null.
        list_index: index among the distinct values of `list`; -1 for null.
        cluster, group_id: one element per group.
        member_id: distinct member ids, in `String.compareTo` order.
        topic_names: distinct topic names, in `String.compareTo` order.
    """

    table: pa.Table
    rows_by_kind: dict[int, IntArray]
    group_index: IntArray
    member_index: IntArray
    topic_index: IntArray
    list_index: IntArray
    cluster: pa.Array
    group_id: pa.Array
    member_id: pa.Array
    topic_names: pa.Array

    @property
    def num_groups(self) -> int:
        """Number of groups."""
        return len(self.cluster)

    def int_column(self, name: str, missing: int = -1) -> IntArray:
        """Returns an integer column as int64; null becomes `missing`."""
        return to_int_array(column(self.table, name), missing)

    def rows_of(self, kind: int, groups: BoolArray) -> IntArray:
        """Returns the rows of a kind in the groups that the mask selects."""
        rows = self.rows_by_kind[kind]
        return rows[groups[self.group_index[rows]]]

    def column(self, name: str, rows: IntArray) -> pa.Array:
        """Returns a column of the rows at these indexes."""
        return column(self.table, name).take(pa.array(rows, pa.int64()))


def index_facts(table: pa.Table) -> IndexedFacts:
    """Indexes the names of a fact table with rows in any order. Lists of slices become rows at its end."""
    table = _expand_lists(table)
    kind = column(table, "kind").to_numpy(zero_copy_only=False)
    rows = {tag: np.flatnonzero(kind == tag) for tag in KINDS}
    clusters, ids = NameIndex(column(table, "cluster")), NameIndex(column(table, "group_id"))
    group_keys = clusters.columns[0] * max(len(ids), 1) + ids.columns[0]
    groups = KeyIndex(group_keys)
    member, topic = NameIndex(column(table, "member_id")), NameIndex(column(table, "topic"))
    return IndexedFacts(
        table=table,
        rows_by_kind=rows,
        group_index=groups.lookup(group_keys),
        member_index=member.columns[0],
        topic_index=topic.columns[0],
        list_index=_index_lists(column(table, "list")),
        cluster=clusters.names.take(pa.array(groups.keys // max(len(ids), 1), pa.int64())),
        group_id=ids.names.take(pa.array(groups.keys % max(len(ids), 1), pa.int64())),
        member_id=member.names,
        topic_names=topic.names,
    )


def _expand_lists(table: pa.Table) -> pa.Table:
    """Adds a row of kind OWNED_SLICE for each slice in a row of kind OWNED_LIST.

    Shorter lists are padded with nulls, and a null list of topics is a null topic: both are faults.
    """
    kinds = column(table, "kind").to_numpy(zero_copy_only=False)
    list_rows, topic_rows = (np.flatnonzero(kinds == kind) for kind in (OWNED_LIST, OWNED_TOPIC))
    if not len(list_rows):
        return table
    lists = [column(table, name).take(pa.array(list_rows, pa.int64())) for name in SLICE_LISTS]
    lengths = [
        to_int_array(pc.list_value_length(each), missing) for each, missing in zip(lists, (1, 0, 0, 0), strict=True)
    ]
    parent, nth = expand_slices(*np.broadcast_arrays(0, 1, np.max(lengths, axis=0)))
    row = list_rows[parent]
    topic, first, step, count = (_padded(each, parent, nth) for each in lists)
    names = ["cluster", "group_id", "member_id", *(name for name in table.column_names if name not in FACT_TYPES)]
    slices = table.select(names).take(pa.array(list_rows, pa.int64())).combine_chunks().take(pa.array(parent))
    clusters, ids = NameIndex(table["cluster"]), NameIndex(table["group_id"])
    topics = NameIndex(column(table, "topic").take(pa.array(topic_rows, pa.int64())), topic)
    group = clusters.columns[0] * len(ids) + ids.columns[0]
    keys, example = np.unique(group[topic_rows] * len(topics) + topics.columns[0], return_index=True)
    at = KeyIndex(keys).lookup(group[row] * len(topics) + topics.columns[1])
    partitions = column(table, "partitions").take(pa.array(np.append(topic_rows[example], 0)[at], mask=at < 0))
    columns = {"topic": topic, "partitions": partitions, "first": first, "step": step, "count": count}
    columns["kind"] = pa.repeat(pa.scalar(OWNED_SLICE, pa.int8()), len(topic))
    for name, values in columns.items():
        slices = slices.append_column(name, values)
    return pa.concat_tables([table, slices], promote_options="default")


def _padded(lists: pa.Array, row: IntArray, nth: IntArray) -> pa.Array:
    """Returns the elements of lists at these places; null where the list is shorter."""
    start, end = (lists.offsets.to_numpy()[each].astype(np.int64) for each in (slice(None, -1), slice(1, None)))
    place = start[row] + nth
    return lists.values.take(pa.array(place, mask=place >= end[row]))


def _index_lists(lists: pa.Array) -> IntArray:
    encoded = lists.dictionary_encode().indices
    return to_int_array(encoded, -1)


@dataclass(frozen=True)
class OwnedSlices:
    """Partitions that members own, as slices.

    Attributes:
        row: row index of a fact with the member and topic.
        first, step, count: the slice.
    """

    row: IntArray
    first: IntArray
    step: IntArray
    count: IntArray


def find_owned(facts: IndexedFacts, is_valid: BoolArray) -> OwnedSlices:
    """Returns the ownership of the groups that `is_valid` marks; bitmaps and single partitions become slices."""
    slices, bitmaps, singles = (facts.rows_of(kind, is_valid) for kind in (OWNED_SLICE, OWNED_BITMAP, OWNED_PARTITION))
    found = [(slices, *(facts.int_column(name)[slices] for name in ("first", "step", "count")))]
    if len(bitmaps):
        pair, bits = _pair(facts, bitmaps), read_bitmaps(facts.column("bits", bitmaps))
        order = np.argsort(pair)
        key, *columns = slices_from_bitmaps(pair, facts.int_column("block")[bitmaps], bits)
        found.append((bitmaps[order][np.searchsorted(pair[order], key)], *columns))
    if len(singles):
        pair, partition = _pair(facts, singles), facts.int_column("partition")[singles]
        order = np.lexsort((partition, pair))
        key, *columns = compress_sorted(pair[order], partition[order])
        found.append((singles[order][np.searchsorted(pair[order], key)], *columns))
    return OwnedSlices(*map(np.concatenate, zip(*found, strict=True)))


def read_listed_partitions(facts: IndexedFacts, rows: IntArray) -> tuple[IntArray, IntArray]:
    """Returns the partitions of rows of kind OWNED_ORDER, row by row: an index into `rows`, and the partition (-1 for a
    slice without partitions)."""
    listed, has_list = facts.column("at", rows), facts.column("at", rows).is_valid().to_numpy(zero_copy_only=False)
    first, step, count = (facts.int_column(name, 0)[rows] for name in ("first", "step", "count"))
    row, partition = expand_slices(
        np.where(count > 0, first, -1),
        step,
        np.where(has_list, to_int_array(listed.value_lengths(), 0), np.maximum(count, 1)),
    )
    partition[has_list[row]] = np.asarray(listed.flatten().to_numpy(zero_copy_only=False), np.int64)
    return row, partition


def _pair(facts: IndexedFacts, rows: IntArray) -> IntArray:
    """Returns group, member, and topic of each row as one key."""
    members, topics = len(facts.member_id) + 1, len(facts.topic_names) + 1
    return (facts.group_index[rows] * members + facts.member_index[rows]) * topics + facts.topic_index[rows]
