"""Who leads a group, as a snapshot tells it, held against the library and release that really ran.

Every library that is known, in several releases and with each of its assignors, once under its default client id and
once under a name that tells nothing. Nothing that is said with certainty `sure` or `likely` may be wrong.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from spark_assign.assignors.release_rules import LIKELY, SURE, UNKNOWN
from spark_assign.groups.kernel.client_libraries import LIBRARIES as KNOWN
from tests.kafka import client_libraries, group_members
from tests.kafka.broker import Cluster
from tests.kafka.client_libraries import OF_GO_AND_NODE, Running
from tests.kafka.fetched import UnavailableError
from tests.kafka.live_groups import create_topics, read, wait_until
from tests.unit.test_fingerprints import by_name_alone, holds

pytestmark = pytest.mark.kafka

ALL = (*client_libraries.LIBRARIES, *OF_GO_AND_NODE)
TOPIC = "led.topic"
PARTITIONS = 6
EITHER = "aiokafka or kafka-python"
NAMED = "billing"
"""A client id that tells nothing."""
SETTLE_S = 300


@dataclass(frozen=True)
class Led:
    """A group with two members of one library; `client_id` is empty for the library's own."""

    by: Running
    assignor: str
    client_id: str

    @property
    def group(self) -> str:
        """Its id; nothing of it may pass for a client's default name."""
        return f"led.{self.by.name}.{self.assignor}.{self.client_id or 'default'}"

    @property
    def lines(self) -> list[str]:
        """What is given to the program that runs it."""
        return ["\t".join((self.group, TOPIC, self.assignor, self.client_id))] * 2


def groups_of(by: Running) -> list[Led]:
    """With every assignor under the default client id, with the last one under another name, too."""
    return [*(Led(by, name, "") for name in by.assignors), Led(by, by.assignors[-1], NAMED)]


@dataclass(frozen=True)
class Detected:
    """What the snapshot says of each group; and which libraries could not be had, with the reason."""

    groups: dict[str, dict[str, Any]]
    missing: dict[Running, UnavailableError]


@pytest.fixture(scope="module")
def detected(broker: Cluster) -> Iterator[Detected]:
    """All groups at the same time, a process for each release of a library, once all releases have been fetched."""
    create_topics(broker, {TOPIC: PARTITIONS})
    missing: dict[Running, UnavailableError] = {}
    commands: dict[Running, list[str]] = {}
    for by in ALL:
        try:
            commands[by] = by.command(broker.bootstrap_servers)
        except UnavailableError as reason:
            missing[by] = reason
    with contextlib.ExitStack() as stack:
        expected: set[str] = set()
        for by, command in commands.items():
            lines = [line for each in groups_of(by) for line in each.lines]
            process = stack.enter_context(group_members.fed(command, lines, None))
            stack.callback(process.kill)
            expected |= {each.group for each in groups_of(by)}
        yield Detected(settled(broker, expected), missing)


def settled(broker: Cluster, expected: set[str]) -> dict[str, dict[str, Any]]:
    """The groups when each has two members that own something, or when time is up: then those that have."""
    done: dict[str, dict[str, Any]] = {}

    def all_done() -> bool:
        tables = read(broker, "led.*")
        owning = Counter(group for group, _ in {(row["group_id"], row["member_id"]) for row in tables["owned_slices"]})
        stable = [row for row in tables["groups"] if row["state"] == "Stable"]
        done.clear()
        done.update({row["group_id"]: row for row in stable if owning[row["group_id"]] == 2})
        return expected <= set(done)

    with contextlib.suppress(AssertionError):
        wait_until(all_done, "groups", SETTLE_S, every_s=2)
    return done


def _check(detected: Detected, by: Running) -> None:
    if by in detected.missing:
        detected.missing[by].skip()
    wrong = []
    for each in groups_of(by):
        if each.group not in detected.groups:
            wrong.append(f"{each.group}: did not settle")
            continue
        row = detected.groups[each.group]
        found = (row["leader_library"], row["leader_version"], row["leader_confidence"])
        library, releases, certainty = found
        if library not in (None, EITHER) and (library != by.library or not holds(releases, by.release)):
            wrong.append(f"{each.group}: {found}")
        elif (library, certainty) != expected_of(each):
            wrong.append(f"{each.group}: {found}, not {expected_of(each)}")
    assert not wrong, "\n".join(wrong)


def expected_of(led: Led) -> tuple[str | None, str]:
    """The bytes tell all but kafka-python and aiokafka, which are alike; with a default client id it is sure."""
    by_name = by_name_alone(led.by.library, led.assignor)
    if led.assignor == "RoundRobinAssigner":
        return led.by.library, SURE
    if led.client_id:
        return (EITHER, UNKNOWN) if by_name else (led.by.library, LIKELY)
    return led.by.library, LIKELY if by_name else SURE


@pytest.mark.parametrize("by", client_libraries.LIBRARIES, ids=lambda by: by.name)
def test_the_leader_is_detected(detected: Detected, by: Running) -> None:
    """Java, librdkafka and the libraries for Python: with all that can be known, and nothing else."""
    _check(detected, by)


@pytest.mark.parametrize("by", OF_GO_AND_NODE, ids=lambda by: by.name)
def test_the_leader_of_go_and_node_is_detected(detected: Detected, by: Running) -> None:
    """The same of libraries that need Go, or Node."""
    _check(detected, by)


def test_every_library_is_there() -> None:
    """Forty groups at least."""
    assert {by.library for by in ALL} == set(KNOWN)
    assert sum(len(groups_of(by)) for by in ALL) >= 40
