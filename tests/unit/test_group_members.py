"""Who gets what, from plain rows: as text, and on the page."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Any

import pytest

from spark_assign.report.formatting import record_listed
from spark_assign.report.group_members import GroupMembers, format_group_members, format_runs, runs_of
from spark_assign.report.html import PlanRows, render_report
from tests.unit import report_rows

KEY = {"cluster": "c", "group_id": "g"}
MEMBER = {
    **dict.fromkeys(("client_id", "client_host", "group_instance_id", "rack_id", "lag", "in_messages_per_second")),
    **dict.fromkeys(("waiting", "gained", "lost", "lag_known", "rate_known", "partitions", "before"), 0),
    "gone": False,
}


def member(member_id: str, **values: Any) -> dict[str, Any]:
    """A row of `GroupMembers.members`."""
    return {**KEY, **MEMBER, "member_id": member_id, **values}


def piece(member_id: str, topic: str, first: int, step: int, count: int) -> dict[str, Any]:
    """A row of `GroupMembers.slices`."""
    return {**KEY, "member_id": member_id, "topic": topic, "first": first, "step": step, "count": count}


def move(partition: int, ends: tuple[str | None, str | None], reason: str, *, withheld: bool = False) -> dict[str, Any]:
    """A row of `GroupMembers.moves`, of topic t."""
    named = dict(zip(("from_member_id", "to_member_id"), ends, strict=True))
    return {**KEY, "topic": "t", "partition": partition, **named, "reason": reason, "withheld": withheld}


@pytest.mark.parametrize(
    ("partitions", "text"),
    [
        ([3], "3"),
        ([2, 0, 1, 7], "0-2, 7"),
        ([0, 8, 16], "0, 8, 16"),
        (range(0, 6000, 8), "0, 8, …, 5992"),
        (
            [10 * n + at for n in range(13) for at in (0, 1)],
            "0-1, 10-11, 20-21, 30-31, 40-41, 50-51, 60-61, 70-71, 80-81, 90-91, 100-101, 110-111, … (26 partitions)",
        ),
    ],
)
def test_runs(partitions: list[int], text: str) -> None:
    """A wide topic is a few runs; what has no runs is cut, with its number."""
    assert format_runs(runs_of(list(partitions))) == text


def test_a_group_in_text() -> None:
    """A line per member, its partitions, and its changes with their reasons; unknown numbers are dashes or counted."""
    known = {"client_id": "a", "client_host": "/10.0.0.1", "lag": 1200, "lag_known": 3, "in_messages_per_second": 0.5}
    found = GroupMembers(
        members=[
            member("a", partitions=4, before=5, lost=2, gained=1, rate_known=4, **known),
            member("b", waiting=2, gained=2),
            member("z", before=1, lost=1, gone=True),
        ],
        slices=[piece("a", "t", 0, 1, 3), piece("a", "u", 5, 1, 1)],
        moves=[
            move(3, ("a", "b"), "over-quota", withheld=True),
            move(4, ("a", "b"), "over-quota", withheld=True),
            move(2, ("z", "a"), "member-left"),
        ],
        notes=["Something isn't known."],
    )
    metrics = report_rows.group(1, 2, 6, 3, 4, **KEY)
    with record_listed() as tables:
        text = format_group_members([metrics], found)
    assert list(tables) == ["metrics", "members", "assignment_slices", "moves"]
    assert (
        text.split("\n", 1)[1]
        == """\
  member    client  host       partitions  gained  lost                lag  messages/s
  a         a       /10.0.0.1           4       1     2  1,200 (1 unknown)         0.5
    t 0-2
    u 5
    loses t 3-4 to b: its owner has more than its share
    gains t 2 from z: its owner has left the group
  b         –       –               0 + 2       2     0                  –           –
    gains t 3-4 from a in the next round: its owner has more than its share
  z (left)  –       –                   0       0     1                  –           –
    loses t 2 to a: its owner has left the group

Something isn't known."""
    )


def test_two_thousand_members_in_text() -> None:
    """A thousand are printed."""
    found = GroupMembers([member(f"m-{at:04d}", partitions=1) for at in range(2_000)])
    lines = format_group_members([report_rows.group(1, 2_000, 2_000, 0, 1, **KEY)], found).split("\n")
    assert (len(lines), lines[-1]) == (1_003, "… and 1,000 more members: -o json has all")


@pytest.mark.skipif(not find_spec("jinja2"), reason="reports are an extra")
def test_two_thousand_members_on_the_page() -> None:
    """One closed part of the page has them all, bounded in size whatever they own."""
    metrics = report_rows.group(1, 2_000, 200_000, 0, 100, **KEY)
    members = [member(f"m-{at:04d}", client_id=f"c{at}", partitions=100, before=100) for at in range(2_000)]
    slices = [piece(row["member_id"], f"t{at}", 0, 1, 5) for row in members for at in range(20)]
    plan = PlanRows(
        classes=report_rows.classes_of([metrics]),
        groups=[metrics],
        members=report_rows.members_of(metrics),
        who=GroupMembers(members, slices),
    )
    text = render_report(plan)
    assert len(text) < 1_500_000
    (part,) = re.findall('<details class="who">.*?</details>', text, re.DOTALL)
    assert part.count("<tr>") == 2_001
    assert "Who gets what: 2,000 members, with their partitions" in part
    assert "t16 0-4; t17 0-4; … and 10 more topics" in part
    assert "Host" not in part  # nothing is known of it


def test_a_name_cannot_fake_a_line() -> None:
    """Line ends in the IDs of groups and members are shown as codes, also in the sentences about moves."""
    hostile = {"cluster": "c", "group_id": "g\nc/other: all is well"}
    names = "a\nx", "b\ny"
    found = GroupMembers(
        members=[member(name, partitions=1, gained=1) | hostile for name in names],
        slices=[piece(name, "t", at, 1, 1) | hostile for at, name in enumerate(names)],
        moves=[move(1, names, "over-quota") | hostile],
    )
    lines = format_group_members([report_rows.group(1, 1, 2, 1, 1) | hostile], found).split("\n")
    assert lines[0].startswith(r"c/g\nc/other: all is well: ")
    assert [line.split()[0] for line in lines[2:]] == [r"a\nx", "t", "loses", r"b\ny", "t", "gains"]
