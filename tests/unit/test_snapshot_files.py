"""A snapshot's folder: every format, whole or not at all, never over another cluster or somebody's other files."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from spark_assign.sources.files import snapshot as snapshot_tables
from spark_assign.sources.files import snapshot_files
from spark_assign.sources.files.snapshot import Snapshot, SnapshotRows
from spark_assign.stores import locations
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.groups import SNAPSHOT_TABLES


def _snapshot(topics: int = 1) -> Snapshot:
    rows = SnapshotRows("prod")
    for number in range(topics):
        rows.add("topics", topic=f"t{number}", partitions=2)
    rows.add("replicas", topic="t0", partition=0, replicas=[3, 1, 2])
    rows.add("members", group_id="", member_id='a "quoted", id', rack_id=None)
    rows.add_owned("", 'a "quoted", id', [("t0", 5), ("t0", 1), ("t0", 3), ("t0", 4)])
    return Snapshot("prod", {"kind": "test"}, datetime(2026, 1, 2, tzinfo=UTC), rows.tables())


def _tables(fleet: Path, cluster: str = "cluster=prod") -> Path:
    """Where the tables of a cluster are that count."""
    partitions = locations.split_by_cluster(_names(fleet), "cluster")
    [folder] = [fleet / p for p in partitions if p.startswith(f"{cluster}/")]
    return folder


def _names(folder: Path) -> list[str]:
    return [str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()]


def test_parquet(tmp_path: Path) -> None:
    """A file for every table, empty ones too, with the declared columns."""
    assert snapshot_files.write_folder(_snapshot(), tmp_path / "fleet") == [tmp_path / "fleet" / "cluster=prod"]
    folder = _tables(tmp_path / "fleet")
    assert {file.name for file in folder.iterdir()} == {
        "snapshot.json",
        *(f"{table}.parquet" for table in SNAPSHOT_TABLES),
    }
    for table, schema in SNAPSHOT_TABLES.items():
        assert pq.read_schema(folder / f"{table}.parquet").names == schema.names
    assert pq.read_table(folder / "replicas.parquet", partitioning=None)["replicas"].to_pylist() == [[3, 1, 2]]


def test_csv(tmp_path: Path) -> None:
    """Replicas as text, quotes doubled; null is an empty field, an empty string is quoted."""
    snapshot_files.write_folder(_snapshot(), tmp_path / "fleet", "csv")
    with (_tables(tmp_path / "fleet") / "replicas.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
        names = ("leader_id", "adding_replicas", "removing_replicas", "end_offset", "bytes")
        unknown = dict.fromkeys(names, "")
        assert row == {"cluster": "prod", "topic": "t0", "partition": "0", "replicas": "3,1,2", **unknown}
    line = (_tables(tmp_path / "fleet") / "members.csv").read_text().splitlines()[1]
    assert line == '"prod","","a ""quoted"", id",,,,,,,,,,'


def test_json_lines(tmp_path: Path) -> None:
    """A row a line."""
    snapshot_files.write_folder(_snapshot(2), tmp_path / "fleet", "json")
    lines = (_tables(tmp_path / "fleet") / "topics.json").read_text().splitlines()
    assert [json.loads(line)["topic"] for line in lines] == ["t0", "t1"]


def test_the_next_snapshot_counts(tmp_path: Path) -> None:
    """As a whole; the one before stays for its readers until there is a third."""
    fleet = tmp_path / "fleet"
    kept = []
    for topics, format in ((1, "csv"), (3, "json"), (4, "json")):
        snapshot_files.write_folder(_snapshot(topics), fleet, format)
        kept.append(_tables(fleet))
        assert json.loads((kept[-1] / "snapshot.json").read_text())["rows"]["topics"] == topics
        assert len(list(kept[-1].glob(f"*.{format}"))) >= len(SNAPSHOT_TABLES)
    assert [folder.exists() for folder in kept] == [False, True, True]
    assert sorted(kept) == kept
    assert [file.name for file in tmp_path.iterdir()] == ["fleet"]


def test_a_clock_that_goes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written last counts, whichever machine wrote it."""
    snapshot_files.write_folder(_snapshot(1), tmp_path, "json")

    class Earlier(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            return datetime(2020, 1, 1, tzinfo=tz)

    monkeypatch.setattr(snapshot_files, "datetime", Earlier)
    snapshot_files.write_folder(_snapshot(3), tmp_path, "json")
    assert len((_tables(tmp_path) / "topics.json").read_text().splitlines()) == 3


def test_no_snapshot_is_later_than_the_last_time(tmp_path: Path) -> None:
    """A folder of another writer is named."""
    last = tmp_path / "cluster=prod" / "taken=99991231T235959999999Z-x"
    last.mkdir(parents=True)
    (last / "snapshot.json").write_text("{}")
    with pytest.raises(ConfigError, match=f"{last.name}: not the name of a snapshot of ours"):
        snapshot_files.write_folder(_snapshot(), tmp_path)


def test_a_job_that_dies_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed while it writes a table, or right before it is done."""
    fleet = tmp_path / "fleet"
    snapshot_files.write_folder(_snapshot(1), fleet, "json")
    before = _names(fleet)
    for module, name in ((snapshot_files.json, "dumps"), (Path, "rename")):
        with monkeypatch.context() as broken:
            broken.setattr(module, name, lambda *_, **__: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                snapshot_files.write_folder(_snapshot(3), fleet, "json")
        assert _names(fleet) == before


def test_no_other_folder_is_written_to(tmp_path: Path) -> None:
    """A folder with other things in it is refused and untouched, as is what isn't a folder of this machine."""
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(ConfigError, match=r"holds thesis\.txt, but no folder cluster=… of a fleet"):
        snapshot_files.write_folder(_snapshot(), tmp_path)
    with pytest.raises(ConfigError, match="is a file"):
        snapshot_files.write_folder(_snapshot(), tmp_path / "thesis.txt")
    with pytest.raises(ConfigError, match="a folder of this machine, or tables to a catalog"):
        snapshot_files.write_folder(_snapshot(), "s3a://bucket/fleet")
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]


