"""Loads between snapshots: files and catalog, several clusters, offsets that go back, snapshots in the wrong order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs import diff as diff_job
from spark_assign import Fleet, FleetError, SparkAssignError
from spark_assign.report.connect import connect_rows
from spark_assign.report.listed_groups import total_columns
from spark_assign.report.loads_and_sizes import loads_by_group, summarize_loads
from spark_assign.sources.files.snapshot import Snapshot, SnapshotRows
from spark_assign.sources.files.snapshot_catalog import write_tables
from spark_assign.sources.files.snapshot_files import write_folder
from spark_assign.sources.files.snapshot_offsets import Offsets, loads_between
from spark_assign.tables.errors import find_row_fault
from spark_assign.tables.groups import LOADS
from tests.frames import dataframe

pytestmark = pytest.mark.spark

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
Offset = tuple[str, str, int, int | None, int | None]


def taken(
    cluster: str, seconds: float, offsets: list[Offset], *, topic_id: str = "A", id: str | None = None
) -> Snapshot:
    """A snapshot so long after noon: group, topic, partition, committed and end offset."""
    rows = SnapshotRows(cluster)
    for topic in sorted({topic for _, topic, *_ in offsets}):
        rows.add("topics", topic=topic, partitions=9, topic_id=topic_id if topic == "anew" else "same")
    for group_id, topic, partition, at, end in offsets:
        lag = None if at is None or end is None else end - at
        key = {"group_id": group_id, "topic": topic, "partition": partition}
        rows.add("offsets", **key, committed_offset=at, end_offset=end, lag=lag)
    source = {"kind": "test"} | ({"kafka_cluster_id": id} if id else {})
    return Snapshot(cluster, source, NOON + timedelta(seconds=seconds), rows.tables())


BEFORE: list[Offset] = [
    *(("g", "t", 0, 100, 200), ("h", "t", 0, 200, 200), ("g", "t", 1, 50, 50), ("g", "t", 2, 10, 10)),
    *(("g", "anew", 0, 5, 5), ("owns", "t", 0, None, 200), ("gone", "t", 0, 0, 200)),
]
AFTER: list[Offset] = [
    ("g", "t", 0, 400, 1200),
    ("h", "t", 0, 150, 1200),  # was reset
    ("g", "t", 1, 60, 40),  # the log lost its end
    ("g", "t", 3, 7, 9),  # is new
    ("g", "anew", 0, 50, 100),
    ("owns", "t", 0, None, 1200),
]
EXPECTED = {
    ("t", 0, None): (10.0, None, None),
    **dict.fromkeys((("t", 1, None), ("t", 3, None), ("anew", 0, None)), (None, None, None)),
    ("t", 0, "g"): (None, 3.0, 800),
    ("t", 0, "h"): (None, None, 1050),
    ("t", 1, "g"): (None, 0.1, None),
    ("t", 3, "g"): (None, None, 2),
    ("anew", 0, "g"): (None, None, 50),
}


def by_partition(loads: DataFrame, cluster: str) -> dict[Any, tuple[Any, ...]]:
    """In, out and lag of each row of a cluster."""
    assert loads.columns == LOADS.names
    rows = loads.where(loads.cluster == cluster).collect()
    assert all(row.in_messages_per_second_stddev is None and row.in_bytes_per_second is None for row in rows)
    return {
        (row.topic, row.partition, row.group_id): (row.in_messages_per_second, row.out_messages_per_second, row.lag)
        for row in rows
    }


@pytest.fixture
def schema(spark: SparkSession) -> Iterator[str]:
    """A database of this test's own."""
    spark.sql("create database if not exists loads_of_two")
    yield "loads_of_two"
    spark.sql("drop database loads_of_two cascade")


def test_two_clusters_in_folders(spark: SparkSession, tmp_path: Path) -> None:
    """Each by its own times; what went back, is new or was made anew has no rate."""
    for name, at, offsets, topic in (("monday", 0, BEFORE, "A"), ("tuesday", 100, AFTER, "B")):
        write_folder(taken("eu", at, offsets, topic_id=topic), tmp_path / name, "csv")
        write_folder(taken("us", at / 2 + 0.25, offsets[:1]), tmp_path / name, "parquet")
    sides = [Offsets.read(spark, str(tmp_path / name)) for name in ("monday", "tuesday")]
    found = loads_between(*sides).cache()
    assert by_partition(found, "eu") == EXPECTED
    assert by_partition(found, "us") == {("t", 0, None): (20.0, None, None), ("t", 0, "g"): (None, 6.0, 800)}


