"""Real Streams applications, by KIP-1071 or in classic groups: `java/StreamsMembers.java` started, and stopped."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.kafka import group_members, java_programs, maven
from tests.kafka.broker import Cluster


@dataclass(frozen=True)
class Instance:
    """One instance of an application, whose id is the group's; a member for each of its threads.

    Records of the topics in `stateless` are dropped, keys of those in `stateful` counted: a subtopology each, 0 and 1.
    All instances of an application need the same ones. `tags` are client tags, such as a rack; `protocol` is streams or
    classic; only a classic instance can set its session timeout. `settings` are further ones of Kafka Streams. With
    `restore_ms_per_record`, restores take at least this time, and the events have them.
    """

    application_id: str
    client_id: str
    state_dir: str
    stateless: tuple[str, ...] = ()
    stateful: tuple[str, ...] = ()
    threads: int = 1
    instance_id: str | None = None
    tags: dict[str, str] | None = None
    protocol: str | None = None
    session_timeout_ms: int | None = None
    settings: dict[str, str] | None = None
    restore_ms_per_record: int | None = None

    def spec(self) -> str:
        """The line that StreamsMembers.java reads."""
        return json.dumps({key: value for key, value in asdict(self).items() if value is not None})


@contextlib.contextmanager
def running(
    cluster: Cluster, instances: Iterable[Instance], events: Path | None = None, version: str | None = None
) -> Iterator[subprocess.Popen[str]]:
    """The instances work while the block runs; afterwards they leave their groups.

    They have the release `version` of Kafka Streams, or else the newest one. What tasks they have is appended to the
    file `events`, a line of JSON a change. Whoever kills the process that the block is given has members that do not
    leave.
    """
    options = "-Xms64m", "-Xmx512m", *java_programs.SHORT_LIVED
    jars = maven.applications_classpath() if version is None else maven.streams_classpath(version)
    command = java_programs.command("StreamsMembers", jars, cluster.bootstrap_servers, options=options)
    with group_members.fed(command, [each.spec() for each in instances], events) as process:
        yield process


def start(process: subprocess.Popen[str], instances: Iterable[Instance]) -> None:
    """More instances in a process that runs."""
    group_members.write(process, [f'{{"start": {each.spec()}}}' for each in instances])


def leave(process: subprocess.Popen[str], instances: Iterable[Instance]) -> None:
    """These instances of the process close."""
    group_members.write(process, [f'{{"leave": {each.spec()}}}' for each in instances])
