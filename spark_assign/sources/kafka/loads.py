"""Reads the load of partitions into `loads`: from several readings of offsets and sizes, or from one with
timestamps.

Each reading after the first repeats only the requests whose results can change: OffsetFetch at the coordinators,
ListOffsets and DescribeLogDirs at the leaders. At the end, one Metadata request finds topics that were recreated
meanwhile. A rate is over the actual time between two responses for the same partition, not over the requested
interval.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
from kafka import errors
from kafka.protocol.admin import DescribeLogDirsRequest

from spark_assign.numeric import rates
from spark_assign.numeric.arrays import FloatArray
from spark_assign.sources.files.snapshot import SnapshotRows
from spark_assign.sources.kafka import connection as kafka_connection
from spark_assign.sources.kafka import groups as kafka_groups
from spark_assign.sources.kafka import offsets as kafka_offsets
from spark_assign.sources.kafka.connection import ClusterConnection
from spark_assign.sources.kafka.groups import ListedGroup, Progress
from spark_assign.sources.kafka.offsets import LeaderOffset, TopicPartition
from spark_assign.tables.errors import SourceError
from spark_assign.tables.parameters import Param

_AHEAD = 0.05
"""Fraction of the lookback by which producers' clocks can be ahead. It bounds the error of the rates."""


@dataclass(frozen=True)
class LoadReadOptions:
    """How to read loads: several readings, or one with timestamps of records.

    Attributes:
        every_s: read offsets and log sizes repeatedly at this interval, for example 60s, and write the table loads
            (default: one reading, without loads).
        times: number of readings with --interval, including the first.
        since_s: compute loads in one reading from record timestamps, of the last TIME, for example 10m.
    """

    every_s: Annotated[float, Param(above=0, flag="interval")] = 60
    times: Annotated[int, Param(least=2)] = 5
    since_s: Annotated[float | None, Param(above=0, flag="rates_since")] = None

    def to_json(self) -> dict[str, float]:
        """Returns the entries of `snapshot.json`."""
        if self.since_s is not None:
            return {"since_s": self.since_s}
        return {"every_s": self.every_s, "times": self.times}


@dataclass(frozen=True)
class OffsetReading:
    """The results of one reading.

    Attributes:
        committed: the committed offsets of each group; for a share group, the start offsets.
        answered_s: the time of each group's response.
        ends: the end offset of each partition.
        sizes: the size of each partition's log at the broker that led it in the first reading.
    """

    committed: Mapping[str, Mapping[TopicPartition, int]]
    answered_s: Mapping[str, float]
    ends: Mapping[TopicPartition, LeaderOffset]
    sizes: Mapping[TopicPartition, LeaderOffset] = field(default_factory=dict)


@dataclass(frozen=True)
class LoadTargets:
    """The groups, and the partitions with their leaders, whose load is read; topics with their IDs."""

    connection: ClusterConnection
    groups: Mapping[str, ListedGroup]
    leaders: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, Any]
    report: Progress

    def read(self, first: OffsetReading) -> OffsetReading:
        """Reads again. Committed offsets are read before end offsets, so that no group is ahead of the end.

        Covers partitions with a response in the first reading: partitions without a leader and brokers that report
        no sizes are skipped.
        """
        sizes = self.sizes(first.sizes) if first.sizes else {}
        committing = {group_id: group for group_id, group in self.groups.items() if group.commits}
        committed, _, answered_s = kafka_offsets.committed(self.connection, committing, self.report)
        starts, _, starts_answered_s = kafka_groups.read_starts(self.connection, self.groups, self.report)
        ends = kafka_offsets.offsets_at(self.connection, self.leaders, first.ends, self.report)
        return OffsetReading(committed | known_starts(starts), answered_s | starts_answered_s, ends, sizes)

    def sizes(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, LeaderOffset]:
        """Returns the sizes of logs at the brokers that led them in the first reading."""
        return read_sizes(self.connection, {key: self.leaders[key] for key in partitions}, self.report)

    def recreated_topics(self) -> set[str]:
        """Returns the topics that were deleted, including those that were created again."""
        topics = self.connection.metadata(self.topic_ids).topics
        current_ids = {topic.name: getattr(topic, "topic_id", None) for topic in topics if topic.error_code == 0}
        return {topic for topic, topic_id in self.topic_ids.items() if current_ids.get(topic, ...) != topic_id}


