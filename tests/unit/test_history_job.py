"""The job history: what goes together, and what it asks of those who do the work."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from jobs import history
from spark_assign.tables.errors import ConfigError


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give one of --bootstrap-server, --segments, --records, --sample, --run"),
        (["--sample", "--records", "x"], "give one of --sample, --records|give one of --records, --sample"),
        (["--sample", "--follow", "--into", "x"], "--follow goes with --bootstrap-server"),
        (["--bootstrap-server", "b:9092", "--follow"], "--follow needs --into PLACE"),
        (["--sample", "--at", "2026-11-23T08:03:16Z"], "--at needs --into PLACE"),
        (["--sample", "--into", "x"], "--into goes with --at"),
        (["--records", "x", "--every", "60s"], "--every goes with --follow"),
        (["--records", "x", "--command-config", "f"], "--command-config goes with --bootstrap-server"),
        (["--run", "x", "--gap", "3s"], "--gap: --run reads what is told already"),
        (["--run", "x", "--output", "y"], "--output: --run reads what is told already"),
    ],
)
def test_what_goes_together(words: list[str], message: str) -> None:
    """One place to read from; no flag is ignored without a word."""
    with pytest.raises(ConfigError, match=message):
        history.check_usage(history.main.parse(words))


@pytest.mark.parametrize(
    "words",
    [
        ["--sample"],
        ["--run", "x@r", "--group", "a*"],
        ["--records", "main.kafka.records", "--at", "2026-11-23T08:03:16Z", "--into", "x"],
        ["--bootstrap-server", "b:9092", "--command-config", "f", "--follow", "--into", "x", "--every", "60s"],
    ],
)
def test_what_is_right(words: list[str]) -> None:
    """Says nothing."""
    history.check_usage(history.main.parse(words))


def test_records_are_followed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """So often, without what is not to be kept, under the name that the cluster has for itself."""
    arguments: dict[str, Any] = {}
    query = SimpleNamespace(awaitTermination=lambda: None, recentProgress=[{"numInputRows": 3}, {"numInputRows": 4}])

    def follow(_: Any, *places: str, **more: Any) -> Any:
        arguments.update({"places": places, **more})
        return query

    monkeypatch.setattr(history, "follow", follow)
    monkeypatch.setattr(history, "cluster_id", lambda *_: "an-id")
    words = ["--bootstrap-server", "b:9092", "--follow", "--into", "records", "--every", "60s", "--without-hosts"]
    assert history._follow(SimpleNamespace(), history.main.parse(words)) == 0  # type: ignore[arg-type]
    assert arguments["places"] == ("b:9092", "an-id", "records")
    assert (arguments["every"], arguments["without_hosts"], arguments["without_metadata"]) == (
        "60000 milliseconds",
        True,
        False,
    )
    assert capsys.readouterr().out == "history: 7 records came to records\n"
