"""`spark-assign shell` in a terminal, with completion, Ctrl-C, and Ctrl-D; and with lines from standard input."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import SimpleNamespace

import pytest

from jobs._entry import command
from jobs.shell import PROMPT, Shell
from tests.cases import cases
from tests.docs.pages import block
from tests.e2e.conftest import ROOT

SHELL = [sys.executable, str(ROOT / "jobs" / "shell.py")]
ENVIRONMENT = {"PYTHONPATH": str(ROOT), "SPARK_ASSIGN_ENGINE": "embedded", "SPARK_ASSIGN_LOCAL_FILES": "yes"}
PRESSES, SECONDS_BETWEEN_PRESSES = 6, 10


class Terminal:
    """A shell in a pseudoterminal."""

    def __init__(self) -> None:
        self.process, self._end = pty.fork()
        if self.process == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a job in the background ignores it
            os.execve(SHELL[0], SHELL, {**os.environ, **ENVIRONMENT, "TERM": "dumb", "INPUTRC": os.devnull})
        self.type("")

    def type(self, keys: str, until: str = PROMPT) -> str:
        """Returns what the terminal shows from these keys to the next prompt, or to `until`."""
        os.write(self._end, keys.encode())
        shown = b""
        while not shown.endswith(until.encode()):
            shown += os.read(self._end, 65_536)
        return shown.decode()

    def press_ctrl_c(self) -> str:
        """Presses Ctrl-C, again while nothing happens, and returns what the terminal shows up to the next prompt.

        Python loses one that comes between readline's prompt, or the echo of a key, and the wait for the next key.
        """
        for _ in range(PRESSES):
            os.write(self._end, b"\x03")
            if select.select([self._end], [], [], SECONDS_BETWEEN_PRESSES)[0]:
                break
        return self.type("")

    def end(self) -> int:
        """Types Ctrl-D, and returns the exit code of the shell."""
        os.write(self._end, b"\x04")
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])

    def cpu_seconds(self) -> float:
        """Returns the processor time that the shell has taken."""
        with open(f"/proc/{self.process}/stat", encoding="utf-8") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def terminal() -> Iterator[Terminal]:
    """A shell that has shown its first prompt."""
    typed = Terminal()
    try:
        yield typed
    finally:
        with suppress(ProcessLookupError):
            os.kill(typed.process, signal.SIGKILL)


def test_a_person_types() -> None:
    """Commands, options, choices, and groups are completed. A warm answer takes less than half the processor time of
    the first, which starts the engine. Ctrl-C ends a command or a line, and Ctrl-D the shell."""
    with terminal() as typed:
        shown = typed.type("adv\tsi\t--sam\t--capacity '*=500' --details pricing-e\t\n")
        assert "pricing-engine, range: over-provisioned" in shown, shown
        first = before = typed.cpu_seconds()
        warm = []
        for _ in range(3):
            assert "billing-aggregator" in typed.type("advise size --sample --details 'billing*'\n")
            warm.append(typed.cpu_seconds() - before)
            before += warm[-1]
        assert min(warm) < first / 2
        typed.type("advise --sample\n", until="in this process\r\n")
        assert "advise: interrupted" in typed.press_ctrl_c()
        typed.type("plan --no", until="plan --no")
        typed.press_ctrl_c()
        assert "Commands: advise, check, " in typed.type("help\n")
        assert typed.end() == 0


def test_lines_of_a_file() -> None:
    """The shell prints what the page shows, without prompts. A mistake is a sentence. The last exit code counts."""
    page = block("docs/tutorial.md", PROMPT)
    lines = [line.removeprefix(PROMPT) for line in page if line.startswith(PROMPT)]
    lines += ["plan 'x", "plam --sample", "mcp --sample", "", "diff", "plan --group \udcff", "plan --nope"]
    done = subprocess.run(
        SHELL,
        input="\n".join(lines),
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        errors="surrogateescape",
        check=False,
    )
    assert (done.returncode, done.stdout.splitlines()) == (2, [line for line in page if not line.startswith(PROMPT)])
    for text in (
        "shell: No closing quotation. Close the quote, or put a backslash before it.\n",
        "shell: there is no command plam. Did you mean plan? Type help for a list.\n",
        "shell: there is no command mcp. Type help for a list.\n",
        "plan: Invalid value for '--group': a value has a NUL, or isn't UTF-8.",
        "plan: No such option '--nope'.",
    ):
        assert text in done.stderr


@cases(
    "line found",
    ("adv", ["advise "]),
    ("ex", ["exit "]),
    ("replicas pl", ["place "]),
    ("migrate to-r", ["to-release "]),
    ("plan --fail-on ", ["rejected "]),
    ("compare --fleet conf/sample-f", ["conf/sample-fleet/"]),
    ("plan --fleet conf/sample-fleet --group od", ["'odd [[]g][*]' "]),
)
def test_what_is_completed(line: str, found: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands, subcommands, choices, paths, and names: quoted, and as a pattern that matches nothing else."""
    monkeypatch.chdir(ROOT)
    shell = Shell(command, SimpleNamespace())
    shell._names["conf/sample-fleet"] = shell.words(["odd [g]*", "other", "od\x1b[2J", "o" * 300])
    text = line.rpartition(" ")[2]
    assert list(shell.completions(line, text)) == found


def test_the_last_fleet_that_a_line_names() -> None:
    """A line without one, or without arguments, changes nothing."""
    shell = Shell(command, SimpleNamespace())
    found = []
    for words in ([], ["--fleet", "a"], [], ["--group", "x=y"], ["--fleet=b"], ["--fleet"]):
        shell._note_location(words)
        found.append(shell.location)
    assert found == [None, "a", "a", "a", "b", "b"]
