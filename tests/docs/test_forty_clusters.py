"""docs/forty-clusters.md: its job is one that Databricks knows."""

from __future__ import annotations

import json
import tomllib

import pytest

from spark_assign.cli.owners import Owner, entries
from tests.docs.pages import ROOT, block
from tests.kafka import maven

PAGE = "docs/forty-clusters.md"


def test_the_job_of_databricks() -> None:
    """Read by Databricks' own classes; its input is JSON, its wheel's entry points are ours."""
    yaml = pytest.importorskip("yaml")
    tasks = pytest.importorskip("databricks.bundles.jobs").Task
    given = yaml.safe_load("\n".join(block(PAGE, "tasks:")))["tasks"]
    each, plan = [tasks.from_dict(task) for task in given]
    assert each.for_each_task.concurrency == 8
    rows = json.loads(each.for_each_task.inputs)
    parameters = each.for_each_task.task.python_wheel_task.parameters
    used = {word.split("}}")[0] for text in parameters for word in text.split("{{input.")[1:]}
    assert [set(row) for row in rows] == [used, used]
    scripts = (ROOT / "pyproject.toml").read_text()
    for task in (each.for_each_task.task, plan):
        assert f"\n{task.python_wheel_task.entry_point} = " in scripts


def test_the_owners() -> None:
    """Two entries, the second for everything else."""
    pricing, platform = entries(PAGE, tomllib.loads("\n".join(block(PAGE, "[clusters.shop-prod.labels]")))["owners"])
    assert (pricing.group, pricing.contact) == ("pric*", "#pricing-oncall")
    assert platform == Owner("platform")


def test_the_settings_of_table_formats() -> None:
    """The releases and the settings that the tests have."""
    from tests.spark.table_formats import DELTA, ICEBERG

    def settings(begins: str) -> dict[str, str]:
        return dict(line.split() for line in block(PAGE, begins))

    spark = f"{maven.FORMATS_FOR_SPARK}_2.13"
    delta = settings("spark.jars.packages")
    assert delta.pop("spark.jars.packages") == f"io.delta:delta-spark_{spark}:{maven.DELTA_VERSION}"
    assert delta == {name: DELTA[name] for name in delta}
    iceberg = settings("spark.sql.catalog.lake")
    runtime = f"org.apache.iceberg:iceberg-spark-runtime-{spark}:{maven.ICEBERG_VERSION}"
    assert iceberg.pop("spark.jars.packages") == runtime
    assert iceberg.pop("spark.sql.catalog.lake.warehouse")
    assert iceberg == ICEBERG
