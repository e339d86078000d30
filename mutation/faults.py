"""Puts each fault of faults.toml into a copy of the project and runs the tests that must fail with it.

    mutation/faults                     all faults, one after the other
    mutation/faults --only wire         the faults whose name or file contains the text; repeatable
    mutation/faults --jobs 2            two copies of the project, two faults at a time

mutation/mutants changes the kernels at random and starts no Spark. This list holds faults in the code around them:
drivers, wire formats, stores, sources, commands, and at least one fault in each job. Only tests of the default run
count (`-m "not full"`). A fault is caught if a named test fails; an error outside of a test (in the collection or in a
fixture) is no proof. First, all named tests run without a fault and must pass. The exit code is 1 if a fault survives.

Each fault runs in a Python process of its own, on the embedded engine. Tests that need Spark itself (`classic` in
tests/selection.toml) share a JVM in each copy, because starting a JVM takes longer than most of the tests: the session
stops with the process, and its Python workers with it.
"""

from __future__ import annotations

import argparse
import compileall
import os
import py_compile
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mutation.fault_list import Fault, read
from mutation.session import ROOT
from tests.runner.parts import ENGINE_VARIABLE

COPIED = ("spark_assign", "jobs", "tests")
"""The folders that are copied; the tests find the root from their own path. All else is linked."""

DEFAULT_RUN = ("-m", "not full")
SAMPLE = {"SPARK_ASSIGN_TEST_EVERY": "40"}
"""Of the recorded cases of Kafka's classes every fortieth: a fault that this part shows, all of them show."""
LIMIT_S = 600.0
"""Wall time of the tests of one fault. A run that takes longer proves nothing."""

CAUGHT, SURVIVED = "caught", "SURVIVED"
_FAILED = re.compile(r"^FAILED (?P<test>\S+(?:\[.*?\])?)(?: - (?P<reason>.*))?$", re.MULTILINE)
_ERROR = re.compile(r"^ERROR .*$", re.MULTILINE)


@dataclass(frozen=True)
class Verdict:
    """Whether a fault was caught, by which test or why not, and the processor time of its tests in seconds."""

    caught: bool
    detail: str
    seconds: float = 0.0


