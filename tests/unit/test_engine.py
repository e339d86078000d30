"""Which engine a command runs on, and the line that says so."""

from __future__ import annotations

import logging
import sys
from importlib.metadata import version
from types import SimpleNamespace

import pytest

from spark_assign.cli import job
from spark_assign.cli.outcome import Outcome
from spark_assign.spark import engine
from spark_assign.tables.errors import ConfigError


def fake_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starts no JVM."""
    session = SimpleNamespace(version="4.1.4", conf=SimpleNamespace(get=lambda name, _: "local[2]"))
    builder = SimpleNamespace(appName=lambda _: builder, config=lambda *_: builder, getOrCreate=lambda: session)
    monkeypatch.setattr(engine, "SparkSession", SimpleNamespace(builder=builder))


def without_sail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(engine.ENGINE, "embedded")
    monkeypatch.setitem(sys.modules, "pysail.spark", None)


def logged(caplog: pytest.LogCaptureFixture, *, calls: int = 1) -> list[str]:
    """What a job logs on INFO that gets its session this number of times."""
    options = SimpleNamespace(verbose=False, outcome=Outcome("plan"))

    def run() -> int:
        for _ in range(calls):
            job.spark_session("plan", options)
        return 0

    caplog.clear()
    assert job.run_job("plan", run, verbose=False, progress=False) == 0
    return [record.message for record in caplog.records if record.levelno >= logging.INFO]


def test_one_line_says_which_engine_runs(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """One for each job, even if it gets its session several times."""
    fake_spark(monkeypatch)
    monkeypatch.setenv(engine.ENGINE, "spark")
    for calls in (1, 3):
        assert logged(caplog, calls=calls) == ["engine: Spark 4.1.4, local[2]"]
    monkeypatch.setenv(engine.ENGINE, "embedded")
    monkeypatch.setattr(engine, "embedded_session", lambda: None)
    assert logged(caplog) == [f"engine: Sail {version('pysail')}, in this process"]


def test_spark_replaces_an_engine_that_cannot_be_imported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The line gives the reason."""
    fake_spark(monkeypatch)
    without_sail(monkeypatch)
    monkeypatch.setattr(engine, "distributions", lambda name: iter([name]))
    (line,) = logged(caplog)
    assert line.startswith("engine: Spark 4.1.4, local[2], since Sail can't be imported (")


def test_no_engine_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install."""
    without_sail(monkeypatch)
    monkeypatch.setattr(engine, "distributions", lambda name: iter(()))
    with pytest.raises(ConfigError, match=r"Sail, can't be imported \(.*\), and Spark isn't installed: run "):
        engine.choose()


def test_an_engine_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    """It isn't Spark."""
    monkeypatch.setenv(engine.ENGINE, "sial")
    with pytest.raises(ConfigError, match="SPARK_ASSIGN_ENGINE=sial: expected embedded or spark"):
        engine.choose()
