"""Tools that a machine may lack: without one its tests are skipped, with a message that names it and how to install it.

Standard library only: the runner looks for the tools before anything is installed.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import NoReturn


@dataclass(frozen=True)
class Tool:
    """A program that tests need: the names it goes by on the PATH, and how to install it."""

    name: str
    programs: tuple[str, ...]
    install: str

    @property
    def program(self) -> str | None:
        """The path of the program, or None if it isn't on the PATH."""
        return next(filter(None, map(shutil.which, self.programs)), None)


JAVA = Tool("Java", ("java",), "install a JDK 17 or newer, for example: apt-get install openjdk-17-jdk-headless")
MAVEN = Tool("Maven", ("mvn",), "apt-get install maven")
CHROMIUM = Tool("Chromium", ("chromium", "chromium-browser", "google-chrome"), "apt-get install chromium")
GO = Tool("Go", ("go",), "apt-get install golang-go")
NODE = Tool("Node", ("node",), "apt-get install nodejs npm")
TOOLS = (JAVA, MAVEN, CHROMIUM, GO, NODE)

_NEEDS = "needs {}: "


def in_ci() -> bool:
    """Checks whether skips count as failures."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false", "no")


def lacks(tool: Tool, why: str = "it isn't on the PATH") -> NoReturn:
    """Skips the running test because the machine lacks a tool; in CI the test fails."""
    import pytest

    message = f"{_NEEDS.format(tool.name)}{why}. {tool.install}"
    if in_ci():
        pytest.fail(f"{message} (CI has all tools)", pytrace=False)
    pytest.skip(message)


def named_in(message: str) -> Tool | None:
    """Returns the tool that a message of `lacks` names, or None for any other message of a skipped test."""
    return next((tool for tool in TOOLS if _NEEDS.format(tool.name) in message), None)
