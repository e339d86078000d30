"""Groups that do not answer at once: requested again, then listed as undescribed; nothing else stops."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import GroupAuthorizationFailedError, KafkaProtocolError, NotCoordinatorError, RequestTimedOutError
from kafka.protocol.admin import DescribeConfigsRequest, DescribeGroupsRequest
from kafka.protocol.consumer import FetchRequest

from spark_assign.sources.files.snapshot import SnapshotRows
from spark_assign.sources.kafka import connection as kafka_connection
from spark_assign.sources.kafka import group_description
from spark_assign.sources.kafka import groups as kafka_groups
from spark_assign.sources.kafka.client_limits import Budget
from spark_assign.sources.kafka.groups import ListedGroup, UnsettledError
from spark_assign.wire import consumer_protocol
from spark_assign.wire.consumer_protocol import Subscription
from tests.cases import cases


class _Cluster:
    """Brokers 1 and 2; answers by a function of (broker, group ids), and keeps the requests."""

    def __init__(self, answer: Callable[[int, Sequence[str]], Any]) -> None:
        self.answer = answer
        self.requests: list[tuple[int, list[str]]] = []
        self.coordinator = {"a": 1, "b": 1, "c": 2}

    def brokers(self) -> list[int]:
        return [1, 2]

    def send_all(
        self, requests: Sequence[tuple[int, Any]], answered: Callable[[int], None] = lambda _: None
    ) -> list[Any]:
        answers = []
        for position, (broker, request) in enumerate(requests):
            if not isinstance(request, list):  # a ListGroups
                groups = [group for group, at in self.coordinator.items() if at == broker]
                listed = [SimpleNamespace(group_id=group, protocol_type="consumer") for group in groups]
                answers.append(SimpleNamespace(error_code=0, groups=listed))
                continue
            self.requests.append((broker, request))
            answers.append(self.answer(broker, request))
            answered(position)
        return answers


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_connection, "wait", lambda _: None)


def _ask(cluster: _Cluster, batch: int = 10) -> tuple[dict[str, Any], dict[str, str]]:
    groups = {group: ListedGroup(group, broker, "classic", None) for group, broker in cluster.coordinator.items()}
    connection: Any = cluster
    values, faults, _ = kafka_groups.request_per_group(
        connection, groups, list, lambda _, answer: answer, batch, "described groups", lambda _: None
    )
    return values, faults


def test_one_request_a_batch_and_broker() -> None:
    """Not one a group."""
    cluster = _Cluster(lambda _, ids: [(group, group.upper()) for group in ids])
    assert _ask(cluster) == ({"a": "A", "b": "B", "c": "C"}, {})
    assert cluster.requests == [(1, ["a", "b"]), (2, ["c"])]
    cluster.requests.clear()
    _ask(cluster, batch=1)
    assert cluster.requests == [(1, ["a"]), (1, ["b"]), (2, ["c"])]


def test_a_rebalancing_group_is_requested_again() -> None:
    """Only that one, until it has settled."""
    states = iter(["rebalancing", "rebalancing", "settled"])

    def answer(_: int, ids: Sequence[str]) -> Any:
        return [(g, UnsettledError("no") if g == "b" and next(states) == "rebalancing" else g) for g in ids]

    cluster = _Cluster(answer)
    assert _ask(cluster) == ({"a": "a", "b": "b", "c": "c"}, {})
    assert cluster.requests[2:] == [(1, ["b"]), (1, ["b"])]
    for state in ("PreparingRebalance", "CompletingRebalance"):
        group = SimpleNamespace(error_code=0, group_state=state, protocol_data="")
        assert isinstance(kafka_groups._classic(group), UnsettledError)


def test_a_coordinator_that_moved_is_found() -> None:
    """By listing the groups again."""

    def answer(broker: int, ids: Sequence[str]) -> Any:
        cluster.coordinator["b"] = 2
        return [(g, NotCoordinatorError() if g == "b" and broker == 1 else g) for g in ids]

    cluster = _Cluster(answer)
    assert _ask(cluster) == ({"a": "a", "b": "b", "c": "c"}, {})
    assert cluster.requests[-1] == (2, ["b"])


def test_what_fails_for_good_is_reported() -> None:
    """A group that never settles, one that may not be read (requested once), and a broker that is gone."""

    def answer(broker: int, ids: Sequence[str]) -> Any:
        if broker == 2:
            return OSError("connection reset")
        return [(g, UnsettledError("still") if g == "a" else GroupAuthorizationFailedError("no")) for g in ids]

    cluster = _Cluster(answer)
    values, faults = _ask(cluster)
    assert values == {}
    assert faults["a"] == "UnsettledError: still"
    assert "GroupAuthorizationFailedError" in faults["b"]
    assert faults["c"] == "OSError: connection reset"
    assert [ids for _, ids in cluster.requests].count(["a"]) == kafka_groups.ATTEMPTS - 1
    _, faults = _ask(_Cluster(lambda *_: OSError("connection reset")))
    assert set(faults) == {"a", "b", "c"}


def test_a_group_that_a_response_has_twice() -> None:
    """Neither description counts, whatever they are: the other groups of the response do."""
    values, faults = _ask(_Cluster(lambda _, ids: [(group, group) for group in (*ids, *ids[1:])]))
    assert values == {"a": "a", "c": "c"}
    assert faults == {"b": "WireError: the response of the broker has the group twice"}


def test_groups_that_are_not_described() -> None:
    """A group that is listed with two types isn't described as either, nor one with a long ID. While its
    coordinator moves, two brokers list a group with the same type."""

    def listed(_: Any, requests: Sequence[Any]) -> list[Any]:
        def group(name: str, kind: str) -> Any:
            return SimpleNamespace(group_id=name, protocol_type="consumer", group_type=kind, group_state="Empty")

        answers = [[group("a", "Classic"), group("a", "Consumer"), group("b", "Classic")], [group("b", "classic")]]
        answers[1] += [group("a", "Classic"), group("c", "Share"), group("c", "Streams"), group("d" * 1_001, "Classic")]
        return [SimpleNamespace(error_code=0, groups=groups) for groups in answers]

    broker = type("", (), {"brokers": lambda _: [1, 2], "send_all": listed})
    groups = kafka_groups.listed(broker(), None)  # type: ignore[arg-type]
    assert {name: (each.broker, each.problem) for name, each in groups.items()} == {
        "a": (1, "the brokers list the group as classic and as consumer"),
        "b": (2, None),
        "c": (2, "the brokers list the group as share and as streams"),
        "d" * 1_001: (2, "the group ID has more than 1,000 bytes"),
    }
    del groups["b"]
    rows, connection = SnapshotRows("c"), SimpleNamespace(send_all=lambda requests, _: [], send_any=_no_settings)
    kafka_groups.describe(connection, groups, {}, rows, lambda _: None)  # type: ignore[arg-type]
    assert [(row["group_id"], row["error"]) for row in rows.rows["undescribed"]] == [
        (name, each.problem) for name, each in groups.items()
    ]
    assert [row["state"] for row in rows.rows["groups"]] == [None] * 3, "a state would make them known to be empty"


def _no_settings(_: Any) -> Any:
    return SimpleNamespace(results=[])


def _share_group(subscribed: list[str], owned: str | None = None, regex: str | None = None) -> Any:
    parts = [SimpleNamespace(topic_name=owned, partitions=[0])] if owned else []
    member = SimpleNamespace(
        member_id="m",
        client_id="c",
        client_host="h",
        rack_id=None,
        member_epoch=1,
        subscribed_topic_names=subscribed,
        subscribed_topic_regex=regex,
        assignment=SimpleNamespace(topic_partitions=parts),
    )
    group = {"group_id": "g", "group_state": "Stable", "assignor_name": "uniform", "members": [member]}
    return SimpleNamespace(error_code=0, error_message=None, **group)


@cases(
    "kind group is_known",
    ("consumer", _share_group(["a"]), True),
    ("consumer", _share_group(["a", "b"]), False),
    ("consumer", _share_group(["a"], owned="b"), False),
    ("consumer", _share_group([], regex="[ab]"), False),
    ("consumer", _share_group([], regex="[ac]"), True),
    ("share", _share_group(["b"]), False),
)
def test_a_group_that_uses_a_topic_with_an_error(kind: str, group: Any, is_known: bool) -> None:
    """Its partitions aren't revoked: they aren't known."""
    rows = SnapshotRows("c")
    connection: Any = SimpleNamespace(send_all=lambda requests, _: [SimpleNamespace(groups=[group]) for _ in requests])
    listed = {"g": ListedGroup("g", 1, kind, "Stable")}
    error = {"b": "TopicAuthorizationFailedError"}
    kafka_groups.describe(connection, listed, {"a": 2}, rows, lambda _: None, unknown=error)
    assert bool(rows.rows["members"]) is is_known
    problem = "the partitions of the topic b are not known: TopicAuthorizationFailedError in the metadata. "
    errors = [] if is_known else [problem + "Grant DESCRIBE on topics, or take another snapshot"]
    assert [row["error"] for row in rows.rows["undescribed"]] == errors


def test_a_group_that_cannot_be_read_stops_no_other() -> None:
    """Of the same response, whatever its members have sent. An error that no data can raise is a defect."""
    error: Exception = OverflowError("too large")

    def read(group: Any) -> str:
        if group.group_id == "a":
            raise error
        return str(group.group_id)

    def request(group_ids: list[str], **_: Any) -> list[str]:
        return group_ids

    cluster: Any = _Cluster(lambda _, ids: SimpleNamespace(groups=[SimpleNamespace(group_id=each) for each in ids]))
    groups = {group: ListedGroup(group, broker, "consumer", None) for group, broker in cluster.coordinator.items()}
    kind: Any = request
    values, faults = kafka_groups.describe_groups(cluster, groups, kind, read, "described", lambda _: None)
    assert values == {"b": "b", "c": "c"}
    assert faults == {"a": "WireError: malformed: OverflowError: too large"}
    error = AttributeError("a defect")
    with pytest.raises(AttributeError):
        kafka_groups.describe_groups(cluster, groups, kind, read, "described", lambda _: None)


@cases(
    "assignor user_data generation expected",
    ("range", b"\0\0\0\0\0\0\0\5", 3, None),
    ("sticky", None, None, None),
    ("sticky", b"\0\0\0\0\0\0\0\5", 5, None),
    ("sticky", b"\0\0\0\0\0\0\0\5", None, 5),
    ("sticky", b"\0\0\0\0", 3, -1),
    ("cooperative-sticky", b"\0\0\0\5", 3, 5),
)
def test_generation_in_user_data(
    assignor: str, user_data: bytes | None, generation: int | None, expected: int | None
) -> None:
    """Given only where it differs; -1 is user data without a generation."""
    subscription = Subscription((), user_data, (), generation, None)
    assert consumer_protocol.user_data_generation(subscription, assignor) == expected


@cases(
    "members expected",
    ([(["a", "b"], None), (["b", "a"], None)], "homogeneous"),
    ([(["a"], None), (["a", "b"], None)], "heterogeneous"),
    ([([], "a.*"), ([], "a.*")], "homogeneous"),
    ([([], "a.*"), ([], "a+")], "heterogeneous"),
    ([(["a"], "a.*"), (["a"], "a.*")], "heterogeneous"),
    ([(["a"], None), ([], "a.*")], "heterogeneous"),
    ([], "homogeneous"),
)
def test_how_the_broker_counts_subscriptions(members: list[tuple[list[str], str | None]], expected: str) -> None:
    """Names as sets; one pattern of all, and no names besides."""
    members = [SimpleNamespace(subscribed_topic_names=names, subscribed_topic_regex=regex) for names, regex in members]
    assert group_description._subscription_type(members) == expected


def test_a_broker_that_never_answers_is_not_waited_for_by_batch() -> None:
    """However many groups it has: three times for each kind of request. Progress is not limited, and others are."""
    sent: Counter[tuple[int, str]] = Counter()

    async def send(request: Any, node_id: int) -> Any:
        kind = type(request).__name__
        sent[node_id, kind] += 1
        await asyncio.sleep(0.02)
        if kind == "ListGroupsRequest":
            return SimpleNamespace(error_code=0, groups=listed[node_id])
        if node_id == 1 or sent[node_id, kind] % 7 in (1, 2):  # the second broker is only slow
            raise RequestTimedOutError("after 20 ms")
        return SimpleNamespace(groups=[SimpleNamespace(group_id=group_id) for group_id in request.groups])

    def call_soon(task: Callable[..., Any], *arguments: Any) -> Any:
        return asyncio.ensure_future(task(*arguments))

    names = {broker: [f"g{broker}-{number}" for number in range(5_000)] for broker in (1, 2)}
    listed = {
        broker: [SimpleNamespace(group_id=group_id, protocol_type="consumer") for group_id in of_broker]
        for broker, of_broker in names.items()
    }
    connection: Any = object.__new__(kafka_connection.ClusterConnection)
    connection._waited = defaultdict(kafka_connection._Waited)
    connection.brokers = lambda: [1, 2]
    connection._manager = SimpleNamespace(
        send=send,
        start_budgets=lambda _: None,
        received=Budget(1),
        run=lambda main: asyncio.run(main()),
        call_soon=call_soon,
    )
    groups = {name: ListedGroup(name, broker, "classic", None) for broker in names for name in names[broker]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kafka_connection, "null_field", lambda _: None)
        values, faults = kafka_groups.describe_groups(
            connection, groups, DescribeGroupsRequest, lambda group: group, "described", lambda _: None
        )
    assert sorted(values) == sorted(names[2])
    assert sorted(faults) == sorted(names[1])
    assert set(faults.values()) == {"SilentBrokerError: broker 1 has not answered 3 requests like this in a row"}
    assert sent[1, "DescribeGroupsRequest"] == 3 * kafka_connection.LANES


def test_a_broker_that_answers_late_is_not_waited_for_forever() -> None:
    """Requests of a kind have a limit together. Other kinds, other brokers, and Fetch aren't counted with them."""
    now = 0.0

    async def send(request: Any, node_id: int) -> Any:
        nonlocal now
        await asyncio.sleep(0)
        now += 1 if node_id == 1 else 0
        return request

    connection: Any = object.__new__(kafka_connection.ClusterConnection)
    connection._waited, connection._limit_s = defaultdict(kafka_connection._Waited), 20
    run = {"run": lambda main: asyncio.run(main()), "call_soon": lambda task, *args: asyncio.ensure_future(task(*args))}
    connection._manager = SimpleNamespace(send=send, start_budgets=lambda _: None, received=Budget(1), **run)
    refused = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kafka_connection, "null_field", lambda _: None)
        patch.setattr(kafka_connection, "time", SimpleNamespace(monotonic=lambda: now))
        for broker, request in ((1, DescribeGroupsRequest), (2, DescribeGroupsRequest), (1, FetchRequest)):
            responses = connection.send_all([(broker, request()) for _ in range(80)])
            refused.append([repr(response) for response in responses if isinstance(response, Exception)])
        assert connection.send_all([(1, DescribeConfigsRequest())])[0].__class__ is DescribeConfigsRequest
    assert 80 - 20 - kafka_connection.LANES <= len(refused[0]) <= 60
    assert all("broker 1 took more than 20 s for requests like this" in error for error in refused[0])
    assert refused[1:] == [[], []]


