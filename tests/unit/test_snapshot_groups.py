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
    """Brokers 1 and 2, both for coordinator 0; answers by a function of (broker, group ids), and keeps the requests."""

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
                groups = [group for group, at in self.coordinator.items() if at in (0, broker)]
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


def test_a_coordinator_that_moves_while_groups_are_listed() -> None:
    """Two brokers list its groups, also as another type. The next list settles it; a group that it lacks has no known
    coordinator."""

    def group(name: str, kind: str = "Classic") -> Any:
        return SimpleNamespace(group_id=name, protocol_type="consumer", group_type=kind, group_state="Stable")

    lists = iter([[[group("a"), group("b"), group("c")], [group("a"), group("b", "Consumer"), group("c")]]])
    settled = [[group("d")], [group("a"), group("b", "Consumer")]]

    def send_all(_: Any) -> list[Any]:
        return [SimpleNamespace(error_code=0, groups=each) for each in next(lists, settled)]

    connection: Any = SimpleNamespace(brokers=lambda: [1, 9], send_all=send_all)
    groups = kafka_groups.listed(connection, None)
    assert {name: (each.broker, each.group_type, each.problem) for name, each in groups.items()} == {
        "a": (9, "classic", None),
        "b": (9, "consumer", None),
        "c": (1, "classic", "brokers 1 and 9 both list the group"),
    }


def test_a_group_that_another_broker_takes_over_later() -> None:
    """While the group is listed again, because it was in a rebalance."""

    def answer(broker: int, ids: Sequence[str]) -> Any:
        cluster.coordinator["b"] = 0
        return [(g, UnsettledError("no") if g == "b" and broker == 1 else g) for g in ids]

    cluster = _Cluster(answer)
    values, faults = _ask(cluster)
    assert values == {"a": "a", "c": "c"}
    assert faults == {"b": "brokers 1 and 2 both list the group"}
    assert cluster.requests == [(1, ["a", "b"]), (2, ["c"])]


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
    """A group that is listed with two types, or by two brokers, isn't described as either says, nor one with a long ID
    or a long type, which isn't stored. A broker that lists another's group and says that it is empty would have its
    offsets and members removed."""

    def listed(_: Any, requests: Sequence[Any]) -> list[Any]:
        def group(name: str, kind: str, protocol: str = "consumer") -> Any:
            return SimpleNamespace(group_id=name, protocol_type=protocol, group_type=kind, group_state="Empty")

        answers = [[group("a", "Classic"), group("a", "Consumer"), group("b", "Classic")], [group("b", "classic")]]
        answers[1] += [group("a", "Classic"), group("c", "Share"), group("c", "Streams"), group("d" * 1_001, "Classic")]
        answers[0] += [group("e", "Classic", "p" * 1_000), group("f", "Classic", "p" * 1_001)]
        return [SimpleNamespace(error_code=0, groups=groups) for groups in answers]

    broker = type("", (), {"brokers": lambda _: [1, 2], "send_all": listed})
    groups = kafka_groups.listed(broker(), None)  # type: ignore[arg-type]
    assert {name: (each.broker, each.problem) for name, each in groups.items()} == {
        "a": (1, "the brokers list the group as classic and as consumer"),
        "b": (1, "brokers 1 and 2 both list the group"),
        "c": (2, "the brokers list the group as share and as streams"),
        "d" * 1_001: (2, "the group ID has more than 1,000 bytes"),
        "e": (1, None),
        "f": (1, "the group type has more than 1,000 bytes"),
    }
    del groups["e"]
    rows, connection = SnapshotRows("c"), SimpleNamespace(send_all=lambda requests, _: [], send_any=_no_settings)
    kafka_groups.describe(connection, groups, {}, rows, lambda _: None)  # type: ignore[arg-type]
    assert [(row["group_id"], row["error"]) for row in rows.rows["undescribed"]] == [
        (name, each.problem) for name, each in groups.items()
    ]
    assert [row["state"] for row in rows.rows["groups"]] == [None] * 5, "a state would make them known to be empty"
    assert [row["group_type"] for row in rows.rows["groups"]] == [*["classic"] * 2, "share", "classic", None]


