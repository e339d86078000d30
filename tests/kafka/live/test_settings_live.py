"""Advice that works when pasted: the lines of `member_settings` are given to real clients of every library.

Each group has two members. They start with their first assignor, then take the steps of the advice: rolling restarts,
one or two, or a stop of all. After each step both are in the group, with the assignor of the step, and every partition
has an owner; no client has refused its lines. And what `find_refusal` says of a list of assignors is what happens.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Lock

import pytest

from spark_assign.groups.kernel.client_libraries import COOPERATIVE, LIBRARIES
from spark_assign.groups.kernel.client_settings import (
    FIRST_RESTART,
    SECOND_RESTART,
    STOPPED,
    MemberChange,
    assignor_lines,
    find_refusal,
    member_settings,
    plan_switch,
)
from tests.kafka import client_libraries, fetched, pasted_settings
from tests.kafka.broker import Cluster
from tests.kafka.client_libraries import Running
from tests.kafka.live_groups import Tables, create_topics, read, wait_until
from tests.kafka.pasted_settings import GO, Lines, Member

pytestmark = pytest.mark.kafka

TOPIC, PARTITIONS = "pasted.topic", 6
AT_ONCE = 6
"""Changes side by side. More would hold up members on a busy machine."""
BY_NAME = {by.name: by for by in (*client_libraries.LIBRARIES, *client_libraries.OF_GO_AND_NODE)}
JAVA_3 = Running("Java", "3.9.1", ())


_BUILDING = Lock()


@dataclass(frozen=True)
class Advised:
    """A change of a group: of its assignor, or to static members with a session of 10 minutes."""

    by: Running
    now: str
    to: str | None = None

    @property
    def group(self) -> str:
        """Its id."""
        return f"pasted.{self.by.name}.{self.now}.{self.to or 'static'}"

    @property
    def before(self) -> Lines:
        """The lines that its members have before."""
        return tuple(assignor_lines(LIBRARIES[self.by.library], (self.now,)))

    @property
    def steps(self) -> list[tuple[str, Lines]]:
        """The heading and the lines of each step, as advice prints them."""
        clients, steps = f"{self.by.library} 2", list[tuple[str, list[str]]]()
        switch = None if self.to is None else plan_switch(self.now, self.to, clients)
        is_static = True if self.to is None else None
        change = MemberChange(self.group, clients, switch, is_static, 600_000 if is_static else None)
        for line in member_settings(change):
            heading = line.lstrip("#/ ")
            if heading in (FIRST_RESTART, SECOND_RESTART, STOPPED):
                steps.append((heading, []))
            else:
                steps[-1][1].append(line)
        kept = self.before if self.to is None else ()  # what the advice doesn't name stays
        return [(heading, (*lines, *kept)) for heading, lines in steps]

    def numbered(self, lines: Lines, number: int) -> Lines:
        """The lines of a member: its own instance id."""
        return tuple(line.replace(f"{self.group}-0", f"{self.group}-{number}") for line in lines)


DEFAULT = [
    Advised(BY_NAME["Java-4.4.0"], "range", COOPERATIVE),
    Advised(JAVA_3, "range", COOPERATIVE),
    Advised(BY_NAME["librdkafka-2.16.1"], "range", COOPERATIVE),
    Advised(BY_NAME["franz-go-1.22.2"], "range", COOPERATIVE),
    Advised(BY_NAME["Sarama-1.61.1"], "range", COOPERATIVE),
    Advised(BY_NAME["kafka-python-3.0.9"], "range", COOPERATIVE),
    Advised(BY_NAME["aiokafka-0.14.0"], "range", "sticky"),
]
FURTHER = [
    Advised(BY_NAME["kafka-go-0.4.51"], "range", "roundrobin"),
    Advised(BY_NAME["librdkafka-2.16.1"], "range", "roundrobin"),
    Advised(BY_NAME["Java-2.4.1"], "sticky", COOPERATIVE),
    *(Advised(each.by, "range") for each in DEFAULT),
]
LISTS = [
    (by, (eager, COOPERATIVE))
    for by in (each.by for each in DEFAULT)
    for eager in LIBRARIES[by.library].assignors
    if eager != COOPERATIVE and COOPERATIVE in LIBRARIES[by.library].assignors
]


@dataclass
class Group:
    """A running group."""

    advised: Advised
    cluster: Cluster
    folder: Path
    go: Path | None
    members: list[Member] = field(default_factory=list)

    def start(self, lines: Lines, number: int) -> Member:
        """Starts a member."""
        own = self.advised.numbered(lines, number)
        by, servers = self.advised.by, self.cluster.bootstrap_servers
        return pasted_settings.start(by, own, servers, self.advised.group, TOPIC, self.folder, self.go)

    def settle(self, assignor: str | None) -> Tables:
        """Waits until both members are in the group with all partitions, and nobody has refused."""

        def settled() -> Tables | None:
            for member in self.members:
                refused = member.refused()
                assert refused is None, f"{self.advised.group}: {refused}"
            tables = read(self.cluster, [self.advised.group])
            owned = sum(row["count"] for row in tables["owned_slices"])
            (row,) = tables["groups"] or [{}]
            is_there = row.get("state") == "Stable" and len(tables["members"]) == 2 and owned == PARTITIONS
            return tables if is_there and assignor in (None, row["assignor"]) else None

        return wait_until(settled, f"{self.advised.group} with {assignor}", every_s=1)


@cache
def go_program() -> Path:
    """The program with all lines that Go libraries get. Raises UnavailableError."""
    pasted = [
        (each.by.library, each.numbered(lines, number))
        for each in (*DEFAULT, *FURTHER)
        if each.by.library in GO
        for lines in (each.before, *(lines for _, lines in each.steps))
        for number in range(2)
    ]
    mixed = [(by.library, tuple(assignor_lines(LIBRARIES[by.library], names))) for by, names in LISTS]
    with _BUILDING:
        return pasted_settings.go_program([*pasted, *(each for each in mixed if each[0] in GO)])


@pytest.fixture(scope="module")
def topic(broker: Cluster) -> Cluster:
    """The cluster, with the topic."""
    create_topics(broker, {TOPIC: PARTITIONS})
    return broker


@contextlib.contextmanager
def running(advised: Advised, cluster: Cluster, folder: Path) -> Iterator[Group]:
    """The group with its first assignor; skips if its library can't be had, but fails in CI."""
    with fetched.or_skipped():
        go = go_program() if advised.by.library in GO else None
        pasted_settings.command(advised.by, advised.before, folder, go)
    group = Group(advised, cluster, folder, go)
    with pasted_settings.closing(group.members):
        group.members += [group.start(advised.before, number) for number in range(2)]
        yield group


