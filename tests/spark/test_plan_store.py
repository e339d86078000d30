"""Plans are seen whole or not at all."""

from __future__ import annotations

import gzip
import logging
import os
import re
import shutil
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_assign import Fleet, plan
from spark_assign.cli.job import Outcome
from spark_assign.report.plan_summary import summarize
from spark_assign.sources.files.snapshot_files import write_folder
from spark_assign.spark.engine import is_embedded
from spark_assign.stores import run_store, targets
from spark_assign.stores.retention import expired, remove, stored_attempts
from spark_assign.stores.run_store import previous_run, read_run, safe_run_id, write_run
from spark_assign.stores.targets import Attempt, CatalogTarget, FolderTarget
from spark_assign.tables.advice import ADVICE
from spark_assign.tables.connect import STATE
from spark_assign.tables.errors import ConfigError, SourceError, find_row_fault
from spark_assign.tables.groups import PLAN_TABLES
from spark_assign.tables.schema_fields import schema as schema_of
from spark_assign.tables.streams import DRIFT_TASKS
from tests.frames import dataframe, frame_of
from tests.snapshots import of_kafka

pytestmark = pytest.mark.spark


def small_plan(spark: SparkSession, partitions: int = 3) -> dict[str, DataFrame]:
    """A plan that is there already: group g of one member has the topic orders; group twice could not be planned."""

    def table(name: str, rows: str, count: int | str = 1) -> DataFrame:
        columns = ", ".join(
            f"cast({value} as {field.dataType.simpleString()}) as {field.name}"
            for value, field in zip(rows.split("|"), PLAN_TABLES[name], strict=True)
        )
        return spark.sql(f"select {columns} from range({count})")

    member = "'c'|'g'|'m1'|'orders'"
    return {
        "assignment_slices": table("assignment_slices", f"{member}|0|1|{partitions}"),
        "assignments": table("assignments", f"{member}|id", partitions),
        "moves": table("moves", "'c'|'g'|'orders'|0|null|'m1'|'new'"),
        "revocations": table("revocations", f"{member}|0|null", 0),
        "metrics": table("metrics", "'c'|'g'|'range'|1|3|3|3|3.0|0.5|null" + "|0" * 10 + "|null" * 14),
        "rejected": table(
            "rejected", "'c'|'twice'|'duplicate-member'|concat('two lines:', char(10), ' m, ', char(34), 'm', char(34))"
        ),
    }


class Killed(BaseException):
    """Stands for the end of the process: nothing may catch it and clean up."""


def attempts(output: Path, table: str = "assignments") -> list[str]:
    """The attempts that are on disk, whatever the manifest says."""
    return sorted(path.name for path in output.glob(f"{table}/run_id=*/attempt=*"))


def rows(frame: object) -> list[tuple[object, ...]]:
    """A small table as sorted tuples."""
    return sorted((tuple(row) for row in frame.collect()), key=str)  # type: ignore[attr-defined]


@pytest.mark.parametrize("format", ["parquet", "json", "csv"])
def test_what_is_written_is_read_back(spark: SparkSession, tmp_path: Path, format: str) -> None:
    """Every table in its declared columns and types, and a manifest that counts them."""
    planned = small_plan(spark)
    output = str(tmp_path / "a plan")
    outcome = Outcome("plan").of_run(lambda read: read("metrics").count() == 0)
    written = write_run(planned, output, run_id="first", format=format, inputs={"fleet": "here"}, outcome=outcome)
    stored = read_run(spark, output)
    assert stored.manifest == written
    ended = written.content["outcome"]
    assert (ended["job"], ended["exit_code"], ended["rows"]) == ("plan", 0, written.rows)
    assert written.content["inputs"] == {"fleet": "here"}
    assert written.content["versions"]["kafka_rules"] == "4.1 to 4.4"
    assert written.duration_s > 0
    for name, schema in PLAN_TABLES.items():
        table = stored.tables[name]
        assert table.columns == schema.fieldNames()
        assert [field.dataType for field in table.schema] == [field.dataType for field in schema]
        assert rows(table) == rows(planned[name].select(*schema.fieldNames())), name
        assert written.rows[name] == table.count(), name
    assert written.rows["assignments"] == 3
    assert written.rows["rejected"] == 1


