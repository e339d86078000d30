"""The notebook for Databricks, cell by cell: only `dbutils` and `displayHTML` are stubs, and `%pip` is read as text."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_assign import __version__
from spark_assign.stores.run_store import StoredRun, read_run
from tests.spark.fleets import fleet, tuples

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "jobs" / "databricks" / "plan.py"
HEADER = "# Databricks notebook source\n"
CATALOG, SCHEMA, OUTPUT = "spark_catalog", "kafka_of_notebook", "plans_of_notebook"


def cells() -> list[str]:
    """The notebook's cells, as Databricks takes a source file apart."""
    text = NOTEBOOK.read_text()
    assert text.startswith(HEADER)
    return [cell.strip("\n") for cell in text.removeprefix(HEADER).split("# COMMAND ----------\n")]


def is_magic(cell: str) -> bool:
    """Whether no line of a cell is Python's."""
    lines = [line for line in cell.splitlines() if line]
    magic = [line.startswith("# MAGIC") for line in lines]
    assert all(magic) or not any(magic), f"a cell mixes magic and Python:\n{cell}"
    return all(magic)


@dataclass
class Widgets:
    """What `dbutils.widgets` has of a user; the rest stays as the notebook sets it."""

    given: dict[str, str]
    values: dict[str, str] = field(default_factory=dict)

    def text(self, name: str, default: str, label: str = "") -> None:
        self.values[name] = self.given.get(name, default)

    def dropdown(self, name: str, default: str, choices: list[str], label: str = "") -> None:
        self.text(name, default)
        assert self.values[name] in choices

    def get(self, name: str) -> str:
        return self.values[name]


def run(spark: SparkSession, **given: str) -> tuple[dict[str, Any], list[str]]:
    """Run the notebook with these widgets: the names that it leaves, and what it shows."""
    shown: list[str] = []
    widgets = Widgets(given)
    library = SimpleNamespace(restartPython=lambda: None)
    names: dict[str, Any] = {
        "spark": spark,
        "dbutils": SimpleNamespace(widgets=widgets, library=library),
        "displayHTML": shown.append,
    }
    for number, cell in enumerate(cells()):
        if not is_magic(cell):
            exec(compile(cell, f"{NOTEBOOK.name}, cell {number}", "exec"), names)
    assert set(given) <= set(widgets.values), "a widget that the notebook does not have"
    return names, shown


@dataclass(frozen=True)
class Ran:
    """A run of the notebook, and its plan as read back."""

    shown: list[str]
    stored: StoredRun


@pytest.fixture(scope="module")
def ran(spark: SparkSession) -> Ran:
    """Run on tables of a catalog: two consumer groups, a share group, and a group that lists a member twice.

    On Connect as on Databricks serverless, where a session may not cache.
    """
    tables = fleet(
        spark,
        {
            "payments": dict.fromkeys(("p1", "p2"), ("orders",)),
            "web": dict.fromkeys(("w1", "w2"), ("clicks",)),
            "queue": dict.fromkeys(("q1", "q2"), ("clicks",)),
        },
        topics={"orders": 6, "clicks": 3},
        members=[("c", "twice", "m")] * 2,
        owned={("payments", "p1", "orders"): range(6)},
        groups=[
            *(("c", group, "cooperative-sticky") for group in ("payments", "web", "twice")),
            ("c", "queue", None, "share"),
        ],
    )
    for schema in (SCHEMA, OUTPUT):
        spark.sql(f"create database if not exists {CATALOG}.{schema}")
    for name in ("topics", "members", "subscriptions", "owned", "groups"):
        getattr(tables, name).write.mode("overwrite").saveAsTable(f"{CATALOG}.{SCHEMA}.{name}")
    with pytest.MonkeyPatch.context() as patch:
        frame = type(spark.range(1))
        if "connect" in frame.__module__:
            for name in ("persist", "unpersist"):
                patch.setattr(frame, name, refuse(name))
        _, shown = run(spark, catalog=CATALOG, schema=SCHEMA, output_schema=OUTPUT, run_id="r")
    return Ran(shown, read_run(spark, f"{CATALOG}.{OUTPUT}", "r"))


def refuse(name: str) -> Callable[..., NoReturn]:
    """A method that serverless does not have."""

    def refused(*_: object, **__: object) -> NoReturn:
        raise PySparkException(f"[NOT_SUPPORTED_WITH_SERVERLESS] {name} is not supported on serverless compute.")

    return refused


@pytest.mark.keeps_cached
def test_the_plan_is_in_the_catalog(ran: Ran) -> None:
    """By the assignors that the groups run with; revocations, and the group that could not be planned."""
    tables = ran.stored.tables
    assert ran.stored.manifest.run_id == "r"
    assert tuples(tables["metrics"], "group_id", "assignor", "partitions", "moved") == [
        ("payments", "cooperative-sticky", 3, 3),
        ("web", "cooperative-sticky", 3, 0),
    ]
    assert [row[2] for row in tuples(tables["revocations"])] == ["p1"] * 3
    assert tuples(tables["rejected"], "group_id", "code") == [("twice", "duplicate-member")]
    unknown = ran.stored.manifest.unknown
    inputs = {"fleet": f"{CATALOG}.{SCHEMA}", "assignor": "configured", "unknown": unknown}
    assert ran.stored.manifest.content["inputs"] == inputs
    assert any("Loads aren't known (loads)" in each for each in unknown)


@pytest.mark.keeps_cached
def test_every_kind_of_group_is_planned(spark: SparkSession, ran: Ran) -> None:
    """The share group has its own tables, in the same run."""
    assert ran.stored.manifest.rows["share_metrics"] == 1
    assigned = spark.table(f"{CATALOG}.{OUTPUT}.share_assignments").where("run_id = 'r'")
    assert tuples(assigned, "group_id", "partition")[0][0] == "queue"


@pytest.mark.keeps_cached
def test_the_result_is_shown(ran: Ran) -> None:
    """One view, with the groups in it."""
    text, view = ran.shown
    assert "1 share group" in text
    assert view.lstrip().startswith("<")
    assert "payments" in view
    assert "<script src" not in view


def test_what_is_installed_is_the_wheel_of_this_project() -> None:
    """The file that the build makes, at the place where the bundle puts it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (pip,) = [cell for cell in cells() if "%pip" in cell]
    found = re.fullmatch(r"# MAGIC %pip install (\S+)", pip)
    assert found is not None
    assert found[1] == f"../../dist/{project['name']}-{__version__}-py3-none-any.whl"
    after = cells()[cells().index(pip) + 1]
    assert after == "dbutils.library.restartPython()"
