"""Make the page of the day: what stopped last night and why, what it cost, what changed, and what to do next.

Takes snapshots of all clusters, and reads the records of __consumer_offsets that are new since the last run. Then runs
plan, diff, history, check, and advise, which store their runs in the folder --output. If a step fails, run the command
again on the same day: only that step and those that need its result are repeated.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import unquote

import click
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_assign.cli.cluster_snapshots import read_labels, shown_name
from spark_assign.cli.job import FAILURE, Options, job, spark_session
from spark_assign.cli.job_tables import stored_history
from spark_assign.cli.notifications import notify, notify_options
from spark_assign.cli.options import (
    INPUT,
    LOCAL_FOLDER,
    PATH,
    exit_codes,
    fail_on,
    flag_of,
    given_parameters,
    location_option,
    parameter_options,
    require_input,
    require_local_folder,
    sample,
    top,
)
from spark_assign.cli.owners import Owner, group_filter_options, read_owners, tables_with_owners
from spark_assign.cli.settings_file import from_file
from spark_assign.cli.steps import Step, StepOutcome, failed, has_result, run_steps, why_skipped, without_result
from spark_assign.groups.alerts import OF_STREAMS, DailyLimits, cluster_times
from spark_assign.history import HistoryThresholds
from spark_assign.report.daily import DailyRows, daily_rows
from spark_assign.report.formatting import listed, name_clusters
from spark_assign.report.html import report
from spark_assign.report.listed_groups import collected
from spark_assign.report.openmetrics import Figures, expose
from spark_assign.sources.files.snapshot_files import last_taken, summarized
from spark_assign.stores.locations import KEYS, folder_name, one_folder, publish
from spark_assign.stores.run_store import StoredRun, previous_run, read_run, safe_run_id
from spark_assign.tables.advice import ADVISE_TABLES
from spark_assign.tables.errors import SourceError
from spark_assign.tables.groups import ALERTS
from spark_assign.tables.parameters import Param, parameter_fields
from spark_assign.tables.stored_plan import REPORTED_PLAN_TABLES, STORED_DRIFT_TABLES, STREAMS, tables_of_kind
from spark_assign.tables.streams import StreamsParams


@dataclass(frozen=True)
class Sources:
    """What is read.

    Attributes:
        clusters: TOML file with a table [clusters.NAME] for each cluster, and optionally [[owners]].
        parallel: snapshots at a time.
        no_snapshot: use the snapshots in --fleet-dir; no cluster is read.
        fleet_dir: folder of the snapshots of all clusters (default: the folder fleet in --output).
        records: records of __consumer_offsets, as history --follow writes them (default: the clusters, read since the
            last run).
        no_history: don't read what happened to groups.
    """

    clusters: Annotated[Path | None, Param(kind=PATH, metavar="FILE")] = None
    parallel: Annotated[int, Param(least=1)] = 8
    no_snapshot: Annotated[bool, Param()] = False
    fleet_dir: Annotated[str | None, Param(kind=LOCAL_FOLDER, metavar="DIR")] = None
    records: Annotated[tuple[str, ...], Param(kind=INPUT, metavar="LOCATION")] = ()
    no_history: Annotated[bool, Param()] = False


@dataclass(frozen=True)
class Ages:
    """Ages of what is read.

    Attributes:
        lookback_ms: time range of the history (default: since the last run; in the first run, 1d).
        max_age_ms: a snapshot that is older is stale.
    """

    lookback_ms: Annotated[int | None, Param(least=0)] = None
    max_age_ms: Annotated[int, Param(least=0)] = 93_600_000


def check_usage(options: Options) -> None:
    """Raises `ConfigError` if the snapshots or the clusters can't be read."""
    if options.no_snapshot:
        require_input(_fleet(options))
    elif options.clusters:
        import_module(_module("snapshot")).clusters_of(options.clusters)


