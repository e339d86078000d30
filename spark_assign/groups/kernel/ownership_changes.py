"""Compares planned assignments with current ownership: partitions kept, moved (with the reason), and revoked.

All accounting is done here, on slices. Only topics in which partitions change their owner are expanded to partitions.

Reason of a move: the first that applies
    topic-gone        the topic doesn't exist
    partition-gone    the topic has fewer partitions
    new               the partition had no owner
    member-left       the owner left the group
    claim-conflict    two or more members claim the partition, and this one doesn't keep it
    unsubscribed      the owner doesn't subscribe to the topic
    unassigned        the partition gets no owner
    over-quota        the owner has more than its share (sticky assignors, uniform)
    rack-mismatch     the partition has no replica in the owner's rack (sticky assignors)
    over-load         the owner has more load than its bound (weighted-sticky)
    makes-room        the partition frees capacity for one that fits nowhere else (weighted-sticky)
    balancing         the next owner had fewer partitions (sticky assignors and uniform, different subscriptions)
    rebalanced        the assignor assigns the partition to another member

Revocations (KIP-429): what a live owner loses and, of withheld partitions, also what their owner gets again (a
partition that two members claim is revoked by both, `CooperativeStickyAssignor`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.assignors.group_specs import BALANCING, OVER_QUOTA, RACK_MISMATCH
from spark_assign.assignors.sticky.sticky_groups import find_overlapping_topics
from spark_assign.assignors.weighted.weighted_groups import MAKES_ROOM, OVER_LOAD
from spark_assign.numeric.arrays import (
    EMPTY_SLICES,
    PARTITION_BITS,
    BoolArray,
    IntArray,
    PartitionSlices,
    byte_pieces,
    compress_sorted,
    count_common_terms,
    intersect_partitions,
    mask_from_indexes,
    match_equal_slices,
    match_keys,
    name_pieces,
    name_sizes,
    ranges_by_length,
    split_keys,
    starts_new_key,
    take_names,
)

NO_MEMBER = -1
"""Member index of partitions without an owner."""

REASONS = (
    *("topic-gone", "partition-gone", "new", "member-left", "claim-conflict", "unsubscribed", "unassigned"),
    *("over-quota", "rack-mismatch", "balancing", "over-load", "makes-room", "rebalanced"),
)
"""Reasons of a move, in the order of precedence."""
_REVOKE_REASONS = {OVER_QUOTA: "over-quota", RACK_MISMATCH: "rack-mismatch", BALANCING: "balancing"}
_REVOKE_REASONS |= {OVER_LOAD: "over-load", MAKES_ROOM: "makes-room"}

_PARTITIONS_PER_BATCH = 2_000_000
"""Approximate number of partitions that are expanded at once, which bounds the memory."""


@dataclass(frozen=True)
class Ownership:
    """Current ownership and planned assignment of many groups.

    Attributes:
        num_groups: number of groups.
        topic_group: group index of each topic.
        partitions: number of partitions of each topic; -1 for an unknown topic.
        owned: partitions that live members own; a member owns a partition at most once.
        departed: partitions that departed members owned; their member indexes are separate from those of live members.
        assigned: partitions that are assigned in this round.
        withheld: partitions that their next owner gets in the following round.
    """

    num_groups: int
    topic_group: IntArray
    partitions: IntArray
    owned: PartitionSlices
    departed: PartitionSlices
    assigned: PartitionSlices
    withheld: PartitionSlices

    def sum_by_group(self, topic: IntArray, values: IntArray) -> IntArray:
        """Returns the sum of one value per topic index, by group."""
        return np.bincount(self.topic_group[topic], values, self.num_groups).astype(np.int64)


# --- counts -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OwnershipCounts:
    """Number of partitions per group. Shape of each array: (num_groups,).

    Attributes:
        owned: owned by live members, counting each claim.
        kept: of `owned`, those that stay with their owner.
        returned: of `owned`, those that the owner revokes and gets again in the next round.
        owned_and_assigned: owned by any member, live or departed, and now assigned or withheld.
        live_owned_and_assigned: of these, owned by a live member.
        topic_gone: owned, of topics that don't exist.
        out_of_range: owned, with a partition index beyond the topic's partition count.
        conflicts: owned by two or more live members.
    """

    owned: IntArray
    kept: IntArray
    returned: IntArray
    owned_and_assigned: IntArray
    live_owned_and_assigned: IntArray
    topic_gone: IntArray
    out_of_range: IntArray
    conflicts: IntArray

    @property
    def moved(self) -> IntArray:
        """Returns the number of partitions that have, or get in the next round, another owner than before."""
        return self.owned_and_assigned - self.kept - self.returned


def count_changes(ownership: Ownership) -> OwnershipCounts:
    """Counts kept, returned, and irregular partitions per group."""
    owned = ownership.owned
    partitions = ownership.partitions[owned.topic]
    fitting = -(-(np.maximum(partitions, 0) - owned.first) // owned.step)
    in_range, is_unknown = np.clip(fitting, 0, owned.count), partitions < 0
    num_assigned, num_live_assigned = _count_owned_and_assigned(ownership)
    return OwnershipCounts(
        owned=ownership.sum_by_group(owned.topic, owned.count),
        kept=_count_common(ownership, ownership.assigned),
        returned=_count_common(ownership, ownership.withheld),
        owned_and_assigned=num_assigned,
        live_owned_and_assigned=num_live_assigned,
        topic_gone=ownership.sum_by_group(owned.topic[is_unknown], owned.count[is_unknown]),
        out_of_range=ownership.sum_by_group(owned.topic[~is_unknown], (owned.count - in_range)[~is_unknown]),
        conflicts=_conflicts(ownership),
    )


def _count_common(ownership: Ownership, planned: PartitionSlices) -> IntArray:
    """Returns the number of owned partitions, per group, that the same member has in `planned`.

    Slices of a member and a topic are compared in pairs, or expanded if there are more pairs than partitions.
    """
    both = ownership.owned.concat(planned)
    key = np.unique(both.member * len(ownership.partitions) + both.topic, return_inverse=True)[1]
    is_planned = np.arange(len(both)) >= len(ownership.owned)
    pairs = np.bincount(key[is_planned], minlength=len(both)) * np.bincount(key[~is_planned], minlength=len(both))
    is_many = (pairs > np.bincount(key, both.count, len(both)))[key]
    many = [both.take(is_many & (is_planned == side)) for side in (False, True)]
    rows = [intersect_partitions(*map(PartitionSlices.take, many, masks)) for masks in _topic_batches(*many)]
    few, few_planned = (np.flatnonzero(~is_many & (is_planned == side)) for side in (False, True))
    index, planned_index = match_keys(key[few], key[few_planned])
    owned, assigned = both.take(few[index]), both.take(few_planned[planned_index])
    common = EMPTY_SLICES.concat(
        replace(owned, count=count_common_terms(*owned.columns[2:], *assigned.columns[2:])), *rows
    )
    return ownership.sum_by_group(common.topic, common.count)


def _count_owned_and_assigned(ownership: Ownership) -> tuple[IntArray, IntArray]:
    """Returns the number of partitions, per group, that were owned and are assigned: by any member, and by live
    members.

    Topics are counted without expanding them if all of their partitions are assigned and no claims overlap.
    """
    target = ownership.assigned.concat(ownership.withheld)
    owned = ownership.owned.concat(ownership.departed)
    assigned = np.bincount(target.topic, target.count, len(ownership.partitions)).astype(np.int64)
    needs_expansion = (assigned > 0) & (assigned != ownership.partitions)
    needs_expansion[owned.topic[owned.last >= ownership.partitions[owned.topic]]] = True
    needs_expansion[find_overlapping_topics(owned)] = True
    is_complete = (assigned > 0) & ~needs_expansion
    counts = []
    for slices in (owned, ownership.owned):
        complete = slices.take(is_complete[slices.topic])
        num_assigned = ownership.sum_by_group(complete.topic, complete.count)
        keys = np.intersect1d(
            slices.take(needs_expansion[slices.topic]).expand().partition_keys,
            target.take(needs_expansion[target.topic]).expand().partition_keys,
        )
        counts.append(num_assigned + ownership.sum_by_group(keys >> PARTITION_BITS, np.ones(len(keys), np.int64)))
    return counts[0], counts[1]


def _conflicts(ownership: Ownership) -> IntArray:
    """Returns the number of partitions, per group, that two or more live members claim."""
    meeting = mask_from_indexes(find_overlapping_topics(ownership.owned), len(ownership.partitions))
    keys = np.sort(ownership.owned.take(meeting[ownership.owned.topic]).expand().partition_keys)
    again = np.unique(keys[1:][keys[1:] == keys[:-1]])
    return ownership.sum_by_group(again >> PARTITION_BITS, np.ones(len(again), np.int64))


# --- moves --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Moves:
    """Changes of ownership, as slices.

    Attributes:
        topic, first, step, count: the slice.
        from_member: member that loses the slice; `num_members + index` for a departed member; `NO_MEMBER` if it had no
            owner.
        to_member: member that gets the slice; `NO_MEMBER` if none does.
        reason: index into `REASONS`.
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

    @property
    def columns(self) -> tuple[IntArray, ...]:
        """All columns, in the order of the fields."""
        return self.topic, self.first, self.step, self.count, self.from_member, self.to_member, self.reason


