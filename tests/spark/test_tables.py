"""Reading a fleet: every format, missing tables, and values that do not parse."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, IntegerType, StringType, StructField, StructType

from jobs import plan as plan_job
from spark_assign import Fleet
from spark_assign.stores import typed_text
from spark_assign.stores.local_text import noun, parse_column
from spark_assign.stores.run_store import read_run
from spark_assign.tables.errors import FleetError, SourceError
from spark_assign.tables.groups import INPUT_TABLES

pytestmark = pytest.mark.spark

CSV = {
    "topics": "cluster,topic,partitions\nc,orders,3\nc,clicks,2\n",
    "members": (
        "cluster,group_id,member_id,group_instance_id,rack_id,generation_id,note,a`b.c\n"
        'c,g,m1,,r1,7,"said ""hi"", left",x\nc,g,m2,"",,,,\n'
    ),
    "subscriptions": "member_id,topic,cluster,group_id\nm1,orders,c,g\nm2,orders,c,g\n",
    "owned": "cluster,group_id,member_id,topic,partition\nc,g,m1,orders,0\n",
    "replicas": (
        'cluster,topic,partition,replicas,leader_id\nc,orders,0,"1,2,3",2\nc,orders,1,2,\nc,orders,2,"[3, 1]",3\n'
    ),
    "brokers": "cluster,broker_id,rack_id\nc,1,r1\nc,2,r2\nc,3,\n",
}


def write(folder: Path, files: dict[str, str], suffix: str = "csv") -> str:
    """A folder with one text file per table."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / f"{name}.{suffix}").write_text(content)
    return str(folder)


def rows(frame: object) -> list[dict[str, object]]:
    """A small table as sorted dicts."""
    return sorted((row.asDict() for row in frame.collect()), key=str)  # type: ignore[attr-defined]


def test_csv_is_typed_by_column_name_and_keeps_what_it_does_not_know(spark: SparkSession, tmp_path: Path) -> None:
    """Columns come in any order, quotes are doubled, lists are text, extra columns stay."""
    fleet = Fleet.read(spark, write(tmp_path, CSV))
    assert rows(fleet.topics)[0] == {"cluster": "c", "topic": "clicks", "partitions": 2, "topic_id": None}
    first, second = sorted(fleet.members.collect(), key=lambda row: row.member_id)
    assert (first.note, first.generation_id, first["a`b.c"]) == ('said "hi", left', 7, "x")
    assert (second.rack_id, second.generation_id) == (None, None)
    assert fleet.subscriptions.where("member_id = 'm1' and topic = 'orders' and group_id = 'g'").count() == 1
    assert fleet.replicas is not None
    assert [row.replicas for row in fleet.replicas.orderBy("partition").collect()] == [[1, 2, 3], [2], [3, 1]]


def test_an_empty_csv_field_is_null_and_a_quoted_one_an_empty_string(spark: SparkSession, tmp_path: Path) -> None:
    """Kafka knows empty ids, so the two must not be mixed up."""
    fleet = Fleet.read(spark, write(tmp_path, CSV))
    ids = {row.member_id: row.group_instance_id for row in fleet.members.collect()}
    assert ids == {"m1": None, "m2": ""}


@pytest.mark.parametrize("format", ["parquet", "json", "csv"])
@pytest.mark.parametrize("named", [True, False], ids=["format given", "format found"])
def test_folders_written_by_spark_are_read_back(spark: SparkSession, tmp_path: Path, format: str, named: bool) -> None:
    """A folder a table, in each format, is the same fleet."""
    source = Fleet.read(spark, write(tmp_path / "csv", CSV))
    for name in ("topics", "members", "subscriptions", "replicas"):
        frame = getattr(source, name)
        if format == "csv" and name == "replicas":
            frame = frame.selectExpr("* except (replicas)", "array_join(replicas, ',') as replicas")
        writer = frame.drop("note").write.option("escape", '"')
        writer.format(format).option("header", "true").save(str(tmp_path / "out" / name))
    fleet = Fleet.read(spark, str(tmp_path / "out"), format=format if named else None)
    for name in ("topics", "subscriptions", "replicas"):
        expected = getattr(source, name)  # a table that is read from JSON also has the optional columns, as nulls
        assert rows(getattr(fleet, name).select(expected.columns)) == rows(expected)
    assert fleet.topics.schema["partitions"].dataType == INPUT_TABLES["topics"]["partitions"].dataType
    assert fleet.brokers is None


