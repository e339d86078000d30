"""Commits read a batch at a time say what the reader of single records says; intervals are the same in any order."""

from __future__ import annotations

import base64
import random
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from spark_assign.history.kernel import batch_decoder, commit_intervals
from spark_assign.history.kernel.binary_column import BinaryColumn
from spark_assign.wire.group_records import UnknownType, read_key, read_value
from spark_assign.wire.reader import WireError
from tests.recorded_lines import read_rows
from tests.sizes import drawn
from tests.unit import group_record_bytes as random_bytes

UUID = "B7bwCk5oQxSRAg3-gGRA9A"
GOLDEN = Path(__file__).parents[1] / "golden" / "wire.jsonl.gz"


def alone(kind: int, value: bytes) -> object:
    """What the reader of single records says of a commit, or that it fails."""
    try:
        fields = read_value(kind, value).fields
    except WireError as error:
        return str(error)
    topic_id = fields.get("topicId")
    topic_id = None if topic_id == "A" * 22 else topic_id
    return fields["offset"], fields["commitTimestamp"], topic_id


def at_once(kinds: list[int], values: list[bytes], offset: int = 0) -> list[object]:
    """The same of all of them, from a column that begins somewhere in its buffers."""
    column = pa.array([b"before"] * offset + values, pa.binary())[offset:]
    read = batch_decoder.read_commit_values(np.array(kinds, np.int64), column)
    names = [read.topic_ids[code] for code in read.topic_id.tolist()]
    rows = list(zip(*(read.offset.tolist(), read.commit_ms.tolist(), names), strict=True))
    assert set(read.faults) == set(np.flatnonzero(~read.is_valid).tolist())
    return [read.faults.get(number, row) for number, row in enumerate(rows)]


def test_values_as_the_reader_of_single_records_reads_them(rng: random.Random) -> None:
    """Every version, whole and mutated; and all together as each in a batch of its own."""
    kinds, values = [], []
    for _ in range(drawn(1_500, 4_000)):
        value = random_bytes.commit_value(rng)
        values.append(random_bytes.mutated(rng, value) if rng.random() < 0.5 else value)
        kinds.append(1 if rng.random() < 0.9 else 0)
    expected = [alone(*each) for each in zip(kinds, values, strict=True)]
    assert at_once(kinds, values, 3) == expected
    for each in range(0, len(values), 97):
        assert at_once([kinds[each]], [values[each]]) == [expected[each]], each
    assert at_once([], []) == []


def test_values_of_every_length_cut_everywhere() -> None:
    """Lengths at which the metadata's length takes another byte; each value cut at each byte."""
    values = []
    for version in range(5):
        for size in (0, 1, 126, 127, 128, 16_382, 16_383, 16_384, 32_767):
            for character in "m\0":  # Zeros look like other fields if the length is read wrongly.
                metadata = character * size
                fields = {"offset": 1, "leaderEpoch": 2, "metadata": metadata, "commitTimestamp": 3, "topicId": UUID}
                value = random_bytes.write_value(1, fields | {"expireTimestamp": 4}, version)
                values += [value[:cut] for cut in {*range(20), *range(len(value) - 40, len(value) + 1)} if cut >= 0]
    assert at_once([1] * len(values), values) == [alone(1, value) for value in values]


def test_keys_as_the_reader_of_single_records_reads_them(rng: random.Random) -> None:
    """Type, group, topic and partition, or what is wrong; names that are no UTF-8 as Java reads them."""
    keys = []
    for _ in range(drawn(1_500, 4_000)):
        key = random_bytes.commit_key(rng, rng.choice([0, 1]))
        keys.append(random_bytes.mutated(rng, key) if rng.random() < 0.6 else key)
    # A surrogate is one character that cannot be read to Java, and three to Python.
    keys.append(b"\0\1\0\5a\xed\xa0\x80b\0\2\xff\xc3\0\0\0\1")
    read = batch_decoder.read_keys(pa.array(keys, pa.binary()))
    for row, key in enumerate(keys):
        kind, group, topic = int(read.record_type[row]), int(read.group[row]), int(read.topic[row])
        found: object = read.faults.get(row)
        if kind >= 0:
            found = kind, read.groups[group], (read.topics[topic] if topic >= 0 else None), int(read.partition[row])
        else:
            assert max(group, topic) < 0
        assert found == key_alone(key), key


def test_keys_of_commits_fit_their_lengths() -> None:
    """Only a key whose names end where it says is read without the reader of single records."""

    def key(version: int, group_size: int, group: bytes, topic_size: int, topic: bytes) -> bytes:
        return struct.pack(">hh", version, group_size) + group + struct.pack(">h", topic_size) + topic

    rows = {
        key(1, 2, b"gg", 3, b"ttt"): (1, 2, 3),
        key(0, 0, b"", 1, b"t"): (0, 0, 1),
        key(1, 1, b"g", 0, b""): (1, 1, 0),
        key(2, 2, b"gg", 3, b"ttt"): (-1, 2, 3),
        key(-1, 2, b"gg", 3, b"ttt"): (-1, 2, 3),
        key(1, 2, b"gg", 4, b"ttt"): (-1, 2, 4),
        key(1, 2, b"gg", 2, b"ttt"): (-1, 2, 2),
        key(1, 2, b"gg", 7, b"ttt"): (-1, 2, 7),
        key(1, 2, b"gg", -1, b""): (-1, 2, -1),
    }
    column = BinaryColumn(pa.array(rows, pa.binary()))
    columns = batch_decoder.read_commit_keys(column, column.end)
    assert list(zip(*(each.tolist() for each in columns), strict=True)) == list(rows.values())