def test_the_tables_of_one_cluster_are_not_mixed_with_a_fleet(tmp_path: Path) -> None:
    """A folder that is one cluster itself is refused with what to do; once that is done it is the one before."""
    (tmp_path / "topics.csv").write_text("cluster,topic,partitions\nprod,t,1\n")
    (tmp_path / "snapshot.json").write_text('{"cluster": "prod"}')
    with pytest.raises(ConfigError, match=f"Move them to {tmp_path}/cluster=prod, or"):
        snapshot_files.write_folder(_snapshot(), tmp_path)
    home = tmp_path / "cluster=prod"
    home.mkdir()
    for name in ("topics.csv", "snapshot.json"):
        (tmp_path / name).rename(home / name)
    with pytest.raises(ConfigError, match=f"Name the fleet's: {tmp_path}$"):
        snapshot_files.write_folder(_snapshot(), home)
    assert _tables(tmp_path) == home
    snapshot_files.write_folder(_snapshot(), tmp_path)
    assert _tables(tmp_path).parent == home
    snapshot_files.write_folder(_snapshot(), tmp_path)
    assert all(name.name.startswith("taken=") for name in home.iterdir())


def test_no_cluster_is_overwritten_by_another(tmp_path: Path) -> None:
    """By its name, by the id of the Kafka cluster, and where a file system takes two names for one."""

    def of(cluster: str, id: str) -> Snapshot:
        return replace(_snapshot(), cluster=cluster, source={"kafka_cluster_id": id})

    snapshot_files.write_folder(of("prod", "A"), tmp_path, "json")
    with pytest.raises(ConfigError, match=r"holds another Kafka cluster \(id A; this one has B\)"):
        snapshot_files.write_folder(of("prod", "B"), tmp_path, "json")
    with pytest.raises(ConfigError, match=r"has this Kafka cluster \(id A\) already, as prod"):
        snapshot_files.write_folder(of("A", "A"), tmp_path, "json")
    (tmp_path / "cluster=prod").rename(tmp_path / "cluster=Prod")
    with pytest.raises(ConfigError, match="holds the cluster prod; this one is called Prod"):
        snapshot_files.write_folder(of("Prod", "B"), tmp_path, "json")
    (tmp_path / "cluster=eu").mkdir()
    (tmp_path / "cluster=eu" / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"has no snapshot\.json"):
        snapshot_files.write_folder(of("eu", "E"), tmp_path, "json")


