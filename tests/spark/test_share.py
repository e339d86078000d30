"""Share groups of a fleet, planned by Spark and by the job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs import plan as plan_job
from spark_assign import Fleet, FleetError, plan
from spark_assign.share import plan_share
from spark_assign.tables.share import PLAN_TABLES
from tests.spark.fleets import assert_declared, stored, written_as_json

KEY = {"cluster": "c"}
TABLES: dict[str, list[dict[str, Any]]] = {
    "topics": [{"topic": "t", "partitions": 3}],
    "groups": [
        *({"group_id": group, "group_type": "share"} for group in ("s", "bad", "idle")),
        {"group_id": "k", "group_type": "consumer", "assignor": "range"},
    ],
    "members": [{"group_id": "s", "member_id": f"m{n}"} for n in range(4)]
    + [{"group_id": group, "member_id": "m"} for group in ("bad", "bad", "k")],
    "subscriptions": [{"group_id": "s", "member_id": f"m{n}", "topic": "t"} for n in range(4)]
    + [{"group_id": group, "member_id": "m", "topic": "t"} for group in ("bad", "k")],
    "owned": [{"group_id": "s", "member_id": f"m{n}", "topic": "t", "partition": n % 2} for n in range(4)],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound share group, a faulty one, one that nobody is in, and a group of another kind."""
    tables = {name: [KEY | row for row in rows] for name, rows in TABLES.items()}
    return written_as_json(tmp_path_factory.mktemp("share-fleet"), tables)


@pytest.fixture(scope="module")
def fleet(spark: SparkSession, folder: Path) -> Fleet:
    """The same as tables."""
    return Fleet.read(spark, str(folder))


def test_every_share_group_is_planned_or_rejected(fleet: Fleet) -> None:
    """And no other; the tables are those that are declared."""
    planned = plan_share(fleet)
    assert_declared(planned, PLAN_TABLES)
    rejected = planned.rejected.collect()
    assert [(row["group_id"], row["code"]) for row in rejected] == [("bad", "duplicate-member")]
    figures = {row["group_id"]: row for row in planned.metrics.collect()}
    assert set(figures) == {"s", "idle"}
    assert (figures["s"]["partitions"], figures["s"]["max_per_partition"], figures["idle"]["members"]) == (3, 2, 0)
    rows = planned.assignments.collect()
    assert {row["partition"] for row in rows} == {0, 1, 2}
    assert len({(row["member_id"], row["partition"]) for row in rows}) == len(rows)
    planned.unpersist()


def test_the_shape_of_the_input_does_not_matter(fleet: Fleet) -> None:
    """Other partitions, another order, ownership as runs: the same rows."""
    first = plan_share(fleet)
    shuffled = {
        name: getattr(fleet, name).repartition(7).orderBy("cluster", ascending=False)
        for name in ("topics", "members", "subscriptions", "groups")
    }
    again = plan_share(Fleet(**shuffled, owned_slices=fleet.ownership_slices()))
    for name in PLAN_TABLES:
        both = [sorted(map(str, getattr(each, name).collect())) for each in (first, again)]
        assert both[0] == both[1]
    first.unpersist()
    again.unpersist()


def test_who_leaves_gives_up_what_it_has(fleet: Fleet) -> None:
    """What if a member left: its partitions are taken, with that reason."""
    planned = plan_share(fleet.with_members_left(group_id="s", count=1))
    left = planned.changes.where("reason = 'member-left'").collect()
    assert [(row["member_id"], row["partition"], row["change"]) for row in left] == [("m0", 0, "revoked")]
    planned.unpersist()


def test_without_groups_there_are_no_share_groups(fleet: Fleet) -> None:
    """Nothing else says what is one."""
    with pytest.raises(FleetError, match=r"groups\.group_type: the table is missing"):
        plan_share(replace(fleet, groups=None))


def test_plan_rejects_them(fleet: Fleet) -> None:
    """With the command that plans them; other groups are planned."""
    planned = plan(fleet)
    rejected = {row["group_id"]: row for row in planned.rejected.collect()}
    assert set(rejected) == {"s", "bad", "idle"}
    assert {row["code"] for row in rejected.values()} == {"share-group"}
    assert "spark-assign plan" in rejected["s"]["detail"]
    assert [row["group_id"] for row in planned.metrics.collect()] == ["k"]


def test_the_job(spark: SparkSession, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A summary, the tables, and exit code 1 for the faulty group if asked for."""
    arguments = ["--output", str(tmp_path), "--run-id", "r", "--output-format", "json", "--fail-on", "rejected"]
    assert plan_job.main(["--fleet", str(folder), *arguments]) == 1
    printed = capsys.readouterr().out
    assert "Plan r: 1 group planned, 0 rejected, 1 member, 3 partitions assigned" in printed
    assert "2 share groups planned, 1 rejected: 4 members, 3 partitions" in printed
    assert "bad: duplicate-member: members: member_id=m" in printed
    assert {row["partition"] for row in stored(tmp_path, "share_assignments")} == {0, 1, 2}
    assert [row["group_id"] for row in stored(tmp_path, "assignments")] == ["k"] * 3
    assert stored(tmp_path, "rejected") == []


def test_rejected_groups_are_no_failure_by_default(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    """Exit code 0 without --fail-on; of the tables, those that are named and the required ones are stored."""
    arguments = ["--fleet", str(folder), "--output", str(tmp_path), "--output-tables", "share_changes"]
    assert plan_job.main(arguments) == 0
    names = {"metrics", "rejected", "share_changes", "share_metrics", "share_rejected"}
    assert {path.name for path in tmp_path.iterdir()} == names | {"plan_rows", "manifest"}
