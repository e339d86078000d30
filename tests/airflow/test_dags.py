"""The DAGs as Airflow imports them: no errors, the order of the tasks, what is submitted; the Databricks payload."""

from __future__ import annotations

import glob
import importlib
import json
import re
import tomllib
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from airflow.sdk import DAG
from jinja2.sandbox import SandboxedEnvironment
from spark_assign_airflow.factory import as_template, asset

from tests.airflow.conftest import NOTIFIER, ROOT, imported
from tests.cases import keyed

SETTINGS = f"""
[[dag]]
dag_id = "of_fleet"
fleet = "main.kafka"
output = "/data/out"
schedule = "0 5 * * *"
retries = 4
arguments = {{ plan = ["--group-assignor", "payments-*=roundrobin"] }}
notify = {{ class = "{NOTIFIER}.Line", to = "/dev/null" }}

[[dag]]
dag_id = "of_cluster"
bootstrap_server = "broker-1:9092"
output = "./out"
conn_id = "spark_of_ours"

[[dag]]
dag_id = "on_databricks"
runs_on = "databricks"
fleet = "main.other"
max_growth = 1.5

[[dag]]
dag_id = "of_clusters"
clusters = "./clusters.toml"
output = "/data/out"
arguments = {{ snapshot = ["--group", "pay*"] }}
parallel = 3

[[dag]]
dag_id = "each_morning"
clusters = "./clusters.toml"
steps = "daily"
output = "/data/out"
records = "/data/records"
history_lookback = "12h"
max_pause = "10m"

[[dag]]
dag_id = "each_morning_on_databricks"
runs_on = "databricks"
steps = "daily"
clusters = "/Volumes/main/kafka/clusters.toml"
"""
JOBS = ["plan", "compare", "diff", "report", "check"]


@pytest.fixture(scope="module")
def dags(tmp_path_factory: pytest.TempPathFactory) -> dict[str, DAG]:
    """The folder, imported as the DAG processor does it."""
    file = tmp_path_factory.mktemp("settings") / "airflow.toml"
    file.write_text(SETTINGS)
    (file.parent / "clusters.toml").write_text("[clusters.a]\nbootstrap_server = 'a:9092'\n[clusters.b]\n")
    return imported(file)


def in_order(dag: DAG) -> list[str]:
    """The tasks of a chain."""
    (task,) = dag.roots
    names = [task.task_id]
    while task.downstream_list:
        (task,) = task.downstream_list
        names.append(task.task_id)
    return names


def rendered(task: Any, **params: Any) -> Any:
    """A copy of the task with its templates filled in, for a date."""
    task = task.prepare_for_execution()
    dag_run = SimpleNamespace(logical_date=datetime(2026, 11, 21, 5, tzinfo=UTC), run_id="scheduled__x")
    task.render_template_fields(
        {"params": {**dict(task.dag.params), **params}, "dag_run": dag_run, **task.dag.user_defined_macros}
    )
    return task


def test_every_table_is_a_dag(dags: dict[str, DAG]) -> None:
    """With its steps in order; a snapshot where there is a cluster; one task on Databricks, whose job has them."""
    assert {name: in_order(dag) for name, dag in dags.items()} == {
        "of_fleet": JOBS,
        "of_cluster": ["snapshot", *JOBS],
        "on_databricks": ["watch"],
        "of_clusters": ["snapshot", *JOBS],
        "each_morning": ["daily.snapshot", "daily.page"],
        "each_morning_on_databricks": ["daily"],
    }
    for dag in dags.values():
        assert (dag.max_active_runs, dag.catchup) == (1, False)
    assert {task.retries for task in dags["of_fleet"].tasks} == {4}
    assert all(task.on_failure_callback and task.on_skipped_callback for task in dags["of_fleet"].tasks)
    assert not dags["of_cluster"].get_task("plan").on_failure_callback


def test_every_job_gets_arguments_that_it_takes(dags: dict[str, DAG], tmp_path: Path) -> None:
    """By its own parser; every table under the id of the logical date."""
    run = "20261121T050000Z"
    options = {}
    for name in JOBS:
        task = rendered(dags["of_fleet"].get_task(name))
        options[name] = importlib.import_module(f"jobs.{name}").main.parse(task.application_args)
    expected = ("main.kafka", "/data/out/plans", run)
    assert (options["plan"].fleet, options["plan"].output, options["plan"].run_id) == expected
    assert options["plan"].group_assignor == {"payments-*": "roundrobin"}
    assert (options["compare"].output, options["compare"].run_id) == ("/data/out/comparisons", run)
    assert (options["diff"].before, options["diff"].after, options["diff"].run_id) == (
        "previous",
        f"/data/out/plans@{run}",
        run,
    )
    assert options["report"].plan == f"/data/out/plans@{run}"
    assert options["report"].drift == f"/data/out/drifts@{run}"
    assert options["report"].output_file == Path(f"/data/out/reports/{run}.html")
    assert (options["check"].plan, options["check"].drift) == (f"/data/out/plans@{run}", f"/data/out/drifts@{run}")
    assert (options["check"].max_growth, options["check"].max_rejected, options["check"].fail_on) == (1.25, 0, "alerts")


