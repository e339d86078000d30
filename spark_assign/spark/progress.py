"""What takes long says how far it is: a bar on a terminal, a line now and then in a log, nothing where it is quick.

    with progress("groups described", len(groups)) as step:
        for batch in batches:
            describe(batch)
            step(len(batch))

It is shown where the log of this module is at INFO, as `command.run_job` sets it: who calls the package from Python is
not told, unless he asks for it.
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
"""What is done sooner says nothing."""

EVERY_S = 10.0
"""From one line in a log to the next."""

_REDRAWN_S = 1.0

log = logging.getLogger(__name__)

_FREE = threading.Lock()
"""Only one at a time is shown: what goes on inside of another one is a part of it."""


class ProgressStep(Protocol):
    """So many more are done; and the name of what comes next, where that is worth saying."""

    def __call__(self, done: int = 1, following: str = "") -> None: ...


class Display(Protocol):
    """Where it is shown."""

    every_s: float

    def show(self, text: str, done: int, since_s: float) -> None:
        """What is being done, how many are done, and how long it took up to now."""

    def end(self) -> None:
        """It is over, well or not."""


@contextmanager
def progress(what: str, total: int, first: str = "") -> Iterator[ProgressStep]:
    """Tell how far something is, once it has taken `QUIET_S` seconds.

    Args:
        what: is done, in the plural and as done: `groups described`. Of a single thing (`total` 1) what is being done.
        total: how many there are.
        first: the name of the one that comes first.

    Yields:
        a function to be called after each of them, or some together; from any thread.
    """
    if total < 1 or not log.isEnabledFor(logging.INFO) or not _FREE.acquire(blocking=False):
        yield lambda done=1, following="": None
        return
    account = Account(what, total, first, _Bar(what, total) if sys.stderr.isatty() else Lines())
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
    """What is shown moves on even where a single step takes long."""
    while not over.wait(_REDRAWN_S):
        account.look()


class Account:
    """How many are done of how many, and when it was said last."""

    def __init__(
        self, what: str, total: int, current: str, display: Display, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.what, self.total, self.done, self.current = what, total, 0, current
        self.display = display
        self._clock = clock
        self._began = clock()
        self._said: float | None = None
        self._lock = threading.Lock()

    def step(self, done: int = 1, following: str = "") -> None:
        """So many more are done."""
        with self._lock:
            self.done, self.current = self.done + done, following
        self.look()

    def look(self) -> None:
        """Show it, if the time has come."""
        with self._lock:
            now = self._clock()
            due = now >= self._began + QUIET_S if self._said is None else now >= self._said + self.display.every_s
            if due:
                self._show(now)

    def finish(self) -> None:
        """It went well: say so, if anything was said before."""
        with self._lock:
            if self._said is not None:
                self.done, self.current = self.total, ""
                self._show(self._clock())

    def _show(self, now: float) -> None:
        self._said = now
        self.display.show(self.text(now - self._began), self.done, now - self._began)

    def text(self, since_s: float) -> str:
        """What, how far, how long yet: `groups described: 600 of 1,200, 30 s, about 30 s to go`."""
        far = f"{self.done:,} of {self.total:,}, " if self.total > 1 else ""
        current = f"now {self.current}, " if self.current else ""
        left = since_s * (self.total - self.done) / self.done if self.done else 0
        to_go = f", about {duration(left)} to go" if left else ""
        return f"{self.what}: {far}{current}{duration(since_s)}{to_go}"


def duration(seconds: float) -> str:
    """In words: `42 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


class Lines:
    """Lines of a log."""

    every_s = EVERY_S

    def show(self, text: str, done: int, since_s: float) -> None:
        """A line."""
        log.info("%s", text)

    def end(self) -> None:
        """Nothing is left open."""


class _Bar:
    """A bar on the terminal, by click; a line of the log that comes meanwhile takes its place, and it is drawn anew."""

    every_s = 0.0

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total = what, total
        self._bar: Any = None
        self._handlers = logging.getLogger().handlers

    def show(self, text: str, done: int, since_s: float) -> None:
        """The bar as far as it is; behind it what the text says behind the label."""
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
        """Give the terminal its next line back."""
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
    """The name of the current one, and since when: click itself says how many and how long yet."""
    words = text.partition(": ")[2].split(", ")
    return ", ".join(word for word in words if " of " not in word and not word.endswith(" to go"))


def _clears_the_line(_: logging.LogRecord) -> bool:
    sys.stderr.write("\r\x1b[K")
    return True
