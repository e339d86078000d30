"""Tables of several local files: other columns, other types, damaged ones, and partitions in the names of folders.

On Spark Connect, the server reads the files: it must lose no column, and name what it refuses.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_assign import Fleet
from spark_assign.sources.files import snapshot_files
from spark_assign.sources.files.snapshot import Snapshot, SnapshotRows
from spark_assign.sources.files.snapshot_offsets import Offsets
from spark_assign.sources.files.tables import Shape, read_tables
from spark_assign.spark.engine import is_embedded, shares_files
from spark_assign.stores import local_tables
from spark_assign.tables import connect
from spark_assign.tables.errors import FleetError, SourceError, find_fault, forget_tables
from spark_assign.tables.groups import INPUT_TABLES, OFFSETS
from tests.cases import cases

pytestmark = pytest.mark.spark

SHAPE = Shape("A fleet", INPUT_TABLES, ())
CSV = "cluster,topic,partitions\n"


def rows(spark: SparkSession, folder: Path, table: str = "topics") -> list[dict[str, object]]:
    """Returns the rows of a table, sorted."""
    found = read_tables(spark, SHAPE, str(folder))[table].collect()
    return sorted((row.asDict() for row in found), key=str)


def fault(spark: SparkSession, folder: Path) -> str:
    """Returns why a folder can't be read."""
    with pytest.raises(SourceError) as error:
        read_tables(spark, SHAPE, str(folder))
    return str(error.value)


