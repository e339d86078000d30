"""Processor time of this process, the JVM and all Python workers; from /proc, so on Linux only."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks.memory import family

_TICKS = os.sysconf("SC_CLK_TCK")


def used_by(work: Callable[[], object]) -> float:
    """The seconds that some work takes.

    Each process is asked again and again, as the time of one that Spark has ended is lost with it.
    """
    before, last = _ticks(), {}
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.1):
            last.update(_ticks())

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    work()
    stop.set()
    thread.join()
    last.update(_ticks())
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
