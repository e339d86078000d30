"""Each clever closed form beside its brute force twin, on random input; no Spark."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import numpy as np
import pytest

from spark_assign.assignors.group_facts import MEMBER, OWNED_SLICE, find_faults, index_facts
from spark_assign.assignors.range import assign_with_racks
from spark_assign.assignors.roundrobin import round_robin_start
from spark_assign.numeric.arrays import (
    WORDS_PER_BITMAP,
    PartitionSlices,
    count_common_terms,
    find_alike,
    find_duplicates,
    owners_to_slices,
    slices_from_bitmaps,
)
from tests.kafka import random_groups
from tests.oracle import range_assignor, roundrobin_assignor
from tests.oracle.group import Assignment, Group, Member
from tests.plan_rows import facts_table
from tests.seeds import seed_for
from tests.sizes import drawn


def _groups(strategy: str, *, times: int = 1) -> list[Group]:
    """A few hundred random groups; the seed is in the test's output when it fails."""
    seed = seed_for(__name__)
    return [Group.from_row(r) for r in random_groups.groups(strategy, seed, small=times * drawn(150, 300), mid_size=1)]


def test_the_ring_goes_on_as_the_loop_does() -> None:
    """Round robin: who is first in line for a topic follows from the topic before, not from every partition."""
    for group in _groups("roundrobin"):
        ring = sorted(group.members, key=lambda member: member.order)
        topics = group.subscribed_topics()
        lines = [[place for place, member in enumerate(ring) if topic in member.topics] for topic in topics]
        counts = [group.partitions[topic] for topic in topics]
        dealt: Assignment = {member.member_id: [] for member in ring}
        starts = round_robin_start(zip(lines, counts, strict=True))
        for topic, places, count, start in zip(topics, lines, counts, starts, strict=True):
            for partition in range(count):
                dealt[ring[places[(start + partition) % len(places)]].member_id].append((topic, partition))
        assert dealt == roundrobin_assignor.assign(group)


@pytest.mark.parametrize("together", [False, True])
def test_racks_are_assigned_as_the_loop_does(together: bool) -> None:
    """Range with racks: one topic, or two co-partitioned ones, which are near only where both are."""
    num_compared = 0
    for group in _groups("range", times=2):
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
        num_compared += 1
        ordered = sorted(members, key=lambda member: member.order)
        numbers: dict[str | None, int] = {None: -1}
        member_racks = [numbers.setdefault(m.rack_id, len(numbers) - 1) for m in ordered]
        near = np.ones((len(numbers) - 1, count), dtype=bool)
        for rack, number in numbers.items():
            for replicas in racks.values() if number >= 0 else ():
                near[number] &= [rack in replicas[partition] for partition in range(count)]
        owner = assign_with_racks(member_racks, near, is_co_partitioned=together)
        got: dict[str, set[int]] = defaultdict(set)
        for partition, member in enumerate(owner):
            got[ordered[member].member_id].add(partition)
        for name in names:
            expected = {m: {p for t, p in given if t == name} for m, given in answer.items()}
            assert got == {m: partitions for m, partitions in expected.items() if partitions}
    assert num_compared > 20


def _racks_decide(group: Group) -> bool:
    """`useRackAwareAssignment` for any of the topics."""
    member_racks = {member.rack_id for member in group.members} - {None}
    for partitions in group.replica_racks.values():
        each = [frozenset(racks) - {None} for racks in partitions]
        every = frozenset().union(*each)
        if member_racks & every and any(racks != every for racks in each):
            return True
    return False


def test_shared_numbers_are_counted_as_by_listing_them(rng: random.Random) -> None:
    """Two progressions meet where the Chinese remainder theorem says."""
    half = drawn(1_500, 3_000)
    pairs = [[rng.randint(0, 40), rng.randint(1, 12), rng.randint(0, 30)] for _ in range(2 * half)]
    ones, others = np.array(pairs[:half], dtype=np.int64).T, np.array(pairs[half:], dtype=np.int64).T
    found = zip(pairs[:half], pairs[half:], strict=True)
    listed = [len(set(range(a, a + s * n, s)) & set(range(b, b + t * m, t))) for (a, s, n), (b, t, m) in found]
    assert count_common_terms(*ones, *others).tolist() == listed


def test_runs_hold_what_the_owners_hold(rng: random.Random) -> None:
    """Compressing owners to runs and listing the runs gives the owners back; ranges and strides are one run each."""
    for _ in range(300):
        size, owners = rng.randint(0, 60), rng.randint(1, 8)
        style = rng.choice(["random", "range", "stride"])
        if style == "random":
            owner = np.array([rng.randint(-1, owners - 1) for _ in range(size)], dtype=np.int64)
        else:
            owner = np.arange(size) // 9 if style == "range" else np.arange(size) % owners
        key, first, step, count = owners_to_slices(owner)
        back = np.full(size, -1)
        for k, f, s, c in zip(key, first, step, count, strict=True):
            assert (back[f : f + s * (c - 1) + 1 : s] == -1).all()
            back[f : f + s * (c - 1) + 1 : s] = k
        assert (back == np.where(owner < 0, -1, owner)).all()
        if style != "random":
            assert len(key) == len(set(owner.tolist()))


