"""Lists the groups of a cluster from every broker, and describes them in batches at their coordinators.

ListGroups returns the groups that the contacted broker coordinates, so no coordinator lookup is needed. A group in
the middle of a rebalance shows no subscriptions; its description is retried for a few seconds. A permanent failure
is reported for the group and doesn't affect the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest

from spark_assign.groups.kernel import leader_rules as leader_fingerprint
from spark_assign.java.hash_map import texts_in_table_order
from spark_assign.numeric.arrays import values_by_key
from spark_assign.sources.files.snapshot import SnapshotRows
from spark_assign.sources.kafka import connection as kafka_connection
from spark_assign.sources.kafka import group_description
from spark_assign.sources.kafka.connection import ClusterConnection, batches
from spark_assign.sources.kafka.group_description import GroupDescription, MemberDescription, fault
from spark_assign.sources.kafka.streams_applications import ApplicationReader
from spark_assign.spark.progress import progress
from spark_assign.streams.classic_members import StreamsMember
from spark_assign.tables.errors import SourceError, count
from spark_assign.tables.groups import EMPTY_STATES, is_own_group
from spark_assign.tables.quoting import in_text
from spark_assign.tables.schema_fields import MAX_ID_BYTES, is_too_long
from spark_assign.wire import consumer_protocol, streams_protocol
from spark_assign.wire.consumer_protocol import TopicPartitions
from spark_assign.wire.describe_groups import (
    ConsumerGroupDescribeRequest,
    ShareGroupDescribeRequest,
    StreamsGroupDescribeRequest,
)
from spark_assign.wire.reader import WireError

Member = TypeVar("Member")

Progress = Callable[[str], None]

Patterns = str | Sequence[str] | None
"""One shell pattern or several, one of which must match. None or an empty list matches all names."""

ATTEMPTS = 6
PAUSE_S = 1.0
DESCRIBE_BATCH = 100
"""Groups per describe request. The response for a group of 1,000 members has about half a megabyte."""
MAX_LONG_IDS = 16
"""Number of groups with an ID of more than `MAX_ID_BYTES` in a snapshot of a cluster. They are never described."""


class UnsettledError(Exception):
    """Raised for a group in the middle of a rebalance."""

    retriable = True


@dataclass(frozen=True)
class ListedGroup:
    """A group of ListGroups. `group_type` is classic, consumer, share, streams, or a protocol type (connect, …).
    `problem` is why the group can't be described: brokers contradict each other, or its ID or type is too long. A type
    that is too long is "".
    """

    group_id: str
    broker: int
    group_type: str
    state: str | None
    problem: str | None = None

    @property
    def commits(self) -> bool:
        """Checks whether the group commits offsets as consumers do."""
        return self.group_type in ("classic", "consumer", "streams") and self.problem is None


def matches(name: str, patterns: Patterns) -> bool:
    """Checks whether a name matches one of the patterns."""
    pattern_list = [patterns] if isinstance(patterns, str) else patterns
    return not pattern_list or any(fnmatchcase(name, pattern) for pattern in pattern_list)


def listed(connection: ClusterConnection, patterns: Patterns) -> dict[str, ListedGroup]:
    """Returns the groups whose ID matches, by ID, without those of Spark's Kafka source. Groups about which brokers
    contradict each other, as they do while a coordinator moves, are listed once more.

    Raises SourceError if a broker doesn't respond: its groups would be missing silently.
    """
    groups = _listed_once(connection, patterns)
    unclear = [group_id for group_id in _problems(groups) if not is_too_long(group_id, MAX_ID_BYTES)]
    if unclear:
        kafka_connection.wait(PAUSE_S)
        again = _listed_once(connection, patterns)
        groups |= {group_id: again[group_id] for group_id in unclear if group_id in again}
    return groups


def _listed_once(connection: ClusterConnection, patterns: Patterns) -> dict[str, ListedGroup]:
    """Returns what the brokers list, as `listed` does. A group that two of them list has a problem."""
    groups: dict[str, ListedGroup] = {}
    brokers = connection.brokers()
    responses = connection.send_all([(broker, ListGroupsRequest(min_version=0)) for broker in brokers])
    for broker, response in zip(brokers, responses, strict=True):
        error = response if isinstance(response, Exception) else fault(response.error_code)
        if error is not None:
            raise connection.failed(f"broker {broker} does not list its groups", error)
        for group in response.groups:
            if matches(group.group_id, patterns) and not is_own_group(group.group_id):
                found = _listed(group, broker)
                known = groups.get(group.group_id, found)
                problem = f"brokers {known.broker} and {broker} both list the group" if known.broker != broker else None
                if known.group_type != found.group_type:
                    problem = f"the brokers list the group as {known.group_type} and as {found.group_type}"
                groups[group.group_id] = replace(known, problem=known.problem or problem)
    return dict(sorted(groups.items()))


def _listed(group: Any, broker: int) -> ListedGroup:
    """Returns a group of a ListGroups response."""
    # A simple group (offsets committed without joining) has no protocol type.
    is_consumer = group.protocol_type in ("consumer", "")
    kind = (getattr(group, "group_type", "") or "classic").lower()
    kind = kind if is_consumer or kind != "classic" else group.protocol_type
    texts = {"ID": group.group_id, "type": kind}
    long = [name for name, text in texts.items() if is_too_long(text, MAX_ID_BYTES)]
    problem = f"the group {long[0]} has more than {MAX_ID_BYTES:,} bytes" if long else None
    kind = "" if "type" in long else kind
    return ListedGroup(group.group_id, broker, kind, getattr(group, "group_state", None) or None, problem)


def without_long_ids(groups: Mapping[str, ListedGroup]) -> tuple[dict[str, ListedGroup], str | None]:
    """Returns the groups without those with a long ID beyond `MAX_LONG_IDS`, and a text about these, or None."""
    long = {group_id for group_id in groups if is_too_long(group_id, MAX_ID_BYTES)}
    dropped = set(sorted(long)[MAX_LONG_IDS:])
    kept = {group_id: group for group_id, group in groups.items() if group_id not in dropped}
    limit = f"with an ID of more than {MAX_ID_BYTES:,} bytes, of which a snapshot has at most {MAX_LONG_IDS}"
    return kept, f"{count(len(dropped), 'group', 'is', 'are')} missing {limit}" if dropped else None


def _problems(groups: Mapping[str, ListedGroup]) -> dict[str, str]:
    """Returns the problem of each group that has one."""
    return {group_id: group.problem for group_id, group in groups.items() if group.problem is not None}


def request_per_group(
    connection: ClusterConnection,
    groups: Mapping[str, ListedGroup],
    request: Callable[[Sequence[str]], Any],
    read: Callable[[Sequence[str], Any], Iterable[tuple[str, Any]]],
    batch: int,
    activity: str,
    report: Progress,
) -> tuple[dict[str, Any], dict[str, str], dict[str, float]]:
    """Sends requests for many groups at a time to their coordinators, and retries failures that can pass.

    `read` converts the group IDs and the response to pairs (group_id, value or exception). `activity` is the text for
    progress, such as `described Connect groups`. Returns the values, the errors of the groups without a value, and the
    time of each group's response (`time.monotonic`).
    """
    values: dict[str, Any] = {}
    faults = _problems(groups)
    answered_s: dict[str, float] = {}

    def send_once(groups: Collection[ListedGroup]) -> Iterator[tuple[str, Any]]:
        """Sends one round of requests and yields pairs (group_id, value or exception)."""
        by_broker = values_by_key((group.broker, group.group_id) for group in groups)
        batch_ids = [(broker, ids) for broker, all_ids in by_broker.items() for ids in batches(all_ids, batch)]
        with progress(activity, len(groups)) as step:

            def answered(position: int) -> None:
                ids = batch_ids[position][1]
                answered_s.update(dict.fromkeys(ids, time.monotonic()))
                step(len(ids))

            responses = connection.send_all([(broker, request(ids)) for broker, ids in batch_ids], answered)
        if groups:
            report(f"{activity}: {len(groups)} of {len(groups)} groups")
        for (_, ids), response in zip(batch_ids, responses, strict=True):
            if isinstance(response, Exception):
                yield from ((group_id, response) for group_id in ids)
                continue
            found: dict[str, Any] = {}
            for group_id, value in read(ids, response):
                twice = WireError("the response of the broker has the group twice")
                found[group_id] = twice if group_id in found else value
            # A group that the broker leaves out isn't empty, but unknown.
            missing = WireError("the response of the broker lacks the group")
            yield from ((group_id, found.get(group_id, missing)) for group_id in ids)

    pending = {group_id: group for group_id, group in groups.items() if group_id not in faults}
    for attempt in range(1, ATTEMPTS + 1):
        retriable = []
        for group_id, value in send_once(pending.values()):
            if not isinstance(value, Exception):
                values[group_id] = value
                faults.pop(group_id, None)
                continue
            faults[group_id] = kafka_connection.error_text(value)
            if getattr(value, "retriable", False):
                retriable.append(group_id)
        if not retriable or attempt == ATTEMPTS:
            break
        kafka_connection.wait(PAUSE_S)
        # A new list has the new coordinator of a group. A group that was deleted keeps its error.
        try:
            relisted = listed(connection, None)
        except SourceError:
            break
        pending = {group_id: relisted[group_id] for group_id in retriable if group_id in relisted}
        faults |= _problems(pending)
        pending = {group_id: group for group_id, group in pending.items() if group.problem is None}
    return values, faults, answered_s


def describe_groups(
    connection: ClusterConnection,
    groups: Mapping[str, ListedGroup],
    request: type,
    read_group: Callable[[Any], Any],
    activity: str,
    report: Progress,
) -> tuple[dict[str, Any], dict[str, str]]:
    """Describes groups of one type. `read_group` converts one group of a response to a value or an exception.

    Returns the values, and the errors of the groups without a value.
    """
    names = "groups" if request is DescribeGroupsRequest else "group_ids"

    def build_request(ids: Sequence[str]) -> Any:
        return request(**{names: list(ids), "include_authorized_operations": False})

    def read_one(group: Any) -> Any:
        try:
            return read_group(group)
        except (ValueError, ArithmeticError) as error:  # what members have sent stops no other group of the response
            return WireError(f"malformed: {type(error).__name__}: {error}")

    def read(_: Sequence[str], response: Any) -> Iterable[tuple[str, Any]]:
        return [(group.group_id, read_one(group)) for group in response.groups]

    return request_per_group(connection, groups, build_request, read, DESCRIBE_BATCH, activity, report)[:2]


def describe(
    connection: ClusterConnection,
    groups: Mapping[str, ListedGroup],
    topics: Mapping[str, int],
    rows: SnapshotRows,
    report: Progress,
    topologies: Mapping[str, str] = MappingProxyType({}),
    unknown: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Adds groups, members, subscription_lists, and owned_lists of all listed groups, and undescribed groups.

    Also adds subtopologies and tasks of Streams groups, classic applications included.

    `topics` has the number of partitions of the cluster's topics, for subscriptions by pattern that the broker
    resolves (KIP-848), and for the number of tasks. `topologies` has texts of `Topology.describe()`, by group ID.
    `unknown` has the error of each topic whose partitions aren't known: a group that uses one is undescribed.
    """
    described: dict[str, Any] = {}
    faults = _problems(groups)
    applications = ApplicationReader(topics, topologies, groups, unknown)
    regex_time = group_description.RegexTime()
    read_consumer_group = partial(
        group_description.read_consumer_group, topics=sorted({*topics, *unknown}), regex_time=regex_time
    )
    readers: tuple[tuple[str, type, Callable[[Any], Any]], ...] = (
        ("classic", DescribeGroupsRequest, partial(_classic, read_application=applications.read)),
        ("consumer", ConsumerGroupDescribeRequest, read_consumer_group),
        ("share", ShareGroupDescribeRequest, group_description.read_share_group),
        (
            "streams",
            StreamsGroupDescribeRequest,
            lambda group: group_description.read_streams_group(group, topics, unknown),
        ),
    )
    for kind, request, read_group in readers:
        of_kind = {group_id: group for group_id, group in groups.items() if group.group_type == kind}
        activity = f"described {kind} groups"
        values, failed = describe_groups(connection, of_kind, request, read_group, activity, report)
        described |= values
        faults |= failed
    streams_groups = [group_id for group_id, group in groups.items() if group.group_type == "streams"]
    replicas = group_description.standby_replicas(connection, streams_groups, report)
    for group_id, group in groups.items():
        # Only a described group is known to be empty (`FleetTables.unknown_groups`): it might not be any more.
        state = None if group.state in EMPTY_STATES and group_id in faults else group.state
        description = described.get(group_id, GroupDescription(state, assignor="", members=[]))
        error = faults.get(group_id, description.problem)
        if (problem := group.problem or description.long_name() or description.unknown_topic(unknown)) is not None:
            description, error = GroupDescription(None, assignor="", members=[]), problem
        _add_group(rows, group, description, error, replicas.get(group_id))
    for caveat, ids in sorted(applications.caveats.items()):
        report(f"{caveat}: {', '.join(sorted(ids))}")


