"""What has no known use, from two snapshots a week apart: each case, what is missing, any order, and the job."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs import advise as job
from spark_assign import Fleet
from spark_assign.advice import EarlierSnapshot, UnusedEvidence, UnusedParams, find_unused
from spark_assign.sources.files.pseudonyms import with_pseudonyms
from spark_assign.sources.files.snapshot import Snapshot, SnapshotRows
from spark_assign.sources.files.snapshot_files import write_folder
from spark_assign.sources.files.snapshot_offsets import Offsets, read_summaries, seconds_between
from spark_assign.tables.errors import ConfigError, FleetError
from spark_assign.tables.groups import INPUT_TABLES, OFFSETS
from tests.cases import cases
from tests.snapshots import TAKEN_AT
from tests.spark.fleets import shuffled
from tests.spark.fleets import tuples as rows_of

pytestmark = pytest.mark.spark

TOPICS = {
    "idle": ([7, 0], [7, 0], "delete"),
    "empty.one": ([0], [0], "delete"),
    "written": ([7], [9], "delete"),
    "new": (None, [0], "delete"),
    "again": ([7], [7], "delete"),
    "table": ([7], [7], "compact,delete"),
    "no-policy": ([7], [7], None),
    "app-store-changelog": ([7], [7], "delete"),
    "my-connect-offsets": ([7], [7], "delete"),
    "mirrored": ([7], [7], "delete"),
    "batch-only": ([7], [7], "delete"),
    "orders": ([7, 0], [9, 0], "delete"),
    "stuck": ([7], [9], "delete"),
    "store": ([7], [7], "delete"),
    "__internal": ([7], [7], "compact"),
}
"""End offsets in the older and the later snapshot, and cleanup.policy."""
GROUPS: dict[str, tuple[str | None, str, int, dict[str, Any], dict[str, Any]]] = {
    "reader": ("classic", "Stable", 1, {"orders": 7}, {"orders": 9}),
    "stays": ("classic", "Stable", 1, {"stuck": 5}, {"stuck": 5}),
    "elsewhere": ("consumer", "Stable", 1, {}, {}),
    "batch": ("classic", "Empty", 0, {"batch-only": 7}, {"batch-only": 7}),
    "assigns": ("classic", "Empty", 0, {"orders": 7}, {"orders": 8}),
    "fresh": ("classic", "Empty", 0, {}, {"orders": 1}),
    "untyped": (None, "Empty", 0, {"orders": 7}, {"orders": 7}),
    "connect-sink": ("classic", "Empty", 0, {"orders": 7}, {"orders": 7}),
    "app": ("streams", "Empty", 0, {"orders": 7}, {"orders": 7}),
    "shared": ("share", "Empty", 0, {"orders": 7}, {"orders": 7}),
    "workers": ("connect", "Stable", 0, {}, {}),
    "it's $(rm)\n": ("consumer", "Empty", 0, {"orders": 7}, {"orders": 7}),
}
"""Type, state, members, and the committed offset of partition 0 of topics in both snapshots."""
SUBSCRIBED = {"reader": ["orders", "gone"], "stays": ["stuck"], "elsewhere": ["store"]}

FOUND = {
    ("topic", "idle"): ("likely", "no record was written in 7.0 days"),
    ("topic", "empty.one"): ("likely", "never had a record"),
    ("topic", "written"): ("possible", "records are written to it"),
    ("topic", "new"): ("unknown", "growth: give an older snapshot (--before). One of"),
    ("topic", "again"): ("possible", "it was recreated"),
    ("topic", "table"): ("possible", "it is compacted"),
    ("topic", "no-policy"): ("possible", "cleanup.policy isn't known"),
    ("topic", "app-store-changelog"): ("possible", "state of a Streams application"),
    ("topic", "my-connect-offsets"): ("possible", "Connect workers"),
    ("topic", "mirrored"): ("likely", "no record"),
    ("topic", "batch-only"): ("possible", "batch can return"),
    ("partitions", "orders"): ("certain", "1 of 2 partitions with a known end offset never had a record"),
    ("subscription", "gone"): ("likely", "The topic isn't in the snapshot"),
    ("group", "stays"): ("possible", "committed nothing in 7.0 days, while 2 records"),
    ("group", "elsewhere"): ("possible", "1 member and 0 committed partitions"),
    ("group", "batch"): ("possible", "0 members and 1 committed partition, and committed nothing in 7.0 days"),
    ("group", "fresh"): ("in use", ""),
    ("group", "untyped"): ("unknown", "its group_type (groups.group_type)"),
    ("group", "connect-sink"): ("possible", "sink connector"),
    ("group", "app"): ("possible", "type streams"),
    ("group", "shared"): ("likely", "committed nothing"),
    ("group", "it's $(rm)\n"): ("likely", "committed nothing"),
}
"""Certainty, and words of the reason or of what is missing. Everything else is in use; `fresh` committed since."""


def taken(later: bool, **source: Any) -> Snapshot:
    """One of the two snapshots."""
    rows = SnapshotRows("c")
    for topic, (*ends, policy) in TOPICS.items():
        known = ends[later]
        if known is None:
            continue
        topic_id = f"{topic}-{later}" if topic == "again" else topic
        rows.add("topics", topic=topic, partitions=len(known), topic_id=topic_id, cleanup_policy=policy)
        for partition, end in enumerate(known):
            values = {"replicas": [1, 2], "end_offset": end, "bytes": 100 * end}
            rows.add("replicas", topic=topic, partition=partition, **values)
    for group_id, (group_type, state, members, *committed) in GROUPS.items():
        rows.add("groups", group_id=group_id, group_type=group_type, state=state)
        for topic, offset in committed[later].items():
            key = {"group_id": group_id, "topic": topic, "partition": 0}
            end = TOPICS[topic][1 if later else 0]
            rows.add("offsets", **key, committed_offset=offset, end_offset=end[0] if end else None, lag=0)
        if members:
            rows.add("members", group_id=group_id, member_id="m")
            rows.add_subscriptions(group_id, {"m": SUBSCRIBED[group_id]})
    source = {"kind": "kafka", "groups": None, "topics": None, "unseen": None, **source}
    return Snapshot("c", source, TAKEN_AT + timedelta(days=7 * later), rows.tables())


@pytest.fixture
def places(tmp_path: Path) -> tuple[str, str]:
    """The folders of both snapshots."""
    for later in (False, True):
        write_folder(taken(later), tmp_path / str(later))
    return str(tmp_path / "False"), str(tmp_path / "True")


def evidence(spark: SparkSession, before: str, after: str) -> UnusedEvidence:
    """All that two snapshots say."""
    earlier, later = Offsets.read(spark, before), Offsets.read(spark, after)
    older = EarlierSnapshot(Fleet.read(spark, before), earlier.offsets, seconds_between(earlier, later))
    return UnusedEvidence(later.offsets, gaps=read_summaries(spark, after), earlier=older)


@pytest.mark.once
def test_each_case_by_the_job(
    spark: SparkSession, places: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each has its certainty and its reason, and commands only if it is likely unused; they quote every name."""
    before, after = places
    words = ["unused", "--fleet", after, "--before", before]
    assert job.main([*words, "--output", str(tmp_path / "out"), "--run-id", "r", "--output-format", "json"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"topic +0 +3 +7 +1 +8 +2\.80 kB", text)
    files = (tmp_path / "out").glob("unused/run_id=r/attempt=*/*.json")
    rows = [json.loads(line) for file in files for line in file.open()]
    found = {(row["subject"], row.get("topic") or row["group_id"]): row for row in rows}
    expected = {key: value for key, value in FOUND.items() if value[0] != "in use"}
    assert {key: row["certainty"] for key, row in found.items()} == {key: value[0] for key, value in expected.items()}
    for key, (certainty, part) in expected.items():
        assert part in found[key]["reason"] + (found[key].get("missing") or "")
        has_commands = certainty == "likely" and key[0] in ("topic", "group")
        assert bool(found[key].get("commands")) == has_commands
    idle = found["topic", "idle"]
    assert (idle["partitions"], idle["replicas"], idle["disk_bytes"], idle["days"]) == (2, 4, 1400, 7.0)
    deletes = found["topic", "empty.one"]["commands"].splitlines()[-2]
    assert shlex.split(deletes.removeprefix("# "))[-2:] == ["--delete", r"--topic=empty\.one"]
    hostile = found["group", "it's $(rm)\n"]["commands"].splitlines()
    assert len(hostile) == 2
    assert all(r"--group=$'it\047s $(rm)\012'" in line for line in hostile)
    assert job.main([*words, "--details", "idle", "--details", "bat*"]) == 0
    details = capsys.readouterr().out
    assert "batch: group, possible" in details
    assert "kafka-topics.sh --bootstrap-server $BOOTSTRAP_SERVERS --delete --topic='idle'" in details


@cases(
    "change missing",
    ({"earlier": None}, "growth: give an older snapshot (--before)"),
    ({"offsets": None}, "offsets of the groups"),
    ({"gaps": None}, "whether the tables are of a complete snapshot"),
    ({"groups": None}, "the cluster's groups"),
    ({"gap": {"groups": ["o*"]}}, "the snapshot was taken with --group"),
    ({"gap": {"unseen": "no permission"}}, "all groups: groups are missing; why was removed by --pseudonyms"),
    ({"undescribed": True}, "1 group that can't be described"),
)
def test_unknown_is_not_unused(
    spark: SparkSession, places: tuple[str, str], tmp_path: Path, change: dict[str, Any], missing: str
) -> None:
    """Whatever is missing is named, and then nothing has commands."""
    known, fleet = evidence(spark, *places), Fleet.read(spark, places[1])
    if gap := change.pop("gap", None):
        write_folder(with_pseudonyms(taken(True, **gap), b"0123456789abcdef"), tmp_path / "filtered")
        known = replace(known, gaps=read_summaries(spark, str(tmp_path / "filtered")))
    if "groups" in change:
        fleet = replace(fleet, **change)
    elif change.get("undescribed"):
        hidden = spark.createDataFrame(
            [("c", "hidden", "no permission")], "cluster string, group_id string, error string"
        )
        known = replace(known, undescribed=hidden)
    else:
        known = replace(known, **change)
    found = find_unused(fleet, known)
    rows = found.unused.where("topic = 'idle' OR commands IS NOT NULL").collect()
    assert [(row["topic"], row["certainty"]) for row in rows] == [("idle", "unknown")]
    assert missing in rows[0]["missing"]
    assert found.rejected.count() == int("undescribed" in change)


def test_doubts(spark: SparkSession, places: tuple[str, str]) -> None:
    """Too short for a threshold of eight days; MirrorMaker reads without a group; a threshold is a number."""
    found = find_unused(Fleet.read(spark, places[1]), evidence(spark, *places), UnusedParams(min_days=8)).unused
    (row,) = found.where("topic = 'idle'").collect()
    assert (row["certainty"], row["commands"]) == ("possible", None)
    assert "only 7.0 of 8 days apart" in row["reason"]
    heartbeats = Fleet.read(spark, places[1]).topics.limit(1).withColumn("topic", F.lit("eu.heartbeats"))
    mirrored = replace(Fleet.read(spark, places[1]), topics=Fleet.read(spark, places[1]).topics.union(heartbeats))
    (row,) = find_unused(mirrored, evidence(spark, *places)).unused.where("topic = 'idle'").collect()
    assert (row["certainty"], "MirrorMaker copies topics" in row["reason"]) == ("possible", True)
    with pytest.raises(ConfigError, match="min_days is nan"):
        find_unused(Fleet.read(spark, places[1]), params=UnusedParams(min_days=float("nan")))


def test_faulty_rows(spark: SparkSession, places: tuple[str, str]) -> None:
    """A row that belongs to no group is a fault of the fleet, of either time; a fleet without members is none."""
    later, known = Fleet.read(spark, places[1]), evidence(spark, *places)
    faulty = replace(later, topics=later.topics.union(later.topics.limit(1)))
    with pytest.raises(FleetError, match=r"topics\.topic: the same key twice"):
        find_unused(faulty, known)
    assert known.earlier is not None
    with pytest.raises(FleetError, match=r"topics\.topic: the same key twice"):
        find_unused(later, replace(known, earlier=replace(known.earlier, fleet=faulty)))
    none = later.filter_groups(later.members.where("group_id = 'nobody'"))
    assert "topic" in {row["subject"] for row in find_unused(none, known).unused.collect()}


LACKING = [
    ("members", "member_id", "owned"),
    ("owned", "topic", "owned"),
    ("owned_slices", "topic", "owned_slices"),
    ("owned_slices", "step", "owned_slices"),
    ("owned_lists", "topics", "owned_lists"),
    ("subscriptions", "topic", "owned"),
    ("subtopologies", "subtopology", "owned"),
    ("tasks", "task", "owned"),
    ("changelogs", "topic", "owned"),
    ("initialized", "first", "owned"),
    ("undescribed", "error", "owned"),
    ("offsets", "partition", "owned"),
]


def test_a_row_that_lacks_a_value_costs_its_group(spark: SparkSession) -> None:
    """The group is rejected, and no topic is unused, as the group could read it. A row without a group is an error."""
    values = {"string": "'t'", "int": "0", "array<string>": "array('t')", "array<int>": "array(0)"}
    schemas = INPUT_TABLES | {"offsets": OFFSETS}

    def rows(table: str, lacking: dict[str, str | None]) -> DataFrame:
        """One row per group, which lacks a column."""
        known = {"cluster": "'c'", "topic": "'orders'"}
        lines = []
        for group_id, column in lacking.items():
            cells = known | {"group_id": f"'{group_id}'"} | ({column: "null"} if column else {})
            each = {f.name: cells.get(f.name, values.get(f.dataType.simpleString(), "null")) for f in schemas[table]}
            lines.append(
                "SELECT "
                + ", ".join(f"CAST({each[f.name]} AS {f.dataType.simpleString()}) AS {f.name}" for f in schemas[table])
            )
        return spark.sql(" UNION ALL ".join(lines))

    for owned in ("owned", "owned_slices", "owned_lists"):
        faults = [(table, column) for table, column, which in LACKING if which == owned]
        lacking = {table: {f"{table}.{column}": column for of, column in faults if of == table} for table, _ in faults}
        tables = {table: rows(table, of_table | {"sound": None}) for table, of_table in lacking.items()}
        if "undescribed" in tables:
            tables["undescribed"] = rows("undescribed", lacking["undescribed"])
        for table in ("members", "subscriptions"):
            tables.setdefault(table, rows(table, {"sound": None}))
        tables["topics"] = spark.sql("SELECT 'c' AS cluster, 'idle' AS topic, 1 AS partitions")
        offsets = tables.pop("offsets", None)
        found = find_unused(Fleet(**tables), UnusedEvidence(offsets))
        wanted = {(f"{table}.{column}", "null-key", f"{table}: {column}=null") for table, column in faults}
        assert {*rows_of(found.rejected.select("group_id", "code", "detail"))} == wanted
        if owned != "owned":
            continue
        assert ("topic", "idle", "unknown") in rows_of(found.unused.select("subject", "topic", "certainty"))
        assert {row[0] for row in rows_of(found.unused.select("group_id"))} <= {"sound", None}


def test_rows_in_any_order(spark: SparkSession, places: tuple[str, str], seed: int) -> None:
    """The same findings, however rows come and wherever they are."""
    fleet, known = Fleet.read(spark, places[1]), evidence(spark, *places)
    assert known.earlier is not None
    assert known.offsets is not None
    older = replace(known.earlier, fleet=shuffled(Fleet.read(spark, places[0]), seed))
    other = replace(known, offsets=known.offsets.orderBy("committed_offset").repartition(3), earlier=older)
    one, two = find_unused(fleet, known).unused, find_unused(shuffled(fleet, seed), other).unused
    assert rows_of(one) == rows_of(two)


@cases(
    "words message",
    (["unused", "--group", "a"], "--group doesn't apply to advise unused"),
    (["--before", "./x"], "No such option '--before'"),
    (["zones", "--min-days", "1"], "No such option '--min-days'"),
)
def test_usage(words: list[str], message: str, caplog: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """A filter of groups would make topics look unused."""
    assert job.main([*words, "--sample"]) == 2
    assert message in f"{caplog.text} {capsys.readouterr().err}"


def test_a_snapshot_without_columns_that_it_need_not_have(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """The answer says what isn't known."""
    assert job.main(["unused", "--fleet", "conf/sample-fleet"]) == 0
    assert "Not known:\n  growth: take a new snapshot" in capsys.readouterr().out
