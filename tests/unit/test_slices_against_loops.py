"""Algorithms on slices, many groups side by side, compared with plain loops over single partitions."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from itertools import pairwise
from random import Random

import numpy as np
import pytest

from spark_assign.assignors.group_facts import MEMBER, OWNED_SLICE, SUBSCRIPTION
from spark_assign.assignors.group_specs import KEPT
from spark_assign.assignors.server.assign_server import withhold_owned
from spark_assign.assignors.server.uniform import TargetAssignments, find_unassigned
from spark_assign.assignors.sticky.constrained import assign_round_robin, find_unowned
from spark_assign.assignors.sticky.sticky_groups import KAFKA_FAILS, NO_UNFILLED_MEMBERS, TOO_FEW_PARTITIONS
from spark_assign.numeric.arrays import (
    PartitionSlices,
    compress_in_order,
    compress_slices,
    compress_tagged,
    rank_partitions,
)
from tests.plan_rows import facts_table, read_specs
from tests.sizes import drawn

Slice = tuple[int, int, int, int, int]
Pair = tuple[int, int]


def to_slices(rows: list[Slice]) -> PartitionSlices:
    """Rows (member, topic, first, step, count) as columns."""
    return PartitionSlices(*np.array(rows, np.int64).reshape(-1, 5).T)


def expanded(rows: PartitionSlices) -> list[tuple[int, int, int, int]]:
    """Row, member, topic, and partition of each partition of each slice, in order."""
    lists = zip(*(column.tolist() for column in rows.columns), strict=True)
    return [
        (row, member, topic, first + step * place)
        for row, (member, topic, first, step, count) in enumerate(lists)
        for place in range(count)
    ]


def random_topic(rng: Random, topic: int) -> list[Slice]:
    """A topic with an owner for each partition, -1 for none: in turns, in ranges, at random, or in blocks of these."""
    slices = []
    start = 0
    for _ in range(rng.choice([1, 1, 1, 4])):
        size, owners = rng.choice([0, 1, 7, 30, 90]), [rng.randrange(-1, 6) for _ in range(rng.randint(1, 8))]
        style = rng.choice(["turns", "turns", "range", "random"])
        step = len(owners) if style == "turns" else 1
        if style == "random":
            slices += [(rng.choice(owners), topic, start + number, 1, 1) for number in range(size)]
        elif style == "range":
            bounds = [0, *sorted(rng.randint(0, size) for _ in owners[1:])]
            ends = zip(owners, bounds, [*bounds[1:], size], strict=True)
            slices += [(owner, topic, start + first, 1, end - first) for owner, first, end in ends]
        else:
            counts = [len(range(place, size, step)) for place in range(step)]
            slices += [(owners[at], topic, start + at, step, count) for at, count in enumerate(counts)]
        start += size
    return [each for each in slices if each[-1]]


def random_slices(rng: Random, topics: int) -> list[Slice]:
    """Slices without common partitions, in any order."""
    slices = [each for topic in range(topics) for each in random_topic(rng, topic) if rng.random() < 0.8]
    return rng.sample(slices, len(slices))


def test_ranks_are_positions_in_the_sorted_list(seed: int) -> None:
    """Every partition of the input is in one part of its slice, and its rank is its place in the sorted list."""
    rng = Random(seed)
    for _ in range(drawn(150, 1_500)):
        slices = to_slices(random_slices(rng, rng.randint(0, 4)))
        place = {pair: at for at, pair in enumerate(sorted((t, p) for _, _, t, p in expanded(slices)))}
        ranked = rank_partitions(slices)
        found = []
        number: Counter[int] = Counter()
        for part, member, topic, partition in expanded(ranked.slices):
            rank = ranked.rank[part] + ranked.rank_step[part] * number[part]
            number[part] += 1
            assert rank == place[topic, partition]
            found.append((int(ranked.row[part]), member, topic, partition))
        assert sorted(found) == sorted(expanded(slices))


def kafkas_loop(missing: list[int], exceed: list[bool], num_partitions: int) -> list[int] | str:
    """`assignRoundRobin`: the member of each partition, or the exception."""
    below, exact = [member for member, number in enumerate(missing) if number], deque[int]()
    exact += [member for member, may in enumerate(exceed) if may]
    lacking, owner, turn = list(missing), [], 0
    for _ in range(num_partitions):
        if below:
            turn %= len(below)
            owner.append(below[turn])
            lacking[below[turn]] -= 1
            if lacking[below[turn]]:
                turn += 1
            else:
                exact.append(below.pop(turn))
        elif exact:
            owner.append(exact.popleft())
        else:
            return NO_UNFILLED_MEMBERS
    return TOO_FEW_PARTITIONS if below else owner


def test_round_robin_on_slices_is_kafkas_loop(seed: int) -> None:
    """Many groups at once; in some of them the partitions are too few or too many."""
    rng = Random(seed)
    outcomes: Counter[str] = Counter()
    for _ in range(drawn(12, 120)):
        member_group, topic_group, missing, exceed = [], [], [], []
        rows: list[Slice] = []
        expected: dict[Pair, int] = {}
        rejected = {}
        for group in range(12):
            some = [(m, len(topic_group) + t, *bounds) for m, t, *bounds in random_slices(rng, rng.randint(0, 4))]
            pairs = sorted((topic, partition) for _, _, topic, partition in expanded(to_slices(some)))
            size, most = rng.randint(1, 7), rng.choice([0, 1, len(pairs)])
            lacks = [rng.choice([0, most // size, most // size, rng.randint(0, max(most // size, 1))])] * size
            if rng.random() < 0.7:
                lacks = [rng.randint(0, max(number, 1)) for number in lacks]
            while len(pairs) > sum(lacks) + size and rng.random() < 0.9:
                lacks[rng.randrange(size)] += max(1, (len(pairs) - sum(lacks)) // size)
            may = [not number and rng.random() < 0.5 for number in lacks]
            owners = kafkas_loop(lacks, may, len(pairs))
            if isinstance(owners, str):
                rejected[group] = (KAFKA_FAILS, owners)
            else:
                expected |= dict(zip(pairs, (len(missing) + owner for owner in owners), strict=True))
            outcomes[owners if isinstance(owners, str) else "planned"] += 1
            rows += some
            member_group += [group] * size
            topic_group += [group] * 4
            missing += lacks
            exceed += may
        unassigned = to_slices(rows)
        arrays = (np.array(each, np.int64) for each in (member_group, topic_group, missing))
        of_member, of_topic, lacking = arrays
        assigned, row, found = assign_round_robin(of_member, of_topic, unassigned, lacking, np.array(exceed), 12)
        assert found == rejected
        got = expanded(assigned)
        assert {(topic, partition): member for _, member, topic, partition in got} == expected
        assert len(got) == len(expected)
        within = {each[:1] + each[2:] for each in expanded(unassigned)}
        assert {(int(row[part]), topic, partition) for part, _, topic, partition in got} <= within
    assert min(outcomes[name] for name in ("planned", NO_UNFILLED_MEMBERS, TOO_FEW_PARTITIONS)) > 5


def test_an_even_round_gives_each_member_one_slice() -> None:
    """As many slices as members, however many partitions there are; interleaved slices too."""
    unassigned = to_slices([(-1, 0, 0, 10, 300_000), (-1, 0, 5, 10, 300_000)])
    zero = np.zeros(3, np.int64)
    assigned, row, _ = assign_round_robin(zero, zero[:1], unassigned, zero + 200_000, zero > 0, 1)
    found = {(int(at), *each) for at, *each in zip(row, *(column.tolist() for column in assigned.columns), strict=True)}
    assert found == {
        *((0, member, 0, 10 * turn, 30, 100_000) for turn, member in enumerate((0, 2, 1))),
        *((1, member, 0, 5 + 10 * turn, 30, 100_000) for turn, member in enumerate((1, 0, 2))),
    }


def test_compressed_slices_keep_every_partition(seed: int) -> None:
    """Sorted; without interleaved slices, as many slices as the single partitions give."""
    rng = Random(seed)
    kinds: Counter[bool] = Counter()
    for _ in range(drawn(150, 1_500)):
        rows = random_slices(rng, rng.randint(0, 3))
        rows = [(member % 2, *bounds) for member, *bounds in rows]
        slices, tag = to_slices(rows), np.array([rng.randrange(2) for _ in rows], np.int64)
        merged, merged_tag = compress_slices(slices, tag)
        got, before = (
            sorted((m, t, int(tags[row]), p) for row, m, t, p in expanded(each))
            for each, tags in ((merged, merged_tag), (slices, tag))
        )
        assert got == before
        keys = [merged.member, merged.topic, merged_tag, merged.first]
        assert np.lexsort(keys[::-1]).tolist() == list(range(len(merged)))
        single = slices.expand()
        ends = defaultdict(list)
        for (member, topic, first, step, count), each in zip(rows, tag.tolist(), strict=True):
            ends[member, topic, each].append((first, first + step * (count - 1)))
        is_simple = all(
            last < first
            for each in ends.values()
            for (_, last), (first, _) in zip(sorted(each), sorted(each)[1:], strict=False)
        )
        kinds[is_simple] += 1
        if is_simple:
            plain, plain_tag = compress_tagged(*single.columns[:3], np.repeat(tag, slices.count))
            assert [c.tolist() for c in merged.columns] == [c.tolist() for c in plain.columns]
            assert merged_tag.tolist() == plain_tag.tolist()
    assert min(kinds.values()) > 20


def test_partitions_in_any_order_become_slices_in_that_order() -> None:
    """A slice ends where the step changes, where partitions descend, and with its member and topic."""
    numbers = [(0, 0, 2), (0, 0, 4), (0, 0, 6), (0, 0, 1), (0, 0, 2), (0, 1, 3), (1, 1, 4), (1, 1, 5), (1, 1, 7)]
    rows = to_slices([(*each, 1, 1) for each in numbers])
    slices = [(0, 0, 2, 2, 3), (0, 0, 1, 1, 2), (0, 1, 3, 1, 1), (1, 1, 4, 1, 2), (1, 1, 7, 1, 1)]
    assert list(zip(*(column.tolist() for column in compress_in_order(rows).columns), strict=True)) == slices


def test_regular_slices_stay_and_irregular_ones_are_merged() -> None:
    """Of nine of ten residues there are nine slices, but few runs if there are few partitions."""
    for count, expected in ((50, 9), (2, 2)):
        slices = to_slices([(0, 0, residue, 10, count) for residue in range(9)])
        assert len(compress_slices(slices, np.zeros(9, np.int64))[0]) == expected


def test_unassigned_slices_are_in_order(seed: int) -> None:
    """Each partition without owner once, sorted, whatever the owned slices are like."""
    rng = Random(seed)
    for _ in range(drawn(150, 1_500)):
        topics = [random_topic(rng, topic) for topic in range(rng.randint(1, 3))]
        partitions = [sum(each[-1] for each in slices) for slices in topics]
        owned = [each for slices in topics for each in slices if each[0] >= 0]
        found = find_unassigned(to_slices(owned), np.array(partitions, np.int64))
        taken = {(topic, partition) for _, _, topic, partition in expanded(to_slices(owned))}
        every = [(topic, partition) for topic, size in enumerate(partitions) for partition in range(size)]
        assert [each[1:] for each in expanded(found)] == [(-1, *pair) for pair in every if pair not in taken]


def test_two_owned_partitions_far_apart_leave_one_slice() -> None:
    """Their distance is the step of their slice, but there isn't a slice for each residue modulo it."""
    found = find_unowned(to_slices([(0, 0, 0, 9_999, 2)]), np.array([10_000]))
    assert [column.tolist() for column in found.columns] == [[-1], [0], [1], [1], [9_998]]


