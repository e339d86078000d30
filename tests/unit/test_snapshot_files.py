"""A snapshot's folder: every format, whole or not at all, never over somebody's other files."""

from __future__ import annotations

import csv
import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from spark_assign.errors import ConfigError
from spark_assign.schemas import SNAPSHOT_TABLES
from spark_assign.sources import snapshot_files, snapshot_tables
from spark_assign.sources.snapshot import Snapshot
from spark_assign.sources.snapshot_tables import SnapshotRows


def _snapshot(topics: int = 1) -> Snapshot:
    rows = SnapshotRows("prod")
    for number in range(topics):
        rows.add("topics", topic=f"t{number}", partitions=2)
    rows.add("replicas", topic="t0", partition=0, replicas=[3, 1, 2])
    rows.add("members", group_id="", member_id='a "quoted", id', rack_id=None)
    rows.add_owned("", 'a "quoted", id', [("t0", 5), ("t0", 1), ("t0", 3), ("t0", 4)])
    return Snapshot("prod", {"kind": "test"}, datetime(2026, 1, 2, tzinfo=UTC), rows.tables())


def test_parquet(tmp_path: Path) -> None:
    """A file for every table, empty ones too, with the declared columns."""
    snapshot_files.write_folder(_snapshot(), tmp_path / "fleet")
    assert {file.name for file in (tmp_path / "fleet").iterdir()} == {
        "snapshot.json",
        *(f"{table}.parquet" for table in SNAPSHOT_TABLES),
    }
    for table, schema in SNAPSHOT_TABLES.items():
        assert pq.read_schema(tmp_path / "fleet" / f"{table}.parquet").names == schema.names
    assert pq.read_table(tmp_path / "fleet" / "replicas.parquet")["replicas"].to_pylist() == [[3, 1, 2]]


def test_csv(tmp_path: Path) -> None:
    """Replicas as text, quotes doubled; null is an empty field, an empty string is quoted."""
    snapshot_files.write_folder(_snapshot(), tmp_path / "fleet", "csv")
    with (tmp_path / "fleet" / "replicas.csv").open(newline="") as file:
        assert list(csv.DictReader(file)) == [{"cluster": "prod", "topic": "t0", "partition": "0", "replicas": "3,1,2"}]
    line = (tmp_path / "fleet" / "members.csv").read_text().splitlines()[1]
    assert line == '"prod","","a ""quoted"", id",,,,,,,'


def test_json_lines(tmp_path: Path) -> None:
    """A row a line."""
    snapshot_files.write_folder(_snapshot(2), tmp_path / "fleet", "json")
    lines = (tmp_path / "fleet" / "topics.json").read_text().splitlines()
    assert [json.loads(line)["topic"] for line in lines] == ["t0", "t1"]


def test_the_next_snapshot_replaces_the_folder(tmp_path: Path) -> None:
    """As a whole: a file of the old format is gone, nothing is left beside it."""
    snapshot_files.write_folder(_snapshot(1), tmp_path / "fleet", "csv")
    snapshot_files.write_folder(_snapshot(3), tmp_path / "fleet", "json")
    assert json.loads((tmp_path / "fleet" / "snapshot.json").read_text())["rows"]["topics"] == 3
    assert not list((tmp_path / "fleet").glob("*.csv"))
    assert [file.name for file in tmp_path.iterdir()] == ["fleet"]


def test_a_job_that_dies_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed while it writes a table."""
    snapshot_files.write_folder(_snapshot(1), tmp_path / "fleet", "json")
    monkeypatch.setattr(snapshot_files.json, "dumps", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        snapshot_files.write_folder(_snapshot(3), tmp_path / "fleet", "json")
    assert len((tmp_path / "fleet" / "topics.json").read_text().splitlines()) == 1


def test_no_other_folder_is_overwritten(tmp_path: Path) -> None:
    """A folder with other things in it is refused and untouched."""
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(ConfigError, match=r"holds no snapshot\.json"):
        snapshot_files.write_folder(_snapshot(), tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize(
    ("partitions", "runs"),
    [
        ([], []),
        ([4], [(4, 1, 1)]),
        ([0, 1, 2], [(0, 1, 3)]),
        ([6, 0, 3], [(0, 3, 3)]),
        ([1, 1, 2], [(1, 1, 2)]),
    ],
)
def test_runs(partitions: list[int], runs: list[tuple[int, int, int]]) -> None:
    """Any order in, evenly spaced runs out."""
    assert snapshot_tables.runs(partitions) == runs


def test_runs_lose_nothing() -> None:
    """Whatever the set, its runs expand to it."""
    for bits in range(1 << 9):
        partitions = [number for number in range(9) if bits >> number & 1]
        expanded = [first + k * step for first, step, count in snapshot_tables.runs(partitions) for k in range(count)]
        assert sorted(expanded) == partitions
