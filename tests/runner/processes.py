"""Processes that end: each in a group of its own, with a bound, its output in a file, and nothing of it left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Ended:
    """How a process ended: its exit code, or None if it was ended because it had reached its bound."""

    code: int | None
    seconds: float


class StoppedError(Exception):
    """The whole run is being stopped: nothing is started any more."""


class Processes:
    """Runs commands in a folder, from any thread, and can end all of them."""

    def __init__(self, folder: Path, environment: Mapping[str, str], grace: float = 30) -> None:
        self._folder, self._environment, self._grace = folder, dict(environment), grace
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def run(self, command: tuple[str, ...], environment: Mapping[str, str], log: Path, seconds: float) -> Ended:
        """Wait until it has ended, `seconds` at most; what it says goes to `log`, and it is asked nothing."""
        started = time.monotonic()
        process = self._start(command, environment, log)
        try:
            return Ended(process.wait(seconds), time.monotonic() - started)
        except subprocess.TimeoutExpired:
            # As by Ctrl-C: pytest says in which test, and stops the brokers and sessions that it has started.
            _signal(process, signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(self._grace)
            return Ended(None, time.monotonic() - started)
        finally:
            _signal(process, signal.SIGKILL)  # children that were left behind would keep the next part from its memory
            process.wait(60)
            with self._lock:
                self._running.discard(process)

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