def _blocks(keys: list[int], partitions: list[int]) -> tuple[np.ndarray, ...]:
    """Owned rows as `numeric.arrays` has them, in any order: key, block, bits, twice, count."""
    blocks: dict[tuple[int, int], tuple[list[int], list[int]]] = defaultdict(
        lambda: ([0] * WORDS_PER_BITMAP, [0] * (WORDS_PER_BITMAP + 1))
    )
    for key, partition in zip(keys, partitions, strict=True):
        bits, twice = blocks[key, partition >> 9]
        bits[(partition >> 6) & 7] |= 1 << (partition & 63)
        twice[(partition >> 6) & 7] ^= 1 << (partition & 63)
        twice[-1] += 1
    named = sorted(blocks.items(), key=lambda each: str(each[1]))
    key, block = np.array([key for key, _ in named], np.int64).T
    bits, twice = (np.array([e[at][:WORDS_PER_BITMAP] for _, e in named], np.uint64).astype(np.int64) for at in (0, 1))
    return key, block, bits, twice, np.array([each[1][-1] for _, each in named])


def test_rows_become_runs_without_loss() -> None:
    """Every row is in one run, whatever it is next to."""
    draw = random.Random(11)
    for most in (20, 3_000, 2**31 - 1) * 30:
        size = draw.randrange(1, 80)
        keys = [draw.randrange(8) for _ in range(size)]
        partitions = [draw.randint(0, most) for _ in range(size)]
        key, block, bits, _, _ = _blocks(keys, partitions)
        runs = zip(*(column.tolist() for column in slices_from_bitmaps(key, block, bits)), strict=True)
        found = [(each, first + at * step) for each, first, step, count in runs for at in range(count)]
        assert sorted(found) == sorted(set(zip(keys, partitions, strict=True)))


def test_rows_that_stand_twice_are_found() -> None:
    """Which partition it is, where it stands twice; that there is one, where it stands three times."""
    draw = random.Random(12)
    for most in (12, 700) * 40:
        partitions = [draw.randint(0, most) for _ in range(draw.randrange(1, 40))]
        times = Counter(partitions)
        _, block, bits, twice, count = _blocks([0] * len(partitions), partitions)
        row, low = find_duplicates(bits, twice, count)
        pairs = zip(row.tolist(), low.tolist(), strict=True)
        found = {(int(block[at]), int(block[at]) * 512 + each if each >= 0 else -1) for at, each in pairs}
        even = {(partition >> 9, partition) for partition, number in times.items() if number % 2 == 0}
        odd = {partition >> 9 for partition, number in times.items() if number > 1 and number % 2}
        assert found == even | {(each, -1) for each in odd - {each for each, _ in even}}


def test_runs_that_meet_are_found() -> None:
    """Every partition of two runs of one member is a fault of the group, which says how many there are."""
    draw = random.Random(13)
    for _ in range(60):
        runs = [
            (draw.choice("mn"), draw.choice("tu"), draw.randrange(12), draw.randrange(1, 5), draw.randrange(5))
            for _ in range(draw.randrange(1, 8))
        ]
        names = ("member_id", "topic", "first", "step", "count")
        group = {"cluster": "c", "group_id": "g"}
        members = [group | {"kind": MEMBER, "member_id": each} for each in "mn"]
        owned = [group | {"kind": OWNED_SLICE} | dict(zip(names, run, strict=True)) for run in runs]
        faults = find_faults(index_facts(facts_table(members + owned)))
        twice = sorted(
            f"owned_slices: member_id={member}, topic={topic}, partition={p}"
            for (member, topic, p), n in Counter((m, t, f + a * s) for m, t, f, s, c in runs for a in range(c)).items()
            if n > 1
        )
        more = f" and {len(twice) - 1} more" if len(twice) > 1 else ""
        message = f"{twice[0]}{more}. Keep one row per member and partition" if twice else None
        assert faults == ({0: ("duplicate-owned", message)} if twice else {})


def test_topics_with_equal_slices_are_found_as_a_loop_finds_them() -> None:
    """Random slices of topics in three groups; some topics differ from another one in a single number."""
    generator = np.random.default_rng(seed_for(__name__))
    for _ in range(drawn(20, 200)):
        rows, groups = [], []
        for topic in range(12):
            pairs = generator.integers(0, 2, (generator.integers(0, 4), 2))
            rows += [(int(member), topic, int(first), 1 + topic % 2, 3) for member, first in pairs]
            groups += [topic // 4] * (len(rows) - len(groups))
        slices = PartitionSlices(*np.array(rows, np.int64).reshape(-1, 5).T)
        start, size, like = find_alike(slices, np.array(groups, np.int64))
        by_topic: dict[int, list[tuple[int, ...]]] = {}
        for (member, topic, *partitions), group in zip(rows, groups, strict=True):
            by_topic.setdefault(topic, []).append((group, member, *partitions))
        contents = list(by_topic.values())
        assert like.tolist() == [contents.index(content) for content in contents]
        assert size.tolist() == [len(content) for content in contents]
        assert slices.topic[start].tolist() == list(by_topic)
