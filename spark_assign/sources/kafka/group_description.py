"""Describes groups of any protocol as their coordinator does, and reads consumer groups (KIP-848), share groups
(KIP-932), and streams groups (KIP-1071).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from types import MappingProxyType
from typing import Any

from kafka import errors
from kafka.protocol.admin import DescribeConfigsRequest

from spark_assign.groups.kernel import leader_rules as leader_fingerprint
from spark_assign.sources.files.snapshot import SnapshotRows, to_slices
from spark_assign.sources.kafka.connection import ClusterConnection, batches
from spark_assign.streams.classic_members import StreamsMember
from spark_assign.tables.errors import SourceError
from spark_assign.tables.schema_fields import MAX_ID_BYTES, MAX_TOPIC_BYTES, is_too_long
from spark_assign.wire.consumer_protocol import TopicPartitions
from spark_assign.wire.describe_groups import DescribeShareGroupOffsetsRequest
from spark_assign.wire.topic_regex import TopicRegexError, topic_matcher


@dataclass(frozen=True)
class MemberDescription:
    """One member.

    Attributes:
        columns: the columns of its row of `members`.
        topics: the names of its subscribed topics, without those of `matched`.
        owned: its partitions.
        tasks: the columns of its rows of `tasks`, in a streams group.
        in_order: whether the order of the owned partitions matters.
        seen: the format of the bytes of a classic member.
        streams: the contents of the bytes of a member of a classic Streams application.
        matched: the subscribed topics that match its regular expression, a list that all members with it share.
    """

    columns: dict[str, Any]
    topics: tuple[str, ...]
    owned: TopicPartitions
    tasks: tuple[dict[str, Any], ...] = ()
    in_order: bool = False
    seen: leader_fingerprint.MemberBytes | None = None
    streams: StreamsMember | None = None
    matched: Collection[str] = ()


@dataclass(frozen=True)
class GroupDescription:
    """One group.

    Attributes:
        state, assignor: as the coordinator names them.
        members: in the coordinator's order.
        subtopologies: the columns of its rows of `subtopologies`, in a Streams group.
        subscription_type: the column of `groups`, in a consumer group.
        more: more columns of `groups`, in a classic Streams application.
        problem: why a classic Streams application can't be planned.
    """

    state: str | None
    assignor: str
    members: list[MemberDescription]
    subtopologies: list[dict[str, Any]] = field(default_factory=list)
    subscription_type: str | None = None
    more: dict[str, Any] = field(default_factory=dict)
    problem: str | None = None

    def long_name(self) -> str | None:
        """Returns what is too long for a name, as a text, or None."""
        owned = {topic for member in self.members for topic, _ in member.owned}
        tasks = {task["subtopology"] for member in self.members for task in member.tasks}
        columns = [("groups", {"assignor": self.assignor, "state": self.state} | self.more)]
        columns += [("tasks", {"subtopology": [*tasks]})]
        columns += [("members", member.columns) for member in self.members]
        columns += [("subtopologies", each) for each in self.subtopologies]
        for table, row in columns:
            for name, value in row.items():
                texts = value if isinstance(value, list) else [value]
                if any(is_too_long(text, MAX_ID_BYTES) for text in texts if isinstance(text, str)):
                    return f"{name} of {table} has more than {MAX_ID_BYTES:,} bytes"
        if any(is_too_long(topic, MAX_TOPIC_BYTES) for topic in owned):
            return f"topics of owned_lists has more than {MAX_TOPIC_BYTES} bytes"
        is_long = any(is_too_long(topic, MAX_ID_BYTES) for topic in self._subscribed())
        return f"a subscribed topic has more than {MAX_ID_BYTES:,} bytes" if is_long else None

    def unknown_topic(self, unknown: Mapping[str, str]) -> str | None:
        """Returns a text about a topic with an error that a member subscribes to or owns partitions of, or None."""
        if not unknown:
            return None
        owned = {topic for member in self.members for topic, _ in member.owned}
        return topic_error_text(unknown, owned.union(self._subscribed()))

    def _subscribed(self) -> Iterator[str]:
        """Yields the subscribed topics; those of a list that members share only once."""
        lists = {id(each): each for member in self.members for each in (member.topics, member.matched)}
        return chain.from_iterable(lists.values())

    def columns(self, group_id: str) -> dict[str, Any]:
        """Returns columns of its row of `groups`, with the leader's library and version if it has classic members."""
        columns = {"assignor": self.assignor or None, "state": self.state, "subscription_type": self.subscription_type}
        columns |= self.more
        if seen := [member.seen for member in self.members if member.seen is not None]:
            leader = leader_fingerprint.find_leader(group_id, self.assignor, seen)
            columns |= {"leader_library": leader.library, "leader_version": leader.releases}
            columns["leader_confidence"] = leader.confidence
        return columns