@job(
    __doc__,
    exit_codes("groups exceed a threshold", "alerts"),
    name="daily",
    usage=(
        "--no-history excludes --records",
        "--sample excludes --clusters, --fleet-dir, --records",
        "any of --clusters, --no-snapshot, --sample",
        "--no-snapshot needs --fleet-dir, --clusters",
        "--max-restore-time needs --restore-bytes-per-second: restores have no time without it",
        check_usage,
    ),
)
@parameter_options(Sources, defaults=True)
@click.option("--sample", is_flag=True, help="Use the bundled sample fleet and sample history.")
@group_filter_options()
@parameter_options(Ages, defaults=True)
@parameter_options(HistoryThresholds, "commit_gap_ms", "deploy_gap_ms")
@parameter_options(DailyLimits, "max_growth", *OF_STREAMS, "max_rebalances_per_day", "max_pause_ms")
@parameter_options(StreamsParams)
@location_option("--output", "Folder for all runs and pages.", type=LOCAL_FOLDER, metavar="DIR", required=True)
@click.option("--run-id", metavar="ID", help="Name of the day's run (default: the date in UTC, such as 20261127).")
@notify_options("default: alerts.json in --output")
@fail_on("alerts", "a group exceeds a threshold")
@top()
def main(options: Options) -> int:
    """Runs the steps, and writes the pages."""
    options.run_id = time.strftime("%Y%m%d", time.gmtime()) if options.run_id is None else safe_run_id(options.run_id)
    day = Path(options.output) / options.run_id
    require_local_folder(str(day / "steps"))
    require_local_folder(str(day / "owners"))
    spark = spark_session("daily", options)
    outcomes: dict[str, StepOutcome] = {}
    run_steps(_steps(options, outcomes), day / "steps", options.parallel, partial(_run, options), outcomes)
    rows, details = _collect(options, spark, read_owners(spark, _owners_location(options), options.owner), outcomes)
    _write_pages(options, day, rows, details)
    _write_metrics(day, rows)
    incomplete = sorted(name for name, outcome in outcomes.items() if failed(outcome))
    options.outcome.run_id = options.run_id
    options.outcome.locations |= {"report": str(day / "index.html"), "metrics": str(day / "metrics.prom")}
    options.outcome.counts = {
        "alerts": len(rows.alerts),
        "events": len(rows.deploys),
        "recommendations": len(rows.advice),
        "stale": sum(row["stale"] for row in rows.clusters),
        "failed": len(incomplete),
    }
    if incomplete:
        options.outcome.failed("SourceError", f"not complete: {', '.join(incomplete)}")
    options.outcome.ended(code := FAILURE if incomplete else int(options.fail_on == "alerts" and bool(rows.alerts)))
    counts = ", ".join(f"{name} {number:,}" for name, number in options.outcome.counts.items())
    lines = [f"{part.heading}: {' '.join(part.sentences)}" for part in rows.parts]
    options.outcome.summary = "\n".join([*lines, f"daily {options.run_id}: {counts}"])
    publish(options.outcome.as_json().encode(), day / "outcome.json")
    print(f"{options.outcome.summary}\nPage: {day / 'index.html'}, also {Path(options.output) / 'index.html'}")
    for name, table in rows.tables().items():
        listed(name, table[: options.top])
    if options.notify:
        alert = {"group_id": "", "alert": "stale"}
        stale = [alert | {"cluster": row["cluster"], "detail": row["problem"]} for row in rows.clusters if row["stale"]]
        state = options.notify_state or f"{options.output}/alerts.json"
        alerts, is_complete = [*rows.alerts, *stale], has_result(outcomes, "check")
        notify(options.notify, state, options.outcome, alerts, is_complete=is_complete)
    return code


def _fleet(options: Options) -> str:
    return sample(__file__, "fleet") if options.sample else options.fleet_dir or f"{options.output}/fleet"


def _owners_location(options: Options) -> str | None:
    """Returns `--owners`, or the file of the clusters if it has owners."""
    if options.owners or not options.clusters:
        return options.owners  # type: ignore[no-any-return]
    return str(options.clusters) if options.owner or from_file(options.clusters).get("owners") else None


# --- steps --------------------------------------------------------------------------------------------------------


