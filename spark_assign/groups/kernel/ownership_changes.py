"""What is planned held against what is owned: what stays, what moves and why, what has to be given up first.

This is the only accounting there is. It is done on runs; what stays where it is, and what nobody owned, is never looked
at partition by partition.

Reasons of a move, the first that fits
    topic-gone        the topic does not exist (any more)
    partition-gone    the topic has fewer partitions (now)
    new               nobody owned it
    member-left       its owner has left the group
    claim-conflict    two or more members claim it, and this one does not keep it
    unsubscribed      its owner does not subscribe to the topic (any more)
    unassigned        nobody gets it
    over-quota        its owner has more than its share (sticky assignors, uniform)
    rack-mismatch     it has no replica in its owner's rack (sticky assignors)
    over-load         its owner has more load than its bound (weighted-sticky)
    makes-room        another partition, that fits nowhere else, gets its place (weighted-sticky)
    balancing         its next owner had fewer partitions (sticky assignors and uniform, differing subscriptions)
    rebalanced        the assignor gives it to another member

What has to be given up (KIP-429): what a living member loses, and, of what is withheld, also what its owner gets back
(partitions that two members claim are given up by both, `CooperativeStickyAssignor`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from spark_assign.groups.assignors.sticky.ownership_conflicts import find_overlapping_topics
from spark_assign.groups.assignors.sticky.sticky_groups import BALANCING, OVER_QUOTA, RACK_MISMATCH
from spark_assign.groups.assignors.weighted.weighted_groups import MAKES_ROOM, OVER_LOAD
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import (
    PARTITION_BITS,
    PartitionSlices,
    compress_sorted,
    count_common_terms,
    match_equal_slices,
)
from spark_assign.numeric.segmented_arrays import ranges_by_length, starts_new_key

NO_MEMBER = -1

REASONS = (
    *("topic-gone", "partition-gone", "new", "member-left", "claim-conflict", "unsubscribed", "unassigned"),
    *("over-quota", "rack-mismatch", "balancing", "over-load", "makes-room", "rebalanced"),
)
_TAKEN = {
    OVER_QUOTA: "over-quota",
    RACK_MISMATCH: "rack-mismatch",
    BALANCING: "balancing",
    OVER_LOAD: "over-load",
    MAKES_ROOM: "makes-room",
}

_TOGETHER = 2_000_000
"""So many partitions, about, are looked at one by one together."""


@dataclass(frozen=True)
class Ownership:
    """What is owned and what is planned, of many groups.

    Attributes:
        num_groups: how many.
        topic_group, partitions: of each topic its group and its number of partitions; -1: there is no such topic.
        owned: what living members own; no member owns a partition twice.
        departed: what members that have left owned; members are numbers of their own.
        assigned: what is assigned in this round.
        withheld: what its next owner gets a round later.
    """

    num_groups: int
    topic_group: IntArray
    partitions: IntArray
    owned: PartitionSlices
    departed: PartitionSlices
    assigned: PartitionSlices
    withheld: PartitionSlices

    def sum_by_group(self, topic: IntArray, number: IntArray) -> IntArray:
        """Numbers of topics added up by group."""
        return np.bincount(self.topic_group[topic], number, self.num_groups).astype(np.int64)


# --- how many -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OwnershipCounts:
    """Partitions of each group.

    Attributes:
        owned: that living members own, each claim for itself.
        kept: of those, that stay with their claimer.
        returned: of those, that their claimer gives up and gets back.
        owned_and_assigned: owned by anybody, living or not, and assigned or withheld now.
        live_owned_and_assigned: of those, owned by a living member.
        topic_gone, out_of_range: claimed, of topics that do not exist, or behind the end of their topic.
        conflicts: claimed by two living members or more.
    """

    owned: IntArray
    kept: IntArray
    returned: IntArray
    owned_and_assigned: IntArray
    live_owned_and_assigned: IntArray
    topic_gone: IntArray
    out_of_range: IntArray
    conflicts: IntArray


def count_changes(held: Ownership) -> OwnershipCounts:
    """How much stays, and what is odd about what is owned."""
    claims = held.owned
    partitions = held.partitions[claims.topic]
    fitting = -(-(np.maximum(partitions, 0) - claims.first) // claims.step)
    below, gone = np.clip(fitting, 0, claims.count), partitions < 0
    there, living = _still_there(held)
    return OwnershipCounts(
        owned=held.sum_by_group(claims.topic, claims.count),
        kept=_in_both(held, held.assigned),
        returned=_in_both(held, held.withheld),
        owned_and_assigned=there,
        live_owned_and_assigned=living,
        topic_gone=held.sum_by_group(claims.topic[gone], claims.count[gone]),
        out_of_range=held.sum_by_group(claims.topic[~gone], (claims.count - below)[~gone]),
        conflicts=_conflicts(held),
    )


def _in_both(held: Ownership, planned: PartitionSlices) -> IntArray:
    """How many partitions members claim and have in these runs, too."""
    claim, run = _pairs(held.owned, planned)
    some, others = held.owned.take(claim), planned.take(run)
    return held.sum_by_group(some.topic, count_common_terms(*some.columns[2:], *others.columns[2:]))


def _pairs(claims: PartitionSlices, planned: PartitionSlices) -> tuple[IntArray, IntArray]:
    """Every claim with every planned run of the same member and topic."""
    size = int(max(claims.topic.max(initial=0), planned.topic.max(initial=0))) + 1
    key, sought = planned.member * size + planned.topic, claims.member * size + claims.topic
    order = np.argsort(key, kind="stable")
    begin = np.searchsorted(key[order], sought)
    number = np.searchsorted(key[order], sought, "right") - begin
    claim = np.repeat(np.arange(len(claims)), number)
    return claim, order[begin[claim] + ranges_by_length(number)]


def _still_there(held: Ownership) -> tuple[IntArray, IntArray]:
    """Partitions that were owned and are assigned: by anybody, and by living members.

    Topics are counted as a whole where all of their partitions are assigned and no claims meet.
    """
    target = held.assigned.concat(held.withheld)
    owned = held.owned.concat(held.departed)
    assigned = np.bincount(target.topic, target.count, len(held.partitions)).astype(np.int64)
    odd = (assigned > 0) & (assigned != held.partitions)
    odd[owned.topic[owned.last >= held.partitions[owned.topic]]] = True
    odd[find_overlapping_topics(owned)] = True
    whole = (assigned > 0) & ~odd
    counts = []
    for some in (owned, held.owned):
        alike = some.take(whole[some.topic])
        there = held.sum_by_group(alike.topic, alike.count)
        keys = np.intersect1d(
            some.take(odd[some.topic]).expand().partition_keys, target.take(odd[target.topic]).expand().partition_keys
        )
        counts.append(there + held.sum_by_group(keys >> PARTITION_BITS, np.ones(len(keys), np.int64)))
    return counts[0], counts[1]


def _conflicts(held: Ownership) -> IntArray:
    meeting = np.zeros(len(held.partitions), bool)
    meeting[find_overlapping_topics(held.owned)] = True
    keys = np.sort(held.owned.take(meeting[held.owned.topic]).expand().partition_keys)
    again = np.unique(keys[1:][keys[1:] == keys[:-1]])
    return held.sum_by_group(again >> PARTITION_BITS, np.ones(len(again), np.int64))


# --- which --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Moves:
    """Changes of owner, as runs.

    Attributes:
        topic, first, step, count: the run.
        from_member: who loses it; a member that has left is `members` and its number; `NO_MEMBER` where nobody owned
        it. to_member: who gets it, `NO_MEMBER` where nobody does.
        reason: a place in `REASONS`.
    """

    topic: IntArray
    first: IntArray
    step: IntArray
    count: IntArray
    from_member: IntArray
    to_member: IntArray
    reason: IntArray

    def __len__(self) -> int:
        return len(self.topic)

    def take(self, chosen: BoolArray) -> Moves:
        """Some of them."""
        return Moves(*(column[chosen] for column in self.columns))

    @property
    def columns(self) -> tuple[IntArray, ...]:
        """The columns."""
        return self.topic, self.first, self.step, self.count, self.from_member, self.to_member, self.reason


@dataclass(frozen=True)
class SubscriptionIndex:
    """Who subscribes to what: member * topics + topic, ascending; and the number of members that are not gone."""

    pairs: IntArray
    topics: int
    members: int

    def contains(self, member: IntArray, topic: IntArray) -> BoolArray:
        """Whether each member subscribes to the topic beside it."""
        sought = member * self.topics + topic
        if not len(self.pairs):
            return np.zeros(len(sought), bool)
        at = np.minimum(np.searchsorted(self.pairs, sought), len(self.pairs) - 1)
        return np.asarray(self.pairs[at] == sought, bool)


def list_changes(held: Ownership, taken: IntArray, subscribed: SubscriptionIndex) -> Iterator[tuple[Moves, Moves]]:
    """Every change of owner, and what living members have to give up.

    Args:
        held: what is owned and planned.
        taken: of each run of `given`, then of `withheld`, why it was taken from the member that could have kept it.
        subscribed: who subscribes to what.

    Yields:
        moves, and revocations: `from_member` gives up what `to_member` (possibly itself, or nobody) has next.
    """
    target = held.assigned.concat(held.withheld)
    late = np.append(np.zeros(len(held.assigned), bool), np.ones(len(held.withheld), bool))
    claims = held.owned.concat(PartitionSlices(held.departed.member + subscribed.members, *held.departed.columns[1:]))
    anybody = np.zeros(len(held.partitions), bool)
    anybody[claims.topic] = True
    fresh = ~anybody[target.topic]
    new = np.full(int(fresh.sum()), REASONS.index("new"))
    yield (
        Moves(*target.take(fresh).columns[1:], np.full(len(new), NO_MEMBER), target.member[fresh], new),
        Moves(*(np.empty(0, np.int64) for _ in range(7))),
    )
    stays_claim, stays_target = find_kept(claims, target, late)
    target, late, taken = (
        target.take(~fresh & ~stays_target),
        late[~fresh & ~stays_target],
        taken[~fresh & ~stays_target],
    )
    claims = claims.take(~stays_claim)
    for claim, run in _portions(claims, target):
        yield _one_by_one(held, claims.take(claim), target.take(run), late[run], taken[run], subscribed)


def find_kept(claims: PartitionSlices, target: PartitionSlices, late: BoolArray) -> tuple[BoolArray, BoolArray]:
    """The claims and the planned runs that are one and the same, where nobody else claims or gets anything of it."""
    # Where claims are in conflict Kafka may give one partition to two members.
    meeting = np.union1d(find_overlapping_topics(claims), find_overlapping_topics(target))
    claim, run = match_equal_slices(claims, target)
    fine = ~np.isin(claims.topic[claim], meeting) & ~late[run]
    stays_claim, stays_target = np.zeros(len(claims), bool), np.zeros(len(target), bool)
    stays_claim[claim[fine]] = stays_target[run[fine]] = True
    return stays_claim, stays_target


def _portions(claims: PartitionSlices, target: PartitionSlices) -> Iterator[tuple[BoolArray, BoolArray]]:
    """The topics in portions of bounded size."""
    topics = int(max(claims.topic.max(initial=-1), target.topic.max(initial=-1))) + 1
    if not topics:
        return
    rows = np.bincount(claims.topic, claims.count, topics) + np.bincount(target.topic, target.count, topics)
    portion = (np.cumsum(rows) // _TOGETHER).astype(np.int64)
    for each in np.unique(portion[rows > 0]).tolist():
        yield portion[claims.topic] == each, portion[target.topic] == each


def _one_by_one(
    held: Ownership,
    claims: PartitionSlices,
    target: PartitionSlices,
    late: BoolArray,
    taken: IntArray,
    subscribed: SubscriptionIndex,
) -> tuple[Moves, Moves]:
    """Partition by partition: every claim with every planned owner of the same partition."""
    before, now = claims.expand(), target.expand()
    by_key = np.argsort(now.partition_keys, kind="stable")
    keys = now.partition_keys[by_key]
    late, taken = np.repeat(late, target.count)[by_key], np.repeat(taken, target.count)[by_key]
    owners = now.member[by_key]
    begin = np.searchsorted(keys, before.partition_keys)
    number = np.searchsorted(keys, before.partition_keys, "right") - begin
    row = np.repeat(np.arange(len(before)), np.maximum(number, 1))
    at = begin[row] + ranges_by_length(np.maximum(number, 1))
    found = (number > 0)[row]
    at = np.where(found, at, len(keys))
    _, place, times = np.unique(before.partition_keys, return_inverse=True, return_counts=True)
    unowned = ~np.isin(keys, before.partition_keys)
    from_member = np.append(before.member[row], np.full(int(unowned.sum()), NO_MEMBER))
    to_member = np.append(np.append(owners, NO_MEMBER)[at], owners[unowned])
    key = np.append(before.partition_keys[row], keys[unowned])
    claimers = np.append(times[place][row] if len(row) else row, np.zeros(int(unowned.sum()), np.int64))
    why = np.append(np.append(taken, 0)[at], taken[unowned])
    is_late = np.append(np.append(late, False)[at], late[unowned])
    topic, partition = key >> PARTITION_BITS, key & ((1 << PARTITION_BITS) - 1)
    reason = _reason(held, topic, partition, from_member, to_member, claimers, why, subscribed)
    changes = from_member != to_member
    living = (from_member >= 0) & (from_member < subscribed.members)
    to_revoke = living & (changes | is_late)
    columns = (topic, partition, from_member, to_member, reason)
    return _moves(*(each[changes] for each in columns)), _moves(*(each[to_revoke] for each in columns))


def _reason(
    held: Ownership,
    topic: IntArray,
    partition: IntArray,
    from_member: IntArray,
    to_member: IntArray,
    claimers: IntArray,
    taken: IntArray,
    subscribed: SubscriptionIndex,
) -> IntArray:
    partitions = held.partitions[topic]
    asks = subscribed.contains(np.where(from_member < subscribed.members, from_member, 0), topic)
    first_that_fits = {
        "topic-gone": partitions < 0,
        "partition-gone": partition >= partitions,
        "new": from_member == NO_MEMBER,
        "member-left": from_member >= subscribed.members,
        "claim-conflict": claimers > 1,
        "unsubscribed": ~asks,
        "unassigned": to_member == NO_MEMBER,
        **{name: taken == code for code, name in _TAKEN.items()},
    }
    codes = [REASONS.index(name) for name in first_that_fits]
    return np.select(list(first_that_fits.values()), codes, REASONS.index("rebalanced")).astype(np.int64)


def _moves(topic: IntArray, partition: IntArray, from_member: IntArray, to_member: IntArray, reason: IntArray) -> Moves:
    """Rows in any order, as runs."""
    order = np.lexsort((partition, reason, to_member, from_member, topic))
    topic, partition, from_member, to_member, reason = (
        each[order] for each in (topic, partition, from_member, to_member, reason)
    )
    new = starts_new_key(topic) | starts_new_key(from_member) | starts_new_key(to_member) | starts_new_key(reason)
    key = np.cumsum(new, dtype=np.int64)
    # A pair of owners comes twice where Kafka gives a partition twice; it is one change.
    run, first, step, count = compress_sorted(key, partition)
    begin = np.flatnonzero(new)[run - 1] if len(run) else run
    return Moves(topic[begin], first, step, count, from_member[begin], to_member[begin], reason[begin])
