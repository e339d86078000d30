"""`python -m tests.runner [fast] [--spark VERSION] [PART…]`, as tests/run.sh calls it."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.runner import lanes
from tests.runner.parts import DEFAULT_SPARK, FAST, ORDER, OTHER_SPARK, ROOT, Part, parts
from tests.runner.processes import Processes
from tests.runner.verdicts import Verdict, summary

DROPPED = ("PYTEST", "PYTHON", "PYSPARK", "SPARK_", "AIRFLOW", "RUFF_", "MYPY", "MARKED")
"""Variables that begin so would decide what is run, and with which Spark: no part sees those of the caller."""
BYTECODE = str(ROOT / "build" / "bytecode")
"""Where Python keeps what it has compiled, of the installed packages too: uv installs them as source, and every process
of a test that compiles pandas and PySpark again takes two seconds more. Beside the sources nothing is left."""
KEPT = ("SPARK_ASSIGN_SEED", "SPARK_ASSIGN_KAFKA_JARS", "SPARK_ASSIGN_PYTHON", "SPARK_LOCAL_")


def in_ci(inherited: Mapping[str, str]) -> bool:
    """Whether skips are failures, and a release of Spark more is tested."""
    return inherited.get("CI", "").lower() not in ("", "0", "false", "no")


def environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """What every part sees: the caller's variables without those that could leave something out."""
    kept = {name: value for name, value in inherited.items() if name.startswith(KEPT) or not name.startswith(DROPPED)}
    kept.pop("CI", None)
    path = os.pathsep.join(filter(None, (str(ROOT / ".venv" / "bin"), inherited.get("PATH", ""))))
    return kept | {"PATH": path, "PYTHONPYCACHEPREFIX": BYTECODE} | ({"CI": "true"} if in_ci(inherited) else {})


def wanted(arguments: Sequence[str], *, ci: bool) -> list[Part]:
    """The parts that the command line names, each once; by default all, and in CI another Spark as well."""
    parser = argparse.ArgumentParser(prog="tests/run.sh", add_help=False)
    parser.add_argument("--spark", type=_release)
    parser.add_argument("part", nargs="*")
    given = parser.parse_args(arguments)
    known = parts(given.spark or DEFAULT_SPARK, whole=given.spark is not None)
    names = list(_names(given.part))
    if unknown := [name for name in names if name not in known]:
        parser.error(f"unknown part: {', '.join(unknown)} (known: fast, {', '.join(known)})")
    if given.spark:
        names.append(OTHER_SPARK)
    if not names:
        names = [*ORDER, *([OTHER_SPARK] if ci else [])]
    return [known[name] for name in dict.fromkeys(names)]


def _names(given: Sequence[str]) -> Iterator[str]:
    for name in given:
        yield from FAST if name == "fast" else (name,)


def _release(text: str) -> str:
    if not re.fullmatch(r"\d+(\.\d+)+", text):
        raise argparse.ArgumentTypeError(f"{text}: expected a release as 4.0")
    return text


def main(arguments: Sequence[str], inherited: Mapping[str, str]) -> int:
    """The exit code: 0 if every wanted part is green, 1 if one is not, 2 for wrong usage."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number is signal.SIGINT or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    ci = in_ci(inherited)
    return run(wanted(arguments, ci=ci), Processes(ROOT, environment(inherited)), ci=ci)


def run(chosen: Sequence[Part], processes: Processes, *, ci: bool) -> int:
    """Run these parts and print what they say and, last, the totals; also when it is stopped before all are over."""
    verdicts: dict[str, Verdict] = {}

    def tell(verdict: Verdict) -> None:
        print(f"\n== {verdict.part}", flush=True)
        if verdict.log:
            output = verdict.log.read_text(encoding="utf-8", errors="replace")
            print(output, end="" if output.endswith("\n") or not output else "\n")
        for reason in verdict.reasons:
            print(f"{verdict.part}: {reason}")
        sys.stdout.flush()
        verdicts[verdict.part] = verdict

    with tempfile.TemporaryDirectory(prefix="spark-assign-tests-", ignore_cleanup_errors=True) as results:
        try:
            lanes.run(chosen, processes, Path(results), tell, in_ci=ci)
        except KeyboardInterrupt:
            print("\nstopped")
    lines, code = summary([part.name for part in chosen], verdicts)
    print("\n== summary", *lines, sep="\n", flush=True)
    return code


if __name__ == "__main__":
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    sys.exit(main(sys.argv[1:], os.environ))