def test_json_of_names_beyond_u_ffff(spark: SparkSession, tmp_path: Path) -> None:
    """Of planes 1, 2, and 14, read by this process and by the engine, which reads escapes of them wrongly."""
    names = ["a\U00010000", "a\U00020000", "\U00020fb7", "\U000e0001"]
    target = FolderTarget(spark, str(tmp_path), PLAN_TABLES)
    attempt = Attempt("r", "1", "json", {})
    for table in ("metrics", "rejected"):
        (row,) = small_plan(spark)[table].collect()
        frame = frame_of(spark, PLAN_TABLES[table], [{**row.asDict(), "group_id": name} for name in names])
        target.write(table, frame, attempt)
        for own in (False, True):
            assert sorted(row.group_id for row in target.read(table, attempt, own=own).collect()) == sorted(names)


@pytest.mark.once
@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_table_formats_by_path(spark: SparkSession, tmp_path: Path, format: str) -> None:
    """The embedded engine has them; Spark needs their packages (test_table_formats.py). Sail encodes paths twice."""
    planned, output = small_plan(spark), str(tmp_path / "plans")
    if not is_embedded(spark):
        with pytest.raises(SourceError, match=f"^Spark does not know the format {format}; add its package"):
            write_run(planned, output, run_id="first", format=format)
        return
    for _ in range(2):  # the second one replaces the first
        written = write_run(planned, output, run_id="first", format=format)
    stored = read_run(spark, output)
    assert stored.manifest == written
    for name, schema in PLAN_TABLES.items():
        names = schema.fieldNames()
        assert rows(stored.tables[name].select(*names)) == rows(planned[name].select(*names)), name
    assert {path.name for path in (tmp_path / "plans" / "assignments").iterdir()} == {"run_id=first"}
    columns = {
        "topics": "'c' as cluster, 't' as topic, 3 as partitions",
        "members": "'c' as cluster, 'g' as group_id, 'm' as member_id",
    }
    columns["subscriptions"] = f"{columns['members']}, 't' as topic"
    for name, text in columns.items():
        spark.sql(f"select {text}").write.format(format).save(f"file://{tmp_path}/fleet/{name}")
    fleet = Fleet.read(spark, str(tmp_path / "fleet"), format=format)
    assert rows(plan(fleet, "range").assignments.select("member_id", "partition")) == [("m", 0), ("m", 1), ("m", 2)]
    with pytest.raises(ConfigError, match=f"A {format} table in .*, whose path has blanks, .* needs Spark"):
        write_run(planned, str(tmp_path / "a plan"), run_id="first", format=format)


@pytest.mark.parametrize("format", ["parquet", "json", "csv"])
def test_texts_and_numbers_are_read_back(spark: SparkSession, tmp_path: Path, format: str) -> None:
    """An empty text, infinity (a lag that is never read), and times; a table without rows."""
    kinds = schema_of("name string?, drain_seconds double?, time timestamp?, names array<string>?")
    time = datetime(2026, 1, 1, microsecond=123_000, tzinfo=UTC)
    given = [("", float("inf"), time, [""]), ('a\n"b"', -1.5e300, None, []), (None, None, time, None)]
    tables = {"some": dataframe(spark, kinds, given), "none": dataframe(spark, kinds, [])}
    schemas = dict.fromkeys(tables, kinds)
    write_run(tables, str(tmp_path), run_id="r", format=format, schemas=schemas)
    stored = read_run(spark, str(tmp_path), schemas=schemas).tables
    assert rows(stored["some"]) == rows(tables["some"])
    assert rows(stored["none"]) == []