def test_keys_of_no_records() -> None:
    without_offsets = pa.Array.from_buffers(pa.large_binary(), 0, [None, None, pa.py_buffer(b"")])
    empty = [pa.array([], pa.binary()), pa.chunked_array([], pa.binary()), without_offsets]
    for nothing in (*empty, pa.nulls(2, pa.binary())):
        read = batch_decoder.read_keys(nothing)
        assert (read.record_type.tolist(), read.groups, read.topics) == ([-1] * len(nothing), [], [])
        assert read.faults == dict.fromkeys(range(len(nothing)), ("no-key", "the record has no key"))


def key_alone(data: bytes) -> tuple[object, ...]:
    """What the reader of single records says of a key, or that it fails."""
    try:
        key = read_key(data)
    except WireError as error:
        return batch_decoder.UNKNOWN_TYPE if isinstance(error, UnknownType) else batch_decoder.CORRUPT, str(error)
    fields = key.fields
    if key.type > 1:
        return key.type, fields.get("group", fields.get("groupId")), None, -1
    return key.type, fields["group"], fields["topic"], fields["partition"]


def test_commits_as_kafka_decides() -> None:
    """All recorded commits, damaged ones included."""
    rows = [row for row in read_rows(GOLDEN) if row["kind"] == "record" and row["type"] == "OffsetCommit"]
    rows = [row for row in rows if row["value"] and row.get("note") != "truncated-key"]
    values = [base64.b64decode(row["value"]) for row in rows]
    kinds = [row["key_version"] for row in rows]
    found = at_once(kinds, values)
    assert found == [alone(*each) for each in zip(kinds, values, strict=True)]
    read = 0
    for row, each in zip(rows, found, strict=True):
        assert row["valid"] == isinstance(each, tuple), row["case"]
        if isinstance(each, tuple):
            decoded = row["decoded_value"]
            assert each[:2] == (decoded["offset"], decoded["commitTimestamp"]), row["case"]
            read += 1
    assert read > 100


@pytest.mark.parametrize("span", [40, 2**60])
def test_intervals_of_parts_make_those_of_all(rng: random.Random, span: int) -> None:
    """However commits are split, shuffled and united again; against a loop over sorted times."""
    for _ in range(drawn(60, 150)):
        gap = rng.choice([0, 1, 3, span // 5])
        rows = [
            (rng.randrange(2), rng.choice([-1, 0, 7]), rng.randrange(span), rng.randrange(9))
            for _ in range(rng.randrange(1, 60))
        ]
        expected = by_loop(rows, gap)
        rng.shuffle(rows)
        cuts = sorted(rng.randrange(len(rows) + 1) for _ in range(rng.randrange(4)))
        parts = [made(rows[a:b], gap) for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
        while len(parts) > 1:
            rng.shuffle(parts)
            parts = [commit_intervals.merge_intervals(joined(parts[:2]), gap)[0], *parts[2:]]
        assert as_rows(parts[0]) == expected


def made(rows: list[tuple[int, int, int, int]], gap: int) -> commit_intervals.CommitIntervals:
    """Intervals of rows of topic, partition, time and offset; out of the lists that are given on."""
    topic, partition, at, offset = np.array(rows, np.int64).reshape(-1, 4).T
    intervals = commit_intervals.intervals_from_commits(topic, partition, at, offset, gap)[0]
    facts = [
        {"topic": topic, name: each}
        for name, first, lists in intervals.to_lists()
        for topic, each in zip(intervals.topic[first].tolist(), lists.to_pylist(), strict=True)
    ]
    listed = pa.Table.from_pylist(facts, pa.schema({"topic": pa.int64(), **commit_intervals.LISTS}))
    return commit_intervals.merge_intervals(
        commit_intervals.flatten_intervals(listed["topic"].to_numpy(), listed), gap
    )[0]


def joined(parts: list[commit_intervals.CommitIntervals]) -> commit_intervals.CommitIntervals:
    """Some intervals and others, not united."""
    return commit_intervals.CommitIntervals(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def as_rows(intervals: commit_intervals.CommitIntervals) -> list[tuple[int, ...]]:
    """A tuple for each."""
    return list(zip(*(column.tolist() for column in intervals), strict=True))


def by_loop(rows: list[tuple[int, int, int, int]], gap: int) -> list[tuple[int, ...]]:
    """One commit after the other."""
    found: list[list[int]] = []
    for topic, partition, at, offset in sorted(rows):
        last = found[-1] if found else None
        if last is None or last[:2] != [topic, partition] or at - last[3] > gap:
            found.append([topic, partition, at, at, 1, *[offset] * 4])
            continue
        last[4] += 1
        if at == last[2]:
            last[5] = max(last[5], offset)
        last[6] = max(last[6], offset) if at == last[3] else offset
        last[3] = at
        cells_after = at // max(gap, 1) - last[2] // max(gap, 1)
        last[7:] = [max(kept, offset) if cells_after <= most else kept for most, kept in enumerate(last[7:])]
    return [tuple(each) for each in found]
