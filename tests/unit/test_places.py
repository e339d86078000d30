"""What a place means to Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_assign import places


def test_a_folder_of_this_machine_gets_its_scheme(tmp_path: Path) -> None:
    """What is not there may be the cluster's; what has a scheme keeps it."""
    assert places.for_spark(str(tmp_path)) == f"file://{tmp_path}"
    assert places.for_spark("/not/here") == "/not/here"
    assert places.for_spark("s3a://bucket/fleet") == "s3a://bucket/fleet"


def test_a_volume_keeps_its_bare_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Databricks it is there on the driver, but `file:` would mean the driver's own disk."""
    monkeypatch.setattr("spark_assign.places.os.path.exists", lambda _: True)
    assert places.for_spark("/Volumes/main/kafka/fleet") == "/Volumes/main/kafka/fleet"
    assert places.is_path("/Volumes/main/kafka/fleet")
    assert not places.is_path("main.kafka")