def test_lists_are_read_back_from_csv(spark: SparkSession, tmp_path: Path) -> None:
    """Of text and of structs: null, empty, with a null in it, and with what CSV and JSON quote."""
    items = [
        {"kind": "connector", "connector": 'a, "b"\\\n', "task": None},
        {"kind": "task", "connector": "ü", "task": 0},
    ]
    states = [
        {"connect_cluster": "null"},
        {"connect_cluster": ""},
        {"connect_cluster": "empty", "assignment": [], "candidates": []},
        {"connect_cluster": "full", "assignment": items, "candidates": ["", None, "null", 'w,"1"\\']},
    ]
    plan = {"state": frame_of(spark, STATE, states)}
    write_run(plan, str(tmp_path), run_id="r", format="csv", schemas={"state": STATE})
    stored = read_run(spark, str(tmp_path), schemas={"state": STATE}).tables["state"]
    assert [field.dataType for field in stored.schema] == [field.dataType for field in STATE]
    found = {row["connect_cluster"]: row.asDict(recursive=True) for row in stored.collect()}
    assert found == {row["connect_cluster"]: dict.fromkeys(STATE.names) | row for row in states}


def test_options_that_the_engine_refuses(spark: SparkSession, tmp_path: Path) -> None:
    """Wrong usage, with the name of the option, before anything is stored."""
    options = [("parquet", "compression", "none-such"), *([("csv", "sep", ";")] if is_embedded(spark) else [])]
    for format, name, value in options:
        with pytest.raises(ConfigError, match=f"^--output-option {name}"):
            write_run(small_plan(spark), str(tmp_path), run_id="r", format=format, options={name: value})
    assert not attempts(tmp_path)


def test_a_null_in_a_stored_run(spark: SparkSession, tmp_path: Path) -> None:
    """Of any job, also in a list: a query fails with table, column, and row."""
    schemas = {"advice": ADVICE, "tasks": DRIFT_TASKS}
    task = ("c", "g", "0", 1, "active", ["m", None], [])
    frames = {
        "advice": dataframe(spark, ADVICE, [(1, *[None] * (len(ADVICE) - 1))]),
        "tasks": dataframe(spark, DRIFT_TASKS, [task]),
    }
    write_run(frames, str(tmp_path), run_id="r", schemas=schemas)
    stored = read_run(spark, str(tmp_path), schemas=schemas).tables
    for name, column, row in (("advice", "category", "rank=1"), ("tasks", "from_members", "cluster=c, group_id=g")):
        with pytest.raises(Exception, match=r"null or out of range") as error:
            stored[name].collect()
        assert f"{name}.{column}: null or out of range: {row}, " in str(find_row_fault(error.value))


@pytest.mark.parametrize(
    ("column", "number"), [("load", float("nan")), ("load", float("-inf")), ("drain_seconds", float("nan"))]
)
def test_what_is_no_number_in_a_stored_run(spark: SparkSession, tmp_path: Path, column: str, number: float) -> None:
    """A query fails with table, column, and row: no engine rounds it, and a page would show it."""
    schemas = {"some": schema_of("name string, load double?, drain_seconds double?")}
    write_run(
        {"some": frame_of(spark, schemas["some"], [{"name": "g", column: number}, {"name": "h"}])},
        str(tmp_path),
        run_id="r",
        schemas=schemas,
    )
    with pytest.raises(Exception, match="not a finite number") as error:
        read_run(spark, str(tmp_path), schemas=schemas).tables["some"].collect()
    assert f"some.{column}: not a finite number: name=g. Correct" in str(find_row_fault(error.value))


def test_a_format_that_the_engine_does_not_know(spark: SparkSession, tmp_path: Path) -> None:
    """In the manifest of a stored run, and for a new one: an error of the input."""
    state = {"state": frame_of(spark, STATE, [{"connect_cluster": "a"}])}
    write_run(state, str(tmp_path), run_id="r", format="json", schemas={"state": STATE})
    (file,) = (tmp_path / "manifest").glob("*.json")
    file.write_text(file.read_text().replace(r"\"format\": \"json\"", r"\"format\": \"jsn\""))
    with pytest.raises(SourceError, match=r"run r: Spark does not know the format jsn; add its package"):
        read_run(spark, str(tmp_path), schemas={"state": STATE})
    with pytest.raises(SourceError, match=r"^Spark does not know the format jsn; add its package"):
        write_run(state, str(tmp_path), run_id="new", format="jsn", schemas={"state": STATE})


