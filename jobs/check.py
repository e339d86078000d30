"""Hold a stored plan, what has drifted since, and the history of groups against thresholds; list the groups beyond."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import click
from pyspark.sql import DataFrame, SparkSession

from spark_assign.cli.job import Options, job, spark_session
from spark_assign.cli.job_tables import stored_history
from spark_assign.cli.options import DURATION, PLACE, fail_on, stored_run, top
from spark_assign.groups.alerts import MAX_GROWTH, THRESHOLDS, alerts
from spark_assign.history.alerts import history_alerts
from spark_assign.report.openmetrics import write_metrics
from spark_assign.report.text.comparison import summarize_alerts
from spark_assign.spark.caching import cached
from spark_assign.stores.locations import place_and_run
from spark_assign.stores.run_store import read_run
from spark_assign.tables.comparison import DRIFT_TABLES
from spark_assign.tables.errors import ConfigError

EXIT_CODES = """Exit codes: 0 done; 1 there are groups beyond a threshold and --fail-on alerts is given; 2 wrong usage,
or nothing is stored where it was looked for; 3 failure. A place is a folder, URI or catalog prefix that another job
wrote to; of its runs the last one is taken, or the one that PLACE@ID names."""
METRICS = "figures of every group in OpenMetrics, for the node exporter"
OF_HISTORY = ("max_rebalances_a_day", "max_pause", "max_unread")
GROWTH = f"max/mean of a group may grow by this factor, where it could be more even (default: {MAX_GROWTH})"


@job(__doc__, EXIT_CODES, name="check", renamed={"--plan": "--run PLACE@ID"})
@stored_run("a plan (job plan)")
@click.option("--drift", type=PLACE, metavar="PLACE[@ID]", help="what changed since an earlier run (job drift)")
@click.option("--history", type=PLACE, metavar="PLACE[@ID]", help="what groups have been through (job history)")
@click.option("--max-growth", metavar="FACTOR", type=float, default=MAX_GROWTH, help=GROWTH)
@click.option("--max-rejected", metavar="N", type=int, default=0, help="how many groups may be rejected (default: 0)")
@click.option("--max-rebalances-a-day", metavar="N", type=int, help="of --history: rebalances of a group in 24 hours")
@click.option("--max-pause", metavar="TIME", type=DURATION, help="of --history: how long a rebalance may stop anything")
@click.option("--max-unread", metavar="N", type=int, help="of --history: records that could not be read")
@click.option(
    "--last", metavar="TIME", type=DURATION, help="of --history: look only at its last 1d, say (default: all)"
)
@click.option("--metrics", metavar="FILE", type=click.Path(path_type=Path), help=METRICS)
@fail_on("alerts", "exit code 1 where a group is beyond a threshold")
@top()
def main(options: Options) -> int:
    """Load, call, print."""
    check_usage(options)
    spark = spark_session("check", options)
    outcome, found, names = options.outcome, [], []
    limits: dict[str, Any] = {}
    plan = drifted = past = None
    if options.run:
        place, run_id = place_and_run(options.run)
        plan = read_run(spark, place, run_id)
        limits |= {"max_growth": options.max_growth, "max_rejected": options.max_rejected}
        drifted = _drifted(options, spark)
        found.append(alerts(plan.tables["rejected"], drifted, **limits))
        outcome.run_id, outcome.attempt, outcome.places["plan"] = plan.manifest.run_id, plan.manifest.attempt, place
        names.append(plan.manifest.run_id)
    if options.history:
        past = stored_history(spark, options.history)
        limits |= {name: getattr(options, name) for name in OF_HISTORY if getattr(options, name) is not None}
        found.append(_of_the_past(options, past.tables))
        outcome.places["history"] = place_and_run(options.history)[0]
        if not names:
            outcome.run_id, outcome.attempt = past.manifest.run_id, past.manifest.attempt
        names.append(past.manifest.run_id)
    if options.metrics:
        write_metrics(plan, options.metrics, drifted, past.tables["groups"] if past else None)
    text, numbers = summarize_alerts(cached(reduce(DataFrame.unionByName, found)), options.top)
    number = sum(numbers.values())
    text = f"{text}\ncheck: {number:,} alerts in {' and '.join(dict.fromkeys(names))}"
    print(text, flush=True)
    outcome.counts, outcome.summary = {"alerts": number, **numbers}, text
    outcome.exceeded = [
        {"threshold": name, "limit": limits[name], "groups": numbers[kind]}
        for kind, name in THRESHOLDS.items()
        if kind in numbers
    ]
    return int(options.fail_on == "alerts" and number > 0)


def check_usage(options: Options) -> None:
    """What is given has to have something that it is about.

    Raises:
        ConfigError: it has not.
    """
    if not options.run and not options.history:
        raise ConfigError("give --run PLACE (a plan), --history PLACE (what groups have been through), or both")
    if options.drift and not options.run:
        raise ConfigError("--drift goes with --run")
    for name in (*OF_HISTORY, "last"):
        if getattr(options, name) is not None and not options.history:
            raise ConfigError(f"--{name.replace('_', '-')} goes with --history")
    if options.history and all(getattr(options, name) is None for name in OF_HISTORY):
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in OF_HISTORY)
        raise ConfigError(f"--history needs a threshold: one of {flags}")


def _of_the_past(options: Options, tables: Mapping[str, DataFrame]) -> DataFrame:
    return history_alerts(
        tables,
        max_rebalances_a_day=options.max_rebalances_a_day,
        max_pause_ms=options.max_pause,
        max_unread=options.max_unread,
        last_ms=options.last,
    )


def _drifted(options: Options, spark: SparkSession) -> DataFrame | None:
    if not options.drift:
        return None
    place, run_id = place_and_run(options.drift)
    return read_run(spark, place, run_id, schemas=DRIFT_TABLES).tables["groups"]


if __name__ == "__main__":
    sys.exit(main())
