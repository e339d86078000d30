"""Groups planned as franz-go's sticky balancers plan them, asked with a `GroupSpecs`.

Sticky reads what members claim in their user data, cooperative-sticky in the subscription if that tells a generation.
If it does not, cooperative-sticky looks into the user data, where Java's clients before 3.4 tell the generation only:
so it does not see what they own, though it withholds it. In a group of which no generation is known, it is as if all
told the same.

They know no racks unless they are told to use them. Most groups go by runs, many at once (`franz_go_undisputed`); the
others partition by partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from spark_assign.groups.assignors.franz_go.balancer_input import NO_MEMBER, FranzGoGroup, MemberHeap, resolve_owners
from spark_assign.groups.assignors.franz_go.homogeneous import plan_steals
from spark_assign.groups.assignors.franz_go.order_dependence import order_dependent_positions, plan_group
from spark_assign.groups.assignors.sticky.constrained import to_slices
from spark_assign.groups.assignors.sticky.retained_partitions import keep_by_partition
from spark_assign.groups.assignors.sticky.sticky_groups import BALANCING, KEPT, OVER_QUOTA
from spark_assign.groups.kernel.group_specs import GroupAssignments, GroupSpecs
from spark_assign.groups.kernel.sticky_input import UndisputedGroups, find_undisputed
from spark_assign.java.key_index import byte_ranks
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import EMPTY_SLICES, PartitionSlices
from spark_assign.numeric.segmented_arrays import expand_slices, row_numbers


@dataclass(frozen=True)
class _BalancerInput:
    """What is known of one group, in numbers of its own.

    Attributes:
        members, topics: of each its number in the specs; members as the leader sorts them, topics by name.
        group: what the balancer sees.
        claimer, claimed: claims, a partition each, by member.
        in_vain: whether some, but not all subscribe to a topic of no partitions.
    """

    members: IntArray
    topics: IntArray
    group: FranzGoGroup
    claimer: IntArray
    claimed: IntArray
    in_vain: bool


def assign_by_franz_go(specs: GroupSpecs, assignor: str, chosen: BoolArray) -> GroupAssignments:
    """Plan some groups by franz-go's `sticky` or `cooperative-sticky`."""
    cooperative = assignor == "cooperative-sticky"
    undisputed = find_undisputed(specs, chosen, np.ones(len(specs.members), bool))
    if cooperative:
        _, readable = _told_in(specs, cooperative)
        unread = np.zeros(specs.num_groups, bool)
        unread[specs.members.group[undisputed.owned.member[~readable[undisputed.owned.member]]]] = True
        undisputed = undisputed.without(unread, specs)
    planned = plan_undisputed(specs, undisputed, served(specs), cooperative=cooperative)
    return planned.concat(_one_by_one(specs, assignor, chosen & ~undisputed.groups))


def _one_by_one(specs: GroupSpecs, assignor: str, chosen: BoolArray) -> GroupAssignments:
    """The same, partition by partition."""
    cooperative = assignor == "cooperative-sticky"
    generation, readable = _told_in(specs, cooperative)
    parts = [_plan(told, generation, cooperative) for told in _groups(specs, generation, readable, chosen)]
    none = np.empty(0, np.int64)
    columns = [np.concatenate(each) for each in zip(*parts, strict=True)] or [none] * 6
    member, topic, partition, reason, withheld, order_dependent = columns
    runs, reason, late = to_slices(member, topic, partition, reason, withheld.astype(bool))
    hangs = order_dependent.astype(bool)
    zero = np.zeros(int(hangs.sum()), np.int64)
    open_ = to_slices(member[hangs], topic[hangs], partition[hangs], zero, zero.astype(bool))[0]
    return GroupAssignments(runs, reason, late, {}, open_)


def _told_in(specs: GroupSpecs, cooperative: bool) -> tuple[IntArray, BoolArray]:
    """Of each member the generation that its claims are of, and whether the balancer sees them."""
    members = specs.members
    if not cooperative:
        generation: IntArray = np.where(members.has_user_data, members.user_data_generation, members.generation)
        return generation, np.ones(len(members), bool)
    says = (
        np.bincount(members.group, np.maximum(members.generation, members.user_data_generation) >= 0, specs.num_groups)
        > 0
    )
    return members.generation, (members.generation >= 0) | ~says[members.group]


