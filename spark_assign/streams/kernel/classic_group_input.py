"""Classic Streams applications as their leader sees them: reads facts and finds faults.

The tables of the input are in `streams_group_input`. A group is classic if `groups` has it with `group_type` classic;
it is an application if it has subtopologies or tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from math import inf
from typing import Any
from uuid import NAMESPACE_OID, UUID, uuid5

from spark_assign.assignors.group_facts import format_row
from spark_assign.assignors.streams.classic_application import (
    BALANCE_SUBTOPOLOGY,
    HIGH_AVAILABILITY,
    LEGACY_STICKY,
    MIN_TRAFFIC,
    NO_RACKS,
    RUNNING,
    STICKY,
    UNKNOWN,
    ClassicApplication,
    ClassicConfig,
    ClassicMember,
    ClassicSubtopology,
    TopicPartition,
)
from spark_assign.assignors.streams.leader_releases import find_rules
from spark_assign.assignors.streams.streams_partition_assignor import SHUTDOWN_REQUESTED
from spark_assign.assignors.streams.task_assignor_api import StreamsGroupSpec, StreamsMemberSpec, TaskId
from spark_assign.streams.kernel.changelogs import Changelogs
from spark_assign.streams.kernel.streams_group_input import (
    GROWTH,
    MAX_NUMBER,
    MAX_STANDBYS,
    ROLES,
    Row,
    StreamsFacts,
    StreamsGroupInput,
    TasksByRole,
    describe,
    find_fault,
    member_order,
)
from spark_assign.streams.topology import split_names

_INTERNALS = "org.apache.kafka.streams.processor.internals.assignment."
_ASSIGNORS = {name: name for name in (HIGH_AVAILABILITY, STICKY, LEGACY_STICKY)} | {
    f"{_INTERNALS}HighAvailabilityTaskAssignor": HIGH_AVAILABILITY,
    f"{_INTERNALS}LegacyStickyTaskAssignor": LEGACY_STICKY,
    f"{_INTERNALS}StickyTaskAssignor": LEGACY_STICKY,  # its name before 3.8
    "org.apache.kafka.streams.processor.assignment.assignors.StickyTaskAssignor": STICKY,
}
"""Task assignors by our names, and by those of Kafka's classes."""


def _number(text: str, most: int) -> int:
    if not 0 <= (number := int(text)) <= most or "_" in text:
        raise ValueError
    return number


_read_int, _read_long = partial(_number, most=2**31 - 1), partial(_number, most=2**63 - 1)


_STRATEGIES = {name: name for name in (NO_RACKS, MIN_TRAFFIC, BALANCE_SUBTOPOLOGY)}
_ASSIGNOR = "assignor"
_LEAVES = "leaves_on_close"
_SETTINGS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "task.assignor.class": (_ASSIGNOR, _ASSIGNORS.__getitem__),
    "internal.task.assignor.class": (_ASSIGNOR, _ASSIGNORS.__getitem__),
    "acceptable.recovery.lag": ("acceptable_recovery_lag", _read_long),
    "max.warmup.replicas": ("max_warmup_replicas", _read_int),
    "num.standby.replicas": ("num_standby_replicas", _read_int),
    "probing.rebalance.interval.ms": ("probing_rebalance_interval_ms", _read_long),
    "rack.aware.assignment.strategy": ("rack_aware_strategy", _STRATEGIES.__getitem__),
    "rack.aware.assignment.traffic_cost": ("traffic_cost", _read_int),
    "rack.aware.assignment.non_overlap_cost": ("non_overlap_cost", _read_int),
    "rack.aware.assignment.tags": ("rack_aware_tags", split_names),
    "internal.leave.group.on.close": (_LEAVES, {"true": True, "false": False}.__getitem__),
}
"""Attribute of `ClassicConfig`, and reader of the value, for each setting of Kafka Streams."""

_Fault = tuple[str, str]


def find_classic_fault(facts: StreamsFacts) -> _Fault | None:
    """Returns the code of the most severe fault and the details of all faults; None if there is none."""
    return find_fault(facts, [*_find_config_faults(facts), *_find_row_faults(facts)]) or find_fault(
        facts, _find_topic_faults(facts)
    )


def _find_config_faults(facts: StreamsFacts) -> Iterator[_Fault]:
    for row in facts.rows["groups"]:
        for text in row["streams_config"] or ():
            try:
                _read_setting(text)
            except (AttributeError, KeyError, ValueError):  # the first: null
                is_assignor = _SETTINGS.get(str(text).partition("=")[0], ("",))[0] == _ASSIGNOR
                code = "unknown-assignor" if is_assignor else "bad-streams-config"
                yield code, format_row("groups", group_id=facts.group_id, streams_config=text)


