"""Whole streams groups without Spark: moves with their reasons and state, figures, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from spark_assign.assignors.streams import task_assignor_api
from spark_assign.assignors.streams.task_assignor_api import (
    StreamsGroupAssignment,
    StreamsGroupSpec,
    TaskAssignor,
    TaskAssignorError,
)
from spark_assign.report.share_and_streams import idle_note
from spark_assign.streams.kernel.plan_groups import ASSIGNORS, StreamsPlanParams, plan_streams_groups
from spark_assign.streams.kernel.streams_group_input import REMEDIES
from spark_assign.streams.plan import PLAN_ROWS
from tests.cases import cases
from tests.golden import streams_rows
from tests.kafka import random_streams

Row = dict[str, Any]
SCHEMA = to_arrow_schema(PLAN_ROWS)
STICKY = StreamsPlanParams("streams-sticky", ASSIGNORS["streams-sticky"])


def member(member_id: str | None, process: str | None = None) -> Row:
    """A member, by default a process of its own."""
    return {"table": "members", "member_id": member_id, "process_id": process}


def subtopology(name: str | None, tasks: int | None, stateful: bool | None = True) -> Row:
    """A subtopology."""
    return {"table": "subtopologies", "subtopology": name, "partitions": tasks, "stateful": stateful}


def task(
    member_id: str | None, number: int | None, role: str | None, offset: int | None = None, of: str | None = "0"
) -> Row:
    """What a member has."""
    key = {"member_id": member_id, "subtopology": of, "task": number}
    return {"table": "tasks", **key, "role": role, "changelog_offset": offset}


def group(standby_replicas: int | None = 0, kind: str | None = "streams") -> Row:
    """What the group is configured with."""
    return {"table": "groups", "group_type": kind, "standby_replicas": standby_replicas}


def plan_rows(rows: list[Row], params: StreamsPlanParams = STICKY) -> list[Row]:
    """Returns the rows of the plan of one group, without nulls."""
    table = pa.concat_tables(plan_streams_groups(streams_rows.one_table(rows), SCHEMA, params)).to_pylist()
    return [{name: value for name, value in row.items() if value is not None} for row in table]


def moves(rows: list[Row]) -> list[tuple[Any, ...]]:
    """role, task, from, to, reason, state, offset."""
    names = ("role", "task", "from_member_id", "to_member_id", "reason", "state", "changelog_offset")
    return [tuple(row.get(name) for name in names) for row in plan_rows(rows) if row["kind"] == "move"]


def figures(rows: list[Row]) -> Row:
    """The metrics of one group."""
    (row,) = [row for row in plan_rows(rows) if row["kind"] == "metrics"]
    return row


@cases(
    "groups stateful override is_known",
    ([group(None)], True, None, False),
    ([], True, None, False),
    ([group(None)], False, None, True),
    ([group(None)], True, 0, True),
    ([group(0)], True, None, True),
)
def test_an_unknown_number_of_standbys(groups: list[Row], stateful: bool, override: int | None, is_known: bool) -> None:
    """Isn't 0 without a word."""
    rows = [*groups, subtopology("0", 1, stateful), member("a"), task("a", 0, "active")]
    (found,) = (row for row in plan_rows(rows, replace(STICKY, standby_replicas=override)) if row["kind"] == "metrics")
    assert found["standby_replicas"] == 0
    assert ("their number isn't known" in found.get("rules_note", "")) is not is_known


def test_active_tasks_move_for_a_reason() -> None:
    """Two claim 0; a has one too many; 3 is gone; 2 is new."""
    rows = [group(), subtopology("0", 3), member("a"), member("b")]
    rows += [task("a", 0, "active"), task("b", 0, "active", 7), task("a", 1, "active"), task("a", 3, "active")]
    found = moves(rows)
    assert ("active", 0, "a", "b", "claim-conflict", "member", 7) in found
    assert ("active", 3, "a", None, "task-gone", None, None) in found
    assert [move for move in found if move[1] == 2] == [("active", 2, None, "b", "new", "none", None)]
    assert len(found) == 3
    assert figures(rows)["moved_active"] == 0


