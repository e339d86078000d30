"""Streams groups as a broker's assignor sees them: reads facts, finds faults, and computes Java's orders.

The `kind` of a fact determines the columns that it uses:

    GROUP           text (group_type), number (standby replicas), more (columns of `groups` for classic applications)
    SUBTOPOLOGY     name, number (number of tasks), stateful, more (its topics)
    MEMBER          member_id, name (process; null: a process of its own), number (position), more (rack, tags, error)
    TASK            member_id, name (subtopology), number, text (role; null: the member reports an offset only), offset
    DEPARTED_TASK   the columns of TASK, for a member that left

Only for classic applications (`classic_group_input`)

    OWNED           member_id, name (topic), more (slice of partitions)
    DEPARTED_OWNED  the columns of OWNED, for a member that left
    TOPIC           name, number (partitions)
    RACKS           name (topic), number (partition), more (racks of the replicas)
    CHANGELOG       name (topic), number (partition), offset (end offset), more (size, rates)

Only in a simulation (`simulate_applications`)

    EVENT           more (a row of the events)
    SETTINGS        member_id (null: the group), more (times of the group, or settings of the member)

`more` has columns as JSON. Groups of other kinds are ignored. Rows are sorted first, so that their order doesn't
matter.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from spark_assign.groups.assignors.server.coordinator_order import table_slots
from spark_assign.groups.kernel.faults import format_row
from spark_assign.java.hash_map import (
    HashTable,
    compute_if_absent_order,
    java_key,
    string_hash,
    string_hashes,
    text_order,
    text_ranks,
)
from spark_assign.numeric.partition_slices import MAX_PARTITIONS
from spark_assign.streams.kernel.task_assignor_api import StreamsGroupSpec, StreamsMemberSpec, TaskId

GROUP, SUBTOPOLOGY, MEMBER, TASK, DEPARTED_TASK, OWNED, DEPARTED_OWNED, TOPIC, RACKS, CHANGELOG = range(10)
EVENT, SETTINGS = 10, 11
FACTS = pa.schema(
    {
        "cluster": pa.string(),
        "group_id": pa.string(),
        "kind": pa.int8(),
        "member_id": pa.string(),
        "name": pa.string(),
        "number": pa.int32(),
        "stateful": pa.bool_(),
        "text": pa.string(),
        "more": pa.string(),
        "offset": pa.int64(),
    }
)

Row = dict[str, Any]


@dataclass(frozen=True)
class StreamsFacts:
    """The facts of one group: the rows of each kind, sorted by their columns."""

    cluster: str
    group_id: str
    rows: dict[int, list[Row]] = field(default_factory=lambda: {kind: [] for kind in range(SETTINGS + 1)})

    @property
    def is_classic(self) -> bool:
        """Whether the leader assigns the tasks, and not the broker."""
        return any(row["text"] == "classic" for row in self.rows[GROUP])

    @property
    def is_streams_group(self) -> bool:
        """Whether the group is a Streams group: by its `group_type`, or because it has subtopologies or tasks."""
        group_types = {row["text"] for row in self.rows[GROUP]}
        return "streams" in group_types or any(self.rows[kind] for kind in (SUBTOPOLOGY, TASK, DEPARTED_TASK))


def read_streams_facts(fact_table: pa.Table) -> Iterator[StreamsFacts]:
    """Yields the facts of each Streams group, sorted by cluster and group id."""
    names = [name for name in FACTS.names if name != "offset"]
    ordered = fact_table.sort_by([(name, "ascending") for name in [*names, "offset"]])
    for (cluster, group_id), rows in groupby(ordered.to_pylist(), itemgetter("cluster", "group_id")):
        facts = StreamsFacts(cluster, group_id)
        for row in rows:
            facts.rows[row["kind"]].append(row)
        if facts.is_streams_group:
            yield facts


# --- faults -----------------------------------------------------------------------------------------------------------

# A task that doesn't exist and a task with two owners are no faults: the assignor has rules for them.

MAX_TASKS = 200_000
"""Maximum number of tasks of a group. The assignors keep objects per task, in total 6 kB of memory."""

ROLES = ("active", "standby", "warmup")

REMEDIES = {
    "null-key": "Add the value, or remove the row",
    "duplicate-member": "Keep one row per member",
    "duplicate-group": "Keep one row per group",
    "duplicate-subtopology": "Keep one row per subtopology",
    "bad-standby-replicas": "standby_replicas must be 0 or more",
    "too-many-tasks": f"A group has at most {MAX_TASKS:,} tasks and {MAX_PARTITIONS:,} owned partitions. Correct "
    "the number",
    "bad-subtopology": "partitions must be 0 or more, and stateful must be true or false",
    "bad-classic-subtopology": "The ID must be a number, as in the task 1_0, and source_topics must have a topic",
    "no-topology": "No tasks are assigned without a topology. Add the subtopologies",
    "unknown-member": "Add the member to members, or remove its rows (Fleet.with_members_left does so)",
    "bad-task": "task must be 0 or more, and role active, standby, or warmup, or null if changelog_offset isn't null",
    "bad-classic-task": "The subtopology must be a number, and changelog_offset at least -3",
    "duplicate-task": "Keep one row per member and task",
    "bad-owned": "Ownership must have the topic and partitions of 0 or more",
    "bad-process-id": "The process of a member must be a UUID, or null for a process of its own",
    "bad-streams-config": "Give NAME=VALUE with a name and value of Kafka Streams",
    "unknown-assignor": "Give high-availability, sticky, legacy-sticky, or Kafka's class of one of them",
    "bad-changelog": "Keep one row per topic and partition; both, and the end offset, must be 0 or more",
    "unknown-topic": "Members get INCOMPLETE_SOURCE_TOPIC_METADATA and no tasks. Add the topic to topics",
    "no-end-offsets": "Add the end offset of each partition that has a task to changelogs; null if it can't be read",
    "shutdown-requested": "Members get SHUTDOWN_REQUESTED and no tasks. Remove the member's error_code",
}
"""What to do about each fault, by code, the most severe code first."""

_Fault = tuple[str, str]


def find_fault(facts: StreamsFacts, more: Iterable[_Fault] = ()) -> _Fault | None:
    """Returns the code of the most severe fault and the details of all faults; None if there is none.

    Args:
        facts: the facts.
        more: more faults, as code and row.
    """
    faults: dict[str, list[str]] = {}
    for code, row in (
        *_find_group_faults(facts),
        *_find_size_faults(facts),
        *_find_member_faults(facts),
        *_find_task_faults(facts),
        *more,
    ):
        faults.setdefault(code, []).append(row)
    codes = sorted(faults, key=list(REMEDIES).index)
    return (codes[0], "; ".join(_detail(code, faults[code]) for code in codes)) if codes else None


def _detail(code: str, rows: list[str]) -> str:
    more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
    return f"{min(rows)}{more}. {REMEDIES[code]}"


def _find_group_faults(facts: StreamsFacts) -> Iterator[_Fault]:
    """Yields the faults in the rows of the group and of its subtopologies."""
    rows = facts.rows[GROUP]
    for _ in rows[1:]:
        yield "duplicate-group", format_row("groups", group_id=facts.group_id)
    for row in rows:
        if (row["number"] or 0) < 0:
            yield "bad-standby-replicas", format_row("groups", standby_replicas=row["number"])
    for name, times in Counter(row["name"] for row in facts.rows[SUBTOPOLOGY]).items():
        for _ in range(times - 1):
            yield "duplicate-subtopology", format_row("subtopologies", subtopology=name)
    for row in facts.rows[SUBTOPOLOGY]:
        if row["name"] is None:
            yield "null-key", format_row("subtopologies", subtopology=None)
        elif not facts.is_classic and (row["stateful"] is None or row["number"] is None or row["number"] < 0):
            columns = {"subtopology": row["name"], "partitions": row["number"], "stateful": row["stateful"]}
            yield "bad-subtopology", format_row("subtopologies", **columns)
    if facts.rows[MEMBER] and not facts.rows[SUBTOPOLOGY]:
        yield "no-topology", format_row("subtopologies", group_id=facts.group_id)


def _find_size_faults(facts: StreamsFacts) -> Iterator[_Fault]:
    """Yields numbers of tasks and owned partitions that are too large. Nothing is expanded."""
    numbers = [row["number"] for row in facts.rows[SUBTOPOLOGY]]
    if facts.is_classic:
        sizes = {row["name"]: row["number"] or 0 for row in facts.rows[TOPIC]}
        sources = [read_more(row).get("source_topics") or () for row in facts.rows[SUBTOPOLOGY]]
        numbers = [max((sizes.get(topic, 0) for topic in topics), default=0) for topics in sources]
    if (tasks := sum(max(number or 0, 0) for number in numbers)) > MAX_TASKS:
        yield "too-many-tasks", format_row("subtopologies", tasks=tasks)
    owned = facts.rows[OWNED] + facts.rows[DEPARTED_OWNED]
    if (partitions := sum(max(read_more(row).get("count") or 0, 0) for row in owned)) > MAX_PARTITIONS:
        yield "too-many-tasks", format_row("owned", partitions=partitions)


def read_more(row: Row) -> dict[str, Any]:
    """Returns the columns in `more`."""
    return json.loads(row["more"]) if row["more"] else {}


def _find_member_faults(facts: StreamsFacts) -> Iterator[_Fault]:
    for name, times in Counter(row["member_id"] for row in facts.rows[MEMBER]).items():
        if name is None:
            yield "null-key", format_row("members", member_id=None)
        for _ in range(times - 1):
            yield "duplicate-member", format_row("members", member_id=name)


def _find_task_faults(facts: StreamsFacts) -> Iterator[_Fault]:
    """Yields the faults in the rows of tasks."""
    member_ids = {row["member_id"] for row in facts.rows[MEMBER]}
    for row in facts.rows[TASK]:
        if row["member_id"] is not None and row["member_id"] not in member_ids:
            yield "unknown-member", format_row("tasks", member_id=row["member_id"])
    for row in (*facts.rows[TASK], *facts.rows[DEPARTED_TASK]):
        key = {"member_id": row["member_id"], "subtopology": row["name"], "task": row["number"]}
        if None in key.values():
            yield "null-key", format_row("tasks", **key)
        elif row["number"] < 0 or not _has_role_or_offset(row):
            yield "bad-task", format_row("tasks", **key, role=row["text"], changelog_offset=row["offset"])
    for kind in (TASK, DEPARTED_TASK):
        keys = Counter((row["member_id"], row["name"], row["number"]) for row in facts.rows[kind])
        for (member, name, number), times in keys.items():
            for _ in range(times - 1):
                yield "duplicate-task", format_row("tasks", member_id=member, subtopology=name, task=number)


def _has_role_or_offset(row: Row) -> bool:
    return row["offset"] is not None if row["text"] is None else row["text"] in ROLES


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
    """Returns processes with their members, as in `streams.kernel.task_assignor_api.StreamsGroupSpec`.

    A process keeps its members in a `HashMap` (`ProcessState`).

    Args:
        member_ids, processes: id and process of each member, in the order of the members.
        release_4_3: see `process_order`.
    """
    members: dict[str, list[int]] = {}
    for member, process in enumerate(processes):
        members.setdefault(process, []).append(member)
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
    topology = sorted(facts.rows[SUBTOPOLOGY], key=lambda row: java_key(row["name"]))
    ids = [row["name"] for row in topology]
    names = ids + sorted({row["name"] for kind in (TASK, DEPARTED_TASK) for row in facts.rows[kind]} - set(ids))
    index = {name: at for at, name in enumerate(names)}
    member_tasks: dict[str, list[tuple[TaskId, Row]]] = {}
    for row in facts.rows[TASK]:
        member_tasks.setdefault(row["member_id"], []).append(((index[row["name"]], row["number"]), row))
    rows = facts.rows[MEMBER]
    order = member_order([row["member_id"] for row in rows], [row["number"] for row in rows])
    members = [_read_member(rows[at], member_tasks.get(rows[at]["member_id"], [])) for at in order]
    configured = next((row["number"] for row in facts.rows[GROUP]), None) or 0
    member_ids, processes = [member.member_id for member in members], [member.process_id for member in members]
    group = StreamsGroupSpec(
        members,
        process_hash_order(member_ids, processes, release_4_3=release_4_3),
        ids,
        [row["number"] for row in topology],
        [row["stateful"] for row in topology],
        configured if standby_replicas is None else standby_replicas,
    )
    current: TasksByRole = {role: {} for role in ROLES}
    departed: TasksByRole = {role: {} for role in ROLES}
    previous_tasks, state_offsets = set[tuple[str, TaskId]](), dict[tuple[str, TaskId], int | None]()
    for member in members:
        for task, row in member_tasks.get(member.member_id, ()):
            if row["text"] is not None:
                current[row["text"]].setdefault(task, []).append(member.member_id)
            previous_tasks.add((member.member_id, task))
            highest = state_offsets.setdefault((member.process_id, task), row["offset"])
            if row["offset"] is not None and (highest is None or highest < row["offset"]):
                state_offsets[member.process_id, task] = row["offset"]
    for row in facts.rows[DEPARTED_TASK]:
        if row["text"] is not None:
            departed[row["text"]].setdefault((index[row["name"]], row["number"]), []).append(row["member_id"])
    process = dict(zip(member_ids, processes, strict=True))
    return StreamsGroupInput(group, names, current, departed, process, previous_tasks, state_offsets)


def _read_member(row: Row, tasks: Sequence[tuple[TaskId, Row]]) -> StreamsMemberSpec:
    return StreamsMemberSpec(
        row["member_id"],
        row["member_id"] if row["name"] is None else row["name"],
        active=[task for task, task_row in tasks if task_row["text"] == "active"],
        standby=[task for task, task_row in tasks if task_row["text"] == "standby"],
        offsets={task: task_row["offset"] for task, task_row in tasks if task_row["offset"] is not None},
    )
