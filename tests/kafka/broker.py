"""A real Kafka cluster on loopback ports for one test session: KRaft, one JVM a broker, gone afterwards."""

from __future__ import annotations

import base64
import contextlib
import functools
import random
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
_PORTS = (10_000, 30_000)
"""Below the ports for outgoing connections: from 32768 on Linux, from 49152 on macOS."""
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


LogPosition = Mapping[Path, int]
"""How many bytes of each broker's log have been read."""


class Broker:
    """A broker's process, which can be started again with the same logs."""

    def __init__(self, class_path: str, properties: Path, jvm: Sequence[str] = ()) -> None:
        logging = properties.with_suffix(".log4j2.properties")
        logging.write_text(f"{_LOGGING}appender.beats.fileName = {properties.with_suffix('.heartbeats')}\n")
        self._command = ["java", *_JVM, *jvm, f"-Dlog4j2.configurationFile={logging}"]
        self._command += ["-cp", f"{class_path}:{maven.logging_classpath()}", "kafka.Kafka", str(properties)]
        self._log = properties.with_suffix(".log")
        self.start()

    def start(self) -> None:
        """Starts the process."""
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=subprocess.STDOUT)

    def __getstate__(self) -> dict[str, object]:
        """Returns what a story in another process gets: not the process itself."""
        return {**vars(self), "process": None}

    def stop(self) -> None:
        """Kills the process."""
        self.process.kill()
        self.process.wait()

    def shut_down(self) -> None:
        """Ends the process as an administrator does: its leaders move before."""
        self.process.terminate()
        self.process.wait()


@dataclass(frozen=True)
class Cluster:
    """A running cluster: where to connect, and the class path that its brokers run with."""

    bootstrap_servers: str
    class_path: str
    folder: Path
    racks: tuple[str | None, ...]
    secure_servers: str = ""
    """The same brokers behind TLS and SASL, if they listen there."""
    mutual_servers: str = ""
    """The same brokers behind TLS with certificates of the clients, if they listen there."""
    processes: tuple[Broker, ...] = ()
    """Its brokers, by number."""

    def admin(self) -> KafkaAdminClient:
        """A fresh admin client; the caller closes it."""
        return KafkaAdminClient(bootstrap_servers=self.bootstrap_servers)

    def configure_group(self, group: str, configs: Mapping[str, str]) -> None:
        """Set configs of one group, such as `consumer.heartbeat.interval.ms` or `streams.num.standby.replicas`."""
        resource = ConfigResource(ConfigResourceType.GROUP, group, dict(configs))
        with self.admin() as admin:
            admin.alter_configs([resource], raise_on_unknown=False)

    def log_position(self) -> LogPosition:
        """Returns where the brokers' logs end now."""
        return {file: file.stat().st_size for file in self.folder.glob("broker-*.log")}

    def group_log(self, after: LogPosition | None = None) -> list[tuple[int, str]]:
        """Returns what the coordinators logged about their groups after a position: time (ms since 1970) and text.

        Sorted by time. A line that is still being written is left out.
        """
        lines = [
            line.split(" ", 3)
            for file in self.folder.glob("broker-*.log")
            for line in _lines(file, (after or {}).get(file, 0))
            if " INFO GroupMetadataManager " in line
        ]
        return sorted((int(at), text) for at, _, _, text in lines)


def _lines(file: Path, position: int) -> list[str]:
    """Returns the complete lines of a file from a position on."""
    with file.open("rb") as log:
        log.seek(position)
        text = log.read()
    return text[: text.rfind(b"\n") + 1].decode(errors="replace").splitlines()


