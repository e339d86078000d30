"""Committed offsets, many groups a request (OffsetFetch v8, KIP-709); offsets of partitions, each leader its own.

What is read comes with the time of the answer that it was in (`time.monotonic`), for rates between two readings.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, MutableMapping, Sequence
from typing import Any, NamedTuple

from kafka import errors
from kafka.protocol.consumer import ListOffsetsRequest, OffsetFetchRequest
from kafka.protocol.metadata import MetadataRequest

from spark_assign.sources.kafka import connection as kafka_connection
from spark_assign.sources.kafka.connection import ClusterConnection, batches
from spark_assign.sources.kafka.groups import ATTEMPTS, PAUSE_S, ListedGroup, Progress, ask_per_group
from spark_assign.spark.progress import progress

TopicPartition = tuple[str, int]

FETCH_BATCH = 50
"""Groups in one OffsetFetch; each answers with every partition it has committed."""

LIST_BATCH = 5000
"""Partitions in one ListOffsets."""

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
"""What ListOffsets takes in place of a timestamp: the end, the first offset, the record with the latest timestamp."""

_SINCE = {MAX_TIMESTAMP: 7}
"""The version of ListOffsets that has it, if not the first (KIP-734: Kafka 3.0)."""


class LeaderOffset(NamedTuple):
    """What a leader has answered: an offset, -1 where it has none; the record's timestamp; and when that was."""

    offset: int
    timestamp: int
    answered_s: float


def committed(
    connection: ClusterConnection,
    groups: Mapping[str, ListedGroup],
    tell: Progress,
    answered_s: MutableMapping[str, float] | None = None,
) -> tuple[dict[str, dict[TopicPartition, int]], dict[str, str]]:
    """Every committed offset by group, and what the coordinator said of groups that have no answer.

    `answered_s` gets when each group's answer came.
    """
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
        answered_s,
    )


def _offsets(part: Any) -> dict[TopicPartition, int]:
    return {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in part.topics
        for partition in topic.partitions
        if partition.error_code == 0 and partition.committed_offset >= 0
    }


def offsets_at(
    connection: ClusterConnection,
    leaders: Mapping[TopicPartition, int],
    wanted: Collection[TopicPartition],
    tell: Progress,
    timestamp: int = LATEST,
) -> dict[TopicPartition, LeaderOffset]:
    """The end offset (high watermark) of each wanted partition, as `kafka-consumer-groups` shows it.

    With a timestamp (ms since 1970) the first offset whose record is not older, or what LATEST and its sisters say.
    Where a leader moves just now, the new one is asked, a few times; a partition that stays without is left out.
    """
    what = "read end offsets" if timestamp == LATEST else "read offsets by timestamp"
    found: dict[TopicPartition, LeaderOffset] = {}
    for attempt in range(1, ATTEMPTS + 1):
        missing = [key for key in sorted(wanted) if key not in found]
        found |= _ask_leaders(connection, leaders, missing, timestamp, what)
        tell(f"{what}: {len(found)} of {len(wanted)} partitions")
        missing = [key for key in wanted if key not in found]
        if not missing or attempt == ATTEMPTS:
            break
        kafka_connection.wait(PAUSE_S)
        leaders = _leaders(connection, {topic for topic, _ in missing})
    return found


def has_max_timestamp(connection: ClusterConnection) -> bool:
    """Whether the brokers tell the record with the latest timestamp."""
    return connection.newest(ListOffsetsRequest) >= _SINCE[MAX_TIMESTAMP]


def _leaders(connection: ClusterConnection, topics: Collection[str]) -> dict[TopicPartition, int]:
    asked = [MetadataRequest.MetadataRequestTopic(name=topic) for topic in sorted(topics)]
    metadata = connection.ask_any(MetadataRequest(topics=asked, allow_auto_topic_creation=False))
    return {
        (topic.name, partition.partition_index): partition.leader_id
        for topic in metadata.topics
        for partition in topic.partitions
    }


def _ask_leaders(
    connection: ClusterConnection,
    leaders: Mapping[TopicPartition, int],
    wanted: Collection[TopicPartition],
    timestamp: int,
    what: str,
) -> dict[TopicPartition, LeaderOffset]:
    by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
    for key in wanted:
        if leaders.get(key, -1) >= 0:
            by_leader[leaders[key]].append(key)
    requests = [
        ((leader, _list_offsets(batch, timestamp)), len(batch))
        for leader, partitions in by_leader.items()
        for batch in batches(partitions, LIST_BATCH)
    ]
    found: dict[TopicPartition, LeaderOffset] = {}
    answered_s = [0.0] * len(requests)
    with progress(what, len(wanted)) as step:

        def answered(at: int) -> None:
            answered_s[at] = time.monotonic()
            step(requests[at][1])

        answers = connection.ask([request for request, _ in requests], answered)
    for answer, came_s in zip(answers, answered_s, strict=True):
        for topic in [] if isinstance(answer, Exception) else answer.topics:
            for partition in topic.partitions:
                if partition.error_code == 0:
                    key = (topic.name, partition.partition_index)
                    found[key] = LeaderOffset(partition.offset, partition.timestamp, came_s)
    return found


def _list_offsets(partitions: Iterable[TopicPartition], timestamp: int) -> Any:
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
                    topic_of.ListOffsetsPartition(partition_index=number, timestamp=timestamp) for number in numbers
                ],
            )
            for topic, numbers in by_topic.items()
        ],
        min_version=_SINCE.get(timestamp, 1),
    )
