"""Tools that a machine may lack: without one its tests are skipped, with a message that names it and how to install it.

Standard library only: the runner looks for the tools before anything is installed. `tests/run.sh` and `.ci/run` read
tools.txt as well.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn


@dataclass(frozen=True)
class Tool:
    """What tests need: its name, the programs that it goes by on the PATH, and how to install it."""

    name: str
    programs: tuple[str, ...]
    install: str

    @property
    def program(self) -> str | None:
        """The path of the program, or None if it is neither on the PATH nor in Java's home."""
        home = os.environ.get("JAVA_HOME")
        path = os.pathsep.join(filter(None, (home and f"{home}/bin", os.environ.get("PATH"))))
        return next(filter(None, (shutil.which(each, path=path) for each in self.programs)), None)


def _tool(line: str) -> Tool:
    name, programs, install = line.split("|")
    return Tool(name, tuple(programs.split()), install)


TOOLS = tuple(map(_tool, Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines()))
JAVA, MAVEN, CHROMIUM, GO, NODE = TOOLS
NETWORK = Tool("a network", (), "connect this machine to Maven Central and to the package indexes")
"""Is no program, but what tests fetch may be out of reach."""
_NEEDS = "needs {}: "


def in_ci(environment: Mapping[str, str] = os.environ) -> bool:
    """Checks whether this is CI, where a skip counts as a failure."""
    return environment.get("CI", "").lower() not in ("", "0", "false", "no")


def lack(tool: Tool, reason: str) -> str:
    """Returns the message of a test that is skipped because the machine lacks a tool."""
    return f"{_NEEDS.format(tool.name)}{reason}. {'To install it' if tool.programs else 'To do'}: {tool.install}"


def lacks(tool: Tool, reason: str = "it isn't on the PATH") -> NoReturn:
    """Skips the running test because the machine lacks a tool; in CI the test fails."""
    import pytest

    message = lack(tool, reason)
    if in_ci():
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


def named_in(message: str) -> Tool | None:
    """Returns the tool that a message of `lacks` names, or None for every other reason of a skip."""
    return next((tool for tool in (*TOOLS, NETWORK) if _NEEDS.format(tool.name) in message), None)
