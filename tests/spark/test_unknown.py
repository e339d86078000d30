"""What is unknown isn't empty: without a table or a column, a plan is the same, or names what it lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_assign import Fleet, plan
from spark_assign.report.plan_summary import plan_text
from spark_assign.tables.groups import ALTERNATIVES, INPUT_TABLES, OWNERSHIP, REQUIRED_TABLES
from tests.docs.pages import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.once]

Tables = dict[str, DataFrame]
Without = Callable[[Tables], Iterator[tuple[tuple[str, ...], Tables]]]


def without_a_table(tables: Tables) -> Iterator[tuple[tuple[str, ...], Tables]]:
    """The tables without one of the optional ones; with the names to look for."""
    for name in tables.keys() - {*REQUIRED_TABLES, *ALTERNATIVES.values()}:
        names = OWNERSHIP if name in OWNERSHIP else (name, f"{name}.")
        yield names, {other: each for other, each in tables.items() if other != name}


def without_a_column(tables: Tables) -> Iterator[tuple[tuple[str, ...], Tables]]:
    """The tables without an optional column of one; with the name to look for."""
    for name, table in tables.items():
        for field in INPUT_TABLES[name].fields:
            if field.nullable and field.name in table.columns:
                yield (f"{name}.{field.name}",), {**tables, name: table.drop(field.name)}


def printed(fleet: Fleet) -> str:
    """The summary of the fleet's plan."""
    planned = plan(fleet)
    return plan_text(planned.metrics, planned.rejected, 30, fleet.unknown)


@pytest.mark.parametrize("without_one", [without_a_table, without_a_column])
def test_what_is_missing_is_named_or_changes_nothing(spark: SparkSession, without_one: Without) -> None:
    """The summary that the command prints of the sample's plan, once without each of them."""
    fleet = Fleet.read(
        spark,
        str(ROOT / "conf" / "sample-fleet"),
        tables={"loads": str(ROOT / "conf" / "sample-loads" / "loads.csv")},
    )
    tables = {name: table for name in INPUT_TABLES if (table := getattr(fleet, name)) is not None}
    complete = printed(fleet)
    assert "known" not in complete.replace("leader not known", "")
    silent = []
    for names, fewer in without_one(tables):
        text = printed(Fleet(**fewer))
        if text != complete and not any(name in text for name in names):
            silent.append((names, text))
    assert silent == []


def test_what_a_fleet_lacks(spark: SparkSession) -> None:
    """The sentences, of a fleet with as little as a plan needs."""
    key = "cluster string, group_id string, member_id string"
    fleet = Fleet(
        topics=spark.createDataFrame([("c", "t", 2)], "cluster string, topic string, partitions int"),
        members=spark.createDataFrame([("c", "g", "m", "a")], f"{key}, rack_id string"),
        subscriptions=spark.createDataFrame([("c", "g", "m", "t")], f"{key}, topic string"),
        groups=spark.createDataFrame([("c", "g", "range")], "cluster string, group_id string, assignor string"),
    )
    assert fleet.unknown == [
        "What members own isn't known (owned, owned_slices, owned_lists): every partition counts as moved to its first "
        "owner, and sticky assignors start from nothing.",
        "Racks of replicas aren't known (replicas, brokers), but 1 member has a rack: planned without racks.",
        "The type of 1 group isn't known (groups.group_type): planned as classic.",
        "Loads aren't known (loads): balance is by number of partitions.",
    ]


def test_a_leader_that_can_assign_otherwise(spark: SparkSession) -> None:
    """By whose rules its group is planned, and what differs."""
    key = "cluster string, group_id string"
    leader = f"{key}, assignor string, leader_library string, leader_version string, leader_confidence string"
    rows = [
        ("c", "g", "cooperative-sticky", "librdkafka", "2.4.0", "given"),
        ("c", "h", "range", "Java", "4.4", "given"),
    ]
    fleet = Fleet(
        topics=spark.createDataFrame([("c", "t", 2)], "cluster string, topic string, partitions int"),
        members=spark.createDataFrame([("c", group, "m") for group in "gh"], f"{key}, member_id string"),
        subscriptions=spark.createDataFrame(
            [("c", group, "m", "t") for group in "gh"], f"{key}, member_id string, topic string"
        ),
        groups=spark.createDataFrame(rows, leader),
    )
    lines = printed(fleet).splitlines()
    assert lines[lines.index("Notes:") + 1 :] == [
        "  c/g: planned by the rules of librdkafka 2.4.0 (given), as 2.6.1 (before, different subscriptions can count "
        "as balanced, or the leader never finishes, confluentinc/librdkafka#4783)"
    ]
