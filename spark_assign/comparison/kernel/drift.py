"""Finds what changed between two states of the same groups, in one pass; every change is a row of one table.

A result row is tagged by its `kind`:

    group       counts of the changes in a group
    member      member_id, change, previous_member_id, and the facts of a member that joined, left, or restarted
    ownership   topic, first, step, count, from_member_id, to_member_id, change: a slice with another owner

A static member that restarts has another id, but is the same owner. A partition can have several owners if claims
conflict: a member that owns it in both states has neither lost nor gained it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.assignors.group_facts import GROUP as GROUP_FACT
from spark_assign.assignors.group_facts import (
    KINDS,
    OWNED_BITMAP,
    OWNED_SLICE,
    IndexedFacts,
    NameIndex,
    column,
    find_faults,
    find_owned,
    index_facts,
)
from spark_assign.assignors.sticky.sticky_groups import find_overlapping_topics
from spark_assign.groups.kernel.ownership_changes import NO_MEMBER, Moves, Ownership, SubscriptionIndex, list_changes
from spark_assign.groups.kernel.plan_groups import balance_metrics
from spark_assign.groups.kernel.tagged_rows import tagged
from spark_assign.numeric.arrays import (
    EMPTY_SLICES,
    BoolArray,
    IntArray,
    KeyIndex,
    PartitionSlices,
    match_equal_slices,
    take_names,
)

GROUP, MEMBER, OWNERSHIP = "group", "member", "ownership"

CHANGES = ("moved", "newly-owned", "no-longer-owned")
"""Changes of an owner."""


@dataclass(frozen=True)
class StatePair:
    """Two states of the same groups (`comparison.kernel.drift`)."""

    facts: IndexedFacts
    before: GroupStates
    after: GroupStates

    @cached_property
    def valid(self) -> BoolArray:
        """Whether neither state rejects the group. Shape: (num_groups,)."""
        return _flags(pc.and_(pc.is_null(self.before.rejected), pc.is_null(self.after.rejected)))

    @cached_property
    def members(self) -> IntArray:
        """Keys of all members, ascending."""
        return np.union1d(self.before.members, self.after.members)

    @cached_property
    def topics(self) -> IntArray:
        """Keys of all topics with an owner, ascending."""
        return np.union1d(self.before.slices.topic, self.after.slices.topic)

    def group(self, keys: IntArray) -> IntArray:
        """Returns the group index of each member key."""
        return keys // max(len(self.facts.member_id), 1)

    def topic_group(self, keys: IntArray) -> IntArray:
        """Returns the group index of each topic key."""
        return keys // max(len(self.facts.topic_names), 1)

    def named_groups(self, groups: IntArray) -> dict[str, pa.Array]:
        """Returns the columns cluster and group_id of these groups."""
        indexes = pa.array(groups, pa.int64())
        return {"cluster": self.facts.cluster.take(indexes), "group_id": self.facts.group_id.take(indexes)}

    def member_id(self, keys: IntArray) -> pa.Array:
        """Returns the id of each member key; null for `NO_MEMBER`."""
        return take_names(self.facts.member_id, np.where(keys < 0, -1, keys % max(len(self.facts.member_id), 1)))


@dataclass(frozen=True)
class MemberChanges:
    """Members that changed, as keys.

    Attributes:
        new, departed: members in one state only; for a restarted static member, its present and its former key.
        previous: former key of each new member; `NO_MEMBER`: it joined.
        restarted: whether each departed member restarted.
    """

    new: IntArray
    departed: IntArray
    previous: IntArray
    restarted: BoolArray


def find_drift(
    facts: pa.Table, checked: tuple[bool, bool], kinds: Collection[str], schema: pa.Schema
) -> Iterator[pa.Table]:
    """Yields what changed in all groups of the facts (`comparison.kernel.drift`).

    Args:
        facts: the facts of both states.
        checked: whether the facts of each state include its faulty groups; otherwise they are searched for.
        kinds: the kinds of rows to return.
        schema: the schema of the rows.
    """
    for name, dtype in STATE_FACTS.items():
        if name not in facts.column_names:
            facts = facts.append_column(name, pa.nulls(len(facts), dtype))
    indexed = index_facts(facts)
    before, after = checked
    states = StatePair(
        indexed, read_state(indexed, after=False, checked=before), read_state(indexed, after=True, checked=after)
    )
    members = _changed_members(states)
    if MEMBER in kinds:
        yield _member_rows(states, members, schema)
    if GROUP not in kinds and OWNERSHIP not in kinds:
        return
    counts = np.zeros((indexed.num_groups, len(CHANGES)), np.int64)
    for moves in _changed_owners(states, members):
        change = np.select([moves.from_member == NO_MEMBER, moves.to_member == NO_MEMBER], [1, 2], 0)
        cell = states.topic_group(states.topics[moves.topic]) * len(CHANGES) + change
        counts += np.bincount(cell, moves.count, counts.size).astype(np.int64).reshape(counts.shape)
        if OWNERSHIP in kinds:
            yield _ownership_rows(states, moves, change, schema)
    if GROUP in kinds:
        yield _group_rows(states, members, counts, schema)


def _flags(column: pa.Array) -> BoolArray:
    return np.asarray(column.to_numpy(zero_copy_only=False), bool)


# --- members ------------------------------------------------------------------------------------------------------


def _changed_members(states: StatePair) -> MemberChanges:
    """Returns the members that joined, left, or restarted."""
    before, after = states.before, states.after
    departed, new = np.setdiff1d(before.members, after.members), np.setdiff1d(after.members, before.members)
    departed, new = (keys[states.valid[states.group(keys)]] for keys in (departed, new))
    instances = NameIndex(states.facts.table["group_instance_id"])
    static_indexes, instance_keys = [], []
    for state, keys in ((before, departed), (after, new)):
        instance = np.append(instances.columns[0], -1)[_row(state, keys)]
        static = np.flatnonzero(instance >= 0)
        static_indexes.append(static)
        instance_keys.append(states.group(keys[static]) * len(instances) + instance[static])
    _, departed_at, new_at = np.intersect1d(*instance_keys, return_indices=True)
    previous, restarted = np.full(len(new), NO_MEMBER), np.zeros(len(departed), bool)
    previous[static_indexes[1][new_at]] = departed[static_indexes[0][departed_at]]
    restarted[static_indexes[0][departed_at]] = True
    return MemberChanges(new, departed, previous, restarted)


def _row(state: GroupStates, keys: IntArray) -> IntArray:
    """Returns the fact row of each member of a state; -1 for none."""
    return state.row[np.searchsorted(state.members, keys)]


def _member_rows(states: StatePair, changed: MemberChanges, schema: pa.Schema) -> pa.Table:
    """Returns a row for each member that joined, left, or restarted."""
    left = changed.departed[~changed.restarted]
    keys = np.append(changed.new, left)
    row = np.append(_row(states.after, changed.new), _row(states.before, left))
    change = np.append(np.where(changed.previous == NO_MEMBER, 0, 1), np.full(len(left), 2))
    client_columns = ("group_instance_id", "client_id", "client_host")
    columns = {
        **states.named_groups(states.group(keys)),
        "member_id": states.member_id(keys),
        "change": pa.array(("joined", "restarted", "left")).take(pa.array(change)),
        "previous_member_id": states.member_id(np.append(changed.previous, np.full(len(left), NO_MEMBER))),
        **{name: take_names(states.facts.table[name].combine_chunks(), row) for name in client_columns},
    }
    return tagged(MEMBER, columns, len(keys), schema)


# --- owners -------------------------------------------------------------------------------------------------------


def _changed_owners(states: StatePair, members: MemberChanges) -> Iterator[Moves]:
    """Yields the changes of owner; members and topics are indexes into `StatePair.members` and `StatePair.topics`."""
    renamed = states.members.copy()
    restarted = members.previous != NO_MEMBER
    renamed[np.searchsorted(renamed, members.previous[restarted])] = members.new[restarted]
    owned = []
    for slices, names in ((states.before.slices, renamed), (states.after.slices, states.members)):
        slices = slices.take(states.valid[states.topic_group(slices.topic)])
        member = np.searchsorted(states.members, names[np.searchsorted(states.members, slices.member)])
        owned.append(replace(slices, member=member, topic=np.searchsorted(states.topics, slices.topic)))
    lost, gained = _remove_common(*owned)
    topics = len(states.topics)
    ownership = Ownership(
        num_groups=states.facts.num_groups,
        topic_group=states.topic_group(states.topics),
        partitions=np.zeros(topics, np.int64),
        owned=lost,
        departed=EMPTY_SLICES,
        assigned=gained,
        withheld=EMPTY_SLICES,
    )
    # Partitions and subscriptions would only determine reasons, which aren't used.
    no_subscriptions = SubscriptionIndex(np.empty(0, np.int64), max(topics, 1), len(states.members))
    for moves, _ in list_changes(ownership, np.zeros(len(gained), np.int64), no_subscriptions):
        yield moves


def _remove_common(before: PartitionSlices, after: PartitionSlices) -> tuple[PartitionSlices, PartitionSlices]:
    """Removes what a member owns in both states: slice by slice, and by partition only if claims overlap."""
    lost, gained = _remove_equal_slices(before, after)
    overlapping = np.union1d(find_overlapping_topics(lost), find_overlapping_topics(gained))
    if not len(overlapping):
        return lost, gained
    overlaps = np.isin(lost.topic, overlapping), np.isin(gained.topic, overlapping)
    expanded = _remove_equal_slices(lost.take(overlaps[0]).expand(), gained.take(overlaps[1]).expand())
    return lost.take(~overlaps[0]).concat(expanded[0]), gained.take(~overlaps[1]).concat(expanded[1])


def _remove_equal_slices(before: PartitionSlices, after: PartitionSlices) -> tuple[PartitionSlices, PartitionSlices]:
    """Returns both without their equal slices."""
    in_before, in_after = match_equal_slices(before, after)
    lost, gained = np.ones(len(before), bool), np.ones(len(after), bool)
    lost[in_before] = gained[in_after] = False
    return before.take(lost), after.take(gained)


def _ownership_rows(states: StatePair, moves: Moves, change: IntArray, schema: pa.Schema) -> pa.Table:
    members, topics = np.append(states.members, NO_MEMBER), states.topics[moves.topic]
    columns = {
        **states.named_groups(states.topic_group(topics)),
        "topic": take_names(states.facts.topic_names, topics % max(len(states.facts.topic_names), 1)),
        **{name: pa.array(getattr(moves, name)) for name in ("first", "step", "count")},
        "from_member_id": states.member_id(members[moves.from_member]),
        "to_member_id": states.member_id(members[moves.to_member]),
        "change": pa.array(CHANGES).take(pa.array(change)),
    }
    return tagged(OWNERSHIP, columns, len(moves), schema)


# --- groups -------------------------------------------------------------------------------------------------------


def _group_rows(states: StatePair, members: MemberChanges, owners: IntArray, schema: pa.Schema) -> pa.Table:
    """Returns a row per group: what changed in it."""
    before, after, num_groups = states.before, states.after, states.facts.num_groups
    restarted = members.previous != NO_MEMBER
    changed_members = {
        "joined": members.new[~restarted],
        "left": members.departed[~members.restarted],
        "restarted": members.new[restarted],
    }
    counts = {name: np.bincount(states.group(keys), minlength=num_groups) for name, keys in changed_members.items()}
    counts |= {name.replace("-", "_"): owners[:, index] for index, name in enumerate(CHANGES)}
    changed = _flags(pc.fill_null(pc.not_equal(before.assignor, after.assignor), False))
    changed |= _flags(pc.fill_null(pc.not_equal(before.metrics["members"], after.metrics["members"]), False))
    changed |= _flags(pc.not_equal(before.rejected.fill_null(""), after.rejected.fill_null("")))
    changed |= np.any([values > 0 for values in counts.values()], axis=0)
    change = np.select([~before.exists, ~after.exists, changed], [0, 1, 2], 3)
    columns = {
        **states.named_groups(np.arange(num_groups)),
        "change": pa.array(("added", "removed", "changed", "unchanged")).take(pa.array(change)),
        **{name: pa.array(values) for name, values in counts.items()},
    }
    for when, state in (("before", before), ("after", after)):
        columns |= {f"assignor_{when}": state.assignor, f"rejected_{when}": state.rejected}
        columns |= {f"{name}_{when}": values for name, values in state.metrics.items()}
    return tagged(GROUP, columns, num_groups, schema).filter(pa.array(before.exists | after.exists))


# --- reads two states of the same groups, with common indexes: members, ownership, balance, and faults --------
#
# Facts of a state, in addition to those of a fleet (`assignors.group_facts`: GROUP, and OWNED_SLICE and OWNED_BITMAP
# for ownership); the column `after` says which state a fact belongs to.
#
# PRESENT_MEMBER   member_id, group_instance_id, client_id, client_host: a member
# PLANNED_GROUP    assignor and, if already counted, members, assigned, max_over_mean, withheld
# WITHHELD_BITMAP  as OWNED_BITMAP: partitions that a member of a stored plan might get in the next round; it does in
#                  groups with withheld partitions, unless another member has the partition already
# REJECTED_GROUP   code: a rejected group


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
    for group, (code, _) in ({} if checked else find_faults(facts, kinds=("share", "streams"))).items():
        codes[group] = code
    rows = facts.rows_by_kind[REJECTED_GROUP]
    for group, code in zip(facts.group_index[rows].tolist(), facts.column("code", rows).to_pylist(), strict=True):
        codes[group] = min(code, codes[group] or code)
    return pa.array(codes, pa.string())


def _listed_groups(facts: IndexedFacts) -> tuple[IntArray, pa.Array]:
    """Returns the listed consumer groups, and the assignor of every group.

    A snapshot also lists groups of other types.
    """
    listed = facts.rows_by_kind[GROUP_FACT]
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
