"""The jobs compare and diff on folders, in the session of the tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs import compare, diff, plan
from tests.spark.fleets import snapshot, stored

pytestmark = [pytest.mark.spark, pytest.mark.once]


def test_assignors_are_compared(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Figures by change and assignor, who gains and why, what was rejected; the tables; exit code 1 if asked for."""
    place = snapshot(tmp_path / "fleet", "aaabbb", twice=True)
    arguments = ["--assignors", "roundrobin,cooperative-sticky", "--what-if", "as-is", "--what-if", "one more=join:*:1"]
    arguments += ["--output", str(tmp_path / "out"), "--run-id", "r", "--output-format", "json"]
    assert compare.main(["--fleet", str(place), *arguments, "--fail-on", "rejected"]) == 1
    printed = capsys.readouterr().out
    assert "What if as-is:" in printed
    assert "What if one more:" in printed
    assert (
        "g      cooperative-sticky  0 % of partitions move instead of 33 %, same balance (against roundrobin)"
        in printed
    )
    assert "twice, as-is: cooperative-sticky: can't be planned (duplicate-member): " in printed
    rows = {(r["group_id"], r["what_if"], r["assignor"]): r for r in stored(tmp_path / "out", "comparison")}
    assert len(rows) == 8
    assert rows["g", "as-is", "roundrobin"]["is_current"]
    assert rows["g", "one more", "cooperative-sticky"]["rounds"] == 2
    assert {(r["code"], r["what_if"]) for r in stored(tmp_path / "out", "rejected")} == {
        ("duplicate-member", "as-is"),
        ("duplicate-member", "one more"),
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--what-if", "shrink:a:1"], "What-if shrink:a:1: unknown change. Use one of as-is, leave:GROUPS:COUNT"),
        (["--sample", "--assignors", "range,stikcy"], "no assignor is called 'stikcy'; did you mean 'sticky'?"),
        (["--fleet", "/nothing"], "there is no folder /nothing"),
        (["--sample", "--table", "members"], "--table members: expected NAME=VALUE"),
        ([], "No fleet given. Use --fleet LOCATION, or --sample"),
    ],
)
def test_wrong_usage_of_compare(
    spark: SparkSession,
    arguments: list[str],
    message: str,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit code 2 and a remedy."""
    assert compare.main(arguments) == 2
    assert message in caplog.text + capsys.readouterr().err


def test_drift_of_snapshots_and_runs(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Two snapshots; two runs of a plan store. A run against a snapshot is in tests/docs."""
    before = snapshot(tmp_path / "before", "aaabbb")
    after = snapshot(tmp_path / "after", "aabbccab", members="abc")
    out = ["--output", str(tmp_path / "out"), "--run-id", "r", "--output-format", "json"]
    sides = ["--before", str(before), "--after", str(after)]
    assert diff.main([*sides, *out, "--fail-on", "changes"]) == 1
    printed = capsys.readouterr().out
    assert "Groups: 0 added, 0 removed, 1 changed, 0 unchanged" in printed
    assert "Members: 1 joined, 0 left, 0 restarted" in printed
    assert "Partitions: 3 moved, 2 newly owned, 0 no longer owned" in printed
    assert "  t      grown        6 → 8" in printed
    (row,) = stored(tmp_path / "out", "groups")
    assert (row["group_id"], row["moved"], row["newly_owned"], row["partitions_after"]) == ("g", 3, 2, 8)
    assert len(stored(tmp_path / "out", "ownership")) == 5

    plans = tmp_path / "plans"
    for run_id, assignor in (("r", "roundrobin"), ("s", "sticky")):
        arguments = ["--assignor", assignor, "--output", str(plans), "--run-id", run_id]
        assert plan.main(["--fleet", str(before), *arguments]) == 0
    assert diff.main(["--before", f"{plans}@r", "--after", f"{plans}@s"]) == 0
    assert "Partitions: 2 moved" in capsys.readouterr().out
    assert diff.main(["--before", f"{plans}@r", "--after", f"{plans}@nobody"]) == 2
    assert "has no finished run with run_id nobody" in caplog.text