class Copy:
    """A copy of the project in which one fault at a time is put, and the JVM of its Spark sessions."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        ignored = shutil.ignore_patterns("__pycache__", ".*_cache")
        for entry in ROOT.iterdir():
            if entry.name in COPIED:
                shutil.copytree(entry, folder / entry.name, symlinks=True, ignore=ignored)
            elif entry.name not in (".git", "build", "output"):
                (folder / entry.name).symlink_to(entry)
        # Bytecode that is checked by the hash of its source: times would not tell two faults of one second apart.
        by_hash = py_compile.PycInvalidationMode.CHECKED_HASH
        for name in COPIED[:2]:
            compileall.compile_dir(str(folder / name), quiet=1, invalidation_mode=by_hash)
        self._gateway: Any = None

    def close(self) -> None:
        """Ends the JVM, which stops at the end of its standard input."""
        if self._gateway is not None:
            self._gateway.shutdown()
            self._gateway.proc.stdin.close()
            self._gateway.proc.wait(timeout=60)
            self._gateway = None

    def judge(self, fault: Fault) -> Verdict:
        """Runs the tests of a fault with the fault in place."""
        file = self.root / fault.file
        before = file.read_bytes()
        try:
            file.write_text(fault.source, encoding="utf-8")
            code, output, seconds = self.run(fault.tests, fault.needs_spark)
        finally:
            file.write_bytes(before)
        failed, error = _FAILED.search(output), _ERROR.search(output)
        if code == pytest_exit("TESTS_FAILED") and failed:
            return Verdict(True, f"{failed['test']}: {failed['reason'] or ''}", seconds)
        if code == pytest_exit("OK"):
            return Verdict(False, "all tests passed", seconds)
        if code == pytest_exit("NO_TESTS_COLLECTED"):
            return Verdict(False, "no test of the default run is named", seconds)
        return Verdict(False, error[0] if error else f"pytest ended with {code}:\n{output[-2000:]}", seconds)

    def run(self, tests: Iterable[str], needs_spark: bool) -> tuple[int, str, float]:
        """Returns the exit code of pytest, its output and its processor time, that of the JVM included."""
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(self.root)} | SAMPLE
        environment[ENGINE_VARIABLE] = "spark" if needs_spark else "embedded"
        if needs_spark:
            environment |= self._jvm(environment)
        options = ("-x", "-q", "--tb=line", "-rfE", "-p", "no:cacheprovider", "-W", "ignore", *DEFAULT_RUN)
        before = os.times()
        jvm_before = self._jvm_seconds()
        try:
            done = subprocess.run(
                [sys.executable, "-m", "pytest", *options, *tests],
                cwd=self.root,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            self.close()
            return -1, f"the tests took longer than {LIMIT_S:.0f} s", LIMIT_S
        after = os.times()
        own = after.children_user + after.children_system - before.children_user - before.children_system
        seconds = own + self._jvm_seconds() - jvm_before
        if done.returncode not in (pytest_exit("OK"), pytest_exit("TESTS_FAILED")):
            self.close()  # the session of the process may not have been stopped
        return done.returncode, done.stdout, seconds

    def _jvm(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Returns the variables by which PySpark uses the JVM of this copy, which is started first if there is none."""
        if self._gateway is None:
            from pyspark import SparkConf
            from pyspark.java_gateway import launch_gateway

            from tests.conftest import CLASSIC, SETTINGS

            conf = SparkConf(loadDefaults=False).setAll([*{**SETTINGS, **CLASSIC}.items()])
            quiet = {"cwd": self.root, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            before = dict(os.environ)
            os.environ |= environment  # Python workers take PYTHONPATH from the JVM
            try:
                self._gateway = launch_gateway(conf, quiet)
            finally:
                os.environ.clear()
                os.environ.update(before)
        parameters = self._gateway.java_parameters
        return {"PYSPARK_GATEWAY_PORT": str(parameters.port), "PYSPARK_GATEWAY_SECRET": parameters.auth_token}

    def _jvm_seconds(self) -> float:
        """Returns the processor time of the JVM so far, of its ended Python workers too. 0 where /proc is missing."""
        try:
            stat = Path(f"/proc/{self._gateway.proc.pid}/stat").read_text()
        except (AttributeError, OSError):
            return 0.0
        ticks = stat.rpartition(")")[2].split()[11:15]
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def pytest_exit(name: str) -> int:
    """Returns the number of one of pytest's exit codes."""
    import pytest

    return int(pytest.ExitCode[name])


def main(arguments: Sequence[str]) -> int:
    """Returns 0 if every fault is caught, 1 if one survives, 2 for wrong usage."""
    parser = argparse.ArgumentParser(
        "mutation/faults", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", metavar="TEXT", action="append", help="in the name or file of a fault; repeatable")
    parser.add_argument("--jobs", metavar="N", type=int, default=1, help="faults at a time (default: 1)")
    options = parser.parse_args(arguments)
    faults = [fault for fault in read() if _chosen(fault, options.only)]
    if not faults:
        print(f"no fault has {' or '.join(options.only)} in its name or file", file=sys.stderr)
        return 2
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        copies = [Copy(_made(Path(folder) / str(number))) for number in range(max(1, options.jobs))]
        try:
            if problem := _control(copies[0], faults):
                print(f"the named tests fail without a fault:\n{problem}", file=sys.stderr)
                return 1
            verdicts = _judged(copies, sorted(faults, key=lambda fault: fault.needs_spark))
        finally:
            for copy in copies:
                copy.close()
    caught = sum(verdict.caught for verdict in verdicts)
    processor = sum(verdict.seconds for verdict in verdicts)
    print(
        f"{caught} of {len(faults)} faults caught, {len(faults) - caught} survived; "
        f"{processor:.0f} s of processor time, {time.monotonic() - begun:.0f} s"
    )
    return int(caught < len(faults))


def _chosen(fault: Fault, texts: Sequence[str] | None) -> bool:
    return texts is None or any(text in fault.name or text in fault.file for text in texts)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _control(copy: Copy, faults: Sequence[Fault]) -> str | None:
    """Runs all named tests without a fault. Returns the output if one fails, None if all pass."""
    for needs_spark in (False, True):
        tests = dict.fromkeys(test for fault in faults if fault.needs_spark == needs_spark for test in fault.tests)
        if tests:
            code, output, seconds = copy.run(tests, needs_spark)
            if code != pytest_exit("OK"):
                return output
            print(f"without a fault: {output.strip().splitlines()[-1]}, {seconds:.0f} s of processor time", flush=True)
    return None


def _judged(copies: Sequence[Copy], faults: Sequence[Fault]) -> list[Verdict]:
    """Judges the faults, each in the copy that is free next, and prints each verdict as soon as it is known."""
    free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
    for copy in copies:
        free.put(copy)

    def judge(fault: Fault) -> Verdict:
        copy = free.get()
        try:
            verdict = copy.judge(fault)
        finally:
            free.put(copy)
        status = CAUGHT if verdict.caught else SURVIVED
        print(f"{status:8} {verdict.seconds:5.1f} s  {fault.name}: {verdict.detail}", flush=True)
        if not verdict.caught:
            print(f"    {fault.file}: {fault.seen}", flush=True)
        return verdict

    with ThreadPoolExecutor(len(copies)) as pool:
        return [*pool.map(judge, faults)]


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
