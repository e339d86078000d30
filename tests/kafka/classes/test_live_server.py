"""Random groups, fresh at every run, planned by our kernels and by the broker's own assignors (KIP-848)."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from random import Random
from typing import Any
from uuid import UUID

import pytest

from tests.golden import server_rows
from tests.golden.server_rows import Row
from tests.kafka import live_assignors

pytestmark = pytest.mark.kafka

PROGRAM = "ServerAssignors"
GROUPS = 1_500


def _topic_id(random: Random) -> str:
    """As Kafka makes them: none begins with a dash."""
    return "A" + base64.urlsafe_b64encode(random.randbytes(16)).decode()[1:22]


def groups(seed: int) -> Iterator[Row]:
    """Equal and differing subscriptions; members that have nothing, or something, or all of it; static ones."""
    random = Random(seed)
    for number in range(GROUPS):
        sizes = random.choice([3, 12, 70, 300])
        topics = {
            _topic_id(random): random.randint(1, sizes) for _ in range(random.randint(1, random.choice([3, 8, 30])))
        }
        alike = random.random() < 0.5
        shared = random.sample(sorted(topics), random.randint(1, len(topics)))
        members: list[dict[str, Any]] = []
        for each in range(random.randint(1, random.choice([3, 10, 60]))):
            subscribed = list(shared) if alike else random.sample(sorted(topics), random.randint(1, len(topics)))
            random.shuffle(subscribed)
            instance = f"instance-{each}" if random.random() < 0.2 else None
            members.append({"id": str(UUID(int=random.getrandbits(128))), "instance": instance, "topics": subscribed})
        _own(random, topics, members)
        yield {
            "case": f"{seed}-{number}",
            "system": random.choice(["uniform", "uniform", "server-range"]),
            "subscription_type": "HOMOGENEOUS" if alike else "HETEROGENEOUS",
            "topics": {topic: {"name": topic, "partitions": count} for topic, count in topics.items()},
            "members": members,
        }


def _own(random: Random, topics: dict[str, int], members: list[dict[str, Any]]) -> None:
    """Previous assignments: of topics that a member does not subscribe to (any more), too; in any order of topics."""
    share = random.choice([0, 0.5, 0.9, 1])
    some = random.sample(members, random.randint(1, len(members)))
    had: dict[str, dict[str, list[int]]] = {member["id"]: {} for member in members}
    for topic, count in topics.items():
        fits = [member for member in some if topic in member["topics"] or random.random() < 0.05]
        for partition in range(count):
            if fits and random.random() < share:
                had[random.choice(fits)["id"]].setdefault(topic, []).append(partition)
    for member in members:
        mine = had[member["id"]]
        order = random.sample(sorted(mine), len(mine))
        member["previous"] = [(topic, at) for topic in order for at in random.sample(mine[topic], len(mine[topic]))]


def test_the_kernels_plan_what_the_broker_answers_now(kafka_jars: str, seed: int) -> None:
    """Uniform, alike and differing, and range."""
    rows = live_assignors.answered(groups(seed), kafka_jars, program=PROGRAM)
    different = [row["case"] for row in rows if server_rows.answered(row) != server_rows.expected(row)]
    assert not different, f"{len(different)} differ, {different[:20]}"
    assert sum(len(server_rows.expected(row)) > 1 for row in rows) > GROUPS // 3