def _steps(options: Options, outcomes: Mapping[str, StepOutcome]) -> Iterator[Sequence[Step]]:
    """Yields the steps in order, those of one sequence at the same time.

    Args:
        options: the options.
        outcomes: outcomes of the steps that were yielded before. The history of a cluster that the snapshot couldn't
            read isn't read either.
    """
    run_id, fleet = ["--run-id", options.run_id], ["--fleet", _fleet(options)]
    store = {name: f"{options.output}/{name}" for name in ("plans", "drifts", "histories", "alerts", "advice")}
    plan = f"{store['plans']}@{options.run_id}"
    if options.clusters and not options.no_snapshot:
        words = ["--clusters", str(options.clusters), "--fleet-dir", _fleet(options)]
        yield [Step("snapshot", [*words, "--parallel", str(options.parallel)])]
    archives = _archives(options)
    if not options.no_snapshot:
        yield [
            _follow(name, values, archive)
            for name, (values, archive) in archives.items()
            if _was_read(options, outcomes, name)
        ]
    streams = StreamsParams(**given_parameters(options, StreamsParams))
    rate, limits = _words(streams, "restore_bytes_per_second"), DailyLimits(**given_parameters(options, DailyLimits))
    yield [
        Step(
            "plan",
            [*fleet, *_words(streams, "standby_replicas"), *rate, "--output", store["plans"], *run_id],
            ("snapshot",),
            required=True,
        )
    ]
    diff = ["--before", "previous", "--after", plan, "--output", store["drifts"], *run_id]
    skipped = why_skipped(outcomes["plan"])
    yield [Step("diff", diff, ("plan",), skipped=skipped)]
    past: list[str] = []
    if source := _history_source(options, [archive for _, archive in archives.values()]):
        thresholds = HistoryThresholds(**given_parameters(options, HistoryThresholds))
        source += _words(thresholds, "commit_gap_ms", "deploy_gap_ms")
        needs = ("snapshot", *map(_step_name, archives))
        yield [Step("history", [*source, "--replay", "--output", store["histories"], *run_id], needs, skipped=skipped)]
        past = ["--history", f"{store['histories']}@{options.run_id}"]
        past += _words(limits, "max_pause_ms", "max_rebalances_per_day")
    metrics = ["--openmetrics", f"{options.output}/{options.run_id}/metrics.prom"]
    drift = ["--drift", f"{store['drifts']}@{options.run_id}"]
    drift += _words(limits, "max_growth", *OF_STREAMS)
    check = ["--plan", plan, *([] if skipped else drift + past), *metrics, "--output", store["alerts"], *run_id]
    yield [Step("check", check, ("plan", "diff", "history"))]
    advise = [*(["--sample"] if options.sample else fleet), *rate, "--output", store["advice"], *run_id]
    yield [Step("advise", advise, ("snapshot",), skipped=skipped)]


def _words(parameters: Any, *names: str) -> list[str]:
    """Returns fields of parameters that have a value as words for a job."""
    of: type = type(parameters)
    given = ((each, getattr(parameters, each.name)) for each in parameter_fields(of) if each.name in names)
    words = (
        (flag_of(each.flag), f"{value}ms" if each.unit else str(value)) for each, value in given if value is not None
    )
    return [word for pair in words for word in pair]


def _archives(options: Options) -> dict[str, tuple[Mapping[str, Any], str]]:
    """Returns the flags of each Kafka cluster of the file, and the folder with its records of `__consumer_offsets`.

    It is empty if the history has another source.
    """
    if not options.clusters or options.records or options.no_history:
        return {}
    clusters = import_module(_module("snapshot")).clusters_of(options.clusters)
    return {
        name: (values, f"{options.output}/records/{folder_name(KEYS[0], name)}")
        for name, values in clusters.items()
        if values.get("bootstrap_server")
    }


def _was_read(options: Options, outcomes: Mapping[str, StepOutcome], cluster: str, key: str = KEYS[0]) -> bool:
    """Checks whether the step snapshot, if there is one, has read a cluster."""
    if "snapshot" not in outcomes:
        return True
    taken = last_taken(_fleet(options), key, cluster)
    return taken is not None and taken >= datetime.fromisoformat(outcomes["snapshot"]["started_at"])


