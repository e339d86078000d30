"""Make the page of the day: what stopped last night and why, what it cost, what changed, and what to do next.

Takes snapshots of all clusters, then runs plan, diff, history, check, and advise, which store their runs in the folder
--output. If a step fails, run the command again on the same day: only that step and those after it are repeated.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import click
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_assign.cli.cluster_snapshots import read_labels
from spark_assign.cli.job import FAILURE, Options, job, spark_session
from spark_assign.cli.job_tables import stored_history
from spark_assign.cli.options import DURATION, exit_codes, fail_on, location_option, sample, top
from spark_assign.cli.outcome import write
from spark_assign.cli.owners import Owner, owners_options, read_owners, tables_with_owners
from spark_assign.cli.settings_file import from_file
from spark_assign.report.html import report
from spark_assign.report.html.daily import DailyRows, build_daily_parts, daily_rows
from spark_assign.report.openmetrics import publish
from spark_assign.sources.files.snapshot_files import last_taken
from spark_assign.stores.cluster_folders import KEYS, SUMMARY
from spark_assign.stores.run_store import StoredRun, previous_run, read_run
from spark_assign.tables.advice import ADVISE_TABLES
from spark_assign.tables.comparison import DRIFT_TABLES
from spark_assign.tables.errors import ConfigError, SparkAssignError
from spark_assign.tables.groups import ALERTS, PLAN_TABLES

DONE = (0, 1)
"""Exit codes of a step that isn't repeated."""


@dataclass(frozen=True)
class Step:
    """A step of the day: the job, its arguments, and whether the rest needs it."""

    job: str
    words: Sequence[str]
    required: bool = False


@job(__doc__, exit_codes("groups exceed a threshold", "alerts"), name="daily")
@click.option(
    "--clusters",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="TOML file with a table [clusters.NAME] for each cluster, and optionally [[owners]].",
)
@click.option(
    "--parallel", metavar="N", type=click.IntRange(min=1), default=8, help="Snapshots at a time (default: 8)."
)
@click.option("--no-snapshot", is_flag=True, help="Use the snapshots in --fleet-dir; no cluster is read.")
@location_option("--fleet-dir", "Folder of the snapshots of all clusters (default: the folder fleet in --output).")
@click.option("--sample", is_flag=True, help="Use the bundled sample fleet and sample history.")
@location_option("--records", "Records of __consumer_offsets, as history --follow writes them (default: no history).")
@owners_options()
@click.option(
    "--lookback",
    metavar="TIME",
    type=DURATION,
    help="Time range of the history (default: since the last run; in the first run, 1d).",
)
@click.option("--commit-gap", metavar="TIME", type=DURATION, help="As for history (default: 10s).")
@click.option("--deploy-gap", metavar="TIME", type=DURATION, help="As for history (default: 5m).")
@click.option(
    "--max-age", metavar="TIME", type=DURATION, default="26h", help="A snapshot that is older is stale (default: 26h)."
)
@click.option(
    "--max-growth", metavar="FACTOR", type=float, default=1.25, help="Alert if max/mean grows by it (default: 1.25)."
)
@click.option(
    "--max-rebalances-per-day", metavar="N", type=int, default=20, help="Alert if a group has more (default: 20)."
)
@click.option(
    "--max-pause",
    metavar="TIME",
    type=DURATION,
    default="2m",
    help="Alert if a partition pauses for longer (default: 2m).",
)
@location_option("--output", "Folder for the runs of all steps, and for the pages of each day.", required=True)
@click.option("--run-id", metavar="ID", help="Name of the day's run (default: the date in UTC, such as 20261127).")
@fail_on("alerts", "a group exceeds a threshold")
@top()
def main(options: Options) -> int:
    """Runs the steps, and writes the pages."""
    check_usage(options)
    options.run_id = options.run_id or time.strftime("%Y%m%d", time.gmtime())
    day = Path(options.output) / options.run_id
    (day / "steps").mkdir(parents=True, exist_ok=True)
    spark = spark_session("daily", options)
    codes = _run_steps(options, day)
    owners = read_owners(spark, _owners_location(options), options.owner)
    rows, details = _collect(options, spark, owners, codes)
    _write_pages(options, day, rows, details)
    failed = sorted(name for name, code in codes.items() if code not in DONE)
    options.outcome.run_id = options.run_id
    options.outcome.locations |= {"report": str(day / "index.html"), "metrics": str(day / "metrics.prom")}
    options.outcome.counts = {
        "alerts": len(rows.alerts),
        "events": len(rows.deploys),
        "recommendations": len(rows.advice),
        "stale": sum(row["stale"] for row in rows.clusters),
        "failed": len(failed),
    }
    if failed:
        options.outcome.failed("SourceError", f"not complete: {', '.join(failed)}")
    code = FAILURE if failed else int(options.fail_on == "alerts" and bool(rows.alerts))
    options.outcome.ended(code)
    write(options.outcome, str(day / "outcome.json"))
    for part in build_daily_parts(rows):
        print(f"{part.heading}: {' '.join(part.sentences)}")
    counts = ", ".join(f"{name} {number:,}" for name, number in options.outcome.counts.items())
    print(f"daily {options.run_id}: {counts}\nPage: {day / 'index.html'}, also {Path(options.output) / 'index.html'}")
    return code


