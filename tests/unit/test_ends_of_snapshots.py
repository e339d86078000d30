"""How snapshots end when the cluster, the text or the disk is not as it should be: nothing is lost."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import logging
import os
import resource
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError, KafkaProtocolError, SaslAuthenticationFailedError
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaTCPTransport
from kafka.protocol.admin import (
    ListGroupsRequest,
    ListGroupsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kafka.protocol.metadata import ApiVersionsResponse, MetadataRequest, MetadataResponse
from kafka.protocol.schemas.fields.codecs import UnsignedVarInt32
from kafka.protocol.schemas.fields.codegen import CodegenContext

from jobs import history, snapshot
from spark_assign.sources.auth.secret import Secret
from spark_assign.sources.auth.settings import check_servers
from spark_assign.sources.files.snapshot import SnapshotRows
from spark_assign.sources.kafka import client_limits, group_description, offsets_topic
from spark_assign.sources.kafka import cluster_snapshot as kafka
from spark_assign.sources.kafka import connection as kafka_connection
from spark_assign.sources.kafka import offsets as kafka_offsets
from spark_assign.sources.kafka.connection import error_text
from spark_assign.sources.kafka.group_description import standby_replicas
from spark_assign.tables.errors import ConfigError, SourceError
from spark_assign.wire.describe_groups import ConsumerGroupDescribeResponse
from tests.unit.tls_stub import certificate

ROOT = Path(__file__).parents[2]
TOPICS = "Topic: orders\tTopicId: x\tPartitionCount: 3\tReplicationFactor: 1\tConfigs:\n" + "".join(
    f"\tTopic: orders\tPartition: {number}\tLeader: 1\tReplicas: 1\tIsr: 1\n" for number in range(3)
)
GROUPS = """
GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             CONSUMER-ID     HOST            CLIENT-ID
shop            orders          0          5               7               2               c0-aaaa         /10.0.0.7       c0
"""  # noqa: E501


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    """Of a job that reads files and writes a snapshot to `fleet`; it has run once."""
    (tmp_path / "topics.txt").write_text(TOPICS)
    (tmp_path / "groups.txt").write_text(GROUPS)
    given = [
        "--from-text",
        "--cluster-name",
        "c",
        "--topics-file",
        str(tmp_path / "topics.txt"),
        "--fleet-dir",
        str(tmp_path / "fleet"),
    ]
    assert snapshot.main([*given, "--groups-file", str(tmp_path / "groups.txt")]) == 0
    return given


def files(folder: Path) -> dict[str, bytes]:
    """Everything below a folder."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("text", ["", "GROUP,TOPIC,PARTITION\nshop,orders,0\n", "\x00\x01"])
def test_a_text_with_other_columns(
    arguments: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    """File and line are named; the snapshot before stays as it was."""
    before = files(tmp_path / "fleet")
    (tmp_path / "other.txt").write_text(text)
    assert snapshot.main([*arguments, "--groups-file", str(tmp_path / "other.txt")]) == 2
    assert ("other.txt, line 1: expected" if text else "other.txt is empty") in caplog.text
    assert files(tmp_path / "fleet") == before


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--from-text", "--topics-file", "t", "--groups-file", "g"], "--from-text needs --cluster-name."),
        (["--from-text", "--cluster-name", "c", "--groups-file", "g"], "--from-text needs --topics-file."),
        (["--topics-file", "t"], "--topics-file needs --from-text."),
        (["--group", "a", "--group", "b"], "--group can name only one group with --from-text."),
        (["--bootstrap-server", "b:9092"], "--bootstrap-server can't be used with --from-text."),
        (["--connect-auth", "f"], "--connect-auth can't be used with --from-text."),
        ([], "Use --bootstrap-server, --connect-url, --from-text, or --clusters."),
    ],
)
def test_options_of_text_and_cluster(words: list[str], problem: str, caplog: pytest.LogCaptureFixture) -> None:
    """A wrong combination is a usage error, which names the flag."""
    if "with --from-text." in problem:
        words = ["--from-text", "--cluster-name", "c", "--topics-file", "t", "--groups-file", "g", *words]
    assert snapshot.main([*words, "--fleet-dir", "f"]) == 2
    assert problem in caplog.text


