"""All advice by Spark: no group is left out, tables agree with schemas, rows in any order, and the job."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from jobs import advise as job
from jobs import report
from spark_assign import AdviceParams, Fleet, advise
from spark_assign.report.advice import advice_rows, build_advice_section, summarize_advice
from spark_assign.tables.advice import ADVISE_TABLES
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.groups import INPUT_TABLES
from tests.docs import given
from tests.frames import frame_of
from tests.spark.fleets import assert_declared, kept, mixed, shuffled, stored, tuples, two_members

pytestmark = [pytest.mark.spark]


def collected(table: DataFrame) -> list[str]:
    """Rows as text, in order; floats to the last digit."""
    return sorted(json.dumps(row.asDict(), sort_keys=True, default=str) for row in table.collect())


def test_no_group_is_left_out(spark: SparkSession) -> None:
    """Each is in advice or not_recommended, or with the reason in rejected; what cannot be asked says so."""
    found = kept(advise(mixed(spark)))
    assert_declared(found, ADVISE_TABLES)
    groups = found.advice.select("group_id").union(found.not_recommended.select("group_id")).distinct()
    assert tuples(groups.where("group_id is not null")) == [(name,) for name in ("alone", "far", "near", "served")]
    assert tuples(found.rejected, "group_id", "code") == [
        ("connected", "out-of-scope"),
        ("empty", "no-members"),
        ("shared", "share-group"),
        ("streamed", "streams-group"),
        ("twice", "duplicate-member"),
    ]
    assert [row["action"] for row in found.advice.where("group_id is null").collect()] == ["readings"]
    missing = found.not_recommended.where("group_id is null").orderBy("adviser").collect()
    assert [(row["adviser"], row["code"]) for row in missing] == [
        (of, "not-known") for of in ("replicas", "size", "zones")
    ]
    with pytest.raises(ConfigError, match="min_balance_gain is 2"):
        advise(mixed(spark), AdviceParams(min_balance_gain=2))


def test_rows_in_any_order(spark: SparkSession, seed: int) -> None:
    """The same advice, however rows come and wherever they are; ranks begin with 1."""
    fleet = given.zones_fleet(spark)
    one, other = advise(fleet), advise(shuffled(fleet, seed))
    rows = collected(one.advice)
    assert rows == collected(other.advice)
    assert sorted(json.loads(row)["rank"] for row in rows) == list(range(1, len(rows) + 1))
    advice = [json.loads(row) for row in rows]
    by_hand = {("follower-fetching", None): (17.28 + 3.456) * 30, ("rebalance", "billing"): 51.84 * 30}
    found = {(row["action"], row["group_id"]): row["gain"] for row in advice if row["category"] == "money"}
    assert found == pytest.approx(by_hand), "docs/zones.md has these by hand"


def test_readings_of_many_clusters_are_one_line(spark: SparkSession) -> None:
    """As text and on the page; the table has a row for each cluster. Notes follow, members without partitions first."""
    readings = {"category": "unknown", "action": "readings", "description": "Take readings.", "risk": "None."}
    rows = [{"rank": n + 2, "cluster": f"c{n:02}", "command": "snapshot", **readings} for n in range(21)]
    group = {"rank": 1, "cluster": "c20", "group_id": "g", "category": "balance", "action": "assignor"}
    group |= {"description": "Use sticky.", "risk": "None.", "command": "compare", "note": "uneven"}
    idle = {"cluster": "c30", "group_id": "h", "adviser": "size", "code": "not-known", "detail": "No rates"}
    declined = [{**idle, "note": "3 of 8 members have no partitions: because"}, idle | {"adviser": "zones"}]
    tables = {"advice": [group, *rows], "not_recommended": declined, "rejected": []}
    frames = [frame_of(spark, schema, tables[name]) for name, schema in ADVISE_TABLES.items()]
    lines = summarize_advice(*frames, limit=2).splitlines()
    assert lines[0] == "Advice: 2 recommendations (1 balance, 1 unknown)"
    assert [line for line in lines if "Take readings" in line] == [
        "   2. c00 and 20 more clusters: readings. Take readings."
    ]
    assert lines[lines.index("Notes:") + 1 :][:2] == [
        "  c30/h: 3 of 8 members have no partitions: because",
        "  c20/g: uneven",
    ]
    page = build_advice_section(advice_rows(frames[0]))
    assert [len(table.rows) for table in page.tables] == [1, 1]
    assert "Use sticky. Now uneven." in str(page.tables[0].rows)


def test_streams_applications(spark: SparkSession) -> None:
    """Each of two hosts has 36 GB of state, which the other one restores in 12 minutes at 50 MB/s; three tasks stop.
    Each of six tasks writes 1 MB/s."""
    rows = {name: [{"cluster": "c"} | row for row in table] for name, table in given.CLASSIC.items()}
    of_changelog = {"cluster": "c", "topic": "returns-totals-changelog", "in_bytes_per_second": 1e6}
    rows["loads"] = [of_changelog | {"partition": at} for at in range(6)]
    rows["members"].append({"cluster": "c", "group_id": "faulty", "member_id": "m", "process_id": "p"})
    rows["groups"].append({"cluster": "c", "group_id": "faulty", "group_type": "classic"})
    rows["subtopologies"].append({"cluster": "c", "group_id": "faulty", "subtopology": "0", "source_topics": ["t"]})
    found = kept(advise(Fleet(**{name: frame_of(spark, INPUT_TABLES[name], table) for name, table in rows.items()})))
    advice = found.advice.where("group_id is not null")
    assert tuples(advice, "group_id", "action", "gain", "cost", "settings") == [
        ("returns", "standbys", 2160.0, 72.0, "num.standby.replicas=1")
    ]
    assert "and then 518.40 GB a day." in advice.first()["risk"]
    declined = found.not_recommended.where("group_id is not null")
    assert tuples(declined, "group_id", "adviser", "code") == [("returns", "streams", "nothing-to-do")]
    assert tuples(found.rejected, "group_id", "code") == [("faulty", "bad-process-id")]


def test_the_job(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Writes the tables, and prints the list; one group with what is not advised; settings that cannot be."""
    words = ["--fleet", str(two_members(tmp_path / "fleet", "range", 8)), "--restore-time", "1m"]
    out = ["--output", str(tmp_path / "out"), "--run-id", "r", "--output-format", "json"]
    assert job.main([*words, *out, "--fail-on", "rejected"]) == 1
    printed = capsys.readouterr().out
    assert "Advice: 2 recommendations (1 pause, 1 unknown)" in printed
    assert "set  group.instance.id=g-0" in printed
    assert "Take readings" in printed
    assert "twice: duplicate-member: " in printed
    assert [row["rank"] for row in stored(tmp_path / "out", "advice")] == [1, 2]
    page = tmp_path / "page.html"
    assert report.main(["--advice", str(tmp_path / "out"), "--output-file", str(page)]) == 0
    assert "group.instance.id=g-0" in page.read_text()
    assert job.main([*words, "--max-payback-months", "-1"]) == 2
