"""A fleet of several clusters, whose snapshots were written by themselves: folders and tables of a catalog."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from spark_assign import Fleet, find_drift, plan
from spark_assign.sources.files import snapshot_catalog
from spark_assign.sources.files.snapshot import Snapshot
from spark_assign.sources.files.snapshot_catalog import write_tables
from spark_assign.sources.files.snapshot_files import write_folder
from spark_assign.sources.files.tables import Shape, read_tables
from spark_assign.tables import connect
from spark_assign.tables.errors import ConfigError, SourceError
from spark_assign.tables.groups import INPUT_TABLES, SNAPSHOT_TABLES
from tests import snapshots
from tests.spark import fleets

pytestmark = pytest.mark.spark

NAMES = ("eu", "us 100%", 'it\'s/"ap"')
CONNECT = Shape("A ConnectFleet", connect.INPUT_TABLES, connect.REQUIRED_TABLES)


def members(spark: SparkSession, place: str, format: str | None = None) -> dict[str, int]:
    """How many members each cluster has."""
    rows = Fleet.read(spark, place, format=format).members.collect()
    assert len({(row.cluster, row.member_id) for row in rows}) == len(rows)
    return dict(Counter(row.cluster for row in rows))


# --- folders -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("formats", [("parquet",) * 3, ("csv",) * 3, ("json",) * 3, ("csv", "parquet", "json")])
def test_three_clusters_in_a_folder(spark: SparkSession, tmp_path: Path, formats: tuple[str, ...]) -> None:
    """Each with its rows, again after one was taken anew; of a format or of several; and a single one of them."""
    folder = str(tmp_path / "a fleet")
    homes = [
        write_folder(snapshots.of_kafka(name), folder, format)[0] for name, format in zip(NAMES, formats, strict=True)
    ]
    assert members(spark, folder) == dict.fromkeys(NAMES, 2)
    write_folder(snapshots.of_kafka(NAMES[1], members=5), folder, formats[1])
    assert members(spark, folder) == dict.fromkeys(NAMES, 2) | {NAMES[1]: 5}
    assert members(spark, str(homes[1])) == {NAMES[1]: 5}
    fleet = Fleet.read(spark, folder)
    assert fleet.replicas is not None
    assert sorted(row.replicas for row in fleet.replicas.collect()) == [[1]] * 36
    if len(set(formats)) == 1:
        return  # One plan will do, of the fleet with all formats in it.
    planned = plan(fleet, "range")
    assert {(row.cluster, row.members, row.moved) for row in planned.metrics.collect()} == {
        (NAMES[0], 2, 6),
        (NAMES[1], 5, 9),
        (NAMES[2], 2, 6),
    }


def test_as_spark_lists_it(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the driver does not see the files."""
    names = NAMES[1:]
    for name in (*names, names[0]):  # two snapshots of the first one
        write_folder(snapshots.of_required_tables(name), tmp_path / "a fleet", "csv")
    monkeypatch.setattr("spark_assign.sources.files.tables.local_path", lambda place: None)
    assert members(spark, f"file://{tmp_path}/a fleet") == dict.fromkeys(names, 2)


def test_drift_between_two_fleets(spark: SparkSession, tmp_path: Path) -> None:
    """A cluster that has not changed, one that has, and one that is new."""
    for name in NAMES[:2]:
        write_folder(snapshots.of_kafka(name), tmp_path / "monday")
    for name, size in zip(NAMES, (2, 3, 2), strict=True):
        write_folder(snapshots.of_kafka(name, size), tmp_path / "friday")
    found = find_drift(Fleet.read(spark, str(tmp_path / "monday")), Fleet.read(spark, str(tmp_path / "friday")))
    changes = {row.cluster: row.change for row in found.groups.collect()}
    assert changes == dict(zip(NAMES, ("unchanged", "changed", "added"), strict=True))


@pytest.mark.parametrize("form", ["rows", "lists"])
def test_a_topic_that_two_clusters_have(spark: SparkSession, form: str) -> None:
    """Each group gets the partitions of its own cluster."""
    members = [(cluster, "g", "m") for cluster in ("eu", "us")]
    given = fleets.fleet(
        spark,
        topics=[("eu", "t", 2), ("us", "t", 4)],
        members=members,
        subscriptions=[(*member, "t") for member in members],
        owned=[("eu", "g", "m", "t", 1), ("us", "g", "m", "t", 3)],
    )
    planned = plan(fleets.with_lists(given) if form == "lists" else given, "cooperative-sticky")
    found = sorted((row.cluster, row.partition) for row in planned.assignments.collect())
    assert found == [*(("eu", each) for each in range(2)), *(("us", each) for each in range(4))]