@dataclass(frozen=True)
class SubscriptionIndex:
    """Lookup of subscriptions.

    Attributes:
        pairs: sorted keys: member * topics + topic.
        topics: number of topics.
        members: number of live members.
    """

    pairs: IntArray
    topics: int
    members: int

    def contains(self, member: IntArray, topic: IntArray) -> BoolArray:
        """Returns whether each member subscribes to the topic at the same position."""
        keys = member * self.topics + topic
        if not len(self.pairs):
            return np.zeros(len(keys), bool)
        index = np.minimum(np.searchsorted(self.pairs, keys), len(self.pairs) - 1)
        return np.asarray(self.pairs[index] == keys, bool)


def list_changes(
    ownership: Ownership, reasons: IntArray, subscribed: SubscriptionIndex
) -> Iterator[tuple[Moves, Moves]]:
    """Lists every change of ownership, and what live members must revoke.

    Callers leave out the slices that keep their owner, because all others are expanded.

    Args:
        ownership: current ownership and planned assignment.
        reasons: for each slice of `assigned`, then of `withheld`, why the assignor revoked it from the member that
            could have kept it.
        subscribed: lookup of subscriptions.

    Yields:
        moves, and revocations: `from_member` revokes what `to_member` (possibly itself, or `NO_MEMBER`) has next.
    """
    target = ownership.assigned.concat(ownership.withheld)
    is_withheld = np.arange(len(target)) >= len(ownership.assigned)
    owned = ownership.owned.concat(
        PartitionSlices(ownership.departed.member + subscribed.members, *ownership.departed.columns[1:])
    )
    is_new = ~mask_from_indexes(owned.topic, len(ownership.partitions))[target.topic]
    new_reason = np.full(int(is_new.sum()), REASONS.index("new"))
    yield (
        Moves(*target.take(is_new).columns[1:], np.full(len(new_reason), NO_MEMBER), target.member[is_new], new_reason),
        Moves(*(np.empty(0, np.int64) for _ in range(7))),
    )
    target, is_withheld, reasons = target.take(~is_new), is_withheld[~is_new], reasons[~is_new]
    for owned_mask, target_mask in _topic_batches(owned, target):
        yield _compare_partitions(
            ownership,
            owned.take(owned_mask),
            target.take(target_mask),
            is_withheld[target_mask],
            reasons[target_mask],
            subscribed,
        )


