"""Marks the tests that need Spark, and lists at the end of the run the recorded rows that no test compares."""

from __future__ import annotations

from collections.abc import Callable

import pytest

_LEFT_OUT = "left out: "


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks each test that requests the `spark` fixture, so that `-m "not spark"` starts no session."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")


@pytest.fixture
def left_out(request: pytest.FixtureRequest) -> Callable[[str, int], None]:
    """`left_out(reason, count)` records the number of recorded rows that the test doesn't compare.

    The test itself asserts the count. The record is a property of the test's report, which pytest-xdist sends to the
    controller and JUnit files include.
    """
    file = request.path.stem.removeprefix("test_")

    def record(reason: str, count: int) -> None:
        request.node.user_properties.append((f"{_LEFT_OUT}{file}: {reason}", count))

    return record


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints a line for each reason."""
    reports = [each for some in terminalreporter.stats.values() for each in some if isinstance(each, pytest.TestReport)]
    properties = dict(each for report in reports for each in report.user_properties)
    counts = {key.removeprefix(_LEFT_OUT): count for key, count in properties.items() if key.startswith(_LEFT_OUT)}
    if counts:
        terminalreporter.section("recorded rows left out")
        for what, count in sorted(counts.items()):
            terminalreporter.write_line(f"{count:>7,}  {what}")
