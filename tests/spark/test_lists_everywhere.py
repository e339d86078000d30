"""Every pass over a fleet gives the same for subscriptions and ownership as lists and as rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_assign import Fleet, WhatIf, compare, converge, find_drift, plan, plan_migration, plan_upgrade
from spark_assign.advice import advise_membership, measure_zone_traffic, size_groups
from spark_assign.comparison.what_if import AS_IS
from spark_assign.tables.advice import MEMBERSHIP_TABLES, SIZE_TABLES, ZONES_TABLES
from spark_assign.tables.comparison import DRIFT_TABLES, MIGRATION_TABLES, UPGRADE_TABLES
from spark_assign.tables.groups import PLAN_TABLES
from tests.spark.fleets import fleet, tuples, with_lists, with_owned_lists

SAMPLE = Path(__file__).parents[2] / "conf" / "sample-fleet"

LESS = WhatIf("less", lambda fleet: fleet.with_members_left(count=1))

PASSES: dict[str, Callable[[Fleet], list[DataFrame]]] = {
    "plan": lambda fleet: tables(plan(fleet), PLAN_TABLES),
    "the broker": lambda fleet: [plan(fleet, "uniform").target, plan(fleet, "server-range").assignments],
    "libraries": lambda fleet: [plan(fleet, f"{name}@librdkafka").target for name in ("range", "cooperative-sticky")],
    "compare": lambda fleet: [compare(fleet, ["range", "sticky"], [AS_IS, LESS]).comparison],
    "converge": lambda fleet: [converge(fleet, "cooperative-sticky")],
    "diff": lambda fleet: tables(find_drift(fleet, LESS.apply(fleet)), DRIFT_TABLES),
    "size": lambda fleet: tables(size_groups(fleet), SIZE_TABLES),
    "membership": lambda fleet: tables(advise_membership(fleet), MEMBERSHIP_TABLES),
    "zones": lambda fleet: tables(measure_zone_traffic(fleet), ZONES_TABLES),
    "migrate": lambda fleet: tables(plan_migration(fleet), MIGRATION_TABLES),
    "upgrade": lambda fleet: tables(plan_upgrade(fleet, "4.0"), UPGRADE_TABLES),
}


def tables(result: object, names: Iterable[str]) -> list[DataFrame]:
    """The tables of a result."""
    return [getattr(result, name) for name in names]


def with_loads(fleet: Fleet) -> Fleet:
    """The fleet with different rates for its partitions."""
    assert fleet.replicas is not None
    rate = F.col("partition") % 7 + F.lit(1.0)
    rates = {"in_messages_per_second": rate, "in_bytes_per_second": rate * 1000, "lag": F.lit(0)}
    return replace(fleet, loads=fleet.replicas.select("cluster", "topic", "partition").withColumns(rates))


@pytest.mark.parametrize("name", PASSES)
def test_lists_are_rows(spark: SparkSession, name: str) -> None:
    """The sample fleet: its groups use every assignor."""
    sample = with_loads(Fleet.read(spark, str(SAMPLE)))
    of_rows, of_lists = (
        [sorted(map(str, table.collect())) for table in PASSES[name](form)]
        for form in (sample, with_owned_lists(with_lists(sample)))
    )
    assert of_lists == of_rows
    assert any(of_rows)


@pytest.mark.once
@pytest.mark.parametrize("answer", [plan, advise_membership])
@pytest.mark.parametrize("positions", [[], [0, 1]])
def test_positions_of_another_number_than_topics(
    spark: SparkSession, answer: Callable[[Fleet], Any], positions: list[int]
) -> None:
    """They reject their group, with the reason, and no other one."""
    owned = [("c", group, "m", ["t"], [0], [1], [2], at) for group, at in (("bad", positions), ("good", [0]))]
    subscribed = {group: {"m": "t"} for group in ("bad", "good")}
    groups = [("c", group, "range") for group in subscribed]
    found = answer(fleet(spark, subscribed, topics={"t": 2}, owned_lists=owned, groups=groups))
    [(group, code, detail)] = tuples(found.rejected, "group_id", "code", "detail")
    assert (group, code) == ("bad", "null-key")
    assert "or its lists, with positions, differ in length" in detail
