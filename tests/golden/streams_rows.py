"""The recorded rows of Streams groups (`README-848.md`, section 5), and what our kernels make of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from spark_assign import Fleet
from spark_assign.assignors.streams.task_assignor_api import (
    StreamsGroupAssignment,
    StreamsGroupSpec,
    StreamsMemberSpec,
    TaskId,
)
from spark_assign.groups.kernel.tagged_rows import InputTable, rows_of_tables
from spark_assign.java.hash_map import java_key
from spark_assign.streams.kernel.streams_group_input import TABLES as INPUT
from spark_assign.streams.kernel.streams_group_input import process_hash_order
from spark_assign.tables.groups import INPUT_TABLES
from spark_assign.tables.schema_fields import ONLY_IF_GIVEN
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


def rows(system: str) -> list[Row]:
    """Those of an assignor: streams-sticky or streams-mock."""
    every = read_rows(Path(__file__).parent / "streams-groups.jsonl.gz")
    assert len(every) == ROWS
    return [row for row in every if row["system"] == system]


def expected(row: Row) -> Sets:
    """What Kafka's class answered."""
    sets = {
        member: {
            (role, subtopology, task)
            for role in ("active", "standby")
            for subtopology, tasks in got.get(role, {}).items()
            for task in tasks
        }
        for member, got in row["expect"].items()
    }
    return {member: got for member, got in sets.items() if got}


def group_of(row: Row, *, release: str = "4.4") -> StreamsGroupSpec:
    """A row as an assignor sees it, in the recorded order of members."""
    ids = sorted(row["subtopologies"], key=java_key)
    number = {subtopology: at for at, subtopology in enumerate(ids)}
    for member in row["members"]:  # of subtopologies that are gone: any number will do
        for subtopology in (*member["active"], *member["standby"], *member["offsets"]):
            number.setdefault(subtopology, len(number))

    def tasks(values: dict[str, Iterable[Any]]) -> list[TaskId]:
        return [(number[subtopology], int(task)) for subtopology, listed in values.items() for task in listed]

    members = [
        StreamsMemberSpec(
            member["id"],
            member["process"],
            active=tasks(member["active"]),
            standby=tasks(member["standby"]),
            offsets={
                (number[subtopology], int(task)): offset
                for subtopology, of_task in member["offsets"].items()
                for task, offset in of_task.items()
            },
        )
        for member in row["members"]
    ]
    named = [member.member_id for member in members], [member.process_id for member in members]
    return StreamsGroupSpec(
        members,
        process_hash_order(*named, release_4_3=release != "4.4"),
        ids,
        [row["subtopologies"][subtopology]["partitions"] for subtopology in ids],
        [row["subtopologies"][subtopology]["stateful"] for subtopology in ids],
        row["standby_replicas"],
    )


def sets_of(group: StreamsGroupSpec, target: StreamsGroupAssignment) -> Sets:
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
    tables["subtopologies"] = [
        (*group, name, *partitions_of.values()) for name, partitions_of in row["subtopologies"].items()
    ]
    for position, member in enumerate(row["members"]):
        key = (*group, member["id"])
        nothing = [None] * 6
        tables["members"].append((*key, *nothing, position, member["process"]))
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
    """The same as the kernel's input (`streams.kernel.streams_group_input`)."""
    facts: list[Row] = []
    for row in rows:
        for table, lines in table_rows(row).items():
            names = [field.name for field in INPUT_TABLES[table] if field.metadata != ONLY_IF_GIVEN]
            facts += ({"table": table, **dict(zip(names, line, strict=True))} for line in lines if table in INPUT)
    return one_table(facts)


def one_table(rows: Iterable[Row], tables: Mapping[str, InputTable] = INPUT, cluster: str = "c") -> pa.Table:
    """Rows that name their `table`, as a kernel reads them; by default of group g."""
    of_tables: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        of_tables[row["table"]].append({"cluster": cluster, "group_id": "g"} | row)
    return rows_of_tables(of_tables, ("cluster", "group_id"), tables)


def planned_sets(tasks: Iterable[Row]) -> dict[str, Sets]:
    """Rows of `StreamsPlan.tasks` by case; nobody may have a task twice."""
    planned: dict[str, Sets] = {}
    for row in tasks:
        got = planned.setdefault(row["cluster"], {}).setdefault(row["member_id"], set())
        assert not any((role, row["subtopology"], row["task"]) in got for role in ("active", "standby"))
        got.add((row["role"], row["subtopology"], row["task"]))
    return planned
