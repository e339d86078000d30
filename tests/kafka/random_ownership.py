"""What the members of a random group own: the traces of an earlier, more or less balanced assignment.

Members have come and gone since, topics have grown or vanished, some members have slept through a generation and
still claim what others were given, and in a few groups partitions are claimed that do not exist.
"""

from __future__ import annotations

import random
from heapq import heapify, heapreplace
from typing import Any

from tests.golden.vectors import Row

GENERATION = 7
Claims = dict[str, set[tuple[str, int]]]


def with_ownership(rng: random.Random, row: Row, strategy: str, share_ghosts: float = 0.04) -> Row:
    """The row with `owned`, `generation` and `user_generation` of each member filled in.

    `share_ghosts`: how many of the groups claim partitions that do not exist.
    """
    ids = [member["id"] for member in row["members"]]
    if rng.random() < 0.08:
        owned: Claims = {member: set() for member in ids}
    else:
        owned = _earlier_assignment(rng, row, ids, share_ghosts)
    _disturb(rng, owned, ids)
    share_new = rng.choice([0.0, 0.0, 0.2, 0.5])
    share_stale = rng.choice([0.0, 0.0, 0.2, 0.6])
    members = []
    for member in row["members"]:
        new = rng.random() < share_new
        stale = rng.random() < share_stale
        members.append(member | _reported(rng, strategy, [] if new else sorted(owned[member["id"]]), new, stale))
    return row | {"members": members}


def _earlier_assignment(rng: random.Random, row: Row, ids: list[str], share_ghosts: float) -> Claims:
    """Who had what before; of members that have left nothing remains."""
    everybody = [*ids, *[f"left-{n}" for n in range(rng.choice([0, 0, 1, 1, 1 + len(ids) // 3]))]]
    subscribed = {member["id"]: set(member["topics"]) for member in row["members"]}
    change_of_mind = rng.choice([0.0, 0.0, 0.0, 0.1, 0.5])
    style = rng.choice(["least", "least", "stride", "skewed", "one"])
    share_owned = rng.choice([1.0, 1.0, 0.9, 0.5])
    ghosts = rng.random() < share_ghosts
    grown = rng.random() < 0.3
    owned: Claims = {member: set() for member in everybody}
    counts = {topic: _count_before(rng, count, grown, ghosts) for topic, count in row["topics"].items()}
    if rng.random() < 0.15:
        counts |= {f"vanished.{n}": rng.randint(1, 6) for n in range(rng.randint(1, 3))}
        unknown = (topic for member in subscribed.values() for topic in sorted(member - row["topics"].keys()))
        counts |= {topic: rng.randint(1, 6) for topic in unknown}
    for topic in rng.sample(sorted(counts), len(counts)):
        owners = [m for m in everybody if topic in subscribed.get(m, {topic}) or rng.random() < change_of_mind]
        owners = owners if topic in row["topics"] else everybody
        if style == "skewed":
            owners = rng.choices(owners, k=max(1, len(owners) // 2)) if owners else []
        loads = [(len(owned[owner]), owner) for owner in owners]
        heapify(loads)
        for number in range(counts[topic] if owners else 0):
            if rng.random() >= share_owned:
                continue
            if style == "least":
                load, owner = loads[0]
                heapreplace(loads, (load + 1, owner))
            elif style == "stride":
                owner = owners[number % len(owners)]
            else:
                owner = owners[0] if style == "one" else rng.choice(owners)
            owned[owner].add((topic, number))
    return {member: owned[member] for member in ids}


def _count_before(rng: random.Random, count: int, grown: bool, ghosts: bool) -> int:
    if ghosts and rng.random() < 0.5:
        return count + rng.randint(1, 3)
    return rng.randint(0, count) if grown else count


def _disturb(rng: random.Random, owned: Claims, ids: list[str]) -> None:
    """Partitions claimed by two or three members."""
    claimed = sorted({partition for partitions in owned.values() for partition in partitions})
    if len(ids) < 2 or not claimed or rng.random() < 0.6:
        return
    share = rng.choice([0.05, 0.2, 0.6])
    more = rng.choice([1, 1, 2])
    for partition in claimed:
        if rng.random() < share:
            for member in rng.sample(ids, min(more, len(ids))):
                owned[member].add(partition)


def _reported(
    rng: random.Random, strategy: str, claims: list[tuple[str, int]], new: bool, stale: bool
) -> dict[str, Any]:
    """The ownership and generations that a member of this assignor can tell (see tests/golden/README-client.md)."""
    owned = [list(partition) for partition in claims]
    if new and rng.random() < 0.9:
        return {"owned": owned, "generation": None}
    generation = GENERATION - rng.randint(1, 3) if stale else GENERATION
    reported: dict[str, Any] = {"owned": owned, "generation": generation}
    odd = rng.random()
    if odd < 0.06:  # thrown out and back: the user data is all that is left of the past
        reported |= {"generation": None, "user_generation": generation}
    elif odd < 0.1:  # a client older than generations
        reported |= {"generation": None}
    elif odd < 0.14:
        reported |= {"user_generation": GENERATION - rng.randint(1, 2)}
    elif odd < 0.16 and strategy == "sticky":  # user data older than generations in a newer subscription
        reported |= {"user_generation": None}
    if reported.get("user_generation", generation) == reported["generation"]:
        reported.pop("user_generation", None)
    return reported