def test_a_task_moves_to_where_its_state_is() -> None:
    """To a member that has state itself, one whose process has, one that has none; without state, none."""
    rows = [group(), subtopology("0", 2), member("a"), member("b", "p"), member("c", "p")]
    rows += [task("a", 0, "active"), task("a", 1, "active"), task("b", 1, None, 5), task("c", 0, None, 9)]
    assert moves(rows) == [("active", 1, "a", "b", "over-quota", "member", 5)]
    rows[-2] = task("c", 1, "warmup", 4)
    assert ("active", 1, "a", "c", "over-quota", "member", 4) in moves(rows)
    without = [row for row in rows if row.get("role") != "warmup"]
    ((*_, state, offset),) = moves([*without[:2], member("a"), member("b", "p"), member("c", "p"), *without[5:7]])
    assert (state, offset) == ("none", None)
    rows[1] = subtopology("0", 2, stateful=False)
    assert {move[5] for move in moves(rows)} == {None}


def test_the_process_of_the_next_owner_has_state() -> None:
    """Its other member had it as a standby, and is full."""
    rows = [group(), subtopology("0", 3), member("a"), member("b", "p"), member("c", "p")]
    rows += [task("a", 0, "active"), task("a", 1, "active"), task("b", 2, "active"), task("b", 1, "standby", 8)]
    found = moves(rows)
    assert ("active", 1, "a", "c", "over-quota", "process", 8) in found
    assert figures(rows)["moved_active"] == 1
    assert figures(rows)["moved_without_state"] == 0


def test_standbys_move_for_a_reason() -> None:
    """What was promoted, what its process has, what is not wanted any more, and who has left."""
    rows = [group(1), subtopology("0", 1), member("a"), member("b"), member("c")]
    found = moves([*rows, task("a", 0, "standby")])
    assert ("standby", 0, "a", next(move[3] for move in found if move[0] == "standby"), "promoted") == found[1][:5]
    rows = [group(1), subtopology("0", 1), member("a", "p"), member("b", "p"), member("c")]
    found = moves([*rows, task("a", 0, "active"), task("b", 0, "standby")])
    assert found == [("standby", 0, "b", "c", "process-has-it", "none", None)]
    none = [group(0), *rows[1:], task("a", 0, "active"), task("c", 0, "standby"), task("c", 0, "warmup", of="9")]
    assert moves(none) == [
        ("standby", 0, "c", None, "no-standbys", None, None),
        ("warmup", 0, "c", None, "task-gone", None, None),
    ]
    left = {**task("gone", 0, "standby"), "table": "departed_tasks"}
    assert moves([*rows, task("a", 0, "active"), left]) == [("standby", 0, "gone", "c", "member-left", "none", None)]


def test_fewer_standbys_are_wanted() -> None:
    """Two have one, and one keeps it."""
    rows = [group(1), subtopology("0", 1), *(member(name) for name in "abc")]
    rows += [task("a", 0, "active"), task("b", 0, "standby"), task("c", 0, "standby")]
    ((role, _, _, to_member, reason, *_),) = moves(rows)
    assert (role, to_member, reason) == ("standby", None, "fewer-standbys")


def test_why_members_are_idle() -> None:
    """There are more of them than tasks."""
    text = "at least 3 members have no active task: the application has 5 tasks"
    assert (idle_note({"members": 8, "tasks": 5}), idle_note({"members": 5, "tasks": 5})) == (text, None)


def test_a_group_that_everybody_has_left() -> None:
    """Its tasks are nobody's."""
    rows = [group(1), subtopology("0", 2), {**task("gone", 0, "active"), "table": "departed_tasks"}]
    assert moves(rows) == [("active", 0, "gone", None, "member-left", None, None)]
    table = figures(rows)
    assert (table["members"], table["unassigned_active"], table["unassigned_standby"], table["max_active"]) == (
        0,
        2,
        2,
        0,
    )


