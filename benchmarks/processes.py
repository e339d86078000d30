"""A process, its JVM and all Python workers, looked at while they run; from /proc, so on Linux only."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
_TICKS = os.sysconf("SC_CLK_TCK")


def family(process: int) -> list[int]:
    """A process and all that descend from it."""
    children: list[int] = []
    try:
        for task in Path(f"/proc/{process}/task").iterdir():
            with suppress(OSError):  # the thread has ended since, but not its process
                children += map(int, (task / "children").read_text().split())
    except OSError:
        return []
    return [process, *(one for child in children for one in family(child))]


@contextmanager
def watched(look: Callable[[], None]) -> Iterator[None]:
    """Look again and again, and once at the end: what a process has had is lost with it."""
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.1):
            look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        look()


class Usage:
    """What a process and all that it has started have used: the most memory (`VmHWM`) and processor time of each.

    The system adds the time of a process to its parent's only if the parent waits for it, which Spark's Python daemon
    doesn't do for its workers.
    """

    def __init__(self, process: int) -> None:
        self._process = process
        self._most: dict[int, tuple[str, float]] = {}
        self._ticks: dict[tuple[int, str], int] = {}

    @property
    def seconds(self) -> float:
        """User and system time; of a process that has ended, all but its last tenth of a second."""
        return sum(self._ticks.values()) / _TICKS

    @property
    def peaks(self) -> dict[str, float]:
        """MiB by kind: `jvm` (the driver, which is also the executor here), `python` (summed), `worker`.

        The last is the largest Python process but the first one: the workers plan, a process for each core.
        """
        kinds = {"jvm": 0.0, "python": 0.0, "worker": 0.0}
        for process, (kind, mib) in self._most.items():
            kinds[kind] += mib
            if kind == "python" and process != self._process:
                kinds["worker"] = max(kinds["worker"], mib)
        return kinds

    def look(self) -> None:
        """Take what they have used so far."""
        for process in family(self._process):
            try:
                head, _, fields = Path(f"/proc/{process}/stat").read_text().rpartition(") ")
                status = Path(f"/proc/{process}/status").read_text()
            except OSError:
                continue  # it has ended since
            name, columns = head.partition(" (")[2], fields.split()
            # The number of a process alone could be another's soon; the other column is when it started.
            self._ticks[process, columns[19]] = int(columns[11]) + int(columns[12])
            # A process that the JVM has just forked is as large as the JVM and bears the name of a thread: not counted.
            kind = "jvm" if name == "java" else "python" if name.startswith("python") else None
            if kind:
                peak = next((line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")), "0")
                # One that has ended, and that its parent hasn't waited for yet, has no peak any more.
                _, most = self._most.get(process, (kind, 0.0))
                self._most[process] = (kind, max(most, int(peak) / 1024))


CONNECT_MODE = "SPARK_CONNECT_MODE_ENABLED"
"""PySpark sets this in a process with a Connect session, and a child that inherits it can start no other."""


class Spent(NamedTuple):
    """What a command and all that it has started took: seconds, and MiB at the peak by kind (`Usage.peaks`)."""

    processor: float
    wall: float
    peaks: dict[str, float]


def run_process(command: list[str], **variables: str) -> Spent:
    """Run a command in the project's folder.

    Raises:
        RuntimeError: it has failed; with what it said.
    """
    start = time.perf_counter()
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != CONNECT_MODE} | variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    usage = Usage(process.pid)
    with watched(usage.look):
        _, errors = process.communicate()
    wall = time.perf_counter() - start
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}:\n{errors[-2000:]}")
    return Spent(usage.seconds, wall, usage.peaks)