def find_kept(owned: PartitionSlices, target: PartitionSlices, is_withheld: BoolArray) -> tuple[BoolArray, BoolArray]:
    """Returns masks of the owned and the planned slices that are equal, in topics without overlapping slices."""
    # If claims conflict, Kafka might assign one partition to two members.
    overlapping = np.union1d(find_overlapping_topics(owned), find_overlapping_topics(target))
    owned_index, target_index = match_equal_slices(owned, target)
    is_kept = ~np.isin(owned.topic[owned_index], overlapping) & ~is_withheld[target_index]
    owned_stays, target_stays = np.zeros(len(owned), bool), np.zeros(len(target), bool)
    owned_stays[owned_index[is_kept]] = target_stays[target_index[is_kept]] = True
    return owned_stays, target_stays


def _topic_batches(owned: PartitionSlices, target: PartitionSlices) -> Iterator[tuple[BoolArray, BoolArray]]:
    """Yields masks of owned and planned slices for batches of topics of bounded size."""
    topics = int(max(owned.topic.max(initial=-1), target.topic.max(initial=-1))) + 1
    if not topics:
        return
    rows = np.bincount(owned.topic, owned.count, topics) + np.bincount(target.topic, target.count, topics)
    topic_batch = (np.cumsum(rows) // _PARTITIONS_PER_BATCH).astype(np.int64)
    for batch in np.unique(topic_batch[rows > 0]).tolist():
        yield topic_batch[owned.topic] == batch, topic_batch[target.topic] == batch


def _compare_partitions(
    ownership: Ownership,
    owned: PartitionSlices,
    target: PartitionSlices,
    is_withheld: BoolArray,
    reasons: IntArray,
    subscribed: SubscriptionIndex,
) -> tuple[Moves, Moves]:
    """Compares partition by partition: every claim with every planned owner of the same partition."""
    current, planned = owned.expand(), target.expand()
    by_key = np.argsort(planned.partition_keys, kind="stable")
    keys = planned.partition_keys[by_key]
    is_withheld, reasons = np.repeat(is_withheld, target.count)[by_key], np.repeat(reasons, target.count)[by_key]
    owners = planned.member[by_key]
    begin = np.searchsorted(keys, current.partition_keys)
    num_owners = np.searchsorted(keys, current.partition_keys, "right") - begin
    row = np.repeat(np.arange(len(current)), np.maximum(num_owners, 1))
    next_index = begin[row] + ranges_by_length(np.maximum(num_owners, 1))
    has_next = (num_owners > 0)[row]
    next_index = np.where(has_next, next_index, len(keys))
    _, key_index, claim_counts = np.unique(current.partition_keys, return_inverse=True, return_counts=True)
    is_new = ~np.isin(keys, current.partition_keys)
    from_member = np.append(current.member[row], np.full(int(is_new.sum()), NO_MEMBER))
    to_member = np.append(np.append(owners, NO_MEMBER)[next_index], owners[is_new])
    key = np.append(current.partition_keys[row], keys[is_new])
    claimers = np.append(claim_counts[key_index][row] if len(row) else row, np.zeros(int(is_new.sum()), np.int64))
    revoke_reason = np.append(np.append(reasons, 0)[next_index], reasons[is_new])
    is_returned = np.append(np.append(is_withheld, False)[next_index], is_withheld[is_new])
    topic, partition = split_keys(key)
    reason = _find_reason(ownership, topic, partition, from_member, to_member, claimers, revoke_reason, subscribed)
    changes = from_member != to_member
    is_live = (from_member >= 0) & (from_member < subscribed.members)
    to_revoke = is_live & (changes | is_returned)
    columns = (topic, partition, from_member, to_member, reason)
    return _to_moves(*(column[changes] for column in columns)), _to_moves(*(column[to_revoke] for column in columns))


def _find_reason(
    ownership: Ownership,
    topic: IntArray,
    partition: IntArray,
    from_member: IntArray,
    to_member: IntArray,
    claimers: IntArray,
    revoke_reason: IntArray,
    subscribed: SubscriptionIndex,
) -> IntArray:
    """Returns the reason of each move, as an index into `REASONS`."""
    partitions = ownership.partitions[topic]
    is_subscribed = subscribed.contains(np.where(from_member < subscribed.members, from_member, 0), topic)
    conditions = {
        "topic-gone": partitions < 0,
        "partition-gone": partition >= partitions,
        "new": from_member == NO_MEMBER,
        "member-left": from_member >= subscribed.members,
        "claim-conflict": claimers > 1,
        "unsubscribed": ~is_subscribed,
        "unassigned": to_member == NO_MEMBER,
        **{name: revoke_reason == code for code, name in _REVOKE_REASONS.items()},
    }
    codes = [REASONS.index(name) for name in conditions]
    return np.select(list(conditions.values()), codes, REASONS.index("rebalanced")).astype(np.int64)


def _to_moves(
    topic: IntArray, partition: IntArray, from_member: IntArray, to_member: IntArray, reason: IntArray
) -> Moves:
    """Returns single-partition moves, in any order, as slices."""
    order = np.lexsort((partition, reason, to_member, from_member, topic))
    topic, partition, from_member, to_member, reason = (
        column[order] for column in (topic, partition, from_member, to_member, reason)
    )
    starts_slice = starts_new_key(topic, from_member, to_member, reason)
    key = np.cumsum(starts_slice, dtype=np.int64)
    # If Kafka assigns a partition twice, the same pair of owners occurs twice; it is one change.
    run, first, step, count = compress_sorted(key, partition)
    slice_start = np.flatnonzero(starts_slice)[run - 1] if len(run) else run
    return Moves(
        topic[slice_start], first, step, count, from_member[slice_start], to_member[slice_start], reason[slice_start]
    )


# --- topics in which a partition changes its owner, as rows for a pandas UDF ----------------------------------
#
# A row has what the reasons of moves need, as lists of integers, which are cheap in pandas where structs are not:
#
#     member_ids    the ids of the members that own or get a partition of the topic; the other lists have indexes into
#     it member_flags  for each member LIVE, if it is still in the group, and SUBSCRIBED, if it subscribes to the topic
#     owned         four integers for each slice: member, first, step, count
#     planned       six integers for each slice: member, first, step, count, 1 if the slice is withheld until the next
#                   round, and the cause for which an assignor took it from its owner (`group_specs`)
#     partitions    the number of partitions of the topic; -1 if the topic does not exist
#
# Slices that keep their owner are left out, so that a row is as long as what changes.
#
# Example: C0 owns t0p0 t0p1 t0p2 t0p3, and C1 gets t0p2 t0p3 in the next round. The row of t0 has member_ids [C0, C1],
# owned [0, 0, 1, 4], and planned [0, 0, 1, 2, 0, 0,  1, 2, 1, 2, 1, 1]. It becomes the slice first 2, step 1, count 2
# of a move from C0 to C1, and of a revocation of C0.


LIVE, SUBSCRIBED = 1, 2
_OWNED_COLUMNS, _PLANNED_COLUMNS = 4, 6
DELTA_LISTS = ("from_member", "to_member", "first", "step", "count", "reason")
"""Names of the lists of `find_deltas`."""
NAMED_DELTAS = pa.schema(
    {
        **dict.fromkeys(("cluster", "group_id", "topic", "from_member_id", "to_member_id"), pa.string()),
        **dict.fromkeys(("first", "step", "count"), pa.int32()),
        "reason": pa.string(),
    }
)
"""Schema of `name_deltas`."""


def changed_topics(
    ownership: Ownership, cause: IntArray, subscribed: SubscriptionIndex, member_ids: pa.Array
) -> Iterator[tuple[IntArray, dict[str, pa.Array]]]:
    """Yields the topics in which something changes, ascending, and the columns of their rows, in pieces that no length
    of an ID makes large.

    Args:
        ownership: what is owned and planned.
        cause: for each slice of `assigned`, then of `withheld`, why it was taken from the member that owned it.
        subscribed: who subscribes to what.
        member_ids: the ids of the live members, followed by those of the departed ones.
    """
    departed = ownership.departed
    owned = ownership.owned.concat(PartitionSlices(departed.member + subscribed.members, *departed.columns[1:]))
    planned = ownership.assigned.concat(ownership.withheld)
    withheld = np.arange(len(planned)) >= len(ownership.assigned)
    kept_owned, kept_planned = find_kept(owned, planned, withheld)
    owned, planned = owned.take(~kept_owned), planned.take(~kept_planned)
    withheld, cause = withheld[~kept_planned], cause[~kept_planned]
    topics = np.union1d(owned.topic, planned.topic)
    # The members of each topic, by topic and member.
    size = len(member_ids) + 1
    keys = np.unique(np.append(owned.topic * size + owned.member, planned.topic * size + planned.member))
    member_topic, member = keys // size, keys % size
    starts = np.searchsorted(member_topic, topics)
    flags = np.where(member < subscribed.members, LIVE, 0)
    flags |= np.where(subscribed.contains(np.minimum(member, subscribed.members), member_topic), SUBSCRIBED, 0)

    def indexes(slices: PartitionSlices) -> IntArray:
        return (
            np.searchsorted(keys, slices.topic * size + slices.member) - starts[np.searchsorted(topics, slices.topic)]
        )

    columns = {
        "partitions": pa.array(ownership.partitions[topics]),
        "member_flags": _lists(topics, member_topic, pa.array(flags, pa.int32())),
        "owned": _rows(topics, owned.topic, [indexes(owned), *owned.columns[2:]]),
        "planned": _rows(topics, planned.topic, [indexes(planned), *planned.columns[2:], withheld, cause]),
    }
    ends = np.append(starts, len(member))
    sizes = np.diff(np.append(0, np.cumsum(name_sizes(member_ids, member)))[ends])
    for piece in byte_pieces(sizes):
        some, listed = topics[piece], slice(ends[piece.start], ends[piece.stop])
        names = _lists(some, member_topic[listed], take_names(member_ids, member[listed]))
        pieces = {name: values.slice(piece.start, len(some)) for name, values in columns.items()}
        yield some, pieces | {"member_ids": names}


def _rows(topics: IntArray, topic: IntArray, columns: Sequence[IntArray | BoolArray]) -> pa.ListArray:
    """Returns a list for each topic: the values of the first slice in all columns, those of the second, and so on.

    Slices are sorted by member and first partition.
    """
    order = np.lexsort((columns[1], columns[0], topic))
    values = np.column_stack([np.asarray(column)[order] for column in columns]).astype(np.int32)
    return _lists(topics, np.repeat(topic[order], len(columns)), pa.array(values.ravel(), pa.int32()))


def _lists(topics: IntArray, topic: IntArray, values: pa.Array) -> pa.ListArray:
    """Returns a list for each topic, of the values whose topic it is; `topic` is ascending."""
    ends = np.append(np.searchsorted(topic, topics), len(topic))
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), values)