def test_a_snapshot_is_of_the_date_and_is_what_is_planned(dags: dict[str, DAG]) -> None:
    """A folder per logical date."""
    snapshot = importlib.import_module("jobs.snapshot")
    options = snapshot.main.parse(rendered(dags["of_cluster"].get_task("snapshot")).application_args)
    assert options.bootstrap_server == "broker-1:9092"
    assert options.fleet_dir.endswith("/out/snapshots/20261121T050000Z")
    for name in ("plan", "compare"):
        arguments = rendered(dags["of_cluster"].get_task(name)).application_args
        assert importlib.import_module(f"jobs.{name}").main.parse(arguments).fleet == options.fleet_dir


def test_a_snapshot_of_each_cluster(dags: dict[str, DAG]) -> None:
    """Mapped over the file, with a limit of tasks at a time. The plan reads the folder of all clusters."""
    snapshot = importlib.import_module("jobs.snapshot")
    for name, task_id in (("of_clusters", "snapshot"), ("each_morning", "daily.snapshot")):
        task = dags[name].get_task(task_id)
        assert (task.is_mapped, task.max_active_tis_per_dagrun) == (True, 3 if name == "of_clusters" else 8)
        parsed = [snapshot.main.parse(words) for words in task.expand_input.value["application_args"]]
        assert [options.cluster for options in parsed] == ["a", "b"]
        assert {str(options.fleet_dir) for options in parsed} == {"/data/out/snapshots"}
        assert {options.group for options in parsed} == {("pay*",) if name == "of_clusters" else ()}
        (after,) = task.downstream_list
        assert after.trigger_rule == "all_done"
    arguments = rendered(dags["of_clusters"].get_task("plan")).application_args
    assert importlib.import_module("jobs.plan").main.parse(arguments).fleet == "/data/out/snapshots"


def test_the_name_of_a_cluster_is_no_template_and_no_pattern() -> None:
    """Who edits the file of clusters could read connections of Airflow, or have another cluster read twice."""
    names = ["a", "*", "[x]", "{{ conn.get('x').password }}", "{% raw %}'\\\n\"é\U0001f600{# #}"]
    names += ["a\n", "b\r\nc", "d\re\\n'", "f\\n'"]
    words = [SandboxedEnvironment().from_string(as_template(glob.escape(name))).render() for name in names]
    assert [[each for each in names if fnmatchcase(each, word)] for word in words] == [[name] for name in names]


def test_the_page_of_the_day(dags: dict[str, DAG], monkeypatch: pytest.MonkeyPatch) -> None:
    """By the job's own parser; on Databricks, the bundle's job with parameters that it has."""
    page = rendered(dags["each_morning"].get_task("daily.page"), max_growth=2)
    options = importlib.import_module("jobs.daily").main.parse(page.application_args)
    assert (options.no_snapshot, options.fleet_dir) == (True, "/data/out/snapshots")
    assert options.records == ("/data/records",)
    assert (options.max_growth, options.max_pause, options.lookback) == (2, 600_000, 43_200_000)
    assert (options.output, options.run_id, options.fail_on) == ("/data/out", "20261121T050000Z", "alerts")
    assert set(dags["each_morning"].params) == {"max_growth", "alert"}
    task = rendered(dags["each_morning_on_databricks"].get_task("daily"))
    names = []
    monkeypatch.setattr(type(task._hook), "find_job_id_by_name", lambda _, name: names.append(name) or 42)
    parameters = task._build_run_now_payload({})["job_parameters"]
    job = yaml.safe_load((ROOT / "databricks.yml").read_text())["resources"]["jobs"]["daily"]
    assert names == [job["name"]]
    assert parameters == keyed("run_id=20261121T050000Z clusters=/Volumes/main/kafka/clusters.toml max_growth='1.25'")
    assert set(parameters) <= {each["name"] for each in job["parameters"]}


