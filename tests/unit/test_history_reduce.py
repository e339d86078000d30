"""Records to facts: none is lost, none counted twice, whatever its bytes are and however the records are split."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from spark_assign.history.kernel import facts
from spark_assign.history.kernel.build_history import build_history, build_tables
from spark_assign.history.kernel.commit_intervals import COMMIT_INTERVAL
from spark_assign.history.kernel.facts import RECORDS, bucket_facts, merge_buckets, reduce_records
from spark_assign.history.kernel.timeline import HistoryThresholds
from spark_assign.wire.group_records import NAMES, NEWEST, write_key
from tests.unit import group_record_bytes as random_bytes
from tests.unit.group_record_bytes import START_MS, Raw, table
from tests.unit.history_log import SCHEMA

GAP_MS = 5_000


def records(rng: random.Random, many: int = 400) -> list[Raw]:
    """Commits, tombstones and records of groups of two clusters, some of them mutated."""
    made = []
    for number in range(many):
        key: bytes | None = random_bytes.commit_key(rng, rng.choice([0, 1, 1, 1]))
        value: bytes | None = random_bytes.commit_value(rng)
        if rng.random() < 0.15:
            key, value = write_key(2, {"group": rng.choice(["g", "ü"])}), rng.randbytes(9)
        if rng.random() < 0.15:
            value = None
        if rng.random() < 0.2:
            key = random_bytes.mutated(rng, key or b"")
        if rng.random() < 0.2:
            value = random_bytes.mutated(rng, value or b"")
        if rng.random() < 0.02:
            key = None
        at_ms = rng.choice([-1, START_MS, START_MS + rng.randrange(60_000), START_MS + rng.randrange(10**10)])
        made.append(Raw(rng.choice(["c", "d"]), rng.randrange(50), number, at_ms, key, value))
    return made


def whole(chunks: list[list[Raw]], parts: int = 3) -> list[dict[str, Any]]:
    """All facts, by way of parts, as rows in a fixed order."""
    found = merge_buckets(pa.concat_tables([*bucket_facts([table(chunk) for chunk in chunks], GAP_MS, parts)]), GAP_MS)
    return sorted((row for each in found for row in each.to_pylist()), key=repr)


def test_every_record_is_in_one_fact(seed: int) -> None:
    """Commits and tombstones by count, others with their place, key and value."""
    given = records(random.Random(seed), 2_000)
    rows = reduce_records(table(given), GAP_MS).to_pylist()
    assert set(rows[0]) == set(facts.FACTS.names)
    counted = sum(each["commits"] for row in rows for each in row["commit_intervals"] or [])
    counted += sum(len(row["once"] or []) for row in rows)
    kept = [row for row in rows if row["kind"] in (facts.RECORD, facts.UNREADABLE)]
    assert counted + len(kept) == len(given)
    assert {row["kind"] for row in rows} == set(facts.KINDS)
    for row in kept:
        assert {name: row[name] for name in RECORDS.names} == vars(given[row["offset"]])
        assert row["code"] is not None if row["kind"] == facts.UNREADABLE else row["code"] in (None, "newer-version")
    assert {row["code"] for row in kept} >= {"no-key", "corrupt", "unknown-type", "newer-version"}


def test_the_same_facts_however_records_are_split(rng: random.Random) -> None:
    """Split, shuffled, in as many parts as one likes; a group is in one part."""
    given = records(rng)
    expected = whole([given], 1)
    for parts in (2, 7):
        rng.shuffle(given)
        cuts = sorted(rng.randrange(len(given)) for _ in range(4))
        assert whole([given[a:b] for a, b in zip([0, *cuts], [*cuts, len(given)], strict=True)], parts) == expected
    homes: dict[tuple[str, str], Counter[int]] = {}
    for packed in bucket_facts([table(given)], GAP_MS, 7):
        for part, rows in zip(packed["bucket"].to_pylist(), packed["facts"].to_pylist(), strict=True):
            for row in pa.ipc.read_record_batch(pa.py_buffer(rows), facts.FACTS).to_pylist():
                if row["group_id"] is not None:
                    homes.setdefault((row["cluster"], row["group_id"]), Counter())[part] += 1
    assert all(len(part) == 1 for part in homes.values())


def test_much_is_given_on_before_all_is_read(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many facts are yielded in several tables, which contain the same facts."""
    given = records(random.Random(seed))
    expected = whole([given])
    monkeypatch.setattr("spark_assign.history.kernel.facts._MAX_BYTES", 10_000)
    chunks = [given[each : each + 40] for each in range(0, len(given), 40)]
    assert len([*bucket_facts([table(chunk) for chunk in chunks], GAP_MS, 3)]) > 3
    assert whole(chunks) == expected


