"""The recorded rows of Streams groups (`README-848.md`, section 5), and what our kernels make of each."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from spark_assign import Fleet
from spark_assign.java.hash_map import java_key
from spark_assign.streams.kernel import task_assignor_api
from spark_assign.streams.kernel.streams_group_input import FACTS, GROUP, MEMBER, SUBTOPOLOGY, TASK, process_hash_order
from spark_assign.tables.groups import INPUT_TABLES, ONLY_IF_GIVEN
from tests.frames import dataframe, merged
from tests.recorded_lines import read_rows

Row = dict[str, Any]
Sets = dict[str, set[tuple[str, str, int]]]
"""member id -> role, subtopology and number; a member that gets nothing has no entry."""

ROWS = 500
FILE_4_2_2 = Path(__file__).parent / "streams-groups-4.2.2.jsonl.gz"
"""Rows of streams-sticky from Kafka 4.2.2, of which both 4.2.1 and 4.4.0 answer 100 otherwise."""
GROUP_ID = "group"
TABLES = ("topics", "members", "subscriptions", "groups", "subtopologies", "tasks")
_RENAMED = {
    GROUP: {"group_type": "text", "standby_replicas": "number"},
    SUBTOPOLOGY: {"subtopology": "name", "partitions": "number"},
    MEMBER: {"process_id": "name", "position": "number"},
    TASK: {"subtopology": "name", "task": "number", "role": "text", "changelog_offset": "offset"},
}


def rows(system: str) -> list[Row]:
    """Those of an assignor: streams-sticky or streams-mock."""
    every = read_rows(Path(__file__).parent / "streams-groups.jsonl.gz")
    assert len(every) == ROWS
    return [row for row in every if row["system"] == system]


def expected(row: Row) -> Sets:
    """What Kafka's class answered."""
    pairs = row["expect"].items()
    sets = {m: {(r, s, a) for r in ("active", "standby") for s, t in g.get(r, {}).items() for a in t} for m, g in pairs}
    return {member: got for member, got in sets.items() if got}


def group_of(row: Row, *, release: str = "4.4") -> task_assignor_api.StreamsGroupSpec:
    """A row as an assignor sees it, in the recorded order of members."""
    ids = sorted(row["subtopologies"], key=java_key)
    number = {subtopology: at for at, subtopology in enumerate(ids)}
    for member in row["members"]:  # of subtopologies that are gone: any number will do
        for subtopology in (*member["active"], *member["standby"], *member["offsets"]):
            number.setdefault(subtopology, len(number))

    def tasks(values: dict[str, Iterable[Any]]) -> list[task_assignor_api.TaskId]:
        return [(number[subtopology], int(task)) for subtopology, listed in values.items() for task in listed]

    members = [
        task_assignor_api.StreamsMemberSpec(
            m["id"],
            m["process"],
            active=tasks(m["active"]),
            standby=tasks(m["standby"]),
            offsets={(number[s], int(t)): f for s, o in m["offsets"].items() for t, f in o.items()},
        )
        for m in row["members"]
    ]
    named = [member.member_id for member in members], [member.process_id for member in members]
    return task_assignor_api.StreamsGroupSpec(
        members,
        process_hash_order(*named, release_4_3=release != "4.4"),
        ids,
        [row["subtopologies"][subtopology]["partitions"] for subtopology in ids],
        [row["subtopologies"][subtopology]["stateful"] for subtopology in ids],
        row["standby_replicas"],
    )


def sets_of(group: task_assignor_api.StreamsGroupSpec, target: task_assignor_api.StreamsGroupAssignment) -> Sets:
    """A target by names; nobody may have a task twice."""
    sets: Sets = {}
    given = [("active", task, member) for task, member in target.active.items()]
    given += [("standby", task, member) for task, members in target.standby.items() for member in members]
    for role, (subtopology, task), member in given:
        got = sets.setdefault(group.members[member].member_id, set())
        assert (role, group.subtopologies[subtopology], task) not in got
        got.add((role, group.subtopologies[subtopology], task))
    return sets


def table_rows(row: Row) -> dict[str, list[tuple[Any, ...]]]:
    """A row as rows of a Fleet's tables, its case being a cluster."""
    group = (row["case"], GROUP_ID)
    tables: dict[str, list[tuple[Any, ...]]] = {name: [] for name in TABLES}
    tables["groups"] = [(*group, None, "streams", *[None] * 4, row["standby_replicas"], None)]
    tables["subtopologies"] = [(*group, name, *p.values()) for name, p in row["subtopologies"].items()]
    for position, member in enumerate(row["members"]):
        key = (*group, member["id"])
        tables["members"].append((*key, *([None] * 6), position, member["process"]))
        offsets = {(name, int(task)): at for name, of in member["offsets"].items() for task, at in of.items()}
        for role in ("active", "standby", "warmup"):
            for name, tasks in member[role].items():
                for task in tasks:
                    tables["tasks"].append((*key, name, task, role, offsets.pop((name, task), None)))
        tables["tasks"] += [(*key, *task, None, offset) for task, offset in offsets.items()]
    return tables


def fleet_of(spark: SparkSession, rows: Iterable[Row]) -> Fleet:
    """One Fleet in which every row is a cluster with one group."""
    tables = merged(map(table_rows, rows)).items()
    return Fleet(**{name: dataframe(spark, INPUT_TABLES[name], lines) for name, lines in tables})


def facts_of(rows: Iterable[Row]) -> pa.Table:
    """The same as the kernel's facts (`streams.kernel.streams_group_input`)."""
    facts: list[dict[str, Any]] = []
    for row in rows:
        tables = table_rows(row)
        for kind, table in ((GROUP, "groups"), (SUBTOPOLOGY, "subtopologies"), (MEMBER, "members"), (TASK, "tasks")):
            names = [field.name for field in INPUT_TABLES[table] if field.metadata != ONLY_IF_GIVEN]
            for line in tables[table]:
                values = dict(zip(names, line, strict=True))
                renamed = {_RENAMED[kind].get(name, name): value for name, value in values.items()}
                facts.append({name: value for name, value in renamed.items() if name in FACTS.names} | {"kind": kind})
    return pa.Table.from_pylist(facts, FACTS)


def planned_sets(tasks: Iterable[Row]) -> dict[str, Sets]:
    """Rows of `StreamsPlan.tasks` by case; nobody may have a task twice."""
    planned: dict[str, Sets] = {}
    for row in tasks:
        got = planned.setdefault(row["cluster"], {}).setdefault(row["member_id"], set())
        assert not any((role, row["subtopology"], row["task"]) in got for role in ("active", "standby"))
        got.add((row["role"], row["subtopology"], row["task"]))
    return planned
