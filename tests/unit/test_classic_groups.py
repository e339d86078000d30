"""Classic Streams applications without Spark, from facts: moves, metrics, and why an application is rejected."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from spark_assign.streams.kernel.plan_groups import ASSIGNORS, StreamsPlanParams, plan_streams_groups
from spark_assign.streams.kernel.streams_group_input import (
    CHANGELOG,
    DEPARTED_TASK,
    FACTS,
    GROUP,
    MEMBER,
    OWNED,
    REMEDIES,
    SUBTOPOLOGY,
    TASK,
    TOPIC,
)
from spark_assign.streams.plan import PLAN_ROWS
from tests.cases import tuples
from tests.unit.test_streams_plan import FAULTY

Row = dict[str, Any]
SCHEMA = to_arrow_schema(PLAN_ROWS)
P, Q = "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002"


def group(*config: str, standbys: int = 0, **more: Any) -> Row:
    """What the application is configured with."""
    return fact(GROUP, text="classic", number=standbys, streams_config=config or None, **more)


def fact(kind: int, **values: Any) -> Row:
    """A fact; columns that facts don't have are in `more`."""
    more = {name: value for name, value in values.items() if name not in FACTS.names and value is not None}
    row = {"cluster": "c", "group_id": "g", "kind": kind, "more": json.dumps(more) if more else None}
    return row | {name: value for name, value in values.items() if name in FACTS.names}


def member(name: str, process: str | None, **more: Any) -> Row:
    """A member."""
    return fact(MEMBER, member_id=name, name=process, **more)


def task(name: str, number: int, role: str | None, offset: int | None = None, of: str = "0") -> Row:
    """What a member has."""
    return fact(TASK, member_id=name, name=of, number=number, text=role, offset=offset)


def topology(tasks: int = 2, *, end: int | None = 1_000_000, known: int | None = None) -> list[Row]:
    """One subtopology that reads t and logs to l."""
    return [
        fact(SUBTOPOLOGY, name="0", source_topics=["t"], changelog_topics=["l"]),
        fact(TOPIC, name="t", number=tasks),
        *(fact(CHANGELOG, name="l", number=at, offset=end) for at in range(tasks if known is None else known)),
    ]


def plan_rows(rows: list[Row]) -> list[Row]:
    """The rows of the plan of one group, without nulls."""
    params = StreamsPlanParams("streams-sticky", ASSIGNORS["streams-sticky"])
    planned = pa.concat_tables(plan_streams_groups(pa.Table.from_pylist(rows, FACTS), SCHEMA, params)).to_pylist()
    return [{name: value for name, value in row.items() if value is not None} for row in planned]


def columns(rows: list[Row], kind: str, *names: str) -> list[tuple[Any, ...]]:
    """These columns of the rows of a kind."""
    return [tuple(row.get(name) for name in names) for row in plan_rows(rows) if row["kind"] == kind]


SCALED_OUT = [group(), *topology(), member("a", Q), member("b", P), *(task("a", at, "active") for at in range(2))]
"""a runs both tasks, and b is new."""


def test_a_new_process_gets_a_warmup() -> None:
    """The task stays where its state is, and a probing rebalance follows."""
    assert columns(SCALED_OUT, "task", "member_id", "task", "role") == tuples("a 0 active; b 0 warmup; a 1 active")
    moved = columns(SCALED_OUT, "move", "task", "role", "from_member_id", "to_member_id", "reason", "state")
    assert moved == [(0, "warmup", None, "b", "warmup", "none")]
    names = ("assignor", "warmups", "withheld", "pending_moves", "follow_up", "order_dependent", "unassigned_standby")
    assert columns(SCALED_OUT, "metrics", *names) == [("high-availability", 1, 0, 1, "probing", 0, 0)]


def test_what_standbys_need_of_disks() -> None:
    """A copy of the state of each task that has one, warmups included; unknown if a size is."""
    sized = [
        row | {"more": json.dumps({"bytes": 100 * (row["number"] + 1)})} if row["kind"] == CHANGELOG else row
        for row in SCALED_OUT
    ]
    assert columns(sized, "metrics", "state_bytes", "standby_bytes") == [(300, 100)]
    assert columns([group(standbys=1), *sized[1:]], "metrics", "state_bytes", "standby_bytes") == [(300, 300)]
    assert columns(SCALED_OUT, "metrics", "state_bytes", "standby_bytes") == [(None, None)]


