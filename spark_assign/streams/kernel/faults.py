"""Streams groups that cannot be planned, and why: rows that say nothing, or that contradict each other.

A task that is not there any more, and one that two members have, are no faults: the assignor has its rules for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from spark_assign.streams.kernel.grouped_facts import GROUP, LEFT, MEMBER, SUBTOPOLOGY, TASK, Row, StreamsFacts

ROLES = ("active", "standby", "warmup")

REMEDIES = {
    "null-key": "Fill the key in or leave the row out",
    "duplicate-member": "Keep one row per member",
    "duplicate-group": "Keep one row per group",
    "duplicate-subtopology": "Keep one row per subtopology",
    "bad-standby-replicas": "It is a number from 0",
    "bad-subtopology": "It has a number of tasks from 0, and is stateful or not",
    "no-topology": "The broker assigns nothing before it has the topology. Add it to subtopologies",
    "unknown-member": "Add the member to members, or take its rows out (Fleet.with_members_left does so)",
    "bad-task": "Tasks count from 0; a role is active, standby or warmup, and without one there is a changelog_offset",
    "duplicate-task": "Keep one row per member and task",
}
"""By code, the gravest first."""

_Fault = tuple[str, str]


def find_fault(told: StreamsFacts) -> tuple[str, str] | None:
    """The code (of the gravest fault) and the detail (of all), null if there is none."""
    found: dict[str, list[str]] = {}
    for code, row in (*_of_group(told), *_of_members(told), *_of_tasks(told)):
        found.setdefault(code, []).append(row)
    codes = sorted(found, key=list(REMEDIES).index)
    return (codes[0], "; ".join(_detail(code, found[code]) for code in codes)) if codes else None


def _detail(code: str, rows: list[str]) -> str:
    more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
    return f"{min(rows)}{more}. {REMEDIES[code]}"


def _row(table: str, **values: object) -> str:
    """A row as a person reads it: `tasks: member_id=m1, subtopology=0`."""
    told = (f"{name}={'null' if value is None else value}" for name, value in values.items())
    return f"{table}: {', '.join(told)}"


def _of_group(told: StreamsFacts) -> Iterator[_Fault]:
    rows = told.rows[GROUP]
    for _ in rows[1:]:
        yield "duplicate-group", _row("groups", group_id=told.group_id)
    for row in rows:
        if (row["number"] or 0) < 0:
            yield "bad-standby-replicas", _row("groups", standby_replicas=row["number"])
    for name, times in Counter(row["name"] for row in told.rows[SUBTOPOLOGY]).items():
        for _ in range(times - 1):
            yield "duplicate-subtopology", _row("subtopologies", subtopology=name)
    for row in told.rows[SUBTOPOLOGY]:
        if row["name"] is None:
            yield "null-key", _row("subtopologies", subtopology=None)
        elif row["stateful"] is None or row["number"] is None or row["number"] < 0:
            said = {"subtopology": row["name"], "partitions": row["number"], "stateful": row["stateful"]}
            yield "bad-subtopology", _row("subtopologies", **said)
    if told.rows[MEMBER] and not told.rows[SUBTOPOLOGY]:
        yield "no-topology", _row("subtopologies", group_id=told.group_id)


def _of_members(told: StreamsFacts) -> Iterator[_Fault]:
    for name, times in Counter(row["member_id"] for row in told.rows[MEMBER]).items():
        if name is None:
            yield "null-key", _row("members", member_id=None)
        for _ in range(times - 1):
            yield "duplicate-member", _row("members", member_id=name)


def _of_tasks(told: StreamsFacts) -> Iterator[_Fault]:
    known = {row["member_id"] for row in told.rows[MEMBER]}
    for row in told.rows[TASK]:
        if row["member_id"] is not None and row["member_id"] not in known:
            yield "unknown-member", _row("tasks", member_id=row["member_id"])
    for row in (*told.rows[TASK], *told.rows[LEFT]):
        key = {"member_id": row["member_id"], "subtopology": row["name"], "task": row["number"]}
        if None in key.values():
            yield "null-key", _row("tasks", **key)
        elif row["number"] < 0 or not _says_something(row):
            yield "bad-task", _row("tasks", **key, role=row["text"], changelog_offset=row["offset"])
    for kind in (TASK, LEFT):
        keys = Counter((row["member_id"], row["name"], row["number"]) for row in told.rows[kind])
        for (member, name, number), times in keys.items():
            for _ in range(times - 1):
                yield "duplicate-task", _row("tasks", member_id=member, subtopology=name, task=number)


def _says_something(row: Row) -> bool:
    return row["offset"] is not None if row["text"] is None else row["text"] in ROLES
