"""Classic Streams applications without Spark, from facts: moves, metrics, and why an application is rejected."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from spark_assign.streams.kernel.plan_groups import ASSIGNORS, StreamsPlanParams, plan_streams_groups
from spark_assign.streams.kernel.streams_group_input import REMEDIES
from spark_assign.streams.plan import PLAN_ROWS
from tests.cases import cases
from tests.golden.streams_rows import one_table
from tests.unit.test_streams_plan import FAULTY

Row = dict[str, Any]
SCHEMA = to_arrow_schema(PLAN_ROWS)
P, Q = "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002"


def group(*config: str, standbys: int = 0, **more: Any) -> Row:
    """What the application is configured with."""
    return fact("groups", group_type="classic", standby_replicas=standbys, streams_config=config or None, **more)


def fact(table: str, **values: Any) -> Row:
    """A row of a table of the input."""
    return {"table": table, **values}


def member(name: str, process: str | None, **more: Any) -> Row:
    """A member."""
    return fact("members", member_id=name, process_id=process, **more)


def task(name: str, number: int, role: str | None, offset: int | None = None, of: str = "0") -> Row:
    """What a member has."""
    return fact("tasks", member_id=name, subtopology=of, task=number, role=role, changelog_offset=offset)


def topology(tasks: int = 2, *, end: int | None = 1_000_000, known: int | None = None) -> list[Row]:
    """One subtopology that reads t and logs to l."""
    return [
        fact("subtopologies", subtopology="0", source_topics=["t"], changelog_topics=["l"]),
        fact("topics", topic="t", partitions=tasks),
        *(
            fact("changelogs", topic="l", partition=at, end_offset=end)
            for at in range(tasks if known is None else known)
        ),
    ]


def plan_rows(rows: list[Row]) -> list[Row]:
    """The rows of the plan of one group, without nulls."""
    params = StreamsPlanParams("streams-sticky", ASSIGNORS["streams-sticky"])
    tables = plan_streams_groups(one_table(rows), SCHEMA, params)
    planned = pa.concat_tables(tables).to_pylist()
    return [{name: value for name, value in row.items() if value is not None} for row in planned]


def columns(rows: list[Row], kind: str, *names: str) -> list[tuple[Any, ...]]:
    """These columns of the rows of a kind."""
    return [tuple(row.get(name) for name in names) for row in plan_rows(rows) if row["kind"] == kind]


SCALED_OUT = [
    group(),
    *topology(),
    member("a", Q),
    member("b", P),
    *(task("a", at, "active") for at in range(2)),
]
"""a runs both tasks, and b is new."""


def test_a_new_process_gets_a_warmup() -> None:
    """The task stays where its state is, and a probing rebalance follows."""
    assert columns(SCALED_OUT, "task", "member_id", "task", "role") == [
        ("a", 0, "active"),
        ("b", 0, "warmup"),
        ("a", 1, "active"),
    ]
    moved = columns(SCALED_OUT, "move", "task", "role", "from_member_id", "to_member_id", "reason", "state")
    assert moved == [(0, "warmup", None, "b", "warmup", "none")]
    names = ("assignor", "warmups", "withheld", "pending_moves", "follow_up", "order_dependent", "unassigned_standby")
    assert columns(SCALED_OUT, "metrics", *names) == [("high-availability", 1, 0, 1, "probing", 0, 0)]


@cases(
    "release rules note",
    ("4.4.0", "4.4", None),
    ("4.3.1", "3.8", None),
    (None, "4.4", "as 4.4, because the release of the leader is unknown"),
    ("4.5.0", "4.4", "as 4.4, not 4.5.0"),
    ("3.7.2", "3.8", "as 3.8, not 3.7.2: another test of whether an assignment is stable"),
)
def test_the_release_of_the_leader_decides(release: str | None, rules: str, note: str | None) -> None:
    """And the plan says which rules it took. Of an older leader, it names each difference."""
    planned = [group(leader_version=release), *SCALED_OUT[1:]]
    assert columns(planned, "metrics", "rules", "rules_note") == [(rules, note)]
    ((oldest,),) = columns([group(leader_version="2.8.2"), *SCALED_OUT[1:]], "metrics", "rules_note")
    known = ("KIP-925", "another order of movements", "no client tags", "KAFKA-12959", "another hash code of tasks")
    assert [each for each in known if each not in oldest] == []


def test_what_standbys_need_of_disks() -> None:
    """A copy of the state of each task that has one, warmups included; unknown if a size is."""
    sized = [
        row | {"bytes": 100 * (row["partition"] + 1)} if row["table"] == "changelogs" else row for row in SCALED_OUT
    ]
    assert columns(sized, "metrics", "state_bytes", "standby_bytes") == [(300, 100)]
    assert columns([group(standbys=1), *sized[1:]], "metrics", "state_bytes", "standby_bytes") == [(300, 300)]
    assert columns(SCALED_OUT, "metrics", "state_bytes", "standby_bytes") == [(None, None)]


def test_a_caught_up_process_takes_the_task() -> None:
    """Within the acceptable lag it is withheld until a has revoked it; meanwhile, b keeps the state as a standby."""
    rows = [*SCALED_OUT, task("b", 0, None, 999_990)]
    assert columns(rows, "task", "member_id", "task", "role") == [
        ("b", 0, "standby"),
        ("b", 0, "withheld"),
        ("a", 1, "active"),
    ]
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
    new = [row for row in new if row["table"] != "changelogs"]
    assert columns(new, "metrics", "assumed_offsets") == [(1,)]


def test_a_member_has_left() -> None:
    """Its tasks go to the only process, which has state of one of them."""
    left = [fact("departed_tasks", member_id="a", subtopology="0", task=at, role="active") for at in range(2)]
    rows = [group(), *topology(), member("b", P), task("b", 0, "standby", 5), *left]
    moved = columns(rows, "move", "task", "role", "from_member_id", "to_member_id", "reason", "state")
    assert moved == [
        (0, "active", "a", "b", "member-left", "member"),
        (0, "standby", "b", None, "promoted", None),
        (1, "active", "a", "b", "member-left", "none"),
    ]


def test_all_members_have_left() -> None:
    """Nobody gets the tasks."""
    rows = [group(), *topology(), fact("departed_tasks", member_id="a", subtopology="0", task=0, role="active")]
    assert columns(rows, "move", "task", "from_member_id", "to_member_id", "reason") == [(0, "a", None, "member-left")]
    assert columns(rows, "metrics", "members", "unassigned_active", "follow_up") == [(0, 2, None)]


def test_members_without_a_process_and_a_subtopology_without_sources() -> None:
    """Each member is a process; the ID of a global store is in no table."""
    second = fact("subtopologies", subtopology="2", source_topics=["u"])
    rows = [group(), *topology(), second, fact("topics", topic="u", partitions=1), member("a", None), member("b", None)]
    assert sorted({of for (of,) in columns(rows, "task", "subtopology")}) == ["0", "2"]
    assert columns(rows, "metrics", "processes", "subtopologies", "tasks", "stateful_tasks") == [(2, 2, 3, 2)]


def test_end_offsets_that_cannot_be_read() -> None:
    """Kafka falls back to previous owners, and probes."""
    rows = [row | {"end_offset": None} if row["table"] == "changelogs" else row for row in SCALED_OUT]
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
    "bad-classic-subtopology": [fact("subtopologies", subtopology="named__1", source_topics=["t"])],
    "bad-classic-task": [task("a", 0, "standby", of="x")],
    "bad-changelog": [fact("changelogs", topic="l", partition=1, end_offset=7)],
    "bad-owned": [fact("owned", member_id="a", topic="t", first=0, step=0, count=1)],
    "too-many-tasks": [fact("owned", member_id="a", topic="t", first=0, step=1, count=2**31 - 1)],
    "unknown-member": [fact("owned", member_id="z", topic="t", first=0, step=1, count=1)],
    "unknown-topic": [fact("subtopologies", subtopology="1", source_topics=["gone"])],
    "shutdown-requested": [member("c", None, error_code=4)],
    "duplicate-group": [group()],
    "duplicate-task": [task("a", 0, "active")],
    "null-key": [fact("subtopologies", subtopology=None, source_topics=["t"])],
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
    ([group(None), *SCALED_OUT[1:]], "bad-streams-config", "streams_config=null"),
    ([group("max.warmup.replicas=-1"), *SCALED_OUT[1:]], "bad-streams-config", "max.warmup.replicas=-1"),
    ([group(standby_task_order=["0"]), *SCALED_OUT[1:]], "bad-streams-config", "standby_task_order=0"),
    *(
        (
            [group(standby_task_order=["0_1", text]), *SCALED_OUT[1:]],
            "bad-streams-config",
            f"standby_task_order={text[:249]}",
        )
        for text in ("0_" + "9" * 5_000, "0_9999999999", "0_2", "0_1", "1_0", "")
    ),
    *(
        ([group(text), *SCALED_OUT[1:]], "bad-streams-config", text)
        for text in ("num.standby.replicas=2147483648", "max.warmup.replicas=1_0", f"acceptable.recovery.lag={2**63}")
    ),
    *(
        (
            [group(), *topology(), *SCALED_OUT[5:], fact("changelogs", topic="l", partition=2, **values)],
            "bad-changelog",
            of,
        )
        for values, of in (
            ({"bytes": -1}, "bytes=-1"),
            ({"in_bytes_per_second": float("nan")}, "in_bytes_per_second=nan"),
            ({"in_bytes_per_second": 1e300}, "in_bytes_per_second=1e+300"),
            ({"in_messages_per_second": -1.0}, "in_messages_per_second=-1"),
        )
    ),
    (
        [group("num.standby.replicas=1000"), *topology(2_000), *(member(f"m{at}", None) for at in range(501))],
        "too-many-tasks",
        "num.standby.replicas=1000",
    ),
    (
        [
            group(standby_task_order=["1_0"]),
            fact("subtopologies", subtopology="1", source_topics=["gone"], changelog_topics=["l"]),
            *SCALED_OUT[1:],
        ],
        "unknown-topic",
        "source_topic=gone",
    ),
    ([group(), *topology(2**31 - 1, known=1), member("a", P)], "too-many-tasks", "tasks=2147483647"),
    (
        [
            group("rack.aware.assignment.strategy=min_traffic"),
            *topology(),
            *(member(f"m{at}", None, rack_id="r") for at in range(5_000)),
            *(fact("racks", topic=topic, partition=at, racks=["r"]) for topic in "tl" for at in range(2)),
        ],
        "too-many-tasks",
        "rack.aware.assignment.strategy: 25,000,000 pairs, expected at most 20,000,000",
    ),
    ([group(standbys=-1), *SCALED_OUT[1:]], "bad-standby-replicas", "standby_replicas=-1"),
    ([group(), task("a", 0, "active"), member("a", P)], "no-topology", "group_id=g"),
    ([group(), *topology(known=1), member("a", P)], "no-end-offsets", "topic=l, partition=1"),
    (
        [group(), *topology(known=0), fact("topics", topic="l", partitions=2), member("a", P)],
        "no-end-offsets",
        "topic=l",
    ),
    (
        [group(), *topology(), member("a", P), fact("owned", member_id="a", topic="x", first=0, step=1, count=1)],
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
    assert REMEDIES.keys() == (FAULTY.keys() | BAD.keys() | {code for _, code, _ in REJECTED}) - {
        "unknown-owned",
        "assignor-failed",
    }


def test_a_new_changelog_needs_no_end_offsets() -> None:
    """It isn't in the tables yet, and nobody lags."""
    rows = [*SCALED_OUT[:1], *topology(known=0), *SCALED_OUT[5:]]
    assert columns(rows, "metrics", "follow_up", "moved_active") == [("at-once", 1)]


def test_rejections_do_not_affect_other_groups() -> None:
    """The other one is planned."""
    other = [row | {"group_id": "h"} for row in SCALED_OUT]
    assert [row["group_id"] for row in plan_rows([*SCALED_OUT, group(), *other]) if row["kind"] != "task"] == [
        "g",
        "h",
        "h",
    ]
