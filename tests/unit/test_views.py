"""A view as text and as a table of the page."""

from __future__ import annotations

from datetime import UTC, datetime

from spark_assign.groups.kernel.client_libraries import read_clients
from spark_assign.report.advice import advice_commands, amount_with_unit
from spark_assign.report.history import _bucket_label, partition_time
from spark_assign.report.simulation import COMPARED
from spark_assign.report.views import GROUP, Column, Length, View, bars, before_and_after, span
from spark_assign.tables.errors import count
from spark_assign.tables.simulation import COMPARISON

VIEW = View(
    *("moves", "groups, most moves first"),
    [
        *(GROUP, "broker=broker_id note? fenced? taken_at +rate=per_second", bars("moved", "moved", "flow")),
        *(span("tasks"), before_and_after("members"), Column("load", lambda row: "high", needs="load")),
    ],
    note="A note.",
)
ROW = {"cluster": "c", "group_id": "g", "broker_id": 1001, "note": "", "fenced": False, "per_second": 0.5, "load": None}
ROW |= {"taken_at": datetime(2026, 11, 20, 10, tzinfo=UTC), "moved": 1_200, "min_tasks": 1, "max_tasks": 3}
ROW |= {"members_before": 2, "members_after": 2}
OTHER = ROW | {
    "group_id": "other",
    "broker_id": None,
    "moved": 600,
    "max_tasks": 1,
    "members_after": 3,
    "taken_at": None,
}


def test_text_and_page_have_the_same_columns() -> None:
    """IDs are no numbers; only the page has `+`; a column that no row needs is left out."""
    assert VIEW.lines([ROW, OTHER], 2) == [
        "",
        "Groups, most moves first:",
        "  group    broker  taken at             moved  tasks  members",
        "  c/g      1001    2026-11-20 10:00:00  1,200    1–3        2",
        "  c/other  –       –                      600      1    2 → 3",
    ]
    table = VIEW.table([ROW, OTHER], 7)
    titles = ["Group", "Broker", "Taken at", "Rate", "Moved", "Tasks", "Members"]
    assert table.columns == [(title, title in titles[3:]) for title in titles]
    assert table.rows[1] == ["c/other", "–", "–", "0.50", Length("flow", "600", 50.0), "1", "2 → 3"]
    assert (table.caption, table.note) == (
        "Groups, most moves first",
        "Shown are 2 of 7; the table moves has all. A note.",
    )


def test_rows_that_are_left_out_are_counted() -> None:
    """If their number is known; without rows there is nothing."""
    assert VIEW.lines([ROW, OTHER], 1)[-1] == "  … and more, in the table moves"
    assert VIEW.lines([ROW, OTHER], 1, 9)[-1] == "  … and 8 more, in the table moves"
    assert VIEW.lines([], 1) == VIEW.lines([ROW], 0) == []
    assert [line.split() for line in View("any", "any").lines([{"a_b": 1, "c": [1, 2]}], 1)[2:]] == [
        ["a", "b", "c"],
        ["1", "1,", "2"],
    ]


def test_a_damaged_stored_run_is_shown() -> None:
    """What a run of ours never has: nulls where others aren't, unknown names, and times that no calendar has."""
    assert (count(None, "group"), partition_time(None)) == ("an unknown number of groups", "an unknown time")
    assert amount_with_unit({"gain": 1.5, "gain_unit": None}, "gain") == "1.50 "
    advice = {"category": "x", "action": "y", "group_id": "g", "settings": None, "command": ""}
    assert advice_commands(advice).confidence == "Unknown: the category isn't known."
    nothing = dict.fromkeys(COMPARISON.names) | {"cluster": "c", "group_id": "g"}
    assert COMPARED.lines([nothing], 1)[-1].split() == ["c/g", *["–"] * 7]
    assert [_bucket_label(seconds, 86_400) for seconds in (-(10**15), 10**15)] == ["02 Jan", "26 Dec"]
    assert read_clients("Java 3?, librdkafka x, y") == {"Java": 3}
