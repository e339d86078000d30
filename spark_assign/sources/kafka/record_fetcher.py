"""Fetches the records of `__consumer_offsets` from the leaders of its partitions, by raw Fetch requests.

Partitions are assigned, as by `KafkaConsumer.assign`: no group is joined, and nothing is committed. kafka-python sends
the requests; `history.kernel.log_segments` decodes the record batches as columns, many at a time. A user needs READ and
DESCRIBE on the topic.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
from kafka import errors
from kafka.protocol.consumer import FetchRequest

from spark_assign.history.kernel.log_segments import read_fetched
from spark_assign.history.records import TOPIC
from spark_assign.numeric.arrays import values_by_key
from spark_assign.sources.kafka import connection as kafka_connection
from spark_assign.sources.kafka import offsets as kafka_offsets
from spark_assign.sources.kafka.connection import ClusterConnection
from spark_assign.spark.progress import progress
from spark_assign.tables.errors import SourceError

ATTEMPTS = 20
"""Requests in a row without a record after which reading ends with an error."""
PAUSE_S = 1.0
SMALL_OFFSETS, SMALL_BYTES = 100, 10_000
"""A response that advances a partition by fewer offsets, with fewer bytes of records, is small. A broker that does what
it should fills a response up to the end of a segment, or to what a quota allows in ten seconds."""
MAX_SMALL, MIN_SMALL, MAX_SMALL_S = 10_000, 100, 3600.0
"""Small responses in a row after which reading a partition ends with an error: `MAX_SMALL`, or more than `MIN_SMALL` in
more than `MAX_SMALL_S`. Segments that are small, and were never compacted, are at most a few thousand."""

_PARTITION_BYTES, _RESPONSE_BYTES = 4 << 20, 16 << 20
"""Maximum size of the batches of a partition and of a response, unless the first batch is larger (KIP-74)."""
_MAX_WAIT_MS = 500
_MIN_VERSION, _MAX_VERSION = 4, 12
"""Versions of Fetch that have aborted transactions, and the topic by name."""


class FetchedRecords(NamedTuple):
    """Committed records of a partition (`wire.segment_records.RECORDS`), and the offset at which to continue."""

    partition: int
    next_offset: int
    records: pa.Table


def fetch_records(
    connection: ClusterConnection, starts: Mapping[int, int], report: Callable[[str], None]
) -> Iterator[FetchedRecords]:
    """Yields the records of all partitions up to the last stable offsets at the time of the call.

    They are those of a consumer with `isolation.level=read_committed`. Each partition is read in order. If a
    connection or a leader is lost, the partition continues at the next offset.

    Args:
        connection: the cluster.
        starts: the first offset to read by partition (default: the beginning).
        report: is called with a text if records before `starts` were deleted.

    Raises:
        SourceError: the topic doesn't exist or may not be read; a partition has no leader, or its records can't be
            read, for `ATTEMPTS` requests; the log of a partition ends before the offset to continue at; or a broker
            sends so little of a partition that reading would never end.
    """
    leaders = _leaders(connection)
    begins, ends = _bounds(connection, leaders)
    positions = {partition: starts.get(partition, begin) for partition, begin in begins.items()}
    for partition in begins:
        _check_position(partition, positions, begins, ends, report)
    num_offsets = sum(max(ends[partition] - position, 0) for partition, position in positions.items())
    failures, small = 0, dict[int, _SmallResponses]()
    with progress(f"offsets of {TOPIC} read", num_offsets) as step:
        while remaining := {key: position for key, position in positions.items() if position < ends[key]}:
            problem: Exception | None = None
            is_advanced = False
            for data in _fetch(connection, leaders, remaining):
                if isinstance(data, Exception):
                    problem = data
                    continue
                partition = data.partition_index
                if data.error_code == errors.OffsetOutOfRangeError.errno:
                    begins_now, ends_now = _bounds(connection, leaders)
                    before = positions[partition]
                    if _check_position(partition, positions, begins_now, ends_now, report):
                        is_advanced = True
                        small.setdefault(partition, _SmallResponses()).add(positions[partition] - before, 0)
                    continue
                if data.error_code:
                    problem = errors.for_code(data.error_code)(f"partition {partition}")
                    continue
                aborted = [(each.first_offset, each.producer_id) for each in data.aborted_transactions or ()]
                start, end = positions[partition], ends[partition]
                records, next_offset, damage = read_fetched(bytes(data.records or b""), start, end, aborted)
                if damage is not None:
                    problem = errors.CorruptRecordError(f"partition {partition}, offset {next_offset}: {damage}")
                if next_offset > start:
                    positions[partition], is_advanced = next_offset, True
                    small.setdefault(partition, _SmallResponses()).add(next_offset - start, records.nbytes)
                    step(min(next_offset, end) - start)
                    yield FetchedRecords(partition, next_offset, records)
            for partition in remaining.keys() & small.keys():
                if positions[partition] < ends[partition] and small[partition].are_too_many():
                    broker, at = leaders.get((TOPIC, partition)), f"{positions[partition]:,} of {ends[partition]:,}"
                    few = f"{SMALL_OFFSETS} offsets and {SMALL_BYTES:,} bytes of records each"
                    answered = f"broker {broker} answered {small[partition].number:,} requests in a row with less than"
                    problem = ValueError(f"{answered} {few}, and claims that there are more")
                    raise connection.failed(f"{TOPIC}-{partition} can't be read from offset {at} on", problem)
            failures = 0 if is_advanced else failures + 1
            if problem is not None:
                _check_retriable(connection, problem, failures)
            elif failures == ATTEMPTS:
                raise connection.failed(f"no records of {TOPIC} from {remaining} on", TimeoutError())
            if not is_advanced:
                kafka_connection.wait(PAUSE_S)
            if problem is not None:
                leaders = _leaders(connection)


@dataclass
class _SmallResponses:
    """Small responses of a partition in a row: their number, and the time of the first one."""

    number: int = 0
    since_s: float = 0.0

    def add(self, offsets: int, size: int) -> None:
        """Counts a response that advances a partition. One that isn't small ends the row."""
        self.since_s = self.since_s if self.number else time.monotonic()
        self.number = self.number + 1 if offsets < SMALL_OFFSETS and size < SMALL_BYTES else 0

    def are_too_many(self) -> bool:
        """Checks whether no broker that does what it should sends as many."""
        is_slow = self.number > MIN_SMALL and time.monotonic() - self.since_s > MAX_SMALL_S
        return self.number >= MAX_SMALL or is_slow


