"""Groups that cannot be planned, and why: rows that say nothing, or that contradict each other.

What Kafka has rules for (a vanished topic, a partition claimed by two members, a member without subscriptions) is no
fault.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from spark_assign.groups.kernel.facts import (
    GROUP,
    INITIALIZED,
    MEMBER,
    OWNED_BITMAP,
    OWNED_SLICE,
    SUBSCRIPTION,
    SUBTOPOLOGY,
    IndexedFacts,
    column,
)
from spark_assign.java.key_index import NameIndex
from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.ownership_bitmaps import BITMAP_INDEX_BITS, find_duplicates, read_bitmaps, unpack
from spark_assign.numeric.segmented_arrays import expand_slices, starts_new_key

REMEDIES = {
    "share-group": "It has no assignment of one owner for each partition: plan_share (spark-assign share) plans it",
    "streams-group": "It has tasks in place of partitions: plan_streams (spark-assign streams) plans it",
    "null-key": "Fill the key in or leave the row out",
    "duplicate-member": "Keep one row per member",
    "duplicate-instance": "Kafka fences all but one member of an instance id; leave the others out",
    "duplicate-group": "Keep one row per group",
    "unknown-member": "Add the member to members, or take its rows out (Fleet.with_members_left does so)",
    "bad-partition": "Partitions count from 0, a run's step from 1",
    "duplicate-owned": "Keep one row per member and partition",
}
"""By code, the gravest first."""


_BITS = 31
"""A partition's number fits in so many bits."""


class _Fault(NamedTuple):
    group: int
    code: str
    row: str
    rows: int


def find_faults(told: IndexedFacts, *, also: Collection[str] = ()) -> dict[int, tuple[str, str]]:
    """Of each faulty group the code (of its gravest fault) and the detail (of all).

    Args:
        told: the facts.
        also: types of groups that are no fault here: `share`, `streams`.
    """
    found: dict[tuple[int, str], list[_Fault]] = {}
    for fault in (*_of_members(told), *_of_groups(told), *_of_others(told, also), *_of_runs(told), *_of_blocks(told)):
        found.setdefault((fault.group, fault.code), []).append(fault)
    rank = list(REMEDIES).index
    of_group: dict[int, list[tuple[int, str, str]]] = {}
    for (group, code), faults in found.items():
        rows, least = sum(fault.rows for fault in faults), min(fault.row for fault in faults)
        more = f" and {rows - 1} more" if rows > 1 else ""
        of_group.setdefault(group, []).append((rank(code), code, f"{least}{more}. {REMEDIES[code]}"))
    return {group: _together(sorted(faults)) for group, faults in of_group.items()}


def _together(faults: list[tuple[int, str, str]]) -> tuple[str, str]:
    return faults[0][1], "; ".join(detail for _, _, detail in faults)


def _text(name: str, value: object) -> str:
    return f"{name}={'null' if value is None else value}"


def _row(table: str, **values: object) -> str:
    """A row as a person reads it: `owned: member_id=m1, topic=orders`."""
    return f"{table}: {', '.join(_text(name, value) for name, value in values.items())}"


# --- members, subscriptions, groups -------------------------------------------------------------------------------


def _of_members(told: IndexedFacts) -> Iterator[_Fault]:
    """Members listed twice, members that other tables name but `members` does not, null, instance ids twice."""
    listed, times = np.unique(_member_keys(told, MEMBER), return_counts=True)
    for key in listed[(times > 1) | (listed % _size(told) == 0)].tolist():
        yield _of_member(told, key, "members", "duplicate-member")
    asking = np.unique(_member_keys(told, SUBSCRIPTION))
    for key in np.setdiff1d(asking, listed).tolist():
        yield _of_member(told, key, "subscriptions", "unknown-member")
    rows = told.rows_by_kind[SUBSCRIPTION]
    for group in np.unique(told.group_index[rows[told.topic_index[rows] < 0]]).tolist():
        yield _Fault(group, "null-key", _row("subscriptions", topic=None), 1)
    for kind, table in ((OWNED_SLICE, "owned_runs"), (OWNED_BITMAP, "owned")):
        for key in np.setdiff1d(_member_keys(told, kind), np.append(listed, asking)).tolist():
            yield _of_member(told, key, table, "unknown-member")
    yield from _instances(told)


def _size(told: IndexedFacts) -> int:
    return len(told.member_id) + 1


def _member_keys(told: IndexedFacts, kind: int) -> IntArray:
    """Of each row of a kind its group and member as one number, the member that is null first."""
    rows = told.rows_by_kind[kind]
    return told.group_index[rows] * _size(told) + told.member_index[rows] + 1


def _of_member(told: IndexedFacts, key: int, table: str, code: str) -> _Fault:
    group, member = divmod(key, _size(told))
    name = told.member_id[member - 1].as_py() if member else None
    return _Fault(group, code if member else "null-key", _row(table, member_id=name), 1)


def _instances(told: IndexedFacts) -> Iterator[_Fault]:
    rows = told.rows_by_kind[MEMBER]
    instance = NameIndex(told.column("group_instance_id", rows))
    keys = told.group_index[rows] * max(len(instance), 1) + instance.columns[0]
    found, times = np.unique(keys[instance.columns[0] >= 0], return_counts=True)
    for key in found[times > 1].tolist():
        group, number = divmod(key, len(instance))
        yield _Fault(group, "duplicate-instance", _row("members", group_instance_id=instance.names[number].as_py()), 1)


def _of_groups(told: IndexedFacts) -> Iterator[_Fault]:
    groups, times = np.unique(told.group_index[told.rows_by_kind[GROUP]], return_counts=True)
    for group in groups[times > 1].tolist():
        yield _Fault(group, "duplicate-group", _row("groups", group_id=told.group_id[group].as_py()), 1)