def _groups(
    specs: GroupSpecs, generation: IntArray, readable: BoolArray, chosen: BoolArray
) -> Iterator[_BalancerInput]:
    """The chosen groups, one by one."""
    if not chosen.any():
        return
    members, topics = specs.members, specs.topics
    in_line = served(specs)
    asking, asked = np.divmod(specs.subscriptions, max(len(topics), 1))
    claims = _claims(specs, chosen)
    groups = np.arange(specs.num_groups + 1)
    ends = [np.searchsorted(members.group[of], groups) for of in (in_line, asking, claims.member)]
    of_topics = np.searchsorted(topics.group, groups)
    number = np.empty(len(members), np.int64)
    for group in np.flatnonzero(chosen).tolist():
        mine, asks, claim = (slice(each[group], each[group + 1]) for each in ends)
        at = np.arange(of_topics[group], of_topics[group + 1])
        at = at[topics.is_subscribed[at]]
        number[in_line[mine]] = np.arange(mine.stop - mine.start)
        asks_for = number[asking[asks]], np.searchsorted(at, asked[asks])
        own = claims.take(np.arange(claim.start, claim.stop))
        own = PartitionSlices(number[own.member], np.searchsorted(at, own.topic), *own.columns[2:])
        partitions = np.maximum(topics.partitions[at], 0)
        told = in_line[mine]
        yield _told(told, at, partitions, asks_for, own, generation[told], readable[told])


def _claims(specs: GroupSpecs, chosen: BoolArray) -> PartitionSlices:
    """What members claim of topics that somebody subscribes to, one by one, as far as there are such partitions."""
    claims = specs.owned
    mine = chosen[specs.members.group[claims.member]]
    rows = claims.take(mine & np.isin(claims.topic, specs.topics.with_metadata)).expand()
    rows = rows.take(rows.first < specs.topics.partitions[rows.topic])
    return rows.take(np.argsort(rows.member, kind="stable"))


def _told(
    members: IntArray,
    topics: IntArray,
    partitions: IntArray,
    asks: tuple[IntArray, IntArray],
    claims: PartitionSlices,
    generation: IntArray,
    readable: BoolArray,
) -> _BalancerInput:
    """One group; members and topics of subscriptions and claims are in its own numbers."""
    asking, asked = asks
    order = np.lexsort((asking, asked))
    ends = np.searchsorted(asked[order], np.arange(1, len(topics)))
    subscribers = [each.tolist() for each in np.split(asking[order], ends)] if len(topics) else []
    begin = np.cumsum(partitions) - partitions
    claims = claims.take(np.argsort(claims.member, kind="stable"))
    claimer, claimed = claims.member, begin[claims.topic] + claims.first
    some = readable[claimer]
    owner, stale = resolve_owners(claimer[some], claimed[some], generation, int(partitions.sum()))
    # What its claimer does not subscribe to counts only against others that claim it.
    of_topic = np.repeat(np.arange(len(topics)), partitions)
    owner[~np.isin(owner * len(topics) + of_topic, asking * len(topics) + asked)] = NO_MEMBER
    group = FranzGoGroup(len(members), partitions.tolist(), subscribers, owner.tolist(), stale)
    in_vain = [len(each) < len(members) for each, count in zip(subscribers, partitions, strict=True) if not count]
    return _BalancerInput(members, topics, group, claimer, claimed, any(in_vain))


def _plan(told: _BalancerInput, generation: IntArray, cooperative: bool) -> tuple[IntArray, ...]:
    """Member, topic and partition of everything that is assigned; the reason, whether it is withheld, and
    order-dependent."""
    group = told.group
    answer = plan_group(group, asked_in_vain=told.in_vain)
    owner, before = np.array(answer.owner, np.int64), np.array(group.owner, np.int64)
    partitions = np.array(group.partitions, np.int64)
    topic, partition = expand_slices(np.zeros(len(partitions), np.int64), np.ones_like(partitions), partitions)
    taken = (before != NO_MEMBER) & (before != owner)
    reason = np.where(taken, OVER_QUOTA if answer.homogeneous else BALANCING, KEPT)
    withheld = np.zeros(len(owner), bool)
    if cooperative:
        withheld = _withheld(owner, told.claimer, told.claimed, generation[told.members])
    return told.members[owner], told.topics[topic], partition, reason, withheld, np.array(answer.order_dependent, bool)


def _withheld(owner: IntArray, claimer: IntArray, claimed: IntArray, generation: IntArray) -> BoolArray:
    """What somebody else claims as well, unless its new owner has it: claims it, and nobody in a newer generation."""
    newest = np.full(len(owner), -1, np.int64)
    np.maximum.at(newest, claimed, generation[claimer])
    own = owner[claimed] == claimer
    others, has = np.zeros(len(owner), bool), np.zeros(len(owner), bool)
    others[claimed[~own]] = True
    has[claimed[own & (generation[claimer] >= newest[claimed])]] = True
    withheld: BoolArray = others & ~has
    return withheld


