"""The jobs as console scripts of the wheel (`spark-assign-plan` …), where this folder is called spark_assign_jobs.

A scheduler that calls the function itself, as a Python wheel task of Databricks does, takes every end without an
exception for a success. So an exit code other than 0 is raised, and 0 is returned from.
"""

from __future__ import annotations

import sys
from importlib import import_module


def check() -> None:
    """The job check."""
    _run("check")


def compare() -> None:
    """The job compare."""
    _run("compare")


def connect() -> None:
    """The job connect."""
    _run("connect")


def drift() -> None:
    """The job drift."""
    _run("drift")


def ingest() -> None:
    """The job ingest."""
    _run("ingest")


def plan() -> None:
    """The job plan."""
    _run("plan")


def replicas() -> None:
    """The job replicas."""
    _run("replicas")


def report() -> None:
    """The job report."""
    _run("report")


def simulate() -> None:
    """The job simulate."""
    _run("simulate")


def snapshot() -> None:
    """The job snapshot."""
    _run("snapshot")


def _run(job: str) -> None:
    """Run `main` of the job beside this file, with the arguments of the process."""
    code = import_module(f"{__package__}.{job}").main()
    if code:
        sys.exit(code)