def test_assets_are_updated(dags: dict[str, DAG]) -> None:
    """Assets: places as URIs, catalogs by their prefix."""
    outlets = {name: {e.task_id: [asset.uri for asset in e.outlets] for e in dag.tasks} for name, dag in dags.items()}
    assert outlets["of_fleet"] == {name: ["file:///data/out/plans"] if name == "plan" else [] for name in JOBS}
    (snapshot,), (plan,) = outlets["of_cluster"]["snapshot"], outlets["of_cluster"]["plan"]
    assert snapshot.startswith("file:///")
    assert (snapshot.endswith("/out/snapshots"), plan.endswith("/out/plans")) == (True, True)
    assert outlets["on_databricks"] == {"watch": []}, "the bundle says where"
    assert outlets["each_morning"]["daily.page"] == ["file:///data/out"]
    inlets = {name: {task.task_id: task.inlets for task in dag.tasks if task.inlets} for name, dag in dags.items()}
    assert inlets["of_fleet"] == {"plan": [asset("main.kafka")]}
    assert inlets["of_cluster"] == {"plan": dags["of_cluster"].get_task("snapshot").outlets}
    assert inlets["each_morning"] == {"daily.page": [asset("/data/out/snapshots")]}
    assert inlets["on_databricks"] == {"watch": [asset("main.other")]}
    assert asset("main.kafka_plans").uri == "main.kafka_plans"
    assert asset("s3a://box/plans").uri == "s3a://box/plans"


def test_what_airflow_says_of_the_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """In Airflow's own form; by the entry point that pyproject.toml names; every module is there."""
    import airflow
    import jsonschema

    project = tomllib.loads((ROOT / "jobs" / "airflow" / "pyproject.toml").read_text())["project"]
    module, _, name = project["entry-points"]["apache_airflow_provider"]["provider_info"].partition(":")
    monkeypatch.setattr("importlib.metadata.version", lambda package: {project["name"]: project["version"]}[package])
    info = getattr(importlib.import_module(module), name)()
    jsonschema.validate(info, json.loads((Path(airflow.__file__).parent / "provider_info.schema.json").read_text()))
    assert (info["package-name"], info["versions"]) == (project["name"], [project["version"]])
    for each in info["operators"]:
        for module in each["python-modules"]:
            assert importlib.import_module(module)
    root = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(root["optional-dependencies"]["airflow"]) < set(project["dependencies"])
    assert {each for each in root["dependencies"] if each.startswith("pydantic")} < set(project["dependencies"])


def test_params_of_a_run_by_hand(dags: dict[str, DAG]) -> None:
    """Assignors, thresholds and the kind of alert can be changed for one run."""
    task = rendered(dags["of_fleet"].get_task("check"), max_growth=2, alert="warn")
    assert task.application_args[-4:] == ["--max-growth", "2", "--max-rejected", "0"]
    assert task.alert == "warn"
    assert "sticky" in rendered(dags["of_fleet"].get_task("plan"), assignor="sticky").application_args


def test_databricks_payload_is_what_the_bundles_job_takes(
    dags: dict[str, DAG], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What would be sent: the job by its name, parameters that it has, the same thresholds."""
    task = rendered(dags["on_databricks"].get_task("watch"))
    names = []
    monkeypatch.setattr(type(task._hook), "find_job_id_by_name", lambda _, name: names.append(name) or 42)
    payload = task._build_run_now_payload({})
    job = yaml.safe_load((ROOT / "databricks.yml").read_text())["resources"]["jobs"]["watch"]
    assert names == [job["name"]]
    assert payload["job_id"] == 42
    assert payload["job_parameters"] == keyed(
        "run_id=20261121T050000Z fleet=main.other assignor=configured "
        "assignors='range,roundrobin,sticky,cooperative-sticky' "
        "max_growth='1.5' max_rejected='0'"
    )
    defaults = {each["name"]: each["default"] for each in job["parameters"]}
    assert set(payload["job_parameters"]) <= set(defaults)
    # What is not sent stays as it was deployed; what both have as a default is the same.
    found = {name: defaults[name] for name in ("assignors", "max_rejected")}
    assert found == {name: payload["job_parameters"][name] for name in ("assignors", "max_rejected")}
    assert [task["task_key"] for task in job["tasks"]] == JOBS


def test_databricks_and_spark_give_the_same_arguments(dags: dict[str, DAG]) -> None:
    """Every flag that a job gets from the one, it gets from the other."""
    for step in yaml.safe_load((ROOT / "databricks.yml").read_text())["resources"]["jobs"]["watch"]["tasks"]:
        name, *words = step["python_wheel_task"]["parameters"]
        assert name == step["task_key"]
        there = {re.sub("=.*", "", text) for text in words} - {"--outcome"}  # the operator adds its own
        here = {text for text in dags["of_cluster"].get_task(step["task_key"]).application_args if text[:2] == "--"}
        assert there == here, step["task_key"]
