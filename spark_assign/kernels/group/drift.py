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

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_assign.kernels.arrays import Flags, Ints
from spark_assign.kernels.group.answers import tagged
from spark_assign.kernels.group.changes import NOBODY, Held, Moves, Subscribed, list_changes, same_runs
from spark_assign.kernels.group.names import Names, named
from spark_assign.kernels.group.states import STATE_FACTS, State, read_state
from spark_assign.kernels.group.told import Told, read
from spark_assign.kernels.runs import Runs
from spark_assign.kernels.sticky.claims import crossing_topics

GROUP, MEMBER, OWNERSHIP = "group", "member", "ownership"

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
class Question:
    """What is asked.

    Attributes:
        checked: of each state whether its faulty groups are told of; else they are looked for.
        wanted: the kinds of rows to answer with.
    """

    checked: tuple[bool, bool]
    wanted: frozenset[str]


@dataclass(frozen=True)
class MemberChanges:
    """Members that changed, as keys (`states.member_keys`).

    Attributes:
        new, gone: in one state only; of static members that restarted the present and the former one.
        previous: of each new one who it was before; -1: it came.
        back: of each that is gone whether it restarted.
    """

    new: Ints
    gone: Ints
    previous: Ints
    back: Flags


def drift(facts: pa.Table, asked: Question) -> Iterator[pa.Table]:
    """What changed, in all groups of these facts (`kernels.group.states`); tables of `DRIFTED`."""
    absent = {name: kind for name, kind in STATE_FACTS.items() if name not in facts.column_names}
    for name, kind in absent.items():
        facts = facts.append_column(name, pa.nulls(len(facts), kind))
    told = read(facts)
    before = read_state(told, after=False, checked=asked.checked[0])
    after = read_state(told, after=True, checked=asked.checked[1])
    trusted = _flags(pc.and_(pc.is_null(before.refused), pc.is_null(after.refused)))
    members = _changed_members(told, before, after, trusted)
    if MEMBER in asked.wanted:
        yield _member_rows(told, before, after, members)
    if not asked.wanted & {GROUP, OWNERSHIP}:
        return
    counts = {change: np.zeros(told.number, np.int64) for change in _CHANGES}
    names = np.union1d(before.members, after.members)
    for moves, topics in _changed_owners(told, before, after, members, trusted):
        change = _change_of_owner(moves)
        for name, number in counts.items():
            of_it = change == name
            number += np.bincount(
                _group(topics[moves.topic[of_it]], told.topics), moves.count[of_it], told.number
            ).astype(np.int64)
        if OWNERSHIP in asked.wanted:
            yield _ownership_rows(told, moves, topics, names, change)
    if GROUP in asked.wanted:
        yield _group_rows(told, before, after, members, counts)


_CHANGES = ("moved", "newly-owned", "no-longer-owned")


def _flags(column: pa.Array) -> Flags:
    return np.asarray(column.to_numpy(zero_copy_only=False), bool)


def _group(keys: Ints, names: pa.Array) -> Ints:
    """The groups of keys of members or topics."""
    return keys // max(len(names), 1)


def _name(keys: Ints, names: pa.Array) -> pa.Array:
    """The names of keys of members or topics; null for -1."""
    return named(names, np.where(keys < 0, -1, keys % max(len(names), 1)))


def _named_groups(told: Told, groups: Ints) -> dict[str, pa.Array]:
    at = pa.array(groups, pa.int64())
    return {"cluster": told.cluster.take(at), "group_id": told.group_id.take(at)}


# --- members ------------------------------------------------------------------------------------------------------


def _changed_members(told: Told, before: State, after: State, trusted: Flags) -> MemberChanges:
    gone, new = (
        keys[trusted[_group(keys, told.member_id)]]
        for keys in (np.setdiff1d(before.members, after.members), np.setdiff1d(after.members, before.members))
    )
    instances = Names(told.facts["group_instance_id"])
    of_gone, of_new = (_instance_keys(told, state, keys, instances) for state, keys in ((before, gone), (after, new)))
    # Dynamic members meet by chance only.
    _, at_gone, at_new = np.intersect1d(of_gone, of_new, return_indices=True)
    static = of_gone[at_gone] >= 0
    previous, back = np.full(len(new), -1), np.zeros(len(gone), bool)
    previous[at_new[static]] = gone[at_gone[static]]
    back[at_gone[static]] = True
    return MemberChanges(new, gone, previous, back)


def _instance_keys(told: Told, state: State, keys: Ints, instances: Names) -> Ints:
    """Group and instance id of members as one number; of dynamic members a negative one."""
    number = np.append(instances.columns[0], -1)[_row(state, keys)]
    return np.where(number < 0, -1 - np.arange(len(keys)), _group(keys, told.member_id) * len(instances) + number)


def _row(state: State, keys: Ints) -> Ints:
    """Of members of a state the row that tells of each, -1 for none."""
    return state.row[np.searchsorted(state.members, keys)]


