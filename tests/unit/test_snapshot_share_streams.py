"""Share and streams groups as brokers describe them, from bytes that Kafka's own classes (4.4.0) have written."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from kafka.protocol.admin import DescribeConfigsRequest, DescribeConfigsResponse

from spark_assign.sources.files.snapshot import SnapshotRows
from spark_assign.sources.kafka import connection as kafka_connection
from spark_assign.sources.kafka import group_description
from spark_assign.sources.kafka import groups as kafka_groups
from spark_assign.sources.kafka.groups import ListedGroup
from spark_assign.wire.describe_groups import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from tests.snapshots import owned_slices


def _bytes(text: str) -> bytes:
    return base64.b64decode("".join(text.split()))


SHARE = _bytes(
    """
    AAAAAAMAAAAJZW5jb2RlcnMHU3RhYmxlAAAABwAAAAcHc2ltcGxlAwRtLTEDcjEAAAAHCGVuY29kZXIKLzEwLjAuMC4xAwh1cGxvYWRzB2Fic2
    VudAKRhwbHmZJMFa1XNS4SYpvHCHVwbG9hZHMEAAAAAAAAAAEAAAAEAAAABG0tMgAAAAAHCGVuY29kZXIKLzEwLjAuMC4yAgh1cGxvYWRzApGH
    BseZkkwVrVc1LhJim8cIdXBsb2FkcwIAAAABAAAAgAAAAAAAHgNubwdzZWNyZXQBAAAAAAAAAAABAYAAAAAAAA==
    """
)
STARTS = _bytes(
    """
    AAAAAAMJZW5jb2RlcnMCCHVwbG9hZHORhwbHmZJMFa1XNS4SYpvHBAAAAAAAAAAAAAAADAAAAAAAAAAAAAAAAwAAAAAAAAAB//////////8AAA
    AA//////////8AAAAAAAAAAgAAAAAAAAAAAAAAAP//////////AAMAAAAAAAAAB3NlY3JldAEAHgNubwAA
    """
)
STREAMS_1 = _bytes(
    """
    AAAAAAMAAAAEYXBwB1N0YWJsZQAAAAUAAAAFAQAAAAMDAjADB2NsaWNrcwZ1c2VycwIYYXBwLWJ5LXVzZXItcmVwYXJ0aXRpb24BAQACMQEBAh
    VhcHAtY291bnRzLWNoYW5nZWxvZwAAAAAAAAEAAhhhcHAtYnktdXNlci1yZXBhcnRpdGlvbgAAAAIAAAEAAAACBHMtMQAAAAUEaS0xAQ1hcHAt
    dGhyZWFkLTEKLzEwLjAuMC4zAAAAAwRwLTH/AgV6b25lAmEAAwIxAAAAAAAAAAAAAAAoAAIxAAAAAwAAAAAAAAAJAAEDAjADAAAAAAAAAAIAAj
    ECAAAAAQACAjECAAAAAAABAAMCMAMAAAAAAAAAAgACMQIAAAABAAICMQIAAAAAAAEAAACAAAAA/wAHc3RpY2t5AABFDm5vIHN1Y2ggZ3JvdXAF
    Z29uZQEAAAAAAAAAAP8BgAAAAP8AAAAA
    """
)
STREAMS_0 = _bytes(
    """
    AAAAAAMAAAAEYXBwB1N0YWJsZQAAAAUAAAAFAQAAAAMDAjADB2NsaWNrcwZ1c2VycwIYYXBwLWJ5LXVzZXItcmVwYXJ0aXRpb24BAQACMQEBAh
    VhcHAtY291bnRzLWNoYW5nZWxvZwAAAAAAAAEAAhhhcHAtYnktdXNlci1yZXBhcnRpdGlvbgAAAAIAAAEAAAACBHMtMQAAAAUEaS0xAQ1hcHAt
    dGhyZWFkLTEKLzEwLjAuMC4zAAAAAwRwLTH/AgV6b25lAmEAAwIxAAAAAAAAAAAAAAAoAAIxAAAAAwAAAAAAAAAJAAEDAjADAAAAAAAAAAIAAj
    ECAAAAAQACAjECAAAAAAABAAMCMAMAAAAAAAAAAgACMQIAAAABAAICMQIAAAAAAAEAAACAAAAAAABFDm5vIHN1Y2ggZ3JvdXAFZ29uZQEAAAAA
    AAAAAP8BgAAAAAAA
    """
)
ANSWERS: dict[type, Any] = {
    ShareGroupDescribeRequest: ShareGroupDescribeResponse.decode(SHARE, version=1),
    DescribeShareGroupOffsetsRequest: DescribeShareGroupOffsetsResponse.decode(STARTS, version=1),
    StreamsGroupDescribeRequest: StreamsGroupDescribeResponse.decode(STREAMS_1, version=1),
}
TOPICS = {"uploads": 5, "clicks": 3, "users": 1}
SHARE_GROUPS = {name: ListedGroup(name, 1, "share", "Stable") for name in ("encoders", "secret")}
STREAMS_GROUPS = {name: ListedGroup(name, 1, "streams", "Stable") for name in ("app", "gone")}


class _Broker:
    """One broker; answers by the type of the request."""

    def __init__(self, configs: Any = None) -> None:
        self.configs = configs

    def send_all(
        self, requests: Sequence[tuple[int, Any]], answered: Callable[[int], None] = lambda _: None
    ) -> list[Any]:
        for position, _ in enumerate(requests):
            answered(position)
        return [ANSWERS[type(request)] for _, request in requests]

    def send_any(self, request: DescribeConfigsRequest) -> Any:
        assert {each.resource_type for each in request.resources} == {32}
        return self.configs


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_connection, "wait", lambda _: None)


def _configs(error: int = 0, value: str | None = "1") -> Any:
    result = DescribeConfigsResponse.DescribeConfigsResult
    configs = [result.DescribeConfigsResourceResult(name="streams.num.standby.replicas", value=value)]
    results = [result(error_code=error, error_message=None, resource_type=32, resource_name="app", configs=configs)]
    return DescribeConfigsResponse(results=results)


def read(groups: dict[str, ListedGroup], broker: _Broker | None = None) -> tuple[dict[str, list[Any]], list[str]]:
    """The rows of these groups without their cluster and nulls, and what was said."""
    rows, messages = SnapshotRows("c"), list[str]()
    connection: Any = broker or _Broker(_configs())
    kafka_groups.describe(connection, groups, TOPICS, rows, messages.append)
    kafka_groups.share_starts(connection, groups, rows, messages.append)
    pairs = rows.rows.items()
    lean = {t: [{k: v for k, v in r.items() if v is not None and k != "cluster"} for r in i] for t, i in pairs}
    return {table: lines for table, lines in lean.items() if lines}, messages


def test_a_share_group_is_read() -> None:
    """Members, subscriptions (some to no topic), several owners of a partition, what is initialised."""
    rows, _ = read(SHARE_GROUPS)
    encoders = {"group_id": "encoders"}
    assert rows["groups"] == [
        encoders | {"assignor": "simple", "group_type": "share", "state": "Stable"},
        {"group_id": "secret", "group_type": "share", "state": "Stable"},
    ]
    member = encoders | {"client_id": "encoder", "generation_id": 7}
    assert rows["members"] == [
        member | {"member_id": "m-1", "client_host": "/10.0.0.1", "rack_id": "r1", "position": 0},
        member | {"member_id": "m-2", "client_host": "/10.0.0.2", "position": 1},
    ]
    subscribed = [(row["member_ids"], row["topics"]) for row in rows["subscription_lists"]]
    assert subscribed == [(["m-1"], ["absent", "uploads"]), (["m-2"], ["uploads"])]
    owned = [(row["member_id"], row["topic"], row["first"], row["step"], row["count"]) for row in owned_slices(rows)]
    assert owned == [("m-1", "uploads", 0, 1, 2), ("m-1", "uploads", 4, 1, 1), ("m-2", "uploads", 1, 1, 1)]
    initialized = [(row["topic"], row["first"], row["step"], row["count"]) for row in rows["initialized"]]
    assert initialized == [("absent", 0, 1, 0), ("uploads", 0, 1, 2)]


def test_a_share_group_that_may_not_be_read() -> None:
    """Both answers say so, with the permission that is missing."""
    rows, _ = read(SHARE_GROUPS)
    refused = [row["error"] for row in rows["undescribed"] if row["group_id"] == "secret"]
    assert len(refused) == len(rows["undescribed"]) == 2
    assert all("GroupAuthorizationFailedError" in error for error in refused)
    assert all(error.endswith("Grant DESCRIBE on this group") for error in refused)
    assert refused[1].startswith("initialised partitions: ")


def test_a_group_that_is_not_described_is_not_empty() -> None:
    """Members can have joined since it was listed: its state is unknown."""
    rows, _ = read({"secret": ListedGroup("secret", 1, "share", "Empty")})
    assert rows["groups"] == [{"group_id": "secret", "group_type": "share"}]


def test_where_a_share_group_starts() -> None:
    """Offsets by topic and partition; one that fails is not initialised."""
    rows = SnapshotRows("c")
    connection: Any = _Broker()
    starts, _ = kafka_groups.share_starts(connection, SHARE_GROUPS, rows, lambda _: None)
    assert starts == {"encoders": {("uploads", 0): 12, ("uploads", 1): -1}}


@pytest.mark.parametrize(("answer", "version", "assignor"), [(STREAMS_1, 1, "sticky"), (STREAMS_0, 0, None)])
def test_a_streams_group_is_read(
    answer: bytes, version: int, assignor: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Topology with the number of tasks, processes, tasks in their roles, and offsets of what else is on disk."""
    monkeypatch.setitem(
        ANSWERS, StreamsGroupDescribeRequest, StreamsGroupDescribeResponse.decode(answer, version=version)
    )
    rows, _ = read(STREAMS_GROUPS)
    app = {"group_id": "app"}
    expected = app | {"group_type": "streams", "state": "Stable", "standby_replicas": 1}
    assert rows["groups"][0] == expected | ({"assignor": assignor} if assignor else {})
    assert rows["members"] == [
        app
        | {"member_id": "s-1", "group_instance_id": "i-1", "client_id": "app-thread-1", "client_host": "/10.0.0.3"}
        | {"generation_id": 5, "process_id": "p-1", "position": 0}
    ]
    assert rows["subtopologies"] == [
        app | {"subtopology": "0", "partitions": 3, "stateful": False},
        app | {"subtopology": "1", "partitions": 2, "stateful": True},
    ]
    of_member = app | {"member_id": "s-1"}
    assert rows["tasks"] == [
        of_member | {"subtopology": "0", "task": 0, "role": "active"},
        of_member | {"subtopology": "0", "task": 2, "role": "active"},
        of_member | {"subtopology": "1", "task": 1, "role": "active"},
        of_member | {"subtopology": "1", "task": 0, "role": "standby", "changelog_offset": 40},
        of_member | {"subtopology": "1", "task": 3, "changelog_offset": 9},
    ]
    found = [(row["group_id"], row["error"]) for row in rows["undescribed"]]
    assert found == [("gone", "GroupIdNotFoundError: no such group")]
    assert "subscription_lists" not in rows
    assert "owned_lists" not in rows