def find_deltas(
    partitions: IntArray,
    member_flags: Sequence[IntArray],
    owned: Sequence[IntArray],
    planned: Sequence[IntArray],
    *,
    revocations: bool,
) -> Mapping[str, list[IntArray]]:
    """Returns the slices that change hands in each topic: lists of from_member, to_member, first, step, count, reason.

    Args:
        partitions, member_flags, owned, planned: the columns of `ownership_changes`, an entry for each topic.
        revocations: whether to return what live members must give up (KIP-429), instead of all changes of owner.

    Returns:
        for each name one array for each topic. Members are indexes into the topic's list, -1 for none; `reason` is an
        index into `ownership_changes.REASONS`.
    """
    size = len(partitions)
    members = np.fromiter(map(len, member_flags), np.int64, size)
    flags = _concat(member_flags)
    starts = np.cumsum(members) - members
    # Live members come before departed ones, as in all kernels.
    is_live = flags & LIVE > 0
    num_live = int(is_live.sum())
    number = np.where(is_live, np.cumsum(is_live) - 1, num_live + np.cumsum(~is_live) - 1)
    local = np.empty(len(flags), np.int64)
    local[number] = np.arange(len(flags)) - np.repeat(starts, members)
    topic_of_member = np.repeat(np.arange(size), members)
    subscribes = flags & SUBSCRIBED > 0
    pairs = np.sort(number[subscribes] * max(size, 1) + topic_of_member[subscribes])

    def slices(lists: Sequence[IntArray], width: int) -> tuple[PartitionSlices, IntArray]:
        lengths = np.fromiter(map(len, lists), np.int64, size) // width
        topic = np.repeat(np.arange(size), lengths)
        table = _concat(lists).reshape(-1, width)
        member = number[starts[topic] + table[:, 0]] if len(table) else np.empty(0, np.int64)
        return PartitionSlices(member, topic, table[:, 1], table[:, 2], table[:, 3]), table

    ever_owned, _ = slices(owned, _OWNED_COLUMNS)
    target, table = slices(planned, _PLANNED_COLUMNS)
    withheld, cause = table[:, 4] > 0, table[:, 5]
    is_departed = ever_owned.member >= num_live
    departed = ever_owned.take(is_departed)
    ownership = Ownership(
        num_groups=1,
        topic_group=np.zeros(size, np.int64),
        partitions=partitions,
        owned=ever_owned.take(~is_departed),
        departed=PartitionSlices(departed.member - num_live, *departed.columns[1:]),
        assigned=target.take(~withheld),
        withheld=target.take(withheld),
    )
    cause = np.append(cause[~withheld], cause[withheld])
    found = [
        pair[revocations] for pair in list_changes(ownership, cause, SubscriptionIndex(pairs, max(size, 1), num_live))
    ]
    columns = [np.concatenate(parts) for parts in zip(*(moves.columns for moves in found), strict=True)]
    moves = Moves(*(column[np.argsort(columns[0], kind="stable")] for column in columns))
    splits = np.searchsorted(moves.topic, np.arange(1, size))
    local = np.append(local, NO_MEMBER)  # at -1
    values = {"from_member": local[moves.from_member], "to_member": local[moves.to_member]}
    values |= {"first": moves.first, "step": moves.step, "count": moves.count, "reason": moves.reason}
    return {name: np.split(column.astype(np.int32), splits) for name, column in values.items()}


