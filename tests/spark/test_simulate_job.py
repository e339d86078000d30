"""The simulate job on a folder, in the session of the tests; its stories and upgrades are run by tests/docs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs import report, simulate
from tests.spark.fleets import stored, written_as_json

pytestmark = [pytest.mark.spark, pytest.mark.once]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two groups of two consumers as json lines, one of them listed twice, and what happens to them."""
    groups = [{"cluster": "c", "group_id": name} for name in ("good", "twice")]
    tables: dict[str, list[dict[str, Any]]] = {
        "topics": [{"cluster": "c", "topic": "t", "partitions": 4}],
        "members": [key | {"member_id": member, "generation_id": 1} for key in groups for member in ("m1", "m2")],
        "subscriptions": [key | {"member_id": member, "topic": "t"} for key in groups for member in ("m1", "m2")],
        "owned": [
            key | {"member_id": f"m{1 + partition // 2}", "topic": "t", "partition": partition}
            for key in groups
            for partition in range(4)
        ],
        "events": [{"cluster": "c", "at_ms": 5_000, "event": "rolling-restart", "down_ms": 4_000, "pause_ms": 20_000}],
    }
    tables["members"].append(groups[1] | {"member_id": "m1"})
    return written_as_json(tmp_path_factory.mktemp("simulated-fleet"), tables)


def test_a_folder_is_simulated(
    spark: SparkSession, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A summary, the tables, and exit code 1 for the faulty group if asked for."""
    arguments = ["--variant", "cooperative", "--restore-time", "1s", "--fail-on", "rejected"]
    arguments += ["--output", str(tmp_path), "--run-id", "r", "--output-format", "json"]
    assert simulate.main(["--fleet", str(folder), *arguments]) == 1
    printed = capsys.readouterr().out
    assert f"Written to {tmp_path} as run_id=r" in printed
    assert "twice: " in printed
    (row,) = stored(tmp_path, "availability")
    assert (row["group_id"], row["partitions"], row["members_restarted"]) == ("good", 4, 2)
    assert row["rebalances"] == len(stored(tmp_path, "rebalances")) > 2
    about = {"availability", "rebalances", "ownership", "rejected"}
    assert {table.name for table in tmp_path.iterdir()} == {*about, "manifest"}


def test_variants_are_compared(
    spark: SparkSession, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Members that are back in time cost a static group no rebalance; what is stored is enough for the report."""
    arguments = ["--compare", "--output", str(tmp_path), "--run-id", "r", "--output-format", "json"]
    assert simulate.main(["--fleet", str(folder), *arguments]) == 0
    assert "1 group compared; partition-seconds not consumed: eager" in capsys.readouterr().out
    (row,) = stored(tmp_path, "comparison")
    assert row["eager_rebalances"] > 2
    assert row["static_rebalances"] == 0
    pytest.importorskip("jinja2", reason="reports are an extra")
    page = tmp_path / "report.html"
    assert report.main(["--simulation", str(tmp_path), "--output-file", str(page)]) == 0
    text = page.read_text()
    assert "Groups with the largest savings" in text
    assert "partitions not consumed" in text
    assert [name for name in ("eager: ", "cooperative: ", "static: ") if f">{name}" not in text] == []
    assert "The charts show only rebalances" not in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "No fleet given. Use --fleet LOCATION, or --sample"),
        (["crash", "--output", "./x"], "simulate crash: No such option '--output'"),
        (["--fleet", ".", "--leave-group-on-close"], "--leave-group-on-close needs --restore-bytes-per-second."),
        (["--fleet", ".", "--restore-bytes-per-second", "1", "--compare"], "and no --compare"),
        (["--fleet", ".", "--restore-bytes-per-second", "1", "--variant", "eager"], "--variant configured or static"),
        (["--fleet", ".", "--pictures-dir", "x"], "simulate: No such option '--pictures-dir'"),
        (["--fleet", ".", *["--variant", "eager"] * 2], "simulated with one --variant"),
        (
            ["--fleet", ".", "--connect-events", "./x", "--poll-interval", "1s"],
            "--poll-interval can't be used with --connect-events.",
        ),
        (["--fleet", ".", "--sample"], "--fleet and --sample are both given"),
    ],
)
def test_wrong_usage(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Said before a session is started."""
    assert simulate.main(arguments) == 2
    assert message in caplog.text + capsys.readouterr().err


def test_a_fleet_without_events(spark: SparkSession, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Said with the table's name."""
    assert simulate.main(["--fleet", str(folder), "--events", "/nothing"]) == 2
    assert "/nothing" in caplog.text
