"""Log directories as brokers describe them: sizes of leaders' logs, cordoned brokers, offline directories."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka import errors
from kafka.protocol.admin import DescribeLogDirsRequest, DescribeLogDirsResponse

from spark_assign.sources.files.snapshot import SnapshotRows
from spark_assign.sources.kafka import groups as kafka_groups
from spark_assign.sources.kafka import loads as kafka_loads
from spark_assign.sources.kafka import loads as kafka_log_dirs
from spark_assign.sources.kafka import offsets as kafka_offsets
from spark_assign.sources.kafka.connection import ClusterConnection
from spark_assign.sources.kafka.groups import ListedGroup
from spark_assign.sources.kafka.loads import LoadTargets, OffsetReading
from spark_assign.sources.kafka.offsets import LeaderOffset
from tests.cases import cases

LEADERS = {("t", 0): 1, ("t", 1): 2, ("u", 0): 1, ("u", 1): -1}


class Brokers:
    """Brokers with given answers, which keep the requests."""

    def __init__(self, answers: dict[int, Any]) -> None:
        self.answers = answers
        self.requests: dict[int, Any] = {}

    def newest(self, _: type) -> int:
        return 4

    def brokers(self) -> list[int]:
        return sorted(self.answers)

    def send_all(self, requests: Any, answered: Any = lambda _: None) -> list[Any]:
        for at, (broker, request) in enumerate(requests):
            self.requests[broker] = request
            answered(at)
        return [self.answers[broker] for broker, _ in requests]


def answer(sizes: dict[tuple[str, int], int], *, code: int = 0, future: bool = False) -> Any:
    """In one folder of the broker."""
    of_folder = DescribeLogDirsResponse.DescribeLogDirsResult
    of_topic = of_folder.DescribeLogDirsTopic
    topics = [
        of_topic(
            name=topic,
            partitions=[
                of_topic.DescribeLogDirsPartition(
                    partition_index=number, partition_size=size, offset_lag=0, is_future_key=future
                )
            ],
        )
        for (topic, number), size in sizes.items()
    ]
    folders = [of_folder(error_code=0, log_dir="/d", topics=topics)] if topics else []
    return DescribeLogDirsResponse(throttle_time_ms=0, error_code=code, results=folders)


def read(brokers: Brokers) -> tuple[dict[Any, int], list[str]]:
    """Sizes, and what was said."""
    messages: list[str] = []
    found = kafka_log_dirs.read_sizes(cast(ClusterConnection, brokers), LEADERS, messages.append)
    return {key: each.offset for key, each in found.items()}, messages


def test_each_broker_gets_a_request_for_what_it_leads() -> None:
    """In one request, without partitions that have no leader."""
    brokers = Brokers({1: answer({("t", 0): 10, ("u", 0): 30}), 2: answer({("t", 1): 20})})
    assert read(brokers) == ({("t", 0): 10, ("t", 1): 20, ("u", 0): 30}, ["read sizes: 3 of 4 partitions"])
    found = {broker: {topic.topic: topic.partitions for topic in r.topics} for broker, r in brokers.requests.items()}
    assert found == {1: {"t": [0], "u": [0]}, 2: {"t": [1]}}
    assert isinstance(brokers.requests[1], DescribeLogDirsRequest)


def test_logs_on_their_way_to_another_folder() -> None:
    """Do not count; where they are now, they do."""
    both = answer({("t", 0): 10})
    both.results = [*both.results, *answer({("t", 0): 4}, future=True).results]
    assert read(Brokers({1: both, 2: answer({("t", 1): 20})}))[0] == {("t", 0): 10, ("t", 1): 20}


@cases(
    "silent why",
    (answer({}), "no permission DESCRIBE on the cluster. Grant DESCRIBE on the cluster"),  # before 3.2
    (answer({}, code=31), "no permission DESCRIBE on the cluster. Grant DESCRIBE on the cluster"),
    (answer({}, code=56), "KafkaStorageError"),
    (errors.KafkaConnectionError("gone"), "KafkaConnectionError: gone"),
)
def test_brokers_that_do_not_tell(silent: Any, why: str) -> None:
    """Said once for all of them; the others count."""
    found, messages = read(Brokers({1: silent, 2: silent}))
    assert found == {}
    assert messages[0].startswith("bytes are not known of what these brokers lead: 1, 2 (")
    assert why in messages[0]
    assert read(Brokers({1: silent, 2: answer({("t", 1): 20})}))[0] == {("t", 1): 20}


def test_brokers_that_have_no_such_request() -> None:
    """Older than the client."""
    brokers = Brokers({})
    brokers.newest = lambda _: -1  # type: ignore[method-assign]
    assert read(brokers) == ({}, ["bytes are not known: the brokers have no DescribeLogDirs"])


def test_a_size_counts_only_from_the_broker_of_the_request() -> None:
    """Another one that lists the partition doesn't replace it."""
    brokers = Brokers({1: answer({("t", 0): 10, ("t", 1): 0}), 2: answer({("t", 0): 0, ("t", 1): 20, ("x", 0): 5})})
    assert read(brokers)[0] == {("t", 0): 10, ("t", 1): 20}


