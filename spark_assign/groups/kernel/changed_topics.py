"""Topics in which a partition changes its owner, as one row each: the form in which a pass hands them to a pandas UDF.

A row has what the reasons of moves need, as lists of integers, which are cheap in pandas where structs are not:

    member_ids    the ids of the members that own or get a partition of the topic; the other lists have indexes into it
    member_flags  for each member LIVE, if it is still in the group, and SUBSCRIBED, if it subscribes to the topic
    owned         four integers for each slice: member, first, step, count
    planned       six integers for each slice: member, first, step, count, 1 if the slice is withheld until the next
                  round, and the cause for which an assignor took it from its owner (`group_specs`)
    partitions    the number of partitions of the topic; -1 if the topic does not exist

Slices that keep their owner are left out, so that a row is as long as what changes.

Example: C0 owns t0p0 t0p1 t0p2 t0p3, and C1 gets t0p2 t0p3 in the next round. The row of t0 has member_ids [C0, C1],
owned [0, 0, 1, 4], and planned [0, 0, 1, 2, 0, 0,  1, 2, 1, 2, 1, 1]. It becomes the slice first 2, step 1, count 2 of
a move from C0 to C1, and of a revocation of C0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from spark_assign.groups.kernel.ownership_changes import (
    NO_MEMBER,
    Moves,
    Ownership,
    SubscriptionIndex,
    find_kept,
    list_changes,
)
from spark_assign.java.key_index import take_names
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PartitionSlices

LIVE, SUBSCRIBED = 1, 2
_OWNED_COLUMNS, _PLANNED_COLUMNS = 4, 6


def changed_topics(
    ownership: Ownership, cause: IntArray, subscribed: SubscriptionIndex, member_ids: pa.Array
) -> tuple[IntArray, dict[str, pa.Array]]:
    """Returns the topics in which something changes, ascending, and the columns of their rows.

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

    return topics, {
        "partitions": pa.array(ownership.partitions[topics]),
        "member_ids": _lists(topics, member_topic, take_names(member_ids, member)),
        "member_flags": _lists(topics, member_topic, pa.array(flags, pa.int32())),
        "owned": _rows(topics, owned.topic, [indexes(owned), *owned.columns[2:]]),
        "planned": _rows(topics, planned.topic, [indexes(planned), *planned.columns[2:], withheld, cause]),
    }


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
        partitions, member_flags, owned, planned: the columns of `changed_topics`, an entry for each topic.
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


def _concat(lists: Sequence[IntArray]) -> IntArray:
    return np.concatenate([np.empty(0, np.int64), *lists]).astype(np.int64)
