"""Each clever closed form beside its brute force twin, on random input; no Spark."""

from __future__ import annotations

import random
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest

from spark_assign.kernels.ownership import DUPLICATE, KEY, RUN, WORDS, crossing, merge
from spark_assign.kernels.progressions import shared
from spark_assign.kernels.rack_range import lay_with_racks
from spark_assign.kernels.ring import first_in_line
from spark_assign.kernels.runs import compress_owners
from tests.kafka import random_groups
from tests.oracle import range_assignor, roundrobin_assignor
from tests.oracle.group import Assignment, Group, Member


def _groups(strategy: str) -> list[Group]:
    """A few hundred random groups; the seed is in the test's output when it fails."""
    seed = random_groups.seed()
    print(f"repeat with {random_groups.SEED_VARIABLE}={seed}")
    return [Group.from_row(row) for row in random_groups.groups(strategy, seed, small=300, mid_size=1)]


def test_the_ring_goes_on_as_the_loop_does() -> None:
    """Round robin: who is first in line for a topic follows from the topic before, not from every partition."""
    for group in _groups("roundrobin"):
        ring = sorted(group.members, key=lambda member: member.order)
        topics = group.subscribed_topics()
        lines = [[place for place, member in enumerate(ring) if topic in member.topics] for topic in topics]
        counts = [group.partitions[topic] for topic in topics]
        dealt: Assignment = {member.member_id: [] for member in ring}
        starts = first_in_line(zip(lines, counts, strict=True))
        for topic, places, count, start in zip(topics, lines, counts, starts, strict=True):
            for partition in range(count):
                dealt[ring[places[(start + partition) % len(places)]].member_id].append((topic, partition))
        assert dealt == roundrobin_assignor.assign(group)


@pytest.mark.parametrize("together", [False, True])
def test_racks_are_laid_out_as_the_loop_does(together: bool) -> None:
    """Range with racks: one topic, or two co-partitioned ones, which are near only where both are."""
    laid = 0
    for group in _groups("range"):
        topics = [topic for topic in group.subscribed_topics() if topic in group.replica_racks]
        if not topics or group.partitions[topics[0]] == 0:
            continue
        count = group.partitions[topics[0]]
        names = ["a", "b"] if together else ["a"]
        second = next((t for t in topics[1:] if group.partitions[t] == count), topics[0])
        racks = dict(zip(names, (group.replica_racks[topics[0]], group.replica_racks[second]), strict=False))
        members = [Member(m.member_id, names, m.group_instance_id, m.rack_id) for m in group.members]
        alike = Group(dict.fromkeys(names, count), members, racks)
        answer = range_assignor.assign(alike)
        if not _racks_decide(alike):
            continue
        laid += 1
        ordered = sorted(members, key=lambda member: member.order)
        numbers: dict[str | None, int] = {None: -1}
        member_racks = [numbers.setdefault(m.rack_id, len(numbers) - 1) for m in ordered]
        near = np.ones((len(numbers) - 1, count), dtype=bool)
        for rack, number in numbers.items():
            for replicas in racks.values() if number >= 0 else ():
                near[number] &= [rack in replicas[partition] for partition in range(count)]
        owner = lay_with_racks(member_racks, near, together=together)
        got: dict[str, set[int]] = defaultdict(set)
        for partition, member in enumerate(owner):
            got[ordered[member].member_id].add(partition)
        for name in names:
            expected = {m: {p for t, p in given if t == name} for m, given in answer.items()}
            assert got == {m: partitions for m, partitions in expected.items() if partitions}
    assert laid > 20


def _racks_decide(group: Group) -> bool:
    """`useRackAwareAssignment` for any of the topics."""
    member_racks = {member.rack_id for member in group.members} - {None}
    for partitions in group.replica_racks.values():
        each = [frozenset(racks) - {None} for racks in partitions]
        every = frozenset().union(*each)
        if member_racks & every and any(racks != every for racks in each):
            return True
    return False


