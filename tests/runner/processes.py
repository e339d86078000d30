"""Processes that end: each in a group of its own, with a bound, its output in a file, and nothing of it left behind."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

ADOPT = 36
"""Linux's PR_SET_CHILD_SUBREAPER."""
CHECK_SECONDS = 0.05
"""How often the runner checks whether a process has ended."""


@dataclass(frozen=True)
class Ended:
    """How a process ended.

    Attributes:
        code: its exit code, or None if it was ended because it had reached its bound.
        seconds: wall time.
        processor_seconds: user and system time of the process and of the processes that it has started.
    """

    code: int | None
    seconds: float
    processor_seconds: float = 0


def adopt_orphans() -> None:
    """Makes this process the parent of descendants whose own parent has ended, as Spark's JVM, which outlives the
    Python process that has started it: only a parent learns the processor time of a process. Linux only; elsewhere that
    time is missing."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(ADOPT, 1, 0, 0, 0)


class StoppedError(Exception):
    """The whole run is being stopped: nothing is started any more."""


class Processes:
    """Runs commands in a folder, from any thread, and can end all of them."""

    def __init__(self, folder: Path, environment: Mapping[str, str], grace: float = 30) -> None:
        self._folder, self._environment, self._grace = folder, dict(environment), grace
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def run(
        self,
        command: tuple[str, ...],
        environment: Mapping[str, str],
        log: Path,
        seconds: float,
        at_bound: Callable[[], object] = lambda: None,
    ) -> Ended:
        """Wait until it has ended, `seconds` at most; what it says goes to `log`, and it is asked nothing.

        `at_bound` is called before a process that has reached its bound is ended.
        """
        started = time.monotonic()
        process = self._start(command, environment, log)
        used: list[float] = []
        try:
            code = _wait(process, seconds, used)
            if code is None:
                at_bound()
                # As by Ctrl-C: pytest stops the brokers and sessions that it has started.
                _signal(process, signal.SIGINT)
                if _wait(process, self._grace, used) is None:
                    os.kill(process.pid, signal.SIGABRT)  # pytest prints where each thread is
                    _wait(process, 1, used)
            ended = time.monotonic() - started
        finally:
            _signal(process, signal.SIGKILL)  # children that were left behind would keep the next part from its memory
            _wait(process, 60, used)
            with self._lock:
                self._running.discard(process)
        used += _end_orphans(process.pid)
        return Ended(code, ended, sum(used))

    def stop(self) -> None:
        """End all that runs, at once, and start nothing more."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                _signal(process, signal.SIGKILL)

    def _start(self, command: tuple[str, ...], environment: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
        with self._lock, log.open("wb") as output:
            if self._stopped:
                raise StoppedError("stopped before it began")
            process = subprocess.Popen(
                command,
                cwd=self._folder,
                env={**self._environment, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._running.add(process)
        return process


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """To the process and its children."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _wait(process: subprocess.Popen[bytes], seconds: float, used: list[float]) -> int | None:
    """Returns the exit code, or None after these seconds; adds the processor time to `used` when it has ended."""
    until = time.monotonic() + seconds
    while process.returncode is None:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            used.append(usage.ru_utime + usage.ru_stime)
            process.returncode = os.waitstatus_to_exitcode(status)
        elif time.monotonic() >= until:
            break
        else:
            time.sleep(CHECK_SECONDS)
    return process.returncode


def _end_orphans(session: int) -> list[float]:
    """Ends the adopted processes of a session, and returns the processor time of each."""
    used = []
    for _ in range(20):  # the children of an adopted process are adopted when it has ended
        found = _children_of(session)
        for pid in found:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                usage = os.wait4(pid, 0)[2]
                used.append(usage.ru_utime + usage.ru_stime)
        if not found:
            break
    return used


def _children_of(session: int) -> list[int]:
    """Returns the children of this process in a session."""
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            _, parent, _, of_session, *_ = file.read_text().rpartition(")")[2].split()
            if (int(parent), int(of_session)) == (os.getpid(), session):
                found.append(int(file.parent.name))
    return found