def known_starts(starts: Mapping[str, Mapping[TopicPartition, int]]) -> dict[str, dict[TopicPartition, int]]:
    """Returns the started partitions of share groups."""
    return {
        group_id: {key: start for key, start in offsets.items() if start >= 0} for group_id, offsets in starts.items()
    }


def add(rows: SnapshotRows, targets: LoadTargets, first: OffsetReading, loads: LoadReadOptions) -> None:
    """Adds `loads`. The snapshot itself is the first reading."""
    rows.rows["loads"] = []
    if loads.since_s is None:
        _add_readings(rows, targets, first, loads.every_s, loads.times)
    else:
        _add_since(rows, targets, first, loads.since_s)


def _add_readings(rows: SnapshotRows, targets: LoadTargets, first: OffsetReading, every_s: float, times: int) -> None:
    """Adds `loads` from several readings."""
    start_s = time.monotonic()
    first = replace(first, sizes=targets.sizes(targets.leaders))
    for replica in rows.rows["replicas"]:
        size = first.sizes.get((replica["topic"], replica["partition"]))
        replica["bytes"] = None if size is None else size.offset
    readings, recreated = [first], set[str]()
    try:
        for number in range(1, times):
            kafka_connection.wait(max(start_s + number * every_s - time.monotonic(), 0))
            targets.report(f"reading {number + 1} of {times}")
            readings.append(targets.read(first))
        recreated = targets.recreated_topics()
    except SourceError as error:  # the readings before the error are used
        targets.report(f"loads are of {len(readings)} readings, not of {times}: {error}")
    _add(rows, readings, recreated)


def _add(rows: SnapshotRows, readings: Sequence[OffsetReading], recreated: Collection[str]) -> None:
    """Adds the rates of all partitions and groups."""
    keys = sorted(readings[0].ends)
    written = rates.rates(*_matrix([map(reading.ends.get, keys) for reading in readings], len(keys)))
    growth = rates.growth_rates(*_matrix([map(reading.sizes.get, keys) for reading in readings], len(keys)))
    columns = (_known(column, keys, recreated) for column in (written.mean, written.stddev, growth))
    for (topic, partition), mean, stddev, num_bytes in zip(keys, *columns, strict=True):
        rows.add(
            "loads",
            topic=topic,
            partition=partition,
            in_messages_per_second=mean,
            in_messages_per_second_stddev=stddev,
            in_bytes_per_second=num_bytes,
        )
    for group_id in sorted(set().union(*(reading.committed for reading in readings))):
        _add_group(rows, readings, recreated, group_id)


def _add_group(
    rows: SnapshotRows, readings: Sequence[OffsetReading], recreated: Collection[str], group_id: str
) -> None:
    """Adds the rates of the partitions that a group has committed in any reading."""
    committed_by_reading = [reading.committed.get(group_id, {}) for reading in readings]
    keys = sorted(key for key in set().union(*committed_by_reading) if key in readings[0].ends)
    responses = []
    for reading, committed in zip(readings, committed_by_reading, strict=True):
        answered_s = reading.answered_s.get(group_id, np.nan)
        responses.append([LeaderOffset(committed[key], -1, answered_s) if key in committed else None for key in keys])
    out_rates = _known(rates.rates(*_matrix(responses, len(keys))).mean, keys, recreated)
    for (topic, partition), rate in zip(keys, out_rates, strict=True):
        lag = _lag(readings[-1], group_id, (topic, partition))
        rows.add("loads", topic=topic, partition=partition, group_id=group_id, out_messages_per_second=rate, lag=lag)


def _lag(reading: OffsetReading, group_id: str, key: TopicPartition) -> int | None:
    """Returns the lag, or None if there is no committed offset, no end offset, or the end offset is smaller."""
    offset, end = reading.committed.get(group_id, {}).get(key), reading.ends.get(key)
    return None if offset is None or end is None or end.offset < offset else end.offset - offset


def _matrix(readings: Sequence[Iterable[LeaderOffset | None]], rows: int) -> tuple[FloatArray, FloatArray]:
    """Returns times and values of counters. Shapes: (rows, num_readings); NaN if unknown."""
    times, counters = (np.full((rows, len(readings)), np.nan) for _ in range(2))
    for column, reading in enumerate(readings):
        for row, response in enumerate(reading):
            if response is not None:
                times[row, column], counters[row, column] = response.answered_s, response.offset
    return times, counters