# DOC: franz-go's sticky balancers where nothing is in dispute (`undisputed`):
# `groups.assignors.franz_go.homogeneous`, on
# runs.
#
# Only what nobody owns, and what members have too much, is looked at one by one. Whoever gives was dealt nothing: who
# was
# has at most one more than whoever has least. So what is order-dependent is only what was dealt
# (`groups.assignors.franz_go.order_dependence`).
#

_NONE = np.empty(0, np.int64)


def served(specs: GroupSpecs) -> IntArray:
    """The members by group, static ones first: by instance id, then the others by member id, as Go compares them."""
    instance = specs.facts.column("group_instance_id", specs.members.row)
    dynamic = ~instance.is_valid().to_numpy(zero_copy_only=False)
    name = np.where(dynamic, byte_ranks(specs.member_id), byte_ranks(instance))
    order: IntArray = np.lexsort((name, dynamic, specs.members.group))
    return order


def plan_undisputed(
    specs: GroupSpecs, undisputed: UndisputedGroups, in_line: IntArray, *, cooperative: bool
) -> GroupAssignments:
    """Plan these groups; `in_line` has all members as they are served."""
    if not undisputed.groups.any():
        return GroupAssignments(EMPTY_SLICES, EMPTY_SLICES.member, EMPTY_SLICES.member.astype(bool), {})
    to_member, hangs, from_member, getter = _dealt(specs, undisputed, in_line)
    zero = np.zeros(len(to_member), np.int64)
    dealt, stays, at_once = to_slices(to_member, undisputed.topic, undisputed.partition, zero, zero.astype(bool))
    some = zero[hangs]
    order_dependent = to_slices(
        to_member[hangs], undisputed.topic[hangs], undisputed.partition[hangs], some, some.astype(bool)
    )[0]
    kept, moved = _given(undisputed, from_member)
    reason, waits = np.full(len(moved), OVER_QUOTA), np.full(len(moved), cooperative)
    taken, reason, waits = to_slices(getter, moved.topic, moved.first, reason, waits)
    return GroupAssignments(
        kept.concat(dealt).concat(taken),
        np.concatenate([np.full(len(kept), KEPT), stays, reason]),
        np.concatenate([np.zeros(len(kept), bool), at_once, waits]),
        {},
        order_dependent,
    )


def _dealt(
    specs: GroupSpecs, undisputed: UndisputedGroups, in_line: IntArray
) -> tuple[IntArray, BoolArray, IntArray, IntArray]:
    """To whom everything goes that nobody owns, and whether it may go elsewhere; then who gives to whom."""
    to_members, from_members, getters, hangs = [_NONE], [_NONE], [_NONE], [_NONE.astype(bool)]
    for members, load, topic in _undisputed_groups(specs, undisputed, in_line):
        least = MemberHeap(range(len(members)), load)
        dealt = np.array(least.take_many(len(topic)), np.int64)
        to_members.append(members[dealt])
        hangs.append(order_dependent_positions(topic, dealt))
        if max(load) > min(load) + 1:
            from_member, getter = np.array(plan_steals(load), np.int64).T
            from_members.append(members[from_member])
            getters.append(members[getter])
    return np.concatenate(to_members), np.concatenate(hangs), np.concatenate(from_members), np.concatenate(getters)


def _undisputed_groups(
    specs: GroupSpecs, undisputed: UndisputedGroups, in_line: IntArray
) -> Iterator[tuple[IntArray, list[int], IntArray]]:
    """Of each group its members, how many partitions each of them has, and the topic of each that nobody has."""
    groups = np.arange(specs.num_groups + 1)
    ends = np.searchsorted(specs.members.group[in_line], groups).tolist()
    free = np.searchsorted(specs.topics.group[undisputed.topic], groups).tolist()
    for group in np.flatnonzero(undisputed.groups).tolist():
        members = in_line[ends[group] : ends[group + 1]]
        yield members, undisputed.load[members].tolist(), undisputed.topic[free[group] : free[group + 1]]


def _given(undisputed: UndisputedGroups, from_member: IntArray) -> tuple[PartitionSlices, PartitionSlices]:
    """What members keep of what they own; and partition by partition what they give, in the order of `from_member`.

    They give the highest partition numbers, and of these the last topics.
    """
    if not len(from_member):
        return undisputed.owned, EMPTY_SLICES
    gives = np.bincount(from_member, minlength=len(undisputed.load))
    some = (gives > 0)[undisputed.owned.member]
    kept, given = keep_by_partition(undisputed.owned.take(some), undisputed.load, undisputed.load - gives)
    given = given.expand()
    given = given.take(np.lexsort((-given.topic, -given.first, given.member)))
    order = np.argsort(from_member, kind="stable")
    turn = np.empty(len(from_member), np.int64)
    turn[order] = row_numbers(from_member[order])
    return undisputed.owned.take(~some).concat(kept), given.take(np.searchsorted(given.member, from_member) + turn)
