"""Profiles of older clients wherever an assignor's name stands."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from spark_assign import ConfigError, Fleet, compare, converge, plan
from tests.spark import fleets

OWNED = [("C0", "t0", 0, 0), ("C0", "t0", 1, 1), ("C0", "t1", 0, 2)]
NAMES = ["range@3.4", "roundrobin@2.8", "sticky@3.5", "cooperative-sticky@3.2"]


def _fleet(spark: SparkSession, positions: bool = False) -> Fleet:
    """C0 owns all of t0 and t1, and C1 joins; told backwards, if positions are."""
    with_positions = [("c", "g", member, topic, partition, 2 - place) for member, topic, partition, place in OWNED]
    return fleets.fleet(
        spark,
        topics={"t0": 2, "t1": 1},
        members=[("c", "g", "C0", None, None, None, None, 1), ("c", "g", "C1")],
        subscriptions=[("c", "g", member, topic) for member in ("C0", "C1") for topic in ("t0", "t1")],
        owned=with_positions if positions else [row[:5] for row in with_positions],
    )


def _owners(fleet: Fleet, assignor: str) -> list[tuple[str, str, int]]:
    return fleets.tuples(plan(fleet, {"g*": assignor}).assignments, "member_id", "topic", "partition")


@pytest.mark.spark
def test_profiles_are_compared_under_their_full_names(spark: SparkSession) -> None:
    """A row each; the cooperative one takes two rounds, the eager ones one."""
    compared = compare(_fleet(spark), NAMES).comparison
    rows = compared.select("assignor", "rounds", "moved", "unassigned", "rejected").collect()
    assert {row["assignor"]: row["rounds"] for row in rows} == dict(zip(NAMES, (1, 1, 1, 2), strict=True))
    assert {row["assignor"]: row["moved"] for row in rows} == dict(zip(NAMES, (1, 1, 1, 1), strict=True))
    assert {(row["unassigned"], row["rejected"]) for row in rows} == {(0, None)}


@pytest.mark.spark
def test_profiles_by_pattern_and_in_rounds(spark: SparkSession) -> None:
    """What 3.5 and today keep differs; positions decide in 3.5; and cooperative profiles are followed."""
    fleet = _fleet(spark)
    assert _owners(fleet, "sticky@3.5") == [("C0", "t0", 0), ("C0", "t0", 1), ("C1", "t1", 0)]
    assert (
        _owners(fleet, "sticky@3.9")
        == _owners(fleet, "sticky")
        == [*(("C0", "t0", 0), ("C0", "t1", 0), ("C1", "t0", 1))]
    )
    backwards = _fleet(spark, positions=True)
    assert _owners(backwards, "sticky@3.5") == [("C0", "t0", 1), ("C0", "t1", 0), ("C1", "t0", 0)]
    assert _owners(fleets.with_owned_lists(backwards), "sticky@3.5") == _owners(backwards, "sticky@3.5")
    assert _owners(backwards, "sticky") == _owners(fleet, "sticky")
    rounds = converge(fleet, "cooperative-sticky@2.8").orderBy("round").collect()
    assert [(row["assignor"], row["round"], row["stable"]) for row in rounds] == [
        ("cooperative-sticky@2.8", 1, False),
        ("cooperative-sticky@2.8", 2, True),
    ]
    with pytest.raises(ConfigError, match=r"'sticky@1\.1'.* 2\.4 \(2\.4\.0 to 2\.5\.0\)"):
        plan(fleet, {"*": "sticky@1.1"})