def test_a_stored_run_that_was_damaged(spark: SparkSession, tmp_path: Path) -> None:
    """A pipe instead of a file is never an empty table."""
    write_run(small_plan(spark), str(tmp_path), run_id="r")
    for file in (tmp_path / "metrics").rglob("*.parquet"):
        file.unlink()
        os.mkfifo(file)
    with pytest.raises(SourceError, match="run r, isn't complete"):
        read_run(spark, str(tmp_path))


def test_a_column_of_a_stored_run_with_another_type(spark: SparkSession, tmp_path: Path) -> None:
    """The error names it."""
    write_run(small_plan(spark), str(tmp_path), run_id="r")
    (file,) = (file for file in (tmp_path / "rejected").rglob("*.parquet") if pq.read_metadata(file).num_rows)
    table = pq.ParquetFile(file).read()
    pq.write_table(table.set_column(2, "code", [[[1]]]), file)
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    with pytest.raises(Exception, match=r"\bcode\b"):
        read_run(spark, str(tmp_path)).tables["rejected"].collect()


@pytest.mark.parametrize("format", ["parquet", "csv", "json"])
def test_a_stored_run_that_lacks_rows(spark: SparkSession, tmp_path: Path, format: str) -> None:
    """A file or a folder that was removed, a file that was cut, and a row that was removed or added."""
    write_run(small_plan(spark), str(tmp_path), run_id="r", format=format)
    assert read_run(spark, str(tmp_path)).manifest.rows["assignments"] == 3
    kept = {each: each.read_bytes() for each in (tmp_path / "assignments").rglob("*.*") if each.name[0] != "."}
    file = max(kept, key=lambda each: len(kept[each]))
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)  # with it, Spark finds the damage
    lines = kept[file].splitlines(keepends=True)
    texts = [b"", b"".join(lines[:1]), b"".join(lines[:-1]), b"".join([*lines, lines[-1]])]
    for text in [None, *(texts if format != "parquet" else [])]:
        if text is None:
            file.unlink()
        else:
            file.write_bytes(text)
        with pytest.raises(SourceError, match=r"run r, isn't complete: .*/assignments/.* of the 3 rows|it is empty"):
            read_run(spark, str(tmp_path))
    shutil.rmtree(file.parent)
    with pytest.raises(SourceError, match=r"run r, (isn't complete|can't be read): .*assignments/"):
        read_run(spark, str(tmp_path))