@contextlib.contextmanager
def cluster(
    class_path: str,
    racks: tuple[str | None, ...] = (None,),
    secure: Mapping[str, str] | None = None,
    mutual: bool = False,
    jvm: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    log_dirs: int = 1,
) -> Iterator[Cluster]:
    """One broker for each entry of `racks` (its `broker.rack`); broker 1 is the controller as well.

    `secure` are the properties of a second listener of every broker, SECURE, with TLS and SASL, and with `mutual` of a
    third one, MUTUAL, with TLS alone. `jvm` are options of the brokers' JVMs, `properties` more of every broker, and
    `log_dirs` the number of their log directories.
    Raises RuntimeError with the end of the log of the broker that did not come up.
    """
    names = ["PLAINTEXT", *(["SECURE"] if secure else []), *(["MUTUAL"] if mutual else [])]
    with (
        reserved_ports(1 + len(names) * len(racks)) as (controller, *ports),
        tempfile.TemporaryDirectory(prefix="spark-assign-kafka-") as scratch,
        contextlib.ExitStack() as running,
    ):
        at = {name: ports[each * len(racks) : (each + 1) * len(racks)] for each, name in enumerate(names)}
        servers = {name: ",".join(f"127.0.0.1:{port}" for port in of_name) for name, of_name in at.items()}
        cluster_id, folder = _uuid(), Path(scratch)
        processes = []
        for number, rack in enumerate(racks, start=1):
            listeners = {name: of_name[number - 1] for name, of_name in at.items()}
            settings = _properties(folder, number, rack, listeners, controller, len(racks))
            folders = [Path(settings["log.dirs"]), *(folder / f"disk-{number}-{at}" for at in range(1, log_dirs))]
            settings |= {**(secure or {}), **(properties or {}), "log.dirs": ",".join(map(str, folders))}
            file = folder / f"broker-{number}.properties"
            file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
            for each in folders:
                _format(class_path, cluster_id, number, each, holds_metadata=number == 1 and each == folders[0])
            processes.append(Broker(class_path, file, jvm))
            running.callback(processes[-1].stop)  # nothing on disk is kept, so nothing is shut down in order
        others = [servers.get(name, "") for name in ("SECURE", "MUTUAL")]
        started = Cluster(servers["PLAINTEXT"], class_path, folder, tuple(racks), *others, tuple(processes))
        wait_until_ready(started)
        yield started


@contextlib.contextmanager
def reserved_ports(count: int) -> Iterator[list[int]]:
    """Yields loopback ports that no other run of these tests uses while the block runs.

    They lie below the ports that the system gives to outgoing connections, so that no client takes one before its
    server does. A UDP socket on the same number is the lock: the system releases it when the process ends.
    """
    with contextlib.ExitStack() as locks:
        found: list[int] = []
        while len(found) < count:
            port = random.SystemRandom().randrange(*_PORTS)
            lock = locks.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            with contextlib.suppress(OSError), socket.socket() as probe:
                lock.bind(("127.0.0.1", port))
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
                found.append(port)
        yield found


def _uuid() -> str:
    """Returns a random id as Kafka writes them; none begins with a dash."""
    return "A" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]


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
        # Otherwise the controller writes a record every 500 ms, and a third of an idle broker's time is for it.
        "metadata.max.idle.interval.ms": "0",
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


def _format(class_path: str, cluster_id: str, number: int, log_dir: Path, *, holds_metadata: bool) -> None:
    """Formats a log directory as `kafka-storage.sh format` does, but starts its JVM only once."""
    log_dir.mkdir()
    ids = f"version=1\ncluster.id={cluster_id}\nnode.id={number}\ndirectory.id={_uuid()}\n"
    (log_dir / "meta.properties").write_text(ids)
    if holds_metadata:
        for name, content in _controller_files(class_path).items():
            (log_dir / name).parent.mkdir(exist_ok=True)
            (log_dir / name).write_bytes(content)


@functools.cache
def _controller_files(class_path: str) -> dict[str, bytes]:
    """Returns what the storage tool writes for a controller beside its ids: the first snapshot of the metadata."""
    with tempfile.TemporaryDirectory(prefix="spark-assign-format-") as scratch:
        folder = Path(scratch)
        properties = _properties(folder, 1, None, {"PLAINTEXT": 1}, 2, 1)
        file, log_dir = folder / "format.properties", Path(properties["log.dirs"])
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        command = ["java", *_JVM, "-cp", class_path, "kafka.tools.StorageTool", "format"]
        command += ["-t", _uuid(), "-c", str(file)]
        tool = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if tool.returncode != 0:
            raise RuntimeError(f"kafka.tools.StorageTool format failed:\n{tool.stdout[-2000:]}")
        written = [each for each in log_dir.rglob("*") if each.is_file() and each.name != "meta.properties"]
        return {str(each.relative_to(log_dir)): each.read_bytes() for each in written}


def wait_until_ready(started: Cluster) -> None:
    """Waits until all brokers are up, and their coordinators. Raises RuntimeError if one ends."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        for number, broker in enumerate(started.processes, start=1):
            if broker.process.poll() is not None:
                raise RuntimeError(f"broker {number} ended:\n{_log_end(started, number)}")
        with (
            contextlib.suppress(KafkaError, OSError),
            KafkaAdminClient(bootstrap_servers=started.bootstrap_servers, bootstrap_timeout_ms=2000) as client,
        ):
            if len(client.describe_cluster()["brokers"]) == len(started.processes):
                # The first request for a group makes the offsets topic; wait for its coordinators as well.
                client.list_group_offsets([f"warm-up-{number}" for number in range(20)])
                return
        time.sleep(0.3)
    raise RuntimeError(f"brokers not ready after {START_TIMEOUT_S} s:\n{_log_end(started, 1)}")


def _log_end(started: Cluster, number: int) -> str:
    return (started.folder / f"broker-{number}.log").read_text(errors="replace")[-2000:]
