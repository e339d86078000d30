"""Runs the parts that the command line names: `python -m tests.runner [full] [fast] [PART…]`, as tests/run.sh does."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests import seeds
from tests.runner import lanes
from tests.runner.parts import DEFAULT, DEFAULT_SPARK, FAST, FULL_ONLY, OTHER_SPARK, ROOT, Part, lock_changed, parts
from tests.runner.processes import Processes, adopt_orphans
from tests.runner.results import durations, shortened
from tests.runner.tools import in_ci
from tests.runner.verdicts import Verdict, summary

DROPPED = ("PYTEST", "PYTHON", "PYSPARK", "SPARK_", "AIRFLOW", "RUFF_", "MYPY", "MARKED")
"""Variables that begin so would decide what is run, and with which Spark: no part sees those of the caller."""
KEPT = (seeds.VARIABLE, "SPARK_ASSIGN_KAFKA_JARS", "SPARK_ASSIGN_PYTHON", "SPARK_LOCAL_")
BYTECODE = str(ROOT / "build" / "bytecode")
"""Where Python keeps what it has compiled, of the installed packages too: uv installs them as source, and every process
of a test that compiles pandas and PySpark again takes two seconds more. Beside the sources nothing is left."""
RESULTS = ROOT / "build" / "tests"
"""The logs, JUnit files and durations of the last run."""


def environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """Returns what every part sees: the caller's variables without those that could leave something out."""
    kept = {name: value for name, value in inherited.items() if name.startswith(KEPT) or not name.startswith(DROPPED)}
    kept.pop("CI", None)
    path = os.pathsep.join(filter(None, (str(ROOT / ".venv" / "bin"), inherited.get("PATH", ""))))
    kept |= {"PATH": path, "PYTHONPYCACHEPREFIX": BYTECODE}
    if seeds.VARIABLE in kept:
        kept["PYTHONHASHSEED"] = kept[seeds.VARIABLE]
    return kept | ({"CI": "true"} if in_ci(inherited) else {})


def wanted(arguments: Sequence[str]) -> tuple[list[Part], Path]:
    """Returns the parts that the command line names, each once, and the folder for their results."""
    parser = argparse.ArgumentParser(prog="tests/run.sh", add_help=False)
    parser.add_argument("--spark", type=_release)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("part", nargs="*")
    given = parser.parse_args(arguments)
    full = "full" in given.part
    known = parts(full=full, spark=given.spark or DEFAULT_SPARK, whole=given.spark is not None)
    names = [each for name in given.part for each in (FAST if name == "fast" else (name,)) if each != "full"]
    if unknown := [name for name in names if name not in known]:
        parser.error(f"unknown part: {', '.join(unknown)} (known: full, fast, {', '.join(known)})")
    if given.spark:
        names.append(OTHER_SPARK)
    if not names:
        names = [*DEFAULT, *(FULL_ONLY if full else [OTHER_SPARK] if lock_changed() else ())]
        if full:
            names.sort(key=lambda name: -known[name].budget)
    return [known[name] for name in dict.fromkeys(names)], given.results


def _release(text: str) -> str:
    if not re.fullmatch(r"\d+(\.\d+)+", text):
        raise argparse.ArgumentTypeError(f"{text}: expected a release such as 4.0")
    return text


def main(arguments: Sequence[str], inherited: Mapping[str, str]) -> int:
    """Returns the exit code: 0 if every wanted part is green, 1 if one is not, 2 for wrong usage."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number is signal.SIGINT or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    adopt_orphans()
    chosen, results = wanted(arguments)
    seed = seeds.run_seed()
    print(f"seed: {seeds.repeat()}", flush=True)
    processes = Processes(ROOT, environment({**inherited, seeds.VARIABLE: str(seed)}))
    return run(chosen, processes, results, ci=in_ci(inherited))


def run(chosen: Sequence[Part], processes: Processes, results: Path, *, ci: bool) -> int:
    """Runs these parts; prints their output, where the time went, and the totals, also if it is stopped before the end.

    The folder `results` is emptied first; the logs and JUnit files stay there.
    """
    verdicts: dict[str, Verdict] = {}

    def report(verdict: Verdict) -> None:
        print(f"\n== {verdict.part.name}", flush=True)
        if verdict.log:
            output = verdict.log.read_text(encoding="utf-8", errors="replace")
            print(output, end="" if output.endswith("\n") or not output else "\n")
        for reason in verdict.reasons:
            print(f"{verdict.part.name}: {reason}")
        sys.stdout.flush()
        verdicts[verdict.part.name] = verdict

    shutil.rmtree(results, ignore_errors=True)
    results.mkdir(parents=True)
    try:
        lanes.run(chosen, processes, results, report, in_ci=ci)
    except KeyboardInterrupt:
        print("\nstopped")
    _print_durations(verdicts, results)
    lines, code = summary(chosen, verdicts)
    print("\n== summary", *lines, sep="\n", flush=True)
    return code


def _print_durations(verdicts: Mapping[str, Verdict], results: Path) -> None:
    lines = list(durations({name: verdict.tests for name, verdict in verdicts.items() if verdict.tests}))
    (results / "durations.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print("\n== durations (all in durations.txt beside the JUnit files)", *shortened(iter(lines)), sep="\n", flush=True)


if __name__ == "__main__":
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    sys.exit(main(sys.argv[1:], os.environ))