def name_deltas(topics: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yields a row for each slice that changes hands, in pieces that no length of a name makes large.

    Args:
        topics: tables with cluster, group_id, topic, member_ids, and the lists of `find_deltas`.
    """
    for table in topics:
        lists = {name: table[name].combine_chunks() for name in ("member_ids", *DELTA_LISTS)}
        deltas = {name: lists[name].flatten().to_numpy() for name in DELTA_LISTS}
        row = pc.list_parent_indices(lists["first"]).to_numpy()
        ids, start = lists["member_ids"].values, lists["member_ids"].offsets.to_numpy()[row]
        keys = {name: table[name].combine_chunks() for name in ("cluster", "group_id", "topic")}
        members = {name: np.where(deltas[name] < 0, NO_MEMBER, start + deltas[name]) for name in DELTA_LISTS[:2]}
        named = [(ids, index) for index in members.values()] + [(names, row) for names in keys.values()]
        for piece in name_pieces(*named):
            columns = {name: names.take(pa.array(row[piece])) for name, names in keys.items()}
            columns |= {f"{name}_id": take_names(ids, index[piece]) for name, index in members.items()}
            columns |= {name: pa.array(deltas[name][piece]) for name in ("first", "step", "count")}
            yield pa.table(columns | {"reason": take_names(pa.array(REASONS), deltas["reason"][piece])}, NAMED_DELTAS)


def _concat(lists: Sequence[IntArray]) -> IntArray:
    return np.concatenate([np.empty(0, np.int64), *lists]).astype(np.int64)
