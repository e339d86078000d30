"""Make the report of a stored plan: one HTML file that needs no network."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from spark_assign import SparkAssignError
from spark_assign.connect import schemas as connect
from spark_assign.errors import SourceError, reason
from spark_assign.places import place_and_run
from spark_assign.protocol import schemas as protocol
from spark_assign.replicas import schemas as replicas
from spark_assign.report.html import report
from spark_assign.schemas import COMPARE_TABLES, DRIFT_TABLES, PLAN_TABLES
from spark_assign.sinks.plan_store import StoredPlan, read_plan

EXIT_CODES = """exit codes: 0 written; 1 written, and the plan has what --fail-on names; 2 wrong usage, or nothing is
stored where it was looked for; 3 failure. A place is a folder, URI or catalog prefix that another job wrote to; of its
runs the last one is taken, or the one that PLACE@RUN names."""

REPLICA_TABLES = {
    "placement": replicas.PLACEMENT,
    "moves": replicas.MOVES,
    "metrics": replicas.METRICS,
    "rejected": replicas.CLUSTER_REJECTED,
    "brokers": replicas.BROKER_CHECK,
    "racks": replicas.RACK_CHECK,
    "problems": replicas.PROBLEMS,
    "clusters": replicas.CLUSTER_CHECK,
}
OF_JOBS: dict[str, Mapping[str, StructType]] = {
    "simulation": protocol.SIMULATION_TABLES,
    "connect": connect.PLAN_TABLES,
    "replicas": REPLICA_TABLES,
    "comparison": COMPARE_TABLES,
    "drift": DRIFT_TABLES,
}

log = logging.getLogger("spark_assign.report")


def parse(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="report", description=__doc__, epilog=EXIT_CODES)
    add = parser.add_argument
    add("--plan", metavar="PLACE", help="a plan (job plan)")
    add("--run-id", metavar="ID", help="the plan's run (default: the one that finished last)")
    add("--comparison", metavar="PLACE", help="assignors compared (job compare)")
    add(
        "--simulation",
        metavar="[NAME=]PLACE",
        action="append",
        help="rebalances in time (job simulate; with --trace they are drawn); may be given again, with names: "
        "eager=./eager, cooperative=./cooperative",
    )
    add("--connect", metavar="PLACE", help="Connect clusters (job connect)")
    add("--replicas", metavar="PLACE", help="replicas (job replicas reassign or check)")
    add("--drift", metavar="PLACE", help="what changed between two runs (job drift)")
    add("--output", metavar="FILE", type=Path, default=Path("report.html"), help="default: report.html")
    add("--title", metavar="TEXT", default="Kafka assignment report", help="the page's heading")
    add("--fail-on", choices=["rejected"], help="exit code 1 for rejected groups in the plan")
    add("--verbose", action="store_true", help="Spark's warnings, and tracebacks")
    options = parser.parse_args(argv)
    given = ("plan", "comparison", "simulation", "connect", "replicas", "drift")
    if not any(getattr(options, name) for name in given):
        parser.error(f"nothing to report on: give one of {', '.join(f'--{name}' for name in given)}")
    if options.run_id and not options.plan:
        parser.error("--run-id goes with --plan")
    return options


def run(options: argparse.Namespace, spark: SparkSession) -> int:
    """Load, call, write, print."""
    started = time.monotonic()
    check_file(options.output)
    plan = read_plan(spark, options.plan, options.run_id, schemas=PLAN_TABLES) if options.plan else None
    page = report(
        plan,
        comparison=stored(spark, options, "comparison").get("comparison"),
        simulation={name: tables(spark, "simulation", place) for name, place in named(options.simulation)} or None,
        connect=stored(spark, options, "connect") or None,
        replicas=stored(spark, options, "replicas") or None,
        drift=stored(spark, options, "drift") or None,
        title=options.title,
    )
    # Beside its name, then renamed: who reads it meanwhile sees the old page or the new one.
    partial = options.output.with_name(f".{options.output.name}.partial")
    partial.write_text(page, encoding="utf-8")
    partial.replace(options.output)
    size, took = len(page.encode()) / 1e6, time.monotonic() - started
    print(f"Report {options.output.resolve()}: {size:.2f} MB in {took:.1f} s", flush=True)
    return int(options.fail_on == "rejected" and plan is not None and plan.manifest.rows["rejected"] > 0)


def check_file(file: Path) -> None:
    """Whether the page can be written there, as far as can be told before anything is read."""
    if file.is_dir():
        raise SourceError(f"--output {file} is a folder: name a file in it, such as {file / 'report.html'}")
    if not file.absolute().parent.is_dir():
        raise SourceError(f"--output {file}: there is no folder {file.absolute().parent}; make it first")


def stored(spark: SparkSession, options: argparse.Namespace, job: str) -> Mapping[str, DataFrame]:
    """The tables that a job wrote, by name; none where its place is not given."""
    place = getattr(options, job)
    return tables(spark, job, place) if place else {}


def tables(spark: SparkSession, job: str, place: str) -> Mapping[str, DataFrame]:
    """The same of this place."""
    place, run_id = place_and_run(place)
    found: StoredPlan = read_plan(spark, place, run_id, schemas=_without_lists(OF_JOBS.get(job, {})))
    return found.tables


def named(given: list[str] | None) -> list[tuple[str, str]]:
    """`NAME=PLACE` words; a place without a name is what every group is configured with."""
    pairs = [word.partition("=") if "=" in word else ("configured", "=", word) for word in given or []]
    names = [name for name, _, _ in pairs]
    if len(set(names)) < len(names):
        raise SourceError(
            f"--simulation {' '.join(given or [])}: give each a name of its own, such as eager={pairs[0][2]}"
        )
    return [(name, place) for name, _, place in pairs]


def _without_lists(schemas: Mapping[str, StructType]) -> dict[str, StructType]:
    """csv has no lists: there they are text, which no section of the report needs."""
    return {
        name: StructType(
            [
                StructField(field.name, StringType() if isinstance(field.dataType, ArrayType) else field.dataType)
                for field in schema.fields
            ]
        )
        for name, schema in schemas.items()
    }


def main(argv: list[str] | None = None) -> int:
    """The exit code; see --help."""
    options = parse(argv)
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    try:
        spark = SparkSession.builder.appName("spark_assign report").getOrCreate()
        if options.verbose and hasattr(spark, "sparkContext"):
            spark.sparkContext.setLogLevel("WARN")
        return run(options, spark)
    except SparkAssignError as error:
        log.error("report: %s", error, exc_info=options.verbose)
        return 2
    except Exception as error:
        kind, why = type(error).__name__, reason(error)
        log.error("report failed: %s: %s (more with --verbose)", kind, why, exc_info=options.verbose)
        return 3


if __name__ == "__main__":
    sys.exit(main())
