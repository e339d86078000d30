"""Hold a stored plan, and what has drifted since the run before, against thresholds; list the groups beyond them."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from pyspark.sql import DataFrame, SparkSession

from spark_assign.alerts import MAX_GROWTH, THRESHOLDS, alerts
from spark_assign.caching import cached
from spark_assign.command.job import Options, job, spark_session
from spark_assign.command.options import PLACE, fail_on, stored_run, top
from spark_assign.comparing.schemas import DRIFT_TABLES
from spark_assign.places import place_and_run
from spark_assign.report.alerts import summarize_alerts
from spark_assign.sinks.openmetrics import write_metrics
from spark_assign.sinks.plan_store import read_plan

EXIT_CODES = """Exit codes: 0 done; 1 there are groups beyond a threshold and --fail-on alerts is given; 2 wrong usage,
or nothing is stored where it was looked for; 3 failure. A place is a folder, URI or catalog prefix that another job
wrote to; of its runs the last one is taken, or the one that PLACE@ID names."""
METRICS = "figures of every group in OpenMetrics, for the node exporter"
GROWTH = f"max/mean of a group may grow by this factor, where it could be more even (default: {MAX_GROWTH})"


@job(__doc__, EXIT_CODES, name="check", renamed={"--plan": "--run PLACE@ID"})
@stored_run("a plan (job plan)", required=True)
@click.option("--drift", type=PLACE, metavar="PLACE[@ID]", help="what changed since an earlier run (job drift)")
@click.option("--max-growth", metavar="FACTOR", type=float, default=MAX_GROWTH, help=GROWTH)
@click.option("--max-rejected", metavar="N", type=int, default=0, help="how many groups may be rejected (default: 0)")
@click.option("--metrics", metavar="FILE", type=click.Path(path_type=Path), help=METRICS)
@fail_on("alerts", "exit code 1 where a group is beyond a threshold")
@top()
def main(options: Options) -> int:
    """Load, call, print."""
    spark = spark_session("check", options)
    place, run_id = place_and_run(options.run)
    plan = read_plan(spark, place, run_id)
    limits = {"max_growth": options.max_growth, "max_rejected": options.max_rejected}
    drifted = _drifted(options, spark)
    found = cached(alerts(plan.tables["rejected"], drifted, **limits))
    if options.metrics:
        write_metrics(plan, options.metrics, drifted)
    text, numbers = summarize_alerts(found, options.top)
    number = sum(numbers.values())
    text = f"{text}\ncheck: {number:,} alerts in {plan.manifest.run_id}"
    print(text, flush=True)
    told = options.outcome
    told.run_id, told.attempt, told.places["plan"] = plan.manifest.run_id, plan.manifest.attempt, place
    told.counts, told.summary = {"alerts": number, **numbers}, text
    told.exceeded = [
        {"threshold": name, "limit": limits[name], "groups": numbers[kind]}
        for kind, name in THRESHOLDS.items()
        if kind in numbers
    ]
    return int(options.fail_on == "alerts" and number > 0)


def _drifted(options: Options, spark: SparkSession) -> DataFrame | None:
    if not options.drift:
        return None
    place, run_id = place_and_run(options.drift)
    return read_plan(spark, place, run_id, schemas=DRIFT_TABLES).tables["groups"]


if __name__ == "__main__":
    sys.exit(main())