def test_a_uri_is_listed_by_spark(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the driver cannot see the files, Spark's own listing finds the tables."""
    folder = write(tmp_path / "a fleet", CSV)
    monkeypatch.setattr("spark_assign.sources.files.tables.local_path", lambda place: None)
    fleet = Fleet.read(spark, f"file://{folder}")
    assert fleet.topics.count() == 2
    assert fleet.groups is None
    with pytest.raises(SourceError, match="there is no folder"):
        Fleet.read(spark, "file:///nowhere/at/all")


def test_catalog_tables_and_overrides(spark: SparkSession, tmp_path: Path) -> None:
    """A catalog prefix finds tables by name; one table may come from elsewhere. A command takes such locations."""
    source = Fleet.read(spark, write(tmp_path, CSV))
    spark.sql("create database if not exists fleet_read")
    for name in ("topics", "members", "subscriptions"):
        getattr(source, name).write.mode("overwrite").saveAsTable(f"fleet_read.{name}")
    fleet = Fleet.read(spark, "fleet_read", tables={"owned": str(tmp_path / "owned.csv")})
    assert rows(fleet.topics) == rows(source.topics)
    assert fleet.owned is not None
    assert fleet.owned.count() == 1
    assert fleet.brokers is None
    fleet = Fleet.read(
        spark, None, tables={name: f"fleet_read.{name}" for name in ("topics", "members", "subscriptions")}
    )
    assert fleet.members.count() == 2
    locations = ["--fleet", "fleet_read", "--output", "fleet_read", "--run-id", "r", "--output-tables", "assignments"]
    assert plan_job.main([*locations, "--assignor", "range"]) == 0
    assert read_run(spark, "fleet_read").manifest.rows == {"assignments": 3, "metrics": 1, "rejected": 0}
    with pytest.raises(SourceError, match=r"looked for the table no_such\.topics") as error:
        Fleet.read(spark, "no_such")
    assert "write ./no_such" in str(error.value)
    with pytest.raises(SourceError, match=r"owned: the catalog has no table fleet_read\.nothing"):
        Fleet.read(spark, "fleet_read", tables={"owned": "fleet_read.nothing"})


def test_all_missing_tables_are_named_with_where_they_were_looked_for(spark: SparkSession, tmp_path: Path) -> None:
    """One error for everything that is missing."""
    location = write(tmp_path, {"topics": CSV["topics"]})
    with pytest.raises(SourceError) as error:
        Fleet.read(spark, location)
    message = str(error.value)
    assert "members: looked for members.parquet, members.csv, members.json and the folder members/" in message
    assert "subscriptions: looked for" in message
    assert "topics:" not in message
    assert location in message


def test_a_table_that_is_there_twice_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Two files of one table: the user has to choose, by format."""
    location = write(tmp_path, CSV)
    write(tmp_path, {"topics": '{"cluster":"c","topic":"t","partitions":9}\n'}, "json")
    with pytest.raises(SourceError, match=r"topics: .* more than once: topics\.csv, topics\.json"):
        Fleet.read(spark, location)
    assert Fleet.read(spark, location, format="csv").topics.count() == 2


def test_csv_values_that_do_not_parse_are_named_with_column_and_row(spark: SparkSession, tmp_path: Path) -> None:
    """Never silently null: all faulty tables at once."""
    bad = {
        "topics": 'cluster,topic,partitions\nc,"or\nders",three\nc,clicks,2\nc,huge,3000000000\n',
        "owned": "cluster,group_id,member_id,topic,partition\nc,g,m1,orders,0\nc,g,m1\n",
        "replicas": 'cluster,topic,partition,replicas\nc,orders,0,"1,x"\n',
        "members": 'cluster,group_id,member_id\nc,g,m1\nc,g,"m2\nc,g,m3\n',
    }
    with pytest.raises(SourceError) as error:
        Fleet.read(spark, write(tmp_path, CSV | bad))
    message = str(error.value)
    assert (
        'topics.partitions: "three" is not a valid int, in topics.csv: '
        r"cluster=c, topic=or\nders, partitions=three" in message
    )
    assert '"3000000000"' in message
    assert "owned: the row does not have 5 fields, in owned.csv: c,g,m1" in message
    assert 'replicas.replicas: "1,x" is not a list of ints' in message
    assert "members: a quote that isn't closed, or isn't doubled" in message


def test_json_values_that_do_not_parse_are_named_with_column_and_row(spark: SparkSession, tmp_path: Path) -> None:
    """A string for an int, a fraction, and a line that is no json."""
    write(tmp_path, {name: CSV[name] for name in ("members", "subscriptions")})
    lines = [
        '{"cluster":"c","topic":"a","partitions":"3"}',
        '{"cluster":"c","topic":"b","partitions":2.5}',
        '{"cluster":"c","topic":"d","partitions":2,"extra":1}',
        "not json",
    ]
    write(tmp_path, {"topics": "\n".join(lines)}, "json")
    with pytest.raises(SourceError) as error:
        Fleet.read(spark, str(tmp_path))
    message = str(error.value)
    assert 'topics.partitions: "3" is not a valid int, in topics.json: {"cluster":"c","topic":"a"' in message
    assert "topics.partitions: 2.5 is not a valid int" in message
    assert "topics: not a json object, in topics.json: not json" in message
    assert '"d"' not in message


def test_a_missing_column_is_the_fleets_own_error(spark: SparkSession, tmp_path: Path) -> None:
    """Columns are the Fleet's to judge; the reader passes on what the header has."""
    with pytest.raises(FleetError, match=r"topics\.partitions"):
        Fleet.read(spark, write(tmp_path, CSV | {"topics": "cluster,topic\nc,orders\n"}))


@pytest.mark.once
def test_an_unknown_format_says_how_to_add_it(spark: SparkSession, tmp_path: Path) -> None:
    """Formats are Spark's; a missing package is said plainly."""
    with pytest.raises(SourceError, match="Spark does not know the format nonesuch"):
        Fleet.read(spark, write(tmp_path, CSV), format="nonesuch")
    orc = tmp_path / "orc"
    source = Fleet.read(spark, str(tmp_path), format="csv")
    for name in ("topics", "members", "subscriptions"):
        getattr(source, name).write.orc(str(orc / name))
    assert Fleet.read(spark, str(orc), format="orc").topics.count() == 2


def test_a_wrong_table_name_is_refused(spark: SparkSession) -> None:
    """A typing error in an override is found before anything is read."""
    with pytest.raises(SourceError, match="unknown table: ownd"):
        Fleet.read(spark, None, tables={"ownd": "x.y"})


def test_blanks_before_a_list_of_names(spark: SparkSession, tmp_path: Path) -> None:
    """It means the same as for files that the driver reads: quotes aren't a part of names."""
    file, kind = tmp_path / "members.csv", ArrayType(StringType())
    lists = ['["a","b"]', ' \t["a", "b"] ', "a,b", " [a,b]"]
    file.write_text("topics\n" + "".join('"{}"\n'.format(text.replace('"', '""')) for text in lists))
    table, check = typed_text.read_csv(spark, "members", StructType([StructField("topics", kind)]), [str(file)], {})
    assert [row.topics for row in table.collect()] == [["a", "b"]] * 3 + [None]
    assert check is not None
    assert [row.problem for row in check.rows.collect()] == [f'members.topics: " [a,b]" is not {noun(kind)}']
    assert [parse_column(pa.array([text]), kind)[0].to_pylist() for text in lists] == [[["a", "b"]]] * 3 + [[None]]


def test_blanks_in_a_list_take_linear_time(spark: SparkSession, tmp_path: Path) -> None:
    """A pattern over a hundred thousand blanks would backtrack for hours; brackets and blanks are optional."""
    blanks = 50_000 * " \t"
    lists = ["[1, 2]", "1,2", " [ 1 ,2 ] ", f"1{blanks},{blanks}2", f"[{blanks}1,2", "[]", f"{blanks}", "", "[1,]2"]
    file = tmp_path / "replicas.csv"
    file.write_text("replicas\n" + "".join(f'"{text}"\n' for text in lists))
    schema = StructType([StructField("replicas", ArrayType(IntegerType()))])
    table, check = typed_text.read_csv(spark, "replicas", schema, [str(file)], {})
    assert check is not None
    assert [row.replicas for row in table.collect()] == [[1, 2]] * 5 + [[], [], [], [1, None]]
    assert [row.problem for row in check.rows.collect()] == ['replicas.replicas: "[1,]2" is not a list of ints (1,2,3)']
