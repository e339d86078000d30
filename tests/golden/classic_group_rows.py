"""The recorded steps of Kafka's `ClassicGroup` (`README-other.md`, section 4)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from tests import recorded_lines

FILE = Path(__file__).parent / "classic-group.jsonl.gz"
Row = dict[str, Any]
"""sequence, step, op, expect."""


@cache
def recorded() -> tuple[Row, ...]:
    """All steps, sequence after sequence and in order; to be read only."""
    return tuple(recorded_lines.read_rows(FILE))


def differences(rows: Iterable[Row], results: Iterable[str]) -> list[str]:
    """One line for each step whose result (JSON) is not what Kafka gave, with what differs."""
    return recorded_lines.differences(rows, map(json.loads, results))
