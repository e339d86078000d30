"""The facts of complete groups for advice: those of each adviser, from one pass."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from spark_assign.advice.kernel.advise import GroupParams, advise_groups
from spark_assign.advice.kernel.size import SizeParams
from spark_assign.advice.kernel.size_sweep import SizingCriteria
from spark_assign.advice.kernel.zones import ZoneParams
from spark_assign.assignors.group_facts import GROUP, LISTED_MEMBER, LISTED_TOPIC, MEMBER
from spark_assign.comparison.kernel.compare import CompareParams
from spark_assign.simulation.kernel.settings import TimingConfig
from tests.cases import cases, tuples
from tests.plan_rows import facts_table
from tests.unit.test_size import group

NAMES, TIMING = ("range", "sticky"), TimingConfig()
COMPARE = CompareParams(NAMES, ("as it is",), "as it is", TIMING, racks_known=True, loads_known=True)
SIZE = SizeParams(NAMES, SizingCriteria(headroom=0.0, quantile=0.5, timing=TIMING), NAMES)
ZONES = ZoneParams(follower_fetching=True)
ALL = GroupParams(COMPARE, SIZE, ZONES, min_members=3)


def found(params: GroupParams) -> list[dict[str, Any]]:
    """The facts of a group that is busy, one that reads two topics, one without members, and one with a fault."""
    key = {"cluster": "c"}
    two = key | {"group_id": "two", "list": 1}
    facts = [
        *group("busy", [10.0, 20.0, 30.0, 40.0], capacity=60.0),
        *group("two", [1.0]),
        *(two | {"kind": LISTED_MEMBER, "member_id": member} for member in ("m0", "m1")),
        two | {"kind": LISTED_TOPIC, "topic": "u", "partitions": 1},
        key | {"group_id": "idle", "kind": GROUP, "assignor": "range"},
        *[key | {"group_id": "faulty", "kind": MEMBER, "member_id": "m"}] * 2,
    ]
    rows: list[dict[str, Any]] = pa.concat_tables(list(advise_groups(facts_table(facts), params))).to_pylist()
    assert {row["cluster"] for row in rows} == {"c"}
    return rows


def columns(rows: list[dict[str, Any]], kind: str, *names: str) -> list[tuple[Any, ...]]:
    """Some columns of the rows of one kind, sorted."""
    return sorted((tuple(row[name] for name in names) for row in rows if row["kind"] == kind), key=str)


def test_facts_of_all_advisers() -> None:
    """Range assigns 30 + 40 messages/s to one of two members of the busy group; with three, the first has 10 + 20."""
    rows = found(ALL)
    load = ("group_id", "assignor", "members", "load_max_over_mean", "current_assignor")
    assert columns(rows, "compared", *load)[:4] == tuples(
        "busy range 2 1.4 range; busy sticky 2 1.2 range; faulty range None None None; faulty sticky None None None"
    )
    size = ("group_id", "assignor", "members", "verdict", "needed", "max_load", "max_load_needed", "capacity")
    assert columns(rows, "size", *size) == [
        ("busy", "range", 2, "under-provisioned", 3, 70.0, 40.0, 60.0),
        ("busy", "sticky", 2, "right-sized", 2, 60.0, 60.0, 60.0),
        ("two", "range", 2, "unknown", None, 1.0, None, None),
        ("two", "sticky", 2, "unknown", None, 1.0, None, None),
    ]
    curves = columns(rows, "curve", "group_id", "assignor", "members", "max_load", "keeps_up")
    assert curves[:2] == [("busy", "range", 3, 40.0, True), ("busy", "sticky", 3, 40.0, True)]
    assert {members for _, _, members, _, _ in curves} == {3}
    options = columns(rows, "option", "group_id", "assignor", "follower_fetching", "members", "partitions")
    assert ("busy", "current", False, 2, 4) in options
    assert ("idle", "current", True, 0, 0) in options
    assert ("two", "sticky", True, 2, 2) in options
    got = columns(rows, "rejected", "group_id", "adviser", "code")
    assert got == tuples("faulty size duplicate-member; faulty zones duplicate-member; idle size no-members")
    assert columns(rows, "reader", "group_id", "topic") == [("busy", "t"), ("two", "t"), ("two", "u")]
    assert {(row["kind"], row["adviser"]) for row in rows} == {
        *(("compared", None), ("reader", None), ("size", "size"), ("curve", "size"), ("option", "zones")),
        *(("rejected", "size"), ("rejected", "zones")),
    }


@cases(
    "params kinds",
    (GroupParams(COMPARE, None, None, 2), {"compared"}),
    (GroupParams(COMPARE, None, ZONES, 2), {"compared", "option", "reader", "rejected"}),
    (GroupParams(COMPARE, SIZE, None, 2), {"compared", "size", "curve", "rejected"}),
)
def test_advisers_that_lack_a_table(params: GroupParams, kinds: set[str]) -> None:
    """They have no facts."""
    assert {row["kind"] for row in found(params)} == kinds
