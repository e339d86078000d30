"""The recorded steps of Kafka's `ClassicGroup` (`README-other.md`, section 4)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from tests.recorded_lines import read_rows

FILE = Path(__file__).parent / "classic-group.jsonl.gz"
Row = dict[str, Any]
"""sequence, step, op, expect."""


@cache
def recorded() -> tuple[Row, ...]:
    """All steps, sequence after sequence and in order; to be read only."""
    return tuple(read_rows(FILE))


def differences(rows: Iterable[Row], results: Iterable[str]) -> list[str]:
    """One line for each step whose result (JSON) is not what Kafka gave, with what differs."""
    lines = []
    for row, result in zip(rows, results, strict=True):
        want, got = row["expect"], json.loads(result)
        if want != got:
            wrong = {key: (want.get(key), got.get(key)) for key in {**want, **got} if want.get(key) != got.get(key)}
            lines.append(f"{row['sequence']}/{row['step']} {row['op']}: expected and got {wrong}")
    return lines
