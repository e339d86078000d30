"""Plays a story with real members of all groups at once, and keeps what listeners, Streams and Connect report.

A step ends when all partitions and tasks of every group are owned, and nothing has been reported or logged for a while.
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from kafka import KafkaProducer

from tests.kafka import connect_workers, group_members, history_story, history_truth, streams_members
from tests.kafka.broker import Cluster
from tests.kafka.consumer_groups import create_topics_apart
from tests.kafka.coordinator_log import HeldUpError, about, expirations
from tests.kafka.group_members import Consumer
from tests.kafka.live_groups import events, wait_until
from tests.kafka.streams_members import Instance


def now_ms() -> int:
    """As listeners count."""
    return int(time.time() * 1000)


class Stage:
    """Where the story is played: processes, and what is known of them so far."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.folder, self.story = cluster, folder, history_story.Story()
        self.living: Any = None
        self.doomed: Any = None
        self.streams: Any = None
        self.doomed_streams: Any = None
        self.connect: Any = None

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        """All processes are there while the block runs."""
        with contextlib.ExitStack() as stack:
            self.connect = stack.enter_context(
                connect_workers.running(self.cluster, self.folder, 2, history_story.CONNECT)
            )
            for name, program in (("living", group_members), ("doomed", group_members), ("streams", streams_members)):
                setattr(self, name, stack.enter_context(program.running(self.cluster, [], self.folder / name)))
            file = self.folder / "doomed_streams"
            self.doomed_streams = stack.enter_context(streams_members.running(self.cluster, [], file))
            yield

    # --- what is done ---------------------------------------------------------------------------------

    def start(self, consumers: Iterable[Consumer], process: subprocess.Popen[str] | None = None) -> None:
        """Members come, or come back."""
        consumers = list(consumers)
        self._come((each.group, each.client_id) for each in consumers)
        group_members.start(process or self.living, consumers)

    def start_streams(self, instances: Iterable[Instance], process: subprocess.Popen[str] | None = None) -> None:
        """Instances of Streams come, or come back."""
        instances = list(instances)
        self._come((each.application_id, each.client_id) for each in instances)
        streams_members.start(process or self.streams, instances)

    def leave(self, consumers: Iterable[Consumer]) -> None:
        """Members close."""
        consumers = list(consumers)
        self._go({(each.group, each.client_id) for each in consumers}, history_story.LEFT)
        group_members.leave(self.living, consumers)
        wait_until(lambda: all(map(self._closed, consumers)), "members that leave", history_story.PATIENCE_S)

    def leave_streams(self, instance: Instance) -> None:
        """An instance closes: of a streams group it leaves (of a classic one it would not)."""
        self._go({(instance.application_id, instance.client_id)}, history_story.LEFT)
        streams_members.leave(self.streams, [instance])

    def kill(self, consumers: Iterable[Consumer], instances: Iterable[Instance]) -> None:
        """Everybody in the doomed processes, and these are they."""
        for process in (self.doomed, self.doomed_streams):
            process.kill()
            process.wait()
        keys = {(each.group, each.client_id) for each in consumers}
        self._go(keys | {(each.application_id, each.client_id) for each in instances}, history_story.CRASHED)

    def start_workers(self, count: int) -> None:
        """Workers of Connect come; those that run already are noted, too."""
        if count:
            self.connect.start(count)
        known = {(each.group, each.client) for each in self.story.stays}
        self._come(
            (history_story.CONNECT, worker.host_and_port)
            for worker in self.connect.workers
            if (history_story.CONNECT, worker.host_and_port) not in known
        )

    def stop_worker(self, *, kill: bool) -> None:
        """The oldest worker of Connect leaves, or is killed."""
        worker = self.connect.workers[0]
        self._go({(history_story.CONNECT, worker.host_and_port)}, history_story.CRASHED if kill else history_story.LEFT)
        if kill:
            self.connect.workers.remove(worker)
            worker.process.kill()
            worker.process.wait()
        else:
            self.connect.stop(worker)

    def _come(self, keys: Iterable[tuple[str, str]]) -> None:
        first = not self.story.settled
        for group, client in keys:
            before = [each for each in self.story.stays if (each.group, each.client) == (group, client)]
            if before and before[-1].went == history_story.LEFT:
                before[-1].went = history_story.RESTARTED
            came = history_story.RESTARTED if before else history_story.FIRST if first else history_story.JOINED
            self.story.stays.append(history_story.Stay(group, client, came, now_ms()))

    def _go(self, keys: set[tuple[str, str]], went: str) -> None:
        for stay in self.story.stays:
            if (stay.group, stay.client) in keys and stay.end_ms is None:
                stay.went, stay.end_ms = went, now_ms()

    def _closed(self, consumer: Consumer) -> bool:
        """Whether the last that is told of a member is that it closed."""
        return [
            row["event"]
            for row in events([self.folder / "living"])
            if (row["group"], row["client_id"]) == (consumer.group, consumer.client_id)
        ][-1:] == ["closed"]

    # --- what is waited for ---------------------------------------------------------------------------

    def settle(self) -> None:
        """Until everything is owned by one who is there, and nobody has said anything for a while."""
        items = 2 * len(history_story.CONNECTORS)
        before, running = self.connect.wait_until_running(items), now_ms()
        wait_until(lambda: self._missing() is None, self._missing, history_story.PATIENCE_S)
        placement, since = self.connect.wait_until_running(items, quiet_s=0), now_ms()
        had: dict[str, set[history_story.Item]] = {}
        for (connector, task), worker in placement.items():
            item = ("connector", connector, 0) if task is None else ("task", connector, task)
            had.setdefault(worker, set()).add(item)
        whole = {worker: frozenset(items) for worker, items in had.items()}
        self.story.placements.append((running if placement == before else since, since, whole))
        self.story.settled.append((since - history_story.QUIET_MS, since))

    def go_on(self) -> None:
        """Nothing happened since the groups had settled, up to now."""
        self.story.settled[-1] = (self.story.settled[-1][0], now_ms())
        since, _, had = self.story.placements[-1]
        self.story.placements[-1] = (since, now_ms(), had)

    def _missing(self) -> str | None:
        self.look()
        self.check_sessions()
        last = max(
            [row["at_ms"] for row in (*self.story.listener_rows, *self.story.tasks)] + [at for at, _ in self.story.log],
            default=0,
        )
        if now_ms() - last < history_story.QUIET_MS:
            return "silence"
        for group in self.story.groups:
            if group != history_story.CONNECT and (why := history_truth.unsettled(self.story, group)):
                return f"{group}: {why}"
        return None

    def check_sessions(self) -> None:
        """Raises HeldUpError if more members of a group than were killed have lost their sessions."""
        for group in self.story.groups:
            killed = sum(stay.group == group and stay.went == history_story.CRASHED for stay in self.story.stays)
            if expirations(group, self.story.log) > killed:
                raise HeldUpError

    # --- what is told ---------------------------------------------------------------------------------

    def look(self) -> None:
        """All that is told by now."""
        self.story.listener_rows = events(self.folder / name for name in ("living", "doomed"))
        self.story.tasks = events(self.folder / name for name in ("streams", "doomed_streams"))
        everything = self.cluster.group_log()
        self.story.log = sorted({line for group in self.story.groups for line in about(group, everything)})


