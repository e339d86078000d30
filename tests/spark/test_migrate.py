"""The way over to the broker's protocol by Spark: no group is left out, tables agree, and the job writes and prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs import migrate as job
from spark_assign import MigrationParams, compare, plan_migration
from spark_assign.simulation import Settings
from spark_assign.tables.comparison import MIGRATION_TABLES
from spark_assign.tables.errors import ConfigError
from tests.spark.fleets import REFUSED, assert_declared, kept, mixed, stored, tuples, two_members

pytestmark = [pytest.mark.spark]


def test_no_group_is_left_out(spark: SparkSession) -> None:
    """Each is in migrations or, with the reason, in rejected; ranks are 1, 2, …; figures are those of compare."""
    given = mixed(spark)
    found = kept(plan_migration(given))
    assert_declared(found, MIGRATION_TABLES)
    rows = {row["group_id"]: row for row in found.migrations.collect()}
    assert {name: row["verdict"] for name, row in rows.items()} == {
        "alone": "blocked",
        "empty": "ready",
        "far": "blocked",
        "near": "blocked",
        "served": "done",
    }
    assert rows["served"]["rank"] is None
    assert sorted(row["rank"] for row in rows.values() if row["rank"]) == [1, 2, 3, 4]
    assert rows["empty"]["rank"] == 1
    assert rows["alone"]["codes"] == "client-lacks-protocol, custom-assignor"
    assert tuples(found.rejected, "group_id", "code") == REFUSED
    # Everybody reads in its rack until members restart; an assignor with racks would keep it so.
    assert [rows["near"][f"cross_rack_{when}"] for when in ("before", "after", "hypothetical")][::2] == [0, 0]
    assert rows["near"]["cross_rack_after"] > 0
    assert (rows["near"]["hypothetical_assignor"], rows["near"]["client_libraries"]) == ("rack-uniform", "Java 2")
    compared = {row["group_id"]: row for row in compare(given, ["uniform"]).comparison.collect()}
    for name in ("near", "far"):
        assert rows[name]["moved"] == compared[name]["moved"]
        assert rows[name]["paused_partition_seconds"] == pytest.approx(compared[name]["paused_partition_seconds"])
    steps = {(row["group_id"], row["step_type"]): row for row in found.steps.collect()}
    assert (
        sum(steps["near", what]["moved"] for what in ("first-member", "last-member"))
        == rows["near"]["moved_during_migration"]
    )
    assert {group for group, _ in steps} == {"near", "far", "alone"}


def test_parameters_that_are_rejected(spark: SparkSession) -> None:
    """Each with what there is."""
    given = mixed(spark)
    with pytest.raises(ConfigError, match=r"The broker has no assignor sticky. Use uniform or server-range"):
        plan_migration(given, MigrationParams("sticky"))
    with pytest.raises(ConfigError, match=r"The migration policy both is unknown. Use one of bidirectional, upgrade"):
        plan_migration(given, MigrationParams(policy="both"))
    with pytest.raises(ConfigError, match=r"The client library Jawa is unknown. Use one of Java, librdkafka"):
        plan_migration(given, MigrationParams(library="Jawa"))
    with pytest.raises(ConfigError, match="max_size 0 is out of range"):
        plan_migration(given, MigrationParams(max_size=0))
    with pytest.raises(ConfigError, match="did you mean 'uniform'"):
        plan_migration(given, MigrationParams("unifrom"))
    with pytest.raises(ConfigError):
        plan_migration(given, MigrationParams(hypothetical_assignors=["nearest"]))
    with pytest.raises(ConfigError, match="Remove groups from the settings"):
        plan_migration(given, settings=Settings(groups=given.groups))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["to-cooperative", "good"], "good: expected CLUSTER/GROUP."),
        (["to-cooperative", "c/g", "--policy", "upgrade"], "migrate to-cooperative: No such option '--policy'"),
        (["to-release", "3.9", "--broker-release", "4.3"], "migrate to-release: No such option '--broker-release'"),
        (["--leader-client", "*=Java"], "migrate: No such option '--leader-client'"),
    ],
)
def test_options_of_commands(
    words: list[str], message: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each command has its own."""
    assert job.main([*words, "--sample"]) == 2
    assert message in f"{caplog.text} {capsys.readouterr().err}"