def test_shared_numbers_are_counted_as_by_listing_them() -> None:
    """Two progressions meet where the Chinese remainder theorem says."""
    rng = random.Random(random_groups.seed())
    pairs = [[rng.randint(0, 40), rng.randint(1, 12), rng.randint(0, 30)] for _ in range(6_000)]
    ones, others = np.array(pairs[:3_000], dtype=np.int64).T, np.array(pairs[3_000:], dtype=np.int64).T
    listed = [
        len(set(range(a, a + s * n, s)) & set(range(b, b + t * m, t)))
        for (a, s, n), (b, t, m) in zip(pairs[:3_000], pairs[3_000:], strict=True)
    ]
    assert shared(*ones, *others).tolist() == listed


def test_runs_hold_what_the_owners_hold() -> None:
    """Compressing owners to runs and listing the runs gives the owners back; ranges and strides are one run each."""
    rng = random.Random(random_groups.seed())
    for _ in range(300):
        size, owners = rng.randint(0, 60), rng.randint(1, 8)
        style = rng.choice(["random", "range", "stride"])
        if style == "random":
            owner = np.array([rng.randint(-1, owners - 1) for _ in range(size)], dtype=np.int64)
        else:
            owner = np.arange(size) // 9 if style == "range" else np.arange(size) % owners
        key, first, step, count = compress_owners(owner)
        back = np.full(size, -1)
        for k, f, s, c in zip(key, first, step, count, strict=True):
            assert (back[f : f + s * (c - 1) + 1 : s] == -1).all()
            back[f : f + s * (c - 1) + 1 : s] = k
        assert (back == np.where(owner < 0, -1, owner)).all()
        if style != "random":
            assert len(key) == len(set(owner.tolist()))


def _blocks(rows: list[tuple[str, ...]], partitions: list[int]) -> pa.Table:
    """Owned rows as `kernels.ownership` has them, in any order."""
    blocks: dict[tuple[object, ...], list[int]] = defaultdict(lambda: [0] * (len(WORDS) + 1))
    for key, partition in zip(rows, partitions, strict=True):
        block = blocks[(*key, partition >> 9)]
        block[(partition >> 6) & 7] |= 1 << (partition & 63)
        block[-1] += 1
    named = sorted(blocks.items(), key=lambda each: str(each[1]))
    columns = [pa.array([key[at] for key, _ in named], pa.string()) for at in range(len(KEY))]
    words = np.array([block for _, block in named], np.uint64).astype(np.int64).T
    block = pa.array([key[-1] for key, _ in named], pa.int32())
    return pa.table([*columns, block, *(pa.array(word) for word in words)], [*KEY, "block", *WORDS, "rows"])


def test_rows_become_runs_without_loss() -> None:
    """Every row is in one run, whatever it is next to; rows that stand twice are counted beside."""
    draw = random.Random(11)
    for most in (20, 3_000, 2**31 - 1) * 30:
        size = draw.randrange(1, 80)
        rows = [("c", draw.choice("gh"), draw.choice("mno"), draw.choice("tu")) for _ in range(size)]
        partitions = [draw.randint(0, most) for _ in range(size)]
        judged = merge(_blocks(rows, partitions)).to_pylist()
        runs = [run for run in judged if run["code"] is None]
        found = [
            (*(run[name] for name in KEY), run["first"] + at * run["step"])
            for run in runs
            for at in range(run["count"])
        ]
        owned = {(*key, partition) for key, partition in zip(rows, partitions, strict=True)}
        assert sorted(found) == sorted(owned)
        assert sum(each["rows"] for each in judged if each["code"] == DUPLICATE) == size - len(owned)


def test_runs_that_may_meet_are_found() -> None:
    """One begins before another of the same pair has ended."""
    draw = random.Random(12)
    for _ in range(300):
        runs = [
            (draw.randrange(-2, 2), draw.randrange(12), draw.randrange(1, 5), draw.randrange(1, 5))
            for _ in range(draw.randrange(10))
        ]
        table = pa.table([pa.array([run[at] for run in runs], pa.int64()) for at in range(4)], ["pair", *RUN])
        crossed = {
            pair
            for at, (pair, first, step, count) in enumerate(runs)
            for other, (same, begin, _, _) in enumerate(runs)
            if at != other and pair == same and first <= begin <= first + step * (count - 1)
        }
        assert crossing(table)["pair"].to_pylist() == sorted(crossed)
