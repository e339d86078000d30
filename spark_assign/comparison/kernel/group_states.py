"""Reads two states of the same groups, with common indexes: members, ownership, balance, and faults.

Facts of a state, in addition to those of a fleet (`groups.kernel.facts`: GROUP, and OWNED_SLICE and OWNED_BITMAP for
ownership); the column `after` says which state a fact belongs to.

PRESENT_MEMBER   member_id, group_instance_id, client_id, client_host: a member
PLANNED_GROUP    assignor and, if already counted, members, assigned, max_over_mean, withheld
WITHHELD_BITMAP  as OWNED_BITMAP: partitions that a member of a stored plan might get in the next round; it does in
                 groups with withheld partitions, unless another member has the partition already
REJECTED_GROUP   code: a rejected group
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.groups.kernel.facts import GROUP, KINDS, OWNED_BITMAP, OWNED_SLICE, IndexedFacts, column, find_owned
from spark_assign.groups.kernel.faults import find_faults
from spark_assign.groups.kernel.group_metrics import balance_metrics
from spark_assign.java.key_index import KeyIndex
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PartitionSlices

PRESENT_MEMBER, PLANNED_GROUP, WITHHELD_BITMAP, REJECTED_GROUP = range(len(KINDS), len(KINDS) + 4)

STATE_FACTS: dict[str, pa.DataType] = {
    "after": pa.bool_(),
    **dict.fromkeys(("group_instance_id", "client_id", "client_host", "code"), pa.string()),
    **dict.fromkeys(("members", "assigned", "withheld"), pa.int64()),
    "max_over_mean": pa.float64(),
}
"""Columns that only facts of states have. Columns that no fact of a drift uses can be omitted."""


@dataclass(frozen=True)
class GroupStates:
    """One state of all groups. Groups are those of `IndexedFacts`; members and topics are keys that combine group and
    name.

    Attributes:
        members: keys of the members, ascending.
        row: fact row of each member; -1 if there is none.
        slices: ownership, in groups that aren't rejected.
        exists: whether this state has the group. Shape: (num_groups,).
        assignor: assignor of each group; null if unknown.
        rejected: code of each rejected group; null for the others.
        metrics: members, partitions, and max_over_mean of each group; null if it doesn't exist or is rejected.
    """

    members: IntArray
    row: IntArray
    slices: PartitionSlices
    exists: BoolArray
    assignor: pa.Array
    rejected: pa.Array
    metrics: dict[str, pa.Array]


def read_state(facts: IndexedFacts, *, after: bool, checked: bool) -> GroupStates:
    """Reads one of the two states from the facts.

    Args:
        facts: the facts of both states.
        after: which state to read.
        checked: whether the facts contain its faulty groups; otherwise, they are searched for.
    """
    in_state = column(facts.table, "after").to_numpy(zero_copy_only=False) == after
    kind = column(facts.table, "kind").to_numpy(zero_copy_only=False)
    kinds = (*KINDS, PRESENT_MEMBER, PLANNED_GROUP, WITHHELD_BITMAP, REJECTED_GROUP)
    rows = {fact_kind: np.flatnonzero(in_state & (kind == fact_kind)) for fact_kind in kinds}
    facts = replace(facts, rows_by_kind=rows)
    rejected = _rejection_codes(facts, checked)
    valid = ~rejected.is_valid().to_numpy(zero_copy_only=False)
    groups, assignor = _listed_groups(facts)
    present = rows[PRESENT_MEMBER][valid[facts.group_index[rows[PRESENT_MEMBER]]]]
    counted = rows[PLANNED_GROUP][
        facts.column("members", rows[PLANNED_GROUP]).is_valid().to_numpy(zero_copy_only=False)
    ]
    slices = _final_ownership(facts, valid, counted)
    members = np.union1d(member_keys(facts, present), slices.member)
    row = np.full(len(members), -1)
    row[np.searchsorted(members, member_keys(facts, present))] = present
    exists = ~valid
    exists[np.append(groups, facts.group_index[rows[PRESENT_MEMBER]])] = True
    metrics = _group_metrics(facts, members, slices, counted, exists & valid)
    return GroupStates(members, row, slices, exists, assignor, rejected, metrics)


def member_keys(facts: IndexedFacts, rows: IntArray) -> IntArray:
    """Returns the member key of these rows."""
    return facts.group_index[rows] * len(facts.member_id) + facts.member_index[rows]


def topic_keys(facts: IndexedFacts, rows: IntArray) -> IntArray:
    """Returns the topic key of these rows."""
    return facts.group_index[rows] * len(facts.topic_names) + facts.topic_index[rows]


def _rejection_codes(facts: IndexedFacts, checked: bool) -> pa.Array:
    """Returns the rejection code of each group, the first one by name if there are several."""
    codes: list[str | None] = [None] * facts.num_groups
    for group, (code, _) in ({} if checked else find_faults(facts, also=("share", "streams"))).items():
        codes[group] = code
    rows = facts.rows_by_kind[REJECTED_GROUP]
    for group, code in zip(facts.group_index[rows].tolist(), facts.column("code", rows).to_pylist(), strict=True):
        codes[group] = min(code, codes[group] or code)
    return pa.array(codes, pa.string())


def _listed_groups(facts: IndexedFacts) -> tuple[IntArray, pa.Array]:
    """Returns the listed consumer groups, and the assignor of every group.

    A snapshot also lists groups of other types.
    """
    listed = facts.rows_by_kind[GROUP]
    kinds = facts.column("group_type", listed).fill_null("classic")
    consumer = pc.is_in(kinds, pa.array(["classic", "consumer"])).to_numpy(zero_copy_only=False)
    rows = np.append(listed[consumer], facts.rows_by_kind[PLANNED_GROUP])
    row = np.full(facts.num_groups, -1)
    row[facts.group_index[rows]] = rows
    assignor = column(facts.table, "assignor").take(pa.array(row, pa.int64(), mask=row < 0))
    return facts.group_index[rows], assignor


def _final_ownership(facts: IndexedFacts, valid: BoolArray, counted: IntArray) -> PartitionSlices:
    """Returns the final ownership, including withheld partitions."""
    has_withheld = np.zeros(facts.num_groups, bool)
    has_withheld[facts.group_index[counted]] = facts.int_column("withheld", 0)[counted] > 0
    assigned = _read_slices(facts, valid)
    if not (has_withheld & valid).any():
        return assigned
    bitmaps = facts.rows_by_kind[WITHHELD_BITMAP]
    rows = facts.rows_by_kind | {OWNED_SLICE: bitmaps[:0], OWNED_BITMAP: bitmaps}
    withheld = _read_slices(replace(facts, rows_by_kind=rows), has_withheld & valid)
    topics = KeyIndex(np.unique(withheld.topic))
    current = assigned.take(topics.lookup(assigned.topic) >= 0)
    withheld, current = (replace(slices, topic=topics.lookup(slices.topic)).expand() for slices in (withheld, current))
    withheld = withheld.take(~np.isin(withheld.partition_keys, current.partition_keys))
    return assigned.concat(replace(withheld, topic=topics.keys[withheld.topic]))


def _read_slices(facts: IndexedFacts, valid: BoolArray) -> PartitionSlices:
    """Returns bitmaps and slices as slices; members and topics are keys."""
    owned = find_owned(facts, valid)
    # Normalizes the step of slices with one partition, so that equal slices match.
    step = np.where(owned.count > 1, owned.step, 1)
    slices = PartitionSlices(
        member_keys(facts, owned.row), topic_keys(facts, owned.row), owned.first, step, owned.count
    )
    return slices.take(owned.count > 0)


def _group_metrics(
    facts: IndexedFacts, members: IntArray, slices: PartitionSlices, counted: IntArray, valid: BoolArray
) -> dict[str, pa.Array]:
    """Returns size and balance of each group: as already counted, otherwise from its members and slices."""
    member_group = members // max(len(facts.member_id), 1)
    groups = np.unique(member_group)
    indexed = replace(slices, member=np.searchsorted(members, slices.member))
    balance = balance_metrics(np.searchsorted(groups, member_group), len(groups), indexed)
    size, total, max_per_member = (np.zeros(facts.num_groups, np.int64) for _ in range(3))
    for values, name in ((size, "members"), (total, "partitions"), (max_per_member, "max_per_member")):
        values[groups] = balance[name].to_numpy()
    max_over_mean = np.zeros(facts.num_groups)
    max_over_mean[groups] = balance["max_over_mean"].fill_null(0).to_numpy()
    counted_group = facts.group_index[counted]
    size[counted_group] = facts.int_column("members")[counted]
    total[counted_group] = facts.int_column("assigned")[counted]
    own = facts.column("max_over_mean", counted).fill_null(0).to_numpy()
    # The counted balance doesn't include withheld partitions.
    has_withheld = (facts.int_column("withheld", 0)[counted] > 0) & (max_per_member[counted_group] > 0)
    max_over_mean[counted_group] = np.where(
        has_withheld, max_per_member[counted_group] * size[counted_group] / np.maximum(total[counted_group], 1), own
    )
    return {
        "members": pa.array(size, mask=~valid),
        "partitions": pa.array(total, mask=~valid),
        "max_over_mean": pa.array(max_over_mean, mask=~valid | (max_over_mean == 0)),
    }
