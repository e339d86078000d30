"""Random groups for the broker's assignors (KIP-848), in the format of tests/golden/README-848.md."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from random import Random
from typing import Any
from uuid import UUID

from tests.golden.server_rows import Row


def _topic_id(random: Random) -> str:
    """As Kafka makes them: none begins with a dash."""
    return "A" + base64.urlsafe_b64encode(random.randbytes(16)).decode()[1:22]


def groups(seed: int, count: int) -> Iterator[Row]:
    """Equal and differing subscriptions; members that have nothing, or something, or all of it; static ones."""
    random = Random(seed)
    for number in range(count):
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
            members.append(
                {"id": str(UUID(int=random.getrandbits(128))), "instance": instance, "rack": None, "topics": subscribed}
            )
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
