"""`snapshot --clusters`: several clusters at a time, of which some can't be read."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from jobs import snapshot
from spark_assign.sources.connect import cluster_snapshot as connect
from spark_assign.sources.connect import group as connect_group
from spark_assign.sources.files.snapshot import Snapshot
from spark_assign.sources.kafka import cluster_snapshot as kafka
from spark_assign.tables.errors import SourceError
from tests import snapshots
from tests.cases import cases

FILE = """
[clusters.prod]
bootstrap_server = "prod:9092"
command-config = "prod.properties"
connect_url = "etl=http://etl:8083"
[clusters.eu]
bootstrap_server = "eu:9092"
group = ["payments-*"]
[clusters.down]
bootstrap_server = "down:9092"
[clusters.down.labels]
tier = "1"
[[owners]]
team = "platform"
"""


class Clusters:
    """What is read of each cluster; the cluster `down` can't be read once `broken` is set."""

    def __init__(self, taken: datetime) -> None:
        self.broken, self.taken, self.calls = False, taken, dict[str, dict[str, Any]]()

    def kafka(self, servers: str, *, cluster: str, **options: Any) -> Snapshot:
        """Stands for the snapshot of a Kafka cluster."""
        self.calls[cluster] = {"servers": servers, **options}
        if cluster == "down" and self.broken:
            raise SourceError("Kafka at down:9092: no connection.")
        return Snapshot(cluster, {"kafka_cluster_id": servers}, self.taken, snapshots.of_kafka(cluster).tables)

    def connect(self, targets: Any, **_: Any) -> Snapshot:
        """Stands for the snapshot of Connect clusters, one of which is never read."""
        return snapshots.of_connect([target.name for target in targets], unread=["lost"])


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Clusters:
    """Clusters that exist only here, and their file."""
    found = Clusters(datetime.now(UTC) - timedelta(hours=30))
    monkeypatch.setattr(kafka, "snapshot", found.kafka)
    monkeypatch.setattr(connect, "snapshot", found.connect)
    monkeypatch.setattr(snapshot, "ClusterConnection", lambda *_: nullcontext())
    monkeypatch.setattr(connect_group, "read", lambda *_: [])
    (tmp_path / "clusters.toml").write_text(FILE)
    (tmp_path / "prod.properties").write_text("client.id=x\n")
    return found


@pytest.fixture
def call(tmp_path: Path) -> Callable[..., int]:
    """Calls the job with the file of the clusters."""
    given = ["--clusters", str(tmp_path / "clusters.toml"), "--fleet-dir", str(tmp_path / "fleet")]
    return lambda *words: snapshot.main([*given, *words])


