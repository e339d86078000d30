"""How many consumers groups need, by Spark: no group is left out, and the curve is what compare says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs import advise as job
from spark_assign import Fleet, FleetError, compare
from spark_assign.advice import SizingParams, size_groups
from spark_assign.comparison.what_if import members_joined, members_left
from spark_assign.tables.advice import SIZE_TABLES
from spark_assign.tables.groups import INPUT_TABLES
from tests.frames import dataframe
from tests.spark import fleets
from tests.spark.fleets import assert_declared, kept, mixed, stored, tuples, written_as_json

pytestmark = [pytest.mark.spark]

RATES = (90.0, 10.0, 40.0, 30.0, 20.0, 10.0)


def three_members(spark: SparkSession) -> Fleet:
    """A group `g` of three members and a topic of six partitions, and one of which nothing is known."""
    given = fleets.fleet(
        spark,
        {"g": dict.fromkeys("xyz", "t"), "mute": {"m": ["silent"]}},
        topics={"t": 6, "silent": 2},
        owned={("g", name, "t"): (at, at + 3) for at, name in enumerate("xyz")},
        groups=[("c", "g", "cooperative-sticky", "classic"), ("c", "mute", "range", "classic")],
    )
    rows = [("c", "t", p, None, rate, None, None, None, None) for p, rate in enumerate(RATES)]
    rows += [("c", "t", p, "g", None, None, 5.0, 100 * p, None) for p in range(6)]
    return replace(given, loads=dataframe(spark, INPUT_TABLES["loads"], rows)).with_capacity(100)


def test_no_group_is_left_out(spark: SparkSession) -> None:
    """Each is in sizes or, with the reason, in rejected; tables agree with schemas."""
    given = mixed(spark)
    rows = given.topics.select(
        "cluster", "topic", F.lit(0).alias("partition"), F.lit(5.0).alias("in_messages_per_second")
    )
    found = kept(size_groups(replace(given, loads=rows)))
    assert_declared(found, SIZE_TABLES)
    sized = {row["group_id"]: row["verdict"] for row in found.sizes.collect()}
    assert sized == dict.fromkeys(("served", "near", "far"), "unknown")
    assert tuples(found.rejected, "group_id", "code") == [
        ("alone", "unknown-assignor"),
        ("connected", "out-of-scope"),
        ("empty", "no-members"),
        ("shared", "no-members"),
        ("streamed", "out-of-scope"),
        ("twice", "duplicate-member"),
    ]


def test_the_curve_is_what_compare_says(spark: SparkSession) -> None:
    """With a member less, as it is, and with two more; in any order of rows."""
    given = three_members(spark)
    names = ("range", "cooperative-sticky")
    shuffled = replace(given, owned=given.owned.orderBy(F.desc("partition")).repartition(3))
    found = size_groups(shuffled, SizingParams(names, member_counts=[2, 3, 5]))
    curve = {(row["members"], row["assignor"]): row for row in found.curves.collect()}
    assert set(curve) == {(number, name) for number in (2, 3, 5) for name in names}
    changes = [members_left(group_id="g", count=1), members_joined(group_id="g", count=2)]
    compared = compare(given, names, changes).comparison.where("group_id = 'g'").collect()
    assert len(compared) == 4
    for row in compared:
        mine = curve[row["members"], row["assignor"]]
        for name in ("load_max_over_mean", "drain_seconds", "moved", "paused_partition_seconds"):
            assert mine[name] == pytest.approx(row[name]), (row["assignor"], row["members"], name)


def test_without_loads_it_says_what_to_do(spark: SparkSession) -> None:
    """The table, and the remedy."""
    with pytest.raises(FleetError, match=r"loads\.\*: the table is missing.*--interval 60s"):
        size_groups(replace(three_members(spark), loads=None))


@pytest.mark.once
def test_the_job(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The tables are written; curves in words; numbers for KEDA; exit codes."""
    key = {"cluster": "c", "group_id": "g"}
    tables: dict[str, list[dict[str, Any]]] = {
        "topics": [{"cluster": "c", "topic": "t", "partitions": 4}],
        "members": [key | {"member_id": name} for name in "ab"],
        "subscriptions": [key | {"member_id": name, "topic": "t"} for name in "ab"],
        "loads": [{"cluster": "c", "topic": "t", "partition": p, "in_messages_per_second": 10.0} for p in range(4)],
    }
    words = ["--fleet", str(written_as_json(tmp_path / "fleet", tables)), "--capacity", "g=15"]
    out = ["--output", str(tmp_path / "out"), "--run-id", "r", "--output-format", "json"]
    assert job.main(["size", *words, *out, "--fail-on", "rejected"]) == 0
    printed = capsys.readouterr().out
    assert "Too few members:" in printed
    curves = stored(tmp_path / "out", "curves")
    assert [(row["members"], row["keeps_up"]) for row in sorted(curves, key=lambda row: row["members"])] == [
        *((number, False) for number in (1, 2, 3)),
        (4, True),
    ]
    for more in ([], ["--keda"]):
        assert job.main(["size", *words, "--details", "nobody", *more]) == 0
        assert capsys.readouterr().out.startswith("# No group matches" if more else "No group matches nobody.")
    assert job.main(["size", *words, "--details", "g", "--keda"]) == 0
    assert "minReplicaCount: 4" in capsys.readouterr().out
    assert job.main(["size", *words, "--keda"]) == 2
    capsys.readouterr()
    assert job.main(["size", *words, "--details", "g", "--keda", "--threads-per-pod", "2"]) == 0
    assert 'lagThreshold: "900"  # 30 s of the capacity of a pod with 2 members' in capsys.readouterr().out
    for wrong in ("--member-counts=two", "--member-counts=2.5", "--threads-per-pod=0", "--pods-per-node=2"):
        assert job.main(["size", *words, wrong]) == 2
