"""Share groups (KIP-932) as their coordinator describes them, and for which partitions it has initialised state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from spark_assign.sources.files.snapshot_tables import SnapshotRows, runs
from spark_assign.sources.kafka.group_description import GroupDescription, MemberDescription, fault
from spark_assign.wire.describe_share_group_offsets import DescribeShareGroupOffsetsRequest

Starts = dict[tuple[str, int], int]
"""By topic and partition the offset that a share group starts at; -1 where it has not begun."""


def read_group(group: Any) -> GroupDescription | Exception:
    """A group of ShareGroupDescribe."""
    error = fault(group.error_code, group.error_message)
    if error is not None:
        return error
    return GroupDescription(group.group_state, group.assignor_name, [_member(member) for member in group.members])


def _member(member: Any) -> MemberDescription:
    owned = tuple((topic.topic_name, at) for topic in member.assignment.topic_partitions for at in topic.partitions)
    columns = {
        "member_id": member.member_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rack_id": member.rack_id or None,
        "generation_id": member.member_epoch,
    }
    return MemberDescription(columns, tuple(member.subscribed_topic_names), owned)


def ask_starts(ids: Sequence[str]) -> Any:
    """The request for the partitions of share groups."""
    asked = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
    return DescribeShareGroupOffsetsRequest(groups=[asked(group_id=group_id, topics=None) for group_id in ids])


def read_starts(_: Sequence[str], answer: Any) -> Iterable[tuple[str, Starts | Exception]]:
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


def add_initialized(rows: SnapshotRows, starts: Mapping[str, Starts]) -> None:
    """Rows of `initialized`; a topic that a group subscribes to and that has none is there with a count of 0."""
    asked: dict[str, set[str]] = {group_id: set() for group_id in starts}
    for row in rows.rows["subscriptions"]:
        asked.get(row["group_id"], set()).add(row["topic"])
    for group_id, partitions in starts.items():
        by_topic: dict[str, list[int]] = {topic: [] for topic in asked[group_id]}
        for topic, partition in partitions:
            by_topic.setdefault(topic, []).append(partition)
        for topic, numbers in sorted(by_topic.items()):
            for first, step, count in runs(numbers) or [(0, 1, 0)]:
                rows.add("initialized", group_id=group_id, topic=topic, first=first, step=step, count=count)
