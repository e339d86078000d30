"""An upgrade of clients by Spark: no group is left out, tables agree with schemas, and the job writes and prints."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs import migrate as job
from spark_assign import plan_upgrade
from spark_assign.tables.comparison import UPGRADE_TABLES
from spark_assign.tables.errors import ConfigError
from tests.spark.fleets import REFUSED, assert_declared, kept, mixed, stored, tuples, two_members

pytestmark = [pytest.mark.spark]


def test_no_group_is_left_out(spark: SparkSession) -> None:
    """Each is in upgrades or, with the reason, in rejected; steps are of those that are played, and add up."""
    given = mixed(spark).with_leader_client("Java", "2.8", group_id="*ar")
    found = kept(plan_upgrade(given, "3.9"))
    assert_declared(found, UPGRADE_TABLES)
    rows = {row["group_id"]: row for row in found.upgrades.collect()}
    verdicts = {name: row["verdict"] for name, row in rows.items()}
    assert {name: verdicts[name] for name in ("alone", "empty", "served")} == {
        "alone": "unknown",
        "empty": "ready",
        "served": "done",
    }
    assert set(verdicts) == {"alone", "empty", "served", "near", "far"}
    assert rows["near"]["from_rules"] == rows["far"]["from_rules"] == "2.8"
    assert tuples(found.rejected, "group_id", "code") == REFUSED
    steps = found.steps.collect()
    assert {row["group_id"] for row in steps} == {"near", "far"}
    for name in ("near", "far"):
        mine = [row for row in steps if row["group_id"] == name]
        assert sum(row["moved"] for row in mine) == rows[name]["moved"]
        assert sum(row["moved_by_rules"] for row in mine) == rows[name]["moved_by_rules"]
        assert [row["step"] for row in mine] == [1, 2]
        assert mine[-1]["leader_release"] == "3.9"


def test_from_eager_to_cooperative(spark: SparkSession) -> None:
    """Two restarts of each member with Java; what is no release or assignor is refused."""
    given = mixed(spark).with_leader_client("Java", "2.8", group_id="near")
    steps = plan_upgrade(given, "3.9", assignor="cooperative-sticky").steps.orderBy("step").collect()
    assert [(row["bounce"], row["assignor"]) for row in steps] == [
        *((1, "range"), (1, "range")),
        *((2, "cooperative-sticky"), (2, "cooperative-sticky")),
    ]
    with pytest.raises(ConfigError, match=r"The release 0\.9 of Kafka's clients is unknown"):
        plan_upgrade(given, "0.9")
    with pytest.raises(ConfigError, match=r"Kafka's clients have no assignor uniform. Use one of range"):
        plan_upgrade(given, "3.9", assignor="uniform")


@pytest.mark.once
def test_the_job(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The tables are written; exit codes."""
    place = two_members(tmp_path / "fleet", "sticky", 4)
    words = ["to-release", "3.9", "--fleet", str(place), "--leader-client", "g=Java@2.8"]
    out = ["--output", str(tmp_path / "out"), "--run-id", "r", "--output-format", "json"]
    assert job.main([*words, *out, "--fail-on", "rejected"]) == 1
    printed = capsys.readouterr().out
    assert "Groups: 0 ready with warnings, 1 ready, 0 blocked, 0 unknown, 0 done" in printed
    assert "twice: duplicate-member: " in printed
    restarts = [(row["step"], row["member_id"], row["paused_partitions"]) for row in stored(tmp_path / "out", "steps")]
    assert sorted(restarts) == [(1, "a", 8), (2, "b", 8)]


@pytest.mark.once
def test_groups_in_words(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Their restarts; no group."""
    words = ["to-release", "3.9", "--fleet", str(two_members(tmp_path / "fleet", "sticky", 4))]
    words += ["--leader-client", "g=Java@2.8"]
    assert job.main([*words, "--details", "g*"]) == 0
    printed = capsys.readouterr().out
    assert "g: ready. The rules of 3.9 differ, but move no partition of this group." in printed
    assert "Steps 1 to 2: Restart the member with 3.9." in printed
    assert job.main([*words, "--details", "nobody"]) == 0
    assert "No group matches nobody" in capsys.readouterr().out
