"""An assignor of one's own, beside the built-in ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib.metadata import EntryPoint

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_assign import plan, register
from spark_assign.assignors import GroupAssignor, GroupSpec
from spark_assign.groups import planning
from spark_assign.groups.planning import assignor_names
from spark_assign.tables.errors import ConfigError
from tests.spark.fleets import fleet, kept, tuples

pytestmark = pytest.mark.spark


class Weighted(GroupAssignor):
    """Partitions in proportion to the weight that each member sends as user data."""

    def assign_group(self, group: GroupSpec) -> Mapping[str, Iterable[tuple[str, int]]]:
        given: dict[str, list[tuple[str, int]]] = {member.member_id: [] for member in group.members}
        for topic, count in group.partitions.items():
            for partition in range(count):
                member = min(group.members, key=lambda m: (len(given[m.member_id]) + 1) / float(str(m.user_data)))
                given[member.member_id].append((topic, partition))
        return given


class Broken(GroupAssignor):
    """Goes wrong in one way or another, as the group's name asks."""

    def assign_group(self, group: GroupSpec) -> Mapping[str, Iterable[tuple[str, int]]]:
        first = group.members[0].member_id
        return {
            "fine": {first: [("t", 0)]},
            "twice": {first: [("t", 0), ("t", 0)]},
            "beyond": {first: [("t", 99)]},
            "stranger": {"x": [("t", 0)]},
        }[group.group_id]


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "_registered", {})


def test_user_data_reaches_a_custom_assignor(spark: SparkSession) -> None:
    """And it plans beside the built-in ones, in one plan."""
    register("weighted", Weighted())
    both = fleet(spark, dict.fromkeys(("w", "r"), dict.fromkeys(("m1", "m2"), "t")), topics={"t": 8})
    weight = F.when(F.col("member_id") == "m1", "3").otherwise("1")
    both = replace(both, members=both.members.withColumn("user_data", weight))
    planned = kept(plan(both, {"w": "weighted", "*": "range"}))
    assert tuples(planned.metrics, "group_id", "assignor", "max_per_member") == [
        ("r", "range", 4),
        ("w", "weighted", 6),
    ]
    assert planned.assignments.count() == 16
    assert planned.moves.where(F.col("reason") != "new").count() == 0


@pytest.mark.once
def test_what_goes_wrong_in_one_group_stays_there(spark: SparkSession) -> None:
    """Exceptions and impossible assignments reject the group; the detail names the assignor and the fault."""
    register("broken", Broken())
    groups = {name: {"m": "t"} for name in ("fine", "twice", "beyond", "stranger", "missing")}
    many = fleet(spark, groups, topics={"t": 3}, owned={("fine", "m", "t"): [0, 1]})
    planned = kept(plan(many, "broken"))
    assert tuples(planned.assignments) == [("c", "fine", "m", "t", 0)]
    assert tuples(planned.metrics, "group_id", "unassigned", "moved", "revoked") == [("fine", 2, 0, 1)]
    assert tuples(planned.moves, "partition", "reason") == [(1, "unassigned")]
    rejected = {group_id: detail for _, group_id, code, detail in tuples(planned.rejected) if code == "assignor-failed"}
    assert rejected == {
        "beyond": "Broken: ValueError: it assigns t-99, which does not exist or nobody subscribes to",
        "missing": "Broken: KeyError: 'missing'",
        "stranger": "Broken: ValueError: it assigns to 'x', which isn't a member of the group",
        "twice": "Broken: ValueError: it assigns t-0 to 'm' and to 'm'",
    }


def test_installed_packages_offer_assignors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the entry point `spark_assign.assignors`, as a class or as an object."""
    point = EntryPoint("from-a-package", "tests.spark.test_custom_assignor:Weighted", planning.ENTRY_POINTS)
    monkeypatch.setattr(planning, "entry_points", lambda group: [point] if group == planning.ENTRY_POINTS else [])
    planning._installed.cache_clear()
    try:
        own = ["cooperative-sticky", "rack-server-range", "rack-uniform", "range", "roundrobin", "server-range"]
        assert sorted(assignor_names()) == sorted([*own, "sticky", "uniform", "weighted-sticky", "from-a-package"])
        assert type(planning.find_assignor("from-a-package")).__name__ == "Weighted"
    finally:
        planning._installed.cache_clear()


def test_only_assignors_can_be_registered() -> None:
    """A mistake is reported at once, not in the middle of a plan."""
    with pytest.raises(ConfigError, match="has no assign"):
        register("wrong", object())  # type: ignore[arg-type]