def _find_row_faults(facts: StreamsFacts) -> Iterator[_Fault]:
    """Yields the faults in single rows of subtopologies, members, tasks, and ownership."""
    rows = facts.rows
    for row in rows["subtopologies"]:
        if not _is_id(row["subtopology"]) or not row["source_topics"]:
            yield "bad-classic-subtopology", describe("subtopologies", row, "subtopology", "source_topics")
    for row in rows["members"]:
        if row["process_id"] is not None and not _is_uuid(row["process_id"]):
            yield "bad-process-id", describe("members", row, "member_id", "process_id")
        if row["error_code"] == SHUTDOWN_REQUESTED:
            yield "shutdown-requested", describe("members", row, "member_id", "error_code")
        if any("=" not in (tag or "") for tag in row["client_tags"] or ()):
            yield "bad-streams-config", describe("members", row, "member_id", "client_tags")
    for row in (*rows["tasks"], *rows["departed_tasks"]):
        if not _is_id(row["subtopology"]) or (row["changelog_offset"] or 0) < UNKNOWN:
            columns = "member_id", "subtopology", "task", "changelog_offset"
            yield "bad-classic-task", describe("tasks", row, *columns)
    seen = set[TopicPartition]()
    for row in rows["changelogs"]:
        partition = row["topic"], row["partition"]
        numbers = [row[name] or 0 for name in ("partition", "end_offset", *GROWTH)]
        if None in partition or partition in seen or not all(0 <= number <= MAX_NUMBER for number in numbers):
            yield "bad-changelog", describe("changelogs", row, "topic", "partition", "end_offset", *GROWTH)
        seen.add(partition)
    member_ids = {row["member_id"] for row in rows["members"]}
    for table in ("owned", "departed"):
        for row in rows[table]:
            bounds = row["first"], row["step"], row["count"]
            if row["topic"] is None or any(value is None or value < 0 for value in bounds) or not row["step"]:
                yield "bad-owned", format_row("owned", **row)
            elif row["member_id"] not in member_ids and table == "owned":
                yield "unknown-member", format_row("owned", **row)


def _find_topic_faults(facts: StreamsFacts) -> Iterator[_Fault]:
    """Yields topics that are missing, and settings that don't fit the tasks; all rows are valid."""
    topics = {row["topic"]: row["partitions"] for row in facts.rows["topics"]}
    known: dict[str, set[int]] = {}
    num_stateful: dict[int, float] = {}
    for row in facts.rows["changelogs"]:
        known.setdefault(row["topic"], set()).add(row["partition"])
    for row in facts.rows["subtopologies"]:
        missing = [topic for topic in row["source_topics"] if topic not in topics]
        for topic in missing:
            yield "unknown-topic", format_row("subtopologies", subtopology=row["subtopology"], source_topic=topic)
        tasks = 0 if missing else max(topics[topic] for topic in row["source_topics"])
        num_stateful[int(row["subtopology"])] = (inf if missing else tasks) if row["changelog_topics"] else 0
        for topic in row["changelog_topics"] or ():
            lacking = set(range(tasks)) - known.get(topic, set())
            if lacking and (topic in known or topic in topics):
                yield "no-end-offsets", format_row("changelogs", topic=topic, partition=min(lacking))
    for group in facts.rows["groups"]:
        seen = set[TaskId | None]()
        for text in group["standby_task_order"] or ():
            task = _read_task(text)
            if task is None or task in seen or task[1] >= num_stateful.get(task[0], 0):
                yield "bad-streams-config", format_row("groups", group_id=facts.group_id, standby_task_order=text)
            seen.add(task)
        replicas = dict(map(_read_setting, group["streams_config"] or ())).get("num_standby_replicas", 0)
        if MAX_STANDBYS < sum(num_stateful.values()) * min(replicas, len(facts.rows["members"])) < inf:
            yield "too-many-tasks", format_row("groups", streams_config=f"num.standby.replicas={replicas}")


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False


def _is_id(text: str | None) -> bool:
    return text is not None and text.isascii() and text.isdecimal() and len(text) < 6 and text == str(int(text))


def _read_task(text: str | None) -> TaskId | None:
    subtopology, _, number = (text or "").partition("_")
    return (int(subtopology), int(number)) if _is_id(subtopology) and number.isdecimal() and len(number) < 11 else None


