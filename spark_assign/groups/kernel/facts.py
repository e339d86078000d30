"""What is known of consumer groups, a row per fact; its `kind` says which of the columns it uses.

MEMBER   member_id, group_instance_id, rack_id, generation_id, user_data_generation_id, position, user_data, client_id:
         a row of `members`
ASKS     member_id, topic, partitions (null: no such topic), topic_id: a row of `subscriptions`; and, where windows of
         an assignor have laid it out, the run that it gets: `<assignor>_first`, `_step`, `_count`
ALIKE    topic, topic_id, like: a topic with the same subscribers and as many partitions as `like`; where topics are
         told so, only the subscriptions to those that others are like are told of, and a topic is like itself
GROUP    assignor, group_type, subscription_type, client_library, client_version, certainty: a row of `groups`, what it
         is configured with and who leads it
OWNED    member_id, topic, partitions (of the topic; null: no such topic), first, step, count: a run
BLOCK    the same as a block of single partitions: block, bits, twice, count (`numeric.ownership_bitmaps`)
LEFT     as OWNED: a run that a member owned which has left
IN_ORDER member_id, topic, position, at: partitions of a topic in the order in which a member tells that it owns them;
         its topics come by position
LAYOUT   topic, at (partitions), racks (those of each one's replicas), leader_racks (that of its preferred leader)
INITIALIZED
         topic, first, step, count: a row of `initialized`
LOAD     topic, at (partitions), and side by side with them what goes through each, null where that is not known:
         in_rates, in_rate_stddevs, out_rates, lags, byte_rates: rows of `partition_loads` that hold for all groups
OWN_LOAD the same of rows that are of this group alone
TOPOLOGY nothing more: a row of `subtopologies`
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_assign.java.key_index import KeyIndex, NameIndex, to_int_array
from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.ownership_bitmaps import read_bitmaps, slices_from_bitmaps
from spark_assign.numeric.segmented_arrays import expand_slices

(
    MEMBER,
    SUBSCRIPTION,
    GROUP,
    OWNED_SLICE,
    OWNED_BITMAP,
    DEPARTED_SLICE,
    REPLICA_RACKS,
    DUPLICATE_TOPIC,
    OWNED_ORDER,
    SUBTOPOLOGY,
    INITIALIZED,
    LOAD,
    GROUP_LOAD,
) = range(13)

LEADER_COLUMNS = ("client_library", "client_version", "certainty")
"""What is known of a group's leader (`groups.kernel.leader_rules`)."""

LOAD_COLUMNS = {
    "in_rate": "in_rates",
    "in_rate_stddev": "in_rate_stddevs",
    "out_rate": "out_rates",
    "lag": "lags",
    "bytes": "byte_rates",
}
"""Columns of `loads`, and those of a fact that have a list of each."""

LOAD_SETTINGS = ("capacity", "load_bound")
"""Columns of `groups` that say something of load."""

WINDOW_ASSIGNORS = ("range", "roundrobin")
"""Assignors whose runs windows lay out, wherever windows can say it."""

_TEXT, _INT = pa.string(), pa.int32()

FACT_TYPES: dict[str, pa.DataType] = {
    "cluster": _TEXT,
    "group_id": _TEXT,
    "kind": pa.int8(),
    "member_id": _TEXT,
    "topic": _TEXT,
    "like": _TEXT,
    "assignor": _TEXT,
    "group_type": _TEXT,
    "group_instance_id": _TEXT,
    "rack_id": _TEXT,
    "generation_id": _INT,
    "user_data_generation_id": _INT,
    "position": _INT,
    "partitions": _INT,
    "topic_id": _TEXT,
    "first": _INT,
    "step": _INT,
    "count": _INT,
    "block": _INT,
    "bits": pa.list_(pa.int64()),
    "twice": pa.list_(pa.int64()),
    "at": pa.list_(_INT),
    "racks": pa.list_(pa.list_(_TEXT)),
    "leader_racks": pa.list_(_TEXT),
    **dict.fromkeys(LOAD_COLUMNS.values(), pa.list_(pa.float64())),
    **dict.fromkeys(LOAD_SETTINGS, pa.float64()),
    "user_data": pa.binary(),
    "client_id": _TEXT,
    **dict.fromkeys(("subscription_type", *LEADER_COLUMNS), _TEXT),
    **{f"{name}_{part}": _INT for name in WINDOW_ASSIGNORS for part in ("first", "step", "count")},
}
"""Every column of a fact and its type. What no fact of a fleet uses may be left out."""


def column(facts: pa.Table, name: str) -> pa.Array:
    """A column of the facts, all null where it was left out."""
    if name in facts.column_names:
        return facts[name].combine_chunks()
    return pa.nulls(len(facts), FACT_TYPES[name])


# DOC: Facts with numbers in place of names.

KINDS = (
    MEMBER,
    SUBSCRIPTION,
    GROUP,
    OWNED_SLICE,
    OWNED_BITMAP,
    DEPARTED_SLICE,
    REPLICA_RACKS,
    DUPLICATE_TOPIC,
    OWNED_ORDER,
    SUBTOPOLOGY,
    INITIALIZED,
    LOAD,
    GROUP_LOAD,
)


