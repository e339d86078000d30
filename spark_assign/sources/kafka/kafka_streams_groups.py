"""Streams groups (KIP-1071) as their coordinator describes them: topology, members, and the tasks that they have."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kafka.protocol.admin import DescribeConfigsRequest

from spark_assign.sources.kafka.group_description import GroupDescription, MemberDescription, fault
from spark_assign.sources.kafka.kafka_connection import ClusterConnection, batches

_ROLES = ("active", "standby", "warmup")
_GROUP_RESOURCE = 32
STANDBY_REPLICAS = "streams.num.standby.replicas"
_CONFIGS = 500
"""Groups in one request."""


class UnseenTopicsError(Exception):
    """How many tasks a subtopology has, its topics would say, and they are not shown."""


def read_group(group: Any, topics: Mapping[str, int]) -> GroupDescription | Exception:
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
    return GroupDescription(group.group_state, assignor, [_member(member) for member in group.members], subtopologies)


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


def _member(member: Any) -> MemberDescription:
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