def test_a_caught_up_process_takes_the_task() -> None:
    """Within the acceptable lag it is withheld until a has revoked it; meanwhile, b keeps the state as a standby."""
    rows = [*SCALED_OUT, task("b", 0, None, 999_990)]
    assert columns(rows, "task", "member_id", "task", "role") == tuples("b 0 standby; b 0 withheld; a 1 active")
    moved = columns(rows, "move", "task", "role", "from_member_id", "to_member_id", "reason", "state")
    assert moved == [(0, "active", "a", "b", "rebalanced", "member")]
    names = ("warmups", "withheld", "follow_up", "moved_active", "moved_without_state")
    assert columns(rows, "metrics", *names) == [(0, 1, "at-once", 1, 0)]
    exact = [group("acceptable.recovery.lag=0"), *rows[1:]]
    assert columns(exact, "metrics", "warmups", "follow_up") == [(1, "probing")]


def test_a_standby_of_unknown_offsets_counts_as_caught_up() -> None:
    """As one does that has reached the end of its changelog, and it is counted."""
    names = ("member_id", "task", "role")
    known, unknown = [[*SCALED_OUT, task("b", 0, "standby", at)] for at in (1_000_000, None)]
    assert columns(unknown, "task", *names) == columns(known, "task", *names)
    assert ("b", 0, "withheld") in columns(unknown, "task", *names)
    assert columns(unknown, "metrics", "assumed_offsets") == [(1,)]
    assert columns(known, "metrics", "assumed_offsets") == [(0,)]
    new = [group(), *topology(known=0), *SCALED_OUT[4:], task("b", 0, "standby")]
    new = [row for row in new if row["kind"] != CHANGELOG]
    assert columns(new, "metrics", "assumed_offsets") == [(1,)]


def test_a_member_has_left() -> None:
    """Its tasks go to the only process, which has state of one of them."""
    left = [fact(DEPARTED_TASK, member_id="a", name="0", number=at, text="active") for at in range(2)]
    rows = [group(), *topology(), member("b", P), task("b", 0, "standby", 5), *left]
    expected = tuples("0 active a b member-left member; 0 standby b None promoted None; 1 active a b member-left none")
    assert columns(rows, "move", "task", "role", "from_member_id", "to_member_id", "reason", "state") == expected


def test_all_members_have_left() -> None:
    """Nobody gets the tasks."""
    rows = [group(), *topology(), fact(DEPARTED_TASK, member_id="a", name="0", number=0, text="active")]
    assert columns(rows, "move", "task", "from_member_id", "to_member_id", "reason") == [(0, "a", None, "member-left")]
    assert columns(rows, "metrics", "members", "unassigned_active", "follow_up") == [(0, 2, None)]


def test_members_without_a_process_and_a_subtopology_without_sources() -> None:
    """Each member is a process; the ID of a global store is in no table."""
    second = fact(SUBTOPOLOGY, name="2", source_topics=["u"])
    rows = [group(), *topology(), second, fact(TOPIC, name="u", number=1), member("a", None), member("b", None)]
    assert sorted({of for (of,) in columns(rows, "task", "subtopology")}) == ["0", "2"]
    assert columns(rows, "metrics", "processes", "subtopologies", "tasks", "stateful_tasks") == [(2, 2, 3, 2)]


def test_end_offsets_that_cannot_be_read() -> None:
    """Kafka falls back to previous owners, and probes."""
    rows = [row | {"offset": None} if row["kind"] == CHANGELOG else row for row in SCALED_OUT]
    assert columns(rows, "metrics", "assignor", "follow_up") == [("fallback", "probing")]
    assert columns(rows, "task", "member_id", "task", "role") == [("a", 0, "active"), ("a", 1, "active")]


def test_standbys_of_the_public_sticky_assignor_are_marked() -> None:
    """Unless the order is known."""
    sticky = "task.assignor.class=org.apache.kafka.streams.processor.assignment.assignors.StickyTaskAssignor"
    rows = SCALED_OUT[1:]
    assert columns([group(sticky, standbys=1), *rows], "metrics", "assignor", "order_dependent") == [("sticky", 2)]
    known = group(sticky, standbys=1, standby_task_order=["0_1", "0_0"])
    assert columns([known, *rows], "metrics", "order_dependent") == [(0,)]


