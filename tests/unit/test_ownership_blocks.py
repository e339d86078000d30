"""Faults of what is owned, from the blocks in which Spark gathers it; and arithmetic on spans of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from spark_assign.assignors.group_facts import (
    MEMBER,
    OWNED_BITMAP,
    OWNED_LIST,
    OWNED_PARTITION,
    OWNED_SLICE,
    OWNED_TOPIC,
    SLICE_LISTS,
    IndexedFacts,
    find_faults,
    find_owned,
    index_facts,
)
from spark_assign.assignors.roundrobin import round_robin_start
from spark_assign.numeric.arrays import (
    WORDS_PER_BITMAP,
    compress_sorted,
    expand_slices,
    index_rows,
    key_ranges,
    owners_to_slices,
    ranges_by_length,
    row_numbers,
    starts_new_key,
)
from tests.plan_rows import facts_table

GROUP = {"cluster": "c", "group_id": "g"}


def block(number: int | None, bits: list[int], rows: int | None = None, **key: str | None) -> dict[str, Any]:
    """A block of which these bits are set, each of one row."""
    words = [sum(1 << (bit & 63) for bit in bits if bit >> 6 == word) for word in range(WORDS_PER_BITMAP)]
    signed = [word - (1 << 64) if word >> 63 else word for word in words]
    about = {"kind": OWNED_BITMAP, "member_id": "m", "topic": "t", "block": number, "bits": signed, "twice": signed}
    return GROUP | about | {"count": rows or len(bits)} | key


def single(partition: int | None, **key: str | None) -> dict[str, Any]:
    """An owned partition as a fact of its own."""
    return GROUP | {"kind": OWNED_PARTITION, "member_id": "m", "topic": "t", "partition": partition} | key


def listed(*slices: tuple[Any, ...], **key: Any) -> dict[str, Any]:
    """The slices (topic, first, step, count) of the member as one fact with lists."""
    lists = dict(zip(SLICE_LISTS, map(list, zip(*slices, strict=True)), strict=True))
    return GROUP | {"kind": OWNED_LIST, "member_id": "m"} | lists | key


def indexed(*blocks: dict[str, Any]) -> IndexedFacts:
    """The facts of one group of one member."""
    return index_facts(facts_table([GROUP | {"kind": MEMBER, "member_id": "m"}, *blocks]))


def runs(*blocks: dict[str, Any]) -> list[tuple[int, ...]]:
    """topic, first, step, count of what is owned."""
    facts = indexed(*blocks)
    found = find_owned(facts, np.ones(1, bool))
    columns = (facts.topic_index[found.row], found.first, found.step, found.count)
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


def fault(*blocks: dict[str, Any]) -> tuple[str, str] | None:
    """The fault of the group, if it has any."""
    return find_faults(indexed(*blocks)).get(0)


def test_blocks_are_joined() -> None:
    """A run goes over the seam of two blocks, whose order does not matter; the first and the last bit count."""
    assert runs(block(1, [0, 1]), block(0, [510, 511])) == [(0, 510, 1, 4)]
    assert runs(block(2, [0, 511])) == [(0, 1024, 511, 2)]
    assert runs(block(4194303, [511])) == [(0, 2**31 - 1, 1, 1)]
    assert runs(block(0, [3, 63, 64]), block(0, [3], topic="u")) == [(0, 3, 60, 2), (0, 64, 1, 1), (1, 3, 1, 1)]


def test_single_partitions_are_the_same_slices() -> None:
    """In any order, of several topics."""
    owned = {"t": [7, 0, 512, 3, 5, 1, 2, 1024], "u": [9, 600]}
    rows = [single(partition, topic=topic) for topic, partitions in owned.items() for partition in partitions]
    pairs = owned.items()
    blocks = [block(n, [a & 511 for a in p if a >> 9 == n], topic=t) for t, p in pairs for n in {r >> 9 for r in p}]
    assert runs(*rows[::-1]) == runs(*rows) == runs(*blocks)
    assert runs(*rows)[0] == (0, 0, 1, 4)


def test_faults_of_single_partitions() -> None:
    """As of blocks, with the partition of the row."""
    found = fault(single(3), single(4), single(3), single(4, topic="u"))
    remedy = "Keep one row per member and partition"
    assert found == ("duplicate-owned", f"owned: member_id=m, topic=t, partition=3. {remedy}")
    remedy = "Fill the key in or leave the row out"
    assert fault(single(None)) == ("null-key", f"owned: member_id=m, topic=t, partition=null. {remedy}")
    assert fault(single(3, topic=None)) == ("null-key", f"owned: member_id=m, topic=null, partition=3. {remedy}")
    remedy = "Partitions count from 0, a run's step from 1"
    assert fault(single(-2), single(0)) == ("bad-partition", f"owned: member_id=m, topic=t, partition=-2. {remedy}")
    remedy = "Add the member to members, or take its rows out (Fleet.with_members_left does so)"
    assert fault(single(1, member_id="x")) == ("unknown-member", f"owned: member_id=x. {remedy}")
    assert fault(single(1), single(2)) is None


def test_lists_are_the_same_slices() -> None:
    """With the number of partitions of each topic of the group; an empty list has no slices."""
    owned = [("t", 0, 1, 4), ("u", 9, 2, 3), ("t", 7, 1, 1)]
    other = {"group_id": "other"}
    topics = [("t", 8, {}), ("u", 20, {}), ("t", 9, other)]
    rows = [GROUP | {"kind": OWNED_TOPIC, "topic": topic, "partitions": size} | key for topic, size, key in topics]
    rows.append(GROUP | {"kind": MEMBER, "member_id": "m"} | other)
    facts = indexed(listed(*owned), *rows, listed(("t", 1, 1, 1), **other))
    found = find_owned(facts, facts.group_id.to_numpy(zero_copy_only=False) == "g")
    slices = zip(*(each.tolist() for each in (found.first, found.step, found.count)), strict=True)
    assert list(slices) == [each[1:] for each in owned]
    assert facts.int_column("partitions")[found.row].tolist() == [8, 20, 8]
    assert [facts.topic_names[at].as_py() for at in facts.topic_index[found.row]] == ["t", "u", "t"]
    assert not len(indexed(listed(("t", 0, 1, 1)) | {name: [] for name in SLICE_LISTS}).rows_by_kind[OWNED_SLICE])


def test_faults_of_lists() -> None:
    """As of slices; a list that is shorter than another has nulls at its end, and null is no list."""
    remedy = "Fill the key in or leave the row out"
    lengths = ", or its lists, with positions, differ in length"
    short = listed(("t", 0, 1, 4), ("t", 5, 1, 1)) | {"counts": [4]}
    row = "owned_lists: member_id=m, topic=t, first=5, step=1, count=null"
    assert fault(short) == ("null-key", f"{row}{lengths}. {remedy}")
    row = "owned_lists: member_id=m, topic=null, first=1, step=1, count=1"
    assert fault(listed(("t", 0, 1, 1), ("t", 1, 1, 1)) | {"topics": ["t"]}) == (
        "null-key",
        f"{row}{lengths}. {remedy}",
    )
    row = "owned_lists: member_id=m, topic=null, first=0, step=1, count=1"
    assert fault(listed((None, 0, 1, 1))) == ("null-key", f"{row}{lengths}. {remedy}")
    row = "owned_lists: member_id=m, topic=null, first=null, step=null, count=null"
    assert fault(listed(("t", 0, 1, 1)) | dict.fromkeys(SLICE_LISTS)) == ("null-key", f"{row}{lengths}. {remedy}")
    remedy = "Keep one row per member and partition"
    twice = listed(("t", 0, 1, 4), ("u", 3, 1, 1), ("t", 3, 1, 1))
    assert fault(twice) == ("duplicate-owned", f"owned_lists: member_id=m, topic=t, partition=3. {remedy}")
    remedy = "Add the member to members, or take its rows out (Fleet.with_members_left does so)"
    assert fault(listed(("t", 1, 1, 1), member_id="x")) == ("unknown-member", f"owned_lists: member_id=x. {remedy}")


def test_rows_that_stand_twice() -> None:
    """Which partition it is where the rows' bits tell, else only that there is one; each once."""
    remedy = "Keep one row per member and partition"
    twice = block(1, [1, 2], rows=3, topic="u") | {"twice": [1 << 2] + [0] * (WORDS_PER_BITMAP - 1)}
    assert fault(twice) == ("duplicate-owned", f"owned: member_id=m, topic=u, partition=513. {remedy}")
    thrice = block(0, [1, 2], rows=4)
    assert fault(thrice) == ("duplicate-owned", f"owned: member_id=m, topic=t. {remedy}")
    assert fault(twice, thrice) == ("duplicate-owned", f"owned: member_id=m, topic=t and 1 more. {remedy}")
    assert fault(block(0, [1, 2])) is None


