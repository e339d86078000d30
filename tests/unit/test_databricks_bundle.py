"""databricks.yml: keys that the bundle's schema has, and names that this project has."""

from __future__ import annotations

import importlib
import re
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import click
import pytest

from jobs import _entry
from spark_assign import __version__
from tests.cases import keyed

yaml = pytest.importorskip("yaml")
Job = pytest.importorskip("databricks.bundles.jobs").Job
Permission = pytest.importorskip("databricks.bundles.jobs").JobPermission
RESOURCES = {
    "jobs": Job,
    "schemas": pytest.importorskip("databricks.bundles.schemas").Schema,
    "volumes": pytest.importorskip("databricks.bundles.volumes").Volume,
}

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BUNDLE: dict[str, Any] = yaml.safe_load((ROOT / "databricks.yml").read_text())
KEYS = {
    "": {"artifacts", "bundle", "permissions", "resources", "sync", "targets", "variables"},
    "bundle": {"name"},
    "artifacts": {"type", "path", "build", "dynamic_version"},
    "sync": {"paths", "include", "exclude"},
    "variables": {"description", "default"},
    "targets": {"default", "mode", "resources", "workspace"},
}
"""Of the keys that the bundle's reference has, those that this one uses."""


def merged(base: Any, over: Any) -> Any:
    """As a target is laid over the bundle: mappings by key, tasks, clusters and environments by theirs."""
    if isinstance(base, dict) and isinstance(over, dict):
        return {key: merged(base.get(key), over.get(key)) for key in [*base, *(key for key in over if key not in base)]}
    if isinstance(base, list) and isinstance(over, list) and base and "task_key" in base[0]:
        others = {each["task_key"]: each for each in over}
        assert set(others) <= {each["task_key"] for each in base}
        return [merged(each, others.get(each["task_key"])) for each in base]
    return base if over is None else over


def job(target: str, name: str = "plan") -> dict[str, Any]:
    """A job of a target."""
    found: dict[str, Any] = merged(BUNDLE["resources"], BUNDLE["targets"][target]["resources"])["jobs"][name]
    return found


each_target = pytest.mark.parametrize("target", BUNDLE["targets"])
each_job = pytest.mark.parametrize("name", BUNDLE["resources"]["jobs"])


def strings(tree: Any) -> Iterator[str]:
    """Every string in it."""
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, dict | list):
        for each in tree.values() if isinstance(tree, dict) else tree:
            yield from strings(each)


def test_keys_are_those_of_the_reference() -> None:
    """One target is the default; every variable that is used is declared."""
    assert set(BUNDLE) <= KEYS[""]
    assert set(BUNDLE["bundle"]) <= KEYS["bundle"]
    assert set(BUNDLE["sync"]) <= KEYS["sync"]
    for table in ("artifacts", "variables", "targets"):
        assert all(set(each) <= KEYS[table] for each in BUNDLE[table].values()), table
    assert [name for name, target in BUNDLE["targets"].items() if target.get("default")] == ["dev"]
    found = {name: target["mode"] for name, target in BUNDLE["targets"].items()}
    assert found == keyed("dev=development serverless=production classic=production")
    # What the CLI wants of a production target: one copy, whoever deploys it says where.
    assert all(t["workspace"]["root_path"] for t in BUNDLE["targets"].values() if t["mode"] == "production")
    assert BUNDLE["targets"]["dev"]["resources"] == BUNDLE["targets"]["serverless"]["resources"]
    used = {name for text in strings(BUNDLE) for name in re.findall(r"\$\{var\.(\w+)\}", text)}
    assert used == set(BUNDLE["variables"])
    assert all((ROOT / path).is_dir() for path in BUNDLE["sync"]["paths"])


@each_job
@each_target
def test_jobs_are_as_the_api_has_them(target: str, name: str) -> None:
    """Read by Databricks' own classes, which know no other keys; every task has what it runs on."""
    plain = job(target, name)
    read = Job.from_dict(plain)
    assert Job.from_dict(read.as_dict()) == read
    for task in plain["tasks"]:
        keys = {"environments": "environment_key", "job_clusters": "job_cluster_key"}
        (kind,) = [kind for kind, key in keys.items() if key in task]
        assert task[keys[kind]] in {each[keys[kind]] for each in plain[kind]}
        assert "spark_submit_task" not in task


