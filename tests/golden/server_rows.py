"""The recorded rows of the broker's assignors (`README-848.md`, section 1), and what our kernels make of each."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np

from spark_assign.assignors.range import range_slices
from spark_assign.assignors.server.uniform import TargetAssignments, assign_group, assign_homogeneous
from spark_assign.java.hash_map import java_key
from spark_assign.numeric.arrays import PartitionSlices, row_numbers
from tests.recorded_lines import read_rows

Row = dict[str, Any]
Sets = dict[str, set[tuple[str, int]]]
"""member id -> uuid and partition; a member that gets nothing has no entry."""

ROWS = 1_600
FILE_4_0_0 = Path(__file__).parent / "server-assignors-4.0.0.jsonl.gz"
"""Rows of uniform with equal subscriptions from Kafka 4.0.0, of which 4.0.1 answers 100 otherwise."""


def rows() -> list[Row]:
    """All of them."""
    every = read_rows(Path(__file__).parent / "server-assignors-4.4.jsonl.gz")
    assert len(every) == ROWS
    return every


def expected(row: Row) -> Sets:
    """What Kafka's class answered."""
    sets = {member: {(topic, a) for topic, p in got for a in p} for member, got in row["expect"].items()}
    return {member: got for member, got in sets.items() if got}


def answered(row: Row) -> Sets:
    """What our kernel answers, from the recorded orders of members, topics and partitions."""
    if row["system"] == "server-range":
        return _by_name(row, list(row["topics"]), _ranges(row))
    if row["subscription_type"] == "HOMOGENEOUS":
        topics = row["topic_iteration"]
        return _by_name(row, topics, _homogeneous(row, topics).slices)
    topics = list(row["topics"])
    return _by_name(row, topics, _heterogeneous(row, topics).slices)


def _by_name(row: Row, topics: list[str], runs: PartitionSlices) -> Sets:
    sets: Sets = {}
    for member, topic, first, step, count in zip(*(each.tolist() for each in runs.columns), strict=True):
        got = sets.setdefault(row["members"][member]["id"], set())
        some = {(topics[topic], partition) for partition in range(first, first + step * count, step)}
        assert len(some) == count, f"{row['case']}: a run has a partition twice"
        assert not got & some, f"{row['case']}: a partition is given twice"
        got |= some
    return sets


def _homogeneous(row: Row, topics: list[str]) -> TargetAssignments:
    members = np.zeros(len(row["members"]), np.int64)
    partitions = np.array([row["topics"][topic]["partitions"] for topic in topics], np.int64)
    topic_group, is_first = np.zeros(len(topics), np.int64), row.get("release") == "4.0.0"
    return assign_homogeneous(members, topic_group, partitions, previous(row, topics), extras_to_first=is_first)


def _heterogeneous(row: Row, topics: list[str]) -> TargetAssignments:
    subscribers: dict[str, list[int]] = {}
    for at, member in enumerate(row["members"]):
        for topic in member["topics"]:
            subscribers.setdefault(topic, []).append(at)
    topics[:] = [topic for topic in topics if topic in subscribers]
    sizes = [row["topics"][topic]["partitions"] for topic in topics]
    by_id = sorted(topics, key=signed_halves)
    ranks = [by_id.index(topic) for topic in topics]
    asking = [subscribers[topic] for topic in topics]
    return assign_group(len(row["members"]), asking, sizes, ranks, previous(row, topics))


def previous(row: Row, topics: list[str]) -> PartitionSlices:
    """What members had of topics that they subscribe to, in recorded order."""
    number = {topic: at for at, topic in enumerate(topics)}
    had = [
        (at, number[topic], partition, 1, 1)
        for at, member in enumerate(row["members"])
        for topic, partition in member["previous"]
        if topic in number and topic in member["topics"]
    ]
    return PartitionSlices(*np.array(had, np.int64).reshape(-1, 5).T)


def _ranges(row: Row) -> PartitionSlices:
    members, number = row["members"], {topic: at for at, topic in enumerate(row["topics"])}
    pairs = [(at, number[topic]) for at, member in enumerate(members) for topic in member["topics"]]
    member, topic = np.array(pairs, np.int64).reshape(-1, 2).T
    served = np.argsort(np.array(sorted(range(len(members)), key=lambda at: served_key(members[at])), np.int64))
    partitions = np.array([each["partitions"] for each in row["topics"].values()], np.int64)
    rows = np.lexsort((served[member], topic))
    member, topic = member[rows], topic[rows]
    first, count = range_slices(row_numbers(topic), np.bincount(topic)[topic], partitions[topic])
    return PartitionSlices(member, topic, first, np.ones_like(first), count).take(count > 0)


def served_key(member: Row) -> tuple[bool, bytes]:
    """Sorts members as ranges do: static ones by instance id, then the others by member id."""
    instance = member["instance"]
    return instance is None, java_key(member["id"] if instance is None else instance)


def client_row(row: Row) -> Row:
    """The same as rows of the clients' assignors (`README-client.md`) tell it: names for topics, beside their ids."""
    name = {topic: topic_row["name"] for topic, topic_row in row["topics"].items()}
    members = [
        {
            "id": m["id"],
            "instance": m["instance"],
            "rack": m["rack"],
            "generation": 1,
            "topics": [name[o] for o in m["topics"]] + [f"unresolved-{n}" for n in range(m.get("unresolved", 0))],
            "owned": [(name.get(t, t), p) for t, p in m["previous"]],
        }
        for m in row["members"]
    ]
    topics = {topic_row["name"]: topic_row["partitions"] for topic_row in row["topics"].values()}
    ids = {topic_row["name"]: topic for topic, topic_row in row["topics"].items()}
    about = {"case": row["case"], "subscription_type": row["subscription_type"].lower()}
    return about | {"topics": topics, "topic_ids": ids, "members": members, "replica_racks": None}


def signed_halves(uuid: str) -> tuple[int, int]:
    """Sorts topic ids as `Uuid.compareTo` does."""
    raw = base64.urlsafe_b64decode(uuid + "==")
    high, low = (int.from_bytes(half, "big", signed=True) for half in (raw[:8], raw[8:]))
    return high, low