def write(path: Path, **columns: object) -> None:
    """Writes a Parquet file, and the folders that it is in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table(columns), path)


def test_parquet_files_with_other_columns(spark: SparkSession, tmp_path: Path) -> None:
    """A column that a file lacks, or has only nulls of, is null, in one folder and in the folders of two clusters."""
    expected = [
        {"cluster": "c", "topic": "a", "partitions": 1, "topic_id": "x"},
        {"cluster": "c", "topic": "b", "partitions": 2, "topic_id": None},
        {"cluster": "c", "topic": "d", "partitions": 3, "topic_id": None},
    ]
    for homes in (["topics"] * 3, ["cluster=us%20100%25", "cluster=a b", "cluster=c"]):
        base = tmp_path / homes[0]
        paths = [
            base / home / ("topics.parquet" if base.name != "topics" else f"{number}.parquet")
            for number, home in enumerate(homes)
        ]
        write(paths[0], cluster=["c"], topic=["a"], partitions=pa.array([1], pa.int32()), topic_id=["x"])
        write(paths[1], topic=["b"], partitions=pa.array([2], pa.int32()), cluster=["c"])
        third = {"topic": ["d"], "partitions": pa.array([3], pa.int32()), "cluster": ["c"], "topic_id": pa.nulls(1)}
        write(paths[2], **third)
        if not shares_files(spark):  # Spark takes a column of type null for one of int
            assert "incompatible data types" in fault(spark, base)
            write(paths[2], **(third | {"topic_id": pa.nulls(1, pa.string())}))
        assert rows(spark, base) == expected


def test_parquet_files_that_do_not_fit(spark: SparkSession, tmp_path: Path) -> None:
    """All with table, file, and remedy: types that differ, a damaged footer, an empty file."""
    home = tmp_path / "topics"
    write(home / "1.parquet", cluster=["c"], topic=["a"], partitions=[1])
    write(home / "2.parquet", cluster=["c"], topic=["a"], partitions=["1"])
    (home / "3.parquet").write_bytes(b"")
    write(home / "5.parquet", cluster=["c"], Topic=["a"], partitions=[1])
    (home / "4.parquet").write_bytes((home / "1.parquet").read_bytes()[:-20])
    message = fault(spark, tmp_path)
    if not shares_files(spark):
        assert message.startswith(f"topics: file://{home} cannot be read: ")
        return
    assert message.startswith("files that cannot be read:\n")
    assert (
        f"topics: file://{home}/2.parquet cannot be read: partitions is string, but bigint in 1.parquet. "
        "Write both files with the same type" in message
    )
    assert f"topics: file://{home}/3.parquet cannot be read: it is empty. Check its name, or write" in message
    assert f"topics: file://{home}/5.parquet cannot be read: the column Topic is also called topic. Remove" in message
    assert f"topics: file://{home}/4.parquet cannot be read: " in message


def test_csv_files_of_a_table(spark: SparkSession, tmp_path: Path) -> None:
    """Other columns in each, partitions in the names of folders, and hidden files; all faults at once."""
    home = tmp_path / "topics"
    (home / "cluster=a%2Fb").mkdir(parents=True)
    (home / "cluster=__HIVE_DEFAULT_PARTITION__").mkdir()
    (home / "1.csv").write_text("topic,partitions,note\nt,1,x\n")
    (home / "cluster=a%2Fb" / "2.csv").write_text("topic,partitions\nu,2\n")
    (home / "cluster=__HIVE_DEFAULT_PARTITION__" / "3.csv").write_text("partitions,topic\n3,v\n")
    (home / "_SUCCESS").write_text("")
    if not shares_files(spark):
        assert "Csv files of one folder need the same columns" in fault(spark, tmp_path)
        return
    assert rows(spark, tmp_path) == [
        {"topic": "t", "partitions": 1, "note": "x", "cluster": None},
        {"topic": "u", "partitions": 2, "note": None, "cluster": "a/b"},
        {"topic": "v", "partitions": 3, "note": None, "cluster": None},
    ]
    (home / "1.csv").write_text("topic,partitions,topic\nt,1,x\n")
    (home / "cluster=a%2Fb" / "2.csv").write_text("topic,partitions\nu,two\n")
    message = fault(spark, tmp_path)
    assert f"topics: file://{home}/1.csv cannot be read: the header has the column topic twice" in message
    assert (
        'topics.partitions: "two" is not a valid int, in cluster=a%2Fb/2.csv: topic=u, partitions=two (row 1)'
        in message
    )


def test_a_folder_that_spark_decodes_in_another_way(spark: SparkSession, tmp_path: Path) -> None:
    """Spark reads `ä` as two characters. A folder that Spark reads itself is refused."""
    write(tmp_path / "topics" / "cluster=%C3%A4" / "1.parquet", topic=["a"], partitions=[1])
    if is_embedded(spark):
        assert rows(spark, tmp_path) == [{"topic": "a", "partitions": 1, "cluster": "ä"}]
    else:
        assert "topics has the folder cluster=%C3%A4, which Spark reads as other characters" in fault(spark, tmp_path)


def test_a_csv_file_of_thousands_of_columns(spark: SparkSession, tmp_path: Path) -> None:
    """The engine gets some that the schema lacks, and what assignors get; a message names some, each cut."""
    if not shares_files(spark):
        return
    others = [f"n{number}" * 1_000 for number in range(200)]
    names = ["cluster", "topic", *others, "user_data", "partitions"]
    (tmp_path / "topics.csv").write_text(f"{','.join(names)}\n{','.join(['c', 't', *others, 'u', '1'])}\n")
    [row] = rows(spark, tmp_path)
    assert list(row) == [*names[:52], "user_data", "partitions"]
    assert (row["partitions"], row["user_data"], row[others[49]]) == (1, "u", others[49])
    with pytest.raises(FleetError, match="the column is missing") as error:
        Fleet(*(read_tables(spark, SHAPE, str(tmp_path))["topics"].drop("partitions"),) * 3)
    assert "the table has cluster, topic, n0n0" in str(error.value)
    assert len(str(error.value)) < 50_000


def test_an_empty_csv_file_is_not_an_empty_table(spark: SparkSession, tmp_path: Path) -> None:
    """A writer failed: every table has a header, which Spark writes for one without rows, too. Parts can be empty."""
    for name, text in (("a", CSV + "c,t,1\n"), ("b", "")):
        (tmp_path / f"cluster={name}").mkdir()
        (tmp_path / f"cluster={name}" / "topics.csv").write_text(text)
    assert "cluster=b/topics.csv cannot be read: it is empty. Write a header" in fault(spark, tmp_path)
    (tmp_path / "cluster=b" / "topics.csv").unlink()
    (tmp_path / "cluster=b" / "topics").mkdir()
    for number, text in enumerate(("", CSV, "")):
        (tmp_path / "cluster=b" / "topics" / f"part-{number}.csv").write_text(text)
    assert [row["topic"] for row in rows(spark, tmp_path)] == ["t"]


def test_a_large_table(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is passed by a temporary file, with the same rows."""
    text = CSV + "".join(f"c,t{number},{number}\n" for number in range(1000))
    (tmp_path / "topics.csv").write_text(text)
    expected = rows(spark, tmp_path)
    monkeypatch.setattr(local_tables, "_MAX_BYTES_IN_MEMORY", 1000)
    assert rows(spark, tmp_path) == expected
    assert len(expected) == 1000


