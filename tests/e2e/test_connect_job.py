"""`./spark-submit.sh connect` from outside: a scenario with its picture."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.conftest import Submit

pytestmark = pytest.mark.spark


def test_the_scenario_is_played_and_drawn(submit: Submit, tmp_path: Path) -> None:
    """The published totals, and a picture."""
    done = submit("connect", "--scenario", "90x10", "--output", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "185 / 92,565 / 93,060" in done.stdout
    assert "278 / 1,451 / 1,946" in done.stdout
    assert "</svg>" in (tmp_path / "90x10.svg").read_text()
