"""How jobs end: exit codes, what is logged, and words of their command lines."""

from __future__ import annotations

import logging

import pytest

from spark_assign.cli.job import run_job
from spark_assign.tables.errors import ConfigError, SourceError


def raising(error: Exception) -> None:
    """A job that ends so."""
    raise error


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (SourceError("nothing there"), 2, "plan: nothing there"),
        (ValueError("odd"), 3, "plan failed: ValueError: odd (more with --verbose)"),
        (RuntimeError("first\nsecond"), 3, "plan failed: RuntimeError: first (more with --verbose)"),
    ],
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