def check_usage(options: Options) -> None:
    """Raises `ConfigError` if there is no fleet, or more than one."""
    if options.sample and (options.clusters or options.fleet_dir or options.records):
        raise ConfigError("--sample can't be used with --clusters, --fleet-dir, or --records.")
    if not (options.sample or options.clusters or options.no_snapshot):
        raise ConfigError("No clusters given. Use --clusters FILE, --no-snapshot with --fleet-dir, or --sample.")
    if options.no_snapshot and not options.fleet_dir and not options.clusters:
        raise ConfigError("--no-snapshot needs --fleet-dir DIR.")


def _fleet(options: Options) -> str:
    return sample(__file__, "fleet") if options.sample else options.fleet_dir or f"{options.output}/fleet"


def _owners_location(options: Options) -> str | None:
    """Returns `--owners`, or the file of the clusters if it has owners."""
    if options.owners or not options.clusters:
        return options.owners  # type: ignore[no-any-return]
    return str(options.clusters) if options.owner or from_file(options.clusters).get("owners") else None


# --- steps --------------------------------------------------------------------------------------------------------


def _steps(options: Options) -> Iterator[Step]:
    """Yields the steps in order."""
    run_id, fleet = ["--run-id", options.run_id], ["--fleet", _fleet(options)]
    store = {name: f"{options.output}/{name}" for name in ("plans", "drifts", "histories", "alerts", "advice")}
    plan = f"{store['plans']}@{options.run_id}"
    if options.clusters and not options.no_snapshot:
        words = ["--clusters", str(options.clusters), "--fleet-dir", _fleet(options)]
        yield Step("snapshot", [*words, "--parallel", str(options.parallel)])
    yield Step("plan", [*fleet, "--output", store["plans"], *run_id], required=True)
    yield Step("diff", ["--before", "previous", "--after", plan, "--output", store["drifts"], *run_id])
    past: list[str] = []
    if options.sample or options.records:
        source = ["--sample"] if options.sample else ["--records", options.records, *fleet]
        source += [
            word
            for flag in ("commit_gap", "deploy_gap")
            if (value := getattr(options, flag)) is not None
            for word in (f"--{flag.replace('_', '-')}", f"{value}ms")
        ]
        yield Step("history", [*source, "--replay", "--output", store["histories"], *run_id])
        past = ["--history", f"{store['histories']}@{options.run_id}", "--max-pause", f"{options.max_pause}ms"]
        past += ["--max-rebalances-per-day", str(options.max_rebalances_per_day)]
    metrics = ["--openmetrics", f"{options.output}/{options.run_id}/metrics.prom"]
    drift = ["--drift", f"{store['drifts']}@{options.run_id}", "--max-growth", str(options.max_growth)]
    yield Step("check", ["--plan", plan, *drift, *past, *metrics, "--output", store["alerts"], *run_id])
    yield Step("advise", [*(["--sample"] if options.sample else fleet), "--output", store["advice"], *run_id])


def _run_steps(options: Options, day: Path) -> dict[str, int]:
    """Runs the steps that have no outcome yet, and those after them. Returns the exit code of each.

    Raises:
        SparkAssignError: a step failed without which there is no page.
    """
    codes: dict[str, int] = {}
    repeats = False
    for step in _steps(options):
        file = day / "steps" / f"{step.job}.json"
        code = None if repeats else _exit_code(file)
        if code in DONE:
            print(f"daily: {step.job} has already ended with exit code {code}", flush=True)
            codes[step.job] = int(code or 0)
            continue
        repeats = True
        print(f"daily: {step.job} {' '.join(step.words)}", flush=True)
        name = f"{__package__}.{step.job}" if __package__ else step.job
        words = [*step.words, "--outcome", str(file), "--top", str(options.top)]
        codes[step.job] = import_module(name).main(words if step.job != "snapshot" else words[:-2])
        if step.required and codes[step.job] not in DONE:
            raise SparkAssignError(
                f"{step.job} ended with exit code {codes[step.job]}. The previous page is unchanged."
            )
    return codes


def _exit_code(file: Path) -> int | None:
    """Returns the exit code of an outcome file; None if there is none."""
    with suppress(OSError, ValueError):
        code: int | None = json.loads(file.read_text(encoding="utf-8"))["exit_code"]
        return code
    return None


# --- pages --------------------------------------------------------------------------------------------------------


