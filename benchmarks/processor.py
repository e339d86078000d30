"""Processor time of this process, the JVM and all Python workers; from /proc, so on Linux only."""

from __future__ import annotations

import os
from collections.abc import Callable

from benchmarks.processes import Usage, watched


def used_by(work: Callable[[], object]) -> float:
    """The seconds that some work takes; of a process that Spark ends all but its last tenth of a second."""
    usage = Usage(os.getpid())
    usage.look()
    before = usage.seconds
    with watched(usage.look):
        work()
    return usage.seconds - before
