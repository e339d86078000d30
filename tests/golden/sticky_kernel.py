"""Golden-format rows planned by the sticky kernels alone, without Spark: thousands of groups in a second."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from spark_assign.kernels.runs import compress_sorted
from spark_assign.kernels.sticky import plan_batch
from spark_assign.kernels.sticky_rounds import rounds
from spark_assign.kernels.sticky_table import CLASS, MEMBER, OWNED, TOPIC, read_sheet, write_decided
from tests.golden.vectors import Row, Sets

_NAMES = {name: pa.string() for name in ("cluster", "group_id", "member_id", "topic", "rack_id", "subscribers")}
_NUMBERS = {name: pa.int32() for name in ("first", "step", "count")}
_LISTS = {"at": pa.list_(pa.int32()), "racks": pa.list_(pa.list_(pa.string()))}
_FACTS = pa.schema({"kind": pa.int8(), **_NAMES, **_NUMBERS, **_LISTS})


@dataclass(frozen=True)
class Answer:
    """What the kernels made of some rows.

    Attributes:
        sets: what each member may own right after the round.
        withheld: what each member gets once its owner has given it up (cooperative only).
        refused: case to the exception that Kafka's class is expected to throw.
    """

    sets: Sets = field(default_factory=dict)
    withheld: Sets = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


def facts(rows: Iterable[Row], *, runs: bool = False) -> pa.Table:
    """Rows as the facts that `spark_assign.kernels.sticky_table` reads; with `runs`, ownership as few long runs."""
    lines = [{"cluster": row["case"], "group_id": "group"} | fact for row in rows for fact in _facts_of(row, runs)]
    return pa.Table.from_pylist(lines, schema=_FACTS)


def _facts_of(row: Row, runs: bool) -> Iterator[dict[str, Any]]:
    subscribers: dict[str, set[str]] = defaultdict(set)
    for position, member in enumerate(row["members"]):
        told = None
        if "user_generation" in member:
            told = -1 if member["user_generation"] is None else member["user_generation"]
        name = {"member_id": member["id"]}
        numbers = {"first": member["generation"], "step": told, "count": position}
        yield {"kind": MEMBER, **name, "rack_id": member["rack"] or None, **numbers}
        for topic, first, step, count in _owned(member["owned"], runs):
            yield {"kind": OWNED, **name, "topic": topic, "first": first, "step": step, "count": count}
        for topic in member["topics"]:
            subscribers[topic].add(member["id"])
    racks = row.get("replica_racks") or {}
    classes: dict[frozenset[str], str] = {}
    for topic, members in subscribers.items():
        number = classes.setdefault(frozenset(members), str(len(classes)))
        fact = {"kind": TOPIC, "topic": topic, "subscribers": number, "count": row["topics"].get(topic) or None}
        if topic in racks:
            fact["at"] = list(range(len(racks[topic])))
            fact["racks"] = [sorted({rack for rack in of if rack is not None}) for of in racks[topic]]
        yield fact
    for members_of_class, number in classes.items():
        if len(members_of_class) < len(row["members"]):
            yield from ({"kind": CLASS, "subscribers": number, "member_id": each} for each in members_of_class)


def _owned(owned: list[tuple[str, int]], runs: bool) -> Iterator[tuple[str, int, int, int]]:
    if not runs:
        yield from ((topic, partition, 1, 1) for topic, partition in owned)
        return
    of_topic: dict[str, list[int]] = defaultdict(list)
    for topic, partition in sorted(owned):
        of_topic[topic].append(partition)
    for topic, partitions in of_topic.items():
        numbers = np.array(partitions, np.int64)
        _, *columns = compress_sorted(np.zeros_like(numbers), numbers)
        for first, step, count in zip(*(column.tolist() for column in columns), strict=True):
            yield topic, first, step, count


def planned(rows: Iterable[Row], strategy: str) -> Answer:
    """All rows of one strategy, in one call of the kernels."""
    return decided(facts(rows), strategy)


def decided(told: pa.Table, strategy: str) -> Answer:
    """What the kernels make of facts."""
    cooperative = strategy == "cooperative-sticky"
    sheet = read_sheet(told, user_data=not cooperative, cooperative=cooperative)
    answer = Answer()
    for run in write_decided(sheet, plan_batch(sheet.batch)).to_pylist():
        if run["detail"] is not None:
            answer.refused[run["cluster"]] = run["detail"]
            continue
        sets = answer.withheld if run["withheld"] else answer.sets
        partitions = range(run["first"], run["first"] + run["step"] * run["count"], run["step"])
        got = sets.setdefault(run["cluster"], {}).setdefault(run["member_id"], set())
        got |= {(run["topic"], partition) for partition in partitions}
    return answer


def counted_rounds(rows: Iterable[Row], limit: int) -> dict[str, int]:
    """Of each case of cooperative-sticky, in how many rounds it comes to rest; at most `limit`."""
    sheet = read_sheet(facts(rows), user_data=False, cooperative=True)
    counted: dict[str, int] = {}
    for each in rounds(sheet.batch, sheet.claimed, sheet.departed, limit):
        counted |= dict.fromkeys(sheet.cluster.take(pa.array(each.group)).to_pylist(), each.number)
    return counted
