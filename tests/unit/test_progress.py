"""What takes long says how far it is: with a clock of the test's own, in a log, on a terminal, and from threads."""

from __future__ import annotations

import io
import logging
import re
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from spark_assign.spark import progress as module
from spark_assign.spark.progress import Account, Lines, duration, progress
from tests.cases import cases


class Clock:
    """Goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Shown(Lines):
    """Keeps what is shown."""

    every_s = 10.0

    def __init__(self) -> None:
        self.texts: list[str] = []

    def show(self, text: str, done: int, since_s: float) -> None:
        self.texts.append(text)

    def end(self) -> None:
        self.texts.append("end")


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """The log at INFO."""
    with caplog.at_level(logging.INFO, "spark_assign.spark.progress"):
        yield caplog


def fail(what: str, total: int) -> None:
    """Something that goes wrong after a while."""
    with progress(what, total) as step:
        step(0)
        time.sleep(0.2)
        raise ZeroDivisionError


def test_quiet_then_a_line_now_and_then() -> None:
    """Nothing before five seconds; then ten seconds between lines; what, how far, since when, how long yet."""
    clock, shown = Clock(), Shown()
    account = Account("groups described", 1200, "", shown, clock)
    for _ in range(6):
        clock.now += 4
        account.step(100)
    assert shown.texts == [
        "groups described: 200 of 1,200, 8 s, about 40 s to go",
        "groups described: 500 of 1,200, 20 s, about 28 s to go",
    ]
    clock.now += 80
    account.finish()
    assert shown.texts[2:] == ["groups described: 1,200 of 1,200, 1 min 44 s"]


def test_what_is_quick_says_nothing() -> None:
    """Not even that it is done."""
    clock, shown = Clock(), Shown()
    account = Account("groups described", 3, "", shown, clock)
    for _ in range(3):
        clock.now += 1.6
        account.step()
    account.finish()
    assert shown.texts == []


def test_a_single_step_that_takes_long() -> None:
    """Looked at from outside: what is being done now, and since when."""
    clock, shown = Clock(), Shown()
    account = Account("tables written", 3, "decided", shown, clock)
    clock.now += 7
    account.look()
    clock.now += 53
    account.step(1, "moves")
    assert shown.texts == [
        "tables written: 0 of 3, now decided, 7 s",
        "tables written: 1 of 3, now moves, 1 min 0 s, about 2 min 0 s to go",
    ]
    assert Account("comparing assignors", 1, "", shown, clock).text(12) == "comparing assignors: 12 s"


@cases("seconds text", (0.2, "0 s"), (59.4, "59 s"), (59.6, "1 min 0 s"), (200, "3 min 20 s"), (7500, "2 h 5 min"))
def test_durations(seconds: float, text: str) -> None:
    """In the two largest units."""
    assert duration(seconds) == text


def test_in_a_log(log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a terminal a line; also while a step is on its way; nothing more after an error."""
    monkeypatch.setattr(module, "QUIET_S", 0.05)
    monkeypatch.setattr(module, "_REDRAWN_S", 0.02)
    with progress("groups described", 2) as step:
        time.sleep(0.2)
        assert [record.getMessage() for record in log.records] == ["groups described: 0 of 2, 0 s"]
        step()
        step()
    assert re.fullmatch(r"groups described: 2 of 2, \d+ s", log.records[-1].getMessage())
    log.clear()
    with pytest.raises(ZeroDivisionError):
        fail("groups described", 2)
    assert len(log.records) == 1


def test_without_a_log_nothing_is_started(caplog: pytest.LogCaptureFixture) -> None:
    """Who calls the package from Python and has asked for no log."""
    before = threading.active_count()
    with caplog.at_level(logging.WARNING, "spark_assign.spark.progress"), progress("groups", 2) as step:
        assert threading.active_count() == before
        step()


def test_only_the_outer_one_is_shown(log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """And after it the next one is."""
    monkeypatch.setattr(module, "QUIET_S", 0)
    with progress("outer", 1) as outer:
        with progress("inner", 1) as inner:
            inner()
        outer()
    with progress("next", 1) as step:
        step()
    assert {record.getMessage().partition(":")[0] for record in log.records} == {"outer", "next"}


def test_from_threads(log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step counts once."""
    monkeypatch.setattr(module, "QUIET_S", 0)
    with progress("clusters read", 400) as step:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: step(), range(399)))
        step.__self__._due_at = 0.0  # type: ignore[attr-defined]
        step()
        assert log.records[-1].getMessage().startswith("clusters read: 400 of 400")


class Terminal(io.StringIO):
    """Standard error of somebody who sits before it."""

    def isatty(self) -> bool:
        return True


def test_on_a_terminal(log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bar; lines of the log have one of their own; the cursor comes back, after an error as well."""
    monkeypatch.setattr(module, "QUIET_S", 0)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    handler = logging.StreamHandler(terminal)
    logging.getLogger().addHandler(handler)
    try:
        with progress("tables written", 4) as step:
            step(0, "decided")
            assert "now decided" in terminal.getvalue()
            step(3, "moves")
            assert "tables written" in terminal.getvalue()
            assert "3/4" in terminal.getvalue()
            assert "now moves" in terminal.getvalue()
            logging.getLogger().error("wrote moves")
            assert terminal.getvalue().endswith("\r\x1b[Kwrote moves\n")
        with pytest.raises(ZeroDivisionError):
            fail("comparing assignors", 1)
    finally:
        logging.getLogger().removeHandler(handler)
    shown = terminal.getvalue()
    assert "comparing assignors: 0 s" in shown
    assert shown.count("\x1b[?25h") == 2
    assert handler.filters == []
    assert log.records[-1].getMessage() == "wrote moves"
