"""Facts about consumer groups, one row per fact, and the faults for which a group can't be planned.

The `kind` of a row says which columns it uses:

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
         owned partitions as bits: member_id, topic, partitions, block, bits, twice, count (`numeric.arrays`)
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
UNDESCRIBED
         error: a row of `undescribed` of a group whose members aren't known
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.java.hash_map import java_key
from spark_assign.numeric.arrays import (
    BITMAP_INDEX_BITS,
    MAX_PARTITIONS,
    ODD,
    BoolArray,
    IntArray,
    KeyIndex,
    compress_sorted,
    expand_slices,
    find_duplicates,
    key_ranges,
    mask_from_indexes,
    read_bitmaps,
    slices_from_bitmaps,
    starts_new_key,
    to_int_array,
    unpack,
)
from spark_assign.tables.quoting import in_text

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
    UNDESCRIBED,
) = range(18)

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
    **dict.fromkeys(("subscription_type", "error", *LEADER_COLUMNS), _TEXT),
    **{f"{name}_{part}": _INT for name in WINDOW_ASSIGNORS for part in ("first", "step", "count")},
}
"""All fact columns and their types. A fact table can omit columns that no fact uses."""


def column(table: pa.Table, name: str) -> pa.Array:
    """Returns a column of a fact table; all null if the table omits it."""
    if name in table.column_names:
        return table[name].combine_chunks()
    return pa.nulls(len(table), FACT_TYPES[name])


class NameIndex:
    """The distinct names of one or more columns, in the order of `String.compareTo`.

    Attributes:
        names: the distinct names, sorted.
        columns: for each input column, the index of each of its names in `names`; -1 for null.
    """

    def __init__(self, *columns: pa.ChunkedArray | pa.Array) -> None:
        """Indexes the names of the columns."""
        chunks = [chunk for column in columns for chunk in getattr(column, "chunks", [column])]
        encoded = pa.chunked_array(chunks, pa.string()).combine_chunks().dictionary_encode()
        distinct = encoded.dictionary.to_pylist()
        # Python compares code points, which is the same order if all names are ASCII.
        is_ascii = "".join(distinct).isascii()
        order = sorted(range(len(distinct)), key=distinct.__getitem__ if is_ascii else lambda i: java_key(distinct[i]))
        rank = np.full(len(distinct) + 1, -1, np.int64)
        rank[order] = np.arange(len(distinct))
        self.names = encoded.dictionary.take(pa.array(order, pa.int64()))
        indexes = rank[encoded.indices.fill_null(len(distinct)).to_numpy(zero_copy_only=False)]
        lengths = [len(column) for column in columns]
        self.columns: list[IntArray] = np.split(indexes, np.cumsum(lengths)[:-1])

    def __len__(self) -> int:
        return len(self.names)


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


# --- faults: groups that can't be planned --------------------------------------------------------------------------
#
# Rows that are incomplete or contradictory. Conditions for which Kafka has rules (a vanished topic, a partition that
# two members claim, a member without subscriptions) are no faults.


MAX_SUBSCRIBERS = 20_000_000
"""Maximum number of subscribers of all topics of a group. Topics with the same subscribers count once."""

REMEDIES = {
    "share-group": "It has no assignment of one owner for each partition: plan_share (spark-assign plan) plans it",
    "streams-group": "It has tasks instead of partitions: plan_streams (spark-assign plan) plans it",
    "undescribed": "Its members aren't known, which doesn't mean that it has none: see docs/snapshot.md",
    "null-key": "Fill the key in or leave the row out",
    "duplicate-member": "Keep one row per member",
    "duplicate-instance": "Kafka fences all but one member of an instance id; leave the others out",
    "duplicate-group": "Keep one row per group",
    "unknown-member": "Add the member to members, or take its rows out (Fleet.with_members_left does so)",
    "bad-partition": "Partitions count from 0, a run's step from 1",
    "too-many-partitions": f"A topic has at most {MAX_PARTITIONS:,} partitions, slices have at most as many that "
    f"don't exist or occur twice, and the topics of a group have at most {MAX_SUBSCRIBERS:,} subscribers (counted once "
    "if topics have the same ones). Correct the number, or leave the row out",
    "duplicate-owned": "Keep one row per member and partition",
}
"""Remedy by fault code, the most severe fault first."""


_BITS = 31
"""Number of bits of a partition index."""

_MASK = (1 << _BITS) - 1

_MAX_EXPANDED = 4_000_000
"""Number of partitions that are expanded at once to find duplicates."""


class _Fault(NamedTuple):
    group: int
    code: str
    row: str
    rows: int = 1


def find_faults(facts: IndexedFacts, *, kinds: Collection[str] = ()) -> dict[int, tuple[str, str]]:
    """Returns code (of the most severe fault) and detail (of all faults) by faulty group index.

    Args:
        facts: the facts.
        kinds: group types that are valid in this pass: `share`, `streams`.
    """
    faults: dict[int, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    too_many = [*_topic_size_faults(facts), *_slice_size_faults(facts), *_subscriber_faults(facts)]
    is_bounded = ~mask_from_indexes([fault.group for fault in too_many], facts.num_groups)
    for fault in (
        *too_many,
        *_member_faults(facts),
        *_group_faults(facts),
        *_type_faults(facts, kinds),
        *_undescribed_faults(facts),
        *_slice_faults(facts, is_bounded),
        *_bitmap_faults(facts),
    ):
        faults[fault.group][fault.code][fault.row] += fault.rows
    return {group: join_faults(rows, REMEDIES) for group, rows in faults.items()}


def format_row(table: str, **values: object) -> str:
    """Formats a row for a message: `owned: member_id=m1, topic=orders`."""
    texts = (f"{name}={'null' if value is None else in_text(str(value))}" for name, value in values.items())
    return f"{table}: {', '.join(texts)}"


def join_faults(rows: Mapping[str, Collection[str]], remedies: Mapping[str, str]) -> tuple[str, str]:
    """Returns the most severe code, and a text about all codes: for each, the first row, how many more, and the remedy.

    Args:
        rows: texts of faulty rows by code, or the number of rows by text.
        remedies: the remedy of each code, the most severe code first.
    """
    codes = sorted(rows, key=list(remedies).index)
    totals = {code: Counter(rows[code]).total() for code in codes}
    more = {code: f" and {total - 1} more" if total > 1 else "" for code, total in totals.items()}
    return codes[0], "; ".join(f"{min(rows[code])}{more[code]}. {remedies[code]}" for code in codes)


# --- members, subscriptions, groups -------------------------------------------------------------------------------


def _member_faults(facts: IndexedFacts) -> Iterator[_Fault]:
    """Yields faults of members: duplicates, members missing in `members`, null keys, duplicate instance ids."""
    member_keys, counts = np.unique(_member_keys(facts, MEMBER), return_counts=True)
    for key in member_keys[(counts > 1) | (member_keys % _size(facts) == 0)].tolist():
        yield _member_fault(facts, key, "members", "duplicate-member")
    subscriber_keys = np.unique(np.append(*(_member_keys(facts, kind) for kind in (SUBSCRIPTION, LISTED_MEMBER))))
    for key in np.setdiff1d(subscriber_keys, member_keys).tolist():
        yield _member_fault(facts, key, "subscriptions", "unknown-member")
    rows = np.append(facts.rows_by_kind[SUBSCRIPTION], facts.rows_by_kind[LISTED_TOPIC])
    for group in np.unique(facts.group_index[rows[facts.topic_index[rows] < 0]]).tolist():
        yield _Fault(group, "null-key", format_row("subscriptions", topic=None))
    for kind, table in ((OWNED_SLICE, _slice_table(facts)), (OWNED_BITMAP, "owned"), (OWNED_PARTITION, "owned")):
        for key in np.setdiff1d(_member_keys(facts, kind), np.append(member_keys, subscriber_keys)).tolist():
            yield _member_fault(facts, key, table, "unknown-member")
    yield from _instances(facts)


def _size(facts: IndexedFacts) -> int:
    return len(facts.member_id) + 1


def _member_keys(facts: IndexedFacts, kind: int) -> IntArray:
    """Returns group and member of each row of a kind as one key; null members sort first."""
    return _keys_of(facts, facts.rows_by_kind[kind])


def _keys_of(facts: IndexedFacts, rows: IntArray) -> IntArray:
    return facts.group_index[rows] * _size(facts) + facts.member_index[rows] + 1


def _member_fault(facts: IndexedFacts, key: int, table: str, code: str) -> _Fault:
    group, member = divmod(key, _size(facts))
    name = facts.member_id[member - 1].as_py() if member else None
    return _Fault(group, code if member else "null-key", format_row(table, member_id=name))


def _instances(facts: IndexedFacts) -> Iterator[_Fault]:
    rows = facts.rows_by_kind[MEMBER]
    instance = NameIndex(facts.column("group_instance_id", rows))
    keys = facts.group_index[rows] * max(len(instance), 1) + instance.columns[0]
    duplicates, counts = np.unique(keys[instance.columns[0] >= 0], return_counts=True)
    for key in duplicates[counts > 1].tolist():
        group, index = divmod(key, len(instance))
        yield _Fault(
            group, "duplicate-instance", format_row("members", group_instance_id=instance.names[index].as_py())
        )


def _group_faults(facts: IndexedFacts) -> Iterator[_Fault]:
    groups, times = np.unique(facts.group_index[facts.rows_by_kind[GROUP]], return_counts=True)
    for group in groups[times > 1].tolist():
        yield _Fault(group, "duplicate-group", format_row("groups", group_id=facts.group_id[group].as_py()))


def _undescribed_faults(facts: IndexedFacts) -> Iterator[_Fault]:
    """Yields a fault for each group whose members aren't known: it isn't empty."""
    rows = facts.rows_by_kind[UNDESCRIBED]
    for group, error in zip(facts.group_index[rows].tolist(), facts.column("error", rows).to_pylist(), strict=True):
        yield _Fault(group, "undescribed", error or "The error isn't known")


def _type_faults(facts: IndexedFacts, kinds: Collection[str]) -> Iterator[_Fault]:
    """Yields a fault for each group of another protocol; a group with subtopologies is a streams group."""
    rows = facts.rows_by_kind[GROUP]
    types = set(zip(facts.group_index[rows].tolist(), facts.column("group_type", rows).to_pylist(), strict=True))
    types |= {(group, "streams") for group in np.unique(facts.group_index[facts.rows_by_kind[SUBTOPOLOGY]]).tolist()}
    for group, kind in types:
        if kind in ("share", "streams") and kind not in kinds:
            yield _Fault(group, f"{kind}-group", format_row("groups", group_type=kind))


# --- sizes --------------------------------------------------------------------------------------------------------


def _topic_size_faults(facts: IndexedFacts) -> Iterator[_Fault]:
    """Yields topics with too many partitions. Nothing is expanded."""
    partitions = facts.int_column("partitions")
    large = np.flatnonzero(partitions > MAX_PARTITIONS)
    for row in large[np.unique(_topic_keys(facts, large), return_index=True)[1]].tolist():
        text = format_row("topics", topic=_topic_name(facts, row), partitions=int(partitions[row]))
        yield _Fault(int(facts.group_index[row]), "too-many-partitions", text)


def _slice_size_faults(facts: IndexedFacts) -> Iterator[_Fault]:
    """Yields slices with too many partitions, and topics whose slices have far more than their partitions in total.

    Example: 1,000 slices of partitions 0 to 999,999 of a topic with 3 partitions claim 999,999,997 too many.
    """
    owned = _slice_table(facts)
    tables = ((owned, (OWNED_SLICE, DEPARTED_SLICE)), (owned, (OWNED_ORDER,)), ("initialized", (INITIALIZED,)))
    for table, kinds in tables:
        rows = np.concatenate([facts.rows_by_kind[kind] for kind in kinds])
        count = np.maximum(facts.int_column("count", 0)[rows], 0)
        totals = np.bincount(facts.group_index[rows], count, facts.num_groups)
        if totals.max(initial=0) <= MAX_PARTITIONS:
            continue
        rows, count = (each[totals[facts.group_index[rows]] > MAX_PARTITIONS] for each in (rows, count))
        keys, example, index = np.unique(_topic_keys(facts, rows), return_index=True, return_inverse=True)
        known = np.flatnonzero(facts.int_column("partitions") > 0)
        known = known[np.isin(_topic_keys(facts, known), keys)]
        partitions = np.zeros(len(keys), np.int64)
        partitions[np.searchsorted(keys, _topic_keys(facts, known))] = facts.int_column("partitions")[known]
        claimed, group = np.bincount(index, count, len(keys)), facts.group_index[rows][example]
        excess = np.bincount(group, np.maximum(claimed - partitions, 0), facts.num_groups)[group]
        longest = np.zeros(len(keys), np.int64)
        np.maximum.at(longest, index, count)
        for at in np.flatnonzero((longest > MAX_PARTITIONS) | ((excess > MAX_PARTITIONS) & (claimed > partitions))):
            text = format_row(table, topic=_topic_name(facts, rows[example[at]]), partitions=int(claimed[at]))
            yield _Fault(int(group[at]), "too-many-partitions", text)


def _subscriber_faults(facts: IndexedFacts) -> Iterator[_Fault]:
    """Yields groups with too many subscribers in different sets."""
    members, topics, rows = (facts.rows_by_kind[kind] for kind in (LISTED_MEMBER, LISTED_TOPIC, SUBSCRIPTION))
    if len(members) * len(topics) + len(rows) <= MAX_SUBSCRIBERS:
        return
    totals, _ = count_subscribers(facts)
    for at in np.flatnonzero(totals > MAX_SUBSCRIBERS).tolist():
        yield _Fault(at, "too-many-partitions", format_row("subscriptions", subscribers=totals[at]))


def count_subscribers(facts: IndexedFacts) -> tuple[IntArray, IntArray]:
    """Returns the number of subscribers of all topics of each group, and the number of different sets of them. Topics
    with the same subscribers count once."""
    members, topics, rows = (facts.rows_by_kind[kind] for kind in (LISTED_MEMBER, LISTED_TOPIC, SUBSCRIPTION))
    size = int(facts.list_index.max(initial=0)) + 1
    member_lists, topic_lists = (facts.group_index[each] * size + facts.list_index[each] for each in (members, topics))
    lists = KeyIndex(member_lists)
    num_members = np.append(np.bincount(lists.lookup(member_lists)), 0)[lists.lookup(topic_lists)]
    keys, index = np.unique(_topic_keys(facts, np.append(topics, rows)), return_inverse=True)
    subscribers = np.bincount(index, np.append(num_members, np.ones(len(rows))), len(keys))
    # Topics with the same lists and the same other subscribers have the same sum of hashes.
    mixed = np.append(~facts.list_index[topics], facts.member_index[rows]) * ODD
    sums = np.zeros(len(keys), np.int64)
    np.add.at(sums, index, (mixed ^ mixed >> 29) * ODD)
    group = keys // (len(facts.topic_names) + 1)
    order = np.lexsort((sums, group))
    order = order[starts_new_key(group[order], sums[order])]
    totals = np.bincount(group[order], subscribers[order], facts.num_groups).astype(np.int64)
    return totals, np.bincount(group[order], minlength=facts.num_groups)


def _topic_keys(facts: IndexedFacts, rows: IntArray) -> IntArray:
    """Returns group and topic of each row as one key."""
    return facts.group_index[rows] * (len(facts.topic_names) + 1) + facts.topic_index[rows] + 1


def _topic_name(facts: IndexedFacts, row: int) -> str | None:
    index = int(facts.topic_index[row])
    return None if index < 0 else str(facts.topic_names[index])


# --- ownership ----------------------------------------------------------------------------------------------------


_RUN = ("first", "step", "count")


def _slice_table(facts: IndexedFacts) -> str:
    """Returns the table that slices come from; a fleet has only one of the two."""
    return "owned_lists" if len(facts.rows_by_kind[OWNED_LIST]) else "owned_slices"


def _slice_faults(facts: IndexedFacts, is_bounded: BoolArray) -> Iterator[_Fault]:
    """Yields faults of slices, and of single partitions as slices with one partition: null or negative values, numbers
    beyond int, and, in the groups that `is_bounded` marks, partitions that a member owns twice.
    """
    for kind, table, names, slice_columns in (
        (OWNED_SLICE, _slice_table(facts), ("member_id", "topic"), _RUN),
        (OWNED_PARTITION, "owned", ("member_id", "topic"), ("partition",)),
        (INITIALIZED, "initialized", ("topic",), _RUN),
        (DEPARTED_SLICE, _slice_table(facts), ("member_id", "topic"), _RUN),
    ):
        rows = facts.rows_by_kind[kind]
        is_null, one = facts.topic_index[rows] < 0, np.ones(len(rows), np.int64)
        for name in slice_columns:
            is_null |= ~facts.column(name, rows).is_valid().to_numpy(zero_copy_only=False)
        first, step, count = [*(facts.int_column(name, 0)[rows] for name in slice_columns), one, one][:3]
        is_beyond = first + step * np.maximum(count - 1, 0) >= 1 << _BITS
        is_invalid = ~is_null & ((first < 0) | (step < 1) | (count < 0) | is_beyond)
        for mask, code in ((is_null, "null-key"), (is_invalid, "bad-partition")):
            for row in rows[mask].tolist():
                values = {name: column(facts.table, name)[row].as_py() for name in (*names, *slice_columns)}
                lengths = ", or its lists, with positions, differ in length" if table == "owned_lists" else ""
                text = format_row(table, **values) + (lengths if code == "null-key" else "")
                yield _Fault(int(facts.group_index[row]), code, text)
        is_valid = ~is_null & ~is_invalid & (count > 0) & is_bounded[facts.group_index[rows]]
        if kind not in (INITIALIZED, DEPARTED_SLICE) and is_valid.any():
            owned = (each[is_valid] for each in (rows, first, step, count))
            yield from _duplicate_faults(facts, table, *owned)


def _duplicate_faults(
    facts: IndexedFacts, table: str, rows: IntArray, first: IntArray, step: IntArray, count: IntArray
) -> Iterator[_Fault]:
    """Yields a member and topic with partitions in two slices. Only overlapping slices are expanded, a piece at a
    time."""
    pair = _keys_of(facts, rows) * len(facts.topic_names) + facts.topic_index[rows]
    order = np.lexsort((first, pair))
    rows, pair, first, step, count = (duplicate[order] for duplicate in (rows, pair, first, step, count))
    pair_bits = np.cumsum(starts_new_key(pair), dtype=np.int64) << _BITS
    max_end = np.maximum.accumulate(pair_bits | np.minimum(first + step * (count - 1), (1 << _BITS) - 1))
    is_overlapping = (
        np.isin(pair, np.unique(pair[1:][max_end[:-1] >= (pair_bits | first)[1:]])) if len(pair) else pair.astype(bool)
    )
    rows, pair, first, step, count = (each[is_overlapping] for each in (rows, pair, first, step, count))
    starts = np.flatnonzero(starts_new_key(pair))
    sizes = np.add.reduceat(count, starts) if len(starts) else starts
    number = np.cumsum(starts_new_key(pair)) - 1
    piece = (np.cumsum(sizes) // _MAX_EXPANDED)[number]
    for start, end in key_ranges(piece):
        index, partition = expand_slices(first[start:end], step[start:end], count[start:end])
        keys, times = np.unique(number[start:end][index] << _BITS | partition, return_counts=True)
        keys = keys[times > 1]
        for first_key, end_key in key_ranges(keys >> _BITS):
            row, example = (
                rows[starts[keys[first_key] >> _BITS]],
                min(map(str, (keys[first_key:end_key] & _MASK).tolist())),
            )
            yield _duplicate_fault(facts, int(row), table, int(example), end_key - first_key)


def _bitmap_faults(facts: IndexedFacts) -> Iterator[_Fault]:
    """Yields the faults in bitmaps of owned partitions."""
    rows = facts.rows_by_kind[OWNED_BITMAP]
    if not len(rows):
        return
    block, count = facts.int_column("block", -1)[rows], facts.int_column("count", 0)[rows]
    is_null = (facts.topic_index[rows] < 0) | ~facts.column("block", rows).is_valid().to_numpy(zero_copy_only=False)
    bits, twice = read_bitmaps(facts.column("bits", rows)), read_bitmaps(facts.column("twice", rows))
    for faulty, code in ((is_null, "null-key"), (~is_null & (block < 0), "bad-partition")):
        for index in np.flatnonzero(faulty).tolist():
            has_block = facts.column("block", rows[[index]])[0].is_valid
            bit = unpack(bits[[index]])[1]
            lowest = (int(block[index]) << BITMAP_INDEX_BITS) + (int(bit[0]) if len(bit) else 0) if has_block else None
            names = {name: facts.column(name, rows[[index]])[0].as_py() for name in ("member_id", "topic")}
            text = format_row("owned", **names, partition=lowest)
            yield _Fault(int(facts.group_index[rows[index]]), code, text, int(count[index]))
    valid = np.flatnonzero(~is_null & (block >= 0))
    for index, bit in zip(
        *(each.tolist() for each in find_duplicates(bits[valid], twice[valid], count[valid])), strict=True
    ):
        bitmap = valid[index]
        partition = None if bit < 0 else (int(block[bitmap]) << BITMAP_INDEX_BITS) + bit
        yield _duplicate_fault(facts, int(rows[bitmap]), "owned", partition)


def _duplicate_fault(facts: IndexedFacts, row: int, table: str, partition: int | None, rows: int = 1) -> _Fault:
    values = {name: column(facts.table, name)[row].as_py() for name in ("member_id", "topic")}
    if partition is not None:
        values["partition"] = partition
    return _Fault(int(facts.group_index[row]), "duplicate-owned", format_row(table, **values), rows)


UNSUPPORTED_TYPES = {
    "connect": "A Connect cluster: its workers have their own protocol, which KIP-848 doesn't change",
    "share": "A share group (KIP-932): it has the broker's protocol from the start",
    "streams": "A streams group (KIP-1071): it has the broker's protocol from the start",
}
"""Group types that have another protocol, with an explanation."""


def find_unsupported_groups(facts: IndexedFacts, action: str, kinds: Iterable[str] = ()) -> dict[int, tuple[str, str]]:
    """Returns code and detail of groups that are neither consumer groups nor of a type in `kinds`; `action` is what
    they are excluded from."""
    rows = facts.rows_by_kind[GROUP]
    group_types = facts.column("group_type", rows).to_pylist()
    return {
        group: (
            "out-of-scope",
            f"{UNSUPPORTED_TYPES.get(kind, f'A group of the protocol {in_text(kind)}')}. Nothing to {action}",
        )
        for group, kind in zip(facts.group_index[rows].tolist(), group_types, strict=True)
        if kind not in (None, "classic", "consumer", *kinds)
    }


def rejected_table(facts: IndexedFacts, faults: dict[int, tuple[str, str]]) -> pa.Table:
    """Returns cluster, group_id, code, and detail of the faulty groups."""
    groups = pa.array(sorted(faults), pa.int64())
    return pa.table(
        {
            "cluster": facts.cluster.take(groups),
            "group_id": facts.group_id.take(groups),
            "code": pa.array([faults[group][0] for group in sorted(faults)], pa.string()),
            "detail": pa.array(
                [faults[group][1].encode("utf-8", "backslashreplace") for group in sorted(faults)], pa.binary()
            ).cast(pa.string()),  # an assignor of a user can have half a surrogate pair in its error
        }
    )