def _read_setting(text: str) -> tuple[str, Any]:
    """Returns the attribute and the value of `NAME=VALUE`.

    Raises:
        KeyError, ValueError: the name or the value is unknown.
    """
    name, _, value = text.partition("=")
    attribute, read = _SETTINGS[name.strip()]
    return attribute, read(value.strip())


class ClassicGroupInput:
    """A valid application, from its facts.

    Attributes:
        application: the application.
        leaves_on_close: whether instances leave the group when they close.
        assumed_offsets: number of standbys whose offsets are unknown, so that they count as caught up.

    Args:
        facts: the facts.
        standby_replicas: overrides the configuration of the group if it isn't None.
    """

    def __init__(self, facts: StreamsFacts, standby_replicas: int | None) -> None:
        self._facts = facts
        self.assumed_offsets = 0
        group = facts.rows["groups"][0]
        settings: dict[str, Any] = {"num_standby_replicas": group["standby_replicas"] or 0}
        settings |= dict(map(_read_setting, group["streams_config"] or ()))
        if standby_replicas is not None:
            settings["num_standby_replicas"] = standby_replicas
        assignor = settings.pop(_ASSIGNOR, HIGH_AVAILABILITY)
        self.leaves_on_close = settings.pop(_LEAVES, False)
        rows = facts.rows["members"]
        first = min(rows, key=lambda row: (row["position"] is None, row["position"] or 0), default=None)
        order = group["standby_task_order"]
        self.application = ClassicApplication(
            self._members,
            self._subtopologies,
            self._num_partitions,
            self._end_offsets,
            self._racks,
            ClassicConfig(**settings),
            assignor,
            (group["leader_process_id"] or "").lower() or (None if first is None else _process_id(first)),
            None if order is None else [task for text in order if (task := _read_task(text)) is not None],
            find_rules(group["leader_version"], is_public_sticky=assignor == STICKY),
        )

    @cached_property
    def _num_partitions(self) -> dict[str, int]:
        sources = {topic for of in self._subtopologies for topic in of.sources}
        return {row["topic"]: row["partitions"] for row in self._facts.rows["topics"] if row["topic"] in sources}

    @cached_property
    def _max_tasks(self) -> int:
        return max(self._num_partitions.values(), default=0)

    @cached_property
    def _subtopologies(self) -> list[ClassicSubtopology]:
        """Subtopologies by id. An id that is missing (of a global store) has no sources, and so no tasks."""
        found = {int(row["subtopology"]): row for row in self._facts.rows["subtopologies"]}
        result = [ClassicSubtopology(())] * (max(found) + 1)
        for at, row in found.items():
            changelogs = row["changelog_topics"] or ()
            has_store = bool(changelogs) if row["stateful"] is None else row["stateful"]
            result[at] = ClassicSubtopology(row["source_topics"], changelogs, has_store)
        return result

    @cached_property
    def _members(self) -> list[ClassicMember]:
        rows = self._facts.rows["members"]
        owned = _read_owned(self._facts.rows["owned"])
        offset_sums: dict[str, dict[TaskId, int]] = {}
        for row in self._facts.rows["tasks"]:
            task, name = (int(row["subtopology"]), row["task"]), row["member_id"]
            subtopology = self._subtopologies[task[0]] if task[0] < len(self._subtopologies) else None
            if row["changelog_offset"] is not None:
                offset_sums.setdefault(name, {})[task] = row["changelog_offset"]
            elif subtopology is not None and subtopology.changelogs:
                is_active = row["role"] == "active"
                offset_sums.setdefault(name, {})[task] = RUNNING if is_active else self._end_offset(task)
                self.assumed_offsets += not is_active
            if row["role"] == "active" and subtopology is not None:
                partitions = owned.setdefault(name, {})
                for topic in subtopology.sources:
                    if task[1] < self._num_partitions.get(topic, 0):
                        partitions[topic, task[1]] = None
        order = member_order([row["member_id"] for row in rows], [row["position"] for row in rows])
        members = []
        for row in (rows[at] for at in order):
            name = row["member_id"]
            members.append(
                ClassicMember(
                    name,
                    _process_id(row),
                    row["rack_id"] or None,
                    {key: value for key, _, value in (tag.partition("=") for tag in row["client_tags"] or ())},
                    list(owned.get(name, ())),
                    offset_sums.get(name, {}),
                    row["error_code"] or 0,
                )
            )
        return members

    @cached_property
    def _end_offsets(self) -> dict[str, list[int]] | None:
        """End offsets by changelog; None if one can't be read. The committed offset of a source topic is 0 then."""
        result: dict[str, list[int]] = {}
        for row in self._facts.rows["changelogs"]:  # sorted by topic and partition
            if row["end_offset"] is None and row["topic"] not in self._num_partitions:
                return None
            if row["partition"] < self._max_tasks:
                ends = result.setdefault(row["topic"], [])
                ends += [0] * (row["partition"] - len(ends)) + [row["end_offset"] or 0]
        return result

    def _end_offset(self, task: TaskId) -> int:
        """Returns the sum of the end offsets of a task's changelogs; unknown or new ones count as empty."""
        ends = self._end_offsets or {}
        found = [ends[topic] for topic in self._subtopologies[task[0]].changelogs if topic in ends]
        return sum(end[task[1]] for end in found if task[1] < len(end))

    @cached_property
    def changelogs(self) -> Changelogs:
        """Sizes of the changelogs, and how they grow."""
        partitions = {(row["topic"], row["partition"]): row for row in self._facts.rows["changelogs"]}
        return Changelogs(self.application, partitions)

    @cached_property
    def _racks(self) -> dict[str, list[list[str | None]]]:
        result: dict[str, list[list[str | None]]] = {}
        for row in self._facts.rows["racks"]:
            if row["partition"] < self._max_tasks:
                racks = result.setdefault(row["topic"], [])
                racks += [[]] * (row["partition"] - len(racks)) + [row["racks"]]
        return result

    # --- for moves ------------------------------------------------------------------------------------------------

    def group_input(self) -> StreamsGroupInput:
        """Returns the application in the form of a streams group, with the current owners of tasks."""
        application = self.application
        process = {member.member_id: member.process_id for member in application.members}
        owned = {member.member_id: member.owned for member in application.members}
        current = self._owners(self._facts.rows["tasks"], owned)
        departed_owned = {name: list(of) for name, of in _read_owned(self._facts.rows["departed"]).items()}
        departed = self._owners(self._facts.rows["departed_tasks"], departed_owned)
        previous_tasks = {
            (member.member_id, task): offset
            for member in application.members
            for task, offset in member.offset_sums.items()
        }
        state_offsets: dict[tuple[str, TaskId], int | None] = {}
        for (member_id, task), offset in previous_tasks.items():
            highest = state_offsets.setdefault((process[member_id], task), None)
            if offset >= 0 and (highest is None or highest < offset):
                state_offsets[process[member_id], task] = offset
        num_ids = 1 + max(
            (task[0] for owners in (current, departed) for of in owners.values() for task in of), default=0
        )
        num_ids = max(num_ids, len(application.subtopologies))
        group = StreamsGroupSpec(
            [StreamsMemberSpec(member.member_id, member.process_id) for member in application.members],
            [(name, ()) for name in dict.fromkeys(process.values())],
            [str(at) for at in range(len(application.subtopologies))],
            [application.num_tasks(at) for at in range(len(application.subtopologies))],
            [bool(of.changelogs) for of in application.subtopologies],
            application.config.num_standby_replicas,
        )
        names = [str(at) for at in range(num_ids)]
        return StreamsGroupInput(group, names, current, departed, process, set(previous_tasks), state_offsets)

    def _owners(self, rows: Sequence[Row], owned: Mapping[str, Sequence[TopicPartition]]) -> TasksByRole:
        """Returns the owners of each task by role; the members with source partitions of a task run it."""
        found: dict[str, dict[TaskId, dict[str, None]]] = {role: {} for role in ROLES}
        subtopology = {topic: at for at, of in enumerate(self.application.subtopologies) for topic in of.sources}
        for member_id, partitions in owned.items():
            for topic, number in partitions:
                if topic in subtopology:
                    found["active"].setdefault((subtopology[topic], number), {})[member_id] = None
        for row in rows:
            if row["role"] is not None:
                role = "active" if row["role"] == "active" else "standby"
                found[role].setdefault((int(row["subtopology"]), row["task"]), {})[row["member_id"]] = None
        return {role: {task: list(members) for task, members in tasks.items()} for role, tasks in found.items()}


def _process_id(row: Row) -> str:
    """Returns the process of a member; one of its own has a UUID from the member's id."""
    return row["process_id"].lower() if row["process_id"] is not None else str(uuid5(NAMESPACE_OID, row["member_id"]))


def _read_owned(rows: Sequence[Row]) -> dict[str, dict[TopicPartition, None]]:
    """Returns the partitions of each member, in an ordered set."""
    result: dict[str, dict[TopicPartition, None]] = {}
    for row in rows:
        stop = row["first"] + row["step"] * row["count"]
        partitions = ((row["topic"], number) for number in range(row["first"], stop, row["step"]))
        result.setdefault(row["member_id"], {}).update(dict.fromkeys(partitions))
    return result
