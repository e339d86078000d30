"""conf/monitoring: Prometheus' own promtool checks the alert rules, and when they alert."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT
from tests.kafka import client_libraries, fetched

RULES = ROOT / "conf" / "monitoring" / "alerts.yaml"
OF_GROUP = 'cluster="c", group="g"'
CASES = (
    ("SnapshotStale", 'spark_assign_cluster_snapshot_timestamp_seconds{cluster="c"}', 0, -26 * 3600 - 1),
    ("ClusterFailed", 'spark_assign_cluster_failed{cluster="c"}', 0, 1),
    ("PlanStale", 'spark_assign_plan_finished_timestamp_seconds{run="r"}', 0, -26 * 3600 - 1),
    ("GroupsRejected", 'spark_assign_rejected_groups{cluster="c", code="duplicate-member"}', 0, 2),
    ("PartitionsUnowned", f"spark_assign_group_unowned_partitions{{{OF_GROUP}}}", 0, 3),
    ("GroupFlapping", f"spark_assign_history_group_flapping{{{OF_GROUP}}}", 0, 1),
    ("GroupRebalances", f"spark_assign_history_group_max_rebalances_per_day{{{OF_GROUP}}}", 20, 21),
    ("GroupPause", f"spark_assign_history_group_longest_pause_seconds{{{OF_GROUP}}}", 120, 121),
)
"""Alert, series, and values with which it doesn't alert and with which it does. Prometheus' clock starts at 0."""


@pytest.fixture(scope="module")
def promtool() -> Path:
    """Built from its Go module."""
    with fetched.or_skipped():
        return client_libraries.go_tool("github.com/prometheus/prometheus/cmd/promtool", "v0.316.0")


def run(promtool: Path, *words: str) -> str:
    """Runs promtool, which succeeds."""
    done = subprocess.run([str(promtool), *words], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_rules_are_valid(promtool: Path) -> None:
    """By its lint, too."""
    assert "SUCCESS: 10 rules found" in run(promtool, "check", "rules", "--lint=all", "--lint-fatal", str(RULES))


@pytest.mark.parametrize(("alert", "series", "quiet", "loud"), CASES, ids=[case[0] for case in CASES])
def test_when_they_alert(promtool: Path, tmp_path: Path, alert: str, series: str, quiet: float, loud: float) -> None:
    """Not within the limit, beyond it, and not any more after it; JSON is YAML, which promtool reads."""
    firing = f'count(ALERTS{{alertname="SparkAssign{alert}", alertstate="firing"}})'
    times = ((1, []), (8, [{"labels": "{}", "value": 1}]), (14, []))
    checks = [{"expr": firing, "eval_time": f"{time}m", "exp_samples": samples} for time, samples in times]
    values = f"{quiet}x5 {loud}x5 {quiet}x5"
    tests = [{"interval": "1m", "input_series": [{"series": series, "values": values}], "promql_expr_test": checks}]
    file = tmp_path / "test.yaml"
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    run(promtool, "test", "rules", str(file))