def test_a_store_that_cannot_be_read(
    clusters: Clusters,
    call: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The age of the last snapshot is unknown, for example without a free descriptor. The others are stored."""

    def no_descriptor(*_: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(snapshot, "last_snapshot_time", no_descriptor)
    clusters.broken = True
    assert call() == 3
    output = capsys.readouterr()
    assert "down: not read: Kafka at down:9092: no connection. The last snapshot can't be read: " in output.err
    assert "Too many open files" in output.err
    assert "snapshots written to" in output.out


def test_one_cluster_is_down(
    clusters: Clusters, call: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others are stored; the exit code is 3, and the age of the last snapshot of each that failed is printed."""
    clusters.broken = True
    assert call() == 3
    assert "down: not read: Kafka at down:9092: no connection. No earlier snapshot.\n" in capsys.readouterr().err
    clusters.broken = False
    assert call() == 3
    found = sorted(each.name for each in (tmp_path / "fleet").iterdir())
    assert found == [*("cluster=down", "cluster=eu", "cluster=prod", "connect_cluster=etl", "connect_cluster=lost")]
    clusters.broken = True
    capsys.readouterr()
    assert call("--outcome", str(tmp_path / "outcome.json")) == 3
    printed = capsys.readouterr()
    old = f"{clusters.taken:%Y-%m-%d %H:%M:%S} UTC, 30.0 h old."
    assert f"down: not read: Kafka at down:9092: no connection. Last snapshot: {old}\n" in printed.err
    assert "lost (Connect): not read: no answer. Last snapshot: 2026-01-02 00:00:00 UTC, " in printed.err
    assert "prod: " in printed.out
    assert f"3 of 4 snapshots written to {tmp_path / 'fleet'}\n" in printed.out
    outcome = json.loads((tmp_path / "outcome.json").read_text())
    assert outcome["counts"] == {"snapshots": 4, "failed": 2}
    failure = "not read: down: Kafka at down:9092: no connection; lost: no answer"
    assert outcome["error"] == {"kind": "SourceError", "message": failure}
    assert outcome["rows"]["members"] == 4


def test_each_has_its_options(clusters: Clusters, call: Callable[..., int], tmp_path: Path) -> None:
    """Paths start from the file; flags hold for all clusters that don't have their own."""
    call("--group", "other-*", "--rates-since", "5m")
    assert clusters.calls["prod"]["properties"] == {"client.id": "x"}
    assert clusters.calls["prod"]["groups"] == ("other-*",)
    assert clusters.calls["eu"]["groups"] == ["payments-*"]
    assert {each["loads"].since_s for each in clusters.calls.values()} == {300}


@pytest.mark.parametrize("path", ["~nobody-of-this-name/x", "a\\u0000b"])
def test_a_path_that_nothing_can_have(
    clusters: Clusters, call: Callable[..., int], tmp_path: Path, path: str, capfd: Any
) -> None:
    """It costs its own cluster only."""
    (tmp_path / "clusters.toml").write_text(
        f'{FILE}\n[clusters.bad]\nbootstrap_server = "b:1"\ncommand_config = "{path}"\n'
    )
    assert call() == 3
    assert "bad: not read: client properties " in capfd.readouterr().err
    assert sorted(clusters.calls) == ["down", "eu", "prod"]


def test_some_of_the_clusters(clusters: Clusters, call: Callable[..., int], caplog: pytest.LogCaptureFixture) -> None:
    """`--cluster` is a shell pattern of their names."""
    assert call("--cluster", "e*") == 0
    assert list(clusters.calls) == ["eu"]
    assert call("--cluster", "none") == 2
    assert "--cluster none: no cluster of " in caplog.text


def test_at_most_so_many_at_a_time(
    clusters: Clusters, call: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--parallel` is a bound."""
    running, most, lock, two = [0], [0], threading.Lock(), threading.Event()

    def read(servers: str, **options: Any) -> Snapshot:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
            if running[0] == 2:
                two.set()
        two.wait(10)
        with lock:
            running[0] -= 1
        return clusters.kafka(servers, **options)

    monkeypatch.setattr(kafka, "snapshot", read)
    call("--parallel", "2")
    assert most == [2]


def test_a_cluster_with_two_names(
    clusters: Clusters, call: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also if both are read at the same time, only one of the names is stored."""
    table = '[clusters.{}]\nbootstrap_server = "eu:9092"\n'
    (tmp_path / "clusters.toml").write_text(table.format("eu") + table.format("twin"))
    assert call() == 3
    assert "has this Kafka cluster (id eu:9092) already, as " in capsys.readouterr().err
    assert len(list((tmp_path / "fleet").glob("cluster=*"))) == 1


@cases(
    "text words error",
    ("", [], "expected a table [clusters.NAME] for each cluster, and [[owners]]."),
    ("[shop]\n", [], "expected a table [clusters.NAME] for each cluster, and [[owners]]. Found: shop."),
    ("[clusters.a.labels]\ntier = 1\n", [], "clusters.a.labels isn't a table of strings, such as tier"),
    ("[clusters.a]\n[[owners]]\ngroup = '*'\n", [], "owners, entry 1: team is required"),
    ("clusters.a = 1\n", [], "clusters.a isn't a table. Start it with [clusters.a]."),
    ("[clusters.a]\nbootstrap_servers = 'b'\n", [], "[clusters.a]: unknown key bootstrap_servers. Did you mean "),
    ("[clusters.a]\nconnect_ca = 'f'\n", [], "[clusters.a]: --connect-ca needs --connect-url."),
    ("[clusters.a]\n", [], "[clusters.a]: Use --bootstrap-server, --connect-url, "),
    (FILE, ["--cluster-name", "c"], "--cluster-name can't be used with --clusters: set it in the file."),
    ("[clusters.a]\nconnect_url = 'u'\nconnect_timeout = '0s'\n", [], "'--connect-timeout': expected above 0 s."),
    (
        "[clusters.a]\nconnect_attempts = 9999999999\n",
        [],
        "connect_attempts is 9999999999, expected 1,000,000,000 or less",
    ),
)
def test_wrong_files(
    call: Callable[..., int], tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str, words: list[str], error: str
) -> None:
    """Nothing is read; the file, the table, and the key are named."""
    (tmp_path / "clusters.toml").write_text(text)
    assert call(*words) == 2
    assert error in caplog.text
