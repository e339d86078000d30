"""Random members of KIP-848 groups on the way to their target, in whatever state."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

Row = dict[str, Any]


def members(seed: int, count: int) -> Iterator[Row]:
    """Each with what it has, what it must give up, what it reports, and its target."""
    random = Random(f"members {seed}")
    for number in range(count):
        everything = [[topic, at] for topic in range(random.randint(1, 3)) for at in range(random.randint(1, 4))]
        state = random.choice(("STABLE", "UNREVOKED_PARTITIONS", "UNREVOKED_PARTITIONS", "UNRELEASED_PARTITIONS"))
        assigned = [each for each in everything if random.random() < 0.4]
        others = [each for each in everything if each not in assigned]
        pending = [each for each in others if random.random() < 0.5] if state == "UNREVOKED_PARTITIONS" else []
        foreign = [each for each in others if each not in pending and random.random() < 0.3]
        epoch = random.randint(2, 5)
        owned = random.choice((assigned, assigned + pending, None, [e for e in assigned if random.random() < 0.7]))
        before = {"case": f"{seed}-{number}", "state": state, "epoch": epoch, "previous_epoch": epoch - 1}
        before |= {"assigned": assigned, "pending": pending, "unreleased": sorted(assigned + pending + foreign)}
        yield before | {
            "owned": owned,
            "target_epoch": random.choice((epoch, epoch + 1, epoch + 1, epoch + 3)),
            "target": [each for each in everything if random.random() < random.choice((0.3, 0.6))],
            "subscribed": [topic for topic in range(3) if random.random() < 0.8],
            "subscription_changed": random.random() < 0.3,
        }
