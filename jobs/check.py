"""Check a stored plan, its drift, and the history of groups against thresholds, and list the alerts."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame

from spark_assign.cli.job import Options, job, spark_session
from spark_assign.cli.job_tables import sample_run, store_run, stored_history, stored_plan
from spark_assign.cli.notifications import notify, notify_options
from spark_assign.cli.options import (
    exit_codes,
    fail_on,
    flags_of,
    given_parameters,
    openmetrics_option,
    output_options,
    parameter_options,
    sample_option,
    stored_run,
    top,
)
from spark_assign.cli.owners import group_filter_options, read_owners, with_owners
from spark_assign.cli.plan_kinds import rejected_of_all_kinds
from spark_assign.groups.alerts import OF_HISTORY, OF_PLANS, OF_STREAMS, THRESHOLDS, AlertLimits, alerts, streams_alerts
from spark_assign.history.alerts import history_alerts
from spark_assign.report.drift import summarize_alerts
from spark_assign.report.formatting import name_clusters_of
from spark_assign.report.listed_groups import collected
from spark_assign.report.openmetrics import MOST_GROUPS, write_metrics
from spark_assign.spark.engine import cached
from spark_assign.stores.locations import split_run_id
from spark_assign.stores.run_store import read_run
from spark_assign.tables.errors import ConfigError, count
from spark_assign.tables.groups import ALERTS, GROUP_KEY
from spark_assign.tables.parameters import parameter_fields
from spark_assign.tables.stored_plan import STORED_DRIFT_TABLES, STORED_PLAN_TABLES, STREAMS

EXIT_CODES = f"""LOCATION is a folder, URI, or catalog prefix that another job wrote to. Without @RUN_ID, the run that
finished last is read. {exit_codes("groups exceed a threshold", "alerts")}"""
HISTORY_FLAGS = flags_of(AlertLimits, *OF_HISTORY)


def check_notify(options: Options) -> None:
    """Raises `ConfigError` if there is no file for the alerts that were sent."""
    if options.notify and not (options.notify_state or options.outcome_file):
        raise ConfigError("--notify needs --notify-state FILE or --outcome FILE, to send an alert only once.")


@job(
    __doc__,
    EXIT_CODES,
    name="check",
    usage=(
        check_notify,
        "--sample excludes --plan, --history, --drift",
        "any of --plan, --history, --sample",
        "--drift needs --plan",
        f"{flags_of(AlertLimits, *OF_STREAMS)} needs --plan, --sample",
        f"{HISTORY_FLAGS}, --lookback needs --history, --sample",
        f"--history needs {HISTORY_FLAGS}: a threshold",
    ),
)
@stored_run("--plan", "Stored plan (job plan).")
@sample_option("fleet, and with a threshold of --history the bundled sample history")
@stored_run("--drift", "Stored changes since an earlier run (job diff).")
@stored_run("--history", "Stored history of groups (job history).")
@parameter_options(AlertLimits, *OF_PLANS, *OF_STREAMS)
@parameter_options(AlertLimits, *OF_HISTORY, "lookback_ms", condition="With --history")
@group_filter_options()
@output_options("Folder, URI, or catalog prefix for the table alerts (default: print only).")
@openmetrics_option()
@notify_options("default: the file of --outcome, with .alerts")
@fail_on("alerts", "a group exceeds a threshold")
@top()
def main(options: Options) -> int:
    """Parses, loads, checks, and prints."""
    spark = spark_session("check", options)
    if options.sample:
        options.plan = sample_run(spark, __file__, "plan")
        if given_parameters(options, AlertLimits, *OF_HISTORY):
            options.history = sample_run(spark, __file__, "history")
    outcome, found, names = options.outcome, [], []
    thresholds = AlertLimits(**given_parameters(options, AlertLimits))
    plan = drifted = history = None
    if options.plan:
        plan = stored_plan(spark, options.plan, STORED_PLAN_TABLES)
        name_clusters_of(*plan.tables.values())
        if options.drift:
            place = split_run_id(options.drift)
            drifted = read_run(spark, *place, schemas=STORED_DRIFT_TABLES, required=("groups",)).tables["groups"]
        of_plan = {name: getattr(thresholds, name) for name in OF_PLANS}
        found.append(alerts(rejected_of_all_kinds(plan.tables), drifted, **of_plan))
        of_streams = given_parameters(options, AlertLimits, *OF_STREAMS)
        if of_streams and f"{STREAMS}metrics" in plan.tables:
            found.append(streams_alerts(plan.tables[f"{STREAMS}metrics"], **of_streams))
        outcome.run_id, outcome.attempt = plan.manifest.run_id, plan.manifest.attempt
        outcome.locations["plan"] = split_run_id(options.plan)[0]
        names.append(plan.manifest.run_id)
    if options.history:
        history = stored_history(spark, options.history)
        name_clusters_of(*history.tables.values())
        of_history = given_parameters(options, AlertLimits, *OF_HISTORY) | {"read_at": history.manifest.started_at}
        found.append(history_alerts(history.tables, **of_history, lookback_ms=options.lookback))
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
    limits = {each.flag: getattr(thresholds, each.name) for each in parameter_fields(AlertLimits)}
    outcome.exceeded = [
        {"threshold": name, "limit": limits[name], "groups": counts[kind]}
        for kind, name in THRESHOLDS.items()
        if kind in counts
    ]
    if options.notify:
        rows = collected(exceeding.orderBy(*GROUP_KEY, "alert").limit(MOST_GROUPS))
        notify(options.notify, options.notify_state or f"{options.outcome_file}.alerts", outcome, rows)
    return int(options.fail_on == "alerts" and total > 0)


if __name__ == "__main__":
    main()
