"""Reads committed offsets, many groups per request (OffsetFetch v8, KIP-709), and offsets of partitions at their
leaders.

Each result has the time of its response (`time.monotonic`), for rates between two readings.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kafka import errors
from kafka.protocol.consumer import ListOffsetsRequest, OffsetFetchRequest

from spark_assign.numeric.arrays import values_by_key
from spark_assign.sources.kafka import connection as kafka_connection
from spark_assign.sources.kafka.connection import ClusterConnection, batches
from spark_assign.sources.kafka.groups import ATTEMPTS, PAUSE_S, ListedGroup, Progress, request_per_group
from spark_assign.spark.progress import progress

TopicPartition = tuple[str, int]

FETCH_BATCH = 50
"""Groups per OffsetFetch request. The response has every committed partition of each group."""

LIST_BATCH = 5000
"""Partitions per ListOffsets request."""

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
"""Special timestamps of ListOffsets: the end offset, the first offset, and the record with the latest timestamp."""

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
"""Isolation levels. With the second one, the end offset is the last stable offset (KIP-98)."""

_MIN_VERSION = {MAX_TIMESTAMP: 7}
"""The first version of ListOffsets with a special timestamp, if it isn't version 1 (KIP-734: Kafka 3.0)."""


class LeaderOffset(NamedTuple):
    """An offset from a leader (-1 if there is none), the timestamp of its record, and the time of the response."""

    offset: int
    timestamp: int
    answered_s: float


def committed(
    connection: ClusterConnection,
    groups: Mapping[str, ListedGroup],
    report: Progress,
) -> tuple[dict[str, dict[TopicPartition, int]], dict[str, str], dict[str, float]]:
    """Returns every committed offset by group, the errors of groups without a result, and the time of each group's
    response.
    """
    is_batched = connection.newest(OffsetFetchRequest) >= 8

    def build_request(ids: Sequence[str]) -> Any:
        if is_batched:
            fetch = OffsetFetchRequest.OffsetFetchRequestGroup
            return OffsetFetchRequest(
                groups=[fetch(group_id=group_id, topics=None) for group_id in ids],
                min_version=8,
                max_version=8,
            )
        return OffsetFetchRequest(group_id=ids[0], topics=None, min_version=2, max_version=7)

    def read(ids: Sequence[str], response: Any) -> Iterable[tuple[str, Any]]:
        # Before version 8 the response is for one group and doesn't name it.
        described = [(group.group_id, group) for group in response.groups] if is_batched else [(ids[0], response)]
        for group_id, group in described:
            yield group_id, errors.for_code(group.error_code)() if group.error_code else _offsets(group)

    batch = FETCH_BATCH if is_batched else 1
    return request_per_group(connection, groups, build_request, read, batch, "read offsets", report)


def _offsets(group: Any) -> dict[TopicPartition, int]:
    """Returns the committed offsets in the response for one group."""
    return {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in group.topics
        for partition in topic.partitions
        if partition.error_code == 0 and partition.committed_offset >= 0
    }


def offsets_at(
    connection: ClusterConnection,
    leaders: Mapping[TopicPartition, int],
    wanted: Collection[TopicPartition],
    report: Progress,
    timestamp: int = LATEST,
    isolation_level: int = READ_UNCOMMITTED,
) -> dict[TopicPartition, LeaderOffset]:
    """Returns the end offset (high watermark) of each wanted partition, as `kafka-consumer-groups` shows it.

    With a timestamp (ms since 1970), returns the first offset whose record isn't older, or the offset of a special
    timestamp. If a leader moves, the new leader is contacted, a few times. A partition that stays without a leader
    is omitted.
    """
    activity = "read end offsets" if timestamp == LATEST else "read offsets by timestamp"
    offsets: dict[TopicPartition, LeaderOffset] = {}
    for attempt in range(1, ATTEMPTS + 1):
        missing = [key for key in sorted(wanted) if key not in offsets]
        offsets |= _request_from_leaders(connection, leaders, missing, timestamp, isolation_level, activity)
        report(f"{activity}: {len(offsets)} of {len(wanted)} partitions")
        missing = [key for key in wanted if key not in offsets]
        if not missing or attempt == ATTEMPTS:
            break
        kafka_connection.wait(PAUSE_S)
        leaders = leaders_of(connection.metadata({topic for topic, _ in missing}).topics)
    return offsets


def has_max_timestamp(connection: ClusterConnection) -> bool:
    """Checks whether the brokers support the timestamp MAX_TIMESTAMP."""
    return connection.newest(ListOffsetsRequest) >= _MIN_VERSION[MAX_TIMESTAMP]


def leaders_of(topics: Iterable[Any]) -> dict[TopicPartition, int]:
    """Returns the leader of each partition of topics in a Metadata response."""
    return {
        (topic.name, partition.partition_index): partition.leader_id
        for topic in topics
        for partition in topic.partitions
    }


def _request_from_leaders(
    connection: ClusterConnection,
    leaders: Mapping[TopicPartition, int],
    wanted: Collection[TopicPartition],
    timestamp: int,
    isolation_level: int,
    activity: str,
) -> dict[TopicPartition, LeaderOffset]:
    """Returns the offsets of one round of ListOffsets requests."""
    by_leader = values_by_key((leaders[key], key) for key in wanted if leaders.get(key, -1) >= 0)
    sent = [(leader, batch) for leader, partitions in by_leader.items() for batch in batches(partitions, LIST_BATCH)]
    offsets: dict[TopicPartition, LeaderOffset] = {}
    answered_s = [0.0] * len(sent)
    with progress(activity, len(wanted)) as step:

        def answered(position: int) -> None:
            answered_s[position] = time.monotonic()
            step(len(sent[position][1]))

        requests = [(leader, _list_offsets(batch, timestamp, isolation_level)) for leader, batch in sent]
        responses = connection.send_all(requests, answered)
    for (_, batch), response, responded_s in zip(sent, responses, answered_s, strict=True):
        keys = set(batch)
        for topic in [] if isinstance(response, Exception) else response.topics:
            for partition in topic.partitions:
                key = (topic.name, partition.partition_index)
                # A broker can list others, and an offset that isn't one (-1: there is none).
                if partition.error_code == 0 and key in keys and partition.offset >= -1:
                    offsets[key] = LeaderOffset(partition.offset, partition.timestamp, responded_s)
    return offsets


def _list_offsets(partitions: Iterable[TopicPartition], timestamp: int, isolation_level: int) -> Any:
    """Returns the ListOffsets request for partitions."""
    topic_of = ListOffsetsRequest.ListOffsetsTopic
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[
            topic_of(
                name=topic,
                partitions=[
                    topic_of.ListOffsetsPartition(partition_index=number, timestamp=timestamp)
                    for number in partition_ids
                ],
            )
            for topic, partition_ids in values_by_key(partitions).items()
        ],
        min_version=_MIN_VERSION.get(timestamp, 1 + isolation_level),  # version 2 has the isolation level
    )
