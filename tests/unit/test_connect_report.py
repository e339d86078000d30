"""The comparison of protocols as text and as a picture."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_assign.connect.simulate import ninety_by_ten
from spark_assign.report.connect import draw_protocol_comparison, format_protocol_comparison

SCENARIO = ninety_by_ten(2, 3)


def rebalances() -> list[dict[str, object]]:
    """One made-up rebalance per change and protocol; eager stops and starts ten times as much."""
    return [
        {"protocol": protocol, "at_ms": at, "stopped": factor, "started": 2 * factor}
        for protocol, factor in zip(SCENARIO.protocols, (10, 1, 1), strict=True)
        for at in sorted({event["at_ms"] for event in SCENARIO.events})
    ]


def test_the_story() -> None:
    """Every change is over when the next one comes, but for the restart."""
    assert [name for _, name in SCENARIO.phases] == ["start", "add", "join", "restart", "leave", "delete"]
    assert [event["event"] for event in SCENARIO.events[3:]] == [
        *["connector-added"] * 2,
        *("worker-joined", "worker-left", "worker-joined", "worker-left"),
        *["connector-removed"] * 2,
    ]


def test_a_line_per_phase_and_the_bill() -> None:
    """Rounds, stops and starts of each phase, and of all."""
    costs = [{"protocol": name, "task_ms_not_running": 3_600_000 * at} for at, name in enumerate(SCENARIO.protocols)]
    lines = [line.split("  ") for line in format_protocol_comparison(SCENARIO, rebalances(), costs).splitlines()]
    cells = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    assert cells[0][:2] == ["phase", "eager: rebalances / stopped / started"]
    assert cells[4] == ["restart", "2 / 20 / 40", "2 / 2 / 4", "2 / 2 / 4"]
    assert cells[7] == ["all", "9 / 90 / 180", "9 / 9 / 18", "9 / 9 / 18"]
    assert cells[8:] == [["task-hours not running", "0.0", "1.0", "2.0"]]
    costs[0]["not_running"] = 3  # the cost of these tasks is open, not 0
    last = format_protocol_comparison(SCENARIO, rebalances(), costs).splitlines()[-1]
    assert last.split() == ["tasks", "that", "never", "run", "again", "3", "0", "0"]


def test_the_picture(tmp_path: Path) -> None:
    """A file of the kind that its name says."""
    pytest.importorskip("vl_convert", reason="drawing is an extra")
    draw_protocol_comparison(SCENARIO, rebalances(), str(tmp_path / "story.svg"))
    assert "</svg>" in (tmp_path / "story.svg").read_text()
