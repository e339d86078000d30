"""A plan's figures as OpenMetrics: read back by the library's own parser, and whole on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("prometheus_client", reason="metrics are an extra")

from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_prometheus

from spark_assign.report.openmetrics import Figures, expose, publish
from spark_assign.tables.errors import SourceError
from tests.unit.report_rows import group

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
    of_group = {key[0].removeprefix("spark_assign_group_"): value for key, value in found.items() if name in key}
    assert of_group == {
        "imbalance_ratio": 26 / 17,
        "over_share_partitions": 9,
        "moved_partitions": 58,
        "revoked_partitions": 58,
        "unowned_partitions": 1,
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


def test_the_file_is_whole(tmp_path: Path) -> None:
    """It replaces the old one, and nothing else is left; where it cannot be, that is said."""
    file = tmp_path / "spark_assign.prom"
    publish(b"old", file)
    publish(expose(figures()), file)
    assert file.read_bytes().endswith(b"# EOF\n")
    assert [each.name for each in tmp_path.iterdir()] == ["spark_assign.prom"]
    for wrong in (tmp_path / "no" / "folder.prom", tmp_path):
        with pytest.raises(SourceError, match="Can't write"):
            publish(b"", wrong)