def test_the_number_of_standbys_is_that_of_the_group_or_of_the_params() -> None:
    """Null is none."""
    rows = [subtopology("0", 2), subtopology("1", 2, stateful=False), *(member(name) for name in "abc")]
    for configured, configured_for, expected in ((None, None, 0), (1, None, 1), (1, 0, 0), (None, 2, 2)):
        params = StreamsPlanParams("streams-sticky", ASSIGNORS["streams-sticky"], configured_for)
        table = plan_rows([group(configured), *rows], params)
        assert sum(row.get("role") == "standby" for row in table if row["kind"] == "task") == 2 * expected
        assert table[-1]["standby_replicas"] == expected


def test_groups_of_other_protocols_are_passed_over() -> None:
    """Nothing is said of them; a topology makes a group one of Streams."""
    assert plan_rows([group(kind="consumer"), member("a")]) == []
    assert plan_rows([group(kind=None), member("a"), subtopology("0", 1)])[-1]["tasks"] == 1
    assert plan_rows([member("a"), task("a", 0, "active")])[0]["code"] == "no-topology"


FAULTY = {
    "undescribed": [[group(), {"table": "undescribed", "error": "no permission"}]],
    "null-key": [
        [subtopology(None, 1), member("a")],
        [subtopology("0", 1), member(None)],
        [subtopology("0", 1), member("a"), task("a", None, "active")],
        [subtopology("0", 1), member("a"), task("a", 0, "active", of=None)],
        [subtopology("0", 1), member("a"), task(None, 0, "active")],
    ],
    "duplicate-member": [[subtopology("0", 1), member("a"), member("a", "p")]],
    "duplicate-group": [[group(), group(1), subtopology("0", 1), member("a")]],
    "duplicate-subtopology": [[subtopology("0", 1), subtopology("0", 2), member("a")]],
    "bad-standby-replicas": [[group(-1), subtopology("0", 1), member("a")]],
    "bad-subtopology": [
        [subtopology("0", -1), member("a")],
        [subtopology("0", None), member("a")],
        [subtopology("0", 1, stateful=None), member("a")],
    ],
    "too-many-tasks": [
        [subtopology("0", 2**31 - 1), member("a")],
        [subtopology("0", 120_000), subtopology("1", 120_000), member("a")],
        [group(2**31 - 1), subtopology("0", 200_000), *(member(f"m{number}") for number in range(6))],
    ],
    "no-topology": [[group(), member("a")]],
    "unknown-member": [[subtopology("0", 1), member("a"), task("b", 0, "active")]],
    "bad-task": [
        [subtopology("0", 1), member("a"), task("a", -1, "active")],
        [subtopology("0", 1), member("a"), task("a", 0, "leader")],
        [subtopology("0", 1), member("a"), task("a", 0, None)],
    ],
    "duplicate-task": [[subtopology("0", 1), member("a"), task("a", 0, "active"), task("a", 0, "standby")]],
}


@pytest.mark.parametrize("code", FAULTY)
def test_faults(code: str) -> None:
    """Each rejects its group, and says what to do."""
    for rows in FAULTY[code]:
        (row,) = plan_rows(rows)
        assert (row["kind"], row["code"]) == ("rejected", code)
        assert row["detail"].endswith(REMEDIES[code])


