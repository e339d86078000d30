"""Records of `__consumer_offsets` by Fetch requests: from brokers that fail, move, cut, compact, and delete."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from kafka import errors
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from pyarrow import parquet as pq

from spark_assign.sources.kafka import connection as kafka_connection
from spark_assign.sources.kafka import record_fetcher, records_folder
from spark_assign.sources.kafka.record_fetcher import (
    ATTEMPTS,
    SMALL_BYTES,
    SMALL_OFFSETS,
    FetchedRecords,
    fetch_records,
)
from spark_assign.sources.kafka.records_folder import RecordsFolder
from spark_assign.tables.errors import ConfigError, SourceError
from spark_assign.wire.group_records import write_key, write_value
from spark_assign.wire.segment_records import RECORDS, Record
from tests.cases import cases
from tests.unit.test_log_segment import batch_of, control, emptied, of_producer, with_record

Rows = dict[tuple[int, int], tuple[bytes | None, bytes | None]]
"""Key and value of records by partition and offset."""


@dataclass
class Log:
    """The log of a partition: first offset, offset after the last one, and bytes of each batch; and what is aborted."""

    leader: int = 1
    batches: list[tuple[int, int, bytes]] = field(default_factory=list)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    """First offset, marker, and producer."""
    start: int = 0
    end: int = 0

    def add(self, made: bytes, size: int = 1) -> None:
        """Appends a batch of some offsets."""
        self.batches.append((self.end, self.end + size, made))
        self.end += size

    def plain(self, *values: bytes | None) -> None:
        """Appends a batch of records without a transaction."""
        records = [Record(self.end + at, 1000 + at, b"k", value) for at, value in enumerate(values)]
        self.add(batch_of(records), len(values))


@dataclass
class Cluster:
    """Brokers that answer Metadata, ListOffsets, and Fetch, and nothing else.

    Attributes:
        faults: are called with each Fetch request; one that returns something answers it, and is used up.
        response_bytes: how much a response has of a partition; the last batch is cut.
    """

    logs: dict[int, Log]
    faults: list[Callable[[int, Any], Any]] = field(default_factory=list)
    response_bytes: int = 1 << 20
    requests: list[tuple[int, Any]] = field(default_factory=list)
    topic_error: int = 0

    def metadata(self, topics: Collection[str]) -> Any:
        """The leaders as they are now."""
        assert list(topics) == ["__consumer_offsets"]
        partitions = [SimpleNamespace(partition_index=each, leader_id=log.leader) for each, log in self.logs.items()]
        return SimpleNamespace(
            topics=[SimpleNamespace(name="__consumer_offsets", error_code=self.topic_error, partitions=partitions)]
        )

    def send_all(self, requests: Sequence[tuple[int, Any]], answered: Callable[[int], None] = lambda _: None) -> Any:
        """The responses."""
        responses = []
        for broker, request in requests:
            self.requests.append((broker, request))
            (topic,) = request.topics
            if isinstance(request, ListOffsetsRequest):
                responses.append(self._list(broker, topic, request.isolation_level))
                continue
            assert isinstance(request, FetchRequest)
            assert request.isolation_level == 1
            fault = self.faults[0](broker, request) if self.faults else None
            if fault is not None:
                self.faults.pop(0)
            responses.append(fault or self.fetched(broker, topic))
        return responses

    def failed(self, problem: str, error: BaseException) -> SourceError:
        """As the connection."""
        return SourceError(f"{problem} ({type(error).__name__}: {error})")

    def _list(self, broker: int, topic: Any, isolation_level: int) -> Any:
        found = []
        for each in topic.partitions:
            log = self.logs[each.partition_index]
            assert isolation_level == (0 if each.timestamp == -2 else 1)
            offset = log.start if each.timestamp == -2 else log.end
            code = 0 if broker == log.leader else errors.NotLeaderForPartitionError.errno
            found.append(
                SimpleNamespace(partition_index=each.partition_index, error_code=code, offset=offset, timestamp=-1)
            )
        return SimpleNamespace(topics=[SimpleNamespace(name=topic.name, partitions=found)])

    def fetched(self, broker: int, topic: Any) -> Any:
        """The response of a broker that does what it should."""
        found = []
        for each in topic.partitions:
            log, at = self.logs[each.partition], each.fetch_offset
            code, data, aborted = 0, b"", []
            if broker != log.leader:
                code = errors.NotLeaderForPartitionError.errno
            elif not log.start <= at <= log.end:
                code = errors.OffsetOutOfRangeError.errno
            else:
                batches = [batch for batch in log.batches if batch[1] > at]
                data = b"".join(batch[2] for batch in batches)
                data = data[: max(self.response_bytes, len(batches[0][2]))] if batches else b""
                aborted = [SimpleNamespace(first_offset=f, producer_id=p) for f, m, p in log.aborted if m >= at]
            found.append(
                SimpleNamespace(
                    partition_index=each.partition, error_code=code, records=data, aborted_transactions=aborted or None
                )
            )
        return SimpleNamespace(error_code=0, responses=[SimpleNamespace(partitions=found)])


def with_code(code: int) -> Callable[[int, Any], Any]:
    """A response with the error for all partitions."""

    def respond(_: int, request: Any) -> Any:
        found = [
            SimpleNamespace(partition_index=each.partition, error_code=code, records=None, aborted_transactions=None)
            for each in request.topics[0].partitions
        ]
        return SimpleNamespace(error_code=0, responses=[SimpleNamespace(partitions=found)])

    return respond


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long it waited; nobody waits."""
    waited: list[float] = []
    monkeypatch.setattr(kafka_connection, "wait", waited.append)
    return waited


