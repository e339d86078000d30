"""Streams groups as a broker's assignor sees them: reads tables, finds faults, and computes Java's orders.

`TABLES` has the tables of the input and their columns, those of a fleet. Groups of other kinds are ignored. Rows are
sorted by their keys, so that their order doesn't matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from spark_assign.assignors.group_facts import REMEDIES as GROUP_REMEDIES
from spark_assign.assignors.group_facts import format_row, join_faults
from spark_assign.assignors.server.coordinator_order import table_slots
from spark_assign.assignors.streams.task_assignor_api import StreamsGroupSpec, StreamsMemberSpec, TaskId
from spark_assign.groups.kernel.tagged_rows import GroupRows, InputTable, find_key_faults, split_tables
from spark_assign.java.hash_map import (
    HashTable,
    compute_if_absent_order,
    java_key,
    string_hash,
    string_hashes,
    text_order,
    text_ranks,
)
from spark_assign.numeric.arrays import MAX_PARTITIONS, values_by_key
from spark_assign.simulation.kernel import simulation_input
from spark_assign.simulation.kernel.settings import GROUP_TIMES
from spark_assign.tables.errors import ROW_REMEDY

_TASK = InputTable(("member_id", "subtopology", "task"), ("role", "changelog_offset"), "duplicate-task")
_OWNED = InputTable(("member_id", "topic", "first", "step", "count"))
_CONFIG = "streams_config", "leader_process_id", "standby_task_order", "leader_version"
_TOPOLOGY = "partitions", "stateful", "source_topics", "changelog_topics"
_PROCESS = "process_id", "position", "rack_id", "client_tags", "error_code", "group_instance_id"
GROWTH = "bytes", "in_bytes_per_second", "in_messages_per_second"
TABLES = {
    "groups": InputTable((), ("group_type", "standby_replicas", *_CONFIG), "duplicate-group"),
    "subtopologies": InputTable(("subtopology",), _TOPOLOGY, "duplicate-subtopology"),
    "members": InputTable(("member_id",), _PROCESS, "duplicate-member"),
    "tasks": _TASK,
    "departed_tasks": _TASK,
    "owned": _OWNED,
    "departed": _OWNED,
    "topics": InputTable(("topic",), ("partitions",)),
    "racks": InputTable(("topic", "partition"), ("racks",)),
    "changelogs": InputTable(("topic", "partition"), ("end_offset", *GROWTH)),
    "events": simulation_input.TABLES["events"],
    "group_times": InputTable(GROUP_TIMES),
    "member_settings": InputTable(("member_id", "group_instance_id")),
    "undescribed": InputTable((), ("error",)),
}
"""The tables of the input. Only classic applications use `owned` to `changelogs`, and only their simulation `events`
to `member_settings`. `departed_tasks` and `departed` are those of members that left; `racks` are those of a partition's
replicas."""

Row = dict[str, Any]


@dataclass(frozen=True)
class StreamsFacts:
    """The input of one group: the rows of each table, sorted by key."""

    cluster: str
    group_id: str
    rows: GroupRows

    @property
    def is_classic(self) -> bool:
        """Whether the leader assigns the tasks, and not the broker."""
        return any(row["group_type"] == "classic" for row in self.rows["groups"])

    @property
    def is_streams_group(self) -> bool:
        """Whether the group is a Streams group: by its `group_type`, or because it has subtopologies or tasks."""
        group_types = {row["group_type"] for row in self.rows["groups"]}
        return "streams" in group_types or any(self.rows[name] for name in ("subtopologies", "tasks", "departed_tasks"))


def read_streams_facts(batch: pa.Table) -> Iterator[StreamsFacts]:
    """Yields the tables of each Streams group, sorted by cluster and group id."""
    for (cluster, group_id), rows in split_tables(batch, ("cluster", "group_id"), TABLES):
        facts = StreamsFacts(cluster, group_id, rows)
        if facts.is_streams_group:
            yield facts


# --- faults -----------------------------------------------------------------------------------------------------------

# A task that doesn't exist and a task with two owners are no faults: the assignor has rules for them.

MAX_TASKS = 200_000
"""Maximum number of tasks of a group. The assignors keep objects per task, in total 6 kB of memory."""

MAX_STANDBYS = 1_000_000
"""Maximum number of standbys of a group: tasks with state, times replicas or members, whatever is fewer."""

MAX_NUMBER = 2**63
"""Largest size, and largest rate per second, of a changelog."""

ROLES = ("active", "standby", "warmup")

REMEDIES = {
    "undescribed": GROUP_REMEDIES["undescribed"],
    "null-key": ROW_REMEDY,
    **{code: GROUP_REMEDIES[code] for code in ("duplicate-member", "duplicate-group")},
    "duplicate-subtopology": "Keep one row per subtopology",
    "bad-standby-replicas": "standby_replicas must be 0 or more",
    "too-many-tasks": f"A group has at most {MAX_TASKS:,} tasks, {MAX_STANDBYS:,} standbys, and {MAX_PARTITIONS:,} "
    "owned partitions. Correct the number",
    "bad-subtopology": "partitions must be 0 or more, and stateful must be true or false",
    "bad-classic-subtopology": "The ID must be a number, as in the task 1_0, and source_topics must have a topic",
    "no-topology": "No tasks are assigned without a topology. Add the subtopologies",
    "unknown-member": GROUP_REMEDIES["unknown-member"],
    "bad-task": "task must be 0 or more, and role active, standby, or warmup, or null if changelog_offset isn't null",
    "bad-classic-task": "The subtopology must be a number, and changelog_offset at least -3",
    "duplicate-task": "Keep one row per member and task",
    "bad-owned": "Ownership must have the topic and partitions of 0 or more",
    "bad-process-id": "The process of a member must be a UUID, or null for a process of its own",
    "bad-streams-config": "Give NAME=VALUE with a name and value of Kafka Streams, and in standby_task_order "
    "tasks with state, each once",
    "unknown-assignor": "Give high-availability, sticky, legacy-sticky, or Kafka's class of one of them",
    "bad-changelog": "Keep one row per topic and partition; all numbers, rates too, must be from 0 to 2^63",
    "unknown-topic": "Members get INCOMPLETE_SOURCE_TOPIC_METADATA and no tasks. Add the topic to topics",
    "no-end-offsets": "Add the end offset of each partition that has a task to changelogs; null if it can't be read",
    "shutdown-requested": "Members get SHUTDOWN_REQUESTED and no tasks. Remove the member's error_code",
}
"""What to do about each fault, by code, the most severe code first."""

_Fault = tuple[str, str]


def find_fault(facts: StreamsFacts, others: Iterable[_Fault] = ()) -> _Fault | None:
    """Returns the code of the most severe fault and the details of all faults; None if there is none.

    Args:
        facts: the facts.
        others: faults that only some assignors have, as code and row.
    """
    found = (*_find_group_faults(facts), *_find_size_faults(facts), *_find_member_faults(facts), *others)
    faults = values_by_key(found)
    return join_faults(faults, REMEDIES) if faults else None


def _find_group_faults(facts: StreamsFacts) -> Iterator[_Fault]:
    """Yields null and repeated keys, and the faults in the rows of the group and of its subtopologies."""
    rows = facts.rows
    for code, name, key in find_key_faults(rows, TABLES):
        yield code, format_row(name.removeprefix("departed_"), **(key or {"group_id": facts.group_id}))
    for row in rows["undescribed"]:
        yield "undescribed", str(row["error"])
    for row in rows["groups"]:
        if (row["standby_replicas"] or 0) < 0:
            yield "bad-standby-replicas", describe("groups", row, "standby_replicas")
    for row in () if facts.is_classic else rows["subtopologies"]:
        if row["stateful"] is None or row["partitions"] is None or row["partitions"] < 0:
            yield "bad-subtopology", describe("subtopologies", row, "subtopology", "partitions", "stateful")
    if rows["members"] and not rows["subtopologies"]:
        yield "no-topology", format_row("subtopologies", group_id=facts.group_id)


def _find_size_faults(facts: StreamsFacts) -> Iterator[_Fault]:
    """Yields numbers of tasks and owned partitions that are too large. Nothing is expanded."""
    rows = facts.rows
    numbers = [row["partitions"] for row in rows["subtopologies"]]
    if facts.is_classic:
        sizes = {row["topic"]: row["partitions"] or 0 for row in rows["topics"]}
        sources = [row["source_topics"] or () for row in rows["subtopologies"]]
        numbers = [max((sizes.get(topic, 0) for topic in topics), default=0) for topics in sources]
    if (tasks := sum(max(number or 0, 0) for number in numbers)) > MAX_TASKS:
        yield "too-many-tasks", format_row("subtopologies", tasks=tasks)
    has_state = [row["stateful"] or row["changelog_topics"] for row in rows["subtopologies"]]
    copied = sum(max(number or 0, 0) for number, each in zip(numbers, has_state, strict=True) if each)
    replicas = max((row["standby_replicas"] or 0 for row in rows["groups"]), default=0)
    if copied * min(replicas, len(rows["members"])) > MAX_STANDBYS:
        yield "too-many-tasks", format_row("groups", standby_replicas=replicas)
    if (partitions := sum(max(row["count"] or 0, 0) for row in (*rows["owned"], *rows["departed"]))) > MAX_PARTITIONS:
        yield "too-many-tasks", format_row("owned", partitions=partitions)


def describe(table: str, row: Row, *names: str) -> str:
    """Returns the text of these columns of a row."""
    return format_row(table, **{name: row[name] for name in names})


def _find_member_faults(facts: StreamsFacts) -> Iterator[_Fault]:
    """Yields the faults in the rows of members and tasks."""
    member_ids = {None, *(row["member_id"] for row in facts.rows["members"])}
    for row in facts.rows["tasks"]:
        if row["member_id"] not in member_ids:
            yield "unknown-member", describe("tasks", row, "member_id")
    for row in (*facts.rows["tasks"], *facts.rows["departed_tasks"]):
        if (row["task"] or 0) < 0 or not _has_role_or_offset(row):
            yield "bad-task", describe("tasks", row, *_TASK.key, "role", "changelog_offset")


def _has_role_or_offset(row: Row) -> bool:
    return row["changelog_offset"] is not None if row["role"] is None else row["role"] in ROLES


# --- Java's orders, which decide between equal loads ------------------------------------------------------------------


def member_order(member_ids: Sequence[str], positions: Sequence[int | None]) -> list[int]:
    """Returns the indexes of members in the order in which an assignor sees them.

    The coordinator copies its table of members into a `HashMap` by member id (`TargetAssignmentBuilder`).

    Args:
        member_ids: ids of the members, ascending.
        positions: position of each member in the coordinator's list; if all are None, the order of the coordinator's
            table is computed from the ids.
    """
    if any(position is not None for position in positions):
        coordinator_order = sorted(range(len(member_ids)), key=lambda at: (positions[at] is None, positions[at] or 0))
    else:
        slots = table_slots(string_hashes(member_ids), np.zeros(len(member_ids), np.int64)).tolist()
        coordinator_order = sorted(range(len(member_ids)), key=slots.__getitem__)
    return [coordinator_order[at] for at in text_order([member_ids[at] for at in coordinator_order])]


def process_order(processes: Sequence[str], *, release_4_3: bool = False) -> list[str]:
    """Returns the processes in the iteration order of the `HashMap` of `StickyTaskAssignor`.

    The initial capacity of the map is the number of members.

    Args:
        processes: process of each member, in the order of the members.
        release_4_3: whether to follow 4.2 and 4.3, which call `putIfAbsent`; 4.4 calls `computeIfAbsent`.
    """
    capacity = 1 << max(len(processes) - 1, 0).bit_length()
    if release_4_3:
        table: HashTable[str] = HashTable(capacity)
        for process in processes:
            table.add(process, string_hash(process))
        return table.iteration_order()
    names = list(dict.fromkeys(processes))
    index = {name: at for at, name in enumerate(names)}
    calls = np.array([index[process] for process in processes], np.int64)
    maps = np.zeros(len(calls), np.int64)
    order = compute_if_absent_order(calls, maps, string_hashes(names), text_ranks(names), np.array([capacity]))
    return [names[at] for at in order.tolist()]


def process_hash_order(
    member_ids: Sequence[str], processes: Sequence[str], *, release_4_3: bool = False
) -> list[tuple[str, list[int]]]:
    """Returns processes with their members, as in `assignors.streams.task_assignor_api.StreamsGroupSpec`.

    A process keeps its members in a `HashMap` (`ProcessState`).

    Args:
        member_ids, processes: id and process of each member, in the order of the members.
        release_4_3: see `process_order`.
    """
    members = values_by_key((process, member) for member, process in enumerate(processes))
    return [
        (process, [members[process][at] for at in text_order([member_ids[member] for member in members[process]])])
        for process in process_order(processes, release_4_3=release_4_3)
    ]


# --- input of an assignor ---------------------------------------------------------------------------------------------

TasksByRole = dict[str, dict[TaskId, list[str]]]
"""Owners by role and task, in the order of the members."""


@dataclass(frozen=True)
class StreamsGroupInput:
    """A valid group.

    Attributes:
        group: the assignor's view of the group.
        subtopology_names: names of the subtopologies of the group, followed by those that only tasks refer to.
        current: current owners of tasks, among live members.
        departed: owners of tasks that left the group.
        process: process of each member.
        previous_tasks: members with the tasks that they own in any role or report an offset of.
        state_offsets: for each process and task of `previous_tasks`, the highest reported offset; None if there is
            none.
    """

    group: StreamsGroupSpec
    subtopology_names: Sequence[str]
    current: TasksByRole
    departed: TasksByRole
    process: dict[str, str]
    previous_tasks: set[tuple[str, TaskId]]
    state_offsets: dict[tuple[str, TaskId], int | None]


def read_group_input(facts: StreamsFacts, *, release_4_3: bool, standby_replicas: int | None) -> StreamsGroupInput:
    """Reads the facts of a group, and replaces names of subtopologies by indexes.

    Args:
        facts: the facts of a valid group.
        release_4_3: whether the assignor is that of 4.2 and 4.3.
        standby_replicas: overrides the group's configuration if it isn't None.
    """
    topology = sorted(facts.rows["subtopologies"], key=lambda row: java_key(row["subtopology"]))
    ids = [row["subtopology"] for row in topology]
    of_tasks = {row["subtopology"] for name in ("tasks", "departed_tasks") for row in facts.rows[name]}
    names = ids + sorted(of_tasks - set(ids))
    index = {name: at for at, name in enumerate(names)}
    member_tasks = values_by_key(
        (row["member_id"], ((index[row["subtopology"]], row["task"]), row)) for row in facts.rows["tasks"]
    )
    rows = facts.rows["members"]
    order = member_order([row["member_id"] for row in rows], [row["position"] for row in rows])
    members = [_read_member(rows[at], member_tasks.get(rows[at]["member_id"], [])) for at in order]
    configured = next((row["standby_replicas"] for row in facts.rows["groups"]), None) or 0
    member_ids, processes = [member.member_id for member in members], [member.process_id for member in members]
    group = StreamsGroupSpec(
        members,
        process_hash_order(member_ids, processes, release_4_3=release_4_3),
        ids,
        [row["partitions"] for row in topology],
        [row["stateful"] for row in topology],
        configured if standby_replicas is None else standby_replicas,
    )
    current: TasksByRole = {role: {} for role in ROLES}
    departed: TasksByRole = {role: {} for role in ROLES}
    previous_tasks, state_offsets = set[tuple[str, TaskId]](), dict[tuple[str, TaskId], int | None]()
    for member in members:
        for task, row in member_tasks.get(member.member_id, ()):
            if row["role"] is not None:
                current[row["role"]].setdefault(task, []).append(member.member_id)
            previous_tasks.add((member.member_id, task))
            highest = state_offsets.setdefault((member.process_id, task), row["changelog_offset"])
            if row["changelog_offset"] is not None and (highest is None or highest < row["changelog_offset"]):
                state_offsets[member.process_id, task] = row["changelog_offset"]
    for row in facts.rows["departed_tasks"]:
        if row["role"] is not None:
            departed[row["role"]].setdefault((index[row["subtopology"]], row["task"]), []).append(row["member_id"])
    process = dict(zip(member_ids, processes, strict=True))
    return StreamsGroupInput(group, names, current, departed, process, previous_tasks, state_offsets)


def _read_member(member: Row, tasks: Sequence[tuple[TaskId, Row]]) -> StreamsMemberSpec:
    return StreamsMemberSpec(
        member["member_id"],
        member["member_id"] if member["process_id"] is None else member["process_id"],
        active=[task for task, row in tasks if row["role"] == "active"],
        standby=[task for task, row in tasks if row["role"] == "standby"],
        offsets={task: offset for task, row in tasks if (offset := row["changelog_offset"]) is not None},
    )