def _member_rows(told: Told, before: State, after: State, changed: MemberChanges) -> pa.Table:
    went = changed.gone[~changed.back]
    keys = np.append(changed.new, went)
    row = np.append(_row(after, changed.new), _row(before, went))
    came = np.where(changed.previous < 0, "came", "restarted").astype(object)
    about = ("group_instance_id", "client_id", "client_host")
    columns = {
        **_named_groups(told, _group(keys, told.member_id)),
        "member_id": _name(keys, told.member_id),
        "change": pa.array(np.append(came, np.full(len(went), "went", object)), _TEXT),
        "previous_member_id": _name(np.append(changed.previous, np.full(len(went), -1)), told.member_id),
        **{name: named(told.facts[name].combine_chunks(), row) for name in about},
    }
    return tagged(MEMBER, columns, len(keys), DRIFTED)


# --- owners -------------------------------------------------------------------------------------------------------


def _changed_owners(
    told: Told, before: State, after: State, members: MemberChanges, trusted: Flags
) -> Iterator[tuple[Moves, Ints]]:
    """Changes of owner and the topics that they number; members are numbers of all that are in either state."""
    everybody = np.union1d(before.members, after.members)
    topics = np.union1d(before.runs.topic, after.runs.topic)
    now = everybody.copy()
    restarted = members.previous >= 0
    now[np.searchsorted(everybody, members.previous[restarted])] = members.new[restarted]
    owned = []
    for runs, name in ((before.runs, now), (after.runs, everybody)):
        runs = runs.where(trusted[_group(runs.topic, told.topics)])
        member = np.searchsorted(everybody, name[np.searchsorted(everybody, runs.member)])
        owned.append(replace(runs, member=member, topic=np.searchsorted(topics, runs.topic)))
    lost, won = _apart(*owned)
    nothing = lost.where(np.zeros(len(lost), bool))
    held = Held(
        groups=told.number,
        topic_group=_group(topics, told.topics),
        partitions=np.zeros(len(topics), np.int64),
        claims=lost,
        left=nothing,
        given=won,
        withheld=nothing,
    )
    nobody_asks = Subscribed(np.empty(0, np.int64), max(len(topics), 1), len(everybody))
    for moves, _ in list_changes(held, np.zeros(len(won), np.int64), nobody_asks):
        yield moves, topics


def _apart(before: Runs, after: Runs) -> tuple[Runs, Runs]:
    """Both without what a member has in both: run by run, and partition by partition only where claims meet."""
    lost, won = _without_same(before, after)
    meeting = np.union1d(crossing_topics(lost), crossing_topics(won))
    if not len(meeting):
        return lost, won
    meets = np.isin(lost.topic, meeting), np.isin(won.topic, meeting)
    some = _without_same(lost.where(meets[0]).rows(), won.where(meets[1]).rows())
    return lost.where(~meets[0]).joined(some[0]), won.where(~meets[1]).joined(some[1])


def _without_same(one: Runs, other: Runs) -> tuple[Runs, Runs]:
    both = same_runs(one, other)
    apart = []
    for runs, same in zip((one, other), both, strict=True):
        left = np.ones(len(runs), bool)
        left[same] = False
        apart.append(runs.where(left))
    return apart[0], apart[1]


def _change_of_owner(moves: Moves) -> NDArray[np.object_]:
    words = np.where(moves.giver == NOBODY, "newly-owned", np.where(moves.taker == NOBODY, "no-longer-owned", "moved"))
    return words.astype(object)


def _ownership_rows(told: Told, moves: Moves, topics: Ints, members: Ints, change: NDArray[np.object_]) -> pa.Table:
    known = np.append(members, NOBODY)
    columns = {
        **_named_groups(told, _group(topics[moves.topic], told.topics)),
        "topic": _name(topics[moves.topic], told.topics),
        **{name: pa.array(getattr(moves, name)) for name in ("first", "step", "count")},
        "from_member_id": _name(known[moves.giver], told.member_id),
        "to_member_id": _name(known[moves.taker], told.member_id),
        "change": pa.array(change, _TEXT),
    }
    return tagged(OWNERSHIP, columns, len(moves), DRIFTED)


# --- groups -------------------------------------------------------------------------------------------------------


def _group_rows(told: Told, before: State, after: State, members: MemberChanges, owners: dict[str, Ints]) -> pa.Table:
    restarted = members.previous >= 0
    of_members = {
        "came": members.new[~restarted],
        "went": members.gone[~members.back],
        "restarted": members.new[restarted],
    }
    counts = {
        name: np.bincount(_group(keys, told.member_id), minlength=told.number) for name, keys in of_members.items()
    }
    counts |= {name.replace("-", "_"): number for name, number in owners.items()}
    unlike = _flags(pc.fill_null(pc.not_equal(before.assignor, after.assignor), False))
    unlike |= _flags(pc.fill_null(pc.not_equal(before.figures["members"], after.figures["members"]), False))
    unlike |= _flags(pc.not_equal(before.refused.fill_null(""), after.refused.fill_null("")))
    unlike |= np.any([number > 0 for number in counts.values()], axis=0)
    change = np.select([~before.there, ~after.there, unlike], ["came", "went", "changed"], "same").astype(object)
    columns = {
        **_named_groups(told, np.arange(told.number)),
        "change": pa.array(change, _TEXT),
        **{name: pa.array(number) for name, number in counts.items()},
    }
    for when, state in (("before", before), ("after", after)):
        columns |= {f"assignor_{when}": state.assignor, f"rejected_{when}": state.refused}
        columns |= {f"{name}_{when}": values for name, values in state.figures.items()}
    rows = tagged(GROUP, columns, told.number, DRIFTED)
    return rows.filter(pa.array(before.there | after.there))