@pytest.mark.parametrize("conflicts", [0, 1])
def test_withheld_is_what_only_others_own(conflicts: int, seed: int) -> None:
    """Ranges of all topics, with owned slices of any kind; several members might claim a partition."""
    rng = Random(seed)
    facts, ranges = [], []
    owners = defaultdict[Pair, set[int]](set)
    topics = drawn(60, 600)
    for topic in range(topics):
        group = {"cluster": "c", "group_id": f"g{topic:03}"}
        slices = random_topic(rng, 0)
        size = sum(each[-1] for each in slices)
        if conflicts and slices:
            slices += [(5 - max(member, 0), *bounds) for member, *bounds in rng.choices(slices, k=conflicts)]
        for member in range(6):
            named = group | {"member_id": f"m{member}"}
            subscription = named | {"topic": "t", "partitions": size}
            facts += [named | {"kind": MEMBER}, subscription | {"kind": SUBSCRIPTION}]
            mine: set[int] = set()
            for owner, _, first, step, count in slices:
                numbers = range(first, first + step * count, step)
                if owner == member and mine.isdisjoint(numbers):
                    mine |= set(numbers)
                    facts.append(subscription | {"kind": OWNED_SLICE, "first": first, "step": step, "count": count})
            for partition in mine:
                owners[topic, partition].add(topic * 6 + member)
        bounds = [0, *sorted(rng.randint(0, size) for _ in range(5)), size]
        ranges += [
            (topic * 6 + member, topic, first, 1, end - first)
            for member, (first, end) in enumerate(pairwise(bounds))
            if first < end
        ]
    targets = to_slices(ranges)
    found = withhold_owned(read_specs(facts_table(facts)), TargetAssignments(targets, np.full(len(ranges), KEPT)))
    got = [
        (member, topic, partition, bool(found.withheld[row]))
        for row, member, topic, partition in expanded(found.slices)
    ]
    assert sorted(got) == sorted(
        (member, topic, partition, bool(owners[topic, partition]) and member not in owners[topic, partition])
        for _, member, topic, partition in expanded(targets)
    )