BAD = {
    "bad-process-id": [member("c", "host-1")],
    "bad-streams-config": [member("c", None, client_tags=["zone"])],
    "bad-classic-subtopology": [fact(SUBTOPOLOGY, name="named__1", source_topics=["t"])],
    "bad-classic-task": [task("a", 0, "standby", of="x")],
    "bad-changelog": [fact(CHANGELOG, name="l", number=1, offset=7)],
    "bad-owned": [fact(OWNED, member_id="a", name="t", first=0, step=0, count=1)],
    "too-many-tasks": [fact(OWNED, member_id="a", name="t", first=0, step=1, count=2**31 - 1)],
    "unknown-member": [fact(OWNED, member_id="z", name="t", first=0, step=1, count=1)],
    "unknown-topic": [fact(SUBTOPOLOGY, name="1", source_topics=["gone"])],
    "shutdown-requested": [member("c", None, error_code=4)],
    "duplicate-group": [group()],
    "duplicate-task": [task("a", 0, "active")],
    "null-key": [fact(SUBTOPOLOGY, name=None, source_topics=["t"])],
}


@pytest.mark.parametrize("code", BAD)
def test_one_more_row_rejects_the_application(code: str) -> None:
    """With a code, the row, and a remedy."""
    (row,) = plan_rows([*SCALED_OUT, *BAD[code]])
    assert row["kind"] == "rejected"
    assert row["code"] == code
    assert REMEDIES[code] in row["detail"]


REJECTED = [
    ([group("task.assignor.class=Mine"), *SCALED_OUT[1:]], "unknown-assignor", "task.assignor.class=Mine"),
    ([group("max.warmups=1"), *SCALED_OUT[1:]], "bad-streams-config", "max.warmups=1"),
    ([group("max.warmup.replicas=-1"), *SCALED_OUT[1:]], "bad-streams-config", "max.warmup.replicas=-1"),
    ([group(standby_task_order=["0"]), *SCALED_OUT[1:]], "bad-streams-config", "standby_task_order=0"),
    ([group(standby_task_order=["0_" + "9" * 5_000]), *SCALED_OUT[1:]], "bad-streams-config", "standby_task_order=0_9"),
    ([group(), *topology(2**31 - 1, known=1), member("a", P)], "too-many-tasks", "tasks=2147483647"),
    ([group(standbys=-1), *SCALED_OUT[1:]], "bad-standby-replicas", "standby_replicas=-1"),
    ([group(), task("a", 0, "active"), member("a", P)], "no-topology", "group_id=g"),
    ([group(), *topology(known=1), member("a", P)], "no-end-offsets", "topic=l, partition=1"),
    ([group(), *topology(known=0), fact(TOPIC, name="l", number=2), member("a", P)], "no-end-offsets", "topic=l"),
    (
        [group(), *topology(), member("a", P), fact(OWNED, member_id="a", name="x", first=0, step=1, count=1)],
        "unknown-owned",
        P,
    ),
]


@pytest.mark.parametrize(("rows", "code", "detail"), REJECTED)
def test_what_is_rejected(rows: list[Row], code: str, detail: str) -> None:
    """Settings, a topology, or offsets that are wrong or missing."""
    (row,) = plan_rows(rows)
    assert (row["kind"], row["code"]) == ("rejected", code)
    assert detail in row["detail"]


def test_every_code_is_tested() -> None:
    """Here, or with the groups of the streams protocol."""
    assert REMEDIES.keys() == (FAULTY.keys() | BAD.keys() | {code for _, code, _ in REJECTED}) - {"unknown-owned"}


def test_a_new_changelog_needs_no_end_offsets() -> None:
    """It isn't in the tables yet, and nobody lags."""
    rows = [*SCALED_OUT[:1], *topology(known=0), *SCALED_OUT[5:]]
    assert columns(rows, "metrics", "follow_up", "moved_active") == [("at-once", 1)]


def test_rejections_do_not_affect_other_groups() -> None:
    """The other one is planned."""
    rows = plan_rows([*SCALED_OUT, group(), *[row | {"group_id": "h"} for row in SCALED_OUT]])
    assert [row["group_id"] for row in rows if row["kind"] != "task"] == ["g", "h", "h"]
