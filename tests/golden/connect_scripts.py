"""The recorded 90x10 sequences as events, to be simulated: what happened, and when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tests.golden.connect_rows import Row

Happened = tuple[int, str, str, int | None]
"""at_ms, event, subject, tasks."""


def events_of(rows: Iterable[Row]) -> list[Happened]:
    """The texts of the rows' events, read; who leads is not an event."""
    events: list[Happened] = []
    for row in rows:
        for text in row["events"]:
            match text.split():
                case ["worker", name, "joins"]:
                    events.append((row["now_ms"], "worker-joined", name, None))
                case ["worker", name, "leaves"]:
                    events.append((row["now_ms"], "worker-left", name, None))
                case ["connector", name, "created", "with", number, "tasks"]:
                    events.append((row["now_ms"], "connector-added", name, int(number)))
                case ["connector", name, "deleted"]:
                    events.append((row["now_ms"], "connector-removed", name, None))
    return events


def totals(rows: Iterable[dict[str, int]]) -> dict[str, int]:
    """Rebalances, stopped, started and lost, added up."""
    sums: Counter[str] = Counter()
    for row in rows:
        sums["rebalances"] += 1
        sums["stopped"] += row["stopped"]
        sums["started"] += row["started"]
        sums["lost_with_worker"] += row["gone_with_worker" if "gone_with_worker" in row else "lost_with_worker"]
    return dict(sums)