def _follow(cluster: str, values: Mapping[str, Any], archive: str) -> Step:
    """Returns the step that copies a cluster's new records to its archive."""
    login = ["--command-config", values["command_config"]] if values.get("command_config") else []
    words = ["--bootstrap-server", values["bootstrap_server"], *login, "--cluster-name", cluster]
    return Step("history", [*words, "--follow", "--archive", archive], name=_step_name(cluster))


def _step_name(cluster: str) -> str:
    return f"records of {cluster}"


def _history_source(options: Options, archives: Iterable[str]) -> list[str]:
    """Returns the arguments that name the records of the history; empty if there are none."""
    if options.no_history:
        return []
    if options.sample:
        return ["--sample"]
    stored = [archive for archive in archives if any(Path(archive).glob("*.parquet"))]
    records = [word for location in options.records or stored for word in ("--records", location)]
    return [*records, "--fleet", _fleet(options)] if records else []


def _module(job: str) -> str:
    return f"{__package__}.{job}" if __package__ else job


def _run(options: Options, step: Step, words: Sequence[str]) -> int:
    """Runs the job of a step, with further arguments."""
    top = [] if step.job == "snapshot" else ["--top", str(options.top)]
    code: int = import_module(_module(step.job)).main([*step.words, *words, *top])
    return code


# --- pages --------------------------------------------------------------------------------------------------------


def _collect(
    options: Options, spark: SparkSession, owners: Sequence[Owner] | None, outcomes: Mapping[str, StepOutcome]
) -> tuple[DailyRows, dict[str, Any]]:
    """Returns the rows of the daily sections, and the arguments of `report` for the other sections."""
    runs: dict[str, StoredRun] = {}
    sources = {
        "plan": ("plans", REPORTED_PLAN_TABLES),
        "diff": ("drifts", STORED_DRIFT_TABLES),
        "advise": ("advice", ADVISE_TABLES),
        "check": ("alerts", {"alerts": ALERTS}),
    }
    for step, (folder, schemas) in sources.items():
        if has_result(outcomes, step):
            runs[step] = read_run(spark, f"{options.output}/{folder}", options.run_id, schemas=schemas)
    times: dict[str, tuple[datetime, datetime]] = {}
    if has_result(outcomes, "history"):
        location = f"{options.output}/histories"
        runs["history"] = stored_history(spark, f"{location}@{options.run_id}")
        times = _time_ranges(options, spark, location, _ends(runs["history"]))
    tables = {step: tables_with_owners(run.tables, owners, options.owner, options.group) for step, run in runs.items()}
    history = tables.get("history")
    has_earlier = "diff" in runs and bool(runs["diff"].manifest.content["inputs"].get("before"))
    rows = daily_rows(
        history=history,
        times=times,
        drift=_table(tables, "diff", "groups") if has_earlier else None,
        advice=_table(tables, "advise", "advice"),
        alerts=_table(tables, "check", "alerts"),
        clusters=_clusters(options, outcomes),
        missing=without_result(outcomes),
    )
    name_clusters(lambda: {row["cluster"] for row in rows.clusters})
    plan = StoredRun(runs["plan"].manifest, tables["plan"])
    drift = tables["diff"] if has_earlier else None
    streams = tables_of_kind(STREAMS, plan.tables) or None
    return rows, {"plan": plan, "drift": drift, "history": history, "streams": streams}


def _table(tables: Mapping[str, Mapping[str, DataFrame]], step: str, name: str) -> DataFrame | None:
    return tables[step][name] if step in tables else None


def _ends(history: StoredRun) -> dict[str, datetime]:
    """Returns the time of the last record of each cluster before the start of a history's run, in UTC."""
    times = cluster_times(history.tables["groups"], history.manifest.started_at)
    ends = times.select("cluster", F.unix_millis("end").alias("end"))
    try:
        return {row["cluster"]: datetime.fromtimestamp(row["end"] / 1000, UTC) for row in collected(ends)}
    except (OverflowError, ValueError) as error:
        raise SourceError("groups.end_time: a time isn't in the years 1 to 9999. Remove that row") from error


