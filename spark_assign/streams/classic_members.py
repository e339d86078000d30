"""Reads a classic Streams application from the bytes of its members: processes, tasks, and topology.

A member's SubscriptionInfo is what it reported when it joined the last rebalance; its AssignmentInfo is what the leader
assigned to it then. Both are as old as that rebalance. The topology isn't in the bytes. It is derived from them:

1. The leader lists a task for each assigned partition, so each source topic has a subtopology.
2. A subtopology with standbys, or with tasks that are reported as running, has changelogs. If its owners report none
   of its tasks, it is stateless.
3. The changelog topics of the application are known by their names, `ID-STORE-changelog`. A changelog has as many
   partitions as its subtopology has tasks, and belongs to the only subtopology of this size that isn't stateless.
4. A subtopology with state but without a changelog has its only source topic as changelog (`topology.optimization`).

If one of these steps is ambiguous, the application has no subtopologies but a problem, and needs the text of
`Topology.describe()`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from spark_assign.numeric.arrays import values_by_key
from spark_assign.streams.topology import read_topology
from spark_assign.tables.errors import ConfigError, count
from spark_assign.tables.quoting import in_text
from spark_assign.wire import consumer_protocol, streams_protocol
from spark_assign.wire.consumer_protocol import TopicPartitions
from spark_assign.wire.reader import WireError
from spark_assign.wire.streams_protocol import RUNNING, TaskId

T = TypeVar("T")

_UNKNOWN = -3
"""Kafka's value for offsets that a member doesn't know (`Task.UNKNOWN_OFFSET`)."""
_REMEDY = "Give the topology (--topology)"

_Row = dict[str, Any]


class TopologyError(Exception):
    """Raised if the topology of an application can't be derived; the message is for the user."""


@dataclass(frozen=True)
class StreamsMember:
    """A member, with the contents of its subscription and of its assignment (None if it has none)."""

    member_id: str
    subscription: consumer_protocol.Subscription
    assignment: consumer_protocol.Assignment | None


@dataclass(frozen=True)
class Application:
    """What the members of an application reveal.

    Attributes:
        members: columns of its rows of `members`, by member ID.
        tasks: columns of its rows of `tasks`, by member ID.
        subtopologies: columns of its rows of `subtopologies`; empty if there is a problem.
        columns: columns of its row of `groups`.
        problem: why the application can't be planned, and what to do; None if there is nothing.
        caveats: what is only likely.
    """

    members: dict[str, _Row] = field(default_factory=dict)
    tasks: dict[str, list[_Row]] = field(default_factory=dict)
    subtopologies: list[_Row] = field(default_factory=list)
    columns: _Row = field(default_factory=dict)
    problem: str | None = None
    caveats: tuple[str, ...] = ()


@dataclass(frozen=True)
class DecodedMember:
    """A member, decoded.

    Attributes:
        member_id, topics, owned: its ID, what it subscribes to, and what it owned before.
        report: its report.
        active, standby: the tasks of its partitions, and its standbys.
        next_rebalance_ms: time of the probing rebalance that it must request, or 0 for a rebalance at once, or None.
    """

    member_id: str
    topics: tuple[str, ...]
    owned: TopicPartitions
    report: streams_protocol.Subscription
    active: dict[tuple[str, int], TaskId]
    standby: tuple[TaskId, ...]
    next_rebalance_ms: int | None

    @property
    def state(self) -> set[TaskId]:
        """Tasks of which its process had state when it joined."""
        return {task for task, _ in self.report.offset_sums}.union(self.report.active, self.report.standby)


