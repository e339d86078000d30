"""Reports the progress of long operations: a bar on a terminal, occasional lines in a log, nothing if it is quick.

    with progress("groups described", len(groups)) as step:
        for batch in batches:
            describe(batch)
            step(len(batch))

Progress is shown if this module's logger is at INFO, as `command.run_job` sets it. Python callers enable it themselves.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

QUIET_S = 5.0
"""Time before the first report, in seconds."""

EVERY_S = 10.0
"""Time between two lines in a log, in seconds."""

_REDRAWN_S = 1.0

log = logging.getLogger(__name__)

_FREE = threading.Lock()
"""Only one operation is reported at a time; nested operations are part of it."""


class ProgressStep(Protocol):
    """Reports completed items, and optionally the name of the next one."""

    def __call__(self, done: int = 1, following: str = "") -> None: ...


@contextmanager
def progress(what: str, total: int) -> Iterator[ProgressStep]:
    """Reports progress once the operation has taken `QUIET_S` seconds.

    Args:
        what: what is done, in plural past form (`groups described`); for a single item (`total` 1), what is being done.
        total: number of items.

    Yields:
        a function to call after one or more items, from any thread.
    """
    if total < 1 or not log.isEnabledFor(logging.INFO) or not _FREE.acquire(blocking=False):
        yield lambda done=1, following="": None
        return
    account = Account(what, total, "", _Bar(what, total) if sys.stderr.isatty() else Lines())
    over = threading.Event()
    ticking = threading.Thread(target=_tick, args=(account, over), daemon=True)
    ticking.start()
    try:
        yield account.step
        account.finish()
    finally:
        over.set()
        ticking.join()
        account.display.end()
        _FREE.release()


def _tick(account: Account, over: threading.Event) -> None:
    """Refreshes the display while a single step takes long."""
    while not over.wait(_REDRAWN_S):
        account.look()


class Account:
    """Counts completed items and remembers the time of the last report."""

    def __init__(
        self, what: str, total: int, current: str, display: Lines, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.what, self.total, self.done, self.current = what, total, 0, current
        self.display = display
        self._clock = clock
        self._began = clock()
        self._due_at, self._is_shown = self._began + QUIET_S, False
        self._lock = threading.Lock()

    def step(self, done: int = 1, following: str = "") -> None:
        """Counts completed items."""
        with self._lock:
            self.done, self.current = self.done + done, following
        self.look()

    def look(self) -> None:
        """Reports if a report is due."""
        with self._lock:
            now = self._clock()
            if now >= self._due_at:
                self._show(now)

    def finish(self) -> None:
        """Reports completion if anything was reported before."""
        with self._lock:
            if self._is_shown:
                self.done, self.current = self.total, ""
                self._show(self._clock())

    def _show(self, now: float) -> None:
        self._due_at, self._is_shown = now + self.display.every_s, True
        self.display.show(self.text(now - self._began), self.done, now - self._began)

    def text(self, since_s: float) -> str:
        """Returns item, progress, and remaining time: `groups described: 600 of 1,200, 30 s, about 30 s to go`."""
        progress_text = f"{self.done:,} of {self.total:,}, " if self.total > 1 else ""
        current = f"now {self.current}, " if self.current else ""
        remaining = since_s * (self.total - self.done) / self.done if self.done else 0
        to_go = f", about {duration(remaining)} to go" if remaining else ""
        return f"{self.what}: {progress_text}{current}{duration(since_s)}{to_go}"


def duration(seconds: float) -> str:
    """Formats seconds: `42 s`, `3 min 20 s`, `2 h 5 min`."""
    total = round(seconds)
    if total < 60:
        return f"{total} s"
    minutes, remainder = divmod(total, 60)
    return f"{minutes} min {remainder} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


class Lines:
    """Progress as lines of a log. A subclass is another display."""

    every_s = EVERY_S

    def show(self, text: str, done: int, since_s: float) -> None:
        """Shows the text, the number of completed items, and the elapsed seconds; here as a line with the text."""
        log.info("%s", text)

    def end(self) -> None:
        """Ends the output, after success or failure."""


class _Bar(Lines):
    """Progress as a bar on the terminal, by click. A log line replaces the bar, which is then drawn again."""

    every_s = 0.0

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total = what, total
        self._bar: Any = None
        self._handlers = logging.getLogger().handlers

    def show(self, text: str, done: int, since_s: float) -> None:
        """Draws the bar, with the details of the text behind it."""
        if self._bar is None:
            self._bar = _drawn(self._what, self._total, since_s)
            for handler in self._handlers:
                handler.addFilter(_clears_the_line)
        if self._total > 1:
            self._bar.current_item = _behind(text)
            self._bar.update(done - self._bar.pos)
        else:
            self._bar.label = text
        self._bar.render_progress()  # a step that takes long moves on as well

    def end(self) -> None:
        """Finishes the bar and its line."""
        if self._bar is not None:
            self._bar.render_finish()
            for handler in self._handlers:
                handler.removeFilter(_clears_the_line)


def _drawn(what: str, total: int, since_s: float) -> Any:
    import click  # only where there is a terminal

    plain: dict[str, Any] = {} if total > 1 else {"bar_template": "%(label)s", "show_eta": False}
    bar: Any = click.progressbar(
        length=total, label=what, file=sys.stderr, show_pos=True, item_show_func=lambda item: item, **plain
    )
    bar.start = bar.last_eta = time.time() - since_s  # it knows only since when it is drawn
    return bar


def _behind(text: str) -> str:
    """Returns the current item and the elapsed time; click itself shows counts and the remaining time."""
    words = text.partition(": ")[2].split(", ")
    return ", ".join(word for word in words if " of " not in word and not word.endswith(" to go"))


def _clears_the_line(_: logging.LogRecord) -> bool:
    sys.stderr.write("\r\x1b[K")
    return True
