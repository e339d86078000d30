"""Predicted = actual in a rolling upgrade: consumers of kafka-clients 2.8.2 are replaced by those of 3.9.1, one by one.

Who leads, and what everybody has after each restart, is what `migration.kernel.upgrade` plays from the first snapshot,
with the ids that the coordinator has really given. The leader's release is what a snapshot reads from the bytes it
wrote. And members of 2.8.2, of the newest release and of librdkafka in one group: whoever was first leads, then whom
Java's table of members has first.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from spark_assign.migration.kernel import upgrade as kernel
from spark_assign.migration.kernel.upgrade import simulate_upgrade
from spark_assign.migration.kernel.upgrade_verdict import ClientConfig, GroupMembership, UpgradePath
from tests.golden.vectors import Row
from tests.kafka import client_libraries, fetched, group_members, java_programs, maven
from tests.kafka.broker import Cluster
from tests.kafka.coordinator_log import HeldUpError, expirations, joined, nobody_was_held_up, repeated
from tests.kafka.group_members import Consumer
from tests.kafka.live_groups import Tables, create_topics, delete_groups, events, owners_in
from tests.unit.test_migration_restarts import specs_of, who_has

pytestmark = [pytest.mark.kafka]

TOPICS = {"up.orders": 11, "up.clicks": 6}
ASSIGNORS = {"up-sticky": "sticky", "up-cooperative": "cooperative-sticky", "up-range": "range"}
MIXED = {"up-mixed": "sticky", "up-three": "range"}
OLD, NEW = "2.8.2", "3.9.1"
MEMBERS, FIRST = 3, 1
WRITTEN_BY = {"2.8-3.3": OLD, "2.4-3.3": OLD, "3.4+": NEW}
"""The releases that a snapshot tells, and which of ours that is."""


def consumer(group: str, number: int) -> Consumer:
    """A member of a group."""
    revoking_ms = 500 if group == "up-cooperative" else None
    return Consumer(group, f"c{number}", tuple(TOPICS), (ASSIGNORS | MIXED)[group], revoking_ms=revoking_ms)


def class_path(release: str) -> str:
    """The clients of a release; skips without Java or Maven, but fails in CI."""
    with fetched.or_skipped():
        return maven.clients_classpath(release)


def _librdkafka(servers: str) -> list[str]:
    """What runs members on librdkafka; skips where it cannot be had."""
    with fetched.or_skipped():
        return client_libraries.librdkafka_members(servers)


class Story(dict[str, Tables]):
    """The snapshots: `before`, then `0 away`, `0 back` and so on; and the ids of all members as they joined."""

    joined: dict[str, list[str]]


@pytest.fixture(scope="module")
def story(broker: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Played until nobody is held up."""
    create_topics(broker, TOPICS)

    def attempted(attempt: int) -> Story:
        if attempt:
            delete_groups(broker, [*ASSIGNORS, *MIXED])
        return _play(broker, tmp_path_factory.mktemp(f"upgrade-{attempt}"))

    return repeated(attempted)


def _play(broker: Cluster, folder: Path) -> Story:
    """Groups from their first member on, until all have restarted; all leave at the end."""
    states = Story()
    logged, files = broker.log_position(), [folder / name for name in ("old", "new", "newest")]

    def look(step: str, members: dict[str, int]) -> None:
        states[step] = group_members.wait_until_settled(broker, members, "up-*")
        log = broker.group_log(logged)
        if not nobody_was_held_up(ASSIGNORS, log, events(files)) or any(expirations(group, log) for group in MIXED):
            raise HeldUpError

    with ExitStack() as stack:
        old, new, newest = (
            stack.enter_context(
                group_members.fed(java_programs.command("OldConsumers", path, broker.bootstrap_servers), [], rows)
            )
            for path, rows in zip((class_path(OLD), class_path(NEW), broker.class_path), files, strict=True)
        )
        librdkafka = stack.enter_context(group_members.fed(_librdkafka(broker.bootstrap_servers), [], None))
        group_members.start(old, [consumer(group, FIRST) for group in ASSIGNORS])
        group_members.start(newest, [consumer("up-mixed", FIRST)])
        group_members.start(librdkafka, [consumer("up-three", FIRST)])
        look("first", dict.fromkeys((*ASSIGNORS, *MIXED), 1))
        group_members.start(old, [consumer(group, at) for group in ASSIGNORS for at in range(MEMBERS) if at != FIRST])
        group_members.start(old, [consumer(group, at) for group in MIXED for at in (2, 3)])
        group_members.start(newest, [consumer(group, 0) for group in MIXED])
        look("before", {**dict.fromkeys(ASSIGNORS, MEMBERS), **dict.fromkeys(MIXED, 4)})
        group_members.leave(newest, [consumer("up-mixed", FIRST)])
        group_members.leave(librdkafka, [consumer("up-three", FIRST)])
        for number in range(MEMBERS):
            group_members.leave(old, [consumer(group, number) for group in ASSIGNORS])
            look(f"{number} away", dict.fromkeys(ASSIGNORS, MEMBERS - 1))
            group_members.start(new, [consumer(group, number) for group in ASSIGNORS])
            look(f"{number} back", dict.fromkeys(ASSIGNORS, MEMBERS))
    states.joined = {group: joined(group, broker.group_log(logged)) for group in MIXED}
    return states


