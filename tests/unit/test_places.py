"""What a place means to Spark."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import click
import pytest

from spark_assign.cli.job import JsonFormatter, Outcome, VisibleFormatter
from spark_assign.cli.options import LocationType
from spark_assign.stores import locations
from tests.cases import cases
from tests.unit.test_options import commands


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


def test_a_file_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It needs no slash. Without the file, or with another suffix, the name is a catalog's."""
    monkeypatch.chdir(tmp_path)
    for name in ("requests.json", "loads.csv.gz", "main.kafka"):
        assert not locations.is_path(name)
        Path(name).touch()
    assert [locations.is_path(name) for name in ("requests.json", "loads.csv.gz", "main.kafka")] == [True, True, False]


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


@cases(
    "place",
    "s3://AKIA:PW@b/x",
    "s3:/AKIA:PW@b/x",
    "s3a://AKIA:P/W+PW@b/x@run",
    "https://u:@h:PW@b/x",
    "s3://b/x?secret_key=PW&region=eu",
    "s3://b/x?region=eu&access_key=PW",
    "https://a/x?sv=2&sig=PW",
    "https://a/x?X-Amz-Signature=PW",
    "abfss://c@a.host/x?client_secret=PW",
    "https://a/x?AccountKey=PW;password=PW",
    "s3://AKIA:12/45PW@b/plans",
    "gs://AKIA:12,b:13/PW@b/plans",
    "s3://AKIA:8020/a@PW@b/c",
    "s3:///AKIA:PW@b",
    "s3://AKIA:?PW@b/x",
    "s3://AKIA:#PW@b/x",
    "s3://[AKIA:PW@b/x",
    f"s3://{'K' * 300}:PW@b/x",
    f"s3://AKIA:{'p' * 3_000}PW@b/x",
    "https://a/x?%73ig=PW",
    "https://a/x?sv=2;sig=PW?sig=PW",
    "https://a/x?pass=PW",
    f"https://a/x?{'a' * 100}[key]=PW",
    "https://a/x#token=PW",
)
def test_a_location_with_a_secret(place: str) -> None:
    """It is nowhere repeated: not even a part of it."""
    text = locations.without_credentials(f"can't read '{place}' and {place}: no")
    assert "PW" not in text
    assert "P/W" not in text
    assert (text[:12], text[-3:]) == ("can't read '", " no")
    record = logging.LogRecord("a", logging.ERROR, "", 0, f"no {place}", None, None)
    outcome = Outcome("plan")
    outcome.failed("OSError", f"no {place}")
    for printed in (VisibleFormatter("%(message)s").format(record), JsonFormatter().format(record), str(outcome.error)):
        assert "PW" not in printed


@cases(
    "place",
    "s3://b/x?region=eu&endpoint_override=http://127.0.0.1:9000&scheme=http",
    "abfss://box@account.host/plans@nightly",
    "abfss://c@a.host/x?credential_kind=default&blob_storage_authority=h",
    "hdfs://nn:8020/plans@nightly",
    "hdfs://a:8020,b:8020/plans@nightly",
    "hdfs://[::1]:8020/plans@nightly",
    "hdfs://nn:8020/a@b/c",
    "sc://h:15002/;user_id=a@b",
    "hdfs:///a:b@run",
    "http://h:80?mail=a@b",
    "s3://b/10:00/x@run",
    "s3://b/x?keyspace=1",
    "gs://anonymous@b/x?retry_limit_seconds=3",
    "s3://b/day=?/part-?.parquet",
    "./folder:a@run",
    "file:///data/a:b@run",
)
def test_a_location_without_a_secret(place: str) -> None:
    """As it was."""
    assert locations.without_credentials(place) == place


def test_no_error_repeats_a_location_with_a_secret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The options that have it are refused, and nothing is written there; wrong usage doesn't repeat it either."""
    place = "s3://AK:PW@b/x?sig=PW"
    for words in (
        ["plan", "--fleet", place, "--output", "./q"],
        ["plan", "--sample", "--output", place, "--outcome", place],
        ["plan", "--sample", "--table", f"topics={place}"],
        ["plan", "--sample", "--table", place],
        ["plan", place, f"--outcome={place}"],
        ["check", "--plan", f"{place}@run"],
        ["plan", "--sample", "--openmetrics", place],
    ):
        assert commands()[words[0]](words[1:]) == 2
        logged = map(VisibleFormatter().format, caplog.records)
        assert "PW" not in "".join([*capsys.readouterr(), *logged])
    with pytest.raises(click.BadParameter, match="has a password"):
        LocationType(lambda _: None).convert("s3://AK:P W@b/x", None, None)
    assert LocationType(lambda _: None).convert("./a?key=1", None, None) == "./a?key=1"
    file = tmp_path / "s.toml"
    file.write_text(f"[plan]\nfleet = '{place}'\n")
    commands()["config"](["--show", "plan", "--config", str(file)])
    assert "PW" not in "".join(capsys.readouterr())


def test_credentials_are_found_in_linear_time() -> None:
    """A name of a cluster can be in a message, too."""
    start = time.process_time()
    for part in ("a://b:c", "://", "?key=", "&a", "s3://" + ":" * 50, "a:1,", ":/", ";a=", "hdfs://a:1/@"):
        locations.without_credentials(part * (50_000 // len(part)))
    assert time.process_time() - start < 5
