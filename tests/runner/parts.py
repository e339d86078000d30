"""What is run: each part with its command, its environment and its bounds. Nothing is run here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]

ORDER = (
    *("ruff", "format", "mypy", "unit"),
    *("kafka", "docs", "connect", "spark", "e2e", "benchmarks", "airflow", "browser"),
)
"""All parts, as they are taken: what is quick first, then the longest, so that no lane is left alone with it."""

FAST = ("ruff", "format", "mypy", "unit")
OTHER_SPARK = "other-spark"
DEFAULT_SPARK = "4.0"

MAY_SKIP: Mapping[str, str] = {
    "tests.spark.test_job_in_trouble.test_a_full_disk_is_said_and_leaves_nothing": (
        "mounts a small disk, which a container may forbid; that its words are found is in tests/unit/test_reason.py"
    ),
    "tests.kafka.classes.test_live_franz_go.test_what_is_called_sure_is_the_same_in_every_process": (
        "needs Go and its module proxy, which a machine may lack; 800 recorded answers are in tests/golden"
    ),
    "tests.kafka.live.test_detection_live.test_the_leader_is_told_of_go_and_node": (
        "needs Go or Node, which not every machine has; groups of these libraries are recorded in tests/unit"
    ),
}
"""Tests that may be skipped in CI, each with the reason; every other skip there means that a proof is missing."""

# Of what is recorded from Kafka's classes, all is planned once; a sample of it once more elsewhere.
AGAIN = {"SPARK_ASSIGN_TEST_EVERY": "40"}


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

    If it runs tests, `places` are their files and folders: `--junitxml FILE` is added to the command, and of each
    place at least one test has to be executed.
    """

    name: str
    command: tuple[str, ...]
    places: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)
    set_up: SetUp | None = None
    seconds: float = 40 * 60


def parts(spark: str, *, whole: bool) -> dict[str, Part]:
    """Every part by its name. On the other Spark: all its tests (`whole`), or those that meet what changes."""
    python = str(ROOT / ".venv" / "bin" / "python")
    other_spark = _environment(f"spark-{spark}", f"pyspark=={spark}.*", "spark,kafka,report,test")
    # No pyspark: Airflow's Spark provider brings pyspark-client, and the two overwrite each other's files.
    airflow = _environment("airflow", "pytest>=8", "kafka,airflow")
    what_changes = ("spark",) if whole else ("spark/test_custom_assignor.py", "spark/test_tables.py")
    every = [
        Part("ruff", (python, "-m", "ruff", "check", ".")),
        Part("format", (python, "-m", "ruff", "format", "--check", ".")),
        Part("mypy", (python, "-m", "mypy")),
        _tests("unit", python, "unit"),
        _tests("spark", python, "spark", "golden"),
        _tests("docs", python, "docs"),
        _tests("connect", python, "spark", "golden", again=True, SPARK_ASSIGN_TEST_REMOTE="local[2]"),
        _tests("kafka", python, "kafka"),
        _tests("e2e", python, "e2e"),
        _tests("benchmarks", python, "benchmarks"),
        _tests("airflow", _python(airflow), "airflow", set_up=airflow),
        _tests("browser", python, "browser"),
        _tests(OTHER_SPARK, _python(other_spark), "golden", *what_changes, again=True, set_up=other_spark),
    ]
    return {part.name: part for part in every}


def _tests(
    name: str, python: str, *places: str, again: bool = False, set_up: SetUp | None = None, **environment: str
) -> Part:
    """pytest on places in tests/; `again` where the same tests have run once before."""
    paths = tuple(f"tests/{place}" for place in places)
    marked = ("-m", "not once") if again else ()
    command = (python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *marked, *paths)
    return Part(name, command, paths, environment | (AGAIN if again else {}), set_up)


def _environment(name: str, pins: str, extras: str) -> SetUp:
    variables = {
        "SPARK_ASSIGN_VENV": str(ROOT / f".venv-{name}"),
        "SPARK_ASSIGN_PINS": pins,
        "SPARK_ASSIGN_CLASS_DATA": "no",
    }
    return SetUp(name, (str(ROOT / "spark-submit.sh"), "--set-up", extras), variables)


def _python(made: SetUp) -> str:
    return f"{made.environment['SPARK_ASSIGN_VENV']}/bin/python"
