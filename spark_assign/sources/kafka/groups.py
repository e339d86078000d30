"""Groups of a cluster: listed from every broker, described in batches by the broker that coordinates them.

ListGroups answers with the groups that the asked broker coordinates, so no coordinator has to be looked up. A
group in the middle of a rebalance shows no subscriptions; it is asked again for a few seconds. What fails for
good is reported per group and stops nothing.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest

from spark_assign.groups.kernel import leader_rules as leader_fingerprint
from spark_assign.java.hash_map import texts_in_table_order
from spark_assign.sources.files.snapshot import SnapshotRows
from spark_assign.sources.kafka import connection as kafka_connection
from spark_assign.sources.kafka import group_description
from spark_assign.sources.kafka.connection import ClusterConnection, batches
from spark_assign.sources.kafka.group_description import GroupDescription, MemberDescription, fault
from spark_assign.spark.progress import progress
from spark_assign.tables.errors import SourceError
from spark_assign.wire import consumer_protocol
from spark_assign.wire.consumer_protocol import TopicPartitions
from spark_assign.wire.describe_groups import (
    ConsumerGroupDescribeRequest,
    ShareGroupDescribeRequest,
    StreamsGroupDescribeRequest,
)
from spark_assign.wire.reader import WireError

Progress = Callable[[str], None]

Patterns = str | Sequence[str] | None
"""One shell pattern or several, of which one must match; null, or none of them: all match."""

ATTEMPTS = 6
PAUSE_S = 1.0
DESCRIBE_BATCH = 100
"""Groups in one describe request; a group of 1,000 members answers with about half a megabyte."""


class UnsettledError(Exception):
    """The group is in the middle of a rebalance."""

    retriable = True


@dataclass(frozen=True)
class ListedGroup:
    """What ListGroups says. `group_type` is classic, consumer, share or streams; else the protocol (connect, …)."""

    group_id: str
    broker: int
    group_type: str
    state: str | None

    @property
    def commits(self) -> bool:
        """Whether it commits offsets as consumers do."""
        return self.group_type in ("classic", "consumer", "streams")


def matches(name: str, patterns: Patterns) -> bool:
    """Whether a name is among those that are asked for."""
    wanted = [patterns] if isinstance(patterns, str) else patterns
    return not wanted or any(fnmatchcase(name, pattern) for pattern in wanted)


def listed(connection: ClusterConnection, patterns: Patterns) -> dict[str, ListedGroup]:
    """The groups whose id matches, by id.

    Raises SourceError if a broker is silent: its groups would be missing without a trace.
    """
    found: dict[str, ListedGroup] = {}
    brokers = connection.brokers()
    answers = connection.ask([(broker, ListGroupsRequest(min_version=0)) for broker in brokers])
    for broker, answer in zip(brokers, answers, strict=True):
        error = answer if isinstance(answer, Exception) else fault(answer.error_code)
        if error is not None:
            raise connection.failed(f"broker {broker} does not list its groups", error)
        for group in answer.groups:
            if matches(group.group_id, patterns):
                found[group.group_id] = _listed(group, broker)
    return dict(sorted(found.items()))


def _listed(group: Any, broker: int) -> ListedGroup:
    # A simple group (offsets committed without joining) has no protocol type.
    is_consumer = group.protocol_type in ("consumer", "")
    kind = (getattr(group, "group_type", "") or "classic").lower()
    kind = kind if is_consumer or kind != "classic" else group.protocol_type
    return ListedGroup(group.group_id, broker, kind, getattr(group, "group_state", None) or None)


def ask_per_group(
    connection: ClusterConnection,
    groups: Mapping[str, ListedGroup],
    request: Callable[[Sequence[str]], Any],
    read: Callable[[Sequence[str], Any], Iterable[tuple[str, Any]]],
    batch: int,
    what: str,
    tell: Progress,
    answered_s: MutableMapping[str, float] | None = None,
) -> tuple[dict[str, Any], dict[str, str]]:
    """Ask each group's coordinator, many groups a request; ask again what may settle.

    `read` takes the ids and the answer and gives (group_id, value or exception); `what` is done with them, such as
    `described Connect groups`. `answered_s` gets when each group's answer came (`time.monotonic`). Returns the values
    and, for the groups that have none, what was said.
    """
    answered_s = {} if answered_s is None else answered_s
    values: dict[str, Any] = {}
    faults: dict[str, str] = {}
    pending = dict(groups)
    for attempt in range(1, ATTEMPTS + 1):
        again = []
        for group_id, value in _ask_once(connection, pending.values(), request, read, batch, what, tell, answered_s):
            if not isinstance(value, Exception):
                values[group_id] = value
                faults.pop(group_id, None)
                continue
            faults[group_id] = kafka_connection.error_text(value)
            if getattr(value, "retriable", False):
                again.append(group_id)
        if not again or attempt == ATTEMPTS:
            break
        kafka_connection.wait(PAUSE_S)
        # A coordinator that moved shows in a fresh list; a group that is gone keeps its fault.
        try:
            now = listed(connection, None)
        except SourceError:
            break
        pending = {group_id: now[group_id] for group_id in again if group_id in now}
    return values, faults


def _ask_once(
    connection: ClusterConnection,
    groups: Collection[ListedGroup],
    request: Callable[[Sequence[str]], Any],
    read: Callable[[Sequence[str], Any], Iterable[tuple[str, Any]]],
    batch: int,
    what: str,
    tell: Progress,
    answered_s: MutableMapping[str, float],
) -> Iterator[tuple[str, Any]]:
    by_broker: dict[int, list[str]] = defaultdict(list)
    for group in groups:
        by_broker[group.broker].append(group.group_id)
    asked = [(broker, ids) for broker, all_ids in by_broker.items() for ids in batches(all_ids, batch)]
    with progress(what, len(groups)) as step:

        def answered(position: int) -> None:
            ids = asked[position][1]
            answered_s.update(dict.fromkeys(ids, time.monotonic()))
            step(len(ids))

        answers = connection.ask([(broker, request(ids)) for broker, ids in asked], answered)
    if groups:
        tell(f"{what}: {len(groups)} of {len(groups)} groups")
    for (_, ids), answer in zip(asked, answers, strict=True):
        if isinstance(answer, Exception):
            yield from ((group_id, answer) for group_id in ids)
        else:
            yield from read(ids, answer)


def describe(
    connection: ClusterConnection,
    groups: Mapping[str, ListedGroup],
    topics: Mapping[str, int],
    rows: SnapshotRows,
    tell: Progress,
) -> None:
    """Add groups, members, subscriptions, owned_runs of every listed group; undescribed for those that fail.

    Of streams groups subtopologies and tasks, of share groups what is initialised.

    `topics` are the topics of the cluster with their partitions, for subscriptions by pattern that the broker resolves
    (KIP-848), and for the number of tasks.
    """
    described: dict[str, Any] = {}
    faults: dict[str, str] = {}
    readers: tuple[tuple[str, type, Callable[[Any], Any]], ...] = (
        ("classic", DescribeGroupsRequest, _classic),
        ("consumer", ConsumerGroupDescribeRequest, lambda group: _kip848(group, topics)),
        ("share", ShareGroupDescribeRequest, group_description.read_share_group),
        ("streams", StreamsGroupDescribeRequest, lambda group: group_description.read_streams_group(group, topics)),
    )
    for kind, request, reader in readers:
        of_kind = {group_id: group for group_id, group in groups.items() if group.group_type == kind}
        names = "groups" if kind == "classic" else "group_ids"

        def ask(ids: Sequence[str], request: type = request, names: str = names) -> Any:
            return request(**{names: list(ids), "include_authorized_operations": False})

        def read(ids: Sequence[str], answer: Any, reader: Callable[[Any], Any] = reader) -> Iterable[tuple[str, Any]]:
            return [(group.group_id, reader(group)) for group in answer.groups]

        what = f"described {kind} groups"
        values, failed = ask_per_group(connection, of_kind, ask, read, DESCRIBE_BATCH, what, tell)
        described |= values
        faults |= failed
    replicas = _standby_replicas(connection, groups, tell)
    for group_id, group in groups.items():
        _add(rows, group, described.get(group_id), faults.get(group_id), replicas.get(group_id))


def share_starts(
    connection: ClusterConnection,
    groups: Mapping[str, ListedGroup],
    rows: SnapshotRows,
    tell: Progress,
    answered_s: MutableMapping[str, float] | None = None,
) -> dict[str, group_description.StartOffsets]:
    """Add initialized of every share group, undescribed for those that fail; of each partition where it starts."""
    starts, failed = read_starts(connection, groups, tell, answered_s)
    for group_id, error in sorted(failed.items()):
        rows.add("undescribed", group_id=group_id, error=f"initialised partitions: {error}")
    group_description.add_initialized(rows, starts)
    return starts


def read_starts(
    connection: ClusterConnection,
    groups: Mapping[str, ListedGroup],
    tell: Progress,
    answered_s: MutableMapping[str, float] | None = None,
) -> tuple[dict[str, group_description.StartOffsets], dict[str, str]]:
    """Of share groups where each partition starts, as `ask_per_group` returns it."""
    of_kind = {group_id: group for group_id, group in groups.items() if group.group_type == "share"}
    what = "read what share groups have initialised"
    ask, read = group_description.start_offsets_request, group_description.read_start_offsets
    return ask_per_group(connection, of_kind, ask, read, DESCRIBE_BATCH, what, tell, answered_s)


def _standby_replicas(
    connection: ClusterConnection, groups: Mapping[str, ListedGroup], tell: Progress
) -> dict[str, int]:
    ids = [group_id for group_id, group in groups.items() if group.group_type == "streams"]
    if not ids:
        return {}
    found = group_description.standby_replicas(connection, ids)
    if isinstance(found, Exception):
        said = f"{type(found).__name__}: {found}. Grant DESCRIBE_CONFIGS on these groups"
        tell(f"how many standby replicas streams groups have is not known: {said}")
        return {}
    return found


def _add(
    rows: SnapshotRows, listed_as: ListedGroup, group: GroupDescription | None, error: str | None, replicas: int | None
) -> None:
    group_id = listed_as.group_id
    rows.add(
        "groups",
        group_id=group_id,
        assignor=(group.assignor or None) if group else None,
        group_type=listed_as.group_type,
        state=group.state if group else listed_as.state,
        standby_replicas=replicas,
        subscription_type=group.subscription_type if group else None,
        **(group.leader(group_id) if group else {}),
    )
    if error is not None:
        rows.add("undescribed", group_id=group_id, error=error)
    for subtopology in group.subtopologies if group else []:
        rows.add("subtopologies", group_id=group_id, **subtopology)
    for position, member in enumerate(group.members if group else []):
        rows.add("members", group_id=group_id, position=position, **member.columns)
        member_id = member.columns["member_id"]
        for topic in dict.fromkeys(member.topics):
            rows.add("subscriptions", group_id=group_id, member_id=member_id, topic=topic)
        rows.add_owned(group_id, member_id, member.owned, in_order=member.in_order)
        for task in member.tasks:
            rows.add("tasks", group_id=group_id, member_id=member_id, **task)


def _classic(group: Any) -> GroupDescription | Exception:
    refused = fault(group.error_code, getattr(group, "error_message", None))
    if refused is not None:
        return refused
    if group.group_state in ("PreparingRebalance", "CompletingRebalance"):
        return UnsettledError(f"in state {group.group_state} the coordinator shows no subscriptions")
    try:
        members = [_classic_member(member, group.protocol_data) for member in group.members]
    except WireError as error:
        return error
    return GroupDescription(group.group_state, group.protocol_data, members)


def _classic_member(member: Any, assignor: str) -> MemberDescription:
    try:
        said = consumer_protocol.subscription_as_sent(bytes(member.member_metadata))
        bytes_given = bytes(member.member_assignment or b"")
        given = consumer_protocol.assignment(bytes_given) if bytes_given else None
    except WireError as error:
        raise WireError(f"member {member.member_id}: {error}") from None
    return MemberDescription(
        {
            "member_id": member.member_id,
            "group_instance_id": getattr(member, "group_instance_id", None),
            "client_id": member.client_id,
            "client_host": member.client_host,
            "rack_id": said.rack_id,
            "generation_id": said.generation_id,
            "user_data_generation_id": consumer_protocol.user_data_generation(said, assignor),
        },
        said.topics,
        _as_told(given.partitions, assignor) if given else (),
        in_order=assignor == "sticky",
        seen=leader_fingerprint.MemberBytes(
            member.member_id,
            member.client_id,
            leader_fingerprint.SubscriptionFormat(said.version, said.user_data, said.cut_short),
            leader_fingerprint.AssignmentFormat(given.version, given.user_data) if given else None,
        ),
    )


def _as_told(given: TopicPartitions, assignor: str) -> TopicPartitions:
    """What a member was given, in the order in which it will tell so: with sticky, its topics come from a `HashMap`."""
    if assignor != "sticky":
        return given
    by_topic: dict[str, list[int]] = {}
    for topic, partition in given:
        by_topic.setdefault(topic, []).append(partition)
    return tuple((topic, partition) for topic in texts_in_table_order(list(by_topic)) for partition in by_topic[topic])


def _kip848(group: Any, topics: Collection[str]) -> GroupDescription | Exception:
    error = fault(group.error_code, group.error_message)
    if error is not None:
        return error
    members = [_kip848_member(member, topics) for member in group.members]
    return GroupDescription(
        group.group_state, group.assignor_name, members, subscription_type=_subscription_type(group.members)
    )


def _subscription_type(members: Sequence[Any]) -> str:
    """How the broker counts subscriptions (`ConsumerGroup.subscriptionType`): by names, and by patterns as they are."""
    names = {frozenset(member.subscribed_topic_names) for member in members}
    patterns = {member.subscribed_topic_regex or "" for member in members}
    alike = len(names) <= 1 and len(patterns) <= 1 and (patterns <= {""} or names <= {frozenset()})
    return "homogeneous" if alike else "heterogeneous"


def _kip848_member(member: Any, topics: Collection[str]) -> MemberDescription:
    owned = tuple(
        (topic.topic_name, partition) for topic in member.assignment.topic_partitions for partition in topic.partitions
    )
    named = list(member.subscribed_topic_names)
    if member.subscribed_topic_regex:
        named += matching(member.subscribed_topic_regex, topics)
        named += [topic for topic, _ in owned]
    return MemberDescription(
        {
            "member_id": member.member_id,
            "group_instance_id": member.instance_id,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "rack_id": member.rack_id or None,
            "generation_id": member.member_epoch,
        },
        tuple(named),
        owned,
    )


def matching(regex: str, topics: Collection[str]) -> list[str]:
    """The topics that a KIP-848 subscription pattern matches as a whole; none where Python cannot read it.

    The broker reads it as RE2, whose common ground with Python is all that topic names need.
    """
    try:
        pattern = re.compile(regex)
    except re.error:
        return []
    return sorted(topic for topic in topics if pattern.fullmatch(topic))