def _apply(advised: Advised, cluster: Cluster, folder: Path) -> None:
    """Takes the steps of the advice."""
    assert advised.steps, "nothing is advised"
    with running(advised, cluster, folder) as group:
        group.settle(advised.now)
        for at, (heading, lines) in enumerate(advised.steps, 1):
            if heading == STOPPED:
                for member in group.members:
                    member.close()
            last = at == len(advised.steps)
            for number in range(2):
                if heading != STOPPED:
                    group.members[number].close()
                group.members[number] = group.start(lines, number)
                if heading != STOPPED:
                    group.settle(None)
            tables = group.settle(advised.to or advised.now if last else None)
        if advised.to is None:
            found = {row["group_instance_id"] for row in tables["members"]}
            assert found == {f"{advised.group}-{number}" for number in range(2)}


@pytest.fixture(scope="module")
def applied(
    request: pytest.FixtureRequest, topic: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[Advised, Future[None]]]:
    """The changes of all selected tests, a few side by side: they mostly wait."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    advised = [item.callspec.params["advised"] for item in items if "applied" in item.fixturenames]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {each: pool.submit(_apply, each, topic, tmp_path_factory.mktemp("pasted")) for each in advised}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("advised", DEFAULT, ids=lambda each: each.group)
def test_advice_is_accepted(advised: Advised, applied: Mapping[Advised, Future[None]]) -> None:
    """Another assignor, by the restarts that the library survives."""
    applied[advised].result()


@pytest.mark.parametrize("advised", FURTHER, ids=lambda each: each.group)
def test_further_advice_is_accepted(advised: Advised, applied: Mapping[Advised, Future[None]]) -> None:
    """Other assignors, an old release, static members."""
    applied[advised].result()


def _named(value: Running | tuple[str, ...]) -> str:
    return value.name if isinstance(value, Running) else "-".join(value)


@pytest.mark.parametrize(("by", "names"), LISTS, ids=_named)
def test_lists_that_libraries_refuse(by: Running, names: tuple[str, str], topic: Cluster, tmp_path: Path) -> None:
    """A consumer with an eager and a cooperative assignor starts if and only if the advice says so."""
    with fetched.or_skipped():
        go = go_program() if by.library in GO else None
        lines = tuple(assignor_lines(LIBRARIES[by.library], names))
        pasted_settings.command(by, lines, tmp_path, go)
    group = f"mixed.{by.name}.{'.'.join(names)}"
    with pasted_settings.closing([]) as members:
        member = pasted_settings.start(by, lines, topic.bootstrap_servers, group, TOPIC, tmp_path, go)
        members.append(member)

        def outcome() -> str | None:
            if member.refused():
                return "refused"
            groups = read(topic, [group])["groups"]
            return "starts" if groups and groups[0]["state"] == "Stable" else None

        expected = "starts" if find_refusal(by.library, names) is None else "refused"
        assert wait_until(outcome, group, every_s=1) == expected
