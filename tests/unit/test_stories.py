"""Stories without Spark: what is told of them, how they are stored, and how the jobs that tell them end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from jobs import simulate
from spark_assign.report.simulation import summarize_local_simulation
from spark_assign.simulation import Settings
from spark_assign.simulation.scenarios import deploy_fleet, simulate_scenario, textbook_join
from spark_assign.stores.driver_rows import write_rows
from spark_assign.tables.connect import SIMULATION_TABLES
from spark_assign.tables.errors import ConfigError

COST = {"connect_cluster": "c", "protocol": "eager"} | dict.fromkeys(SIMULATION_TABLES["costs"].names[2:], 1)
SCHEMAS = {"costs": SIMULATION_TABLES["costs"]}


def test_a_story() -> None:
    """The figures of docs/simulate.md."""
    scenario = textbook_join()
    story = simulate_scenario(scenario, scenario.variants, Settings(**scenario.settings))
    text, group = summarize_local_simulation(story)
    assert group is not None
    *lines, saved = text.splitlines()
    assert [line.split()[:5] for line in lines[1:]] == [
        ["eager", "1", "1", "0", "10.0"],
        ["cooperative", "1", "2", "0", "5.0"],
        ["consumer", "1", "1", "0", "6.9"],
    ]
    assert saved == "Savings compared with eager: cooperative 50%, consumer 31%."
    assert (group["variant"], group["partitions"], group["longest_pause_topic"]) == ("eager", 3, "t")


def test_a_story_that_a_protocol_cannot_play() -> None:
    """The group is named once, with the reason, and there is nothing to draw."""
    scenario = textbook_join()
    times = {**scenario.settings, "rebalance_timeout_ms": 3_000, "revoke_ms": 4_000}
    text, group = summarize_local_simulation(simulate_scenario(scenario, ("cooperative", "eager"), Settings(**times)))
    assert group is None
    assert text.count("scenario/textbook-join: does-not-converge: the group is still rebalancing") == 1


def test_a_story_of_a_fleet_is_for_spark() -> None:
    """It has no rows of its own."""
    with pytest.raises(ConfigError, match="deploy-fleet has no fleet"):
        simulate_scenario(deploy_fleet(), ("eager",), Settings())
    with pytest.raises(ConfigError, match="session_timeout_ms is nan; expected a number of ms"):
        Settings(session_timeout_ms=float("nan"))  # type: ignore[arg-type]


def test_wrong_times_and_rejected_groups(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit codes 2 and 1, as with a fleet."""
    place = ["--pictures-dir", str(tmp_path / "here")]
    assert simulate.main(["90x10", "--connect-stop-time", "-1", *place]) == 2
    assert "'-1' isn't a valid duration. Use a number and a unit, for example 500ms" in capsys.readouterr().err
    pictures = ["--pictures-dir", str(tmp_path / "here")]
    assert simulate.main(["crash", "--heartbeat-interval", "50s", *pictures]) == 2
    assert "simulate: settings: heartbeat_interval_ms is 50000, expected less than session_timeout_ms" in caplog.text
    endless = ["textbook-join", "--rebalance-timeout", "3s", "--revoke-time", "4s", *pictures]
    assert simulate.main([*endless, "--fail-on", "rejected"]) == 1
    assert simulate.main(endless) == 0
    assert "scenario/textbook-join: does-not-converge" in capsys.readouterr().out
    assert not (tmp_path / "here").exists()


def _stored(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = ds.dataset(folder / "costs", format="parquet").to_table().to_pylist()
    return rows


def test_rows_replace_those_of_the_same_run(tmp_path: Path) -> None:
    """Finished later than what they replace, also where the clock was ahead; runs of another name stay."""
    write_rows({"costs": [COST]}, tmp_path, run_id="one", inputs={}, schemas=SCHEMAS)
    manifest = tmp_path / "manifest"
    (first,) = manifest.glob("*.json")
    ahead = json.loads(first.read_text()) | {"finished_at": "2199-01-01T00:00:00.000001Z"}
    first.write_text(json.dumps(ahead) + "\n")
    for run_id, rows in (("one", [COST]), ("other", [COST]), ("one", [COST, COST])):
        write_rows({"costs": rows}, tmp_path, run_id=run_id, inputs={"scenario": "90x10"}, schemas=SCHEMAS)
    assert len(_stored(tmp_path)) == 3
    written = [json.loads(file.read_text()) for file in sorted(manifest.glob("2*.json"))]
    assert [row["run_id"] for row in written] == ["one", "one", "other", "one"]
    assert written[-1]["finished_at"] == "2199-01-01T00:00:00.000003+00:00"
    assert json.loads(written[-1]["content"])["tables"] == {"costs": {"rows": 2}}


def test_rows_that_cannot_be_written_leave_nothing(tmp_path: Path) -> None:
    """What was there stays the run."""
    write_rows({"costs": [COST]}, tmp_path, run_id="one", inputs={}, schemas=SCHEMAS)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(TypeError):
        write_rows({"costs": [COST, COST]}, tmp_path, run_id="one", inputs={"not": {"json"}}, schemas=SCHEMAS)
    assert sorted(tmp_path.rglob("*")) == before
    assert len(_stored(tmp_path)) == 1
