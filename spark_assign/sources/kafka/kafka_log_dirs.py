"""Sizes of partitions as their leaders have them on disk (DescribeLogDirs), one request a broker.

Whoever may not describe the cluster is told nothing, by older brokers without an error. That is a word, not an error:
what is lacking then are bytes, and nothing else.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from kafka import errors
from kafka.protocol.admin import DescribeLogDirsRequest

from spark_assign.sources.kafka import kafka_permissions
from spark_assign.sources.kafka.kafka_connection import ClusterConnection
from spark_assign.sources.kafka.kafka_groups import Progress
from spark_assign.sources.kafka.kafka_offsets import LeaderOffset, TopicPartition

_NO_TIMESTAMP = -1


def sizes(
    connection: ClusterConnection, leaders: Mapping[TopicPartition, int], tell: Progress
) -> dict[TopicPartition, LeaderOffset]:
    """Bytes of each partition's log at the broker given for it; those that no broker tells are left out."""
    try:
        connection.newest(DescribeLogDirsRequest)
    except errors.IncompatibleBrokerVersion:
        tell("bytes are not known: the brokers have no DescribeLogDirs")
        return {}
    by_broker: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for (topic, partition), broker in leaders.items():
        if broker >= 0:
            by_broker[broker][topic].append(partition)
    brokers = sorted(by_broker)
    answered_s = [0.0] * len(brokers)

    def answered(position: int) -> None:
        answered_s[position] = time.monotonic()

    answers = connection.ask([(broker, _request(by_broker[broker])) for broker in brokers], answered)
    found: dict[TopicPartition, LeaderOffset] = {}
    silent: dict[str, list[str]] = defaultdict(list)
    for broker, answer, came_s in zip(brokers, answers, answered_s, strict=True):
        if why := kafka_permissions.no_sizes(answer):
            silent[why].append(str(broker))
        else:
            found |= {key: LeaderOffset(size, _NO_TIMESTAMP, came_s) for key, size in _of(answer)}
    for why, those in silent.items():
        tell(f"{kafka_permissions.NO_SIZES}: {', '.join(those)} ({why})")
    tell(f"read sizes: {len(found)} of {len(leaders)} partitions")
    return found


def _request(topics: Mapping[str, list[int]]) -> Any:
    topic_of = DescribeLogDirsRequest.DescribableLogDirTopic
    return DescribeLogDirsRequest(
        topics=[topic_of(topic=topic, partitions=sorted(numbers)) for topic, numbers in sorted(topics.items())]
    )


def _of(answer: Any) -> list[tuple[TopicPartition, int]]:
    """Without logs that are on their way to another folder of the broker."""
    return [
        ((topic.name, each.partition_index), each.partition_size)
        for folder in answer.results
        if not folder.error_code
        for topic in folder.topics
        for each in topic.partitions
        if not each.is_future_key
    ]