def test_what_is_replaced_on_hdfs_is_emptied(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By Spark, as pyarrow can't access HDFS. Here, local files stand for it; tests/e2e/test_yarn.py has HDFS."""
    monkeypatch.setattr(targets, "_HADOOP", ("file:",))
    output = f"file://{tmp_path}"
    manifests = [write_run(small_plan(spark, count), output, run_id="r") for count in (3, 2)]
    write_run(small_plan(spark, 4), output, run_id="other")
    for table in ("assignments", "metrics", "rejected"):
        folders = [tmp_path / table / "run_id=r" / f"attempt={manifest.attempt}" for manifest in manifests]
        assert [any(file.stat().st_size for file in each.glob("part-*")) for each in folders] == [False, True]
    assert [read_run(spark, output, run).manifest.rows["assignments"] for run in ("r", "other")] == [2, 4]
    assert read_run(spark, output, "r").tables["assignments"].count() == 2


def test_a_rerun_replaces_the_run_and_no_other(spark: SparkSession, tmp_path: Path) -> None:
    """Same run_id: the new plan, and only its files. Another run_id stays."""
    output = str(tmp_path)
    for run_id, orders in (("nightly", 3), ("other", 4), ("nightly", 5)):
        write_run(small_plan(spark, orders), output, run_id=run_id, tables=["assignments"])
    assert read_run(spark, output, "nightly").manifest.rows == {"assignments": 5, "metrics": 1, "rejected": 1}
    assert read_run(spark, output, "other").tables["assignments"].count() == 4
    assert read_run(spark, output).manifest.run_id == "nightly"
    assert len(attempts(tmp_path)) == 2
    assert spark.read.parquet(str(tmp_path / "assignments")).where("run_id = 'nightly'").count() == 5


@pytest.mark.once
@pytest.mark.parametrize("format", ["parquet", "json"])
def test_a_folder_that_only_spark_sees(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    """What Spark writes there and what is written without it are one manifest, whoever reads it."""
    output = str(tmp_path)
    for run_id, orders, hidden in (("r", 3, False), ("r", 4, True), ("s", 2, True), ("s", 6, False)):
        with monkeypatch.context() as patch:
            if hidden:
                patch.setattr(targets, "local_folder", lambda _: None)
            written = write_run(small_plan(spark, orders), output, run_id=run_id, format=format)
        counted = dict.fromkeys(PLAN_TABLES, 1) | {"assignments": orders, "revocations": 0}
        assert written.rows == counted
        here, earlier = read_run(spark, output, run_id), previous_run(spark, output, "t")
        with monkeypatch.context() as patch:
            patch.setattr(targets, "local_folder", lambda _: None)
            there = read_run(spark, output, run_id)
            assert previous_run(spark, output, "t") == earlier == run_id
        assert here.manifest == there.manifest == written
        assert here.tables["assignments"].count() == orders
        assert set(here.folders) == (set(PLAN_TABLES) if format == "parquet" else set())
        assert not there.folders
        assert summarize(here, "there") == summarize(there, "there")
    by_spark = [file.name.startswith("part-") for file in (tmp_path / "manifest").glob("*.json")]
    assert sorted(by_spark) == [False, False, True, True]


@pytest.mark.once
def test_a_manifest_that_python_cannot_read_is_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Files that somebody has compressed."""
    written = write_run(small_plan(spark), str(tmp_path), run_id="r", tables=["assignment_slices"])
    [file] = (tmp_path / "manifest").glob("*.json")
    with gzip.open(f"{file}.gz", "wb") as packed:
        packed.write(file.read_bytes())
    file.unlink()
    assert read_run(spark, str(tmp_path)).manifest == written


@pytest.mark.once
@pytest.mark.parametrize("table", ["assignments", "metrics", "manifest"])
def test_a_job_killed_in_the_middle_leaves_the_plan_that_was_there(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    """Killed before, between and after the tables: the earlier plan, whole; the next run clears up."""
    output = str(tmp_path)
    first = write_run(small_plan(spark, 3), output, run_id="r")

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        write = FolderTarget.write
        if table == "manifest":
            patch.setattr(FolderTarget, "append_manifest", die)
        else:
            patch.setattr(
                FolderTarget, "write", lambda self, name, *rest: die() if name == table else write(self, name, *rest)
            )
        with pytest.raises(Killed):
            write_run(small_plan(spark, 7), output, run_id="r")
    assert read_run(spark, output, "r").manifest == first
    assert read_run(spark, output).tables["assignments"].count() == 3
    assert len(attempts(tmp_path)) == (1 if table == "assignments" else 2)

    last = write_run(small_plan(spark, 5), output, run_id="r")
    assert attempts(tmp_path) == [f"attempt={last.attempt}"]
    assert read_run(spark, output).tables["assignments"].count() == 5


@pytest.mark.once
def test_a_failed_job_removes_what_it_wrote(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error, unlike a kill, leaves time to clear up; it is passed on."""

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(FolderTarget, "append_manifest", fail)
    with pytest.raises(OSError, match="disk full"):
        write_run(small_plan(spark), str(tmp_path), run_id="r")
    assert attempts(tmp_path) == []
    with pytest.raises(SourceError, match="has no finished run with run_id r"):
        read_run(spark, str(tmp_path), "r")


@pytest.mark.once
def test_tables_that_are_removed_before_the_run_is_complete(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By config --prune: the manifest gets no row."""

    def finish_time(previous: datetime) -> datetime:
        shutil.rmtree(tmp_path / "metrics")
        return datetime.now(UTC)

    monkeypatch.setattr(run_store, "finish_time", finish_time)
    with pytest.raises(SourceError, match=r"the run r isn't complete: another process, such as config --prune"):
        write_run(small_plan(spark), str(tmp_path), run_id="r")
    assert not list(tmp_path.glob("manifest/*"))


@pytest.mark.once
def test_an_output_that_is_a_file(spark: SparkSession, tmp_path: Path) -> None:
    """Or is below one: wrong input that names the file, not an error of the engine."""
    (tmp_path / "file").touch()
    for output in (tmp_path / "file", tmp_path / "file" / "plans"):
        with pytest.raises(SourceError, match=f"^{output} can't be written: {tmp_path / 'file'} isn't a folder$"):
            write_run(small_plan(spark), str(output), run_id="r")


def test_a_reader_beside_a_writer_sees_whole_plans(spark: SparkSession, tmp_path: Path) -> None:
    """While one run is written again and again, what is read is one of the plans and never a mixture."""
    output = str(tmp_path)
    write_run(small_plan(spark, 1), output, run_id="r", tables=["assignment_slices", "assignments"])
    failed: list[BaseException] = []
    seen = set[int]()

    def keep_writing() -> None:
        try:
            for nth in range(30):
                if seen and nth > 2:
                    break
                planned = small_plan(spark, 2 + nth % 3)
                write_run(planned, output, run_id="r", tables=["assignment_slices", "assignments"])
        except BaseException as error:
            failed.append(error)

    writer = threading.Thread(target=keep_writing)
    writer.start()
    while writer.is_alive():
        try:
            stored = read_run(spark, output, "r")
            found = (
                stored.tables["assignments"].count(),
                stored.tables["assignment_slices"].selectExpr("sum(count) as n").collect()[0]["n"],
                stored.manifest.rows["assignments"],
            )
        except Exception as error:
            # Replaced while it was read: the reader learns it, and reads again.
            if not re.search("NOT_FOUND|NOT_EXIST|does not exist", str(error)):
                raise
            continue
        assert len(set(found)) == 1
        seen.add(found[0])
    writer.join()
    assert not failed
    assert seen
    assert read_run(spark, output, "r").tables["assignments"].count() == 4


def test_catalog_tables(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same in a catalog: made on first use, appended to, replaced rows dropped with their partitions."""
    spark.sql("create database if not exists plans")
    for run_id, orders in (("r", 3), ("s", 2), ("r", 4)):
        write_run(small_plan(spark, orders), "plans", run_id=run_id)
    stored = read_run(spark, "plans", "r")
    assert stored.tables["assignments"].count() == 4
    assert stored.tables["metrics"].columns == PLAN_TABLES["metrics"].fieldNames()
    assert read_run(spark, "plans").manifest.run_id == "r"
    everything = spark.table("plans.assignments").groupBy("run_id").count().collect()
    assert {row["run_id"]: row["count"] for row in everything} == {"r": 4, "s": 2}
    monkeypatch.setattr(CatalogTarget, "remove", lambda *_, **__: None)
    write_run(small_plan(spark, 5), "plans", run_id="r", tables=["assignments"])
    assert read_run(spark, "plans", "r").tables["assignments"].count() == 5, "rows of one attempt only"


def test_a_missing_schema_is_reported(spark: SparkSession) -> None:
    """A folder's name without a slash is a catalog's: the message says so."""
    with pytest.raises(SourceError, match=r"the catalog schema nowhere doesn't exist.*for a folder write \./nowhere"):
        write_run(small_plan(spark), "nowhere", run_id="r")


@pytest.mark.once
def test_what_cannot_be_removed_is_logged(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A file system that only Spark knows: the plan is switched all the same."""
    write_run(small_plan(spark), str(tmp_path), run_id="r", tables=["assignment_slices"])

    def unreachable(*_: object, **__: object) -> None:
        raise OSError("no such file system")

    monkeypatch.setattr("pyarrow.fs.FileSelector", unreachable)
    with caplog.at_level(logging.WARNING):
        write_run(small_plan(spark), str(tmp_path), run_id="r", tables=["assignment_slices"])
    assert "stay (they are in no plan): no such file system" in caplog.text
    assert len(attempts(tmp_path, "assignment_slices")) == 2


def test_run_ids_are_made_safe_and_stay_different() -> None:
    """Airflow's ids have colons and pluses; what is safe stays as it is."""
    assert safe_run_id("nightly-2026.11_21") == "nightly-2026.11_21"
    mapped = safe_run_id("manual__2026-11-21T00:00:00+00:00")
    assert mapped.startswith("manual__2026-11-21T00_00_00_00_00-")
    assert mapped == safe_run_id("manual__2026-11-21T00:00:00+00:00")
    assert safe_run_id("a:b") != safe_run_id("a/b")
    assert re.fullmatch("_-[0-9a-f]{6}", safe_run_id("\udcff"))
    with pytest.raises(SourceError, match="run_id is empty"):
        safe_run_id(" ")


def test_an_unknown_table_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Before anything is computed."""
    with pytest.raises(SourceError, match="unknown table: moved"):
        write_run(small_plan(spark), str(tmp_path), run_id="r", tables=["moved"])


def test_other_schema_versions_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """A run of a newer release, and a snapshot of an older one, in a folder."""
    written = write_run(small_plan(spark), str(tmp_path / "plans"), run_id="r", tables=["moves"])
    (file,) = (tmp_path / "plans" / "manifest").glob("*.json")
    file.write_text(file.read_text().replace('\\"schema_version\\": 1', '\\"schema_version\\": 2'))
    with pytest.raises(SourceError, match=r"run r, was written by a newer spark_assign \(schema version 2;"):
        read_run(spark, str(tmp_path / "plans"))
    assert written.content["schema_version"] == 1
    fleet = tmp_path / "fleet"
    write_folder(of_kafka("c"), fleet)
    assert Fleet.read(spark, str(fleet)).members.count() == 2
    (file,) = fleet.glob("*/*/snapshot.json")
    file.write_text(file.read_text().replace('"schema_version": 1', '"version": 1'))
    with pytest.raises(SourceError, match=r"snapshot.json was written by spark_assign before 0.2"):
        Fleet.read(spark, str(fleet))


def test_old_runs_of_a_catalog(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    """They are listed; Parquet tables can't remove them, and the message names what can."""
    spark.sql("CREATE DATABASE IF NOT EXISTS old_plans")
    for run_id in ("first", "second"):
        write_run(small_plan(spark), "old_plans", run_id=run_id, tables=["moves"])
    found = stored_attempts(spark, "old_plans")
    assert [(each.location, each.run_id, each.size) for each in found] == [
        ("old_plans", "first", None),
        ("old_plans", "second", None),
    ]
    old = expired(found, timedelta(0), datetime.now(UTC) + timedelta(days=1))
    assert [each.run_id for each in old] == ["first"]
    with pytest.raises(SourceError, match="tables that support DELETE, such as Delta and Iceberg tables"):
        remove(spark, old)
    assert len(stored_attempts(spark, "old_plans")) == 2


def test_attempts_without_a_manifest_row_are_listed_in_a_catalog(spark: SparkSession) -> None:
    """What a killed job or a killed removal left; a table of another tool with the same columns isn't touched."""
    spark.sql("CREATE DATABASE IF NOT EXISTS left_plans")
    write_run(small_plan(spark), "left_plans", run_id="whole", tables=["moves"])
    attempt = "20200101T000000000000Z-abcdef"
    left = spark.table("left_plans.moves").withColumns({"run_id": F.lit("left"), "attempt": F.lit(attempt)})
    left.write.insertInto("left_plans.moves")
    spark.sql("CREATE TABLE left_plans.trials USING parquet AS SELECT 'r' AS run_id, 'first' AS attempt")
    found = {each.run_id: each for each in stored_attempts(spark, "left_plans")}
    assert found.keys() == {"whole", "left"}
    assert found["left"].finished_at is None
    assert found["left"].last_used_at == datetime(2020, 1, 1, tzinfo=UTC)
    assert expired(found.values(), timedelta(days=30), datetime.now(UTC)) == [found["left"]]
