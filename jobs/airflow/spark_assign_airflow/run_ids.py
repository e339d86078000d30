"""Returns run IDs: one per logical date, so that a second run of a date replaces only the first one."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC
from typing import Any


def run_id(dag_run: Any) -> str:
    """`20261121T050000Z` for a logical date, in UTC; the dag run's own id where a manual run has none.

    Such ids sort by time, which is how `diff --before previous` finds the run before.
    """
    date = dag_run.logical_date
    if date is None:
        return safe(dag_run.run_id)
    date = date.astimezone(UTC)
    return f"{date:%Y%m%dT%H%M%S_%fZ}" if date.microsecond else f"{date:%Y%m%dT%H%M%SZ}"


def safe(name: str) -> str:
    """Returns the run ID as the jobs store it (`spark_assign.stores.run_store.safe_run_id`), also in file names."""
    kept = re.sub(r"[^A-Za-z0-9._-]|^\.+$", "_", name)[:150]
    hashed = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return kept if kept == name else f"{kept}-{hashed[:6]}"
