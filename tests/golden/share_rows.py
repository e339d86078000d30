"""The recorded rows of share groups (`README-848.md`, sections 1 and 4), and what our kernel makes of them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spark_assign.groups.assignors.server.coordinator_hash_order import read_topic_ids
from spark_assign.java.hash_map import text_walk
from spark_assign.share.kernel.pool_assignment import STAYS, UNSUBSCRIBED
from spark_assign.share.kernel.simple_assignor import ShareGroupSpecs, assign_simple

Row = dict[str, Any]
Got = dict[str, dict[str, list[int]]] | str
"""member id -> uuid -> partitions, ascending; or what Kafka throws."""

ROWS, FAILING = 500, 5
FAILS = "NoSuchElementException"


def rows() -> list[Row]:
    """All of them."""
    path = Path(__file__).parent / "share-groups.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        every = [json.loads(line) for line in lines]
    assert len(every) == ROWS
    assert sum("error" in row for row in every) == FAILING
    return every


def expected(row: Row) -> Got:
    """What Kafka's class answered. A topic of which a member has no partition left is there, with none."""
    if row.get("error") is not None:
        return str(row["error"]["class"])
    return {member: dict(got) for member, got in row["expect"].items() if got}


def answered(rows: Sequence[Row]) -> list[Got]:
    """What our kernel answers, all rows side by side, from the recorded orders of members, topics and partitions."""
    columns: dict[str, list[int]] = {name: [] for name in ShareGroupSpecs.__dataclass_fields__}
    topics: list[str] = []
    members: list[str] = []
    empty: list[tuple[int, int]] = []
    for group, row in enumerate(rows):
        named = [*row["topics"], *(topic for member in row["members"] for topic, _ in member["previous"])]
        named += [topic for member in row["members"] for topic in member.get("previous_empty", [])]
        number = {topic: len(topics) + at for at, topic in enumerate(dict.fromkeys(named))}
        topics += number
        columns["topic_group"] += [group] * len(number)
        columns["alike"].append(row["subscription_type"] == "HOMOGENEOUS")
        for topic, told in row["topics"].items():
            assignable = row.get("assignable", {topic: range(told["partitions"])}).get(topic, [])
            columns["topic"] += [number[topic]] * len(assignable)
            columns["partition"] += assignable
        for member in row["members"]:
            me = len(members)
            members.append(member["id"])
            columns["group"].append(group)
            columns["names"].append(bool(member["topics"]) or "unresolved" in member)
            columns["asking"] += [me] * len(member["topics"])
            columns["asked"] += [number[topic] for topic in member["topics"]]
            columns["member"] += [me] * len(member["previous"])
            columns["had_topic"] += [number[topic] for topic, _ in member["previous"]]
            columns["had"] += [partition for _, partition in member["previous"]]
            empty += [(me, number[topic]) for topic in member.get("previous_empty", [])]
    columns["topic_hash"] = read_topic_ids(topics).hash.tolist()
    flags = ("names", "alike")
    groups = ShareGroupSpecs(**{k: np.array(v, bool if k in flags else np.int64) for k, v in columns.items()})
    answer = assign_simple(groups)
    got: list[Got] = [FAILS if failed else {} for failed in answer.failed.tolist()]

    def of(member: int, topic: int) -> list[int]:
        mine = got[columns["group"][member]]
        return [] if isinstance(mine, str) else mine.setdefault(members[member], {}).setdefault(topics[topic], [])

    kept = zip(*(columns[name] for name in ("member", "had_topic", "had")), answer.reason.tolist(), strict=True)
    for member, topic, partition, reason in kept:
        if reason == STAYS:
            of(member, topic).append(partition)
        elif reason != UNSUBSCRIBED:
            of(member, topic)
    for each in zip(answer.member.tolist(), answer.topic.tolist(), answer.partition.tolist(), strict=True):
        of(*each[:2]).append(each[2])
    for member, topic in empty:
        if not answer.dropped[topic]:
            of(member, topic)
    for mine in got:
        for topics_of in () if isinstance(mine, str) else mine.values():
            for partitions in topics_of.values():
                partitions.sort()
    return got


def told_by_a_fleet(row: Row) -> bool:
    """Whether a fleet's tables say all that the answer hangs on: not, of a bucket with more than eight members, in
    which order the recorded walk met them."""
    ids = [member["id"] for member in row["members"]]
    return text_walk(ids) == ids


def tables(row: Row) -> dict[str, list[tuple[Any, ...]]]:
    """One case as rows of a fleet's tables, its cluster being the case.

    Names that no topic has are made up. Where a group counts as one of differing subscriptions although they seem the
    same, these names differ.
    """
    case, group = row["case"], (row["case"], "group")
    name = {topic: told["name"] for topic, told in row["topics"].items()}
    told: dict[str, list[tuple[Any, ...]]] = {
        "topics": [(case, each["name"], each["partitions"], topic) for topic, each in row["topics"].items()],
        "groups": [(*group, None, "share", *[None] * 6)],
        "members": [],
        "subscriptions": [],
        "owned_runs": [],
        "initialized": [],
    }
    differing = row["subscription_type"] == "HETEROGENEOUS"
    for position, member in enumerate(row["members"]):
        key = (*group, member["id"])
        told["members"].append((*key, member["instance"], None, None, member["rack"], None, None, position, None))
        unknown = [f"unknown-{number}" for number in range(member.get("unresolved", 0))]
        if differing and position == 0:
            unknown = [*unknown[:-1], "unknown-of-one"] if unknown else ["unknown-of-one"]
        told["subscriptions"] += [(*key, topic) for topic in (*(name[each] for each in member["topics"]), *unknown)]
        had = [(name.get(topic, topic), at, 1, 1) for topic, at in member["previous"]]
        had += [(name.get(topic, topic), 0, 1, 0) for topic in member.get("previous_empty", [])]
        told["owned_runs"] += [(*key, *each, place) for place, each in enumerate(had)]
    if "assignable" in row:
        for topic in row["topics"]:
            some = row["assignable"].get(topic, [])
            told["initialized"] += [(*group, name[topic], at, 1, 1) for at in some] or [(*group, name[topic], 0, 1, 0)]
    return told


def named(row: Row, got: Got) -> Got:
    """The same with the names of topics."""
    name = {topic: told["name"] for topic, told in row["topics"].items()}
    if isinstance(got, str):
        return got
    return {member: {name.get(topic, topic): at for topic, at in mine.items()} for member, mine in got.items()}