def test_a_damaged_page(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is found when the query reads it: wrong input with the file, as a damaged footer."""
    monkeypatch.setattr(local_tables, "_MAX_PARQUET_BYTES_IN_MEMORY", 0)
    path = tmp_path / "topics.parquet"
    write(path, cluster=["c"], topic=["a" * 1_000], partitions=[1])
    content = path.read_bytes()
    path.write_bytes(content[:4] + b"\xff" * (len(content) // 4) + content[4 + len(content) // 4 :])
    with pytest.raises(Exception, match=r"topics\.parquet") as error:
        read_tables(spark, SHAPE, str(tmp_path))["topics"].collect()
    assert isinstance(find_fault(error.value), SourceError)
    assert "topics.parquet cannot be read" in str(find_fault(error.value))


def test_a_damaged_delta_table(spark: SparkSession, tmp_path: Path) -> None:
    """An error of a query doesn't name the table: each is read alone, and a sound one isn't blamed."""
    if not is_embedded(spark):
        return
    fields = [{"name": name, "type": "string", "nullable": True, "metadata": {}} for name in ("cluster", "topic")]
    for home in (tmp_path / "topics", tmp_path / "members"):
        write(home / "a.parquet", cluster=["c"], topic=["t"])
        file = {"path": "a.parquet", "partitionValues": {}, "size": (home / "a.parquet").stat().st_size}
        schema = {"id": "x", "format": {"provider": "parquet", "options": {}}, "partitionColumns": []}
        log = [
            {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
            {
                "metaData": {
                    **schema,
                    "configuration": {},
                    "schemaString": json.dumps({"type": "struct", "fields": fields}),
                }
            },
            {"add": {**file, "modificationTime": 1, "dataChange": True}},
        ]
        (home / "_delta_log").mkdir()
        (home / "_delta_log" / f"{0:020}.json").write_text("".join(f"{json.dumps(each)}\n" for each in log))
    forget_tables()
    tables = read_tables(spark, SHAPE, str(tmp_path), format="delta")
    with pytest.raises(PySparkException) as sound:
        tables["members"].select(F.raise_error(F.col("topic"))).collect()
    assert find_fault(sound.value) is None
    (tmp_path / "topics" / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(PySparkException) as damaged:
        tables["topics"].collect()
    assert re.fullmatch(
        rf"topics: file://{tmp_path}/topics cannot be read: .*\. Write or copy it again", str(find_fault(damaged.value))
    )
    forget_tables()
    assert find_fault(damaged.value) is None


def test_a_type_that_spark_lacks(spark: SparkSession, tmp_path: Path) -> None:
    """Wrong input, with file and column."""
    write(tmp_path / "topics.parquet", cluster=["c"], topic=["a"], partitions=[1], more=pa.array([1], pa.uint64()))
    if is_embedded(spark):
        assert "topics.parquet cannot be read: more is uint64, a type that Spark lacks" in fault(spark, tmp_path)


def test_offsets_of_a_snapshot(spark: SparkSession, tmp_path: Path) -> None:
    """Their time is in `snapshot.json`, an object in several lines."""
    (tmp_path / "offsets.csv").write_text(",".join(OFFSETS.names) + "\nc,g,t,0,1,2,1\n")
    summary = {"schema_version": 1, "cluster": "c", "taken_at": "2026-11-23T12:00:00Z", "source": {"x": 1}}
    (tmp_path / "snapshot.json").write_text(json.dumps(summary, indent=2))
    [row] = Offsets.read(spark, str(tmp_path)).snapshots.collect()
    assert (row.cluster, row.kafka_cluster_id) == ("c", None)
    assert row.taken_at.isoformat().startswith("2026-11-23T12:00:00")


@cases("format", "csv", "json", "parquet")
def test_a_snapshot_that_lacks_rows(spark: SparkSession, tmp_path: Path, format: str) -> None:
    """A table that was removed, emptied, or cut is wrong input. A correction, a row, or a column more is none."""
    read = SnapshotRows("c")
    for topic in ("a", "b"):
        read.add("topics", topic=topic, partitions=1)
    read.add_owned("g", "m", [("a", 0)])
    snapshot_files.write_folder(Snapshot("c", {}, datetime.now(UTC), read.tables()), tmp_path, format)
    if not shares_files(spark):
        return
    assert len(rows(spark, tmp_path)) == 2
    (file,), (owned,) = tmp_path.rglob(f"topics.{format}"), tmp_path.rglob(f"owned_lists.{format}")
    whole = file.read_bytes()
    for kept in (1, 0):
        if format == "parquet":
            parquet.write_table(parquet.read_table(file, partitioning=None)[:kept], file)
        else:
            file.write_bytes(b"".join(whole.splitlines(keepends=True)[: kept + (format == "csv")]))
        assert f"{file.name} cannot be read: it has {kept} of the 2 rows in snapshot.json" in fault(spark, tmp_path)
    file.write_bytes(whole if format == "parquet" else whole.replace(b"1", b"3") + whole.splitlines()[-1] + b"\n")
    assert len(rows(spark, tmp_path)) == 2 + (format != "parquet")
    content = owned.read_bytes()
    owned.unlink()
    message = f"owned_lists: {owned.parent} lacks it, but snapshot.json there has 1 row of it. Take the snapshot again"
    assert message in fault(spark, tmp_path)
    (tmp_path / "owned.csv").write_text("cluster,group_id,member_id,topic,partition\n")
    given = {"owned_lists": f"{tmp_path}/elsewhere.{format}"}
    (tmp_path / f"elsewhere.{format}").write_bytes(content)
    assert read_tables(spark, SHAPE, str(tmp_path), tables=given)["owned_lists"].count() == 1
    (owned.parent / "owned.csv").write_text("cluster,group_id,member_id,topic,partition\nc,g,m,a,0\n")
    (tmp_path / "owned.csv").unlink()
    assert len(rows(spark, tmp_path, "owned")) == 1
    (owned.parent / "snapshot.json").write_text("half")
    assert "snapshot.json isn't the summary of a snapshot: it isn't valid JSON" in fault(spark, tmp_path)


def test_a_worker_that_is_removed(spark: SparkSession, tmp_path: Path) -> None:
    """docs/connect-snapshot.md says so; other tables of a Connect cluster still need their rows."""
    (tmp_path / "snapshot.json").write_text('{"schema_version": 1, "rows": {"workers": 2, "clusters": 2}}')
    shape = Shape("x", {name: connect.INPUT_TABLES[name] for name in ("workers", "clusters")}, ())
    for name in ("workers", "clusters"):
        (tmp_path / f"{name}.json").write_text('{"connect_cluster": "c"}\n')
    if shares_files(spark):
        with pytest.raises(SourceError) as error:
            read_tables(spark, shape, str(tmp_path))
        assert "clusters.json cannot be read: it has 1 of the 2 rows" in str(error.value)
        assert "workers.json" not in str(error.value)


def test_a_dead_engine_is_not_blamed_on_a_table(spark: SparkSession, tmp_path: Path) -> None:
    """Its error is passed on as it is."""

    class Dead:
        """A session whose JVM has died."""

        conf = spark.conf

        @property
        def read(self) -> object:
            raise ConnectionRefusedError(111, "Connection refused")

    write(tmp_path / "topics.parquet", cluster=["c"], topic=["a"], partitions=[1])
    with pytest.raises(ConnectionRefusedError):
        read_tables(Dead(), SHAPE, str(tmp_path), tables={"members": f"{tmp_path}/topics.parquet"})  # type: ignore[arg-type]
