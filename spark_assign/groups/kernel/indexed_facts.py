"""Facts with numbers in place of names."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_assign.groups.kernel.facts import (
    DEPARTED_SLICE,
    DUPLICATE_TOPIC,
    GROUP,
    GROUP_LOAD,
    INITIALIZED,
    LOAD,
    MEMBER,
    OWNED_BITMAP,
    OWNED_ORDER,
    OWNED_SLICE,
    REPLICA_RACKS,
    SUBSCRIPTION,
    SUBTOPOLOGY,
    column,
)
from spark_assign.java.key_index import Names, Places, numbers
from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.ownership_bitmaps import runs_of_blocks, words
from spark_assign.numeric.segmented_arrays import expand_slices

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
        return numbers(column(self.table, name), missing)

    def column(self, name: str, rows: IntArray) -> pa.Array:
        """A column of some rows."""
        return column(self.table, name).take(pa.array(rows, pa.int64()))


def index_facts(facts: pa.Table) -> IndexedFacts:
    """Number the names of facts (`groups.kernel.facts`), rows in any order."""
    kind = column(facts, "kind").to_numpy(zero_copy_only=False)
    rows = {each: np.flatnonzero(kind == each) for each in KINDS}
    clusters, ids = Names(column(facts, "cluster")), Names(column(facts, "group_id"))
    both = clusters.columns[0] * max(len(ids), 1) + ids.columns[0]
    groups = Places(both)
    member, topic = Names(column(facts, "member_id")), Names(column(facts, "topic"), column(facts, "like"))
    return IndexedFacts(
        table=facts,
        rows_by_kind=rows,
        group_index=groups.of(both),
        member_index=member.columns[0],
        topic_index=topic.columns[0],
        representative_index=topic.columns[1],
        cluster=clusters.texts.take(pa.array(groups.keys // max(len(ids), 1), pa.int64())),
        group_id=ids.texts.take(pa.array(groups.keys % max(len(ids), 1), pa.int64())),
        member_id=member.texts,
        topic_names=topic.texts,
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
    pairs = Places(_pair(told, blocks))
    key, *parts = runs_of_blocks(
        pairs.of(_pair(told, blocks)), told.int_column("block")[blocks], words(told.column("bits", blocks))
    )
    example = np.zeros(len(pairs), np.int64)
    example[pairs.of(_pair(told, blocks))] = blocks
    given = [told.int_column(name)[runs] for name in ("first", "step", "count")]
    row = np.append(runs, example[key])
    return OwnedSlices(row, *(np.append(one, other) for one, other in zip(given, parts, strict=True)))


def _pair(told: IndexedFacts, rows: IntArray) -> IntArray:
    members, topics = len(told.member_id) + 1, len(told.topic_names) + 1
    return (told.group_index[rows] * members + told.member_index[rows]) * topics + told.topic_index[rows]