def test_clusters_by_hand(spark: SparkSession, tmp_path: Path) -> None:
    """Csv files with other columns in each; a mistake names its file; tables in both places are no guess."""
    for name, more in (("eu", ""), ("us", ",rack_id,note"), ("ap", ",note")):
        home = tmp_path / f"cluster={name}"
        home.mkdir()
        (home / "topics.csv").write_text(f"cluster,topic,partitions\n{name},t,3\n")
        values = {"": "", ",rack_id,note": ",r1,x", ",note": ",y"}[more]
        (home / "members.csv").write_text(f"cluster,group_id,member_id{more}\n{name},g,m{values}\n")
        (home / "subscriptions.csv").write_text(f"cluster,group_id,member_id,topic\n{name},g,m,t\n")
    found = Fleet.read(spark, str(tmp_path)).members.collect()
    assert {(row.cluster, row.rack_id, row.note) for row in found} == {
        ("eu", None, None),
        ("us", "r1", "x"),
        ("ap", None, "y"),
    }
    (tmp_path / "cluster=us" / "topics.csv").write_text("cluster,topic,partitions\nus,t,many\n")
    with pytest.raises(SourceError, match=r'topics\.partitions: "many" is not a valid int, in cluster=us/topics\.csv'):
        Fleet.read(spark, str(tmp_path))
    (tmp_path / "topics.csv").write_text("cluster,topic,partitions\neu,t,3\n")
    with pytest.raises(SourceError, match=r"topics: .* has it in itself and in cluster=ap/ as well"):
        Fleet.read(spark, str(tmp_path))


def test_tables_beside_the_clusters(spark: SparkSession, tmp_path: Path) -> None:
    """Those that no cluster has, such as the events of a simulation."""
    write_folder(snapshots.of_kafka("eu"), tmp_path)
    (tmp_path / "events.csv").write_text("cluster,at_ms\neu,5\n")
    events = StructType([StructField("cluster", StringType()), StructField("at_ms", LongType())])
    shape = Shape("A fleet with events", {**INPUT_TABLES, "events": events}, ("topics", "events"))
    assert read_tables(spark, shape, str(tmp_path))["events"].collect() == [("eu", 5)]
    write_folder(snapshots.of_kafka("us"), tmp_path)
    assert members(spark, str(tmp_path)) == {"eu": 2, "us": 2}


def test_connect_clusters_beside_them(spark: SparkSession, tmp_path: Path) -> None:
    """In the same folder; one that cannot be read any more stays as it was."""
    write_folder(snapshots.of_kafka("eu"), tmp_path)
    write_folder(snapshots.of_connect(["c1", "c2"]), tmp_path)
    write_folder(snapshots.of_connect(["c1"], tasks=3, unread=["c2"]), tmp_path)
    tasks = read_tables(spark, CONNECT, str(tmp_path))["tasks"]
    assert Counter(row.connect_cluster for row in tasks.collect()) == {"c1": 3, "c2": 2}
    assert members(spark, str(tmp_path)) == {"eu": 2}


# --- tables of a catalog -----------------------------------------------------------------------------------------


@pytest.fixture
def schema(spark: SparkSession) -> Iterator[str]:
    """An empty one."""
    spark.sql("DROP SCHEMA IF EXISTS many_clusters CASCADE")
    spark.sql("CREATE SCHEMA many_clusters")
    yield "many_clusters"
    spark.sql("DROP SCHEMA many_clusters CASCADE")


def at_once(spark: SparkSession, prefix: str, taken: list[Snapshot]) -> list[BaseException | None]:
    """Write them all at the same time; what came of each."""
    with ThreadPoolExecutor(len(taken)) as pool:
        return [each.exception() for each in [pool.submit(write_tables, one, spark, prefix) for one in taken]]


def test_three_clusters_in_a_catalog(spark: SparkSession, schema: str) -> None:
    """Written at once, into tables that are not there yet; again after one was taken anew; rows that are gone go."""
    taken = [snapshots.of_kafka(NAMES[0], undescribed=["secret"])]
    taken += [snapshots.of_required_tables(name, undescribed=["secret"]) for name in NAMES[1:]]
    assert at_once(spark, schema, taken) == [None] * 3
    assert members(spark, schema) == dict.fromkeys(NAMES, 2)
    write_tables(snapshots.of_required_tables(NAMES[2], members=4, undescribed=[]), spark, schema)
    assert members(spark, schema) == dict.fromkeys(NAMES, 2) | {NAMES[2]: 4}
    undescribed = spark.table(f"{schema}.undescribed").collect()
    assert {row.cluster for row in undescribed} == set(NAMES[:2])
    for name, declared in SNAPSHOT_TABLES.items():
        assert set(spark.table(f"{schema}.{name}").columns) == set(declared.names)


@pytest.mark.parametrize("content", ["", "1", "struct(1 AS a)", """'{"schema_version": "x"}'"""])
def test_snapshots_without_content(spark: SparkSession, schema: str, content: str) -> None:
    """A table `snapshots` that others have written: wrong input, as a folder without `schema_version`."""
    write_tables(snapshots.of_required_tables("eu"), spark, schema)
    other = spark.table(f"{schema}.snapshots").drop("content")
    other = other.withColumn("content", F.expr(content)) if content else other
    other.write.saveAsTable(f"{schema}.other")
    spark.sql(f"DROP TABLE {schema}.snapshots")
    spark.sql(f"ALTER TABLE {schema}.other RENAME TO {schema}.snapshots")
    with pytest.raises(SourceError, match=r"many_clusters\.snapshots was written by spark_assign before 0\.2"):
        Fleet.read(spark, schema)


