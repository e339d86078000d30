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


def differences(rows: Iterable[dict[str, Any]], results: Iterable[dict[str, Any]]) -> list[str]:
    """Returns one line for each recorded step whose result is not what Kafka gave, with what differs."""
    return [
        f"{row['sequence']}/{row['step']} {row['op']}: expected and got {_apart(row['expect'], got)}"
        for row, got in zip(rows, results, strict=True)
        if row["expect"] != got
    ]


def _apart(want: Any, got: Any) -> Any:
    """What differs, as deep down as can be said."""
    if not isinstance(want, dict) or not isinstance(got, dict):
        return want, got
    return {key: _apart(want.get(key), got.get(key)) for key in {**want, **got} if want.get(key) != got.get(key)}
