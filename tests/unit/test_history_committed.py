"""Rows of COMMITS, by columns, against all commits one by one."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from spark_assign.history.kernel.build_history import commit_rows
from spark_assign.history.kernel.commit_intervals import COMMIT_INTERVAL
from spark_assign.history.kernel.facts import COMMITS, DELETED, FACTS, RECORD
from spark_assign.history.kernel.group_chunks import iter_chunks
from tests.unit.history_log import SCHEMA

Place = tuple[str, str, int]
"""Group, topic, partition."""


def commits(place: Place, times: Sequence[int]) -> list[dict[str, Any]]:
    """A fact for each; the offset is the moment."""
    return [of(place, COMMITS, 1, at) for at in times]


def of(place: Place, kind: str, times: int, at: int) -> dict[str, Any]:
    """A fact of a place."""
    group, topic, partition = place
    interval = dict.fromkeys(COMMIT_INTERVAL.names, at) | {"partition": partition, "commits": times}
    return {"cluster": "c", "group_id": group, "kind": kind, "topic": topic, "commit_intervals": [interval]}


def deleted(place: Place, times: int) -> dict[str, Any]:
    """Its tombstones."""
    return of(place, DELETED, times, 0)


def partition_rows(facts: Sequence[Mapping[str, Any]], gap_ms: int) -> list[dict[str, Any]]:
    """The rows, without the columns that they do not have."""
    chunks = iter_chunks(pa.Table.from_pylist(list(facts), FACTS), gap_ms)
    rows = [row for chunk in chunks for table in commit_rows(chunk, SCHEMA) for row in table.to_pylist()]
    known = [{name: value for name, value in row.items() if value is not None} for row in rows]
    listed = [(row, [*map(whole, row.pop("once", ()))], row.pop("again", [])) for row in known]
    assert all(each["commits"] > 1 or each["deleted"] for _, _, again in listed for each in again)
    return [{**row, **partition} for row, once, again in listed for partition in once + again]


def whole(once: dict[str, Any]) -> dict[str, Any]:
    """What it means that a partition was committed once."""
    at_ms, offset = {"start_ms": once["at_ms"]}, {"first_offset": once["offset"]}
    partition_rows = {
        "partition": once["partition"],
        "commits": 1,
        "end_ms": once["at_ms"],
        "last_offset": once["offset"],
    }
    return partition_rows | at_ms | offset | dict.fromkeys(("gaps", "longest_gap_ms", "deleted"), 0) | {"rate": None}


def test_a_row() -> None:
    """Rate by offsets, gaps by the threshold."""
    (row,) = partition_rows(commits(("g", "t", 3), [0, 10_000, 20_001, 30_000, 60_000]), 10_000)
    assert (row["group_id"], row["kind"], row["topic"], row["partition"], row["commits"]) == ("g", COMMITS, "t", 3, 5)
    assert (row["start_ms"], row["end_ms"]) == (0, 60_000)
    assert (row["first_offset"], row["last_offset"], row["rate"]) == (0, 60_000, 1000.0)
    assert (row["gaps"], row["longest_gap_ms"], row["deleted"]) == (2, 30_000, 0)


def test_one_moment_has_no_rate() -> None:
    """Nor has what was only deleted a row."""
    (row,) = partition_rows([*commits(("g", "t", 0), [7]), deleted(("g", "t", 1), 2)], 10_000)
    assert row["rate"] is None
    assert partition_rows([deleted(("g", "t", 1), 2)], 10_000) == []


def test_records_of_a_group_stand_together() -> None:
    """Those at the very beginning of the topic as well, whatever is committed, and whatever time they say."""
    late = 2**60 + 1
    same = {"cluster": "c", "group_id": "g", "kind": RECORD, "at_ms": late, "key": b"\0\2", "value": b""}
    records = [same | {"partition": 0, "offset": offset} for offset in (0, 5, 7)]
    facts = [*records, *commits(("g", "t", 0), [1, 2]), deleted(("g", "t", 1), 2)]
    (chunk,) = iter_chunks(pa.Table.from_pylist(facts, FACTS), 10)
    (known,) = chunk.groups()
    assert [raw[1] for raw in known.raw_records()] == [0, 5, 7]
    assert (known.first_ms, known.last_ms, known.records) == (0, late, 7)


@pytest.mark.parametrize("turn", range(20))
def test_rows_are_those_of_all_commits(rng: random.Random, turn: int) -> None:
    """Of several groups, with tombstones, in any order."""
    gap = rng.randint(1, 9)
    places = [(group, topic, part) for group in ("a", "b", "c") for topic in ("t", "u") for part in (-1, 0, 7)]
    times = {place: rng.choices(range(100), k=rng.randint(1, 30)) for place in rng.sample(places, rng.randint(1, 9))}
    tombstones: dict[Place, int] = defaultdict(int, dict.fromkeys(rng.sample(places, 4), 3))
    facts = [fact for place, some in times.items() for fact in commits(place, some)]
    facts += [deleted(place, number) for place, number in tombstones.items()]
    rng.shuffle(facts)
    found = {(row["group_id"], row["topic"], row["partition"]): row for row in partition_rows(facts, gap)}
    assert found.keys() == times.keys()
    for place, row in found.items():
        moments = sorted(times[place])
        gaps = [after - before for before, after in pairwise(moments) if after - before > gap]
        figures = (len(moments), moments[0], moments[-1], len(gaps), max(gaps, default=0), tombstones[place])
        names = ("commits", "first_offset", "last_offset", "gaps", "longest_gap_ms", "deleted")
        assert tuple(row[name] for name in names) == figures
        assert row["rate"] == (1000 if moments[-1] > moments[0] else None)
