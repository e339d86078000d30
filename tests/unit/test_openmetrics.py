"""A plan's figures as OpenMetrics: read back by the library's own parser, and whole on disk."""

from __future__ import annotations

import errno
import re
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.cases import keyed

pytest.importorskip("prometheus_client", reason="metrics are an extra")

from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_prometheus

from spark_assign.cli.options import require_output
from spark_assign.report.openmetrics import Figures, expose
from spark_assign.stores.locations import publish
from spark_assign.tables.errors import SourceError
from tests.unit.report_rows import group

MONITORING = Path(__file__).parents[2] / "conf" / "monitoring"
ODD = 'a "b"\\c\nd'


def figures(drifted: bool = True) -> Figures:
    """Two groups, one of them without partitions and with a name that has to be escaped; one was rejected."""
    changed = {"cluster": "c", "group_id": ODD, "moved": 3, "newly_owned": 0, "no_longer_owned": 1}
    return Figures(
        run_id="nightly",
        finished_s=1_763_800_000.5,
        groups=[group(1, 5, 85, 58, 26, unassigned=4, withheld=3), group(2, 0, 0, 0, 0, group_id=ODD)],
        planned=[{"cluster": "cluster-1", "groups": 2}],
        rejected=[{"cluster": "cluster-1", "code": "duplicate-member", "groups": 7}],
        drifted=[changed] if drifted else None,
    )


@pytest.mark.parametrize("read", [read_openmetrics, read_prometheus], ids=["openmetrics", "node exporter's format"])
def test_what_is_read_back(read: object) -> None:
    """Every figure with its labels; what is null is left out."""
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in read(expose(figures()).decode())  # type: ignore[operator]
        for sample in family.samples
    }
    name = "team-01.service-00001-consumer"
    assert {key[0].removeprefix("spark_assign_group_"): value for key, value in found.items() if name in key} == {
        "imbalance_ratio": 26 / 17,
        **keyed("over_share_partitions=9 moved_partitions=58 revoked_partitions=58 unowned_partitions=1"),
    }
    assert ("spark_assign_group_imbalance_ratio", "cluster-2", ODD) not in found
    assert found["spark_assign_group_moved_partitions", "cluster-2", ODD] == 0
    assert found["spark_assign_planned_groups", "cluster-1"] == 2
    assert found["spark_assign_rejected_groups", "cluster-1", "duplicate-member"] == 7
    assert found["spark_assign_plan_finished_timestamp_seconds", "nightly"] == 1_763_800_000.5
    drifted = {key[1]: value for key, value in found.items() if key[0] == "spark_assign_group_drift_partitions"}
    assert drifted == {"moved": 3, "no_longer_owned": 1}


def test_without_drift() -> None:
    """Nothing is said of it."""
    assert b"drift" not in expose(figures(drifted=False))


def test_clusters() -> None:
    """The time of each snapshot; 1 for a cluster that couldn't be read, which might have no snapshot."""
    taken = datetime(2026, 11, 27, tzinfo=UTC)
    text = expose(Figures(clusters=[cluster("a", taken), cluster("b", None, "No snapshot.")])).decode()
    assert [line for line in text.splitlines() if not line.startswith("#")] == [
        'spark_assign_cluster_snapshot_timestamp_seconds{cluster="a"} 1.7957376e+09',
        'spark_assign_cluster_failed{cluster="a"} 0.0',
        'spark_assign_cluster_failed{cluster="b"} 1.0',
    ]


@pytest.mark.parametrize("file", ["alerts.yaml", "dashboard.json"])
def test_monitoring_knows_the_metrics(file: str) -> None:
    """Rules and dashboard name only metrics that are exported; the dashboard shows all of them."""
    past = dict.fromkeys(
        ("rebalances", "max_rebalances_per_day", "paused_partition_ms", "longest_pause_ms", "flapping"), 1
    )
    clusters = [cluster("c", datetime.now(UTC))]
    everything = replace(figures(), past=[{"cluster": "c", "group_id": "g", **past}], clusters=clusters)
    exported = {family.name for family in read_openmetrics(expose(everything).decode())}
    named = set(re.findall(r"\bspark_assign_\w+", (MONITORING / file).read_text(encoding="utf-8")))
    assert named - exported == set()
    assert file == "alerts.yaml" or named == exported


def cluster(name: str, taken_at: datetime | None, problem: str = "") -> dict[str, object]:
    """A row of DailyRows.clusters."""
    return {"cluster": name, "taken_at": taken_at, "problem": problem}


def test_two_runs_at_once(tmp_path: Path) -> None:
    """A reader gets the file of one of them, and both end."""
    file, texts = tmp_path / "page.html", [letter * 500_000 for letter in (b"a", b"b")]
    publish(texts[0], file)
    with ThreadPoolExecutor(2) as pool:
        ends = [pool.submit(publish, text, file) for _ in range(50) for text in texts]
        while not all(each.done() for each in ends):
            assert file.read_bytes() in texts
    assert [each.result() for each in ends] == [None] * 100
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]


def test_the_file_is_whole(tmp_path: Path) -> None:
    """It replaces the old one, and nothing else is left; where it cannot be, that is said."""
    file = tmp_path / "spark_assign.prom"
    publish(b"old", file)
    publish(expose(figures()), file)
    assert file.read_bytes().endswith(b"# EOF\n")
    assert [each.name for each in tmp_path.iterdir()] == ["spark_assign.prom"]
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / ".spark_assign.prom.partial").symlink_to(victim)
    publish(b"new", file)
    assert (file.read_bytes(), victim.read_text()) == (b"new", "mine")
    for wrong in (tmp_path / "no" / "folder.prom", tmp_path, Path("/"), tmp_path / ("n" * 300)):
        with pytest.raises(SourceError, match="Can't write"):
            publish(b"", wrong)


def test_a_full_disk_is_not_wrong_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a failure of the machine, which names the file; a check of options before it says nothing of it."""

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*/m\.prom'"):
        publish(b"", tmp_path / "m.prom")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(tempfile, "mkdtemp", full)
    require_output(str(tmp_path / "d"))
