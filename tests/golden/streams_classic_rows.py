"""The recorded rows of Streams applications on the classic protocol (`README-streams-classic.md`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spark_assign.streams.kernel.classic_application import (
    ClassicApplication,
    ClassicConfig,
    ClassicMember,
    ClassicSubtopology,
)
from spark_assign.streams.kernel.member_tasks import AT_ONCE
from spark_assign.streams.kernel.streams_partition_assignor import ClassicAssignment
from spark_assign.streams.kernel.task_assignor_api import TaskId
from tests.recorded_lines import read_rows

Row = dict[str, Any]
ROWS = 1_548


def rows() -> list[Row]:
    """All recorded rows."""
    every = read_rows(Path(__file__).parent / "streams-classic.jsonl.gz")
    assert len(every) == ROWS
    return every


def task_id(text: str) -> TaskId:
    """A task from its text, such as 1_0."""
    subtopology, number = text.split("_")
    return int(subtopology), int(number)


def task_text(task: TaskId) -> str:
    """The text of a task."""
    return f"{task[0]}_{task[1]}"


def application_of(row: Row) -> ClassicApplication:
    """The input of a row."""
    subtopologies = [
        ClassicSubtopology(
            of["sources"], [store["changelog"] for store in of["stores"] if store["changelog"]], bool(of["stores"])
        )
        for of in sorted(row["subtopologies"], key=lambda of: of["id"])
    ]
    changelogs = row["changelogs"]
    known = {name: of["end_offsets"] for name, of in changelogs.items() if not of.get("new")}
    fails = row.get("end_offsets_fail") and any(name not in row["topics"] for name in known)
    racks = {name: of.get("racks") for name, of in (changelogs | row["topics"]).items()}
    # Topics without racks are on one broker that has none.
    racks |= {name: [[None]] * of["partitions"] for name, of in row["topics"].items() if of["racks"] is None}
    order = row.get("standby_task_order")
    return ClassicApplication(
        [
            ClassicMember(
                member["id"],
                member["process"],
                member["rack"],
                member["tags"],
                [(topic, partition) for topic, partition in member["owned"]],
                {task_id(task): offset for task, offset in member["task_offset_sums"].items()},
                member.get("error_code", 0),
            )
            for member in row["members"]
        ],
        subtopologies,
        {name: of["partitions"] for name, of in row["topics"].items()},
        None if fails else known,
        racks,
        ClassicConfig(**row["config"]),
        row["assignor"],
        row["leader"],
        None if order is None else [task_id(task) for task in order],
    )


def expected(row: Row) -> Row:
    """What is compared: all of `expect` that the row has."""
    return {name: value for name, value in row["expect"].items() if name != "clients" or value}


def planned(row: Row, application: ClassicApplication, plan: ClassicAssignment) -> Row:
    """A plan in the form of the row's `expect`."""
    if plan.error_code:
        members = {member.member_id: {"error_code": plan.error_code} for member in application.members}
        return {"stable": None, "consumers": members}
    now, interval = row["now_ms"], application.config.probing_rebalance_interval_ms
    result: Row = {
        "stable": plan.is_stable,
        "clients": {process: _roles(*tasks) for process, tasks in plan.clients.items()},
        "consumers": {
            member: {
                "active": sorted(
                    (
                        [task_text(task), *partition]
                        for task in tasks.active
                        for partition in application.source_partitions(task)
                    ),
                    key=lambda line: (line[1].encode("utf-16-be"), line[2]),
                ),
                "standby": [task_text(task) for task in sorted(tasks.standby)],
                "next_rebalance_ms": tasks.rejoin and (0 if tasks.rejoin == AT_ONCE else now + interval),
            }
            for member, tasks in plan.members.items()
        },
    }
    if application.assignor != "sticky":
        result["probing"] = plan.must_probe
    if plan.trace is not None:
        result["before_movements"] = {process: _roles(*tasks) for process, tasks in plan.trace.target.items()}
        result["warmups"] = {
            process: [task_text(task) for task in sorted(tasks)]
            for process, tasks in plan.trace.warmups.items()
            if tasks
        }
    elif application.assignor == "high-availability":
        del result["clients"], result["probing"]
    if "partitions_by_host" in row["expect"]:
        result["partitions_by_host"] = _partitions_by_host(row, application, plan)
    return result


def _roles(active: set[TaskId], standby: set[TaskId]) -> Row:
    return {
        name: [task_text(task) for task in sorted(tasks)] for name, tasks in (("active", active), ("standby", standby))
    }


def _partitions_by_host(row: Row, application: ClassicApplication, plan: ClassicAssignment) -> Row:
    """What the members learn for interactive queries: source partitions of the tasks of each host."""
    first: dict[str, Row] = {}
    for member in row["members"]:
        first.setdefault(member["process"], member)
    hosts = {process: member["endpoint"] for process, member in first.items() if member["endpoint"]}
    return {
        role: {
            host: sorted(
                [
                    list(partition)
                    for task in plan.clients[process][at]
                    for partition in application.source_partitions(task)
                ]
            )
            for process, host in ((process, hosts[process]) for process in plan.clients if process in hosts)
        }
        for at, role in enumerate(("active", "standby"))
    }
