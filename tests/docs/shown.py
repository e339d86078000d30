"""Whether a step gave what its page shows under it; `…` on a page stands for anything."""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import DataFrame

PROGRESS = re.compile(r"\d\d:\d\d:\d\d ")
VARIES = re.compile(r"(…|\d{8}T\d{6}Z|\bin [\d.]+ s\b|\b[\d.]+ MB\b)")
"""Times and what hangs on them: the default run id, seconds, and the size of a page that holds times."""


def lost(shown: tuple[str, ...], printed: str) -> str | None:
    """The first line of a page that was not printed behind the one before it; None if all were.

    Lines of progress do not count: they go to standard error, and differ.
    """
    rest = [line.rstrip() for line in printed.splitlines()]
    for line in shown:
        if line.strip() in ("", "…") or PROGRESS.match(line):
            continue
        like = pattern(line.rstrip())
        at = next((number for number, each in enumerate(rest) if like.fullmatch(each)), None)
        if at is None:
            return line
        rest = rest[at + 1 :]
    return None


def pattern(text: str) -> re.Pattern[str]:
    """A text of a page as a regular expression."""
    parts = VARIES.split(text)
    parts[0::2] = [re.escape(part) for part in parts[0::2]]
    parts[1::2] = [".*" if part == "…" else re.sub(r"\d+", r"\\d+", re.escape(part)) for part in parts[1::2]]
    return re.compile("".join(parts))


def differs(shown: tuple[str, ...], value: Any) -> str | None:
    """What a page shows under a Python block and its last expression does not give; None if it gives it all.

    Of a DataFrame the page may show some columns and some rows, drawn as `show` does. Of a text it may break the lines.
    """
    if isinstance(value, DataFrame) or hasattr(value, "collect"):
        return _rows_lost(shown, value)
    said, told = " ".join(" ".join(shown).split()), " ".join(str(value).split())
    return None if pattern(said).fullmatch(told) else f"{said!r} and not {told!r}"


def _rows_lost(shown: tuple[str, ...], table: DataFrame) -> str | None:
    lines = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in shown if line.startswith("|")]
    there = [[_cell(value) for value in row] for row in table.select(*lines[0]).collect()]
    missing = [line for line in lines[1:] if line not in there]
    return f"{missing} among {there}" if missing else None


def _cell(value: object) -> str:
    """As `show` draws it."""
    if value is None:
        return "NULL"
    return str(value).lower() if isinstance(value, bool) else str(value)
