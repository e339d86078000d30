"""How many random cases a test draws: some by default, all of them in the full run."""

from __future__ import annotations

import os


def drawn(default: int, full: int) -> int:
    """Returns the number of cases that a test draws in this run."""
    return full if os.environ.get("SPARK_ASSIGN_TEST_FULL") else default
