"""Parts that are a line of shell each, and a runner for them in a folder of their own."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.runner.__main__ import run
from tests.runner.parts import Lane, Part
from tests.runner.processes import Processes


def case(test: str, inside: str = "") -> str:
    """One test in a junit file, by its dotted name."""
    module, _, name = test.rpartition(".")
    return f'<testcase classname="{module}" name="{name}">{inside}</testcase>'


def leaves(*cases: str) -> str:
    """A shell command that leaves such a junit file."""
    return f"""echo '<testsuites><testsuite>{"".join(cases)}</testsuite></testsuites>' >"$1" """


GOOD = leaves(case("tests.fake.test_a.test_one"))


def skipped(test: str, message: str = "why not") -> str:
    """One skipped test in a junit file."""
    return case(test, f'<skipped message="{message}"/>')


def fake(
    script: str,
    name: str = "fake",
    places: tuple[str, ...] = ("tests/fake",),
    seconds: float = 20,
    lane: Lane = Lane.COMPUTING,
) -> Part:
    """A part that is a line of shell; $1 is where its junit file belongs."""
    return Part(name, ("sh", "-c", script), places, seconds=seconds, lane=lane)


BESIDE = fake(GOOD, "beside")
"""A green part that runs along, to see that it neither hides what is red nor suffers from it."""


@dataclass(frozen=True)
class Printed:
    """What a run of parts has printed, its exit code and its last line."""

    code: int
    text: str
    last: str


class Runner:
    """Runs fake parts in a folder of their own."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._folder, self._capsys = folder, capsys

    def __call__(self, *parts: Part, ci: bool = False, grace: float = 5) -> Printed:
        code = run(parts, Processes(self._folder, os.environ, grace), self._folder / "results", ci=ci)
        text = self._capsys.readouterr().out
        return Printed(code, text, text.rstrip("\n").rpartition("\n")[2])


def gone(pid: int) -> bool:
    """Ended; who inherits it may take a moment to notice."""
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        if Path(f"/proc/{pid}/stat").exists() and ") Z " in Path(f"/proc/{pid}/stat").read_text():
            return True
        time.sleep(0.01)
    return False