@dataclass(frozen=True)
class IndexedFacts:
    """Facts of whole groups.

    Attributes:
        table: the table.
        rows_by_kind: of each kind its rows.
        group_index: of each row the number of its group.
        member_index, topic_index, representative_index: of each row the number of its name; -1 for null.
        cluster, group_id: the names of each group.
        member_id, topic_names: the names.
    """

    table: pa.Table
    rows_by_kind: dict[int, IntArray]
    group_index: IntArray
    member_index: IntArray
    topic_index: IntArray
    representative_index: IntArray
    cluster: pa.Array
    group_id: pa.Array
    member_id: pa.Array
    topic_names: pa.Array

    @property
    def num_groups(self) -> int:
        """How many groups."""
        return len(self.cluster)

    def int_column(self, name: str, missing: int = -1) -> IntArray:
        """A column of whole numbers; null becomes `missing`."""
        return to_int_array(column(self.table, name), missing)

    def column(self, name: str, rows: IntArray) -> pa.Array:
        """A column of some rows."""
        return column(self.table, name).take(pa.array(rows, pa.int64()))


def index_facts(facts: pa.Table) -> IndexedFacts:
    """Number the names of facts (`groups.kernel.facts`), rows in any order."""
    kind = column(facts, "kind").to_numpy(zero_copy_only=False)
    rows = {each: np.flatnonzero(kind == each) for each in KINDS}
    clusters, ids = NameIndex(column(facts, "cluster")), NameIndex(column(facts, "group_id"))
    both = clusters.columns[0] * max(len(ids), 1) + ids.columns[0]
    groups = KeyIndex(both)
    member, topic = NameIndex(column(facts, "member_id")), NameIndex(column(facts, "topic"), column(facts, "like"))
    return IndexedFacts(
        table=facts,
        rows_by_kind=rows,
        group_index=groups.lookup(both),
        member_index=member.columns[0],
        topic_index=topic.columns[0],
        representative_index=topic.columns[1],
        cluster=clusters.names.take(pa.array(groups.keys // max(len(ids), 1), pa.int64())),
        group_id=ids.names.take(pa.array(groups.keys % max(len(ids), 1), pa.int64())),
        member_id=member.names,
        topic_names=topic.names,
    )


@dataclass(frozen=True)
class SubscriptionRows:
    """Subscriptions: of each a row of the facts that says who, for this topic or one that is like it, and the topic."""

    row: IntArray
    topic: IntArray


def find_subscriptions(told: IndexedFacts, sound: NDArray[np.bool_]) -> SubscriptionRows:
    """The subscriptions of sound groups, those to topics that are alike each for itself."""
    rows, alike = (
        told.rows_by_kind[kind][sound[told.group_index[told.rows_by_kind[kind]]]]
        for kind in (SUBSCRIPTION, DUPLICATE_TOPIC)
    )
    if not len(alike):
        return SubscriptionRows(rows, told.topic_index[rows])
    size = len(told.topic_names)
    key = told.group_index[alike] * size + told.representative_index[alike]
    order = np.argsort(key)
    wanted = told.group_index[rows] * size + told.topic_index[rows]
    begin, end = (np.searchsorted(key[order], wanted, side) for side in ("left", "right"))
    which, at = expand_slices(begin, np.ones_like(begin), end - begin)
    return SubscriptionRows(rows[which], told.topic_index[alike[order]][at])


@dataclass(frozen=True)
class OwnedSlices:
    """What members own, as runs: of each run a row of the facts that says who and which topic, first, step, count."""

    row: IntArray
    first: IntArray
    step: IntArray
    count: IntArray


def find_owned(told: IndexedFacts, sound: NDArray[np.bool_]) -> OwnedSlices:
    """The ownership of sound groups, single partitions as runs."""
    runs, blocks = (
        told.rows_by_kind[kind][sound[told.group_index[told.rows_by_kind[kind]]]]
        for kind in (OWNED_SLICE, OWNED_BITMAP)
    )
    pairs = KeyIndex(_pair(told, blocks))
    key, *parts = slices_from_bitmaps(
        pairs.lookup(_pair(told, blocks)), told.int_column("block")[blocks], read_bitmaps(told.column("bits", blocks))
    )
    example = np.zeros(len(pairs), np.int64)
    example[pairs.lookup(_pair(told, blocks))] = blocks
    given = [told.int_column(name)[runs] for name in ("first", "step", "count")]
    row = np.append(runs, example[key])
    return OwnedSlices(row, *(np.append(one, other) for one, other in zip(given, parts, strict=True)))


def _pair(told: IndexedFacts, rows: IntArray) -> IntArray:
    members, topics = len(told.member_id) + 1, len(told.topic_names) + 1
    return (told.group_index[rows] * members + told.member_index[rows]) * topics + told.topic_index[rows]