def share_starts(
    connection: ClusterConnection,
    groups: Mapping[str, ListedGroup],
    rows: SnapshotRows,
    report: Progress,
) -> tuple[dict[str, group_description.StartOffsets], dict[str, float]]:
    """Adds initialized of every share group; undescribed for groups that fail. Returns start offsets by partition, and
    the time of each group's response.
    """
    starts, failed, answered_s = read_starts(connection, groups, report)
    for group_id, error in sorted(failed.items()):
        rows.add("undescribed", group_id=group_id, error=f"initialised partitions: {error}")
    group_description.add_initialized(rows, starts)
    return starts, answered_s


def read_starts(
    connection: ClusterConnection, groups: Mapping[str, ListedGroup], report: Progress
) -> tuple[dict[str, group_description.StartOffsets], dict[str, str], dict[str, float]]:
    """Returns the start offset of each partition of the share groups, in the form of `request_per_group`."""
    of_kind = {
        group_id: group for group_id, group in groups.items() if group.group_type == "share" and not group.problem
    }
    activity = "read what share groups have initialised"
    build_request, read = group_description.start_offsets_request, group_description.read_start_offsets
    return request_per_group(connection, of_kind, build_request, read, DESCRIBE_BATCH, activity, report)


def _add_group(
    rows: SnapshotRows, listing: ListedGroup, group: GroupDescription, error: str | None, replicas: int | None
) -> None:
    """Adds the rows of one group."""
    group_id, columns = listing.group_id, group.columns(listing.group_id)
    columns |= {"group_type": listing.group_type or None}
    rows.add("groups", **{"group_id": group_id, "standby_replicas": replicas} | columns)
    if error is not None:
        rows.add("undescribed", group_id=group_id, error=error)
    for subtopology in group.subtopologies:
        rows.add("subtopologies", group_id=group_id, **subtopology)
    for position, member in enumerate(group.members):
        rows.add("members", group_id=group_id, position=position, **member.columns)
        member_id = member.columns["member_id"]
        rows.add_owned(group_id, member_id, member.owned, in_order=member.in_order)
        for task in member.tasks:
            rows.add("tasks", group_id=group_id, member_id=member_id, **task)
    rows.add_subscriptions(group_id, {member.columns["member_id"]: member.topics for member in group.members})
    rows.add_subscriptions(group_id, {member.columns["member_id"]: member.matched for member in group.members})


