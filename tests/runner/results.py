"""What pytest leaves in a JUnit file: each test with its outcome and seconds; and where the time of a run went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

SLOWEST = 25
"""The number of tests that a run lists by name."""
SHOWN_SECONDS = 5
"""Files that take less are summed up on the screen; `durations.txt` has all."""


@dataclass(frozen=True)
class Test:
    """A test that pytest reports.

    Attributes:
        module: the dotted name of its file, with the class if it is in one.
        name: the function with its parameters.
        outcome: passed, failed or skipped.
        seconds: wall time, with the test's own fixtures.
        message: the reason, if it was skipped.
    """

    module: str
    name: str
    outcome: str
    seconds: float = 0
    message: str = ""

    @property
    def full_name(self) -> str:
        """Module and name with a dot between; a module that was skipped as a whole has one of them."""
        return ".".join(filter(None, (self.module, self.name)))


def read_junit(file: Path) -> list[Test]:
    """Returns the tests of a JUnit file. A test that passed and then failed to clean up has failed."""
    return list(map(_test, ElementTree.parse(file).getroot().iter("testcase")))


def _test(case: ElementTree.Element) -> Test:
    children = {child.tag: child for child in case}
    outcome = "failed" if children.keys() & {"failure", "error"} else "skipped" if "skipped" in children else "passed"
    message = children["skipped"].get("message", "") if outcome == "skipped" else ""
    return Test(case.get("classname", ""), case.get("name", ""), outcome, float(case.get("time") or 0), message)


def durations(tests: Mapping[str, Sequence[Test]]) -> Iterator[str]:
    """Yields lines with the seconds of each part's files, longest first, and the slowest tests of all parts."""
    for part, those in tests.items():
        yield f"seconds per file of {part}"
        files: Counter[str] = Counter()
        for test in those:
            files[test.module] += test.seconds  # type: ignore[assignment]
        yield from (f"{seconds:8.1f}  {file}" for file, seconds in files.most_common())
    yield f"the {SLOWEST} slowest tests"
    slowest = sorted(((test, part) for part, those in tests.items() for test in those), key=lambda at: -at[0].seconds)
    yield from (f"{test.seconds:8.1f}  {part}: {test.full_name}" for test, part in slowest[:SLOWEST])


def shortened(lines: Iterator[str]) -> Iterator[str]:
    """Yields the lines of `durations` for the screen: files below SHOWN_SECONDS are one line for each part."""
    rest, files = 0.0, True
    for line in lines:
        seconds = float(line.split()[0]) if line.startswith(" ") else None
        if files and seconds is not None and seconds < SHOWN_SECONDS:
            rest += seconds
            continue
        if seconds is None and files and rest:
            yield f"{rest:8.1f}  files of less than {SHOWN_SECONDS} s each"
            rest = 0.0
        files = files and not line.startswith("the ")
        yield line
