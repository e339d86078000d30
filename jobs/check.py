"""Check a stored plan, its drift, and the history of groups against thresholds, and list the alerts."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import reduce
from typing import Any

import click
from pyspark.sql import DataFrame, SparkSession

from spark_assign.cli.job import Options, job, spark_session
from spark_assign.cli.job_tables import sample_run, store_run, stored_history
from spark_assign.cli.notifications import notify, notify_options
from spark_assign.cli.options import (
    DURATION,
    exit_codes,
    fail_on,
    given_values,
    openmetrics_option,
    output_options,
    sample_option,
    stored_run,
    streams_thresholds,
    top,
)
from spark_assign.cli.owners import group_filter_options, read_owners, with_owners
from spark_assign.cli.plan_kinds import rejected_of_all_kinds
from spark_assign.groups.alerts import MAX_GROWTH, THRESHOLDS, alerts, streams_alerts
from spark_assign.history.alerts import history_alerts
from spark_assign.report.drift import summarize_alerts
from spark_assign.report.listed_groups import collected
from spark_assign.report.openmetrics import MOST_GROUPS, write_metrics
from spark_assign.spark.engine import cached
from spark_assign.stores.locations import split_run_id
from spark_assign.stores.run_store import read_run
from spark_assign.tables.counted_nouns import count
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.groups import ALERTS, GROUP_KEY
from spark_assign.tables.stored_plan import STORED_DRIFT_TABLES, STORED_PLAN_TABLES, STREAMS

EXIT_CODES = f"""LOCATION is a folder, URI, or catalog prefix that another job wrote to. Without @RUN_ID, the run that
finished last is read. {exit_codes("groups exceed a threshold", "alerts")}"""
STREAMS_THRESHOLDS = ("max_moved_without_state", "max_restore_time")
HISTORY_THRESHOLDS = ("max_rebalances_per_day", "max_pause", "max_unreadable")
GROWTH = f"Alert if max/mean of a group that could be balanced better grows by this factor (default: {MAX_GROWTH})."
REJECTED = "Alert if more than N groups and Connect clusters are rejected (default: 0)."
REBALANCES = "With --history: alert if a group has more than N rebalances in 24 hours."
PAUSE = "With --history: alert if a rebalance pauses a partition longer than TIME, for example 30s."
UNREADABLE = "With --history: alert if more than N records can't be decoded."
LOOKBACK = "With --history: check only the last TIME of the history, for example 1d (default: all)."


@job(__doc__, EXIT_CODES, name="check")
@stored_run("--plan", "Stored plan (job plan).")
@sample_option("fleet, and with a threshold of --history the bundled sample history")
@stored_run("--drift", "Stored changes since an earlier run (job diff).")
@stored_run("--history", "Stored history of groups (job history).")
@click.option("--max-growth", metavar="FACTOR", type=float, default=MAX_GROWTH, help=GROWTH)
@click.option("--max-rejected", metavar="N", type=int, default=0, help=REJECTED)
@streams_thresholds()
@click.option("--max-rebalances-per-day", metavar="N", type=int, help=REBALANCES)
@click.option("--max-pause", metavar="TIME", type=DURATION, help=PAUSE)
@click.option("--max-unreadable", metavar="N", type=int, help=UNREADABLE)
@click.option("--lookback", metavar="TIME", type=DURATION, help=LOOKBACK)
@group_filter_options()
@output_options("Folder, URI, or catalog prefix for the table alerts (default: print only).")
@openmetrics_option()
@notify_options("default: that of --outcome, with .alerts")
@fail_on("alerts", "a group exceeds a threshold")
@top()
def main(options: Options) -> int:
    """Parses, loads, checks, and prints."""
    check_usage(options)
    spark = spark_session("check", options)
    if options.sample:
        options.plan = sample_run(spark, __file__, "plan")
        if given_values(options, HISTORY_THRESHOLDS):
            options.history = sample_run(spark, __file__, "history")
    outcome, found, names = options.outcome, [], []
    limits: dict[str, Any] = {}
    plan = drifted = history = None
    if options.plan:
        location, run_id = split_run_id(options.plan)
        plan = read_run(spark, location, run_id, schemas=STORED_PLAN_TABLES)
        limits |= {"max_growth": options.max_growth, "max_rejected": options.max_rejected}
        drifted = _drifted_groups(options, spark)
        found.append(alerts(rejected_of_all_kinds(plan.tables), drifted, **limits))
        if of_streams := given_values(options, STREAMS_THRESHOLDS):
            limits |= of_streams
            found += _streams_alerts(plan.tables, **of_streams)
        outcome.run_id, outcome.attempt = plan.manifest.run_id, plan.manifest.attempt
        outcome.locations["plan"] = location
        names.append(plan.manifest.run_id)
    if options.history:
        history = stored_history(spark, options.history)
        limits |= given_values(options, HISTORY_THRESHOLDS)
        found.append(
            history_alerts(
                history.tables,
                max_rebalances_per_day=options.max_rebalances_per_day,
                max_pause_ms=options.max_pause,
                max_unreadable=options.max_unreadable,
                lookback_ms=options.lookback,
            )
        )
        outcome.locations["history"] = split_run_id(options.history)[0]
        if not names:
            outcome.run_id, outcome.attempt = history.manifest.run_id, history.manifest.attempt
        names.append(history.manifest.run_id)
    if options.openmetrics:
        write_metrics(plan, options.openmetrics, drifted, history.tables["groups"] if history else None)
    owners = read_owners(spark, options.owners, options.owner)
    exceeding = cached(with_owners(reduce(DataFrame.unionByName, found), owners, options.owner, options.group))
    if options.output:
        inputs = {name: getattr(options, name) for name in ("plan", "drift", "history")}
        store_run(options, {"alerts": exceeding}, schemas={"alerts": ALERTS}, inputs=inputs)
    text, counts = summarize_alerts(exceeding, options.top)
    total = sum(counts.values())
    text = f"{text}\ncheck: {count(total, 'alert')} in {' and '.join(dict.fromkeys(names))}"
    print(text, flush=True)
    outcome.counts, outcome.summary = {"alerts": total, **counts}, text
    outcome.exceeded = [
        {"threshold": name, "limit": limits[name], "groups": counts[kind]}
        for kind, name in THRESHOLDS.items()
        if kind in counts
    ]
    if options.notify:
        rows = collected(exceeding.orderBy(*GROUP_KEY, "alert").limit(MOST_GROUPS))
        notify(options.notify, options.notify_state or f"{options.outcome_file}.alerts", outcome, rows)
    return int(options.fail_on == "alerts" and total > 0)


def check_usage(options: Options) -> None:
    """Raises `ConfigError` if options are missing, or given without the option that they refine."""
    if options.notify and not (options.notify_state or options.outcome_file):
        raise ConfigError("--notify needs --notify-state FILE or --outcome FILE, so that an alert is sent only once.")
    if options.sample and (options.plan or options.history or options.drift):
        raise ConfigError("--sample can't be used with --plan, --history, or --drift. Use only one of them.")
    if options.sample:
        return
    if not options.plan and not options.history:
        raise ConfigError("Nothing to check. Use --plan LOCATION, --history LOCATION, both, or --sample.")
    if options.drift and not options.plan:
        raise ConfigError("--drift needs --plan.")
    for name in STREAMS_THRESHOLDS:
        if getattr(options, name) is not None and not options.plan:
            raise ConfigError(f"--{name.replace('_', '-')} needs --plan.")
    for name in (*HISTORY_THRESHOLDS, "lookback"):
        if getattr(options, name) is not None and not options.history:
            raise ConfigError(f"--{name.replace('_', '-')} needs --history.")
    if options.history and all(getattr(options, name) is None for name in HISTORY_THRESHOLDS):
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in HISTORY_THRESHOLDS)
        raise ConfigError(f"--history needs a threshold: one of {flags}.")


def _streams_alerts(
    tables: Mapping[str, DataFrame], max_moved_without_state: int | None = None, max_restore_time: int | None = None
) -> list[DataFrame]:
    """Returns the alerts of Streams groups, if the plan has such groups."""
    metrics = tables.get(f"{STREAMS}metrics")
    limits = {"max_moved_without_state": max_moved_without_state, "max_restore_ms": max_restore_time}
    return [] if metrics is None else [streams_alerts(metrics, **limits)]


def _drifted_groups(options: Options, spark: SparkSession) -> DataFrame | None:
    if not options.drift:
        return None
    location, run_id = split_run_id(options.drift)
    return read_run(spark, location, run_id, schemas=STORED_DRIFT_TABLES).tables["groups"]


if __name__ == "__main__":
    sys.exit(main())