_MAX_REGEX_S, _MAX_REGEXES_S = 10.0, 60.0
"""Maximum time for the regular expressions of a group, and of all groups of a cluster. A hostile expression can take
50 ms for each name."""


class RegexTime:
    """The time that is left for the regular expressions of a cluster's groups, in seconds. A group gets at most a
    quarter of it, so that some hostile groups leave time for others."""

    def __init__(self) -> None:
        self.left_s = _MAX_REGEXES_S


def topic_error_text(unknown: Mapping[str, str], topics: Collection[str]) -> str | None:
    """Returns a text about the first of the topics that has an error (`unknown`), or None."""
    topic = min(unknown.keys() & topics, default=None)
    if topic is None:
        return None
    remedy = "Grant DESCRIBE on topics, or take another snapshot"
    return f"the partitions of the topic {topic:.260} are not known: {unknown[topic]} in the metadata. {remedy}"


def fault(error_code: int, message: str | None = None) -> Exception | None:
    """Returns the error of an error code, or None for code 0."""
    return errors.for_code(error_code)(message) if error_code else None


def read_consumer_group(group: Any, topics: Collection[str], regex_time: RegexTime) -> GroupDescription | Exception:
    """Returns a group of a ConsumerGroupDescribe response, or its error.

    The subscriptions of the group are unknown if a regular expression can't be evaluated: that is an error, too.
    """
    if error := fault(group.error_code, group.error_message):
        return error
    try:
        regexes = {member.subscribed_topic_regex for member in group.members if member.subscribed_topic_regex}
        matched = _matched(regexes, topics, regex_time)
    except TopicRegexError as error:
        return error
    members = [_consumer_member(member, matched) for member in group.members]
    return GroupDescription(
        group.group_state, group.assignor_name, members, subscription_type=_subscription_type(group.members)
    )


def _matched(regexes: Collection[str], topics: Collection[str], regex_time: RegexTime) -> dict[str, dict[str, None]]:
    """Returns the topics that match each regular expression of a group, in their order. Raises TopicRegexError."""
    matched: dict[str, dict[str, None]] = {}
    if not regexes:
        return matched
    start_s, limit_s = time.monotonic(), min(_MAX_REGEX_S, regex_time.left_s / 4)
    if limit_s <= 0:
        raise TopicRegexError(f"expressions of other groups have taken the {_MAX_REGEXES_S:g} s that a cluster has")
    try:
        for regex in regexes:
            matches = topic_matcher(regex)
            matched[regex] = {}
            for topic in (None, *topics):  # None: the time to compile
                if topic is not None and matches(topic):
                    matched[regex][topic] = None
                if time.monotonic() > start_s + limit_s:
                    problem = f"the regular expressions of the group take more than {limit_s:.2g} s"
                    raise TopicRegexError(f"{problem} with {len(topics):,} topics")
    finally:
        regex_time.left_s -= time.monotonic() - start_s
    return matched


def _subscription_type(members: Sequence[Any]) -> str:
    """Returns the type that the broker determines by names and raw patterns (`ConsumerGroup.subscriptionType`)."""
    names = {frozenset(member.subscribed_topic_names) for member in members}
    patterns = {member.subscribed_topic_regex or "" for member in members}
    is_homogeneous = len(names) <= 1 and len(patterns) <= 1 and (patterns <= {""} or names <= {frozenset()})
    return "homogeneous" if is_homogeneous else "heterogeneous"


