"""Builds a DAG from its settings, with the same steps and thresholds on Spark and on Databricks."""

from __future__ import annotations

import glob
from datetime import timedelta
from pkgutil import resolve_name
from typing import Any

from airflow.sdk import DAG, Asset, Param, TaskGroup, chain

from spark_assign_airflow.operators import SparkAssignDatabricksOperator, SparkAssignSubmitOperator
from spark_assign_airflow.run_ids import run_id
from spark_assign_airflow.settings import ALERTS, Settings

RUN_ID = "{{ spark_assign_run_id(dag_run) }}"


def dag(settings: Settings) -> DAG:
    """Returns the DAG: snapshot (if a cluster is specified) → plan → compare → diff → report → check, or `daily`.

    With a file of clusters, the snapshot is a mapped task for each cluster; if one fails, the next step runs anyway.
    Before the report the history of groups, where it has a threshold. On Databricks one task stands for all but the
    snapshot: the bundle's job has the same steps.
    """
    made = DAG(
        settings.dag_id,
        schedule=settings.schedule,
        start_date=settings.start_date,
        catchup=settings.catchup,
        # The drift of a date is taken from the plan of the date before.
        max_active_runs=1,
        default_args=_defaults(settings),
        params=_params(settings),
        user_defined_macros={"spark_assign_run_id": run_id},
        tags=list(settings.tags),
        doc_md=__doc__,
    )
    with made:
        if settings.runs_on == "databricks":
            _on_databricks(settings)
        elif settings.steps == "daily":
            daily(settings)
        else:
            _watch(settings)
    return made


def _defaults(settings: Settings) -> dict[str, Any]:
    defaults: dict[str, Any] = {
        "retries": settings.retries,
        "retry_delay": timedelta(seconds=settings.retry_delay_s),
    }
    if settings.notify:
        # An alert fails its task or skips it; nothing else here is ever skipped by an exception.
        defaults |= {"on_failure_callback": _notifier(settings), "on_skipped_callback": _notifier(settings)}
    return defaults


def _notifier(settings: Settings) -> Any:
    arguments = dict(settings.notify)
    return resolve_name(arguments.pop("class"))(**arguments)


def _params(settings: Settings) -> dict[str, Param]:
    """Returns the params that can be changed when a run is triggered manually."""
    of_assignors = "comma-separated: which assignors to compare"
    params = {
        "assignor": Param(settings.assignor, type="string", description="plans with it; configured: each with its own"),
        "assignors": Param(",".join(settings.assignors), type="string", description=of_assignors),
        "max_growth": Param(settings.max_growth, type="number", minimum=1, description="alert: max/mean has grown so"),
        "max_rejected": Param(settings.max_rejected, type="integer", minimum=0, description="alert: more groups"),
        "alert": Param(settings.alert, type="string", enum=list(ALERTS), description="fail, or warn: skip the task"),
    }
    used = ("max_growth", "alert") if settings.steps == "daily" else params
    return {name: params[name] for name in used}


def daily(settings: Settings) -> TaskGroup:
    """Returns the task group `daily`: a mapped snapshot of each cluster, then the page of the day (docs/daily.md)."""
    with TaskGroup("daily") as group:
        fleet = settings.place("snapshots") if settings.clusters else settings.fleet
        arguments = ["--no-snapshot", "--fleet-dir", fleet]
        if settings.clusters:
            arguments += ["--clusters", settings.clusters]
        if settings.records:
            arguments += ["--records", settings.records]
        if "history_lookback" in settings.model_fields_set:
            arguments += ["--lookback", settings.history_lookback]
        arguments += ["--max-growth", "{{ params.max_growth }}", *as_words(settings.past), "--fail-on", "alerts"]
        arguments += ["--output", settings.output, "--run-id", RUN_ID]
        assets = {"inlets": [asset(fleet)], "outlets": [asset(settings.output)]}
        page = _submit(settings, "daily", arguments, task_id="page", **assets, **_after_snapshots(settings))
        if settings.clusters:
            chain(_snapshots(settings), page)
    return group


def _snapshots(settings: Settings) -> Any:
    """Returns the mapped task: a snapshot of each cluster of the file, into the same folder."""
    to = ["--clusters", settings.clusters, "--fleet-dir", settings.place("snapshots"), *settings.more("snapshot")]
    names = list(settings.cluster_file()["clusters"])
    return SparkAssignSubmitOperator.partial(
        **_operator_arguments(settings, "snapshot"),
        max_active_tis_per_dagrun=settings.parallel,
        map_index_template="{{ task.application_args[1] }}",
        outlets=[asset(settings.place("snapshots"))],
    ).expand(application_args=[["--cluster", as_template(glob.escape(name)), *to] for name in names])


def _after_snapshots(settings: Settings) -> dict[str, Any]:
    """Returns the trigger rule of the first step: clusters that could not be read have their previous snapshots."""
    return {"trigger_rule": "all_done"} if settings.clusters else {}


def _operator_arguments(settings: Settings, job: str) -> dict[str, Any]:
    # A driver on this worker writes its outcome to this worker, unless the settings specify a folder for outcomes.
    outcomes = settings.place("outcomes") if settings.deploy_mode == "cluster" else settings.outcomes
    return {
        "task_id": job,
        "job": job,
        "project": settings.project,
        "environment": settings.environment,
        "conn_id": settings.conn_id or "spark_default",
        "conf": dict(settings.conf),
        "alert": "{{ params.alert }}",
        "deploy_mode": settings.deploy_mode,
        "outcomes": f"{outcomes}/{RUN_ID}" if outcomes else "",
        "partition": RUN_ID if settings.partitioned_assets else "",
    }


