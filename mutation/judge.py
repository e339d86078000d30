"""Runs the tests on a mutant: forked from a session that is collected, so that it costs its tests and nothing else.

A change in the body of a function is put into that function's code in the fork. Any other (a constant, a default) is
there before the first import: that fork collects by itself, which takes seconds. In both, the cheapest test that
executes the line comes first and the first failure is the last test. A test that takes many times longer than it does
without a mutant is stopped by the system, and counts as failed.
"""

from __future__ import annotations

import gc
import importlib.abc
import importlib.machinery
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import CodeType, FunctionType, ModuleType

import pytest

from mutation.known import Key
from mutation.reach import Reach
from mutation.session import FOLDERS, QUIET, ROOT, WithoutSpark, calm
from mutation.source import Mutant

KILLED, SURVIVED, UNREACHED = "killed", "survived", "not reached"
SLOWER, AT_LEAST_S = 4, 5.0
"""A test may take this many times its time and this long, of the processor's time; of wall time ten times as much."""
MEMORY = 6 << 30
CHEAP_S = 0.5
_FAILED, _BROKEN = 1, 71


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant.

    Attributes:
        status: killed, survived or not reached.
        by: the test that failed, or why it ended otherwise.
        left_out: tests that would have taken more than the budget.
        seconds: what it took.
    """

    status: str
    by: str = ""
    left_out: int = 0
    seconds: float = 0.0


OnVerdict = Callable[[Mutant, Verdict], None]


def judge(
    mutants: Iterable[Mutant], reach: Reach, budget: float, before: Mapping[Key, Verdict], on_verdict: OnVerdict
) -> None:
    """Tells the verdict of each mutant as soon as it is there; what needs an import of its own comes last.

    Args:
        mutants: those to judge, none of them known as equivalent.
        reach: which tests execute which line.
        budget: seconds of tests per mutant.
        before: verdicts of an earlier run; one that left tests out goes on with those.
        on_verdict: called with each verdict.
    """
    calm()
    warm: list[tuple[Mutant, list[str], int]] = []
    cold: list[tuple[Mutant, list[str], int]] = []
    for mutant in mutants:
        tests, of_import = _tests(mutant, reach)
        within = _within(tests, reach, budget)
        earlier = before.get(mutant.key)
        done = len(tests) - earlier.left_out if earlier else 0
        if earlier and (earlier.status == KILLED or len(within) <= done):
            on_verdict(mutant, earlier)
        elif not tests:
            on_verdict(mutant, Verdict(UNREACHED))
        else:
            (cold if of_import else warm).append((mutant, within[done:], len(tests) - len(within)))
    _import_the_rest()
    if warm:
        _Session(warm, reach, on_verdict).run()
    if cold:
        cheap = [test for test in cold[0][1] if reach.seconds[test] < CHEAP_S]
        if cheap:
            _check_control(_verdict(partial(_collected_again, None, cheap, _Limits(cheap, reach)), 0))
    for mutant, tests, left_out in cold:
        on_verdict(mutant, _verdict(partial(_collected_again, mutant, tests, _Limits(tests, reach)), left_out))


def _check_control(verdict: Verdict) -> None:
    """Without a change nothing may fail, run in the same way: else every mutant would be killed."""
    if verdict.status != SURVIVED or verdict.by:
        raise SystemExit(f"killed without a mutant: {verdict.by}")


def _tests(mutant: Mutant, reach: Reach) -> tuple[list[str], bool]:
    """The tests of a mutant, and whether it has to be there before the first import."""
    if mutant.in_body:
        tests = reach.of_lines(mutant.file, mutant.lines)
        if tests or not reach.at_import[mutant.file] & {*mutant.lines}:
            return tests, False
    return reach.of_module(mutant.file), True


def _within(tests: Sequence[str], reach: Reach, budget: float) -> list[str]:
    kept: list[str] = []
    for test in tests:
        budget -= reach.seconds[test]
        if kept and budget < 0:
            break
        kept.append(test)
    return kept


def _import_the_rest() -> None:
    """What tests and kernels import of others: every fork has it then."""
    import chispa  # noqa: F401
    import numpy  # noqa: F401
    import pandas  # noqa: F401
    import pyarrow.compute  # noqa: F401
    import pyspark.sql.functions  # noqa: F401
    import scipy.optimize  # noqa: F401


def _verdict(run: Callable[[int], None], left_out: int) -> Verdict:
    """Of a fork that writes the test that failed into the pipe, and ends."""
    begun = time.monotonic()
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reads)
            gone = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(gone, stream)
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            run(writes)
        finally:
            os._exit(_BROKEN)
    os.close(writes)
    with os.fdopen(reads, "rb") as pipe:
        by = pipe.read().decode()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    took = round(time.monotonic() - begun, 2)
    if code == 0:
        return Verdict(SURVIVED, "", left_out, took)
    if code == _BROKEN:  # no test has spoken: not to be counted as killed
        return Verdict(SURVIVED, "the run itself failed", left_out, took)
    if code in (-signal.SIGPROF, -signal.SIGALRM):
        return Verdict(KILLED, "too slow", left_out, took)
    return Verdict(KILLED, by or f"ended with {code}", left_out, took)


class _Limits:
    """Stops each test by the system: a loop in C asks no Python handler."""

    def __init__(self, tests: Sequence[str], reach: Reach) -> None:
        self.seconds = {test: AT_LEAST_S + SLOWER * reach.seconds[test] for test in tests}

    def begin(self, test: str) -> None:
        limit = self.seconds.get(test, AT_LEAST_S)
        for number, timer, seconds in (
            (signal.SIGPROF, signal.ITIMER_PROF, limit),
            (signal.SIGALRM, signal.ITIMER_REAL, 10 * limit),
        ):
            signal.signal(number, signal.SIG_DFL)
            signal.setitimer(timer, seconds)


class _FirstFailure:
    """Ends the process at the first failure, with the test's name in the pipe."""

    def __init__(self, limits: _Limits, report: int) -> None:
        self.limits, self.report = limits, report

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """The clock of this test."""
        self.limits.begin(nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Enough is known."""
        if report.failed:
            os.write(self.report, report.nodeid.encode())
            os._exit(_FAILED)


class _Session:
    """A collected session that forks for each mutant in place of running its tests."""

    def __init__(self, jobs: Sequence[tuple[Mutant, list[str], int]], reach: Reach, on_verdict: OnVerdict) -> None:
        self.jobs, self.reach, self.on_verdict = jobs, reach, on_verdict

    def run(self) -> None:
        """In a fork, so that this process has imported nothing of the package: others follow."""
        reads, writes = os.pipe()
        child = os.fork()
        if not child:
            try:
                os.close(reads)
                self.results = writes
                code = pytest.main([*QUIET, *FOLDERS], plugins=[WithoutSpark(), self])
                os._exit(0 if code in (0, 5) else int(code))
            finally:
                os._exit(70)
        os.close(writes)
        with os.fdopen(reads) as lines:
            for line in lines:
                number, *verdict = json.loads(line)
                self.on_verdict(self.jobs[number][0], Verdict(*verdict))
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            raise SystemExit("the session that judges has ended before its time")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """All mutants; no test runs in this process, so nothing is kept from one to the next."""
        items = {item.nodeid: item for item in session.items}
        functions = _functions()
        gc.freeze()
        self._control(items)
        for number, (mutant, tests, left_out) in enumerate(self.jobs):
            chosen = [items[test] for test in tests]
            verdict = _verdict(partial(self._one, mutant, chosen, functions), left_out)
            message = [number, verdict.status, verdict.by, verdict.left_out, verdict.seconds]
            os.write(self.results, json.dumps(message).encode() + b"\n")
        return True

    def _control(self, items: dict[str, pytest.Item]) -> None:
        cheap = {test for _, tests, _ in self.jobs for test in tests if self.reach.seconds[test] < CHEAP_S}
        chosen = [items[test] for test in sorted(cheap, key=lambda test: (self.reach.seconds[test], test))]
        if chosen:
            _check_control(_verdict(partial(self._run, chosen), 0))

    def _one(
        self, mutant: Mutant, items: Sequence[pytest.Item], functions: dict[str, list[FunctionType]], report: int
    ) -> None:
        if not _exchange(mutant, functions.get(mutant.file, [])):
            _forget_the_package()
            names = [item.nodeid for item in items]
            _collected_again(mutant, names, _Limits(names, self.reach), report)
        self._run(items, report)

    def _run(self, items: Sequence[pytest.Item], report: int) -> None:
        limits = _Limits([item.nodeid for item in items], self.reach)
        items[0].config.pluginmanager.register(_FirstFailure(limits, report))
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        os._exit(0)


def _functions() -> dict[str, list[FunctionType]]:
    """Every function of the package that there is, by file."""
    found: dict[str, list[FunctionType]] = {}
    for each in gc.get_objects():
        if type(each) is FunctionType and each.__code__.co_filename.startswith(f"{ROOT}/spark_assign/"):
            found.setdefault(each.__code__.co_filename.removeprefix(f"{ROOT}/"), []).append(each)
    return found


def _exchange(mutant: Mutant, functions: Sequence[FunctionType]) -> bool:
    """Puts the changed code into the function, decorated or not; false if there is none or it does not fit."""
    path = str(ROOT / mutant.file)
    old = _codes((ROOT / mutant.file).read_text(), path)
    new = _codes(mutant.source, path)
    if len(old) != len(new):
        return False
    done = False
    for before, after in zip(old, new, strict=True):
        if before == after:
            continue
        for function in functions:
            if function.__code__ == before:
                try:
                    function.__code__ = after
                except ValueError:  # another number of free variables
                    return False
                done = True
    return done


def _codes(source: str, path: str) -> list[CodeType]:
    """Code of the functions and methods of a file, in its order."""
    return [*_inside(compile(source, path, "exec", dont_inherit=True))]


def _inside(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            if each.co_flags & 2:  # has fast locals: a function; the others are bodies of classes
                yield each
            else:
                yield from _inside(each)


def _forget_the_package() -> None:
    for name in [name for name in sys.modules if name.split(".")[0] in ("spark_assign", "jobs", "tests", "benchmarks")]:
        del sys.modules[name]


def _collected_again(mutant: Mutant | None, tests: Sequence[str], limits: _Limits, report: int) -> None:
    """Collects the files of the tests with the change in place, and runs the tests in their order."""
    if mutant is not None:
        sys.meta_path.insert(0, _Changed(mutant))
    limits.seconds[""] = 60.0
    limits.begin("")
    order = {test: at for at, test in enumerate(tests)}
    code = pytest.main([*QUIET, "-x", *tests], plugins=[WithoutSpark(), _InOrder(order), _FirstFailure(limits, report)])
    # A module that cannot be imported any more is an error of the collection.
    os._exit(int(code))


class _InOrder:
    def __init__(self, order: dict[str, int]) -> None:
        self.order = order

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Cheapest first, whatever file they are in."""
        items.sort(key=lambda item: self.order[item.nodeid])


class _Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module of the package from the changed source."""

    def __init__(self, mutant: Mutant) -> None:
        self.source, self.path = mutant.source, str(ROOT / mutant.file)
        self.package = self.path.endswith("/__init__.py")
        self.name = mutant.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def find_spec(self, name: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        """Of this module only."""
        if name != self.name:
            return None
        spec = importlib.machinery.ModuleSpec(name, self, origin=self.path, is_package=self.package)
        spec.has_location = True
        return spec

    def exec_module(self, module: ModuleType) -> None:
        """The changed source under its own name."""
        exec(compile(self.source, self.path, "exec", dont_inherit=True), module.__dict__)
