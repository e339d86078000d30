"""The job history: what goes together, and what it asks of those who do the work."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jobs import history
from spark_assign.sources.kafka import cluster_snapshot, records_folder
from spark_assign.tables.errors import ConfigError
from tests.cases import cases

FOLLOW = ["--bootstrap-server", "b:9092", "--follow", "--archive"]


@cases(
    "words message",
    ([], "Use exactly one of --bootstrap-server, --segments, --records, --sample, --history"),
    (["--sample", "--records", "x"], "--sample can't be used with --records. Use exactly one of"),
    (["--sample", "--follow", "--archive", "x"], "--follow needs --bootstrap-server"),
    (["--bootstrap-server", "b:9092", "--follow"], "--follow needs --archive"),
    (["--sample", "--as-of", "2026-11-23T08:03:16Z"], "--as-of needs --output-fleet"),
    (["--sample", "--output-fleet", "x"], "--output-fleet needs --as-of"),
    (["--sample", "--topology", "app=x"], "--topology needs --as-of"),
    (["--sample", "--archive", "x"], "--archive needs --follow"),
    (["--records", "x", "--interval", "60s"], "--interval needs --follow"),
    (["--records", "x", "--command-config", "f"], "--command-config needs --bootstrap-server"),
    (["--records", "x", "--reader", "spark"], "--reader needs --bootstrap-server"),
    ([*FOLLOW, "main.kafka.records"], "--archive main.kafka.records isn't a folder of this machine: it needs --reader"),
    ([*FOLLOW, "s3a://box/records"], "--archive s3a://box/records isn't a folder of this machine: it needs --reader"),
    ([*FOLLOW, "./x", "--checkpoint", "y"], "--checkpoint needs --reader spark"),
    (["--records", "x", "--records-format", "JSON"], "--records-format JSON has no binary columns"),
    (["--history", "x", "--commit-gap", "3s"], "--commit-gap can't be used with --history: a stored history"),
    (["--history", "x", "--output", "y"], "--output can't be used with --history: a stored history"),
)
def test_what_goes_together(words: list[str], message: str) -> None:
    """One source of records; no option is silently ignored."""
    with pytest.raises(ConfigError, match=message):
        history.main.check(history.main.parse(words))


@cases(
    "words",
    ["--sample"],
    ["--history", "x@r", "--details", "a*"],
    ["--records", "main.kafka.records", "--as-of", "2026-11-23T08:03:16Z", "--output-fleet", "x"],
    [*FOLLOW, "./x", "--command-config", "f", "--interval", "60s"],
    [*FOLLOW, "main.kafka.records", "--reader", "spark", "--checkpoint", "./x"],
)
def test_what_is_right(words: list[str]) -> None:
    """Raises no error."""
    history.main.check(history.main.parse(words))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The calls of both readers, which find three and four records in turn; the fourth one is interrupted."""
    found: list[dict[str, Any]] = []
    query = SimpleNamespace(awaitTermination=lambda: None, recentProgress=[{"numInputRows": 3}, {"numInputRows": 4}])

    def follow(_: Any, *places: str, **more: Any) -> Any:
        found.append({"places": places, **more})
        return query

    def copy_records(*places: Any, **more: Any) -> int:
        found.append({"places": places, **more})
        if len(found) == 3:
            raise KeyboardInterrupt
        return 3

    monkeypatch.setattr(history, "follow", follow)
    monkeypatch.setattr(history, "spark_session", lambda *_: SimpleNamespace())
    monkeypatch.setattr(history.time, "sleep", lambda seconds: found[-1].update(slept=seconds))  # type: ignore[attr-defined]
    monkeypatch.setattr(records_folder, "copy_records", copy_records)
    monkeypatch.setattr(cluster_snapshot, "cluster_id", lambda *_: "an-id")
    return found


def test_records_are_followed_by_a_stream(calls: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    """At the interval, without what is not to be kept, under the name that the cluster has for itself."""
    words = [*FOLLOW, "records", "--reader", "spark", "--interval", "60s", "--without-hosts"]
    assert history._follow(history.main.parse(words)) == 0
    (call,) = calls
    assert call["places"] == ("b:9092", "an-id", "records")
    assert (call["interval"], call["without_hosts"], call["without_metadata"]) == ("60000 milliseconds", True, False)
    assert capsys.readouterr().out == "history: 7 records written to records\n"


def test_records_are_followed_by_the_client(
    calls: list[dict[str, Any]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Once without an interval, else until it is stopped; no session of Spark is necessary."""
    words = [*FOLLOW, str(tmp_path / "records"), "--without-metadata"]
    assert history._follow(history.main.parse(words)) == 0
    assert capsys.readouterr().out == f"history: 3 records written to {tmp_path / 'records'}\n"
    assert calls[0]["places"] == ("b:9092", "an-id", tmp_path / "records")
    assert (calls[0]["without_hosts"], calls[0]["without_metadata"]) == (False, True)
    with pytest.raises(KeyboardInterrupt):
        history._follow(history.main.parse([*words, "--interval", "60s"]))
    assert [call.get("slept") for call in calls] == [None, 60.0, None]


def test_executors_on_other_machines_cannot_read_what_the_client_fetches(calls: list[dict[str, Any]]) -> None:
    """An error before the cluster is read names both ways."""
    options = history.main.parse(["--bootstrap-server", "b:9092"])
    spark: Any = SimpleNamespace(conf={"spark.master": "yarn"})
    with pytest.raises(ConfigError, match=r"executors .* Use --reader spark"), history._fetched(spark, options):
        pass
    assert calls == []
    spark.conf["spark.master"] = "local[2]"
    with history._fetched(spark, options) as folder:
        assert calls[0]["places"] == ("b:9092", "an-id", Path(str(folder)))
    assert not Path(str(folder)).exists()
