"""The id of a run: one per logical date, so that a second run of the same date replaces the first and nothing else."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC
from typing import Any


def run_id(dag_run: Any) -> str:
    """`20261121T050000Z` for a logical date, in UTC; the dag run's own id where a manual run has none.

    Such ids sort by time, which is how `drift --before previous` finds the run before.
    """
    date = dag_run.logical_date
    if date is None:
        return safe(dag_run.run_id)
    date = date.astimezone(UTC)
    return f"{date:%Y%m%dT%H%M%S_%fZ}" if date.microsecond else f"{date:%Y%m%dT%H%M%SZ}"


def safe(name: str) -> str:
    """As the jobs store it (`spark_assign.stores.run_store.safe_run_id`), for the names of files as well."""
    kept = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:150]
    return kept if kept == name else f"{kept}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"