def _instances(folder: Path, number: int) -> list[Instance]:
    """Returns one instance of each application."""
    a, b = ((topic,) for topic in history_story.TOPICS)
    name = f"i{number}"
    return [
        Instance(history_story.STREAMS, name, str(folder / f"state-{name}"), a, b),
        Instance(
            history_story.CLASSIC_STREAMS,
            name,
            str(folder / f"state-classic-{name}"),
            (*a, *b),
            protocol="classic",
            session_timeout_ms=history_story.SESSION_TIMEOUT_MS,
        ),
    ]


@contextlib.contextmanager
def played(cluster: Cluster, folder: Path) -> Iterator[history_story.Story]:
    """Plays the story; the members that are left at its end stay while the block runs.

    Raises:
        HeldUpError: the machine was too busy.
    """
    # Otherwise the broker's assignors would take topics in an order that no record tells.
    create_topics_apart(cluster, history_story.TOPICS, f"{min(history_story.TOPICS)[:2]}.*")
    _fill(cluster)
    of_consumers = [members[0].group for members in history_story.DYNAMIC if members[0].protocol == "consumer"]
    for group, kind in [*((each, "consumer") for each in of_consumers), (history_story.STREAMS, "streams")]:
        cluster.configure_group(group, {f"{kind}.heartbeat.interval.ms": "1000"})
    stage = Stage(cluster, folder)
    streams = [_instances(folder, number) for number in range(3)]
    with stage.open():
        stage.start_workers(0)
        for name in history_story.CONNECTORS:
            none = {"file": str(folder / "none"), "topic": "hl.a", "name": name}
            stage.connect.create(
                name, none | {"connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector"}
            )
        stage.start(each for members in history_story.DYNAMIC for each in members[:2])
        stage.start([*history_story.STATICS[:2], *history_story.STOPPING])
        stage.start([*(members[2] for members in history_story.DYNAMIC), history_story.STATICS[2]], stage.doomed)
        stage.start_streams(streams[0])
        stage.start_streams(streams[1], stage.doomed_streams)
        stage.settle()
        stage.go_on()

        stage.start(members[3] for members in history_story.DYNAMIC)
        stage.start_streams(streams[2])
        stage.start_workers(1)
        stage.settle()
        stage.go_on()

        stage.leave([*(members[1] for members in history_story.DYNAMIC), history_story.STATICS[1]])
        stage.start([history_story.STATICS[1]])
        stage.stop_worker(kill=False)
        stage.settle()
        stage.go_on()

        stage.kill([*(members[2] for members in history_story.DYNAMIC), history_story.STATICS[2]], streams[1])
        stage.leave(history_story.STOPPING)
        stage.stop_worker(kill=True)
        stage.settle()
        stage.go_on()

        stage.start([*(members[1] for members in history_story.DYNAMIC), *history_story.STOPPING])
        stage.start([*(members[2] for members in history_story.DYNAMIC[::2]), history_story.STATICS[2]])
        stage.start_streams(streams[1])
        stage.settle()
        stage.go_on()

        stage.leave(members[3] for members in history_story.DYNAMIC)
        stage.leave_streams(streams[2][0])
        stage.settle()
        stage.go_on()
        stage.look()
        stage.check_sessions()
        yield stage.story


def _fill(cluster: Cluster) -> None:
    with contextlib.closing(KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)) as producer:
        for topic, count in history_story.TOPICS.items():
            for number in range(count * history_story.SENT):
                producer.send(topic, b"x", key=b"x", partition=number % count)
        producer.flush()
