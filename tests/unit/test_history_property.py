"""What is told of random groups is what happened; of a compacted log nothing else is told."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from spark_assign.history.kernel import facts
from spark_assign.history.kernel.build_history import build_tables, membership_rows, to_slices
from spark_assign.history.kernel.departures import find_departures
from spark_assign.history.kernel.generation_changes import generation_changes
from spark_assign.history.kernel.timeline import HistoryThresholds, Timeline
from tests.sizes import drawn
from tests.unit.history_log import SCHEMA, owners
from tests.unit.history_simulated import Classic, Consumers, Moment, Simulated

STORIES = drawn(5, 8)
STEPS = 60


@pytest.fixture(params=[Classic, Consumers])
def stories(request: pytest.FixtureRequest, seed: int) -> Iterator[Simulated]:
    """Random groups of one type."""
    return (request.param(random.Random(f"{seed}-{number}")).play(STEPS) for number in range(STORIES))


def last_of_each_time(moments: list[Moment]) -> list[Moment]:
    """What lasted: of moments at one time the last."""
    return [e for e, then in zip(moments, [*moments[1:], None], strict=True) if not then or then.at_ms > e.at_ms]


def test_the_history_is_what_happened(stories: Iterator[Simulated]) -> None:
    """Generation by generation, member by member, owner by owner."""
    for story in stories:
        if not story.moments:
            continue
        timeline = story.log.timeline(story.draw)
        for moment in last_of_each_time(story.moments):
            assert owners(timeline.ownership, moment.at_ms) == moment.owners, moment
            number, members = at(timeline, moment.at_ms)
            assert (number, members) == (moment.number, moment.members), moment
        assert_generations(timeline, story.moments)
        assert_memberships(timeline, story.moments)


def at(timeline: Timeline, at_ms: int) -> tuple[int | None, tuple[str, ...]]:
    """Number and members at a moment."""
    last = [each for each in timeline.generations if each.at_ms <= at_ms][-1]
    return None if last.state == "Dead" else last.generation_id, tuple(each.member_id for each in last.members)


def assert_generations(timeline: Timeline, moments: list[Moment]) -> None:
    """A generation for each that there was, when it was written, and none besides."""
    rebalances = [each for each, new in zip(timeline.generations, timeline.is_rebalance, strict=True) if new]
    was: Moment | None = None
    true: list[tuple[int, int]] = []
    for moment in moments:
        if moment.number is not None and (was is None or was.number != moment.number):
            true.append((moment.number, moment.at_ms))
        was = moment
    assert [(each.generation_id, each.at_ms) for each in rebalances] == true


def assert_memberships(timeline: Timeline, moments: list[Moment]) -> None:
    """From when to when each was a member."""
    true: dict[str, tuple[int, int | None]] = {}
    for moment in moments:
        for member_id in moment.members:
            true.setdefault(member_id, (moment.at_ms, None))
        for member_id, (since, until) in true.items():
            if until is None and member_id not in moment.members:
                true[member_id] = since, moment.at_ms
    rows = membership_rows(list(generation_changes(timeline, find_departures(timeline))))
    rebalances = {row["member_id"]: (row["start_time"], row["end_time"]) for row in rows}
    # Who was there for no time may have no row.
    assert {e: s for e, s in true.items() if s[0] != s[1]} == {a: p for a, p in rebalances.items() if p[0] != p[1]}


def test_the_history_of_a_compacted_log_has_no_errors(stories: Iterator[Simulated]) -> None:
    """At any moment the owners that are told were the owners; at the end they are all that there are."""
    for story in stories:
        log = story.log.compacted(story.draw)
        if not log.rows or not story.moments:
            continue
        timeline = log.timeline(story.draw)
        for moment in last_of_each_time(story.moments):
            for where, members in owners(timeline.ownership, moment.at_ms).items():
                assert members == moment.owners.get(where), (moment, where)
        end = story.moments[-1]
        assert owners(timeline.ownership, end.at_ms) == end.owners
        if end.members:
            assert at(timeline, end.at_ms) == (end.number, end.members)


def test_damaged_records_never_stop_the_rest(stories: Iterator[Simulated]) -> None:
    """Whatever bytes there are: what can be told is, and the next group is as it was."""
    for story in stories:
        undamaged = [{**row, "group_id": "z"} for row in story.log.rows]
        untouched = _rows_of_z(undamaged)
        assert _rows_of_z([_damaged(row, story.draw) for row in story.log.rows] + undamaged) == untouched


def _damaged(row: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    """One of its bytes is another, or it is cut short."""
    value = row["value"]
    if not value or draw.random() < 0.5:
        return row
    at = draw.randrange(len(value))
    return {**row, "value": draw.choice(((value[:at] + bytes([draw.randrange(256)]) + value[at + 1 :]), value[:at]))}


def _rows_of_z(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is told of the group z."""
    tables = build_tables(pa.Table.from_pylist(rows, schema=facts.FACTS), HistoryThresholds(), SCHEMA)
    return [row for table in tables for row in table.to_pylist() if row["group_id"] == "z"]


def test_numbers_that_are_no_partitions() -> None:
    """Steps between them are none of a run."""
    assert list(to_slices([-(2**31), 2**31 - 2, 2**31 - 1])) == [(-(2**31), 1, 1), (2**31 - 2, 1, 2)]
