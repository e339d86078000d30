"""What a place means to Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_assign.stores import locations
from tests.cases import cases


def test_a_folder_of_this_machine_gets_its_scheme(tmp_path: Path) -> None:
    """What is not there may be the cluster's; what has a scheme keeps it."""
    assert locations.for_spark(str(tmp_path)) == f"file://{tmp_path}"
    assert locations.for_spark("/not/here") == "/not/here"
    assert locations.for_spark("s3a://bucket/fleet") == "s3a://bucket/fleet"


def test_a_volume_keeps_its_bare_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Databricks it is there on the driver, but `file:` would mean the driver's own disk."""
    monkeypatch.setattr("spark_assign.stores.locations.os.path.exists", lambda _: True)
    assert locations.for_spark("/Volumes/main/kafka/fleet") == "/Volumes/main/kafka/fleet"
    assert locations.is_path("/Volumes/main/kafka/fleet")
    assert not locations.is_path("main.kafka")


@cases(
    "text place run_id",
    ("./plans", "./plans", None),
    ("./plans@nightly", "./plans", "nightly"),
    ("main.plans@2026-11-21", "main.plans", "2026-11-21"),
    ("abfss://box@account.host/plans", "abfss://box@account.host/plans", None),
    ("abfss://box@account.host/plans@nightly", "abfss://box@account.host/plans", "nightly"),
)
def test_a_run_of_a_place(text: str, place: str, run_id: str | None) -> None:
    """What stands behind the last @, where it is not a host."""
    assert locations.split_run_id(text) == (place, run_id)