def test_a_fault_in_one_leaves_the_others(spark: SparkSession, schema: str) -> None:
    """A cluster whose rows cannot be written: its error, and the rows of the others as they are."""
    assert at_once(spark, schema, [snapshots.of_required_tables(name) for name in NAMES]) == [None] * 3
    bad = snapshots.of_required_tables(NAMES[0], members=7)
    bad = replace(bad, tables=bad.tables | {"members": bad.tables["members"].drop_columns(["client_id"])})
    good = [snapshots.of_required_tables(name, members=3) for name in NAMES[1:]]
    fault, *others = at_once(spark, schema, [bad, *good])
    assert isinstance(fault, SourceError)
    assert "many_clusters.members is there with other columns" in str(fault)
    assert others == [None, None]
    assert members(spark, schema) == {NAMES[0]: 2, NAMES[1]: 3, NAMES[2]: 3}


def test_a_table_in_which_no_cluster_can_be_replaced(spark: SparkSession, schema: str) -> None:
    """One of Spark's own that has no partitions: refused with what to do, and untouched."""
    topics = snapshots.of_kafka("eu").tables["topics"]
    spark.createDataFrame(topics).write.saveAsTable(f"{schema}.topics")
    with pytest.raises(SourceError, match=r"a parquet table partitioned by nothing.*Drop or rename it"):
        write_tables(snapshots.of_required_tables("us"), spark, schema)
    assert [row.cluster for row in spark.table(f"{schema}.topics").collect()] == ["eu"]


def test_connect_clusters_in_a_catalog(spark: SparkSession, schema: str) -> None:
    """Several of a snapshot are replaced, another one's stay; one that cannot be read keeps what was known of it."""
    write_tables(snapshots.of_connect(["c1", "c2"]), spark, schema)
    write_tables(snapshots.of_connect(["c3"]), spark, schema)
    write_tables(snapshots.of_connect(["c1"], tasks=0, unread=["c2"]), spark, schema)
    tables = read_tables(spark, CONNECT, schema)
    assert Counter(row.connect_cluster for row in tables["tasks"].collect()) == {"c2": 2, "c3": 2}
    assert [row.connect_cluster for row in spark.table(f"{schema}.unreadable").collect()] == ["c2"]
    write_tables(snapshots.of_connect(["c2"], tasks=1), spark, schema)
    assert spark.table(f"{schema}.unreadable").isEmpty()


def test_a_table_with_a_conditional_overwrite(
    spark: SparkSession, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the rows of the snapshot's clusters are replaced. test_table_formats.py has such tables; here is a stub."""
    write_tables(snapshots.of_connect(["c1", "c2", "c3"]), spark, schema)
    replaced: dict[str, tuple[set[str], set[str]]] = {}

    def write_to(rows: DataFrame, target: str) -> SimpleNamespace:
        def overwrite(condition: Column) -> None:
            old, new = spark.table(target).where(condition).collect(), rows.collect()
            replaced[target] = ({row.connect_cluster for row in old}, {row.connect_cluster for row in new})

        return SimpleNamespace(overwrite=overwrite)

    monkeypatch.setattr(snapshot_catalog, "_provider", lambda spark, target: "delta")
    monkeypatch.setattr(type(spark.range(1)), "writeTo", write_to)
    write_tables(snapshots.of_connect(["c1", "c3"], tasks=0), spark, schema)
    assert replaced[f"{schema}.workers"] == ({"c1", "c3"}, {"c1", "c3"})
    assert replaced[f"{schema}.tasks"] == ({"c1", "c3"}, set())


def test_no_cluster_is_overwritten_by_another(spark: SparkSession, schema: str) -> None:
    """Nor is one there twice; and when each was read is told."""

    def of(cluster: str, id: str) -> Snapshot:
        return replace(snapshots.of_required_tables(cluster), source={"kafka_cluster_id": id})

    write_tables(of("eu", "A"), spark, schema)
    write_tables(of("eu", "A"), spark, schema)
    write_tables(of("us", "B"), spark, schema)
    with pytest.raises(ConfigError, match=r"another Kafka cluster as eu \(id A; this one has C\)"):
        write_tables(of("eu", "C"), spark, schema)
    with pytest.raises(ConfigError, match=r"this Kafka cluster \(id B\) already, as us"):
        write_tables(of("ap", "B"), spark, schema)
    rows = spark.table(f"{schema}.snapshots").selectExpr("cluster", "kafka_cluster_id", "unix_seconds(taken_at)")
    at = int(snapshots.TAKEN_AT.timestamp())
    assert sorted(map(tuple, rows.collect())) == [("eu", "A", at), ("us", "B", at)]


def test_the_session_is_as_it_was(spark: SparkSession, schema: str) -> None:
    """The setting that lets partitions be overwritten alone does not stay."""
    setting = snapshot_catalog._MODE
    before = spark.conf.get(setting, None)
    write_tables(snapshots.of_required_tables("eu"), spark, schema)
    assert spark.conf.get(setting, None) == before