def _submit(settings: Settings, job: str, arguments: list[str], **more: Any) -> SparkAssignSubmitOperator:
    words = [*arguments, *settings.more(job)]
    return SparkAssignSubmitOperator(**(_operator_arguments(settings, job) | more), application_args=words)


def _reader(settings: Settings) -> list[str]:
    """Returns the option with which executors read Kafka: on a cluster, they can't read the files of the driver."""
    return [] if settings.environment == "local" else ["--reader", "spark"]


def _watch(settings: Settings) -> None:
    fleet = given = settings.fleet
    if settings.bootstrap_server or settings.clusters:
        given = settings.place("snapshots")
        fleet = given + (f"/{RUN_ID}" if settings.bootstrap_server else "")
    plans, comparisons, drifts = (settings.place(name) for name in ("plans", "comparisons", "drifts"))
    of_run = ["--run-id", RUN_ID]
    steps = {
        "snapshot": ["--bootstrap-server", settings.bootstrap_server, "--fleet-dir", fleet],
        "plan": ["--fleet", fleet, "--assignor", "{{ params.assignor }}", "--output", plans, *of_run],
        "compare": ["--fleet", fleet, "--assignors", "{{ params.assignors }}", "--output", comparisons, *of_run],
        "diff": ["--before", "previous", "--after", f"{plans}@{RUN_ID}", "--output", drifts, *of_run],
        "history": ["--records", settings.records]
        if settings.records
        else ["--bootstrap-server", settings.bootstrap_server, *_reader(settings)],
        "report": [
            *("--plan", f"{plans}@{RUN_ID}", "--comparison", f"{comparisons}@{RUN_ID}"),
            *("--drift", f"{drifts}@{RUN_ID}"),
            *("--output-file", f"{settings.place('reports')}/{RUN_ID}.html"),
        ],
        "check": [
            *("--plan", f"{plans}@{RUN_ID}", "--drift", f"{drifts}@{RUN_ID}", "--fail-on", "alerts"),
            *("--max-growth", "{{ params.max_growth }}", "--max-rejected", "{{ params.max_rejected }}"),
        ],
    }
    if settings.past:
        histories = settings.place("histories")
        history_options = ["--history", f"{histories}@{RUN_ID}"]
        steps["history"] += ["--fleet", fleet, "--output", histories, *of_run]
        steps["report"] += history_options
        steps["check"] += [*history_options, *as_words(settings.past), "--lookback", settings.history_lookback]
    else:
        del steps["history"]
    if not settings.bootstrap_server:
        del steps["snapshot"]
    if settings.clusters and settings.cluster_file().get("owners"):
        for job in ("plan", "report", "check"):
            steps[job] += ["--owners", settings.clusters]
    made = {"snapshot": "snapshots", "plan": "plans"}
    tasks = [
        _submit(
            settings,
            job,
            arguments,
            makes=settings.place("reports") if job == "report" else None,
            inlets=[asset(given)] if job == "plan" else [],
            outlets=[asset(settings.place(made[job]))] if job in made else [],
            **(_after_snapshots(settings) if job == "plan" else {}),
        )
        for job, arguments in steps.items()
    ]
    chain(*([_snapshots(settings)] if settings.clusters else []), *tasks)


def _on_databricks(settings: Settings) -> None:
    """Returns the task. The bundle sets the locations that the settings don't set."""
    if settings.steps == "daily":
        names, thresholds = {"clusters": "clusters", "outcomes": "outcomes"}, {"max_growth": "{{ params.max_growth }}"}
    else:
        names = {"fleet": "fleet", "output": "plans", "comparison": "comparisons", "drift": "drifts"}
        names |= {"reports": "reports", "outcomes": "outcomes"}
        flags = ("assignor", "assignors", "max_growth", "max_rejected")
        thresholds = {name: f"{{{{ params.{name} }}}}" for name in flags}
    places = {name: settings.place(place) for name, place in names.items() if settings.place(place)}
    SparkAssignDatabricksOperator(
        task_id=settings.steps,
        job_name=settings.job_name or f"spark_assign {settings.steps}",
        job_parameters={"run_id": RUN_ID, **places, **thresholds},
        databricks_conn_id=settings.conn_id or "databricks_default",
        alert="{{ params.alert }}",
        **({"deferrable": True} if settings.deferrable else {}),  # else as Airflow is configured
        inlets=[asset(settings.fleet)] if settings.fleet else [],
        outlets=[asset(settings.plans)] if settings.plans else [],
        partition=RUN_ID if settings.partitioned_assets else "",
    )


def as_words(flags: dict[str, str]) -> list[str]:
    """Returns flags and their values as a list of arguments."""
    return [word for pair in flags.items() for word in pair]


def as_template(text: str) -> str:
    """Returns a template of Jinja that renders as the text, which strangers can have written.

    Jinja would interpret braces, replace `\\r`, and remove a line end at the end of the text.
    """
    escaped = text.encode("unicode_escape").decode().replace("'", "\\'")
    return f"{{{{ '{escaped}' }}}}" if {*"{\r\n"} & {*text} else text


def asset(place: str) -> Asset:
    """Returns the asset of a location, for schedules of other DAGs: a URI, or the prefix of a catalog."""
    return Asset(f"file://{place}" if place.startswith("/") else place)