def test_the_time_of_a_commit() -> None:
    """The record's; where it has none, that of the value if a clock can have said it."""
    key = write_key(1, {"group": "g", "topic": "t", "partition": 0})

    def start_ms(at_ms: int, commit_ms: int) -> int:
        fields = {"offset": 1, "leaderEpoch": 0, "metadata": "", "commitTimestamp": commit_ms}
        raw = Raw("c", 0, 0, at_ms, key, random_bytes.write_value(1, fields, 3))
        return int(reduce_records(table([raw]), GAP_MS)["once"][0][0]["at_ms"].as_py())

    assert start_ms(5, 7) == 5
    assert start_ms(-1, 7) == 7
    assert start_ms(-1, 2**62) == -1


def test_topics_by_id_and_offsets_at_one_moment() -> None:
    """Commits of a topic that was created again differ by id; of two commits at one time, the larger offset counts."""
    key = write_key(1, {"group": "g", "topic": "t", "partition": 0})

    def raw(number: int, at_ms: int, offset: int, topic_id: str) -> Raw:
        fields = {"offset": offset, "leaderEpoch": 0, "metadata": "m", "commitTimestamp": 1, "topicId": topic_id}
        return Raw("c", 0, number, at_ms, key, random_bytes.write_value(1, fields, 4))

    one, two = "B7bwCk5oQxSRAg3-gGRA9A", "3z-oQ0B2TnqvQm5Yb1bLZw"
    given = [raw(0, 10, 5, one), raw(1, 10, 6, one), raw(2, 20, 9, one), raw(3, 20, 8, one), raw(4, 30, 1, two)]
    rows = reduce_records(table(given), GAP_MS).to_pylist()
    assert [(row["topic_id"], row["once"], row["commit_intervals"]) for row in rows] == [
        (two, [{"partition": 0, "at_ms": 30, "offset": 1}], None),
        (one, None, [dict(zip(COMMIT_INTERVAL.names, (0, 10, 20, 4, 6, 9, 9, 9), strict=True))]),
    ]


def test_versions_that_are_not_known_yet() -> None:
    """Kept as they are, by name."""
    keys = {1: write_key(1, {"group": "g", "topic": "t", "partition": 0}), 2: write_key(2, {"group": "g"})}
    given = [Raw("c", 0, kind, 1, key, (NEWEST[kind] + 1).to_bytes(2) + b"x") for kind, key in keys.items()]
    rows = reduce_records(table(given), GAP_MS).to_pylist()
    assert [(row["kind"], row["group_id"], row["code"]) for row in rows] == [
        *(("record", "g", "newer-version"), ("unreadable", "g", "newer-version"))
    ]
    assert [row["detail"].split(" in version ")[0] for row in rows] == [NAMES[2], NAMES[1]]


def test_tables_of_buckets_are_those_of_all_records(seed: int) -> None:
    """And each record that can't be decoded is a row as the broker wrote it."""
    given = [raw for raw in records(random.Random(seed)) if raw.at_ms < START_MS + 10**9]
    thresholds = HistoryThresholds(commit_gap_ms=GAP_MS)
    packed = pa.concat_tables(bucket_facts([table(given[:100]), table(given[100:])], GAP_MS, 3))
    rows = rows_of(build_history(packed, thresholds, SCHEMA))
    columns = ("cluster", "group_id", "partition", "offset", "code", "detail", "key", "value")
    expected = [
        (*(row[name] for name in columns), datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=row["at_ms"]))
        for row in whole([given])
        if row["code"] is not None
    ]
    found = [tuple(row[name] for name in (*columns, "timestamp")) for row in rows if row["kind"] == "unreadable"]
    assert expected
    # The other rows are records that are decoded only with their group.
    assert Counter(expected) <= Counter(found)
    assert {row[4] for row in set(found).difference(expected)} <= {"corrupt"}
    at_once = rows_of(build_tables(reduce_records(table(given), GAP_MS), thresholds, SCHEMA))
    others = [[repr(row) for row in each if row["kind"] != "unreadable"] for each in (rows, at_once)]
    assert sorted(others[0]) == sorted(others[1])


def rows_of(tables: Iterable[pa.Table]) -> list[dict[str, Any]]:
    """The rows of all tables."""
    return [row for each in tables for row in each.to_pylist()]


def test_nothing_at_all() -> None:
    """No records, no facts."""
    assert whole([[]]) == []
    assert [*bucket_facts([], GAP_MS, 3)] == []


@pytest.mark.parametrize("at_ms", [2**62, -(2**62), 253_402_300_800_000])
def test_a_timestamp_of_no_clock_is_unreadable(at_ms: int) -> None:
    """Python's times end with the year 9999: the record is a row of the table unreadable, and the others count."""
    key = random_bytes.commit_key(random.Random(1), 1)
    value = random_bytes.commit_value(random.Random(1))
    given = [Raw("c", 0, 1, START_MS, key, value), Raw("c", 0, 2, at_ms, key, value)]
    rows = sorted(reduce_records(table(given), GAP_MS).to_pylist(), key=lambda row: row["kind"])
    assert [row["kind"] for row in rows] == [facts.COMMITS, facts.UNREADABLE]
    assert rows[1]["at_ms"] == -1
    assert str(at_ms) in rows[1]["detail"]
