"""Owners of groups: the first matching entry, from a file or a table, in rows and in texts."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

from jobs import check, compare, history, plan, simulate
from spark_assign.cli.owners import Owner, entries, read_owners, select_tables, with_owners
from spark_assign.report.formatting import with_own_names
from spark_assign.tables import connect
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.groups import REJECTED
from tests.frames import dataframe

pytestmark = [pytest.mark.spark, pytest.mark.once]

FILE = """
[[owners]]
cluster = "shop-*"
group = "pric*"
team = "pricing"
contact = "#pricing"
[[owners]]
cluster = "shop-*"
team = "platform"
"""
TABLE = "position,cluster,group,team,contact\n2,shop-*,,platform,\n1,shop-*,pric*,pricing,#pricing\n"


@pytest.mark.parametrize(("name", "content"), [("owners.toml", FILE), ("owners.csv", TABLE)])
def test_the_first_matching_entry_wins(spark: SparkSession, tmp_path: Path, name: str, content: str) -> None:
    """A pattern that is left out matches everything; no entry: no team. `--owner` keeps the rows of teams."""
    file = tmp_path / name
    file.write_text(content)
    owners = read_owners(spark, str(file))
    groups = [("shop-eu", "pricing"), ("shop-eu", "audit"), ("other", "pricing")]
    rejected = dataframe(spark, REJECTED, [(*group, "code", "") for group in groups])
    found = {(row.cluster, row.group_id): (row.team, row.contact) for row in with_owners(rejected, owners).collect()}
    teams = (("pricing", "#pricing"), ("platform", None), (None, None))
    assert found == dict(zip(groups, teams, strict=True))
    assert [row.group_id for row in with_owners(rejected, owners, ["pric*"]).collect()] == ["pricing"]
    topics = rejected.drop("group_id")
    assert with_owners(topics, owners) is topics
    assert with_owners(rejected, None) is rejected


def test_filters(spark: SparkSession, tmp_path: Path) -> None:
    """By group, by team, and by both; a Connect cluster by its name. Other tables and `loads` remain as they are."""
    file = tmp_path / "owners.toml"
    file.write_text(FILE)
    rejected = dataframe(spark, REJECTED, [("shop-eu", group, "code", "") for group in ("pricing", "audit", "prices")])
    workers = dataframe(spark, connect.WORKERS, [(name, "w", None) for name in ("shop-files", "other")])
    topics = rejected.select("cluster")
    tables = {"rejected": rejected, "workers": workers, "topics": topics, "loads": rejected}

    def found(group: tuple[str, ...] = (), owner: tuple[str, ...] = ()) -> list[list[str]]:
        options = SimpleNamespace(group=group, owners=str(file) if owner else None, owner=owner)
        selected = with_own_names(select_tables)(spark, tables, options)
        assert selected["topics"] is topics
        assert selected["loads"] is rejected
        assert selected["workers"].columns == workers.columns
        assert selected["rejected"].columns == rejected.columns
        names = {"rejected": "group_id", "workers": "connect_cluster"}
        return [sorted(row[column] for row in selected[name].collect()) for name, column in names.items()]

    assert found() == [["audit", "prices", "pricing"], ["other", "shop-files"]]
    assert found(group=("pric*", "shop-*")) == [["prices", "pricing"], ["shop-files"]]
    assert found(owner=("platform",)) == [["audit"], ["shop-files"]]
    assert found(group=("prices",), owner=("pricing",)) == [["prices"], []]


def test_every_job_filters_by_group(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """A comparison and a plan of one group."""
    words = ["--sample", "--group", "pricing-*"]
    assert compare.main([*words, "--assignors", "range"]) == 0
    assert "\n  range          1 " in capsys.readouterr().out
    assert simulate.main(["textbook-join", "--group", "a"]) == 2
    assert history.main(["--sample", "--group", "orders-*", "--group", "data-*"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("1 group from ")
    assert "orders-service" in printed
    assert history.main(["--bootstrap-server", "a:1", "--follow", "--archive", "a", "--group", "a"]) == 2


def test_filters_that_no_group_matches(spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The message names them."""
    file = tmp_path / "owners.toml"
    file.write_text(FILE)
    owners = ["--owners", str(file), "--owner", "nobody"]
    filters = {"--owner nobody": owners, "--group x, y and --owner nobody": ["--group", "x", "--group", "y", *owners]}
    for text, words in filters.items():
        for main in (plan.main, compare.main):
            assert main(["--sample", *words]) == 2
            assert caplog.messages[-1].endswith(f": The fleet has no group with members that matches {text}.")


def test_invalid_entries(spark: SparkSession) -> None:
    """Each message names the entry and what is wrong with it."""
    for values, problem in (
        ({}, "isn't a list"),
        ([{"team": "a"}, {"groups": "*"}], "entry 2: groups isn't one of"),
        ([{"group": "*"}], "entry 1: team is required"),
    ):
        with pytest.raises(ConfigError, match=problem):
            entries("clusters.toml", values)
    with pytest.raises(ConfigError, match="--owner needs --owners"):
        read_owners(spark, None, ["a"])
    assert entries("", [{"team": "a"}]) == [Owner("a")]


def test_jobs_name_the_team(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`plan` plans only the groups of the given teams; `check` stores its alerts."""
    file = tmp_path / "clusters.toml"
    file.write_text(FILE)
    owners = ["--owners", str(file), "--owner", "pricing"]
    output = str(tmp_path / "plans")
    assert plan.main(["--sample", "--output", output, "--run-id", "r", "--output-tables", "metrics", *owners]) == 0
    printed = capsys.readouterr().out
    assert "1 group planned" in printed
    assert "pricing-engine (pricing)" in printed
    alerts = str(tmp_path / "alerts")
    assert check.main(["--plan", output, "--output", alerts, "--run-id", "r", *owners]) == 0
    assert spark.read.parquet(f"{alerts}/alerts").count() == 0
