"""Names and partitions that crowd into buckets of Java's hash maps, wherever Kafka iterates over one."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest

from spark_assign.assignors.group_facts import GROUP, MEMBER, OWNED_SLICE, SUBSCRIPTION
from spark_assign.assignors.sticky.sticky_groups import PartitionMovements
from spark_assign.connect.kernel.indexed_facts import IndexedConnectFacts, to_facts
from spark_assign.groups.kernel.plan_groups import ASSIGNED, PlanParams, plan_groups
from spark_assign.java.hash_map import string_hashes, texts_in_table_order
from spark_assign.replicas.kernel import placement_requests
from spark_assign.replicas.kernel import striped_replica_placer as striped
from spark_assign.share.kernel.plan_groups import plan_share_groups
from spark_assign.share.plan import PLAN_ROWS
from spark_assign.simulation.kernel.classic_group import ClassicGroup
from spark_assign.simulation.kernel.classic_group_member import ClassicGroupMember
from spark_assign.spark.dataframes import to_arrow_schema
from tests.cases import cases
from tests.plan_rows import facts_table

EQUAL_HASHES = ["".join(letters) for letters in itertools.product(["Aa", "BB"], repeat=5)]
"""Sorted, of one `String.hashCode`."""


def test_connect_iterates_a_second_map() -> None:
    """`memberAssignments` is made from the map of what workers have sent; before 3.3, there is the latter only."""
    ids = EQUAL_HASHES[:30]
    protocols = {"new": "compatible", "old": "compatible@3.2.3"}
    clusters = [{"connect_cluster": cluster, "protocol": protocol} for cluster, protocol in protocols.items()]
    workers = [{"connect_cluster": cluster, "worker_id": name} for cluster in protocols for name in ids]
    indexed = IndexedConnectFacts(to_facts({"clusters": clusters, "workers": workers}))
    ordered = indexed.ordered_workers()
    iterated = [indexed.workers.texts[name] for name in indexed.name[ordered]]
    first_order = texts_in_table_order(ids)
    assert {indexed.clusters[name] for name in indexed.cluster[ordered][:13]} == {"new"}
    assert (iterated[:30], iterated[30:]) == (texts_in_table_order(first_order), first_order)
    assert texts_in_table_order(first_order) != first_order


def test_the_order_in_which_late_members_are_removed() -> None:
    """Kafka collects them in one map, then those without an instance id in another; that is the order of removal."""
    group = ClassicGroup("g")
    for number, name in enumerate(EQUAL_HASHES[:30]):
        instance = "static" if number == 5 else None
        member = ClassicGroupMember(name, protocols=("range",), topics=("t",), group_instance_id=instance)
        group.add(member, awaiting_join=number % 10 == 0)
    member_ids = [member.member_id for member in group.all_members()]
    expected = texts_in_table_order([name for name in member_ids if EQUAL_HASHES.index(name) % 10])
    expected = texts_in_table_order([name for name in expected if name != EQUAL_HASHES[5]])
    assert [member.member_id for member in group.not_yet_rejoined_dynamic_members()] == expected
    assert expected != [name for name in member_ids if name in expected]


def test_racks_that_java_orders_by_identity_are_refused() -> None:
    """`Optional` does not compare: ten racks of one hash are a linked bucket, eleven a tree of no foreseeable order."""
    assert striped.find_order_error(EQUAL_HASHES[:10]) is None
    refused = striped.find_order_error(EQUAL_HASHES[:11])
    assert refused is not None
    assert refused.code == "identity-order"
    assert "System.identityHashCode" in refused.message


@cases("racks code", (EQUAL_HASHES[:11], "identity-order"), (EQUAL_HASHES[:10], None), (None, None))
def test_a_request_that_depends_on_identity_is_rejected(racks: list[str] | None, code: str | None) -> None:
    """For the striped placer alone: the other one knows no hash map."""
    request = {"cluster": "c", "topic": "t", "partitions": 1, "replication_factor": 1, "start_index": None, "seed": 1}
    request |= {"start_partition": 0, "brokers": 11, "racked": 11, "unfenced": 11, "overlaps": False}
    table = pa.Table.from_pylist([request | {"many_racks": racks}])
    assert placement_requests.validate_requests(table, placement_requests.STRIPED)["code"].to_pylist() == [code]
    assert placement_requests.validate_requests(table, placement_requests.ADMINUTILS)["code"].to_pylist() == [None]


def subscribers(group_id: str, topics: list[str]) -> list[dict[str, Any]]:
    """Two members that subscribe to all topics, of one partition each; the first owns all."""
    key = {"cluster": "c", "group_id": group_id}
    rows: list[dict[str, Any]] = [key | {"kind": MEMBER, "member_id": member} for member in ("a", "b")]
    for name in topics:
        topic = {"topic": name, "partitions": 1}
        rows += [key | {"kind": SUBSCRIPTION, "member_id": member} | topic for member in ("a", "b")]
        rows.append(key | {"kind": OWNED_SLICE, "member_id": "a", "first": 0, "step": 1, "count": 1} | topic)
    return rows


CROWD = ["".join(letters) for letters in itertools.product(["Aa", "BB"], repeat=13)]
"""8,192 names of one `String.hashCode`."""


@pytest.mark.parametrize("assignor", ["uniform", "uniform@4.0.0", "server-range"])
def test_topics_of_one_hash_code_are_planned(assignor: str) -> None:
    """Names compare, so Java's trees order them by name, and find them in logarithmic time."""
    assert len(set(string_hashes(CROWD).tolist())) == 1
    params = PlanParams((("*", assignor),), registered=(assignor,), custom={}, required_kinds=frozenset({ASSIGNED}))
    facts = facts_table(subscribers("crowd", CROWD) + subscribers("good", ["t"]))
    rows = [row for table in plan_groups(facts, params) for row in table.to_pylist()]
    assert {(row["kind"], row["group_id"]) for row in rows} == {(ASSIGNED, "crowd"), (ASSIGNED, "good")}


def test_topics_of_a_share_group_of_one_hash_code() -> None:
    """Its names compare, but its partitions don't: the group is rejected, and the other one is planned."""
    groups = {"crowd": EQUAL_HASHES, "good": ["t"]}
    rows = [row for name, topics in groups.items() for row in subscribers(name, topics)]
    rows += [{"cluster": "c", "group_id": name, "kind": GROUP, "group_type": "share"} for name in groups]
    for row in rows:
        row |= {"topic_id": "kYcGx5mSTBWtVzUuEmKbxw"} if row["kind"] == SUBSCRIPTION else {}
    planned = [row for t in plan_share_groups(facts_table(rows), to_arrow_schema(PLAN_ROWS)) for row in t.to_pylist()]
    assert {row["group_id"] for row in planned if row["kind"] == "assigned"} == {"good"}
    assert [(row["group_id"], row["code"]) for row in planned if row["code"]] == [("crowd", "identity-order")]


def test_moved_partitions_of_one_bucket() -> None:
    """A set of twelve moved partitions of one topic is a tree; their hash codes differ, so its order is known."""
    movements = PartitionMovements(string_hashes(["t"]))
    for number in range(12):
        movements.record_move(number, 0, 64 * number, 0, 1)
    (table,) = movements.between.values()
    assert table.treeified
    assert movements.partition_to_move(99, 0, 1, 0) == table.first()
