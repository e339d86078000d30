"""What franz-go's balancers answered, and what must hold of any of their answers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from spark_assign.assignors.release_rules import assignor_of_leader
from spark_assign.groups.kernel.plan_groups import (
    ASSIGNED,
    ORDER_DEPENDENT,
    REJECTED,
    WITHHELD,
    PlanParams,
    plan_groups,
)
from tests.golden import sticky_kernel
from tests.golden.vectors import FOLDER, Row
from tests.recorded_lines import read_rows
from tests.slices import topic_partitions

Partition = tuple[str, int]
Owners = dict[Partition, str]


@dataclass(frozen=True)
class Answer:
    """Who gets what in a group, in this round and after it, and what may go elsewhere."""

    assigned: Owners = field(default_factory=dict)
    withheld: Owners = field(default_factory=dict)
    order_dependent: set[Partition] = field(default_factory=set)


def rows(strategy: str) -> list[Row]:
    """The recorded rows of one balancer; `profile` is its name here.

    Members of sticky without a generation were recorded with user data that lacked four bytes too many: franz-go could
    not read it, and took them for members that own nothing. Given whole, it does read it. So here they own nothing.
    """
    found = [row for row in read_rows(FOLDER / "client-franz-go.jsonl.gz") if row["strategy"] == strategy]
    for row in found:
        row["profile"] = f"{strategy}@franz-go"
        for member in row["members"]:
            if strategy == "sticky" and member.get("user_generation", member["generation"]) is None:
                member["owned"] = []
    return found


def rows_of_release(strategy: str, release: str) -> list[Row]:
    """The same rows with the answers of a sticky balancer before 1.22, recorded in eight processes."""
    of_case = {
        row["case"]: {name: row[name] for name in ("stable", "expect", "alternatives")}
        for row in read_rows(FOLDER / "client-franz-go-releases.jsonl.gz")
        if (row["strategy"], row["release"]) == (strategy, release)
    }
    profile = assignor_of_leader(strategy, "franz-go", release)
    return [row | of_case[row["case"]] | {"profile": profile} for row in rows(strategy)]


def owners(answer: Mapping[str, Iterable[tuple[str, int]]]) -> Owners:
    """By partition."""
    return {(topic, at): member for member, got in answer.items() for topic, at in got}


def answers(row: Row) -> list[Owners]:
    """Every answer that was recorded of a row."""
    return [owners(each) for each in (row["expect"], *row.get("alternatives", ()))]


def planned(some: Iterable[Row], profile: str) -> dict[str, Answer]:
    """What the kernels make of rows."""
    given = list(some)
    wanted = frozenset({ASSIGNED, WITHHELD, ORDER_DEPENDENT, REJECTED})
    question = PlanParams((("*", profile),), (profile,), required_kinds=wanted, racks_known=True)
    found = {row["case"]: Answer() for row in given}
    for run in pa.concat_tables(list(plan_groups(sticky_kernel.facts(given), question))).to_pylist():
        assert run["kind"] != REJECTED, run
        answer = found[run["cluster"]]
        got = dict.fromkeys(topic_partitions([run]), run["member_id"])
        if run["kind"] == ORDER_DEPENDENT:
            answer.order_dependent.update(got)
        else:
            mine = answer.assigned if run["kind"] == ASSIGNED else answer.withheld
            assert not mine.keys() & got
            mine.update(got)
    return found


def wrong(answer: Answer, theirs: Owners) -> set[Partition]:
    """What was called sure and is not so in an answer of franz-go."""
    every = answer.assigned.keys() | answer.withheld.keys() | theirs.keys()
    return {at for at in every - answer.order_dependent if answer.assigned.get(at) != theirs.get(at)}


def assert_sure(some: Iterable[Row], found: Mapping[str, Answer]) -> None:
    """No recorded answer differs in anything called sure."""
    for row in some:
        for theirs in answers(row):
            assert not wrong(found[row["case"]], theirs), row["case"]


def broken(row: Row, theirs: Owners, withheld: Iterable[Partition] = ()) -> list[str]:
    """What an answer does not keep of what every answer must: all is assigned, once, and to subscribers."""
    asks = {member["id"]: set(member["topics"]) for member in row["members"]}
    subscribed = {(topic, at) for topic in set().union(*asks.values()) for at in range(row["topics"].get(topic, 0))}
    found = [f"{at} goes to {member}" for at, member in theirs.items() if at[0] not in asks[member]]
    if subscribed != theirs.keys() | set(withheld):
        found.append(f"not all is assigned: {sorted(subscribed ^ (theirs.keys() | set(withheld)))[:5]}")
    return found


def figures(row: Row, theirs: Owners) -> tuple[int, list[int]]:
    """How much stays with members that had it, and how many partitions members have, whoever has how many."""
    had = defaultdict(set)
    for member in row["members"]:
        for topic, at in member["owned"]:
            had[topic, at].add(member["id"])
    return sum(member in had[at] for at, member in theirs.items()), sorted(Counter(theirs.values()).values())
