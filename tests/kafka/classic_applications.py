"""Live Streams applications on the classic protocol that scale out and in, restart, and lose a host.

A story has three instances, of which the last one is in a JVM of its own. It needs no certain number of rebalances per
step, because each generation is read from `__consumer_offsets` afterward.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kafka import KafkaProducer

from spark_assign.assignors.streams.classic_application import ClassicApplication, ClassicConfig, ClassicSubtopology
from tests.kafka import streams_members
from tests.kafka.broker import Cluster
from tests.kafka.classic_generations import Generation, read_generations
from tests.kafka.live_groups import Row, Tables, create_topics, events, read, wait_until_stable
from tests.kafka.streams_members import Instance

SETTLE_TIMEOUT_S = 300
PROBING_INTERVAL_MS = 60_000
"""The shortest that Kafka Streams accepts."""
NO_WARMUPS = 1_000_000_000
"""An acceptable lag with which every instance is caught up, so that tasks move at once."""

Threads = dict[str, tuple[list[str], list[str]]]
"""Active tasks and standbys of each thread, by its name."""


@dataclass(frozen=True)
class Specs:
    """An application.

    Attributes:
        application_id, version: Its ID, and the release of Kafka Streams; None for the newest one.
        acceptable_lag: `acceptable.recovery.lag`.
        restore_ms_per_record: Pause per restored record.
        session_timeout_ms: After this time, the group notices that an instance has left.
        standbys: `num.standby.replicas`.
        stateless, stateful: Number of tasks without state, and with.
        records, record_bytes: Number of records, and size of their keys.
        threads: Threads of each instance.
        is_static: Whether instances have an instance ID.
    """

    application_id: str
    version: str | None
    acceptable_lag: int
    restore_ms_per_record: int
    session_timeout_ms: int
    standbys: int = 1
    stateless: int = 6
    stateful: int = 5
    records: int = 2_000
    record_bytes: int = 8
    threads: tuple[int, ...] = (1, 2, 1)
    is_static: bool = False

    @property
    def settings(self) -> dict[str, str]:
        """Settings that change assignments."""
        return {
            "num.standby.replicas": str(self.standbys),
            "acceptable.recovery.lag": str(self.acceptable_lag),
            "probing.rebalance.interval.ms": str(PROBING_INTERVAL_MS),
        }

    @property
    def topics(self) -> dict[str, int]:
        """Source topics and their number of partitions."""
        return {f"{self.application_id}.clicks": self.stateless, f"{self.application_id}.orders": self.stateful}

    def instance(self, number: int, folder: Path) -> Instance:
        """Returns an instance."""
        clicks, orders = self.topics
        return Instance(
            self.application_id,
            f"{self.application_id}-{number}",
            str(folder / f"{self.application_id}-{number}"),
            (clicks,),
            (orders,),
            threads=self.threads[number],
            instance_id=f"{self.application_id}-{number}" if self.is_static else None,
            protocol="classic",
            session_timeout_ms=self.session_timeout_ms,
            settings={
                **self.settings,
                "heartbeat.interval.ms": "500",
                "producer.batch.size": "500000",
                "restore.consumer.max.poll.records": "10",
            },
            restore_ms_per_record=self.restore_ms_per_record,
        )

    def application(self, generation: Generation, end_offsets: Sequence[int]) -> ClassicApplication:
        """Returns what the leader of a generation planned, without use of a snapshot."""
        clicks, orders = self.topics
        changelog = f"{self.application_id}-counts-changelog"
        return generation.application(
            ClassicConfig(
                self.acceptable_lag, num_standby_replicas=self.standbys, probing_rebalance_interval_ms=60_000
            ),
            self.topics,
            [ClassicSubtopology([clicks]), ClassicSubtopology([orders], [changelog], has_store=True)],
            {changelog: end_offsets},
        )


@dataclass(frozen=True)
class Step:
    """A change of the instances.

    Attributes:
        name: What happens.
        before, after: Snapshots.
        threads: What the threads report afterward.
        first, last: Range of its generations, first excluded.
        restarted: Client ID of an instance that returns, with the rows of `tasks` that are on its disk.
    """

    name: str
    before: Tables
    after: Tables
    threads: Threads
    first: int
    last: int
    restarted: tuple[str, list[Row]] | None = None


@dataclass(frozen=True)
class Story:
    """What happened to an application.

    Attributes:
        specs: The application.
        steps: Changes of its instances.
        generations: All generations.
        filled: Number of the generation in which records were written; changelogs are empty before.
        end_offsets: End offsets of the changelog, by partition.
    """

    specs: Specs
    steps: list[Step]
    generations: list[Generation]
    filled: int
    end_offsets: list[int]


@dataclass
class LiveApplication:
    """An application, its JVMs, and what happened so far."""

    specs: Specs
    instances: list[Instance]
    files: list[Path]
    processes: list[subprocess.Popen[str]]
    living: set[int]
    snapshots: list[Tables]
    steps: list[Step]
    last: list[int]
    num_written: int = 0


def play(cluster: Cluster, folder: Path, applications: Sequence[Specs], *, until_final: bool) -> list[Story]:
    """Plays a story for each application, all at the same time.

    Args:
        cluster, folder: brokers, and a folder for the state.
        applications: the applications.
        until_final: whether each step waits until every task is at its final owner. Otherwise, it waits only if
            nothing has to be restored for that.
    """
    with contextlib.ExitStack() as stack:
        live = [start(cluster, folder, specs, stack) for specs in applications]
        for each in live:
            settle(cluster, each, is_final=True)
            fill(cluster, each)
        for each in live:
            each.snapshots = [settle(cluster, each, is_final=True)]
            each.last = [_generation(cluster, each)]
        change = partial(_change, cluster, live, until_final=until_final)
        change("scale-out", start=2)
        change("scale-in", leave=0)
        change("restart", start=0)
        for each in live:
            each.processes[1].kill()
        change("host-loss", leave=2)
        return [_story(cluster, each) for each in live]


def start(
    cluster: Cluster, folder: Path, specs: Specs, stack: contextlib.ExitStack, running: int = 2
) -> LiveApplication:
    """Starts the first `running` instances in one JVM, and another JVM without any."""
    create_topics(cluster, specs.topics)
    instances = [specs.instance(number, folder) for number in range(len(specs.threads))]
    files = [folder / f"{specs.application_id}-events-{number}" for number in range(2)]
    processes = [
        stack.enter_context(streams_members.running(cluster, each, file, specs.version))
        for each, file in zip((instances[:running], []), files, strict=True)
    ]
    return LiveApplication(specs, instances, files, processes, set(range(running)), [], [], [])


def fill(cluster: Cluster, live: LiveApplication) -> None:
    """Writes the records, each with another key."""
    specs = live.specs
    live.num_written = specs.records
    with contextlib.closing(KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, batch_size=500_000)) as producer:
        for number in range(specs.records):
            key = str(number).rjust(specs.record_bytes).encode()
            producer.send(f"{specs.application_id}.orders", b"x", key=key, partition=number % specs.stateful)
        producer.flush()


def _change(
    cluster: Cluster,
    live: Sequence[LiveApplication],
    name: str,
    start: int | None = None,
    leave: int | None = None,
    *,
    until_final: bool,
) -> None:
    """Starts or stops this instance of each application, and waits until the group is at rest."""
    for each in live:
        if start is not None:
            each.living.add(start)
            streams_members.start(each.processes[start == 2], each.instances[start : start + 1])
        if leave is not None:
            each.living.remove(leave)
            if leave != 2:
                streams_members.leave(each.processes[0], each.instances[leave : leave + 1])
    for each in live:
        before = each.snapshots[-1]
        after = settle(cluster, each, is_final=until_final or each.specs.acceptable_lag == NO_WARMUPS)
        restarted = None
        if start == 0:
            client = each.instances[start].client_id
            restarted = client, [row for row in _threads_rows(each.snapshots[-2], client) if row["subtopology"] == "1"]
        each.snapshots.append(after)
        each.last.append(_generation(cluster, each))
        each.steps.append(Step(name, before, after, reported_threads(each), *each.last[-2:], restarted))


def _threads_rows(tables: Tables, client_id: str) -> list[Row]:
    """Returns the assigned tasks of an instance."""
    ids = {row["member_id"] for row in tables["members"] if row["client_id"].startswith(f"{client_id}-")}
    return [row for row in tables["tasks"] if row["member_id"] in ids and row["role"] is not None]


def settle(cluster: Cluster, live: LiveApplication, *, is_final: bool) -> Tables:
    """Returns a snapshot of the application at rest: the threads run what the leader assigned, and that is all tasks.

    Args:
        cluster, live: the application.
        is_final: whether all state must be restored, with no probing rebalance to come.
    """

    def look() -> tuple[object, Tables]:
        tables = read(cluster, [live.specs.application_id])
        (group,) = tables["groups"] or [{"state": "missing", "leader_process_id": None}]
        processes = len({row["process_id"] for row in tables["members"]})
        lag = sum(row["lag"] or 0 for row in tables["offsets"])
        assigned, reported = assigned_threads(tables), reported_threads(live)
        is_running = all(row["state"] == "RUNNING" and (row["caught_up"] or not is_final) for row in _last(live))
        num_active = sum(len(active) for active, _ in assigned.values())
        is_probing = is_final and group["leader_process_id"] is not None
        is_filled = sum(row["end_offset"] or 0 for row in tables.get("changelogs", ())) >= live.num_written
        settled = group["state"] == "Stable" and processes == len(live.living) and not lag and is_running and is_filled
        settled = settled and not is_probing and assigned == reported and num_active == sum(live.specs.topics.values())
        missing = None if settled else (group["state"], processes, lag, is_running, is_probing, assigned, reported)
        return missing, tables

    def state(tables: Tables) -> object:
        return sorted(map(str, tables["members"])), sorted(map(str, tables["tasks"]))

    return wait_until_stable(look, state, within_s=SETTLE_TIMEOUT_S, every_s=0.5, quiet_s=1.0)


def _generation(cluster: Cluster, live: LiveApplication) -> int:
    return read_generations(cluster, live.specs.application_id)[-1].number


def assigned_threads(tables: Tables) -> Threads:
    """Returns the tasks of each thread, as the snapshot read them from the leader's assignment."""
    names = {row["member_id"]: row["client_id"].removesuffix("-consumer") for row in tables["members"]}
    found: Threads = {name: ([], []) for name in names.values()}
    for row in sorted(tables["tasks"], key=lambda row: (row["subtopology"], row["task"])):
        if row["role"] is not None:
            found[names[row["member_id"]]][row["role"] == "standby"].append(f"{row['subtopology']}_{row['task']}")
    return found


def _last(live: LiveApplication) -> list[Row]:
    """Returns the last report of each running instance."""
    names = {live.instances[number].client_id for number in live.living}
    last = {row["client_id"]: row for row in events(live.files) if row["event"] == "tasks"}
    return [last.get(name, {"state": "missing", "threads": {}}) for name in sorted(names)]


def reported_threads(live: LiveApplication) -> Threads:
    return {name: (of[0], of[1]) for row in _last(live) for name, of in row["threads"].items()}


def _story(cluster: Cluster, live: LiveApplication) -> Story:
    rows: Mapping[int, int] = {row["partition"]: row["end_offset"] for row in live.snapshots[0]["changelogs"]}
    ends = [rows[number] for number in range(live.specs.stateful)]
    return Story(live.specs, live.steps, read_generations(cluster, live.specs.application_id), live.last[0], ends)
