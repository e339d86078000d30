"""What changed between two states of the same groups, in one pass: facts in, every change out as rows of one table.

A row of the answer is tagged by its `kind`:

    group       what changed in a group, in numbers
    member      member_id, change, previous_member_id and what is known of a member that came, went or restarted
    ownership   topic, first, step, count, from_member_id, to_member_id, change: a run that has another owner

A static member that restarts comes with another id, and is the same owner. A partition may have several owners where
claims are in conflict: then who has it in both states has neither lost nor won it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.comparison.kernel.group_states import STATE_FACTS, GroupStates, read_state
from spark_assign.groups.assignors.sticky.ownership_conflicts import find_overlapping_topics
from spark_assign.groups.kernel.facts import IndexedFacts, index_facts
from spark_assign.groups.kernel.ownership_changes import NO_MEMBER, Moves, Ownership, SubscriptionIndex, list_changes
from spark_assign.groups.kernel.tagged_rows import tagged
from spark_assign.java.key_index import NameIndex, take_names
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PartitionSlices, match_equal_slices

GROUP, MEMBER, OWNERSHIP = "group", "member", "ownership"

CHANGES = ("moved", "newly-owned", "no-longer-owned")
"""Of an owner."""

_TEXT, _LONG, _DOUBLE = pa.string(), pa.int64(), pa.float64()
DRIFTED = pa.schema(
    {
        **dict.fromkeys(("cluster", "group_id", "kind", "change"), _TEXT),
        **dict.fromkeys(("member_id", "previous_member_id", "group_instance_id", "client_id", "client_host"), _TEXT),
        **dict.fromkeys(("topic", "from_member_id", "to_member_id"), _TEXT),
        **dict.fromkeys(("first", "step", "count"), pa.int32()),
        **dict.fromkeys(("assignor_before", "assignor_after", "rejected_before", "rejected_after"), _TEXT),
        **dict.fromkeys(("members_before", "members_after", "came", "went", "restarted"), _LONG),
        **dict.fromkeys(("partitions_before", "partitions_after", "moved", "newly_owned", "no_longer_owned"), _LONG),
        **dict.fromkeys(("max_over_mean_before", "max_over_mean_after"), _DOUBLE),
    }
)


@dataclass(frozen=True)
class DriftParams:
    """The parameters of a drift.

    Attributes:
        checked: whether the facts of each state include its faulty groups; otherwise they are searched for.
        wanted: the kinds of rows to return.
    """

    checked: tuple[bool, bool]
    wanted: frozenset[str]


@dataclass(frozen=True)
class StatePair:
    """Two states of the same groups (`comparison.kernel.group_states`)."""

    told: IndexedFacts
    before: GroupStates
    after: GroupStates

    @cached_property
    def trusted(self) -> BoolArray:
        """Whether no state rejects each group. Shape: (num_groups,)."""
        return _flags(pc.and_(pc.is_null(self.before.refused), pc.is_null(self.after.refused)))

    @cached_property
    def members(self) -> IntArray:
        """Keys of all members, ascending."""
        return np.union1d(self.before.members, self.after.members)

    @cached_property
    def topics(self) -> IntArray:
        """Keys of all topics with an owner, ascending."""
        return np.union1d(self.before.runs.topic, self.after.runs.topic)

    def group(self, keys: IntArray) -> IntArray:
        """Returns the group index of each member key."""
        return keys // max(len(self.told.member_id), 1)

    def topic_group(self, keys: IntArray) -> IntArray:
        """Returns the group index of each topic key."""
        return keys // max(len(self.told.topic_names), 1)

    def named_groups(self, groups: IntArray) -> dict[str, pa.Array]:
        """Returns the columns cluster and group_id of these groups."""
        at = pa.array(groups, pa.int64())
        return {"cluster": self.told.cluster.take(at), "group_id": self.told.group_id.take(at)}

    def member_id(self, keys: IntArray) -> pa.Array:
        """Returns the id of each member key; null for `NO_MEMBER`."""
        return take_names(self.told.member_id, np.where(keys < 0, -1, keys % max(len(self.told.member_id), 1)))


@dataclass(frozen=True)
class MemberChanges:
    """Members that changed, as keys.

    Attributes:
        new, gone: in one state only; of static members that restarted the present and the former one.
        previous: of each new one who it was before; `NO_MEMBER`: it came.
        back: of each that is gone whether it restarted.
    """

    new: IntArray
    gone: IntArray
    previous: IntArray
    back: BoolArray


def drift(facts: pa.Table, params: DriftParams) -> Iterator[pa.Table]:
    """What changed, in all groups of these facts (`comparison.kernel.group_states`); tables of `DRIFTED`."""
    absent = {name: kind for name, kind in STATE_FACTS.items() if name not in facts.column_names}
    for name, kind in absent.items():
        facts = facts.append_column(name, pa.nulls(len(facts), kind))
    told = index_facts(facts)
    before, after = params.checked
    both = StatePair(told, read_state(told, after=False, checked=before), read_state(told, after=True, checked=after))
    members = _changed_members(both)
    if MEMBER in params.wanted:
        yield _member_rows(both, members)
    if not params.wanted & {GROUP, OWNERSHIP}:
        return
    counts = np.zeros((told.num_groups, len(CHANGES)), np.int64)
    for moves in _changed_owners(both, members):
        change = np.select([moves.from_member == NO_MEMBER, moves.to_member == NO_MEMBER], [1, 2], 0)
        place = both.topic_group(both.topics[moves.topic]) * len(CHANGES) + change
        counts += np.bincount(place, moves.count, counts.size).astype(np.int64).reshape(counts.shape)
        if OWNERSHIP in params.wanted:
            yield _ownership_rows(both, moves, change)
    if GROUP in params.wanted:
        yield _group_rows(both, members, counts)


def _flags(column: pa.Array) -> BoolArray:
    return np.asarray(column.to_numpy(zero_copy_only=False), bool)


# --- members ------------------------------------------------------------------------------------------------------


def _changed_members(both: StatePair) -> MemberChanges:
    before, after = both.before, both.after
    gone, new = np.setdiff1d(before.members, after.members), np.setdiff1d(after.members, before.members)
    gone, new = (keys[both.trusted[both.group(keys)]] for keys in (gone, new))
    instances = NameIndex(both.told.table["group_instance_id"])
    places, numbers = [], []
    for state, keys in ((before, gone), (after, new)):
        number = np.append(instances.columns[0], -1)[_row(state, keys)]
        static = np.flatnonzero(number >= 0)
        places.append(static)
        numbers.append(both.group(keys[static]) * len(instances) + number[static])
    _, at_gone, at_new = np.intersect1d(*numbers, return_indices=True)
    previous, back = np.full(len(new), NO_MEMBER), np.zeros(len(gone), bool)
    previous[places[1][at_new]] = gone[places[0][at_gone]]
    back[places[0][at_gone]] = True
    return MemberChanges(new, gone, previous, back)


def _row(state: GroupStates, keys: IntArray) -> IntArray:
    """Returns the fact row of each member of a state; -1 for none."""
    return state.row[np.searchsorted(state.members, keys)]


def _member_rows(both: StatePair, changed: MemberChanges) -> pa.Table:
    went = changed.gone[~changed.back]
    keys = np.append(changed.new, went)
    row = np.append(_row(both.after, changed.new), _row(both.before, went))
    change = np.append(np.where(changed.previous == NO_MEMBER, 0, 1), np.full(len(went), 2))
    about = ("group_instance_id", "client_id", "client_host")
    columns = {
        **both.named_groups(both.group(keys)),
        "member_id": both.member_id(keys),
        "change": pa.array(("came", "restarted", "went")).take(pa.array(change)),
        "previous_member_id": both.member_id(np.append(changed.previous, np.full(len(went), NO_MEMBER))),
        **{name: take_names(both.told.table[name].combine_chunks(), row) for name in about},
    }
    return tagged(MEMBER, columns, len(keys), DRIFTED)


# --- owners -------------------------------------------------------------------------------------------------------


def _changed_owners(both: StatePair, members: MemberChanges) -> Iterator[Moves]:
    """Changes of owner; members and topics are places in `StatePair.members` and `StatePair.topics`."""
    now = both.members.copy()
    restarted = members.previous != NO_MEMBER
    now[np.searchsorted(now, members.previous[restarted])] = members.new[restarted]
    owned = []
    for runs, names in ((both.before.runs, now), (both.after.runs, both.members)):
        runs = runs.take(both.trusted[both.topic_group(runs.topic)])
        member = np.searchsorted(both.members, names[np.searchsorted(both.members, runs.member)])
        owned.append(replace(runs, member=member, topic=np.searchsorted(both.topics, runs.topic)))
    lost, won = _apart(*owned)
    nothing = lost.take(np.zeros(len(lost), bool))
    topics = len(both.topics)
    held = Ownership(
        num_groups=both.told.num_groups,
        topic_group=both.topic_group(both.topics),
        partitions=np.zeros(topics, np.int64),
        owned=lost,
        departed=nothing,
        assigned=won,
        withheld=nothing,
    )
    # Reasons, which partitions and subscriptions are for, are not asked for.
    nobody_asks = SubscriptionIndex(np.empty(0, np.int64), max(topics, 1), len(both.members))
    for moves, _ in list_changes(held, np.zeros(len(won), np.int64), nobody_asks):
        yield moves


def _apart(before: PartitionSlices, after: PartitionSlices) -> tuple[PartitionSlices, PartitionSlices]:
    """Both without what a member has in both: run by run, and partition by partition only where claims meet."""
    lost, won = _without_same(before, after)
    meeting = np.union1d(find_overlapping_topics(lost), find_overlapping_topics(won))
    if not len(meeting):
        return lost, won
    meets = np.isin(lost.topic, meeting), np.isin(won.topic, meeting)
    some = _without_same(lost.take(meets[0]).expand(), won.take(meets[1]).expand())
    return lost.take(~meets[0]).concat(some[0]), won.take(~meets[1]).concat(some[1])


def _without_same(one: PartitionSlices, other: PartitionSlices) -> tuple[PartitionSlices, PartitionSlices]:
    in_one, in_other = match_equal_slices(one, other)
    left, left_of_other = np.ones(len(one), bool), np.ones(len(other), bool)
    left[in_one] = left_of_other[in_other] = False
    return one.take(left), other.take(left_of_other)


def _ownership_rows(both: StatePair, moves: Moves, change: IntArray) -> pa.Table:
    members, topics = np.append(both.members, NO_MEMBER), both.topics[moves.topic]
    columns = {
        **both.named_groups(both.topic_group(topics)),
        "topic": take_names(both.told.topic_names, topics % max(len(both.told.topic_names), 1)),
        **{name: pa.array(getattr(moves, name)) for name in ("first", "step", "count")},
        "from_member_id": both.member_id(members[moves.from_member]),
        "to_member_id": both.member_id(members[moves.to_member]),
        "change": pa.array(CHANGES).take(pa.array(change)),
    }
    return tagged(OWNERSHIP, columns, len(moves), DRIFTED)


# --- groups -------------------------------------------------------------------------------------------------------


def _group_rows(both: StatePair, members: MemberChanges, owners: IntArray) -> pa.Table:
    before, after, number = both.before, both.after, both.told.num_groups
    restarted = members.previous != NO_MEMBER
    of_members = {
        "came": members.new[~restarted],
        "went": members.gone[~members.back],
        "restarted": members.new[restarted],
    }
    counts = {name: np.bincount(both.group(keys), minlength=number) for name, keys in of_members.items()}
    counts |= {name.replace("-", "_"): owners[:, place] for place, name in enumerate(CHANGES)}
    unlike = _flags(pc.fill_null(pc.not_equal(before.assignor, after.assignor), False))
    unlike |= _flags(pc.fill_null(pc.not_equal(before.figures["members"], after.figures["members"]), False))
    unlike |= _flags(pc.not_equal(before.refused.fill_null(""), after.refused.fill_null("")))
    unlike |= np.any([each > 0 for each in counts.values()], axis=0)
    change = np.select([~before.there, ~after.there, unlike], [0, 1, 2], 3)
    columns = {
        **both.named_groups(np.arange(number)),
        "change": pa.array(("came", "went", "changed", "same")).take(pa.array(change)),
        **{name: pa.array(each) for name, each in counts.items()},
    }
    for when, state in (("before", before), ("after", after)):
        columns |= {f"assignor_{when}": state.assignor, f"rejected_{when}": state.refused}
        columns |= {f"{name}_{when}": values for name, values in state.figures.items()}
    return tagged(GROUP, columns, number, DRIFTED).filter(pa.array(before.there | after.there))
