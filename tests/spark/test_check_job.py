"""Alerts, the job check, and the drift from the run before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from jobs import check, diff, plan
from spark_assign.cli.plan_kinds import rejected_of_all_kinds
from spark_assign.groups.alerts import alerts
from spark_assign.tables import connect
from spark_assign.tables.comparison import DRIFT_GROUPS
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.groups import REJECTED
from spark_assign.tables.stored_plan import SHARE, STREAMS
from tests.frames import dataframe
from tests.spark.fleets import snapshot, written_as_json
from tests.unit.webhook_stub import Receiver

pytestmark = [pytest.mark.spark, pytest.mark.once]


def grown(spark: SparkSession, **groups: tuple[int, int, float | None, float | None]) -> DataFrame:
    """`Drift.groups`: members and partitions after, max over mean before and after."""
    rows = []
    for name, (members, partitions, before, after) in groups.items():
        row: dict[str, Any] = dict.fromkeys(DRIFT_GROUPS.fieldNames())
        row |= dict.fromkeys(("joined", "left", "restarted", "moved", "newly_owned", "no_longer_owned"), 0)
        row |= {"cluster": "c", "group_id": name, "change": "changed", "members_before": 4, "members_after": members}
        row |= {"partitions_before": 8, "partitions_after": partitions}
        rows.append(row | {"max_over_mean_before": before, "max_over_mean_after": after})
    return dataframe(spark, DRIFT_GROUPS, [[row[name] for name in DRIFT_GROUPS.names] for row in rows])


def test_what_is_an_alert(spark: SparkSession) -> None:
    """More than the factor, where it could be more even, and known on both sides."""
    drifted = grown(
        spark,
        worse=(4, 8, 1.0, 1.5),
        exactly_as_allowed=(4, 8, 1.2, 1.5),
        as_even_as_can_be=(8, 5, 1.0, 1.6),
        has_come=(4, 8, None, 4.0),
        went=(0, 0, 2.0, None),
    )
    rejected = dataframe(spark, REJECTED, [("c", g, "duplicate-member", "m twice") for g in "pq"])
    found = {(r["group_id"], r["alert"]): r["detail"] for r in alerts(rejected, drifted).collect()}
    assert found == {
        ("worse", "imbalance"): "1.00 would be even, 4 → 4 members, 8 → 8 partitions",
        ("p", "rejected"): "duplicate-member: m twice",
        ("q", "rejected"): "duplicate-member: m twice",
    }
    assert alerts(rejected, max_rejected=2).isEmpty()
    assert alerts(rejected, max_rejected=1).count() == 2
    assert alerts(rejected, drifted, max_rejected=2, max_growth=1.2).count() == 2


def test_rejected_groups_of_every_kind(spark: SparkSession) -> None:
    """A share group and a Streams group are counted with the consumer groups; a Connect cluster is its own group."""
    tables = {
        f"{prefix}rejected": dataframe(spark, REJECTED, [("c", group, "no-topics", "none")])
        for prefix, group in {"": "g", SHARE: "s", STREAMS: "a"}.items()
    }
    tables["connect_rejected"] = dataframe(spark, connect.REJECTED, [("files", "no-workers", "none")])
    found = rejected_of_all_kinds(tables)
    assert sorted(tuple(row) for row in found.collect()) == [
        *(("c", group, "no-topics", "none") for group in "ags"),
        ("files", "files", "no-workers", "none"),
    ]
    assert alerts(found).count() == 4
    assert alerts(rejected_of_all_kinds({"rejected": tables["rejected"]})).count() == 1


@pytest.mark.parametrize("limits", [{"max_growth": 0.9}, {"max_growth": float("nan")}, {"max_rejected": -1}])
def test_thresholds_that_make_no_sense(spark: SparkSession, limits: dict[str, Any]) -> None:
    """A typing error is not an alert for every group, nor none for ever."""
    with pytest.raises(ConfigError, match="expected"):
        alerts(dataframe(spark, REJECTED, []), **limits)


def test_metrics_for_prometheus(spark: SparkSession, tmp_path: Path) -> None:
    """By plan and by check; with the drift that check is given."""
    pytest.importorskip("prometheus_client", reason="metrics are an extra")
    place, file = str(tmp_path / "plans"), tmp_path / "spark_assign.prom"
    fleet = str(snapshot(tmp_path / "fleet", "aaabbb", twice=True))
    arguments = ["--fleet", fleet, "--assignor", "range", "--output", place, "--run-id", "r"]
    arguments += ["--output-tables", "assignment_slices"]
    assert plan.main([*arguments, "--openmetrics", str(file)]) == 0
    metrics = file.read_text()
    assert 'spark_assign_group_moved_partitions{cluster="c",group="g"} 0.0' in metrics
    assert 'spark_assign_rejected_groups{cluster="c",code="duplicate-member"} 1.0' in metrics
    file.unlink()
    assert check.main(["--plan", place, "--openmetrics", str(file)]) == 0
    assert file.read_text() == metrics
    assert check.main(["--plan", place, "--openmetrics", str(tmp_path / "no" / "such")]) == 2


def test_runs_one_after_the_other(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first run has nothing before it, also when there is a later one by now; that has the run before by name."""
    even = snapshot(tmp_path / "even", "aaabbb")
    # Range gives the rest of every topic to the first member, so that three topics of one partition end at one of two.
    tables = {
        "topics": [{"cluster": "c", "topic": topic, "partitions": 1} for topic in "tuv"],
        "members": [{"cluster": "c", "group_id": g, "member_id": m} for g, m in ("ga", "gb", "xm", "xm")],
        "subscriptions": [
            {"cluster": "c", "group_id": "g", "member_id": member, "topic": topic} for member in "ab" for topic in "tuv"
        ],
    }
    uneven = written_as_json(tmp_path / "uneven", tables)
    plans, drifts = str(tmp_path / "plans"), str(tmp_path / "drifts")
    output = {}
    for run_id, fleet in (("2026-11-20", even), ("2026-11-21", uneven)):
        arguments = ["--fleet", str(fleet), "--assignor", "range", "--output", plans, "--run-id", run_id]
        assert plan.main([*arguments, "--output-tables", "assignment_slices"]) == 0
    for run_id in ("2026-11-20", "2026-11-21"):
        sides = ["--before", "previous", "--after", f"{plans}@{run_id}"]
        capsys.readouterr()
        assert diff.main([*sides, "--output", drifts, "--run-id", run_id]) == 0
        output[run_id] = capsys.readouterr().out
    assert f"From no earlier run to {plans}@2026-11-20" in output["2026-11-20"]
    assert "Groups: 1 added, 0 removed, 0 changed, 0 unchanged" in output["2026-11-20"]
    assert f"From {plans}@2026-11-20 to {plans}@2026-11-21" in output["2026-11-21"]

    def checked(run_id: str, *arguments: str) -> int:
        code = check.main(["--plan", f"{plans}@{run_id}", "--drift", f"{drifts}@{run_id}", *arguments])
        output[run_id] = capsys.readouterr().out
        return code

    assert checked("2026-11-20", "--fail-on", "alerts") == 0
    assert "No group is beyond a threshold\ncheck: 0 alerts in 2026-11-20" in output["2026-11-20"]
    assert checked("2026-11-21", "--fail-on", "alerts") == 1
    assert "Groups beyond a threshold: imbalance 1, rejected 1" in output["2026-11-21"]
    assert "g      imbalance  1.00 → 2.00  1.33 would be even, 2 → 2 members, 6 → 3 partitions" in output["2026-11-21"]
    assert "x      rejected             –  duplicate-member" in output["2026-11-21"]
    assert checked("2026-11-21") == 0
    assert checked("2026-11-21", "--max-growth", "2", "--max-rejected", "1", "--fail-on", "alerts") == 0
    receiver, outcome = Receiver(), str(tmp_path / "outcome.json")
    for words in (["--max-rejected", "1"], [], [], ["--max-rejected", "1"]):
        assert checked("2026-11-21", "--max-growth", "2", *words, "--outcome", outcome, "--notify", receiver.url) == 0
    assert [(len(message["begun"]), len(message["ended"])) for message in receiver.messages] == [(1, 0), (0, 1)]
    assert json.loads((tmp_path / "outcome.json.alerts").read_text())["alerts"] == []
    assert checked("2026-11-21", "--notify", receiver.url) == 2
    assert checked("nobody") == 2


def test_the_run_before_a_snapshot_is_requested_by_mistake(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Only runs have an order."""
    fleet = snapshot(tmp_path / "fleet", "ab")
    assert diff.main(["--before", "previous", "--after", str(fleet)]) == 2
    assert "--before previous requires a stored run, but --after" in caplog.text
