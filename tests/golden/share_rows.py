"""The recorded rows of share groups (`README-848.md`, sections 1 and 4), and what our kernel makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spark_assign.assignors.server.coordinator_order import read_topic_ids
from spark_assign.assignors.share.share_group_input import ShareGroupSpecs
from spark_assign.assignors.share.simple_assignor import KEPT, UNSUBSCRIBED, assign_simple
from tests.recorded_lines import read_rows

Row = dict[str, Any]
Got = dict[str, dict[str, list[int]]] | str
"""member id -> uuid -> partitions, ascending; or what Kafka throws."""

ROWS, FAILING = 500, 5
FAILS = "NoSuchElementException"


def rows() -> list[Row]:
    """All of them."""
    every = read_rows(Path(__file__).parent / "share-groups.jsonl.gz")
    assert len(every) == ROWS
    assert sum("error" in row for row in every) == FAILING
    return every


def expected(row: Row) -> Got:
    """Returns what Kafka's class assigned. A topic of which a member keeps no partition is present, with none."""
    if row.get("error") is not None:
        return str(row["error"]["class"])
    return {member: dict(got) for member, got in row["expect"].items() if got}


def assign_rows(rows: Sequence[Row]) -> list[Got]:
    """Returns what our kernel assigns, all rows at once, from the recorded orders of members, topics and partitions."""
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
        columns["homogeneous"].append(row["subscription_type"] == "HOMOGENEOUS")
        for topic, metadata in row["topics"].items():
            assignable = row.get("assignable", {topic: range(metadata["partitions"])}).get(topic, [])
            columns["assignable_topic"] += [number[topic]] * len(assignable)
            columns["assignable_partition"] += assignable
        for member in row["members"]:
            me = len(members)
            members.append(member["id"])
            columns["member_group"].append(group)
            columns["has_subscription"].append(bool(member["topics"]) or "unresolved" in member)
            columns["subscriber"] += [me] * len(member["topics"])
            columns["subscribed_topic"] += [number[topic] for topic in member["topics"]]
            columns["previous_member"] += [me] * len(member["previous"])
            columns["previous_topic"] += [number[topic] for topic, _ in member["previous"]]
            columns["previous_partition"] += [partition for _, partition in member["previous"]]
            empty += [(me, number[topic]) for topic in member.get("previous_empty", [])]
    columns["topic_hash"] = read_topic_ids(topics).hash.tolist()
    flags = ("has_subscription", "homogeneous")
    groups = ShareGroupSpecs(**{k: np.array(v, bool if k in flags else np.int64) for k, v in columns.items()})
    assignment = assign_simple(groups)
    got: list[Got] = [FAILS if failed else {} for failed in assignment.failed.tolist()]

    def of(member: int, topic: int) -> list[int]:
        mine = got[columns["member_group"][member]]
        return [] if isinstance(mine, str) else mine.setdefault(members[member], {}).setdefault(topics[topic], [])

    for member, topic, partition, reason in zip(
        *(columns[name] for name in ("previous_member", "previous_topic", "previous_partition")),
        assignment.reason.tolist(),
        strict=True,
    ):
        if reason == KEPT:
            of(member, topic).append(partition)
        elif reason != UNSUBSCRIBED:
            of(member, topic)
    for each in zip(assignment.member.tolist(), assignment.topic.tolist(), assignment.partition.tolist(), strict=True):
        of(*each[:2]).append(each[2])
    for member, topic in empty:
        if not assignment.is_removed[topic]:
            of(member, topic)
    for mine in got:
        for topics_of in () if isinstance(mine, str) else mine.values():
            for partitions in topics_of.values():
                partitions.sort()
    return got


def tables(row: Row) -> dict[str, list[tuple[Any, ...]]]:
    """One case as rows of a fleet's tables, its cluster being the case.

    Names that no topic has are made up. Where a group counts as one of differing subscriptions although they seem the
    same, these names differ.
    """
    case, group = row["case"], (row["case"], "group")
    name = {topic: metadata["name"] for topic, metadata in row["topics"].items()}
    fleet: dict[str, list[tuple[Any, ...]]] = {
        "topics": [(case, each["name"], each["partitions"], topic) for topic, each in row["topics"].items()],
        "groups": [(*group, None, "share", *[None] * 6)],
    }
    fleet |= {name: [] for name in ("members", "subscriptions", "owned_slices", "initialized")}
    differing = row["subscription_type"] == "HETEROGENEOUS"
    for position, member in enumerate(row["members"]):
        key = (*group, member["id"])
        fleet["members"].append((*key, member["instance"], None, None, member["rack"], None, None, position, None))
        unknown = [f"unknown-{number}" for number in range(member.get("unresolved", 0))]
        if differing and position == 0:
            unknown = [*unknown[:-1], "unknown-of-one"] if unknown else ["unknown-of-one"]
        fleet["subscriptions"] += [(*key, topic) for topic in (*(name[each] for each in member["topics"]), *unknown)]
        had = [(name.get(topic, topic), at, 1, 1) for topic, at in member["previous"]]
        had += [(name.get(topic, topic), 0, 1, 0) for topic in member.get("previous_empty", [])]
        fleet["owned_slices"] += [(*key, *each, place) for place, each in enumerate(had)]
    if "assignable" in row:
        for topic in row["topics"]:
            some = row["assignable"].get(topic, [])
            fleet["initialized"] += [(*group, name[topic], at, 1, 1) for at in some] or [(*group, name[topic], 0, 1, 0)]
    return fleet


def named(row: Row, got: Got) -> Got:
    """The same with the names of topics."""
    name = {topic: metadata["name"] for topic, metadata in row["topics"].items()}
    if isinstance(got, str):
        return got
    return {member: {name.get(topic, topic): at for topic, at in mine.items()} for member, mine in got.items()}