def _of_others(told: IndexedFacts, also: Collection[str]) -> Iterator[_Fault]:
    """Groups of other protocols, whose members own something else; with a topology it is one of Streams."""
    rows = told.rows_by_kind[GROUP]
    found = set(zip(told.group_index[rows].tolist(), told.column("group_type", rows).to_pylist(), strict=True))
    found |= {(group, "streams") for group in np.unique(told.group_index[told.rows_by_kind[SUBTOPOLOGY]]).tolist()}
    for group, kind in found:
        if kind in ("share", "streams") and kind not in also:
            yield _Fault(group, f"{kind}-group", _row("groups", group_type=kind), 1)


# --- ownership ----------------------------------------------------------------------------------------------------


_RUN = ("first", "step", "count")


def _of_runs(told: IndexedFacts) -> Iterator[_Fault]:
    """Runs that say nothing, and partitions that a member owns twice."""
    for kind, table, names in (
        (OWNED_SLICE, "owned_runs", ("member_id", "topic")),
        (INITIALIZED, "initialized", ("topic",)),
    ):
        rows = told.rows_by_kind[kind]
        null = told.topic_index[rows] < 0
        for name in _RUN:
            null |= ~told.column(name, rows).is_valid().to_numpy(zero_copy_only=False)
        first, step, count = (told.int_column(name, 0)[rows] for name in _RUN)
        bad = ~null & ((first < 0) | (step < 1) | (count < 0))
        for faulty, code in ((null, "null-key"), (bad, "bad-partition")):
            for row in rows[faulty].tolist():
                values = {name: column(told.table, name)[row].as_py() for name in (*names, *_RUN)}
                yield _Fault(int(told.group_index[row]), code, _row(table, **values), 1)
        sound = ~null & ~bad & (count > 0)
        if kind == OWNED_SLICE and sound.any():
            yield from _twice(told, rows[sound], first[sound], step[sound], count[sound])


def _twice(told: IndexedFacts, rows: IntArray, first: IntArray, step: IntArray, count: IntArray) -> Iterator[_Fault]:
    """Partitions in two runs of one member; only where a run begins before another ends they are looked at singly."""
    pair = (told.group_index[rows] * (len(told.member_id) + 1) + told.member_index[rows] + 1) * len(
        told.topic_names
    ) + told.topic_index[rows]
    order = np.lexsort((first, pair))
    rows, pair, first, step, count = (each[order] for each in (rows, pair, first, step, count))
    number = np.cumsum(starts_new_key(pair), dtype=np.int64) << _BITS
    reached = np.maximum.accumulate(number | np.minimum(first + step * (count - 1), (1 << _BITS) - 1))
    meets = np.isin(pair, np.unique(pair[1:][reached[:-1] >= (number | first)[1:]])) if len(pair) else pair.astype(bool)
    if not meets.any():
        return
    run, partition = expand_slices(first[meets], step[meets], count[meets])
    found, times = np.unique(np.stack([pair[meets][run], partition]), axis=1, return_counts=True)
    example = dict(zip(pair.tolist(), rows.tolist(), strict=True))
    for key, each in found[:, times > 1].T.tolist():
        yield _repeated(told, example[key], "owned_runs", each, 1)


def _of_blocks(told: IndexedFacts) -> Iterator[_Fault]:
    rows = told.rows_by_kind[OWNED_BITMAP]
    if not len(rows):
        return
    block, count = told.int_column("block", -1)[rows], told.int_column("count", 0)[rows]
    null = (told.topic_index[rows] < 0) | ~told.column("block", rows).is_valid().to_numpy(zero_copy_only=False)
    bits, twice = read_bitmaps(told.column("bits", rows)), read_bitmaps(told.column("twice", rows))
    for faulty, code in ((null, "null-key"), (~null & (block < 0), "bad-partition")):
        for at in np.flatnonzero(faulty).tolist():
            known = told.column("block", rows[[at]])[0].is_valid
            low = unpack(bits[[at]])[1]
            least = (int(block[at]) << BITMAP_INDEX_BITS) + (int(low[0]) if len(low) else 0) if known else None
            names = {name: told.column(name, rows[[at]])[0].as_py() for name in ("member_id", "topic")}
            text = _row("owned", **names, partition=least)
            yield _Fault(int(told.group_index[rows[at]]), code, text, int(count[at]))
    sound = np.flatnonzero(~null & (block >= 0))
    for at, low in zip(
        *(each.tolist() for each in find_duplicates(bits[sound], twice[sound], count[sound])), strict=True
    ):
        here = sound[at]
        partition = None if low < 0 else (int(block[here]) << BITMAP_INDEX_BITS) + low
        yield _repeated(told, int(rows[here]), "owned", partition, 1)


def _repeated(told: IndexedFacts, row: int, table: str, partition: int | None, rows: int) -> _Fault:
    values = {name: column(told.table, name)[row].as_py() for name in ("member_id", "topic")}
    if partition is not None:
        values["partition"] = partition
    return _Fault(int(told.group_index[row]), "duplicate-owned", _row(table, **values), rows)


def rejected_table(told: IndexedFacts, faults: dict[int, tuple[str, str]]) -> pa.Table:
    """The faulty groups by name: cluster, group_id, code, detail."""
    groups = pa.array(sorted(faults), pa.int64())
    return pa.table(
        {
            "cluster": told.cluster.take(groups),
            "group_id": told.group_id.take(groups),
            "code": pa.array([faults[group][0] for group in sorted(faults)], pa.string()),
            "detail": pa.array([faults[group][1] for group in sorted(faults)], pa.string()),
        }
    )
