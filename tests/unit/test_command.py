"""How jobs end: exit codes, what is logged, and words of their command lines."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from jobs import config
from spark_assign.cli.job import run_job
from spark_assign.tables.errors import ConfigError, SourceError
from tests.cases import cases


def raising(error: Exception) -> None:
    """A job that ends so."""
    raise error


@cases(
    "error code message",
    (SourceError("nothing there"), 2, "plan: nothing there"),
    (ValueError("odd"), 3, "plan failed: ValueError: odd (more with --verbose)"),
    (RuntimeError("first\nsecond"), 3, "plan failed: RuntimeError: first (more with --verbose)"),
)
@pytest.mark.parametrize("verbose", [False, True])
def test_an_error_becomes_a_line_and_a_code(
    error: Exception, code: int, message: str, verbose: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Wrong input or a failure; with its traceback if that is wanted."""
    assert run_job("plan", lambda: raising(error), verbose=verbose) == code  # type: ignore[func-returns-value]
    assert [(each.name, each.getMessage()) for each in caplog.records] == [("spark_assign.plan", message)]
    assert bool(caplog.records[0].exc_info) is verbose


@pytest.mark.parametrize("code", [0, 1])
def test_a_job_that_is_done(code: int) -> None:
    """Its own exit code."""
    assert run_job("plan", lambda: code, verbose=False) == code
    for name in ("kafka.net", "grpc._plugin", "botocore.credentials", "urllib3.connection"):  # what servers answer
        assert not logging.getLogger(name).isEnabledFor(logging.ERROR)


def test_the_job_reports_wrong_input() -> None:
    """Beside the errors that the package raises on purpose."""
    wrong = (ConfigError, ValueError)
    assert run_job("plan", lambda: int("x"), verbose=False, input_errors=wrong) == 2
    assert run_job("plan", lambda: [][0], verbose=False, input_errors=wrong) == 3


def test_what_is_nobodys_fault(caplog: pytest.LogCaptureFixture) -> None:
    """An error of the package's own is said as it is, also where it is no wrong input."""
    assert (
        run_job("snapshot", lambda: raising(SourceError("no\nconnection")), verbose=False, input_errors=(ConfigError,))
        == 3
    )  # type: ignore[func-returns-value]
    assert caplog.records[0].getMessage() == "snapshot: no\nconnection"


@pytest.mark.parametrize("progress", [False, True])
def test_progress(progress: bool) -> None:
    """The package's own words are let through, or left as they are."""
    package = logging.getLogger("spark_assign")
    before = package.level
    package.setLevel(logging.NOTSET)
    try:
        run_job("plan", lambda: 0, verbose=False, progress=progress)
        assert package.level == (logging.INFO if progress else logging.NOTSET)
    finally:
        package.setLevel(before)


def test_messages_as_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Log messages, prints, and the error that ends the job, each an object on a line of its own."""
    monkeypatch.setattr(logging.root, "handlers", [])  # as in a new process

    def run() -> int:
        logging.getLogger("spark_assign.plan").info("%s \x1b[31m", "read\n2")
        print("shop: not read\x7f", file=sys.stderr)
        raise ValueError("odd")

    assert run_job("plan", run, verbose=True, log_format="json") == 3
    text = capsys.readouterr().err
    lines = [json.loads(line) for line in text.splitlines()]
    assert [(line["level"], line["message"]) for line in lines] == [
        ("info", "read\n2 \x1b[31m"),
        ("warning", "shop: not read\x7f"),
        ("error", "plan failed: ValueError: odd (more with --verbose)"),
    ]
    assert lines[-1]["logger"] == "spark_assign.plan"
    assert lines[-1]["exception"].startswith("Traceback ")
    assert {len(line["time"]) for line in lines} == {len("2026-11-27T00:00:00.000+00:00")}
    assert not set(text) & {"\x1b", "\x7f"}


def test_wrong_usage_as_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Options that can't be parsed, and a value that the job refuses."""
    for words in (["--log-format", "json", "--no-such-option"], ["--log-format=json", "--prune", "nowhere"]):
        monkeypatch.setattr(logging.root, "handlers", [])
        assert config.main(words) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert json.loads(line)["level"] == "error"