@pytest.mark.parametrize("version", [4, 5])
def test_cordoned_brokers(version: int) -> None:
    """A broker is cordoned if all of its online directories are, as of version 5; one that doesn't answer is absent."""
    folder = DescribeLogDirsResponse.DescribeLogDirsResult
    pairs = ((0, False), (56, False), (0, True))
    online, offline, cordoned = (folder(error_code=c, log_dir="/d", topics=[], is_cordoned=i) for c, i in pairs)
    folders = {1: [online, cordoned], 2: [cordoned, cordoned], 3: [cordoned, offline], 4: [offline]}
    answers: dict[int, Any] = {
        b: DescribeLogDirsResponse(throttle_time_ms=0, error_code=0, results=each) for b, each in folders.items()
    }
    brokers = Brokers(answers | {5: errors.KafkaConnectionError("gone")})
    brokers.newest = lambda _: version  # type: ignore[method-assign]
    states = kafka_log_dirs.log_dir_states(cast(ClusterConnection, brokers))
    expected = {1: False, 2: True, 3: True} if version == 5 else {}
    assert {broker: state["cordoned"] for broker, state in states.items()} == dict.fromkeys(range(1, 5)) | expected
    assert {broker: state["offline_log_dirs"] for broker, state in states.items()} == {1: 0, 2: 0, 3: 1, 4: 1}
    assert brokers.requests[1].topics == []
    rows, messages = SnapshotRows("c"), list[str]()
    answers[1].results += answer({("t", 0): 10}, future=True).results
    answers[1].results[-1].total_bytes = 100
    kafka_log_dirs.log_dir_states(cast(ClusterConnection, brokers), rows, messages.append)
    assert messages == ["log directories of broker 5 are not known (KafkaConnectionError: gone)"]
    assert brokers.requests[1].topics is None
    tables = {name: table.to_pylist() for name, table in rows.tables().items()}
    of_version = {4: None, 5: False}
    of_first = {"broker_id": 1, "log_dir": "/d", "error": None, "total_bytes": 100, "usable_bytes": None}
    assert tables["log_dirs"][2] == {"cluster": "c", **of_first, "cordoned": of_version[version]}
    assert [row["error"] for row in tables["log_dirs"]] == [None] * 6 + ["KafkaStorageError"] * 2
    log = {"partition": 0, "broker_id": 1, "log_dir": "/d", "bytes": 10, "offset_lag": 0, "is_future": True}
    assert tables["log_dir_replicas"] == [{"cluster": "c", "topic": "t", **log}]


def test_another_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of consumers' groups what they commit, of share groups where they start; ends last, and only of what answered."""
    requests: list[Any] = []
    first = OffsetReading({}, {}, {("t", 0): LeaderOffset(1, -1, 0)}, {("t", 0): LeaderOffset(9, -1, 0)})

    def committed(_: Any, groups: Any, __: Any) -> Any:
        requests.append(("committed", sorted(groups)))
        return {"g": {("t", 0): 3}}, {}, {"g": 5.0}

    def starts(_: Any, groups: Any, __: Any) -> Any:
        return {"s": {("t", 0): 2, ("t", 1): -1}}, {}, {"s": 6.0}

    def ends(_: Any, __: Any, wanted: Any, ___: Any) -> Any:
        requests.append(("ends", sorted(wanted)))
        return {("t", 0): LeaderOffset(7, -1, 8.0)}

    def sizes(_: Any, leaders: Any, __: Any) -> Any:
        requests.append(("sizes", leaders))
        return {}

    monkeypatch.setattr(kafka_offsets, "committed", committed)
    monkeypatch.setattr(kafka_groups, "read_starts", starts)
    monkeypatch.setattr(kafka_offsets, "offsets_at", ends)
    monkeypatch.setattr(kafka_log_dirs, "read_sizes", sizes)
    groups = {name: ListedGroup(name, 1, kind, None) for name, kind in (("g", "classic"), ("s", "share"))}
    found = LoadTargets(cast(ClusterConnection, SimpleNamespace()), groups, LEADERS, {}, lambda _: None).read(first)
    assert requests == [("sizes", {("t", 0): 1}), ("committed", ["g"]), ("ends", [("t", 0)])]
    assert found.committed == {"g": {("t", 0): 3}, "s": {("t", 0): 2}}
    assert found.answered_s == {"g": 5.0, "s": 6.0}
    assert kafka_loads._lag(found, "s", ("t", 0)) == 5