@each_job
@each_target
def test_the_wheel_and_its_entries_are_this_projects(target: str, name: str) -> None:
    """The name, the script, the file, and arguments that each task's job takes; every parameter is used."""
    plain = job(target, name)
    wheel = f"./dist/{PROJECT['name']}-{__version__}-py3-none-any.whl"
    assert any(fnmatch(wheel, text) for text in strings(plain) if text.endswith(".whl"))
    used = set()
    for task in plain["tasks"]:
        runs = task["python_wheel_task"]
        assert runs["package_name"] == PROJECT["name"]
        assert runs["entry_point"] in PROJECT["scripts"]
        name, *words = runs["parameters"]
        assert name == task["task_key"]
        used |= {name for text in words for name in re.findall(r"job\.parameters\.(\w+)", text)}
        parse = importlib.import_module(f"jobs.{name}").main.parse
        given = [re.sub(r"\{\{job\.parameters\.max_\w+\}\}", "2", text) for text in words]
        assert f"--outcome={{{{job.parameters.outcomes}}}}/{{{{job.run_id}}}}/{name}.json" in words, (
            "as Airflow reads it"
        )
        options = vars(parse([re.sub(r"\{\{.*?\}\}", "main.kafka", text) for text in given]))
        assert any("main.kafka" in str(value) for value in options.values())
    assert used == {each["name"] for each in plain["parameters"]}


def test_every_resource_is_as_the_api_has_it() -> None:
    """Read by Databricks' own classes; a reference is one to a resource of this bundle, and to a key that it has."""
    for kind, each in BUNDLE["resources"].items():
        for plain in each.values():
            read = RESOURCES[kind].from_dict(plain)
            assert RESOURCES[kind].from_dict(read.as_dict()) == read
    for text in strings(BUNDLE):
        for kind, name, key in re.findall(r"\$\{resources\.(\w+)\.(\w+)\.(\w+)\}", text):
            assert key in BUNDLE["resources"][kind][name], text
    assert [Permission.from_dict(each).level.value for each in BUNDLE["permissions"]] == ["CAN_VIEW"]


def test_the_schedule_is_off_until_somebody_wants_it() -> None:
    """Airflow has one of its own; the plan comes after the snapshot."""
    scheduled = {name: each["schedule"] for name, each in BUNDLE["resources"]["jobs"].items() if "schedule" in each}
    assert {each["pause_status"] for each in scheduled.values()} == {"${var.schedule}"}
    assert BUNDLE["variables"]["schedule"]["default"] == "PAUSED"
    at = {name: each["quartz_cron_expression"].split()[1:3] for name, each in scheduled.items()}
    assert at == {"snapshot": ["0", "5"], "watch": ["30", "5"]}


def test_runtimes_and_what_is_installed_there() -> None:
    """Serverless by its environment, a long-term runtime by a variable; the extras as pyproject.toml has them."""
    extras = PROJECT["optional-dependencies"]
    for target in BUNDLE["targets"]:
        needed = {"snapshot": ["kafka"], "plan": ["report"], "watch": ["report"], "daily": ["kafka", "report"]}
        for name, kinds in needed.items():
            plain, wanted = job(target, name), {text for kind in kinds for text in extras[kind]}
            found = {text for text in strings(plain) if text in {*extras["kafka"], *extras["report"]}}
            assert found == wanted, (target, name)
            for each in plain.get("environments", ()):
                assert each["spec"]["environment_version"] == "5"
            for each in plain.get("job_clusters", ()):
                assert each["new_cluster"]["spark_version"] == "${var.spark_version}"
    about = BUNDLE["variables"]["spark_version"]
    assert about["default"] == "17.3.x-scala2.13"
    assert "18.x-scala2.13" in about["description"]


def test_no_secret_stands_in_the_bundle() -> None:
    """Only where it is kept."""
    assert BUNDLE["variables"]["command_config"]["default"].startswith("secret://")
    assert not [text for text in strings(BUNDLE) if "password" in text.lower()]


def test_every_job_is_a_subcommand() -> None:
    """Named as its file."""
    jobs = {file.stem for file in (ROOT / "jobs").glob("*.py") if not file.stem.startswith("_")}
    assert PROJECT["scripts"] == {"spark-assign": "spark_assign_jobs._entry:main"}
    context = click.Context(_entry.command)
    assert set(_entry.command.list_commands(context)) == jobs
    assert {n: getattr(_entry.command.get_command(context, n), "name", None) for n in jobs} == {a: a for a in jobs}


@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_an_exit_code_becomes_an_exception(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a scheduler that calls the function would take every end for a success."""
    monkeypatch.setattr("jobs.plan.main", click.Command("plan", callback=lambda: code))
    monkeypatch.setattr("sys.argv", ["spark-assign", "plan"])
    monkeypatch.setenv("PYSPARK_PYTHON", "as it was")
    monkeypatch.setenv(_entry.ENGINE, "spark")
    monkeypatch.setattr("spark_assign.cli.job.leave", lambda code: None)  # it would end the tests
    if code == 0:
        assert _entry.main() is None
    else:
        with pytest.raises(SystemExit) as ended:
            _entry.main()
        assert ended.value.code == code