def _leaders(connection: ClusterConnection) -> dict[tuple[str, int], int]:
    """Returns the leader of each partition. Raises SourceError if the topic doesn't exist or may not be described."""
    listed = [topic for topic in connection.metadata([TOPIC]).topics if topic.name == TOPIC]
    if len(listed) != 1:
        raise connection.failed(f"the metadata list {TOPIC} {len(listed)} times", ValueError("wrong response"))
    topic = listed[0]
    if topic.error_code:
        error = errors.for_code(topic.error_code)()
        if isinstance(error, errors.UnknownTopicOrPartitionError):
            raise connection.failed(f"there is no topic {TOPIC}: no group has ever joined or committed", error)
        _check_retriable(connection, error, 0)
    return kafka_offsets.leaders_of([topic])


def _bounds(
    connection: ClusterConnection, leaders: Mapping[tuple[str, int], int]
) -> tuple[dict[int, int], dict[int, int]]:
    """Returns the first offset and the last stable offset of each partition. Raises SourceError if one is unknown."""
    bounds = []
    begin = kafka_offsets.EARLIEST, kafka_offsets.READ_UNCOMMITTED
    for bound in (begin, (kafka_offsets.LATEST, kafka_offsets.READ_COMMITTED)):
        found = kafka_offsets.offsets_at(connection, leaders, leaders, lambda _: None, *bound)
        if missing := sorted(partition for _, partition in leaders.keys() - found.keys()):
            raise connection.failed(f"partitions of {TOPIC} without a leader: {missing}", TimeoutError())
        bounds.append({partition: at.offset for (_, partition), at in sorted(found.items())})
    return bounds[0], bounds[1]


def _check_position(
    partition: int,
    positions: dict[int, int],
    begins: Mapping[int, int],
    ends: Mapping[int, int],
    report: Callable[[str], None],
) -> bool:
    """Moves a position to the beginning of its partition if the records before it were deleted; returns whether it did.

    Raises SourceError if the log ends before the position: it was truncated, or the topic was created again.
    """
    position, begin, end = positions[partition], begins[partition], ends[partition]
    if position > end:
        raise SourceError(
            f"{TOPIC}-{partition} ends at offset {end}, before offset {position}, at which to continue: its log was "
            "truncated, or the topic was created again. Read it from the beginning, into a new folder."
        )
    if position < begin:
        report(f"{TOPIC}-{partition}: the records from offset {position} to {begin - 1} were deleted before being read")
        positions[partition] = begin
    return position < begin


def _fetch(
    connection: ClusterConnection, leaders: Mapping[tuple[str, int], int], positions: Mapping[int, int]
) -> Iterator[Any]:
    """Sends one Fetch request to each leader. Yields the response of each partition, and the exceptions of requests."""
    by_leader = values_by_key((leaders.get((TOPIC, partition), -1), partition) for partition in positions)
    if by_leader.pop(-1, None):
        yield errors.LeaderNotAvailableError()
    max_bytes = max(_RESPONSE_BYTES // max(len(by_leader), 1), _PARTITION_BYTES)
    requests = [
        (leader, _request({partition: positions[partition] for partition in partitions}, max_bytes))
        for leader, partitions in by_leader.items()
    ]
    responses, requested = connection.send_all(requests), list(by_leader.values())
    while responses:
        response, partitions = responses.pop(), requested.pop()  # its memory is released after it was read
        if isinstance(response, Exception):
            yield response
        elif getattr(response, "error_code", 0):
            yield errors.for_code(response.error_code)()
        else:
            for topic in response.responses:
                # A broker can list others.
                yield from (each for each in topic.partitions if each.partition_index in partitions)


def _request(positions: Mapping[int, int], max_bytes: int) -> Any:
    """Returns the Fetch request for the positions of one leader's partitions."""
    topic_of = FetchRequest.FetchTopic
    partitions = [
        topic_of.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=_PARTITION_BYTES)
        for partition, offset in positions.items()
    ]
    return FetchRequest(
        max_wait_ms=_MAX_WAIT_MS,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=kafka_offsets.READ_COMMITTED,
        topics=[topic_of(topic=TOPIC, partitions=partitions)],
        min_version=_MIN_VERSION,
        max_version=_MAX_VERSION,
    )


def _check_retriable(connection: ClusterConnection, problem: Exception, failures: int) -> None:
    """Raises SourceError for a problem that doesn't pass, or hasn't passed for `ATTEMPTS` requests."""
    is_final = isinstance(problem, errors.BrokerResponseError) and not (
        problem.retriable or isinstance(problem, errors.CorruptRecordError)
    )
    if isinstance(problem, errors.TopicAuthorizationFailedError):
        raise connection.failed(f"no permission to read {TOPIC}. Grant READ and DESCRIBE on this topic", problem)
    if is_final or failures >= ATTEMPTS:
        raise connection.failed(f"{TOPIC} can't be read", problem)
