"""What every benchmark shares: one session, medians, results as a table and as JSON."""

from __future__ import annotations

import json
import shutil
import statistics
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from spark_assign.spark.engine import is_embedded
from tests.kafka.fetched import UnavailableError

_LONGEST_ERROR = 300
"""Characters of an error in the table; the whole of it is on stderr."""


@dataclass(frozen=True)
class Result:
    """One measured figure. `goal` is a bound in the figure's own unit, with its direction; None: no goal.

    `on_page`: whether docs/benchmarks.md has the figure; the JSON has every one.
    """

    measure: str
    fleet: str
    figure: float
    unit: str
    goal: str | None = None
    detail: str = ""
    on_page: bool = True

    @property
    def verdict(self) -> str:
        """`met`, `missed`, or nothing where there is no goal."""
        if self.goal is None:
            return ""
        direction, bound = self.goal.split()
        met = self.figure <= float(bound) if direction == "<=" else self.figure >= float(bound)
        return "met" if met else "missed"


@dataclass(frozen=True)
class Unmeasured:
    """A benchmark that ended without its figures: its name, why, and `failed` or `skipped` (a tool is missing)."""

    measure: str
    detail: str
    verdict: str = "failed"


@dataclass
class Bench:
    """One run: a session that is started once, a work folder, how often to repeat, at what size, and the engines that
    are compared as processes."""

    spark: SparkSession
    folder: Path
    repeats: int
    quick: bool
    results: list[Result | Unmeasured] = field(default_factory=list)
    cold: bool = False
    engines: tuple[str, ...] = ("embedded",)
    _scratch: int = 0

    @property
    def assignors(self) -> tuple[str, ...]:
        """Who is measured; a quick run makes do with one."""
        return ("range",) if self.quick else ("range", "roundrobin")

    def size(self, full: int, quick: int) -> int:
        """A dimension of a fleet, small in a quick run."""
        return quick if self.quick else full

    def goal(self, bound: str) -> str | None:
        """A goal counts at full size only: a quick run measures Spark's fixed costs."""
        return None if self.quick else bound

    def run(self, name: str, work: Callable[[Bench], None]) -> None:
        """Runs one benchmark. If it fails, or a tool is missing, reports that, so that the next one can run."""
        try:
            self.forget()
            work(self)
        except UnavailableError as missing:
            self.report(Unmeasured(name, f"needs Kafka's classes: {missing}", "skipped"))
        except Exception as error:
            traceback.print_exc()
            self.report(Unmeasured(name, " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST_ERROR]))

    def report(self, result: Result | Unmeasured) -> None:
        """Keep a figure and print it at once: a long run is worth watching."""
        self.results.append(result)
        print(as_lines([result]), end="", flush=True)

    def in_turns(self, **works: Callable[[], object]) -> dict[str, float]:
        """Median seconds of several works, measured in turns: what else the machine does meets them alike.

        Before that each runs once uncounted, but in a quick run and where one count has to do (`once`).
        """
        for work in () if self.quick or self.cold else works.values():
            work()
        seconds: dict[str, list[float]] = {name: [] for name in works}
        for _ in range(self.repeats):
            for name, work in works.items():
                seconds[name].append(timed(work))
        return {name: statistics.median(times) for name, times in seconds.items()}

    def once(self) -> Bench:
        """The same run for works that take minutes: each is counted once, and none runs before that."""
        return replace(self, repeats=1, cold=True)

    def forget(self) -> None:
        """Drop what a plan has cached: the next one, of the same files, would find it and look faster."""
        if not is_embedded(self.spark):
            self.spark.catalog.clearCache()

    def to_parquet(self, table: DataFrame) -> None:
        """Write the table and remove it again."""
        self._scratch += 1
        path = self.folder / f"scratch-{self._scratch}"
        table.write.parquet(str(path))
        shutil.rmtree(path)


def to_noop(table: DataFrame) -> None:
    """Compute every row and column, and keep nothing."""
    table.write.format("noop").mode("overwrite").save()


def timed(work: Callable[[], object]) -> float:
    """Wall-clock seconds of one call; a work that has to prepare something first returns its seconds itself."""
    start = time.perf_counter()
    measured = work()
    return measured if isinstance(measured, float) else time.perf_counter() - start


_COLUMNS = "{:<52} {:<34} {:>10} {:<13} {:<9} {:<7} {}"


def heading() -> str:
    """The table's first line."""
    return _COLUMNS.format("measure", "fleet", "figure", "unit", "goal", "", "detail").rstrip() + "\n"


def as_lines(results: Iterable[Result | Unmeasured]) -> str:
    """A line for each result, under `heading`."""
    return "".join(_COLUMNS.format(*_cells(result)).rstrip() + "\n" for result in results)


def _cells(result: Result | Unmeasured) -> tuple[str, ...]:
    if isinstance(result, Unmeasured):
        return result.measure, "", "", "", "", result.verdict, result.detail
    figure = f"{result.figure:,.2f}"
    return result.measure, result.fleet, figure, result.unit, result.goal or "", result.verdict, result.detail


def first_of(lines: str) -> Iterator[dict[str, float]]:
    """JSON objects of a program's standard output, one a line."""
    for line in lines.splitlines():
        if line.startswith("{"):
            yield json.loads(line)