def fetch(cluster: Cluster, starts: Mapping[int, int] | None = None, reports: list[str] | None = None) -> Any:
    """The parts, as they come."""
    report = (lambda _: None) if reports is None else reports.append
    return fetch_records(cluster, starts or {}, report)  # type: ignore[arg-type]


def rows_of(parts: Iterator[FetchedRecords]) -> Rows:
    """All records, each once, and those of a partition in order."""
    rows: Rows = {}
    for part in parts:
        for record in part.records.to_pylist():
            place = part.partition, record["offset"]
            assert not any(other >= place for other in rows if other[0] == part.partition), "in order, each once"
            rows[place] = record["key"], record["value"]
    return rows


def rows_in(folder: Path) -> Rows:
    """The records in a folder as Spark sees them, each of which must be there once."""
    files = [file for file in sorted(folder.glob("*.parquet")) if file.name[0] not in "._"]
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    found = {(row["partition"], row["offset"]): (row["key"], row["value"]) for row in rows}
    assert len(found) == len(rows)
    return found


def random_log(chance: random.Random, partition: int) -> tuple[Log, Rows]:
    """A log with transactions side by side, gaps of compaction, and tombstones; and what a consumer sees of it."""
    log, rows = Log(), {}
    open_transactions: dict[int, list[int]] = {}
    for _ in range(chance.randrange(60)):
        kind = chance.choice(("plain", "plain", "gap", "emptied", "begin", "begin", "end"))
        producer = chance.randrange(3)
        if kind == "plain":
            values = [chance.choice((None, b"", b"v" * chance.randrange(90))) for _ in range(chance.randint(1, 4))]
            rows |= {(partition, log.end + at): (b"k", value) for at, value in enumerate(values)}
            log.plain(*values)
        elif kind == "gap":
            log.end += chance.randint(1, 50)
        elif kind == "emptied":
            log.add(emptied(log.end, 7))
        elif kind == "begin":
            open_transactions.setdefault(producer, []).append(log.end)
            log.add(of_producer(log.end, producer))
        elif producer in open_transactions:
            end_transaction(chance, log, producer, open_transactions.pop(producer), rows, partition)
    for producer, offsets in open_transactions.items():  # the last stable offset is after the last one
        end_transaction(chance, log, producer, offsets, rows, partition)
    log.add(emptied(log.end, 7))  # compaction keeps the last offset
    return log, rows