def test_keys_that_are_null() -> None:
    """A null in a key is a fault, told with its least partition; a null partition has none."""
    remedy = "Fill the key in or leave the row out"
    found = fault(block(1, [7, 70], topic=None))
    assert found == ("null-key", f"owned: member_id=m, topic=null, partition=519 and 1 more. {remedy}")
    found = fault(block(None, [], rows=4))
    assert found == ("null-key", f"owned: member_id=m, topic=t, partition=null and 3 more. {remedy}")
    assert fault(block(0, [1], member_id=None)) == ("null-key", f"owned: member_id=null. {remedy}")


def test_partitions_below_zero() -> None:
    """-1 is the last bit of block -1; sound blocks beside it are no fault."""
    remedy = "Partitions count from 0, a run's step from 1"
    found = fault(block(-1, [511, 500]), block(0, [0]))
    assert found == ("bad-partition", f"owned: member_id=m, topic=t, partition=-12 and 1 more. {remedy}")
    assert fault(block(-1, [511], topic=None))[0] == "null-key"  # type: ignore[index]
    assert fault() is None


def test_owners_that_nobody_knows() -> None:
    """A member that owns something, and is not listed."""
    remedy = "Add the member to members, or take its rows out (Fleet.with_members_left does so)"
    assert fault(block(0, [1], member_id="x")) == ("unknown-member", f"owned: member_id=x. {remedy}")


