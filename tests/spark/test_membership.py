"""Membership by Spark: no group is left out, tables agree with schemas, rows in any order, and the job."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs import advise as job
from spark_assign.advice import MembershipParams, advise_membership
from spark_assign.simulation import Settings, simulate
from spark_assign.tables.advice import MEMBERSHIP_TABLES
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.simulation import EVENTS
from tests.frames import dataframe
from tests.spark.fleets import assert_declared, kept, mixed, shuffled, stored, tuples, two_members

pytestmark = [pytest.mark.spark]

ONE = MembershipParams(session_timeouts_ms=[45_000], restart_times_ms=[5_000])


def test_no_group_is_left_out(spark: SparkSession) -> None:
    """Each is in membership_advice or, with the reason, in rejected; options are of those; `simulate` says the same."""
    given = mixed(spark)
    settings = Settings(restore_ms=60_000)
    found = kept(advise_membership(given, ONE, settings))
    assert_declared(found, MEMBERSHIP_TABLES)
    assert tuples(found.rejected, "group_id", "code") == [
        ("alone", "unknown-assignor"),
        ("connected", "out-of-scope"),
        ("empty", "no-members"),
        ("shared", "share-group"),
        ("streamed", "streams-group"),
        ("twice", "duplicate-member"),
    ]
    rows = {row["group_id"]: row for row in found.membership_advice.collect()}
    assert {name: row["recommendation"] for name, row in rows.items()} == dict.fromkeys(rows, "static")
    assert rows.keys() == {"far", "near", "served"}
    assert rows["near"]["client_libraries"] == "Java 2"
    assert rows["near"]["settings"].splitlines()[2:] == ["group.instance.id=near-0"]
    options = {(row["group_id"], row["restart_time_ms"]): row for row in found.options.where("is_current").collect()}
    assert sorted(options) == [(name, ms) for name in ("far", "near", "served") for ms in (5_000, 30_000)]
    events = dataframe(spark, EVENTS, [("c", None, 0, "rolling-restart", *[None] * 7, 30_000, *[None] * 3)])
    played = simulate(given, events, settings=settings).availability
    for row in played.where(F.col("group_id").isin("near", "far")).collect():
        mine = options[row["group_id"], 30_000]
        assert mine["restart_paused_partition_seconds"] * 1000 == row["paused_partition_ms"]
        assert mine["restart_longest_pause_seconds"] * 1000 == row["longest_pause_ms"]
        assert mine["restart_rebalances"] == row["rebalances"]


def test_rows_in_any_order(spark: SparkSession, seed: int) -> None:
    """However they are parted."""
    given = mixed(spark)
    answers = [tuples(advise_membership(each, ONE).rows) for each in (given, shuffled(given, seed))]
    assert answers[0] == answers[1]


def test_parameters_that_are_rejected(spark: SparkSession) -> None:
    """A clear word each."""
    with pytest.raises(ConfigError, match="advise_membership: restart_time_ms is 0; expected at least 1 ms"):
        advise_membership(mixed(spark), MembershipParams(restart_time_ms=0))


@pytest.mark.once
def test_the_job(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The tables are written; exit codes; what is no time."""
    place = two_members(tmp_path / "fleet", "range", 8)
    words = ["--fleet", str(place), "--restore-time", "1m", "--session-timeouts", "45s,90s", "--restart-time", "10s"]
    out = ["--output", str(tmp_path / "out"), "--run-id", "r", "--output-format", "json"]
    assert job.main(["membership", *words, *out, "--fail-on", "rejected"]) == 1
    printed = capsys.readouterr().out
    assert "Groups: 1 to change, which saves " in printed
    assert "Change to static:" in printed
    assert "twice: duplicate-member: " in printed
    assert len(stored(tmp_path / "out", "options")) == 4 * 2 * 4
    assert job.main(["membership", *words, "--min-session-timeout", "soon"]) == 2
    assert "'soon' isn't a valid duration." in capsys.readouterr().err


@pytest.mark.once
def test_groups_in_words(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those that `--details` names; none."""
    place = two_members(tmp_path / "fleet", "range", 8)
    words = ["--fleet", str(place), "--restore-time", "1m", "--session-timeouts", "45s,90s", "--restart-time", "10s"]
    assert job.main(["membership", *words, "--details", "g*"]) == 0
    printed = capsys.readouterr().out
    assert "g: Change to static. A rolling restart of 2 members, each away for 10 s, then pauses 80" in printed
    assert "    group.instance.id=g-0" in printed
    assert job.main(["membership", *words, "--details", "nobody"]) == 0
    assert "No group matches nobody" in capsys.readouterr().out
