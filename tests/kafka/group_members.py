"""Real Java consumers in their groups: `java/GroupMembers.java` started, waited for, stopped."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.kafka import java_programs
from tests.kafka.broker import Cluster
from tests.kafka.coordinator_log import Line, about
from tests.kafka.live_groups import Tables, read, wait_until_stable
from tests.snapshots import subscriptions

_CLASSES = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}


@dataclass(frozen=True)
class Consumer:
    """One member; `protocol` is classic, consumer or share. `assignor` by Kafka's name: the client's for `classic`
    (several: with commas between them), the server's for `consumer`. One that is to be followed also tells its
    generations; one with `commit_every_ms` reads, and commits so often. Giving up partitions may take time, as where
    offsets are committed first: all others have their part by the time that such a cooperative one joins again."""

    group: str
    client_id: str
    topics: tuple[str, ...] = ()
    assignor: str | None = None
    protocol: str = "classic"
    instance_id: str | None = None
    rack: str | None = None
    regex: str | None = None
    session_timeout_ms: int | None = None
    heartbeat_interval_ms: int | None = None
    max_poll_interval_ms: int | None = None
    metadata_max_age_ms: int | None = None
    commit_every_ms: int | None = None
    revoking_ms: int | None = None
    follow: bool | None = None

    def spec(self) -> str:
        """The line that GroupMembers.java reads."""
        fields = {key: value for key, value in asdict(self).items() if value is not None}
        if self.protocol == "classic" and self.assignor:
            names = self.assignor.split(",")
            fields["assignor"] = ",".join(f"org.apache.kafka.clients.consumer.{_CLASSES[name]}" for name in names)
        return json.dumps(fields)


@contextlib.contextmanager
def running(
    cluster: Cluster, consumers: Iterable[Consumer], events: Path | None = None
) -> Iterator[subprocess.Popen[str]]:
    """The consumers poll while the block runs; afterwards they leave their groups.

    What their rebalance listeners are told is appended to the file `events`, a line of JSON a call. Whoever kills
    the process that the block is given has members that do not leave.
    """
    options = ("-Xms64m", "-Xmx768m", *java_programs.SHORT_LIVED)
    command = java_programs.command("GroupMembers", cluster.class_path, cluster.bootstrap_servers, options=options)
    with fed(command, [consumer.spec() for consumer in consumers], events) as process:
        yield process


@contextlib.contextmanager
def fed(command: list[str], lines: Iterable[str], events: Path | None) -> Iterator[subprocess.Popen[str]]:
    """A program that reads such lines and an empty one, while the block runs; it ends when its standard input does."""
    with (events or Path(os.devnull)).open("a") as output:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.DEVNULL, text=True)
    assert process.stdin is not None
    try:
        write(process, [*lines, ""])
        yield process
    finally:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def start(process: subprocess.Popen[str], consumers: Iterable[Consumer]) -> None:
    """More consumers in a process that runs."""
    order(process, "start", consumers)


def leave(process: subprocess.Popen[str], consumers: Iterable[Consumer]) -> None:
    """These consumers of the process close."""
    order(process, "leave", consumers)


def order(process: subprocess.Popen[str], command: str, consumers: Iterable[Consumer]) -> None:
    """Any command of GroupMembers.java: leave_for_good, pause, resume; subscribe, as these say, by their ids."""
    write(process, [f'{{"{command}": {consumer.spec()}}}' for consumer in consumers])


def write(process: subprocess.Popen[str], lines: Iterable[str]) -> None:
    """Lines for the standard input of such a program."""
    assert process.stdin is not None
    process.stdin.writelines(f"{line}\n" for line in lines)
    process.stdin.flush()


def wait_until_settled(cluster: Cluster, members: Mapping[str, int], groups: str | None = None) -> Tables:
    """Waits until each group is Stable with this number of members, owns all that it reads, and stays so for a while.

    Between two snapshots a group may rebalance: nor must its coordinator log anything about it for that long.

    Returns:
        The last snapshot, of the groups that match `groups` and at least of these.
    """
    start = cluster.log_position()

    def look() -> tuple[str, tuple[Tables, list[Line]]]:
        log = cluster.group_log(start)
        tables = read(cluster, groups or list(members))
        return _unsettled(tables, members), (tables, log)

    def state(found: tuple[Tables, list[Line]]) -> object:
        tables, log = found
        owned = [row for row in tables["owned_slices"] if row["group_id"] in members]
        return owned, [about(each, log) for each in members]

    return wait_until_stable(look, state)[0]


def _unsettled(tables: Tables, members: Mapping[str, int]) -> str:
    """Returns what the groups still lack; empty if nothing."""
    states = {row["group_id"]: row["state"] for row in tables["groups"]}
    joined = Counter(row["group_id"] for row in tables["members"])
    owning = {row["group_id"] for row in tables["owned_slices"]}
    waiting = {
        group: (states.get(group), joined[group])
        for group, size in members.items()
        if states.get(group) != "Stable" or joined[group] != size or group not in owning
    }
    unowned = _unowned(tables, members)
    return f"{waiting} of {dict(members)}, not owned: {unowned}" if waiting or unowned else ""


def _unowned(tables: Tables, groups: Container[str]) -> set[tuple[str, str]]:
    """Topics that a member subscribes to and that its group does not own all of: group and topic.

    Cooperative members have given up some, and nobody has got that yet.
    """
    partitions = {row["topic"]: row["partitions"] for row in tables["topics"]}
    read = {(row["group_id"], row["topic"]) for row in subscriptions(tables) if row["topic"] in partitions}
    owned: Counter[tuple[str, str]] = Counter()
    for run in tables["owned_slices"]:
        owned[run["group_id"], run["topic"]] += run["count"]
    return {(group, topic) for group, topic in read if group in groups and owned[group, topic] < partitions[topic]}
