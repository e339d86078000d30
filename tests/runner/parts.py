"""Declares what is run: each part with its command, environment, lane, bounds and budget. Nothing is run here."""

from __future__ import annotations

import os
import subprocess
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYTHON = str(ROOT / ".venv" / "bin" / "python")

FAST = ("ruff", "format", "mypy", "unit")
"""The parts that need neither Java nor Spark."""
DEFAULT = (
    *("ruff", "format", "live", "spark", "embedded", "unit", "mypy"),
    *("docs", "e2e", "classes", "connect", "golden", "airflow", "benchmarks", "browser", "fuzz"),
)
"""The parts of the default run, in their order: the longest of each lane first. The full run orders by budget."""
FULL_ONLY = ("other-spark", "newest-spark", "faults", "clock")
"""The parts that only the full run adds."""
OTHER_SPARK = "other-spark"
DEFAULT_SPARK = "4.0"
NEWEST = "pyspark==4.3.* pandas==3.*"
"""The newest releases that pyproject.toml allows; the lock has the releases between them and the oldest."""
CHANGES_BETWEEN_RELEASES = ("custom_assignor", "history_moment", "plan_store", "streams", "tables", "windows")
"""The files of tests/spark that touch most of what changes between releases of Spark and of pandas."""

MAY_SKIP: Mapping[str, str] = {
    "tests.spark.test_job_in_trouble.test_a_full_disk_is_reported_and_leaves_nothing": (
        "mounts a small disk, which a container might forbid; tests/unit/test_reason.py checks the message"
    )
}
"""Tests that CI may skip, each with the reason; every other skip there means that a proof is missing."""

REPEATED = {"SPARK_ASSIGN_TEST_EVERY": "40"}
"""Of the recorded cases every one is planned once; Spark Connect and other releases repeat every fortieth, and so does
classic Spark in the default run."""
COUNTS: Mapping[str, Mapping[str, int]] = tomllib.loads((ROOT / "tests" / "counts.toml").read_text(encoding="utf-8"))
"""For each part the number of tests that each file has in its default run; `python -m tests.counts` renews it."""
ONLY_CLASSIC = {"tests/spark/test_costs_of_a_plan.py", "tests/spark/test_job_in_trouble.py"}
"""Files of which each test is marked `once`."""
MECHANISMS = sorted(
    {
        *(f"spark/test_{name}.py" for name in CHANGES_BETWEEN_RELEASES),
        *(
            f.removeprefix("tests/")
            for part in ("spark", "connect")
            for f in COUNTS[part]
            if f.startswith("tests/spark/") and f not in ONLY_CLASSIC
        ),
    }
)
"""The files of tests/spark that have the tests of each mechanism; the full run executes them whole on Spark Connect."""
BUDGETS: Mapping[str, tuple[float, float]] = {
    "ruff": (5, 5),
    "format": (5, 5),
    "mypy": (60, 60),
    "unit": (120, 200),
    "golden": (100, 150),
    "embedded": (200, 1_000),
    "spark": (250, 3_000),
    "connect": (80, 900),
    "docs": (150, 200),
    "classes": (100, 380),
    "live": (350, 1_000),
    "e2e": (200, 1_500),  # a new machine builds Helm (146 s) and promtool (more)
    "benchmarks": (10, 500),
    "airflow": (80, 330),
    "browser": (40, 50),
    "fuzz": (30, 3_700),
    "other-spark": (0, 600),
    "newest-spark": (0, 600),
}
"""The processor time in seconds that a part should take, in the default run and in the full one."""
DEFAULT_S, FULL_S = 75 * 60, 120 * 60
"""Seconds after which a part is ended, in the default run and in the full one."""
TEST_S, FULL_TEST_S = 15 * 60, 70 * 60
"""Seconds after which a test fails, so that one that hangs is a failure and the rest of its part runs."""
ENGINE_VARIABLE = "SPARK_ASSIGN_TEST_ENGINE"
"""Engine of the session that tests share: `embedded` or `spark`."""
RUNNING_VARIABLE = "SPARK_ASSIGN_TEST_RUNNING"
"""File in which tests/conftest.py keeps the tests that are running."""
FULL_VARIABLE = "SPARK_ASSIGN_TEST_FULL"
"""Set to 1 for all parts of a full run: tests that draw a sample by default then take everything."""


class Lane(Enum):
    """How a part shares the machine with others."""

    COMPUTING = "computing"
    WAITING = "waiting"
    ALONE = "alone"


