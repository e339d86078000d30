"""Builds the same groups with other member counts, as `Fleet.with_members_left` and `Fleet.with_members_joined` would.

Members leave in order of their ids, and no member owns their partitions afterward. New members have new ids, own
nothing, and subscribe to all topics of their group. All of it is done with row and name indexes, without reading text.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from spark_assign.groups.kernel.facts import (
    DEPARTED_SLICE,
    GROUP,
    KINDS,
    LISTED_MEMBER,
    LISTED_TOPIC,
    LOAD_COLUMNS,
    MEMBER,
    OWNED_ORDER,
    OWNED_SLICE,
    REPLICA_RACKS,
    SUBSCRIPTION,
    IndexedFacts,
    find_owned,
)
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.groups.kernel.read_specs import read_group_specs
from spark_assign.java.key_index import KeyIndex, NameIndex, take_names
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import invert
from spark_assign.numeric.segmented_arrays import expand_slices, ranges_by_length

JOINER = "joiner-"

GROUP_LEVEL_KINDS = (GROUP, REPLICA_RACKS, LISTED_TOPIC, DEPARTED_SLICE)
"""Kinds of facts that don't belong to a single live member."""

_SLICE = ("first", "step", "count")
_DROPPED = {
    *("bits", "twice", "block", "cluster", "group_id", "kind", "member_id", "topic", "list", *LOAD_COLUMNS.values()),
    *(f"{name}_{column}" for name in ("range", "roundrobin") for column in _SLICE),
}


def resize(specs: GroupSpecs, group: IntArray, members: IntArray) -> GroupSpecs:
    """Returns specs with one group for each element of `group`, in this order.

    Args:
        specs: the current groups.
        group: index of the group that each new group is derived from.
        members: number of members of each new group, at least 1.
    """
    rows = _Rows(specs, group, members)
    facts = rows.build_facts()
    new = read_group_specs(facts, set())
    size = max(len(facts.topic_names), 1)
    source_topic = KeyIndex(specs.topics.group * size + specs.topics.name).lookup(
        group[new.topics.group] * size + new.topics.name
    )
    loads = replace(
        specs.loads, start=specs.loads.start[source_topic], faults={}, has_loads=specs.loads.has_loads[group]
    )
    return replace(new, subscription_rows=None, partition_loads=loads)


