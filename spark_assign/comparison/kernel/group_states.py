"""Two states of the same groups, numbered together: who is there, who has what, how balanced, and what is wrong.

Facts of a state, besides those of a fleet (`groups.kernel.facts`: GROUP, and OWNED and BLOCK for who has what); `after`
says of which state each is.

PRESENT  member_id, group_instance_id, client_id, client_host: a member
PLANNED_GROUP
         assignor, and, where they were counted already, members, assigned, max_over_mean, withheld
LATE     as BLOCK: what a member of a stored plan may be getting a round later; it does so in groups where something
         is withheld and unless somebody has it already
REFUSED  code: a group that cannot be trusted
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

PRESENT, PLANNED_GROUP, LATE, REFUSED = range(len(KINDS), len(KINDS) + 4)

STATE_FACTS: dict[str, pa.DataType] = {
    "after": pa.bool_(),
    **dict.fromkeys(("group_instance_id", "client_id", "client_host", "code"), pa.string()),
    **dict.fromkeys(("members", "assigned", "withheld"), pa.int64()),
    "max_over_mean": pa.float64(),
}
"""The columns that only facts of states have. What no fact of a drift uses may be left out."""


@dataclass(frozen=True)
class GroupStates:
    """One state. Groups are those of `IndexedFacts`; members and topics are keys: group and name as one number.

    Attributes:
        members: who is there, ascending.
        row: of each the row of the facts that tells of it; -1 where none does.
        runs: who has what, in groups that can be trusted.
        there: of each group whether this state has it.
        assignor: of each group, null where that is unknown.
        refused: of each group why it cannot be trusted, null if it can.
        figures: of each group members, partitions and max_over_mean; null where it is not there or cannot be trusted.
    """

    members: IntArray
    row: IntArray
    runs: PartitionSlices
    there: BoolArray
    assignor: pa.Array
    refused: pa.Array
    figures: dict[str, pa.Array]


def read_state(told: IndexedFacts, *, after: bool, checked: bool) -> GroupStates:
    """One of the two states that these facts tell of.

    Args:
        told: the facts of both.
        after: which.
        checked: whether its faulty groups are told of; else they are found here.
    """
    mine = column(told.table, "after").to_numpy(zero_copy_only=False) == after
    kind = column(told.table, "kind").to_numpy(zero_copy_only=False)
    rows = {each: np.flatnonzero(mine & (kind == each)) for each in (*KINDS, PRESENT, PLANNED_GROUP, LATE, REFUSED)}
    told = replace(told, rows_by_kind=rows)
    refused = _refused(told, checked)
    sound = ~refused.is_valid().to_numpy(zero_copy_only=False)
    groups, assignor = _groups(told)
    present = rows[PRESENT][sound[told.group_index[rows[PRESENT]]]]
    counted = rows[PLANNED_GROUP][told.column("members", rows[PLANNED_GROUP]).is_valid().to_numpy(zero_copy_only=False)]
    runs = _runs(told, sound, counted)
    members = np.union1d(member_keys(told, present), runs.member)
    row = np.full(len(members), -1)
    row[np.searchsorted(members, member_keys(told, present))] = present
    there = ~sound
    there[np.append(groups, told.group_index[rows[PRESENT]])] = True
    figures = _figures(told, members, runs, counted, there & sound)
    return GroupStates(members, row, runs, there, assignor, refused, figures)


def member_keys(told: IndexedFacts, rows: IntArray) -> IntArray:
    """Group and member of these rows as one number."""
    return told.group_index[rows] * len(told.member_id) + told.member_index[rows]


def topic_keys(told: IndexedFacts, rows: IntArray) -> IntArray:
    """Group and topic of these rows as one number."""
    return told.group_index[rows] * len(told.topic_names) + told.topic_index[rows]


def _refused(told: IndexedFacts, checked: bool) -> pa.Array:
    """Of each group the code with which it is rejected, the first where there are several."""
    codes: list[str | None] = [None] * told.num_groups
    for group, (code, _) in ({} if checked else find_faults(told, also=("share", "streams"))).items():
        codes[group] = code
    rows = told.rows_by_kind[REFUSED]
    for group, code in zip(told.group_index[rows].tolist(), told.column("code", rows).to_pylist(), strict=True):
        codes[group] = min(code, codes[group] or code)
    return pa.array(codes, pa.string())


def _groups(told: IndexedFacts) -> tuple[IntArray, pa.Array]:
    """The groups that are told of as such, and of all groups the assignor.

    A snapshot lists groups of other protocols beside consumer groups.
    """
    listed = told.rows_by_kind[GROUP]
    kinds = told.column("group_type", listed).fill_null("classic")
    consumer = pc.is_in(kinds, pa.array(["classic", "consumer"])).to_numpy(zero_copy_only=False)
    rows = np.append(listed[consumer], told.rows_by_kind[PLANNED_GROUP])
    row = np.full(told.num_groups, -1)
    row[told.group_index[rows]] = rows
    assignor = column(told.table, "assignor").take(pa.array(row, pa.int64(), mask=row < 0))
    return told.group_index[rows], assignor


def _runs(told: IndexedFacts, sound: BoolArray, counted: IntArray) -> PartitionSlices:
    """Who has what in the end."""
    withholds = np.zeros(told.num_groups, bool)
    withholds[told.group_index[counted]] = told.int_column("withheld", 0)[counted] > 0
    given = _read_runs(told, sound)
    if not (withholds & sound).any():
        return given
    late = _read_runs(
        replace(
            told,
            rows_by_kind=told.rows_by_kind
            | {OWNED_SLICE: told.rows_by_kind[LATE][:0], OWNED_BITMAP: told.rows_by_kind[LATE]},
        ),
        withholds & sound,
    )
    topics = KeyIndex(np.unique(late.topic))
    taken = given.take(topics.lookup(given.topic) >= 0)
    late, taken = (replace(each, topic=topics.lookup(each.topic)).expand() for each in (late, taken))
    late = late.take(~np.isin(late.partition_keys, taken.partition_keys))
    return given.concat(replace(late, topic=topics.keys[late.topic]))


def _read_runs(told: IndexedFacts, sound: BoolArray) -> PartitionSlices:
    """Blocks and runs as runs; members and topics are keys."""
    has = find_owned(told, sound)
    # One partition is one partition, whatever the step to the next would be.
    step = np.where(has.count > 1, has.step, 1)
    runs = PartitionSlices(member_keys(told, has.row), topic_keys(told, has.row), has.first, step, has.count)
    return runs.take(has.count > 0)


def _figures(
    told: IndexedFacts, members: IntArray, runs: PartitionSlices, counted: IntArray, trusted: BoolArray
) -> dict[str, pa.Array]:
    """How large and how balanced each group is: as it was counted already, else as its members and runs are."""
    of_member = members // max(len(told.member_id), 1)
    groups = np.unique(of_member)
    numbered = replace(runs, member=np.searchsorted(members, runs.member))
    here = balance_metrics(np.searchsorted(groups, of_member), len(groups), numbered)
    size, total, most = (np.zeros(told.num_groups, np.int64) for _ in range(3))
    for values, name in ((size, "members"), (total, "partitions"), (most, "max_per_member")):
        values[groups] = here[name].to_numpy()
    uneven = np.zeros(told.num_groups)
    uneven[groups] = here["max_over_mean"].fill_null(0).to_numpy()
    known = told.group_index[counted]
    size[known], total[known] = told.int_column("members")[counted], told.int_column("assigned")[counted]
    own = told.column("max_over_mean", counted).fill_null(0).to_numpy()
    # What is withheld was not in the balance that was counted.
    late = (told.int_column("withheld", 0)[counted] > 0) & (most[known] > 0)
    uneven[known] = np.where(late, most[known] * size[known] / np.maximum(total[known], 1), own)
    return {
        "members": pa.array(size, mask=~trusted),
        "partitions": pa.array(total, mask=~trusted),
        "max_over_mean": pa.array(uneven, mask=~trusted | (uneven == 0)),
    }