@dataclass(frozen=True)
class SetUp:
    """A Python environment that is made in the background, while the first parts run."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)
    seconds: float = 20 * 60


@dataclass(frozen=True)
class Part:
    """A command in a process of its own.

    Attributes:
        places: files and folders of its tests; if there are any, `--junitxml FILE` is added to the command, and of each
            place at least one test has to be executed.
        seconds: after this time the part is ended and has failed.
        budget: the processor time that it should take, in seconds; 0 for none.
        within_budget: it fails if it takes much more; if not, its line only says so.
        counts: the number of tests that each file reports at least, executed or skipped, so that a lost one is noticed.
    """

    name: str
    command: tuple[str, ...]
    places: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)
    set_up: SetUp | None = None
    lane: Lane = Lane.COMPUTING
    seconds: float = DEFAULT_S
    budget: float = 0
    within_budget: bool = False
    counts: Mapping[str, int] = field(default_factory=dict, hash=False)


def parts(*, full: bool, spark: str = DEFAULT_SPARK, whole: bool = False) -> dict[str, Part]:
    """Returns every part by its name.

    Args:
        full: no part leaves out the tests that are marked `full`.
        spark: the release of the part `other-spark`.
        whole: that part runs every Spark test, and not only those that touch most of what changes between releases.
    """
    other_spark = _environment(f"spark-{spark}", f"pyspark=={spark}.*", "spark,kafka,report,test")
    newest_spark = _environment("spark-newest", NEWEST, "spark,embedded,kafka,msk,mcp,report,test")
    # No pyspark: Airflow's Spark provider brings pyspark-client, and the two overwrite each other's files.
    airflow = _environment("airflow", "pytest>=8 pytest-timeout>=2.4", "kafka,airflow,lineage")
    embedded, classic = {ENGINE_VARIABLE: "embedded"}, {ENGINE_VARIABLE: "spark"}
    on_connect = {**classic, "SPARK_ASSIGN_TEST_REMOTE": "local[2]", **REPEATED}
    between_releases = tuple(f"spark/test_{name}.py" for name in CHANGES_BETWEEN_RELEASES)
    shortest = ("spark/test_custom_assignor.py", "spark/test_tables.py")
    what_changes = ("spark",) if whole else between_releases if full else shortest
    of_session = ("spark", "golden", "kafka/classes")
    repeated = "spark and not once"
    tests = partial(_tests, full=full)
    every = [
        Part("ruff", (PYTHON, "-m", "ruff", "check", ".")),
        Part("format", (PYTHON, "-m", "ruff", "format", "--check", ".")),
        Part("mypy", (PYTHON, "-m", "mypy")),
        tests("unit", "unit", workers=2),
        tests("golden", "golden", marks="not spark", workers=2),
        tests("embedded", *of_session, marks="spark and not classic", workers=2, environment=embedded),
        tests(
            "spark",
            *((*of_session, "docs/test_documented.py") if full else of_session[:2]),
            marks="spark" if full else "classic and not connect or repeated",
            environment=classic if full else classic | REPEATED,
        ),
        tests(
            "connect",
            *(MECHANISMS if full else ("spark",)),
            "golden",
            marks=repeated if full else "connect",
            environment=on_connect,
        ),
        tests("docs", "docs", environment=embedded),
        tests("classes", "kafka/classes", marks="not spark", workers=2),
        tests(
            "live",
            "kafka/live",
            marks="" if full else "not classic",
            environment=classic if full else embedded,
            lane=Lane.WAITING,
        ),
        tests("clock", "kafka/clock", lane=Lane.ALONE),
        tests("e2e", "e2e"),
        tests("benchmarks", "benchmarks", environment=classic),
        tests("airflow", "airflow", set_up=airflow),
        tests("browser", "browser"),
        tests("fuzz", "fuzz"),
        tests(OTHER_SPARK, "golden", *what_changes, marks=repeated, set_up=other_spark, environment=classic | REPEATED),
        tests(
            "newest-spark",
            "unit",
            *between_releases,
            marks="not embedded",
            set_up=newest_spark,
            environment=classic,
        ),
        Part("faults", (PYTHON, "-m", "mutation.faults"), lane=Lane.ALONE),
    ]
    budgets = {name: each[full] for name, each in BUDGETS.items()}
    seconds = FULL_S if full else DEFAULT_S
    return {
        part.name: replace(part, budget=budgets.get(part.name, 0), within_budget=full, seconds=seconds)
        for part in every
    }


def _tests(
    name: str,
    *places: str,
    full: bool,
    marks: str = "",
    workers: int = 0,
    environment: Mapping[str, str] | None = None,
    set_up: SetUp | None = None,
    lane: Lane = Lane.COMPUTING,
) -> Part:
    """Returns a part that runs pytest on places in tests/, in so many worker processes if `workers` is not 0."""
    expression = " and ".join(filter(None, (f"({marks})" if marks else "", "" if full else "not full")))
    command = (
        *(_python(set_up) if set_up else PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
        *(("-m", expression) if expression else ()),
        *(("-n", str(workers), "--dist", "loadfile") if workers else ()),
        *("--timeout", str(FULL_TEST_S if full else TEST_S)),
    )
    paths = tuple(f"tests/{place}" for place in places)
    variables = {**(environment or {}), **({FULL_VARIABLE: "1"} if full else {})}
    return Part(name, (*command, *paths), paths, variables, set_up, lane, counts=COUNTS.get(name, {}))


def lock_changed() -> bool:
    """Checks whether the last commit, or the work tree, changes the lock: then another Spark is tested by default."""
    command = ("git", "diff", "--quiet", "HEAD^", "--", "conf/requirements")
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, env=os.environ, check=False).returncode == 1
    except OSError:
        return False


def _environment(name: str, pins: str, extras: str) -> SetUp:
    variables = {
        "SPARK_ASSIGN_VENV": str(ROOT / f".venv-{name}"),
        "SPARK_ASSIGN_PINS": pins,
        "SPARK_ASSIGN_CLASS_DATA": "no",
    }
    return SetUp(name, (str(ROOT / "spark-submit.sh"), "--set-up", extras), variables)


def _python(made: SetUp) -> str:
    return f"{made.environment['SPARK_ASSIGN_VENV']}/bin/python"