def read_classic_members(
    group: Any, sent: str, read_member: Callable[[Any, bytes, bytes], Member]
) -> list[Member] | Exception:
    """Returns the members of a group of a DescribeGroups response, or the group's error.

    Args:
        group: the group in the response.
        sent: the name of what members send when they join, for the error of a group in a rebalance.
        read_member: converts a member, with the bytes of its metadata and of its assignment (empty if there is none).
            Raises WireError for malformed bytes.
    """
    if error := fault(group.error_code, getattr(group, "error_message", None)):
        return error
    if group.group_state in ("PreparingRebalance", "CompletingRebalance"):
        return UnsettledError(f"in state {group.group_state} the coordinator shows no {sent}")
    members = []
    for member in group.members:
        try:
            members.append(read_member(member, bytes(member.member_metadata), bytes(member.member_assignment or b"")))
        except WireError as error:
            return WireError(f"member {in_text(member.member_id)}: {error}")
    return members


def _classic(
    group: Any, read_application: Callable[[str, GroupDescription], GroupDescription | Exception] | None = None
) -> GroupDescription | Exception:
    """Returns a classic group of a DescribeGroups response, or its error. `read_application` completes the description
    of a Streams application.
    """
    read_member = partial(_classic_member, assignor=group.protocol_data)
    members = read_classic_members(group, "subscriptions", read_member)
    if isinstance(members, Exception):
        return members
    description = GroupDescription(group.group_state, group.protocol_data, members)
    if read_application is None or group.protocol_data != streams_protocol.PROTOCOL:
        return description
    return read_application(group.group_id, description)


