"""What unit tests of several files start from."""

from __future__ import annotations

import pytest

from tests.unit.history_log import Log


@pytest.fixture
def log() -> Log:
    """An empty log of __consumer_offsets."""
    return Log()


@pytest.fixture(autouse=True)
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of catalogs are refused where the environment chooses the embedded engine."""
    monkeypatch.delenv("SPARK_ASSIGN_ENGINE", raising=False)
