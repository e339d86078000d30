"""The same groups with other numbers of members: what `Fleet.with_members_left` and `Fleet.with_members_joined` make.

Members leave by id, the first ones first, and what they owned nobody owns. Members join with ids of their own, own
nothing, and subscribe to all topics of their group. All of it is done with numbers of rows and names: no text is read.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np
import pyarrow as pa

from spark_assign.groups.kernel.facts import (
    DEPARTED_SLICE,
    DUPLICATE_TOPIC,
    GROUP,
    KINDS,
    LOAD_COLUMNS,
    MEMBER,
    OWNED_ORDER,
    OWNED_SLICE,
    REPLICA_RACKS,
    SUBSCRIPTION,
    IndexedFacts,
    find_owned,
)
from spark_assign.groups.kernel.group_specs import GroupSpecs, read_group_specs
from spark_assign.java.key_index import KeyIndex, NameIndex, take_names
from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.segmented_arrays import exclusive_sum, expand_slices, ranges_by_length, starts_new_key

JOINER = "joiner-"

_OF_GROUP = (GROUP, REPLICA_RACKS, DUPLICATE_TOPIC, DEPARTED_SLICE)
"""Kinds of facts that are no single member's, or no living one's."""

_DROPPED = (
    "bits",
    "twice",
    "block",
    "cluster",
    "group_id",
    "kind",
    "member_id",
    "topic",
    "like",
    *LOAD_COLUMNS.values(),
)
_NONE = np.iinfo(np.int64).max


def resize(specs: GroupSpecs, group: IntArray, members: IntArray, window_assignors: Collection[str] = ()) -> GroupSpecs:
    """specs with a group for each of these, in this order.

    Args:
        specs: the groups as they are.
        group: of each new group the group that it is made of.
        members: how many members it has, at least 1.
        laid_out: `range`, `roundrobin`, if they are asked for: what Spark's windows lay out is laid out here.
    """
    rows = _Rows(specs, group, members)
    told = rows.told(window_assignors)
    new = read_group_specs(told, set())
    size = max(len(told.topic_names), 1)
    of_base = KeyIndex(specs.topics.group * size + specs.topics.name).lookup(
        group[new.topics.group] * size + new.topics.name
    )
    loads = replace(specs.loads, start=specs.loads.start[of_base], faults={}, has_loads=specs.loads.has_loads[group])
    return replace(new, partition_loads=loads)


class _Rows:
    """Rows of facts: of each the row that it is a copy of (-1: of none), its new group, member, topic and kind."""

    def __init__(self, specs: GroupSpecs, group: IntArray, members: IntArray) -> None:
        self.specs, self.group, told = specs, group, specs.facts
        self.number = np.full(told.num_groups, -1, np.int64)
        self.number[specs.fact_group_index] = np.arange(specs.num_groups)
        of_member = specs.members.group
        now = np.bincount(of_member, minlength=specs.num_groups)
        self.place = ranges_by_length(now)
        self.joining = np.maximum(members - now[group], 0)
        self.leaving = np.maximum(now[group] - members, 0)
        self.names, self.renamed, self.joiners = _with_joiners(told.member_id, int(self.joining.max(initial=0)))
        size = max(len(told.member_id), 1)
        self.of_member = KeyIndex(of_member * size + told.member_index[specs.members.row])
        self.parts: list[tuple[int, IntArray, IntArray, IntArray, IntArray]] = []
        self.runs: dict[int, tuple[IntArray, IntArray, IntArray]] = {}
        self._gather()

    def _gather(self) -> None:
        told = self.specs.facts
        for kind in _OF_GROUP:
            row, of = self._copies(told.rows_by_kind[kind])
            self._add(kind, row, of, self._renamed(row), told.topic_index[row])
        for kind in (MEMBER, SUBSCRIPTION, OWNED_ORDER):
            row, of = self._copies(told.rows_by_kind[kind])
            row, of = (each[self._stays(row, of)] for each in (row, of))
            self._add(kind, row, of, self._renamed(row), told.topic_index[row])
        self._add_joiners()
        claimed = find_owned(told, self.number >= 0)
        at, of = self._copies(claimed.row, places=True)
        row, stays = claimed.row[at], self._stays(claimed.row[at], of)
        for kind, some in ((OWNED_SLICE, stays), (DEPARTED_SLICE, ~stays)):
            chosen = at[some]
            self.runs[len(self.parts)] = (claimed.first[chosen], claimed.step[chosen], claimed.count[chosen])
            self._add(kind, row[some], of[some], self._renamed(row[some]), told.topic_index[row[some]])

    def _copies(self, rows: IntArray, *, places: bool = False) -> tuple[IntArray, IntArray]:
        """Of these rows those of each new group's base (or their places), and the new group."""
        base = self.number[self.specs.facts.group_index[rows]]
        order = np.argsort(base, kind="stable")
        begin, end = (np.searchsorted(base[order], self.group, side) for side in ("left", "right"))
        of, at = expand_slices(begin, np.ones_like(begin), end - begin)
        return (order[at] if places else rows[order[at]]), of

    def _stays(self, row: IntArray, of: IntArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        told = self.specs.facts
        size = max(len(told.member_id), 1)
        member = self.of_member.lookup(self.number[told.group_index[row]] * size + told.member_index[row])
        return np.asarray(self.place[member] >= self.leaving[of], bool)

    def _renamed(self, row: IntArray) -> IntArray:
        member = self.specs.facts.member_index[row]
        return np.where(member >= 0, np.append(self.renamed, -1)[member], -1)

    def _add(self, kind: int, row: IntArray, of: IntArray, member: IntArray, topic: IntArray) -> None:
        self.parts.append((kind, row, of, member, topic))

    def _add_joiners(self) -> None:
        """Who joins, and its subscriptions: to every topic that anybody of its group is told to subscribe to."""
        told = self.specs.facts
        of, nth = expand_slices(np.zeros_like(self.joining), np.ones_like(self.joining), self.joining)
        self._add(MEMBER, np.full(len(of), -1), of, self.joiners[nth], np.full(len(of), -1))
        asks = told.rows_by_kind[SUBSCRIPTION]
        asks = asks[self.number[told.group_index[asks]] >= 0]
        pair = told.group_index[asks] * (len(told.topic_names) + 1) + told.topic_index[asks]
        asks = asks[np.unique(pair, return_index=True)[1]]
        row, new = self._copies(asks)
        which, nth = expand_slices(np.zeros(len(row), np.int64), np.ones(len(row), np.int64), self.joining[new])
        self._add(SUBSCRIPTION, row[which], new[which], self.joiners[nth], told.topic_index[row[which]])

    def told(self, window_assignors: Collection[str]) -> IndexedFacts:
        """The facts."""
        base = self.specs.facts
        lengths = [len(row) for _, row, *_ in self.parts]
        begins = np.cumsum([0, *lengths])
        row, of, member, topic = (np.concatenate([part[at] for part in self.parts]) for at in (1, 2, 3, 4))
        rows: dict[int, list[IntArray]] = {kind: [] for kind in KINDS}
        for (kind, *_), begin, end in zip(self.parts, begins[:-1].tolist(), begins[1:].tolist(), strict=True):
            rows[kind].append(np.arange(begin, end))
        some = base.table
        kept = [name for name in some.column_names if name not in _DROPPED and some[name].null_count < len(some)]
        taken = some.select(kept).take(pa.array(row, pa.int64(), mask=row < 0))
        columns = {name: taken[name] for name in kept} | {"member_id": take_names(self.names, member)}
        for at, name in enumerate(("first", "step", "count")):
            values = base.int_column(name)[row]
            for part, given in self.runs.items():
                values[begins[part] : begins[part + 1]] = given[at]
            columns[name] = pa.array(values, pa.int32(), mask=values < 0)
        told = IndexedFacts(
            table=pa.table(columns),
            rows_by_kind={kind: np.concatenate([np.empty(0, np.int64), *each]) for kind, each in rows.items()},
            group_index=of,
            member_index=member,
            topic_index=topic,
            representative_index=np.where(row >= 0, base.representative_index[row], -1),
            cluster=self.specs.cluster.take(pa.array(self.group)),
            group_id=self.specs.group_id.take(pa.array(self.group)),
            member_id=self.names,
            topic_names=base.topic_names,
        )
        return _lay_out(told, window_assignors) if window_assignors else told


def _with_joiners(names: pa.Array, number: int) -> tuple[pa.Array, IntArray, IntArray]:
    """The names of members with those of joiners, in order; the new numbers of the former and of the latter."""
    prefix = JOINER
    while number and any(name.startswith(prefix) for name in names.to_pylist()):
        prefix = f"another-{prefix}"
    new = pa.array([f"{prefix}{nth:02d}" for nth in range(1, number + 1)], pa.string())
    numbered = NameIndex(names, new)
    return numbered.names, numbered.columns[0], numbered.columns[1]


def _lay_out(told: IndexedFacts, assignors: Collection[str]) -> IndexedFacts:
    """What the windows of range and round robin add to subscriptions (`groups.windows.range`,
    `groups.windows.roundrobin`)."""
    rows, size = told.rows_by_kind[SUBSCRIPTION], max(len(told.topic_names), 1)
    group, topic, member = told.group_index[rows], told.topic_index[rows], told.member_index[rows]
    order = np.lexsort((member, _instances(told, group, member), topic, group))
    partitions = np.maximum(told.int_column("partitions", 0)[rows][order], 0)
    key = (group * size + topic)[order]
    begins = starts_new_key(key)
    again = ~begins & ~starts_new_key(member[order])
    line = np.cumsum(begins) - 1
    rank = np.cumsum(~again) - 1
    rank -= rank[np.flatnonzero(begins)][line]
    members = (np.bincount(line, ~again).astype(np.int64))[line]
    columns = {name: told.table[name] for name in told.table.column_names}
    for name in assignors:
        if name == "range":
            quota, longer = np.divmod(partitions, members)
            run = (rank * quota + np.minimum(rank, longer), np.ones_like(rank), quota + (rank < longer))
        else:
            of_line, lines = group[order][begins], partitions[begins]
            upto = exclusive_sum(lines, np.searchsorted(of_line, of_line))
            first = (rank - upto[line]) % members
            run = (first, members, np.maximum(-(-(partitions - first) // members), 0))
        for part, values in zip(("first", "step", "count"), run, strict=True):
            values_by_row = np.zeros(len(told.table), np.int64)
            values_by_row[rows[order]] = values
            columns[f"{name}_{part}"] = pa.array(values_by_row, pa.int32())
    return replace(told, table=pa.table(columns))


def _instances(told: IndexedFacts, group: IntArray, member: IntArray) -> IntArray:
    """Of each group and member the number of its instance id, a large one where it has none."""
    rows, size = told.rows_by_kind[MEMBER], max(len(told.member_id), 1)
    instance = NameIndex(told.column("group_instance_id", rows)).columns[0]
    places = KeyIndex(told.group_index[rows] * size + told.member_index[rows])
    of_place = np.full(len(places), _NONE)
    of_place[places.lookup(told.group_index[rows] * size + told.member_index[rows])] = np.where(
        instance < 0, _NONE, instance
    )
    return of_place[places.lookup(group * size + member)]