def read_application(
    application_id: str,
    members: Sequence[StreamsMember],
    topics: Mapping[str, int],
    *,
    topology: str | None = None,
    group_ids: Collection[str] = (),
    internal: Mapping[str, int] | None = None,
    lists_changelogs: bool = True,
) -> Application:
    """Returns what the members of an application reveal; malformed bytes are its problem.

    Args:
        application_id: `application.id`, which is also the ID of the group.
        members: its members.
        topics: number of partitions of the cluster's topics.
        topology: the text of `Topology.describe()`, or None.
        group_ids: IDs of other groups: topics that start with a longer ID belong to that application.
        internal: the `internal_topics` of the application, if they are known.
        lists_changelogs: whether `topics` has the changelogs. Without these, only an application without state has a
            known topology.
    """
    try:
        decoded = [decode_member(member) for member in members]
    except WireError as error:
        return Application(problem=str(error))
    probing = {each.report.process_id for each in decoded if each.next_rebalance_ms}
    assigned: dict[str | None, set[TaskId]] = {}
    for each in decoded:
        assigned.setdefault(each.report.process_id, set()).update(each.active.values(), each.standby)
    application = Application(
        {each.member_id: _member_columns(each) for each in decoded},
        {
            each.member_id: list(_task_rows(each, assigned[each.report.process_id], is_probing=bool(probing)))
            for each in decoded
        },
        columns={"leader_process_id": min(filter(None, probing), default=None)},
    )
    try:
        sources = _derive_sources(decoded)
        names = internal_topics(topics, application_id, group_ids) if internal is None else internal
        if not lists_changelogs:
            _require_no_state(decoded, sources, topology)
        if topology is None:
            rows, caveats = _derive_topology(application_id, decoded, sources, topics, names)
        else:
            rows, caveats = _given_topology(topology, application_id, decoded, sources, topics), []
    except TopologyError as error:
        return Application(application.members, application.tasks, [], application.columns, str(error))
    standbys, caveat = _count_standbys(decoded, rows)
    columns = application.columns | {"standby_replicas": standbys}
    return Application(application.members, application.tasks, rows, columns, None, (*caveats, *caveat))


def decode_member(member: StreamsMember) -> DecodedMember:
    """Returns a member with its user data decoded. Raises WireError."""
    place = f"member {in_text(member.member_id)}"
    try:
        report = streams_protocol.subscription(member.subscription.user_data or b"")
        if report.process_id is None:
            raise WireError(f"version {report.version}: expected 1 to {streams_protocol.NEWEST}")
    except WireError as error:
        raise WireError(f"{place}: SubscriptionInfo: {error}") from error
    active: dict[tuple[str, int], TaskId] = {}
    standby: tuple[TaskId, ...] = ()
    next_rebalance_ms = None
    if member.assignment is not None and member.assignment.user_data:
        try:
            given = streams_protocol.assignment(member.assignment.user_data)
        except WireError as error:
            raise WireError(f"{place}: AssignmentInfo: {error}") from error
        partitions = sorted(member.assignment.partitions)
        if len(partitions) != len(given.active):
            wrong = f"{count(len(given.active), 'task')} of {count(len(partitions), 'partition')}"
            raise WireError(f"{place}: AssignmentInfo: {wrong}")
        active, standby = dict(zip(partitions, given.active, strict=True)), given.standby
        next_rebalance_ms = given.next_rebalance_ms
    sent = member.subscription
    return DecodedMember(member.member_id, sent.topics, sent.owned, report, active, standby, next_rebalance_ms)


def _member_columns(member: DecodedMember) -> _Row:
    report = member.report
    tags = [f"{key}={value}" for key, value in report.client_tags]
    return {"process_id": report.process_id, "client_tags": tags or None, "error_code": report.error or None}


def _task_rows(member: DecodedMember, of_process: Set[TaskId], *, is_probing: bool) -> Iterator[_Row]:
    """Yields the tasks that a member has, and the other tasks of which it has state on disk. A task that another member
    of the process has by now isn't among these: the directory is locked, so that only its owner reports it.

    How far a standby is, nobody reports between rebalances. While a probing rebalance is pending, standbys restore, so
    that the last report (0: no state) counts. Otherwise it is unknown.
    """
    reported = dict(member.report.offset_sums)
    active = dict.fromkeys(member.active.values())
    for task in active:
        yield _task_row(task, "active", None)
    for task in member.standby:
        offset = reported.get(task, 0) if is_probing else None
        yield _task_row(task, "standby", None if offset is not None and offset < 0 else offset)
    for task in (*reported, *member.report.active, *member.report.standby):
        if task not in of_process and task not in active:
            active[task] = None
            yield _task_row(task, None, max(reported.get(task, _UNKNOWN), _UNKNOWN))


