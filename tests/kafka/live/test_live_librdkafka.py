"""Predicted = actual: real consumers of librdkafka join, leave and come back; each time the plan of what they owned and
subscribe to, by the rules of the library that the snapshot has told, is what the broker reports after it."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
from kafka.admin import NewPartitions

from spark_assign.assignors.release_rules import assignor_of_leader
from tests.golden import sticky_kernel
from tests.golden.vectors import Row
from tests.kafka import client_libraries, fetched, group_members
from tests.kafka.broker import Cluster
from tests.kafka.group_members import Consumer
from tests.kafka.live_groups import create_topics, read, wait_until
from tests.slices import partitions
from tests.snapshots import subscriptions

pytestmark = [pytest.mark.kafka, pytest.mark.once]

TOPICS = {"lr.orders": 7, "lr.payments": 5, "lr.a": 3, "lr.clicks": 4, "lr.audit": 2, "lr.z": 6}
"""More than four, so that the broker's answer is in the order of a hash."""
ALL = tuple(TOPICS)
ASSIGNORS = ("range", "roundrobin", "cooperative-sticky")
UNSEEN_S = 12
"""Time in which a member with metadata of a second has looked several times."""


def _consumer(group: str, name: str, topics: tuple[str, ...], assignor: str) -> Consumer:
    """By the time that a cooperative member has given up partitions, all others have their part."""
    return Consumer(group, name, topics, assignor, revoking_ms=500 if assignor == "cooperative-sticky" else None)


GROUPS = [
    *(_consumer(f"lr-{assignor}", f"{assignor}-{n}", ALL, assignor) for assignor in ASSIGNORS for n in range(3)),
    *(
        _consumer("lr-differing", f"differing-{n}", topics, "cooperative-sticky")
        for n, topics in enumerate([ALL, ALL[:2], ALL[1:4]])
    ),
]


@pytest.fixture(scope="module")
def members(broker: Cluster) -> Iterator[subprocess.Popen[str]]:
    """A program with these consumers; skips where it cannot be had."""
    with fetched.or_skipped():
        command = client_libraries.librdkafka_members(broker.bootstrap_servers)
    create_topics(broker, TOPICS)
    with group_members.fed(command, [], None) as process:
        group_members.start(process, GROUPS)
        yield process


def _rows(broker: Cluster, of: dict[str, int]) -> dict[str, Row]:
    """The groups as they are once they have settled with so many members, as golden rows."""
    tables = group_members.wait_until_settled(broker, of)
    rows = {}
    for group in tables["groups"]:
        assignor = assignor_of_leader(group["assignor"], group["leader_library"], group["leader_version"])
        rows[group["group_id"]] = {"case": group["group_id"], "strategy": assignor, "topics": TOPICS, "members": []}
    for row in sorted(tables["members"], key=lambda row: row["position"]):
        member = {"id": row["member_id"], "instance": None, "rack": None, "generation": row["generation_id"]}
        topics, slices = (
            [each for each in rows_of if each["member_id"] == row["member_id"]]
            for rows_of in (subscriptions(tables), tables["owned_slices"])
        )
        owned = [(each["topic"], partition) for each in slices for partition in partitions(each)]
        has = {"topics": [each["topic"] for each in topics], "owned": owned}
        rows[row["group_id"]]["members"].append(member | {"client": row["client_id"]} | has)
    return rows


def _check(before: dict[str, Row], after: dict[str, Row]) -> None:
    """What the members of now get, of whom those of before own what they owned then; told in the next generation."""
    for group, row in after.items():
        owned = {member["id"]: member["owned"] for member in before[group]["members"]}
        members_before = [member | {"owned": owned.get(member["id"], []), "generation": 1} for member in row["members"]]
        answer = sticky_kernel.planned([row | {"members": members_before}], row["strategy"])
        predicted = answer.sets.get(group, {})
        for member, later in answer.withheld.get(group, {}).items():
            predicted.setdefault(member, set()).update(later)
        actual = {member["id"]: set(member["owned"]) for member in row["members"] if member["owned"]}
        assert predicted == actual, f"{group}: predicted and actual differ"


def test_predicted_is_actual(broker: Cluster, members: subprocess.Popen[str]) -> None:
    """Three members each; the second leaves, comes back, and another joins."""
    sizes = dict(Counter(consumer.group for consumer in GROUPS))
    first = _rows(broker, sizes)
    assert {row["strategy"] for row in first.values()} == {f"{assignor}@librdkafka" for assignor in ASSIGNORS}
    eager = [group for group in first if "cooperative" not in first[group]["strategy"]]
    _check(first, {group: first[group] for group in eager})
    second = [consumer for consumer in GROUPS if consumer.client_id.endswith("-1")]
    group_members.leave(members, second)
    left = _rows(broker, {group: size - 1 for group, size in sizes.items()})
    _check(first, left)
    group_members.start(members, second)
    back = _rows(broker, sizes)
    _check(left, back)
    new = [(group, f"{group}-new", ALL, row["strategy"].partition("@")[0]) for group, row in back.items()]
    group_members.start(members, [_consumer(*each) for each in new])
    _check(back, _rows(broker, {group: size + 1 for group, size in sizes.items()}))


@pytest.mark.parametrize(("assignor", "sees"), [("range", False), ("roundrobin", False), ("cooperative-sticky", True)])
def test_new_partitions_of_a_topic_that_the_leader_lacks(
    assignor: str, sees: bool, members: subprocess.Popen[str], broker: Cluster
) -> None:
    """Another member refreshes its metadata every second: its group rebalances only with cooperative-sticky.

    Without a rebalance the new partitions have no owner until a member joins (`simulate` has the same).
    """
    group, own, grows = f"lr-unseen-{assignor}", f"lr.own.{assignor}", f"lr.grows.{assignor}"
    create_topics(broker, {own: 2, grows: 2})
    pair = [Consumer(group, f"{assignor}-u{n}", (own, grows)[: n + 1], assignor) for n in range(2)]
    pair = [replace(each, metadata_max_age_ms=1_000) for each in pair]
    for number, each in enumerate(pair, 1):  # the first one leads
        group_members.start(members, [each])
        group_members.wait_until_settled(broker, {group: number})
    with broker.admin() as admin:
        admin.create_partitions({grows: NewPartitions(5)})

    def owned() -> int:
        return sum(row["count"] for row in read(broker, [group])["owned_slices"] if row["topic"] == grows)

    if sees:
        wait_until(lambda: owned() == 5, "the new partitions have an owner", 60)
    else:
        time.sleep(UNSEEN_S)
        assert owned() == 2
        group_members.start(members, [Consumer(group, f"{assignor}-u2", (grows,), assignor)])
        wait_until(lambda: owned() == 5, "the new partitions have an owner", 60)
