"""Whether a part is green: never by silence, only by what it has left. And the totals of all parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.runner.parts import MAY_SKIP, Part
from tests.runner.processes import Ended


@dataclass(frozen=True)
class Outcomes:
    """The names of the tests in a junit file: module, class if there is one, and function with its parameters."""

    passed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """How a part has ended: green only if there is nothing in `reasons`."""

    part: str
    seconds: float = 0
    reasons: tuple[str, ...] = ()
    tests: Outcomes = Outcomes()
    log: Path | None = None

    @property
    def failed(self) -> int:
        """Its failed tests; a part that is red without one counts as one, so that no total hides it."""
        return max(len(self.tests.failed), 1 if self.reasons else 0)


def judge(part: Part, ended: Ended, junit: Path, log: Path, *, in_ci: bool) -> Verdict:
    """The verdict on a part whose process has ended. In CI a skip counts as a failure, but for MAY_SKIP."""
    if ended.code is None:  # what it may have left counts the test that hangs as passed
        return Verdict(part.name, ended.seconds, (f"not over after {ended.seconds:.0f} s: it was ended",), log=log)
    reasons = [f"exit {ended.code}"] if ended.code else []
    if not part.places:
        return Verdict(part.name, ended.seconds, tuple(reasons), log=log)
    try:
        tests = read_junit(junit)
    except (OSError, ElementTree.ParseError) as problem:
        reasons.append(f"no junit file that can be read ({problem})")
        return Verdict(part.name, ended.seconds, tuple(reasons), log=log)
    executed = (*tests.passed, *tests.failed)
    reasons += [f"no test of {place} was executed" for place in part.places if not any(_in(place, n) for n in executed)]
    if tests.failed:
        reasons.append(f"{len(tests.failed)} failed")
    if in_ci and (forbidden := [name for name in tests.skipped if name.partition("[")[0] not in MAY_SKIP]):
        reasons.append(f"skipped in CI: {', '.join(forbidden)}")
        allowed = tuple(name for name in tests.skipped if name not in forbidden)
        tests = Outcomes(tests.passed, (*tests.failed, *forbidden), allowed)
    return Verdict(part.name, ended.seconds, tuple(reasons), tests, log)


def read_junit(file: Path) -> Outcomes:
    """What pytest has written; a test that was passed and then failed to clear up has failed."""
    found: dict[str, list[str]] = {"passed": [], "failed": [], "skipped": []}
    for case in ElementTree.parse(file).getroot().iter("testcase"):
        name = ".".join(filter(None, (case.get("classname"), case.get("name"))))
        told = {child.tag for child in case}
        found["failed" if told & {"failure", "error"} else "skipped" if "skipped" in told else "passed"].append(name)
    return Outcomes(**{kind: tuple(names) for kind, names in found.items()})


def _in(place: str, name: str) -> bool:
    return f"{name}.".startswith(place.removesuffix(".py").replace("/", ".") + ".")


def summary(wanted: Iterable[str], verdicts: Mapping[str, Verdict]) -> tuple[list[str], int]:
    """A line for each wanted part and, last, the totals; and the exit code: 1 unless every part has a green one."""
    judged = [verdicts.get(part, Verdict(part, reasons=("left no verdict",))) for part in wanted]
    lines = [_line(verdict) for verdict in judged]
    passed, skipped = (sum(len(getattr(v.tests, kind)) for v in judged) for kind in ("passed", "skipped"))
    failed = sum(verdict.failed for verdict in judged)
    return [*lines, f"{passed} passed, {failed} failed, {skipped} skipped"], int(failed > 0 or not judged)


def _line(verdict: Verdict) -> str:
    tests = verdict.tests
    counts = ", ".join(
        f"{len(names)} {kind}" for kind, names in (("passed", tests.passed), ("skipped", tests.skipped)) if names
    )
    told = "; ".join(filter(None, (*verdict.reasons, counts)))
    return f"{verdict.part:<12} {'FAILED' if verdict.reasons else 'ok':<6} {verdict.seconds:5.0f} s  {told}".rstrip()
