"""Golden-format rows planned by the sticky kernels alone, without Spark: thousands of groups in a second."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from spark_assign.assignors.group_facts import (
    FACT_TYPES,
    GROUP,
    MEMBER,
    OWNED_ORDER,
    OWNED_SLICE,
    REPLICA_RACKS,
    SUBSCRIPTION,
    find_faults,
    index_facts,
)
from spark_assign.assignors.sticky.assign_sticky import exception_text
from spark_assign.groups.kernel.convergence import simulate_rounds
from spark_assign.groups.kernel.plan_groups import ASSIGNED, REJECTED, WITHHELD, PlanParams, plan_groups
from spark_assign.groups.kernel.read_specs import read_group_specs
from spark_assign.numeric.arrays import compress_sorted
from tests.golden.vectors import Row, Sets
from tests.slices import topic_partitions

_FACTS = pa.schema(FACT_TYPES)
_USED = pa.schema(
    [
        _FACTS.field(name)
        for name in (
            *("cluster", "group_id", "kind", "group_type", "subscription_type", "member_id", "group_instance_id"),
            *("rack_id", "generation_id", "user_data_generation_id", "position", "topic", "partitions", "topic_id"),
            *("first", "step", "count", "at", "racks", "leader_racks"),
        )
    ]
)
"""The columns that `_facts_of` fills. Arrow takes most of the time of a row for the columns that it lacks."""
_RUNS = ("kind", "cluster", "member_id", "topic", "first", "step", "count", "detail")
_KINDS = frozenset({ASSIGNED, WITHHELD, REJECTED})


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
    """Rows as the facts that `spark_assign.groups.kernel` reads; with `runs`, ownership as few long runs."""
    lines = [{"cluster": row["case"], "group_id": "group", **fact} for row in rows for fact in _facts_of(row, runs)]
    assert {name for line in lines for name in line} <= set(_USED.names)
    used = pa.Table.from_pylist(lines, schema=_USED)
    columns = [used[each.name] if each.name in _USED.names else pa.nulls(len(used), each.type) for each in _FACTS]
    return pa.Table.from_arrays(columns, schema=_FACTS)


def _facts_of(row: Row, runs: bool) -> Iterator[dict[str, Any]]:
    partitions = row["topics"]
    if "subscription_type" in row:
        yield {"kind": GROUP, "group_type": "consumer", "subscription_type": row["subscription_type"]}
    for position, member in enumerate(row["members"]):
        user_data_generation = None
        if "user_generation" in member:
            user_data_generation = -1 if member["user_generation"] is None else member["user_generation"]
        generations = {"generation_id": member["generation"], "user_data_generation_id": user_data_generation}
        static = {"group_instance_id": member.get("instance"), "rack_id": member["rack"] or None}
        yield {"kind": MEMBER, "member_id": member["id"], "position": position} | static | generations
        for topic in member["topics"]:
            known = {"partitions": partitions.get(topic), "topic_id": row.get("topic_ids", {}).get(topic)}
            yield {"kind": SUBSCRIPTION, "member_id": member["id"], "topic": topic} | known
        for topic, first, step, count in _owned(member["owned"], runs):
            run = {"partitions": partitions.get(topic), "first": first, "step": step, "count": count}
            yield {"kind": OWNED_SLICE, "member_id": member["id"], "topic": topic} | run
        of_topic: dict[str, list[int]] = defaultdict(list)
        for topic, partition in member["owned"]:
            of_topic[topic].append(partition)
        for place, (topic, at) in enumerate(of_topic.items()):
            yield {"kind": OWNED_ORDER, "member_id": member["id"], "topic": topic, "position": place, "at": at}
    for topic, replicas in (row.get("replica_racks") or {}).items():
        racks = [sorted({rack for rack in of if rack is not None}) for of in replicas]
        leaders = {"leader_racks": row["leader_racks"][topic]} if "leader_racks" in row else {}
        yield {"kind": REPLICA_RACKS, "topic": topic, "at": list(range(len(racks))), "racks": racks} | leaders


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


def decided(group_facts: pa.Table, strategy: str) -> Answer:
    """What the kernels make of facts."""
    question = PlanParams((("*", strategy),), (strategy,), required_kinds=_KINDS, racks_known=True)
    answer = Answer()
    for run in pa.concat_tables(list(plan_groups(group_facts, question))).select(_RUNS).to_pylist():
        if run["kind"] == REJECTED:
            answer.refused[run["cluster"]] = exception_text(run["detail"]) or run["detail"].partition(": ")[2]
            continue
        sets = answer.withheld if run["kind"] == WITHHELD else answer.sets
        got = sets.setdefault(run["cluster"], {}).setdefault(run["member_id"], set())
        got |= topic_partitions([run])
    return answer


def counted_rounds(rows: Iterable[Row], limit: int) -> dict[str, int]:
    """Of each case of cooperative-sticky, in how many rounds it comes to rest; at most `limit`."""
    group_facts = index_facts(facts(rows))
    specs = read_group_specs(group_facts, set(find_faults(group_facts)))
    counted: dict[str, int] = {}
    for each in simulate_rounds("cooperative-sticky", specs, np.ones(specs.num_groups, bool), limit):
        counted |= dict.fromkeys(specs.cluster.take(pa.array(each.group)).to_pylist(), each.number)
    return counted