def ids(tables: Tables, group: str) -> dict[str, str]:
    """The ids of a group's members by their client ids."""
    return {row["client_id"]: row["member_id"] for row in tables["members"] if row["group_id"] == group}


def row_of(tables: Tables, group: str) -> Row:
    """A group as the golden rows have it: what its members told, and what they have."""
    has = owners_in(tables, group)
    members = [
        {
            "id": row["member_id"],
            "instance": None,
            "rack": None,
            "generation": -1,
            "user_generation": 1,
            "topics": list(TOPICS),
            "owned": sorted(has[row["client_id"]]),
        }
        for row in tables["members"]
        if row["group_id"] == group
    ]
    return {"case": group, "topics": TOPICS, "members": members}


def leader_of(tables: Tables, group: str) -> tuple[str | None, str | None]:
    """Library and releases of whoever leads."""
    (row,) = (row for row in tables["groups"] if row["group_id"] == group)
    return row["leader_library"], row["leader_version"]


@pytest.mark.parametrize("group", ASSIGNORS)
def test_who_leads_and_who_has_what_after_each_restart(
    group: str, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first snapshot alone, but for the ids that the coordinator draws."""
    before = story["before"]
    now = ids(before, group)
    drawn = {now[f"c{at}"]: ids(story[f"{at} back"], group)[f"c{at}"] for at in range(MEMBERS)}
    monkeypatch.setattr(kernel, "next_member_id", drawn.__getitem__)
    specs, listed = specs_of([row_of(before, group)]), (ASSIGNORS[group],)
    course = UpgradePath(ClientConfig(OLD, listed), (ClientConfig(NEW, listed),), leader=now[f"c{FIRST}"])
    steps = simulate_upgrade(specs, [course]).steps[0]
    leads = f"c{FIRST}"
    for number, step in enumerate(steps):
        tables = story[f"{number} back"]
        names = {member_id: name for name, member_id in ids(tables, group).items()}
        leads = names[step.leader]
        assert step.leader_release == (NEW if int(leads[1]) <= number else OLD)
        library, releases = leader_of(tables, group)
        assert (library, WRITTEN_BY.get(str(releases))) == ("Java", step.leader_release), (number, releases)
        monkeypatch.setattr(kernel, "count_restarts", lambda specs, most=number + 1: specs.fact_group_index * 0 + most)
        after = simulate_upgrade(specs, [course]).owned_after
        seats = sorted(now)
        found = {seats[at]: got for at, got in who_has(specs, after, group).items()}
        assert found == owners_in(tables, group), f"after {number}"
        moved = sum(
            len(got & had)
            for one, two in (
                (f"{number - 1} back" if number else "before", f"{number} away"),
                (f"{number} away", f"{number} back"),
            )
            for name, got in owners_in(story[two], group).items()
            for other, had in owners_in(story[one], group).items()
            if other != name
        )
        assert step.moved == moved, f"after {number}"


@pytest.mark.parametrize(("group", "first"), [("up-mixed", ("Java", "3.4+")), ("up-three", ("librdkafka", "2.2+"))])
def test_the_first_member_leads_whatever_it_runs_on(group: str, first: tuple[str, str], story: Story) -> None:
    """Members of 2.8.2 and of the newest release joined it; when it leaves, the coordinator picks one of them."""
    assert leader_of(story["before"], group) == first
    left = ids(story["before"], group)
    stay = [each for each in story.joined[group] if each in left.values() and each != left[f"c{FIRST}"]]
    assert len(stay) == len(left) - 1
    leader = GroupMembership(((each, None) for each in stay), (MIXED[group],)).group.leader_id
    (name,) = (name for name, each in left.items() if each == leader)
    library, releases = leader_of(story["2 back"], group)
    assert (library, WRITTEN_BY[str(releases)]) == ("Java", OLD if name in ("c2", "c3") else NEW)
