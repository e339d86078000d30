"""Recorded rows: files of JSON lines, packed with gzip."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Returns all rows of a file."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def write_rows(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Writes rows; the same rows give the same bytes, as no time is recorded."""
    path.write_bytes(gzip.compress("".join(f"{json.dumps(row)}\n" for row in rows).encode(), mtime=0))