def test_what_others_have_put_there(tmp_path: Path) -> None:
    """A folder with the name of a table, and links in a circle in the place of another cluster, end no snapshot."""
    own = replace(_snapshot(), source={"kafka_cluster_id": "A"})
    snapshot_files.write_folder(own, tmp_path)
    (tmp_path / "cluster=prod" / "topics.csv").mkdir()
    (tmp_path / "cluster=loop").symlink_to("cluster=loop")
    (tmp_path / "cluster=eu").mkdir()
    (tmp_path / "cluster=eu" / "taken=1").symlink_to("taken=1")
    snapshot_files.write_folder(own, tmp_path)
    assert len([*(tmp_path / "cluster=prod").glob("taken=*")]) == 2


@pytest.mark.parametrize("name", ["a/../b", "..", "a b", "naïve", "x=y", "100%", "*?[a]{b}", "n" * 500, "é" * 200])
def test_odd_names(tmp_path: Path, name: str) -> None:
    """Every name has one folder of its own, right in that of the fleet."""
    [home] = snapshot_files.write_folder(replace(_snapshot(), cluster=name), tmp_path)
    assert home.parent == tmp_path
    assert [each.name for each in tmp_path.iterdir()] == [home.name]
    assert json.loads((_tables(tmp_path, home.name) / "snapshot.json").read_text())["cluster"] == name
    assert locations.folder_name("cluster", f"{name}x") != home.name


@pytest.mark.parametrize(
    ("partitions", "runs"),
    [([], []), ([4], [(4, 1, 1)]), ([0, 1, 2], [(0, 1, 3)]), ([6, 0, 3], [(0, 3, 3)]), ([1, 1, 2], [(1, 1, 2)])],
)
def test_runs(partitions: list[int], runs: list[tuple[int, int, int]]) -> None:
    """Any order in, evenly spaced runs out."""
    assert snapshot_tables.to_slices(partitions) == runs


def test_runs_lose_nothing() -> None:
    """Whatever the set, its runs expand to it."""
    for bits in range(1 << 9):
        partitions = [number for number in range(9) if bits >> number & 1]
        expanded = [f + k * step for f, step, count in snapshot_tables.to_slices(partitions) for k in range(count)]
        assert sorted(expanded) == partitions


def test_lists_of_names_in_csv(tmp_path: Path) -> None:
    """Names are separated by commas; if a name has a comma, the list is JSON."""
    rows = SnapshotRows("c")
    rows.add_subscriptions("g", {"m1": ["t", "u"], "m2": ["u", "t"], "one, or two": ["t"], "none": []})
    taken_at = datetime(2026, 1, 2, tzinfo=UTC)
    snapshot_files.write_folder(Snapshot("c", {"kind": "test"}, taken_at, rows.tables()), tmp_path / "out", "csv")
    [path] = tmp_path.glob("out/cluster=c/taken=*/subscription_lists.csv")
    with path.open(newline="") as file:
        lists = [(row["member_ids"], row["topics"]) for row in csv.DictReader(file)]
    assert lists == [("m1,m2", "t,u"), ('["one, or two"]', "t")]


@pytest.mark.parametrize(
    "taken", ['"x"', "5", "null", '"2026-01-01T00:00:00"', '"0001-01-01T00:00:00+14:00"', '{"a": 1}']
)
def test_a_summary_whose_time_is_none(tmp_path: Path, taken: str) -> None:
    """The cluster has no snapshot, and the other clusters of `daily` are reported."""
    for folder in (tmp_path / "cluster=c", tmp_path):
        folder.mkdir(exist_ok=True)
        (folder / "snapshot.json").write_text(f'{{"cluster": "c", "taken_at": {taken}}}')
    assert snapshot_files.last_taken(tmp_path, "cluster", "c") is None
    assert snapshot_files.summarized(tmp_path) == ("c", None)
    for text in ("[", r'{"cluster": "\ud800"}', " " * (65 << 20)):
        (tmp_path / "snapshot.json").write_text(text)
        assert snapshot_files.summarized(tmp_path) is None