def _known(values: FloatArray, keys: Sequence[TopicPartition], recreated: Collection[str]) -> list[float | None]:
    """Returns the values of partitions as a list with None for NaN and for recreated topics."""
    return [
        None if math.isnan(value) or topic in recreated else value
        for value, (topic, _) in zip(values.tolist(), keys, strict=True)
    ]


def _add_since(rows: SnapshotRows, targets: LoadTargets, reading: OffsetReading, since_s: float) -> None:
    """Adds `loads` from one reading with timestamps: the records that were written in the last `since_s` seconds."""
    start_s, start_ms = time.monotonic(), int(time.time() * 1000)
    since_ms = start_ms - int(since_s * 1000)

    def read_at(timestamp: int) -> Mapping[TopicPartition, LeaderOffset]:
        return kafka_offsets.offsets_at(targets.connection, targets.leaders, reading.ends, targets.report, timestamp)

    starts, ahead = read_at(kafka_offsets.EARLIEST), read_at(start_ms + int(_AHEAD * since_s * 1000))
    latest = read_at(kafka_offsets.MAX_TIMESTAMP) if kafka_offsets.has_max_timestamp(targets.connection) else {}
    # Read last: a record that wasn't replicated yet, and hid the latest timestamp, is visible by reading.
    first_since = read_at(since_ms)
    for key in sorted(reading.ends):
        end = reading.ends[key]
        # The end was read before the moment from which the time is counted back.
        over_s = since_s + end.answered_s - start_s
        rate = np.nan
        if key in starts and key in ahead and key in first_since:
            dated = key in latest and latest[key].timestamp >= 0
            rate = _since(over_s, since_ms, end.offset, starts[key].offset, first_since[key], ahead[key].offset, dated)
        rows.add("loads", topic=key[0], partition=key[1], in_messages_per_second=None if np.isnan(rate) else rate)
    for group_id in sorted(reading.committed):
        for topic, partition in sorted(key for key in reading.committed[group_id] if key in reading.ends):
            lag = _lag(reading, group_id, (topic, partition))
            rows.add("loads", topic=topic, partition=partition, group_id=group_id, lag=lag)


def _since(over_s: float, since_ms: int, end: int, start: int, first: LeaderOffset, ahead: int, dated: bool) -> float:
    """Returns the records per second of one partition, or NaN if the timestamps don't determine it.

    They don't if records have no timestamps or future ones, or if all records were deleted. `ahead` is the offset of
    the first record with a future timestamp; one at or after the end was written during the requests. The latest
    timestamp isn't sufficient for this check: while a record isn't replicated to all followers, leaders return none.
    """
    if end == 0:
        return 0.0
    if start >= end or 0 <= ahead < end:
        return float("nan")
    if first.offset < 0:  # no record since then, or only records without a timestamp
        return 0.0 if dated else float("nan")
    if first.offset == start and start > 0:  # the records before it were deleted
        over_s -= (first.timestamp - since_ms) / 1000
    return (end - first.offset) / over_s if over_s > 0 and first.offset <= end else float("nan")


_NO_TIMESTAMP = -1
_CORDONED_VERSION = 5
"""The first version of DescribeLogDirs that has `IsCordoned` (KIP-1066)."""


def read_sizes(
    connection: ClusterConnection, leaders: Mapping[TopicPartition, int], report: Progress
) -> dict[TopicPartition, LeaderOffset]:
    """Returns the size in bytes of each partition's log at the given broker, by one DescribeLogDirs request per
    broker.

    Partitions that no broker reports are omitted. A user without the permission to describe the cluster gets no
    sizes, from older brokers even without an error. This is reported as progress and isn't an error: only the column
    bytes is missing first.
    """
    if connection.newest(DescribeLogDirsRequest) < 0:
        report("bytes are not known: the brokers have no DescribeLogDirs")
        return {}
    by_broker: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for (topic, partition), broker in leaders.items():
        if broker >= 0:
            by_broker[broker][topic].append(partition)
    brokers = sorted(by_broker)
    answered_s = [0.0] * len(brokers)

    def answered(position: int) -> None:
        answered_s[position] = time.monotonic()

    responses = connection.send_all([(broker, _log_dirs_request(by_broker[broker])) for broker in brokers], answered)
    sizes: dict[TopicPartition, LeaderOffset] = {}
    brokers_by_reason: dict[str, list[str]] = defaultdict(list)
    for broker, response, responded_s in zip(brokers, responses, answered_s, strict=True):
        if reason := kafka_connection.no_sizes_reason(response):
            brokers_by_reason[reason].append(str(broker))
        else:
            sizes |= {
                key: LeaderOffset(size, _NO_TIMESTAMP, responded_s)
                for key, size in _partition_sizes(response)
                if leaders.get(key) == broker  # a broker can list others
            }
    for reason, broker_ids in brokers_by_reason.items():
        report(f"{kafka_connection.NO_SIZES}: {', '.join(broker_ids)} ({reason})")
    report(f"read sizes: {len(sizes)} of {len(leaders)} partitions")
    return sizes


