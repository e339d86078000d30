"""Whether a part is green: never by silence, only by the results that it leaves. And the totals of all parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

from tests.runner.parts import MAY_SKIP, Part
from tests.runner.processes import Ended
from tests.runner.results import Test, read_junit
from tests.runner.tools import Tool, named_in

OVER_BUDGET = 1.3
"""A part has exceeded its budget with more than this multiple of its processor time."""


@dataclass(frozen=True)
class Verdict:
    """How a part ended: it failed if there is anything in `reasons`."""

    part: Part
    seconds: float = 0
    processor_seconds: float = 0
    reasons: tuple[str, ...] = ()
    tests: tuple[Test, ...] = ()
    log: Path | None = None
    remarks: tuple[str, ...] = ()
    """What doesn't make the part fail, but has to be said."""

    def count(self, outcome: str) -> int:
        """Returns the number of tests with an outcome."""
        return sum(test.outcome == outcome for test in self.tests)

    @property
    def failed(self) -> int:
        """The failed tests. A part that fails without one counts as one, so that no total hides it."""
        return max(self.count("failed"), 1 if self.reasons else 0)

    @property
    def lacking(self) -> Counter[Tool]:
        """For each tool that the machine lacks, the number of tests that were skipped without it."""
        return Counter(tool for test in self.tests if (tool := named_in(test.message)))

    @property
    def word(self) -> str:
        """FAILED, skipped (no test was executed, for lack of tools), or ok."""
        if self.reasons:
            return "FAILED"
        return "skipped" if self.tests and self.count("skipped") == len(self.tests) else "ok"


def judge(part: Part, ended: Ended, junit: Path, log: Path, *, in_ci: bool, hanging: Iterable[str] = ()) -> Verdict:
    """Returns the verdict on a part whose process has ended.

    Outside CI a part is allowed to skip all its tests if each names a missing tool. In CI a skip counts as a failure,
    except for the tests in MAY_SKIP. `hanging` are the tests that ran when the part reached its bound.
    """
    verdict = Verdict(part, ended.seconds, ended.processor_seconds, log=log)
    if ended.code is None:  # a JUnit file, if there is one, might count the test that hangs as passed
        during = ", ".join(hanging)
        reason = f"not over after {ended.seconds:.0f} s: it was ended{f' during {during}' if during else ''}"
        return replace(verdict, reasons=(reason,))
    reasons = [f"exit {ended.code}"] if ended.code else []
    if part.budget and ended.processor_seconds > OVER_BUDGET * part.budget:
        over = f"{ended.processor_seconds:.0f} s of processor time, the budget is {part.budget:.0f}"
        if part.within_budget:
            reasons.append(over)
        else:
            verdict = replace(verdict, remarks=(over,))
    if not part.places:
        return replace(verdict, reasons=tuple(reasons))
    try:
        tests = read_junit(junit)
    except (OSError, ElementTree.ParseError) as problem:
        return replace(verdict, reasons=(*reasons, f"no junit file that can be read ({problem})"))
    reasons += [f"no test of {place} was executed" for place in part.places if not _is_covered(place, tests, in_ci)]
    reasons += _lost(part.counts, tests)
    if failed := sum(test.outcome == "failed" for test in tests):
        reasons.append(f"{failed} failed")
    if in_ci and (forbidden := [test for test in tests if test.outcome == "skipped" and not _may_skip(test)]):
        reasons.append(f"skipped in CI: {', '.join(test.full_name for test in forbidden)}")
        tests = [replace(test, outcome="failed") if test in forbidden else test for test in tests]
    return replace(verdict, reasons=tuple(reasons), tests=tuple(tests))


def _lost(counts: Mapping[str, int], tests: Iterable[Test]) -> Iterator[str]:
    """Yields the files with fewer tests than listed; one that was skipped as a whole, in which no test is known, has a
    reason of its own."""
    names = Counter(test.full_name for test in tests)
    for file, count in counts.items():
        module = file.removesuffix(".py").replace("/", ".")
        found = sum(number for name, number in names.items() if name.startswith(f"{module}."))
        if found < count and module not in names:
            yield f"{file}: {found} tests, tests/counts.toml lists {count} (python -m tests.counts, if that is right)"


def _may_skip(test: Test) -> bool:
    return test.full_name.partition("[")[0] in MAY_SKIP


def _is_covered(place: str, tests: Iterable[Test], in_ci: bool) -> bool:
    """Checks whether a test of the place was executed or, outside CI, every one names a tool that the machine lacks."""
    inside = f"{place.removesuffix('.py').replace('/', '.')}."
    there = [test for test in tests if f"{test.full_name}.".startswith(inside)]
    if any(test.outcome != "skipped" for test in there):
        return True
    return bool(there) and not in_ci and all(named_in(test.message) for test in there)


def summary(wanted: Iterable[Part], verdicts: Mapping[str, Verdict]) -> tuple[list[str], int]:
    """Returns a line for each wanted part (wall time, processor time and its budget), the totals, and a line on what
    was skipped for lack of tools; and the exit code, which is 1 unless every part has a green verdict."""
    judged = [verdicts.get(part.name, Verdict(part, reasons=("left no verdict",))) for part in wanted]
    passed, skipped = (sum(verdict.count(outcome) for verdict in judged) for outcome in ("passed", "skipped"))
    failed = sum(verdict.failed for verdict in judged)
    lines = [*map(_line, judged), f"{passed} passed, {failed} failed, {skipped} skipped"]
    if lacking := sum((verdict.lacking for verdict in judged), Counter[Tool]()):
        tools = "; ".join(f"{count} need {tool.name} ({tool.install})" for tool, count in lacking.items())
        lines.append(f"{lacking.total()} tests did not run, as this machine lacks what they need: {tools}")
    return lines, int(failed > 0 or not judged)


def _line(verdict: Verdict) -> str:
    counts = [f"{count} {each}" for each in ("passed", "skipped") if (count := verdict.count(each))]
    tools = [f"{tool.name} is missing: {tool.install}" for tool in verdict.lacking]
    budget = f" of {verdict.part.budget:.0f}" if verdict.part.budget else ""
    time = f"{verdict.seconds:5.0f} s, CPU {verdict.processor_seconds:4.0f} s{budget}"
    words = "; ".join(filter(None, (*verdict.reasons, *verdict.remarks, ", ".join(counts), *tools)))
    return f"{verdict.part.name:<12} {verdict.word:<7} {time:<27}  {words}".rstrip()