def test_a_group_that_takes_too_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of two members, of which each has state: only this group is rejected."""
    rows = [group(9), subtopology("0", 5), *(member(f"m{at}", f"p{at // 2}") for at in range(20))]
    rows += [task(f"m{at}", number, "standby") for at in range(20) for number in range(5)]
    few = [group(1), subtopology("0", 5), member("a"), member("b"), task("a", 0, "standby")]
    monkeypatch.setattr(task_assignor_api, "MAX_STEPS", 300)
    (rejected,) = plan_rows(rows)
    assert (rejected["kind"], rejected["code"]) == ("rejected", "too-many-tasks")
    assert rejected["detail"].endswith("Use fewer tasks, standbys, or processes")
    assert figures(few)["standby_replicas"] == 1


def test_a_group_without_topology_is_named() -> None:
    """There is no row of a subtopology, so the row of the group is named."""
    (row,) = plan_rows([group(), member("a")])
    assert row["detail"] == f"subtopologies: group_id={row['group_id']}. {REMEDIES['no-topology']}"
    assert row["group_id"] is not None


def test_several_faults() -> None:
    """The gravest first; of each one row, and how many more."""
    rows = [subtopology("0", 1), *([member("a")] * 3), task("b", 0, "active"), task("b", -1, "active")]
    (row,) = plan_rows(rows)
    assert row["code"] == "duplicate-member"
    assert row["detail"] == (
        f"members: member_id=a and 1 more. {REMEDIES['duplicate-member']}; "
        f"tasks: member_id=b and 1 more. {REMEDIES['unknown-member']}; "
        f"tasks: member_id=b, subtopology=0, task=-1, role=active, changelog_offset=null. {REMEDIES['bad-task']}"
    )


def test_keys_that_repeat_or_are_null() -> None:
    """Each row counts. Tasks of departed members are named as those of members: both come from the table tasks."""
    departed = [{**task("gone", number, "active"), "table": "departed_tasks"} for number in (0, 0, None)]
    (row,) = plan_rows([*([group()] * 3), subtopology("0", 1), member("a"), *departed])
    assert row["detail"] == (
        f"tasks: member_id=gone, subtopology=0, task=null. {REMEDIES['null-key']}; "
        f"groups: group_id=g and 1 more. {REMEDIES['duplicate-group']}; "
        f"tasks: member_id=gone, subtopology=0, task=0. {REMEDIES['duplicate-task']}"
    )


def test_an_assignor_of_ones_own_fails() -> None:
    """Whatever it does, the other groups are planned; its words are table."""

    def only_a(configured_for: StreamsGroupSpec) -> StreamsGroupAssignment:
        if configured_for.members[0].member_id == "a":
            return StreamsGroupAssignment(dict.fromkeys(configured_for.tasks(), 0))
        raise TaskAssignorError("No process available")

    own: TaskAssignor = only_a
    rows = [{"cluster": "c", "group_id": name} | row for name in "ab" for row in (subtopology("0", 1), member(name))]
    table = pa.concat_tables(
        plan_streams_groups(streams_rows.one_table(rows), SCHEMA, StreamsPlanParams("mine", own))
    ).to_pylist()
    assert [(row["group_id"], row["kind"]) for row in table] == [
        ("a", "task"),
        ("a", "move"),
        ("a", "metrics"),
        ("b", "rejected"),
    ]
    assert (table[-1]["code"], table[-1]["detail"]) == ("assignor-failed", "TaskAssignorError: No process available")


@cases(
    "made detail",
    (StreamsGroupAssignment({(0, 0.5): 0}), "ValueError: it assigns the task (0, 0.5) to the members [0], "),  # type: ignore[dict-item]
    (StreamsGroupAssignment({(0, 0): -1}), "ValueError: it assigns the task (0, 0) to the members [-1], "),
    (StreamsGroupAssignment({}, {(1, 0): [0]}), "ValueError: it assigns the task (1, 0) to the members [0], "),
    (SystemExit(1), "SystemExit: 1"),
)
def test_an_assignor_of_ones_own_makes_no_sense(made: Any, detail: str) -> None:
    """The group is rejected."""

    def own(group: StreamsGroupSpec) -> StreamsGroupAssignment:
        if isinstance(made, SystemExit):
            raise made
        return made

    rows = [{"cluster": "c", "group_id": "a"} | row for row in (subtopology("0", 1), member("a"))]
    [table] = plan_streams_groups(streams_rows.one_table(rows), SCHEMA, StreamsPlanParams("mine", own))
    [row] = table.to_pylist()
    assert row["code"] == "assignor-failed"
    assert row["detail"].startswith(detail)


def test_the_order_of_rows_says_nothing() -> None:
    """Random groups, their facts shuffled."""
    rows = list(random_streams.groups(5, 40))
    facts = streams_rows.facts_of(rows)
    table = pa.concat_tables(plan_streams_groups(facts, SCHEMA, STICKY))
    shuffled = Random(1).sample(range(len(facts)), len(facts))
    assert pa.concat_tables(plan_streams_groups(facts.take(shuffled), SCHEMA, STICKY)).equals(table)
    assert len(table) > 1_000
