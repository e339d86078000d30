"""Random Streams groups in the row format of the golden files, for live comparison with the broker's classes."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any
from uuid import UUID

from tests.golden.streams_rows import Row
from tests.kafka import java_tables

Tasks = dict[str, list[int]]


def groups(seed: int, number: int) -> Iterator[Row]:
    """Groups in whatever state: what members have is what an assignor never gave them, as often as not."""
    random = Random(f"streams-{seed}")
    for at in range(number):
        row = _group(random)
        for member in row["members"]:
            _own(random, row, member)
        yield row | {"case": f"seed-{seed}-{at:04d}"}


def sequences(seed: int, number: int) -> list[Row]:
    """Groups in which nobody has anything yet, to be led on by `led_on`."""
    random = Random(f"streams-sequences-{seed}")
    return [_group(random) | {"case": f"seed-{seed}-{at:04d}", "round": 0} for at in range(number)]


def led_on(seed: int, row: Row) -> Row:
    """The next round of a group: everybody has what the round before gave it, and something has changed."""
    random = Random(f"{seed}-{row['case']}-{row['round']}")
    answer = row["expect"]
    members = [_after(random, member, answer[member["id"]]) for member in row["members"]]
    change = random.choice(["join", "leave", "leave", "grow", "standby", "steady", "restart"])
    subtopologies = {name: dict(values) for name, values in row["subtopologies"].items()}
    replicas = row["standby_replicas"]
    if change == "join":
        processes = [member["process"] for member in members]
        members.insert(random.randrange(len(members) + 1), _member(random, [random.choice(processes), _id(random)]))
    elif change == "leave" and len(members) > 1:
        del members[random.randrange(len(members))]
    elif change == "grow":
        subtopologies[random.choice(sorted(subtopologies))]["partitions"] += random.randint(1, 5)
    elif change == "standby":
        replicas = random.randint(0, 3)
    elif change == "restart":  # a process comes back under new ids, and remembers what is on its disk
        process = random.choice(members)["process"]
        for member in members:
            if member["process"] == process:
                member |= {"id": _id(random), "active": {}, "standby": {}}
    ids = {member["id"]: member for member in members}  # an id may have come twice
    fresh = {"members": list(ids.values()), "subtopologies": subtopologies, "standby_replicas": replicas}
    return {name: row[name] for name in ("case", "system")} | fresh | {"round": row["round"] + 1}


def _after(random: Random, member: Row, got: Row) -> Row:
    """A member that has reached its target, or has not yet; it reports offsets of what it had and has."""
    has = member if (random.random() < 0.1) else got
    known = {**_offsets(random, member["standby"], 0.5), **_offsets(random, has["active"], 0.7)}
    return member | {
        "active": dict(has["active"]),
        "standby": dict(has["standby"]),
        "offsets": known | _offsets(random, has["standby"], 0.8),
    }


def _offsets(random: Random, tasks: Tasks, share: float) -> dict[str, dict[str, int]]:
    """How far the state of some of these tasks is; ties are frequent."""
    offsets = {
        name: {str(task): random.choice([0, 5, 10, random.randrange(1000)]) for task in i if random.random() < share}
        for name, i in tasks.items()
    }
    return {name: of for name, of in offsets.items() if of}


def _group(random: Random) -> Row:
    size = random.choice([1, 2, 4, 10, 40])
    names = random.sample(["0", "1", "2", "10", "sub-a", "sub-B", "ü", "\U0001f600", "\uffee"], random.randint(1, 5))
    processes = [_id(random) for _ in range(random.randint(1, max(1, size)))]
    if random.random() < 0.2:
        processes = java_tables.one_hash(random, max(2, len(processes)))[: len(processes)]
    ids = {member["id"]: member for member in [_member(random, processes) for _ in range(random.randint(1, size))]}
    most = random.choice([2, 6, 30])
    return {
        "system": "streams-sticky",
        "standby_replicas": random.choice([0, 1, 1, 2, 3]),
        "subtopologies": {n: {"partitions": random.randint(1, most), "stateful": random.random() < 0.7} for n in names},
        "members": list(ids.values()),
    }


def _member(random: Random, processes: list[str]) -> dict[str, Any]:
    nothing: dict[str, Any] = {"active": {}, "standby": {}, "warmup": {}, "offsets": {}}
    return {"id": _id(random), "process": random.choice(processes)} | nothing


def _id(random: Random) -> str:
    if random.random() < 0.3:
        return f"m{random.randrange(60)}"
    return str(UUID(int=random.getrandbits(128)))


def _own(random: Random, row: Row, member: Row) -> None:
    """Tasks, some of them twice in the group or not there any more, and offsets of others."""
    share = random.choice([0.0, 0.1, 0.3, 0.8])
    roles: dict[str, Tasks] = {"active": {}, "standby": {}}
    dormant: Tasks = {}
    for name, subtopology in row["subtopologies"].items():
        for task in range(subtopology["partitions"] + 1):
            if random.random() < share:
                roles[random.choice(["active", "standby"])].setdefault(name, []).append(task)
            elif random.random() < 0.1:
                dormant.setdefault(name, []).append(task)
    member |= roles
    offsets: dict[str, dict[str, int]] = {}
    for tasks in (*roles.values(), dormant):
        for name, of in _offsets(random, tasks, 0.6).items():
            offsets.setdefault(name, {}).update(of)
    member["offsets"] = offsets