def test_topics_that_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then it is not known how many tasks there are, and nothing is made up."""
    monkeypatch.delitem(TOPICS, "clicks")
    rows, _ = read(STREAMS_GROUPS)
    error = {row["group_id"]: row["error"] for row in rows["undescribed"]}["app"]
    assert "subtopology 0: topics that it reads are not shown to this user: clicks. Grant DESCRIBE on topics" in error
    assert "tasks" not in rows
    group = ANSWERS[StreamsGroupDescribeRequest].groups[0]
    error = group_description.read_streams_group(group, TOPICS, {"clicks": "LeaderNotAvailableError"})
    assert str(error).startswith("subtopology 0: the partitions of the topic clicks are not known: LeaderNotAvailable")


def test_configs_that_may_not_be_read() -> None:
    """The group is read, its standby replicas are null, and it is said which permission is missing."""
    rows, messages = read(STREAMS_GROUPS, _Broker(_configs(error=30, value=None)))
    assert "standby_replicas" not in rows["groups"][0]
    assert any("Grant DESCRIBE_CONFIGS on these groups" in line for line in messages)


def test_requests_are_written_as_kafka_does() -> None:
    """Byte for byte."""
    group_request = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup(
        group_id="encoders", topics=None
    )
    for request, written in (
        (ShareGroupDescribeRequest(group_ids=["encoders"], include_authorized_operations=False), "AgllbmNvZGVycwAA"),
        (StreamsGroupDescribeRequest(group_ids=["app"], include_authorized_operations=False), "AgRhcHAAAAA="),
        (DescribeShareGroupOffsetsRequest(groups=[group_request]), "AgllbmNvZGVycwAAAA=="),
    ):
        assert bytes(request.encode(version=1)) == _bytes(written)
