"""Range and round robin by windows, against the kernels of a simulated leader."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from spark_assign import plan
from spark_assign.groups import facts
from spark_assign.simulation.kernel.leader import assign
from tests.golden import leader_rows, tables, vectors
from tests.kafka import random_groups
from tests.spark import fleets


@pytest.mark.spark
@pytest.mark.parametrize("form", ["rows", "duplicates", "lists"])
@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
def test_windows_deal_as_the_leader_does(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, seed: int, assignor: str, form: str
) -> None:
    """Random groups: racks, static members, differing subscriptions, names beyond ASCII.

    Once more with one row for all topics with the same subscribers, and with subscriptions as lists.
    """
    if form != "rows":
        monkeypatch.setattr(facts, "MANY_TOPICS", 0)
    rows = list(random_groups.groups(assignor, seed, small=60, mid_size=0))
    asks = [leader_rows.ask_of(row, assignor) for row in rows]
    expected = leader_rows.sets_of(rows, asks, assign(asks))
    fleet = tables.fleet_of(spark, rows)
    planned = fleets.kept(plan(fleets.with_lists(fleet) if form == "lists" else fleet, assignor))
    assert vectors.differences(expected, tables.planned_sets(planned.assignments)) == []
    assert planned.rejected.isEmpty()


@pytest.mark.spark
@pytest.mark.parametrize("assignor", ["roundrobin", "cooperative-sticky"])
def test_topics_that_are_alike_change_nothing(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, assignor: str
) -> None:
    """Topics unknown and without partitions, subscribed to twice or by nobody known, without a name."""
    subscribed = {"g": ("t1", "t2", "t3", "t4", "gone", "gone too", "t1"), "h": ("t1", "t2"), "i": ("t1", None, "gone")}
    some = fleets.fleet(
        spark,
        {name: dict.fromkeys(("m1", "m2"), topics) for name, topics in subscribed.items()},
        topics={"t1": 3, "t2": 3, "t3": 0, "t4": 5},
        subscriptions=[("c", "g", "m1", "t5"), ("c", "h", "nobody", "t2")],
        owned={("g", "m1", "t1"): [0], ("g", "m1", "t4"): [0, 1]},
    )
    lists = fleets.with_lists(some)
    half = some.subscriptions.where("member_id = 'm1'")
    both = replace(lists, subscriptions=half, subscription_lists=lists.subscription_lists)
    answers = []
    for many_topics, form in ((facts.MANY_TOPICS, lists), (facts.MANY_TOPICS, some), (0, some), (0, lists), (0, both)):
        monkeypatch.setattr(facts, "MANY_TOPICS", many_topics)
        planned = fleets.kept(plan(form, assignor))
        answers.append(
            [sorted(map(str, getattr(planned, table).collect())) for table in ("moves", "metrics", "rejected")]
        )
    assert answers[1:] == answers[:1] * 4
    assert [len(rows) for rows in answers[0]] == [9 if assignor == "roundrobin" else 8, 1, 2]


@pytest.mark.spark
def test_groups_stay_whole_where_windows_shuffle_again(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting of Spark's makes every window shuffle by all of its keys, which would part a group's facts."""
    monkeypatch.setattr(facts, "ROWS_PER_TASK", 100)
    rows = list(random_groups.groups("range", 5, small=6, mid_size=0))
    for row in rows:
        for member in row["members"]:
            member["rack"] = None
    expected = tables.planned_sets(plan(tables.fleet_of(spark, rows), "range").assignments)
    spark.conf.set("spark.sql.requireAllClusterKeysForDistribution", "true")
    try:
        planned = fleets.kept(plan(tables.fleet_of(spark, rows), "range"))
        assert vectors.differences(expected, tables.planned_sets(planned.assignments)) == []
        assert planned.rejected.isEmpty()
    finally:
        spark.conf.unset("spark.sql.requireAllClusterKeysForDistribution")
