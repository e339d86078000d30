"""Committed offsets, many groups a request (OffsetFetch v8, KIP-709); end offsets, each leader its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from kafka import errors
from kafka.protocol.consumer import ListOffsetsRequest, OffsetFetchRequest
from kafka.protocol.metadata import MetadataRequest

from spark_assign.progress import progress
from spark_assign.sources import kafka_connection
from spark_assign.sources.kafka_connection import ClusterConnection, batches
from spark_assign.sources.kafka_groups import ATTEMPTS, PAUSE_S, ListedGroup, Progress, ask_per_group

TopicPartition = tuple[str, int]

FETCH_BATCH = 50
"""Groups in one OffsetFetch; each answers with every partition it has committed."""

LIST_BATCH = 5000
"""Partitions in one ListOffsets."""

_LATEST = -1


def committed(
    connection: ClusterConnection, groups: Mapping[str, ListedGroup], tell: Progress
) -> tuple[dict[str, dict[TopicPartition, int]], dict[str, str]]:
    """Every committed offset by group, and what the coordinator said of groups that have no answer."""
    many = connection.newest(OffsetFetchRequest) >= 8

    def ask(ids: Sequence[str]) -> Any:
        if many:
            fetch = OffsetFetchRequest.OffsetFetchRequestGroup
            return OffsetFetchRequest(
                groups=[fetch(group_id=group_id, topics=None) for group_id in ids],
                min_version=8,
                max_version=8,
            )
        return OffsetFetchRequest(group_id=ids[0], topics=None, min_version=2, max_version=7)

    def read(ids: Sequence[str], answer: Any) -> Iterable[tuple[str, Any]]:
        # Before version 8 the answer is of one group and does not name it.
        parts = [(group.group_id, group) for group in answer.groups] if many else [(ids[0], answer)]
        for group_id, part in parts:
            yield group_id, errors.for_code(part.error_code)() if part.error_code else _offsets(part)

    return ask_per_group(
        connection,
        groups,
        ask,
        read,
        FETCH_BATCH if many else 1,
        "read offsets",
        tell,
    )


def _offsets(part: Any) -> dict[TopicPartition, int]:
    return {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in part.topics
        for partition in topic.partitions
        if partition.error_code == 0 and partition.committed_offset >= 0
    }


def ends(
    connection: ClusterConnection,
    leaders: Mapping[TopicPartition, int],
    wanted: Collection[TopicPartition],
    tell: Progress,
) -> dict[TopicPartition, int]:
    """The end offset (high watermark) of each wanted partition, as `kafka-consumer-groups` shows it.

    Where a leader moves just now, the new one is asked, a few times; a partition that stays without is left out.
    """
    found: dict[TopicPartition, int] = {}
    for attempt in range(1, ATTEMPTS + 1):
        found |= _ask_leaders(connection, leaders, [key for key in sorted(wanted) if key not in found])
        tell(f"read end offsets: {len(found)} of {len(wanted)} partitions")
        missing = [key for key in wanted if key not in found]
        if not missing or attempt == ATTEMPTS:
            break
        kafka_connection.wait(PAUSE_S)
        leaders = _leaders(connection, {topic for topic, _ in missing})
    return found


def _leaders(connection: ClusterConnection, topics: Collection[str]) -> dict[TopicPartition, int]:
    asked = [MetadataRequest.MetadataRequestTopic(name=topic) for topic in sorted(topics)]
    metadata = connection.ask_any(MetadataRequest(topics=asked, allow_auto_topic_creation=False))
    return {
        (topic.name, partition.partition_index): partition.leader_id
        for topic in metadata.topics
        for partition in topic.partitions
    }


def _ask_leaders(
    connection: ClusterConnection, leaders: Mapping[TopicPartition, int], wanted: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
    for key in wanted:
        if leaders.get(key, -1) >= 0:
            by_leader[leaders[key]].append(key)
    requests = [
        ((leader, _list_offsets(batch)), len(batch))
        for leader, partitions in by_leader.items()
        for batch in batches(partitions, LIST_BATCH)
    ]
    found: dict[TopicPartition, int] = {}
    with progress("read end offsets", len(wanted)) as step:
        answers = connection.ask([request for request, _ in requests], lambda at: step(requests[at][1]))
    for answer in answers:
        for topic in [] if isinstance(answer, Exception) else answer.topics:
            for partition in topic.partitions:
                if partition.error_code == 0:
                    found[topic.name, partition.partition_index] = partition.offset
    return found


def _list_offsets(partitions: Iterable[TopicPartition]) -> Any:
    topic_of = ListOffsetsRequest.ListOffsetsTopic
    by_topic: dict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        by_topic[topic].append(partition)
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=0,
        topics=[
            topic_of(
                name=topic,
                partitions=[
                    topic_of.ListOffsetsPartition(partition_index=number, timestamp=_LATEST) for number in numbers
                ],
            )
            for topic, numbers in by_topic.items()
        ],
        min_version=1,
    )