@pytest.mark.once
def test_the_switch_to_cooperative(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One row per restart of the two bounces; a restart that can't be is rejected, which `--fail-on` looks for."""
    place = two_members(tmp_path / "fleet", "range", 4)
    words = ["to-cooperative", "c/g", "--fleet", str(place), "--fail-on", "rejected"]
    assert job.main([*words, "--session-timeout", "20s"]) == 0
    first, heading, *rows = capsys.readouterr().out.splitlines()
    assert first.startswith("Rolling steps hold for Java, franz-go, and Sarama clients only.")
    assert heading.split()[:3] == ["step", "bounce", "member"]
    assert [row.split()[:2] for row in rows] == [["1", "1"], ["2", "1"], ["3", "2"], ["4", "2"]]
    settings = tmp_path / "settings_members.json"
    row = {"cluster": "c", "group_id": "g", "member_id": "a", "partition_assignment_strategy": ["sticky"]}
    settings.write_text(json.dumps(row))
    assert job.main([*words, "--table", f"settings_members={settings}"]) == 1
    capsys.readouterr()
    # A group that can't be simulated doesn't restart without a rebalance.
    assert job.main(["to-cooperative", "c/twice", *words[2:]]) == 1
    _, _, *rows = capsys.readouterr().out.splitlines()
    assert rows
    assert all("duplicate-member: members: member_id=m" in row for row in rows)


@pytest.mark.once
@pytest.mark.parametrize(
    ("assignor", "strategy", "start", "restarts"),
    [
        ("cooperative-sticky", None, "The group runs with cooperative-sticky already: nothing is to be done", []),
        (
            "cooperative-sticky",
            ["cooperative-sticky", "range"],
            "The group runs with cooperative-sticky already",
            ["a"],
        ),
        ("uniform", None, "The broker assigns (KIP-848)", []),
        ("stream", None, "Kafka Streams brings its own assignor", []),
    ],
)
def test_a_group_without_two_bounces(
    assignor: str,
    strategy: list[str] | None,
    start: str,
    restarts: list[str],
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nobody restarts whose list of assignors stays, or who doesn't choose the assignor."""
    words = ["to-cooperative", "c/g", "--fleet", str(two_members(tmp_path / "fleet", assignor, 4))]
    if strategy:
        settings = tmp_path / "settings_members.json"
        row = {"cluster": "c", "group_id": "g", "member_id": "a", "partition_assignment_strategy": strategy}
        settings.write_text(json.dumps(row))
        words += ["--table", f"settings_members={settings}"]
    assert job.main(words) == 0
    text, *rows = capsys.readouterr().out.splitlines()
    assert text.startswith(start)
    assert [row.split()[2] for row in rows[1:]] == restarts


@pytest.mark.once
def test_the_job(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The tables are written; groups are ranked; exit codes."""
    place = two_members(tmp_path / "fleet", "range", 4)
    words = ["--fleet", str(place), "--library", "java"]
    out = ["--output", str(tmp_path / "out"), "--run-id", "r", "--output-format", "json"]
    assert job.main([*words, *out, "--fail-on", "rejected"]) == 1
    printed = capsys.readouterr().out
    assert "Groups: 1 ready, 0 ready with warnings, 0 blocked, 0 done" in printed
    assert "twice: duplicate-member: " in printed
    assert {row["step_type"]: row.get("paused_partitions") for row in stored(tmp_path / "out", "steps")} == {
        "prepare": None,
        "first-member": 8,
        "last-member": 4,
        "rollback": None,
    }
    assert job.main([*words, "--server-assignor", "range"]) == 2


@pytest.mark.once
def test_groups_in_words(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Their steps; no group."""
    words = ["--fleet", str(two_members(tmp_path / "fleet", "range", 4)), "--library", "java"]
    assert job.main([*words, "--details", "g*", "--policy", "disabled"]) == 0
    printed = capsys.readouterr().out
    assert "g: ready-with-warnings, offline. With group.consumer.migration.policy=disabled" in printed
    assert "  2. stop-all" in printed
    assert "session.timeout.ms: group.consumer.session.timeout.ms of the broker" in printed
    assert job.main([*words, "--details", "nobody"]) == 0
    assert "No group matches nobody" in capsys.readouterr().out