def _task_row(task: TaskId, role: str | None, offset: int | None) -> _Row:
    offset = _UNKNOWN if role is None and offset is not None and offset < 0 else offset
    return {"subtopology": str(task.subtopology), "task": task.partition, "role": role, "changelog_offset": offset}


# --- topology -----------------------------------------------------------------------------------------------------


def _derive_sources(members: Sequence[DecodedMember]) -> dict[str, int]:
    """Returns the subtopology of each source topic that has an assigned partition.

    Raises:
        TopologyError: the members have different topologies, or named ones.
    """
    by_topics: dict[frozenset[str], str] = {}
    for member in members:
        by_topics.setdefault(frozenset(member.topics), member.member_id)
    if len(by_topics) > 1:
        (one, first), (other, second) = list(by_topics.items())[:2]
        topic = min(one ^ other)
        has, lacks = (first, second) if topic in one else (second, first)
        raise TopologyError(
            f"Two topologies in one group: member {in_text(has)} subscribes to {in_text(topic)}, and member "
            f"{in_text(lacks)} doesn't. Read the group at a time when all members have the same release of the "
            "application"
        )
    sources: dict[str, int] = {}
    for member in members:
        for (topic, _), task in member.active.items():
            if task.topology is not None:
                raise TopologyError(f"The task {task} has a named topology, which isn't supported")
            if sources.setdefault(topic, task.subtopology) != task.subtopology:
                raise TopologyError(
                    f"Two topologies in one group: {in_text(topic)} is in the subtopologies {sources[topic]} and "
                    f"{task.subtopology}. Read the group after the next rebalance"
                )
    return sources


def _given_topology(
    text: str,
    application_id: str,
    members: Sequence[DecodedMember],
    sources: Mapping[str, int],
    topics: Mapping[str, int],
) -> list[_Row]:
    """Returns the given topology. Raises TopologyError if it isn't that of the members."""
    try:
        rows = read_topology(text, application_id, topics)
    except ConfigError as error:
        raise TopologyError(f"The given topology can't be read. {error}") from error
    given = {topic: int(row["subtopology"]) for row in rows for topic in row["source_topics"]}
    subscribed = set().union(*(member.topics for member in members))
    different = sorted((subscribed ^ given.keys()) | {topic for topic, at in sources.items() if given.get(topic) != at})
    if different:
        raise TopologyError(
            f"The given topology differs from the members' topology in {in_text(', '.join(different))}. Give the "
            "topology of the release that runs"
        )
    return rows


def _derive_topology(
    application_id: str,
    members: Sequence[DecodedMember],
    sources: Mapping[str, int],
    topics: Mapping[str, int],
    names: Mapping[str, int],
) -> tuple[list[_Row], list[str]]:
    """Returns the derived subtopologies, and what of them is only likely.

    Args:
        application_id, members: the application.
        sources: subtopology of each source topic.
        topics, names: number of partitions of the topics of the cluster, and of those with the ID of the application.

    Raises:
        TopologyError: the topology is ambiguous.
    """
    if unassigned := sorted(set().union(*(member.topics for member in members)) - sources.keys()):
        raise TopologyError(
            f"The subtopology of {in_text(', '.join(unassigned))} is unknown: no member has a partition. {_REMEDY}"
        )
    source_topics = values_by_key((subtopology, topic) for topic, subtopology in sorted(sources.items()))
    stateful, stateless = _find_state(members, sources)
    num_tasks = {at: max(topics.get(topic, 0) for topic in of) for at, of in source_topics.items()}
    changelogs: dict[int, list[str]] = {at: [] for at in source_topics}
    for name in sorted(name for name in names if name.endswith("-changelog")):
        candidates = [at for at in sorted(num_tasks) if num_tasks[at] == topics[name] and at not in stateless]
        if len(candidates) > 1:
            numbers = ", ".join(map(str, candidates))
            raise TopologyError(f"The changelog {in_text(name)} can belong to the subtopologies {numbers}. {_REMEDY}")
        for at in candidates:
            changelogs[at].append(name)
    likely = sorted(name for of in changelogs.values() for name in of)
    for at in sorted(stateful & source_topics.keys()):
        if not changelogs[at]:
            if len(source_topics[at]) > 1:
                raise TopologyError(f"Subtopology {at} has state, but no changelog has its size. {_REMEDY}")
            changelogs[at] = source_topics[at]
    rows = [
        {
            "subtopology": str(at),
            "partitions": num_tasks[at],
            "stateful": bool(changelogs[at]),
            "source_topics": source_topics[at],
            "changelog_topics": changelogs[at],
        }
        for at in sorted(source_topics)
    ]
    return rows, [
        "changelogs of Streams applications are recognized by their names and sizes (to be sure, use --topology)"
    ] if likely else []