def test_settings_of_topics_that_cannot_be_read() -> None:
    """After three failures in a row, no more are requested; a success between them counts."""
    sent = []

    def send_all(requests: Sequence[tuple[None, Any]]) -> list[Any]:
        names = [resource.resource_name for resource in requests[0][1].resources]
        sent.append(names[0])
        described = [SimpleNamespace(resource_name=name, configs=[SimpleNamespace(value="compact")]) for name in names]
        return [SimpleNamespace(results=described) if len(sent) == 3 else KafkaProtocolError("no response")]

    connection: Any = SimpleNamespace(newest=lambda _: 4, send_all=send_all)
    topics = [f"t{number:05}" for number in range(10_000)]
    found = kafka_connection.cleanup_policies(connection, topics)
    assert found == dict.fromkeys(topics[2_000:3_000], "compact")
    assert sent == topics[:6_000:1_000]


@cases(
    "columns topics problem",
    ({}, ("t" * 1_000,), None),
    ({"rack_id": "r" * 1_001}, (), "rack_id of members has more than 1,000 bytes"),
    ({"client_tags": ["k=v", "\u20ac" * 334]}, (), "client_tags of members has more than 1,000 bytes"),
    ({}, ("t" * 1_001,), "a subscribed topic has more than 1,000 bytes"),
)
def test_names_that_no_table_can_have(columns: dict[str, Any], topics: tuple[str, ...], problem: str | None) -> None:
    """Tables have them once for each topic or partition. The group is undescribed; its rows could be faults of all."""
    member = group_description.MemberDescription({"member_id": "m", "position": 1, **columns}, topics, {})
    assert group_description.GroupDescription("Stable", "range", [member]).long_name() == problem
    of_assignor = group_description.GroupDescription("Stable", "x" * 1_001, [])
    assert of_assignor.long_name() == "assignor of groups has more than 1,000 bytes"
