"""Hold a stored plan, and what has drifted since the run before, against thresholds; list the groups beyond them."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from spark_assign.alerts import MAX_GROWTH, alerts
from spark_assign.caching import cached
from spark_assign.command import run_job
from spark_assign.places import place_and_run
from spark_assign.report.alerts import summarize_alerts
from spark_assign.schemas import DRIFT_TABLES
from spark_assign.sinks.openmetrics import write_metrics
from spark_assign.sinks.plan_store import read_plan

EXIT_CODES = """exit codes: 0 done; 1 there are groups beyond a threshold and --fail-on alerts is given; 2 wrong usage,
or nothing is stored where it was looked for; 3 failure. A place is a folder, URI or catalog prefix that another job
wrote to; of its runs the last one is taken, or the one that PLACE@RUN names."""


def parse(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="check", description=__doc__, epilog=EXIT_CODES)
    add = parser.add_argument
    add("--plan", metavar="PLACE", required=True, help="a plan (job plan)")
    add("--drift", metavar="PLACE", help="what changed since an earlier run (job drift --plans)")
    growth = f"max/mean of a group may grow so many times, where it could be more even (default: {MAX_GROWTH})"
    add("--max-growth", metavar="FACTOR", type=float, default=MAX_GROWTH, help=growth)
    add("--max-rejected", metavar="N", type=int, default=0, help="so many groups may be rejected (default: 0)")
    add("--metrics", metavar="FILE", type=Path, help="figures of every group in OpenMetrics, for the node exporter")
    add("--fail-on", choices=["alerts"], help="exit code 1 where a group is beyond a threshold")
    add("--top", metavar="N", type=int, default=10, help="groups in the summary (default: 10)")
    add("--verbose", action="store_true", help="tracebacks")
    return parser.parse_args(argv)


def run(options: argparse.Namespace) -> int:
    """Load, call, print."""
    spark = SparkSession.builder.appName("spark_assign check").getOrCreate()
    place, run_id = place_and_run(options.plan)
    plan = read_plan(spark, place, run_id)
    limits = {"max_growth": options.max_growth, "max_rejected": options.max_rejected}
    drifted = _drifted(options, spark)
    found = cached(alerts(plan.tables["rejected"], drifted, **limits))
    if options.metrics:
        write_metrics(plan, options.metrics, drifted)
    text, number = summarize_alerts(found, options.top)
    print(f"{text}\ncheck: {number:,} alerts in {plan.manifest.run_id}", flush=True)
    return int(options.fail_on == "alerts" and number > 0)


def _drifted(options: argparse.Namespace, spark: SparkSession) -> DataFrame | None:
    if not options.drift:
        return None
    place, run_id = place_and_run(options.drift)
    return read_plan(spark, place, run_id, schemas=DRIFT_TABLES).tables["groups"]


def main(argv: list[str] | None = None) -> int:
    """The exit code; see --help."""
    options = parse(argv)
    return run_job("check", partial(run, options), verbose=options.verbose)


if __name__ == "__main__":
    sys.exit(main())