def test_tables_of_a_catalog(spark: SparkSession, schema: str, tmp_path: Path) -> None:
    """One side there, the other a folder. Loads that were read go with the next snapshot, those of others stay."""
    write_folder(taken("eu", 0, BEFORE), tmp_path / "monday")
    read = taken("eu", 100, AFTER, topic_id="B")
    rows = SnapshotRows("eu")
    rows.add("loads", topic="t", partition=0, in_messages_per_second=1.5)
    write_tables(replace(read, tables=read.tables | {"loads": rows.tables()["loads"]}), spark, schema)
    other = taken("us", 0, AFTER)
    rows = SnapshotRows("us")
    rows.add("loads", topic="t", partition=0, group_id="g", lag=3)
    write_tables(replace(other, tables=other.tables | {"loads": rows.tables()["loads"]}), spark, schema)
    fleet = Fleet.read(spark, schema)
    assert fleet.loads is not None
    assert sorted((row.cluster, row.in_messages_per_second, row.lag) for row in fleet.loads.collect()) == [
        ("eu", 1.5, None),
        ("us", None, 3),
    ]
    write_tables(read, spark, schema)
    assert [row.cluster for row in spark.table(f"{schema}.loads").collect()] == ["us"]
    after = Offsets.read(spark, schema)
    eu = Offsets(after.offsets.where("cluster = 'eu'"), after.snapshots.where("cluster = 'eu'"), after.topics)
    assert by_partition(loads_between(Offsets.read(spark, str(tmp_path / "monday")), eu), "eu") == EXPECTED


def test_snapshots_that_do_not_go_together(spark: SparkSession, tmp_path: Path) -> None:
    """Every cluster with a fault is named."""
    for name, at in (("first", 0), ("second", 60)):
        for cluster, when in (("right", at), ("swapped", -at), ("same", 0), ("other", at)):
            write_folder(taken(cluster, when, BEFORE[:1], id=name * (cluster == "other")), tmp_path / name)
        write_folder(taken(name, at, BEFORE[:1]), tmp_path / name)
    first, second = (Offsets.read(spark, str(tmp_path / name)) for name in ("first", "second"))
    with pytest.raises(SparkAssignError) as caught:
        loads_between(first, second)
    heading, *lines = str(caught.value).splitlines()
    assert heading == "these snapshots can't be compared:"
    clusters = [line.partition(":")[0].strip(" -") for line in lines]
    assert clusters == [f"cluster {name}" for name in ("first", "other", "same", "second", "swapped")]
    assert "the later snapshot has none" in lines[0]
    assert "two Kafka clusters (ids first and second)" in lines[1]
    assert "both were taken at" in lines[2]
    assert "the earlier snapshot has none" in lines[3]
    assert lines[4].endswith("Swap them")
    late = second.snapshots.withColumn("taken_at", F.timestamp_micros(F.lit(2**62)))
    with pytest.raises(SparkAssignError, match="cluster right: the later snapshot has none, or does not say when"):
        loads_between(first, Offsets(second.offsets, late))
    with pytest.raises(SparkAssignError, match="cluster right: the later snapshot has none, or does not say when"):
        loads_between(first, Offsets(second.offsets, second.snapshots.union(second.snapshots)))
    with pytest.raises(FleetError, match=r"offsets\.topic: the column is missing"):
        Offsets(first.offsets.drop("topic"), first.snapshots)


def test_a_row_of_offsets_without_a_group(spark: SparkSession, tmp_path: Path) -> None:
    """It could be of any group, and isn't left out."""
    for at in (0, 60):
        write_folder(taken("c", at, BEFORE[:1]), tmp_path / str(at))
    before, after = (Offsets.read(spark, str(tmp_path / str(at))) for at in (0, 60))
    nameless = replace(after, offsets=after.offsets.withColumn("group_id", F.lit(None).cast("string")))
    with pytest.raises(PySparkException) as error:
        loads_between(before, nameless).collect()
    assert "offsets.group_id: null or out of range: cluster=" in str(find_row_fault(error.value))


