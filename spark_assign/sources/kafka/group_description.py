"""What a coordinator says of one group, whatever its protocol."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka import errors
from kafka.protocol.admin import DescribeConfigsRequest

from spark_assign.groups.kernel import leader_rules as leader_fingerprint
from spark_assign.sources.files.snapshot import SnapshotRows, to_slices
from spark_assign.sources.kafka.connection import ClusterConnection, batches
from spark_assign.wire.consumer_protocol import TopicPartitions
from spark_assign.wire.describe_groups import DescribeShareGroupOffsetsRequest


@dataclass(frozen=True)
class MemberDescription:
    """A member.

    Attributes:
        columns: of its row of `members`.
        topics: what it subscribes to, by name.
        owned: its partitions.
        tasks: columns of its rows of `tasks`, in a streams group.
        in_order: the order of what is owned matters.
        seen: of a classic group's member how its bytes are written.
    """

    columns: dict[str, Any]
    topics: tuple[str, ...]
    owned: TopicPartitions
    tasks: tuple[dict[str, Any], ...] = ()
    in_order: bool = False
    seen: leader_fingerprint.MemberBytes | None = None


@dataclass(frozen=True)
class GroupDescription:
    """A group.

    Attributes:
        state, assignor: as the coordinator names them.
        members: in the order in which it lists them.
        subtopologies: columns of its rows of `subtopologies`, if it is a streams group.
        subscription_type: as the column of `groups`, if it is a consumer group.
    """

    state: str
    assignor: str
    members: list[MemberDescription]
    subtopologies: list[dict[str, Any]] = field(default_factory=list)
    subscription_type: str | None = None

    def leader(self, group_id: str) -> dict[str, str]:
        """By whose rules a classic group with members is assigned, as columns of `groups`; else nothing."""
        seen = [each.seen for each in self.members if each.seen is not None]
        if not seen:
            return {}
        found = leader_fingerprint.find_leader(group_id, self.assignor, seen)
        told = {"client_library": found.library, "client_version": found.releases, "certainty": found.confidence}
        return {name: value for name, value in told.items() if value is not None}


def fault(error_code: int, message: str | None = None) -> Exception | None:
    """The error that a code stands for; null where all is well."""
    return errors.for_code(error_code)(message) if error_code else None


StartOffsets = dict[tuple[str, int], int]
"""By topic and partition the offset that a share group starts at; -1 where it has not begun."""


def read_share_group(group: Any) -> GroupDescription | Exception:
    """A group of ShareGroupDescribe."""
    error = fault(group.error_code, group.error_message)
    if error is not None:
        return error
    return GroupDescription(group.group_state, group.assignor_name, [_share_member(member) for member in group.members])


def _share_member(member: Any) -> MemberDescription:
    owned = tuple((topic.topic_name, at) for topic in member.assignment.topic_partitions for at in topic.partitions)
    columns = {
        "member_id": member.member_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rack_id": member.rack_id or None,
        "generation_id": member.member_epoch,
    }
    return MemberDescription(columns, tuple(member.subscribed_topic_names), owned)


def start_offsets_request(ids: Sequence[str]) -> Any:
    """The request for the partitions of share groups."""
    asked = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
    return DescribeShareGroupOffsetsRequest(groups=[asked(group_id=group_id, topics=None) for group_id in ids])


def read_start_offsets(_: Sequence[str], answer: Any) -> Iterable[tuple[str, StartOffsets | Exception]]:
    """Of each group the partitions that are initialised, or what is wrong."""
    for group in answer.groups:
        error = fault(group.error_code, group.error_message)
        starts = {
            (topic.topic_name, each.partition_index): each.start_offset
            for topic in group.topics
            for each in topic.partitions
            if not each.error_code
        }
        yield group.group_id, starts if error is None else error


def add_initialized(rows: SnapshotRows, starts: Mapping[str, StartOffsets]) -> None:
    """Rows of `initialized`; a topic that a group subscribes to and that has none is there with a count of 0."""
    asked: dict[str, set[str]] = {group_id: set() for group_id in starts}
    for row in rows.rows["subscriptions"]:
        asked.get(row["group_id"], set()).add(row["topic"])
    for group_id, partitions in starts.items():
        by_topic: dict[str, list[int]] = {topic: [] for topic in asked[group_id]}
        for topic, partition in partitions:
            by_topic.setdefault(topic, []).append(partition)
        for topic, numbers in sorted(by_topic.items()):
            for first, step, count in to_slices(numbers) or [(0, 1, 0)]:
                rows.add("initialized", group_id=group_id, topic=topic, first=first, step=step, count=count)


_ROLES = ("active", "standby", "warmup")
_GROUP_RESOURCE = 32
STANDBY_REPLICAS = "streams.num.standby.replicas"
_CONFIGS = 500
"""Groups in one request."""


class UnseenTopicsError(Exception):
    """How many tasks a subtopology has, its topics would say, and they are not shown."""


def read_streams_group(group: Any, topics: Mapping[str, int]) -> GroupDescription | Exception:
    """A group of StreamsGroupDescribe.

    Args:
        group: as the coordinator describes it.
        topics: the partitions of the cluster's topics.
    """
    error = fault(group.error_code, group.error_message)
    if error is not None:
        return error
    try:
        listed = (group.topology.subtopologies if group.topology is not None else None) or []
        subtopologies = [_subtopology(each, topics) for each in listed]
    except UnseenTopicsError as unseen:
        return unseen
    assignor = getattr(group, "assignor_name", None) or ""
    return GroupDescription(
        group.group_state, assignor, [_streams_member(member) for member in group.members], subtopologies
    )


def _subtopology(told: Any, topics: Mapping[str, int]) -> dict[str, Any]:
    """As many tasks as the largest of the topics that it reads has partitions."""
    sources = {name: topics.get(name) for name in told.source_topics}
    sources |= {each.name: topics.get(each.name, each.partitions or None) for each in told.repartition_source_topics}
    known = [partitions for partitions in sources.values() if partitions is not None]
    if len(known) < len(sources) or not known:
        unseen = ", ".join(sorted(name for name, partitions in sources.items() if partitions is None))
        raise UnseenTopicsError(
            f"subtopology {told.subtopology_id}: topics that it reads are not shown to this user: {unseen}. "
            "Grant DESCRIBE on topics"
        )
    return {
        "subtopology": told.subtopology_id,
        "partitions": max(known),
        "stateful": bool(told.state_changelog_topics),
    }


def _streams_member(member: Any) -> MemberDescription:
    columns = {
        "member_id": member.member_id,
        "group_instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rack_id": member.rack_id or None,
        "generation_id": member.member_epoch,
        "process_id": member.process_id,
    }
    return MemberDescription(columns, (), (), tuple(_tasks(member)))


def _tasks(member: Any) -> list[dict[str, Any]]:
    """What a member has reached, and of what else it has state on its disk."""
    offsets = {(each.subtopology_id, each.partition): each.offset for each in member.task_offsets}
    rows = [
        {"subtopology": of.subtopology_id, "task": task, "role": role}
        | {"changelog_offset": offsets.pop((of.subtopology_id, task), None)}
        for role in _ROLES
        for of in getattr(member.assignment, f"{role}_tasks")
        for task in of.partitions
    ]
    rest = ({"subtopology": name, "task": task, "changelog_offset": at} for (name, task), at in offsets.items())
    return rows + list(rest)


def standby_replicas(connection: ClusterConnection, groups: Collection[str]) -> dict[str, int] | Exception:
    """How many standby replicas streams groups are configured with; of those that the user may ask for."""
    resource = DescribeConfigsRequest.DescribeConfigsResource
    found: dict[str, int] = {}
    for ids in batches(sorted(groups), _CONFIGS):
        asked = [
            resource(resource_type=_GROUP_RESOURCE, resource_name=each, configuration_keys=[STANDBY_REPLICAS])
            for each in ids
        ]
        answer = connection.ask_any(
            DescribeConfigsRequest(resources=asked, include_synonyms=False, include_documentation=False)
        )
        for result in answer.results:
            error = fault(result.error_code, result.error_message)
            if error is not None:
                return error
            for config in result.configs:
                if config.name == STANDBY_REPLICAS and config.value is not None:
                    found[result.resource_name] = int(config.value)
    return found