def end_transaction(
    chance: random.Random, log: Log, producer: int, offsets: list[int], rows: Rows, partition: int
) -> None:
    """Commits or aborts."""
    if chance.random() < 0.5:
        rows |= {(partition, offset): (b"k", b"v") for offset in offsets}
        log.add(control(log.end, 1, producer))
    else:
        log.aborted.append((offsets[0], log.end, producer))
        log.add(control(log.end, 0, producer))


def test_random_logs(rng: random.Random) -> None:
    """Committed records, each once and in order, however responses are cut; also from any record on."""
    for _ in range(10):
        logs = {partition: random_log(rng, partition) for partition in range(4)}
        expected = {place: row for _, rows in logs.values() for place, row in rows.items()}
        cluster = Cluster({partition: log for partition, (log, _) in logs.items()})
        cluster.response_bytes = rng.choice((1, 90, 500, 1 << 20))
        for number, log in enumerate(cluster.logs.values()):
            log.leader = number % 2 + 1
        assert rows_of(fetch(cluster)) == expected
        assert {type(request) for _, request in cluster.requests} == {FetchRequest, ListOffsetsRequest}
        starts = {partition: rng.randint(0, log.end) for partition, log in cluster.logs.items()}
        assert rows_of(fetch(cluster, starts)) == {p: row for p, row in expected.items() if p[1] >= starts[p[0]]}


def test_empty_partitions_are_not_requested() -> None:
    """Nor those of which nothing is new."""
    cluster = Cluster({0: Log(), 1: Log(start=7, end=7), 2: Log()})
    cluster.logs[2].plain(b"v")
    assert list(fetch(cluster, {2: 1})) == []
    assert rows_of(fetch(cluster)) == {(2, 0): (b"k", b"v")}
    (request,) = (request for _, request in cluster.requests if isinstance(request, FetchRequest))
    assert [each.partition for each in request.topics[0].partitions] == [2]


def test_it_ends_where_the_topic_ended_at_the_start() -> None:
    """Groups that commit meanwhile don't keep it from ending, and the next run has these commits."""
    cluster = Cluster({0: Log()})
    cluster.logs[0].plain(b"1")

    def write_more(broker: int, request: Any) -> Any:
        cluster.logs[0].plain(b"2", b"3")
        return cluster.fetched(broker, request.topics[0])

    cluster.faults = [write_more] * 9
    (part,) = fetch(cluster)
    assert part.records["value"].to_pylist() == [b"1"]
    assert rows_of(fetch(cluster, {0: part.next_offset})) == {(0, 1): (b"k", b"2"), (0, 2): (b"k", b"3")}


def test_a_lost_connection_and_a_new_leader(waits: list[float]) -> None:
    """Reading continues at the next offset, at the leader that the metadata names then."""
    cluster = Cluster({0: Log(), 1: Log(leader=2)}, response_bytes=1)
    for log in cluster.logs.values():
        for number in range(5):
            log.plain(b"%d" % number)

    def move(_: int, __: Any) -> Any:
        cluster.logs[0].leader = 2
        return errors.KafkaConnectionError("reset")

    cluster.faults = [lambda *_: None if len(cluster.requests) < 8 else move(*_), with_code(5), with_code(6)]
    assert len(rows_of(fetch(cluster))) == 10
    assert cluster.faults == []
    assert {broker for broker, _ in cluster.requests[-3:]} == {2}
    assert len(waits) <= 3


def test_records_count_only_from_the_leader_of_the_request() -> None:
    """A broker can add a partition of another leader to its response, with other records."""
    cluster = Cluster({0: Log(), 1: Log(leader=2)})
    for log in cluster.logs.values():
        log.plain(b"v")
    wrong = Cluster({0: Log(), 1: Log(leader=2)})
    wrong.logs[0].plain(b"wrong")

    def add(broker: int, request: Any) -> Any:
        response = cluster.fetched(broker, request.topics[0])
        if broker == 2:
            other = SimpleNamespace(partition=0, fetch_offset=0)
            response.responses += wrong.fetched(1, SimpleNamespace(partitions=[other])).responses
        return response

    cluster.faults = [add] * 2
    assert rows_of(fetch(cluster)) == {(0, 0): (b"k", b"v"), (1, 0): (b"k", b"v")}


