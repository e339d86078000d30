"""What unit tests of several files start from."""

from __future__ import annotations

import pytest

from tests.unit.history_log import Log


@pytest.fixture
def log() -> Log:
    """An empty log of __consumer_offsets."""
    return Log()
