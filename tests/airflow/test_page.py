"""docs/airflow.md: its settings are DAGs, its picture has their tasks in their order."""

from __future__ import annotations

import re
import tomllib
from itertools import pairwise
from pathlib import Path

import yaml
from spark_assign_airflow.settings import load

from tests.airflow.conftest import ROOT, imported
from tests.airflow.test_dags import in_order
from tests.cases import cases, tuples
from tests.docs import pages

PAGE = "docs/airflow.md"


def test_settings(tmp_path: Path) -> None:
    """Each of the page's tables is a DAG as it stands."""
    dags = []
    for each in pages.others(ROOT / PAGE):
        if each.mark == "toml":
            (tmp_path / "airflow.toml").write_text("\n".join(each.lines))
            dags += load(tmp_path / "airflow.toml")
    found = [(dag.dag_id, dag.runs_on) for dag in dags]
    assert found == tuples("spark_assign_prod spark; spark_assign_databricks databricks")


def test_the_picture_of_the_tasks(tmp_path: Path) -> None:
    """On Spark a chain; on Databricks what the bundle's job has."""
    lines = pages.block(PAGE, "snapshot ──▶ plan")
    file = tmp_path / "airflow.toml"
    file.write_text('[[dag]]\ndag_id = "x"\nbootstrap_server = "broker-1:9092"\noutput = "./out"\n')
    assert re.findall(r"[a-z]+", lines[0].partition("   ")[0]) == in_order(imported(file)["x"])
    tasks = yaml.safe_load((ROOT / "databricks.yml").read_text())["resources"]["jobs"]["watch"]["tasks"]
    after = {task["task_key"]: {each["task_key"] for each in task.get("depends_on", ())} for task in tasks}
    (one,) = [line.partition("   ")[0] for line in lines if line.startswith("watch = ")]
    (other,) = [line for line in lines if line.strip().startswith("└▶ diff")]
    first, upper, *rest = re.findall(r"[a-z]+", one.removeprefix("watch = "))
    assert other.index("└") == one.index("┬")
    assert other.rindex("┘") == one.rindex("┬")
    lower = re.findall(r"[a-z]+", other)
    expected = {first: set(), upper: {first}, **{name: {first} for name in lower}}
    expected[rest[0]] = {upper, *lower}
    expected |= {name: {before} for before, name in pairwise(rest)}
    assert expected == after


@cases(
    "page tasks",
    ("docs/forty-clusters.md", ["snapshot", "plan", "compare", "diff", "report", "check"]),
    ("docs/daily.md", ["daily.snapshot", "daily.page"]),
)
def test_a_task_for_each_cluster(tmp_path: Path, page: str, tasks: list[str]) -> None:
    """The settings on the page are a DAG, with the file of clusters on docs/forty-clusters.md."""
    clusters = pages.block("docs/forty-clusters.md", "[clusters.shop-prod]")
    (tmp_path / "clusters.toml").write_text("\n".join(clusters))
    (tmp_path / "airflow.toml").write_text("\n".join(pages.block(page, "[[dag]]")))
    ((_, dag),) = imported(tmp_path / "airflow.toml").items()
    assert in_order(dag) == tasks
    mapped = dag.get_task(tasks[0]).expand_input.value["application_args"]
    assert [words[1] for words in mapped] == list(tomllib.loads("\n".join(clusters))["clusters"])
