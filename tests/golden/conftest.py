"""What the golden tests leave out of the recorded rows is told at the end of the run, not only where it is counted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

_LEFT_OUT = pytest.StashKey[dict[str, int]]()


@pytest.fixture
def left_out(request: pytest.FixtureRequest) -> Callable[[str, int], None]:
    """`left_out(what, count)`: so many recorded rows are not compared, and why; the test asserts the count itself."""
    told = request.config.stash.setdefault(_LEFT_OUT, {})
    file = request.path.stem.removeprefix("test_")

    def tell(what: str, count: int) -> None:
        told[f"{file}: {what}"] = count

    return tell


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """A line for each reason."""
    if told := config.stash.get(_LEFT_OUT, {}):
        terminalreporter.section("recorded rows left out")
        for what, count in sorted(told.items()):
            terminalreporter.write_line(f"{count:>7,}  {what}")
