"""Processor time of this process, the JVM and all Python workers; from /proc, so on Linux only."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks.processes import family, watched

_TICKS = os.sysconf("SC_CLK_TCK")


def used_by(work: Callable[[], object]) -> float:
    """The seconds that some work takes; of a process that Spark ends all but its last tenth of a second."""
    before, last = _ticks(), dict[tuple[int, str], int]()
    with watched(lambda: last.update(_ticks())):
        work()
    return sum(ticks - before.get(process, 0) for process, ticks in last.items()) / _TICKS


def _ticks() -> dict[tuple[int, str], int]:
    """User and system time of each process itself; its number alone could be another's soon."""
    found = {}
    for process in family(os.getpid()):
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()
        except OSError:
            continue  # it has ended since
        found[process, fields[19]] = int(fields[11]) + int(fields[12])
    return found