@cases(
    "fault message",
    (lambda *_: errors.KafkaConnectionError("reset"), "__consumer_offsets can't be read .*reset"),
    (with_code(6), "__consumer_offsets can't be read .*NotLeader"),
    (with_code(0), r"no records of __consumer_offsets from \{0: 0\} on"),
)
def test_what_does_not_pass_ends_with_an_error(fault: Any, message: str, waits: list[float]) -> None:
    """After attempts, between which it waits."""
    cluster = Cluster({0: Log()}, [fault] * 99)
    cluster.logs[0].plain(b"v")
    with pytest.raises(SourceError, match=message):
        list(fetch(cluster))
    assert len(waits) == ATTEMPTS - 1


def _without_end(cluster: Cluster) -> None:
    """Makes the broker claim 2^40 records in partition 0, of which each response has one."""
    cluster.logs[0].end = 1 << 40

    def one_more(_: int, request: Any) -> Any:
        log = cluster.logs[0]
        (at,) = (each.fetch_offset for each in request.topics[0].partitions if each.partition == 0)
        log.batches = [(at, at + 1, batch_of([Record(at, 1000, b"k", b"v")]))]
        return cluster.fetched(log.leader, request.topics[0])

    cluster.faults = [one_more] * 1_000


@cases("limits", {"MAX_SMALL": 30}, {"MIN_SMALL": 29, "MAX_SMALL_S": -1.0})
def test_a_partition_without_end(limits: dict[str, float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that names the broker, by the number of small responses, or by their time; what was read is stored."""
    for name, value in limits.items():
        monkeypatch.setattr(record_fetcher, name, value)
    cluster = Cluster({0: Log(), 1: Log()})
    cluster.logs[1].plain(b"v")
    _without_end(cluster)
    problem = (
        r"_offsets-0 can't be read from offset 30 of 1,099,511,627,776 on .*broker 1 answered 30 requests in a row"
    )
    with pytest.raises(SourceError, match=problem):
        RecordsFolder(tmp_path, "eu").append(fetch(cluster))
    assert len(rows_in(tmp_path)) == 31
    assert RecordsFolder(tmp_path, "eu").positions == {0: 30, 1: 1}


def test_a_beginning_that_moves_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each response says that the records at the requested offset were deleted."""
    monkeypatch.setattr(record_fetcher, "MAX_SMALL", 30)
    cluster, reports = Cluster({0: Log(end=1 << 40)}), list[str]()

    def deleted(broker: int, request: Any) -> Any:
        cluster.logs[0].start += 1
        return with_code(errors.OffsetOutOfRangeError.errno)(broker, request)

    cluster.faults = [deleted] * 1_000
    with pytest.raises(SourceError, match="can't be read from offset 30 of"):
        list(fetch(cluster, None, reports))
    assert len(reports) == 30


def test_small_responses_of_a_broker_that_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a few large records, or many small ones; or a small one now and then is followed by a larger one."""
    for name, value in {"MAX_SMALL": 5, "MIN_SMALL": 1, "MAX_SMALL_S": -1.0}.items():
        monkeypatch.setattr(record_fetcher, name, value)
    cluster = Cluster({0: Log(), 1: Log()}, response_bytes=1)
    for number in range(20):
        cluster.logs[0].plain(b"v" * SMALL_BYTES)
        cluster.logs[1].plain(*[b"v"] * (1 if number % 2 else SMALL_OFFSETS))
    assert len(rows_of(fetch(cluster))) == 20 + 10 + 10 * SMALL_OFFSETS


def test_missing_permissions_and_a_missing_topic() -> None:
    """At once, with the remedy."""
    cluster = Cluster({0: Log()}, [with_code(errors.TopicAuthorizationFailedError.errno)])
    cluster.logs[0].plain(b"v")
    with pytest.raises(SourceError, match="Grant READ and DESCRIBE on this topic"):
        list(fetch(cluster))
    cluster.topic_error = errors.TopicAuthorizationFailedError.errno
    with pytest.raises(SourceError, match="Grant READ and DESCRIBE on this topic"):
        list(fetch(cluster))
    cluster.topic_error = errors.UnknownTopicOrPartitionError.errno
    with pytest.raises(SourceError, match="there is no topic __consumer_offsets"):
        list(fetch(cluster))


def test_what_nobody_requested() -> None:
    """A broker that lists other partitions, or not one topic, is no error of Python."""
    cluster = Cluster({0: Log()})
    cluster.logs[0].plain(b"1")
    other = SimpleNamespace(
        partition_index=9, error_code=0, offset=0, timestamp=-1, records=b"", aborted_transactions=()
    )

    def more(broker: int, request: Any) -> Any:
        response = cluster.fetched(broker, request.topics[0])
        response.responses[0].partitions.append(other)
        return response

    listed = cluster._list
    cluster.faults = [more]

    def list_more(*args: Any) -> Any:
        response = listed(*args)
        response.topics[0].partitions.append(other)
        return response

    cluster._list = list_more  # type: ignore[method-assign, assignment]
    assert list(rows_of(fetch(cluster))) == [(0, 0)]
    cluster.metadata = lambda _: SimpleNamespace(topics=[])  # type: ignore[method-assign, assignment]
    with pytest.raises(SourceError, match="the metadata list __consumer_offsets 0 times"):
        list(fetch(cluster))


def test_a_damaged_batch_is_requested_again(waits: list[float]) -> None:
    """What is before it counts; if it stays damaged, the error names partition and offset."""
    cluster = Cluster({3: Log()})
    log = cluster.logs[3]
    for number in range(3):
        log.plain(b"%d" % number)
    whole = log.batches[1]
    log.batches[1] = (*whole[:2], whole[2][:-3] + b"\0" + whole[2][-2:])

    def repair(_: int, request: Any) -> Any:
        if request.topics[0].partitions[0].fetch_offset == 1 and len(waits) == 2:
            log.batches[1] = whole
        return None

    cluster.faults = [repair]
    assert len(rows_of(fetch(cluster))) == 3
    cluster.faults = []
    log.batches[1] = (*whole[:2], whole[2][:-3] + b"\0" + whole[2][-2:])
    found = []
    with pytest.raises(SourceError, match=r"partition 3, offset 1: corrupt"):
        found += list(fetch(cluster))
    log.batches[1] = (*whole[:2], with_record(whole[2], 1 << 63))
    with pytest.raises(
        SourceError, match=rf"partition 3, offset 1: corrupt: offset {1 + (1 << 63)} is not from 1 to 1"
    ):
        found += list(fetch(cluster))


def test_records_that_were_deleted_before_they_were_read() -> None:
    """A text names them, and the rest is read."""
    cluster, reports = Cluster({0: Log()}, response_bytes=1), []  # type: ignore[var-annotated]
    log = cluster.logs[0]
    for number in range(9):
        log.plain(b"%d" % number)
    log.start = 4
    assert [offset for _, offset in rows_of(fetch(cluster, {0: 2}, reports))] == [4, 5, 6, 7, 8]
    assert reports == ["__consumer_offsets-0: the records from offset 2 to 3 were deleted before being read"]

    def delete(*_: Any) -> None:
        log.start = 7 if len(cluster.requests) > 4 else 4

    cluster.faults, cluster.requests = [delete], []
    assert [offset for _, offset in rows_of(fetch(cluster, {}, reports))] == [4, 5, 7, 8]
    assert "offset 6 to 6" in reports[1]


def test_a_log_that_is_shorter_than_before() -> None:
    """Truncated by an unclean election, or created again: never a silent gap."""
    cluster = Cluster({0: Log()}, response_bytes=1)
    for number in range(9):
        cluster.logs[0].plain(b"%d" % number)
    with pytest.raises(SourceError, match="ends at offset 9, before offset 10, at which to continue"):
        list(fetch(cluster, {0: 10}))

    def truncate(*_: Any) -> None:
        if len(cluster.requests) > 5:
            cluster.logs[0].end = 1
            del cluster.logs[0].batches[1:]

    cluster.faults, cluster.requests = [truncate], []
    with pytest.raises(SourceError, match="ends at offset 1, before offset"):
        list(fetch(cluster))


# --- the folder ---------------------------------------------------------------------------------------------------


def part(partition: int, first: int, size: int, value: bytes = b"v", key: bytes = b"k") -> FetchedRecords:
    """Records of a partition."""
    columns = [[0] * size, list(range(first, first + size)), [1_700_000_000_000] * size, [key] * size, [value] * size]
    arrays = [pa.array(column, each.type) for column, each in zip(columns, RECORDS, strict=True)]
    return FetchedRecords(partition, first + size, pa.table(arrays, schema=RECORDS))


def test_a_stopped_run_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in files is not read again; nothing is lost, and nothing is there twice."""
    monkeypatch.setattr(records_folder, "_FILE_BYTES", 1)
    cluster = Cluster({0: Log(), 1: Log()}, response_bytes=1)
    for log in cluster.logs.values():
        for number in range(6):
            log.plain(b"%d" % number)
    expected = rows_of(fetch(cluster))
    stored = RecordsFolder(tmp_path, "eu")
    cluster.faults = [
        lambda *_: with_code(errors.TopicAuthorizationFailedError.errno)(*_) if len(cluster.requests) > 5 else None
    ]
    cluster.requests = []
    with pytest.raises(SourceError):
        stored.append(fetch(cluster, stored.positions))
    before = rows_in(tmp_path)
    assert 0 < len(before) < len(expected)
    again = RecordsFolder(tmp_path, "eu")
    assert again.append(fetch(cluster, dict(again.positions))) == len(expected) - len(before)
    assert rows_in(tmp_path) == expected
    nothing = RecordsFolder(tmp_path, "eu")
    files = list(tmp_path.iterdir())
    assert nothing.append(fetch(cluster, dict(nothing.positions))) == 0
    assert list(tmp_path.iterdir()) == files


def test_what_came_before_an_error_is_stored(tmp_path: Path) -> None:
    """Whatever error, also of the records that come, which are read again."""

    def parts() -> Iterator[FetchedRecords]:
        yield part(0, 0, 2)
        yield part(0, 2, 3)._replace(records=None)  # type: ignore[arg-type]

    with pytest.raises(TypeError):
        RecordsFolder(tmp_path, "eu").append(parts())
    assert len(rows_in(tmp_path)) == 2
    assert RecordsFolder(tmp_path, "eu").positions == {0: 2}


@pytest.mark.parametrize("end", [None, "[", "[" * 100_000, "[]", '{"cluster": "eu", "positions": {"0": "x"}}'])
def test_a_folder_that_was_damaged(end: str | None, tmp_path: Path) -> None:
    """A file that is cut off, or with another end than a run writes, is wrong input."""
    pq.write_table(
        pa.table({"a": [1]}).replace_schema_metadata(end and {"spark_assign.positions": end}),
        tmp_path / "records-1.parquet",
    )
    if end == "[":
        (tmp_path / "records-1.parquet").write_bytes(b"PAR1")
    with pytest.raises(ConfigError, match="has a file that this job didn't write, or that is damaged") as raised:
        RecordsFolder(tmp_path, "eu")
    assert not re.search("NoneType|list indices", str(raised.value))
    (tmp_path / "records-1.parquet").unlink()
    os.mkfifo(tmp_path / "records-1.parquet")
    with pytest.raises(SourceError, match="is a pipe or a device"):
        RecordsFolder(tmp_path, "eu")


def test_a_run_that_is_killed_between_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that hasn't its name yet doesn't count."""
    stored = RecordsFolder(tmp_path, "eu")
    stored.append([part(0, 0, 3)])

    def kill(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(records_folder, "_publish", kill)
    with pytest.raises(KeyboardInterrupt):
        stored.append([part(0, 3, 2)])
    assert RecordsFolder(tmp_path, "eu").positions == {0: 3}
    assert len(rows_in(tmp_path)) == 3


def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file has as many records as fit, and one response more."""
    monkeypatch.setattr(records_folder, "_FILE_BYTES", 100_000)
    stored = RecordsFolder(tmp_path, "eu")
    assert stored.append(part(0, 100 * number, 100, b"v" * 100) for number in range(100)) == 10_000
    sizes = [pq.read_table(file).num_rows for file in sorted(tmp_path.glob("*.parquet"))]
    assert sum(sizes) == 10_000
    assert max(sizes) <= 1000
    assert len(sizes) >= 10


def test_a_topic_without_records_is_a_table_without_rows(tmp_path: Path) -> None:
    """Once."""
    for _ in range(2):
        RecordsFolder(tmp_path, "eu").append([])
    (file,) = tmp_path.glob("*.parquet")
    assert pq.read_table(file).num_rows == 0


def test_another_cluster_and_another_run(tmp_path: Path) -> None:
    """Both are errors, and nothing is overwritten."""
    first, second = (RecordsFolder(tmp_path, "eu") for _ in range(2))
    first.append([part(0, 0, 1)])
    with pytest.raises(SourceError, match="another run appends to this folder"):
        second.append([part(0, 0, 2)])
    assert list(rows_in(tmp_path)) == [(0, 0)]
    with pytest.raises(ConfigError, match="has records of the cluster 'eu', not of 'us'"):
        RecordsFolder(tmp_path, "us")


def test_a_folder_of_a_stream_is_continued(tmp_path: Path) -> None:
    """At the end of the files that count; then all readers see all files."""
    for name, first in (("part-00000-a", 0), ("part-00000-b", 5), ("part-00000-half", 2)):
        RecordsFolder(tmp_path / name, "eu").append([part(0, first, 3), part(1, first, 1)])
        next((tmp_path / name).glob("*.parquet")).rename(tmp_path / f"{name}.snappy.parquet")
        (tmp_path / name).rmdir()
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    (tmp_path / "_checkpoint").mkdir()
    for number, name in enumerate(("part-00000-a", "part-00000-b")):
        entry = {"path": f"file://{tmp_path}/{name}.snappy.parquet", "action": "add"}
        (log / str(number)).write_text(f"v1\n{json.dumps(entry)}\n")
    with pytest.raises(ConfigError, match="has records of the cluster 'eu', not of 'us'"):
        RecordsFolder(tmp_path, "us")
    assert log.is_dir()
    stored = RecordsFolder(tmp_path, "eu")
    assert stored.positions == {0: 8, 1: 6}
    assert not log.exists()
    assert not (tmp_path / "_checkpoint").exists()
    assert len(rows_in(tmp_path)) == 8
    stored.append([part(0, 8, 1)])
    assert RecordsFolder(tmp_path, "eu").positions == {0: 9, 1: 6}
    assert len(rows_in(tmp_path)) == 9


def test_what_is_left_out_is_in_no_file(tmp_path: Path) -> None:
    """Neither hosts nor metadata."""
    key = write_key(1, {"group": "g", "topic": "t", "partition": 0})
    value = write_value(1, {"offset": 5, "leaderEpoch": -1, "metadata": "secret-text", "commitTimestamp": 1}, 3)
    found = part(0, 0, 1, value, key)
    for name, without in (("bare", True), ("whole", False)):
        RecordsFolder(tmp_path / name, "eu", without_metadata=without).append([found])
        ((_, stored),) = rows_in(tmp_path / name).values()
        assert stored is not None
        assert (b"secret-text" in stored) is not without
