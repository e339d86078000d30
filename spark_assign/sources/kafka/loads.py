"""What goes through partitions: several readings of offsets and sizes, or one with timestamps, as rows of `loads`.

A reading after the first asks again for what may have changed: OffsetFetch at the coordinators, ListOffsets and
DescribeLogDirs at the leaders. At the end one Metadata request tells which topics were made anew meanwhile. Rates are
over the time between two answers for the same partition, not over the time that was to pass.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from kafka import errors
from kafka.protocol.admin import DescribeLogDirsRequest
from kafka.protocol.metadata import MetadataRequest

from spark_assign.numeric import rates
from spark_assign.numeric.array_types import FloatArray
from spark_assign.sources.files.snapshot import SnapshotRows
from spark_assign.sources.kafka import connection as kafka_connection
from spark_assign.sources.kafka import groups as kafka_groups
from spark_assign.sources.kafka import offsets as kafka_offsets
from spark_assign.sources.kafka.connection import ClusterConnection
from spark_assign.sources.kafka.groups import ListedGroup, Progress
from spark_assign.sources.kafka.offsets import LeaderOffset, TopicPartition
from spark_assign.tables.errors import SourceError

_AHEAD = 0.05
"""Clocks of producers may be ahead by this part of the time looked back on: rates are off by no more than that."""


@dataclass(frozen=True)
class LoadReadOptions:
    """How loads are read: `times` readings, one every so many seconds; or one, and what was written in `since_s`."""

    every_s: float = 60
    times: int = 5
    since_s: float | None = None

    def told(self) -> dict[str, float]:
        """What `snapshot.json` says of it."""
        if self.since_s is not None:
            return {"since_s": self.since_s}
        return {"every_s": self.every_s, "times": self.times}


@dataclass(frozen=True)
class OffsetReading:
    """What was read at about one time.

    Attributes:
        committed: of each group, the offsets that it has committed; of a share group, where its partitions start.
        answered_s: when each group's answer came.
        ends: of each partition.
        sizes: of each partition's log at the broker that led it at first.
    """

    committed: Mapping[str, Mapping[TopicPartition, int]]
    answered_s: Mapping[str, float]
    ends: Mapping[TopicPartition, LeaderOffset]
    sizes: Mapping[TopicPartition, LeaderOffset] = field(default_factory=dict)


@dataclass(frozen=True)
class LoadTargets:
    """Whose loads are told: the groups, and the partitions with their leaders; topics by their ids."""

    connection: ClusterConnection
    groups: Mapping[str, ListedGroup]
    leaders: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, Any]
    tell: Progress

    def read(self, first: OffsetReading) -> OffsetReading:
        """Once more; what groups have committed before where partitions end, so that no group is ahead.

        Of partitions that had an answer at first: neither those without a leader nor brokers that tell no sizes are
        asked again.
        """
        sizes = self.sizes(first.sizes) if first.sizes else {}
        answered_s: dict[str, float] = {}
        committing = {group_id: group for group_id, group in self.groups.items() if group.commits}
        committed, _ = kafka_offsets.committed(self.connection, committing, self.tell, answered_s)
        starts, _ = kafka_groups.read_starts(self.connection, self.groups, self.tell, answered_s)
        ends = kafka_offsets.offsets_at(self.connection, self.leaders, first.ends, self.tell)
        return OffsetReading(committed | known_starts(starts), answered_s, ends, sizes)

    def sizes(self, of: Collection[TopicPartition]) -> dict[TopicPartition, LeaderOffset]:
        """Of logs at the brokers that led them at first."""
        return read_sizes(self.connection, {key: self.leaders[key] for key in of}, self.tell)

    def recreated_topics(self) -> set[str]:
        """Topics that are gone, or that were deleted and made again."""
        asked = [MetadataRequest.MetadataRequestTopic(name=topic) for topic in sorted(self.topic_ids)]
        answer = self.connection.ask_any(MetadataRequest(topics=asked, allow_auto_topic_creation=False))
        now = {topic.name: getattr(topic, "topic_id", None) for topic in answer.topics if topic.error_code == 0}
        return {topic for topic, known in self.topic_ids.items() if topic not in now or now[topic] != known}


def known_starts(starts: Mapping[str, Mapping[TopicPartition, int]]) -> dict[str, dict[TopicPartition, int]]:
    """Of share groups, the partitions that start somewhere."""
    return {group_id: {key: at for key, at in each.items() if at >= 0} for group_id, each in starts.items()}


def add(rows: SnapshotRows, watched: LoadTargets, first: OffsetReading, loads: LoadReadOptions) -> None:
    """Add `loads`; the snapshot itself was the first reading."""
    rows.rows["loads"] = []
    if loads.since_s is None:
        _add_readings(rows, watched, first, loads.every_s, loads.times)
    else:
        _add_since(rows, watched, first, loads.since_s)


def _add_readings(rows: SnapshotRows, watched: LoadTargets, first: OffsetReading, every_s: float, times: int) -> None:
    begun = time.monotonic()
    first = replace(first, sizes=watched.sizes(watched.leaders))
    readings, recreated = [first], set[str]()
    try:
        for number in range(1, times):
            kafka_connection.wait(max(begun + number * every_s - time.monotonic(), 0))
            watched.tell(f"reading {number + 1} of {times}")
            readings.append(watched.read(first))
        recreated = watched.recreated_topics()
    except SourceError as error:  # what was read until then counts
        watched.tell(f"loads are of {len(readings)} readings, not of {times}: {error}")
    _add(rows, readings, recreated)


def _add(rows: SnapshotRows, readings: Sequence[OffsetReading], recreated: Collection[str]) -> None:
    keys = sorted(readings[0].ends)
    same = np.fromiter((topic not in recreated for topic, _ in keys), dtype=bool, count=len(keys))
    written = rates.rates(*_matrix([map(reading.ends.get, keys) for reading in readings], len(keys)))
    grown = rates.growth_rates(*_matrix([map(reading.sizes.get, keys) for reading in readings], len(keys)))
    told = (_known(each, same) for each in (written.mean, written.stddev, grown))
    for (topic, partition), mean, stddev, grew in zip(keys, *told, strict=True):
        rows.add("loads", topic=topic, partition=partition, in_rate=mean, in_rate_stddev=stddev, bytes=grew)
    for group_id in sorted(set().union(*(reading.committed for reading in readings))):
        _add_group(rows, readings, recreated, group_id)


def _add_group(
    rows: SnapshotRows, readings: Sequence[OffsetReading], recreated: Collection[str], group_id: str
) -> None:
    """What a group has committed at any reading."""
    of_all = [reading.committed.get(group_id, {}) for reading in readings]
    keys = sorted(key for key in set().union(*of_all) if key in readings[0].ends)
    same = np.fromiter((topic not in recreated for topic, _ in keys), dtype=bool, count=len(keys))
    found = []
    for reading, committed in zip(readings, of_all, strict=True):
        came_s = reading.answered_s.get(group_id, np.nan)
        found.append([LeaderOffset(committed[key], -1, came_s) if key in committed else None for key in keys])
    read = _known(rates.rates(*_matrix(found, len(keys))).mean, same)
    for (topic, partition), rate in zip(keys, read, strict=True):
        lag = _lag(readings[-1], group_id, (topic, partition))
        rows.add("loads", topic=topic, partition=partition, group_id=group_id, out_rate=rate, lag=lag)


def _lag(reading: OffsetReading, group_id: str, key: TopicPartition) -> int | None:
    """Null where nothing is committed, no leader has said where the partition ends, or that is before."""
    at, end = reading.committed.get(group_id, {}).get(key), reading.ends.get(key)
    return None if at is None or end is None or end.offset < at else end.offset - at


def _matrix(readings: Sequence[Iterable[LeaderOffset | None]], rows: int) -> tuple[FloatArray, FloatArray]:
    """When, and what: a row per counter, a column per reading."""
    at, counted = (np.full((rows, len(readings)), np.nan) for _ in range(2))
    for number, reading in enumerate(readings):
        for row, each in enumerate(reading):
            if each is not None:
                at[row, number], counted[row, number] = each.answered_s, each.offset
    return at, counted


def _known(values: FloatArray, told: npt.NDArray[np.bool_]) -> list[float | None]:
    """Null where nothing is told, or nothing is known."""
    known = (told & ~np.isnan(values)).tolist()
    return [value if each else None for value, each in zip(values.tolist(), known, strict=True)]


def _add_since(rows: SnapshotRows, watched: LoadTargets, now: OffsetReading, since_s: float) -> None:
    """Of one reading, by the timestamps of records: what was written in the last so many seconds."""
    began_s, began_ms = time.monotonic(), int(time.time() * 1000)
    then_ms = began_ms - int(since_s * 1000)

    def ask(timestamp: int) -> Mapping[TopicPartition, LeaderOffset]:
        return kafka_offsets.offsets_at(watched.connection, watched.leaders, now.ends, watched.tell, timestamp)

    starts, ahead = ask(kafka_offsets.EARLIEST), ask(began_ms + int(_AHEAD * since_s * 1000))
    latest = ask(kafka_offsets.MAX_TIMESTAMP) if kafka_offsets.has_max_timestamp(watched.connection) else {}
    # Last: a record that was not with all followers yet, and hid the latest timestamp, is found by now.
    thens = ask(then_ms)
    for key in sorted(now.ends):
        end = now.ends[key]
        # The end was read before the moment from which the time is counted back.
        over_s = since_s + end.answered_s - began_s
        rate = np.nan
        if key in starts and key in ahead and key in thens:
            dated = key in latest and latest[key].timestamp >= 0
            rate = _since(over_s, then_ms, end.offset, starts[key].offset, thens[key], ahead[key].offset, dated)
        rows.add("loads", topic=key[0], partition=key[1], in_rate=None if np.isnan(rate) else rate)
    for group_id in sorted(now.committed):
        for topic, partition in sorted(key for key in now.committed[group_id] if key in now.ends):
            lag = _lag(now, group_id, (topic, partition))
            rows.add("loads", topic=topic, partition=partition, group_id=group_id, lag=lag)


def _since(over_s: float, then_ms: int, end: int, start: int, then: LeaderOffset, ahead: int, dated: bool) -> float:
    """Records a second of one partition; NaN where their timestamps do not tell.

    They do not where records have none or are ahead of the clock, and where all that there was is deleted. `ahead` is
    the first record that is: one after the end was written while the brokers were asked. Nor does the latest timestamp
    tell of that: while a record is not with all followers yet, leaders answer with none.
    """
    if end == 0:
        return 0.0
    if start >= end or 0 <= ahead < end:
        return float("nan")
    if then.offset < 0:  # nothing since then; where none is known to have a timestamp, perhaps records without
        return 0.0 if dated else float("nan")
    if then.offset == start and start > 0:  # what was written before that record is deleted
        over_s -= (then.timestamp - then_ms) / 1000
    return (end - then.offset) / over_s if over_s > 0 and then.offset <= end else float("nan")


_NO_TIMESTAMP = -1


def read_sizes(
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

    answers = connection.ask([(broker, _log_dirs_request(by_broker[broker])) for broker in brokers], answered)
    found: dict[TopicPartition, LeaderOffset] = {}
    silent: dict[str, list[str]] = defaultdict(list)
    for broker, answer, came_s in zip(brokers, answers, answered_s, strict=True):
        if why := kafka_connection.no_sizes_reason(answer):
            silent[why].append(str(broker))
        else:
            found |= {key: LeaderOffset(size, _NO_TIMESTAMP, came_s) for key, size in _partition_sizes(answer)}
    for why, those in silent.items():
        tell(f"{kafka_connection.NO_SIZES}: {', '.join(those)} ({why})")
    tell(f"read sizes: {len(found)} of {len(leaders)} partitions")
    return found


def _log_dirs_request(topics: Mapping[str, list[int]]) -> Any:
    topic_of = DescribeLogDirsRequest.DescribableLogDirTopic
    return DescribeLogDirsRequest(
        topics=[topic_of(topic=topic, partitions=sorted(numbers)) for topic, numbers in sorted(topics.items())]
    )


def _partition_sizes(answer: Any) -> list[tuple[TopicPartition, int]]:
    """Without logs that are on their way to another folder of the broker."""
    return [
        ((topic.name, each.partition_index), each.partition_size)
        for folder in answer.results
        if not folder.error_code
        for topic in folder.topics
        for each in topic.partitions
        if not each.is_future_key
    ]