def _collect(
    options: Options, spark: SparkSession, owners: Sequence[Owner] | None, codes: Mapping[str, int]
) -> tuple[DailyRows, dict[str, Any]]:
    """Returns the rows of the daily sections, and the arguments of `report` for the other sections."""
    runs: dict[str, StoredRun] = {}
    sources = {"plan": ("plans", PLAN_TABLES), "diff": ("drifts", DRIFT_TABLES), "advise": ("advice", ADVISE_TABLES)}
    for step, (folder, schemas) in {**sources, "check": ("alerts", {"alerts": ALERTS})}.items():
        if codes[step] in DONE:
            runs[step] = read_run(spark, f"{options.output}/{folder}", options.run_id, schemas=schemas)
    since = until = history = None
    if codes.get("history") in DONE:
        location = f"{options.output}/histories"
        runs["history"] = stored_history(spark, f"{location}@{options.run_id}")
        until = _end(runs["history"])
        since = _since(options, spark, location, until)
    tables = {step: tables_with_owners(run.tables, owners, options.owner) for step, run in runs.items()}
    history = tables.get("history")
    has_earlier = "diff" in runs and bool(runs["diff"].manifest.content["inputs"].get("before"))
    rows = daily_rows(
        history=history,
        since=since,
        until=until,
        drift=_table(tables, "diff", "groups") if has_earlier else None,
        advice=_table(tables, "advise", "advice"),
        alerts=_table(tables, "check", "alerts"),
        clusters=_clusters(options),
        missing=[f"The step {name} ended with exit code {code}." for name, code in codes.items() if code not in DONE],
    )
    plan = StoredRun(runs["plan"].manifest, tables["plan"])
    return rows, {"plan": plan, "drift": tables["diff"] if has_earlier else None, "history": history}


def _table(tables: Mapping[str, Mapping[str, DataFrame]], step: str, name: str) -> DataFrame | None:
    return tables[step][name] if step in tables else None


def _end(history: StoredRun) -> datetime | None:
    """Returns the time of the last record of a history, in UTC; None without groups."""
    (row,) = history.tables["groups"].agg(F.unix_millis(F.max("end_time")).alias("end")).collect()  # one row
    return None if row["end"] is None else datetime.fromtimestamp(row["end"] / 1000, UTC)


def _since(options: Options, spark: SparkSession, location: str, until: datetime | None) -> datetime | None:
    """Returns the start of the time range: `--lookback`, else the end of the previous run's history, else one day."""
    if until is None:
        return None
    if options.lookback is None and (before := previous_run(spark, location, options.run_id)) is not None:
        earlier = _end(stored_history(spark, f"{location}@{before}"))
        if earlier is not None and earlier < until:
            return earlier
    return until - timedelta(milliseconds=options.lookback or 86_400_000)


def _clusters(options: Options) -> list[dict[str, Any]]:
    """Returns a row per cluster of the file or of the fleet's folder, with the age of its snapshot."""
    fleet = Path(_fleet(options))
    labels = read_labels(options.clusters) if options.clusters else {}
    named = from_file(options.clusters)["clusters"] if options.clusters else {}
    taken_at = {cluster: last_taken(fleet, KEYS[0], cluster) for cluster in named}
    for path in fleet.glob(f"{KEYS[0]}=*"):
        cluster = unquote(path.name.partition("=")[2])
        taken_at[cluster] = last_taken(fleet, KEYS[0], cluster)
    if (fleet / SUMMARY).is_file():  # a folder of one cluster
        summary = json.loads((fleet / SUMMARY).read_text(encoding="utf-8"))
        taken_at[summary["cluster"]] = datetime.fromisoformat(summary["taken_at"])
    rows = []
    for cluster, taken in sorted(taken_at.items()):
        age = None if taken is None else (datetime.now(UTC) - taken).total_seconds() / 3600
        stale = age is None or age * 3_600_000 > options.max_age
        row = {"cluster": cluster, "labels": labels.get(cluster, ""), "taken_at": taken, "age_hours": age}
        rows.append(row | {"stale": stale, "problem": "No snapshot." if taken is None else ""})
    return rows


def _write_pages(options: Options, day: Path, rows: DailyRows, details: Mapping[str, Any]) -> None:
    """Writes a page per owner, the page of the fleet, and last the copy that is always the newest."""
    (day / "owners").mkdir(exist_ok=True)
    for team in rows.teams():
        page = report(daily=rows.of_team(team), title=f"{team}, {options.run_id}")
        publish(page.encode(), day / "owners" / f"{quote(team, safe=' ')}.html")
    page = report(daily=rows, **details, title=f"Kafka groups, {options.run_id}")
    for file in (day / "index.html", Path(options.output) / "index.html"):
        publish(page.encode(), file)


if __name__ == "__main__":
    sys.exit(main())
