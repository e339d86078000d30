"""Numbers and names as the report writes them."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

_UUID = re.compile(r"-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?=~|$)", re.IGNORECASE)
_UUID_IN_TEXT = re.compile(r"-([0-9a-f]{4})[0-9a-f]{4}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
NONE = "–"

REJECTED_SHOWN = 10
"""So many groups that were refused are listed."""


def number(value: Any) -> str:
    """A count with thousands separated; – for null."""
    return NONE if value is None else f"{value:,}"


def ratio(value: float | None) -> str:
    """Two digits; – for null."""
    return NONE if value is None else f"{value:.2f}"


def share(part: int, whole: int) -> str:
    """A part in per cent, without saying 0 % or 100 % where that is not so."""
    if not whole:
        return NONE
    rounded = round(100 * part / whole)
    if rounded == 0 < part:
        return "under 1 %"
    if rounded == 100 and part < whole:
        return "over 99 %"
    return f"{rounded} %"


def seconds(ms: float | None) -> str:
    """Milliseconds as seconds; – for null."""
    if ms is None:
        return NONE
    return f"{ms / 1000:,.0f} s" if ms % 1000 == 0 else f"{ms / 1000:,.1f} s"


def duration(seconds: float | None) -> str:
    """`40 s`, `12 min`, `3.4 h`, `never`; – for null."""
    if seconds is None:
        return NONE
    if math.isinf(seconds):
        return "never"
    if seconds < 120:
        return f"{seconds:,.0f} s"
    return f"{seconds / 60:,.0f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"


def count(value: int, noun: str) -> str:
    """`1 group`, `2,000 groups`."""
    return f"{value:,} {noun if value == 1 else noun + 's'}"


def cell(value: Any) -> str:
    """Any value of a table."""
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, list | tuple):
        return ", ".join(map(cell, value))
    return str(value)


def short_names(member_ids: Collection[str]) -> dict[str, str]:
    """Member ids without the UUID that a consumer has behind its client id, where they stay different."""
    short = {member: _UUID.sub("", member) for member in member_ids}
    seen = list(short.values())
    return {member: name if seen.count(name) == 1 else member for member, name in short.items()}


def without_uuids(text: str) -> str:
    """A text with four digits of each UUID that a member's id ends in: `orders-0-84a6…`."""
    return _UUID_IN_TEXT.sub(r"-\1…", text)


def rejected_lines(rows: Sequence[Mapping[str, Any]], number: int) -> list[str]:
    """What was refused, at most a screenful; nothing where nothing was.

    Args:
        rows: the first ones of a table `rejected`.
        number: how many there are.
    """
    if not number:
        return []
    lines = ["", "Rejected:"]
    for row in rows[:REJECTED_SHOWN]:
        lines.append(f"  {row['cluster']}/{row['group_id']}: {row['code']}: {' '.join(row['detail'].split())[:300]}")
    if number > REJECTED_SHOWN:
        lines.append(f"  … and {number - REJECTED_SHOWN:,} more, in the table rejected")
    return lines
