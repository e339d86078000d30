"""What tests fetch or make once and keep in the cache folder, and what becomes of a test without it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from tests.runner import tools
from tests.runner.tools import Tool


class UnavailableError(Exception):
    """A tool is missing on this machine, or what it should fetch could not be had; the message is one line."""

    def __init__(self, why: str, tool: Tool | None = None) -> None:
        super().__init__(why)
        self.tool = tool

    def skip(self) -> NoReturn:
        """Skips the running test, which fails in CI; the message names the missing tool, or else the network."""
        tools.lacks(self.tool or tools.NETWORK, str(self))


@contextlib.contextmanager
def or_skipped() -> Iterator[None]:
    """Skips the running test if the block raises UnavailableError; in CI the test fails."""
    try:
        yield
    except UnavailableError as reason:
        reason.skip()


def need(tool: Tool) -> str:
    """Returns the path of a tool; raises UnavailableError if the machine lacks it."""
    if tool.program is None:
        raise UnavailableError("it isn't on the PATH", tool)
    return tool.program


def cache() -> Path:
    """Returns the folder in which everything that tests fetch is kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spark_assign"


@contextlib.contextmanager
def filling(folder: Path) -> Iterator[Path | None]:
    """Yields an empty folder that becomes `folder` when the block ends, or None if `folder` exists."""
    if folder.exists():
        yield None
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Beside the target, then renamed: an interrupted download never looks like a complete folder.
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetching-") as scratch:
        filled = Path(scratch) / "filled"
        filled.mkdir()
        yield filled
        with contextlib.suppress(OSError):  # another process was faster
            filled.rename(folder)


def python_package(package: str, release: str) -> Path:
    """Returns a folder with a package from PyPI (`name`, or `name[extra]`) and what it needs, for PYTHONPATH."""
    folder = cache() / "clients" / f"{package.partition('[')[0]}-{release}-{sys.implementation.cache_tag}"
    with filling(folder) as scratch:
        if scratch:
            only = ["--only-binary", ":all:", "--disable-pip-version-check", "-q"]
            run([sys.executable, "-m", "pip", "install", *only, "--target", str(scratch), f"{package}=={release}"])
    return folder


def run(command: list[str]) -> None:
    """Runs a command that fetches or builds. Raises UnavailableError if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"GOFLAGS": ""})
    if done.returncode != 0:
        output = (done.stderr + done.stdout).strip().splitlines()
        raise UnavailableError(f"{command[-1]}: {output[-1] if output else 'no output'}")
