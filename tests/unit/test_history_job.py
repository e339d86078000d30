"""The job history: what goes together, and what it asks of those who do the work."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from jobs import history
from spark_assign.sources.kafka import cluster_snapshot
from spark_assign.tables.errors import ConfigError


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "No records given. Use exactly one of --bootstrap-server, --segments, --records, --sample, --history"),
        (["--sample", "--records", "x"], "--records, --sample exclude each other"),
        (["--sample", "--follow", "--archive", "x"], "--follow needs --bootstrap-server"),
        (["--bootstrap-server", "b:9092", "--follow"], "--follow needs --archive LOCATION"),
        (["--sample", "--as-of", "2026-11-23T08:03:16Z"], "--as-of needs --output-fleet LOCATION"),
        (["--sample", "--output-fleet", "x"], "--output-fleet needs --as-of"),
        (["--sample", "--topology", "app=x"], "--topology needs --as-of"),
        (["--sample", "--archive", "x"], "--archive needs --follow"),
        (["--records", "x", "--interval", "60s"], "--interval needs --follow"),
        (["--records", "x", "--command-config", "f"], "--command-config needs --bootstrap-server"),
        (["--history", "x", "--commit-gap", "3s"], "--commit-gap doesn't apply to a stored history"),
        (["--history", "x", "--output", "y"], "--output doesn't apply to a stored history"),
    ],
)
def test_what_goes_together(words: list[str], message: str) -> None:
    """One source of records; no option is silently ignored."""
    with pytest.raises(ConfigError, match=message):
        history.check_usage(history.main.parse(words))


@pytest.mark.parametrize(
    "words",
    [
        ["--sample"],
        ["--history", "x@r", "--details", "a*"],
        ["--records", "main.kafka.records", "--as-of", "2026-11-23T08:03:16Z", "--output-fleet", "x"],
        ["--bootstrap-server", "b:9092", "--command-config", "f", "--follow", "--archive", "x", "--interval", "60s"],
    ],
)
def test_what_is_right(words: list[str]) -> None:
    """Raises no error."""
    history.check_usage(history.main.parse(words))


def test_records_are_followed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """So often, without what is not to be kept, under the name that the cluster has for itself."""
    arguments: dict[str, Any] = {}
    query = SimpleNamespace(awaitTermination=lambda: None, recentProgress=[{"numInputRows": 3}, {"numInputRows": 4}])

    def follow(_: Any, *places: str, **more: Any) -> Any:
        arguments.update({"places": places, **more})
        return query

    monkeypatch.setattr(history, "follow", follow)
    monkeypatch.setattr(cluster_snapshot, "cluster_id", lambda *_: "an-id")
    words = ["--bootstrap-server", "b:9092", "--follow", "--archive", "records", "--interval", "60s", "--without-hosts"]
    assert history._follow(SimpleNamespace(), history.main.parse(words)) == 0  # type: ignore[arg-type]
    assert arguments["places"] == ("b:9092", "an-id", "records")
    assert (arguments["interval"], arguments["without_hosts"], arguments["without_metadata"]) == (
        "60000 milliseconds",
        True,
        False,
    )
    assert capsys.readouterr().out == "history: 7 records written to records\n"