def _classic_member(member: Any, metadata: bytes, assignment: bytes, assignor: str) -> MemberDescription:
    """Returns a member of a classic group. Raises WireError for malformed bytes."""
    subscription = consumer_protocol.subscription_as_sent(metadata)
    assigned = consumer_protocol.assignment(assignment) if assignment else None
    return MemberDescription(
        {
            "member_id": member.member_id,
            "group_instance_id": getattr(member, "group_instance_id", None),
            "client_id": member.client_id,
            "client_host": member.client_host,
            "rack_id": subscription.rack_id,
            "generation_id": subscription.generation_id,
            "user_data_generation_id": consumer_protocol.user_data_generation(subscription, assignor),
        },
        subscription.topics,
        _in_reported_order(assigned.partitions, assignor) if assigned else (),
        in_order=assignor == "sticky",
        seen=leader_fingerprint.MemberBytes(
            member.member_id,
            member.client_id,
            leader_fingerprint.SubscriptionFormat(subscription.version, subscription.user_data, subscription.cut_short),
            leader_fingerprint.AssignmentFormat(assigned.version, assigned.user_data) if assigned else None,
        ),
        streams=StreamsMember(member.member_id, subscription, assigned)
        if assignor == streams_protocol.PROTOCOL
        else None,
    )


def _in_reported_order(assigned: TopicPartitions, assignor: str) -> TopicPartitions:
    """Returns the assigned partitions in the order that the member will report: with sticky, the order of a Java
    `HashMap` of topics.
    """
    if assignor != "sticky":
        return assigned
    by_topic = values_by_key(assigned)
    return tuple((topic, partition) for topic in texts_in_table_order(list(by_topic)) for partition in by_topic[topic])