def _time_ranges(
    options: Options, spark: SparkSession, location: str, ends: Mapping[str, datetime]
) -> dict[str, tuple[datetime, datetime]]:
    """Returns start and end of each cluster's time range.

    It starts `--lookback` before the end, by default at the end of the cluster's previous history, else a day before.
    """
    lookback = timedelta(milliseconds=options.lookback or 86_400_000)
    before = None if options.lookback else previous_run(spark, location, options.run_id)
    starts = _ends(stored_history(spark, f"{location}@{before}")) if before else {}
    first = datetime.min.replace(tzinfo=UTC)
    return {cluster: (starts.get(cluster, max(end, first + lookback) - lookback), end) for cluster, end in ends.items()}


def _clusters(options: Options, outcomes: Mapping[str, StepOutcome]) -> list[dict[str, Any]]:
    """Returns a row per cluster of the file or of the fleet's folder, with the age of its snapshot.

    A cluster is stale if its snapshot is older than `--max-age`, or if it couldn't be read in this run.
    """
    fleet = Path(_fleet(options))
    labels = read_labels(options.clusters) if options.clusters else {}
    named = _named_clusters(options)
    taken_at = {each: last_taken(fleet, *each) for each in named}
    for key in KEYS:
        for path in fleet.glob(f"{key}=*"):
            cluster = unquote(path.name.partition("=")[2])
            taken_at[key, cluster] = last_taken(fleet, key, cluster)
    if own := summarized(fleet):  # a folder of one cluster
        taken_at[KEYS[0], own[0]] = own[1]
    rows = []
    for (key, name), taken in sorted(taken_at.items()):
        age = None if taken is None else (datetime.now(UTC) - taken).total_seconds() / 3600
        is_read, cluster = (key, name) not in named or _was_read(options, outcomes, name, key), shown_name(key, name)
        problems = ["No snapshot."] if taken is None else [] if is_read else ["Not read."]
        if failed(outcomes.get(_step_name(cluster), {"exit_code": 0})):
            problems.append("Its history wasn't read.")
        stale = age is None or not is_read or age * 3_600_000 > options.max_age
        label = labels.get(named.get((key, name), name), "")
        row = {"cluster": cluster, "labels": label, "taken_at": taken, "age_hours": age}
        rows.append(row | {"stale": stale, "problem": " ".join(problems)})
    return rows


def _named_clusters(options: Options) -> dict[tuple[str, str], str]:
    """Returns the name in the file of each Kafka and Connect cluster, by key (`KEYS`) and name."""
    named: dict[tuple[str, str], str] = {}
    if not options.clusters:
        return named
    snapshot = import_module(_module("snapshot"))
    for name, values in snapshot.clusters_of(options.clusters).items():
        urls = values.get("connect_url", ())
        if values.get("bootstrap_server") or not urls:
            named[KEYS[0], name] = name
        named |= {(KEYS[1], target.name): name for target in snapshot.connect.parse_targets(urls)}
    return named


def _write_pages(options: Options, day: Path, rows: DailyRows, details: Mapping[str, Any]) -> None:
    """Writes a page per owner, the page of the fleet, and last the copy that is always the newest."""
    (day / "owners").mkdir(exist_ok=True)
    for team in rows.teams():
        page = report(daily=rows.of_team(team), title=f"{team}, {options.run_id}")
        publish(page.encode(), day / "owners" / f"{one_folder(team, safe=' ')}.html")
    page = report(daily=rows, **details, title=f"Kafka groups, {options.run_id}")
    for file in (day / "index.html", Path(options.output) / "index.html"):
        publish(page.encode(), file)


def _write_metrics(day: Path, rows: DailyRows) -> None:
    """Writes the metrics of the step check and those of the clusters to the file that is always the newest."""
    groups = day / "metrics.prom"
    text = groups.read_bytes().removesuffix(b"# EOF\n") if groups.is_file() else b""
    publish(text + expose(Figures(clusters=rows.clusters)), day.parent / groups.name)


if __name__ == "__main__":
    main()
