"""A real Kafka cluster on loopback ports for one test session: KRaft, one JVM a broker, gone afterwards."""

from __future__ import annotations

import base64
import contextlib
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError

from tests.kafka import maven

START_TIMEOUT_S = 240
_NEAR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""Consumers with a rack read from a replica there (KIP-392)."""
_JVM = ["-Xms64m", "-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]

# Errors; what the coordinator says about its groups: `Cluster.group_log` reads it; and heartbeats, when `heartbeats.py`
# turns them on.
_LOGGING = """
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{UNIX_MILLIS} %level %logger{1} %msg%n%throwable
rootLogger.level = error
rootLogger.appenderRef.out.ref = out
logger.groups.name = org.apache.kafka.coordinator.group.GroupMetadataManager
logger.groups.level = info
appender.beats.type = File
appender.beats.name = beats
appender.beats.layout.type = PatternLayout
appender.beats.layout.pattern = %d{UNIX_MILLIS} %msg%n
appender.beats.filter.beats.type = RegexFilter
appender.beats.filter.beats.regex = .*"requestApiKeyName":"(CONSUMER|SHARE|STREAMS)_GROUP_HEARTBEAT".*
logger.requests.name = kafka.request.logger
logger.requests.level = error
logger.requests.additivity = false
logger.requests.appenderRef.beats.ref = beats
"""


@dataclass(frozen=True)
class Cluster:
    """A running cluster: where to connect, and the class path that its brokers run with."""

    bootstrap_servers: str
    class_path: str
    folder: Path
    racks: tuple[str | None, ...]
    secure_servers: str | None = None
    """The same brokers behind TLS and SASL, where asked for."""
    mutual_servers: str | None = None
    """The same brokers behind TLS with certificates of the clients, where asked for."""

    def admin(self) -> KafkaAdminClient:
        """A fresh admin client; the caller closes it."""
        return KafkaAdminClient(bootstrap_servers=self.bootstrap_servers)

    def configure_group(self, group: str, configs: Mapping[str, str]) -> None:
        """Set configs of one group, such as `consumer.heartbeat.interval.ms` or `streams.num.standby.replicas`."""
        admin = self.admin()
        admin.alter_configs([ConfigResource(ConfigResourceType.GROUP, group, dict(configs))], raise_on_unknown=False)
        admin.close()

    def group_log(self) -> list[tuple[int, str]]:
        """What the coordinators have said about their groups so far: at (ms since 1970) and text, in order of time."""
        logs = [file.read_text(errors="replace") for file in self.folder.glob("broker-*.log")]
        lines = [
            line.split(" ", 3) for log in logs for line in log.splitlines() if " INFO GroupMetadataManager " in line
        ]
        return sorted((int(at), said) for at, _, _, said in lines)


@contextlib.contextmanager
def cluster(
    class_path: str,
    racks: tuple[str | None, ...] = (None,),
    secure: Mapping[str, str] | None = None,
    mutual: bool = False,
    jvm: Sequence[str] = (),
) -> Iterator[Cluster]:
    """One broker for each entry of `racks` (its `broker.rack`); broker 1 is the controller as well.

    `secure` are the properties of a second listener of every broker, SECURE, with TLS and SASL, and with `mutual` of a
    third one, MUTUAL, with TLS alone. `jvm` are options of the brokers' JVMs. Raises RuntimeError with the end of the
    log of the broker that did not come up.
    """
    names = ["PLAINTEXT", *(["SECURE"] if secure else []), *(["MUTUAL"] if mutual else [])]
    controller, *ports = free_ports(1 + len(names) * len(racks))
    at = {name: ports[each * len(racks) : (each + 1) * len(racks)] for each, name in enumerate(names)}
    servers = {name: ",".join(f"127.0.0.1:{port}" for port in of_name) for name, of_name in at.items()}
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")
    with tempfile.TemporaryDirectory(prefix="spark-assign-kafka-") as scratch:
        folder = Path(scratch)
        files = []
        for number, rack in enumerate(racks, start=1):
            listeners = {name: of_name[number - 1] for name, of_name in at.items()}
            properties = _properties(folder, number, rack, listeners, controller, len(racks)) | dict(secure or {})
            file = folder / f"broker-{number}.properties"
            file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
            files.append(file)
        _format(class_path, cluster_id, files)
        with contextlib.ExitStack() as running:
            processes = [running.enter_context(_broker(class_path, file, jvm)) for file in files]
            started = Cluster(
                servers["PLAINTEXT"],
                class_path,
                folder,
                tuple(racks),
                servers.get("SECURE"),
                servers.get("MUTUAL"),
            )
            _wait_until_ready(started, processes)
            yield started


def free_ports(count: int) -> list[int]:
    """Loopback ports that nobody listens on now."""
    with contextlib.ExitStack() as open_sockets:
        sockets = [open_sockets.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _properties(
    folder: Path, number: int, rack: str | None, ports: Mapping[str, int], controller: int, brokers: int
) -> dict[str, str]:
    listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    properties = {
        "node.id": str(number),
        "process.roles": "broker,controller" if number == 1 else "broker",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL,MUTUAL:SSL",
        "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}" if number == 1 else listeners,
        "advertised.listeners": listeners,
        "log.dirs": str(folder / f"log-{number}"),
        "auto.create.topics.enable": "false",
        # Few and small internal topics: the coordinator is ready in a second instead of ten.
        "offsets.topic.num.partitions": str(max(4, brokers)),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        # The defaults are Kafka's; by `Cluster.configure_group` a group may have shorter ones.
        **{
            f"group.{kind}.min.{name}": shortest
            for kind in ("consumer", "share", "streams")
            for name, shortest in (("heartbeat.interval.ms", "100"), ("session.timeout.ms", "2000"))
        },
        # Members that start together are in one first rebalance.
        "group.initial.rebalance.delay.ms": "1000",
    }
    if rack:
        properties |= {"broker.rack": rack, "replica.selector.class": _NEAR}
    return properties


def _format(class_path: str, cluster_id: str, files: list[Path]) -> None:
    command = ["java", *_JVM, "-cp", class_path, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c"]
    tools = [
        subprocess.Popen([*command, str(file)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for file in files
    ]
    for tool in tools:
        said, _ = tool.communicate()
        if tool.returncode != 0:
            raise RuntimeError(f"kafka.tools.StorageTool format failed:\n{said[-2000:]}")


@contextlib.contextmanager
def _broker(class_path: str, properties: Path, jvm: Sequence[str] = ()) -> Iterator[subprocess.Popen[bytes]]:
    logging = properties.with_suffix(".log4j2.properties")
    logging.write_text(f"{_LOGGING}appender.beats.fileName = {properties.with_suffix('.heartbeats')}\n")
    command = ["java", *_JVM, *jvm, f"-Dlog4j2.configurationFile={logging}"]
    command += ["-cp", f"{class_path}:{maven.logging_classpath()}", "kafka.Kafka", str(properties)]
    with properties.with_suffix(".log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        # Nothing on disk is kept, so there is nothing to shut down in order.
        process.kill()
        process.wait()


def _wait_until_ready(started: Cluster, processes: list[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        for number, process in enumerate(processes, start=1):
            if process.poll() is not None:
                raise RuntimeError(f"broker {number} ended:\n{_log_end(started, number)}")
        with contextlib.suppress(KafkaError, OSError):
            client = KafkaAdminClient(bootstrap_servers=started.bootstrap_servers, bootstrap_timeout_ms=2000)
            try:
                if len(client.describe_cluster()["brokers"]) == len(processes):
                    # The first question about a group makes the offsets topic; wait for its coordinators as
                    # well.
                    client.list_group_offsets([f"warm-up-{number}" for number in range(20)])
                    return
            finally:
                client.close()
        time.sleep(0.3)
    raise RuntimeError(f"brokers not ready after {START_TIMEOUT_S} s:\n{_log_end(started, 1)}")


def _log_end(started: Cluster, number: int) -> str:
    return (started.folder / f"broker-{number}.log").read_text(errors="replace")[-2000:]