def _consumer_member(member: Any, matched: Mapping[str, Mapping[str, None]]) -> MemberDescription:
    """Returns a member of a consumer group; `matched` has the topics of each regular expression of the group."""
    owned = owned_partitions(member)
    named, shared = list(member.subscribed_topic_names), matched.get(member.subscribed_topic_regex or "", {})
    if member.subscribed_topic_regex:
        named += [topic for topic, _ in owned]
    own = tuple(topic for topic in named if topic not in shared)
    return MemberDescription(member_columns(member), own, owned, matched=shared)


StartOffsets = dict[tuple[str, int], int]
"""The start offset of a share group by topic and partition; -1 if the partition isn't started."""


def read_share_group(group: Any) -> GroupDescription | Exception:
    """Returns a group of a ShareGroupDescribe response, or its error."""
    if error := fault(group.error_code, group.error_message):
        return error
    members = [
        MemberDescription(member_columns(member), tuple(member.subscribed_topic_names), owned_partitions(member))
        for member in group.members
    ]
    return GroupDescription(group.group_state, group.assignor_name, members)


def member_columns(member: Any) -> dict[str, Any]:
    """Returns the columns of `members` that consumer, share, and streams groups have in common.

    Members of share groups have no instance ID.
    """
    return {
        "member_id": member.member_id,
        "group_instance_id": getattr(member, "instance_id", None),
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rack_id": member.rack_id or None,
        "generation_id": member.member_epoch,
    }


def owned_partitions(member: Any) -> TopicPartitions:
    """Returns the partitions of a member of a consumer or share group."""
    return tuple((topic.topic_name, at) for topic in member.assignment.topic_partitions for at in topic.partitions)


def start_offsets_request(ids: Sequence[str]) -> Any:
    """Returns the request for the start offsets of share groups."""
    request_group = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
    return DescribeShareGroupOffsetsRequest(groups=[request_group(group_id=group_id, topics=None) for group_id in ids])


def read_start_offsets(_: Sequence[str], response: Any) -> Iterable[tuple[str, StartOffsets | Exception]]:
    """Yields the start offsets of each group's initialized partitions, or the group's error."""
    for group in response.groups:
        error = fault(group.error_code, group.error_message)
        starts = {
            (topic.topic_name, partition.partition_index): partition.start_offset
            for topic in group.topics
            for partition in topic.partitions
            if not partition.error_code
        }
        yield group.group_id, starts if error is None else error


def add_initialized(rows: SnapshotRows, starts: Mapping[str, StartOffsets]) -> None:
    """Adds rows of `initialized`. A subscribed topic without initialized partitions has a row with count 0."""
    subscribed_topics: dict[str, set[str]] = {group_id: set() for group_id in starts}
    for row in rows.rows["subscription_lists"]:
        subscribed_topics.get(row["group_id"], set()).update(row["topics"])
    for group_id, partitions in starts.items():
        by_topic: dict[str, list[int]] = {topic: [] for topic in subscribed_topics[group_id]}
        for topic, partition in partitions:
            by_topic.setdefault(topic, []).append(partition)
        for topic, numbers in sorted(by_topic.items()):
            for first, step, count in to_slices(numbers) or [(0, 1, 0)]:
                rows.add("initialized", group_id=group_id, topic=topic, first=first, step=step, count=count)


_ROLES = ("active", "standby", "warmup")
_GROUP_RESOURCE = 32
_DIGITS = re.compile(r"[0-9]{1,9}")
STANDBY_REPLICAS = "streams.num.standby.replicas"
_CONFIGS = 500
"""Maximum number of groups per request."""


class UnseenTopicsError(Exception):
    """Raised if the number of tasks of a subtopology is unknown, because its topics aren't visible to the user."""