def test_the_job(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Between two snapshots into a run, which other jobs take by --table; and a snapshot without loads."""
    write_folder(taken("eu", 0, BEFORE), tmp_path / "monday")
    write_folder(taken("eu", 100, AFTER, topic_id="B"), tmp_path / "tuesday")
    monday, tuesday, output = (str(tmp_path / name) for name in ("monday", "tuesday", "loads"))
    arguments = ["--loads", "--before", monday, "--after", tuesday]
    assert diff_job.main([*arguments, "--output", output, "--run-id", "r", "--top", "1"]) == 0
    printed = capsys.readouterr().out
    assert "Partitions: 4, of 1 the rate is known: 10.00 messages/s in" in printed
    fleet = Fleet.read(spark, tuesday, tables={"loads": f"{output}/loads/run_id=r"})
    assert fleet.loads is not None
    assert by_partition(fleet.loads.select(*LOADS.names), "eu") == EXPECTED
    assert diff_job.main(["--loads", "--before", tuesday, "--after", monday]) == 2
    assert diff_job.main(["--loads", "--after", tuesday]) == 2


def test_how_long_it_takes_to_catch_up(spark: SparkSession) -> None:
    """The slowest partition decides; never where what comes in is no less than what goes out."""
    rates = {0: 5.0, 1: 10.0, 2: None}
    rows: list[dict[str, Any]] = [{"partition": at, "in_messages_per_second": rate} for at, rate in rates.items()]
    of_groups = {
        "quick": {0: (10.0, 100), 1: (30.0, 800), 2: (1.0, 0)},
        "never": {0: (5.0, 1), 1: (30.0, 10), 2: (9.0, 9)},
        "unknown": {0: (10.0, 100), 2: (9.0, 9)},
        "done": {0: (None, 0)},
    }
    for group, partitions in of_groups.items():
        rows += [
            {"partition": at, "group_id": group, "out_messages_per_second": out, "lag": lag}
            for at, (out, lag) in partitions.items()
        ]
    rows[-1]["in_messages_per_second"] = 7.0
    lines = [[({"cluster": "c", "topic": "t"} | row).get(name) for name in LOADS.names] for row in rows]
    loads = dataframe(spark, LOADS, lines)
    found = {
        row.group_id: (row.partitions, row.lag, row.in_messages_per_second, row.drain_s)
        for row in loads_by_group(loads).collect()
    }
    assert found == {
        "quick": (3, 900, 15.0, 40.0),
        "never": (3, 20, 15.0, float("inf")),
        "unknown": (2, 109, 5.0, None),
        "done": (1, 0, 7.0, 0.0),
    }
    screen = summarize_loads(loads, 2).splitlines()
    assert screen[0] == "Partitions: 3, of 2 the rate is known: 15.00 messages/s in"
    assert screen[1] == "Groups: 4, 1,029 messages behind"
    assert screen[-1] == "  … and more, in the table loads"
    assert screen[-2].split() == ["c/unknown", "2", "109", "5.00", "19.00", "–"]
    assert screen[-3].split() == ["c/quick", "3", "900", "15.00", "41.00", "40.0", "s"]


def test_lags_beyond_a_long(spark: SparkSession) -> None:
    """A member commits any offset: the lags of its group, and of all groups, sum up to the largest long at most."""
    lags = {"evil": (2**63 - 1,) * 3, "low": (-(2**63),) * 2, "good": (1, 2), "unknown": (None,)}
    rows = [
        ("c", "t", at, name, None, None, None, lag, None) for name, each in lags.items() for at, lag in enumerate(each)
    ]
    loads = dataframe(spark, LOADS, rows)
    assert {row.group_id: row.lag for row in loads_by_group(loads).collect()} == {
        "evil": 2**63 - 1,
        "low": -(2**63) + 1,
        "good": 3,
        "unknown": None,
    }
    assert summarize_loads(loads.where("group_id <> 'low'"), 2).splitlines()[1] == (
        "Groups: 3, 9,223,372,036,854,775,807 messages behind"
    )


def test_stored_figures_beyond_a_long(spark: SparkSession) -> None:
    """A stored table can have any long: a total ends at the largest one. Costs and seconds are doubles."""
    names = ("moved", "cost_before", "paused_seconds")
    table = spark.createDataFrame([(2**62, 0.25, 1.5)] * 3, "moved long, cost_before double, paused_seconds double")
    (row,) = table.agg(*total_columns("groups", names)).collect()
    assert tuple(row) == (3, 2**63 - 1, 0.75, 4.5)
    clusters = [
        dict.fromkeys(("rebalances", "connector_stops", "connector_starts", "task_stops", "task_starts"), 2**62)
        | {"connect_cluster": name, "protocol": "eager", "task_ms_not_running": 2**62, "lost_with_worker": 0}
        for name in ("a", "b", "c")
    ]
    (total,) = connect_rows({"costs": spark.createDataFrame(clusters)})["totals"]
    assert (total["clusters"], total["rebalances"], total["task_ms_not_running"]) == (3, 2**63 - 1, 2**63 - 1)