def log_dir_states(
    connection: ClusterConnection, rows: SnapshotRows | None = None, report: Progress = lambda _: None
) -> dict[int, dict[str, Any]]:
    """Returns the columns `cordoned` and `offline_log_dirs` of each broker that describes its log directories.

    With `rows`, also adds `log_dirs` and `log_dir_replicas`, and reports the brokers that don't describe them.
    Otherwise the requests name no topics, so that the responses are small. `cordoned` is None before DescribeLogDirs v5
    (Kafka 4.3).
    """
    if rows is not None:
        rows.rows |= {"log_dirs": [], "log_dir_replicas": []}
    if (version := connection.newest(DescribeLogDirsRequest)) < 0:
        report("log directories are not known: the brokers have no DescribeLogDirs")
        return {}
    knows_cordoned, brokers = version >= _CORDONED_VERSION, connection.brokers()
    topics: list[Any] | None = [] if rows is None else None
    responses = connection.send_all([(broker, DescribeLogDirsRequest(topics=topics)) for broker in brokers])
    states = {}
    for broker, response in zip(brokers, responses, strict=True):
        if reason := kafka_connection.no_sizes_reason(response):
            report(f"log directories of broker {broker} are not known ({reason})")
            continue
        online = [folder for folder in response.results if not folder.error_code]
        cordoned = all(folder.is_cordoned for folder in online) if knows_cordoned and online else None
        states[broker] = {"cordoned": cordoned, "offline_log_dirs": len(response.results) - len(online)}
        if rows is not None:
            _add_log_dirs(rows, broker, response.results, knows_cordoned)
    return states


def _add_log_dirs(rows: SnapshotRows, broker: int, folders: Collection[Any], knows_cordoned: bool) -> None:
    """Adds the log directories of a broker, and the logs in them. Bytes of a volume are -1 before v4 (Kafka 3.3)."""
    for folder in folders:
        key = {"broker_id": broker, "log_dir": folder.log_dir}
        error = errors.for_code(folder.error_code).__name__ if folder.error_code else None
        sizes = {name: size for name in ("total_bytes", "usable_bytes") if (size := getattr(folder, name)) >= 0}
        rows.add("log_dirs", **key, error=error, **sizes, cordoned=folder.is_cordoned if knows_cordoned else None)
        for topic in folder.topics if error is None else ():
            for each in topic.partitions:
                log = {"topic": topic.name, "partition": each.partition_index, "is_future": each.is_future_key}
                lag = each.offset_lag if each.offset_lag >= 0 else None  # -1: the broker doesn't have the replica
                rows.add("log_dir_replicas", **log, **key, bytes=each.partition_size, offset_lag=lag)


def _log_dirs_request(topics: Mapping[str, list[int]]) -> Any:
    """Returns the DescribeLogDirs request for partitions."""
    topic_of = DescribeLogDirsRequest.DescribableLogDirTopic
    return DescribeLogDirsRequest(
        topics=[
            topic_of(topic=topic, partitions=sorted(partition_ids)) for topic, partition_ids in sorted(topics.items())
        ]
    )


def _partition_sizes(response: Any) -> list[tuple[TopicPartition, int]]:
    """Returns the sizes in a response, without logs that are moving to another folder of the broker."""
    return [
        ((topic.name, partition.partition_index), partition.partition_size)
        for folder in response.results
        if not folder.error_code
        for topic in folder.topics
        for partition in topic.partitions
        if not partition.is_future_key
    ]