def read_streams_group(
    group: Any, topics: Mapping[str, int], unknown: Mapping[str, str] = MappingProxyType({})
) -> GroupDescription | Exception:
    """Returns a group of a StreamsGroupDescribe response, or its error.

    Args:
        group: the group in the response.
        topics: the number of partitions of the cluster's topics.
        unknown: the errors of topics whose partitions aren't known.
    """
    if error := fault(group.error_code, group.error_message):
        return error
    try:
        described = (group.topology.subtopologies if group.topology is not None else None) or []
        subtopologies = [_subtopology(subtopology, topics, unknown) for subtopology in described]
    except UnseenTopicsError as unseen:
        return unseen
    assignor = getattr(group, "assignor_name", None) or ""
    return GroupDescription(
        group.group_state, assignor, [_streams_member(member) for member in group.members], subtopologies
    )


def _subtopology(subtopology: Any, topics: Mapping[str, int], unknown: Mapping[str, str]) -> dict[str, Any]:
    """Returns a subtopology. It has as many tasks as the largest of its source topics has partitions."""
    sources = {name: topics.get(name) for name in subtopology.source_topics}
    sources |= {
        topic.name: topics.get(topic.name, topic.partitions or None) for topic in subtopology.repartition_source_topics
    }
    if text := topic_error_text(unknown, sources.keys()):
        raise UnseenTopicsError(f"subtopology {subtopology.subtopology_id}: {text}")
    known_counts = [partitions for partitions in sources.values() if partitions is not None]
    if len(known_counts) < len(sources) or not known_counts:
        unseen = ", ".join(sorted(name for name, partitions in sources.items() if partitions is None))
        raise UnseenTopicsError(
            f"subtopology {subtopology.subtopology_id}: topics that it reads are not shown to this user: {unseen}. "
            "Grant DESCRIBE on topics"
        )
    return {
        "subtopology": subtopology.subtopology_id,
        "partitions": max(known_counts),
        "stateful": bool(subtopology.state_changelog_topics),
    }


def _streams_member(member: Any) -> MemberDescription:
    """Returns a member of a streams group."""
    return MemberDescription(member_columns(member) | {"process_id": member.process_id}, (), (), tuple(_tasks(member)))


def _tasks(member: Any) -> list[dict[str, Any]]:
    """Returns a member's tasks with the offsets that it has reached, and the other tasks of which it has state on
    disk.
    """
    offsets = {
        (task_offset.subtopology_id, task_offset.partition): task_offset.offset for task_offset in member.task_offsets
    }
    rows = [
        {"subtopology": assigned.subtopology_id, "task": task, "role": role}
        | {"changelog_offset": offsets.pop((assigned.subtopology_id, task), None)}
        for role in _ROLES
        for assigned in getattr(member.assignment, f"{role}_tasks")
        for task in assigned.partitions
    ]
    stateful_only = (
        {"subtopology": name, "task": task, "changelog_offset": at} for (name, task), at in offsets.items()
    )
    return rows + list(stateful_only)


def standby_replicas(
    connection: ClusterConnection, groups: Collection[str], report: Callable[[str], None]
) -> dict[str, int]:
    """Returns the configured number of standby replicas of the streams groups with a config that the user can read."""
    resource = DescribeConfigsRequest.DescribeConfigsResource
    num_replicas: dict[str, int] = {}
    problem = "the broker does not say it"
    for ids in batches(sorted(groups), _CONFIGS):
        resources = [
            resource(resource_type=_GROUP_RESOURCE, resource_name=group_id, configuration_keys=[STANDBY_REPLICAS])
            for group_id in ids
        ]
        request = DescribeConfigsRequest(resources=resources, include_synonyms=False, include_documentation=False)
        try:
            response = connection.send_any(request)
        except SourceError as failed:
            problem = str(failed)
            continue
        for result in response.results or ():
            if result.resource_name not in ids:  # nobody requested it
                continue
            if error := fault(result.error_code, result.error_message):
                problem = f"{type(error).__name__}: {error}. Grant DESCRIBE_CONFIGS on these groups"
                continue
            for config in result.configs or ():
                if config.name == STANDBY_REPLICAS and _DIGITS.fullmatch(config.value or ""):
                    num_replicas[result.resource_name] = int(config.value)
    if unknown := len(groups) - len(num_replicas):
        report(f"how many standby replicas {unknown:,} of {len(groups):,} streams groups have is not known: {problem}")
    return num_replicas
