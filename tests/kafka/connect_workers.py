"""A real Connect cluster on loopback: distributed workers, a JVM each, in one group on the test broker."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.kafka import maven
from tests.kafka.broker import Cluster, reserved_ports
from tests.kafka.live_groups import create_topics, wait_until_stable

TIMEOUT_S = 180
GROUP = "connect-live"
MAX_DELAY_MS = 4000
_JVM = ["-Xms32m", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xshare:auto"]
_STORES = ("config", "offset", "status")
_CONVERTER = "org.apache.kafka.connect.storage.StringConverter"

Placement = dict[tuple[str, int | None], str]
"""Connector and task (None: the connector itself) to the worker that runs it, by REST's `host:port`."""


@dataclass
class Worker:
    """One process."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def host_and_port(self) -> str:
        """What REST calls it."""
        return self.url.removeprefix("http://")


@dataclass
class ConnectCluster:
    """Workers of one group. `start` more, `stop` one; ask any of them."""

    broker: Cluster
    folder: Path
    group: str = GROUP
    release: str = maven.APPLICATIONS_VERSION
    max_delay_ms: int = MAX_DELAY_MS
    workers: list[Worker] = field(default_factory=list)
    ports: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    """Keeps the ports of all workers reserved."""

    def start(self, count: int = 1) -> list[Worker]:
        """Start workers at the same time; they answer when this returns."""
        fresh = [self._started(port) for port in self.ports.enter_context(reserved_ports(count))]
        self.workers += fresh
        for worker in fresh:
            self._wait(worker, lambda worker=worker: self.get("/", worker) is not None, "answers")
        return fresh

    def stop(self, worker: Worker) -> None:
        """SIGTERM: it leaves the group and gives up what it runs."""
        self.workers.remove(worker)
        worker.process.send_signal(signal.SIGTERM)
        worker.process.wait(TIMEOUT_S)

    def get(self, path: str, worker: Worker | None = None) -> Any:
        """The JSON that a worker answers; None where it does not (yet)."""
        return self._ask(path, worker, None)

    def create(self, name: str, config: Mapping[str, str]) -> None:
        """Create a connector; asked again while the cluster rebalances."""
        path = f"/connectors/{name}/config"
        self._wait(self.workers[0], lambda: self._ask(path, None, config) is not None, f"creates {name}")

    def placement(self) -> Placement:
        """What runs where, by the statuses; UNASSIGNED is nowhere."""
        return _placement(self._statuses())

    def _statuses(self) -> list[tuple[str, dict[str, Any]]]:
        """Returns the name of the connector and the status of each connector and task."""
        listing = {name: entry["status"] for name, entry in (self.get("/connectors?expand=status") or {}).items()}
        return [(name, each) for name, status in listing.items() for each in [status["connector"], *status["tasks"]]]

    def wait_until_running(self, items: int, quiet_s: float = 1.5) -> Placement:
        """Until so many connectors and tasks RUN on living workers and nothing has moved for a while."""
        alive = {worker.host_and_port for worker in self.workers}

        def look() -> tuple[object, Placement]:
            statuses = self._statuses()
            states, now = [status["state"] for _, status in statuses], _placement(statuses)
            settled = states == ["RUNNING"] * items and set(now.values()) <= alive
            return None if settled else (states, now, self._log_ends()), now

        return wait_until_stable(look, within_s=TIMEOUT_S, every_s=0.1, quiet_s=quiet_s)

    def _ask(self, path: str, worker: Worker | None, body: Mapping[str, str] | None) -> Any:
        url = f"{(worker or self.workers[0]).url}{path}"
        data = None if body is None else json.dumps(body).encode()
        method = "GET" if body is None else "PUT"
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=TIMEOUT_S) as answer:
                return json.load(answer)
        except (OSError, ValueError):  # not there yet, or in a rebalance (409)
            return None

    def _started(self, port: int) -> Worker:
        url = f"http://127.0.0.1:{port}"
        file = self.folder / f"worker-{port}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in self._properties(url).items()))
        log = file.with_suffix(".log")
        command = ["java", *_JVM, "-cp", maven.connect_workers_classpath(self.release)]
        command += ["org.apache.kafka.connect.cli.ConnectDistributed", str(file)]
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        return Worker(url, process, log)

    def _properties(self, url: str) -> dict[str, str]:
        return {
            **{f"{store}.storage.topic": f"{self.group}-{store}" for store in _STORES},
            **{f"{store}.storage.replication.factor": "1" for store in _STORES},
            **dict.fromkeys(("key.converter", "value.converter"), _CONVERTER),
            **dict.fromkeys(("offset.storage.partitions", "status.storage.partitions"), "1"),
            "bootstrap.servers": self.broker.bootstrap_servers,
            "group.id": self.group,
            "listeners": url,
            "scheduled.rebalance.max.delay.ms": str(self.max_delay_ms),
            "heartbeat.interval.ms": "500",
            # The connectors are on the class path; nothing has to be searched for.
            "plugin.discovery": "service_load",
        }

    def _wait(self, worker: Worker, done: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not done():
            assert worker.process.poll() is None, f"{worker.url} ended{self._log_ends()}"
            assert time.monotonic() < deadline, f"{what}: not within {TIMEOUT_S} s{self._log_ends()}"
            time.sleep(0.1)

    def _log_ends(self) -> str:
        logs = [worker.log for worker in self.workers]
        return "".join(f"\n--- {log.name}\n{log.read_text(errors='replace')[-1500:]}" for log in logs)


def _placement(statuses: Iterable[tuple[str, dict[str, Any]]]) -> Placement:
    return {(name, s.get("id")): s["worker_id"] for name, s in statuses if s["state"] != "UNASSIGNED"}


@contextlib.contextmanager
def running(
    broker: Cluster,
    folder: Path,
    workers: int,
    group: str = GROUP,
    release: str = maven.APPLICATIONS_VERSION,
    max_delay_ms: int = MAX_DELAY_MS,
) -> Iterator[ConnectCluster]:
    """A Connect cluster of a number of workers of a release while the block runs."""
    create_topics(broker, {f"{group}-{store}": 1 for store in _STORES}, {"cleanup.policy": "compact"})
    cluster = ConnectCluster(broker, folder, group, release, max_delay_ms)
    try:
        cluster.start(workers)
        yield cluster
    finally:
        # Nothing is kept, so there is nothing to shut down in order.
        for worker in cluster.workers:
            worker.process.kill()
        for worker in cluster.workers:
            worker.process.wait()
        cluster.ports.close()
