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
    content = tomllib.loads("\n".join(block(PAGE, "[clusters.shop-prod.labels]")))
    pricing, platform = entries(PAGE, content["owners"])
    assert (pricing.group, pricing.contact) == ("pric*", "#pricing-oncall")
    assert platform == Owner("platform")


def test_the_settings_of_delta() -> None:
    """The release that the tests have."""
    settings = dict(line.split() for line in block(PAGE, "spark.jars.packages"))
    release = f"{maven.DELTA_FOR_SPARK}_2.13:{maven.DELTA_VERSION}"
    assert settings.pop("spark.jars.packages") == f"io.delta:delta-spark_{release}"
    from tests.spark.delta import SETTINGS

    assert settings == {name: SETTINGS[name] for name in settings}