def _require_no_state(members: Sequence[DecodedMember], sources: Mapping[str, int], topology: str | None) -> None:
    """Raises TopologyError unless no subtopology can have changelogs, according to the members or a given topology."""
    stateless = _find_state(members, sources)[1]
    if topology is not None:
        with suppress(ConfigError):  # `_given_topology` reports it
            stateless = {int(row["subtopology"]) for row in read_topology(topology, "", ()) if not row["stateful"]}
    if others := sorted(set(sources.values()) - stateless):
        raise TopologyError(
            f"The changelogs of the subtopologies {', '.join(map(str, others))} aren't on record. Add the topics of "
            "the cluster, for example a snapshot (--fleet)"
        )


def _find_state(members: Sequence[DecodedMember], sources: Mapping[str, int]) -> tuple[set[int], set[int]]:
    """Returns the subtopologies that have changelogs, and those that have none.

    A member reports the tasks that it runs (-2), unless they have no changelogs. Other reported tasks prove nothing:
    they can be on disk since an earlier topology.
    """
    sums = [dict(member.report.offset_sums) for member in members]
    running = {task.subtopology for of in sums for task, offset in of.items() if offset == RUNNING}
    stateful = running.union(task.subtopology for member in members for task in member.standby)
    owned = {
        sources[topic]
        for member, of in zip(members, sums, strict=True)
        if RUNNING in of.values()
        for topic, _ in member.owned
        if topic in sources
    }
    return stateful, owned - stateful - {task.subtopology for of in sums for task in of}


def starting_with(names: Sequence[str], prefix: str) -> Sequence[str]:
    """Returns those of sorted names that start with a prefix."""
    first = bisect_left(names, prefix)
    return names[first : bisect_left(names, True, first, key=lambda name: not name.startswith(prefix))]


def internal_topics(topics: Mapping[str, T], application_id: str, group_ids: Collection[str]) -> dict[str, T]:
    """Returns the topics with names that start with this ID, and with no longer one of another group."""
    prefix = f"{application_id}-"
    longer = {other for other in group_ids if other.startswith(prefix)}

    def is_of_longer(name: str) -> bool:
        return bool(longer) and any(name[: dash.start()] in longer for dash in re.finditer("-", name))

    return {name: n for name, n in topics.items() if name.startswith(prefix) and not is_of_longer(name)}


def _count_standbys(members: Sequence[DecodedMember], subtopologies: Sequence[_Row]) -> tuple[int, list[str]]:
    """Returns the lowest number of standbys of a stateful task (warmups come on top), and whether there might be more
    if there were more processes.
    """
    copies = Counter(task for member in members for task in member.standby)
    active = {task for member in members for task in member.active.values()}
    stateful = {int(row["subtopology"]) for row in subtopologies if row["changelog_topics"]}
    standbys = min((copies[task] for task in active if task.subtopology in stateful), default=0)
    processes = len({member.report.process_id for member in members})
    is_full = bool(stateful) and standbys >= processes - 1
    return standbys, [
        f"num.standby.replicas is at least {standbys}, because no further process has room for more"
    ] if is_full else []
