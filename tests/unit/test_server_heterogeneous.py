"""Uniform for heterogeneous groups against Kafka's steps taken partition by partition, on random groups."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import numpy as np

from spark_assign.assignors.group_specs import BALANCING, KEPT
from spark_assign.assignors.server import uniform
from spark_assign.numeric.arrays import EMPTY_SLICES, IntArray, PartitionSlices, compress
from tests.oracle import uniform_heterogeneous as oracle


class Group(NamedTuple):
    """The arguments of `heterogeneous.rebalance`."""

    owners: list[list[int]]
    loads: list[int]
    subscribers: list[list[int]]
    ranks: list[int]

    def copy(self) -> Group:
        """Owners and loads are changed by the functions."""
        return Group([owner.copy() for owner in self.owners], self.loads.copy(), self.subscribers, self.ranks)


def drawn(random: Random) -> Group:
    """Few or many kinds of subscriptions; nothing, something, or everything is owned, evenly or by a few members."""
    members, topics = random.choice([1, 2, 3, 8, 30]), random.choice([1, 2, 3, 6, 20])
    kinds = [
        sorted(random.sample(range(members), random.randint(1, members)))
        for _ in range(random.choice([1, 2, 3, topics]))
    ]
    subscribers, largest = [random.choice(kinds) for _ in range(topics)], random.choice([1, 3, 10, 40])
    partitions = [random.randint(1, largest) for _ in range(topics)]
    partitions = partitions if random.random() < 0.5 else [partitions[0]] * topics
    some, share, is_even = (
        set(random.sample(range(members), random.randint(1, members))),
        random.choice([0, 0.8, 1]),
        random.random() < 0.5,
    )
    owners, loads = [], [0] * members
    for mine, count in zip(subscribers, partitions, strict=True):
        fits = [member for member in mine if member in some] or mine[:1]
        owner = [fits[at % len(fits)] if is_even else random.choice(fits) for at in range(count)]
        owner = [member if random.random() < share else uniform.NO_MEMBER for member in owner]
        owners.append(owner)
        for member in owner:
            loads[member] += member >= 0
    return Group(owners, loads, subscribers, random.sample(range(topics), topics))


def previous_of(group: Group, *, as_slices: bool) -> PartitionSlices:
    """What the members own, in slices as long as possible, or partition by partition."""
    rows = [(m, t, p, 1, 1) for t, o in enumerate(group.owners) for p, m in enumerate(o) if m >= 0]
    singles = PartitionSlices(*np.array(rows, np.int64).reshape(-1, 5).T)
    return compress(singles.member, singles.topic, singles.first) if as_slices else singles


def test_moves_are_those_of_kafkas_steps() -> None:
    """Each partition that is assigned or moved, from whom and to whom, in the same order."""
    random = Random(5)
    moved = 0
    for _ in range(300):
        group = drawn(random)
        ours, theirs = group.copy(), group.copy()
        moves = oracle.rebalance(*theirs)
        *columns, ranks = ours
        assert uniform.rebalance(*columns, [rank << 70 for rank in ranks]) == moves  # UUIDs have 128 bits
        assert ours == theirs
        moved += sum(from_member >= 0 for _, _, from_member, _ in moves)
    assert moved > 1_000


def test_many_groups_at_once_are_assigned_as_one_by_one() -> None:
    """Owners and reasons; a partition that comes back to its owner has not moved."""
    random = Random(6)
    moved = 0
    for _ in range(60):
        groups = [drawn(random) for _ in range(random.choice([1, 4]))]
        arguments, firsts = side_by_side(random, groups)
        targets = uniform.assign_heterogeneous(*arguments)
        rows, reason = targets.slices.expand(), np.repeat(targets.reason, targets.slices.count)
        order = np.lexsort((rows.first, rows.topic))
        expected = []
        for first, group in zip(firsts, groups, strict=True):
            now = group.copy()
            oracle.rebalance(*now)
            for before, after in zip(group.owners, now.owners, strict=True):
                for old, new in zip(before, after, strict=True):
                    expected.append((first + new, BALANCING if old not in (new, uniform.NO_MEMBER) else KEPT))
        assert list(zip(rows.member[order].tolist(), reason[order].tolist(), strict=True)) == expected
        moved += sum(why == BALANCING for _, why in expected)
    assert moved > 500


def side_by_side(
    random: Random, groups: list[Group]
) -> tuple[tuple[int, IntArray, IntArray, IntArray, IntArray, list[IntArray], PartitionSlices], list[int]]:
    """The arguments of `assign_heterogeneous`, and the first member of each group."""
    columns: list[tuple[int, int, int, int]] = []
    sets: list[IntArray] = []
    previous, firsts, member = EMPTY_SLICES, list[int](), 0
    for number, group in enumerate(groups):
        kinds = {tuple(mine): len(sets) + at for at, mine in enumerate({tuple(mine): 0 for mine in group.subscribers})}
        sets += [np.array(mine) + member for mine in kinds]
        mine = previous_of(group, as_slices=random.random() < 0.5)
        previous = previous.concat(mine.shift(member, len(columns)))
        columns += [
            (number, len(owner), rank, kinds[tuple(subscribers)])
            for owner, rank, subscribers in zip(group.owners, group.ranks, group.subscribers, strict=True)
        ]
        firsts.append(member)
        member += len(group.loads)
    shuffled = previous.take(np.array(random.sample(range(len(previous)), len(previous)), np.int64))
    topic_group, partitions, ranks, subscriber_set = np.array(columns, np.int64).T
    return (member, topic_group, partitions, ranks, subscriber_set, sets, shuffled), firsts
