"""What all tests share: the seed, the marks of tests/selection.toml, and one lazy Spark session.

The session is of the embedded engine. `SPARK_ASSIGN_TEST_ENGINE=spark pytest tests/spark` runs the same tests on
classic Spark; with `SPARK_ASSIGN_TEST_REMOTE="local[2]"`, they run on Spark Connect, with a server of their own.
"""

from __future__ import annotations

import gc
import os
import random
import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from tests import seeds, selection
from tests.runner.tools import JAVA, lacks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.driver.memory": "4g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.buffer.pageSize": "2m",  # small tables: see conf/spark/local.conf
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # as in conf/spark/local.conf
    # Small queries, each new: the thorough compiler would never earn its time back.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=512m -XX:+UseSerialGC",
}

CLASSIC = {
    "spark.sql.adaptive.enabled": "false",  # as in conf/spark/local.conf
    # As jobs ask small fleets (spark_assign/sources/files/tables.py): compiling a query costs more than
    # its few rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""What the same tests have as it is elsewhere on Spark Connect: adaptive, and compiled."""
CONNECT = {"spark.sql.adaptive.enabled": "true"}

RUNNING = os.environ.pop("SPARK_ASSIGN_TEST_RUNNING", "")
"""Not for worker processes: the first process hears of each test of theirs."""
_running: set[str] = set()


def pytest_configure() -> None:
    """Draws the run's seed before any worker process starts, so that all use the same one."""
    seeds.run_seed()


def pytest_runtest_logstart(nodeid: str) -> None:
    """Keeps the running tests in a file of the runner's, which names those of a part that isn't over in time."""
    _running.add(nodeid)
    _write_running()


def pytest_runtest_logfinish(nodeid: str) -> None:
    """See `pytest_runtest_logstart`."""
    _running.discard(nodeid)
    _write_running()


def _write_running() -> None:
    if RUNNING:
        Path(RUNNING).write_text("".join(f"{each}\n" for each in sorted(_running)), encoding="utf-8")


def pytest_report_header() -> str:
    """Prints how to repeat the run."""
    return f"seed: {seeds.repeat()}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Prints with each failure how to repeat it."""
    report = yield
    if report.failed:
        report.sections.append(("seed", seeds.repeat()))
    return report


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The test's own seed, which follows from the run's seed and the test's name."""
    return seeds.seed_for(request.node.nodeid)


@pytest.fixture
def rng(seed: int) -> random.Random:
    """Draws of the test's own, which follow from `seed`."""
    return random.Random(seed)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests that only the full run, or the default run on Spark Connect, includes."""
    selection.mark(items)


def pytest_collection_finish() -> None:
    """All modules are there to stay: the collector need not look at them again and again."""
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session of all Spark tests: of the embedded engine, or of Spark with two cores."""
    if selection.is_embedded():
        from spark_assign.spark.engine import ENGINE, embedded_session

        os.environ[ENGINE] = "embedded"
        yield embedded_session()
        return
    if JAVA.program is None:
        lacks(JAVA)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # The executors are started in the folder of the run, wherever pytest was called.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(path) for path in sys.path if path])
    remote = os.environ.get("SPARK_ASSIGN_TEST_REMOTE")
    warehouse = {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    started = session(SETTINGS | (CONNECT if remote else CLASSIC) | warehouse, remote)
    if not remote:
        started.sparkContext.setLogLevel("ERROR")
    yield started
    started.stop()


def session(settings: Mapping[str, str], remote: str | None = None) -> SparkSession:
    """Returns a session of Spark with two cores, or of the Spark Connect server at `remote`."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote(remote) if remote else SparkSession.builder.master("local[2]")
    return builder.config(map=dict(settings)).getOrCreate()


@pytest.fixture(autouse=True)
def _forget_cached_tables(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every query is held against every cached table, so that a long run would slow down."""
    yield
    if "spark" in request.fixturenames and not request.node.get_closest_marker("keeps_cached"):
        with suppress(PySparkException):
            request.getfixturevalue("spark").catalog.clearCache()