class _Rows:
    """Rows of the new facts, in blocks of one kind: source row (-1: none), new group, and joiner (-1: a member)."""

    def __init__(self, specs: GroupSpecs, group: IntArray, members: IntArray) -> None:
        self.specs, self.group, facts = specs, group, specs.facts
        self.base_group = invert(specs.fact_group_index, facts.num_groups)
        member_group = specs.members.group
        num_members = np.bincount(member_group, minlength=specs.num_groups)
        self.member_rank = ranges_by_length(num_members)
        self.joining = np.maximum(members - num_members[group], 0)
        self.leaving = np.maximum(num_members[group] - members, 0)
        self.num_member_ids = max(len(facts.member_id), 1)
        self.member_keys = KeyIndex(member_group * self.num_member_ids + facts.member_index[specs.members.row])
        self.blocks: list[tuple[int, IntArray, IntArray, IntArray]] = []
        self.slices_by_block: dict[int, tuple[IntArray, IntArray, IntArray]] = {}
        for kind in GROUP_LEVEL_KINDS:
            self._add(kind, *self._copies(facts.rows_by_kind[kind]))
        for kind in (MEMBER, SUBSCRIPTION, LISTED_MEMBER, OWNED_ORDER):
            row, new = self._copies(facts.rows_by_kind[kind])
            stays = self._stays(row, new)
            self._add(kind, row[stays], new[stays])
        self._add_joiners()
        owned = find_owned(facts, self.base_group >= 0)
        position, new = self._copies(owned.row, positions=True)
        row, stays = owned.row[position], self._stays(owned.row[position], new)
        for kind, mask in ((OWNED_SLICE, stays), (DEPARTED_SLICE, ~stays)):
            slices = position[mask]
            self.slices_by_block[len(self.blocks)] = (owned.first[slices], owned.step[slices], owned.count[slices])
            self._add(kind, row[mask], new[mask])

    def _copies(self, rows: IntArray, *, positions: bool = False) -> tuple[IntArray, IntArray]:
        """Returns the rows (or their positions) of the group that each new group is derived from, and the new group."""
        base = self.base_group[self.specs.facts.group_index[rows]]
        order = np.argsort(base, kind="stable")
        start, end = (np.searchsorted(base[order], self.group, side) for side in ("left", "right"))
        group, position = expand_slices(start, np.ones_like(start), end - start)
        return (order[position] if positions else rows[order[position]]), group

    def _stays(self, row: IntArray, group: IntArray) -> BoolArray:
        """Returns whether the member of each row stays in the new group."""
        facts = self.specs.facts
        key = self.base_group[facts.group_index[row]] * self.num_member_ids + facts.member_index[row]
        return np.asarray(self.member_rank[self.member_keys.lookup(key)] >= self.leaving[group], bool)

    def _add(self, kind: int, row: IntArray, group: IntArray, joiner: IntArray | None = None) -> None:
        self.blocks.append((kind, row, group, np.full(len(row), -1) if joiner is None else joiner))

    def _add_joiners(self) -> None:
        """Adds the new members and their subscriptions to every topic that any member of their group subscribes to."""
        facts = self.specs.facts
        nth = ranges_by_length(self.joining)
        self._add(MEMBER, np.full(len(nth), -1), np.repeat(np.arange(len(self.joining)), self.joining), nth)
        for kind, index in ((SUBSCRIPTION, facts.topic_index), (LISTED_MEMBER, facts.list_index)):
            rows = facts.rows_of(kind, self.base_group >= 0)
            key = facts.group_index[rows] * (int(index.max(initial=0)) + 1) + index[rows]
            row, new = self._copies(rows[np.unique(key, return_index=True)[1]])
            counts = self.joining[new]
            self._add(kind, np.repeat(row, counts), np.repeat(new, counts), ranges_by_length(counts))

    def build_facts(self) -> IndexedFacts:
        """Returns the facts of the new groups."""
        base = self.specs.facts
        names, new_index, joiner_index = _with_joiners(base.member_id, int(self.joining.max(initial=0)))
        starts = np.cumsum([0, *(len(row) for _, row, *_ in self.blocks)])
        row, group, joiner = (np.concatenate([block[column] for block in self.blocks]) for column in (1, 2, 3))
        is_copy, is_joiner = row >= 0, joiner >= 0
        member = np.where(is_copy, np.append(new_index, -1)[base.member_index[row]], -1)
        member[is_joiner] = joiner_index[joiner[is_joiner]]
        rows: dict[int, list[IntArray]] = {kind: [np.empty(0, np.int64)] for kind in KINDS}
        for (kind, *_), start, end in zip(self.blocks, starts[:-1].tolist(), starts[1:].tolist(), strict=True):
            rows[kind].append(np.arange(start, end))
        table = base.table
        kept = [name for name in table.column_names if name not in _DROPPED and table[name].null_count < len(table)]
        copied = table.select(kept).take(pa.array(row, pa.int64(), mask=~is_copy))
        columns = {name: copied[name] for name in kept} | {"member_id": take_names(names, member)}
        for index, name in enumerate(_SLICE):
            values = base.int_column(name)[row]
            for block, slices in self.slices_by_block.items():
                values[starts[block] : starts[block + 1]] = slices[index]
            columns[name] = pa.array(values, pa.int32(), mask=values < 0)
        return IndexedFacts(
            table=pa.table(columns),
            rows_by_kind={kind: np.concatenate(arrays) for kind, arrays in rows.items()},
            group_index=group,
            member_index=member,
            topic_index=np.where(is_copy, base.topic_index[row], -1),
            list_index=np.where(is_copy, base.list_index[row], -1),
            cluster=self.specs.cluster.take(pa.array(self.group)),
            group_id=self.specs.group_id.take(pa.array(self.group)),
            member_id=names,
            topic_names=base.topic_names,
        )


def _with_joiners(names: pa.Array, num_joiners: int) -> tuple[pa.Array, IntArray, IntArray]:
    """Returns the sorted ids of members and joiners, and the new index of each member and of each joiner."""
    prefix = JOINER
    while num_joiners and any(name.startswith(prefix) for name in names.to_pylist()):
        prefix = f"another-{prefix}"
    new = pa.array([f"{prefix}{nth:02d}" for nth in range(1, num_joiners + 1)], pa.string())
    numbered = NameIndex(names, new)
    return numbered.names, numbered.columns[0], numbered.columns[1]