def test_a_full_disk(arguments: list[str], tmp_path: Path) -> None:
    """A write that fails in the middle of a file (here by a limit of the process): exit code 3, the old snapshot."""
    before = files(tmp_path / "fleet")
    limited = (
        "import resource, sys; from jobs import snapshot; resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512)); "
        "sys.exit(snapshot.main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", limited, *arguments, "--groups-file", str(tmp_path / "groups.txt")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 3, done.stderr
    assert f"{tmp_path / 'fleet'} cannot be written: " in done.stderr
    assert "Traceback" not in done.stderr
    assert files(tmp_path / "fleet") == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["fleet", "groups.txt", "topics.txt"]


@pytest.fixture(params=["refuses", "is silent"])
def nobody(request: pytest.FixtureRequest) -> Iterator[str]:
    """A bootstrap server that is not there, or one that takes a connection and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        if request.param == "is silent":
            listener.listen()
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def test_a_broker_that_does_not_answer(
    arguments: list[str], nobody: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Exit code 3 with the address; the snapshot before stays as it was."""
    before = files(tmp_path / "fleet")
    monkeypatch.setattr(kafka_connection, "_TURN_S", 1)
    monkeypatch.setattr(kafka, "snapshot", functools.partial(kafka.snapshot, connect_timeout_s=1))
    assert snapshot.main(["--bootstrap-server", nobody, "--fleet-dir", str(tmp_path / "fleet")]) == 3
    assert f"snapshot: Kafka at {nobody}: no connection" in caplog.text
    assert "--bootstrap-server" in caplog.text
    assert files(tmp_path / "fleet") == before


def test_a_broker_that_sends_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read is bounded, also before the length of a response is known, and while more comes in."""
    read = 0

    class Endless:
        def recv(self, size: int) -> bytes:
            nonlocal read
            read += size
            return bytes(size)

        def fileno(self) -> int:
            return 7

        def getpeername(self) -> None:
            raise OSError("not connected")

    received = client_limits.Budget(1 << 20, brokers=2)
    manager: Any = SimpleNamespace(received=received)
    transport = KafkaTCPTransport(None, client_limits._CountedSocket(Endless(), manager, 2))
    assert transport._sock.fileno() == 7
    monkeypatch.setattr(client_limits, "MAX_TURN_BYTES", 1 << 19)
    data, error = transport._sock_recv()
    assert (1 << 19 < len(data) < 1 << 20, error) == (True, None), "others have their turn"
    monkeypatch.setattr(client_limits, "MAX_TURN_BYTES", 1 << 24)
    more, error = transport._sock_recv()
    data += more
    assert 1 << 20 < len(data) == read == received.used[2] < 2 << 20
    assert "broker 2 has sent more than 1 MiB" in str(error)
    assert received.limit(1) == 1 << 19, "the other broker still has its share"


def test_a_size_that_a_response_only_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library allocates it at once, so it gets complete responses. A size above the limit it refuses."""
    monkeypatch.setattr(client_limits, "MAX_RESPONSE_BYTES", 20)
    lost = KafkaConnectionError("socket disconnected")
    response, claim = b"\0\0\0\4abcd", b"\0\0\0\x14"
    parts = [response[:3], response[3:] + response + claim, b"x" * 9, b"x" * 11]
    receive = client_limits._complete_responses(iter((part, lost) for part in parts).__next__)
    first, second = (response * 2, None), (claim + b"x" * 20, None)
    assert [receive() for _ in parts] == [(b"", lost), first, (b"", lost), second]
    for size in (b"\0" * 4, b"\0\0\0\3", b"\xff" * 4, b"\0\0\0\x15"):
        data, error = client_limits._complete_responses(lambda size=size: (response + size * 1_000, None))()  # type: ignore
        assert (data, str(error)) == (
            b"",
            f"InvalidReceiveError: Invalid frame length: {int.from_bytes(size, signed=True)}",
        )


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_zeros_without_end(protocol: str, tmp_path: Path) -> None:
    """Are refused at once, as an empty response."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*certificate(tmp_path))

    def send(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection = listener.accept()[0]
                if protocol == "SSL":
                    connection = tls.wrap_socket(connection, server_side=True)
                connection.recv(1_000)
                with contextlib.suppress(OSError):
                    while True:
                        connection.sendall(bytes(65_536))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=send, args=(listener,), daemon=True).start()
        settings: dict[str, Any] = {"security_protocol": protocol, "ssl_cafile": str(tmp_path / "stub.pem")}
        start_s = time.process_time()
        with pytest.raises(SourceError, match="Invalid frame length: 0"):
            kafka_connection.ClusterConnection(f"127.0.0.1:{listener.getsockname()[1]}", settings, timeout_s=0.1)
        assert time.process_time() - start_s < 5
        listener.shutdown(socket.SHUT_RDWR)


def test_a_null_that_the_schema_forbids() -> None:
    """Is the error of its request, as with Kafka's clients; one that the schema allows isn't."""
    described = ConsumerGroupDescribeResponse.DescribedGroup
    assignment = described.Member.Assignment(topic_partitions=[], version=1)
    names = {"error_message": None, "group_state": "Stable", "assignor_name": "uniform"}
    member = {"assignment": assignment, "target_assignment": assignment, "instance_id": None}

    def response(topics: Any, **more: Any) -> Any:
        columns = {"member_id": "m", "client_id": "c", "client_host": "/h", "subscribed_topic_names": topics} | member
        members = [described.Member(**columns | more, version=1)]
        groups = [described(group_id="g", members=members, **names, version=1)]
        return ConsumerGroupDescribeResponse(groups=groups, version=1)

    responses = [response(["t"]), response([None]), response(None), response([], client_id=None)]
    responses += [response([], target_assignment=described.Member.Assignment(topic_partitions=None, version=1))]
    responses += [ConsumerGroupDescribeResponse(groups=None, version=1)]
    places = [None, "subscribed_topic_names", "subscribed_topic_names", "client_id"]
    places += ["target_assignment.topic_partitions"]
    named = [place and f"groups.members.{place}" for place in places] + ["groups"]
    assert [kafka_connection.null_field(each) for each in responses] == named

    async def send(request: Any, **_: Any) -> Any:
        return request

    run = {"run": lambda main: asyncio.run(main()), "call_soon": lambda task, *args: task(*args)}
    connection = object.__new__(kafka_connection.ClusterConnection)
    connection._manager = SimpleNamespace(send=send, start_budgets=lambda _: None, **run)
    connection._waited = defaultdict(kafka_connection._Waited)
    good, bad = connection.send_all([(1, responses[0]), (2, responses[-1])])
    assert good is responses[0]
    assert repr(bad) == "WireError('malformed response of the broker: groups is null')"


def test_a_response_that_cannot_be_decoded_is_an_error_at_once() -> None:
    """The library would stop to read, and wait for the timeout of the request, here of 5 s for each attempt."""

    def answer(server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                request = connection.recv(1 << 16)
                connection.sendall(b"\0\0\0\6" + request[8:12] + b"\0\0")  # lacks the versions that it announces

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answer, args=(server,), daemon=True).start()
        with pytest.raises(SourceError, match=r"no connection \(KafkaProtocolError: .*-0: malformed response\)"):
            kafka_connection.ClusterConnection(f"127.0.0.1:{server.getsockname()[1]}", {}, timeout_s=0.1)


def test_versions_of_apis_in_another_version() -> None:
    """The list of them is null then, which the library doesn't check."""

    def answer(server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                request = connection.recv(1 << 16)
                connection.sendall(b"\0\0\0\x0e" + request[8:12] + bytes(10))

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answer, args=(server,), daemon=True).start()
        with pytest.raises(SourceError, match=r"no connection \(KafkaProtocolError: .*-0: malformed response\)"):
            kafka_connection.ClusterConnection(f"127.0.0.1:{server.getsockname()[1]}", {}, timeout_s=0.1)


def test_an_error_of_a_broker_is_short() -> None:
    """A broker says why it denies a login, in any number of characters."""
    connection = object.__new__(kafka_connection.ClusterConnection)
    connection._bootstrap_servers, connection._secrets = "b:1", [Secret("4711")]
    text = str(connection.failed("no connection", SaslAuthenticationFailedError(f"no 4711 {'x' * 100_000}")))
    assert "SaslAuthenticationFailedError" in text
    assert ("4711" in text, len(text) < 2_500) == (False, True)


def test_an_offset_that_no_log_has() -> None:
    """It is unknown, rather than a lag beyond a long, which ended the snapshot."""
    at = (-(1 << 63), -2, -1, 0, 7)
    partitions = [
        SimpleNamespace(partition_index=n, error_code=0, offset=offset, timestamp=-1) for n, offset in enumerate(at)
    ]
    response = SimpleNamespace(topics=[SimpleNamespace(name="t", partitions=partitions)])
    connection: Any = SimpleNamespace(send_all=lambda requests, _: [response for _ in requests])
    leaders = {("t", n): 1 for n in range(len(at))}
    found = kafka_offsets._request_from_leaders(connection, leaders, leaders, kafka_offsets.LATEST, 0, "read")
    assert {partition: each.offset for (_, partition), each in found.items()} == {2: -1, 3: 0, 4: 7}


@pytest.mark.parametrize("brokers", [(1, 2), (2, 1)])
def test_an_offset_counts_only_from_the_broker_of_the_request(
    brokers: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that lists partitions of another leader doesn't replace that leader's offsets, nor an error of it."""
    monkeypatch.setattr(kafka_offsets, "LIST_BATCH", 1)

    def respond(broker: int, request: Any) -> Any:
        partitions = [
            SimpleNamespace(partition_index=n, error_code=6 if n == broker == 1 else 0, offset=broker, timestamp=-1)
            for n in range(4)
        ]
        return SimpleNamespace(topics=[SimpleNamespace(name="t", partitions=partitions)])

    connection: Any = SimpleNamespace(send_all=lambda requests, _: [respond(*each) for each in requests])
    leaders = {("t", n): brokers[n % 2] for n in range(4)}
    found = kafka_offsets._request_from_leaders(connection, leaders, leaders, kafka_offsets.LATEST, 0, "read")
    expected = {key: broker for key, broker in leaders.items() if (key[1], broker) != (1, 1)}
    assert {key: each.offset for key, each in found.items()} == expected


def test_settings_count_only_in_the_response_to_their_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request can be answered by another broker, and one can list topics and groups of the other requests, and
    other settings."""
    monkeypatch.setattr(kafka_connection, "_TOPICS_PER_REQUEST", 1)
    monkeypatch.setattr(group_description, "_CONFIGS", 1)

    def respond(request: Any) -> Any:
        [first] = [resource.resource_name for resource in request.resources]
        names = ("before", group_description.STANDBY_REPLICAS, "cleanup.policy", "behind")
        configs = [SimpleNamespace(name=name, value=str("ab".index(first) + 5 * (name[0] == "b"))) for name in names]
        both = [
            SimpleNamespace(resource_name=name, error_code=0, error_message=None, configs=configs)
            for name in ("a", "b", "c")
        ]
        return SimpleNamespace(results=both)

    connection: Any = SimpleNamespace(
        newest=lambda _: 4, send_any=respond, send_all=lambda requests: [respond(each) for _, each in requests]
    )
    assert kafka_connection.cleanup_policies(connection, ["a", "b"]) == {"a": "0", "b": "1"}
    assert standby_replicas(connection, ["a", "b"], lambda _: None) == {"a": 0, "b": 1}


def test_standbys_of_groups_beside_one_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the same response and in others: one's error, or a request that fails, costs no other group its number."""
    monkeypatch.setattr(group_description, "_CONFIGS", 2)
    config, error_codes = SimpleNamespace(name=group_description.STANDBY_REPLICAS, value="1"), {"a": 30}

    def respond(request: Any) -> Any:
        names = [resource.resource_name for resource in request.resources]
        if "c" in names:
            raise SourceError("no response")
        configs = {"e": [], "f": [SimpleNamespace(name=config.name, value="-1")]}
        results = [
            SimpleNamespace(
                resource_name=name,
                error_code=error_codes.get(name, 0),
                error_message=None,
                configs=configs.get(name, [config]),
            )
            for name in names
        ]
        return SimpleNamespace(results=results)

    connection: Any = SimpleNamespace(send_any=respond)
    reported: list[str] = []
    assert standby_replicas(connection, list("abcdefgh"), reported.append) == {"b": 1, "g": 1, "h": 1}
    assert reported == ["how many standby replicas 5 of 8 streams groups have is not known: no response"]
    assert standby_replicas(connection, ["b", "a"], reported.append) == {"b": 1}
    assert "1 of 2 streams groups have is not known: GroupAuthorizationFailedError" in reported[-1]
    assert standby_replicas(connection, ["e"], reported.append) == {}
    assert reported[-1].endswith("1 of 1 streams groups have is not known: the broker does not say it")
    assert standby_replicas(connection, [], reported.append) == {}
    assert len(reported) == 3


def test_a_step_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """Of bounded length: a leader can assign topics of any name."""
    caplog.set_level(logging.INFO, "spark_assign.snapshot")
    names = ["a\n02:31:53 all groups are read", "b" * 100_000]
    snapshot._progress(SimpleNamespace(clusters=None))(kafka_connection.unseen_topics_text(names))
    [text] = caplog.messages
    assert text.startswith("topics that groups own are not shown to this user")
    assert (r"a\n02" in text, "\n" in text, len(text) < 2_100) == (True, False, True)


def test_partitions_that_nobody_has() -> None:
    """A megabyte that a leader assigns names a quarter of a million of them, each of which was a row of offsets."""
    rows = SnapshotRows("c")
    rows.add_owned("g", "m", [*(("t", number) for number in range(9)), ("gone", 1), ("gone", 2)])
    found = kafka._partitions(rows, {"g": {("gone", 2): 5, ("other", 1): 6}}, {("t", 0): 1, ("t", 1): 1})
    assert found == {"g": {("t", 0), ("t", 1), ("gone", 2)}}


@pytest.mark.parametrize(
    "servers",
    [":::,,,", "[::1", "b:", "b:x", ",", "h:0", "h:65536", "[::1]:99999", "a:1,b:" + "9" * 900, f"a.{'b' * 64}.c:1"],
)
def test_servers_that_nothing_can_have(servers: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Wrong input."""
    assert snapshot.main(["--bootstrap-server", servers, "--fleet-dir", str(tmp_path)]) == 2
    assert f"Kafka at {servers}: expected HOST:PORT,…" in caplog.text


@pytest.mark.parametrize("job", [snapshot, history])
def test_no_servers(job: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty text isn't the same as no option, also in a file of clusters."""
    place = ["--fleet-dir", str(tmp_path)] if job is snapshot else ["--output", str(tmp_path)]
    assert job.main(["--bootstrap-server", "", *place]) == 2
    assert "'--bootstrap-server': expected HOST:PORT,…" in capsys.readouterr().err
    file = tmp_path / "clusters.toml"
    file.write_text('[clusters.a]\nbootstrap_server = ""\nconnect_url = ["http://127.0.0.1:1"]\n')
    with pytest.raises(ConfigError, match=r"\[clusters.a\]: .*expected HOST:PORT,…"):
        snapshot.clusters_of(file)


@pytest.mark.parametrize("servers", ["u:hunter2@h:9092", "a:1,hunter2@h:1", "hunter2,x@h:1", "u:hunter2@", "a@"])
def test_servers_with_a_password(servers: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Refused at once, and not repeated; also for Spark's reader."""
    assert snapshot.main(["--bootstrap-server", servers, "--fleet-dir", str(tmp_path)]) == 2
    assert f"Kafka at {servers.rpartition('@')[2]}: expected HOST:PORT,…" in caplog.text
    assert "hunter2" not in caplog.text
    with pytest.raises(ConfigError, match=r"expected HOST:PORT,…"):
        offsets_topic.options(servers, {})


@pytest.mark.parametrize(
    "servers", ["a:1,b:65535", "a:009092", "a", "a:1, [::1]:2,", "SASL_SSL://a-1.b_c:1", "::1", "\u00fc.de:1"]
)
def test_servers_of_any_form(servers: str) -> None:
    """As kafka-python takes them."""
    check_servers(servers)


@pytest.mark.parametrize(
    ("brokers", "topic", "partitions", "problem"),
    [
        ([1, 2], "t", [1, 0], None),
        ([1, 1], "t", [0], "lists a broker twice"),
        ([-1], "t", [0], "or a negative ID"),
        ([1], "t", [0, 0], "lacks a partition of the topic 't', or lists one twice"),
        ([1], "t", [0, 2], "lacks a partition"),
        ([1], "t", [-1], "lacks a partition"),
        ([1], None, [0], "lacks a partition of the topic None"),
        ([1], "t" * 32_768, [0], "lacks a partition of the topic 'ttt"),
        (["r" * 256], "t", [0], "has a rack of more than 255 bytes"),
        ([1], "many", [0], "has more than 1,000 replicas of a partition of the topic 'many'"),
    ],
)
def test_metadata_that_contradicts_itself(
    monkeypatch: pytest.MonkeyPatch, brokers: list[Any], topic: str, partitions: list[int], problem: str | None
) -> None:
    """Such rows of one cluster would be faults of the whole fleet."""
    replicas = range(1_001 if topic == "many" else 1_000)
    listed = [SimpleNamespace(partition_index=number, replica_nodes=replicas) for number in partitions]
    metadata = SimpleNamespace(
        cluster_id="c",
        brokers=[
            SimpleNamespace(node_id=1, rack=each) if isinstance(each, str) else SimpleNamespace(node_id=each, rack=None)
            for each in brokers
        ],
        topics=[SimpleNamespace(name=topic, error_code=0, partitions=listed)],
    )
    monkeypatch.setattr(kafka_connection.ClusterConnection, "send_any", lambda _, __: metadata)
    connection = object.__new__(kafka_connection.ClusterConnection)
    connection._bootstrap_servers = "b:1"
    if problem is None:
        assert connection.metadata(None) is metadata
        return
    with pytest.raises(SourceError, match=f"Kafka at b:1: the metadata .*{problem}"):
        connection.metadata(None)


@pytest.mark.parametrize("size", [1_000, 1_001])
def test_names_that_no_reader_takes(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """A broker with too many long names costs its own cluster. Groups with long IDs, which anyone can make, cost none:
    those beyond a number are missing, and the snapshot says it."""
    ids = [f"{number:02}{'g' * 32_000}" for number in range(40)]
    partitions = [
        SimpleNamespace(partition_index=number, replica_nodes=[1], leader_id=-1, error_code=0)
        for number in range(1_100)
    ]
    topics = [SimpleNamespace(name="t" * size, error_code=0, partitions=partitions)]
    groups = [SimpleNamespace(group_id=each, protocol_type="consumer") for each in ids]
    connection = SimpleNamespace(
        metadata=lambda _: SimpleNamespace(cluster_id="c", brokers=[], topics=topics),
        newest=lambda _: -1,
        brokers=lambda: [1],
        send_all=lambda requests, _=None: [SimpleNamespace(error_code=0, groups=groups) for _ in requests],
        without_secrets=lambda text, _=0: text,
    )
    monkeypatch.setattr(kafka, "ClusterConnection", lambda *_: contextlib.nullcontext(connection))
    if size > 1_000:
        with pytest.raises(SourceError, match=r"c can't be stored: texts of more than 1,000 bytes in replicas have"):
            kafka.snapshot("b:1")
        return
    taken = kafka.snapshot("b:1")
    limit = "with an ID of more than 1,000 bytes, of which a snapshot has at most 16"
    assert taken.source["unseen"] == f"24 groups are missing {limit}"
    assert taken.tables["undescribed"]["group_id"].to_pylist() == ids[:16]


def test_more_brokers_than_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of this cluster: it would take the files and connections of the other snapshots."""
    numbers = range(2_001)
    brokers = [SimpleNamespace(node_id=number, rack=None) for number in numbers]
    connection = object.__new__(kafka_connection.ClusterConnection)
    connection._bootstrap_servers = "b:1"

    def read(number: int) -> int:
        metadata = SimpleNamespace(cluster_id="c", brokers=brokers[:number], topics=[])
        monkeypatch.setattr(connection, "send_any", lambda _: metadata)
        connection._manager = SimpleNamespace(cluster=SimpleNamespace(brokers=lambda: metadata.brokers))
        assert len(connection.brokers()) == number
        return len(connection.metadata(None).brokers)

    monkeypatch.setattr(kafka_connection, "_open_files", lambda: 65_536)
    assert read(2_000) == 2_000
    with pytest.raises(SourceError, match=r"Kafka at b:1: it has 2,001 brokers\. At most 2,000 can be read"):
        read(2_001)
    monkeypatch.setattr(kafka_connection, "_open_files", lambda: 1_024)
    monkeypatch.setattr(kafka_connection.ClusterConnection, "at_once", 2)
    assert read(256) == 256
    refused = pytest.raises(SourceError, match=r"half of the 1,024 files .* 2 snapshots .*ulimit -n")
    with refused:
        read(257)
    with refused:
        connection.metadata(None)


def test_the_limit_of_open_files_is_raised() -> None:
    """As far as the process may, and to at most 65,536."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        raised = kafka_connection._open_files()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (raised, before[1])
        assert 256 < raised <= 65_536
        assert kafka_connection._open_files() == raised
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_a_refused_connection_leaves_nothing(protocol: str, nobody: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a socket, nor a task that waits for one: collected later, it printed a traceback about a descriptor."""
    monkeypatch.setattr(kafka_connection, "_TURN_S", 1)
    gc.collect()
    gc.disable()
    try:
        before = os.listdir("/dev/fd")
        with pytest.raises(SourceError, match="no connection"):
            kafka_connection.ClusterConnection(nobody, {"security_protocol": protocol}, timeout_s=0.1)
        assert len(os.listdir("/dev/fd")) == len(before)
    finally:
        gc.enable()


@pytest.mark.parametrize("nobody", ["is silent"], indirect=True)
def test_a_tls_handshake_has_a_limit_in_time(nobody: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """kafka-python waits for its end forever, and for its requests, too."""
    net = NetworkSelector()
    manager = client_limits.LimitedManager(
        net, bootstrap_servers=[nobody], security_protocol="SSL", socket_connection_setup_timeout_ms=200
    )
    node = manager.cluster.bootstrap_brokers()[0].node_id
    net.start()
    try:
        with pytest.raises(KafkaConnectionError, match="Handshake failed"):
            manager.run(manager.send, MetadataRequest(), node)
    finally:
        manager.close()
        net.close()


@pytest.mark.parametrize("limit", ["MAX_NAME_LOOKUP_S", "MAX_LOOKUPS_S"])
def test_a_name_server_that_does_not_answer(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It isn't waited for at each attempt for each name that a broker lists."""
    looked_up = []

    def slow(host: str, *_: Any) -> None:
        looked_up.append(host)
        time.sleep(0.01)
        raise socket.gaierror(-3, "no answer")

    monkeypatch.setattr(kafka_connection, "_TURN_S", 1)
    monkeypatch.setattr(client_limits, limit, 0.0)
    monkeypatch.setattr(socket, "getaddrinfo", slow)
    with pytest.raises(SourceError, match=r"the host name b\.example isn't looked up again: its lookups took"):
        kafka_connection.ClusterConnection("b.example:9092", {}, timeout_s=0.1)
    assert looked_up == ["b.example"]


def test_small_elements_without_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoded, they take 50 times their bytes. What a large cluster has is read."""
    manager = SimpleNamespace(decoded=0, max_decoded=client_limits.MAX_LISTED_BYTES)
    monkeypatch.setattr(client_limits.OF_THREAD, "manager", manager, raising=False)

    def groups(number: int, group: bytes) -> Any:
        manager.decoded = 0
        size = UnsignedVarInt32.encode(number + 1)
        return ListGroupsResponse[5].decode(b"\0\0\0\0\0\0" + size + group * number + b"\0")

    text = b"\x19" + b"x" * 24
    assert len(groups(100_000, text * 4 + b"\0").groups) == 100_000
    topic = ListPartitionReassignmentsResponse.OngoingTopicReassignment
    moved = topic.OngoingPartitionReassignment
    lists = {"replicas": [1, 2, 3, 4], "adding_replicas": [4], "removing_replicas": [1]}
    partitions = [moved(partition_index=number, **lists) for number in range(200_000)]
    moving = ListPartitionReassignmentsResponse(topics=[topic(name="t", partitions=partitions)], error_code=0)
    manager.decoded = 0
    encoded = moving.encode(version=0)
    assert len(ListPartitionReassignmentsResponse[0].decode(encoded).topics[0].partitions) == 200_000
    assert 200_000 * 400 < manager.decoded < manager.max_decoded
    manager.max_decoded = 1 << 20
    with pytest.raises(KafkaProtocolError, match="elements for more than 1 MiB of memory"):
        groups(10_000, b"\1\1\1\1\0")
    with pytest.raises(KafkaProtocolError, match="elements for more than 1 MiB of memory"):
        groups(100, b"\1\1\1\1" + UnsignedVarInt32.encode(100) + b"".join(b"%c\0" % tag for tag in range(1, 101)))


def test_elements_of_one_broker_cost_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a number that it only claims, nor elements that it really sends. The error names it."""
    memory = client_limits.Budget(1 << 20, brokers=2)
    manager: Any = SimpleNamespace(memory=memory)
    monkeypatch.setattr(client_limits.OF_THREAD, "manager", manager, raising=False)
    found = []
    read = {
        broker: client_limits._refused_at_once(
            lambda data: found.append(ListGroupsResponse[5].decode(data)), manager, broker
        )
        for broker in (1, 2)
    }

    def groups(number: int, claimed: int) -> bytes:
        return b"\0\0\0\0\0\0" + UnsignedVarInt32.encode(claimed + 1) + b"\1\1\1\1\0" * number + b"\0"

    for response in (groups(0, (1 << 31) - 2), groups(3, 17), groups(3, 16), b"\0\0"):
        with pytest.raises(KafkaProtocolError, match=r"broker 2: malformed response$") as error:
            read[2](response)
        assert (error.value.__context__, memory.used[2]) == (None, 0), "what was decoded takes no more memory"
    for _ in range(6):
        read[2](groups(1_000, 1_000))
    with pytest.raises(KafkaProtocolError, match=r"broker 2: the responses to .* for more than 1 MiB of memory"):
        read[2](groups(1_000, 1_000))
    for _ in range(3):
        read[1](groups(1_000, 1_000))
    with pytest.raises(KafkaProtocolError, match=r"broker 1: the responses to .* for more than 0.5 MiB of memory"):
        read[1](groups(1_000, 1_000))
    assert (len(found), memory.used.total()) == (9, 9 * 1_000 * 160)


@pytest.mark.parametrize("number", [16, 2**31 - 2])
def test_a_response_of_one_broker_that_claims_elements(number: int) -> None:
    """Over connections: only the requests to this broker fail."""

    def answer(server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=respond, args=(server.accept()[0],), daemon=True).start()

    def respond(connection: socket.socket) -> None:
        broker = ports.index(connection.getsockname()[1]) + 1
        while size := connection.recv(4):
            request = connection.recv(int.from_bytes(size))
            api, version = int.from_bytes(request[:2]), int.from_bytes(request[2:4])
            body = responses[api].encode(version=version, header=False) if api != 16 or broker == 1 else claim
            response = request[4:8] + (b"" if api == 18 else b"\0") + body
            connection.sendall(len(response).to_bytes(4) + response)

    claim = b"\0" * 6 + UnsignedVarInt32.encode(number + 1)
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        ports = [server.getsockname()[1] for server in (one, two)]
        broker, key = MetadataResponse.MetadataResponseBroker, ApiVersionsResponse.ApiVersion
        versions = [key(api_key=api, min_version=0, max_version=newest) for api, newest in ((3, 12), (16, 5), (18, 3))]
        brokers = [broker(node_id=n, host="127.0.0.1", port=port, rack=None) for n, port in enumerate(ports, 1)]
        responses: dict[int, Any] = {
            3: MetadataResponse(brokers=brokers, cluster_id="c", controller_id=1, topics=[]),
            16: ListGroupsResponse(error_code=0, groups=[]),
            18: ApiVersionsResponse(error_code=0, api_keys=versions),
        }
        for server in (one, two):
            threading.Thread(target=answer, args=(server,), daemon=True).start()
        with kafka_connection.ClusterConnection(f"127.0.0.1:{ports[0]}", {}, timeout_s=5) as connection:
            found = connection.send_all([(broker, ListGroupsRequest()) for broker in (2, 1, 2, 1)])
    assert [response.groups for response in found[1::2]] == [[], []]
    assert {str(error) for error in found[::2]} == {"KafkaProtocolError: broker 2: malformed response"}


def test_the_limit_of_elements_by_request() -> None:
    """It is smaller for lists that are short in each cluster. Of requests that the snapshot can do without, a failure
    is reported.
    """

    async def send(request: Any, **_: Any) -> Any:
        raise KafkaProtocolError("too many")

    limits: list[int] = []
    run = {"run": lambda main: asyncio.run(main()), "call_soon": lambda task, *args: task(*args)}
    connection = object.__new__(kafka_connection.ClusterConnection)
    connection._manager = SimpleNamespace(send=send, start_budgets=lambda memory: limits.append(memory >> 20), **run)
    connection._waited = defaultdict(kafka_connection._Waited)
    connection._bootstrap_servers, connection._secrets = "b:1", []
    for request in (ListGroupsRequest(), MetadataRequest(), ListPartitionReassignmentsRequest()):
        connection.send_all([(1, request)])
    assert limits == [256, 4_096, 256]
    connection.newest = lambda _: 0  # type: ignore[method-assign]
    reported: list[str] = []
    assert kafka_connection.reassignments(connection, reported.append) == {}
    assert reported == ["which partitions are being reassigned isn't known: KafkaProtocolError: too many"]
    missing = kafka_connection.missing_permission(connection)
    assert missing is not None
    assert missing.endswith("whether there are any isn't known: KafkaProtocolError: too many")
    assert standby_replicas(connection, ["g"], reported.append) == {}
    assert "streams groups have is not known: Kafka at b:1: DescribeConfigsRequest failed" in reported[-1]


def test_topics_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their partitions aren't known, except of a topic that doesn't exist. None is listed twice."""

    def metadata(*topics: tuple[str, int]) -> Any:
        listed = [SimpleNamespace(name=name, error_code=code, partitions=[]) for name, code in topics]
        return SimpleNamespace(cluster_id="c", brokers=[SimpleNamespace(node_id=1, rack=None)], topics=listed)

    assert kafka_connection.topic_errors(metadata(("a", 0), ("b", 3), ("c", 29), ("d", 5))) == {
        "c": "TopicAuthorizationFailedError",
        "d": "LeaderNotAvailableError",
    }
    connection = object.__new__(kafka_connection.ClusterConnection)
    connection._bootstrap_servers = "b:1"
    for codes in ((0, 0), (29, 0), (0, 29)):
        answer = metadata(*(("a", code) for code in codes))
        monkeypatch.setattr(kafka_connection.ClusterConnection, "send_any", lambda _, __, answer=answer: answer)
        with pytest.raises(SourceError, match="the metadata lists the topic 'a' twice"):
            connection.metadata(None)


def test_tagged_fields_of_a_later_kafka() -> None:
    """They are read where they are. The library copies the rest of a response for each struct that has one."""
    structs = 60_000
    topic = bytes.fromhex("0000 0274") + bytes(17) + bytes.fromhex("01 80000000 02 7f026162 7e00")
    response = bytes.fromhex("00000000 01 00 00000000") + bytes.fromhex("e1d403") + topic * structs + b"\0"
    started = time.process_time()
    decoded = MetadataResponse[12].decode(response)
    assert time.process_time() - started < 10  # 1 s on an idle machine, and 7 s with copies
    assert len(decoded.topics) == structs
    assert decoded.topics[-1].unknown_tags == {"_127": b"ab", "_126": b""}
    code = CodegenContext()
    MetadataResponse[12]._struct.emit_decode_from(code, "obj", "", version=12, compact=True, tagged=True)
    assert "_TaggedFields(data, pos)" in code.source()
    assert "bytes(data[pos:])" not in code.source()


def test_secrets_that_a_broker_repeats() -> None:
    """A broker knows the login: no text of it is stored with a secret, or without a limit."""
    connection = object.__new__(kafka_connection.ClusterConnection)
    connection._secrets = [Secret("hunter2")]
    assert connection.without_secrets("denied hunter2") == "denied [hidden]"
    assert connection.without_secrets("denied AHVzZXIAaHVudGVyMg==") == "denied [hidden]"  # as sent for PLAIN
    long = error_text(KafkaConnectionError("x" * 1_960 + " hunter2"))
    assert "hun" not in connection.without_secrets(long)
    reported: list[str] = []
    kafka._without_secrets(reported.append, connection)(f"{kafka_connection.NO_SIZES}: 1 (hunter2)")
    assert reported == [f"{kafka_connection.NO_SIZES}: 1 ([hidden])"]
    assert len(connection.without_secrets("x" * 100_000)) < 2_100


def test_what_the_client_logs_of_a_broker(caplog: pytest.LogCaptureFixture) -> None:
    """The client's warnings repeat a broker's error, also in a traceback."""
    logger, redacted = logging.getLogger("kafka.net.manager"), kafka_connection._Redacted([Secret("hunter2")])
    caplog.set_level(logging.DEBUG, logger="kafka.net.manager")
    logger.addFilter(redacted)
    try:
        raise KafkaConnectionError("denied hunter2")
    except KafkaConnectionError as error:
        logger.exception("Connection failed: %s", error)
    finally:
        logger.removeFilter(redacted)
    assert [record.getMessage() for record in caplog.records] == [
        "Connection failed: KafkaConnectionError: denied [hidden]"
    ]
    assert "hunter2" not in caplog.text