def test_an_error_in_a_table_is_no_long_text() -> None:
    """By bytes: members have sent a part of it. Thousands of long ones would be too much for the reader of a table."""
    rows = SnapshotRows("c")
    for error in ("\u20ac" * 333, "\u20ac" * 334):
        rows.add("undescribed", group_id="g", error=error)
    assert rows.tables()["undescribed"]["error"].to_pylist() == ["\u20ac" * 333, "\u20ac" * 332 + "\u2026"]


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
    config = SimpleNamespace(name="cleanup.policy", value="compact")

    def send_all(requests: Sequence[tuple[None, Any]]) -> list[Any]:
        names = [resource.resource_name for resource in requests[0][1].resources]
        sent.append(names[0])
        described = [SimpleNamespace(resource_name=name, configs=[config]) for name in names]
        return [SimpleNamespace(results=described) if len(sent) == 3 else KafkaProtocolError("no response")]

    connection: Any = SimpleNamespace(newest=lambda _: 4, send_all=send_all)
    topics = [f"t{number:05}" for number in range(10_000)]
    found = kafka_connection.cleanup_policies(connection, topics)
    assert found == dict.fromkeys(topics[2_000:3_000], "compact")
    assert sent == topics[:6_000:1_000]


@cases(
    "columns names problem",
    ({}, {"topics": ("t" * 1_000,), "owned": (("t" * 255, 0),), "tasks": ({"subtopology": "s" * 1_000},)}, None),
    ({"rack_id": "r" * 1_001}, {}, "rack_id of members has more than 1,000 bytes"),
    ({"client_tags": ["k=v", "\u20ac" * 334]}, {}, "client_tags of members has more than 1,000 bytes"),
    ({}, {"topics": ("t" * 1_001,)}, "a subscribed topic has more than 1,000 bytes"),
    ({}, {"owned": (("t", 0), ("\ufffd" * 86, 0))}, "topics of owned_lists has more than 255 bytes"),
    ({}, {"tasks": ({"subtopology": "s" * 1_001},)}, "subtopology of tasks has more than 1,000 bytes"),
)
def test_names_that_no_table_can_have(columns: dict[str, Any], names: dict[str, Any], problem: str | None) -> None:
    """Tables have them once for each topic or partition. The group is undescribed; its rows could be faults of all."""
    member_columns = {"member_id": "m", "position": 1, **columns}
    member = group_description.MemberDescription(member_columns, **{"topics": (), "owned": ()} | names)
    assert group_description.GroupDescription("Stable", "range", [member]).long_name() == problem
    of_assignor = group_description.GroupDescription("Stable", "x" * 1_001, [])
    assert of_assignor.long_name() == "assignor of groups has more than 1,000 bytes"


def test_an_assignment_with_names_that_no_table_can_have() -> None:
    """Whoever joins a group alone writes it as its leader. Each byte that isn't UTF-8 becomes three."""
    name = b"\xff" * 32_767
    assignment = b"\0\0" + (1).to_bytes(4) + len(name).to_bytes(2) + name + (1).to_bytes(4) + bytes(4) + b"\xff" * 4
    member = {"member_id": "m", "client_id": "c", "client_host": "h", "group_instance_id": None}
    members = [
        SimpleNamespace(**member, member_metadata=b"\0\0" + bytes(4) + b"\xff" * 4, member_assignment=assignment)
    ]
    group = SimpleNamespace(
        group_id="g", error_code=0, error_message=None, group_state="Stable", protocol_data="range", members=members
    )
    rows = SnapshotRows("c")
    connection: Any = SimpleNamespace(send_all=lambda requests, _: [SimpleNamespace(groups=[group]) for _ in requests])
    kafka_groups.describe(connection, {"g": ListedGroup("g", 1, "classic", "Stable")}, {}, rows, lambda _: None)
    assert [row["error"] for row in rows.rows["undescribed"]] == ["topics of owned_lists has more than 255 bytes"]
    assert (rows.rows["members"], rows.rows["owned_lists"]) == ([], [])