def test_keys_are_numbered() -> None:
    """Alike where all are, null as any other value; each number has a row that has it."""
    names = ["cluster", "member_id", "topic"]
    rows = [("c", member, topic) for topic in "tu" for member in ("m", "n", None)]
    rows = [*rows, *rows[::-1], ("d", "m", "t")]
    table = pa.table([pa.array(column, pa.string()) for column in zip(*rows, strict=True)], names)
    number, example = index_rows(table, names)
    assert len(set(number.tolist())) == len(example) == len(set(rows)) == 7
    assert [rows[example[each]] for each in number] == rows


def test_spans() -> None:
    """Rows of equal neighbours: where they begin, their ranks, begins and ends; none of none."""
    keys = np.array([4, 4, 7, 9, 9, 9])
    assert starts_new_key(keys).tolist() == [True, False, True, True, False, False]
    assert row_numbers(keys).tolist() == [0, 1, 0, 0, 1, 2]
    assert key_ranges(keys) == [(0, 2), (2, 3), (3, 6)]
    assert (key_ranges(keys[:0]), row_numbers(keys[:0]).tolist(), starts_new_key(keys[:0]).tolist()) == ([], [], [])
    assert ranges_by_length(np.array([2, 0, 3])).tolist() == [0, 1, 0, 1, 2]
    row, number = expand_slices(np.array([5, 1]), np.array([3, 2]), np.array([2, 3]))
    assert (row.tolist(), number.tolist()) == ([0, 0, 1, 1, 1], [5, 8, 1, 3, 5])


def test_compressed_runs() -> None:
    """A gap that changes ends a run; one partition alone has step 1; nobody's are left out."""
    columns = compress_sorted(np.array([0, 0, 0, 0, 0, 1]), np.array([0, 2, 4, 5, 9, 3]))
    assert [column.tolist() for column in columns] == [[0, 0, 1], [0, 5, 3], [2, 4, 1], [3, 2, 1]]
    assert [column.tolist() for column in compress_sorted(np.empty(0, int), np.empty(0, int))] == [[], [], [], []]
    owners = owners_to_slices(np.array([1, -1, 0, 1, -7, 0]))
    assert [column.tolist() for column in owners] == [[0, 1], [2, 0], [3, 3], [2, 2]]


def test_the_pointer_goes_on() -> None:
    """Behind whoever got the last partition; a topic without partitions leaves it where it is."""
    assert round_robin_start([([0, 1, 2], 4), ([0, 2], 1), ([0, 1, 2], 0), ([0, 1], 1)]) == [0, 1, 0, 0]
    assert round_robin_start([([1, 3], 2), ([0, 3, 4], 1)]) == [0, 2]
