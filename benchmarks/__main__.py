"""Measure plans against the floor, Kafka's classes and a plain loop: `python -m benchmarks [name ...]`.

Everything in one run, medians of repeats taken in turns, figures as ratios; docs/benchmarks.md explains them.
"""

from __future__ import annotations

import argparse
import datetime
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from benchmarks import (
    against_kafka,
    classic_streams,
    cold,
    compare,
    connect,
    engines,
    executors,
    grid,
    history,
    log_segments,
    memory,
    plain_loop,
    plans,
    protocol,
    replay,
    replicas,
    report,
    server,
    set_up,
    share_streams_grid,
    size,
    sticky,
    sticky_against_kafka,
    weighted,
)
from benchmarks.bench import Bench, Result, Unmeasured, heading
from benchmarks.figures import Figures, find_conditions
from benchmarks.session import CORES, start
from spark_assign.spark.engine import embedded_session

BENCHMARKS: dict[str, Callable[[Bench], None]] = {
    "engines": engines.sample,
    "engines-large": engines.large,
    "set-up": set_up.set_up,
    "cold": cold.cold,
    "stories": cold.stories,
    "floor": plans.floor,
    "runs": plans.runs,
    "giant": plans.giant,
    "growth": plans.growth,
    "executors": executors.executors,
    "kafka": against_kafka.kafka,
    "loop": plain_loop.loop,
    "memory": memory.memory,
    "sticky": sticky.sticky,
    "sticky-runs": sticky.runs,
    "sticky-rounds": sticky.rounds,
    "profiles": sticky.profiles,
    "sticky-giant": sticky_against_kafka.giant,
    "sticky-differing": sticky_against_kafka.differing,
    "sticky-memory": memory.sticky_memory,
    "server": server.uniform,
    "server-runs": server.runs,
    "grid": grid.grid,
    "share-grid": share_streams_grid.share,
    "streams-grid": share_streams_grid.streams,
    "classic-streams": classic_streams.giant,
    "classic-streams-fleet": classic_streams.fleet,
    "compare": compare.comparison,
    "connect": connect.connect,
    "place": replicas.placement,
    "reassign": replicas.reassignment,
    "protocol": protocol.rolling,
    "weighted": weighted.at_size,
    "weighted-streams": weighted.streams,
    "size": size.sweep,
    "history": history.history,
    "history-large": history.at_size,
    "segments": log_segments.segments,
    "replay": replay.replays,
    "report": report.page,
}


def main(arguments: list[str]) -> int:
    """Runs the named benchmarks (default: all), each of them even if one before it fails.

    Returns exit code 0; 1 if a goal was missed or a benchmark failed. argparse exits with 2 if the usage is wrong.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(BENCHMARKS)}; default: all")
    parser.add_argument("--quick", action="store_true", help="small fleets, in under a minute; goals do not count")
    parser.add_argument(
        "--engine",
        choices=(*engines.ENGINES, "both"),
        default="both",
        help="engines that engines and engines-large compare; embedded: all benchmarks run on it (default both)",
    )
    parser.add_argument("--repeats", type=int, default=3, help="repeats of which the median counts (default 3)")
    parser.add_argument("--driver-memory", default="8g", help="heap of the Spark driver (default 8g)")
    parser.add_argument("--json", type=Path, help="write the figures there as JSON after each benchmark")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="keep the figures of --json, and measure the named benchmarks, or else those that it lacks",
    )
    parser.add_argument("--page", type=Path, help="write the figures there as tables, between two markers")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    if options.resume and not options.json:
        parser.error("--resume needs --json")
    is_embedded = options.engine == engines.EMBEDDED
    repeats = 1 if options.quick else options.repeats
    engine = f"Sail {version('pysail')}" if is_embedded else f"Spark {version('pyspark')}"
    figures = Figures(find_conditions(engine, repeats, quick=options.quick))
    if options.resume and options.json.exists():
        try:
            figures = Figures.resume(options.json, figures.conditions)
        except ValueError as error:
            parser.error(f"{error}; without --resume, the file is replaced")
    names = options.names or [name for name in BENCHMARKS if figures.lacks(name)]
    print(f"{datetime.date.today()}, {engine}, {CORES} cores, medians of {repeats}")
    results = _measure(names, figures, options) if names else []
    if options.page:
        figures.write_page(options.page, list(BENCHMARKS))
    failed = [result.measure for result in results if result.verdict == "failed"]
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return int(any(result.verdict in ("missed", "failed") for result in results))


def _measure(names: Sequence[str], figures: Figures, options: argparse.Namespace) -> list[Result | Unmeasured]:
    """Runs benchmarks in one session. Adds each to the figures, and writes their file, before the next one runs."""
    folder = Path(tempfile.mkdtemp(prefix="spark-assign-benchmarks-"))
    is_embedded = options.engine == engines.EMBEDDED
    spark = embedded_session() if is_embedded else start("1g" if options.quick else options.driver_memory)
    compared = tuple(name for name in engines.ENGINES if options.engine in (name, "both"))
    if find_spec("pysail") is None:
        compared = (engines.SPARK,)
    bench = Bench(spark, folder, figures.conditions["repeats"], options.quick, engines=compared)
    print(heading(), end="")
    try:
        for name in names:
            measured, since = len(bench.results), time.perf_counter()
            bench.run(name, BENCHMARKS[name])
            figures.add(name, time.perf_counter() - since, bench.results[measured:])
            if options.json:
                figures.write(options.json)
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return bench.results


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
